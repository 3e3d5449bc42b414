// Comparisons and bits with a number, closeness and equality.
#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/compare.args.h"

namespace tern {

#define TERN_COMPARE(name)                                                                     \
  Shapes shape_##name##_Scalar(const args::name##_Scalar& a) { return {like(a.self, kBool)}; } \
  void kernel_##name##_Scalar(const args::name##_Scalar& a, Out out) {                         \
    run_loop(#name, {a.self, wrap_number(a.other)}, out[0]);                                   \
  }
TERN_COMPARE(eq)
TERN_COMPARE(ne)
TERN_COMPARE(lt)
TERN_COMPARE(le)
TERN_COMPARE(gt)
TERN_COMPARE(ge)
#undef TERN_COMPARE

#define TERN_BITS(name, overload)                                              \
  Shapes shape_##name##_##overload(const args::name##_##overload& a) {         \
    return {like(a.self, result_type({a.self, wrap_number(a.other)}))};        \
  }                                                                            \
  void kernel_##name##_##overload(const args::name##_##overload& a, Out out) { \
    run_loop(#name, {a.self, wrap_number(a.other)}, out[0]);                   \
  }
TERN_BITS(bitwise_and, Scalar)
TERN_BITS(bitwise_or, Scalar)
TERN_BITS(bitwise_xor, Scalar)
TERN_BITS(bitwise_left_shift, Tensor_Scalar)
TERN_BITS(bitwise_right_shift, Tensor_Scalar)
#undef TERN_BITS

void params_where_self(const args::where_self& a, kernels::Params&) {
  if (a.condition.dtype() != kBool && a.condition.dtype() != kByte)
    failf("where expected condition to be a boolean tensor, but got a tensor with dtype {}",
          script_name(a.condition.dtype()));
}

Tensor body_isclose(const args::isclose& a) {
  const Tensor &self = a.self, &other = a.other;
  if (self.dtype() != other.dtype())
    failf("{} did not match {}", script_name(self.dtype()), script_name(other.dtype()));
  if (a.rtol < 0) failf("rtol must be greater than or equal to zero, but got {}", a.rtol);
  if (a.atol < 0) failf("atol must be greater than or equal to zero, but got {}", a.atol);
  Tensor close = self == other;
  bool inexact = self.is_floating_point() || self.is_complex();
  if (inexact && a.equal_nan) close = bitwise_or(close, bitwise_and(isnan(self), isnan(other)));
  if ((a.rtol == 0 && a.atol == 0) || self.dtype() == kBool) return close;
  Tensor wide = inexact ? other : other.to(default_dtype());
  Tensor allowed = add(abs(mul(wide, Scalar(a.rtol))), Scalar(a.atol)), difference = abs(self - wide);
  return bitwise_or(close, bitwise_and(isfinite(difference), difference <= allowed));
}

bool body_equal(const args::equal& a) {
  if (a.self.dim() != a.other.dim()) return false;
  for (int64_t d = 0; d < a.self.dim(); ++d)
    if (a.self.sizes()[d] != a.other.sizes()[d]) return false;
  return all(eq(a.self, a.other)).item<bool>();
}

}  // namespace tern
