// Sums and products of integers that wrap at the ends of their type, as PyTorch's results do; plain ones for
// every other type.
#pragma once

#include <concepts>
#include <cstdint>

namespace tern {

template <class T>
constexpr T wrapping_sum(T a, T b) {
  if constexpr (std::integral<T>)
    return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return static_cast<T>(a + b);
}
template <class T>
constexpr T wrapping_product(T a, T b) {
  if constexpr (std::integral<T>)
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  else
    return static_cast<T>(a * b);
}

}  // namespace tern
