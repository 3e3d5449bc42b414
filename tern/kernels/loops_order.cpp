// Operators that compare: extremes, clamping, thresholds. NaN wins, as in ATen.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/loops_order.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>

#include "tern/kernels/loops-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

struct Abs {
  template <Int T>
  T operator()(T a) const {
    return std::is_signed_v<T> && a < 0 ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a)) : a;
  }
  bool operator()(bool a) const { return a; }
  float operator()(float a) const { return __builtin_fabsf(a); }
  double operator()(double a) const { return __builtin_fabs(a); }
};
struct Sign {
  template <Real T>
  T operator()(T a) const {
    if constexpr (Float<T>)
      return static_cast<T>((T(0) < a) - (a < T(0)));  // NaN gives 0
    else
      return static_cast<T>((T(0) < a) - (std::is_signed_v<T> && a < T(0)));
  }
  bool operator()(bool a) const { return a; }
};
struct Maximum {
  template <Int T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
  template <Float T>
  T operator()(T a, T b) const {
    return (a != a) | !(a < b || b != b) ? a : b;
  }
  bool operator()(bool a, bool b) const { return a | b; }
};
struct Minimum {
  template <Int T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
  template <Float T>
  T operator()(T a, T b) const {
    return (a != a) | !(b < a || b != b) ? a : b;
  }
  bool operator()(bool a, bool b) const { return a & b; }
};
struct Relu {
  template <Real T>
  T operator()(T a) const {
    return a < T(0) ? T(0) : a;
  }
};
struct Clamp {
  Params p;
  template <Real T>
  T operator()(T a) const {
    const T lo = argument<T>(p, 0), hi = argument<T>(p, 1);
    const T raised = a < lo || lo != lo ? lo : a;
    return hi < raised || hi != hi ? hi : raised;
  }
};
struct ClampMin {
  Params p;
  template <Real T>
  T operator()(T a) const {
    const T lo = argument<T>(p, 0);
    return a < lo || lo != lo ? lo : a;
  }
};
struct ClampMax {
  Params p;
  template <Real T>
  T operator()(T a) const {
    const T hi = argument<T>(p, 0);
    return hi < a || hi != hi ? hi : a;
  }
};
struct ClampTensor {
  template <Real T>
  T operator()(T a, T lo, T hi) const {
    const T raised = Maximum{}(a, lo);
    return Minimum{}(raised, hi);
  }
};
struct Threshold {
  Params p;
  template <Real T>
  T operator()(T a) const {
    return a <= argument<T>(p, 0) ? argument<T>(p, 1) : a;
  }
};
struct ThresholdBackward {
  Params p;
  template <Real T>
  T operator()(T grad, T x) const {
    return x <= argument<T>(p, 0) ? T(0) : grad;
  }
};
constexpr Row kRows[] = {
    unary<Abs>("abs"),
    unary<Sign>("sign"),
    unary<Sign>("sgn"),
    binary<Maximum>("maximum"),
    binary<Minimum>("minimum"),
    unary<Relu>("relu"),
    unary<Clamp>("clamp"),
    unary<Clamp>("hardtanh"),
    unary<ClampMin>("clamp_min"),
    unary<ClampMax>("clamp_max"),
    ternary<ClampTensor>("clamp_tensor"),
    binary<Maximum>("clamp_min_tensor"),
    binary<Minimum>("clamp_max_tensor"),
    unary<Threshold>("threshold"),
    binary<ThresholdBackward>("threshold_backward"),
};

}  // namespace

Rows get_order_rows() { return kRows; }

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(get_order_rows);
Rows order_rows() { return HWY_DYNAMIC_DISPATCH(get_order_rows)(); }
}  // namespace tern::kernels
#endif
