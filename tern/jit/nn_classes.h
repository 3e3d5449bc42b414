// The classes of torch.nn that a source may build: what their constructors take, the parameters they start
// with, and their forward in TorchScript. Internal to this room.
#pragma once
#include "tern/base/pointer.h"
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

// How forward is written: as the table has it, or by a function for those that need more.
enum class Form : uint8_t { expression, conv, batch_norm, cell, recurrent };

using Weights = void(const LayerArgs& args, ModuleTree& tree);  // adds parameters and buffers
struct LayerWeights {
  Weights* weights = nullptr;
  Form form = Form::expression;
};
LayerWeights weights_of(std::string_view layer);

struct LayerClass : LayerWeights {
  std::string name;       // "Linear"
  std::string module;     // "linear": of torch.nn.modules
  std::string signature;  // "in_features, out_features, bias=True"
  std::string inputs;     // of forward: "input, target"
  std::string result;     // what forward gives, with places for arguments: see the table
};
const std::vector<LayerClass>& layers();     // the table
Device device_named(std::string_view name);  // "cpu", "meta"; throws for others
const LayerClass* find_layer(std::string_view name);
std::string known_layers();

// The layer with its parameters initialised as PyTorch does. Throws for wrong arguments.
Shared<ModuleTree> build_layer(const LayerClass& layer, LayerArgs args);

}  // namespace tern::jit
