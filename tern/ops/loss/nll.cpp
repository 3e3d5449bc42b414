// The negative log likelihood of classes, and cross entropy on top of it.
#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/loss.args.h"

namespace tern {
namespace {

int64_t class_dim(const Tensor& self) { return self.dim() < 2 ? 0 : 1; }

// A weight per class, shaped to multiply self.
Tensor along_classes(const Tensor& weight, const Tensor& self) {
  if (self.dim() < 2) return weight;
  Dims shape(self.dim(), 1);
  shape[1] = weight.sizes()[0];
  return view(weight, shape);
}

Shapes nll_shape(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction) {
  if (self.dim() == 0) fail("nll_loss: input tensor should be 1D or 2D");
  SymInt classes = self.sizes()[class_dim(self)];
  if (weight.defined() && (weight.dim() != 1 || weight.numel() != classes))
    failf(
        "weight tensor should be defined either for all {} classes or no classes but got weight tensor of "
        "shape: {}",
        classes.str(), str(weight.sizes()));
  Dims places;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (d != class_dim(self)) places.push_back(self.sizes()[d]);
  bool fits = target.dim() == static_cast<int64_t>(places.size()) ||
              (self.dim() == 1 && target.dim() == 1 && target.sizes()[0] == 1);
  for (size_t d = 0; fits && d < places.size(); ++d) fits = places[d] == target.sizes()[d];
  if (!fits) failf("size mismatch (got input: {}, target: {})", str(self.sizes()), str(target.sizes()));
  Shape each = reduction == 0 && self.dim() > 1 ? Shape(places, self.dtype()) : Shape(Dims{}, self.dtype());
  return {each, Shape(Dims{}, self.dtype())};
}

void check_targets(const Tensor& self, const Tensor& target, int64_t ignore) {
  if (target.dtype() != kLong && target.dtype() != kByte)
    failf("expected target dtype to be Long or Byte, but got {}", script_name(target.dtype()));
  int64_t classes = self.int_sizes()[class_dim(self)];
  for (int64_t t : target.to_vector<int64_t>())
    if (t != ignore && (t < 0 || t >= classes)) failf(ErrorKind::index, "Target {} is out of bounds.", t);
}

void nll_into(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
              SymInt ignore, Out out) {
  check_targets(self, target, ignore.guard_int());
  auto [loss, total] = nll_body(self, target, weight, reduction, ignore);
  copy_elements(loss, out[0]);
  copy_elements(total, out[1]);
}

Tensor keep(const Tensor& condition, const Tensor& values) { return where(condition, values, 0); }

// The target is a distribution over the classes.
Tensor with_probabilities(const args::cross_entropy_loss& a, int64_t dim) {
  SymInt classes = a.self.sizes()[dim];
  if (a.weight.defined() && (a.weight.dim() != 1 || a.weight.numel() != classes))
    failf(
        "cross_entropy: weight tensor should be defined either for all {} classes or no classes but got "
        "weight tensor of shape: {}",
        classes.str(), str(a.weight.sizes()));
  if (!a.target.is_floating_point())
    failf("Expected floating point type for target with class probabilities, got {}",
          script_name(a.target.dtype()));
  Tensor logs = log_softmax(a.self, dim, a.self.dtype());
  Tensor target = a.target;
  if (a.label_smoothing > 0)
    target = target * (1 - a.label_smoothing) + quotient(a.label_smoothing, classes, target.dtype());
  Tensor product = logs * target;
  if (a.weight.defined()) product = product * along_classes(a.weight, a.self);
  if (a.reduction == 0) return neg(sum(product, dim));
  Tensor total = neg(sum(product));
  if (a.reduction == 2) return total;
  SymInt samples = 1;
  for (int64_t d = 0; d < a.self.dim(); ++d)
    if (d != dim) samples *= a.self.sizes()[d];
  return div(total, Scalar(samples));
}

Tensor smoothed(const args::cross_entropy_loss& a, int64_t dim) {
  SymInt classes = a.self.sizes()[dim];
  Tensor logs = log_softmax(a.self, dim, a.self.dtype());
  Tensor likelihood = nll_loss_nd(logs, a.target, a.weight, a.reduction, a.ignore_index);
  Tensor weighted = a.weight.defined() ? logs * along_classes(a.weight, a.self) : logs;
  Tensor counted = a.target != Scalar(a.ignore_index);
  Tensor smooth = keep(counted, neg(sum(weighted, dim)));
  if (a.reduction == 1) {
    if (a.weight.defined()) {
      Tensor safe = keep(counted, a.target);
      Tensor picked = index_select(a.weight, 0, reshape(safe, {-1}));
      smooth = sum(smooth) / sum(keep(reshape(counted, {-1}), picked));
    } else {
      smooth = sum(smooth) / sum(counted).to(smooth.dtype());
    }
  } else {
    smooth = reduce_loss(smooth, a.reduction);
  }
  return (1 - a.label_smoothing) * likelihood + smooth * quotient(a.label_smoothing, classes, smooth.dtype());
}

}  // namespace

std::tuple<Tensor, Tensor> nll_body(const Tensor& self, const Tensor& target, const Tensor& weight,
                                    int64_t reduction, SymInt ignore_index) {
  int64_t dim = class_dim(self);
  Tensor scaled = self, weights;
  if (weight.defined()) {
    weights = along_classes(weight, self);
    scaled = self * weights;
  }
  Tensor counted = target != Scalar(ignore_index);
  Tensor safe = unsqueeze(keep(counted, target), dim).to(kLong);
  Tensor each = keep(counted, neg(squeeze(gather(scaled, dim, safe), dim)));
  if (reduction == 0 && self.dim() > 1) return {each, new_full(self, {}, 0.0)};
  Tensor total = weight.defined()
                     ? sum(keep(counted, squeeze(gather(expand(weights, self.sizes()), dim, safe), dim)))
                     : sum(counted).to(self.dtype());
  if (reduction == 2)
    each = sum(each);
  else if (reduction == 1)
    each = sum(each) / total;
  else if (each.dim() > 0)
    each = view(each, {});
  return {each, total};
}

Tensor nll_backward_body(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                         const Tensor& weight, int64_t reduction, SymInt ignore_index,
                         const Tensor& total_weight) {
  int64_t dim = class_dim(self);
  Tensor grad = reduction == 1 ? grad_output / total_weight : grad_output;
  Tensor places = unsqueeze(target, dim), counted = places != Scalar(ignore_index);
  Tensor picked = scatter(
      zeros_like(self), dim,
      keep(counted, places).to(kLong).reshape(self.dim() == 1 ? Dims{SymInt(1)} : Dims(places.sizes())),
      -1.0);
  if (picked.dim() > grad.dim() && grad.dim() > 0) grad = unsqueeze(grad, dim);
  if (weight.defined()) grad = grad * along_classes(weight, self);
  return picked * keep(self.dim() == 1 ? reshape(counted, {1}) : counted, grad);
}

Shapes shape_nll_loss_forward(const args::nll_loss_forward& a) {
  if (a.self.dim() > 2) fail("input tensor should be 1D or 2D");
  return nll_shape(a.self, a.target, a.weight, a.reduction);
}
void kernel_nll_loss_forward(const args::nll_loss_forward& a, Out out) {
  nll_into(a.self, a.target, a.weight, a.reduction, a.ignore_index, out);
}
Shapes shape_nll_loss2d_forward(const args::nll_loss2d_forward& a) {
  if (a.self.dim() != 4)
    failf("only batches of spatial inputs supported (4D tensors), but got input of size: {}",
          str(a.self.sizes()));
  return nll_shape(a.self, a.target, a.weight, a.reduction);
}
void kernel_nll_loss2d_forward(const args::nll_loss2d_forward& a, Out out) {
  nll_into(a.self, a.target, a.weight, a.reduction, a.ignore_index, out);
}

Tensor body_nll_loss_nd(const args::nll_loss_nd& a) {
  const Tensor &self = a.self, &target = a.target;
  if (self.dim() < 1) failf(ErrorKind::value, "Expected 1 or more dimensions (got {})", self.dim());
  if (self.dim() != 1 && self.sizes()[0] != target.sizes()[0])
    failf(ErrorKind::value, "Expected input batch_size ({}) to match target batch_size ({}).",
          self.sizes()[0].str(), target.sizes()[0].str());
  if (self.dim() <= 2) return nll_loss(self, target, a.weight, a.reduction, a.ignore_index);
  if (self.dim() == 4) return nll_loss2d(self, target, a.weight, a.reduction, a.ignore_index);
  SymInt n = self.sizes()[0], c = self.sizes()[1], inner = 1;
  for (int64_t d = 2; d < self.dim(); ++d) inner *= self.sizes()[d];
  Dims expected{n};
  for (int64_t d = 2; d < self.dim(); ++d) expected.push_back(self.sizes()[d]);
  if (target.dim() != static_cast<int64_t>(expected.size()) || product(expected) != target.numel())
    failf(ErrorKind::value, "Expected target size {}, got {}", str(expected), str(target.sizes()));
  Tensor loss = nll_loss2d(reshape(self, {n, c, SymInt(1), inner}), reshape(target, {n, SymInt(1), inner}),
                           a.weight, a.reduction, a.ignore_index);
  return a.reduction == 0 ? view(loss, expected) : loss;
}

Tensor body_cross_entropy_loss(const args::cross_entropy_loss& a) {
  if (a.label_smoothing < 0 || a.label_smoothing > 1)
    failf("label_smoothing must be between 0.0 and 1.0. Got: {}", a.label_smoothing);
  if (a.self.dim() == 0) fail(ErrorKind::value, "cross_entropy: expected logits of at least 1 dimension");
  int64_t dim = class_dim(a.self);
  bool probabilities = a.self.dim() == a.target.dim();
  for (int64_t d = 0; probabilities && d < a.self.dim(); ++d)
    probabilities = a.self.sizes()[d] == a.target.sizes()[d];
  if (probabilities) {
    if (!(surely_eq(a.ignore_index, -100) || a.ignore_index < 0))
      fail("ignore_index is not supported for floating point target");
    return with_probabilities(a, dim);
  }
  if (a.label_smoothing > 0) return smoothed(a, dim);
  return nll_loss_nd(log_softmax(a.self, dim, a.self.dtype()), a.target, a.weight, a.reduction,
                     a.ignore_index);
}

}  // namespace tern
