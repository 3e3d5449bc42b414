#include "tern/export/script.h"

#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/capture/retrace.h"
#include "tern/export/export.h"
#include "tern/export/numbers.h"
#include "tern/export/script_control.h"
#include "tern/export/script_values.h"
#include "tern/ir/alias.h"
#include "tern/ops.h"
#include "tern/script/signature.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

// Attribute reads on self, by their dotted path, and the nodes that make them.
struct Reads {
  std::vector<std::pair<ir::Node*, std::string>> nodes;

  explicit Reads(ir::Graph& graph) {
    std::unordered_map<const ir::Value*, std::string> paths{{graph.inputs()[0], ""}};
    collect(graph, graph.top(), paths);
  }

 private:
  void collect(ir::Graph& graph, ir::Block& block, std::unordered_map<const ir::Value*, std::string>& paths) {
    for (ir::Node& n : block) {
      if (n.is("prim::GetAttr") && n.input(0).is_value()) {
        if (auto it = paths.find(&n.input(0).value()); it != paths.end()) {
          std::string name = n.attribute("name")->string();
          std::string path = it->second.empty() ? name : it->second + "." + name;
          paths[&n.output()] = path;
          nodes.emplace_back(&n, path);
        }
      }
      if (n.is("prim::SetAttr") && is_written_in_place(n, paths)) {
        graph.erase(n);
        continue;
      }
      if (n.is("prim::SetAttr"))
        failf(ErrorKind::not_supported,
              "the module assigns its attribute '{}' while it runs: it cannot become a program",
              n.attribute("name")->string());
      for (ir::Block* b : n.blocks()) collect(graph, *b, paths);
    }
  }
  // `self.count += 1`: the tensor that is assigned is the one that was read, written to in place.
  static bool is_written_in_place(const ir::Node& set,
                                  const std::unordered_map<const ir::Value*, std::string>& paths) {
    auto self = set.input(0).is_value() ? paths.find(&set.input(0).value()) : paths.end();
    if (self == paths.end() || !set.input(1).is_value()) return false;
    const ir::Value* v = &set.input(1).value();
    while (v->node() && v->node()->op() && v->node()->kind().view().ends_with('_') &&
           v->node()->input(0).is_value())
      v = &v->node()->input(0).value();
    auto read = paths.find(v);
    std::string name = set.attribute("name")->string();
    return read != paths.end() && read->second == (self->second.empty() ? name : self->second + "." + name);
  }
};

// A task runs when it is made: what it runs takes its place, and who waits for it has the result.
void inline_tasks(ir::Graph& graph, ir::Block& block) {
  for (ir::Node& n : block) {
    for (ir::Block* b : n.blocks()) inline_tasks(graph, *b);
    if (n.is("prim::fork")) {
      ir::Block& task = *n.blocks()[0];
      std::vector<ir::Node*> nodes;
      for (ir::Node& inner : task) nodes.push_back(&inner);
      for (ir::Node* inner : nodes) inner->move_before(n);
      graph.replace_all_uses(n.output(), ir::In(task.returns()[0]));
    } else if (n.is("aten::wait")) {
      graph.replace_all_uses(n.output(), ir::In(n.input(0)));
    } else {
      continue;
    }
    graph.erase(n);
  }
}

// Whether a list or dict still is what it was made of when the graph returns.
bool stays_as_made(const ir::Graph& graph, const ir::Value& container) {
  const ir::AliasAnalysis alias(graph);
  auto is_changed_in = [&](auto& self, const ir::Block& block) -> bool {
    for (const ir::Node& n : block) {
      const ir::Value* first = n.inputs().size() && n.input(0).is_value() ? &n.input(0).value() : nullptr;
      if (first && (first->type()->is(ir::TypeKind::list) || first->type()->is(ir::TypeKind::dict)) &&
          alias.writes(n) && alias.may_alias(*first, container))
        return true;
      for (const ir::Block* b : n.blocks())
        if (self(self, *b)) return true;
    }
    return false;
  };
  return !is_changed_in(is_changed_in, graph.top());
}

// The results of a tuple, list or dict that is built for the return are the program's outputs. One that is
// changed after it was made stays one output: what it holds is known when the program runs, or is traced.
Value flatten_outputs(ir::Graph& graph, const ir::In& o, std::vector<ir::In>& leaves) {
  if (o.is_value() && o.value()->node()) {
    const ir::Node& n = *o.value()->node();
    bool tuple = n.is("prim::TupleConstruct"), list = n.is("prim::ListConstruct");
    if (list || n.is("prim::DictConstruct"))
      if (!stays_as_made(graph, *o.value())) {
        leaves.push_back(o);
        return {};
      }
    if (tuple || list) {
      std::vector<Value> items;
      for (const ir::Operand& item : n.inputs()) items.push_back(flatten_outputs(graph, item, leaves));
      return tuple ? Value::tuple(std::move(items)) : Value::list(std::move(items));
    }
    bool dict = n.is("prim::DictConstruct");
    for (size_t i = 0; dict && i < n.inputs().size(); i += 2)
      dict = n.input(i).is_constant() && n.input(i).constant().is_string();
    if (dict) {
      std::vector<std::pair<Value, Value>> entries;
      for (size_t i = 0; i + 1 < n.inputs().size(); i += 2)
        entries.emplace_back(n.input(i).constant(), flatten_outputs(graph, n.input(i + 1), leaves));
      return Value::dict(std::move(entries));
    }
  }
  // One that a branch or a loop gives has as many parts as its type says.
  if (o.is_value() && o.value()->type()->is(ir::TypeKind::tuple)) {
    ir::In inputs[] = {o};
    graph.insert_at_end(graph.top());
    ir::Node& parts = graph.make("prim::TupleUnpack", inputs, o.value()->type()->elements());
    std::vector<Value> items;
    for (ir::Value* part : parts.outputs()) items.push_back(flatten_outputs(graph, ir::In(*part), leaves));
    return Value::tuple(std::move(items));
  }
  leaves.push_back(o);
  return {};
}

// A buffer whose number is the scale or zero point of a quantization: float(self.scale).
bool is_number_of(const ir::Node& n) {
  return n.is("aten::Float") || n.is("aten::Int") || n.is("aten::FloatImplicit") || n.is("aten::IntImplicit");
}
bool feeds_quantization(const ir::Node& read) {
  for (const ir::Use& u : read.output().uses()) {
    if (!is_number_of(*u.user)) continue;
    for (const ir::Use& next : u.user->output().uses())
      if (next.user->is("aten::quantize_per_tensor") || next.user->kind().view().starts_with("quantized::"))
        return true;
  }
  return false;
}
void fold_number(ir::Graph& graph, ir::Node& read, const Tensor& t) {
  std::vector<ir::Node*> numbers;
  for (const ir::Use& u : read.output().uses())
    if (is_number_of(*u.user) && t.numel() == 1) numbers.push_back(u.user);
  for (ir::Node* n : numbers) {
    Scalar s = read_scalar(t.view({}));
    graph.replace_all_uses(
        n->output(),
        ir::In(n->kind().view().starts_with("aten::Float") ? Value(s.to_double()) : Value(s.to_int())));
    graph.erase(*n);
  }
}

}  // namespace

ExportedProgram from_script(const jit::ScriptModule& module, std::string_view method) {
  Owned<ir::Graph> graph = module.whole_graph(method);
  inline_tasks(*graph, graph->top());
  auto data = new_shared<ExportedProgram::Data>();
  std::unordered_map<std::string, bool> is_parameter;
  for (const auto& [name, t] : module.named_parameters()) is_parameter[name] = true;

  // State that is read becomes an input; the rest is known now.
  std::vector<std::pair<std::string, Tensor>> state;
  std::unordered_map<std::string, ir::Value*> inputs;
  Reads reads(*graph);
  for (auto& [node, path] : reads.nodes) {
    Value v = module.attr(path);
    if (v.is_tensor() && feeds_quantization(*node)) {
      fold_number(*graph, *node, v.tensor());
      if (!node->output().has_uses()) continue;
    }
    if (v.is_tensor()) {
      ir::Value*& in = inputs[path];
      if (!in) {
        in = &graph->add_input(ir::Type::tensor_like(v.tensor()), path);
        state.emplace_back(path, v.tensor());
      }
      node->output().replace_all_uses_with(*in);
    } else if (!v.is_object() || dynamic_cast<NativeObject*>(v.box())) {  // packed weights are constants
      graph->replace_all_uses(node->output(), ir::In(v));
    }
  }
  for (size_t i = reads.nodes.size(); i-- > 0;)
    if (!reads.nodes[i].first->output().has_uses()) graph->erase(*reads.nodes[i].first);
  if (graph->inputs()[0]->has_uses())
    fail(ErrorKind::not_supported,
         "the module is used as a value inside its forward: it cannot become a program");

  // State first, then the arguments.
  data->graph = new_owned<ir::Graph>();
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
    shape = flatten_outputs(g, g.outputs()[0], leaves);
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

namespace {

// Where a value that may be None or the length of a list turns out to depend on data, once more with flags
// and with tensors that grow in their place. What that cannot say either is refused in the words of the first
// attempt, which names what the script has.
ExportedProgram lower_script(ExportedProgram& program) {
  try {
    return lower(program, capture::is_composite, Dialect::aten, true);
  } catch (const Error& first) {
    ir::Graph& graph = *program.mutable_data().graph;
    bool split = split_optionals(graph), grown = lists_to_rows(graph);
    if (!split && !grown) throw;
    try {
      return lower(program, capture::is_composite, Dialect::aten, true);
    } catch (const Error&) {
      throw first;
    }
  }
}

// Arguments after those that have examples are what the script says when they are left out.
void leave_out_defaults(ExportedProgram::Data& data, const std::vector<script::Argument>& arguments,
                        size_t given) {
  size_t left = arguments.size() - 1;  // without self
  for (; left > given && arguments[left].default_value; --left) {
    size_t last = data.signature.inputs.size() - 1;
    data.graph->replace_all_uses(*data.graph->inputs()[last], ir::In(*arguments[left].default_value));
    data.graph->top().remove_param(last);
    data.signature.inputs.pop_back();
    data.arg_names.pop_back();
  }
  data.in_spec = tree::flatten(Value::tuple({Value::tuple(std::vector<Value>(left)), Value::dict()})).spec;
  data.module_calls[0].signature->in_spec = data.in_spec;
  data.module_calls[0].signature->arg_names = data.arg_names;
}

}  // namespace

ExportedProgram from_script(const jit::ScriptModule& module, const std::vector<Value>& examples,
                            std::string_view method, Shared<ShapeEnv> shapes) {
  ExportedProgram program = from_script(module, method);
  ExportedProgram::Data& data = program.mutable_data();
  leave_out_defaults(data, module.arguments(std::string(method)), examples.size());
  if (shapes) data.graph->shapes = std::move(shapes);
  if (!data.graph->shapes) data.graph->shapes = new_shared<ShapeEnv>();
  size_t next = 0;
  for (size_t i = 0; i < data.signature.inputs.size(); ++i) {
    InputSpec& spec = data.signature.inputs[i];
    if (spec.kind != InputKind::user_input) continue;
    if (next == examples.size())
      failf(ErrorKind::value, "{} takes more inputs than the {} examples given: '{}' is missing", method,
            examples.size(), spec.name);
    const Value& example = examples[next++];
    ir::Value& input = *data.graph->inputs()[i];
    if (example.is_list() || example.is_tuple() || example.is_dict() || example.is_object())
      failf(ErrorKind::not_supported,
            "the input '{}' is a {}: a program from a script takes tensors and numbers; write a script whose "
            "forward does",
            spec.name, example.kind_name());
    if (example.is_tensor())
      input.set_type(ir::Type::tensor_like(example.tensor()));
    else
      spec.constant = example;
  }
  if (next != examples.size())
    failf(ErrorKind::value, "{} takes {} inputs, but {} examples were given", method, next, examples.size());
  // Files keep examples with data: open sizes as large as their hints.
  std::vector<Value> kept = examples;
  for (Value& v : kept) {
    if (!v.is_tensor() || !v.tensor().is_fake()) continue;
    Dims sizes;
    for (SymInt n : v.tensor().sizes()) sizes.push_back(n.is_symbolic() ? SymInt(n.hint().value_or(2)) : n);
    v = zeros(sizes, v.tensor().dtype());
  }
  data.example_args = Value::tuple(kept);
  data.example_kwargs = Value::dict();
  ShapeEnv& env = *data.graph->shapes;
  size_t symbols = env.symbol_count();
  ExportedProgram lowered = lower_script(program);
  // A size that was to stay open and did not: the program would be wrong for others.
  for (uint32_t i = 0; i < symbols; ++i) {
    const ShapeEnv::SymbolInfo& s = env.symbol(i);
    SymInt value = env.simplify(*env.find_symbol(s.name));
    if (std::optional<int64_t> fixed = value.maybe_int())
      failf(ErrorKind::value,
            "the size '{}' cannot stay open: the script was made for {}. Give the number in its place",
            s.display_name.empty() ? s.name : s.display_name, *fixed);
  }
  lift_constants(lowered.mutable_data());
  verify(lowered);
  return lowered;
}

namespace {

// Constants become inputs of the program: after the state, in front of the user's inputs.
class Lifter {
 public:
  explicit Lifter(ExportedProgram::Data& data) : data_(data) {}

  void run(ir::Block& block) {
    for (ir::Node& n : block) {
      lift_inputs(n);
      for (ir::Block* b : n.blocks()) run(*b);
    }
    lift_inputs(block.return_node());
  }

 private:
  void lift_inputs(ir::Node& n) {
    for (size_t i = 0; i < n.inputs().size(); ++i)
      if (ir::In in(n.input(i)); holds_tensor(in)) n.set_input(i, lifted(in));
  }
  // Of a list too: [None, tensor] as indices.
  static std::vector<ir::In> parts(const ir::In& in) {
    if (in.is_list()) return in.items();
    std::vector<ir::In> all;
    if (in.is_constant() && in.constant().is_list())
      for (const tern::Value& item : in.constant().items()) all.emplace_back(item);
    return all;
  }
  static bool holds_tensor(const ir::In& in) {
    if (in.is_constant() && in.constant().is_tensor()) return true;
    std::vector<ir::In> all = parts(in);
    return std::any_of(all.begin(), all.end(), holds_tensor);
  }
  ir::In lifted(const ir::In& in) {
    if (in.is_value()) return in;
    if (in.is_constant() && !in.constant().is_list())
      return in.constant().is_tensor() ? ir::In(input_for(in.constant().tensor())) : in;
    std::vector<ir::In> all = parts(in);
    for (ir::In& item : all) item = lifted(item);
    return ir::In::list(std::move(all));
  }
  ir::Value& input_for(const Tensor& t) {
    if (auto it = done_.find(t.body()); it != done_.end()) return *it->second;
    size_t at = 0;
    while (at < data_.signature.inputs.size() && data_.signature.inputs[at].kind != InputKind::user_input)
      ++at;
    // Not one that the state has: an ONNX file may call its weights so.
    size_t number = data_.constants.size();
    auto taken = [&](const std::string& target) {
      auto is = [&](const auto& entry) { return entry.first == target; };
      return std::any_of(data_.state.begin(), data_.state.end(), is) ||
             std::any_of(data_.constants.begin(), data_.constants.end(), is);
    };
    while (taken(fmt::format("constant_{}", number))) ++number;
    std::string name = fmt::format("c_constant_{}", number);
    ir::Value& in = data_.graph->top().insert_param(at, ir::Type::tensor_like(t), name);
    done_[t.body()] = &in;
    data_.signature.inputs.insert(
        data_.signature.inputs.begin() + static_cast<std::ptrdiff_t>(at),
        {.kind = InputKind::constant_tensor, .name = in.name(), .target = in.name().substr(2)});
    data_.constants.emplace_back(in.name().substr(2), t);
    return in;
  }

  ExportedProgram::Data& data_;
  std::unordered_map<const TensorBody*, ir::Value*> done_;
};

}  // namespace

void lift_constants(ExportedProgram::Data& data) {
  make_tensors_of_numbers(*data.graph);
  Lifter(data).run(data.graph->top());
}

namespace {

// Whether a value is memory of one of these inputs: the input itself or a view of it.
bool shares_memory(const ir::In& in, const std::vector<ir::Value*>& targets) {
  const ir::Value* v = in.is_value() ? in.value() : nullptr;
  while (v) {
    if (std::find(targets.begin(), targets.end(), v) != targets.end()) return true;
    const ir::Node* n = v->node();
    bool view = n && n->op() && n->op()->is(op_view) && n->inputs().size() && n->input(0).is_value();
    v = view ? &n->input(0).value() : nullptr;
  }
  return false;
}

// New values of buffers and inputs are copied into them at the end; what is left are the user's outputs.
void write_back(ir::Graph& graph, const GraphSignature& signature) {
  std::vector<ir::In> results, values;
  std::vector<ir::Value*> targets;
  for (size_t i = 0; i < signature.outputs.size(); ++i) {
    const OutputSpec& out = signature.outputs[i];
    if (out.kind == OutputKind::user_output) {
      results.push_back(ir::In(graph.outputs()[i]));
      continue;
    }
    bool to_input = out.kind == OutputKind::user_input_mutation;
    if (!to_input && out.kind != OutputKind::buffer_mutation && out.kind != OutputKind::parameter_mutation)
      failf(ErrorKind::not_supported, "a program with an output of kind {} cannot be saved as TorchScript",
            name_of(out.kind));
    ir::Value* target = nullptr;
    for (size_t k = 0; k < signature.inputs.size() && !target; ++k) {
      const InputSpec& in = signature.inputs[k];
      bool user = in.kind == InputKind::user_input;
      if (to_input ? user && in.name == out.target : !user && in.target == out.target)
        target = graph.inputs()[k];
    }
    if (!target) failf(ErrorKind::value, "the program writes to '{}', which it does not have", out.target);
    targets.push_back(target);
    values.push_back(ir::In(graph.outputs()[i]));
  }
  if (targets.empty()) return;
  graph.insert_at_end(graph.top());
  // What still shows memory that is written now is copied first.
  for (std::vector<ir::In>* list : {&results, &values})
    for (ir::In& v : *list)
      if (shares_memory(v, targets)) {
        ir::In inputs[] = {v};
        v = ir::In(graph.call("aten::clone", inputs, v.value()->type()).output());
      }
  for (size_t i = 0; i < targets.size(); ++i) {
    ir::In inputs[] = {ir::In(*targets[i]), values[i]};
    graph.call("aten::copy_", inputs, targets[i]->type());
  }
  graph.top().return_node().remove_all_inputs();
  for (const ir::In& r : results) graph.add_output(r);
}

const ir::Type* type_of(const ir::In& in) {
  return in.is_value() ? script::plain(in.value()->type()) : script::plain(ir::Type::of(in.constant()));
}

// The outputs put together as the module gave them. TorchScript's lists and dicts hold one type: others
// become tuples.
ir::In build_result(ir::Graph& graph, const tree::Spec& spec, Span<const ir::In> leaves, size_t& next) {
  if (spec.is_leaf()) return leaves[next++];
  std::vector<ir::In> items;
  std::vector<const ir::Type*> types;
  bool same = true;
  for (const tree::Spec& child : spec.children()) {
    items.push_back(build_result(graph, child, leaves, next));
    types.push_back(type_of(items.back()));
    same &= types.back() == types.front();
  }
  const Value& keys = spec.context();
  bool dict = spec.type() == "builtins.dict" && keys.is_list() && keys.items().size() == items.size() &&
              same && !items.empty();
  for (size_t i = 0; dict && i < items.size(); ++i) dict = keys.items()[i].is_string();
  if (dict) {
    std::vector<ir::In> pairs;
    for (size_t i = 0; i < items.size(); ++i) {
      pairs.push_back(ir::In(keys.items()[i]));
      pairs.push_back(items[i]);
    }
    const ir::Type* type[] = {ir::Type::dict(ir::Type::string(), types[0])};
    return ir::In(graph.make("prim::DictConstruct", pairs, type).output());
  }
  if (spec.type() == "builtins.list" && same && !items.empty()) {
    const ir::Type* type[] = {ir::Type::list(types[0])};
    return ir::In(graph.make("prim::ListConstruct", items, type).output());
  }
  const ir::Type* type[] = {ir::Type::tuple(types)};
  return ir::In(graph.make("prim::TupleConstruct", items, type).output());
}

// TorchScript's names are identifiers: "f.<locals>.Net" becomes "f._locals_.Net".
std::string script_name_of(const std::string& type) {
  std::string name;
  for (char c : type) {
    bool letter = std::isalpha(static_cast<unsigned char>(c)) || c == '_';
    bool digit = std::isdigit(static_cast<unsigned char>(c));
    bool starts = name.empty() || name.back() == '.';
    if (c == '.' && starts) continue;
    if (digit && starts) name += '_';
    name += letter || digit || c == '.' ? c : '_';
  }
  while (!name.empty() && name.back() == '.') name.pop_back();
  return name.empty() ? "Program" : name;
}

}  // namespace

jit::ScriptModule to_script(const ExportedProgram& program) {
  const ExportedProgram::Data& data = program.data();
  std::vector<jit::StateInput> state;
  for (size_t i = 0; i < data.signature.inputs.size(); ++i) {
    const InputSpec& in = data.signature.inputs[i];
    if (in.kind == InputKind::user_input) continue;
    state.push_back({i, in.target, program.state_of(in),
                     in.kind == InputKind::parameter ? script::Role::parameter : script::Role::buffer});
  }
  Owned<ir::Graph> graph = data.graph->clone();
  write_control_as_script(*graph);
  write_back(*graph, data.signature);
  if (graph->outputs().size() != 1 || !data.out_spec.is_leaf()) {
    std::vector<ir::In> leaves;
    for (const ir::Operand& o : graph->outputs()) leaves.push_back(ir::In(o));
    graph->top().return_node().remove_all_inputs();
    graph->insert_at_end(graph->top());
    size_t next = 0;
    ir::In result;
    if (data.out_spec.leaf_count() == leaves.size() && !data.out_spec.is_leaf()) {
      result = build_result(*graph, data.out_spec, leaves, next);
    } else {
      tree::Spec flat("builtins.tuple", {}, std::vector<tree::Spec>(leaves.size()));
      result = build_result(*graph, flat, leaves, next);
    }
    graph->add_output(result);
  }
  std::string name = script_name_of(data.root_type);
  return jit::make_module(name, *graph, state);
}

}  // namespace tern
