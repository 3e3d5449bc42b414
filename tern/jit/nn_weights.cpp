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
template <int N>
void conv(const LayerArgs& a, ModuleTree& t) {
  nn::ConvOptions<N> o{.in = a.integer("in_channels"),
                       .out = a.integer("out_channels"),
                       .kernel = extent<N>(a, "kernel_size"),
                       .groups = a.integer("groups"),
                       .bias = a.flag("bias")};
  take(nn::Conv<N>(placed(o, a)), t, {"weight", "bias"});
}
template <int N>
void conv_transpose(const LayerArgs& a, ModuleTree& t) {
  nn::ConvTransposeOptions<N> o{.in = a.integer("in_channels"),
                                .out = a.integer("out_channels"),
                                .kernel = extent<N>(a, "kernel_size"),
                                .groups = a.integer("groups"),
                                .bias = a.flag("bias")};
  take(nn::ConvTranspose<N>(placed(o, a)), t, {"weight", "bias"});
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
  std::string names;
  for (auto& [name, p] : layer.named_parameters(false)) {
    t.members.push_back({name, tern::Value(p), script::Role::parameter});
    names += (names.empty() ? "self." : ", self.") + name;
  }
  constexpr bool lstm = std::is_same_v<R, nn::LSTM>;
  int64_t directions = o.bidirectional ? 2 : 1;
  const char* call = lstm ? "lstm" : std::is_same_v<R, nn::GRU> ? "gru" : "rnn_tanh";
  const char* hidden = lstm ? "Tuple[Tensor, Tensor]" : "Tensor";
  std::string zero = fmt::format("torch.zeros([{}, batch, {}], dtype=x.dtype, device=x.device)",
                                 o.num_layers * directions, o.hidden);
  std::string s = fmt::format(
      "def forward(self, input: Tensor, hx: Optional[{0}] = None) -> Tuple[Tensor, {0}]:\n", hidden);
  s += "  if input.dim() != 3:\n    raise RuntimeError(\"a recurrent layer takes (sequence, batch, "
       "features), or "
       "(batch, sequence, features) with batch_first\")\n  x = input\n";
  s += fmt::format("  batch = x.size({})\n", o.batch_first ? 0 : 1);
  s += lstm ? "  if hx is None:\n    zero = " + zero +
                  "\n    start = [zero, zero]\n  else:\n    start = [hx[0], hx[1]]\n"
            : "  if hx is None:\n    start = " + zero + "\n  else:\n    start = hx\n";
  std::string arguments = fmt::format("x, start, [{}], {}, {}, {}, self.training, {}, {}", names,
                                      o.bias ? "True" : "False", o.num_layers, tern::Value(o.dropout).str(),
                                      o.bidirectional ? "True" : "False", o.batch_first ? "True" : "False");
  s += lstm ? fmt::format("  y, h, c = torch.{}({})\n  return y, (h, c)\n", call, arguments)
            : fmt::format("  y, h = torch.{}({})\n  return y, h\n", call, arguments);
  t.source = s;
}

}  // namespace

// ---- one a class ----

void linear_weights(const LayerArgs& args, ModuleTree& tree) { linear(args, tree); }
void conv1d_weights(const LayerArgs& args, ModuleTree& tree) { conv<1>(args, tree); }
void conv2d_weights(const LayerArgs& args, ModuleTree& tree) { conv<2>(args, tree); }
void conv3d_weights(const LayerArgs& args, ModuleTree& tree) { conv<3>(args, tree); }
void conv_transpose1d_weights(const LayerArgs& args, ModuleTree& tree) { conv_transpose<1>(args, tree); }
void conv_transpose2d_weights(const LayerArgs& args, ModuleTree& tree) { conv_transpose<2>(args, tree); }
void batch_norm_weights(const LayerArgs& args, ModuleTree& tree) { batch_norm(args, tree); }
void layer_norm_weights(const LayerArgs& args, ModuleTree& tree) { layer_norm(args, tree); }
void rms_norm_weights(const LayerArgs& args, ModuleTree& tree) { rms_norm(args, tree); }
void group_norm_weights(const LayerArgs& args, ModuleTree& tree) { group_norm(args, tree); }
void embedding_weights(const LayerArgs& args, ModuleTree& tree) { embedding(args, tree); }
void prelu_weights(const LayerArgs& args, ModuleTree& tree) { prelu(args, tree); }
void rnn_cell_weights(const LayerArgs& args, ModuleTree& tree) { cell<nn::RNNCell>(args, tree); }
void gru_cell_weights(const LayerArgs& args, ModuleTree& tree) { cell<nn::GRUCell>(args, tree); }
void lstm_cell_weights(const LayerArgs& args, ModuleTree& tree) { cell<nn::LSTMCell>(args, tree); }
void lstm_weights(const LayerArgs& args, ModuleTree& tree) { recurrent<nn::LSTM>(args, tree); }
void gru_weights(const LayerArgs& args, ModuleTree& tree) { recurrent<nn::GRU>(args, tree); }
void rnn_weights(const LayerArgs& args, ModuleTree& tree) { recurrent<nn::RNN>(args, tree); }

}  // namespace tern::jit
