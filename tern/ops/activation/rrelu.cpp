// The leaky rectifier with a random slope: each negative element gets a slope of its own while training.
#include "tern/base/format.h"
#include "tern/kernels/random.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/rrelu.args.h"
#include "tern/tensor/generator.h"

namespace tern {
namespace {

void check_bounds(const Scalar& lower, const Scalar& upper) {
  if (lower.to_double() > upper.to_double())
    failf("Lower bound should be less than or equal to the upper bound");
}
double middle(const Scalar& lower, const Scalar& upper) {
  return (lower.to_double() + upper.to_double()) / 2;
}

}  // namespace

Tensor body_rrelu(const args::rrelu& a) {
  check_bounds(a.lower, a.upper);
  if (!a.training) return leaky_relu(a.self, middle(a.lower, a.upper));
  return std::get<0>(
      rrelu_with_noise_functional(a.self, empty_like(a.self), a.lower, a.upper, true, a.generator));
}

Shapes shape_rrelu_with_noise_functional(const args::rrelu_with_noise_functional& a) {
  check_bounds(a.lower, a.upper);
  return {Shape(a.self.sizes(), a.self.dtype()), Shape(a.noise.sizes(), a.noise.dtype())};
}
void kernel_rrelu_with_noise_functional(const args::rrelu_with_noise_functional& a, Out out) {
  Tensor x = row_major(a.self), noise = row_major(a.noise);
  kernels::Mt19937& engine = generator_or_default(a.generator).engine();
  const double low = a.lower.to_double(), high = a.upper.to_double();
  by_float_dtype("rrelu_with_noise_out_cpu", x.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    const int64_t n = x.int_numel();
    for (int64_t i = 0; i < n; ++i) {
      W v = static_cast<W>(static_cast<const T*>(x.data())[i]), slope = 1;
      if (!a.training) {
        slope = v < 0 ? static_cast<W>((low + high) / 2) : W(1);
      } else if (v <= 0) {
        double drawn;
        kernels::uniform(engine, kDouble, &drawn, 1, low, high);
        slope = static_cast<W>(drawn);
      }
      static_cast<T*>(out[0].data())[i] = static_cast<T>(v * slope);
      static_cast<T*>(out[1].data())[i] = static_cast<T>(slope);
    }
  });
}
Tensor body_rrelu_with_noise_backward(const args::rrelu_with_noise_backward& a) {
  if (a.training && a.upper.to_double() - a.lower.to_double() > 1e-6) return a.noise * a.grad_output;
  return leaky_relu_backward(a.grad_output, a.self, middle(a.lower, a.upper), a.self_is_result);
}

}  // namespace tern
