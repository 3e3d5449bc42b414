// What the loop tables share: a row per operator with a loop for each compute type.
#pragma once
#include <string_view>

#include "tern/base/span.h"
#include "tern/kernels/pointwise.h"

namespace tern::kernels {

inline constexpr int kComputeTypes = 13;
inline constexpr int compute_index(DType t) {
  switch (t) {
    case DType::bool_:
      return 0;
    case DType::uint8:
      return 1;
    case DType::int8:
      return 2;
    case DType::int16:
      return 3;
    case DType::int32:
      return 4;
    case DType::int64:
      return 5;
    case DType::uint16:
      return 6;
    case DType::uint32:
      return 7;
    case DType::uint64:
      return 8;
    case DType::float32:
      return 9;
    case DType::float64:
      return 10;
    case DType::complex64:
      return 11;
    case DType::complex128:
      return 12;
    default:
      return -1;
  }
}

struct Row {
  std::string_view name;
  Loop loops[kComputeTypes];
};
using Rows = Span<const Row>;

Rows arithmetic_rows();  // loops_arithmetic.cpp
Rows order_rows();       // loops_order.cpp
Rows compare_rows();     // loops_compare.cpp
Rows bits_rows();        // loops_bits.cpp
Rows float_rows();       // loops_float.cpp
Rows math_rows();        // loops_math.cpp
Rows pairs_rows();       // loops_pairs.cpp
Rows scalar_rows();      // loops_scalar.cpp
Rows special_rows();     // loops_special.cpp

}  // namespace tern::kernels
