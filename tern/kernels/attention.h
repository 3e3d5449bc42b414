// Scaled dot product attention as one kernel: the matrix of scores never exists, only a block of it.
#pragma once
#include <cstdint>

namespace tern::kernels {

// Strides are in elements, over [batch, head, row]; the last dim is contiguous.
struct AttentionShape {
  int64_t batch, heads, queries, keys, width, value_width;
  int64_t q_strides[3], k_strides[3], v_strides[3], y_strides[3];
  float scale;                             // usually 1 / sqrt(width)
  bool causal = false;                     // query i sees keys 0..i
  const float* mask = nullptr;             // added to the scores
  const bool* bool_mask = nullptr;         // true: the key is seen; at most one of the two masks
  int64_t mask_strides[4] = {0, 0, 0, 0};  // over [batch, head, query, key]; 0 repeats
  float* logsumexp = nullptr;              // where wanted: [batch, head, query], of the scores
};

// A query that sees no key gives NaN with masks, as softmax of -inf does.
void attention(const AttentionShape& shape, const float* q, const float* k, const float* v, float* y);

}  // namespace tern::kernels
