// ExportedModule: an ExportedProgram that is called like the module it was made from.
#pragma once
#include "tern/base/pointer.h"
#include "tern/export/program.h"
#include "tern/nn/module.h"
#include "tern/tree/convert.h"

namespace tern {

using Keywords = std::vector<std::pair<std::string, Value>>;

// A Module: parameters and buffers under their old names, shared with the program. A call checks the inputs
// against what the program was made for, runs the graph, and writes what the program changes back to buffers
// and inputs; gradients flow.
class ExportedModule : public nn::Module {
 public:
  // What runs the graph: its inputs in, its outputs out. By default the interpreter.
  using Run = Function<std::vector<Value>(const std::vector<Value>& inputs)>;

  explicit ExportedModule(const ExportedProgram& program, Run run = {});

  // Throws PyTorch's messages: "Expected input at *args[0].shape[0] to be equal to 5, but got 6".
  Value call(const std::vector<Value>& args, const Keywords& kwargs = {}) const;
  template <class... A>
  Value operator()(const A&... args) const {
    return call({tree::to_value(args)...});
  }
  // Positional arguments and keywords in one list, in the order of the program's names: how it is exported
  // again.
  Value call_flat_args(const std::vector<Value>& args) const;
  const ExportedProgram& program() const;
  std::string code() const;  // the graph with state read from self, as PyTorch shows an unlifted module

 private:
  struct Runner;
  Shared<const Runner> runner_;
};

}  // namespace tern
