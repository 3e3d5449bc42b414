// Losses whose bodies are longer than a line, and the reduction they share.
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/loss.args.h"

namespace tern {
namespace {

bool same_sizes(Span<const SymInt> a, Span<const SymInt> b) {
  if (a.size() != b.size()) return false;
  for (size_t d = 0; d < a.size(); ++d)
    if (a[d] != b[d]) return false;
  return true;
}

}  // namespace

Tensor reduce_loss(const Tensor& each, int64_t reduction) {
  switch (reduction) {
    case 0:
      return each;
    case 1:
      return mean(each);
    case 2:
      return sum(each);
    default:
      failf(ErrorKind::value, "reduction must be 0 (none), 1 (mean) or 2 (sum), got {}", reduction);
  }
}

Tensor spread_loss(const Tensor& grad, const Tensor& like, int64_t reduction) {
  return reduction == 1 ? grad / like.numel() : grad;
}

Tensor weigh(const Tensor& each, const Tensor& weight) { return weight.defined() ? each * weight : each; }

// Where a loss takes bool operands, they count as numbers of the common type.
Tensor difference(const Tensor& self, const Tensor& target) {
  if (self.dtype() != kBool && target.dtype() != kBool) return self - target;
  const DType d = result_type({self, target});
  return to(self, d) - to(target, d);
}

Tensor body_smooth_l1_loss(const args::smooth_l1_loss& a) {
  if (a.beta < 0) fail("smooth_l1_loss does not support negative values for beta.");
  Tensor distance = abs(difference(a.self, a.target));
  if (a.beta == 0) return reduce_loss(distance, a.reduction);
  return reduce_loss(where(lt(distance, a.beta), 0.5 * pow(distance, 2) / a.beta, distance - 0.5 * a.beta),
                     a.reduction);
}

Tensor body_huber_loss(const args::huber_loss& a) {
  if (a.delta <= 0) fail("huber_loss does not support non-positive values for delta.");
  Tensor distance = abs(difference(a.self, a.target));
  Tensor each = where(lt(distance, a.delta), 0.5 * distance * distance, a.delta * (distance - 0.5 * a.delta));
  return reduce_loss(checked_cast(each, a.self), a.reduction);
}

Tensor bce_body(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction) {
  auto floored = [&](const Tensor& t) { return maximum(t, new_full(self, Dims{}, -100)); };
  Tensor each = (target - 1) * floored(log1p(neg(self))) - target * floored(log(self));
  return reduce_loss(weigh(each, weight), reduction);
}
Shapes shape_binary_cross_entropy(const args::binary_cross_entropy& a) {
  if (!same_sizes(a.self.sizes(), a.target.sizes()))
    failf(ErrorKind::value,
          "Using a target size ({}) that is different to the input size ({}) is deprecated. Please ensure "
          "they have the same size.",
          str(a.target.sizes()), str(a.self.sizes()));
  DType d = result_type({a.self, a.target});
  return {a.reduction == 0 ? like(a.self, d) : Shape(Dims{}, d)};
}
void kernel_binary_cross_entropy(const args::binary_cross_entropy& a, Out out) {
  if (a.self.int_numel()) {
    Tensor x = a.self.is_contiguous() ? a.self : a.self.contiguous();
    if (any(logical_or(x<0, x> 1)).item<bool>()) fail("all elements of input should be between 0 and 1");
  }
  copy_elements(bce_body(a.self, a.target, a.weight, a.reduction), out[0]);
}

Tensor body_binary_cross_entropy_with_logits(const args::binary_cross_entropy_with_logits& a) {
  if (!same_sizes(a.self.sizes(), a.target.sizes()))
    failf(ErrorKind::value, "Target size ({}) must be the same as input size ({})", str(a.target.sizes()),
          str(a.self.sizes()));
  Tensor logs = log_sigmoid(a.self);
  if (a.pos_weight.defined()) logs = ((a.pos_weight - 1) * a.target + 1) * logs;
  // The sum is built up in the memory of 1 - target, so it has the target's type.
  Tensor each = checked_cast(rsub(a.target, 1) * a.self - logs, a.target);
  if (a.weight.defined()) each = checked_cast(each * a.weight, a.target);
  return reduce_loss(each, a.reduction);
}

Tensor body_poisson_nll_loss(const args::poisson_nll_loss& a) {
  Tensor each = a.log_input ? exp(a.input) - a.target * a.input : a.input - a.target * log(a.input + a.eps);
  if (a.full) {
    Tensor stirling = a.target * log(a.target) - a.target + 0.5 * log(2 * M_PI * a.target);
    each = checked_cast(each + where(a.target <= 1, 0, stirling), each);
  }
  return reduce_loss(each, a.reduction);
}

Tensor body_hinge_embedding_loss(const args::hinge_embedding_loss& a) {
  Tensor none = zeros_like(a.self), missing = clamp_min(full_like(empty_like(a.self), a.margin) - a.self, 0);
  return reduce_loss(where(a.target != 1, missing, none) + where(a.target != -1, a.self, none), a.reduction);
}
Tensor body_cosine_similarity(const args::cosine_similarity& a) {
  Dims sizes = broadcast_sizes(a.x1.sizes(), a.x2.sizes());
  const DType d = result_type({a.x1, a.x2});
  Tensor least = scalar_tensor(a.eps, d, {}, a.x1.device());
  auto unit = [&](const Tensor& t) {
    Tensor whole = t.dtype() == d ? t : to(t, d);
    if (!same_sizes(whole.sizes(), sizes)) whole = expand(whole, sizes);
    return whole / clamp(clone(linalg_vector_norm(whole, 2, a.dim, true)), least);
  };
  return sum(unit(a.x1) * unit(a.x2), a.dim);
}

Tensor body_smooth_l1_loss_backward(const args::smooth_l1_loss_backward& a) {
  Tensor x = a.self - a.target, scale = spread_loss(a.grad_output, x, a.reduction);
  if (a.beta == 0) return scale * sign(x);
  return scale * where(lt(abs(x), a.beta), x / a.beta, sign(x));
}
Tensor body_huber_loss_backward(const args::huber_loss_backward& a) {
  Tensor x = a.self - a.target;
  return spread_loss(a.grad_output, x, a.reduction) * clamp(x, Scalar(-a.delta), Scalar(a.delta));
}
Tensor body_soft_margin_loss_backward(const args::soft_margin_loss_backward& a) {
  Tensor z = exp(neg(a.target) * a.self);
  Tensor each = neg(a.target) * z / (z + 1);
  return checked_cast(spread_loss(a.grad_output, a.self, a.reduction) * each, a.self);
}

}  // namespace tern
