#include "tern/jit/nn_classes.h"

#include "tern/base/format.h"
#include "tern/nn/nn.h"

namespace tern::jit {

const tern::Value& LayerArgs::operator[](std::string_view name) const {
  for (auto& [key, v] : values)
    if (key == name) return v;
  failf(ErrorKind::internal, "a layer has no argument '{}'", name);
}
int64_t LayerArgs::integer(std::string_view name) const {
  const tern::Value& v = (*this)[name];
  if (!v.is_int()) failf(ErrorKind::type, "{} must be an int but is {}", name, v.str());
  return v.to_int();
}
double LayerArgs::number(std::string_view name) const {
  const tern::Value& v = (*this)[name];
  if (!v.is_int() && !v.is_float()) failf(ErrorKind::type, "{} must be a number but is {}", name, v.str());
  return v.to_double();
}
bool LayerArgs::flag(std::string_view name) const {
  const tern::Value& v = (*this)[name];
  if (!v.is_bool()) failf(ErrorKind::type, "{} must be True or False but is {}", name, v.str());
  return v.to_bool();
}

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
  if (!a["padding_mode"].is_string() || a["padding_mode"].string() != "zeros")
    fail(ErrorKind::not_supported,
         "padding_mode is \"zeros\" only: put a padding layer before the convolution");
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

#define TERN_PLACE ", device=None, dtype=None"

constexpr const char* conv_args =
    "in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, "
    "padding_mode='zeros'" TERN_PLACE;
constexpr const char* transpose_args =
    "in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, "
    "dilation=1, padding_mode='zeros'" TERN_PLACE;
constexpr const char* norm_args =
    "num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True" TERN_PLACE;
constexpr const char* max_pool_args =
    "kernel_size, stride=None, padding=0, dilation=1, return_indices=False, ceil_mode=False";
constexpr const char* rnn_args =
    "input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, "
    "bidirectional=False" TERN_PLACE;
constexpr const char* cell_args = "input_size, hidden_size, bias=True" TERN_PLACE;
constexpr const char* loss_args = "reduction='mean'";

constexpr LayerClass table[] = {
    {"Linear", "linear", "in_features, out_features, bias=True" TERN_PLACE, "input",
     "F.linear(input, self.weight, self.bias)", linear},
    {"Identity", "linear", "", "input", "input"},
    {"Flatten", "flatten", "start_dim=1, end_dim=-1", "input", "input.flatten({start_dim}, {end_dim})"},
    {"Unflatten", "flatten", "dim, unflattened_size", "input", "input.unflatten({dim}, {unflattened_size})"},
    {"Conv1d", "conv", conv_args, "input",
     "F.conv1d(input, self.weight, self.bias, {stride:1}, {padding:1}, {dilation:1}, {groups})", conv<1>},
    {"Conv2d", "conv", conv_args, "input",
     "F.conv2d(input, self.weight, self.bias, {stride:2}, {padding:2}, {dilation:2}, {groups})", conv<2>},
    {"Conv3d", "conv", conv_args, "input",
     "F.conv3d(input, self.weight, self.bias, {stride:3}, {padding:3}, {dilation:3}, {groups})", conv<3>},
    {"ConvTranspose1d", "conv", transpose_args, "input",
     "F.conv_transpose1d(input, self.weight, self.bias, {stride:1}, {padding:1}, {output_padding:1}, "
     "{groups}, "
     "{dilation:1})",
     conv_transpose<1>},
    {"ConvTranspose2d", "conv", transpose_args, "input",
     "F.conv_transpose2d(input, self.weight, self.bias, {stride:2}, {padding:2}, {output_padding:2}, "
     "{groups}, "
     "{dilation:2})",
     conv_transpose<2>},
    {"BatchNorm1d", "batchnorm", norm_args, "input", "2, 3", batch_norm},
    {"BatchNorm2d", "batchnorm", norm_args, "input", "4, 4", batch_norm},
    {"BatchNorm3d", "batchnorm", norm_args, "input", "5, 5", batch_norm},
    {"LayerNorm", "normalization",
     "normalized_shape, eps=1e-05, elementwise_affine=True, bias=True" TERN_PLACE, "input",
     "F.layer_norm(input, {normalized_shape:list}, self.weight, self.bias, {eps})", layer_norm},
    {"RMSNorm", "normalization", "normalized_shape, eps=None, elementwise_affine=True" TERN_PLACE, "input",
     "torch.rms_norm(input, {normalized_shape:list}, self.weight, {eps})", rms_norm},
    {"GroupNorm", "normalization", "num_groups, num_channels, eps=1e-05, affine=True" TERN_PLACE, "input",
     "F.group_norm(input, {num_groups}, self.weight, self.bias, {eps})", group_norm},
    {"Embedding", "sparse",
     "num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, "
     "scale_grad_by_freq=False, "
     "sparse=False" TERN_PLACE,
     "input",
     "F.embedding(input, self.weight, {padding_idx}, {max_norm}, {norm_type}, {scale_grad_by_freq}, "
     "{sparse})",
     embedding},
    {"MaxPool1d", "pooling", max_pool_args, "input",
     "F.max_pool1d(input, {kernel_size:1}, {stride:1}, {padding:1}, {dilation:1}, {ceil_mode})"},
    {"MaxPool2d", "pooling", max_pool_args, "input",
     "F.max_pool2d(input, {kernel_size:2}, {stride:2}, {padding:2}, {dilation:2}, {ceil_mode})"},
    {"MaxPool3d", "pooling", max_pool_args, "input",
     "F.max_pool3d(input, {kernel_size:3}, {stride:3}, {padding:3}, {dilation:3}, {ceil_mode})"},
    {"AvgPool1d", "pooling", "kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True",
     "input",
     "F.avg_pool1d(input, {kernel_size:1}, {stride:1}, {padding:1}, {ceil_mode}, {count_include_pad})"},
    {"AvgPool2d", "pooling",
     "kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None",
     "input",
     "F.avg_pool2d(input, {kernel_size:2}, {stride:2}, {padding:2}, {ceil_mode}, {count_include_pad}, "
     "{divisor_override})"},
    {"AdaptiveAvgPool1d", "pooling", "output_size", "input", "F.adaptive_avg_pool1d(input, {output_size:1})"},
    {"AdaptiveAvgPool2d", "pooling", "output_size", "input", "F.adaptive_avg_pool2d(input, {output_size:2})"},
    {"AdaptiveMaxPool2d", "pooling", "output_size, return_indices=False", "input",
     "F.adaptive_max_pool2d(input, {output_size:2})"},
    {"ZeroPad2d", "padding", "padding", "input", "F.pad(input, {padding:4}, \"constant\", 0.0)"},
    {"ConstantPad2d", "padding", "padding, value", "input",
     "F.pad(input, {padding:4}, \"constant\", float({value}))"},
    {"ReflectionPad1d", "padding", "padding", "input", "F.pad(input, {padding:2}, \"reflect\")"},
    {"ReflectionPad2d", "padding", "padding", "input", "F.pad(input, {padding:4}, \"reflect\")"},
    {"ReplicationPad2d", "padding", "padding", "input", "F.pad(input, {padding:4}, \"replicate\")"},
    {"Dropout", "dropout", "p=0.5, inplace=False", "input",
     "F.dropout(input, {p}, self.training, {inplace})"},
    {"Dropout1d", "dropout", "p=0.5, inplace=False", "input",
     "F.dropout1d(input, {p}, self.training, {inplace})"},
    {"Dropout2d", "dropout", "p=0.5, inplace=False", "input",
     "F.dropout2d(input, {p}, self.training, {inplace})"},
    {"Dropout3d", "dropout", "p=0.5, inplace=False", "input",
     "F.dropout3d(input, {p}, self.training, {inplace})"},
    {"AlphaDropout", "dropout", "p=0.5, inplace=False", "input",
     "F.alpha_dropout(input, {p}, self.training)"},
    {"ReLU", "activation", "inplace=False", "input", "F.relu(input, {inplace})"},
    {"ReLU6", "activation", "inplace=False", "input", "F.relu6(input, {inplace})"},
    {"SiLU", "activation", "inplace=False", "input", "F.silu(input, {inplace})"},
    {"Mish", "activation", "inplace=False", "input", "F.mish(input, {inplace})"},
    {"SELU", "activation", "inplace=False", "input", "F.selu(input, {inplace})"},
    {"Hardswish", "activation", "inplace=False", "input", "F.hardswish(input, {inplace})"},
    {"Hardsigmoid", "activation", "inplace=False", "input", "F.hardsigmoid(input, {inplace})"},
    {"ELU", "activation", "alpha=1.0, inplace=False", "input", "F.elu(input, {alpha}, {inplace})"},
    {"CELU", "activation", "alpha=1.0, inplace=False", "input", "F.celu(input, {alpha}, {inplace})"},
    {"LeakyReLU", "activation", "negative_slope=0.01, inplace=False", "input",
     "F.leaky_relu(input, {negative_slope}, {inplace})"},
    {"Hardtanh", "activation", "min_val=-1.0, max_val=1.0, inplace=False", "input",
     "F.hardtanh(input, {min_val}, {max_val}, {inplace})"},
    {"GELU", "activation", "approximate='none'", "input", "F.gelu(input, approximate={approximate})"},
    {"Softplus", "activation", "beta=1.0, threshold=20.0", "input", "F.softplus(input, {beta}, {threshold})"},
    {"Sigmoid", "activation", "", "input", "torch.sigmoid(input)"},
    {"Tanh", "activation", "", "input", "torch.tanh(input)"},
    {"Softsign", "activation", "", "input", "F.softsign(input)"},
    {"Tanhshrink", "activation", "", "input", "F.tanhshrink(input)"},
    {"LogSigmoid", "activation", "", "input", "F.logsigmoid(input)"},
    {"Softmax", "activation", "dim=None", "input", "F.softmax(input, {dim})"},
    {"LogSoftmax", "activation", "dim=None", "input", "F.log_softmax(input, {dim})"},
    {"PReLU", "activation", "num_parameters=1, init=0.25" TERN_PLACE, "input", "F.prelu(input, self.weight)",
     prelu},
    {"PixelShuffle", "pixelshuffle", "upscale_factor", "input", "F.pixel_shuffle(input, {upscale_factor})"},
    {"Upsample", "upsampling", "size=None, scale_factor=None, mode='nearest', align_corners=None", "input",
     "F.interpolate(input, {size:some2}, {scale_factor:float}, {mode}, {align_corners})"},
    {"MSELoss", "loss", loss_args, "input, target", "F.mse_loss(input, target, reduction={reduction})"},
    {"L1Loss", "loss", loss_args, "input, target", "F.l1_loss(input, target, reduction={reduction})"},
    {"CrossEntropyLoss", "loss", "ignore_index=-100, reduction='mean', label_smoothing=0.0", "input, target",
     "F.cross_entropy(input, target, ignore_index={ignore_index}, reduction={reduction}, "
     "label_smoothing={label_smoothing})"},
    {"NLLLoss", "loss", "ignore_index=-100, reduction='mean'", "input, target",
     "F.nll_loss(input, target, ignore_index={ignore_index}, reduction={reduction})"},
    {"BCELoss", "loss", loss_args, "input, target",
     "F.binary_cross_entropy(input, target, reduction={reduction})"},
    {"BCEWithLogitsLoss", "loss", loss_args, "input, target",
     "F.binary_cross_entropy_with_logits(input, target, reduction={reduction})"},
    {"SmoothL1Loss", "loss", "reduction='mean', beta=1.0", "input, target",
     "F.smooth_l1_loss(input, target, reduction={reduction}, beta={beta})"},
    {"RNNCell", "rnn", cell_args, "input, hx: Optional[Tensor] = None",
     "torch.rnn_tanh_cell(input, {state}, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)",
     cell<nn::RNNCell>},
    {"GRUCell", "rnn", cell_args, "input, hx: Optional[Tensor] = None",
     "torch.gru_cell(input, {state}, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)",
     cell<nn::GRUCell>},
    {"LSTMCell", "rnn", cell_args, "input, hx: Optional[Tuple[Tensor, Tensor]] = None",
     "torch.lstm_cell(input, {state}, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)",
     cell<nn::LSTMCell>},
    {"LSTM", "rnn", rnn_args, "", "", recurrent<nn::LSTM>},
    {"GRU", "rnn", rnn_args, "", "", recurrent<nn::GRU>},
    {"RNN", "rnn", rnn_args, "", "", recurrent<nn::RNN>},
};

// ---- forward ----

std::string literal(const tern::Value& v) {
  if (v.is_none()) return "None";
  if (v.is_bool()) return v.to_bool() ? "True" : "False";
  if (v.is_string()) return "\"" + v.string() + "\"";
  if (v.is_float()) {
    std::string s = fmt::format("{:.17g}", v.to_double());
    return s.find_first_of(".en") == std::string::npos ? s + ".0" : s;
  }
  if (v.is_list() || v.is_tuple()) {
    std::string s;
    for (const tern::Value& i : v.items()) s += (s.empty() ? "" : ", ") + literal(i);
    return "[" + s + "]";
  }
  return v.str();
}
std::string as_list(const tern::Value& v, size_t count) {
  if (!v.is_int()) return literal(v);
  return literal(tern::Value::tuple(std::vector<tern::Value>(count, v)));
}
std::string expand(const char* text, const LayerArgs& a) {
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    size_t open = rest.find('{');
    out += rest.substr(0, open);
    if (open == std::string_view::npos) break;
    size_t close = rest.find('}', open);
    std::string_view name = rest.substr(open + 1, close - open - 1), form;
    if (size_t colon = name.find(':'); colon != std::string_view::npos) {
      form = name.substr(colon + 1);
      name = name.substr(0, colon);
    }
    // A pool's stride is its kernel unless it is given.
    const tern::Value& v = name == "stride" && a[name].is_none() ? a["kernel_size"] : a[name];
    if (form.empty())
      out += literal(v);
    else if (form == "float")
      out += v.is_int() ? literal(tern::Value(v.to_double())) : literal(v);
    else if (form == "list")
      out += as_list(v, 1);
    else if (form.starts_with("some"))
      out += v.is_none() ? "None" : as_list(v, static_cast<size_t>(form[4] - '0'));
    else
      out += as_list(v, static_cast<size_t>(form[0] - '0'));
    rest = rest.substr(close + 1);
  }
  return out;
}

std::string batch_norm_source(const LayerClass& layer, const LayerArgs& a) {
  int low = layer.result[0] - '0', high = layer.result[3] - '0';
  std::string dims = low == high ? fmt::format("{}D", low) : fmt::format("{}D or {}D", low, high);
  bool track = a.flag("track_running_stats");
  std::string s = "def forward(self, input):\n";
  s += fmt::format("  if input.dim() < {} or input.dim() > {}:\n", low, high);
  s += fmt::format("    raise ValueError(\"expected {} input (got \" + str(input.dim()) + \"D input)\")\n",
                   dims);
  if (track) s += "  if self.training:\n    self.num_batches_tracked.add_(1)\n";
  const tern::Value& momentum = a["momentum"];
  std::string m = momentum.is_none()
                      ? "(1.0 / float(int(self.num_batches_tracked)) if self.training else 0.0)"
                      : literal(tern::Value(momentum.to_double()));
  if (momentum.is_none() && !track) m = "0.0";
  s += fmt::format(
      "  return F.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, {}, {}, "
      "{})\n",
      track ? "self.training" : "True", m, literal(tern::Value(a.number("eps"))));
  return s;
}

std::string cell_source(const LayerClass& layer, const LayerArgs& a) {
  bool lstm = std::string_view(layer.name) == "LSTMCell";
  std::string s = fmt::format("def forward(self, {}):\n", layer.inputs);
  std::string zero = fmt::format("torch.zeros([input.size(0), {}], dtype=input.dtype, device=input.device)",
                                 a.integer("hidden_size"));
  s += lstm ? "  if hx is None:\n    zero = " + zero +
                  "\n    state = [zero, zero]\n  else:\n    state = [hx[0], hx[1]]\n"
            : "  if hx is None:\n    state = " + zero + "\n  else:\n    state = hx\n";
  std::string call = layer.result;
  call.replace(call.find("{state}"), 7, "state");
  return s + "  return " + call + "\n";
}

}  // namespace

const LayerClass* find_layer(std::string_view name) {
  for (const LayerClass& l : table)
    if (name == l.name) return &l;
  return nullptr;
}
std::string known_layers() {
  std::string all;
  for (const LayerClass& l : table) all += (all.empty() ? "" : ", ") + std::string(l.name);
  return all;
}

namespace {

// A parameter that is not there is written as None.
void name_absent(ModuleTree& tree) {
  for (const ModuleTree::Member& m : tree.members) {
    if (!m.value.is_none()) continue;
    std::string name = "self." + m.name;
    for (size_t at = tree.source.find(name); at != std::string::npos; at = tree.source.find(name, at + 4)) {
      char after = at + name.size() < tree.source.size() ? tree.source[at + name.size()] : ' ';
      if (after == '_' || isalnum(static_cast<unsigned char>(after))) continue;
      tree.source.replace(at, name.size(), "None");
    }
  }
}

}  // namespace

std::shared_ptr<ModuleTree> build_layer(const LayerClass& layer, LayerArgs args) {
  auto tree = std::make_shared<ModuleTree>();
  tree->type_name = fmt::format("torch.nn.modules.{}.{}", layer.module, layer.name);
  // What users read back: self.fc.in_features.
  for (auto& [name, v] : args.values)
    if ((v.is_int() && !v.is_bool()) || v.is_float() || v.is_string())
      if (name != "bias" && name != "dtype" && name != "device")
        tree->members.push_back({name, v, script::Role::constant});
  if (layer.weights) layer.weights(args, *tree);
  std::string_view module = layer.module, name = layer.name;
  if (!tree->source.empty()) return tree;
  if (module == "batchnorm")
    tree->source = batch_norm_source(layer, args);
  else if (name.ends_with("Cell"))
    tree->source = cell_source(layer, args);
  else
    tree->source =
        fmt::format("def forward(self, {}):\n  return {}\n", layer.inputs, expand(layer.result, args));
  name_absent(*tree);
  return tree;
}

}  // namespace tern::jit
