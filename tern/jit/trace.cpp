#include "tern/jit/trace.h"

#include <algorithm>
#include <unordered_map>

#include "tern/base/flat_map.h"
#include "tern/base/format.h"
#include "tern/capture/trace.h"
#include "tern/dispatch/ladder.h"
#include "tern/jit/trace_calls.h"
#include "tern/jit/trace_check.h"
#include "tern/tree/tree.h"

namespace tern::jit {
namespace {

constexpr const char* class_name = "__torch__.Traced";

// A module with all below it, as a trace sees it: what its class will be, and where everything stands.
struct Layout {
  Shared<ModuleTree> root;
  std::vector<capture::StateTensor> state;
  std::vector<capture::SubModule> modules;
  std::unordered_map<const Box*, std::string> objects;  // script modules
  FlatMap<Symbol, ModuleTree*> by_path;

  explicit Layout(const nn::Module* module) {
    if (!module) {
      root = new_shared<ModuleTree>();
      root->type_name = "TracedFunction";
      by_path[""] = root.get();
      return;
    }
    root = add(*module, "");
  }

  Shared<ModuleTree> add(const nn::Module& module, Symbol path) {
    auto& known = made_[module.id()];
    if (known) return known;
    if (module.has_backward_hooks())
      failf(ErrorKind::value, "Modules that have backward hooks assigned can't be compiled: {}",
            module.str());
    auto tree = new_shared<ModuleTree>();
    known = tree;
    tree->alias = capture::join_path(class_name, path.view()).str();
    tree->type_name = module.type_name();
    by_path[path] = tree.get();
    if (!module.object().is_none()) {
      tree->object = module.object();
      add_objects(ScriptModule(module.object()), path.str());
      for (const auto& [name, t] : module.named_parameters()) state.push_back({below(path, name), t});
      for (const auto& [name, t] : module.named_buffers()) state.push_back({below(path, name), t});
      return tree;
    }
    tree->training = module.training();
    tree->part_of_trace = !path.empty();
    tree->source = module.exported_methods();
    auto add_member = [&](const std::string& name, const Tensor& t, script::Role role) {
      tree->members.push_back({name, t, role});
      state.push_back({below(path, name), t});
    };
    for (const auto& [name, t] : module.named_parameters(false)) add_member(name, t, script::Role::parameter);
    for (const auto& [name, t] : module.named_buffers(false)) add_member(name, t, script::Role::buffer);
    for (const auto& [name, v] : module.attributes()) tree->members.push_back({name, v});
    modules.push_back({path, module.id()});
    for (const auto& [name, child] : module.named_children())
      tree->children.emplace_back(name, add(child, below(path, name)));
    return tree;
  }

 private:
  static Symbol below(Symbol path, std::string_view name) { return capture::join_path(path.view(), name); }
  void add_objects(const ScriptModule& module, const std::string& path) {
    for (const auto& [name, m] : module.named_modules())
      objects.emplace(m.object().box(), name.empty() ? path : path.empty() ? name : path + "." + name);
  }
  FlatMap<const void*, Shared<ModuleTree>> made_;
};

std::vector<std::string> names_for(const Traced& what, const TraceOptions& options) {
  if (!options.names.empty()) return options.names;
  if (!what.names.empty()) return what.names;
  std::vector<std::string> names;
  for (const auto& [name, v] : options.keyword_inputs) names.push_back(name);
  return names;
}

// Keyword inputs in the order of the arguments.
std::vector<tern::Value> positional(const Traced& what, const std::vector<tern::Value>& inputs,
                                    const TraceOptions& options) {
  if (options.keyword_inputs.empty()) return inputs;
  if (!inputs.empty()) fail(ErrorKind::value, "trace: give example inputs by position or by name, not both");
  std::vector<tern::Value> out;
  std::vector<std::string> names = names_for(what, options);
  for (const std::string& name : names)
    for (const auto& [key, v] : options.keyword_inputs)
      if (key == name) out.push_back(v);
  if (out.size() != options.keyword_inputs.size())
    for (const auto& [key, v] : options.keyword_inputs)
      if (std::find(names.begin(), names.end(), key) == names.end())
        failf(ErrorKind::type, "trace: there is no argument '{}' to trace with", key);
  return out;
}

capture::TraceOptions record_options(const Traced& what, const TraceOptions& options) {
  capture::TraceOptions o;
  o.is_module = true;
  o.class_name = class_name;
  o.strict = options.strict;
  o.force_outplace = options.force_outplace;
  o.names = names_for(what, options);
  return o;
}

// Records one method into the layout.
void record(Layout& layout, const std::string& name, const Traced& what,
            const std::vector<tern::Value>& inputs, const TraceOptions& options) {
  capture::TraceOptions o = record_options(what, options);
  o.modules = layout.modules;
  o.method_name = [&](Symbol path) {
    ModuleTree& tree = *layout.by_path.at(path);
    size_t n = 0;
    for (const ModuleTree::Method& m : tree.methods) n += m.name.starts_with("forward");
    // The place is taken at once: methods of one module are numbered as they are met.
    tree.methods.push_back({n ? fmt::format("forward{}", n) : "forward", nullptr});
    return tree.methods.back().name;
  };
  TraceCalls calls(layout.objects);
  for (auto& [known, f] : layout.root->functions) calls.functions.push_back({known, f.get(), nullptr});
  size_t had = calls.functions.size();
  capture::Trace recorded = capture::Tracer::trace(what.call, inputs, layout.state, o);
  layout.root->methods.push_back({name, std::move(recorded.graph)});
  for (capture::SubMethod& m : recorded.methods)
    for (ModuleTree::Method& method : layout.by_path.at(m.path)->methods)
      if (method.name == m.name) method.graph = std::move(m.graph);
  for (size_t i = had; i < calls.functions.size(); ++i) {
    TraceCalls::Called& c = calls.functions[i];
    layout.root->functions.emplace_back(
        c.name, Shared<script::Function>(c.unit, const_cast<script::Function*>(c.function)));
  }
}

}  // namespace

ScriptModule trace(const Traced& what, const std::vector<tern::Value>& inputs, const TraceOptions& options) {
  std::vector<tern::Value> given = positional(what, inputs, options);
  TracedMethod forward{"forward", what, given, options.check_inputs};
  TraceOptions o = options;
  o.names = names_for(what, options);
  o.keyword_inputs.clear();
  o.check_inputs.clear();
  static const nn::Module nothing;
  return trace_module(what.module ? *what.module : nothing, {std::move(forward)}, o);
}

ScriptModule trace_module(const nn::Module& module, const std::vector<TracedMethod>& methods,
                          const TraceOptions& options) {
  bool is_function = methods.size() == 1 && !methods[0].what.module;
  auto make = [&](auto&& inputs_of) {
    Layout layout(is_function ? nullptr : &module);
    for (const TracedMethod& m : methods) record(layout, m.name, m.what, inputs_of(m), options);
    return make_module(layout.root);
  };
  // The function is run on the user's own tensors, as PyTorch does; what it is checked with is from before.
  std::vector<std::vector<std::vector<tern::Value>>> checks;
  if (options.check_trace)
    for (const TracedMethod& m : methods) {
      checks.push_back(m.check_inputs);
      if (checks.back().empty()) checks.back().push_back(fresh_copy(m.inputs));
    }
  ScriptModule traced =
      make([](const TracedMethod& m) -> const std::vector<tern::Value>& { return m.inputs; });
  for (const TracedMethod& m : methods) traced.set_traced_inputs(m.name, m.inputs);
  for (size_t k = 0; k < checks.size(); ++k)
    for (const std::vector<tern::Value>& set : checks[k]) {
      TraceCheck check{traced, methods[k].name, methods[k].what, {}, options.check_tolerance};
      check.again = [&](const std::vector<tern::Value>& inputs) {
        return make([&](const TracedMethod& m) { return &m == &methods[k] ? inputs : fresh_copy(m.inputs); });
      };
      check.run(set);
    }
  return traced;
}

Shared<script::Function> trace_function(const Traced& what, const std::vector<tern::Value>& inputs,
                                        const TraceOptions& options) {
  if (what.module) fail(ErrorKind::type, "trace_function: a module is traced with trace()");
  ScriptModule module = trace(what, inputs, options);
  const script::Function& forward = *module.type().method("forward");
  Owned<ir::Graph> graph = forward.graph().clone();
  graph->top().remove_param(0);
  std::vector<script::Argument> args(forward.args().begin() + 1, forward.args().end());
  // The unit has what the function calls.
  Shared<script::Unit> unit = script::Object::of(module.object())->unit;
  auto f = new_owned<script::Function>(Symbol("__torch__." + options.name));
  f->set(std::move(graph), std::move(args), forward.returns());
  return {unit, &unit->add_function(std::move(f))};
}

TracedGraph trace_graph(const Traced& what, const std::vector<tern::Value>& inputs,
                        const TraceOptions& options) {
  Layout layout(what.module);
  TraceCalls calls(layout.objects);
  capture::Trace recorded =
      capture::Tracer::trace(what.call, inputs, layout.state, record_options(what, options));
  TracedGraph result;
  result.outputs = recorded.outputs;
  result.graph = std::move(recorded.graph);
  for (const tern::Value& v : inputs)
    for (const Tensor& t : tree::tensors(v)) result.inputs.push_back(t);
  // Every attribute that is read becomes an input; the chain of GetAttr and self go.
  ir::Graph& g = *result.graph;
  std::unordered_map<const ir::Value*, std::string> paths{{g.inputs()[0], ""}};
  std::vector<ir::Node*> reads;
  for (ir::Node& n : g.top()) {
    if (!n.is("prim::GetAttr")) continue;
    std::string owner = paths.at(&n.input(0).value()), name = n.attribute("name")->string();
    std::string path = owner.empty() ? name : owner + "." + name;
    paths[&n.output()] = path;
    reads.push_back(&n);
    for (const capture::StateTensor& s : layout.state)
      if (s.path.view() == path) {
        ir::Value& in = g.add_input(n.output().type(), name);
        n.output().replace_all_uses_with(in);
        result.inputs.push_back(s.tensor);
      }
  }
  for (size_t i = reads.size(); i-- > 0;) g.erase(*reads[i]);
  g.top().remove_param(0);
  return result;
}

Tensor named(std::string_view name, const Tensor& t) { return capture::named(name, t); }

void not_forward() {
  fail(ErrorKind::type,
       "trace doesn't support compiling individual module's functions.\nPlease use trace_module");
}

}  // namespace tern::jit
