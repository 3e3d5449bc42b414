// Functions of two numbers that the C library computes one by one: remainders and angles in float and double,
// powers in float. Lanes outside of the fast range are left to the C library; machines without fused
// multiply-add use loops_scalar.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/loops_pairs.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tern/kernels/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
template <class T>
using Vec = hn::Vec<Tag<T>>;
template <class T>
HWY_ATTR HWY_INLINE Vec<T> all(double x) {
  return hn::Set(Tag<T>(), static_cast<T>(x));
}

template <class T, class Mask>
HWY_ATTR HWY_NOINLINE Vec<T> repair(Vec<T> x, Vec<T> y, Vec<T> r, Mask good, T (*exact)(T, T)) {
  const Tag<T> d;
  T xs[hn::MaxLanes(d)], ys[hn::MaxLanes(d)], rs[hn::MaxLanes(d)], ok[hn::MaxLanes(d)];
  hn::StoreU(x, d, xs);
  hn::StoreU(y, d, ys);
  hn::StoreU(r, d, rs);
  hn::StoreU(hn::IfThenElseZero(good, all<T>(1)), d, ok);
  for (size_t i = 0; i < hn::Lanes(d); ++i)
    if (ok[i] == 0) rs[i] = exact(xs[i], ys[i]);
  return hn::LoadU(d, rs);
}
// r where `good` says so, else the exact function.
template <class T, class Mask>
HWY_ATTR HWY_INLINE Vec<T> where_good(Mask good, Vec<T> x, Vec<T> y, Vec<T> r, T (*exact)(T, T)) {
  return HWY_LIKELY(hn::AllTrue(Tag<T>(), good)) ? r : repair<T>(x, y, r, good, exact);
}

// The remainder of |x| by |y| with the sign of x. A whole quotient below this bound is exact or one too much,
// and then so is its product in the fused multiply-add.
template <class T>
inline constexpr T kWhole = std::same_as<T, float> ? T(1 << 22) : T(int64_t{1} << 51);
template <class T>
HWY_ATTR HWY_INLINE Vec<T> remainder_of(Vec<T> x, Vec<T> y, hn::Mask<Tag<T>>& good) {
  const Vec<T> a = hn::Abs(x), b = hn::Abs(y), q = hn::Div(a, b);
  good = hn::Lt(q, all<T>(kWhole<T>));  // not for NaN, nor for y = 0
  Vec<T> r = hn::NegMulAdd(hn::Trunc(q), b, a);
  r = hn::IfThenElse(hn::Lt(r, hn::Zero(Tag<T>())), hn::Add(r, b), r);
  r = hn::IfThenElse(hn::Ge(r, b), hn::Sub(r, b), r);
  r = hn::IfThenElse(hn::Lt(a, b), a, r);  // y may be infinite
  return hn::CopySign(r, x);
}
template <class T>
HWY_ATTR HWY_INLINE hn::Mask<Tag<T>> wrong_side(Vec<T> mod, Vec<T> y) {
  const Vec<T> zero = hn::Zero(Tag<T>());
  return hn::And(hn::Ne(mod, zero), hn::Xor(hn::Lt(y, zero), hn::Lt(mod, zero)));
}

struct Fmod {
  template <class T>
  static T exact(T a, T b) {
    return std::fmod(a, b);
  }
  template <class T>
  HWY_ATTR static Vec<T> vector(Vec<T> x, Vec<T> y) {
    hn::Mask<Tag<T>> good;
    const Vec<T> r = remainder_of<T>(x, y, good);
    return where_good<T>(good, x, y, r, exact<T>);
  }
};
struct Remainder {
  template <class T>
  static T exact(T a, T b) {
    const T mod = std::fmod(a, b);
    return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
  }
  template <class T>
  HWY_ATTR static Vec<T> vector(Vec<T> x, Vec<T> y) {
    hn::Mask<Tag<T>> good;
    const Vec<T> mod = remainder_of<T>(x, y, good);
    return where_good<T>(good, x, y, hn::IfThenElse(wrong_side<T>(mod, y), hn::Add(mod, y), mod), exact<T>);
  }
};
// Python's rule: the quotient that belongs to the remainder, corrected for rounding.
struct DivFloor {
  template <class T>
  static T exact(T a, T b) {
    if (b == 0) return a / b;
    const T mod = std::fmod(a, b);
    T div = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
    if (div == 0) return std::copysign(T(0), a / b);
    const T floored = std::floor(div);
    return div - floored > T(0.5) ? floored + 1 : floored;
  }
  template <class T>
  HWY_ATTR static Vec<T> vector(Vec<T> x, Vec<T> y) {
    hn::Mask<Tag<T>> good;
    const Vec<T> mod = remainder_of<T>(x, y, good), one = all<T>(1);
    Vec<T> div = hn::Div(hn::Sub(x, mod), y);
    div = hn::IfThenElse(wrong_side<T>(mod, y), hn::Sub(div, one), div);
    Vec<T> r = hn::Floor(div);
    r = hn::IfThenElse(hn::Gt(hn::Sub(div, r), all<T>(0.5)), hn::Add(r, one), r);
    const Vec<T> zero = hn::Zero(Tag<T>());
    r = hn::IfThenElse(hn::Eq(div, zero), hn::CopySign(zero, hn::Div(x, y)), r);
    return where_good<T>(good, x, y, r, exact<T>);
  }
};

// atan(t) = t + t·s·P(s) with s = t², for 0 <= t <= 1: fits at Chebyshev's points.
template <class T>
inline constexpr double kAtan[] = {
    -0.3333333333333333332,     0.19999999999999985468,   -0.14285714285711716661,
    0.11111111110929806408,     -0.090909090840935051228, 0.076923075343699855156,
    -0.066666642034786070764,   0.058823255392006898755,  -0.052629313805217793079,
    0.047604710493954618277,    -0.043407182638729705092, 0.039719081069244520499,
    -0.036139320776507192567,   0.032135441333078264883,  -0.027181553330815640043,
    0.021121594179966983837,    -0.014503079564732732559, 0.0084498924039703698471,
    -0.0040002096799068220347,  0.0014617449054205384161, -0.0003839403797299946937,
    0.000064175249658665642802, -5.1088410388226668214e-6};
template <>
inline constexpr double kAtan<float>[] = {
    -0.33333331733063519761,  0.1999973932983557974,    -0.1427856874821060189,
    0.11033764115313455296,   -0.086568804301545214717, 0.062501694447495631537,
    -0.035871538982043358001, 0.01350777142702053539,   -0.0023869973167241132071};

struct Atan2 {
  template <class T>
  HWY_ATTR static Vec<T> vector(Vec<T> y, Vec<T> x) {
    constexpr double kPi = 3.14159265358979323846;
    // What T cannot hold of π/2 and π.
    constexpr double low = std::same_as<T, float> ? kPi - static_cast<double>(static_cast<float>(kPi))
                                                  : 1.2246467991473531772e-16;
    const Tag<T> d;
    const Vec<T> ax = hn::Abs(x), ay = hn::Abs(y), big = hn::Max(ax, ay), small = hn::Min(ax, ay);
    Vec<T> t = hn::Div(small, big);
    t = hn::IfThenElse(hn::Eq(big, hn::Zero(d)), hn::Zero(d), t);
    t = hn::IfThenElse(hn::Eq(small, all<T>(std::numeric_limits<double>::infinity())), all<T>(1), t);
    const Vec<T> s = hn::Mul(t, t);
    constexpr int terms = static_cast<int>(std::size(kAtan<T>));
    Vec<T> p = all<T>(kAtan<T>[terms - 1]);
    for (int k = terms - 2; k >= 0; --k) p = hn::MulAdd(p, s, all<T>(kAtan<T>[k]));
    Vec<T> r = hn::MulAdd(hn::Mul(p, s), t, t);
    r = hn::IfThenElse(hn::Gt(ay, ax), hn::Sub(all<T>(kPi / 2), hn::Sub(r, all<T>(low / 2))), r);
    // The sign bit, so that -0 counts as negative.
    const auto left = hn::And(hn::Lt(hn::CopySign(all<T>(1), x), hn::Zero(d)),
                              hn::Or(hn::Gt(ax, hn::Zero(d)), hn::Eq(ay, hn::Zero(d))));
    r = hn::IfThenElse(left, hn::Sub(all<T>(kPi), hn::Sub(r, all<T>(low))), r);
    const auto unordered = hn::Or(hn::IsNaN(x), hn::IsNaN(y));
    return hn::IfThenElse(unordered, hn::Add(x, y), hn::CopySign(r, y));
  }
};

// Powers of floats by way of doubles: 2^(y·log2 x), rounded once.
using Wide = hn::ScalableTag<double>;
using Half = hn::Rebind<float, Wide>;
using HalfInt = hn::Rebind<int32_t, Wide>;

HWY_ATTR HWY_INLINE hn::Vec<Half> power_half(hn::Vec<Half> mantissa, hn::Vec<HalfInt> exponent,
                                             hn::Vec<Half> y, hn::Mask<Half>& good) {
  const Wide d;
  const auto one = hn::Set(d, 1.0), m = hn::PromoteTo(d, mantissa);
  const auto s = hn::Div(hn::Sub(m, one), hn::Add(m, one)), q = hn::Mul(s, s);
  auto p = hn::Set(d, 0.28288502340748235535);
  p = hn::MulAdd(p, q, hn::Set(d, 0.31990680380701337293));
  p = hn::MulAdd(p, q, hn::Set(d, 0.41220922406110435187));
  p = hn::MulAdd(p, q, hn::Set(d, 0.57707794266030446849));
  p = hn::MulAdd(p, q, hn::Set(d, 0.96179669411226483479));
  p = hn::MulAdd(p, q, hn::Set(d, 2.8853900817778506232));
  const auto log2 = hn::MulAdd(p, s, hn::PromoteTo(d, exponent));
  const auto e = hn::Mul(hn::PromoteTo(d, y), log2);
  const auto inside = hn::Lt(hn::Abs(e), hn::Set(d, 126.0));
  const auto bounded = hn::IfThenElseZero(inside, e), whole = hn::Round(bounded), f = hn::Sub(bounded, whole);
  auto r = hn::Set(d, 0.000015303700711365693939);
  r = hn::MulAdd(r, f, hn::Set(d, 0.00015469729214118297093));
  r = hn::MulAdd(r, f, hn::Set(d, 0.0013333478473685415281));
  r = hn::MulAdd(r, f, hn::Set(d, 0.0096180256133180342494));
  r = hn::MulAdd(r, f, hn::Set(d, 0.055504109063258666119));
  r = hn::MulAdd(r, f, hn::Set(d, 0.24022651213498092661));
  r = hn::MulAdd(r, f, hn::Set(d, 0.69314718055683241353));
  r = hn::MulAdd(r, f, hn::Set(d, 0.99999999995956175074));
  const HalfInt di;
  const auto scale =
      hn::BitCast(Half(), hn::ShiftLeft<23>(hn::Add(hn::DemoteTo(di, whole), hn::Set(di, 127))));
  good = hn::Gt(hn::DemoteTo(Half(), hn::IfThenElseZero(inside, one)), hn::Zero(Half()));
  return hn::Mul(hn::DemoteTo(Half(), r), scale);
}

struct Pow {
  static float exact(float a, float b) { return std::pow(a, b); }

  HWY_ATTR static Vec<float> vector(Vec<float> x, Vec<float> y) {
    const Tag<float> d;
    const hn::RebindToSigned<Tag<float>> di;
    const Vec<float> a = hn::Abs(x), zero = hn::Zero(d);
    // a = m·2^k with m between √½ and √2.
    const auto bits = hn::BitCast(di, a);
    const auto k = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
    const Vec<float> m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(k)));
    const Half dh;
    const HalfInt dhi;
    hn::Mask<Half> low_good, high_good;
    const auto low = power_half(hn::LowerHalf(dh, m), hn::LowerHalf(dhi, k), hn::LowerHalf(dh, y), low_good);
    const auto high =
        power_half(hn::UpperHalf(dh, m), hn::UpperHalf(dhi, k), hn::UpperHalf(dh, y), high_good);
    const auto one = hn::Set(dh, 1.0f);
    const Vec<float> inside =
        hn::Combine(d, hn::IfThenElseZero(high_good, one), hn::IfThenElseZero(low_good, one));
    Vec<float> r = hn::Combine(d, high, low);
    auto good =
        hn::And(hn::Gt(inside, zero), hn::And(hn::Ge(a, hn::Set(d, std::numeric_limits<float>::min())),
                                              hn::Le(a, hn::Set(d, std::numeric_limits<float>::max()))));
    // Zero, to any finite power.
    const auto nothing = hn::Eq(x, zero);
    const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
    const Vec<float> of_zero =
        hn::IfThenElse(hn::Gt(y, zero), zero, hn::IfThenElse(hn::Lt(y, zero), infinity, hn::Set(d, 1.0f)));
    r = hn::IfThenElse(nothing, of_zero, r);
    good = hn::Or(good, hn::And(nothing, hn::Lt(hn::Abs(y), infinity)));
    // A negative number has odd and even powers, and no others.
    const auto negative = hn::Lt(hn::CopySign(hn::Set(d, 1.0f), x), zero);
    if (HWY_UNLIKELY(!hn::AllFalse(d, negative))) {
      const Vec<float> half = hn::Mul(y, hn::Set(d, 0.5f));
      const auto whole = hn::Eq(hn::Round(y), y), even = hn::Eq(hn::Round(half), half);
      const auto odd = hn::AndNot(even, whole);
      r = hn::IfThenElse(hn::And(negative, odd), hn::Neg(r), r);
      const auto undefined = hn::And(hn::And(negative, hn::Lt(x, zero)), hn::Not(whole));
      r = hn::IfThenElse(undefined, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), r);
    }
    return where_good<float>(good, x, y, r, exact);
  }
};

template <class Op, class T>
HWY_ATTR void pairs(const void* const* in, void* const* out, int64_t n, const void*) {
  const Tag<T> d;
  const T* a = static_cast<const T*>(in[0]);
  const T* b = static_cast<const T*>(in[1]);
  T* r = static_cast<T*>(out[0]);
  auto run = [](Vec<T> x, Vec<T> y) HWY_ATTR {
    if constexpr (requires { Op::template vector<T>(x, y); })
      return Op::template vector<T>(x, y);
    else
      return Op::vector(x, y);
  };
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(run(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, r + i);
  if (i < n) {
    T ta[hn::MaxLanes(d)], tb[hn::MaxLanes(d)];
    hn::StoreU(all<T>(1), d, ta);  // in the fast range of every function
    hn::StoreU(all<T>(1), d, tb);
    std::memcpy(ta, a + i, static_cast<size_t>(n - i) * sizeof(T));
    std::memcpy(tb, b + i, static_cast<size_t>(n - i) * sizeof(T));
    hn::StoreU(run(hn::LoadU(d, ta), hn::LoadU(d, tb)), d, ta);
    std::memcpy(r + i, ta, static_cast<size_t>(n - i) * sizeof(T));
  }
}

// One side is a number. Common exponents need no logarithm.
template <class F>
HWY_ATTR HWY_INLINE void each(const void* const* in, void* const* out, int64_t n, F f) {
  const Tag<float> d;
  const float* a = static_cast<const float*>(in[0]);
  float* r = static_cast<float*>(out[0]);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(hn::LoadU(d, a + i)), d, r + i);
  if (i < n) {
    float tail[hn::MaxLanes(d)];
    hn::StoreU(all<float>(1), d, tail);
    std::memcpy(tail, a + i, static_cast<size_t>(n - i) * sizeof(float));
    hn::StoreU(f(hn::LoadU(d, tail)), d, tail);
    std::memcpy(r + i, tail, static_cast<size_t>(n - i) * sizeof(float));
  }
}
HWY_ATTR void pow_scalar(const void* const* in, void* const* out, int64_t n, const void* params) {
  const double e = params ? static_cast<const Params*>(params)->d[0] : 1;
  const Vec<float> one = all<float>(1), y = all<float>(e);
  if (e == 2) return each(in, out, n, [](Vec<float> x) HWY_ATTR { return hn::Mul(x, x); });
  if (e == 3) return each(in, out, n, [](Vec<float> x) HWY_ATTR { return hn::Mul(hn::Mul(x, x), x); });
  if (e == 1) return each(in, out, n, [](Vec<float> x) HWY_ATTR { return x; });
  if (e == 0.5) return each(in, out, n, [](Vec<float> x) HWY_ATTR { return hn::Sqrt(x); });
  if (e == -1) return each(in, out, n, [one](Vec<float> x) HWY_ATTR { return hn::Div(one, x); });
  if (e == -0.5) return each(in, out, n, [one](Vec<float> x) HWY_ATTR { return hn::Div(one, hn::Sqrt(x)); });
  if (e == -2) return each(in, out, n, [one](Vec<float> x) HWY_ATTR { return hn::Div(one, hn::Mul(x, x)); });
  each(in, out, n, [y](Vec<float> x) HWY_ATTR { return Pow::vector(x, y); });
}
HWY_ATTR void rpow_scalar(const void* const* in, void* const* out, int64_t n, const void* params) {
  const Vec<float> base = all<float>(params ? static_cast<const Params*>(params)->d[0] : 1);
  each(in, out, n, [base](Vec<float> x) HWY_ATTR { return Pow::vector(base, x); });
}

template <class Op>
constexpr Row both(std::string_view name) {
  Row r{name, {}};
  r.loops[compute_index(kFloat)] = pairs<Op, float>;
  r.loops[compute_index(kDouble)] = pairs<Op, double>;
  return r;
}
constexpr Row only_float(std::string_view name, Loop loop) {
  Row r{name, {}};
  r.loops[compute_index(kFloat)] = loop;
  return r;
}

constexpr Row kRows[] = {
    both<Fmod>("fmod"),
    both<Remainder>("remainder"),
    both<DivFloor>("div_floor"),
    both<Atan2>("atan2"),
    only_float("pow", pairs<Pow, float>),
    only_float("pow_scalar", pow_scalar),
    only_float("rpow_scalar", rpow_scalar),
};

}  // namespace

Rows get_pairs_rows() { return kRows; }
#else
Rows get_pairs_rows() { return {}; }
#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(get_pairs_rows);
Rows pairs_rows() { return HWY_DYNAMIC_DISPATCH(get_pairs_rows)(); }
}  // namespace tern::kernels
#endif
