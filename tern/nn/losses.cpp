#include "tern/nn/losses.h"

namespace tern::nn {

CrossEntropyLoss::CrossEntropyLoss(const F::ClassLossArgs& o)
    : options(o), weight(register_buffer("weight", o.weight)) {}
Tensor CrossEntropyLoss::forward(const Tensor& x, const Tensor& target) {
  F::ClassLossArgs args = options;
  args.weight = weight.now();
  return F::cross_entropy(x, target, args);
}

NLLLoss::NLLLoss(const F::ClassLossArgs& o) : options(o), weight(register_buffer("weight", o.weight)) {}
Tensor NLLLoss::forward(const Tensor& x, const Tensor& target) {
  F::ClassLossArgs args = options;
  args.weight = weight.now();
  return F::nll_loss(x, target, args);
}

BCELoss::BCELoss(Reduction r, const Tensor& w) : reduction(r), weight(register_buffer("weight", w)) {}
BCEWithLogitsLoss::BCEWithLogitsLoss(const BCEWithLogitsOptions& o)
    : reduction(o.reduction),
      weight(register_buffer("weight", o.weight)),
      pos_weight(register_buffer("pos_weight", o.pos_weight)) {}

}  // namespace tern::nn
