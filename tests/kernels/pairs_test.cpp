// Functions of two numbers against the C library: every pair of special values, and many ordinary ones.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tern/kernels/pointwise.h"

namespace tern::kernels {
namespace {

template <class T>
struct Pairs {
  std::vector<T> a, b;

  Pairs() {
    using L = std::numeric_limits<T>;
    const T special[] = {T(0),     T(-0.0),   T(1),     T(-1),           T(2),           T(-2),
                         T(0.5),   T(-0.5),   T(3),     T(-3),           T(7),           T(-7.25),
                         T(127),   T(-126),   T(150.5), L::infinity(),   -L::infinity(), L::quiet_NaN(),
                         L::min(), -L::min(), L::max(), L::denorm_min(), T(1e-30),       T(-1e30)};
    for (T x : special)
      for (T y : special) a.push_back(x), b.push_back(y);
    std::mt19937_64 random(1);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> exponent(-40, 40);
    auto wide = [&] {
      return static_cast<T>(std::ldexp(normal(random), static_cast<int>(exponent(random))));
    };
    for (int i = 0; i < 20001; ++i) {
      a.push_back(static_cast<T>(3 * normal(random))), b.push_back(static_cast<T>(3 * normal(random)));
      a.push_back(wide()), b.push_back(wide());
      a.push_back(static_cast<T>(normal(random))),
          b.push_back(static_cast<T>(std::round(5 * normal(random))));
    }
  }
};

// The distance in units of the last place; a wrong sign of zero counts.
template <class T>
double distance(T got, double want) {
  const T rounded = static_cast<T>(want);
  if (std::isnan(rounded)) return std::isnan(got) ? 0 : 1e30;
  if (got == rounded) return got != 0 || std::signbit(got) == std::signbit(rounded) ? 0 : 1e30;
  if (std::isinf(got) || std::isinf(rounded) || std::isnan(got)) return 1e30;
  const T size = std::abs(rounded);
  return std::abs(static_cast<double>(got) - want) /
         static_cast<double>(std::nextafter(size, std::numeric_limits<T>::infinity()) - size);
}

template <class T, class F>
::testing::AssertionResult agrees(const char* name, double within, F exact) {
  const Pairs<T> p;
  std::vector<T> out(p.a.size());
  const void* in[] = {p.a.data(), p.b.data()};
  void* to[] = {out.data()};
  find_loop(name, dtype_of<T>)(in, to, static_cast<int64_t>(out.size()), nullptr);
  for (size_t i = 0; i < out.size(); ++i)
    if (!(distance<T>(out[i], exact(p.a[i], p.b[i])) <= within))
      return ::testing::AssertionFailure() << name << "(" << p.a[i] << ", " << p.b[i] << ") gave " << out[i];
  return ::testing::AssertionSuccess();
}

template <class T>
double python_mod(T a, T b) {
  const T r = std::fmod(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

TEST(KernelsPairs, remainders_are_exact) {
  EXPECT_TRUE((agrees<float>("fmod", 0, [](float a, float b) { return std::fmod(a, b); })));
  EXPECT_TRUE((agrees<double>("fmod", 0, [](double a, double b) { return std::fmod(a, b); })));
  EXPECT_TRUE((agrees<float>("remainder", 0, python_mod<float>)));
  EXPECT_TRUE((agrees<double>("remainder", 0, python_mod<double>)));
}

template <class T>
double floor_quotient(T a, T b) {
  if (b == 0) return a / b;
  const T mod = std::fmod(a, b);
  T div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= 1;
  if (div == 0) return std::copysign(T(0), a / b);
  const T floored = std::floor(div);
  return div - floored > T(0.5) ? floored + 1 : floored;
}
TEST(KernelsPairs, floor_division_follows_pythons_rule) {
  EXPECT_TRUE((agrees<float>("div_floor", 0, floor_quotient<float>)));
  EXPECT_TRUE((agrees<double>("div_floor", 0, floor_quotient<double>)));
}

TEST(KernelsPairs, angles_in_every_quadrant) {
  EXPECT_TRUE((agrees<float>("atan2", 1.5, [](double a, double b) { return std::atan2(a, b); })));
  EXPECT_TRUE((agrees<double>("atan2", 2, [](double a, double b) { return std::atan2(a, b); })));
}

TEST(KernelsPairs, powers_of_floats) {
  EXPECT_TRUE((agrees<float>("pow", 0.51, [](double a, double b) { return std::pow(a, b); })));
  EXPECT_TRUE((agrees<double>("pow", 0, [](double a, double b) { return std::pow(a, b); })));
}

TEST(KernelsPairs, powers_by_a_number) {
  const Pairs<float> p;
  for (double e : {2.0, 3.0, 1.0, 0.5, -1.0, -0.5, -2.0, 2.5, -7.0, 0.0}) {
    Params params;
    params.set(0, e);
    std::vector<float> out(p.a.size());
    const void* in[] = {p.a.data()};
    void* to[] = {out.data()};
    find_loop("pow_scalar", kFloat)(in, to, static_cast<int64_t>(out.size()), &params);
    for (size_t i = 0; i < out.size(); ++i) {
      const double x = p.a[i], want = e == 0.5 ? std::sqrt(x) : e == -0.5 ? 1 / std::sqrt(x) : std::pow(x, e);
      if (std::abs(want) < 1e-37) continue;  // a square on its way may be too small for a float
      if (std::abs(want) > 1e38 && !std::isinf(want)) continue;
      ASSERT_LE(distance<float>(out[i], want), 1.6) << x << " to the power of " << e << " gave " << out[i];
    }
  }
}

}  // namespace
}  // namespace tern::kernels
