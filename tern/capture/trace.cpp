#include "tern/capture/trace.h"

#include "tern/base/format.h"
#include "tern/base/warning.h"
#include "tern/ir/interpreter.h"
#include "tern/ir/pass.h"
#include "tern/sym/shape_env.h"
#include "tern/tree/tree.h"

namespace tern::capture {
namespace {

thread_local Tracer* running = nullptr;

// What hears of the program while it runs: module calls and custom functions.
class Listening {
 public:
  explicit Listening(Tracer& tracer)
      : tracer_(std::exchange(running, &tracer)),
        observer_(nn::observe_calls(&tracer)),
        recorder_(autograd::record_applies(&tracer)),
        listener_(listen_to_trace(&tracer.recorder())) {}
  ~Listening() {
    running = tracer_;
    nn::observe_calls(observer_);
    autograd::record_applies(recorder_);
    listen_to_trace(listener_);
  }
  Listening(const Listening&) = delete;

 private:
  Tracer* tracer_;
  nn::CallObserver* observer_;
  autograd::ApplyRecorder* recorder_;
  TraceListener* listener_;
};

// Named tuples and structs are tuples in a graph, ordered dictionaries are dictionaries.
bool is_tuple_like(const tern::Value& v) {
  const tree::NodeBox* box = tree::node_box(v);
  return v.is_tuple() || (box && !box->fields.empty());
}
const std::vector<tern::Value>& items_of(const tern::Value& v) {
  const tree::NodeBox* box = tree::node_box(v);
  return box ? box->children : v.items();
}
tern::Value with_items(const tern::Value& like, std::vector<tern::Value> items) {
  const tree::NodeBox* box = tree::node_box(like);
  if (!box) return tern::Value::tuple(std::move(items));
  auto* copy = new tree::NodeBox;
  copy->type = box->type;
  copy->context = box->context;
  copy->fields = box->fields;
  copy->children = std::move(items);
  return tern::Value::object(copy);
}

const ir::Type* plain(const ir::Type* t) {
  std::vector<const ir::Type*> inside;
  for (const ir::Type* e : t->elements()) inside.push_back(plain(e));
  switch (t->kind()) {
    case ir::TypeKind::tensor:
      return ir::Type::tensor();
    case ir::TypeKind::list:
      return ir::Type::list(inside[0]);
    case ir::TypeKind::dict:
      return ir::Type::dict(inside[0], inside[1]);
    case ir::TypeKind::tuple:
      return t->fields().size() ? t : ir::Type::tuple(inside);
    default:
      return t;
  }
}

std::string say(const ir::Type* t) { return plain(t)->str(ir::TypeStyle::annotation); }

bool only_tensors(const ir::Type& t) {
  switch (t.kind()) {
    case ir::TypeKind::tensor:
      return true;
    case ir::TypeKind::dict:
      return only_tensors(*t.element(1));
    case ir::TypeKind::list:
    case ir::TypeKind::tuple: {
      for (const ir::Type* e : t.elements())
        if (!only_tensors(*e)) return false;
      return true;
    }
    default:
      return false;
  }
}

const ir::Type* infer(const tern::Value& v, const tern::Value& whole) {
  auto refuse = [&](const std::string& why) {
    failf("Tracer cannot infer type of {}\n:{}", whole.str(), why);
  };
  if (v.is_tensor()) return ir::Type::tensor_like(v.tensor());
  if (is_tuple_like(v)) {
    std::vector<const ir::Type*> types;
    for (const tern::Value& item : items_of(v)) types.push_back(infer(item, whole));
    return ir::Type::tuple(types);
  }
  if (v.is_list()) {
    if (v.items().empty()) refuse("List trace inputs must have elements");
    const ir::Type* element = nullptr;
    for (const tern::Value& item : v.items()) {
      const ir::Type* t = plain(infer(item, whole));
      if (element && t != element)
        refuse(
            fmt::format("List inputs to traced functions must have consistent element type. Found {} and {}",
                        say(element), say(t)));
      element = t;
    }
    return ir::Type::list(element);
  }
  if (v.is_dict()) {
    if (v.entries().empty()) refuse("Dictionary inputs must have entries");
    const ir::Type *key = nullptr, *element = nullptr;
    for (auto& [k, item] : v.entries()) {
      const ir::Type *kt = plain(ir::Type::of(k)), *t = plain(infer(item, whole));
      if (element && (t != element || kt != key))
        refuse(fmt::format("Dictionary inputs to traced functions must have consistent type. Found {} and {}",
                           say(ir::Type::dict(key, element)), say(ir::Type::dict(kt, t))));
      key = kt;
      element = t;
    }
    return ir::Type::dict(key, element);
  }
  return ir::Type::of(v);
}

void check_inputs(const std::vector<tern::Value>& inputs) {
  tern::Value whole = tern::Value::tuple(inputs);
  const ir::Type* type = infer(whole, whole);
  if (!only_tensors(*type))
    failf(
        "Type '{}' cannot be traced. Only Tensors and (possibly nested) Lists, Dicts, and Tuples of Tensors "
        "can be "
        "traced",
        say(type));
}

// The type of a part of a container: a tensor's own, otherwise what the container says of it.
const ir::Type* part_type(const tern::Value& part, const ir::Type* container, size_t at) {
  if (part.is_tensor()) return ir::Type::tensor_like(part.tensor());
  if (container->is(ir::TypeKind::list)) return container->element();
  if (at < container->elements().size()) return container->element(at);
  return ir::Type::of(part);
}

std::string container_text(std::string_view what) {
  return fmt::format(
      "Encountering a {} at the output of the tracer might cause the trace to be incorrect, this is only "
      "valid if the "
      "container structure does not change based on the module's inputs. Consider using a constant container "
      "instead "
      "(e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If you absolutely "
      "need this "
      "and know the side effects, pass strict=False to trace() to allow this behavior.",
      what);
}

constexpr const char* only_these =
    "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced functions";

}  // namespace

const ir::Type* input_type(const tern::Value& v) { return infer(v, v); }

Tracer* Tracer::current() {
  return thread_state.active & ~thread_state.excluded & rung_record ? running : nullptr;
}

Tensor named(std::string_view name, const Tensor& t) {
  if (Tracer* tracer = Tracer::current())
    if (ir::Value* v = tracer->recorder().find(t)) tracer->recorder().graph.rename(*v, name);
  return t;
}

Trace Tracer::trace(const Traceable& f, const std::vector<tern::Value>& inputs, Span<const StateTensor> state,
                    const TraceOptions& options) {
  check_inputs(inputs);
  return Tracer(state, options).run(f, inputs);
}

Tracer::Tracer(Span<const StateTensor> state, const TraceOptions& options)
    : options_(options), graph_(new_owned<ir::Graph>()), recorder_(*graph_, rung_record) {
  recorder_.shapes = graph_->shapes = new_shared<ShapeEnv>();
  graph_->shapes->answer_by_example();
  recorder_.sizes_as_nodes = true;
  recorder_.force_outplace = options.force_outplace;
  recorder_.unknown = [this](const Tensor& t) { return unknown(t); };
  if (options.is_module) self_ = &graph_->add_input(ir::Type::class_named(options.class_name), "self");
  for (const StateTensor& s : state) paths_.emplace(s.tensor.body(), s.path);
  for (const SubModule& m : options.modules) modules_.emplace(m.id, m.path);
}

Trace Tracer::run(const Traceable& f, const std::vector<tern::Value>& inputs) {
  std::vector<ir::Value*> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string name = i < options_.names.size() ? options_.names[i]
                       : inputs.size() == 1      ? "x"
                                                 : fmt::format("input_{}", i);
    values.push_back(&graph_->add_input(input_type(inputs[i]), name));
  }
  std::vector<tern::Value> given;
  for (size_t i = 0; i < inputs.size(); ++i) given.push_back(input(inputs[i], *values[i]));
  Trace result;
  {
    Mount mount(rung_record, recorder_, true);
    Listening listening(*this);
    result.outputs = f(given);
  }
  graph_->insert_at_end(graph_->top());
  if (result.outputs.is_none())
    fail(
        "The traced function didn't return any values! Side-effects are not captured in traces, so it would "
        "be a "
        "no-op.");
  graph_->add_output(output(result.outputs, result.outputs));
  if (options_.method_name) {
    result.methods = split_modules(
        *graph_, attributes_, options_.method_name,
        [this](Symbol path) -> ir::Value& { return attribute(path); }, options_.class_name);
    for (SubMethod& m : result.methods) {
      ir::lower_tuples(*m.graph);
      ir::dce(*m.graph);
    }
    ir::lower_tuples(*graph_);
    ir::dce(*graph_);
  }
  result.graph = std::move(graph_);
  return result;
}

// Takes a container apart in the graph; `each` gets the parts and says what stands for them.
template <class F>
tern::Value Tracer::unpack(const tern::Value& v, ir::Value& at, F&& each) {
  ir::In in[] = {at};
  if (is_tuple_like(v) || v.is_list()) {
    const std::vector<tern::Value>& parts = items_of(v);
    std::vector<const ir::Type*> types;
    for (size_t i = 0; i < parts.size(); ++i) types.push_back(part_type(parts[i], at.type(), i));
    ir::Node& node = graph_->make(v.is_list() ? "prim::ListUnpack" : "prim::TupleUnpack", in, types);
    node.set_origin(Recorder::here());
    std::vector<tern::Value> items;
    for (size_t i = 0; i < parts.size(); ++i) items.push_back(each(parts[i], node.output(i)));
    if (v.is_list()) return tern::Value::list(std::move(items), v.element_type());
    return with_items(v, std::move(items));
  }
  std::vector<std::pair<tern::Value, tern::Value>> entries;
  for (auto& [key, value] : v.entries()) {
    if (key.is_tensor()) {
      entries.emplace_back(key, value);
      continue;
    }
    ir::In get[] = {at, key};
    const ir::Type* types[] = {part_type(value, at.type(), 1)};
    ir::Node& node = graph_->make("aten::__getitem__", get, types);
    node.set_origin(Recorder::here());
    entries.emplace_back(key, each(value, node.output()));
  }
  return tern::Value::dict(std::move(entries));
}

// Binds the tensors of an input to what the graph reads them from. A tensor given twice gets a handle of its
// own.
tern::Value Tracer::input(const tern::Value& v, ir::Value& at) {
  if (v.is_tensor()) {
    Tensor t = v.tensor();
    if (recorder_.knows(t) || paths_.count(t.body())) {
      bool wants_grad = t.requires_grad();
      t = t.shallow_copy();
      if (wants_grad) t.requires_grad_();
    }
    recorder_.bind(t, at);
    return t;
  }
  if (!is_tuple_like(v) && !v.is_list() && !v.is_dict()) return v;
  return unpack(v, at, [&](const tern::Value& part, ir::Value& value) { return input(part, value); });
}

void Tracer::bind(const tern::Value& v, ir::Value& at) {
  if (v.is_tensor()) {
    recorder_.bind(v.tensor(), at);
  } else if (is_tuple_like(v) || v.is_list() || v.is_dict()) {
    unpack(v, at, [&](const tern::Value& part, ir::Value& value) {
      bind(part, value);
      return part;
    });
  }
}

ir::In Tracer::operand(const tern::Value& v) {
  auto node = [&](const char* kind, const std::vector<ir::In>& items, const ir::Type* type) {
    const ir::Type* types[] = {type};
    ir::Node& n = graph_->make(kind, items, types);
    n.set_origin(Recorder::here());
    return ir::In(n.output());
  };
  if (v.is_dict()) {
    std::vector<ir::In> items;
    for (auto& [key, value] : v.entries()) {
      items.push_back(operand(key));
      items.push_back(operand(value));
    }
    return node("prim::DictConstruct", items, plain(ir::Type::of(v)));
  }
  if (!v.is_list() && !is_tuple_like(v)) return recorder_.operand(v);
  std::vector<ir::In> items;
  for (const tern::Value& item : items_of(v)) items.push_back(operand(item));
  if (v.is_list()) return node("prim::ListConstruct", items, plain(ir::Type::of(v)));
  std::vector<const ir::Type*> types;
  for (size_t i = 0; i < items.size(); ++i)
    types.push_back(items[i].is_value() ? items[i].value()->type() : ir::Type::of(items_of(v)[i]));
  return node("prim::TupleConstruct", items, ir::Type::tuple(types));
}

ir::In Tracer::output(const tern::Value& v, const tern::Value& whole) {
  auto only_tensor = [&](const tern::Value& item) {
    if (!item.is_tensor()) fail(only_these);
    return recorder_.operand(item);
  };
  if (v.is_tensor()) return recorder_.operand(v);
  if (v.is_int() && v.sym().is_symbolic()) {
    // A size that the graph computes is a tensor for whoever calls it.
    ir::In in[] = {recorder_.operand(v)};
    const ir::Type* types[] = {
        ir::Type::tensor({.dtype = kLong, .sizes = Dims(), .strides = Dims(), .device = kCPU})};
    return graph_->make("prim::NumToTensor", in, types).output();
  }
  if (is_tuple_like(v)) {
    std::vector<ir::In> items;
    std::vector<const ir::Type*> types;
    for (const tern::Value& item : items_of(v)) {
      items.push_back(output(item, whole));
      types.push_back(items.back().is_value() ? items.back().value()->type() : ir::Type::of(item));
    }
    const ir::Type* type[] = {ir::Type::tuple(types)};
    return graph_->make("prim::TupleConstruct", items, type).output();
  }
  if (v.is_list()) {
    std::vector<ir::In> items;
    for (const tern::Value& item : v.items()) items.push_back(only_tensor(item));
    if (options_.strict && !warned_of_list_) {
      warned_of_list_ = true;
      warn("TracerWarning", container_text("list"));
    }
    const ir::Type* type[] = {ir::Type::list(ir::Type::tensor())};
    return graph_->make("prim::ListConstruct", items, type).output();
  }
  if (v.is_dict()) {
    if (options_.strict) fail(container_text("dict"));
    auto misfit = [&] {
      failf(
          "output 1 ({}) of traced region cannot be understood by the tracer, only outputs matching "
          "dict[Union[str, "
          "Tensor], Union[Tensor, Tuple[Tensor, ...]]] can be a dictionary output of a traced function",
          whole.str());
    };
    std::vector<ir::In> items;
    const ir::Type *key_type = ir::Type::string(), *value_type = ir::Type::tensor();
    for (auto& [key, value] : v.entries()) {
      if (!key.is_string() && !key.is_tensor()) misfit();
      if (is_tuple_like(value)) {
        for (const tern::Value& item : items_of(value))
          if (!item.is_tensor()) misfit();
      } else if (!value.is_tensor()) {
        misfit();
      }
      key_type = plain(ir::Type::of(key));
      items.push_back(recorder_.operand(key));
      items.push_back(output(value, whole));
      value_type = plain(items.back().is_value() ? items.back().value()->type() : ir::Type::of(value));
    }
    const ir::Type* type[] = {ir::Type::dict(key_type, value_type)};
    return graph_->make("prim::DictConstruct", items, type).output();
  }
  fail(only_these);
}

ir::In Tracer::unknown(const Tensor& t) {
  if (auto it = paths_.find(t.body()); it != paths_.end() && self_) {
    ir::Value& v = attribute(it->second, ir::Type::tensor_like(t));
    recorder_.bind(t, v);
    return v;
  }
  if (t.requires_grad())
    failf(
        "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, "
        "or "
        "detaching the gradient\nTensor:\n{}",
        t.str());
  // A copy: what the user does with the tensor later is not part of the trace.
  Exclude quiet(rung_record | rung_autograd | rung_functional | rung_core);
  return tern::Value(t.clone());
}

// GetAttr along the path, each module read once; at the start of the graph, so that every use is below.
ir::Value& Tracer::attribute(Symbol path, const ir::Type* type) {
  if (path.empty()) return *self_;
  if (auto it = attributes_.find(path); it != attributes_.end()) return *it->second;
  auto [above, name] = split_path(path);
  ir::Value& owner = attribute(above);
  const ir::Type* types[] = {type ? type
                                  : ir::Type::class_named(join_path(options_.class_name, path.view()))};
  ir::In in[] = {owner};
  ir::InsertAt at(last_attribute_ ? *last_attribute_->next() : *graph_->top().first());
  ir::Node& node = graph_->make("prim::GetAttr", in, types, name);
  node.set_attribute("name", tern::Value(name));
  last_attribute_ = &node;
  return *(attributes_[path] = &node.output());
}

void Tracer::enter(const nn::Module& module) {
  auto it = modules_.find(module.id());
  bool recorded = Tracer::current() == this && self_;
  if (!recorded || it == modules_.end() || it->second.empty()) {
    entered_.push_back(nullptr);
    return;
  }
  ir::Node& node = graph_->make("prim::TracedModuleForward", {}, {});
  node.set_attribute("path", tern::Value(it->second.view()));
  node.set_origin(Recorder::here());
  graph_->insert_at_end(node.add_block());
  entered_.push_back(&node);
}

void Tracer::leave(const nn::Module&) {
  ir::Node* node = entered_.back();
  entered_.pop_back();
  if (node) graph_->insert_at(*node->next());
}

namespace {

// A function with a backward of its own, in a graph.
struct CustomBox final : ir::CallBox {
  autograd::CustomCall function;
  explicit CustomBox(autograd::CustomCall f) : function(std::move(f)) {}
  tern::Value call(Span<const tern::Value> args) override {
    std::vector<Tensor> inputs;
    for (const tern::Value& v : args) inputs.push_back(v.tensor());
    std::vector<Tensor> out = function(inputs);
    if (out.size() == 1) return out[0];
    std::vector<tern::Value> values(out.begin(), out.end());
    return tern::Value::tuple(std::move(values));
  }
};

}  // namespace

std::vector<Tensor> Tracer::apply(const autograd::CustomCall& call, Span<const Tensor> inputs) {
  std::vector<ir::In> operands;
  for (const Tensor& t : inputs) operands.push_back(recorder_.operand(t));
  std::vector<Tensor> outputs;
  bool in_place = false;
  Exclude quiet(rung_record);
  outputs = call(inputs, &in_place);
  std::vector<const ir::Type*> types;
  for (const Tensor& t : outputs) types.push_back(ir::Type::tensor_like(t));
  const ir::Type* type[] = {types.size() == 1 ? types[0] : ir::Type::tuple(types)};
  ir::Node& node = graph_->make("prim::PythonOp", operands, type);
  node.set_attribute("name", tern::Value(call.name));
  node.set_attribute("inplace", tern::Value(in_place));
  // A graph without in-place changes cannot have one hidden in a function.
  if (!in_place || !options_.force_outplace)
    node.set_meta("function", tern::Value::object(new CustomBox(call)));
  node.set_origin(Recorder::here());
  if (types.size() == 1) {
    recorder_.bind(outputs[0], node.output());
  } else {
    std::vector<tern::Value> values(outputs.begin(), outputs.end());
    bind(tern::Value::tuple(std::move(values)), node.output());
  }
  return outputs;
}

void Tracer::detached(const Tensor& t) {
  ir::In in[] = {recorder_.operand(t)};
  Exclude quiet(rung_record);
  ir::Node& node = graph_->call("aten::detach", in, ir::Type::tensor_like(t.detach()));
  node.set_origin(Recorder::here());
  recorder_.bind(t, node.output());
}

}  // namespace tern::capture
