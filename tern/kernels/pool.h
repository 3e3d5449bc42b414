// Pooling over one to three spatial dims of contiguous [planes, *in_size] arrays; planes is batch times
// channels.
#pragma once
#include <cstdint>

#include "tern/tensor/dtype.h"

namespace tern::kernels {

struct PoolShape {
  int dims = 2;
  int64_t planes = 1;
  int64_t in_size[3] = {1, 1, 1},
          out_size[3] = {1, 1, 1};  // out_size by pool_out_size, or as asked when adaptive
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  bool adaptive = false;          // windows from in_size and out_size alone
  bool count_include_pad = true;  // average pooling
  int64_t divisor_override = 0;   // average pooling; 0: none
};

int64_t pool_out_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                      bool ceil_mode);

// Any real type. The index of the maximum is its place in the plane; NaN wins. indices may be null.
void max_pool(DType type, const PoolShape& shape, const void* x, void* y, int64_t* indices);
void max_pool_backward(DType type, const PoolShape& shape, const void* grad_y, const int64_t* indices,
                       void* grad_x);
void avg_pool(DType type, const PoolShape& shape, const void* x, void* y);
void avg_pool_backward(DType type, const PoolShape& shape, const void* grad_y, void* grad_x);

}  // namespace tern::kernels
