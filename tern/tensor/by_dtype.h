// From a dtype to the C++ type of its elements: lists of types, and one way to choose from them.
#pragma once
#include <complex>

#include "tern/tensor/dtype.h"

namespace tern {

template <class... T>
struct Types {};

template <class... A, class... B>
constexpr Types<A..., B...> operator+(Types<A...>, Types<B...>) {
  return {};
}

inline constexpr Types<uint8_t, int8_t, int16_t, int32_t, int64_t> kIntegers;
inline constexpr Types<uint16_t, uint32_t, uint64_t> kLateUnsigned;  // ATen has them for few operators
inline constexpr Types<float, double, Half, BFloat16> kFloats;
inline constexpr Types<Float8E5M2, Float8E4M3FN, Float8E5M2FNUZ, Float8E4M3FNUZ> kFloat8s;
inline constexpr Types<std::complex<float>, std::complex<double>> kComplexes;
inline constexpr auto kElements =
    Types<bool>{} + kIntegers + kLateUnsigned + kFloats + kFloat8s + kComplexes;  // of plain tensors

// f(T{}) with the type among these whose dtype is `d`; `otherwise`, which must not return, where there is
// none.
template <class First, class... Rest, class F, class Otherwise>
decltype(auto) by_dtype(Types<First, Rest...>, DType d, F&& f, Otherwise&& otherwise) {
  if (d == dtype_of<First>) return f(First{});
  if constexpr (sizeof...(Rest) > 0)
    return by_dtype(Types<Rest...>{}, d, f, otherwise);
  else {
    otherwise();
    __builtin_unreachable();
  }
}

}  // namespace tern
