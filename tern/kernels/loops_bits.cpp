// Bitwise operators and shifts. A shift by less than zero or by the width or more gives what shifting one bit
// at a time would give.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/loops_bits.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>

#include "tern/kernels/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

struct BitAnd {
  template <IntOrBool T>
  T operator()(T a, T b) const {
    return a & b;
  }
};
struct BitOr {
  template <IntOrBool T>
  T operator()(T a, T b) const {
    return a | b;
  }
};
struct BitXor {
  template <IntOrBool T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct BitNot {
  template <Int T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
  // A template, so that floats do not convert to it.
  template <std::same_as<bool> T>
  T operator()(T a) const {
    return !a;
  }
};
struct LeftShift {
  template <Int T>
  T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    const bool outside = static_cast<U>(b) >= sizeof(T) * 8;
    const U by = outside ? 0 : static_cast<U>(b);
    return outside ? T(0) : static_cast<T>(static_cast<U>(a) << by);
  }
};
struct RightShift {
  template <Int T>
  T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    const bool outside = static_cast<U>(b) >= sizeof(T) * 8;
    const U by = outside ? static_cast<U>(sizeof(T) * 8 - 1) : static_cast<U>(b);
    const T shifted = static_cast<T>(a >> by);
    return outside && !std::is_signed_v<T> ? T(0) : shifted;
  }
};

constexpr Row kRows[] = {
    ring<BitAnd, 2>("bitwise_and"),           ring<BitOr, 2>("bitwise_or"),
    ring<BitXor, 2>("bitwise_xor"),           ring<BitNot, 1>("bitwise_not"),
    ring<LeftShift, 2>("bitwise_left_shift"), binary<RightShift>("bitwise_right_shift"),
};

}  // namespace

Rows get_bits_rows() { return kRows; }

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(get_bits_rows);
Rows bits_rows() { return HWY_DYNAMIC_DISPATCH(get_bits_rows)(); }
}  // namespace tern::kernels
#endif
