#include "tern/export/script.h"

#include <unordered_map>

#include "tern/base/format.h"

namespace tern {
namespace {

// Attribute reads on self, by their dotted path, and the nodes that make them.
struct Reads {
  std::vector<std::pair<ir::Node*, std::string>> nodes;

  explicit Reads(ir::Graph& graph) {
    std::unordered_map<const ir::Value*, std::string> paths{{graph.inputs()[0], ""}};
    collect(graph.top(), paths);
  }

 private:
  void collect(ir::Block& block, std::unordered_map<const ir::Value*, std::string>& paths) {
    for (ir::Node& n : block) {
      if (n.is("prim::GetAttr") && n.input(0).is_value()) {
        if (auto it = paths.find(&n.input(0).value()); it != paths.end()) {
          std::string name = n.attribute("name")->string();
          std::string path = it->second.empty() ? name : it->second + "." + name;
          paths[&n.output()] = path;
          nodes.emplace_back(&n, path);
        }
      }
      if (n.is("prim::SetAttr"))
        failf(ErrorKind::not_supported,
              "the module assigns its attribute '{}' while it runs: it cannot become a program",
              n.attribute("name")->string());
      for (ir::Block* b : n.blocks()) collect(*b, paths);
    }
  }
};

// The results of a tuple or list that is built for the return are the program's outputs.
Value flatten_outputs(const ir::Operand& o, std::vector<ir::In>& leaves) {
  if (o.is_value() && o.value().node()) {
    const ir::Node& n = *o.value().node();
    bool tuple = n.is("prim::TupleConstruct"), list = n.is("prim::ListConstruct");
    if (tuple || list) {
      std::vector<Value> items;
      for (const ir::Operand& item : n.inputs()) items.push_back(flatten_outputs(item, leaves));
      return tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
    }
  }
  leaves.push_back(ir::In(o));
  return {};
}

}  // namespace

ExportedProgram from_script(const jit::ScriptModule& module) {
  std::unique_ptr<ir::Graph> graph = module.inlined_graph("forward");
  auto data = std::make_shared<ExportedProgram::Data>();
  std::unordered_map<std::string, bool> is_parameter;
  for (const auto& [name, t] : module.named_parameters()) is_parameter[name] = true;

  // State that is read becomes an input; the rest is known now.
  std::vector<std::pair<std::string, Tensor>> state;
  std::unordered_map<std::string, ir::Value*> inputs;
  Reads reads(*graph);
  for (auto& [node, path] : reads.nodes) {
    Value v = module.attr(path);
    if (v.is_tensor()) {
      ir::Value*& in = inputs[path];
      if (!in) {
        in = &graph->add_input(ir::Type::tensor_like(v.tensor()), path);
        state.emplace_back(path, v.tensor());
      }
      node->output().replace_all_uses_with(*in);
    } else if (!v.is_object()) {
      graph->replace_all_uses(node->output(), ir::In(v));
    }
  }
  for (size_t i = reads.nodes.size(); i-- > 0;)
    if (!reads.nodes[i].first->output().has_uses()) graph->erase(*reads.nodes[i].first);
  if (graph->inputs()[0]->has_uses())
    fail(ErrorKind::not_supported,
         "the module is used as a value inside its forward: it cannot become a program");

  // State first, then the arguments.
  data->graph = std::make_unique<ir::Graph>();
  ir::Graph& g = *data->graph;
  g.shapes = graph->shapes;
  ir::ValueMap map;
  size_t arguments = graph->inputs().size() - 1 - state.size();
  for (size_t i = 0; i < state.size(); ++i) {
    const ir::Value* from = graph->inputs()[1 + arguments + i];
    const auto& [path, tensor] = state[i];
    bool parameter = is_parameter.count(path);
    std::string name = (parameter ? "p_" : "b_") + path;
    for (char& c : name)
      if (c == '.') c = '_';
    ir::Value& to = g.add_input(from->type(), name);
    map.emplace(from, ir::In(to));
    data->signature.inputs.push_back(
        {.kind = parameter ? InputKind::parameter : InputKind::buffer, .name = to.name(), .target = path});
    data->state.emplace_back(path, tensor);
  }
  for (size_t i = 0; i < arguments; ++i) {
    const ir::Value* from = graph->inputs()[1 + i];
    ir::Value& to = g.add_input(from->type(), from->name());
    map.emplace(from, ir::In(to));
    data->signature.inputs.push_back({.kind = InputKind::user_input, .name = to.name()});
    data->arg_names.push_back(to.name());
  }
  std::vector<ir::In> returned = g.inline_block(graph->top(), map);
  for (const ir::In& r : returned) g.add_output(r);
  std::vector<ir::In> leaves;
  Value shape;
  if (returned.size() == 1) {
    shape = flatten_outputs(g.outputs()[0], leaves);
    g.top().return_node().remove_all_inputs();
    for (const ir::In& leaf : leaves) g.add_output(leaf);
  }
  for (const ir::Operand& o : g.outputs())
    data->signature.outputs.push_back(
        {.kind = OutputKind::user_output, .name = o.is_value() ? o.value().name() : ""});
  data->in_spec =
      tree::flatten(Value::tuple({Value::tuple(std::vector<Value>(arguments)), Value::dict()})).spec;
  data->out_spec = tree::flatten(shape).spec;
  data->module_calls.push_back(
      {"", ModuleCall::Signature{{}, {}, data->in_spec, data->out_spec, data->arg_names}});
  data->dialect = Dialect::training;
  data->root_type = module.type_name();
  return ExportedProgram(data);
}

jit::ScriptModule to_script(const ExportedProgram& program) {
  const ExportedProgram::Data& data = program.data();
  for (const OutputSpec& o : data.signature.outputs)
    if (o.kind != OutputKind::user_output)
      failf(ErrorKind::not_supported,
            "a program that writes to '{}' cannot be saved as TorchScript yet; use .pt2", o.target);
  std::vector<jit::StateInput> state;
  for (size_t i = 0; i < data.signature.inputs.size(); ++i) {
    const InputSpec& in = data.signature.inputs[i];
    if (in.kind == InputKind::user_input) continue;
    state.push_back({i, in.target, program.state_of(in),
                     in.kind == InputKind::parameter ? script::Role::parameter : script::Role::buffer});
  }
  std::unique_ptr<ir::Graph> graph = data.graph->clone();
  // One value out: several outputs are a tuple, as the module gave them.
  if (graph->outputs().size() != 1 || !data.out_spec.is_leaf()) {
    std::vector<ir::In> items;
    std::vector<const ir::Type*> types;
    for (const ir::Operand& o : graph->outputs()) {
      items.push_back(ir::In(o));
      types.push_back(o.type());
    }
    graph->top().return_node().remove_all_inputs();
    graph->insert_at_end(graph->top());
    const ir::Type* type[] = {ir::Type::tuple(types)};
    graph->add_output(graph->make("prim::TupleConstruct", items, type).output());
  }
  std::string name = data.root_type.empty() ? "Program" : data.root_type;
  return jit::make_module(name, *graph, state);
}

}  // namespace tern
