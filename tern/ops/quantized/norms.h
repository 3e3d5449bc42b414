// Normalisation of quantized tensors into a given scale and zero point (quantized_norms.cpp).
#pragma once
#include "tern/tensor/quantizer.h"

namespace tern::quantized {

Tensor batch_normed(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                    const Tensor& var, double eps, double scale, int64_t zero_point, bool relu);
// Quantized tensors joined into one quantizer; `dim` may be negative.
Tensor joined(Span<const Tensor> tensors, int64_t dim, const QuantizerPtr& quantizer, DType dtype, bool relu);

}  // namespace tern::quantized
