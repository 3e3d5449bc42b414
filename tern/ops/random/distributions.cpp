// The gamma family of distributions over whole tensors; elements draw in row-major order.
#include "tern/kernels/distributions.h"

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/distributions.args.h"
#include "tern/ops/elements.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

kernels::Mt19937& engine(const Generator* g) { return generator_or_default(g).engine(); }
Shapes like_row_major(const Tensor& t) { return {Shape(t.sizes(), t.dtype())}; }
// Row-major elements of t, repeated as `sizes` say.
Tensor spread_out(const Tensor& t, Span<const SymInt> sizes) { return row_major(expand_view(t, sizes)); }

}  // namespace

Shapes shape_poisson(const args::poisson& a) { return like_row_major(a.self); }
void kernel_poisson(const args::poisson& a, Out out) {
  Tensor rate = row_major(a.self);
  kernels::poisson(engine(a.generator), rate.dtype(), rate.data(), out[0].data(), rate.int_numel());
}

Shapes shape_binomial(const args::binomial& a) {
  for (const auto& [t, what] : {std::pair(&a.count, "count"), std::pair(&a.prob, "prob")})
    if (!t->is_floating_point())
      failf(ErrorKind::value, "binomial only supports floating-point dtypes for {}, got: {}", what,
            script_name(t->dtype()));
  if (a.count.dtype() != a.prob.dtype())
    failf("Found dtype {} but expected {}", script_name(a.prob.dtype()), script_name(a.count.dtype()));
  if (a.count.dtype() != kFloat && a.count.dtype() != kDouble)
    not_implemented_for("binomial_cpu", a.count.dtype());
  return {Shape(broadcast_sizes(a.count.sizes(), a.prob.sizes()), a.count.dtype())};
}
void kernel_binomial(const args::binomial& a, Out out) {
  Tensor count = spread_out(a.count, out[0].sizes()), prob = spread_out(a.prob, out[0].sizes());
  kernels::binomial(engine(a.generator), count.dtype(), count.data(), prob.data(), out[0].data(),
                    count.int_numel());
}

Shapes shape__standard_gamma(const args::_standard_gamma& a) { return like_row_major(a.self); }
void kernel__standard_gamma(const args::_standard_gamma& a, Out out) {
  Tensor alpha = row_major(a.self);
  kernels::standard_gamma(engine(a.generator), alpha.dtype(), alpha.data(), out[0].data(), alpha.int_numel());
}

Shapes shape__standard_gamma_grad(const args::_standard_gamma_grad& a) {
  return {Shape(broadcast_sizes(a.self.sizes(), a.output.sizes()), a.self.dtype())};
}
void kernel__standard_gamma_grad(const args::_standard_gamma_grad& a, Out out) {
  Tensor alpha = spread_out(a.self, out[0].sizes()), x = spread_out(a.output, out[0].sizes());
  kernels::standard_gamma_grad(alpha.dtype(), alpha.data(), x.data(), out[0].data(), alpha.int_numel());
}

Shapes shape__sample_dirichlet(const args::_sample_dirichlet& a) { return like_row_major(a.self); }
void kernel__sample_dirichlet(const args::_sample_dirichlet& a, Out out) {
  Tensor alpha = row_major(a.self);
  const int64_t width = alpha.dim() ? alpha.int_sizes()[alpha.dim() - 1] : 1;
  if (alpha.int_numel() == 0) return;
  kernels::dirichlet(engine(a.generator), alpha.dtype(), alpha.data(), out[0].data(),
                     alpha.int_numel() / width, width);
}

Shapes shape__dirichlet_grad(const args::_dirichlet_grad& a) {
  return {
      Shape(broadcast_sizes(broadcast_sizes(a.x.sizes(), a.alpha.sizes()), a.total.sizes()), a.x.dtype())};
}
void kernel__dirichlet_grad(const args::_dirichlet_grad& a, Out out) {
  Tensor x = spread_out(a.x, out[0].sizes()), alpha = spread_out(a.alpha, out[0].sizes()),
         total = spread_out(a.total, out[0].sizes());
  kernels::dirichlet_grad(x.dtype(), x.data(), alpha.data(), total.data(), out[0].data(), x.int_numel());
}

}  // namespace tern
