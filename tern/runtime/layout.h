// Where blocks of memory lie in one arena, so that those whose lives do not meet share it.
#pragma once
#include <cstddef>
#include <vector>

#include "tern/base/span.h"

namespace tern::runtime {

struct Life {
  size_t bytes;
  size_t first, last;  // steps, both included
};

struct Layout {
  std::vector<size_t> offsets;  // of each block, multiples of 64
  size_t bytes = 0;             // of the arena
};

// The smallest hole that holds a block, or the end. O(blocks * holes).
Layout lay_out(Span<const Life> lives);

}  // namespace tern::runtime
