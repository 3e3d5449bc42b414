// Arithmetic that exists for every number type: plain functors that the compiler vectorises for each target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/loops_arithmetic.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>

#include "tern/kernels/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

// Products without the C99 recovery of infinities, as ATen does them.
template <class T>
HWY_ATTR inline T times(T a, T b) {
  if constexpr (Complex<T>)
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  else if constexpr (Int<T> && sizeof(T) < 4)
    return static_cast<T>(static_cast<unsigned>(a) * static_cast<unsigned>(b));
  else if constexpr (Int<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) * static_cast<std::make_unsigned_t<T>>(b));
  else
    return a * b;
}
template <class T>
HWY_ATTR inline T plus(T a, T b) {
  if constexpr (Int<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else
    return a + b;
}
template <class T>
HWY_ATTR inline T minus(T a, T b) {
  if constexpr (Int<T>)
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) - static_cast<std::make_unsigned_t<T>>(b));
  else
    return a - b;
}

struct Add {
  template <Number T>
  T operator()(T a, T b) const {
    return plus(a, b);
  }
  bool operator()(bool a, bool b) const { return a | b; }
};
struct AddAlpha {
  Params p;
  template <Number T>
  T operator()(T a, T b) const {
    return plus(a, times(argument<T>(p, 0), b));
  }
  bool operator()(bool a, bool b) const { return a | (b & (p.i[0] != 0)); }
};
struct Sub {
  template <Number T>
  T operator()(T a, T b) const {
    return minus(a, b);
  }
};
struct SubAlpha {
  Params p;
  template <Number T>
  T operator()(T a, T b) const {
    return minus(a, times(argument<T>(p, 0), b));
  }
};
struct Rsub {
  Params p;
  template <Number T>
  T operator()(T a, T b) const {
    return minus(b, times(argument<T>(p, 0), a));
  }
};
struct Mul {
  template <Number T>
  T operator()(T a, T b) const {
    return times(a, b);
  }
  bool operator()(bool a, bool b) const { return a & b; }
};
struct AddScalar {
  Params p;
  template <Number T>
  T operator()(T a) const {
    return plus(a, argument<T>(p, 0));
  }
};
struct SubScalar {
  Params p;
  template <Number T>
  T operator()(T a) const {
    return minus(a, argument<T>(p, 0));
  }
};
struct RsubScalar {
  Params p;
  template <Number T>
  T operator()(T a) const {
    return minus(argument<T>(p, 0), a);
  }
};
struct MulScalar {
  Params p;
  template <Number T>
  T operator()(T a) const {
    return times(a, argument<T>(p, 0));
  }
};
struct Neg {
  template <Int T>
  T operator()(T a) const {
    return minus(T(0), a);
  }
  template <Fractional T>
  T operator()(T a) const {
    return -a;
  }
};
struct Positive {
  template <class T>
  T operator()(T a) const {
    return a;
  }
};
struct Square {
  template <Number T>
  T operator()(T a) const {
    return times(a, a);
  }
  bool operator()(bool a) const { return a; }
};
struct SquaredDifference {
  template <Number T>
  T operator()(T a, T b) const {
    return times(minus(a, b), minus(a, b));
  }
};
struct Fma {
  template <Number T>
  T operator()(T a, T b, T c) const {
    return plus(times(a, b), c);
  }
};
struct Addcmul {
  Params p;
  template <Number T>
  T operator()(T a, T b, T c) const {
    return plus(a, times(argument<T>(p, 0), times(b, c)));
  }
};
struct Conj {
  template <Real T>
  T operator()(T a) const {
    return a;
  }
  bool operator()(bool a) const { return a; }
  template <Complex T>
  T operator()(T a) const {
    return {a.real(), -a.imag()};
  }
};
struct RealPart {
  template <Complex T>
  typename T::value_type operator()(T a) const {
    return a.real();
  }
};
struct ImagPart {
  template <Complex T>
  typename T::value_type operator()(T a) const {
    return a.imag();
  }
};

// alpha is nearly always one: then the loop has no multiplication.
template <class Plain, class WithAlpha, class T>
HWY_ATTR void maybe_alpha(const void* const* in, void* const* out, int64_t n, const void* params) {
  params ? map2<WithAlpha, T>(in, out, n, params) : map2<Plain, T>(in, out, n, nullptr);
}
template <class Plain, class WithAlpha>
constexpr Row with_alpha(std::string_view name) {
  Row r{name, {}};
  auto put = [&r]<class T>(T, DType unsigned_twin = DType::undefined) {
    if constexpr (requires(Plain op, T x) { op(x, x); }) {
      r.loops[compute_index(dtype_of<T>)] = maybe_alpha<Plain, WithAlpha, T>;
      if (unsigned_twin != DType::undefined)
        r.loops[compute_index(unsigned_twin)] = maybe_alpha<Plain, WithAlpha, T>;
    }
  };
  put(bool{}), put(int8_t{}, DType::uint8), put(int16_t{}, DType::uint16), put(int32_t{}, DType::uint32);
  put(int64_t{}, DType::uint64), put(float{}), put(double{}), put(std::complex<float>{});
  put(std::complex<double>{});
  return r;
}

template <class T>
HWY_ATTR void fill(const void* const*, void* const* out, int64_t n, const void* params) {
  const T value = params ? argument<T>(*static_cast<const Params*>(params), 0) : T(1);
  T* r = static_cast<T*>(out[0]);
  for (int64_t i = 0; i < n; ++i) r[i] = value;
}

// One element, again and again. Of the same vectors as the loops that read it: narrower stores would make
// their loads wait.
template <class T>
HWY_ATTR void spread(const void* const* in, void* const* out, int64_t n, const void*) {
  const T value = *static_cast<const T*>(in[0]);
  T* r = static_cast<T*>(out[0]);
  for (int64_t i = 0; i < n; ++i) r[i] = value;
}

constexpr Row kRows[] = {
    {"spread",
     {spread<bool>, spread<uint8_t>, spread<int8_t>, spread<int16_t>, spread<int32_t>, spread<int64_t>,
      spread<uint16_t>, spread<uint32_t>, spread<uint64_t>, spread<float>, spread<double>,
      spread<std::complex<float>>, spread<std::complex<double>>}},
    {"fill",
     {fill<bool>, fill<uint8_t>, fill<int8_t>, fill<int16_t>, fill<int32_t>, fill<int64_t>, fill<uint16_t>,
      fill<uint32_t>, fill<uint64_t>, fill<float>, fill<double>, fill<std::complex<float>>,
      fill<std::complex<double>>}},
    with_alpha<Add, AddAlpha>("add"),
    with_alpha<Sub, SubAlpha>("sub"),
    ring<Rsub, 2>("rsub"),
    ring<Mul, 2>("mul"),
    ring<AddScalar, 1>("add_scalar"),
    ring<SubScalar, 1>("sub_scalar"),
    ring<RsubScalar, 1>("rsub_scalar"),
    ring<MulScalar, 1>("mul_scalar"),
    ring<Neg, 1>("neg"),
    ring<Positive, 1>("positive"),
    ring<Positive, 1>("copy"),
    ring<Square, 1>("square"),
    ring<SquaredDifference, 2>("squared_difference"),
    ring<Fma, 3>("fma"),
    ring<Addcmul, 3>("addcmul"),
    ring<Conj, 1>("conj"),
    unary<RealPart>("real"),
    unary<ImagPart>("imag"),
};

}  // namespace

Rows get_arithmetic_rows() { return kRows; }

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(get_arithmetic_rows);
Rows arithmetic_rows() { return HWY_DYNAMIC_DISPATCH(get_arithmetic_rows)(); }
}  // namespace tern::kernels
#endif
