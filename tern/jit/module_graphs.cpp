// The graphs of a ScriptModule: as compiled, inlined, optimised, with the types of a run or of shape rules.
#include <algorithm>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/capture/shapes.h"
#include "tern/ir/pass.h"
#include "tern/ir/type_merge.h"
#include "tern/jit/hooks.h"
#include "tern/script/compile.h"
#include "tern/script/preoptimise.h"
#include "tern/script/run_graph.h"

namespace tern::jit {

using ir::Type;
using ir::TypeKind;
using script::ClassType;
using script::Object;

namespace {

// Calls are replaced until none is left that can be; a function that calls itself stays a call. As PyTorch
// shows it, what takes the place of a call was optimised before, and tasks and the ends of a `with` stay
// calls.
void inline_calls(ir::Graph& graph, ir::Block& block, script::Unit& unit,
                  std::vector<const script::Function*>& active, bool as_shown) {
  for (ir::Node& node : block) {
    if (as_shown && (node.is("prim::fork") || node.meta("with"))) continue;
    for (ir::Block* b : node.blocks()) inline_calls(graph, *b, unit, active, as_shown);
    script::Function* f = nullptr;
    if (node.is("prim::CallMethod") && node.input(0).is_value() &&
        node.input(0).value().type()->is(TypeKind::class_)) {
      ClassType* c = unit.find_class(node.input(0).value().type()->name());
      f = c ? c->method(Symbol(node.attribute("name")->string())) : nullptr;
    } else if (node.is("prim::CallFunction")) {
      f = unit.find_function(Symbol(node.attribute("name")->string()));
    }
    if (!f) continue;
    if (std::find(active.begin(), active.end(), f) != active.end()) continue;
    unit.compile(*f);
    active.push_back(f);
    Owned<ir::Graph> body = f->graph().clone();
    inline_calls(*body, body->top(), unit, active, as_shown);
    active.pop_back();
    if (as_shown) script::preoptimise(*body);
    ir::ValueMap map;
    for (size_t i = 0; i < body->inputs().size(); ++i) map.emplace(body->inputs()[i], ir::In(node.input(i)));
    std::vector<ir::In> results;
    {
      ir::InsertAt here(node);
      results = graph.inline_block(body->top(), map);
      if (node.num_outputs() == 1 && results.size() > 1) {
        const Type* types[] = {node.output().type()};
        results = {ir::In(graph.make("prim::TupleConstruct", results, types).output())};
      }
    }
    for (size_t i = 0; i < node.num_outputs() && i < results.size(); ++i)
      graph.replace_all_uses(node.output(i), results[i]);
    graph.erase(node);
  }
}

Owned<ir::Graph> inlined(const script::Function& f, script::Unit& unit, bool as_shown = false) {
  unit.compile(const_cast<script::Function&>(f));
  Owned<ir::Graph> g = f.graph().clone();
  std::vector<const script::Function*> active{&f};
  inline_calls(*g, g->top(), unit, active, as_shown);
  return g;
}
Owned<ir::Graph> optimised(const script::Function& f, script::Unit& unit) {
  Owned<ir::Graph> g = inlined(f, unit);
  // A tensor that is folded would be one for all runs: numbers and branches only.
  ir::PassOptions options;
  options.fold_memory = false;
  static constexpr std::string_view passes[] = {"lower_tuples", "fold_constants",     "peephole",      "cse",
                                                "dce",          "constants_to_nodes", "pool_constants"};
  ir::run_passes(*g, passes, options);
  return g;
}

// Writes down the type of every tensor that a run gives; of several runs what they agree on.
class Profile final : public ir::Observer {
 public:
  void before(const ir::Node&) override {}
  void after(const ir::Node& node, Span<const tern::Value> results) override {
    for (size_t i = 0; i < node.num_outputs() && i < results.size(); ++i) see(node.output(i), results[i]);
  }
  void see(const ir::Value& v, const tern::Value& given) {
    if (!v.type()->is_tensor() || !given.is_tensor() || !given.tensor().defined()) return;
    const Type* seen = Type::tensor_like(given.tensor());
    auto [it, fresh] = types_.try_emplace(&v, seen);
    if (!fresh) it->second = ir::merged(it->second, seen);
  }
  // What was not reached is not known.
  void annotate(ir::Block& block) const {
    for (ir::Value* v : block.params()) give(*v);
    for (ir::Node& n : block) {
      for (ir::Value* v : n.outputs()) give(*v);
      for (ir::Block* b : n.blocks()) annotate(*b);
      if (!n.is("prim::Loop")) continue;
      ir::Block& body = *n.blocks()[0];
      for (size_t i = 0; i < n.num_outputs(); ++i)
        if (body.param(i + 1).type()->is_tensor())
          body.param(i + 1).set_type(ir::merged(n.input(i + 2).type(), body.returns()[i + 1].type()));
    }
  }

 private:
  void give(ir::Value& v) const {
    if (!v.type()->is_tensor()) return;
    auto it = types_.find(&v);
    v.set_type(it == types_.end() ? Type::tensor() : it->second);
  }
  std::unordered_map<const ir::Value*, const Type*> types_;
};

}  // namespace

Owned<ir::Graph> graph_with_hooks(const script::Function& forward, script::Unit& unit) {
  unit.compile(const_cast<script::Function&>(forward));
  const ClassType& type = *forward.owner();
  auto graph = new_owned<ir::Graph>();
  graph->name = forward.graph().name;
  graph->shapes = forward.graph().shapes;
  std::vector<ir::In> given;
  for (ir::Value* v : forward.graph().inputs()) given.emplace_back(graph->add_input(v->type(), v->name()));
  const ir::In self = given[0];
  given.erase(given.begin());
  auto one = [&](Symbol kind, const std::vector<ir::In>& inputs, const Type* t) -> ir::Node& {
    const Type* types[] = {t};
    return graph->make(kind, inputs, types);
  };
  auto tuple = [&](const std::vector<ir::In>& items) {
    std::vector<const Type*> types;
    for (const ir::In& i : items) types.push_back(i.value()->type());
    return &one("prim::TupleConstruct", items, Type::tuple(types)).output();
  };
  auto call = [&](const script::Function& f, std::vector<ir::In> inputs) {
    inputs.insert(inputs.begin(), self);
    ir::Node& n = one("prim::CallMethod", inputs, f.returns());
    n.set_attribute("name", tern::Value(f.name()));
    return &n.output();
  };
  auto hook_named = [&](const std::string& name) -> const script::Function& {
    script::Function* f = type.method(Symbol(name));
    if (!f) failf("{} has no hook '{}'", type.name.view(), name);
    unit.compile(*f);
    return *f;
  };
  ir::Value* inputs = tuple(given);
  for (const std::string& name : type.pre_hooks) {
    ir::Value* changed = call(hook_named(name), {ir::In(*inputs)});
    if (changed->type()->is(TypeKind::none)) continue;
    inputs = changed->type()->is(TypeKind::tuple) ? changed : tuple({ir::In(*changed)});
  }
  ir::In packed[] = {ir::In(*inputs)};
  ir::Node& unpack = graph->make("prim::TupleUnpack", packed, inputs->type()->elements());
  std::vector<ir::In> arguments;
  for (ir::Value* v : unpack.outputs()) arguments.emplace_back(*v);
  ir::Value* result = call(forward, std::move(arguments));
  for (const std::string& name : type.hooks) {
    ir::Value* changed = call(hook_named(name), {ir::In(*inputs), ir::In(*result)});
    if (!changed->type()->is(TypeKind::none)) result = changed;
  }
  graph->add_output(ir::In(*result));
  return graph;
}

Owned<ir::Graph> graph_for(const script::Function& function, Span<const tern::Value> args,
                           const Keywords& keywords) {
  if (!function.unit) fail(ErrorKind::value, "graph_for: the function does not belong to a unit");
  Owned<ir::Graph> g = optimised(function, *function.unit);
  std::vector<tern::Value> inputs = function.bind(args, keywords);
  Profile profile;
  for (size_t i = 0; i < inputs.size(); ++i) profile.see(*g->inputs()[i], inputs[i]);
  script::run_graph(*g, inputs, *function.unit, &profile);
  profile.annotate(g->top());
  return g;
}

const ir::Graph& ScriptModule::graph(std::string_view name) const { return method(name).graph(); }
std::string ScriptModule::code(std::string_view name) const {
  return script::code_with_constants(method(name)).code;
}

Owned<ir::Graph> ScriptModule::inlined_graph(std::string_view name) const {
  return inlined(method(name), *self().unit, true);
}

Owned<ir::Graph> ScriptModule::whole_graph(std::string_view name) const {
  const script::Function& f = method(name);
  if (name != "forward" || !has_hooks(type())) return inlined(f, *self().unit);
  Owned<ir::Graph> g = graph_with_hooks(f, *self().unit);
  std::vector<const script::Function*> active;
  inline_calls(*g, g->top(), *self().unit, active, false);
  ir::run_passes(*g, {"lower_tuples"}, {});
  return g;
}

Owned<ir::Graph> ScriptModule::optimized_graph(std::string_view name) const {
  return optimised(method(name), *self().unit);
}

Owned<ir::Graph> ScriptModule::graph_for(Span<const tern::Value> args, const Keywords& keywords,
                                         std::string_view name) const {
  std::vector<tern::Value> all{object_};
  all.insert(all.end(), args.begin(), args.end());
  return jit::graph_for(method(name), all, keywords);
}

Owned<ir::Graph> ScriptModule::shaped_graph(const std::vector<tern::Value>& inputs, std::string_view name,
                                            Shared<ShapeEnv> shapes) const {
  Owned<ir::Graph> g = whole_graph(name);
  if (shapes) g->shapes = std::move(shapes);
  const std::vector<script::Argument>& args = arguments(name);
  if (inputs.size() + 1 > args.size())
    failf(ErrorKind::type, "shaped_graph: {} takes {} inputs but {} were given", signature(name),
          args.size() - 1, inputs.size());
  capture::ShapeOptions options;
  options.inputs = inputs;
  options.inputs.insert(options.inputs.begin(), object_);
  for (size_t i = options.inputs.size(); i < args.size(); ++i)
    options.inputs.push_back(args[i].default_value.value_or(tern::Value()));
  std::unordered_map<const ir::Value*, tern::Value> objects{{g->inputs()[0], object_}};
  options.known = [&](const ir::Node& n) -> const tern::Value* {
    auto it = n.input(0).is_value() ? objects.find(&n.input(0).value()) : objects.end();
    Object* o = it == objects.end() ? nullptr : Object::of(it->second);
    const tern::Value* v = o ? o->find(Symbol(n.attribute("name")->string())) : nullptr;
    if (v && v->is_object()) objects.emplace(&n.output(), *v);
    return v;
  };
  capture::propagate_shapes(*g, options);
  return g;
}

script::CodeWithConstants ScriptModule::code_with_constants(std::string_view name) const {
  return script::code_with_constants(method(name));
}

}  // namespace tern::jit
