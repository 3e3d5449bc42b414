// Softmax and log-softmax over the middle dim of a contiguous [outer, n, inner] array of a floating type.
#pragma once
#include <cstdint>

#include "tern/tensor/dtype.h"

namespace tern::kernels {

void softmax(bool log, DType in_type, const void* x, DType out_type, void* y, int64_t outer, int64_t n,
             int64_t inner);
// From the result y of the forward pass.
void softmax_backward(bool log, DType type, const void* grad_y, const void* y, DType out_type, void* grad_x,
                      int64_t outer, int64_t n, int64_t inner);

}  // namespace tern::kernels
