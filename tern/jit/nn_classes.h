// The classes of torch.nn that a source may build: what their constructors take, the parameters they start
// with, and their forward in TorchScript. Internal to this room.
#pragma once
#include "tern/jit/script_module.h"

namespace tern::jit {

// The arguments of a constructor, by name, defaults filled in.
class LayerArgs {
 public:
  std::vector<std::pair<std::string, tern::Value>> values;
  const tern::Value& operator[](std::string_view name) const;
  int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  bool flag(std::string_view name) const;
};

// How forward is written: as the row has it, or by a function for those that need more.
enum class Form : uint8_t { expression, conv, batch_norm, cell, own };

using Weights = void(const LayerArgs& args, ModuleTree& tree);  // adds parameters and buffers
Weights batch_norm_weights, conv1d_weights, conv2d_weights, conv3d_weights, conv_transpose1d_weights,
    conv_transpose2d_weights, embedding_weights, group_norm_weights, gru_cell_weights, gru_weights,
    layer_norm_weights, linear_weights, lstm_cell_weights, lstm_weights, prelu_weights, rms_norm_weights,
    rnn_cell_weights, rnn_weights;

struct LayerClass {
  const char* name;       // "Linear"
  const char* module;     // "linear": of torch.nn.modules
  const char* signature;  // "in_features, out_features, bias=True"
  const char* inputs;     // of forward: "input, target"
  // What forward gives: {name} is an argument as it was given, {name:2} two numbers of it.
  const char* result;
  Weights* weights = nullptr;
  Form form = Form::expression;
};
Span<const LayerClass> layers();             // the table
Device device_named(std::string_view name);  // "cpu", "meta"; throws for others
const LayerClass* find_layer(std::string_view name);
std::string known_layers();

// The layer with its parameters initialised as PyTorch does. Throws for wrong arguments.
std::shared_ptr<ModuleTree> build_layer(const LayerClass& layer, LayerArgs args);

}  // namespace tern::jit
