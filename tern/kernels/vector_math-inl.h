// Elementary functions on float vectors with every edge right: lanes outside of the fast range of Highway's
// functions (NaN, infinities, overflow) are computed by the C library.
#if defined(TERN_KERNELS_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_KERNELS_VECTOR_MATH_INL_H_
#undef TERN_KERNELS_VECTOR_MATH_INL_H_
#else
#define TERN_KERNELS_VECTOR_MATH_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Df = hn::ScalableTag<float>;
using Vf = hn::Vec<Df>;
inline constexpr Df df;
inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kMax = std::numeric_limits<float>::max();

HWY_ATTR inline Vf all(float x) { return hn::Set(df, x); }

// x between two bounds; NaN stays. x86's minimum and maximum give their second argument where one is NaN,
// NEON's the number.
HWY_ATTR HWY_INLINE Vf clamped(Vf x, float lo, float hi) {
#if HWY_TARGET == HWY_NEON
  const Vf above = hn::IfThenElse(hn::Lt(x, all(lo)), all(lo), x);
  return hn::IfThenElse(hn::Gt(above, all(hi)), all(hi), above);
#else
  return hn::Min(all(hi), hn::Max(all(lo), x));
#endif
}

template <class Mask>
HWY_ATTR HWY_NOINLINE Vf repair(Vf x, Vf y, Mask good, float (*exact)(float)) {
  float xs[hn::MaxLanes(df)], ys[hn::MaxLanes(df)], ok[hn::MaxLanes(df)];
  hn::StoreU(x, df, xs);
  hn::StoreU(y, df, ys);
  hn::StoreU(hn::IfThenElseZero(good, all(1)), df, ok);
  for (size_t i = 0; i < hn::Lanes(df); ++i)
    if (ok[i] == 0) ys[i] = exact(xs[i]);
  return hn::LoadU(df, ys);
}
// y where lo <= x <= hi; elsewhere, NaN included, the exact function.
HWY_ATTR HWY_INLINE Vf within(float lo, float hi, Vf x, Vf y, float (*exact)(float)) {
  const auto good = hn::And(hn::Ge(x, all(lo)), hn::Le(x, all(hi)));
  return HWY_LIKELY(hn::AllTrue(df, good)) ? y : repair(x, y, good, exact);
}

// exp for any x, without a branch: the bounds saturate to 0 and infinity, NaN stays.
HWY_ATTR HWY_INLINE Vf exp_any(Vf x) {
  const Vf bounded = hn::Min(hn::Max(x, all(-105.0f)), all(104.0f));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(df, bounded));
}
HWY_ATTR HWY_INLINE Vf log_any(Vf x) {
  return within(std::numeric_limits<float>::min(), kMax, x, hn::Log(df, x),
                [](float v) { return std::log(v); });
}
HWY_ATTR HWY_INLINE Vf log1p_any(Vf x) {
  return within(0.0f, kMax, x, hn::Log1p(df, x), [](float v) { return std::log1p(v); });
}
HWY_ATTR HWY_INLINE Vf tanh_any(Vf x) {
  const Vf bounded = hn::Min(hn::Max(x, all(-20.0f)), all(20.0f));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(df, bounded));
}
// 1 / (1 + exp(-x)): below -80 exp is nothing beside 1, and above 89 it is infinite. The polynomial, fitted
// for Tern, is exp on half an octave to a twentieth of the last place; a factor of two stays aside, so that
// the scale reaches 2^128 without overflowing itself.
HWY_ATTR HWY_INLINE Vf sigmoid_any(Vf x) {
  const hn::RebindToSigned<Df> di;
  const Vf z = clamped(hn::Neg(x), -80.0f, 89.0f);
  const Vf octave = hn::Round(hn::Mul(z, all(1.44269504f)));
  const Vf r = hn::NegMulAdd(octave, all(-2.12194440e-4f), hn::NegMulAdd(octave, all(0.693359375f), z));
  Vf p = all(1.381454058e-03f);
  p = hn::MulAdd(p, r, all(8.368745446e-03f));
  p = hn::MulAdd(p, r, all(4.166838899e-02f));
  p = hn::MulAdd(p, r, all(1.666652113e-01f));
  p = hn::MulAdd(p, r, all(4.999999404e-01f));
  p = hn::Add(hn::MulAdd(hn::Mul(p, r), r, r), all(1));  // 1 comes last: one rounding at its size
  const Vf scale = hn::BitCast(df, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, octave), hn::Set(di, 126))));
  return hn::Div(all(1), hn::MulAdd(hn::Add(p, p), scale, all(1)));
}

// Two fits made for Tern: x·P(x²) near zero, 1 - exp(-Q(|x|)) outside.
HWY_ATTR HWY_INLINE Vf erf_any(Vf x) {
  const Vf a = hn::Abs(x), s = hn::Mul(x, x);
  Vf p = all(8.362306832e-05f);
  p = hn::MulAdd(p, s, all(-8.141480226e-04f));
  p = hn::MulAdd(p, s, all(5.200989967e-03f));
  p = hn::MulAdd(p, s, all(-2.685941348e-02f));
  p = hn::MulAdd(p, s, all(1.128369650e-01f));
  p = hn::MulAdd(p, s, all(-3.761263386e-01f));
  p = hn::MulAdd(p, s, all(1.283791667e-01f));
  const Vf near = hn::MulAdd(p, x, x);
  const Vf b = hn::Min(a, all(4.0f));
  Vf q = all(2.082791053e-05f);
  q = hn::MulAdd(q, b, all(-4.313846893e-04f));
  q = hn::MulAdd(q, b, all(4.156209123e-03f));
  q = hn::MulAdd(q, b, all(-2.508049027e-02f));
  q = hn::MulAdd(q, b, all(1.082201829e-01f));
  q = hn::MulAdd(q, b, all(6.334010367e-01f));
  q = hn::MulAdd(q, b, all(1.129488314e+00f));
  q = hn::MulAdd(q, b, all(-1.691860102e-04f));
  const Vf far = hn::CopySign(hn::Sub(all(1), hn::Exp(df, hn::Neg(q))), x);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::Lt(a, all(0.92f)), near, far));
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
