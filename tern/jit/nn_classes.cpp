#include "tern/jit/nn_classes.h"

#include <algorithm>

#include "tern/base/format.h"

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
  if (!v.is_int() && !v.is_float()) return literal(v);
  return literal(tern::Value::tuple(std::vector<tern::Value>(count, v)));
}
std::string as_floats(const tern::Value& v) {
  if (v.is_int() && !v.is_bool()) return literal(tern::Value(v.to_double()));
  if (!v.is_list() && !v.is_tuple()) return literal(v);
  std::string s;
  for (const tern::Value& i : v.items()) s += (s.empty() ? "" : ", ") + as_floats(i);
  return "[" + s + "]";
}
// All arguments by name; what is None is left out.
std::string all_by_name(const LayerArgs& a) {
  std::string out;
  for (auto& [name, v] : a.values)
    if (!v.is_none())
      out +=
          fmt::format("{}{}={}", out.empty() ? "" : ", ", name, v.is_tensor() ? "self." + name : literal(v));
  return out;
}
std::string expand(std::string_view text, const LayerArgs& a) {
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
    rest = rest.substr(close + 1);
    if (name == "*") {
      out += all_by_name(a);
      continue;
    }
    // A pool's stride is its kernel unless it is given.
    const tern::Value& v = name == "stride" && a[name].is_none() ? a["kernel_size"] : a[name];
    if (v.is_tensor())
      out += "self." + std::string(name);
    else if (form.empty())
      out += literal(v);
    else if (form == "float")
      out += as_floats(v);
    else if (form == "list")
      out += as_list(v, 1);
    else if (form.starts_with("some"))
      out += v.is_none() ? "None" : as_list(v, static_cast<size_t>(form[4] - '0'));
    else
      out += as_list(v, static_cast<size_t>(form[0] - '0'));
  }
  return out;
}

std::string batch_norm_source(const LayerClass& layer, const LayerArgs& a) {
  int high = layer.result[0] - '0' + 2, low = high == 3 ? 2 : high;
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

// Padding that is not zeros is put around the input beforehand.
std::string conv_source(const LayerClass& layer, LayerArgs a) {
  const tern::Value& mode = a["padding_mode"];
  if (!mode.is_string()) failf(ErrorKind::type, "padding_mode must be a string but is {}", mode.str());
  std::string how = mode.string(), input = "input";
  if (how != "zeros" && how != "reflect" && how != "replicate" && how != "circular")
    failf(ErrorKind::value,
          "padding_mode must be one of {{'zeros', 'reflect', 'replicate', 'circular'}}, but got "
          "padding_mode='{}'",
          how);
  if (how != "zeros") {
    size_t dims = static_cast<size_t>(layer.name[4] - '0');
    const tern::Value padding = a["padding"];
    if (padding.is_string())
      fail(ErrorKind::not_supported, "padding in words goes with padding_mode 'zeros' only: give numbers");
    std::vector<tern::Value> around;
    for (size_t i = dims; i-- > 0;) {
      tern::Value one = padding.is_int() ? padding : padding.items().at(i);
      around.push_back(one);
      around.push_back(one);
    }
    input = fmt::format("F.pad(input, {}, \"{}\")", literal(tern::Value::tuple(around)), how);
    for (auto& [name, v] : a.values)
      if (name == "padding") v = tern::Value(0);
  }
  std::string call = expand(layer.result, a);
  size_t at = call.find("(input,");
  call.replace(at + 1, 5, input);
  return fmt::format("def forward(self, {}):\n  return {}\n", layer.inputs, call);
}

// What a recurrent layer starts from: zeros of that size unless it is given. LSTM has two.
std::string state_source(bool lstm, const std::string& size) {
  std::string zero = fmt::format("torch.zeros([{}], dtype=input.dtype, device=input.device)", size);
  if (!lstm) return "  if hx is None:\n    state = " + zero + "\n  else:\n    state = hx\n";
  return "  if hx is None:\n    zero = " + zero +
         "\n    state = [zero, zero]\n  else:\n    state = [hx[0], hx[1]]\n";
}
std::string cell_source(const LayerClass& layer, const LayerArgs& a) {
  return fmt::format(
      "def forward(self, {}):\n{}  return {}(input, state, self.weight_ih, self.weight_hh, self.bias_ih, "
      "self.bias_hh)\n",
      layer.inputs,
      state_source(layer.name == "LSTMCell", fmt::format("input.size(0), {}", a.integer("hidden_size"))),
      layer.result);
}

std::string recurrent_source(const LayerClass& layer, const LayerArgs& a, const ModuleTree& tree) {
  bool lstm = layer.name == "LSTM", batch_first = a.flag("batch_first");
  std::string weights;
  for (const ModuleTree::Member& m : tree.members)
    if (m.role == script::Role::parameter) weights += (weights.empty() ? "self." : ", self.") + m.name;
  int64_t rows = a.integer("num_layers") * (a.flag("bidirectional") ? 2 : 1);
  std::string s =
      fmt::format("def forward(self, input: Tensor, hx: Optional[{0}] = None) -> Tuple[Tensor, {0}]:\n",
                  lstm ? "Tuple[Tensor, Tensor]" : "Tensor");
  s += "  if input.dim() != 3:\n    raise RuntimeError(\"a recurrent layer takes (sequence, batch, "
       "features), or (batch, sequence, features) with batch_first\")\n";
  s += state_source(
      lstm, fmt::format("{}, input.size({}), {}", rows, batch_first ? 0 : 1, a.integer("hidden_size")));
  return s + fmt::format("  {} = {}(input, state, [{}], {}, {}, {}, self.training, {}, {})\n  return {}\n",
                         lstm ? "y, h, c" : "y, h", layer.result, weights, literal(a["bias"]),
                         literal(a["num_layers"]), literal(tern::Value(a.number("dropout"))),
                         literal(a["bidirectional"]), literal(a["batch_first"]), lstm ? "y, (h, c)" : "y, h");
}

}  // namespace

const LayerClass* find_layer(std::string_view name) {
  for (const LayerClass& l : layers())
    if (name == l.name) return &l;
  return nullptr;
}
std::string known_layers() {
  std::string all;
  for (const LayerClass& l : layers()) all += (all.empty() ? "" : ", ") + std::string(l.name);
  return all;
}

namespace {

// What losses took before there was `reduction`.
void settle_reduction(LayerArgs& args) {
  auto find = [&](std::string_view name) {
    return std::find_if(args.values.begin(), args.values.end(), [&](auto& v) { return v.first == name; });
  };
  auto average = find("size_average"), reduce = find("reduce");
  if (average == args.values.end() || (average->second.is_none() && reduce->second.is_none())) return;
  bool all = reduce->second.is_none() || args.flag("reduce");
  bool mean = average->second.is_none() || args.flag("size_average");
  find("reduction")->second = tern::Value(!all ? "none" : mean ? "mean" : "sum");
  average->second = reduce->second = tern::Value();
}

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

Shared<ModuleTree> build_layer(const LayerClass& layer, LayerArgs args) {
  settle_reduction(args);
  auto tree = new_shared<ModuleTree>();
  tree->type_name = fmt::format("torch.nn.modules.{}.{}", layer.module, layer.name);
  // What users read back: self.fc.in_features.
  for (auto& [name, v] : args.values)
    if ((v.is_int() && !v.is_bool()) || v.is_float() || v.is_string())
      if (name != "bias" && name != "dtype" && name != "device")
        tree->members.push_back({name, v, script::Role::constant});
  // Weights of classes, samples that are given.
  for (auto& [name, v] : args.values)
    if (v.is_tensor()) tree->members.push_back({name, v, script::Role::buffer});
  if (layer.weights) layer.weights(args, *tree);
  switch (layer.form) {
    case Form::recurrent:
      tree->source = recurrent_source(layer, args, *tree);
      break;
    case Form::batch_norm:
      tree->source = batch_norm_source(layer, args);
      break;
    case Form::cell:
      tree->source = cell_source(layer, args);
      break;
    case Form::conv:
      tree->source = conv_source(layer, args);
      break;
    case Form::expression:
      tree->source =
          fmt::format("def forward(self, {}):\n  return {}\n", layer.inputs, expand(layer.result, args));
  }
  name_absent(*tree);
  return tree;
}

}  // namespace tern::jit
