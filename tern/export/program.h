// ExportedProgram: a captured model as a graph, what its inputs and outputs are, and its state. The graph's
// inputs stand in the order parameters, buffers, constants, the user's inputs; its outputs are the new values
// of what the program writes to (functional dialects), then the user's outputs.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/base/function.h"
#include "tern/base/pointer.h"
#include "tern/ir/graph.h"
#include "tern/sym/guard.h"
#include "tern/sym/range.h"
#include "tern/tree/tree.h"

namespace tern {

class ExportedModule;

enum class InputKind : uint8_t { user_input, parameter, buffer, constant_tensor, custom_obj, token };
enum class OutputKind : uint8_t {
  user_output,
  loss_output,
  buffer_mutation,
  parameter_mutation,
  gradient_to_parameter,
  gradient_to_user_input,
  user_input_mutation,
  token,
};
std::string_view name_of(InputKind kind);   // "PARAMETER"
std::string_view name_of(OutputKind kind);  // "BUFFER_MUTATION"

struct InputSpec {
  InputKind kind = InputKind::user_input;
  std::string name;                    // of the graph's input at the same position
  std::string target = {};             // "fc.weight"; empty for a user's input
  bool persistent = true;              // of a buffer: part of the state dict
  std::optional<Value> constant = {};  // a user's input that is no tensor: the value the program was made for
};
struct OutputSpec {
  OutputKind kind = OutputKind::user_output;
  std::string name;         // of the graph's output; empty for a constant
  std::string target = {};  // the buffer, parameter or input that gets the value
};

struct GraphSignature {
  std::vector<InputSpec> inputs;
  std::vector<OutputSpec> outputs;
  std::vector<std::string> targets(InputKind kind) const;  // "fc.weight", ... ; of user inputs their names
  std::string str() const;                                 // as PyTorch prints it
};

enum class Dialect : uint8_t {
  training,  // the calls as the user made them, in-place ones too
  aten,      // functional; composites expanded
  core,      // core ATen only
};
std::string_view name_of(Dialect dialect);  // "TRAINING", "ATEN": as files say it

// A module that was called; the signature is known for the root and where a file says it.
struct ModuleCall {
  struct Signature {
    std::vector<std::string> inputs, outputs;  // names of graph values
    tree::Spec in_spec, out_spec;
    std::vector<std::string> arg_names;
  };
  std::string path;
  std::optional<Signature> signature = {};
};

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

// A cheap handle: copies share the graph and the state.
class ExportedProgram {
 public:
  // All but the graph: a pass that makes a new graph keeps it.
  struct Interface {
    GraphSignature signature;
    NamedTensors state;      // parameters and persistent buffers, shared tensors under each of their names
    NamedTensors constants;  // lifted constants and buffers that are not persistent
    tree::Spec in_spec, out_spec;        // of (args, kwargs), of the result
    std::vector<std::string> arg_names;  // of the positional inputs, then the keywords
    std::vector<std::pair<std::string, Range>> range_constraints;  // by symbol
    std::vector<std::pair<size_t, SymInt>> int_inputs;  // dynamic integers: graph input, its symbol
    std::vector<Guard> runtime_checks;                  // relations of sizes that ranges do not express
    std::vector<ModuleCall> module_calls;
    std::optional<Value> example_args, example_kwargs;  // a tuple, a dict
    Dialect dialect = Dialect::training;
    std::string root_type;  // the class that was exported
  };
  struct Data : Interface {
    Owned<ir::Graph> graph;
  };

  ExportedProgram() = default;  // no program
  explicit ExportedProgram(Shared<Data> data) : data_(std::move(data)) {}
  bool defined() const { return data_ != nullptr; }
  const Data& data() const { return *data_; }
  Data& mutable_data() const { return *data_; }  // for passes; every copy of the handle sees the change

  ir::Graph& graph() const { return *data_->graph; }
  const GraphSignature& signature() const { return data_->signature; }
  const NamedTensors& state_dict() const { return data_->state; }
  const NamedTensors& constants() const { return data_->constants; }
  const tree::Spec& in_spec() const { return data_->in_spec; }
  const tree::Spec& out_spec() const { return data_->out_spec; }
  Dialect dialect() const { return data_->dialect; }
  const std::vector<std::pair<std::string, Range>>& range_constraints() const {
    return data_->range_constraints;
  }
  // What a graph input that is no user's is bound to; throws if the program has no such tensor.
  const Tensor& state_of(const InputSpec& spec) const;
  // The symbol that an input stands for which is a dynamic integer; nullptr for others.
  const SymInt* symbol_of(size_t input) const;

  // A module that runs the program on the state it shares with it.
  ExportedModule module() const;
  // The same program in fewer operators. From the training dialect: functional, composites expanded; from
  // there: core ATen. `expand` says which operators to replace by their bodies instead.
  ExportedProgram run_decompositions(Function<bool(const Op&)> expand = {}) const;
  // Straight to a dialect: Dialect::core is what one call gives in PyTorch 2.13 (docs/decisions.md).
  ExportedProgram run_decompositions(Dialect to) const;

  std::string code() const;  // as torch.fx: "def forward(self, p_fc_weight, x): ..."
  std::string str() const;   // as PyTorch prints an ExportedProgram

 private:
  Shared<Data> data_;
};

// Throws Error(internal) where signature, graph and state do not fit together.
void verify(const ExportedProgram& program);

}  // namespace tern
