// Rare flags of an operator, beside those in op.h.
#pragma once
#include <cstdint>

namespace tern {

// In place it changes only sizes and strides (squeeze_, transpose_): done for fake tensors, too.
constexpr uint32_t op_geometry = uint32_t{1} << 18;
// The kernel makes its results itself, also without data, and knows quantized tensors (ops/quantized).
constexpr uint32_t op_whole = uint32_t{1} << 19;
// out= has the type of the result: another one is refused, not cast to.
constexpr uint32_t op_out_exact = uint32_t{1} << 20;
// But a bool result may go into uint8 (any, all).
constexpr uint32_t op_out_byte = uint32_t{1} << 21;
// `dtype`, when it is not given, is that of out= (sums and products along dimensions); a floating one, of a
// floating self.
constexpr uint32_t op_out_type = uint32_t{1} << 22;
constexpr uint32_t op_out_type_floating = uint32_t{1} << 23;
// This result never has history (means and counts that are kept for backward).
constexpr uint32_t op_plain_result(int i) { return uint32_t{1} << (24 + i); }

}  // namespace tern
