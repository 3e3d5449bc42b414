// Linear layers with packed weights.
#include <algorithm>
#include <cmath>
#include <memory>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/packed.args.h"
#include "tern/ops/quantized/detail/packed.h"
#include "tern/ops/quantized/values.h"

namespace tern {
namespace quantized {

RowParameters::RowParameters(const Tensor& weight, int64_t n) {
  const Quantizer& q = quantizer_of(weight);
  if (q.per_tensor()) {
    scales.assign(static_cast<size_t>(n), static_cast<float>(q.scale));
    zero_points.assign(static_cast<size_t>(n), static_cast<int32_t>(q.zero_point));
  } else {
    if (q.scheme != QScheme::per_channel_affine)
      failf("packed weights have integer zero points, but the weight is {}", name(q.scheme));
    scales = q.scales.to_vector<float>();
    zero_points = q.zero_points.to_vector<int32_t>();
  }
  if (static_cast<int64_t>(scales.size()) != n)
    failf("a weight with {} scales for {} channels", scales.size(), n);
}

Value PackedLinear::make(const Tensor& weight, const Tensor& bias) {
  check_quantized("quantized::linear_prepack", weight);
  if (weight.is_fake()) fail("quantized::linear_prepack: the weight has no data");
  if (weight.dim() != 2)
    fail("The weight tensor for quantized::linear_prepack (fbgemm) should be 2-dimensional.");
  if (weight.dtype() != DType::qint8)
    failf("quantized::linear_prepack: the weight should be qint8, got {}", name(weight.dtype()));
  if (!quantizer_of(weight).per_tensor() && quantizer_of(weight).axis != 0)
    fail("quantized::linear_prepack: per-channel weights are quantized along dimension 0");
  auto* p = new PackedLinear;
  Value v = Value::object(p);
  p->weight = weight.contiguous();
  p->rows = RowParameters(weight, weight.int_sizes()[0]);
  if (bias.defined()) {
    if (bias.dim() != 1) fail("bias should be a vector (1D Tensor)");
    if (bias.int_numel() != weight.int_sizes()[0])
      failf("bias should have N elements: {}", weight.int_sizes()[0]);
    p->bias = bias.dtype() == kFloat ? bias.contiguous() : to(bias, kFloat).contiguous();
  }
  p->matrix =
      kernels::QuantizedWeight(p->out_features(), p->in_features(),
                               static_cast<const int8_t*>(p->weight.data()), p->rows.zero_points.data());
  return v;
}
Value PackedLinear::make_half(const Tensor& weight, const Tensor& bias) {
  if (weight.dim() != 2 || weight.is_quantized())
    fail("The weight tensor for quantized::linear_prepack_fp16 (fbgemm) should be 2-dimensional and float.");
  auto* p = new PackedLinear;
  Value v = Value::object(p);
  p->half = true;
  // Values beyond the reach of half precision become its largest.
  p->weight =
      to(to(clamp(to(weight, kFloat), Scalar(-65504.0), Scalar(65504.0)), kHalf), kFloat).contiguous();
  if (bias.defined()) p->bias = to(bias, kFloat).contiguous();
  return v;
}
const PackedLinear& PackedLinear::of(const Value& v, const char* op) {
  const auto* p = v.is_object() ? dynamic_cast<const PackedLinear*>(v.box()) : nullptr;
  if (!p)
    failf(ErrorKind::type, "{}: expected the packed weights of a linear layer, got {}", op, v.kind_name());
  return *p;
}

namespace {

// Rows of unsigned bytes: signed ones moved up by 128.
struct Bytes8 {
  Tensor keep;
  const uint8_t* data = nullptr;
  int32_t zero_point = 0;
  explicit Bytes8(const Tensor& q) {
    const Quantizer& z = per_tensor(q);
    zero_point = static_cast<int32_t>(z.zero_point);
    keep = int_view(q).contiguous();
    if (q.dtype() == DType::qint8) {
      zero_point += 128;
      Tensor moved = make_tensor(keep.sizes(), kByte);
      const int8_t* from = keep.data_ptr<int8_t>();
      uint8_t* to = moved.data_ptr<uint8_t>();
      for (int64_t i = 0, n = keep.int_numel(); i < n; ++i) to[i] = static_cast<uint8_t>(from[i] ^ -128);
      keep = moved;
    }
    data = static_cast<const uint8_t*>(keep.data());
  }
};

Dims result_sizes(const char* op, const PackedLinear& w, const Tensor& x) {
  if (x.dim() == 0) failf("The dimension of input should be greater than 0 in {}", op);
  if (!(x.sizes()[static_cast<size_t>(x.dim() - 1)] == w.in_features()))
    failf(
        "The number of rows in the packB should be equal to K: {} (the weight has {} input features, the "
        "input "
        "{})",
        w.in_features(), w.in_features(), x.sizes()[static_cast<size_t>(x.dim() - 1)].str());
  Dims sizes(x.sizes());
  sizes.back() = w.out_features();
  return sizes;
}

// Sums of products a block of rows at a time, so that they are finished while in the cache.
template <class F>
void by_blocks(const PackedLinear& w, const uint8_t* x, int32_t zero, int64_t m, F finish) {
  const int64_t n = w.out_features(), k = w.in_features();
  const int64_t block = std::min(m, std::max<int64_t>(64, 131072 / std::max<int64_t>(n, 1)));
  std::unique_ptr<int32_t[]> sums(new int32_t[static_cast<size_t>(block * n) + 1]);
  for (int64_t i = 0; i < m; i += block) {
    const int64_t rows = std::min(block, m - i);
    w.matrix.multiply(rows, x + i * k, k, zero, sums.get(), n);
    finish(i, rows, sums.get());
  }
}
std::vector<float> product_scales(const PackedLinear& w, double x_scale) {
  std::vector<float> scales(w.rows.scales);
  for (float& s : scales) s *= static_cast<float>(x_scale);
  return scales;
}
void check_bytes(const char* op, const PackedLinear& w) {
  if (w.half) failf("{}: the packed weights are in half precision: use quantized::linear_dynamic_fp16", op);
}

}  // namespace

Tensor PackedLinear::run(const Tensor& x, double scale, int64_t zero_point, bool relu) const {
  check_quantized("quantized::linear", x);
  check_bytes("quantized::linear", *this);
  if (x.dtype() == DType::qint32)
    fail("quantized::linear: Expected input data type QUInt8 or QInt8 but got QInt32");
  check_parameters("quantized::linear", x.dtype(), zero_point);
  Dims sizes = result_sizes("quantized::linear", *this, x);
  QuantizerPtr q = per_tensor_quantizer(scale, zero_point);
  Tensor y = make_quantized(sizes, x.dtype(), q, without_data(x), {}, x.device());
  if (y.is_fake() || y.int_numel() == 0) return y;
  Bytes8 bytes(x);
  const int64_t n = out_features();
  std::vector<float> scales = product_scales(*this, per_tensor(x).scale);
  const kernels::Requantize r{n, scales.data(), bias.defined() ? bias.data_ptr<float>() : nullptr, relu};
  by_blocks(*this, bytes.data, bytes.zero_point, y.int_numel() / n, [&](int64_t i, int64_t rows, int32_t* c) {
    kernels::finish_quantized(r, int_dtype(x.dtype()), static_cast<float>(scale),
                              static_cast<int32_t>(zero_point), rows, c, n,
                              static_cast<char*>(y.data()) + i * n, n);
  });
  return y;
}

Tensor PackedLinear::run_float(const Tensor& x, double x_scale, int64_t x_zero_point, bool relu) const {
  check_bytes("quantized::linear_dynamic", *this);
  Dims sizes = result_sizes("quantized::linear_dynamic", *this, x);
  if (without_data(x)) return make_tensor(sizes, kFloat, x.device(), true);
  Tensor y = make_tensor(sizes, kFloat);
  if (y.int_numel() == 0) return y;
  Tensor in = x.contiguous();
  Tensor bytes = make_tensor(in.sizes(), kByte);
  kernels::quantize(kByte, in.data_ptr<float>(), bytes.data(), in.int_numel(), static_cast<float>(x_scale),
                    x_zero_point);
  const int64_t n = out_features();
  std::vector<float> scales = product_scales(*this, x_scale);
  const kernels::Requantize r{n, scales.data(), bias.defined() ? bias.data_ptr<float>() : nullptr, relu};
  by_blocks(*this, bytes.data_ptr<uint8_t>(), static_cast<int32_t>(x_zero_point), y.int_numel() / n,
            [&](int64_t i, int64_t rows, int32_t* c) {
              kernels::finish_float(r, rows, c, n, y.data_ptr<float>() + i * n, n);
            });
  return y;
}
Tensor PackedLinear::run_dynamic(const Tensor& x, bool reduce_range, bool relu) const {
  if (x.dtype() != kFloat)
    failf("quantized::linear_dynamic: expected a Float input but got {}", script_name(x.dtype()));
  Choice c{1, 0};
  if (!without_data(x)) c = choose_parameters(x, DType::quint8, reduce_range);
  return run_float(x, c.scale, c.zero_point, relu);
}
Tensor PackedLinear::run_half(const Tensor& x, bool relu) const {
  if (!half)
    fail("quantized::linear_dynamic_fp16: the packed weights are 8-bit: use quantized::linear_dynamic");
  result_sizes("quantized::linear_dynamic_fp16", *this, x);
  Tensor y = linear(to(x, kFloat), weight, bias);
  return relu ? tern::relu(y) : y;
}

}  // namespace quantized

using namespace quantized;

namespace {
// The result before it is quantized; signed bytes are moved up.
Tensor real_sums(const PackedLinear& w, const Tensor& x) {
  const Quantizer& q = per_tensor(x);
  return w.run_float(to_real(x), q.scale, q.zero_point + (x.dtype() == DType::qint8 ? 128 : 0), false);
}
}  // namespace

Tensor kernel_quantized_linear(const args::quantized_linear& a) {
  return PackedLinear::of(a.W_prepack, "quantized::linear").run(a.X, a.Y_scale_i, a.Y_zero_point_i, false);
}
Tensor kernel_quantized_linear_relu(const args::quantized_linear_relu& a) {
  return PackedLinear::of(a.W_prepack, "quantized::linear_relu")
      .run(a.X, a.Y_scale_i, a.Y_zero_point_i, true);
}
Tensor kernel_quantized_linear_leaky_relu(const args::quantized_linear_leaky_relu& a) {
  const PackedLinear& w = PackedLinear::of(a.W_prepack, "quantized::linear_leaky_relu");
  check_quantized("quantized::linear_leaky_relu", a.X);
  check_parameters("quantized::linear_leaky_relu", a.X.dtype(), a.Y_zero_point_i);
  return from_real(leaky_relu(real_sums(w, a.X), Scalar(a.negative_slope)), a.X.dtype(),
                   per_tensor_quantizer(a.Y_scale_i, a.Y_zero_point_i));
}
Tensor kernel_quantized_linear_tanh(const args::quantized_linear_tanh& a) {
  const PackedLinear& w = PackedLinear::of(a.W_prepack, "quantized::linear_tanh");
  check_quantized("quantized::linear_tanh", a.X);
  check_parameters("quantized::linear_tanh", a.X.dtype(), a.Y_zero_point_i);
  return from_real(tanh(real_sums(w, a.X)), a.X.dtype(), per_tensor_quantizer(a.Y_scale_i, a.Y_zero_point_i));
}
Tensor kernel_quantized_linear_dynamic(const args::quantized_linear_dynamic& a) {
  return PackedLinear::of(a.W_prepack, "quantized::linear_dynamic").run_dynamic(a.X, a.reduce_range, false);
}
Tensor kernel_quantized_linear_relu_dynamic(const args::quantized_linear_relu_dynamic& a) {
  return PackedLinear::of(a.W_prepack, "quantized::linear_relu_dynamic")
      .run_dynamic(a.X, a.reduce_range, true);
}
Value kernel_quantized_linear_prepack(const args::quantized_linear_prepack& a) {
  return PackedLinear::make(a.W, a.B);
}
std::tuple<Tensor, Tensor> kernel_quantized_linear_unpack(const args::quantized_linear_unpack& a) {
  const PackedLinear& w = PackedLinear::of(a.W_prepack, "quantized::linear_unpack");
  return {w.weight, w.bias};
}
Value kernel_quantized_linear_prepack_fp16(const args::quantized_linear_prepack_fp16& a) {
  return PackedLinear::make_half(a.W, a.B);
}
std::tuple<Tensor, Tensor> kernel_quantized_linear_unpack_fp16(const args::quantized_linear_unpack_fp16& a) {
  const PackedLinear& w = PackedLinear::of(a.W_prepack, "quantized::linear_unpack_fp16");
  return {w.weight, w.bias};
}
Tensor kernel_quantized_linear_dynamic_fp16(const args::quantized_linear_dynamic_fp16& a) {
  return PackedLinear::of(a.W_prepack, "quantized::linear_dynamic_fp16").run_half(a.X, false);
}
Tensor kernel_quantized_linear_relu_dynamic_fp16(const args::quantized_linear_relu_dynamic_fp16& a) {
  return PackedLinear::of(a.W_prepack, "quantized::linear_relu_dynamic_fp16").run_half(a.X, true);
}
Tensor kernel_quantized_linear_dynamic_fp16_unpacked_weight(
    const args::quantized_linear_dynamic_fp16_unpacked_weight& a) {
  return linear(a.X, to(to(a.weight, kHalf), kFloat), a.bias);
}
Tensor kernel_quantized_linear_with_input_q_dq_qweight_dq_output_fp32(
    const args::quantized_linear_with_input_q_dq_qweight_dq_output_fp32& a) {
  return PackedLinear::of(a.W_prepack, "quantized::linear_with_input_q_dq_qweight_dq_output_fp32")
      .run_float(a.X, a.X_scale, a.X_zero_point, false);
}
Tensor kernel_quantized_linear_with_input_q_dq_qweight_dq_relu_output_fp32(
    const args::quantized_linear_with_input_q_dq_qweight_dq_relu_output_fp32& a) {
  return PackedLinear::of(a.W_prepack, "quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32")
      .run_float(a.X, a.X_scale, a.X_zero_point, true);
}

}  // namespace tern
