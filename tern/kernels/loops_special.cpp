// Special functions elementwise: computed in double, one element at a time.
#include "tern/kernels/loops-inl.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "tern/kernels/special.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

struct I0 {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(bessel_i0(x));
  }
};
struct I0e {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(bessel_i0e(x));
  }
};
struct I1 {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(bessel_i1(x));
  }
};
struct I1e {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(bessel_i1e(x));
  }
};
struct K0 {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(bessel_k0e(x) * std::exp(-double(x)));
  }
};
struct K1 {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(bessel_k1e(x) * std::exp(-double(x)));
  }
};
struct K0e {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(bessel_k0e(x));
  }
};
struct K1e {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(bessel_k1e(x));
  }
};
struct J0 {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(::j0(x));
  }
};
struct J1 {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(::j1(x));
  }
};
struct Y0 {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(x < 0 ? std::numeric_limits<double>::quiet_NaN() : ::y0(x));
  }
};
struct Y1 {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(x < 0 ? std::numeric_limits<double>::quiet_NaN() : ::y1(x));
  }
};
struct SphericalJ0 {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(std::isinf(x)        ? 0.0
                          : std::abs(x) < 1e-4 ? 1 - double(x) * x / 6
                                               : std::sin(double(x)) / x);
  }
};
struct Airy {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(airy_ai(x));
  }
};
struct Erfcx {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(erfcx(x));
  }
};
struct LogNdtr {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(log_ndtr(x));
  }
};
struct Ndtri {
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(ndtri(x));
  }
};
struct Entr {
  Params p;
  template <Float T>
  T operator()(T x) const {
    return static_cast<T>(std::isnan(x) ? double(x)
                          : x > 0       ? -x * as_stored(p, std::log(double(x)))
                          : x == 0      ? 0.0
                                        : -std::numeric_limits<double>::infinity());
  }
};
struct Zeta {
  template <Float T>
  T operator()(T a, T b) const {
    return static_cast<T>(zeta(a, b));
  }
};
struct Igamma {
  template <Float T>
  T operator()(T a, T b) const {
    return static_cast<T>(igamma(a, b));
  }
};
struct Igammac {
  template <Float T>
  T operator()(T a, T b) const {
    return static_cast<T>(igammac(a, b));
  }
};
struct Sinc {
  template <Fractional T>
  T operator()(T x) const {
    if (x == T(0)) return T(1);
    if constexpr (Float<T>) {
      const T y = static_cast<T>(std::numbers::pi) * x;
      return std::sin(y) / y;
    } else {
      const T y = static_cast<typename T::value_type>(std::numbers::pi) * x;
      return std::sin(y) / y;
    }
  }
};

// Orthogonal polynomials by their three-term recurrences. Chebyshev's kinds differ in how they start; inside
// of [-1, 1] the closed forms keep high orders exact.
enum class Kind { t, u, v, w };
template <Kind K>
double chebyshev(double x, int64_t n) {
  if (n < 0) return 0;
  if (std::abs(x) == 1) {
    const double m = static_cast<double>(n);
    const bool even = n % 2 == 0;
    if (K == Kind::t) return x > 0 || even ? 1 : -1;
    if (K == Kind::u) return x > 0 || even ? m + 1 : -(m + 1);
    if (K == Kind::v) return x > 0 ? 1 : (even ? 1 : -1) * (2 * m + 1);
    return x > 0 ? 2 * m + 1 : even ? 1 : -1;
  }
  if (n > 8 && std::abs(x) < 1) {
    const double angle = std::acos(x), m = static_cast<double>(n);
    if (K == Kind::t) return std::cos(m * angle);
    if (K == Kind::u)
      return std::sin(angle) != 0 ? std::sin((m + 1) * angle) / std::sin(angle)
                                  : (m + 1) * std::cos((m + 1) * angle) / x;
    if (K == Kind::v)
      return std::cos(angle / 2) != 0 ? std::cos((m + 0.5) * angle) / std::cos(angle / 2)
                                      : (n % 2 ? -1 : 1) * (2 * m + 1);
    return std::sin(angle / 2) != 0 ? std::sin((m + 0.5) * angle) / std::sin(angle / 2) : 2 * m + 1;
  }
  if (n == 0) return 1;
  double p = 1, q = K == Kind::t ? x : K == Kind::u ? 2 * x : K == Kind::v ? 2 * x - 1 : 2 * x + 1;
  for (int64_t k = 1; k < n && !std::isnan(q); ++k) {
    const double r = 2 * x * q - p;
    p = q;
    q = r;
  }
  return q;
}
template <Kind K, bool Shifted>
struct Chebyshev {
  template <Float T>
  T operator()(T x, T n) const {
    return static_cast<T>(chebyshev<K>(Shifted ? 2 * double(x) - 1 : double(x), static_cast<int64_t>(n)));
  }
};
struct HermiteH {
  template <Float T>
  T operator()(T x, T order) const {
    const int64_t n = static_cast<int64_t>(order);
    if (n < 0) return 0;
    double p = 1, q = 2 * double(x);
    if (n == 0) return 1;
    for (int64_t k = 1; k < n && !std::isnan(q); ++k) {
      const double r = 2 * double(x) * q - 2 * static_cast<double>(k) * p;
      p = q;
      q = r;
    }
    return static_cast<T>(q);
  }
};
struct HermiteHe {
  template <Float T>
  T operator()(T x, T order) const {
    const int64_t n = static_cast<int64_t>(order);
    if (n < 0) return 0;
    double p = 1, q = x;
    if (n == 0) return 1;
    for (int64_t k = 1; k < n && !std::isnan(q); ++k) {
      const double r = double(x) * q - static_cast<double>(k) * p;
      p = q;
      q = r;
    }
    return static_cast<T>(q);
  }
};
struct Laguerre {
  template <Float T>
  T operator()(T x, T order) const {
    const int64_t n = static_cast<int64_t>(order);
    if (n < 0) return 0;
    if (n == 0 || x == 0) return 1;
    double p = 1, q = 1 - double(x);
    for (int64_t k = 1; k < n && !std::isnan(q); ++k) {
      const double m = static_cast<double>(k), r = ((2 * m + 1 - x) * q - m * p) / (m + 1);
      p = q;
      q = r;
    }
    return static_cast<T>(q);
  }
};
struct Legendre {
  template <Float T>
  T operator()(T x, T order) const {
    const int64_t n = static_cast<int64_t>(order);
    if (n < 0) return 0;
    if (n == 0) return 1;
    double p = 1, q = x;
    for (int64_t k = 1; k < n && !std::isnan(q); ++k) {
      const double m = static_cast<double>(k), r = ((2 * m + 1) * x * q - m * p) / (m + 1);
      p = q;
      q = r;
    }
    return static_cast<T>(q);
  }
};

constexpr Row kRows[] = {
    unary<I0>("i0"),
    unary<I0e>("special_i0e"),
    unary<I1>("special_i1"),
    unary<I1e>("special_i1e"),
    unary<K0>("special_modified_bessel_k0"),
    unary<K1>("special_modified_bessel_k1"),
    unary<K0e>("special_scaled_modified_bessel_k0"),
    unary<K1e>("special_scaled_modified_bessel_k1"),
    unary<J0>("special_bessel_j0"),
    unary<J1>("special_bessel_j1"),
    unary<Y0>("special_bessel_y0"),
    unary<Y1>("special_bessel_y1"),
    unary<SphericalJ0>("special_spherical_bessel_j0"),
    unary<Airy>("special_airy_ai"),
    unary<Erfcx>("special_erfcx"),
    unary<LogNdtr>("special_log_ndtr"),
    unary<Ndtri>("special_ndtri"),
    unary<Entr>("special_entr"),
    unary<Sinc>("sinc"),
    binary<Zeta>("special_zeta"),
    binary<Igamma>("igamma"),
    binary<Igammac>("igammac"),
    binary<Chebyshev<Kind::t, false>>("special_chebyshev_polynomial_t"),
    binary<Chebyshev<Kind::t, true>>("special_shifted_chebyshev_polynomial_t"),
    binary<Chebyshev<Kind::u, false>>("special_chebyshev_polynomial_u"),
    binary<Chebyshev<Kind::u, true>>("special_shifted_chebyshev_polynomial_u"),
    binary<Chebyshev<Kind::v, false>>("special_chebyshev_polynomial_v"),
    binary<Chebyshev<Kind::v, true>>("special_shifted_chebyshev_polynomial_v"),
    binary<Chebyshev<Kind::w, false>>("special_chebyshev_polynomial_w"),
    binary<Chebyshev<Kind::w, true>>("special_shifted_chebyshev_polynomial_w"),
    binary<HermiteH>("special_hermite_polynomial_h"),
    binary<HermiteHe>("special_hermite_polynomial_he"),
    binary<Laguerre>("special_laguerre_polynomial_l"),
    binary<Legendre>("special_legendre_polynomial_p"),
};

}  // namespace
}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace tern::kernels {
Rows special_rows() { return HWY_NAMESPACE::kRows; }
}  // namespace tern::kernels
