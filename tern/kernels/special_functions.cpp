// Bessel, Airy, error, zeta and incomplete gamma functions. Power series where their terms have one sign,
// asymptotic series where they are small, continued fractions between.
#include <cmath>
#include <limits>
#include <numbers>

#include "tern/kernels/special.h"

namespace tern::kernels {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEps = std::numeric_limits<double>::epsilon();

// exp(-x) I_order(x) for x >= 0, order 0 or 1.
double scaled_i(int order, double x) {
  if (x < 30) {
    const double q = x * x / 4;
    double term = order ? x / 2 : 1, sum = term;
    for (int k = 1; term > sum * 1e-18 && k < 500; ++k) {
      term *= q / (static_cast<double>(k) * (k + order));
      sum += term;
    }
    return std::exp(-x) * sum;
  }
  const double m = order ? 4 : 0;
  double term = 1, sum = 1;
  for (int k = 1; k < 60; ++k) {
    const double odd = 2 * k - 1, next = -term * (m - odd * odd) / (8 * x * k);
    if (std::abs(next) > std::abs(term)) break;
    term = next;
    sum += term;
    if (std::abs(term) < kEps * std::abs(sum)) break;
  }
  return sum / std::sqrt(2 * std::numbers::pi * x);
}

double scaled_k(int order, double x) {
  if (std::isnan(x) || x < 0) return kNaN;
  if (x == 0) return kInf;
  if (x < 30) return std::cyl_bessel_k(order, x) * std::exp(x);
  const double m = order ? 4 : 0;
  double term = 1, sum = 1;
  for (int k = 1; k < 60; ++k) {
    const double odd = 2 * k - 1, next = term * (m - odd * odd) / (8 * x * k);
    if (std::abs(next) > std::abs(term)) break;
    term = next;
    sum += term;
    if (std::abs(term) < kEps * std::abs(sum)) break;
  }
  return sum * std::sqrt(std::numbers::pi / (2 * x));
}

// exp(x²) without the rounding of x².
double exp_square(double x) {
  const double square = x * x, rest = std::fma(x, x, -square);
  return std::exp(square) * (1 + rest);
}

// x^a exp(-x) / Γ(a): what both forms of the incomplete gamma function share.
double gamma_weight(double a, double x) {
  if (a > 30 && std::abs(x - a) < 0.4 * a) {
    // By Stirling's series around x = a, where the logarithms below would cancel.
    const double d = (x - a) / a, u = std::log1p(d) - d;
    const double z = 1 / (a * a);
    const double stirling = (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z / 1680))) / a;
    return std::sqrt(a / (2 * std::numbers::pi)) * std::exp(a * u - stirling);
  }
  return std::exp(a * std::log(x) - x - log_gamma(a));
}
double lower_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (int k = 1; k < 100000 && term > sum * kEps / 4; ++k) {
    term *= x / (a + k);
    sum += term;
  }
  return sum * gamma_weight(a, x);
}
double upper_fraction(double a, double x) {  // Lentz
  const double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int k = 1; k < 100000; ++k) {
    const double an = -k * (k - a);
    b += 2;
    d = an * d + b;
    if (std::abs(d) < tiny) d = tiny;
    c = b + an / c;
    if (std::abs(c) < tiny) c = tiny;
    d = 1 / d;
    const double step = d * c;
    h *= step;
    if (std::abs(step - 1) < kEps) break;
  }
  return h * gamma_weight(a, x);
}
// What both give at the borders; NaN where neither is defined; below 0 means "compute".
double igamma_border(double a, double x) {
  if (a < 0 || x < 0) return kNaN;
  if (a == 0) return x > 0 ? 1 : kNaN;
  if (x == 0) return 0;
  if (std::isinf(a)) return std::isinf(x) ? kNaN : 0;
  if (std::isinf(x)) return 1;
  return std::isnan(a) || std::isnan(x) ? kNaN : -1;  // last, as in PyTorch
}

}  // namespace

double bessel_i0e(double x) { return std::isnan(x) ? x : scaled_i(0, std::abs(x)); }
double bessel_i1e(double x) { return std::isnan(x) ? x : std::copysign(scaled_i(1, std::abs(x)), x); }
double bessel_i0(double x) {
  const double y = std::abs(x);
  if (std::isinf(x)) return kInf;
  const double half = std::exp(y / 2);  // in two steps: the product overflows later than exp(|x|)
  return bessel_i0e(x) * half * half;
}
double bessel_i1(double x) {
  const double y = std::abs(x);
  if (std::isinf(x)) return x;
  const double half = std::exp(y / 2);
  return bessel_i1e(x) * half * half;
}
double bessel_k0e(double x) { return scaled_k(0, x); }
double bessel_k1e(double x) { return scaled_k(1, x); }

double airy_ai(double x) {
  if (std::isnan(x)) return x;
  if (std::isinf(x)) return x > 0 ? 0 : kNaN;
  if (x == 0) return 0.355028053887817239260;
  const double root = std::sqrt(std::abs(x)), z = 2.0 / 3 * std::abs(x) * root;
  if (x > 0)
    return z > 700 ? 0 : root / (std::numbers::pi * std::numbers::sqrt3) * std::cyl_bessel_k(1.0 / 3, z);
  // J of order -1/3 from J and Y of order 1/3.
  const double j = std::cyl_bessel_j(1.0 / 3, z), y = std::cyl_neumann(1.0 / 3, z);
  return root / 3 * (1.5 * j - std::numbers::sqrt3 / 2 * y);
}

double erfcx(double x) {
  if (std::isnan(x)) return x;
  if (x < 0) return x < -26.7 ? kInf : 2 * exp_square(x) - erfcx(-x);
  if (x < 12) return exp_square(x) * std::erfc(x);
  const double z = 1 / (2 * x * x);
  double term = 1, sum = 1;
  for (int k = 1; k < 20; ++k) {
    term *= -(2 * k - 1) * z;
    sum += term;
  }
  return sum * std::numbers::inv_sqrtpi / x;
}

double log_ndtr(double x) {
  const double t = x * (std::numbers::sqrt2 / 2);
  return x < -1 ? std::log(erfcx(-t) / 2) - t * t : std::log1p(-std::erfc(t) / 2);
}

double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNaN;
  if (p == 0) return -kInf;
  if (p == 1) return kInf;
  if (p > 0.5) return -ndtri(1 - p);
  if (p == 0.5) return 0;
  // A rational start (Abramowitz and Stegun 26.2.22), then Halley's iteration.
  const double t = std::sqrt(-2 * std::log(p));
  double x = -(t - (2.30753 + 0.27061 * t) / (1 + 0.99229 * t + 0.04481 * t * t));
  for (int step = 0; step < 4; ++step) {
    const double z = -x * (std::numbers::sqrt2 / 2);
    // (area - p) / density, both divided by exp(-x²/2) so that the tail keeps its precision.
    const double u = (erfcx(z) / 2 - p * exp_square(z)) * std::sqrt(2 * std::numbers::pi);
    x -= u / (1 + x * u / 2);
  }
  return x;
}

double zeta(double x, double q) {
  if (std::isnan(x) || std::isnan(q)) return kNaN;
  if (x == 1) return kInf;
  if (x < 1) return kNaN;
  if (q <= 0) {
    if (q == std::floor(q)) return kInf;
    if (x != std::floor(x)) return kNaN;
  }
  double sum = 0;
  while (q < 16) {
    const double term = std::pow(q, -x);
    sum += term;
    q += 1;
    if (q > 1 && std::abs(term) < kEps / 4 * std::abs(sum)) return sum;
  }
  // Euler–Maclaurin for the rest.
  static constexpr double bernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                         5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
  const double power = std::pow(q, -x);
  sum += power * q / (x - 1) + power / 2;
  double term = x * power / q, factorial = 2;
  for (int k = 0; k < 8; ++k) {
    const double part = bernoulli[k] * term / factorial, m = 2.0 * k + 1;
    sum += part;
    if (std::abs(part) < kEps / 4 * std::abs(sum)) break;
    term *= (x + m) * (x + m + 1) / (q * q);
    factorial *= (m + 2) * (m + 3);
  }
  return sum;
}

double igamma(double a, double x) {
  const double border = igamma_border(a, x);
  if (!(border < 0)) return border;
  return x < a + 1 ? lower_series(a, x) : 1 - upper_fraction(a, x);
}
double igammac(double a, double x) {
  const double border = igamma_border(a, x);
  if (!(border < 0)) return 1 - border;
  return x < a + 1 ? 1 - lower_series(a, x) : upper_fraction(a, x);
}

}  // namespace tern::kernels
