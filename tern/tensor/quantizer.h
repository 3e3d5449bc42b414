// How the integers of a quantized tensor stand for real numbers: (q - zero_point) * scale, for the whole
// tensor or for each index of one dimension. A Quantizer never changes; views and copies share it.
#pragma once

#include "tern/base/pointer.h"
#include "tern/tensor/tensor.h"

namespace tern {

// The numbers are ATen's QScheme.
enum class QScheme : uint8_t {
  per_tensor_affine = 0,
  per_channel_affine = 1,
  per_tensor_symmetric = 2,
  per_channel_symmetric = 3,
  per_channel_affine_float_qparams = 4,  // real = q * scale + bias: embeddings
};
std::string_view name(QScheme s);  // "per_tensor_affine"

struct Quantizer : Meaning {
  QScheme scheme = QScheme::per_tensor_affine;
  double scale = 1;
  int64_t zero_point = 0;
  Tensor scales, zero_points;  // per channel: double and int64 (float32 both with float_qparams)
  int64_t axis = 0;

  bool per_tensor() const { return scheme == QScheme::per_tensor_affine; }
};
using QuantizerPtr = Shared<const Quantizer>;

QuantizerPtr per_tensor_quantizer(double scale, int64_t zero_point);
// Takes copies in the types a Quantizer keeps. The scheme follows from the dtype of the zero points.
QuantizerPtr per_channel_quantizer(const Tensor& scales, const Tensor& zero_points, int64_t axis);
bool same_quantizer(const Quantizer& a, const Quantizer& b);  // torch.equal's notion

DType int_dtype(DType quantized);    // qint8 -> int8; throws for anything that is not quantized
DType quantized_dtype(DType plain);  // int8 -> qint8
struct IntRange {
  int64_t low, high;
};
IntRange range_of(DType quantized);

// The same memory, as plain integers; and back.
Tensor int_view(const Tensor& quantized);
Tensor quantized_view(const Tensor& integers, const QuantizerPtr& quantizer);
// Uninitialised (or without data, when fake); the order of dimensions is like `strides` when given.
Tensor make_quantized(Span<const SymInt> sizes, DType dtype, const QuantizerPtr& quantizer, bool fake,
                      Span<const SymInt> strides = {}, Device device = kCPU);
// The real numbers as float32, one by one: for printing; the operator is dequantize().
Tensor dequantized(const Tensor& t);
const Quantizer& quantizer_of(const Tensor& t);       // throws when the tensor is not quantized
QuantizerPtr quantizer_ptr(const Tensor& quantized);  // to share it

}  // namespace tern
