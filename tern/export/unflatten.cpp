#include "tern/export/unflatten.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/ir/interpreter.h"
#include "tern/ir/text.h"

namespace tern {

struct UnflattenedModule::Parts : ir::Host {
  std::vector<std::string> order;
  std::map<std::string, ModulePart, std::less<>> by_path;
  std::map<std::string, Tensor> state;  // by path from the root

  const ir::Program& program_of(const std::string& path) const {
    std::lock_guard lock(mutex);
    auto it = programs.find(path);
    if (it == programs.end()) it = programs.emplace(path, ir::Program(*by_path.at(path).graph)).first;
    return it->second;
  }

  std::vector<Value> run(const std::string& path, Span<const Value> args) const {
    const ModulePart& part = by_path.at(path);
    std::vector<Value> inputs;
    inputs.insert(inputs.end(), args.begin(), args.end());
    for (const std::string& target : part.targets) inputs.emplace_back(state.at(target));
    ir::RunOptions options;
    options.host = const_cast<Parts*>(this);
    return program_of(path).run(inputs, options);
  }

  // A call of a module inside another.
  Value call_function(const ir::Node& node, Span<const Value> args) override {
    std::vector<Value> results = run(node.attribute("name")->string(), args);
    return results.size() == 1 ? results[0] : Value::tuple(std::move(results));
  }

  mutable std::mutex mutex;
  mutable std::map<std::string, ir::Program> programs;
};

namespace {

struct Unflattener {
  const ExportedProgram& program;
  std::vector<std::string>& order;
  std::map<std::string, ModulePart, std::less<>>& by_path;
  std::unordered_map<const ir::Value*, size_t> state = {};  // inputs that are no user's
  std::unordered_map<std::string, int> calls = {};

  Unflattener(const ExportedProgram& p, std::vector<std::string>& o,
              std::map<std::string, ModulePart, std::less<>>& b)
      : program(p), order(o), by_path(b) {
    const auto& specs = p.signature().inputs;
    for (size_t i = 0; i < specs.size(); ++i)
      if (specs[i].kind != InputKind::user_input) state.emplace(p.graph().inputs()[i], i);
  }

  using Chain = std::vector<const ir::ModuleScope*>;  // from the root inwards
  static Chain chain_of(const ir::Node& n) {
    Chain chain;
    for (const ir::ModuleScope* s = n.scope(); s; s = s->parent) chain.push_back(s);
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

  void run() {
    std::vector<const ir::Node*> nodes;
    for (const ir::Node& n : program.graph().top()) nodes.push_back(&n);
    std::vector<const ir::Value*> inputs, outputs;
    for (size_t i = 0; i < program.graph().inputs().size(); ++i)
      if (!state.count(program.graph().inputs()[i])) inputs.push_back(program.graph().inputs()[i]);
    build("", "", nodes, 1, inputs, nullptr);
  }

  // The part of one call: its own nodes copied, each run of nodes of an inner module replaced by a call.
  void build(const std::string& path, const std::string& module, const std::vector<const ir::Node*>& nodes,
             size_t depth, const std::vector<const ir::Value*>& inputs,
             const std::vector<const ir::Value*>* outputs) {
    order.push_back(path);
    ModulePart part;
    part.path = path;
    part.graph = new_owned<ir::Graph>();
    ir::Graph& g = *part.graph;
    g.shapes = program.graph().shapes;
    ir::ValueMap map;
    for (const ir::Value* v : inputs) {
      ir::Value& p = g.add_input(v->type(), v->name());
      if (p.name() != v->name() && !g.find(v->name())) g.set_name(p, v->name());
      map.emplace(v, ir::In(p));
    }
    auto need = [&](const ir::Value& v) {
      auto it = state.find(&v);
      if (it == state.end() || map.count(&v)) return;
      const InputSpec& spec = program.signature().inputs[it->second];
      std::string local = spec.target;
      if (!module.empty() && local.starts_with(module + ".")) local = local.substr(module.size() + 1);
      std::string name = local;
      std::replace(name.begin(), name.end(), '.', '_');
      ir::Value& p = g.add_input(v.type(), name);
      part.attributes.emplace_back(p.name(), local);
      part.targets.push_back(spec.target);
      map.emplace(&v, ir::In(p));
    };
    for (size_t i = 0; i < nodes.size();) {
      Chain chain = chain_of(*nodes[i]);
      if (chain.size() <= depth) {
        for_each_use(*nodes[i], need);
        g.copy(*nodes[i], map);
        ++i;
        continue;
      }
      const ir::ModuleScope* child = chain[depth];
      size_t end = i + 1;
      while (end < nodes.size()) {
        Chain other = chain_of(*nodes[end]);
        if (other.size() <= depth || other[depth]->path != child->path) break;
        ++end;
      }
      call(g, map, part, child->path.str(),
           std::vector<const ir::Node*>(nodes.begin() + static_cast<std::ptrdiff_t>(i),
                                        nodes.begin() + static_cast<std::ptrdiff_t>(end)),
           depth + 1, module);
      i = end;
    }
    if (outputs) {
      for (const ir::Value* v : *outputs) g.add_output(map.find(v)->second);
    } else {
      for (const ir::Operand& o : program.graph().outputs()) {
        if (o.is_value()) {
          need(o.value());
          g.add_output(map.find(&o.value())->second);
        } else {
          g.add_output(o.constant());
        }
      }
    }
    by_path.emplace(path, std::move(part));
  }

  void call(ir::Graph& g, ir::ValueMap& map, ModulePart& part, const std::string& module,
            const std::vector<const ir::Node*>& nodes, size_t depth, const std::string& parent) {
    std::unordered_set<const ir::Node*> inside(nodes.begin(), nodes.end());
    std::vector<const ir::Value*> inputs, outputs;
    std::unordered_set<const ir::Value*> seen;
    for (const ir::Node* n : nodes)
      for_each_use(*n, [&](const ir::Value& v) {
        if ((v.node() && encloses(inside, *v.node())) || !seen.insert(&v).second) return;
        if (v.param_of() && v.param_of()->parent()) return;  // of a block inside
        auto it = state.find(&v);
        // State of this module is read as an attribute; what belongs to another one is handed in.
        if (it != state.end() && (program.signature().inputs[it->second].target.starts_with(module + ".") ||
                                  program.signature().inputs[it->second].kind == InputKind::constant_tensor))
          return;
        inputs.push_back(&v);
      });
    for (const ir::Node* n : nodes)
      for (const ir::Value* v : n->outputs())
        for (ir::Use& use : v->uses())
          if (!encloses(inside, *use.user)) {
            outputs.push_back(v);
            break;
          }
    int number = calls[module]++;
    std::string path = number ? fmt::format("{}@{}", module, number) : module;
    part.children.push_back(path);
    std::vector<ir::In> args;
    for (const ir::Value* v : inputs) {
      auto it = map.find(v);
      if (it == map.end()) it = map.emplace(v, attribute(g, part, parent, *v)).first;
      args.push_back(it->second);
    }
    std::vector<const ir::Type*> types;
    for (const ir::Value* v : outputs) types.push_back(v->type());
    std::string name = path;
    std::replace(name.begin(), name.end(), '.', '_');
    std::replace(name.begin(), name.end(), '@', '_');
    const ir::Type* result[] = {types.size() == 1 ? types[0] : ir::Type::tuple(types)};
    ir::Node& made = g.make("prim::CallFunction", args, result, name);
    made.set_attribute("name", Value(path));
    if (outputs.size() == 1) {
      map.emplace(outputs[0], ir::In(made.output()));
    } else if (!outputs.empty()) {
      ir::In in[] = {made.output()};
      ir::Node& unpack = g.make("prim::TupleUnpack", in, types, "getitem");
      for (size_t i = 0; i < outputs.size(); ++i) map.emplace(outputs[i], ir::In(unpack.output(i)));
    }
    build(path, module, nodes, depth, inputs, &outputs);
  }

  ir::In attribute(ir::Graph& g, ModulePart& part, const std::string& module, const ir::Value& v) {
    const InputSpec& spec = program.signature().inputs[state.at(&v)];
    std::string local = spec.target;
    if (!module.empty() && local.starts_with(module + ".")) local = local.substr(module.size() + 1);
    std::string name = local;
    std::replace(name.begin(), name.end(), '.', '_');
    ir::Value& p = g.add_input(v.type(), name);
    part.attributes.emplace_back(p.name(), local);
    part.targets.push_back(spec.target);
    return p;
  }

  static bool encloses(const std::unordered_set<const ir::Node*>& nodes, const ir::Node& n) {
    for (const ir::Node* at = &n; at; at = at->parent())
      if (nodes.count(at)) return true;
    return false;
  }

  template <class F>
  static void for_each_use(const ir::Operand& o, F&& f) {
    if (o.is_value()) f(o.value());
    if (o.is_list())
      for (const ir::Operand& item : o.list()) for_each_use(item, f);
  }
  template <class F>
  static void for_each_use(const ir::Node& n, F&& f) {
    for (const ir::Operand& o : n.inputs()) for_each_use(o, f);
    for (const ir::Block* b : n.blocks()) {
      for (const ir::Node& inner : *b) for_each_use(inner, f);
      for (const ir::Operand& o : b->returns()) for_each_use(o, f);
    }
  }
};

}  // namespace

UnflattenedModule::UnflattenedModule(const ExportedProgram& program, Shared<const Parts> parts)
    : ExportedModule(program,
                     [parts, &specs = program.signature().inputs](const std::vector<Value>& inputs) {
                       std::vector<Value> user;
                       for (size_t i = 0; i < inputs.size(); ++i)
                         if (specs[i].kind == InputKind::user_input) user.push_back(inputs[i]);
                       return parts->run("", user);
                     }),
      parts_(std::move(parts)) {}

UnflattenedModule unflatten(const ExportedProgram& program) {
  auto parts = new_shared<UnflattenedModule::Parts>();
  for (const InputSpec& s : program.signature().inputs)
    if (s.kind == InputKind::parameter || s.kind == InputKind::buffer || s.kind == InputKind::constant_tensor)
      parts->state.emplace(s.target, program.state_of(s));
  Unflattener(program, parts->order, parts->by_path).run();
  return UnflattenedModule(program, std::move(parts));
}

bool UnflattenedModule::has_part(std::string_view path) const { return parts_->by_path.count(path) != 0; }

const ModulePart& UnflattenedModule::part(std::string_view path) const {
  auto it = parts_->by_path.find(path);
  if (it != parts_->by_path.end()) return it->second;
  std::string all;
  for (const std::string& p : parts_->order) all += (all.empty() ? "'" : ", '") + p + "'";
  failf(ErrorKind::value, "unflatten: no module '{}' was called; there are {}", path, all);
}

std::string UnflattenedModule::graph_text(std::string_view path) const {
  const ModulePart& p = part(path);
  ir::FxOptions options;
  options.self_attributes = p.attributes;
  options.tuple_output = path.empty();
  return ir::fx_graph(*p.graph, options);
}

std::string UnflattenedModule::part_code(std::string_view path) const {
  const ModulePart& p = part(path);
  ir::FxOptions options;
  options.self_attributes = p.attributes;
  options.tuple_output = path.empty();
  return ir::fx_code(*p.graph, options);
}

std::vector<std::string> UnflattenedModule::paths() const { return parts_->order; }

}  // namespace tern
