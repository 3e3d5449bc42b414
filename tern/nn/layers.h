// The layers: plain classes with PyTorch's names, options, initial values and printing. Options are
// aggregates:
//   nn::Linear(784, 128)     nn::Conv2d({.in = 3, .out = 64, .kernel = 7, .stride = 2, .padding = 3})
#pragma once
#include "tern/nn/containers.h"
#include "tern/nn/extent.h"
#include "tern/nn/functional.h"
#include "tern/nn/layer.h"

namespace tern::nn {

// What our own layers derive from: a capture records the line that called them.
template <class Derived>
class Builtin : public Layer<Derived> {
 public:
  static constexpr bool is_ours = true;
};

// ---- linear ----

struct LinearOptions {
  int64_t in, out;
  bool bias = true;
  DType dtype = DType::undefined;  // undefined: the default
  Device device = kCPU;
};
class Linear : public Builtin<Linear> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.linear.Linear";
  explicit Linear(const LinearOptions& options);
  Linear(int64_t in, int64_t out, bool bias = true) : Linear(LinearOptions{in, out, bias}) {}
  Tensor forward(const Tensor& x) { return F::linear(x, weight.now(), bias.now()); }
  void reset_parameters();

  int64_t in_features, out_features;
  Parameter weight, bias;  // (out, in), (out)
};

class Identity : public Builtin<Identity> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.linear.Identity";
  Tensor forward(const Tensor& x) { return x; }
};

class Flatten : public Builtin<Flatten> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.flatten.Flatten";
  explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1);
  Tensor forward(const Tensor& x) { return x.flatten(start_dim, end_dim); }
  int64_t start_dim, end_dim;
};

class Unflatten : public Builtin<Unflatten> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.flatten.Unflatten";
  Unflatten(int64_t dim, std::vector<int64_t> sizes);
  Tensor forward(const Tensor& x);
  int64_t dim;
  std::vector<int64_t> sizes;
};

// ---- convolution ----

template <int N>
struct ConvOptions {
  int64_t in, out;
  Extent<N> kernel;
  Extent<N> stride = 1;
  Padding<N> padding = 0;  // numbers, "same" or "valid"
  Extent<N> dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  std::string padding_mode = "zeros";  // "reflect", "replicate", "circular"
  DType dtype = DType::undefined;
  Device device = kCPU;
};
template <int N>
class Conv : public Builtin<Conv<N>> {
 public:
  static constexpr const char* type_name = N == 1   ? "torch.nn.modules.conv.Conv1d"
                                           : N == 2 ? "torch.nn.modules.conv.Conv2d"
                                                    : "torch.nn.modules.conv.Conv3d";
  explicit Conv(const ConvOptions<N>& options);
  Conv(int64_t in, int64_t out, Extent<N> kernel)
      : Conv(ConvOptions<N>{.in = in, .out = out, .kernel = kernel}) {}
  Tensor forward(const Tensor& x);

  ConvOptions<N> options;
  Parameter weight, bias;
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

template <int N>
struct ConvTransposeOptions {
  int64_t in, out;
  Extent<N> kernel;
  Extent<N> stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Extent<N> dilation = 1;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
template <int N>
class ConvTranspose : public Builtin<ConvTranspose<N>> {
 public:
  static constexpr const char* type_name = N == 1   ? "torch.nn.modules.conv.ConvTranspose1d"
                                           : N == 2 ? "torch.nn.modules.conv.ConvTranspose2d"
                                                    : "torch.nn.modules.conv.ConvTranspose3d";
  explicit ConvTranspose(const ConvTransposeOptions<N>& options);
  ConvTranspose(int64_t in, int64_t out, Extent<N> kernel)
      : ConvTranspose(ConvTransposeOptions<N>{.in = in, .out = out, .kernel = kernel}) {}
  Tensor forward(const Tensor& x);

  ConvTransposeOptions<N> options;
  Parameter weight, bias;
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

// ---- normalisation ----

struct BatchNormOptions {
  int64_t features;
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // none: a cumulative average
  bool affine = true, track_running_stats = true;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
template <int N>
class BatchNorm : public Builtin<BatchNorm<N>> {
 public:
  static constexpr const char* type_name = N == 1   ? "torch.nn.modules.batchnorm.BatchNorm1d"
                                           : N == 2 ? "torch.nn.modules.batchnorm.BatchNorm2d"
                                                    : "torch.nn.modules.batchnorm.BatchNorm3d";
  explicit BatchNorm(const BatchNormOptions& options);
  explicit BatchNorm(int64_t features) : BatchNorm(BatchNormOptions{.features = features}) {}
  Tensor forward(const Tensor& x);

  BatchNormOptions options;
  Parameter weight, bias;
  Buffer running_mean, running_var, num_batches_tracked;
};
using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;

struct InstanceNormOptions {
  int64_t features;
  double eps = 1e-5;
  std::optional<double> momentum = 0.1;  // none: running statistics do not move
  bool affine = false, track_running_stats = false;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
template <int N>
class InstanceNorm : public Builtin<InstanceNorm<N>> {
 public:
  static constexpr const char* type_name = N == 1   ? "torch.nn.modules.instancenorm.InstanceNorm1d"
                                           : N == 2 ? "torch.nn.modules.instancenorm.InstanceNorm2d"
                                                    : "torch.nn.modules.instancenorm.InstanceNorm3d";
  explicit InstanceNorm(const InstanceNormOptions& options);
  explicit InstanceNorm(int64_t features) : InstanceNorm(InstanceNormOptions{.features = features}) {}
  Tensor forward(const Tensor& x);  // with or without a batch

  InstanceNormOptions options;
  Parameter weight, bias;
  Buffer running_mean, running_var, num_batches_tracked;
};
using InstanceNorm1d = InstanceNorm<1>;
using InstanceNorm2d = InstanceNorm<2>;
using InstanceNorm3d = InstanceNorm<3>;

struct LayerNormOptions {
  std::vector<int64_t> shape;
  double eps = 1e-5;
  bool elementwise_affine = true, bias = true;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
class LayerNorm : public Builtin<LayerNorm> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.normalization.LayerNorm";
  explicit LayerNorm(const LayerNormOptions& options);
  explicit LayerNorm(int64_t size) : LayerNorm(LayerNormOptions{.shape = {size}}) {}
  Tensor forward(const Tensor& x);

  LayerNormOptions options;
  Parameter weight, bias;
};

struct GroupNormOptions {
  int64_t groups, channels;
  double eps = 1e-5;
  bool affine = true;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
class GroupNorm : public Builtin<GroupNorm> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.normalization.GroupNorm";
  explicit GroupNorm(const GroupNormOptions& options);
  GroupNorm(int64_t groups, int64_t channels) : GroupNorm(GroupNormOptions{groups, channels}) {}
  Tensor forward(const Tensor& x) {
    return F::group_norm(x, options.groups, weight.now(), bias.now(), options.eps);
  }

  GroupNormOptions options;
  Parameter weight, bias;
};

struct RMSNormOptions {
  std::vector<int64_t> shape;
  std::optional<double> eps = {};
  bool elementwise_affine = true;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
class RMSNorm : public Builtin<RMSNorm> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.normalization.RMSNorm";
  explicit RMSNorm(const RMSNormOptions& options);
  explicit RMSNorm(int64_t size) : RMSNorm(RMSNormOptions{.shape = {size}}) {}
  Tensor forward(const Tensor& x);

  RMSNormOptions options;
  Parameter weight;
};

// ---- embedding ----

struct EmbeddingOptions {
  int64_t count, dim;
  std::optional<int64_t> padding_idx = {};  // its row starts at zero and gets no gradient
  bool scale_grad_by_freq = false;
  DType dtype = DType::undefined;
  Device device = kCPU;
  std::optional<double> max_norm = {};  // rows that are read are shortened to it, in place
  double norm_type = 2;
};
class Embedding : public Builtin<Embedding> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.sparse.Embedding";
  explicit Embedding(const EmbeddingOptions& options);
  Embedding(int64_t count, int64_t dim) : Embedding(EmbeddingOptions{count, dim}) {}
  static Embedding from_pretrained(const Tensor& weight, bool freeze = true,
                                   std::optional<int64_t> padding_idx = {});
  Tensor forward(const Tensor& indices) {
    if (options.max_norm) F::renormalise(weight.now(), indices, *options.max_norm, options.norm_type);
    return F::embedding(indices, weight.now(), options.padding_idx, options.scale_grad_by_freq);
  }

  EmbeddingOptions options;
  Parameter weight;

 private:
  Embedding(EmbeddingOptions options, const Tensor& weight);
};

// ---- pooling ----

template <int N>
struct MaxPoolOptions {
  Extent<N> kernel;
  Extent<N> stride = {};  // not given: the kernel's
  Extent<N> padding = 0, dilation = 1;
  bool ceil_mode = false;
};
template <int N>
class MaxPool : public Builtin<MaxPool<N>> {
 public:
  static constexpr const char* type_name =
      N == 1 ? "torch.nn.modules.pooling.MaxPool1d" : "torch.nn.modules.pooling.MaxPool2d";
  explicit MaxPool(const MaxPoolOptions<N>& options);
  explicit MaxPool(Extent<N> kernel, Extent<N> stride = {}, Extent<N> padding = 0)
      : MaxPool(MaxPoolOptions<N>{kernel, stride, padding}) {}
  Tensor forward(const Tensor& x);
  MaxPoolOptions<N> options;
};
using MaxPool1d = MaxPool<1>;
using MaxPool2d = MaxPool<2>;

template <int N>
struct AvgPoolOptions {
  Extent<N> kernel;
  Extent<N> stride = {};
  Extent<N> padding = 0;
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor_override = {};  // 2-d only
};
template <int N>
class AvgPool : public Builtin<AvgPool<N>> {
 public:
  static constexpr const char* type_name =
      N == 1 ? "torch.nn.modules.pooling.AvgPool1d" : "torch.nn.modules.pooling.AvgPool2d";
  explicit AvgPool(const AvgPoolOptions<N>& options);
  explicit AvgPool(Extent<N> kernel, Extent<N> stride = {}, Extent<N> padding = 0)
      : AvgPool(AvgPoolOptions<N>{kernel, stride, padding}) {}
  Tensor forward(const Tensor& x);
  AvgPoolOptions<N> options;
};
using AvgPool1d = AvgPool<1>;
using AvgPool2d = AvgPool<2>;

template <int N>
class AdaptiveAvgPool : public Builtin<AdaptiveAvgPool<N>> {
 public:
  static constexpr const char* type_name =
      N == 1 ? "torch.nn.modules.pooling.AdaptiveAvgPool1d" : "torch.nn.modules.pooling.AdaptiveAvgPool2d";
  explicit AdaptiveAvgPool(Extent<N> output_size);
  Tensor forward(const Tensor& x);
  Extent<N> output_size;
};
using AdaptiveAvgPool1d = AdaptiveAvgPool<1>;
using AdaptiveAvgPool2d = AdaptiveAvgPool<2>;

class AdaptiveMaxPool2d : public Builtin<AdaptiveMaxPool2d> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.pooling.AdaptiveMaxPool2d";
  explicit AdaptiveMaxPool2d(Extent<2> output_size);
  Tensor forward(const Tensor& x) { return F::adaptive_max_pool2d(x, output_size.ints()); }
  Extent<2> output_size;
};

// ---- padding: {left, right}, {left, right, top, bottom} and so on, or one number for all sides ----

struct PadMode {
  const char *type_name, *mode;
};
inline constexpr PadMode zero_pad1d{"torch.nn.modules.padding.ZeroPad1d", "constant"};
inline constexpr PadMode zero_pad2d{"torch.nn.modules.padding.ZeroPad2d", "constant"};
inline constexpr PadMode zero_pad3d{"torch.nn.modules.padding.ZeroPad3d", "constant"};
inline constexpr PadMode reflection_pad1d{"torch.nn.modules.padding.ReflectionPad1d", "reflect"};
inline constexpr PadMode reflection_pad2d{"torch.nn.modules.padding.ReflectionPad2d", "reflect"};
inline constexpr PadMode reflection_pad3d{"torch.nn.modules.padding.ReflectionPad3d", "reflect"};
inline constexpr PadMode replication_pad1d{"torch.nn.modules.padding.ReplicationPad1d", "replicate"};
inline constexpr PadMode replication_pad2d{"torch.nn.modules.padding.ReplicationPad2d", "replicate"};
inline constexpr PadMode replication_pad3d{"torch.nn.modules.padding.ReplicationPad3d", "replicate"};
inline constexpr PadMode circular_pad1d{"torch.nn.modules.padding.CircularPad1d", "circular"};
inline constexpr PadMode circular_pad2d{"torch.nn.modules.padding.CircularPad2d", "circular"};
inline constexpr PadMode circular_pad3d{"torch.nn.modules.padding.CircularPad3d", "circular"};
template <const PadMode& Mode, int Sides>
class Pad : public Builtin<Pad<Mode, Sides>> {
 public:
  static constexpr const char* type_name = Mode.type_name;
  explicit Pad(Extent<Sides> padding) : padding(padding) { this->set_repr(padding.str()); }
  Tensor forward(const Tensor& x) {
    std::optional<double> fill;
    if (std::string_view(Mode.mode) == "constant") fill = 0;
    return F::pad(x, padding.span(), Mode.mode, fill);
  }
  Extent<Sides> padding;
};
using ZeroPad1d = Pad<zero_pad1d, 2>;
using ZeroPad2d = Pad<zero_pad2d, 4>;
using ZeroPad3d = Pad<zero_pad3d, 6>;
using ReflectionPad1d = Pad<reflection_pad1d, 2>;
using ReflectionPad2d = Pad<reflection_pad2d, 4>;
using ReflectionPad3d = Pad<reflection_pad3d, 6>;
using ReplicationPad1d = Pad<replication_pad1d, 2>;
using ReplicationPad2d = Pad<replication_pad2d, 4>;
using ReplicationPad3d = Pad<replication_pad3d, 6>;
using CircularPad1d = Pad<circular_pad1d, 2>;
using CircularPad2d = Pad<circular_pad2d, 4>;
using CircularPad3d = Pad<circular_pad3d, 6>;

template <int N>
class ConstantPad : public Builtin<ConstantPad<N>> {
 public:
  static constexpr const char* type_name = N == 1   ? "torch.nn.modules.padding.ConstantPad1d"
                                           : N == 2 ? "torch.nn.modules.padding.ConstantPad2d"
                                                    : "torch.nn.modules.padding.ConstantPad3d";
  ConstantPad(Extent<2 * N> padding, double value);
  Tensor forward(const Tensor& x) { return F::pad(x, padding.span(), "constant", value); }
  Extent<2 * N> padding;
  double value;
};
using ConstantPad1d = ConstantPad<1>;
using ConstantPad2d = ConstantPad<2>;
using ConstantPad3d = ConstantPad<3>;

// ---- dropout ----

struct DropoutKind {
  const char* type_name;
  Tensor (*apply)(const Tensor& x, double p, bool training, bool inplace, Loc loc);
};
template <const DropoutKind& Kind>
class DropoutOf : public Builtin<DropoutOf<Kind>> {
 public:
  static constexpr const char* type_name = Kind.type_name;
  explicit DropoutOf(double p = 0.5, bool inplace = false);
  Tensor forward(const Tensor& x) { return Kind.apply(x, p, this->training(), inplace, Loc{}); }
  double p;
  bool inplace;
};
// Of every element; of whole channels; and those that keep mean and variance of what SELU gives.
inline constexpr DropoutKind dropout_kind{"torch.nn.modules.dropout.Dropout", F::dropout};
inline constexpr DropoutKind dropout1d_kind{"torch.nn.modules.dropout.Dropout1d", F::dropout1d};
inline constexpr DropoutKind dropout2d_kind{"torch.nn.modules.dropout.Dropout2d", F::dropout2d};
inline constexpr DropoutKind dropout3d_kind{"torch.nn.modules.dropout.Dropout3d", F::dropout3d};
inline constexpr DropoutKind alpha_dropout_kind{"torch.nn.modules.dropout.AlphaDropout", F::alpha_dropout};
inline constexpr DropoutKind feature_alpha_dropout_kind{"torch.nn.modules.dropout.FeatureAlphaDropout",
                                                        F::feature_alpha_dropout};
using Dropout = DropoutOf<dropout_kind>;
using Dropout1d = DropoutOf<dropout1d_kind>;
using Dropout2d = DropoutOf<dropout2d_kind>;
using Dropout3d = DropoutOf<dropout3d_kind>;
using AlphaDropout = DropoutOf<alpha_dropout_kind>;
using FeatureAlphaDropout = DropoutOf<feature_alpha_dropout_kind>;

}  // namespace tern::nn
