// A list of index tensors as `index` and `index_put` take it, brought to one form.
#pragma once
#include "tern/tensor/tensor.h"

namespace tern {

// Masks become positions, indices one common size; the indexed dimensions of `self` come first in `order`
// where they are apart, or stay together where they are neighbours.
struct IndexPlan {
  std::vector<Tensor> indices;   // one per indexed dimension: int64, expanded to `index_sizes`
  SmallVector<int64_t, 6> dims;  // which dimensions of self they index
  Dims index_sizes;              // the common size
  Dims sizes;                    // of the result
  int64_t index_at = 0;          // where index_sizes stand in `sizes`
};
// `concrete`: masks are read. Otherwise a mask's count is an unknown size. Throws PyTorch's IndexErrors.
IndexPlan plan_index(const Tensor& self, Span<const Tensor> indices, bool concrete);

Tensor nonzero_positions(const Tensor& mask);  // [count, dim] int64

}  // namespace tern
