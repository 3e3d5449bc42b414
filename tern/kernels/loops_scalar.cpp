// Operators that call the C library, divide integers or work on complex numbers: one element at a time.
#include "tern/kernels/loops-inl.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "tern/base/error.h"
#include "tern/kernels/special.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

template <Complex T>
T divide(T a, T b) {  // Smith's method: no overflow in the middle
  using R = typename T::value_type;
  const R c = b.real(), d = b.imag();
  if (std::abs(c) >= std::abs(d)) {
    if (c == 0 && d == 0) return {a.real() / R(0), a.imag() / R(0)};
    const R r = d / c, scale = R(1) / (c + d * r);
    return {(a.real() + a.imag() * r) * scale, (a.imag() - a.real() * r) * scale};
  }
  const R r = c / d, scale = R(1) / (c * r + d);
  return {(a.real() * r + a.imag()) * scale, (a.imag() * r - a.real()) * scale};
}

[[noreturn]] void zero_division() {
  fail(ErrorKind::runtime, "ZeroDivisionError: integer division or modulo by zero");
}

// The functions that <cmath> has for float and double and <complex> for complex.
struct Exp {
  template <Fractional T>
  T operator()(T x) const {
    return std::exp(x);
  }
};
struct Log {
  template <Fractional T>
  T operator()(T x) const {
    return std::log(x);
  }
};
struct Log10 {
  template <Fractional T>
  T operator()(T x) const {
    return std::log10(x);
  }
};
struct Sqrt {
  template <Complex T>
  T operator()(T x) const {
    return std::sqrt(x);
  }
};
struct Sin {
  template <Fractional T>
  T operator()(T x) const {
    return std::sin(x);
  }
};
struct Cos {
  template <Fractional T>
  T operator()(T x) const {
    return std::cos(x);
  }
};
struct Tan {
  template <Fractional T>
  T operator()(T x) const {
    return std::tan(x);
  }
};
struct Asin {
  template <Fractional T>
  T operator()(T x) const {
    return std::asin(x);
  }
};
struct Acos {
  template <Fractional T>
  T operator()(T x) const {
    return std::acos(x);
  }
};
struct Atan {
  template <Fractional T>
  T operator()(T x) const {
    return std::atan(x);
  }
};
struct Sinh {
  template <Fractional T>
  T operator()(T x) const {
    return std::sinh(x);
  }
};
struct Cosh {
  template <Fractional T>
  T operator()(T x) const {
    return std::cosh(x);
  }
};
struct Tanh {
  template <Fractional T>
  T operator()(T x) const {
    return std::tanh(x);
  }
};
struct Asinh {
  template <Fractional T>
  T operator()(T x) const {
    return std::asinh(x);
  }
};
struct Acosh {
  template <Fractional T>
  T operator()(T x) const {
    return std::acosh(x);
  }
};
struct Atanh {
  template <Fractional T>
  T operator()(T x) const {
    return std::atanh(x);
  }
};
struct Exp2 {
  template <Float T>
  T operator()(T x) const {
    return std::exp2(x);
  }
  template <Complex T>
  T operator()(T x) const {
    return std::exp(x * std::numbers::ln2_v<typename T::value_type>);
  }
};
struct Expm1 {
  template <Float T>
  T operator()(T x) const {
    return std::expm1(x);
  }
  template <Complex T>
  T operator()(T z) const {
    using R = typename T::value_type;
    const R half = std::sin(z.imag() / 2), e = std::expm1(z.real());
    return {e * std::cos(z.imag()) - 2 * half * half, std::exp(z.real()) * std::sin(z.imag())};
  }
};
struct Log1p {
  template <Float T>
  T operator()(T x) const {
    return std::log1p(x);
  }
  template <Complex T>
  T operator()(T z) const {
    using R = typename T::value_type;
    const R x = z.real(), y = z.imag(), r = std::abs(z);
    const R theta = std::atan2(y, x + 1);
    return r < R(0.5) ? T(std::log1p(x * (2 + x) + y * y) / 2, theta)
                      : T(std::log(std::hypot(x + 1, y)), theta);
  }
};
struct Log2 {
  template <Float T>
  T operator()(T x) const {
    return std::log2(x);
  }
  template <Complex T>
  T operator()(T x) const {
    return std::log(x) / std::numbers::ln2_v<typename T::value_type>;
  }
};
struct Rsqrt {
  template <Complex T>
  T operator()(T x) const {
    return divide(T(1), std::sqrt(x));
  }
};
struct Reciprocal {
  template <Complex T>
  T operator()(T x) const {
    return divide(T(1), x);
  }
};
struct Abs {
  template <Complex T>
  typename T::value_type operator()(T x) const {
    return std::abs(x);
  }
};
struct Angle {
  template <Complex T>
  typename T::value_type operator()(T x) const {
    return std::arg(x);
  }
  template <Float T>
  T operator()(T x) const {
    return x != x ? x : x < 0 ? std::numbers::pi_v<T> : T(0);
  }
};
struct Sgn {
  template <Complex T>
  T operator()(T x) const {
    const auto r = std::abs(x);
    return r == 0 ? T(0) : x / r;
  }
};
struct Sigmoid {
  template <Float T>
  T operator()(T x) const {
    return T(1) / (T(1) + std::exp(-x));
  }
  template <Complex T>
  T operator()(T x) const {
    return divide(T(1), T(1) + std::exp(-x));
  }
};
struct Silu {
  template <Float T>
  T operator()(T x) const {
    return x / (T(1) + std::exp(-x));
  }
  template <Complex T>
  T operator()(T x) const {
    return divide(x, T(1) + std::exp(-x));
  }
};
struct SiluBackward {
  template <Fractional T>
  T operator()(T grad, T x) const {
    const T s = Sigmoid{}(x);
    return grad * s * (T(1) + x * (T(1) - s));
  }
};
struct Erf {
  template <Float T>
  T operator()(T x) const {
    return std::erf(x);
  }
};
struct Erfc {
  template <Float T>
  T operator()(T x) const {
    return std::erfc(x);
  }
};
struct Erfinv {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(erfinv(x));
  }
};
struct Lgamma {
  template <Float T>
  T operator()(T x) const {
    return log_gamma(x);
  }
};
struct Digamma {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(digamma(x));
  }
};
struct Gelu {
  template <Float T>
  T operator()(T x) const {
    return x * T(0.5) * (1 + std::erf(x * std::numbers::sqrt2_v<T> / 2));
  }
};
struct GeluBackward {
  template <Float T>
  T operator()(T grad, T x) const {
    const T cdf = T(0.5) * (1 + std::erf(x * std::numbers::sqrt2_v<T> / 2));
    const T pdf = std::exp(x * x * T(-0.5)) * T(0.39894228040143267794);
    return grad * (cdf + x * pdf);
  }
};
struct GeluTanh {
  template <Float T>
  T operator()(T x) const {
    return T(0.5) * x * (1 + std::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x)));
  }
};
struct GeluTanhBackward {
  template <Float T>
  T operator()(T grad, T x) const {
    const T k = T(0.79788456080286535588), t = std::tanh(k * (x + T(0.044715) * x * x * x));
    return grad * (T(0.5) * (1 + t) + T(0.5) * x * (1 - t * t) * k * (1 + 3 * T(0.044715) * x * x));
  }
};
struct LogSigmoid {
  template <Float T>
  T operator()(T x) const {
    return (x < 0 ? x : T(0)) - std::log1p(std::exp(-std::abs(x)));
  }
};
struct LogSigmoidBackward {
  template <Float T>
  T operator()(T grad, T x) const {
    return grad / (1 + std::exp(x));
  }
};
struct Softplus {
  Params p;
  template <Float T>
  T operator()(T x) const {
    const T beta = argument<T>(p, 0), z = x * beta;
    return z > argument<T>(p, 1) ? x : std::log1p(std::exp(z)) / beta;
  }
};
struct SoftplusBackward {
  Params p;
  template <Float T>
  T operator()(T grad, T x) const {
    const T z = x * argument<T>(p, 0);
    return z > argument<T>(p, 1) ? grad : grad / (1 + std::exp(-z));
  }
};
struct Mish {
  template <Float T>
  T operator()(T x) const {
    return x * std::tanh((x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x))));
  }
};
struct MishBackward {
  template <Float T>
  T operator()(T grad, T x) const {
    const T t = std::tanh((x > 0 ? x : 0) + std::log1p(std::exp(-std::abs(x))));
    return grad * (t + x * Sigmoid{}(x) * (1 - t * t));
  }
};
struct Elu {
  Params p;
  template <Float T>
  T operator()(T x) const {
    const T scale = argument<T>(p, 1);
    return x > 0 ? x * scale : std::expm1(x * argument<T>(p, 2)) * argument<T>(p, 0) * scale;
  }
};
struct EluBackward {
  Params p;
  template <Float T>
  T operator()(T grad, T x) const {
    const T alpha = argument<T>(p, 0), scale = argument<T>(p, 1), input_scale = argument<T>(p, 2);
    if (p.d[3] != 0) return x <= 0 ? grad * input_scale * (x + alpha * scale) : grad * scale;
    return x <= 0 ? grad * input_scale * alpha * scale * std::exp(x * input_scale) : grad * scale;
  }
};
struct Celu {
  Params p;
  template <Float T>
  T operator()(T x) const {
    const T alpha = argument<T>(p, 0);
    return x > 0 ? x : alpha * std::expm1(x / alpha);
  }
};
struct Selu {
  template <Float T>
  T operator()(T x) const {
    constexpr T alpha = T(1.6732632423543772848170429916717), scale = T(1.0507009873554804934193349852946);
    return x > 0 ? scale * x : scale * alpha * std::expm1(x);
  }
};
struct Tanhshrink {
  template <Float T>
  T operator()(T x) const {
    return x - std::tanh(x);
  }
};
struct Logit {
  Params p;
  template <Float T>
  T operator()(T x) const {
    const T eps = argument<T>(p, 0);
    const T lo = as_stored(p, eps), hi = as_stored(p, 1 - lo);
    const T z = p.d[0] < 0 ? x : x < lo ? lo : x > hi ? hi : x;
    return std::log(as_stored(p, z / as_stored(p, 1 - z)));
  }
};
struct LogitBackward {
  Params p;
  template <Float T>
  T operator()(T grad, T x) const {
    const T eps = argument<T>(p, 0), lo = p.d[0] < 0 ? T(0) : eps, hi = T(1) - lo;
    if (x < lo || x > hi) return p.d[0] < 0 ? std::numeric_limits<T>::quiet_NaN() : T(0);
    return grad / as_stored(p, x * as_stored(p, 1 - x));
  }
};

struct Div {
  template <Complex T>
  T operator()(T a, T b) const {
    return divide(a, b);
  }
};
struct DivScalar {
  Params p;
  template <Complex T>
  T operator()(T a) const {
    return divide(a, argument<T>(p, 0));
  }
};
struct RdivScalar {
  Params p;
  template <Complex T>
  T operator()(T a) const {
    return divide(argument<T>(p, 0), a);
  }
};
template <Int T>
T quotient(T a, T b) {
  if (b == 0) zero_division();
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  }
  return static_cast<T>(a / b);
}
template <Int T>
T rest(T a, T b) {
  if (b == 0) zero_division();
  if constexpr (std::is_signed_v<T>) {
    if (b == T(-1)) return 0;
  }
  return static_cast<T>(a % b);
}
struct DivTrunc {
  template <Int T>
  T operator()(T a, T b) const {
    return quotient(a, b);
  }
};
struct DivFloor {
  template <Int T>
  T operator()(T a, T b) const {
    const T q = quotient(a, b);
    if constexpr (std::is_signed_v<T>) return rest(a, b) != 0 && (a < 0) != (b < 0) ? q - 1 : q;
    return q;
  }
  // Python's rule: the quotient that belongs to the remainder, corrected for rounding.
  template <Float T>
  T operator()(T a, T b) const {
    if (b == 0) return a / b;
    const T mod = std::fmod(a, b);
    T div = (a - mod) / b;
    if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
    if (div == 0) return std::copysign(T(0), a / b);
    T floored = std::floor(div);
    if (div - floored > T(0.5)) floored += 1;
    return floored;
  }
};
struct Remainder {
  template <Int T>
  T operator()(T a, T b) const {
    const T r = rest(a, b);
    if constexpr (std::is_signed_v<T>) return r != 0 && (r < 0) != (b < 0) ? static_cast<T>(r + b) : r;
    return r;
  }
  template <Float T>
  T operator()(T a, T b) const {
    const T mod = std::fmod(a, b);
    return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
  }
};
struct Fmod {
  template <Int T>
  T operator()(T a, T b) const {
    return rest(a, b);
  }
  template <Float T>
  T operator()(T a, T b) const {
    return std::fmod(a, b);
  }
};
struct Pow {
  template <Int T>
  T operator()(T base, T exponent) const {
    if (std::is_signed_v<T> && exponent < 0)
      return base == 1 ? 1 : base == T(-1) ? (exponent & 1 ? T(-1) : T(1)) : T(0);
    std::make_unsigned_t<T> result = 1, power = static_cast<std::make_unsigned_t<T>>(base);
    for (auto e = static_cast<std::make_unsigned_t<T>>(exponent); e; e >>= 1) {
      if (e & 1) result = static_cast<std::make_unsigned_t<T>>(1u * result * power);
      power = static_cast<std::make_unsigned_t<T>>(1u * power * power);
    }
    return static_cast<T>(result);
  }
  bool operator()(bool base, bool exponent) const { return base || !exponent; }
  template <Float T>
  T operator()(T a, T b) const {
    return std::pow(a, b);
  }
  template <Complex T>
  T operator()(T a, T b) const {
    if (b == T(0)) return T(1);
    if (b == T(2)) return {a.real() * a.real() - a.imag() * a.imag(), 2 * a.real() * a.imag()};
    return std::pow(a, b);
  }
};
struct PowScalar {
  Params p;
  template <Number T>
  T operator()(T x) const {
    return Pow{}(x, argument<T>(p, 0));
  }
  bool operator()(bool x) const { return x || p.i[0] == 0; }
};
struct RpowScalar {
  Params p;
  template <Number T>
  T operator()(T x) const {
    return Pow{}(argument<T>(p, 0), x);
  }
};
// Common exponents need no library call.
template <class T>
void pow_scalar(const void* const* in, void* const* out, int64_t n, const void* params) {
  const T* a = static_cast<const T*>(in[0]);
  T* r = static_cast<T*>(out[0]);
  const double e = params ? static_cast<const Params*>(params)->d[0] : 1;
  auto each = [&](auto f) {
    for (int64_t i = 0; i < n; ++i) r[i] = f(a[i]);
  };
  if (e == 2) return each([](T x) { return x * x; });
  if (e == 3) return each([](T x) { return x * x * x; });
  if (e == 1) return each([](T x) { return x; });
  if (e == 0.5) return each([](T x) { return std::sqrt(x); });
  if (e == -1) return each([](T x) { return 1 / x; });
  if (e == -0.5) return each([](T x) { return 1 / std::sqrt(x); });
  if (e == -2) return each([](T x) { return 1 / (x * x); });
  each([e](T x) { return std::pow(x, static_cast<T>(e)); });
}
struct Atan2 {
  template <Float T>
  T operator()(T a, T b) const {
    return std::atan2(a, b);
  }
};
struct Hypot {
  template <Float T>
  T operator()(T a, T b) const {
    return std::hypot(a, b);
  }
};
struct LogAddExp {
  template <Float T>
  T operator()(T a, T b) const {
    if (std::isinf(a) && a == b) return a;
    const T m = a > b || a != a ? a : b;
    return m + std::log1p(std::exp(-std::abs(a - b)));
  }
  template <Complex T>
  T operator()(T a, T b) const {
    if (a.real() < b.real()) std::swap(a, b);
    if (std::isinf(a.real()) && a.real() == b.real())
      return a.real() < 0 ? b : std::log(std::exp(a) + std::exp(b));
    return a + std::log(T(1) + std::exp(b - a));
  }
};
struct LogAddExp2 {
  template <Float T>
  T operator()(T a, T b) const {
    if (std::isinf(a) && a == b) return a;
    const T m = a > b || a != a ? a : b;
    return m + std::log1p(std::exp2(-std::abs(a - b))) / std::numbers::ln2_v<T>;
  }
};
struct NextAfter {
  Params p;  // the type that is stepped in: a step of float would be lost in a narrower one
  template <Float T>
  T operator()(T a, T b) const {
    const DType type = static_cast<DType>(p.i[0]);
    if (type == DType::float16) return step<Half>(static_cast<float>(a), static_cast<float>(b));
    if (type == DType::bfloat16) return step<BFloat16>(static_cast<float>(a), static_cast<float>(b));
    return std::nextafter(a, b);
  }
  template <class Narrow>
  static float step(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    if (a == b) return b;
    Narrow n(a);
    if (a == 0) {
      n.bits = static_cast<uint16_t>(b < 0 ? 0x8001 : 0x0001);
    } else {
      n.bits = static_cast<uint16_t>((a < b) == (a > 0) ? n.bits + 1 : n.bits - 1);
    }
    return n;
  }
};
struct Xlogy {
  Params p;
  template <Float T>
  T operator()(T x, T y) const {
    return y != y ? y : x == 0 ? T(0) : x * as_stored(p, std::log(y));
  }
};
struct Xlog1py {
  Params p;
  template <Float T>
  T operator()(T x, T y) const {
    return y != y ? y : x == 0 ? T(0) : x * as_stored(p, std::log1p(y));
  }
};
struct Gcd {
  template <Int T>
  T operator()(T a, T b) const {
    using U = std::make_unsigned_t<T>;
    auto magnitude = [](T v) { return v < 0 ? static_cast<U>(0 - static_cast<U>(v)) : static_cast<U>(v); };
    return static_cast<T>(std::gcd(magnitude(a), magnitude(b)));
  }
};
struct Lcm {
  template <Int T>
  T operator()(T a, T b) const {
    const T g = Gcd{}(a, b);
    if (g == 0) return 0;
    using W = std::conditional_t<(sizeof(T) < 4), int32_t, T>;  // narrow types multiply as int
    using U = std::make_unsigned_t<W>;
    const W product =
        static_cast<W>(static_cast<U>(static_cast<W>(quotient(a, g))) * static_cast<U>(static_cast<W>(b)));
    return static_cast<T>(std::is_signed_v<W> && product < 0 ? static_cast<W>(0 - static_cast<U>(product))
                                                             : product);
  }
};
struct FmaxInt {
  template <IntOrBool T>
  T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
struct FminInt {
  template <IntOrBool T>
  T operator()(T a, T b) const {
    return b < a ? b : a;
  }
};
struct Addcdiv {
  Params p;
  template <Complex T>
  T operator()(T a, T b, T c) const {
    return a + argument<T>(p, 0) * divide(b, c);
  }
};
struct Lerp {
  template <Complex T>
  T operator()(T a, T b, T w) const {
    return std::abs(w) < 0.5 ? a + w * (b - a) : b - (b - a) * (T(1) - w);
  }
};
struct LerpScalar {
  Params p;
  template <Complex T>
  T operator()(T a, T b) const {
    return Lerp{}(a, b, argument<T>(p, 0));
  }
};
struct SigmoidBackward {
  template <Complex T>
  T operator()(T grad, T y) const {
    return grad * std::conj((T(1) - y) * y);
  }
};
struct TanhBackward {
  template <Complex T>
  T operator()(T grad, T y) const {
    return grad * std::conj(T(1) - y * y);
  }
};
struct NanToNum {
  Params p;
  template <IntOrBool T>
  T operator()(T a) const {
    return a;
  }
  template <Complex T>
  T operator()(T a) const {
    return {part(a.real()), part(a.imag())};
  }

 private:
  template <Float T>
  T part(T a) const {
    if (std::isinf(a)) return argument<T>(p, a > 0 ? 1 : 2);
    return a != a ? argument<T>(p, 0) : a;
  }
};

constexpr Row pow_scalar_row() {
  Row r = unary<PowScalar>("pow_scalar");
  r.loops[compute_index(kFloat)] = pow_scalar<float>;
  r.loops[compute_index(kDouble)] = pow_scalar<double>;
  return r;
}

constexpr Row kRows[] = {
    unary<Exp>("exp"),
    unary<Exp2>("exp2"),
    unary<Expm1>("expm1"),
    unary<Log>("log"),
    unary<Log2>("log2"),
    unary<Log10>("log10"),
    unary<Log1p>("log1p"),
    unary<Sqrt>("sqrt"),
    unary<Rsqrt>("rsqrt"),
    unary<Reciprocal>("reciprocal"),
    unary<Sin>("sin"),
    unary<Cos>("cos"),
    unary<Tan>("tan"),
    unary<Asin>("asin"),
    unary<Acos>("acos"),
    unary<Atan>("atan"),
    unary<Sinh>("sinh"),
    unary<Cosh>("cosh"),
    unary<Tanh>("tanh"),
    unary<Asinh>("asinh"),
    unary<Acosh>("acosh"),
    unary<Atanh>("atanh"),
    unary<Abs>("abs"),
    unary<Angle>("angle"),
    unary<Sgn>("sgn"),
    unary<Sigmoid>("sigmoid"),
    unary<Silu>("silu"),
    binary<SiluBackward>("silu_backward"),
    unary<Erf>("erf"),
    unary<Erfc>("erfc"),
    unary<Erfinv>("erfinv"),
    unary<Lgamma>("lgamma"),
    unary<Digamma>("digamma"),
    unary<Gelu>("gelu"),
    binary<GeluBackward>("gelu_backward"),
    unary<GeluTanh>("gelu_tanh"),
    binary<GeluTanhBackward>("gelu_tanh_backward"),
    unary<LogSigmoid>("log_sigmoid"),
    binary<LogSigmoidBackward>("log_sigmoid_backward"),
    unary<Softplus>("softplus"),
    binary<SoftplusBackward>("softplus_backward"),
    unary<Mish>("mish"),
    binary<MishBackward>("mish_backward"),
    unary<Elu>("elu"),
    binary<EluBackward>("elu_backward"),
    unary<Celu>("celu"),
    unary<Selu>("selu"),
    unary<Tanhshrink>("tanhshrink"),
    unary<Logit>("logit"),
    binary<LogitBackward>("logit_backward"),
    binary<Div>("div"),
    unary<DivScalar>("div_scalar"),
    unary<RdivScalar>("rdiv_scalar"),
    binary<DivTrunc>("div_trunc"),
    binary<DivFloor>("div_floor"),
    binary<Remainder>("remainder"),
    binary<Fmod>("fmod"),
    binary<Pow>("pow"),
    pow_scalar_row(),
    unary<RpowScalar>("rpow_scalar"),
    binary<Atan2>("atan2"),
    binary<Hypot>("hypot"),
    binary<LogAddExp>("logaddexp"),
    binary<LogAddExp2>("logaddexp2"),
    binary<NextAfter>("nextafter"),
    binary<Xlogy>("xlogy"),
    binary<Xlog1py>("xlog1py"),
    binary<Gcd>("gcd"),
    binary<Lcm>("lcm"),
    binary<FmaxInt>("fmax"),
    binary<FminInt>("fmin"),
    ternary<Addcdiv>("addcdiv"),
    ternary<Lerp>("lerp"),
    binary<LerpScalar>("lerp_scalar"),
    binary<SigmoidBackward>("sigmoid_backward"),
    binary<TanhBackward>("tanh_backward"),
    unary<NanToNum>("nan_to_num"),
};

}  // namespace
}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace tern::kernels {
Rows scalar_rows() { return HWY_NAMESPACE::kRows; }
}  // namespace tern::kernels
