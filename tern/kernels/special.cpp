#include "tern/kernels/special.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace tern::kernels {

double erfinv(double x) {
  if (!(std::abs(x) <= 1)) return std::numeric_limits<double>::quiet_NaN();
  if (std::abs(x) == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (x == 0) return x;
  // Winitzki's closed form to start from, then Halley's iteration; erfc keeps the tail's precision.
  const double a = 0.147, tail = 1 - std::abs(x), l = std::log(tail * (1 + std::abs(x)));
  const double t = 2 / (std::numbers::pi * a) + l / 2;
  double y = std::sqrt(std::sqrt(t * t - l / a) - t);
  for (int step = 0; step < 3; ++step) {
    const double error = tail - std::erfc(y);
    const double newton = error / (-2 * std::numbers::inv_sqrtpi * std::exp(-y * y));
    y += newton / (1 - y * newton);
  }
  return std::copysign(y, x);
}

double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    if (x == std::trunc(x)) return std::numeric_limits<double>::quiet_NaN();
    double whole;
    const double part = std::modf(x, &whole);
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * part);
  }
  double result = 0;
  for (; x < 10; x += 1) result -= 1 / x;
  if (x == 10) return result + 2.25175258906672110764;
  // Bernoulli's asymptotic series.
  const double z = 1 / (x * x);
  const double series =
      z *
      (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * 691.0 / 32760)))));
  return result + std::log(x) - 0.5 / x - (x < 1e17 ? series : 0);
}

float log_gamma(float x) {
  int sign;
  return lgammaf_r(x, &sign);
}
double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

}  // namespace tern::kernels
