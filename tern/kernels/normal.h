// Normal numbers from uniform ones, sixteen at a time, in place.
#pragma once
#include <cstdint>

namespace tern::kernels {

// Of each block the first eight numbers make radii, the last eight angles (Box and Muller).
void normal_blocks(float* x, int64_t blocks, float mean, float std);

}  // namespace tern::kernels
