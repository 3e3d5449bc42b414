// Resizing of the last one to three dims of contiguous [planes, *in] arrays, and its transpose.
#pragma once
#include <cstdint>

#include "tern/tensor/dtype.h"

namespace tern::kernels {

enum class Resampling : uint8_t { nearest, nearest_exact, linear, cubic, linear_aa, cubic_aa, lanczos_aa };

struct ResampleShape {
  int dims = 2;
  int64_t planes = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1};
  bool align_corners = false;
  double factor[3] = {0, 0, 0};  // out / in as the user gave it; 0: from the sizes
};

// Floats, and uint8 where PyTorch has it (in fixed point, as PyTorch does). Nearest moves elements of any
// type.
void resample(DType type, Resampling method, const ResampleShape& shape, const void* x, void* y);
// grad_x of the resizing of x; floats only.
void resample_backward(DType type, Resampling method, const ResampleShape& shape, const void* grad_y,
                       void* grad_x);

}  // namespace tern::kernels
