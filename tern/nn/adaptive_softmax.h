// A softmax over many classes that spends less on rare ones: they stand in clusters behind the frequent ones.
#pragma once
#include "tern/nn/layers.h"

namespace tern::nn {

struct AdaptiveSoftmaxOptions {
  int64_t in, classes;
  std::vector<int64_t> cutoffs;  // where clusters begin, increasing
  double div_value = 4;          // each cluster's features are this many times fewer than the one's before
  bool head_bias = false;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
class AdaptiveLogSoftmaxWithLoss : public Builtin<AdaptiveLogSoftmaxWithLoss> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.adaptive.AdaptiveLogSoftmaxWithLoss";
  explicit AdaptiveLogSoftmaxWithLoss(const AdaptiveSoftmaxOptions& options);
  AdaptiveLogSoftmaxWithLoss(int64_t in, int64_t classes, std::vector<int64_t> cutoffs)
      : AdaptiveLogSoftmaxWithLoss(AdaptiveSoftmaxOptions{in, classes, std::move(cutoffs)}) {}

  // The log-probability of each target, and the mean of their negatives. Throws for targets out of range.
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& target);
  Tensor log_prob(const Tensor& x);  // (N, classes)
  Tensor predict(const Tensor& x);   // (N)
  void reset_parameters();

  AdaptiveSoftmaxOptions options;
  std::vector<int64_t> cutoffs;  // with the number of classes at the end
  int64_t shortlist_size, head_size;
  Linear head;
  ModuleList<Sequential> tail;

 private:
  Tensor full(const Tensor& x, const Tensor& head_output);
};

}  // namespace tern::nn
