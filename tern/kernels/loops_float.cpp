// Float operators made of arithmetic, rounding and selection: no transcendental function.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/loops_float.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>

#include <cmath>

#include "tern/kernels/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

HWY_ATTR inline float clip(float x, float lo, float hi) { return x < lo ? lo : (x > hi ? hi : x); }
HWY_ATTR inline double clip(double x, double lo, double hi) { return x < lo ? lo : (x > hi ? hi : x); }

struct Div {
  template <Float T>
  T operator()(T a, T b) const {
    return a / b;
  }
};
struct DivScalar {
  Params p;
  template <Float T>
  T operator()(T a) const {
    return a / argument<T>(p, 0);
  }
};
struct RdivScalar {
  Params p;
  template <Float T>
  T operator()(T a) const {
    return argument<T>(p, 0) / a;
  }
};
struct DivTrunc {
  template <Float T>
  T operator()(T a, T b) const {
    return std::trunc(a / b);
  }
};
struct Reciprocal {
  template <Float T>
  T operator()(T a) const {
    return T(1) / a;
  }
};
struct Sqrt {
  template <Float T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct Rsqrt {
  template <Float T>
  T operator()(T a) const {
    return T(1) / std::sqrt(a);
  }
};
struct Ceil {
  template <Int T>
  T operator()(T a) const {
    return a;
  }
  template <Float T>
  T operator()(T a) const {
    return std::ceil(a);
  }
};
struct Floor {
  template <Int T>
  T operator()(T a) const {
    return a;
  }
  template <Float T>
  T operator()(T a) const {
    return std::floor(a);
  }
};
struct Round {
  template <Int T>
  T operator()(T a) const {
    return a;
  }
  template <Float T>
  T operator()(T a) const {
    return std::nearbyint(a);
  }
};
struct Trunc {
  template <Int T>
  T operator()(T a) const {
    return a;
  }
  template <Float T>
  T operator()(T a) const {
    return std::trunc(a);
  }
};
struct Frac {
  template <Float T>
  T operator()(T a) const {
    return a - std::trunc(a);
  }
};
struct Relu6 {
  template <Float T>
  T operator()(T a) const {
    return clip(a, T(0), T(6));
  }
};
struct LeakyRelu {
  Params p;
  template <Float T>
  T operator()(T a) const {
    const T scaled = a * argument<T>(p, 0);
    return a > T(0) ? a : scaled;
  }
};
struct LeakyReluBackward {
  Params p;
  template <Float T>
  T operator()(T grad, T x) const {
    const T scaled = grad * argument<T>(p, 0);
    return x > T(0) ? grad : scaled;
  }
};
struct HardSigmoid {
  template <Float T>
  T operator()(T a) const {
    return clip(a + T(3), T(0), T(6)) / T(6);
  }
};
struct HardSigmoidBackward {
  template <Float T>
  T operator()(T grad, T x) const {
    const T inside = grad * T(1.0 / 6);
    return (x > T(-3)) & (x < T(3)) ? inside : T(0);
  }
};
struct HardSwish {
  template <Float T>
  T operator()(T a) const {
    return a * clip(a + T(3), T(0), T(6)) / T(6);
  }
};
struct HardSwishBackward {
  template <Float T>
  T operator()(T grad, T x) const {
    const T inside = grad * (x / T(3) + T(0.5));
    return x <= T(-3) ? T(0) : (x < T(3) ? inside : grad);
  }
};
struct HardtanhBackward {
  Params p;
  template <Float T>
  T operator()(T grad, T x) const {
    return (x <= argument<T>(p, 0)) | (x >= argument<T>(p, 1)) ? T(0) : grad;
  }
};
struct Softsign {
  template <Float T>
  T operator()(T a) const {
    return a / (T(1) + (a < 0 ? -a : a));
  }
};
struct Softshrink {
  Params p;
  template <Float T>
  T operator()(T a) const {
    const T lambda = argument<T>(p, 0), down = a - lambda, up = a + lambda;
    const T middle = a != a ? a : T(0);
    return a > lambda ? down : (a < -lambda ? up : middle);
  }
};
struct Hardshrink {
  Params p;
  template <Float T>
  T operator()(T a) const {
    const T lambda = argument<T>(p, 0);
    return (a >= -lambda) & (a <= lambda) ? T(0) : a;
  }
};
struct ShrinkBackward {
  Params p;
  template <Float T>
  T operator()(T grad, T x) const {
    const T lambda = argument<T>(p, 0);
    return (x >= -lambda) & (x <= lambda) ? T(0) : grad;
  }
};
struct NanToNum {
  Params p;
  template <Float T>
  T operator()(T a) const {
    const T inf = std::numeric_limits<T>::infinity();
    const T number = a == inf ? argument<T>(p, 1) : (a == -inf ? argument<T>(p, 2) : a);
    return a != a ? argument<T>(p, 0) : number;
  }
};
struct CopySign {
  template <Float T>
  T operator()(T a, T b) const {
    return std::copysign(a, b);
  }
};
struct Heaviside {
  template <Ordered T>
  T operator()(T a, T b) const {
    return a == T(0) ? b : static_cast<T>(a > T(0));
  }
};
struct Fmax {
  template <Float T>
  T operator()(T a, T b) const {
    return (a != a) | (a < b) ? b : a;
  }
};
struct Fmin {
  template <Float T>
  T operator()(T a, T b) const {
    return (a != a) | (b < a) ? b : a;
  }
};
struct Addcdiv {
  Params p;
  template <Float T>
  T operator()(T a, T b, T c) const {
    return a + argument<T>(p, 0) * b / c;
  }
};
// The two ends are exact: the formula starts from the nearer one.
struct Lerp {
  template <Float T>
  T operator()(T a, T b, T w) const {
    const T step = b - a, near = a + w * step, far = b - step * (T(1) - w);
    return (w < 0 ? -w : w) < T(0.5) ? near : far;
  }
};
struct LerpScalar {
  Params p;
  template <Float T>
  T operator()(T a, T b) const {
    return Lerp{}(a, b, argument<T>(p, 0));
  }
};
struct SigmoidBackward {
  template <Float T>
  T operator()(T grad, T y) const {
    return grad * (T(1) - y) * y;
  }
};
struct TanhBackward {
  template <Float T>
  T operator()(T grad, T y) const {
    return grad * (T(1) - y * y);
  }
};

constexpr Row kRows[] = {
    binary<Div>("div"),
    unary<DivScalar>("div_scalar"),
    unary<RdivScalar>("rdiv_scalar"),
    binary<DivTrunc>("div_trunc"),
    unary<Reciprocal>("reciprocal"),
    unary<Sqrt>("sqrt"),
    unary<Rsqrt>("rsqrt"),
    unary<Ceil>("ceil"),
    unary<Floor>("floor"),
    unary<Round>("round"),
    unary<Trunc>("trunc"),
    unary<Frac>("frac"),
    unary<Relu6>("relu6"),
    unary<LeakyRelu>("leaky_relu"),
    binary<LeakyReluBackward>("leaky_relu_backward"),
    unary<HardSigmoid>("hardsigmoid"),
    binary<HardSigmoidBackward>("hardsigmoid_backward"),
    unary<HardSwish>("hardswish"),
    binary<HardSwishBackward>("hardswish_backward"),
    binary<HardtanhBackward>("hardtanh_backward"),
    unary<Softsign>("softsign"),
    unary<Softshrink>("softshrink"),
    binary<ShrinkBackward>("softshrink_backward"),
    unary<Hardshrink>("hardshrink"),
    binary<ShrinkBackward>("hardshrink_backward"),
    unary<NanToNum>("nan_to_num"),
    binary<CopySign>("copysign"),
    binary<Heaviside>("heaviside"),
    binary<Fmax>("fmax"),
    binary<Fmin>("fmin"),
    ternary<Addcdiv>("addcdiv"),
    ternary<Lerp>("lerp"),
    binary<LerpScalar>("lerp_scalar"),
    binary<SigmoidBackward>("sigmoid_backward"),
    binary<TanhBackward>("tanh_backward"),
};

}  // namespace

Rows get_float_rows() { return kRows; }

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(get_float_rows);
Rows float_rows() { return HWY_DYNAMIC_DISPATCH(get_float_rows)(); }
}  // namespace tern::kernels
#endif
