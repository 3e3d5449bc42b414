#include "tern/nn/margin_losses.h"

#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/nn/images.h"
#include "tern/ops.h"

namespace tern::nn {
namespace F {
namespace {

int64_t number(Reduction r) { return static_cast<int64_t>(r); }

}  // namespace

Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const MultiMarginArgs& a, Loc loc) {
  if (a.p != 1 && a.p != 2) fail(ErrorKind::value, "only p == 1 and p == 2 supported");
  if (a.weight.defined() && a.weight.dim() != 1) fail(ErrorKind::value, "weight must be one-dimensional");
  return tern::multi_margin_loss(x, target, a.p, a.margin, a.weight, number(a.reduction), loc);
}
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction r, Loc loc) {
  return tern::multilabel_margin_loss(x, target, number(r), loc);
}
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight, Reduction r,
                                   Loc loc) {
  At at(loc);
  Tensor loss = -(target * log_sigmoid(x) + (1 - target) * log_sigmoid(-x));
  if (weight.defined()) loss = loss * weight;
  loss = loss.sum(Ints(x.dim() - 1)) / x.size(-1);
  return r == Reduction::none ? loss : r == Reduction::mean ? loss.mean() : loss.sum();
}
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction r, Loc loc) {
  return tern::soft_margin_loss(x, target, number(r), loc);
}
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin, Reduction r, Loc loc) {
  return tern::hinge_embedding_loss(x, target, margin, number(r), loc);
}
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin, Reduction r,
                           Loc loc) {
  if (a.dim() != b.dim() || a.dim() != target.dim())
    failf(
        "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
        "torch.Size({}), "
        "input2: torch.Size({}), target: torch.Size({}) ",
        tern::str(a.sizes()), tern::str(b.sizes()), tern::str(target.sizes()));
  return tern::margin_ranking_loss(a, b, target, margin, number(r), loc);
}
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             Reduction r, Loc loc) {
  return tern::cosine_embedding_loss(a, b, target, margin, number(r), loc);
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletArgs& a, Loc loc) {
  if (!(a.margin > 0))
    failf(ErrorKind::value, "margin must be greater than 0, got {}", python_float(a.margin));
  return tern::triplet_margin_loss(anchor, positive, negative, a.margin, a.p, a.eps, a.swap,
                                   number(a.reduction), loc);
}
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const TripletDistanceArgs& a, Loc loc) {
  if (!(a.margin > 0))
    failf(ErrorKind::value, "margin must be greater than 0, got {}", python_float(a.margin));
  if (anchor.dim() != positive.dim() || positive.dim() != negative.dim())
    failf(
        "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but "
        "got: anchor {}D, positive {}D, and negative {}D inputs",
        anchor.dim(), positive.dim(), negative.dim());
  At at(loc);
  auto distance = [&](const Tensor& x, const Tensor& y) {
    return a.distance ? a.distance(x, y) : tern::pairwise_distance(x, y);
  };
  Tensor near = distance(anchor, positive), far = distance(anchor, negative);
  if (a.swap) far = tern::minimum(far, distance(positive, negative));
  Tensor loss = tern::clamp_min(near + a.margin - far, 0);
  if (a.reduction == Reduction::sum) return loss.sum();
  return a.reduction == Reduction::mean ? loss.mean() : loss;
}
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, const PoissonArgs& a, Loc loc) {
  return tern::poisson_nll_loss(x, target, a.log_input, a.full, a.eps, number(a.reduction), loc);
}
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& given, const GaussianArgs& a,
                         Loc loc) {
  At at(loc);
  if (!given.is_fake() && given.numel() != 0 && tern::lt(given, Scalar(0)).any().item<bool>())
    fail(ErrorKind::value, "var has negative entry/entries");
  Tensor var = given;
  bool same = var.dim() == x.dim();
  int64_t different = 0;
  for (int64_t d = 0; same && d < x.dim(); ++d)
    if (var.size(d) != x.size(d)) {
      ++different;
      same = var.size(d) == 1;
    }
  if (var.dim() == x.dim() - 1) {
    for (int64_t d = 0; d < var.dim(); ++d)
      if (var.size(d) != x.size(d)) fail(ErrorKind::value, "var is of incorrect size");
    var = var.unsqueeze(-1);
  } else if (!same || different > 1) {
    fail(ErrorKind::value, "var is of incorrect size");
  }
  var = var.clone();
  {
    NoGrad no_grad;
    clamp_(var, Scalar(a.eps));
  }
  Tensor distance = x - target;
  Tensor loss = 0.5 * (var.log() + distance * distance / var);
  if (a.full) loss = loss + 0.5 * std::log(2 * M_PI);
  return a.reduction == Reduction::none ? loss : a.reduction == Reduction::mean ? loss.mean() : loss.sum();
}
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCArgs& a, Loc loc) {
  return tern::ctc_loss(log_probs, targets, input_lengths, target_lengths, a.blank, number(a.reduction),
                        a.zero_infinity, loc);
}

}  // namespace F

MultiMarginLoss::MultiMarginLoss(const F::MultiMarginArgs& o)
    : options(o), weight(register_buffer("weight", o.weight)) {}
Tensor MultiMarginLoss::forward(const Tensor& x, const Tensor& target) {
  F::MultiMarginArgs args = options;
  args.weight = weight.now();
  return F::multi_margin_loss(x, target, args);
}
MultiLabelSoftMarginLoss::MultiLabelSoftMarginLoss(Reduction r, const Tensor& w)
    : reduction(r), weight(register_buffer("weight", w)) {}

TripletMarginWithDistanceLoss::TripletMarginWithDistanceLoss(F::TripletDistanceArgs o)
    : options(std::move(o)) {
  if (!(options.margin > 0))
    failf(ErrorKind::value,
          "TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {} instead",
          python_float(options.margin));
  if (!options.distance) add("distance_function", PairwiseDistance());
}

}  // namespace tern::nn
