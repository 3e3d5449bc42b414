// Rare flags of an operator, beside those in op.h.
#pragma once
#include <cstdint>

namespace tern {

// In place it changes only sizes and strides (squeeze_, transpose_): done for fake tensors, too.
constexpr uint32_t op_geometry = uint32_t{1} << 18;
// The kernel makes its results itself, also without data, and knows quantized tensors (ops/quantized).
constexpr uint32_t op_whole = uint32_t{1} << 19;
// This result never has history (means and counts that are kept for backward).
constexpr uint32_t op_plain_result(int i) { return uint32_t{1} << (24 + i); }

}  // namespace tern
