#include "tern/nn/adaptive_softmax.h"

#include <algorithm>
#include <cmath>

#include "tern/base/format.h"
#include "tern/ops.h"

namespace tern::nn {
namespace {

std::vector<int64_t> checked_cutoffs(const AdaptiveSoftmaxOptions& o) {
  if (o.cutoffs.empty()) fail(ErrorKind::value, "cutoffs should be a sequence of length larger than 0");
  std::vector<int64_t> all = o.cutoffs;
  all.push_back(o.classes);
  const bool increasing = std::adjacent_find(all.begin(), all.end(), std::greater_equal<>()) == all.end();
  if (!increasing || all[0] <= 0)
    fail(
        ErrorKind::value,
        "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
        "value is between 1 and n_classes-1");
  return all;
}

}  // namespace

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(const AdaptiveSoftmaxOptions& o)
    : options(o),
      cutoffs(checked_cutoffs(o)),
      shortlist_size(cutoffs[0]),
      head_size(shortlist_size + static_cast<int64_t>(cutoffs.size()) - 1),
      head(add("head", Linear({o.in, head_size, o.head_bias, o.dtype, o.device}))),
      tail(add("tail", ModuleList<Sequential>())) {
  for (size_t i = 0; i + 1 < cutoffs.size(); ++i) {
    const auto features = static_cast<int64_t>(
        std::floor(static_cast<double>(o.in) / std::pow(o.div_value, static_cast<double>(i + 1))));
    Linear narrow({o.in, features, false, o.dtype, o.device});
    Linear wide({features, cutoffs[i + 1] - cutoffs[i], false, o.dtype, o.device});
    tail.push_back(Sequential(narrow, wide));
  }
}

void AdaptiveLogSoftmaxWithLoss::reset_parameters() {
  head.reset_parameters();
  for (const Sequential& projection : tail)
    for (const AnyLayer& layer : projection) layer.as<Linear>().reset_parameters();
}

std::tuple<Tensor, Tensor> AdaptiveLogSoftmaxWithLoss::forward(const Tensor& x, const Tensor& target) {
  if (target.dim() == 0) {
    if (x.dim() != 1)
      failf("0D target tensor expects 1D input tensors, but found inputs with size torch.Size({})",
            tern::str(x.sizes()));
    auto [output, loss] = forward(x.unsqueeze(0), target.unsqueeze(0));
    return {output.squeeze(0), loss};
  }
  if (target.dim() != 1) fail("0D or 1D target tensor expected, multi-target not supported");
  if (!(x.size(0) == target.size(0)))
    fail("Input and target should have the same size in the batch dimension.");
  if (x.dim() != 2)
    failf("1D target tensor expects 2D input tensors, but found inputs with size torch.Size({})",
          tern::str(x.sizes()));

  // Each target's place in the head: itself, or its cluster; and what the cluster adds for it.
  Tensor output = new_zeros(x, {target.size(0)}), places = zeros_like(target);
  SymInt used = 0;
  for (size_t i = 0; i < cutoffs.size(); ++i) {
    const int64_t low = i ? cutoffs[i - 1] : 0, high = cutoffs[i];
    Tensor rows = squeeze(nonzero(logical_and(target >= low, target < high)), 1);
    if (rows.numel() == 0) continue;
    Tensor own = tern::index_select(target, 0, rows);
    if (i == 0) {
      places = tern::index_copy(places, 0, rows, own);
    } else {
      Tensor scores = tern::log_softmax(tail[i - 1](tern::index_select(x, 0, rows)), 1);
      places = tern::index_fill(places, 0, rows, shortlist_size + static_cast<int64_t>(i) - 1);
      output = tern::index_copy(output, 0, rows, scores.gather(1, (own - low).unsqueeze(1)).squeeze(1));
    }
    used = used + rows.numel();
  }
  if (!(used == target.size(0)))
    failf("Target values should be in [0, {}], but values in range [{}, {}] were found. ",
          options.classes - 1, target.min().item<int64_t>(), target.max().item<int64_t>());
  output = output + tern::log_softmax(head(x), 1).gather(1, places.unsqueeze(1)).squeeze(1);
  return {output, (-output).mean()};
}

Tensor AdaptiveLogSoftmaxWithLoss::full(const Tensor& x, const Tensor& head_output) {
  Tensor first = tern::log_softmax(head_output, 1);
  std::vector<Tensor> parts = {first.narrow(1, 0, shortlist_size)};
  for (size_t i = 0; i + 1 < cutoffs.size(); ++i)
    parts.push_back(tern::log_softmax(tail[i](x), 1) +
                    first.narrow(1, shortlist_size + static_cast<int64_t>(i), 1));
  return tern::cat(parts, 1);
}
Tensor AdaptiveLogSoftmaxWithLoss::log_prob(const Tensor& x) { return full(x, head(x)); }

// The head decides which rows need their clusters at all.
Tensor AdaptiveLogSoftmaxWithLoss::predict(const Tensor& x) {
  Tensor scores = head(x), best = scores.argmax(1);
  Tensor rest = tern::nonzero(best >= shortlist_size).squeeze(1);
  if (rest.numel() == 0) return best;
  Tensor of_rest = full(tern::index_select(x, 0, rest), tern::index_select(scores, 0, rest)).argmax(1);
  return tern::index_copy(best, 0, rest, of_rest);
}

}  // namespace tern::nn
