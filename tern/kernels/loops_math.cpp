// Transcendental operators on float, vectorised. Other types, and machines without fused multiply-add, use
// loops_scalar.cpp.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/loops_math.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>

#include <cstring>

#include "tern/kernels/loops-inl.h"
#include "tern/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
#if HWY_NATIVE_FMA
namespace {

template <class Op>
HWY_ATTR void vector1(const void* const* in, void* const* out, int64_t n, const void* params) {
  const Op op = make_op<Op>(params);
  const float* a = static_cast<const float*>(in[0]);
  float* r = static_cast<float*>(out[0]);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(op(hn::LoadU(df, a + i)), df, r + i);
  if (i < n) {
    float tail[hn::MaxLanes(df)];
    hn::StoreU(all(1), df, tail);  // a number in the fast range of every function
    std::memcpy(tail, a + i, (n - i) * sizeof(float));
    hn::StoreU(op(hn::LoadU(df, tail)), df, tail);
    std::memcpy(r + i, tail, (n - i) * sizeof(float));
  }
}
template <class Op>
HWY_ATTR void vector2(const void* const* in, void* const* out, int64_t n, const void* params) {
  const Op op = make_op<Op>(params);
  const float* a = static_cast<const float*>(in[0]);
  const float* b = static_cast<const float*>(in[1]);
  float* r = static_cast<float*>(out[0]);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(op(hn::LoadU(df, a + i), hn::LoadU(df, b + i)), df, r + i);
  if (i < n) {
    float ta[hn::MaxLanes(df)] = {}, tb[hn::MaxLanes(df)] = {};
    std::memcpy(ta, a + i, (n - i) * sizeof(float));
    std::memcpy(tb, b + i, (n - i) * sizeof(float));
    hn::StoreU(op(hn::LoadU(df, ta), hn::LoadU(df, tb)), df, ta);
    std::memcpy(r + i, ta, (n - i) * sizeof(float));
  }
}

constexpr float kSqrtHalf = 0.70710678118654752440f, kSqrt2OverPi = 0.79788456080286535588f;

// -0 stays -0.
HWY_ATTR HWY_INLINE Vf keep_zero(Vf x, Vf y) { return hn::IfThenElse(hn::Eq(x, all(0)), x, y); }

struct Exp {
  HWY_ATTR Vf operator()(Vf x) const { return exp_any(x); }
};
struct Exp2 {
  HWY_ATTR Vf operator()(Vf x) const {
    // The whole part scales exactly, so only the fraction passes through exp.
    const Vf whole = hn::Round(x);
    const Vf y =
        hn::Mul(hn::Exp(df, hn::Mul(hn::Sub(x, whole), all(0.69314718055994530942f))),
                hn::BitCast(df, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(hn::RebindToSigned<Df>(), whole),
                                                          hn::Set(hn::RebindToSigned<Df>(), 127)))));
    return within(-126.0f, 127.0f, x, y, [](float v) { return std::exp2(v); });
  }
};
struct Expm1 {
  HWY_ATTR Vf operator()(Vf x) const {
    return within(-kMax, 88.0f, x, keep_zero(x, hn::Expm1(df, x)), [](float v) { return std::expm1(v); });
  }
};
struct Log {
  HWY_ATTR Vf operator()(Vf x) const { return log_any(x); }
};
struct Log2 {
  HWY_ATTR Vf operator()(Vf x) const {
    return within(std::numeric_limits<float>::min(), kMax, x, hn::Log2(df, x),
                  [](float v) { return std::log2(v); });
  }
};
struct Log10 {
  HWY_ATTR Vf operator()(Vf x) const {
    return within(std::numeric_limits<float>::min(), kMax, x, hn::Log10(df, x),
                  [](float v) { return std::log10(v); });
  }
};
struct Log1p {
  HWY_ATTR Vf operator()(Vf x) const { return log1p_any(x); }
};
struct Sin {
  HWY_ATTR Vf operator()(Vf x) const {
    return within(-30000.0f, 30000.0f, x, keep_zero(x, hn::Sin(df, x)), [](float v) { return std::sin(v); });
  }
};
struct Cos {
  HWY_ATTR Vf operator()(Vf x) const {
    return within(-30000.0f, 30000.0f, x, hn::Cos(df, x), [](float v) { return std::cos(v); });
  }
};
struct Tanh {
  HWY_ATTR Vf operator()(Vf x) const { return tanh_any(x); }
};
struct Atan {
  HWY_ATTR Vf operator()(Vf x) const {
    return within(-kMax, kMax, x, hn::Atan(df, x), [](float v) { return std::atan(v); });
  }
};
struct Sigmoid {
  HWY_ATTR Vf operator()(Vf x) const { return sigmoid_any(x); }
};
struct Erf {
  HWY_ATTR Vf operator()(Vf x) const { return erf_any(x); }
};
struct Silu {
  HWY_ATTR Vf operator()(Vf x) const { return hn::Div(x, hn::Add(all(1), exp_any(hn::Neg(x)))); }
};
struct SiluBackward {
  HWY_ATTR Vf operator()(Vf grad, Vf x) const {
    const Vf s = sigmoid_any(x);
    return hn::Mul(grad, hn::Mul(s, hn::MulAdd(x, hn::Sub(all(1), s), all(1))));
  }
};
// The normal distribution's share below x. It needs erf only as exactly as 1 + erf can hold: one quotient of
// two fits, without an exponential.
HWY_ATTR HWY_INLINE Vf below(Vf x) {
  const Vf z = hn::Mul(x, all(kSqrtHalf)), s = hn::Mul(z, z);
  Vf p = all(2.0540166744e-6f), q = all(3.81133958821e-5f);
  p = hn::MulAdd(p, s, all(0.00028451278278f));
  q = hn::MulAdd(q, s, all(0.00115810939454f));
  p = hn::MulAdd(p, s, all(0.00374689358676f));
  q = hn::MulAdd(q, s, all(0.0149313706311f));
  p = hn::MulAdd(p, s, all(0.0526902775417f));
  q = hn::MulAdd(q, s, all(0.113926164451f));
  p = hn::MulAdd(p, s, all(0.189963341045f));
  q = hn::MulAdd(q, s, all(0.501683429858f));
  p = hn::MulAdd(p, s, all(1.12837914873f));
  q = hn::MulAdd(q, s, all(1));
  const Vf inside = hn::Div(hn::Mul(z, p), q);
  const Vf erf = hn::IfThenElse(hn::Ge(hn::Abs(z), all(3.92f)), hn::CopySign(all(1), z), inside);
  return hn::Mul(all(0.5f), hn::Add(all(1), erf));
}
struct Gelu {
  HWY_ATTR Vf operator()(Vf x) const { return hn::Mul(x, below(x)); }
};
struct GeluBackward {
  HWY_ATTR Vf operator()(Vf grad, Vf x) const {
    const Vf cdf = below(x);
    const Vf pdf = hn::Mul(exp_any(hn::Mul(hn::Mul(x, x), all(-0.5f))), all(0.39894228040143267794f));
    return hn::Mul(grad, hn::MulAdd(x, pdf, cdf));
  }
};
struct GeluTanh {
  HWY_ATTR Vf operator()(Vf x) const {
    const Vf cube = hn::Mul(hn::Mul(x, x), x);
    const Vf inner = hn::Mul(all(kSqrt2OverPi), hn::MulAdd(all(0.044715f), cube, x));
    return hn::Mul(hn::Mul(all(0.5f), x), hn::Add(all(1), tanh_any(inner)));
  }
};
struct GeluTanhBackward {
  HWY_ATTR Vf operator()(Vf grad, Vf x) const {
    const Vf square = hn::Mul(x, x);
    const Vf inner = hn::Mul(all(kSqrt2OverPi), hn::MulAdd(all(0.044715f), hn::Mul(square, x), x));
    const Vf t = tanh_any(inner);
    const Vf left = hn::Mul(all(0.5f), hn::Add(all(1), t));
    const Vf slope = hn::Mul(all(kSqrt2OverPi), hn::MulAdd(all(3 * 0.044715f), square, all(1)));
    const Vf right = hn::Mul(hn::Mul(all(0.5f), x), hn::Mul(hn::Sub(all(1), hn::Mul(t, t)), slope));
    return hn::Mul(grad, hn::Add(left, right));
  }
};
// log(1 + exp(x)) with no overflow: the exponential is of a number below zero.
HWY_ATTR HWY_INLINE Vf log_one_plus_exp(Vf x) {
  return hn::Add(hn::Max(x, all(0)), log1p_any(exp_any(hn::Neg(hn::Abs(x)))));
}
struct LogSigmoid {
  HWY_ATTR Vf operator()(Vf x) const {
    return hn::Sub(hn::Min(x, all(0)), log1p_any(exp_any(hn::Neg(hn::Abs(x)))));
  }
};
struct Softplus {
  Params p;
  HWY_ATTR Vf operator()(Vf x) const {
    const float beta = static_cast<float>(p.d[0]), threshold = static_cast<float>(p.d[1]);
    const Vf z = hn::Mul(x, all(beta));
    return hn::IfThenElse(hn::Gt(z, all(threshold)), x, hn::Div(log1p_any(exp_any(z)), all(beta)));
  }
};
struct SoftplusBackward {
  Params p;
  HWY_ATTR Vf operator()(Vf grad, Vf x) const {
    const Vf z = hn::Mul(x, all(static_cast<float>(p.d[0])));
    return hn::IfThenElse(hn::Gt(z, all(static_cast<float>(p.d[1]))), grad, hn::Mul(grad, sigmoid_any(z)));
  }
};
struct Mish {
  HWY_ATTR Vf operator()(Vf x) const { return hn::Mul(x, tanh_any(log_one_plus_exp(x))); }
};
struct MishBackward {
  HWY_ATTR Vf operator()(Vf grad, Vf x) const {
    const Vf s = sigmoid_any(x), t = tanh_any(log_one_plus_exp(x));
    return hn::Mul(grad, hn::MulAdd(hn::Mul(x, s), hn::Sub(all(1), hn::Mul(t, t)), t));
  }
};
struct Elu {
  Params p;
  HWY_ATTR Vf operator()(Vf x) const {
    const Vf low = hn::Mul(
        all(static_cast<float>(p.d[0] * p.d[1])),
        Expm1()(hn::Mul(hn::IfThenElse(hn::Gt(x, all(0)), all(0), x), all(static_cast<float>(p.d[2])))));
    return hn::IfThenElse(hn::Gt(x, all(0)), hn::Mul(x, all(static_cast<float>(p.d[1]))), low);
  }
};

template <class Op>
constexpr Row one(std::string_view name) {
  Row r{name, {}};
  r.loops[compute_index(kFloat)] = vector1<Op>;
  return r;
}
template <class Op>
constexpr Row two(std::string_view name) {
  Row r{name, {}};
  r.loops[compute_index(kFloat)] = vector2<Op>;
  return r;
}

constexpr Row kRows[] = {
    one<Exp>("exp"),
    one<Exp2>("exp2"),
    one<Expm1>("expm1"),
    one<Log>("log"),
    one<Log2>("log2"),
    one<Log10>("log10"),
    one<Log1p>("log1p"),
    one<Sin>("sin"),
    one<Cos>("cos"),
    one<Tanh>("tanh"),
    one<Atan>("atan"),
    one<Sigmoid>("sigmoid"),
    one<Erf>("erf"),
    one<Silu>("silu"),
    two<SiluBackward>("silu_backward"),
    one<Gelu>("gelu"),
    two<GeluBackward>("gelu_backward"),
    one<GeluTanh>("gelu_tanh"),
    two<GeluTanhBackward>("gelu_tanh_backward"),
    one<LogSigmoid>("log_sigmoid"),
    one<Softplus>("softplus"),
    two<SoftplusBackward>("softplus_backward"),
    one<Mish>("mish"),
    two<MishBackward>("mish_backward"),
    one<Elu>("elu"),
};

}  // namespace

Rows get_math_rows() { return kRows; }
#else
Rows get_math_rows() { return {}; }
#endif

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(get_math_rows);
Rows math_rows() { return HWY_DYNAMIC_DISPATCH(get_math_rows)(); }
}  // namespace tern::kernels
#endif
