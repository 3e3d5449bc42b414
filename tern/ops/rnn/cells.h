// The kinds of recurrent cells, by ATen's numbers.
#pragma once
#include <cstdint>

namespace tern {

enum class Cell : uint8_t { relu = 0, tanh = 1, lstm = 2, gru = 3 };

}  // namespace tern
