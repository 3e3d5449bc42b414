// Softmax: the middle dimension of [outer, n, inner], in the input's type or in float32 for narrow floats.
#include "tern/kernels/softmax.h"

#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/dispatch/straight.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/softmax.args.h"

namespace tern {
namespace {

struct Middle {
  int64_t outer = 1, n = 1, inner = 1;
  Middle(const Tensor& t, int64_t dim) {
    if (t.dim() == 0) return;
    dim = wrap_dim(dim, t.dim());
    for (int64_t d = 0; d < t.dim(); ++d) (d < dim ? outer : d == dim ? n : inner) *= t.int_sizes()[d];
  }
};

Shapes softmax_shape(const Tensor& self, int64_t dim, bool half_to_float, const char* name) {
  wrap_dim(dim, self.dim());
  if (!self.is_floating_point())
    failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", name, script_name(self.dtype()));
  if (half_to_float && self.dtype() != kHalf && self.dtype() != kBFloat16)
    fail("conversion is supported for Half and BFloat16 type only");
  return {Shape(self.sizes(), half_to_float ? kFloat : self.dtype())};
}

void forward(bool log, const Tensor& self, int64_t dim, const Tensor& out) {
  if (out.int_numel() == 0) return;
  Middle m(self, dim);
  Tensor room;
  const Tensor& x = row_major(self, room);
  kernels::softmax(log, x.dtype(), x.data(), out.dtype(), out.data(), m.outer, m.n, m.inner);
}

Shapes backward_shape(const Tensor& grad, const Tensor& output, DType dtype) {
  if (grad.dim() != output.dim())
    failf("grad_output and output of softmax must have the same size, got {} and {}", str(grad.sizes()),
          str(output.sizes()));
  return {Shape(output.sizes(), dtype)};
}

void backward(bool log, const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out) {
  if (out.int_numel() == 0) return;
  Middle m(output, dim);
  Tensor y = row_major(output), g = row_major(grad, output.dtype());
  kernels::softmax_backward(log, y.dtype(), g.data(), y.data(), out.dtype(), out.data(), m.outer, m.n,
                            m.inner);
}

}  // namespace

Tensor softmax_body(const Tensor& self, int64_t dim, std::optional<DType> dtype, bool log) {
  if (self.dtype() == kFloat && (!dtype || *dtype == kFloat) && goes_straight({&self})) {
    wrap_dim(dim, self.dim());
    Tensor out = make_tensor(self.sizes(), kFloat);
    forward(log, self, dim, out);
    return out;
  }
  auto run = [&](const Tensor& t) { return log ? _log_softmax(t, dim, false) : _softmax(t, dim, false); };
  return dtype && *dtype != self.dtype() ? run(self.to(*dtype)) : run(self);
}

Shapes shape__softmax(const args::_softmax& a) {
  return softmax_shape(a.self, a.dim, a.half_to_float, "softmax_lastdim_kernel_impl");
}
void kernel__softmax(const args::_softmax& a, Out out) { forward(false, a.self, a.dim, out[0]); }
Shapes shape__log_softmax(const args::_log_softmax& a) {
  return softmax_shape(a.self, a.dim, a.half_to_float, "log_softmax_lastdim_kernel_impl");
}
void kernel__log_softmax(const args::_log_softmax& a, Out out) { forward(true, a.self, a.dim, out[0]); }

Shapes shape__softmax_backward_data(const args::_softmax_backward_data& a) {
  return backward_shape(a.grad_output, a.output, a.input_dtype);
}
void kernel__softmax_backward_data(const args::_softmax_backward_data& a, Out out) {
  backward(false, a.grad_output, a.output, a.dim, out[0]);
}
Tensor body__softmax_backward_data(const args::_softmax_backward_data& a) {
  Tensor weighted = a.grad_output * a.output;
  Tensor result = weighted - a.output * sum(weighted, a.dim, true);
  return a.grad_output.dtype() != a.input_dtype ? result.to(a.input_dtype) : result;
}
Shapes shape__log_softmax_backward_data(const args::_log_softmax_backward_data& a) {
  return backward_shape(a.grad_output, a.output, a.input_dtype);
}
void kernel__log_softmax_backward_data(const args::_log_softmax_backward_data& a, Out out) {
  backward(true, a.grad_output, a.output, a.dim, out[0]);
}
Tensor body__log_softmax_backward_data(const args::_log_softmax_backward_data& a) {
  Tensor result = a.grad_output - exp(a.output) * sum(a.grad_output, a.dim, true);
  return a.grad_output.dtype() != a.input_dtype ? result.to(a.input_dtype) : result;
}

// Of y·(g - Σ g·y) with respect to y, for the gradient `grad` of it.
Tensor softmax_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& output,
                               int64_t dim) {
  return grad * grad_output - sum(output * grad_output, dim, true) * grad -
         grad_output * sum(grad * output, dim, true);
}

Tensor body__masked_softmax(const args::_masked_softmax& a) {
  if (a.mask.dtype() != kBool) fail("Mask should be a boolean tensor");
  const int64_t dim = a.dim.value_or(a.self.dim() - 1);
  Tensor mask = a.mask;
  // Only square masks and those of padding are known for batches of heads.
  const bool small = a.mask.dim() == 2 && a.self.dim() == 4;
  if (small && !a.mask_type) fail("Mask Type should be defined");
  const int64_t kind = small ? *a.mask_type : 2;
  auto same = [](SymInt x, SymInt y) { return x == y; };
  if (kind == 2) {
    bool fits = mask.dim() == a.self.dim();
    for (int64_t d = 0; fits && d < mask.dim(); ++d) fits = same(mask.size(d), a.self.size(d));
    if (!fits) fail("For mask_type == 2 mask shape should match input shape");
  } else if (kind == 1) {
    if (!same(a.self.size(0), mask.size(0)) || !same(a.self.size(2), mask.size(1)))
      fail("For mask_type == 1 mask shape should be (B, L)");
    mask = mask.reshape({mask.size(0), 1, 1, mask.size(1)});
  } else if (kind == 0) {
    if (!same(a.self.size(2), mask.size(0)) || !same(a.self.size(2), mask.size(1)))
      fail("For mask_type == 0 mask shape should be (L, L)");
  } else {
    failf("Mask Type should be 0 (src_mask), 1 (src_key_padding_mask), or 2 (default_mask), but got {}",
          kind);
  }
  return softmax(masked_fill(a.self, mask, -INFINITY), dim);
}
Tensor body__masked_softmax_backward(const args::_masked_softmax_backward& a) {
  const int64_t dim = a.dim.value_or(a.output.dim() - 1);
  Tensor kept = masked_fill(a.output, a.mask, 0);
  return kept * (a.grad_output - (a.grad_output * kept).sum(Ints(dim), true));
}

}  // namespace tern
