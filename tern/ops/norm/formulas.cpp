// Gradients of the normalisations. Where they are to have a history themselves they are written in plain
// operators; else the fused backward operator does it.
#include "tern/ops/formulas.h"

#include "tern/dispatch/grad_context.h"
#include "tern/ops.h"

namespace tern {
namespace {

using Grads = std::tuple<Tensor, Tensor, Tensor>;

bool with_history(const Tensor& grad, const Tensor& input, const Tensor& weight) {
  return thread_state.grad_enabled &&
         (grad.requires_grad() || input.requires_grad() || (weight.defined() && weight.requires_grad()));
}

// d/dx of (x - mean)·rstd over `dims`, for the gradient g of the normalised value n.
Tensor through_statistics(const Tensor& g, const Tensor& n, const Tensor& rstd, Ints dims) {
  return (g - mean(g, dims, true) - n * mean(g * n, dims, true)) * rstd;
}

Tensor reciprocal_deviation(const Tensor& centred, Ints dims, double eps) {
  return rsqrt(mean(centred * centred, dims, true) + eps);
}

}  // namespace

Grads layer_norm_grads(const Tensor& grad, const Tensor& input, Span<const SymInt> shape,
                       const Tensor& saved_mean, const Tensor& saved_rstd, const Tensor& weight,
                       const Tensor& bias, double eps, Span<const bool> mask) {
  if (!with_history(grad, input, weight))
    return native_layer_norm_backward(grad, input, shape, saved_mean, saved_rstd, weight, bias, mask);
  int64_t lead = input.dim() - static_cast<int64_t>(shape.size());
  SmallVector<int64_t, 6> inside, outside;
  for (int64_t d = 0; d < input.dim(); ++d) (d < lead ? outside : inside).push_back(d);
  Tensor centred = input - mean(input, Ints(inside), true);
  Tensor rstd = reciprocal_deviation(centred, inside, eps), n = centred * rstd;
  auto over_rows = [&](const Tensor& t) { return outside.empty() ? t : sum(t, Ints(outside)); };
  Grads result;
  if (mask[0])
    std::get<0>(result) = through_statistics(weight.defined() ? grad * weight : grad, n, rstd, inside);
  if (mask[1]) std::get<1>(result) = over_rows(grad * n);
  if (mask[2]) std::get<2>(result) = over_rows(grad);
  return result;
}

Grads group_norm_grads(GradContext& context, const Tensor& grad, const Tensor& input,
                       const Tensor& saved_mean, const Tensor& saved_rstd, const Tensor& weight, SymInt N,
                       SymInt C, SymInt HxW, int64_t group, double eps, Span<const bool> mask) {
  bool of_statistics = context.has_grad(1) || context.has_grad(2);
  if (!with_history(grad, input, weight) && !of_statistics)
    return native_group_norm_backward(grad, input, saved_mean, saved_rstd, weight, N, C, HxW, group, mask);
  const int64_t inside[] = {2, 3}, per_channel[] = {0, 2};
  SymInt channels = floor_div(C, group);
  auto grouped = [&](const Tensor& t) { return reshape(t, {N, SymInt(group), channels, HxW}); };
  auto by_channel = [&](const Tensor& t) { return sum(reshape(t, {N, C, HxW}), Ints(per_channel)); };
  Tensor x = grouped(input), g = grouped(grad);
  Tensor centred = x - mean(x, Ints(inside), true);
  Tensor rstd = reciprocal_deviation(centred, Ints(inside), eps), n = centred * rstd;
  Grads result;
  if (mask[0]) {
    Tensor scaled = weight.defined() ? g * view(weight, {SymInt(1), SymInt(group), channels, SymInt(1)}) : g;
    Tensor inner = through_statistics(scaled, n, rstd, Ints(inside));
    if (of_statistics) {  // of the mean 1/count each; of 1/deviation -n·rstd²/count
      auto per_group = [&](int i) { return view(context.grad(i), {N, SymInt(group), SymInt(1), SymInt(1)}); };
      Tensor count = reciprocal(scalar_tensor(channels * HxW, input.dtype()));
      inner = inner + (per_group(1) - per_group(2) * n * rstd * rstd) * count;
    }
    std::get<0>(result) = reshape(inner, input.sizes());
  }
  if (mask[1]) std::get<1>(result) = by_channel(g * n);
  if (mask[2]) std::get<2>(result) = by_channel(g);
  return result;
}

Grads batch_norm_grads(const Tensor& grad, const Tensor& input, const Tensor& weight,
                       const Tensor& running_mean, const Tensor& running_var, const Tensor& save_mean,
                       const Tensor& save_invstd, bool train, double eps, Span<const bool> mask) {
  if (!with_history(grad, input, weight))
    return native_batch_norm_backward(grad, input, weight, running_mean, running_var, save_mean, save_invstd,
                                      train, eps, mask);
  SmallVector<int64_t, 6> dims;
  Dims shape(input.dim(), 1);
  shape[1] = input.sizes()[1];
  for (int64_t d = 0; d < input.dim(); ++d)
    if (d != 1) dims.push_back(d);
  Tensor centred = input - (train ? mean(input, Ints(dims), true) : view(running_mean, shape));
  Tensor rstd = train ? reciprocal_deviation(centred, dims, eps) : rsqrt(view(running_var, shape) + eps);
  Tensor n = centred * rstd, scaled = weight.defined() ? grad * view(weight, shape) : grad;
  Grads result;
  if (mask[0]) std::get<0>(result) = train ? through_statistics(scaled, n, rstd, dims) : scaled * rstd;
  if (mask[1]) std::get<1>(result) = sum(grad * n, Ints(dims));
  if (mask[2]) std::get<2>(result) = sum(grad, Ints(dims));
  return result;
}

}  // namespace tern
