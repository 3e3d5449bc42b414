// The parameters and buffers that layers start with: those of tern::nn, whose numbers are PyTorch's.
#include "tern/base/format.h"
#include "tern/jit/nn_classes.h"
#include "tern/nn/nn.h"

namespace tern::jit {
namespace {

// ---- arguments ----

template <int N>
nn::Extent<N> extent(const LayerArgs& a, std::string_view name) {
  const tern::Value& v = a[name];
  if (v.is_int()) return nn::Extent<N>(v.to_int());
  if ((v.is_tuple() || v.is_list()) && v.items().size() == N) {
    if constexpr (N == 1) return nn::Extent<1>{v.items()[0].to_int()};
    if constexpr (N == 2) return nn::Extent<2>{v.items()[0].to_int(), v.items()[1].to_int()};
    if constexpr (N == 3)
      return nn::Extent<3>{v.items()[0].to_int(), v.items()[1].to_int(), v.items()[2].to_int()};
  }
  failf(ErrorKind::type, "{} must be an int or {} of them but is {}", name, N, v.str());
}
std::vector<int64_t> shape(const LayerArgs& a, std::string_view name) {
  const tern::Value& v = a[name];
  if (v.is_int()) return {v.to_int()};
  std::vector<int64_t> out;
  if (!v.is_tuple() && !v.is_list()) failf(ErrorKind::type, "{} must be a shape but is {}", name, v.str());
  for (const tern::Value& i : v.items()) out.push_back(i.to_int());
  return out;
}
// dtype= and device=, of every layer that has parameters.
template <class O>
O placed(O options, const LayerArgs& a) {
  if (!a["dtype"].is_none()) options.dtype = static_cast<DType>(a.integer("dtype"));
  const tern::Value& device = a["device"];
  if (device.kind() == ValueKind::device) options.device = device.device();
  if (device.is_string()) options.device = device_named(device.string());
  return options;
}

// ---- weights ----

// What is absent is None, as in PyTorch.
void take(const nn::Module& layer, ModuleTree& tree, std::initializer_list<const char*> parameters,
          std::initializer_list<const char*> buffers = {}) {
  auto add = [&](const char* name, const nn::StateDict& there, script::Role role) {
    for (const auto& [key, t] : there)
      if (key == name && t.defined()) {
        tree.members.push_back({name, tern::Value(t), role});
        return;
      }
    tree.members.push_back({name, tern::Value(), script::Role::attribute, ir::Type::none()});
  };
  for (const char* name : parameters) add(name, layer.named_parameters(false), script::Role::parameter);
  for (const char* name : buffers) add(name, layer.named_buffers(false), script::Role::buffer);
}

void linear(const LayerArgs& a, ModuleTree& t) {
  nn::LinearOptions o{a.integer("in_features"), a.integer("out_features"), a.flag("bias")};
  take(nn::Linear(placed(o, a)), t, {"weight", "bias"});
}
template <template <int> class Layer, template <int> class Options, int N>
void conv(const LayerArgs& a, ModuleTree& t) {
  Options<N> o{.in = a.integer("in_channels"),
               .out = a.integer("out_channels"),
               .kernel = extent<N>(a, "kernel_size"),
               .groups = a.integer("groups"),
               .bias = a.flag("bias")};
  take(Layer<N>(placed(o, a)), t, {"weight", "bias"});
}
template <int N>
constexpr Weights* convolve = conv<nn::Conv, nn::ConvOptions, N>;
template <int N>
void conv_transpose(const LayerArgs& a, ModuleTree& t) {
  if (const tern::Value& mode = a["padding_mode"]; !mode.is_string() || mode.string() != "zeros")
    failf(ErrorKind::value, "Only \"zeros\" padding mode is supported for ConvTranspose{}d", N);
  conv<nn::ConvTranspose, nn::ConvTransposeOptions, N>(a, t);
}
void batch_norm(const LayerArgs& a, ModuleTree& t) {
  nn::BatchNormOptions o{.features = a.integer("num_features"),
                         .affine = a.flag("affine"),
                         .track_running_stats = a.flag("track_running_stats")};
  take(nn::BatchNorm2d(placed(o, a)), t, {"weight", "bias"},
       {"running_mean", "running_var", "num_batches_tracked"});
}
void layer_norm(const LayerArgs& a, ModuleTree& t) {
  nn::LayerNormOptions o{shape(a, "normalized_shape"), a.number("eps"), a.flag("elementwise_affine"),
                         a.flag("bias")};
  take(nn::LayerNorm(placed(o, a)), t, {"weight", "bias"});
}
void rms_norm(const LayerArgs& a, ModuleTree& t) {
  nn::RMSNormOptions o{.shape = shape(a, "normalized_shape"),
                       .elementwise_affine = a.flag("elementwise_affine")};
  take(nn::RMSNorm(placed(o, a)), t, {"weight"});
}
void group_norm(const LayerArgs& a, ModuleTree& t) {
  nn::GroupNormOptions o{a.integer("num_groups"), a.integer("num_channels"), a.number("eps"),
                         a.flag("affine")};
  take(nn::GroupNorm(placed(o, a)), t, {"weight", "bias"});
}
void embedding(const LayerArgs& a, ModuleTree& t) {
  nn::EmbeddingOptions o{.count = a.integer("num_embeddings"), .dim = a.integer("embedding_dim")};
  if (!a["padding_idx"].is_none()) o.padding_idx = a.integer("padding_idx");
  take(nn::Embedding(placed(o, a)), t, {"weight"});
}
void prelu(const LayerArgs& a, ModuleTree& t) {
  Dims sizes{SymInt(a.integer("num_parameters"))};
  Tensor w = make_tensor(sizes, kFloat);
  nn::init::constant_(w, a.number("init"));
  t.members.push_back({"weight", tern::Value(w.requires_grad_(true)), script::Role::parameter});
}
// No parameters: the samples, if they are given, are a buffer. What PyTorch asks of the sizes.
template <int N>
void fractional_pool(const LayerArgs& a, ModuleTree&) {
  bool sized = !a["output_size"].is_none(), scaled = !a["output_ratio"].is_none();
  if (!sized && !scaled)
    failf(ErrorKind::value,
          "FractionalMaxPool{}d requires specifying either an output size, or a pooling ratio", N);
  if (sized && scaled) fail(ErrorKind::value, "only one of output_size and output_ratio may be specified");
  const tern::Value& ratio = a["output_ratio"];
  auto outside = [](const tern::Value& v) {
    return !v.is_float() || v.to_double() <= 0 || v.to_double() >= 1;
  };
  bool wrong = false;
  if (ratio.is_tuple() || ratio.is_list()) {
    wrong = ratio.items().size() != N;
    for (const tern::Value& v : ratio.items()) wrong = wrong || outside(v);
  } else {
    wrong = scaled && outside(ratio);
  }
  if (wrong) failf(ErrorKind::value, "output_ratio must be between 0 and 1 (got {})", ratio.str());
  extent<N>(a, "kernel_size");
}
template <class Cell>
void cell(const LayerArgs& a, ModuleTree& t) {
  nn::RNNCellOptions o{a.integer("input_size"), a.integer("hidden_size"), a.flag("bias")};
  take(Cell(placed(o, a)), t, {"weight_ih", "weight_hh", "bias_ih", "bias_hh"});
}
template <class R>
void recurrent(const LayerArgs& a, ModuleTree& t) {
  nn::RNNOptions o{.input = a.integer("input_size"),
                   .hidden = a.integer("hidden_size"),
                   .num_layers = a.integer("num_layers"),
                   .bias = a.flag("bias"),
                   .batch_first = a.flag("batch_first"),
                   .dropout = a.number("dropout"),
                   .bidirectional = a.flag("bidirectional")};
  R layer(placed(o, a));
  for (auto& [name, p] : layer.named_parameters(false))
    t.members.push_back({name, tern::Value(p), script::Role::parameter});
}

constexpr std::pair<std::string_view, LayerWeights> table[] = {
    {"Linear", {linear}},
    {"Conv1d", {convolve<1>, Form::conv}},
    {"Conv2d", {convolve<2>, Form::conv}},
    {"Conv3d", {convolve<3>, Form::conv}},
    {"ConvTranspose1d", {conv_transpose<1>}},
    {"ConvTranspose2d", {conv_transpose<2>}},
    {"ConvTranspose3d", {conv_transpose<3>}},
    {"BatchNorm1d", {batch_norm, Form::batch_norm}},
    {"BatchNorm2d", {batch_norm, Form::batch_norm}},
    {"BatchNorm3d", {batch_norm, Form::batch_norm}},
    {"LayerNorm", {layer_norm}},
    {"RMSNorm", {rms_norm}},
    {"GroupNorm", {group_norm}},
    {"Embedding", {embedding}},
    {"PReLU", {prelu}},
    {"FractionalMaxPool2d", {fractional_pool<2>}},
    {"FractionalMaxPool3d", {fractional_pool<3>}},
    {"RNNCell", {cell<nn::RNNCell>, Form::cell}},
    {"GRUCell", {cell<nn::GRUCell>, Form::cell}},
    {"LSTMCell", {cell<nn::LSTMCell>, Form::cell}},
    {"RNN", {recurrent<nn::RNN>, Form::recurrent}},
    {"GRU", {recurrent<nn::GRU>, Form::recurrent}},
    {"LSTM", {recurrent<nn::LSTM>, Form::recurrent}},
};

}  // namespace

LayerWeights weights_of(std::string_view layer) {
  for (auto& [name, weights] : table)
    if (name == layer) return weights;
  return {};
}

}  // namespace tern::jit
