#include "tern/capture/trace.h"

#include "tern/base/format.h"
#include "tern/capture/recorder.h"
#include "tern/sym/shape_env.h"

namespace tern::capture {
namespace {

class Tracer {
 public:
  Tracer(Span<const StateTensor> state, const TraceOptions& options)
      : options_(options), graph_(std::make_unique<ir::Graph>()), recorder_(*graph_, rung_record) {
    recorder_.shapes = graph_->shapes = std::make_shared<ShapeEnv>();
    recorder_.sizes_as_nodes = true;
    recorder_.force_outplace = options.force_outplace;
    recorder_.unknown = [this](const Tensor& t) { return unknown(t); };
    if (options.is_module) self_ = &graph_->add_input(ir::Type::class_named(options.class_name), "self");
    for (const StateTensor& s : state) paths_.emplace(s.tensor.body(), s.path);
  }

  Trace run(const Traceable& f, const std::vector<tern::Value>& inputs) {
    std::vector<tern::Value> given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::string name = i < options_.names.size() ? options_.names[i]
                         : inputs.size() == 1      ? "x"
                                                   : fmt::format("input_{}", i);
      ir::Value& v = graph_->add_input(type_of(inputs[i]), name);
      given.push_back(enter(inputs[i], v));
    }
    Trace result;
    {
      Mount mount(rung_record, recorder_, true);
      result.outputs = f(given);
    }
    graph_->add_output(leave(result.outputs, true));
    result.graph = std::move(graph_);
    return result;
  }

 private:
  static const ir::Type* type_of(const tern::Value& v) {
    if (v.is_tensor()) return ir::Type::tensor_like(v.tensor());
    if (v.is_tuple() || v.is_list()) {
      std::vector<const ir::Type*> items;
      for (const tern::Value& item : v.items()) items.push_back(type_of(item));
      if (v.is_tuple()) return ir::Type::tuple(items);
      return ir::Type::list(items.empty() || v.items()[0].is_tensor() ? ir::Type::tensor() : items[0]);
    }
    if (v.is_dict()) {
      const auto& entries = v.entries();
      if (entries.empty()) return ir::Type::dict(ir::Type::string(), ir::Type::tensor());
      const ir::Type* element =
          entries[0].second.is_tensor() ? ir::Type::tensor() : type_of(entries[0].second);
      return ir::Type::dict(ir::Type::of(entries[0].first), element);
    }
    return ir::Type::of(v);
  }

  // Binds the tensors of an input to what the graph reads them from. A tensor given twice gets a handle of
  // its own.
  tern::Value enter(const tern::Value& v, ir::Value& at) {
    if (v.is_tensor()) {
      Tensor t = v.tensor();
      if (recorder_.knows(t)) t = t.requires_grad() ? t : t.shallow_copy();
      recorder_.bind(t, at);
      return t;
    }
    auto items_of = [&](const char* kind) {
      std::vector<const ir::Type*> types;
      for (const tern::Value& item : v.items()) types.push_back(type_of(item));
      ir::In in[] = {at};
      ir::Node& unpack = graph_->make(kind, in, types);
      std::vector<tern::Value> items;
      for (size_t i = 0; i < types.size(); ++i) items.push_back(enter(v.items()[i], unpack.output(i)));
      return items;
    };
    if (v.is_tuple()) return tern::Value::tuple(items_of("prim::TupleUnpack"));
    if (v.is_list()) return tern::Value::list(items_of("prim::ListUnpack"), v.element_type());
    if (v.is_dict()) {
      std::vector<std::pair<tern::Value, tern::Value>> entries;
      for (auto& [key, value] : v.entries()) {
        ir::In in[] = {at, key};
        const ir::Type* types[] = {type_of(value)};
        ir::Node& get = graph_->make("aten::__getitem__", in, types);
        entries.emplace_back(key, enter(value, get.output()));
      }
      return tern::Value::dict(std::move(entries));
    }
    return v;
  }

  ir::In leave(const tern::Value& v, bool top) {
    if (v.is_tuple() || v.is_list()) {
      std::vector<ir::In> items;
      std::vector<const ir::Type*> types;
      for (const tern::Value& item : v.items()) {
        items.push_back(leave(item, false));
        types.push_back(items.back().is_value() ? items.back().value()->type() : type_of(item));
      }
      if (v.is_tuple()) {
        const ir::Type* type[] = {ir::Type::tuple(types)};
        return graph_->make("prim::TupleConstruct", items, type).output();
      }
      const ir::Type* type[] = {type_of(v)};
      return graph_->make("prim::ListConstruct", items, type).output();
    }
    if (v.is_dict()) {
      if (options_.strict)
        fail(
            "Encountering a dict at the output of the tracer might cause the trace to be incorrect, this is "
            "only valid if "
            "the container structure does not change based on the module's inputs. Consider using a constant "
            "container "
            "instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If "
            "you absolutely "
            "need this and know the side effects, pass strict=False to trace() to allow this behavior.");
      std::vector<ir::In> items;
      for (auto& [key, value] : v.entries()) {
        items.push_back(key);
        items.push_back(leave(value, false));
      }
      const ir::Type* type[] = {type_of(v)};
      return graph_->make("prim::DictConstruct", items, type).output();
    }
    if (v.is_none() && top) fail("the traced function returned None: a trace needs tensors as outputs");
    if (v.is_string() || v.is_object())
      failf(
          "Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from traced "
          "functions, got {}",
          v.kind_name());
    return recorder_.operand(v);
  }

  ir::In unknown(const Tensor& t) {
    if (auto it = paths_.find(t.body()); it != paths_.end()) {
      ir::Value& v = attribute(it->second);
      v.set_type(ir::Type::tensor_like(t));
      recorder_.bind(t, v);
      return v;
    }
    if (t.requires_grad())
      failf(
          "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, "
          "or detaching "
          "the gradient\nTensor:\n{}",
          t.str());
    // A copy: what the user does with the tensor later is not part of the trace.
    Exclude quiet(rung_record | rung_autograd | rung_functional | rung_core);
    return tern::Value(t.clone());
  }

  // GetAttr along the path, each module read once; at the start of the graph, so that every use is below.
  ir::Value& attribute(const std::string& path) {
    auto [it, fresh] = attributes_.try_emplace(path, nullptr);
    if (!fresh) return *it->second;
    size_t dot = path.rfind('.');
    ir::Value& owner = dot == std::string::npos ? *self_ : attribute(path.substr(0, dot));
    std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
    const ir::Type* types[] = {ir::Type::class_named(options_.class_name + "." + path)};
    ir::In in[] = {owner};
    ir::InsertAt at(last_attribute_ ? *last_attribute_->next() : *graph_->top().first());
    ir::Node& node = graph_->make("prim::GetAttr", in, types, name);
    node.set_attribute("name", tern::Value(name));
    last_attribute_ = &node;
    return *(attributes_[path] = &node.output());
  }

  const TraceOptions& options_;
  std::unique_ptr<ir::Graph> graph_;
  Recorder recorder_;
  ir::Value* self_ = nullptr;
  ir::Node* last_attribute_ = nullptr;
  std::unordered_map<const TensorBody*, std::string> paths_;
  std::unordered_map<std::string, ir::Value*> attributes_;
};

}  // namespace

Trace trace(const Traceable& f, const std::vector<tern::Value>& inputs, Span<const StateTensor> state,
            const TraceOptions& options) {
  return Tracer(state, options).run(f, inputs);
}

}  // namespace tern::capture
