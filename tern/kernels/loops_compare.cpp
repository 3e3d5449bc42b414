// Comparisons, logic and choice: loops that give or take bool.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/loops_compare.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>

#include "tern/kernels/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

struct Eq {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Ne {
  template <class T>
  bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Lt {
  template <Ordered T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct Le {
  template <Ordered T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Gt {
  template <Ordered T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct Ge {
  template <Ordered T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct LogicalAnd {
  template <class T>
  bool operator()(T a, T b) const {
    return (a != T(0)) & (b != T(0));
  }
};
struct LogicalOr {
  template <class T>
  bool operator()(T a, T b) const {
    return (a != T(0)) | (b != T(0));
  }
};
struct LogicalXor {
  template <class T>
  bool operator()(T a, T b) const {
    return (a != T(0)) != (b != T(0));
  }
};
struct LogicalNot {
  template <class T>
  bool operator()(T a) const {
    return a == T(0);
  }
};
struct IsNan {
  template <IntOrBool T>
  bool operator()(T) const {
    return false;
  }
  template <Fractional T>
  bool operator()(T a) const {
    return a != a;
  }
};
struct IsInf {
  template <IntOrBool T>
  bool operator()(T) const {
    return false;
  }
  template <Float T>
  bool operator()(T a) const {
    return (a - a != a - a) & (a == a);
  }
  template <Complex T>
  bool operator()(T a) const {
    return (*this)(a.real()) | (*this)(a.imag());
  }
};
struct IsFinite {
  template <IntOrBool T>
  bool operator()(T) const {
    return true;
  }
  template <Float T>
  bool operator()(T a) const {
    return a - a == a - a;
  }
  template <Complex T>
  bool operator()(T a) const {
    return (*this)(a.real()) & (*this)(a.imag());
  }
};
struct SignBit {
  template <IntOrBool T>
  bool operator()(T a) const {
    return std::is_signed_v<T> && a < T(0);
  }
  bool operator()(float a) const { return static_cast<int32_t>(std::bit_cast<uint32_t>(a)) < 0; }
  bool operator()(double a) const { return static_cast<int64_t>(std::bit_cast<uint64_t>(a)) < 0; }
};
// A choice between bits, without a branch that a random condition would mislead.
template <class Bits>
HWY_ATTR void choose(const void* const* in, void* const* out, int64_t n, const void*) {
  const uint8_t* c = static_cast<const uint8_t*>(in[0]);
  const Bits* a = static_cast<const Bits*>(in[1]);
  const Bits* b = static_cast<const Bits*>(in[2]);
  Bits* r = static_cast<Bits*>(out[0]);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const Bits all = static_cast<Bits>(Bits(0) - Bits(c[i] != 0));
    r[i] = static_cast<Bits>((a[i] & all) | (b[i] & static_cast<Bits>(~all)));
  }
}
HWY_ATTR void choose_pairs(const void* const* in, void* const* out, int64_t n, const void*) {
  const bool* c = static_cast<const bool*>(in[0]);
  const auto* a = static_cast<const std::complex<double>*>(in[1]);
  const auto* b = static_cast<const std::complex<double>*>(in[2]);
  auto* r = static_cast<std::complex<double>*>(out[0]);
  for (int64_t i = 0; i < n; ++i) r[i] = c[i] ? a[i] : b[i];
}

constexpr Row kRows[] = {
    ring<Eq, 2>("eq"),
    ring<Ne, 2>("ne"),
    binary<Lt>("lt"),
    binary<Le>("le"),
    binary<Gt>("gt"),
    binary<Ge>("ge"),
    ring<LogicalAnd, 2>("logical_and"),
    ring<LogicalOr, 2>("logical_or"),
    ring<LogicalXor, 2>("logical_xor"),
    ring<LogicalNot, 1>("logical_not"),
    unary<IsNan>("isnan"),
    unary<IsInf>("isinf"),
    unary<IsFinite>("isfinite"),
    unary<SignBit>("signbit"),
    {"where",
     {choose<uint8_t>, choose<uint8_t>, choose<uint8_t>, choose<uint16_t>, choose<uint32_t>, choose<uint64_t>,
      choose<uint16_t>, choose<uint32_t>, choose<uint64_t>, choose<uint32_t>, choose<uint64_t>,
      choose<uint64_t>, choose_pairs}},
};

}  // namespace

Rows get_compare_rows() { return kRows; }

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(get_compare_rows);
Rows compare_rows() { return HWY_DYNAMIC_DISPATCH(get_compare_rows)(); }
}  // namespace tern::kernels
#endif
