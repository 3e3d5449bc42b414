// The kinds of recurrent cells, by ATen's numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "tern/tensor/tensor.h"

namespace tern {

enum class Cell : uint8_t { relu = 0, tanh = 1, lstm = 2, gru = 3 };

// The n parts of a cell's gates; throws where they do not divide into them.
std::vector<Tensor> split_gates(const Tensor& gates, int64_t n, int64_t dim);

}  // namespace tern
