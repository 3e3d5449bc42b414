// Fused steps of optimisers. Each tensor's arithmetic is in float or double and rounded once, as PyTorch's
// kernels do it; numbers stay tensors without dims in double, so that a step can be recorded or be fake.
#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/fused.args.h"

namespace tern {
namespace {

void check_count(Span<const Tensor> list, size_t count, const char* name) {
  if (list.size() != count) failf("Expected {}.size() == n_tensors to be true, but got false.", name);
}
Tensor widened(const char* kernel, const Tensor& t) {
  if (!t.is_floating_point()) not_implemented_for(kernel, t.dtype());
  return t.dtype() == kDouble ? t : t.to(kFloat);
}
Tensor number(double v) { return scalar_tensor(v, kDouble); }
Tensor number(const Tensor& t) {
  if (!(t.numel() == 1)) failf("a Tensor with {} elements cannot be converted to Scalar", t.numel().str());
  return reshape(t, {}).to(kDouble);
}

// A number for arithmetic with t: two tensors without dims would go by the wider type.
Tensor beside(const Tensor& t, const Tensor& n) { return n.to(t.dtype()); }

// The scale to divide gradients by, and whether the whole step is to leave everything as it is.
struct Scaling {
  Tensor divisor, skip;

  template <class A>
  explicit Scaling(const A& a) {
    if (a.grad_scale.defined()) divisor = number(a.grad_scale);
    if (a.found_inf.defined()) skip = number(a.found_inf) == 1;
  }
  void store(const Tensor& target, const Tensor& fresh) const {
    copy_(target, skip.defined() ? where(skip, target.to(fresh.dtype()), fresh) : fresh);
  }
  // The gradient as the step uses it; divided, it is also kept.
  Tensor gradient(const char* kernel, const Tensor& t, bool maximize) const {
    Tensor grad = widened(kernel, t);
    if (divisor.defined()) {
      grad = grad / beside(grad, divisor);
      store(t, grad);
    }
    return maximize ? -grad : grad;
  }
};

template <class A>
void adam(const char* kernel, const A& a, bool decoupled) {
  const size_t n = a.self.size();
  check_count(a.grads, n, "grads");
  check_count(a.exp_avgs, n, "exp_avgs");
  check_count(a.exp_avg_sqs, n, "exp_avg_sqs");
  if (a.amsgrad)
    check_count(a.max_exp_avg_sqs, n, "max_exp_avg_sqs");
  else if (!a.max_exp_avg_sqs.empty())
    fail("Expected max_exp_avg_sqs.empty() to be true, but got false.");
  check_count(a.state_steps, n, "state_steps");
  NoGrad no_grad;
  const Scaling scaling(a);
  const Tensor lr = number(a.lr);
  for (size_t i = 0; i < n; ++i) {
    const Tensor step = number(a.state_steps[i]);
    Tensor param = widened(kernel, a.self[i]), grad = scaling.gradient(kernel, a.grads[i], a.maximize);
    if (a.weight_decay != 0) {
      if (decoupled)
        param = param - param * beside(param, lr * a.weight_decay);
      else
        grad = grad + param * a.weight_decay;
    }
    const Tensor average = lerp(widened(kernel, a.exp_avgs[i]), grad, 1 - a.beta1);
    const Tensor square = widened(kernel, a.exp_avg_sqs[i]) * a.beta2 + grad * grad * (1 - a.beta2);
    Tensor largest = square;
    if (a.amsgrad) {
      largest = maximum(widened(kernel, a.max_exp_avg_sqs[i]), square);
      scaling.store(a.max_exp_avg_sqs[i], largest);
    }
    const Tensor rate = lr / (1 - pow(Scalar(a.beta1), step));
    const Tensor root = sqrt(1 - pow(Scalar(a.beta2), step));
    const Tensor divisor = sqrt(largest) / beside(param, root) + a.eps;
    scaling.store(a.self[i], param - average * beside(param, rate) / divisor);
    scaling.store(a.exp_avgs[i], average);
    scaling.store(a.exp_avg_sqs[i], square);
  }
}

template <class A>
void sgd(const A& a) {
  constexpr const char* kernel = "fused_sgd_kernel";
  const size_t n = a.self.size();
  check_count(a.grads, n, "grads");
  if (!a.momentum_buffer_list.empty()) check_count(a.momentum_buffer_list, n, "momentum_buffer_list");
  if (a.momentum_buffer_list.empty() && a.momentum != 0)
    failf("Expected momentum == 0 to be true without momentum buffers, but got {}.", a.momentum);
  NoGrad no_grad;
  const Scaling scaling(a);
  const Tensor lr = number(a.lr);
  for (size_t i = 0; i < n; ++i) {
    const Tensor param = widened(kernel, a.self[i]);
    Tensor grad = scaling.gradient(kernel, a.grads[i], a.maximize);
    if (a.weight_decay != 0) grad = grad + param * a.weight_decay;
    if (!a.momentum_buffer_list.empty()) {
      const Tensor& kept = a.momentum_buffer_list[i];
      const Tensor momentum =
          a.is_first_step ? grad : widened(kernel, kept) * a.momentum + grad * (1 - a.dampening);
      scaling.store(kept, momentum);
      grad = a.nesterov ? grad + momentum * a.momentum : momentum;
    }
    scaling.store(a.self[i], param - grad * beside(grad, lr));
  }
}

template <class A>
void adagrad(const A& a) {
  constexpr const char* kernel = "fused_adagrad_kernel";
  const size_t n = a.self.size();
  check_count(a.grads, n, "grads");
  check_count(a.state_sums, n, "state_sums");
  check_count(a.state_steps, n, "state_steps");
  NoGrad no_grad;
  const Scaling scaling(a);
  const Tensor lr = number(a.lr);
  for (size_t i = 0; i < n; ++i) {
    const Tensor rate = lr / ((number(a.state_steps[i]) - 1) * a.lr_decay + 1);
    const Tensor param = widened(kernel, a.self[i]);
    Tensor grad = scaling.gradient(kernel, a.grads[i], a.maximize);
    if (a.weight_decay != 0) grad = grad + param * a.weight_decay;
    const Tensor total = widened(kernel, a.state_sums[i]) + grad * grad;
    scaling.store(a.self[i], param - grad * beside(grad, rate) / (sqrt(total) + a.eps));
    scaling.store(a.state_sums[i], total);
  }
}

}  // namespace

void body__fused_adam_(const args::_fused_adam_& a) { adam("fused_adam_kernel", a, false); }
void body__fused_adam__tensor_lr(const args::_fused_adam__tensor_lr& a) {
  adam("fused_adam_kernel", a, false);
}
void body__fused_adamw_(const args::_fused_adamw_& a) { adam("fused_adamw_kernel", a, true); }
void body__fused_adamw__tensor_lr(const args::_fused_adamw__tensor_lr& a) {
  adam("fused_adamw_kernel", a, true);
}
void body__fused_sgd_(const args::_fused_sgd_& a) { sgd(a); }
void body__fused_sgd__tensor_lr(const args::_fused_sgd__tensor_lr& a) { sgd(a); }
void body__fused_adagrad_(const args::_fused_adagrad_& a) { adagrad(a); }
void body__fused_adagrad__tensor_lr(const args::_fused_adagrad__tensor_lr& a) { adagrad(a); }

void body__amp_foreach_non_finite_check_and_unscale_(
    const args::_amp_foreach_non_finite_check_and_unscale_& a) {
  for (const auto& [t, name] : {std::pair(&a.inv_scale, "inv_scale"), std::pair(&a.found_inf, "found_inf")}) {
    if (!(t->numel() == 1)) failf("{} must be a 1-element tensor.", name);
    if (t->dtype() != kFloat) failf("{} must be a float tensor.", name);
  }
  NoGrad no_grad;
  const Tensor factor = reshape(a.inv_scale, {});
  for (const Tensor& t : a.self) {
    const Tensor wide = widened("_amp_foreach_non_finite_check_and_unscale_cpu", t);
    copy_(a.found_inf, where(all(isfinite(wide)), a.found_inf, 1));
    copy_(t, wide * factor);
  }
}

}  // namespace tern
