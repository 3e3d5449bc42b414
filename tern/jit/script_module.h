// ScriptModule: a module of TorchScript, compiled from source, recorded by trace or read from a .pt file. A
// cheap handle to an object: copies share it.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tern/base/pointer.h"
#include "tern/ir/graph.h"
#include "tern/script/types.h"

namespace tern::jit {

using Keywords = std::vector<std::pair<Symbol, tern::Value>>;
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

class ScriptModule {
 public:
  ScriptModule() = default;
  explicit ScriptModule(tern::Value object);  // throws TypeError unless it is a module

  bool defined() const { return !object_.is_none(); }
  const tern::Value& object() const { return object_; }
  script::ClassType& type() const;
  std::string type_name() const;  // "__torch__.Net"

  // Running. Throws TypeError that names the argument, or what the graph raises.
  tern::Value call(std::string_view method, Span<const tern::Value> args,
                   const Keywords& keywords = {}) const;
  tern::Value forward(Span<const tern::Value> args, const Keywords& keywords = {}) const {
    return call("forward", args, keywords);
  }
  tern::Value operator()(Span<const tern::Value> args, const Keywords& keywords = {}) const {
    return forward(args, keywords);
  }
  bool has_method(std::string_view name) const;
  std::vector<std::string> methods() const;
  const std::vector<script::Argument>& arguments(std::string_view method) const;  // self first
  const ir::Type* returns(std::string_view method) const;
  std::string signature(std::string_view method) const;  // "forward(Tensor x, int n=2) -> Tensor"
  // The inputs it was traced with, as far as files keep them: tensors on the meta device. Empty when unknown.
  std::vector<tern::Value> traced_inputs(std::string_view method = "forward") const;
  void set_traced_inputs(std::string_view method, const std::vector<tern::Value>& inputs) const;
  // Operators that its methods call and Tern does not have; a call of one fails.
  std::vector<std::string> missing_operators() const;

  // What it holds. Dotted names reach into submodules; shared tensors and modules are listed once.
  NamedTensors named_parameters(bool recurse = true) const;
  NamedTensors named_buffers(bool recurse = true) const;
  std::vector<std::pair<std::string, ScriptModule>> named_children() const;
  std::vector<std::pair<std::string, ScriptModule>> named_modules() const;  // itself first, under ""
  std::vector<Tensor> parameters() const;
  bool has_attr(std::string_view path) const;
  tern::Value attr(std::string_view path) const;
  void set_attr(std::string_view path, tern::Value value) const;
  [[noreturn]] void del_attr(std::string_view path) const;  // always throws: a module's type is fixed
  ScriptModule submodule(std::string_view path) const;
  NamedTensors state_dict() const;  // parameters and buffers, shared ones under each of their names
  // Copies into the tensors that are there. Throws with all missing, unexpected and wrongly sized names.
  void load_state_dict(const NamedTensors& state, bool strict = true) const;

  const ScriptModule& to(DType dtype) const;  // floating-point parameters and buffers
  const ScriptModule& to(Device device) const;
  const ScriptModule& train(bool on = true) const;
  const ScriptModule& eval() const { return train(false); }
  bool is_training() const;

  const ir::Graph& graph(std::string_view method = "forward") const;
  // With calls replaced by what they call, optimised as PyTorch does it; tasks and `with` keep theirs.
  Owned<ir::Graph> inlined_graph(std::string_view method = "forward") const;
  // With every method and function call replaced by its body as it stands.
  Owned<ir::Graph> whole_graph(std::string_view method = "forward") const;
  // What is run: calls inlined, then dead code, duplicates of constants and no-ops removed.
  Owned<ir::Graph> optimized_graph(std::string_view method = "forward") const;
  // The optimised graph after a run on these arguments: every tensor has the type it had then.
  Owned<ir::Graph> graph_for(Span<const tern::Value> args, const Keywords& keywords = {},
                             std::string_view method = "forward") const;
  // The inlined graph with the types that the operators' shape rules give for these inputs, which may be fake
  // tensors with symbolic sizes (of `shapes`), or None where nothing is known. Nothing is run.
  Owned<ir::Graph> shaped_graph(const std::vector<tern::Value>& inputs, std::string_view method = "forward",
                                Shared<ShapeEnv> shapes = nullptr) const;
  std::string code(std::string_view method = "forward") const;
  script::CodeWithConstants code_with_constants(std::string_view method = "forward") const;

  void save(const std::string& path, const std::map<std::string, std::string>& extra_files = {}) const;
  std::vector<uint8_t> save_bytes(const std::map<std::string, std::string>& extra_files = {}) const;

  ScriptModule copy() const;      // new objects, the same tensors
  ScriptModule deepcopy() const;  // new tensors; what was shared stays shared

 private:
  script::Object& self() const;
  script::Function& method(std::string_view name) const;
  tern::Value call_hooked(const script::Function& forward, const std::vector<tern::Value>& given,
                          const Keywords& keywords) const;
  tern::Value object_;
};

// Of a function: see ScriptModule::graph_for.
Owned<ir::Graph> graph_for(const script::Function& function, Span<const tern::Value> args,
                           const Keywords& keywords = {});

// What a module is made from.
struct ModuleTree {
  struct Member {
    std::string name;
    tern::Value value;
    script::Role role = script::Role::attribute;
    const ir::Type* type = nullptr;  // by default the value's
  };
  struct Method {
    std::string name;
    Owned<ir::Graph> graph;  // inputs: self, then the arguments; GetAttr on self; any number of outputs
    std::vector<tern::Value> defaults = {};  // of the last arguments
  };
  std::string type_name;  // "Net" or "torch.nn.modules.linear.Linear"; "__torch__." is put in front, a taken
                          // name is mangled
  std::vector<Member> members;
  std::vector<std::pair<std::string, Shared<ModuleTree>>> children;  // the same tree twice is the same module
  std::vector<Method> methods;
  bool training = true;
  std::string source = {};                // further methods, in TorchScript's language
  std::string source_name = {};           // in messages; by default the class's
  std::vector<std::string> entries = {};  // the methods of `source` to compile; by default all
  std::vector<std::string> pre_hooks = {},
                           hooks = {};  // methods of `source` that run before and after forward
  std::string definitions = {};  // functions and classes that sources name, compiled when needed; the root's
                                 // are seen by all, others stand where their class is
  std::vector<std::pair<std::string, tern::Value>> globals =
      {};                   // of the root: numbers and strings they name
  tern::Value object = {};  // a module that is there already; then the rest is not looked at
  std::string alias = {};   // what the graphs call this class
  bool part_of_trace = false;
  // Of the root: functions that graphs and sources call, by name.
  std::vector<std::pair<std::string, Shared<script::Function>>> functions = {};
};
// Types of self, of submodules and of attributes in the graphs are filled in. Throws when a graph reads what
// is not there.
ScriptModule make_module(const Shared<ModuleTree>& tree);
ScriptModule make_module(ModuleTree tree);
// A child that is there already, for ModuleTree::children.
std::pair<std::string, Shared<ModuleTree>> child(std::string name, const ScriptModule& module);

// From a graph without self: `state` says which inputs are parameters and buffers, by input index, with
// dotted names. The other inputs stay arguments.
struct StateInput {
  size_t input;
  std::string path;
  Tensor tensor;
  script::Role role = script::Role::parameter;
};
ScriptModule make_module(std::string_view type_name, const ir::Graph& graph,
                         const std::vector<StateInput>& state, bool training = false);

}  // namespace tern::jit
