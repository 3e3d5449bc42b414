// Gradients and bodies of elementwise arithmetic that are longer than a line.
#include "tern/ops/formulas.h"

#include <cmath>
#include <complex>

#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"

namespace tern {

Shape broadcast_shape(Span<const Tensor> tensors, DType dtype) {
  Dims sizes;
  for (const Tensor& t : tensors) sizes = broadcast_sizes(sizes, t.sizes());
  for (const Tensor& t : tensors) {
    bool full = t.dim() == static_cast<int64_t>(sizes.size());
    for (size_t d = 0; full && d < sizes.size(); ++d) full = surely_eq(t.sizes()[d], sizes[d]);
    if (!full) continue;
    Shape s = like(t, dtype);
    s.sizes = std::move(sizes);
    return s;
  }
  return Shape(std::move(sizes), dtype);
}

Tensor angle_backward(const Tensor& grad, const Tensor& self) {
  Tensor size = abs(self);
  Tensor direction = where(size == 0, 0, self / (size * size));
  return mul(grad * direction, wrap_number(std::complex<double>(0, 1)));
}

Tensor sgn_backward(const Tensor& grad, const Tensor& self, const Tensor& result) {
  Tensor size = abs(self);
  Tensor along = real(grad * conj(result));
  return where(size == 0, 0, (grad - along * result) / size);
}

Tensor pow_backward(const Tensor& grad, const Tensor& self, const Scalar& exponent) {
  if (exponent.equals(0)) return zeros_like(self);
  if (exponent.equals(1)) return grad;
  if (exponent.equals(2)) return grad * conj(times(self, 2));
  return grad * conj(pow(self, exponent - Scalar(1)) * exponent);
}

Tensor pow_backward_exponent(const Tensor& grad, const Tensor& self, const Tensor& exponent,
                             const Tensor& result) {
  Tensor flat =
      logical_and(self == 0, exponent.is_complex() ? logical_and(imag(exponent) == 0, real(exponent) >= 0)
                                                   : exponent >= 0);
  return grad * where(flat, 0, conj(result * log(self)));
}

// A number has its logarithm in double precision, whatever the default type is.
Tensor pow_backward_exponent(const Tensor& grad, const Scalar& base, const Tensor& exponent,
                             const Tensor& result) {
  if (base.is_symbolic() || base.equals(0))
    return pow_backward_exponent(grad, wrap_number(base), exponent, result);
  const bool complex = base.is_complex() || exponent.is_complex();
  Scalar slope = complex ? Scalar(std::log(base.to_complex())) : Scalar(std::log(base.to_double()));
  return grad * conj(result * slope);
}

DType to_double_type(const Tensor& a, const Tensor& b) {
  return a.is_complex() || b.is_complex() ? kComplexDouble : kDouble;
}

Tensor within(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  if (min && max) return logical_and(self >= *min, self <= *max);
  return min ? self >= *min : self <= *max;
}
Tensor within(const Tensor& self, const Tensor& min, const Tensor& max) {
  if (min.defined() && max.defined()) return logical_and(self >= min, self <= max);
  return min.defined() ? self >= min : self <= max;
}
Tensor within_unit(const Tensor& self, std::optional<double> eps) {
  return eps ? within(self, Scalar(*eps), Scalar(1 - *eps)) : within(self, Scalar(0.0), Scalar(1.0));
}

Tensor clamp_bound_backward(const Tensor& grad, const Tensor& self, const Tensor& min, const Tensor& max,
                            bool lower) {
  if (lower) {
    Tensor below = self < min;
    return where(max.defined() ? logical_and(below, min < max) : below, grad, 0);
  }
  Tensor above = self > max;
  return where(min.defined() ? logical_or(above, max < min) : above, grad, 0);
}

Tensor round_decimals(const Tensor& self, int64_t decimals) {
  if (decimals == 0 || !self.is_floating_point()) return round(self);
  // Rounded once to a narrow type, at the end.
  if (compute_dtype(self.dtype()) != self.dtype())
    return to(round_decimals(to(self, compute_dtype(self.dtype())), decimals), self.dtype());
  double ten = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  return decimals > 0 ? round(self * ten) / ten : round(self / ten) * ten;
}

}  // namespace tern
