// What the quantized operators share: integers and real numbers back and forth, whole tensors at a time.
#pragma once
#include "tern/base/error.h"
#include "tern/tensor/quantizer.h"

namespace tern::quantized {

// A call whose tensors have no data, or under a capture that gives none.
bool without_data(Span<const Tensor> tensors);
inline bool without_data(const Tensor& t) { return without_data(Span<const Tensor>(&t, 1)); }

// The Quantizer of a tensor that has one scale; throws PyTorch's words for per-channel ones.
const Quantizer& per_tensor(const Tensor& t);
void check_quantized(const char* op, const Tensor& t);
// Throws unless the dtype is quantized and the zero point is one of its values.
void check_parameters(const char* op, DType dtype, int64_t zero_point);

// Without a gap between elements, in any order of dimensions: the tensor itself where it is.
Tensor dense(const Tensor& t);
// Uninitialised, of these sizes in the same order of dimensions as `t`.
Tensor like_quantized(const Tensor& t, DType dtype, const QuantizerPtr& quantizer);

Tensor from_real(const Tensor& x, DType dtype, const QuantizerPtr& quantizer);  // x is float32
Tensor to_real(const Tensor& q);
// Steps from zero, (q - zero_point), as floats; and back: round(steps + zero_point).
Tensor to_steps(const Tensor& q, DType type = kFloat);
Tensor from_steps(const Tensor& steps, DType dtype, const QuantizerPtr& quantizer);
Tensor requantized(const Tensor& q, DType dtype, const QuantizerPtr& quantizer);

inline Dims dims_of(Span<const int64_t> n) {
  Dims d;
  for (int64_t v : n) d.push_back(v);
  return d;
}

// One number.
int64_t quantize_value(double scale, int64_t zero_point, DType dtype, float x);
inline float dequantize_value(double scale, int64_t zero_point, int64_t q) {
  return static_cast<float>(q - zero_point) * static_cast<float>(scale);
}

// A function of real numbers, element by element: 8-bit types by a table of its 256 results.
using RealFunction = float (*)(float x, const float* parameters);
Tensor map_real(const Tensor& q, DType dtype, const QuantizerPtr& out, RealFunction f,
                const float* parameters = nullptr);
// Integers between low and high (relu, hardtanh).
Tensor clamp_integers(const Tensor& q, int64_t low, int64_t high);

// What dynamic quantization chooses for numbers in [low, high], for unsigned bytes.
struct Choice {
  double scale;
  int64_t zero_point;
};
Choice choose_parameters(float low, float high, int64_t q_low, int64_t q_high, bool reduce_range);
Choice choose_parameters(const Tensor& x, DType dtype, bool reduce_range);

template <class F>
void by_integer(DType quantized, F&& f) {
  switch (int_dtype(quantized)) {
    case DType::int8:
      return f(int8_t{});
    case DType::uint8:
      return f(uint8_t{});
    default:
      return f(int32_t{});
  }
}

}  // namespace tern::quantized
