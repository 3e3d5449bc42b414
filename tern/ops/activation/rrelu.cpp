// The leaky rectifier with a random slope: each negative element gets a slope of its own while training.
#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
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
  return std::get<0>(rrelu_with_noise_functional(
      a.self, empty(a.self.sizes(), a.self.dtype(), {}, a.self.device(), {}, MemoryFormat::contiguous),
      a.lower, a.upper, true, a.generator));
}

Tensor body_rrelu_with_noise(const args::rrelu_with_noise& a) {
  auto [result, noise] =
      rrelu_with_noise_functional(a.self, a.noise, a.lower, a.upper, a.training, a.generator);
  NoGrad no_grad;
  if (a.training) copy_(a.noise, noise);
  return result;
}

Shapes shape_rrelu_with_noise_functional(const args::rrelu_with_noise_functional& a) {
  check_bounds(a.lower, a.upper);
  bool same = a.self.dim() == a.noise.dim();
  for (int64_t d = 0; same && d < a.self.dim(); ++d) same = a.self.size(d) == a.noise.size(d);
  if (!same)
    failf("noise tensor shape must match self tensor shape. Got self.shape = {} noise.shape = {}",
          str(a.self.sizes()), str(a.noise.sizes()));
  return {Shape(a.self.sizes(), a.self.dtype()), Shape(a.noise.sizes(), a.noise.dtype())};
}
void kernel_rrelu_with_noise_functional(const args::rrelu_with_noise_functional& a, Out out) {
  // PyTorch draws no slopes of float16.
  if (a.training && a.self.dtype() == DType::float16)
    not_implemented_for("rrelu_with_noise_out_cpu", a.self.dtype());
  Tensor x = row_major(a.self), noise = row_major(a.noise);
  // Without training the noise is not touched.
  if (!a.training) copy_elements(noise, out[1]);
  kernels::Mt19937& engine = generator_or_default(a.generator).engine();
  by_float_dtype("rrelu_with_noise_out_cpu", x.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    // Limits of the tensor's type, drawn from in double, as PyTorch does.
    const W low = static_cast<W>(a.lower.to_double()), high = static_cast<W>(a.upper.to_double());
    const W between = static_cast<W>(middle(a.lower, a.upper));
    const int64_t n = x.int_numel();
    for (int64_t i = 0; i < n; ++i) {
      W v = static_cast<W>(static_cast<const T*>(x.data())[i]), slope = 1;
      if (!a.training) {
        slope = v < 0 ? between : W(1);
      } else if (v <= 0) {
        double drawn;
        kernels::uniform(engine, kDouble, &drawn, 1, 0, 1);
        drawn *= static_cast<double>(high) - static_cast<double>(low);  // rounded before it is moved
        slope = static_cast<W>(drawn + static_cast<double>(low));
      }
      static_cast<T*>(out[0].data())[i] = static_cast<T>(v * slope);
      if (a.training) static_cast<T*>(out[1].data())[i] = static_cast<T>(slope);
    }
  });
}
Tensor body_rrelu_with_noise_backward(const args::rrelu_with_noise_backward& a) {
  if (a.training && a.upper.to_double() - a.lower.to_double() > 1e-6) return a.noise * a.grad_output;
  return leaky_relu_backward(a.grad_output, a.self, middle(a.lower, a.upper), a.self_is_result);
}

}  // namespace tern
