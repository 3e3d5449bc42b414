#include "tern/ops/formulas.h"

#include "tern/base/format.h"
#include "tern/ops.h"

namespace tern {

Tensor times(const Tensor& t, const Scalar& factor) { return factor.equals(1) ? t : t * factor; }

Tensor quotient(const Scalar& a, SymInt b, DType type) {
  if (!a.is_symbolic() && b.is_int()) return wrap_number(a.to_double() / static_cast<double>(b.as_int()));
  return (scalar_tensor(a, kDouble) / scalar_tensor(Scalar(b), kDouble)).to(type);
}

Tensor write_result(const Tensor& self, const Tensor& result) {
  if (!can_cast(result.dtype(), self.dtype()))
    failf("result type {} can't be cast to the desired output type {}", script_name(result.dtype()),
          script_name(self.dtype()));
  return copy_(self, result);
}

Tensor as_it_was(const Tensor& self, const Tensor& other) {
  bool recorded = self.requires_grad() || (other.defined() && other.requires_grad());
  return recorded && thread_state.grad_enabled ? clone(self) : self;
}

Tensor sum_to(const Tensor& t, Span<const SymInt> sizes) {
  SmallVector<int64_t, 6> dims;
  int64_t lead = t.dim() - static_cast<int64_t>(sizes.size());
  for (int64_t d = 0; d < lead; ++d) dims.push_back(d);
  for (int64_t d = lead; d < t.dim(); ++d)
    if (surely_eq(sizes[d - lead], 1) && !surely_eq(t.sizes()[d], 1)) dims.push_back(d);
  Tensor result = dims.empty() ? t : sum(t, Ints(dims), true);
  return lead > 0 ? view(result, sizes) : result;
}

}  // namespace tern
