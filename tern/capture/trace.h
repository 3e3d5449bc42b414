// Tracing: runs a function on example inputs and writes down what it did, as the graph of a module's method.
// Modules that run inside it become methods of their own, and calls of them.
#pragma once
#include "tern/autograd/autograd.h"
#include "tern/base/function.h"
#include "tern/base/pointer.h"
#include "tern/capture/recorder.h"
#include "tern/ir/graph.h"
#include "tern/nn/module.h"

namespace tern::capture {

// A tensor that belongs to the module being traced: read by GetAttr along its path.
struct StateTensor {
  Symbol path;  // "fc1.weight"
  Tensor tensor;
};
// A module below the one being traced.
struct SubModule {
  Symbol path;     // "encoder.layers.0"
  const void* id;  // nn::Module::id()
};

struct TraceOptions {
  bool is_module = false;  // the graph's first input is %self
  std::string class_name = "__torch__.Module";
  bool strict = true;                   // dictionaries as outputs are refused, lists warned of
  bool force_outplace = false;          // in-place calls are recorded as their functional form
  std::vector<std::string> names = {};  // of the inputs; "x", "input_1" ... by default
  std::vector<SubModule> modules = {};  // whose calls stay calls
  // The name of the next method of a module, by its path.
  Function<std::string(Symbol path)> method_name = {};
};

// A method of a module below: its graph takes self first. Types of modules are `class_name.path`.
struct SubMethod {
  Symbol path;
  std::string name;
  Owned<ir::Graph> graph;
};

struct Trace {
  Owned<ir::Graph> graph;
  std::vector<SubMethod> methods;
  tern::Value outputs;  // what the function gave
};

using Traceable = Function<tern::Value(const std::vector<tern::Value>& inputs)>;

class Tracer final : public nn::CallObserver, public autograd::ApplyRecorder {
 public:
  // Throws RuntimeErrors with PyTorch's texts for inputs and outputs that cannot be traced.
  static Trace trace(const Traceable& f, const std::vector<tern::Value>& inputs,
                     Span<const StateTensor> state, const TraceOptions& options = {});
  static Tracer* current();  // of this thread, while the function runs and its calls are recorded

  Recorder& recorder() { return recorder_; }
  // A module of the traced module by its path, or a tensor of this type.
  ir::Value& attribute(Symbol path, const ir::Type* type = nullptr);
  // A value as one operand: containers become nodes.
  ir::In operand(const tern::Value& v);
  // Ties the tensors in a result to what the graph unpacks from a value.
  void bind(const tern::Value& result, ir::Value& at);

  void enter(const nn::Module& module) override;
  void leave(const nn::Module& module) override;
  std::vector<Tensor> apply(const autograd::CustomCall& call, Span<const Tensor> inputs) override;
  void detached(const Tensor& t) override;

 private:
  Tracer(Span<const StateTensor> state, const TraceOptions& options);
  Trace run(const Traceable& f, const std::vector<tern::Value>& inputs);
  tern::Value input(const tern::Value& v, ir::Value& at);
  template <class F>
  tern::Value unpack(const tern::Value& v, ir::Value& at, F&& each);
  ir::In output(const tern::Value& v, const tern::Value& whole);
  ir::In unknown(const Tensor& t);

  const TraceOptions& options_;
  Owned<ir::Graph> graph_;
  Recorder recorder_;
  ir::Value* self_ = nullptr;
  ir::Node* last_attribute_ = nullptr;
  FlatMap<const TensorBody*, Symbol> paths_;
  FlatMap<Symbol, ir::Value*> attributes_;
  FlatMap<const void*, Symbol> modules_;
  std::vector<ir::Node*> entered_;
  bool warned_of_list_ = false;
};

// The type of an input as the graph has it; tensors in lists and dictionaries lose what is known of them.
// Throws for what cannot be traced.
const ir::Type* input_type(const tern::Value& v);

// Names the value that a tensor stands for, while a trace is recorded: Tensor y = named("y", x + 1).
Tensor named(std::string_view name, const Tensor& t);

// "encoder.layers.0" is ("encoder.layers", "0"); what stands at the top is ("", name).
std::pair<Symbol, std::string_view> split_path(Symbol path);
Symbol join_path(std::string_view above, std::string_view name);

// Takes the bodies of module calls (prim::TracedModuleForward with the attribute "path") out of the graph
// into methods. `attributes` are the values that are read from self, by path.
std::vector<SubMethod> split_modules(ir::Graph& graph, const FlatMap<Symbol, ir::Value*>& attributes,
                                     const Function<std::string(Symbol path)>& method_name,
                                     const Function<ir::Value&(Symbol path)>& attribute,
                                     std::string_view class_name);

}  // namespace tern::capture
