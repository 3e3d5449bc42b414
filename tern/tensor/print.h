// A tensor as text, exactly as PyTorch prints it.
#pragma once
#include <optional>
#include <string>

#include "tern/tensor/tensor.h"

namespace tern {

struct PrintOptions {
  int precision = 4;
  int64_t threshold = 1000;  // with more elements the middle is left out
  int64_t edge_items = 3;    // of those that are left at each end
  int64_t line_width = 80;
  std::optional<bool> scientific = {};  // by default where the numbers ask for it
  std::string_view package = "torch";   // dtypes are written as its members
};
std::string str(const Tensor& t, const PrintOptions& options);

}  // namespace tern
