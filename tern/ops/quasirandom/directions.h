// Where Sobol's direction numbers come from.
#pragma once
#include <cstdint>
#include <vector>

namespace tern {

constexpr int sobol_bits = 30;
constexpr int64_t sobol_dimensions =
    1111;  // one, and a dimension for each primitive polynomial up to degree 13

// The direction numbers of `count` dimensions, 30 for each: number i is m << (29 - i) with an odd m < 2^(i +
// 1).
std::vector<int64_t> sobol_directions(int64_t count);

}  // namespace tern
