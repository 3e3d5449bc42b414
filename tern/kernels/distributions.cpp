// Rejection samplers: Poisson and binomial numbers after Hörmann (1993, "transformed rejection"), gamma
// numbers after Marsaglia and Tsang (2000); their gradients by series where those converge and by fitted
// rational functions elsewhere, as PyTorch takes them.
#include "tern/kernels/distributions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/kernels/pointwise.h"
#include "tern/kernels/special.h"

namespace tern::kernels {
namespace {

double uniform(Mt19937& g) { return static_cast<double>(g.random64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53; }
double normal(Mt19937& g) {
  double x;
  kernels::normal(g, DType::float64, &x, 1, 0, 1);
  return x;
}

template <class F>
void by_type(DType type, const char* what, F f) {
  if (type == DType::float32) return f(float{});
  if (type == DType::float64) return f(double{});
  failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", what, script_name(type));
}

// ---- Poisson ----

// Products of uniform numbers until they fall below exp(-rate).
int64_t poisson_by_products(Mt19937& g, double rate) {
  const double limit = std::exp(-rate);
  int64_t k = 0;
  for (double product = uniform(g); product > limit; product *= uniform(g)) ++k;
  return k;
}
int64_t poisson_by_rejection(Mt19937& g, double rate) {
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b, log_rate = std::log(rate);
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), squeeze = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = uniform(g) - 0.5, v = uniform(g), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= squeeze) return static_cast<int64_t>(k);
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        -rate + k * log_rate - log_gamma(k + 1))
      return static_cast<int64_t>(k);
  }
}
int64_t poisson_one(Mt19937& g, double rate) {
  if (!(rate >= 0)) fail(ErrorKind::runtime, "invalid Poisson rate, expected rate to be non-negative");
  if (rate == 0) return 0;
  return rate >= 10 ? poisson_by_rejection(g, rate) : poisson_by_products(g, rate);
}

// ---- binomial ----

// What Stirling's formula for log k! lacks.
double stirling_tail(double k) {
  static constexpr double small[] = {
      0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509, 0.0166446911898211,
      0.0138761288230707, 0.0118967099458917, 0.0104112652619720, 0.00925546218271273, 0.00833056343336287};
  if (k <= 9) return small[static_cast<int>(k)];
  const double square = (k + 1) * (k + 1);
  return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}
// Sums of geometric numbers until they pass the count.
template <class T>
T binomial_by_gaps(Mt19937& g, T count, T p) {
  const double log_q = std::log1p(-p);
  T successes = 0;
  for (double at = 0;;) {
    at += std::ceil(std::log(uniform(g)) / log_q);
    if (at > count) return successes;
    successes += 1;
  }
}
template <class T>
T binomial_by_rejection(Mt19937& g, T count, T p) {
  const double deviation = std::sqrt(count * p * (1 - p)), b = 1.15 + 2.53 * deviation,
               a = -0.0873 + 0.0248 * b + 0.01 * p, centre = count * p + 0.5, squeeze = 0.92 - 4.2 / b,
               odds = p / (1 - p), alpha = (2.83 + 5.1 / b) * deviation, mode = std::floor((count + 1) * p);
  for (;;) {
    const double u = uniform(g) - 0.5, v = uniform(g), us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + centre);
    if (k < 0 || k > count) continue;
    if (us >= 0.07 && v <= squeeze) return static_cast<T>(k);
    const double bound = (mode + 0.5) * std::log((mode + 1) / (odds * (count - mode + 1))) +
                         (count + 1) * std::log((count - mode + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(odds * (count - k + 1) / (k + 1)) + stirling_tail(mode) +
                         stirling_tail(count - mode) - stirling_tail(k) - stirling_tail(count - k);
    if (std::log(v * alpha / (a / (us * us) + b)) <= bound) return static_cast<T>(k);
  }
}
template <class T>
T binomial_one(Mt19937& g, T count, T p) {
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  if (std::isnan(p)) return p;
  const T rare = p <= T(0.5) ? p : T(1.0 - p);
  const T hits =
      count * rare >= 10 ? binomial_by_rejection(g, count, rare) : binomial_by_gaps(g, count, rare);
  return p <= T(0.5) ? hits : count - hits;
}

// ---- gamma ----

template <class T>
T gamma_one(Mt19937& g, T alpha) {
  double scale = 1;
  if (alpha < 1) {
    if (alpha == 0) return 0;
    scale = std::pow(1 - uniform(g), 1 / alpha);
    alpha += 1;
  }
  const double d = alpha - T(1.0f / 3.0f), c = 1 / std::sqrt(9 * d);
  for (;;) {
    double x, y;
    do {
      x = normal(g);
      y = 1 + c * x;
    } while (y <= 0);
    const double v = y * y * y, u = 1 - uniform(g), square = x * x;
    if (u < 1 - double(0.0331f) * square * square || std::log(u) < 0.5 * square + d * (1 - v + std::log(v)))
      return static_cast<T>(scale * d * v);
  }
}

// ---- gradients of gamma numbers ----

double zero_if_nan(double x) { return std::isnan(x) ? 0 : x; }

// The cumulative function as a series in x, and its derivative by alpha.
double gamma_grad_small(double alpha, double x) {
  double term = 1, divisor = alpha, series = term / divisor, series_by_alpha = term / (divisor * divisor);
  for (int i = 1; i <= 5; ++i) {
    term *= -x / i;
    divisor += 1;
    series += term / divisor;
    series_by_alpha += term / (divisor * divisor);
  }
  const double power = std::pow(x, alpha), density = std::pow(x, alpha - 1) * std::exp(-x);
  const double by_alpha = (std::log(x) - digamma(alpha)) * power * series - power * series_by_alpha;
  return zero_if_nan(-by_alpha / density);
}
// Rice's saddle point expansion; near x = alpha its limit.
double gamma_grad_large(double alpha, double x) {
  if (double(0.9f) * alpha <= x && x <= double(1.1f) * alpha) {
    const double first = 1 + 24 * alpha * (1 + 12 * alpha);
    const double second =
        1440 * (alpha * alpha) + 6 * x * (53 - 120 * x) - 65 * x * x / alpha + alpha * (107 + 3600 * x);
    return first * second / (1244160 * (alpha * alpha) * (alpha * alpha));
  }
  const double root = std::sqrt(8 * alpha), gap = alpha - x, log_ratio = std::log(x / alpha);
  const double pole = root / gap, tail = std::pow(x - alpha - alpha * log_ratio, -1.5);
  const double both = x < alpha ? pole - tail : pole + tail;
  const double term = log_ratio * both - std::sqrt(2 / alpha) * (alpha + x) / (gap * gap);
  const double stirling = 1 + 1 / (12 * alpha) * (1 + 1 / (24 * alpha));
  return -stirling * x * term / root;
}
// A rational function of log(x / alpha) and log(alpha), fitted to the logarithm of the gradient.
double gamma_grad_fitted(double alpha, double x) {
  static constexpr double fit[3][8] = {
      {0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1, 0.32668115, 0.10406089, 0.0014179084},
      {0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915,
       -0.00058392623},
      {0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326, 0.00085092367,
       -1.5247877e-07}};
  const double u = std::log(x / alpha), v = std::log(alpha);
  double c[8];
  for (int i = 0; i < 8; ++i) c[i] = fit[0][i] + u * (fit[1][i] + u * fit[2][i]);
  const double p = c[0] + v * (c[1] + v * (c[2] + v * c[3])), q = c[4] + v * (c[5] + v * (c[6] + v * c[7]));
  return std::exp(p / q);
}
double gamma_grad(double alpha, double x) {
  if (x < double(0.8f)) return gamma_grad_small(alpha, x);
  return alpha > 8 ? gamma_grad_large(alpha, x) : gamma_grad_fitted(alpha, x);
}

// ---- gradients of beta numbers ----

// For float tensors PyTorch rounds to float on the way, which shows where two digammas are nearly equal: T is
// what it rounds to.

template <class T>
T digamma_as(T x) {
  static constexpr double series[] = {1.0 / 12,  -691.0 / 32760, 1.0 / 132, -1.0 / 240,
                                      1.0 / 252, -1.0 / 120,     1.0 / 12};
  constexpr double at_ten = 2.25175258906672110764;
  if (x == 0 || (x < 0 && x == std::floor(x))) return std::numeric_limits<T>::infinity();
  double sum = 0;
  if (x < 0) {
    sum = -M_PI / std::tan(M_PI * static_cast<double>(x));
    x = 1 - x;
  }
  for (; x < 10; x += 1) sum -= 1 / x;
  if (x == 10) return static_cast<T>(sum + at_ten);
  double tail = 0;
  if (x < T(1e17)) {
    const double square = 1.0 / (x * x);
    for (double c : series) tail = tail * square + c;
    tail *= square;
  }
  return static_cast<T>(sum + std::log(x) - T(0.5) / x - tail);
}

template <class T>
T beta_grad_near_zero(T x, T alpha, T beta) {
  const T factor = digamma_as(alpha) - digamma_as(alpha + beta) - std::log(x);
  T term = 1, series = term / alpha * (factor + 1 / alpha);
  for (int i = 1; i <= 10; ++i) {
    const T n = static_cast<T>(i), below = alpha + n;
    term *= (n - beta) * x / n;
    series += term / below * (factor + 1 / below);
  }
  const T result = x * std::pow(1 - x, -beta) * series;
  return std::isnan(result) ? T(0) : result;
}
// By the second parameter, for x near zero.
template <class T>
T beta_grad_other_near_zero(T x, T alpha, T beta) {
  const T factor = digamma_as(alpha + beta) - digamma_as(beta);
  T term = 1, product = 1, product_by_beta = 0, series = factor / alpha;
  for (int i = 1; i <= 8; ++i) {
    const T n = static_cast<T>(i);
    term *= -x / n;
    product_by_beta = product_by_beta * (beta - n) + product;
    product *= beta - n;
    series += term / (alpha + n) * (product_by_beta + factor * product);
  }
  const T result = -std::pow(1 - x, 1 - beta) * series;
  return std::isnan(result) ? T(0) : result;
}
// Rice's saddle point expansion for large parameters; near the mean its limit.
double beta_grad_middle(double x, double alpha, double beta) {
  const double total = alpha + beta, mean = alpha / total,
               deviation = std::sqrt(alpha * beta / (total + 1)) / total;
  if (mean - 0.1 * deviation <= x && x <= mean + 0.1 * deviation) {
    const double square = beta * beta;
    const double poly =
        47 * x * square * square + alpha * ((43 + 20 * (16 + 27 * beta) * x) * square * beta +
                                            alpha * (3 * (59 + 180 * beta - 90 * x) * square +
                                                     alpha * ((453 + 1620 * beta * (1 - x) - 455 * x) * beta +
                                                              alpha * (8 * (1 - x) * (135 * beta - 11)))));
    return (1 + 12 * alpha) * (1 + 12 * beta) / (total * total) / (1 - x) * poly /
           (12960 * alpha * alpha * alpha * square * (1 + 12 * total));
  }
  auto stirling = [](double v) { return 1 + 1 / (12 * v) + 1 / (288 * v * v); };
  const double correction = stirling(alpha) * stirling(beta) / stirling(total);
  const double gap = alpha * (x - 1) + beta * x;
  const double first = (2 * (alpha * alpha) * (x - 1) + alpha * beta * (x - 1) - x * (beta * beta)) /
                       (std::sqrt(2 * alpha / beta) * std::pow(total, 1.5) * gap * gap);
  const double pole = std::sqrt(8 * alpha * beta / total) / gap;
  const double tail =
      std::pow(beta * std::log(beta / (total * (1 - x))) + alpha * std::log(alpha / (total * x)), -1.5);
  const double sum = first + 0.5 * std::log(alpha / (total * x)) * (pole + (x < mean ? tail : -tail));
  return -x / std::sqrt(2 * alpha * beta / total) * correction * sum;
}
// An analytic approximation times a rational function of logarithms, fitted to what it lacks.
template <class T>
double beta_grad_fitted(double x, double alpha, double total) {
  static constexpr double fit[2][3][3][4] = {
      {{{1.003668233, -0.01061107488, -0.0657888334, 0.01201642863},
        {0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033},
        {-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013}},
       {{0.221950385, -0.3187676331, 0.01799915743, 0.01074823814},
        {-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057},
        {0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05}},
       {{-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565},
        {0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181},
        {0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05}}},
      {{{1, -0.02924021934, -0.04438342661, 0.007285809825},
        {0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521},
        {-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149}},
       {{0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273},
        {0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956},
        {-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05}},
       {{0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05},
        {0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05},
        {-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06}}}};
  const double u = std::log(x), a = std::log(alpha) - u, b = std::log(total) - a;
  const double of_u[3] = {1, u, u * u}, of_a[3] = {1, a, a * a};
  double sums[2] = {0, 0};
  for (int part = 0; part < 2; ++part)
    for (int i = 0; i < 3; ++i)
      for (int j = 0; j < 3; ++j) {
        const double* c = fit[part][i][j];
        sums[part] += of_u[i] * of_a[j] * (c[0] + b * (c[1] + b * (c[2] + b * c[3])));
      }
  const T digammas = digamma_as(static_cast<T>(total)) - digamma_as(static_cast<T>(alpha));
  return sums[0] / sums[1] * (x * digammas / (total - alpha));
}
template <class T>
T beta_grad(T x, T alpha, T total) {
  const T beta = total - alpha;
  const double wide_x = x, wide_alpha = alpha, wide_total = total;
  const double edge = wide_total * wide_x * (1 - wide_x);
  if (x <= T(0.5) && edge < 2.5) return beta_grad_near_zero(x, alpha, beta);
  if (x >= T(0.5) && edge < 0.75) return -beta_grad_other_near_zero(1 - x, beta, alpha);
  if (alpha > 6 && beta > 6)
    return static_cast<T>(beta_grad_middle(wide_x, wide_alpha, wide_total - wide_alpha));
  return static_cast<T>(beta_grad_fitted<T>(wide_x, wide_alpha, wide_total));
}

}  // namespace

void poisson(Mt19937& g, DType type, const void* rate, void* out, int64_t n) {
  auto fill = [&]<class T>(T) {
    using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(out)[i] = static_cast<T>(static_cast<Wide>(
          poisson_one(g, static_cast<double>(static_cast<Wide>(static_cast<const T*>(rate)[i])))));
  };
  if (type == DType::float16) return fill(Half{});
  if (type == DType::bfloat16) return fill(BFloat16{});
  by_type(type, "poisson_cpu", fill);
}

void binomial(Mt19937& g, DType type, const void* count, const void* probability, void* out, int64_t n) {
  by_type(type, "binomial_cpu", [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(out)[i] =
          binomial_one<T>(g, static_cast<const T*>(count)[i], static_cast<const T*>(probability)[i]);
  });
}

void standard_gamma(Mt19937& g, DType type, const void* alpha, void* out, int64_t n) {
  by_type(type, "gamma_cpu", [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<T*>(out)[i] =
          std::max(std::numeric_limits<T>::min(), gamma_one<T>(g, static_cast<const T*>(alpha)[i]));
  });
}

void dirichlet(Mt19937& g, DType type, const void* alpha, void* out, int64_t rows, int64_t width) {
  by_type(type, "dirichlet", [&]<class T>(T) {
    const T below_one = std::nextafter(T(1), T(0));
    std::vector<double> drawn(static_cast<size_t>(rows * width));
    for (size_t i = 0; i < drawn.size(); ++i)
      drawn[i] = std::max(std::numeric_limits<double>::min(),
                          gamma_one<double>(g, static_cast<double>(static_cast<const T*>(alpha)[i])));
    for (int64_t r = 0; r < rows; ++r) {
      const double* row = drawn.data() + r * width;
      double sum = 0;
      for (int64_t k = 0; k < width; ++k) sum += row[k];
      for (int64_t k = 0; k < width; ++k)
        static_cast<T*>(out)[r * width + k] =
            std::clamp(static_cast<T>(row[k] / sum), std::numeric_limits<T>::min(), below_one);
    }
  });
}

void standard_gamma_grad(DType type, const void* alpha, const void* x, void* out, int64_t n) {
  by_type(type, "_standard_gamma_grad_cpu", [&]<class T>(T) {
    parallel_for(0, n, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        static_cast<T*>(out)[i] =
            static_cast<T>(gamma_grad(static_cast<double>(static_cast<const T*>(alpha)[i]),
                                      static_cast<double>(static_cast<const T*>(x)[i])));
    });
  });
}

void dirichlet_grad(DType type, const void* x, const void* alpha, const void* total, void* out, int64_t n) {
  by_type(type, "_dirichlet_grad_cpu", [&]<class T>(T) {
    parallel_for(0, n, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        static_cast<T*>(out)[i] = beta_grad(static_cast<const T*>(x)[i], static_cast<const T*>(alpha)[i],
                                            static_cast<const T*>(total)[i]);
    });
  });
}

}  // namespace tern::kernels
