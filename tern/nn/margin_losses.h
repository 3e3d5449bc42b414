// Losses over margins and sequences, as functions and as layers.
#pragma once
#include "tern/nn/losses.h"

namespace tern::nn {

namespace F {

struct MultiMarginArgs {
  int64_t p = 1;  // or 2
  double margin = 1;
  Tensor weight = {};
  Reduction reduction = Reduction::mean;
};
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, const MultiMarginArgs& args = {},
                         Loc loc = Loc::here());
// target: class indices, up to the first -1.
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction r = Reduction::mean,
                              Loc loc = Loc::here());
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                   Reduction r = Reduction::mean, Loc loc = Loc::here());
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction r = Reduction::mean,
                        Loc loc = Loc::here());
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                            Reduction r = Reduction::mean, Loc loc = Loc::here());
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin = 0,
                           Reduction r = Reduction::mean, Loc loc = Loc::here());
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin = 0,
                             Reduction r = Reduction::mean, Loc loc = Loc::here());
struct TripletArgs {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletArgs& args = {}, Loc loc = Loc::here());
// With any distance of two tensors; none: pairwise_distance.
struct TripletDistanceArgs {
  tern::Function<Tensor(const Tensor&, const Tensor&)> distance = {};
  double margin = 1;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const TripletDistanceArgs& args = {}, Loc loc = Loc::here());
struct PoissonArgs {
  bool log_input = true, full = false;
  double eps = 1e-8;
  Reduction reduction = Reduction::mean;
};
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, const PoissonArgs& args = {},
                        Loc loc = Loc::here());
struct GaussianArgs {
  bool full = false;
  double eps = 1e-6;
  Reduction reduction = Reduction::mean;
};
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var,
                         const GaussianArgs& args = {}, Loc loc = Loc::here());
struct CTCArgs {
  int64_t blank = 0;
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;
};
// log_probs: (time, batch, classes). targets: (batch, longest), or all of them one after the other.
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCArgs& args = {}, Loc loc = Loc::here());

}  // namespace F

inline constexpr PairLossKind multilabel_margin_kind{"torch.nn.modules.loss.MultiLabelMarginLoss",
                                                     F::multilabel_margin_loss};
inline constexpr PairLossKind soft_margin_kind{"torch.nn.modules.loss.SoftMarginLoss", F::soft_margin_loss};
using MultiLabelMarginLoss = PairLoss<multilabel_margin_kind>;
using SoftMarginLoss = PairLoss<soft_margin_kind>;

class MultiMarginLoss : public Builtin<MultiMarginLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.MultiMarginLoss";
  explicit MultiMarginLoss(const F::MultiMarginArgs& options = {});
  Tensor forward(const Tensor& x, const Tensor& target);
  F::MultiMarginArgs options;
  Buffer weight;
};
class MultiLabelSoftMarginLoss : public Builtin<MultiLabelSoftMarginLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.MultiLabelSoftMarginLoss";
  explicit MultiLabelSoftMarginLoss(Reduction reduction = Reduction::mean, const Tensor& weight = {});
  Tensor forward(const Tensor& x, const Tensor& target) {
    return F::multilabel_soft_margin_loss(x, target, weight.now(), reduction);
  }
  Reduction reduction;
  Buffer weight;
};
class HingeEmbeddingLoss : public Builtin<HingeEmbeddingLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.HingeEmbeddingLoss";
  explicit HingeEmbeddingLoss(double margin = 1, Reduction reduction = Reduction::mean)
      : margin(margin), reduction(reduction) {}
  Tensor forward(const Tensor& x, const Tensor& target) {
    return F::hinge_embedding_loss(x, target, margin, reduction);
  }
  double margin;
  Reduction reduction;
};
class MarginRankingLoss : public Builtin<MarginRankingLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.MarginRankingLoss";
  explicit MarginRankingLoss(double margin = 0, Reduction reduction = Reduction::mean)
      : margin(margin), reduction(reduction) {}
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target) {
    return F::margin_ranking_loss(a, b, target, margin, reduction);
  }
  double margin;
  Reduction reduction;
};
class CosineEmbeddingLoss : public Builtin<CosineEmbeddingLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.CosineEmbeddingLoss";
  explicit CosineEmbeddingLoss(double margin = 0, Reduction reduction = Reduction::mean)
      : margin(margin), reduction(reduction) {}
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& target) {
    return F::cosine_embedding_loss(a, b, target, margin, reduction);
  }
  double margin;
  Reduction reduction;
};
class TripletMarginLoss : public Builtin<TripletMarginLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.TripletMarginLoss";
  explicit TripletMarginLoss(const F::TripletArgs& options = {}) : options(options) {}
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) {
    return F::triplet_margin_loss(anchor, positive, negative, options);
  }
  F::TripletArgs options;
};
// A distance with parameters of its own is the caller's to train: only the default is a child.
class TripletMarginWithDistanceLoss : public Builtin<TripletMarginWithDistanceLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.TripletMarginWithDistanceLoss";
  explicit TripletMarginWithDistanceLoss(F::TripletDistanceArgs options = {});
  Tensor forward(const Tensor& anchor, const Tensor& positive, const Tensor& negative) {
    return F::triplet_margin_with_distance_loss(anchor, positive, negative, options);
  }
  F::TripletDistanceArgs options;
};
class PoissonNLLLoss : public Builtin<PoissonNLLLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.PoissonNLLLoss";
  explicit PoissonNLLLoss(const F::PoissonArgs& options = {}) : options(options) {}
  Tensor forward(const Tensor& x, const Tensor& target) { return F::poisson_nll_loss(x, target, options); }
  F::PoissonArgs options;
};
class GaussianNLLLoss : public Builtin<GaussianNLLLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.GaussianNLLLoss";
  explicit GaussianNLLLoss(const F::GaussianArgs& options = {}) : options(options) {}
  Tensor forward(const Tensor& x, const Tensor& target, const Tensor& var) {
    return F::gaussian_nll_loss(x, target, var, options);
  }
  F::GaussianArgs options;
};
class CTCLoss : public Builtin<CTCLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.loss.CTCLoss";
  explicit CTCLoss(const F::CTCArgs& options = {}) : options(options) {}
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) {
    return F::ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
  }
  F::CTCArgs options;
};

}  // namespace tern::nn
