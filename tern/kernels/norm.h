// Layer, group and batch normalisation on contiguous arrays. x, y and gradients are of `type`; weight, bias
// and their gradients too; mean and rstd are float, or double when `type` is. Optional pointers may be null.
#pragma once
#include <cstdint>

#include "tern/tensor/dtype.h"

namespace tern::kernels {

// [rows, n], normalised over n; weight and bias have n elements.
void layer_norm(DType type, int64_t rows, int64_t n, const void* x, const void* weight, const void* bias,
                double eps, void* y, void* mean, void* rstd);
void layer_norm_backward(DType type, int64_t rows, int64_t n, const void* grad_y, const void* x,
                         const void* mean, const void* rstd, const void* weight, void* grad_x,
                         void* grad_weight, void* grad_bias);
// y = x / sqrt(mean(x^2) + eps) * weight
void rms_norm(DType type, int64_t rows, int64_t n, const void* x, const void* weight, double eps, void* y,
              void* rstd);

// [batch, channels, inner], normalised over a group of channels and inner; mean and rstd are [batch, groups].
void group_norm(DType type, int64_t batch, int64_t channels, int64_t inner, int64_t groups, const void* x,
                const void* weight, const void* bias, double eps, void* y, void* mean, void* rstd);
void group_norm_backward(DType type, int64_t batch, int64_t channels, int64_t inner, int64_t groups,
                         const void* grad_y, const void* x, const void* mean, const void* rstd,
                         const void* weight, void* grad_x, void* grad_weight, void* grad_bias);

// Per channel over batch and inner: mean and the biased variance.
void batch_norm_stats(DType type, int64_t batch, int64_t channels, int64_t inner, const void* x, void* mean,
                      void* var);
// y = (x - mean) * rstd * weight + bias, for training and inference.
void batch_norm_apply(DType type, int64_t batch, int64_t channels, int64_t inner, const void* x,
                      const void* mean, const void* rstd, const void* weight, const void* bias, void* y);
void batch_norm_backward(DType type, int64_t batch, int64_t channels, int64_t inner, const void* grad_y,
                         const void* x, const void* mean, const void* rstd, const void* weight, bool training,
                         void* grad_x, void* grad_weight, void* grad_bias);

}  // namespace tern::kernels
