#include "tern/nn/functional.h"

#include <cmath>

#include "tern/base/format.h"
#include "tern/base/warning.h"
#include "tern/dispatch/ladder.h"
#include "tern/ops.h"

namespace tern::nn::F {
namespace {

// int[2] takes one number for both in the schema language; SymInt[2] in C++ wants them all.
Dims spread(const std::vector<SymInt>& values, size_t n) {
  if (values.size() == 1) return Dims(n, values[0]);
  return Dims(Span<const SymInt>(values));
}

void check_probability(double p) {
  if (!(p >= 0 && p <= 1))
    failf(ErrorKind::value, "dropout probability has to be between 0 and 1, but got {}", python_float(p));
}

int64_t number(Reduction r) { return static_cast<int64_t>(r); }

// Losses broadcast their arguments, and say so: it is a mistake more often than a wish.
std::vector<Tensor> broadcast(const Tensor& x, const Tensor& target) {
  bool same = x.dim() == target.dim();
  for (int64_t d = 0; same && d < x.dim(); ++d) same = x.sizes()[d].bits() == target.sizes()[d].bits();
  if (!same && !x.is_symbolic() && !target.is_symbolic())
    warn("UserWarning",
         fmt::format("Using a target size (torch.Size({})) that is different to the input size "
                     "(torch.Size({})). This will likely lead to incorrect results due to broadcasting. "
                     "Please ensure they have the same size.",
                     tern::str(target.sizes()), tern::str(x.sizes())));
  return broadcast_tensors({x, target});
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Loc loc) {
  return tern::linear(x, weight, bias, loc);
}
Tensor conv1d(const Tensor& x, const Tensor& weight, const ConvArgs& a, Loc loc) {
  return tern::conv1d(x, weight, a.bias, spread(a.stride, 1), spread(a.padding, 1), spread(a.dilation, 1),
                      a.groups, loc);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const ConvArgs& a, Loc loc) {
  return tern::conv2d(x, weight, a.bias, spread(a.stride, 2), spread(a.padding, 2), spread(a.dilation, 2),
                      a.groups, loc);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const ConvArgs& a, Loc loc) {
  return tern::conv3d(x, weight, a.bias, spread(a.stride, 3), spread(a.padding, 3), spread(a.dilation, 3),
                      a.groups, loc);
}
Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<int64_t> padding_idx,
                 bool scale_grad_by_freq, Loc loc) {
  int64_t padding = -1;
  if (padding_idx) {
    int64_t rows = weight.size(0).guard_int();
    padding = *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
    if (padding < 0 || padding >= rows) fail(ErrorKind::value, "Padding_idx must be within num_embeddings");
  }
  return tern::embedding(weight, indices, padding, scale_grad_by_freq, false, loc);
}
void renormalise(const Tensor& weight, const Tensor& indices, double max_norm, double norm_type, Loc loc) {
  NoGrad no_grad;
  embedding_renorm_(weight.detach(), indices, max_norm, norm_type, loc);
}

// ---- activations ----

Tensor relu(const Tensor& x, bool inplace, Loc loc) { return inplace ? relu_(x, loc) : tern::relu(x, loc); }
Tensor relu6(const Tensor& x, bool inplace, Loc loc) {
  return inplace ? relu6_(x, loc) : tern::relu6(x, loc);
}
Tensor gelu(const Tensor& x, std::string_view approximate, Loc loc) {
  return tern::gelu(x, approximate, loc);
}
Tensor silu(const Tensor& x, bool inplace, Loc loc) { return inplace ? silu_(x, loc) : tern::silu(x, loc); }
Tensor mish(const Tensor& x, bool inplace, Loc loc) { return inplace ? mish_(x, loc) : tern::mish(x, loc); }
Tensor sigmoid(const Tensor& x, Loc loc) { return tern::sigmoid(x, loc); }
Tensor tanh(const Tensor& x, Loc loc) { return tern::tanh(x, loc); }
Tensor leaky_relu(const Tensor& x, double slope, bool inplace, Loc loc) {
  return inplace ? leaky_relu_(x, slope, loc) : tern::leaky_relu(x, slope, loc);
}
Tensor elu(const Tensor& x, double alpha, bool inplace, Loc loc) {
  return inplace ? elu_(x, alpha, 1, 1, loc) : tern::elu(x, alpha, 1, 1, loc);
}
Tensor softplus(const Tensor& x, double beta, double threshold, Loc loc) {
  return tern::softplus(x, beta, threshold, loc);
}
Tensor hardtanh(const Tensor& x, double low, double high, bool inplace, Loc loc) {
  if (low > high) fail(ErrorKind::value, "min_val cannot be greater than max_val");
  return inplace ? hardtanh_(x, low, high, loc) : tern::hardtanh(x, low, high, loc);
}
Tensor hardswish(const Tensor& x, bool inplace, Loc loc) {
  return inplace ? hardswish_(x, loc) : tern::hardswish(x, loc);
}
Tensor hardsigmoid(const Tensor& x, bool inplace, Loc loc) {
  return inplace ? hardsigmoid_(x, loc) : tern::hardsigmoid(x, loc);
}
Tensor softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype, Loc loc) {
  return tern::softmax(x, dim, dtype, loc);
}
Tensor log_softmax(const Tensor& x, int64_t dim, std::optional<DType> dtype, Loc loc) {
  return tern::log_softmax(x, dim, dtype, loc);
}
Tensor prelu(const Tensor& x, const Tensor& weight, Loc loc) { return tern::prelu(x, weight, loc); }
Tensor selu(const Tensor& x, bool inplace, Loc loc) { return inplace ? selu_(x, loc) : tern::selu(x, loc); }
Tensor celu(const Tensor& x, double alpha, bool inplace, Loc loc) {
  return inplace ? celu_(x, alpha, loc) : tern::celu(x, alpha, loc);
}
Tensor glu(const Tensor& x, int64_t dim, Loc loc) {
  if (x.dim() == 0) fail("glu does not support scalars because halving size must be even");
  return tern::glu(x, dim, loc);
}
Tensor logsigmoid(const Tensor& x, Loc loc) { return log_sigmoid(x, loc); }
Tensor softsign(const Tensor& x, Loc loc) {
  At at(loc);
  return tern::div(x, tern::add(tern::abs(x), wrap_number(1)));
}
Tensor tanhshrink(const Tensor& x, Loc loc) {
  At at(loc);
  return tern::sub(x, tern::tanh(x));
}
Tensor hardshrink(const Tensor& x, double lambd, Loc loc) { return tern::hardshrink(x, lambd, loc); }
Tensor softshrink(const Tensor& x, double lambd, Loc loc) { return tern::softshrink(x, lambd, loc); }
Tensor threshold(const Tensor& x, double threshold, double value, bool inplace, Loc loc) {
  return inplace ? threshold_(x, threshold, value, loc) : tern::threshold(x, threshold, value, loc);
}
Tensor softmin(const Tensor& x, int64_t dim, std::optional<DType> dtype, Loc loc) {
  At at(loc);
  return tern::softmax(tern::neg(x), dim, dtype);
}

// ---- dropout ----

Tensor dropout(const Tensor& x, double p, bool training, bool inplace, Loc loc) {
  check_probability(p);
  return inplace ? dropout_(x, p, training, loc) : tern::dropout(x, p, training, loc);
}
Tensor dropout1d(const Tensor& x, double p, bool training, bool inplace, Loc loc) {
  check_probability(p);
  if (x.dim() != 2 && x.dim() != 3)
    failf("dropout1d: Expected 2D or 3D input, but received a {}D input", x.dim());
  At at(loc);
  Tensor result = x.dim() == 2 ? feature_dropout(x.unsqueeze(0), p, training).squeeze(0)
                               : feature_dropout(x, p, training);
  return inplace ? x.copy_(result) : result;
}
Tensor dropout2d(const Tensor& x, double p, bool training, bool inplace, Loc loc) {
  check_probability(p);
  if (x.dim() != 3 && x.dim() != 4)
    warn("UserWarning",
         fmt::format("dropout2d: Received a {}-D input to dropout2d, which is deprecated and will result "
                     "in an error in a future release. To retain the behavior and silence this warning, "
                     "please use dropout instead. Note that dropout2d exists to provide channel-wise "
                     "dropout on inputs with 2 spatial dimensions, a channel dimension, and an optional "
                     "batch dimension (i.e. 3D or 4D inputs).",
                     x.dim()));
  At at(loc);
  Tensor result = feature_dropout(x, p, training);
  return inplace ? x.copy_(result) : result;
}
Tensor dropout3d(const Tensor& x, double p, bool training, bool inplace, Loc loc) {
  check_probability(p);
  if (x.dim() != 4 && x.dim() != 5)
    warn("UserWarning",
         fmt::format("dropout3d: Received a {}-D input to dropout3d, which is deprecated and will result "
                     "in an error in a future release. To retain the behavior and silence this warning, "
                     "please use dropout instead. Note that dropout3d exists to provide channel-wise "
                     "dropout on inputs with 3 spatial dimensions, a channel dimension, and an optional "
                     "batch dimension (i.e. 4D or 5D inputs).",
                     x.dim()));
  At at(loc);
  Tensor result = x.dim() == 5 ? feature_dropout(x, p, training)
                               : feature_dropout(x.unsqueeze(0), p, training).squeeze(0);
  return inplace ? x.copy_(result) : result;
}
Tensor alpha_dropout(const Tensor& x, double p, bool training, bool inplace, Loc loc) {
  check_probability(p);
  return inplace ? alpha_dropout_(x, p, training, loc) : tern::alpha_dropout(x, p, training, loc);
}
Tensor feature_alpha_dropout(const Tensor& x, double p, bool training, bool inplace, Loc loc) {
  check_probability(p);
  return inplace ? feature_alpha_dropout_(x, p, training, loc)
                 : tern::feature_alpha_dropout(x, p, training, loc);
}

// ---- normalisation ----

Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& var, const BatchNormArgs& a, Loc loc) {
  if (a.training && x.dim() >= 2) {
    SymInt per_channel = x.size(0);
    for (int64_t d = 2; d < x.dim(); ++d) per_channel = per_channel * x.size(d);
    if (per_channel.maybe_int() == 1)
      failf(ErrorKind::value,
            "Expected more than 1 value per channel when training, got input size torch.Size({})",
            tern::str(x.sizes()));
  }
  return tern::batch_norm(x, a.weight, a.bias, mean, var, a.training, a.momentum, a.eps, true, loc);
}
Tensor layer_norm(const Tensor& x, Sizes shape, const Tensor& weight, const Tensor& bias, double eps,
                  Loc loc) {
  return tern::layer_norm(x, shape, weight, bias, eps, true, loc);
}
Tensor rms_norm(const Tensor& x, Sizes shape, const Tensor& weight, std::optional<double> eps, Loc loc) {
  return tern::rms_norm(x, shape, weight, eps, loc);
}
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps,
                  Loc loc) {
  return tern::group_norm(x, groups, weight, bias, eps, true, loc);
}
Tensor instance_norm(const Tensor& x, const InstanceNormArgs& a, Loc loc) {
  if (a.use_input_stats) {
    SymInt elements = 1;
    for (int64_t d = 2; d < x.dim(); ++d) elements = elements * x.size(d);
    if (elements.maybe_int() == 1)
      failf(ErrorKind::value,
            "Expected more than 1 spatial element when training, got input size torch.Size({})",
            tern::str(x.sizes()));
  }
  return tern::instance_norm(x, a.weight, a.bias, a.running_mean, a.running_var, a.use_input_stats,
                             a.momentum, a.eps, true, loc);
}
Tensor normalize(const Tensor& x, double p, int64_t dim, double eps, Loc loc) {
  At at(loc);
  Tensor denominator = tern::clamp_min(tern::norm(x, p, {dim}, true), eps);
  return tern::div(x, denominator.expand_as(x));
}

// ---- pooling, padding ----

Tensor max_pool1d(const Tensor& x, Ints kernel, const PoolArgs& a, Loc loc) {
  return tern::max_pool1d(x, kernel, a.stride, a.padding, a.dilation, a.ceil_mode, loc);
}
Tensor max_pool2d(const Tensor& x, Ints kernel, const PoolArgs& a, Loc loc) {
  return tern::max_pool2d(x, kernel, a.stride, a.padding, a.dilation, a.ceil_mode, loc);
}
Tensor avg_pool1d(const Tensor& x, Ints kernel, const PoolArgs& a, Loc loc) {
  return tern::avg_pool1d(x, kernel, a.stride, a.padding, a.ceil_mode, a.count_include_pad, loc);
}
Tensor avg_pool2d(const Tensor& x, Ints kernel, const PoolArgs& a, Loc loc) {
  return tern::avg_pool2d(x, kernel, a.stride, a.padding, a.ceil_mode, a.count_include_pad,
                          a.divisor_override, loc);
}
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output_size, Loc loc) {
  return tern::adaptive_avg_pool1d(x, {output_size}, loc);
}
namespace {
// The last sizes of x where the wanted one is -1.
Dims output_sizes(const Tensor& x, Ints wanted, int64_t n) {
  Dims sizes;
  for (int64_t i = 0; i < n; ++i) {
    int64_t size = wanted.at(i);
    sizes.push_back(size < 0 ? x.size(i - n) : SymInt(size));
  }
  return sizes;
}
}  // namespace
Tensor adaptive_avg_pool2d(const Tensor& x, Ints output_size, Loc loc) {
  return tern::adaptive_avg_pool2d(x, output_sizes(x, output_size, 2), loc);
}
Tensor adaptive_max_pool2d(const Tensor& x, Ints output_size, Loc loc) {
  SmallVector<int64_t> sizes;
  for (SymInt s : output_sizes(x, output_size, 2)) sizes.push_back(s.guard_int(loc));
  return std::get<0>(tern::adaptive_max_pool2d(x, sizes, loc));
}
Tensor pad(const Tensor& x, Sizes padding, std::string_view mode, std::optional<double> value, Loc loc) {
  return tern::pad(x, padding, mode, value, loc);
}

// ---- losses ----

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction r, Loc loc) {
  At at(loc);
  auto both = broadcast(x, target);
  return tern::mse_loss(both[0], both[1], number(r));
}
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction r, Loc loc) {
  At at(loc);
  auto both = broadcast(x, target);
  return tern::l1_loss(both[0], both[1], number(r));
}
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction r, double beta, Loc loc) {
  At at(loc);
  auto both = broadcast(x, target);
  if (beta == 0) return tern::l1_loss(both[0], both[1], number(r));
  return tern::smooth_l1_loss(both[0], both[1], number(r), beta);
}
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction r, double delta, Loc loc) {
  At at(loc);
  auto both = broadcast(x, target);
  return tern::huber_loss(both[0], both[1], number(r), delta);
}
Tensor cross_entropy(const Tensor& x, const Tensor& target, const ClassLossArgs& a, Loc loc) {
  return tern::cross_entropy_loss(x, target, a.weight, number(a.reduction), a.ignore_index, a.label_smoothing,
                                  loc);
}
Tensor nll_loss(const Tensor& x, const Tensor& target, const ClassLossArgs& a, Loc loc) {
  return tern::nll_loss_nd(x, target, a.weight, number(a.reduction), a.ignore_index, loc);
}
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight, Reduction r,
                            Loc loc) {
  return tern::binary_cross_entropy(x, target, weight, number(r), loc);
}
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight,
                                        Reduction r, const Tensor& pos_weight, Loc loc) {
  return tern::binary_cross_entropy_with_logits(x, target, weight, pos_weight, number(r), loc);
}
Tensor kl_div(const Tensor& x, const Tensor& target, Reduction r, bool log_target, Loc loc) {
  return tern::kl_div(x, target, number(r), log_target, loc);
}

}  // namespace tern::nn::F
