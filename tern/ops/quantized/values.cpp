#include "tern/ops/quantized/values.h"

#include <algorithm>
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/quantized.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"

namespace tern::quantized {

bool without_data(Span<const Tensor> tensors) {
  if (thread_state.active & ~thread_state.excluded & rung_fake) return true;
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const Tensor& t) { return t.defined() && t.is_fake(); });
}

void check_quantized(const char* op, const Tensor& t) {
  if (!t.defined() || !t.is_quantized())
    failf(ErrorKind::not_supported,
          "Could not run '{}' with arguments from the 'CPU' backend: it takes quantized tensors "
          "(torch.quantize_per_tensor makes them)",
          op);
}
const Quantizer& per_tensor(const Tensor& t) {
  const Quantizer& q = quantizer_of(t);
  if (!q.per_tensor())
    fail(
        "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false.  (Could this error "
        "message be improved?  If so, please report an enhancement request to PyTorch.)");
  return q;
}
void check_parameters(const char* op, DType dtype, int64_t zero_point) {
  if (!is_quantized(dtype)) {
    // ATen's numbers of the types of less than a byte.
    if (dtype == static_cast<DType>(16) || dtype == static_cast<DType>(17))
      failf(ErrorKind::not_supported, "{}: Tern has no {}: use quint8", op,
            dtype == static_cast<DType>(16) ? "quint4x2" : "quint2x4");
    failf("ScalarType {} is not supported in new_qtensor.", script_name(dtype));
  }
  IntRange r = range_of(dtype);
  if (zero_point < r.low) failf("{} zero_point {} is below lower bound.", op, zero_point);
  if (zero_point > r.high) failf("{} zero_point {} is above upper bound.", op, zero_point);
}

Tensor dense(const Tensor& t) {
  Shape s = like(t);
  if (s.strides.empty()) s.strides = contiguous_strides(t.sizes());
  for (int64_t d = 0; d < t.dim(); ++d)
    if (!surely_eq(t.sizes()[d], 1) && !surely_eq(t.strides()[d], s.strides[static_cast<size_t>(d)]))
      return t.clone();
  return t;
}
Tensor like_quantized(const Tensor& t, DType dtype, const QuantizerPtr& quantizer) {
  Shape s = like(t);
  return make_quantized(s.sizes, dtype, quantizer, without_data(t), s.strides, t.device());
}

namespace {

// The scales and zero points of each index of the axis, as the kernels take them.
struct Channels {
  std::vector<float> scales;
  std::vector<double> zeros;
  explicit Channels(const Quantizer& q)
      : scales(q.scales.to_vector<float>()), zeros(q.zero_points.to_vector<double>()) {}
};

template <class T>
T within(double v, DType dtype) {
  IntRange r = range_of(dtype);
  if (!(v < static_cast<double>(r.high))) return static_cast<T>(r.high);
  return v > static_cast<double>(r.low) ? static_cast<T>(v) : static_cast<T>(r.low);
}

void check_channels(const Quantizer& q, Span<const SymInt> sizes) {
  auto n = static_cast<int64_t>(sizes.size());
  if (q.axis < 0 || q.axis >= n)
    failf("Channel axis out of range in per channel affine quantization. Got: {}Expected: [0, {})", q.axis,
          n);
  if (!(sizes[static_cast<size_t>(q.axis)] == q.scales.sizes()[0]))
    failf("length of scales must equal to channel, expected {} got, {}",
          sizes[static_cast<size_t>(q.axis)].str(), q.scales.sizes()[0].str());
}

}  // namespace

Tensor from_real(const Tensor& given, DType dtype, const QuantizerPtr& quantizer) {
  if (given.dtype() != kFloat)
    failf("Quantize only works on Float Tensor, got {}", script_name(given.dtype()));
  if (!quantizer->per_tensor()) check_channels(*quantizer, given.sizes());
  if (without_data(given)) return like_quantized(given, dtype, quantizer);
  Tensor x = quantizer->per_tensor() ? dense(given) : row_major(given);
  Tensor out = like_quantized(x, dtype, quantizer);
  int64_t n = x.int_numel();
  const float* from = x.data_ptr<float>();
  if (quantizer->per_tensor()) {
    kernels::quantize(int_dtype(dtype), from, out.data(), n, static_cast<float>(quantizer->scale),
                      quantizer->zero_point);
    return out;
  }
  Channels c(*quantizer);
  Rows rows = rows_around(x, quantizer->axis);
  by_integer(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* to = static_cast<T*>(out.data());
    for (int64_t i = 0; i < n; ++i) {
      auto k = static_cast<size_t>(i / rows.inner % rows.size);
      const float v = from[i] * (1.0f / c.scales[k]) + static_cast<float>(c.zeros[k]);
      const double q = std::nearbyint(v);
      to[i] = within<T>(q, dtype);
    }
  });
  return out;
}

Tensor to_real(const Tensor& q) {
  const Quantizer& z = quantizer_of(q);
  if (!z.per_tensor()) check_channels(z, q.sizes());
  Shape s = like(q, kFloat);
  if (without_data(q))
    return s.strides.empty() ? make_tensor(s.sizes, kFloat, q.device(), true)
                             : make_tensor(s.sizes, s.strides, kFloat, q.device(), true);
  if (!z.per_tensor()) return dequantized(q);
  Tensor from = dense(int_view(q));
  Shape t = like(from, kFloat);
  Tensor out = t.strides.empty() ? make_tensor(t.sizes, kFloat) : make_tensor(t.sizes, t.strides, kFloat);
  kernels::dequantize(from.dtype(), from.data(), out.data_ptr<float>(), from.int_numel(),
                      static_cast<float>(z.scale), z.zero_point);
  return out;
}

Tensor to_steps(const Tensor& q, DType type) {
  const Quantizer& z = per_tensor(q);
  return to(int_view(q), type) - static_cast<double>(z.zero_point);
}
Tensor from_steps(const Tensor& steps, DType dtype, const QuantizerPtr& quantizer) {
  IntRange r = range_of(dtype);
  Tensor q = clamp(round(steps + static_cast<double>(quantizer->zero_point)), Scalar(r.low), Scalar(r.high));
  return quantized_view(to(q, int_dtype(dtype)), quantizer);
}
Tensor requantized(const Tensor& q, DType dtype, const QuantizerPtr& quantizer) {
  if (q.dtype() == dtype && same_quantizer(quantizer_of(q), *quantizer)) return q;
  return from_real(to_real(q), dtype, quantizer);
}

int64_t quantize_value(double scale, int64_t zero_point, DType dtype, float x) {
  const float inverse = 1.0f / static_cast<float>(scale);
  return within<int64_t>(std::nearbyint(x * inverse + static_cast<float>(zero_point)), dtype);
}

Tensor map_real(const Tensor& q, DType dtype, const QuantizerPtr& out_quantizer, RealFunction f,
                const float* parameters) {
  const Quantizer& z = per_tensor(q);
  if (without_data(q)) return like_quantized(q, dtype, out_quantizer);
  Tensor x = dense(q);
  Tensor out = like_quantized(x, dtype, out_quantizer);
  int64_t n = x.int_numel();
  // Long tensors are what PyTorch has vectors for, which scale and shift in one step.
  const auto scale = static_cast<float>(z.scale), shift = -static_cast<float>(z.zero_point) * scale;
  auto value = [&](int64_t i) {
    const float real =
        n >= 256 ? std::fma(scale, static_cast<float>(i), shift) : dequantize_value(z.scale, z.zero_point, i);
    return quantize_value(out_quantizer->scale, out_quantizer->zero_point, dtype, f(real, parameters));
  };
  by_integer(q.dtype(), [&](auto from) {
    by_integer(dtype, [&](auto to) {
      using F = decltype(from);
      using T = decltype(to);
      const F* in = static_cast<const F*>(x.data());
      T* result = static_cast<T*>(out.data());
      if constexpr (sizeof(F) == 1) {
        if (n >= 256) {
          T table[256];
          for (int i = 0; i < 256; ++i)
            table[i] = static_cast<T>(value(static_cast<F>(static_cast<uint8_t>(i))));
          parallel_for(0, n, 65536, [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) result[i] = table[static_cast<uint8_t>(in[i])];
          });
          return;
        }
      }
      for (int64_t i = 0; i < n; ++i) result[i] = static_cast<T>(value(in[i]));
    });
  });
  return out;
}

Tensor clamp_integers(const Tensor& q, int64_t low, int64_t high) {
  per_tensor(q);
  if (without_data(q)) return like_quantized(q, q.dtype(), quantizer_ptr(q));
  Tensor x = dense(q);
  Tensor out = like_quantized(x, q.dtype(), quantizer_ptr(q));
  int64_t n = x.int_numel();
  by_integer(q.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* in = static_cast<const T*>(x.data());
    T* to = static_cast<T*>(out.data());
    const T l = static_cast<T>(low), h = static_cast<T>(high);
    parallel_for(0, n, 65536, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = std::min(std::max(in[i], l), h);
    });
  });
  return out;
}

Choice choose_parameters(float low, float high, int64_t q_low, int64_t q_high, bool reduce_range) {
  if (!(low <= high))
    failf("In ChooseQuantizationParams, min should be less than or equal to max: got {} and {}", low, high);
  if (reduce_range) {  // a bit less, for machines whose products of bytes saturate
    q_low /= 2;
    q_high /= 2;
  }
  low = std::min(low, 0.0f);
  high = std::max(high, 0.0f);
  const auto steps = static_cast<double>(q_high - q_low);
  double scale = (static_cast<double>(high) - low) / steps;
  if (static_cast<float>(scale) == 0.0f || std::isinf(1.0f / static_cast<float>(scale))) scale = 0.1;
  constexpr float least = 6.1e-5f;
  if (scale < least) {
    const auto before = static_cast<float>(scale);
    scale = least;
    if (low == 0.0f) {
      high = least * static_cast<float>(steps);
    } else if (high == 0.0f) {
      low = -least * static_cast<float>(steps);
    } else {
      low *= least / before;
      high *= least / before;
    }
  }
  // Zero is a step exactly; the end that it is counted from is the one with the smaller error.
  const double from_low = static_cast<double>(q_low) - low / scale,
               from_high = static_cast<double>(q_high) - high / scale;
  const double low_error = std::abs(static_cast<double>(q_low)) - std::abs(low / scale),
               high_error = std::abs(static_cast<double>(q_high)) - std::abs(high / scale);
  const double zero = low_error < high_error ? from_low : from_high;
  const double q = std::clamp(std::nearbyint(zero), static_cast<double>(q_low), static_cast<double>(q_high));
  return {scale, static_cast<int64_t>(q)};
}

Choice choose_parameters(const Tensor& given, DType dtype, bool reduce_range) {
  Tensor x = dense(given);
  IntRange r = dtype == DType::qint32 ? IntRange{-128, 127} : range_of(dtype);
  float low = 0, high = 0;
  if (x.int_numel()) kernels::min_max(x.data_ptr<float>(), x.int_numel(), low, high);
  return choose_parameters(low, high, r.low, r.high, reduce_range);
}

}  // namespace tern::quantized
