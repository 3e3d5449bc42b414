// Linear, embedding, normalisation, pooling and dropout layers: checks, initial values in PyTorch's order,
// printing.
#include "tern/nn/layers.h"

#include <cmath>

#include "tern/base/format.h"
#include "tern/base/warning.h"
#include "tern/nn/init.h"
#include "tern/nn/make.h"
#include "tern/ops.h"

namespace tern::nn {
namespace {

const char* python(bool b) { return b ? "True" : "False"; }

std::string shape_text(const std::vector<int64_t>& shape) {
  Dims dims;
  for (int64_t s : shape) dims.push_back(s);
  return extent_text(dims, false);
}

Dims to_dims(const std::vector<int64_t>& shape) {
  Dims dims;
  for (int64_t s : shape) dims.push_back(s);
  return dims;
}

}  // namespace

Tensor make_uninitialised(Span<const SymInt> sizes, DType dtype, Device device) {
  for (SymInt s : sizes)
    if (s.is_int() && s.as_int() < 0)
      failf("Trying to create tensor with negative dimension {}: {}", s.as_int(), tern::str(sizes));
  return make_tensor(sizes, dtype == DType::undefined ? default_dtype() : dtype, device,
                     device.type == DeviceType::meta);
}

void wrong_extent(size_t wanted, size_t found) {
  failf(ErrorKind::value, "expected {} number{} (or one for all of them), found {}", wanted,
        wanted == 1 ? "" : "s", found);
}
std::string extent_text(Span<const SymInt> values, bool single) {
  if (single && !values.empty()) return values[0].str();
  std::string text = "(";
  for (size_t i = 0; i < values.size(); ++i) text += (i ? ", " : "") + values[i].str();
  return text + (values.size() == 1 ? ",)" : ")");
}

// ---- linear ----

Linear::Linear(const LinearOptions& o) : in_features(o.in), out_features(o.out) {
  weight = register_parameter("weight", make_uninitialised({o.out, o.in}, o.dtype, o.device));
  bias = register_parameter("bias", o.bias ? make_uninitialised({o.out}, o.dtype, o.device) : Tensor());
  reset_parameters();
  set_repr(fmt::format("in_features={}, out_features={}, bias={}", o.in, o.out, python(o.bias)));
}
void Linear::reset_parameters() {
  init::kaiming_uniform_(weight, {.a = std::sqrt(5.0)});
  if (!bias.defined()) return;
  double bound = in_features > 0 ? 1 / std::sqrt(static_cast<double>(in_features)) : 0;
  init::uniform_(bias, -bound, bound);
}

Flatten::Flatten(int64_t start, int64_t end) : start_dim(start), end_dim(end) {
  set_repr(fmt::format("start_dim={}, end_dim={}", start, end));
}
Unflatten::Unflatten(int64_t d, std::vector<int64_t> s) : dim(d), sizes(std::move(s)) {
  if (sizes.empty()) fail(ErrorKind::value, "Unflatten: the sizes are empty: give at least one");
  set_repr(fmt::format("dim={}, unflattened_size={}", dim, shape_text(sizes)));
}
Tensor Unflatten::forward(const Tensor& x) { return tern::unflatten(x, dim, to_dims(sizes)); }

// ---- normalisation ----

namespace {

// What norms with running statistics have in common: parameters, buffers and how they are printed.
template <class Norm, class Options>
std::string set_up_norm(Norm& norm, const Options& o) {
  auto make = [&](double value) {
    Tensor t = make_uninitialised({o.features}, o.dtype, o.device);
    init::constant_(t, value);
    return t;
  };
  norm.weight = norm.register_parameter("weight", o.affine ? make(1) : Tensor());
  norm.bias = norm.register_parameter("bias", o.affine ? make(0) : Tensor());
  bool tracks = o.track_running_stats;
  norm.running_mean = norm.register_buffer("running_mean", tracks ? make(0) : Tensor());
  norm.running_var = norm.register_buffer("running_var", tracks ? make(1) : Tensor());
  Tensor count;
  if (tracks) {
    count = make_uninitialised({}, DType::int64, o.device);
    init::zeros_(count);
  }
  norm.num_batches_tracked = norm.register_buffer("num_batches_tracked", count);
  return fmt::format("{}, eps={}, momentum={}, affine={}, bias={}, track_running_stats={}", o.features,
                     python_float(o.eps), o.momentum ? python_float(*o.momentum) : "None", python(o.affine),
                     python(o.affine), python(tracks));
}

}  // namespace

template <int N>
BatchNorm<N>::BatchNorm(const BatchNormOptions& o) : options(o) {
  this->set_repr(set_up_norm(*this, o));
}

template <int N>
Tensor BatchNorm<N>::forward(const Tensor& x) {
  if (N == 1 ? x.dim() != 2 && x.dim() != 3 : x.dim() != N + 2)
    failf(ErrorKind::value, "expected {} input (got {}D input)",
          N == 1   ? "2D or 3D"
          : N == 2 ? "4D"
                   : "5D",
          x.dim());
  double average = options.momentum.value_or(0);
  bool training = this->training();
  const Tensor& count = num_batches_tracked.now();
  if (training && count.defined()) {
    count.add_(1);
    if (!options.momentum) average = 1 / count.template item<double>();
  }
  bool batch_statistics = training || !running_mean.now().defined();
  bool use_running = !training || options.track_running_stats;
  return F::batch_norm(x, use_running ? running_mean.now() : Tensor(),
                       use_running ? running_var.now() : Tensor(),
                       {.weight = weight.now(),
                        .bias = bias.now(),
                        .training = batch_statistics,
                        .momentum = average,
                        .eps = options.eps});
}
template class BatchNorm<1>;
template class BatchNorm<2>;
template class BatchNorm<3>;

template <int N>
InstanceNorm<N>::InstanceNorm(const InstanceNormOptions& o) : options(o) {
  this->set_repr(set_up_norm(*this, o));
}

template <int N>
Tensor InstanceNorm<N>::forward(const Tensor& x) {
  if (x.dim() != N + 1 && x.dim() != N + 2)
    failf(ErrorKind::value, "expected {}D or {}D input (got {}D input)", N + 1, N + 2, x.dim());
  const bool batched = x.dim() == N + 2;
  if (const SymInt channels = x.size(batched ? 1 : 0); !(channels == SymInt(options.features))) {
    if (options.affine)
      failf(ErrorKind::value, "expected input's size at dim={} to match num_features ({}), but got: {}.",
            batched ? 1 : 0, options.features, channels.str());
    warn(
        "UserWarning",
        fmt::format("input's size at dim={} does not match num_features. You can silence this warning by not "
                    "passing in num_features, which is not used because affine=False",
                    batched ? 1 : 0));
  }
  const Tensor y = F::instance_norm(batched ? x : x.unsqueeze(0),
                                    {.running_mean = running_mean.now(),
                                     .running_var = running_var.now(),
                                     .weight = weight.now(),
                                     .bias = bias.now(),
                                     .use_input_stats = this->training() || !options.track_running_stats,
                                     .momentum = options.momentum.value_or(0),
                                     .eps = options.eps});
  return batched ? y : y.squeeze(0);
}
template class InstanceNorm<1>;
template class InstanceNorm<2>;
template class InstanceNorm<3>;

LayerNorm::LayerNorm(const LayerNormOptions& o) : options(o) {
  Dims shape = to_dims(o.shape);
  Tensor w, b;
  if (o.elementwise_affine) {
    w = make_uninitialised(shape, o.dtype, o.device);
    init::ones_(w);
    if (o.bias) {
      b = make_uninitialised(shape, o.dtype, o.device);
      init::zeros_(b);
    }
  }
  weight = register_parameter("weight", w);
  bias = register_parameter("bias", b);
  set_repr(fmt::format("{}, eps={}, elementwise_affine={}, bias={}", shape_text(o.shape), python_float(o.eps),
                       python(o.elementwise_affine), python(b.defined())));
}
Tensor LayerNorm::forward(const Tensor& x) {
  return F::layer_norm(x, to_dims(options.shape), weight.now(), bias.now(), options.eps);
}

GroupNorm::GroupNorm(const GroupNormOptions& o) : options(o) {
  if (o.groups <= 0 || o.channels % o.groups)
    failf(ErrorKind::value, "num_channels ({}) must be divisible by num_groups ({})", o.channels, o.groups);
  Tensor w, b;
  if (o.affine) {
    w = make_uninitialised({o.channels}, o.dtype, o.device);
    b = make_uninitialised({o.channels}, o.dtype, o.device);
    init::ones_(w);
    init::zeros_(b);
  }
  weight = register_parameter("weight", w);
  bias = register_parameter("bias", b);
  set_repr(fmt::format("{}, {}, eps={}, affine={}, bias={}", o.groups, o.channels, python_float(o.eps),
                       python(o.affine), python(o.affine)));
}

RMSNorm::RMSNorm(const RMSNormOptions& o) : options(o) {
  Tensor w;
  if (o.elementwise_affine) {
    w = make_uninitialised(to_dims(o.shape), o.dtype, o.device);
    init::ones_(w);
  }
  weight = register_parameter("weight", w);
  set_repr(fmt::format("{}, eps={}, elementwise_affine={}", shape_text(o.shape),
                       o.eps ? python_float(*o.eps) : "None", python(o.elementwise_affine)));
}
Tensor RMSNorm::forward(const Tensor& x) {
  return F::rms_norm(x, to_dims(options.shape), weight.now(), options.eps);
}

// ---- embedding ----

Embedding::Embedding(const EmbeddingOptions& o)
    : Embedding(o, init::normal_(make_uninitialised({o.count, o.dim}, o.dtype, o.device))) {
  if (options.padding_idx && !weight.is_meta()) init::zeros_(weight.detach().select(0, *options.padding_idx));
}
Embedding::Embedding(EmbeddingOptions o, const Tensor& w) : options(std::move(o)) {
  if (options.padding_idx) {
    int64_t& padding = *options.padding_idx;
    if (padding >= options.count || padding < -options.count)
      fail(ErrorKind::value, "Padding_idx must be within num_embeddings");
    if (padding < 0) padding += options.count;
  }
  weight = register_parameter("weight", w);
  std::string text = fmt::format("{}, {}", options.count, options.dim);
  if (options.padding_idx) text += fmt::format(", padding_idx={}", *options.padding_idx);
  if (options.max_norm) text += ", max_norm=" + python_float(*options.max_norm);
  if (options.norm_type != 2) text += ", norm_type=" + python_float(options.norm_type);
  if (options.scale_grad_by_freq) text += ", scale_grad_by_freq=True";
  set_repr(text);
}
Embedding Embedding::from_pretrained(const Tensor& w, bool freeze, std::optional<int64_t> padding_idx) {
  if (w.dim() != 2)
    failf(ErrorKind::value, "Embeddings parameter is expected to be 2-dimensional, found {}", w.dim());
  Embedding made({.count = w.size(0).guard_int(), .dim = w.size(1).guard_int(), .padding_idx = padding_idx},
                 w.detach());
  made.weight.requires_grad_(!freeze);
  return made;
}

// ---- pooling ----

template <int N>
MaxPool<N>::MaxPool(const MaxPoolOptions<N>& o) : options(o) {
  if (!options.stride.has_value()) options.stride = options.kernel;
  const auto& p = options;
  this->set_repr(fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                             p.kernel.short_str(), p.stride.short_str(), p.padding.short_str(),
                             p.dilation.short_str(), python(p.ceil_mode)));
}
template <int N>
Tensor MaxPool<N>::forward(const Tensor& x) {
  const auto& o = options;
  if constexpr (N == 1)
    return tern::max_pool1d(x, o.kernel, o.stride, o.padding, o.dilation, o.ceil_mode);
  else
    return tern::max_pool2d(x, o.kernel, o.stride, o.padding, o.dilation, o.ceil_mode);
}
template class MaxPool<1>;
template class MaxPool<2>;

template <int N>
AvgPool<N>::AvgPool(const AvgPoolOptions<N>& o) : options(o) {
  if (!options.stride.has_value()) options.stride = options.kernel;
  const auto& p = options;
  this->set_repr(N == 1 ? fmt::format("kernel_size={}, stride={}, padding={}", p.kernel.str(), p.stride.str(),
                                      p.padding.str())
                        : fmt::format("kernel_size={}, stride={}, padding={}", p.kernel.short_str(),
                                      p.stride.short_str(), p.padding.short_str()));
}
template <int N>
Tensor AvgPool<N>::forward(const Tensor& x) {
  const auto& o = options;
  if constexpr (N == 1)
    return tern::avg_pool1d(x, o.kernel, o.stride, o.padding, o.ceil_mode, o.count_include_pad);
  else
    return tern::avg_pool2d(x, o.kernel, o.stride, o.padding, o.ceil_mode, o.count_include_pad,
                            o.divisor_override);
}
template class AvgPool<1>;
template class AvgPool<2>;

template <int N>
AdaptiveAvgPool<N>::AdaptiveAvgPool(Extent<N> size) : output_size(size) {
  this->set_repr("output_size=" + size.short_str());
}
template <int N>
Tensor AdaptiveAvgPool<N>::forward(const Tensor& x) {
  if constexpr (N == 1)
    return F::adaptive_avg_pool1d(x, output_size[0]);
  else
    return F::adaptive_avg_pool2d(x, output_size.ints());
}
template class AdaptiveAvgPool<1>;
template class AdaptiveAvgPool<2>;

AdaptiveMaxPool2d::AdaptiveMaxPool2d(Extent<2> size) : output_size(size) {
  set_repr("output_size=" + size.short_str());
}

// ---- dropout ----

template <const DropoutKind& Kind>
DropoutOf<Kind>::DropoutOf(double probability, bool in) : p(probability), inplace(in) {
  if (!(p >= 0 && p <= 1))
    failf(ErrorKind::value, "dropout probability has to be between 0 and 1, but got {}", python_float(p));
  this->set_repr(fmt::format("p={}, inplace={}", python_float(p), python(inplace)));
}
template class DropoutOf<dropout_kind>;
template class DropoutOf<dropout1d_kind>;
template class DropoutOf<dropout2d_kind>;
template class DropoutOf<dropout3d_kind>;
template class DropoutOf<alpha_dropout_kind>;
template class DropoutOf<feature_alpha_dropout_kind>;

template <int N>
ConstantPad<N>::ConstantPad(Extent<2 * N> sides, double v) : padding(sides), value(v) {
  this->set_repr(fmt::format("padding={}, value={}", padding.str(), python_float(v)));
}
template class ConstantPad<1>;
template class ConstantPad<2>;
template class ConstantPad<3>;

}  // namespace tern::nn
