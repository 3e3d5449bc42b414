// Conversion between element types. int64, float and double convert to and from every compute type, the
// narrow floats to and from float, complex32 to and from complex64; the other pairs go through one of these
// in a small buffer.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/cast.cpp"
#include "tern/kernels/targets.h"
#undef HWY_DISABLED_TARGETS  // conversions are bound by memory: AVX-512 buys nothing
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)

#include <hwy/foreach_target.h>

#include <algorithm>
#include <tuple>

#include "tern/base/format.h"

#include "tern/kernels/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class To, class From>
HWY_ATTR inline To convert(From x) {
  if constexpr (std::same_as<To, From>)
    return x;
  else if constexpr (Complex<From> && Bool<To>)
    return (x.real() != 0) | (x.imag() != 0);
  else if constexpr (Complex<From> && Complex<To>)
    return To(x);
  else if constexpr (Complex<From>)
    return convert<To>(x.real());
  else if constexpr (Complex<To>)
    return To(static_cast<typename To::value_type>(x));
  else if constexpr (Bool<To>)
    return x != 0;
  else if constexpr (Float<From> && Int<To> && sizeof(To) < 4)
    return static_cast<To>(static_cast<int32_t>(x));  // wraps, as the machine's conversion does
  else if constexpr (Float<From> && std::same_as<To, uint32_t>)
    return static_cast<To>(static_cast<int64_t>(x));
  else
    return static_cast<To>(x);
}

template <class From, class To>
HWY_ATTR void cast(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  const From* s = static_cast<const From*>(from);
  To* d = static_cast<To*>(to);
  if (to_stride == 1 && from_stride == 1) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) d[i] = convert<To>(s[i]);
  } else if (to_stride == 1 && from_stride == 0) {
    const To value = convert<To>(*s);
    for (int64_t i = 0; i < n; ++i) d[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) d[i * to_stride] = convert<To>(s[i * from_stride]);
  }
}

HWY_ATTR void half_to_float(const Half* s, float* d, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
  const hn::ScalableTag<float> df;
  const hn::Rebind<hwy::float16_t, decltype(df)> dh;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(s + i))), df, d + i);
#endif
  for (; i < n; ++i) d[i] = s[i];
}
HWY_ATTR void float_to_half(const float* s, Half* d, int64_t n) {
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_NEON
  const hn::ScalableTag<float> df;
  const hn::Rebind<hwy::float16_t, decltype(df)> dh;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::DemoteTo(dh, hn::LoadU(df, s + i)), dh, reinterpret_cast<hwy::float16_t*>(d + i));
#endif
  for (; i < n; ++i) d[i] = Half(s[i]);
}

template <class Narrow>
HWY_ATTR void widen(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  const Narrow* s = static_cast<const Narrow*>(from);
  float* d = static_cast<float*>(to);
  if (from_stride == 0 && to_stride == 1) {
    std::fill_n(d, n, static_cast<float>(*s));
  } else if (from_stride == 1 && to_stride == 1) {
    if constexpr (std::same_as<Narrow, Half>) {
      half_to_float(s, d, n);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) d[i] = s[i];
    }
  } else {
    for (int64_t i = 0; i < n; ++i) d[i * to_stride] = s[i * from_stride];
  }
}
template <class Narrow>
HWY_ATTR void narrow(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  const float* s = static_cast<const float*>(from);
  Narrow* d = static_cast<Narrow*>(to);
  if (from_stride == 0 && to_stride == 1) {
    std::fill_n(d, n, Narrow(*s));
  } else if (from_stride == 1 && to_stride == 1) {
    if constexpr (std::same_as<Narrow, Half>) {
      float_to_half(s, d, n);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < n; ++i) d[i] = Narrow(s[i]);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) d[i * to_stride] = Narrow(s[i * from_stride]);
  }
}

using ComplexFloat = std::complex<float>;
HWY_ATTR void widen_pair(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  const ComplexHalf* s = static_cast<const ComplexHalf*>(from);
  ComplexFloat* d = static_cast<ComplexFloat*>(to);
  for (int64_t i = 0; i < n; ++i) {
    const ComplexHalf& x = s[i * from_stride];
    d[i * to_stride] = {x.real(), x.imag()};
  }
}
HWY_ATTR void narrow_pair(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  const ComplexFloat* s = static_cast<const ComplexFloat*>(from);
  ComplexHalf* d = static_cast<ComplexHalf*>(to);
  for (int64_t i = 0; i < n; ++i) {
    const ComplexFloat x = s[i * from_stride];
    d[i * to_stride] = {Half(x.real()), Half(x.imag())};
  }
}

// From -> Middle -> To, 256 elements at a time; the middle type holds every value that To can tell apart.
constexpr int64_t kBuffer = 256;
template <class Middle>
HWY_ATTR void through(Cast first, Cast second, int64_t from_width, int64_t to_width, const void* from,
                      int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  Middle buffer[kBuffer];
  if (from_stride == 0) first(from, 0, buffer, 1, std::min(kBuffer, n));
  for (int64_t i = 0; i < n; i += kBuffer) {
    const int64_t m = std::min(kBuffer, n - i);
    if (from_stride != 0)
      first(static_cast<const char*>(from) + i * from_stride * from_width, from_stride, buffer, 1, m);
    second(buffer, 1, static_cast<char*>(to) + i * to_stride * to_width, to_stride, m);
  }
}
template <class Middle, Cast First, Cast Second, class From, class To>
HWY_ATTR void through(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  through<Middle>(First, Second, sizeof(From), sizeof(To), from, from_stride, to, to_stride, n);
}
template <class T>
HWY_ATTR void same_bits(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  const T* s = static_cast<const T*>(from);
  T* d = static_cast<T*>(to);
  if (from_stride == 1 && to_stride == 1) {
    std::copy_n(s, n, d);
  } else if (from_stride == 0 && to_stride == 1) {
    const T value = *s;
    for (int64_t i = 0; i < n; ++i) d[i] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) d[i * to_stride] = s[i * from_stride];
  }
}

using Wide = std::tuple<bool, uint8_t, int8_t, int16_t, int32_t, int64_t, uint16_t, uint32_t, uint64_t, float,
                        double, std::complex<float>, std::complex<double>>;
using Narrows =
    std::tuple<Half, BFloat16, Float8E5M2, Float8E4M3FN, Float8E5M2FNUZ, Float8E4M3FNUZ, ComplexHalf>;
constexpr int kWide = 13, kPair = 11, kNarrowPair = 19, kAll = 20;
static_assert(std::same_as<std::tuple_element_t<kPair, Wide>, ComplexFloat>);

template <int I>
struct TypeAt : std::tuple_element<I - kWide, Narrows> {};
template <int I>
requires(I < kWide) struct TypeAt<I> : std::tuple_element<I, Wide> {
};
template <int I>
using Type = typename TypeAt<I>::type;

template <class T>
inline constexpr bool is_hub = std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, int64_t>;

template <class From, class To>
constexpr Cast wide_cast() {
  if constexpr (std::same_as<From, To>)
    return same_bits<From>;
  else if constexpr (is_hub<From> || is_hub<To>)
    return cast<From, To>;
  else if constexpr (Complex<From> && (Complex<To> || Bool<To>))
    return cast<From, To>;
  else if constexpr (Complex<From>) {
    using Middle = typename From::value_type;
    return through<Middle, cast<From, Middle>, cast<Middle, To>, From, To>;
  } else if constexpr (Complex<To>) {
    using Middle = typename To::value_type;
    return through<Middle, cast<From, Middle>, cast<Middle, To>, From, To>;
  } else {
    return through<int64_t, cast<From, int64_t>, cast<int64_t, To>, From, To>;
  }
}

template <int F, int T>
constexpr Cast cast_between() {
  using From = Type<F>;
  using To = Type<T>;
  if constexpr (F < kWide && T < kWide)
    return wide_cast<From, To>();
  else if constexpr (F == T)
    return same_bits<From>;
  else if constexpr (F == kNarrowPair && T == kPair)
    return widen_pair;
  else if constexpr (F == kPair && T == kNarrowPair)
    return narrow_pair;
  else if constexpr (F == kNarrowPair)
    return through<ComplexFloat, widen_pair, cast_between<kPair, T>(), From, To>;
  else if constexpr (T == kNarrowPair)
    return through<ComplexFloat, cast_between<F, kPair>(), narrow_pair, From, To>;
  else if constexpr (F < kWide && std::same_as<From, float>)
    return narrow<To>;
  else if constexpr (T < kWide && std::same_as<To, float>)
    return widen<From>;
  else if constexpr (F < kWide)
    return through<float, cast<From, float>, narrow<To>, From, To>;
  else if constexpr (T < kWide)
    return through<float, widen<From>, cast<float, To>, From, To>;
  else
    return through<float, widen<From>, narrow<To>, From, To>;
}

struct CastTable {
  Cast casts[kAll * kAll];
};
template <int... I>
constexpr CastTable make_casts(std::integer_sequence<int, I...>) {
  return {{cast_between<I / kAll, I % kAll>()...}};
}
constexpr CastTable kCasts = make_casts(std::make_integer_sequence<int, kAll * kAll>());

}  // namespace

const Cast* get_casts() { return kCasts.casts; }

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(get_casts);

Cast find_cast(DType from, DType to) {
  static const Cast* const casts = HWY_DYNAMIC_DISPATCH(get_casts)();
  auto index = [](DType t) {
    if (int i = compute_index(t); i >= 0) return i;
    switch (t) {
      case DType::float16:
        return 13;
      case DType::bfloat16:
        return 14;
      case DType::float8_e5m2:
        return 15;
      case DType::float8_e4m3fn:
        return 16;
      case DType::float8_e5m2fnuz:
        return 17;
      case DType::float8_e4m3fnuz:
        return 18;
      case DType::complex32:
        return 19;
      default:
        failf(ErrorKind::not_supported, "no kernel works on elements of type {}", name(t));
    }
  };
  return casts[index(from) * 20 + index(to)];
}

}  // namespace tern::kernels
#endif
