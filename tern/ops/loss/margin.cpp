// Losses over margins.
#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/margin.args.h"

namespace tern {
namespace {

Tensor at_least(const Tensor& t, int64_t dims) {
  Tensor r = t;
  while (r.dim() < dims) r = r.unsqueeze(0);
  return r;
}

// input [N, C], target [N] and weight [C] of multi_margin_loss, checked.
std::tuple<Tensor, Tensor, Tensor> margin_operands(const Tensor& self, const Tensor& labels, const Scalar& p,
                                                   const Tensor& weights) {
  if (p.to_double() != 1 && p.to_double() != 2) fail("only p == 1 and p == 2 supported");
  Tensor input = at_least(self, 2), target = at_least(labels, 1);
  if (input.dim() != 2 || surely_eq(input.size(1), 0))
    failf("Expected non-empty vector or matrix with optional 0-dim batch size, but got: {}",
          str(self.sizes()));
  if (target.dim() != 1 || target.size(0) != input.size(0))
    failf("inconsistent target size, expected {} but got {}", input.size(0).str(), str(labels.sizes()));
  Tensor weight = weights.defined() ? at_least(weights, 1) : weights;
  if (weight.defined() && (weight.dim() != 1 || weight.size(0) != input.size(1)))
    failf("inconsistent weight size, expected {} but got {}", input.size(1).str(), str(weights.sizes()));
  return {input, target, weight};
}
void check_labels(const Tensor& self, const Tensor& target) {
  bool same = self.dim() == target.dim();
  for (int64_t d = 0; same && d < self.dim(); ++d) same = self.size(d) == target.size(d);
  if (!same)
    failf("inconsistent target size: {} for input of size: {}", str(target.sizes()), str(self.sizes()));
}
// Of [N, C] labels: which count, that is, stand before the first -1.
Tensor labels_that_count(const Tensor& target) {
  SymInt width = target.size(1);
  Tensor places = arange(Scalar(width), {}, {}, target.device());
  return places < amin(where(target == -1, places, wrap_number(Scalar(width))), {-1}, true);
}
// A gradient for each sample, or one for all: beside [N, C].
Tensor beside_rows(const Tensor& grad, const Tensor& self, int64_t reduction) {
  if (reduction != 0 || self.dim() < 2) return grad.reshape({});
  if (grad.dim() != 1 || grad.size(0) != self.size(0))
    failf("Expected a gradient for each of {} samples but got sizes {}", self.size(0).str(),
          str(grad.sizes()));
  return grad.unsqueeze(1);
}

}  // namespace

Tensor body_multi_margin_loss(const args::multi_margin_loss& a) {
  auto [input, target, weight] = margin_operands(a.self, a.target, a.p, a.weight);
  target = target.unsqueeze(1);
  Tensor z = clamp_min(a.margin - gather(input, 1, target) + input, 0);
  if (a.p.to_double() == 2) z = z * z;
  if (weight.defined()) {
    std::vector<Tensor> at = {target};
    z = z * index(weight, at);
  }
  Tensor places = arange(Scalar(input.size(1)), {}, {}, input.device());
  z = where(places != target, z, wrap_number(0));
  if (a.reduction == 1) return mean(z);
  if (a.reduction == 2) return sum(z) / Scalar(input.size(1));
  Tensor each = mean(z, {1});
  return a.self.dim() < 2 ? each.reshape({}) : each;
}

std::tuple<Tensor, Tensor> body_multilabel_margin_loss_forward(
    const args::multilabel_margin_loss_forward& a) {
  Tensor input = at_least(a.self, 2), target = at_least(a.target, 2);
  SymInt width = input.size(1);
  if (a.self.dim() > 2 || surely_eq(width, 0))
    failf("Expected non-empty vector or matrix with optional 0-dim batch size, but got: {}",
          str(a.self.sizes()));
  check_labels(a.self, a.target);
  Tensor places = arange(Scalar(width), {}, {}, target.device());
  Tensor counts = labels_that_count(target);
  Tensor chosen = gather(input, -1, where(counts, target, wrap_number(0)));
  Tensor is_target = any((places == where(counts, target, wrap_number(-1)).unsqueeze(-1)), 1);
  Tensor z = clamp_min(1.0 - chosen.transpose(0, 1).unsqueeze(-1) + input, 0) / Scalar(width);
  // Only the places that hold a label compare.
  z = where(counts.transpose(0, 1).unsqueeze(-1), z, wrap_number(0));
  z = where(is_target, wrap_number(0), z);
  Tensor loss = z.sum({0, -1});
  if (a.reduction == 1)
    loss = mean(loss);
  else if (a.reduction == 2)
    loss = sum(loss);
  else if (a.self.dim() < 2)
    loss = loss.reshape({});
  return {loss, is_target.to(input.dtype()).reshape(a.target.sizes())};
}

Tensor body_multi_margin_loss_backward(const args::multi_margin_loss_backward& a) {
  auto [input, labels, weight] = margin_operands(a.self, a.target, a.p, a.weight);
  Tensor target = labels.unsqueeze(1);
  Tensor z = a.margin - gather(input, 1, target) + input;
  Tensor places = arange(Scalar(input.size(1)), {}, {}, input.device());
  Tensor active = logical_and(z > 0, places != target);
  Tensor each = where(active, a.p.to_double() == 2 ? 2 * z : ones_like(z), wrap_number(0));
  if (weight.defined()) {
    std::vector<Tensor> at = {target};
    each = each * index(weight, at);
  }
  each = each / Scalar(a.reduction == 1 ? input.numel() : input.size(1));
  Tensor grad = scatter_add(each, 1, target, neg(sum(each, Ints(1), true)));
  return (grad * beside_rows(a.grad_output, a.self, a.reduction)).reshape(a.self.sizes());
}

Tensor body_multilabel_margin_loss_backward(const args::multilabel_margin_loss_backward& a) {
  check_labels(a.self, a.target);
  if (a.self.dim() > 2)
    failf("Expected non-empty vector or matrix with optional 0-dim batch size, but got: {}",
          str(a.self.sizes()));
  Tensor input = at_least(a.self, 2), target = at_least(a.target, 2),
         is_target = a.is_target.reshape(input.sizes());
  Tensor counts = labels_that_count(target), labels = where(counts, target, wrap_number(0));
  // [sample, label, place]: each label that counts against each place that is none.
  Tensor active = logical_and(1 - gather(input, 1, labels).unsqueeze(2) + input.unsqueeze(1) > 0,
                              logical_and(counts.unsqueeze(2), (is_target == 0).unsqueeze(1)));
  Tensor each = active.to(input.dtype()) / Scalar(a.reduction == 1 ? input.numel() : input.size(1));
  Tensor grad = scatter_add(sum(each, Ints(1)), 1, labels, neg(sum(each, Ints(2))));
  return (grad * beside_rows(a.grad_output, a.self, a.reduction)).reshape(a.self.sizes());
}

Tensor body_cosine_embedding_loss(const args::cosine_embedding_loss& a) {
  int64_t n = a.target.dim();
  if (n != 0 && n != 1) failf("0D or 1D target tensor expected, multi-target not supported");
  if (a.input1.dim() != n + 1 || a.input2.dim() != n + 1)
    failf("{}D target tensor expects {}D input tensors, but found inputs with sizes {} and {}.", n, n + 1,
          str(a.input1.sizes()), str(a.input2.sizes()));
  const double eps = 1e-12;
  Tensor dot = (a.input1 * a.input2).sum({n}), one = add((a.input1 * a.input1).sum({n}), eps),
         two = add((a.input2 * a.input2).sum({n}), eps);
  Tensor cosine = dot / sqrt(one * two), none = zeros_like(cosine);
  Tensor alike = where(a.target == 1, full_like(empty_like(cosine), 1) - cosine, none);
  Tensor apart = where(a.target == -1, clamp_min(sub(cosine, a.margin), 0), none);
  return reduce_loss(alike + apart, a.reduction);
}

Tensor body_triplet_margin_loss(const args::triplet_margin_loss& a) {
  if (a.anchor.dim() != a.positive.dim() || a.positive.dim() != a.negative.dim())
    failf(
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but "
        "got: anchor "
        "{}D, positive {}D, and negative {}D inputs",
        a.anchor.dim(), a.positive.dim(), a.negative.dim());
  Tensor near = pairwise_distance(a.anchor, a.positive, a.p, a.eps);
  Tensor far = pairwise_distance(a.anchor, a.negative, a.p, a.eps);
  if (a.swap) far = minimum(far, pairwise_distance(a.positive, a.negative, a.p, a.eps));
  return reduce_loss(clamp_min(add(near, Scalar(a.margin)) - far, 0), a.reduction);
}

}  // namespace tern
