// Bodies and gradient formulas of the special functions.
#include <limits>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/special.args.h"

namespace tern {

Tensor body_special_log_ndtr(const args::special_log_ndtr& a) {
  Tensor t = a.self * 0.7071067811865476;
  return where(a.self < 1.0, log(special_erfcx(neg(t)) / 2) - t * t, log1p(neg(erfc(t)) / 2));
}
Tensor body_sinc(const args::sinc& a) {
  Tensor y = a.self * 3.141592653589793;
  return where(y == 0, scalar_tensor(1, y.dtype(), {}, y.device()), sin(y) / y);
}
Tensor sinc_backward(const Tensor& grad, const Tensor& self) {
  Tensor y = self * 3.141592653589793, square = self * self * 3.141592653589793;
  Tensor slope = grad * conj((y * cos(y) - sin(y)) / square);
  return where(square == 0, 0, slope);
}

namespace {

double smallest_step(DType d) {
  return d == kDouble ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

}  // namespace

Tensor i1_backward(const Tensor& grad, const Tensor& self, const Tensor& result) {
  double eps = smallest_step(self.dtype());
  Tensor large = abs(self) > eps, x = where(large, self, eps);
  return where(large, i0(x) - result / x, 0.5) * grad;
}
Tensor i1e_backward(const Tensor& grad, const Tensor& self, const Tensor& result) {
  double eps = smallest_step(self.dtype());
  Tensor large = abs(self) > eps, x = where(large, self, eps);
  return where(large, special_i0e(x) - result * (sgn(x) + reciprocal(x)), 0.5) * grad;
}
Tensor not_differentiable(std::string_view what) {
  failf(ErrorKind::not_supported, "the derivative for '{}' is not implemented.", what);
}

Tensor body_mvlgamma(const args::mvlgamma& a) {
  if (a.p < 1) fail("p has to be greater than or equal to 1");
  DType type = a.self.is_floating_point() ? a.self.dtype() : default_dtype();
  double p = static_cast<double>(a.p);
  Tensor shifts = arange(Scalar(1 - a.p), Scalar(1), Scalar(1), type, {}, a.self.device()) * 0.5;
  return sum(lgamma(unsqueeze(a.self, -1) + shifts), Ints(-1)) + p * (p - 1) * 1.1447298858494002 / 4;
}

}  // namespace tern
