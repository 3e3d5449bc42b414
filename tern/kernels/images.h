// Float images with their channels innermost, [batch, *size, channels]: what the engine's convolutions hand
// on to each other.
#pragma once
#include <cstdint>

#include "tern/kernels/gemm.h"
#include "tern/kernels/pool.h"

namespace tern::kernels {

// y[b] is x[b] transposed: from [batch, rows, columns] to [batch, columns, rows]. Both ways between the
// layouts.
void transpose_planes(int64_t batch, int64_t rows, int64_t columns, const float* x, float* y);

// As max_pool and avg_pool, with shape.planes the batch.
void max_pool_channels_last(const PoolShape& shape, int64_t channels, const float* x, float* y);
void avg_pool_channels_last(const PoolShape& shape, int64_t channels, const float* x, float* y);

// y = activation(x * scale + shift), one scale and shift a channel.
void affine_channels_last(int64_t pixels, int64_t channels, const float* x, const float* scale,
                          const float* shift, Activation activation, float* y);

}  // namespace tern::kernels
