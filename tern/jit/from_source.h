// Modules given as Python source: classes with __init__ and forward become a ScriptModule, as
// torch.jit.script makes one of an object.
//   auto net = jit::module_from_source(R"(
//     class Net(nn.Module):
//       def __init__(self, hidden: int):
//         super().__init__()
//         self.layers = nn.ModuleList([nn.Linear(hidden, hidden) for _ in range(3)])
//       def forward(self, x):
//         for layer in self.layers:
//           x = F.relu(layer(x))
//         return x
//   )", {.arguments = {16}});
#pragma once
#include "tern/jit/script_module.h"

namespace tern::jit {

struct SourceOptions {
  std::string class_name = {};              // by default the last module class of the source
  std::vector<tern::Value> arguments = {};  // of __init__
  Keywords keywords = {};
  std::string name = "<source>";  // in messages
};

// __init__ is evaluated: assignments, branches, loops, comprehensions, functions and methods of the source,
// the layers and containers of torch.nn, parameters, buffers, torch's operators, nn.init. Parameters start
// with the numbers they have in PyTorch after the same manual_seed. forward, exported methods and what they
// call are compiled. Throws with line, column and a caret for what is not supported.
ScriptModule module_from_source(std::string_view source, const SourceOptions& options = {});

}  // namespace tern::jit
