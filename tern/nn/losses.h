// Losses as layers: nn::CrossEntropyLoss loss; loss(net(x), target).backward().
#pragma once
#include "tern/nn/layers.h"

namespace tern::nn {

struct PairLossKind {
  const char* type_name;
  Tensor (*apply)(const Tensor& x, const Tensor& target, Reduction r, Loc loc);
};
template <const PairLossKind& Kind>
class PairLoss : public Builtin<PairLoss<Kind>> {
 public:
  static constexpr const char* type_name = Kind.type_name;
  explicit PairLoss(Reduction reduction = Reduction::mean) : reduction(reduction) {}
  Tensor forward(const Tensor& x, const Tensor& target) { return Kind.apply(x, target, reduction, Loc{}); }
  Reduction reduction;
};
inline constexpr PairLossKind mse_kind{"torch.nn.modules.loss.MSELoss", F::mse_loss};
inline constexpr PairLossKind l1_kind{"torch.nn.modules.loss.L1Loss", F::l1_loss};
using MSELoss = PairLoss<mse_kind>;
using L1Loss = PairLoss<l1_kind>;

class SmoothL1Loss : public Builtin<SmoothL1Loss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.SmoothL1Loss";
  explicit SmoothL1Loss(Reduction reduction = Reduction::mean, double beta = 1)
      : reduction(reduction), beta(beta) {}
  Tensor forward(const Tensor& x, const Tensor& target) {
    return F::smooth_l1_loss(x, target, reduction, beta);
  }
  Reduction reduction;
  double beta;
};
class HuberLoss : public Builtin<HuberLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.HuberLoss";
  explicit HuberLoss(Reduction reduction = Reduction::mean, double delta = 1)
      : reduction(reduction), delta(delta) {}
  Tensor forward(const Tensor& x, const Tensor& target) { return F::huber_loss(x, target, reduction, delta); }
  Reduction reduction;
  double delta;
};

class CrossEntropyLoss : public Builtin<CrossEntropyLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.CrossEntropyLoss";
  explicit CrossEntropyLoss(const F::ClassLossArgs& options = {});
  Tensor forward(const Tensor& x, const Tensor& target);
  F::ClassLossArgs options;
  Buffer weight;
};
class NLLLoss : public Builtin<NLLLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.NLLLoss";
  explicit NLLLoss(const F::ClassLossArgs& options = {});
  Tensor forward(const Tensor& x, const Tensor& target);
  F::ClassLossArgs options;
  Buffer weight;
};

class BCELoss : public Builtin<BCELoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.BCELoss";
  explicit BCELoss(Reduction reduction = Reduction::mean, const Tensor& weight = {});
  Tensor forward(const Tensor& x, const Tensor& target) {
    return F::binary_cross_entropy(x, target, weight.now(), reduction);
  }
  Reduction reduction;
  Buffer weight;
};
struct BCEWithLogitsOptions {
  Reduction reduction = Reduction::mean;
  Tensor weight = {}, pos_weight = {};
};
class BCEWithLogitsLoss : public Builtin<BCEWithLogitsLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.BCEWithLogitsLoss";
  explicit BCEWithLogitsLoss(const BCEWithLogitsOptions& options = {});
  Tensor forward(const Tensor& x, const Tensor& target) {
    return F::binary_cross_entropy_with_logits(x, target, weight.now(), reduction, pos_weight.now());
  }
  Reduction reduction;
  Buffer weight, pos_weight;
};
class KLDivLoss : public Builtin<KLDivLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.KLDivLoss";
  explicit KLDivLoss(Reduction reduction = Reduction::mean, bool log_target = false)
      : reduction(reduction), log_target(log_target) {}
  Tensor forward(const Tensor& x, const Tensor& target) {
    return F::kl_div(x, target, reduction, log_target);
  }
  Reduction reduction;
  bool log_target;
};

}  // namespace tern::nn
