// Sums, products, joins and activations of quantized tensors (quantized::). Norms are in quantized_norms.cpp.
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/quantized.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/quantized/norms.h"
#include "tern/ops/quantized/values.h"
#include "tern/ops/quantized_math.args.h"

namespace tern {

using namespace quantized;

namespace {

kernels::Affine affine(const Quantizer& q) {
  return {static_cast<float>(q.scale), static_cast<int32_t>(q.zero_point)};
}

Tensor pair(const char* op, const Tensor& a, const Tensor& b, double scale, int64_t zero_point, bool product,
            bool relu) {
  check_quantized(op, a);
  check_quantized(op, b);
  const Quantizer &qa = per_tensor(a), &qb = per_tensor(b);
  if (a.dtype() != b.dtype())
    failf("{}: Add operands should have same data type: got {} and {}", op, script_name(a.dtype()),
          script_name(b.dtype()));
  check_parameters(op, a.dtype(), zero_point);
  QuantizerPtr out = per_tensor_quantizer(scale, zero_point);
  const Tensor both[] = {a, b};
  Dims sizes = broadcast_sizes(a.sizes(), b.sizes());
  const bool same = sizes == Dims(a.sizes()) && sizes == Dims(b.sizes());
  if (without_data(both)) return make_quantized(sizes, a.dtype(), out, true, {}, a.device());
  Tensor x = same ? dense(a) : int_view(expand(a, sizes)).contiguous(),
         y = same ? dense(b) : int_view(expand(b, sizes)).contiguous();
  if (!(Dims(x.strides()) == Dims(y.strides()))) {  // in different orders
    x = int_view(x).contiguous();
    y = int_view(y).contiguous();
  }
  Tensor c = make_quantized(sizes, a.dtype(), out, false, x.strides());
  auto run = product ? kernels::multiply_quantized : kernels::add_quantized;
  run(int_dtype(a.dtype()), x.data(), affine(qa), y.data(), affine(qb), c.data(), affine(*out), relu,
      c.int_numel());
  return c;
}

// a + b by moving the zero point; where it would leave the type, by a new scale.
Tensor plus_number(const Tensor& a, double b, bool relu) {
  check_quantized("quantized::add_scalar", a);
  const Quantizer& q = per_tensor(a);
  IntRange r = range_of(a.dtype());
  const auto shift = static_cast<int64_t>(std::nearbyint(b / q.scale));
  const int64_t zero = q.zero_point - shift;
  const auto steps = static_cast<double>(r.high - r.low);
  Tensor out;
  if (zero >= r.low && zero <= r.high) {
    out = quantized_view(int_view(a).clone(), per_tensor_quantizer(q.scale, zero));
  } else {
    const bool below = zero < r.low;
    const double scale =
        (below ? static_cast<double>(r.high - zero) : static_cast<double>(zero - r.low)) / steps * q.scale;
    // The integers as they are stand for a + b when zero is counted from the moved point.
    Tensor sum = quantized_view(to(int_view(a), kInt), per_tensor_quantizer(q.scale, zero));
    out = from_real(to_real(sum), a.dtype(), per_tensor_quantizer(scale, below ? r.low : r.high));
  }
  return relu ? clamp_integers(out, quantizer_of(out).zero_point, r.high) : out;
}

// a * b by another scale: a negative number turns the integers round.
Tensor times_number(const Tensor& a, double b, bool relu) {
  check_quantized("quantized::mul_scalar", a);
  const Quantizer& q = per_tensor(a);
  IntRange r = range_of(a.dtype());
  Tensor out;
  if (b > 0) {
    out = quantized_view(int_view(a).clone(), per_tensor_quantizer(b * q.scale, q.zero_point));
  } else if (b == 0) {
    out = quantized_view(zeros_like(int_view(a)), per_tensor_quantizer(1.0, 0));
  } else {
    Tensor turned = static_cast<double>(r.high + r.low) - to(int_view(a), kLong);
    out = quantized_view(to(turned, int_dtype(a.dtype())),
                         per_tensor_quantizer(std::abs(b) * q.scale, r.high - (q.zero_point - r.low)));
  }
  return relu ? clamp_integers(out, quantizer_of(out).zero_point, r.high) : out;
}
double number(const Tensor& t) {
  if (!t.defined() || t.is_fake() || t.int_numel() != 1)
    fail("quantized: the number must be a tensor with one element");
  return read_scalar(t).to_double();
}

Tensor mapped(const char* op, const Tensor& x, double scale, int64_t zero_point, RealFunction f,
              const float* parameters = nullptr) {
  check_quantized(op, x);
  check_parameters(op, x.dtype(), zero_point);
  return map_real(x, x.dtype(), per_tensor_quantizer(scale, zero_point), f, parameters);
}
Tensor elu_of(const char* op, const Tensor& x, double scale, int64_t zero_point, double alpha, double factor,
              double input_scale) {
  const float p[] = {static_cast<float>(alpha * factor), static_cast<float>(factor),
                     static_cast<float>(input_scale)};
  return mapped(
      op, x, scale, zero_point,
      [](float v, const float* q) { return v <= 0 ? (std::exp(v * q[2]) - 1.0f) * q[0] : v * q[1]; }, p);
}
Tensor cat_of(Span<const Tensor> all, int64_t dim, std::optional<double> scale,
              std::optional<int64_t> zero_point, bool relu) {
  if (all.empty()) fail("quantized::cat: expected a non-empty list of Tensors");
  for (const Tensor& t : all) {
    check_quantized("quantized::cat", t);
    if (!quantizer_of(t).per_tensor()) fail("Only per-tensor quantization is supported in 'cat'!");
  }
  const Quantizer& first = quantizer_of(all[0]);
  return joined(all, dim,
                per_tensor_quantizer(scale.value_or(first.scale), zero_point.value_or(first.zero_point)),
                all[0].dtype(), relu);
}

}  // namespace

namespace quantized {

Tensor joined(Span<const Tensor> tensors, int64_t dim, const QuantizerPtr& quantizer, DType dtype,
              bool relu) {
  std::vector<Tensor> parts;
  for (const Tensor& t : tensors) {
    if (t.dtype() != dtype)
      failf("All dtypes must be the same in 'cat': got {} and {}", script_name(dtype),
            script_name(t.dtype()));
    parts.push_back(int_view(requantized(t, dtype, quantizer)));
  }
  Tensor out = quantized_view(cat(parts, dim), quantizer);
  return relu ? clamp_integers(out, quantizer->zero_point, range_of(dtype).high) : out;
}

}  // namespace quantized

Tensor kernel_quantized_add(const args::quantized_add& a) {
  return pair("quantized::add", a.qa, a.qb, a.scale, a.zero_point, false, false);
}
Tensor kernel_quantized_add_relu(const args::quantized_add_relu& a) {
  return pair("quantized::add_relu", a.qa, a.qb, a.scale, a.zero_point, false, true);
}
Tensor kernel_quantized_mul(const args::quantized_mul& a) {
  return pair("quantized::mul", a.qa, a.qb, a.scale, a.zero_point, true, false);
}
Tensor kernel_quantized_mul_relu(const args::quantized_mul_relu& a) {
  return pair("quantized::mul_relu", a.qa, a.qb, a.scale, a.zero_point, true, true);
}
Tensor kernel_quantized_add_Scalar(const args::quantized_add_Scalar& a) {
  return plus_number(a.qa, a.b.to_double(), false);
}
Tensor kernel_quantized_add_Scalar2(const args::quantized_add_Scalar2& a) {
  return plus_number(a.qa, a.b.to_double(), false);
}
Tensor kernel_quantized_add_relu_Scalar(const args::quantized_add_relu_Scalar& a) {
  return plus_number(a.qa, a.b.to_double(), true);
}
Tensor kernel_quantized_add_relu_Scalar2(const args::quantized_add_relu_Scalar2& a) {
  return plus_number(a.qa, a.b.to_double(), true);
}
Tensor kernel_quantized_add_scalar(const args::quantized_add_scalar& a) {
  return plus_number(a.qa, a.b.to_double(), false);
}
Tensor kernel_quantized_add_scalar_Tensor(const args::quantized_add_scalar_Tensor& a) {
  return plus_number(a.qa, number(a.b), false);
}
Tensor kernel_quantized_add_scalar_relu(const args::quantized_add_scalar_relu& a) {
  return plus_number(a.qa, a.b.to_double(), true);
}
Tensor kernel_quantized_add_scalar_relu_Tensor(const args::quantized_add_scalar_relu_Tensor& a) {
  return plus_number(a.qa, number(a.b), true);
}
Tensor kernel_quantized_mul_Scalar(const args::quantized_mul_Scalar& a) {
  return times_number(a.qa, a.b.to_double(), false);
}
Tensor kernel_quantized_mul_Scalar2(const args::quantized_mul_Scalar2& a) {
  return times_number(a.qa, a.b.to_double(), false);
}
Tensor kernel_quantized_mul_relu_Scalar(const args::quantized_mul_relu_Scalar& a) {
  return times_number(a.qa, a.b.to_double(), true);
}
Tensor kernel_quantized_mul_relu_Scalar2(const args::quantized_mul_relu_Scalar2& a) {
  return times_number(a.qa, a.b.to_double(), true);
}
Tensor kernel_quantized_mul_scalar(const args::quantized_mul_scalar& a) {
  return times_number(a.qa, a.b.to_double(), false);
}
Tensor kernel_quantized_mul_scalar_Tensor(const args::quantized_mul_scalar_Tensor& a) {
  return times_number(a.qa, number(a.b), false);
}
Tensor kernel_quantized_mul_scalar_relu(const args::quantized_mul_scalar_relu& a) {
  return times_number(a.qa, a.b.to_double(), true);
}
Tensor kernel_quantized_mul_scalar_relu_Tensor(const args::quantized_mul_scalar_relu_Tensor& a) {
  return times_number(a.qa, number(a.b), true);
}
Tensor kernel_quantized_matmul(const args::quantized_matmul& a) {
  check_quantized("quantized::matmul", a.qa);
  check_quantized("quantized::matmul", a.qb);
  per_tensor(a.qa);
  per_tensor(a.qb);
  if (a.qa.dtype() != a.qb.dtype()) fail("MatMul operands should have same data type.");
  check_parameters("quantized::matmul", a.qa.dtype(), a.zero_point);
  return from_real(matmul(to_real(a.qa), to_real(a.qb)), a.qa.dtype(),
                   per_tensor_quantizer(a.scale, a.zero_point));
}
Tensor kernel_quantized_cat(const args::quantized_cat& a) {
  return cat_of(a.qx, a.dim, a.scale, a.zero_point, false);
}
Tensor kernel_quantized_cat_relu(const args::quantized_cat_relu& a) {
  return cat_of(a.qx, a.dim, a.scale, a.zero_point, true);
}

Tensor kernel_quantized_clamp(const args::quantized_clamp& a) {
  check_quantized("quantized::clamp", a.qx);
  return clamp(a.qx, a.min, a.max);
}
Tensor kernel_quantized_relu6(const args::quantized_relu6& a) {
  check_quantized("quantized::relu6", a.qx);
  Tensor y = relu6(a.qx);
  return a.inplace ? a.qx.copy_(y) : y;
}
Tensor kernel_quantized_threshold(const args::quantized_threshold& a) {
  check_quantized("quantized::threshold", a.qx);
  return threshold(a.qx, a.threshold, a.value);
}
Tensor kernel_quantized_hardswish(const args::quantized_hardswish& a) {
  return mapped("quantized::hardswish", a.input, a.output_scale, a.output_zero_point,
                [](float v, const float*) { return v * std::min(std::max(v + 3.0f, 0.0f), 6.0f) / 6.0f; });
}
Tensor kernel_quantized_sigmoid(const args::quantized_sigmoid& a) {
  return mapped("quantized::sigmoid", a.qx, a.output_scale, a.output_zero_point,
                [](float v, const float*) { return 1.0f / (1.0f + std::exp(-v)); });
}
Tensor kernel_quantized_leaky_relu(const args::quantized_leaky_relu& a) {
  const auto slope = static_cast<float>(a.negative_slope.to_double());
  Tensor y = mapped(
      "quantized::leaky_relu", a.qx, a.output_scale, a.output_zero_point,
      [](float v, const float* p) { return v > 0 ? v : v * p[0]; }, &slope);
  return y;
}
Tensor kernel_quantized_elu(const args::quantized_elu& a) {
  return elu_of("quantized::elu", a.self, a.output_scale, a.output_zero_point, a.alpha.to_double(),
                a.scale.to_double(), a.input_scale.to_double());
}
Tensor kernel_quantized_celu(const args::quantized_celu& a) {
  const double alpha = a.alpha.to_double();
  if (alpha == 0) fail("ZeroDivisionError: alpha cannot be 0 for CELU");
  return elu_of("quantized::celu", a.self, a.output_scale, a.output_zero_point, alpha, 1, 1 / alpha);
}
Tensor kernel_quantized_prelu(const args::quantized_prelu& a) {
  check_quantized("quantized::prelu", a.qx);
  check_parameters("quantized::prelu", a.qx.dtype(), a.output_zero_point);
  Tensor weight = a.weight.is_quantized() ? to_real(a.weight) : a.weight;
  return from_real(prelu(to_real(a.qx), weight), a.qx.dtype(),
                   per_tensor_quantizer(a.output_scale, a.output_zero_point));
}
Tensor kernel_quantized_softmax(const args::quantized_softmax& a) {
  check_quantized("quantized::softmax", a.qx);
  check_parameters("quantized::softmax", a.qx.dtype(), a.output_zero_point);
  return from_real(softmax(to_real(a.qx), a.dim), a.qx.dtype(),
                   per_tensor_quantizer(a.output_scale, a.output_zero_point));
}
Tensor kernel_quantized_dropout(const args::quantized_dropout& a) {
  check_quantized("quantized::dropout", a.self);
  return a.self;
}

Tensor kernel_quantized_ns_max_pool1d(const args::quantized_ns_max_pool1d& a) {
  check_quantized("quantized::max_pool1d", a.qx);
  return max_pool1d(a.qx, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode);
}
Tensor kernel_quantized_ns_max_pool2d(const args::quantized_ns_max_pool2d& a) {
  check_quantized("quantized::max_pool2d", a.qx);
  return max_pool2d(a.qx, a.kernel_size, a.stride, a.padding, a.dilation, a.ceil_mode);
}

}  // namespace tern
