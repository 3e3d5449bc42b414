// Quantisation as arithmetic on plain tensors, and the integer matrix product.
#include <cmath>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/quant.args.h"

namespace tern {
namespace {

// ---- fake quantisation ----

void check_range(int64_t low, int64_t high) {
  if (low > high) fail("`quant_min` should be less than or equal to `quant_max`.");
}
Shapes fake_shapes(const Tensor& self) { return {like(self), like(self, kBool)}; }

// scale and zero point of element i come from channel(i).
template <class Channel>
void fake_into(const Tensor& self, const double* scales, const double* zeros, Channel&& channel, int64_t low,
               int64_t high, bool enabled, Out out) {
  Tensor x = row_major(self), y = make_tensor(x.sizes(), x.dtype()), mask = make_tensor(x.sizes(), kBool);
  by_float_dtype("fake_quantize_tensor_cachemask_kernel_type_handling", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(x.data());
    T* to = static_cast<T*>(y.data());
    bool* m = mask.data_ptr<bool>();
    parallel_for(0, x.int_numel(), 16384, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t c = channel(i);
        float scale = static_cast<float>(scales[c]), inverse = 1.0f / scale,
              point = static_cast<float>(zeros[c]);
        float v = static_cast<float>(from[i]), q = std::nearbyint(v * inverse) + point;
        m[i] = !enabled || (q >= static_cast<float>(low) && q <= static_cast<float>(high));
        float inside = std::fmin(std::fmax(q, static_cast<float>(low)), static_cast<float>(high));
        to[i] = enabled ? static_cast<T>((inside - point) * scale) : from[i];
      }
    });
  });
  copy_elements(y, out[0]);
  copy_elements(mask, out[1]);
}
void check_channels(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis,
                    int64_t low, int64_t high) {
  check_range(low, high);
  if (scale.dim() != 1) fail("scale should be a 1-D tensor");
  if (zero_point.dim() != 1) fail("zero point should be a 1-D tensor");
  if (!(scale.numel() == zero_point.numel())) fail("scale and zero-point need to have the same dimensions");
  if (axis < 0 || axis >= self.dim()) fail("`axis` must be between 0 and number of dimensions of input");
  if (!(scale.numel() == self.size(axis)))
    fail("dimensions of scale and zero-point are not consistent with input tensor");
}

// ---- quantized_decomposed ----

void check_dtype(const char* op, const Tensor& t, DType wanted) {
  if (t.dtype() != wanted)
    failf("{}: Expecting input to have dtype: torch.{}, but got torch.{}", op, name(wanted), name(t.dtype()));
}
void check_bounds(int64_t low, int64_t high, DType d) {
  auto bounds = [&]() -> std::pair<int64_t, int64_t> {
    switch (d) {
      case DType::uint8:
        return {0, 255};
      case DType::int8:
        return {-128, 127};
      case DType::int16:
        return {-32768, 32767};
      case DType::uint16:
        return {0, 65535};
      case DType::int32:
        return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
      case DType::float8_e5m2:
      case DType::float8_e4m3fn:
        return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
      default:
        failf("Unsupported dtype: torch.{}", name(d));
    }
  }();
  if (low < bounds.first)
    failf("quant_min out of bound for dtype, quant_min_lower_bound: {} quant_min: {}", bounds.first, low);
  if (high > bounds.second)
    failf("quant_max out of bound for dtype, quant_max_upper_bound: {} quant_max: {}", bounds.second, high);
}
Tensor as_float(const char* op, const Tensor& t) {
  if (t.dtype() == kHalf || t.dtype() == DType::bfloat16) return to(t, kFloat);
  check_dtype(op, t, kFloat);
  return t;
}
Tensor squeeze_in(const Tensor& q, int64_t low, int64_t high, DType d) {
  return to(clamp(q, Scalar(low), Scalar(high)), d);
}
Tensor along(const Tensor& t, int64_t axis, int64_t ndim) {
  Dims sizes(static_cast<size_t>(ndim), SymInt(1));
  sizes[static_cast<size_t>(wrap_dim(axis, ndim))] = -1;
  return reshape(t, sizes);
}
Tensor dequantized(const Tensor& input, const Tensor& scale, const Tensor& zero_point,
                   std::optional<DType> out) {
  DType type = out.value_or(kFloat);
  Tensor x = to(input, type);
  if (zero_point.defined()) x = x - zero_point;
  return to(x * scale, type);
}
// Rows of groups: [rows, groups, size].
Tensor grouped(const Tensor& t, int64_t size) {
  if (t.dim() != 2) failf("per-channel groups need a matrix, got {} dims", t.dim());
  if (size <= 1 || !(mod(t.size(-1), size) == 0))
    failf("group_size {} does not divide {}", size, t.size(-1).str());
  return reshape(t, {t.size(0), -1, SymInt(size)});
}
std::tuple<Tensor, Tensor> choose(const Tensor& input, int64_t low, int64_t high, double eps,
                                  bool symmetric) {
  auto [least, most] = aminmax(input);
  Tensor small = clamp(least, std::nullopt, Scalar(0)), large = clamp(most, Scalar(0));
  double steps = static_cast<double>(high - low);
  if (symmetric) {
    Tensor reach = maximum(neg(small), large);
    Tensor scale = clamp(reach / (steps / 2), Scalar(eps));
    return {reshape(scale, {1}), zeros({1}, kLong)};
  }
  Tensor scale = clamp((large - small) / steps, Scalar(eps));
  Tensor point = clamp(low - to(round(small / scale), kInt), Scalar(low), Scalar(high));
  return {reshape(scale, {1}), to(reshape(point, {1}), kLong)};
}

}  // namespace

Shapes shape_fake_quantize_per_tensor_affine_cachemask(
    const args::fake_quantize_per_tensor_affine_cachemask& a) {
  check_range(a.quant_min, a.quant_max);
  if (a.zero_point < a.quant_min || a.zero_point > a.quant_max)
    fail("`zero_point` must be between `quant_min` and `quant_max`.");
  return fake_shapes(a.self);
}
void kernel_fake_quantize_per_tensor_affine_cachemask(
    const args::fake_quantize_per_tensor_affine_cachemask& a, Out out) {
  double zero = static_cast<double>(a.zero_point);
  fake_into(
      a.self, &a.scale, &zero, [](int64_t) { return int64_t{0}; }, a.quant_min, a.quant_max, true, out);
}
Tensor body_fake_quantize_per_tensor_affine_tensor_qparams(
    const args::fake_quantize_per_tensor_affine_tensor_qparams& a) {
  Tensor on = ones({1}, kLong);
  return std::get<0>(_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(a.self, a.scale, a.zero_point,
                                                                               on, a.quant_min, a.quant_max));
}
Shapes shape__fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    const args::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams& a) {
  check_range(a.quant_min, a.quant_max);
  return fake_shapes(a.self);
}
void kernel__fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
    const args::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams& a, Out out) {
  double scale = read_scalar(a.scale).to_double(), zero = read_scalar(a.zero_point).to_double();
  bool on = read_scalar(a.fake_quant_enabled).to_double() != 0;
  fake_into(
      a.self, &scale, &zero, [](int64_t) { return int64_t{0}; }, a.quant_min, a.quant_max, on, out);
}
Shapes shape_fake_quantize_per_channel_affine_cachemask(
    const args::fake_quantize_per_channel_affine_cachemask& a) {
  check_channels(a.self, a.scale, a.zero_point, a.axis, a.quant_min, a.quant_max);
  return fake_shapes(a.self);
}
void kernel_fake_quantize_per_channel_affine_cachemask(
    const args::fake_quantize_per_channel_affine_cachemask& a, Out out) {
  Tensor scale = row_major(a.scale, kDouble), zero = row_major(a.zero_point, kDouble);
  Rows r = rows_around(a.self, a.axis);
  fake_into(
      a.self, scale.data_ptr<double>(), zero.data_ptr<double>(),
      [&](int64_t i) { return i / r.inner % r.size; }, a.quant_min, a.quant_max, true, out);
}

Tensor body_quantized_decomposed_quantize_per_tensor(
    const args::quantized_decomposed_quantize_per_tensor& a) {
  check_bounds(a.quant_min, a.quant_max, a.dtype);
  Tensor x = as_float("quantize_per_tensor", a.input);
  return squeeze_in(round(x * (1.0 / a.scale)) + a.zero_point, a.quant_min, a.quant_max, a.dtype);
}
Tensor body_quantized_decomposed_quantize_per_tensor_tensor(
    const args::quantized_decomposed_quantize_per_tensor_tensor& a) {
  check_bounds(a.quant_min, a.quant_max, a.dtype);
  Tensor x = as_float("quantize_per_tensor", a.input);
  Tensor inverse = to(reciprocal(to(reshape(a.scale, {}), kDouble)), kFloat);
  return squeeze_in(round(x * inverse) + reshape(a.zero_point, {}), a.quant_min, a.quant_max, a.dtype);
}
Tensor body_quantized_decomposed_quantize_per_tensor_tensor2(
    const args::quantized_decomposed_quantize_per_tensor_tensor2& a) {
  Tensor x = as_float("quantize_per_tensor", a.input);
  Tensor inverse = to(reciprocal(to(reshape(a.scale, {}), kDouble)), kFloat);
  Tensor q = round(x * inverse) + reshape(a.zero_point, {});
  return to(clamp(q, to(reshape(a.quant_min, {}), q.dtype()), to(reshape(a.quant_max, {}), q.dtype())),
            a.dtype);
}
Tensor body_quantized_decomposed_dequantize_per_tensor(
    const args::quantized_decomposed_dequantize_per_tensor& a) {
  check_dtype("dequantize_per_tensor", a.input, a.dtype);
  return (to(a.input, a.out_dtype.value_or(kFloat)) - a.zero_point) * a.scale;
}
Tensor body_quantized_decomposed_dequantize_per_tensor_tensor(
    const args::quantized_decomposed_dequantize_per_tensor_tensor& a) {
  check_dtype("dequantize_per_tensor", a.input, a.dtype);
  return dequantized(a.input, reshape(a.scale, {}), reshape(a.zero_point, {}), a.out_dtype);
}
Tensor body_quantized_decomposed_dequantize_per_tensor_tensor2(
    const args::quantized_decomposed_dequantize_per_tensor_tensor2& a) {
  check_dtype("dequantize_per_tensor", a.input, a.dtype);
  return dequantized(a.input, reshape(a.scale, {}), reshape(a.zero_point, {}), a.out_dtype);
}
Tensor body_quantized_decomposed_quantize_per_channel(
    const args::quantized_decomposed_quantize_per_channel& a) {
  check_bounds(a.quant_min, a.quant_max, a.dtype);
  Tensor x = as_float("quantize_per_channel", a.input);
  if (a.axis >= x.dim()) failf("Expecting axis to be < {}", x.dim());
  Tensor inverse = reciprocal(along(a.scales, a.axis, x.dim()));
  return squeeze_in(to(round(x * inverse), x.dtype()) + along(a.zero_points, a.axis, x.dim()), a.quant_min,
                    a.quant_max, a.dtype);
}
Tensor body_quantized_decomposed_dequantize_per_channel(
    const args::quantized_decomposed_dequantize_per_channel& a) {
  check_dtype("dequantize_per_channel", a.input, a.dtype);
  int64_t n = a.input.dim();
  if (a.axis >= n) failf("Expecting axis to be < {}", n);
  return dequantized(a.input, along(a.scales, a.axis, n),
                     a.zero_points.defined() ? along(a.zero_points, a.axis, n) : Tensor(), a.out_dtype);
}
Tensor body_quantized_decomposed_quantize_per_channel_group(
    const args::quantized_decomposed_quantize_per_channel_group& a) {
  Tensor x = grouped(a.input, a.group_size), inverse = unsqueeze(reciprocal(a.scales), -1);
  Tensor q = round(x * inverse + unsqueeze(a.zero_points, -1));
  return reshape(squeeze_in(q, a.quant_min, a.quant_max, a.dtype), a.input.sizes());
}
Tensor body_quantized_decomposed_dequantize_per_channel_group(
    const args::quantized_decomposed_dequantize_per_channel_group& a) {
  Tensor x = grouped(to(a.input, a.output_dtype), a.group_size);
  if (a.zero_points.defined()) x = x - unsqueeze(a.zero_points, -1);
  return to(reshape(x * unsqueeze(a.scales, -1), a.input.sizes()), a.output_dtype);
}
Tensor body_quantized_decomposed_quantize_per_token(const args::quantized_decomposed_quantize_per_token& a) {
  check_bounds(a.quant_min, a.quant_max, a.dtype);
  return squeeze_in(round(a.input * reciprocal(a.scales) + a.zero_points), a.quant_min, a.quant_max, a.dtype);
}
Tensor body_quantized_decomposed_dequantize_per_token(
    const args::quantized_decomposed_dequantize_per_token& a) {
  return to((a.input - a.zero_points) * a.scales, a.output_dtype);
}
std::tuple<Tensor, Tensor> body_quantized_decomposed_choose_qparams_tensor(
    const args::quantized_decomposed_choose_qparams_tensor& a) {
  return choose(as_float("choose_qparams", a.input), a.quant_min, a.quant_max, a.eps, false);
}
std::tuple<Tensor, Tensor> body_quantized_decomposed_choose_qparams_symmetric_tensor(
    const args::quantized_decomposed_choose_qparams_symmetric_tensor& a) {
  return choose(as_float("choose_qparams_symmetric", a.input), a.quant_min, a.quant_max, a.eps, true);
}
std::tuple<Tensor, Tensor> body_quantized_decomposed_choose_qparams_per_token(
    const args::quantized_decomposed_choose_qparams_per_token& a) {
  Tensor reach = amax(abs(a.input), Ints(-1), true);
  if (reach.dtype() == kHalf) reach = to(reach, kFloat);
  Tensor scale = clamp(reach, Scalar(1e-5)) / 127.0;
  return {to(scale, kDouble), to(zeros_like(scale), kLong)};
}
std::tuple<Tensor, Tensor> body_quantized_decomposed_choose_qparams_per_token_asymmetric(
    const args::quantized_decomposed_choose_qparams_per_token_asymmetric& a) {
  Tensor small = clamp(amin(a.input, Ints(-1), true), std::nullopt, Scalar(0)),
         large = clamp(amax(a.input, Ints(-1), true), Scalar(0));
  double eps = std::numeric_limits<float>::epsilon();
  Tensor scale = clamp((large - small) / 255.0, Scalar(eps));
  Tensor low = small / scale, high = large / scale;
  Tensor point = where((-128 + low) + (127 + high) > 0, -128 - low, 127 - high);
  return {to(scale, kDouble), to(round(clamp(point, Scalar(-128), Scalar(127))), kLong)};
}

// Exports keep these as calls (PyTorch does, too): the kernel is the body.
Tensor kernel_quantized_decomposed_quantize_per_tensor(
    const args::quantized_decomposed_quantize_per_tensor& a) {
  return body_quantized_decomposed_quantize_per_tensor(a);
}
Tensor kernel_quantized_decomposed_quantize_per_tensor_tensor(
    const args::quantized_decomposed_quantize_per_tensor_tensor& a) {
  return body_quantized_decomposed_quantize_per_tensor_tensor(a);
}
Tensor kernel_quantized_decomposed_dequantize_per_tensor(
    const args::quantized_decomposed_dequantize_per_tensor& a) {
  return body_quantized_decomposed_dequantize_per_tensor(a);
}
Tensor kernel_quantized_decomposed_dequantize_per_tensor_tensor(
    const args::quantized_decomposed_dequantize_per_tensor_tensor& a) {
  return body_quantized_decomposed_dequantize_per_tensor_tensor(a);
}
Tensor kernel_quantized_decomposed_quantize_per_channel(
    const args::quantized_decomposed_quantize_per_channel& a) {
  return body_quantized_decomposed_quantize_per_channel(a);
}
Tensor kernel_quantized_decomposed_dequantize_per_channel(
    const args::quantized_decomposed_dequantize_per_channel& a) {
  return body_quantized_decomposed_dequantize_per_channel(a);
}
std::tuple<Tensor, Tensor> kernel_quantized_decomposed_choose_qparams_tensor(
    const args::quantized_decomposed_choose_qparams_tensor& a) {
  return body_quantized_decomposed_choose_qparams_tensor(a);
}

Shapes shape__int_mm(const args::_int_mm& a) {
  if (a.self.dim() != 2 || a.mat2.dim() != 2) fail("Expected self and mat2 to be of dimension 2");
  if (a.self.dtype() != kChar)
    failf("Expected self dtype to be of type int8 but got {}", name(a.self.dtype()));
  if (a.mat2.dtype() != kChar)
    failf("Expected mat2 dtype to be of type int8 but got {}", name(a.mat2.dtype()));
  if (!(a.self.size(1) == a.mat2.size(0)))
    failf("self.size(1) needs to match mat2.size(0) but got {} and {}", a.self.size(1).str(),
          a.mat2.size(0).str());
  return {Shape(Dims{a.self.size(0), a.mat2.size(1)}, kInt)};
}
void kernel__int_mm(const args::_int_mm& a, Out out) {
  Tensor x = row_major(a.self), y = row_major(a.mat2);
  const int8_t *p = x.data_ptr<int8_t>(), *q = y.data_ptr<int8_t>();
  int32_t* to = out[0].data_ptr<int32_t>();
  int64_t k = x.int_sizes()[1], n = y.int_sizes()[1];
  parallel_for(0, x.int_sizes()[0], std::max<int64_t>(1, 65536 / std::max<int64_t>(n * k, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   int32_t* row = to + i * n;
                   std::fill_n(row, n, 0);
                   for (int64_t j = 0; j < k; ++j) {
                     const int32_t v = p[i * k + j];
                     for (int64_t c = 0; c < n; ++c) row[c] += v * q[j * n + c];
                   }
                 }
               });
}
Tensor body__weight_int8pack_mm(const args::_weight_int8pack_mm& a) {
  return matmul(a.self, t(to(a.mat2, a.self.dtype()))) * a.scales;
}

}  // namespace tern
