// Numbers that the loops of math.ops need besides the operator's own arguments, longer bodies, and polygamma.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/checks.h"
#include "tern/ops/math.args.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

// ψ⁽ⁿ⁾(x) = (-1)ⁿ⁺¹ n! ζ(n+1, x): by recurrence up to where the asymptotic series
// holds.
double polygamma_at(int64_t n, double x) {
  if (std::isnan(x)) return x;
  if (x <= 0 && x == std::floor(x)) return n % 2 ? INFINITY : -INFINITY;
  if (x < -1e6) return NAN;  // as many terms as numbers up to zero
  double s = static_cast<double>(n) + 1, total = 0;
  double sign = n % 2 ? 1 : -1, factorial = std::tgamma(static_cast<double>(n) + 1);
  while (x < 20 + static_cast<double>(n)) {
    const double term = std::pow(x, -s);
    total += term;
    if (x > 0 && term <= 1e-18 * total)
      return sign * factorial * total;  // the rest is less than twenty of it
    x += 1;
  }
  // Euler–Maclaurin for the rest of the sum.
  static const double bernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                     5.0 / 66, -691.0 / 2730, 7.0 / 6};
  total += std::pow(x, 1 - s) / (s - 1) + 0.5 * std::pow(x, -s);
  double term = s * std::pow(x, -s - 1), divisor = 2;
  for (int k = 0; k < 7; ++k) {
    total += bernoulli[k] * term / divisor;
    double m = 2.0 * k + 1;
    term *= (s + m) * (s + m + 1) / (x * x);
    divisor *= (m + 2) * (m + 3);
  }
  return sign * factorial * total;
}

// ψ′ in the type itself, as PyTorch computes it: near the poles the type's own rounding of π·x decides.
template <class T>
T trigamma(T x) {
  T sign = 1, result = 0;
  if (x < T(0.5)) {
    const T pi = T(3.14159265358979323846), sine = std::sin(pi * x);
    sign = -1;
    result -= pi * pi / (sine * sine);
    x = 1 - x;
  }
  for (int i = 0; i < 6; ++i) {
    result += 1 / (x * x);
    x += 1;
  }
  const T inverse = 1 / (x * x);
  result += (1 + 1 / (2 * x) + inverse * (T(1) / 6 - inverse * (T(1) / 30 - inverse * (T(1) / 42)))) / x;
  return sign * result;
}

}  // namespace

void params_nan_to_num(const args::nan_to_num& a, kernels::Params& params) {
  double top = largest_number(to_real(a.self.dtype()));
  params.set(0, a.nan.value_or(0));
  params.set(1, a.posinf.value_or(top));
  params.set(2, a.neginf.value_or(-top));
}

Tensor body_nan_to_num(const args::nan_to_num& a) {
  const Tensor& self = a.self;
  if (is_integral(self.dtype(), true)) return clone(self);
  if (self.is_complex()) return view_as_complex(nan_to_num(view_as_real(self), a.nan, a.posinf, a.neginf));
  double top = largest_number(self.dtype());
  Tensor finite = where(isnan(self), a.nan.value_or(0), self);
  finite = where(eq(self, -INFINITY), a.neginf.value_or(-top), finite);
  return where(eq(self, INFINITY), a.posinf.value_or(top), finite);
}

Tensor body_logit(const args::logit& a) {
  Tensor x = is_integral(a.self.dtype(), true) ? _to_copy(a.self, default_dtype()) : a.self;
  double low = a.eps.value_or(-1), high = 1 - low;
  Tensor below = lt(x, low);
  x = where(below, low, where(gt(x, high), high, x));
  return log(div(x, rsub(x, 1)));
}

namespace {

// The larger one plus what the smaller one adds to it; infinities of one sign stay what they are.
Tensor add_in_logarithms(const Tensor& self, const Tensor& other, bool of_two) {
  Dims sizes = broadcast_sizes(self.sizes(), other.sizes());
  Tensor a = expanded(self, sizes), b = expanded(other, sizes);
  Tensor first = ge(a, b);
  Tensor larger = where(first, a, b), smaller = where(first, b, a);
  Tensor same = logical_and(of_two ? isinf(a) : logical_not(isfinite(a)), eq(a, b));
  Tensor gap = sub(smaller, larger);
  Tensor more = of_two ? log1p(exp2(gap)) * (1 / std::log(2.0)) : log1p(exp(gap));
  return where(same, a, add(larger, more));
}

}  // namespace

Tensor body_logaddexp(const args::logaddexp& a) {
  if (a.self.is_complex()) return log(add(exp(a.self), exp(a.other)));
  return add_in_logarithms(a.self, a.other, false);
}
Tensor body_logaddexp2(const args::logaddexp2& a) { return add_in_logarithms(a.self, a.other, true); }

void params_logit(const args::logit& a, kernels::Params& params) { params.set(0, a.eps.value_or(-1)); }
void params_logit_backward(const args::logit_backward& a, kernels::Params& params) {
  params.set(0, a.eps.value_or(-1));
}

Shapes shape_polygamma(const args::polygamma& a) {
  if (a.n < 0) fail("polygamma(n, x) does not support negative n.");
  return {like(a.self, is_integral(a.self.dtype(), true) ? default_dtype() : a.self.dtype())};
}
void kernel_polygamma(const args::polygamma& a, Out out) {
  if (a.n == 0) return run_loop("digamma", {a.self}, out[0]);
  if (a.self.is_complex()) fail(ErrorKind::not_supported, "\"polygamma\" not implemented for complex types");
  if (a.n == 1) {
    Tensor values = make_tensor(a.self.sizes(), out[0].dtype() == kDouble ? kDouble : kFloat);
    copy_elements(a.self, values);
    auto each = [&](auto* x) {
      std::transform(x, x + values.int_numel(), x, [](auto v) { return trigamma(v); });
    };
    values.dtype() == kDouble ? each(values.data_ptr<double>()) : each(values.data_ptr<float>());
    return copy_elements(values, out[0]);
  }
  Tensor values = make_tensor(a.self.sizes(), kDouble);
  copy_elements(a.self, values);
  double* x = values.data_ptr<double>();
  for (int64_t i = 0; i < values.int_numel(); ++i) x[i] = polygamma_at(a.n, x[i]);
  copy_elements(values, out[0]);
}

}  // namespace tern
