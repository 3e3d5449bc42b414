// Activations that choose their loop or work on halves, and second derivatives.
#include <cmath>
#include <numbers>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/activation.args.h"
#include "tern/ops/formulas.h"

namespace tern {
namespace {

bool by_tanh(std::string_view approximate) {
  if (approximate != "none" && approximate != "tanh")
    fail("approximate argument must be either none or tanh.");
  return approximate == "tanh";
}

int64_t glu_dim(const Tensor& self, int64_t dim) {
  if (self.dim() == 0) fail("glu does not support 0-dimensional tensors");
  int64_t d = wrap_dim(dim, self.dim());
  if (mod(self.sizes()[d], 2) != 0)
    failf("Halving dimension must be even, but dimension {} is size {}", d, self.sizes()[d].str());
  return d;
}

}  // namespace

void kernel_gelu(const args::gelu& a, Out out) {
  run_loop(by_tanh(a.approximate) ? "gelu_tanh" : "gelu", {a.self}, out[0]);
}
Shapes shape_gelu_backward(const args::gelu_backward& a) {
  by_tanh(a.approximate);
  const Tensor both[] = {a.grad_output, a.self};
  return {broadcast_shape(both, result_type(both))};
}
void kernel_gelu_backward(const args::gelu_backward& a, Out out) {
  run_loop(by_tanh(a.approximate) ? "gelu_tanh_backward" : "gelu_backward", {a.grad_output, a.self}, out[0]);
}

Shapes shape_log_sigmoid_forward(const args::log_sigmoid_forward& a) {
  Shape rows(a.self.sizes(), a.self.dtype());
  return {rows, rows};
}
Tensor body_softplus(const args::softplus& a) {
  Tensor scaled = times(a.self, a.beta), soft = log1p(exp(scaled));
  return where(gt(scaled, a.threshold), a.self, a.beta.equals(1) ? soft : soft / a.beta);
}
std::tuple<Tensor, Tensor> body_log_sigmoid_forward(const args::log_sigmoid_forward& a) {
  Tensor least = minimum(new_zeros(a.self, Dims{}), a.self), buffer = exp(neg(abs(a.self)));
  return {sub(least, log1p(buffer)), buffer};
}
void kernel_log_sigmoid_forward(const args::log_sigmoid_forward& a, Out out) {
  run_loop("log_sigmoid", {a.self}, out[0]);
  run_loop("abs", {a.self}, out[1]);
  run_loop("neg", {out[1]}, out[1]);
  run_loop("exp", {out[1]}, out[1]);
}
Shapes shape_log_sigmoid_backward(const args::log_sigmoid_backward& a) {
  const Tensor both[] = {a.grad_output, a.self};
  return {broadcast_shape(both, result_type(both))};
}
void kernel_log_sigmoid_backward(const args::log_sigmoid_backward& a, Out out) {
  run_loop("log_sigmoid_backward", {a.grad_output, a.self}, out[0]);
}

Tensor body_prelu(const args::prelu& a) {
  const Tensor &self = a.self, &weight = a.weight;
  if (weight.dim() > 1)
    failf("prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {}", weight.dim());
  if (self.dtype() != weight.dtype())
    failf("prelu: Type promoting not supported. Got {} and {}", script_name(self.dtype()),
          script_name(weight.dtype()));
  if (weight.numel() != 1) {
    if (self.dim() == 0) fail("Not allow zero-dim input tensor.");
    SymInt channels = self.dim() > 1 ? self.size(1) : 1;
    if (channels != weight.numel())
      failf(
          "Mismatch of parameter numbers and input channel size. Found parameter numbers = {} and channel "
          "size = {}.",
          weight.numel().str(), channels.str());
  }
  Dims shape(self.dim(), 1);
  if (self.dim() > 1) shape[1] = weight.numel();
  if (self.dim() == weight.dim()) return _prelu_kernel(self, weight);
  return _prelu_kernel(self, reshape(weight, shape));
}

Tensor half_of(const Tensor& self, int64_t dim, int which) {
  int64_t d = glu_dim(self, dim);
  SymInt half = floor_div(self.sizes()[d], 2);
  return narrow(self, d, which ? half : SymInt(0), half);
}

Shapes shape_glu(const args::glu& a) {
  int64_t d = glu_dim(a.self, a.dim);
  Dims sizes(a.self.sizes());
  sizes[d] = floor_div(sizes[d], 2);
  if (a.self.is_contiguous()) return {Shape(std::move(sizes), a.self.dtype())};
  return {like(a.self.as_view(sizes, a.self.strides()))};
}
void kernel_glu(const args::glu& a, Out out) {
  int64_t d = glu_dim(a.self, a.dim);
  const Tensor& to = out[0];
  auto half = [&](int64_t which) {
    return a.self.as_view(to.sizes(), a.self.strides(),
                          a.self.offset() + SymInt(which * to.int_sizes()[d]) * a.self.strides()[d]);
  };
  run_loop("sigmoid", {half(1)}, to);
  run_loop("mul", {half(0), to}, to);
}

Tensor body_glu_backward(const args::glu_backward& a) {
  Tensor left = half_of(a.self, a.dim, 0), gate = sigmoid(half_of(a.self, a.dim, 1));
  Tensor first = a.grad_output * gate;
  return cat({first, first * left * (1 - gate)}, a.dim);
}

std::tuple<Tensor, Tensor> body__prelu_kernel_backward(const args::_prelu_kernel_backward& a) {
  Tensor positive = a.self > 0;
  return {where(positive, a.grad_output, a.weight * a.grad_output),
          where(positive, 0, a.self * a.grad_output)};
}
Tensor body_infinitely_differentiable_gelu_backward(const args::infinitely_differentiable_gelu_backward& a) {
  Tensor area = 0.5 * (1 + erf(a.self * std::numbers::sqrt2_v<double> * 0.5));
  Tensor density =
      exp(-0.5 * a.self * a.self) * (0.5 * std::numbers::inv_sqrtpi_v<double> * std::numbers::sqrt2);
  return a.grad * (area + a.self * density);
}
Tensor body_glu_jvp(const args::glu_jvp& a) {
  Tensor gate = sigmoid(half_of(a.x, a.dim, 1));
  return half_of(a.dx, a.dim, 0) * gate + a.glu * (1 - gate) * half_of(a.dx, a.dim, 1);
}
Tensor body_glu_backward_jvp(const args::glu_backward_jvp& a) {
  Tensor left = half_of(a.x, a.dim, 0), gate = sigmoid(half_of(a.x, a.dim, 1)), slope = gate * (1 - gate);
  Tensor d_left = half_of(a.dx, a.dim, 0), d_gate = slope * half_of(a.dx, a.dim, 1);
  return cat({a.dgrad_glu * gate + a.grad_glu * d_gate,
              a.dgrad_glu * slope * left + a.grad_glu * (slope * d_left + (1 - 2 * gate) * d_gate * left)},
             a.dim);
}

Tensor elu_double_backward(const Tensor& grad, const Tensor& grad_output, const Scalar& alpha,
                           const Scalar& scale, const Scalar& input_scale, bool is_result, const Tensor& x) {
  Tensor below =
      is_result ? grad * grad_output * input_scale
                : grad * grad_output * (input_scale * input_scale * alpha * scale) * exp(x * input_scale);
  return where(x < 0, below, 0);
}

// gelu'' = φ(x)(2 - x²); by tanh, the same of ½x(1 + tanh u) with u = k(x + cx³).
Tensor gelu_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& x,
                            std::string_view approximate) {
  Tensor both = grad * grad_output, square = x * x;
  if (!by_tanh(approximate)) return both * (exp(square * -0.5) * (2 - square) * (1 / std::sqrt(2 * M_PI)));
  double k = std::sqrt(2 / M_PI), c = 0.044715;
  Tensor t = tanh(k * (x + c * (square * x)));
  Tensor slope = k * (1 + 3 * c * square), bend = 6 * k * c * x;
  return both * ((1 - t * t) * (slope + 0.5 * x * (bend - 2 * (t * (slope * slope)))));
}

// mish = x·w with w = tanh(softplus(x)), w' = (1 - w²)·sigmoid(x).
Tensor mish_double_backward(const Tensor& grad, const Tensor& grad_output, const Tensor& x) {
  Tensor w = tanh(softplus(x)), s = sigmoid(x);
  return grad * grad_output * ((1 - w * w) * s * (2 + x * (1 - s) - 2 * (x * (w * s))));
}

}  // namespace tern
