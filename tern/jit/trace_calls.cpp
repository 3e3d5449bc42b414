#include "tern/jit/trace_calls.h"

#include <algorithm>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/script/signature.h"

namespace tern::jit {
namespace {

// Nothing is recorded of what a kept call does inside.
class Unrecorded {
 public:
  Unrecorded() : saved_(thread_state) {
    thread_state.excluded |= rung_record;
    thread_state.sizes_recorded = false;
  }
  ~Unrecorded() { thread_state = saved_; }
  Unrecorded(const Unrecorded&) = delete;

 private:
  ThreadState saved_;
};

// Symbolic numbers of the trace are numbers for the function.
tern::Value concrete(const tern::Value& v) {
  if (v.is_int() && v.sym().is_symbolic()) return tern::Value(v.sym().hint().value());
  if (v.is_list() || v.is_tuple()) {
    bool any = std::any_of(v.items().begin(), v.items().end(),
                           [](const tern::Value& i) { return i.is_int() && i.sym().is_symbolic(); });
    if (!any) return v;
    std::vector<tern::Value> items;
    for (const tern::Value& i : v.items()) items.push_back(concrete(i));
    return v.is_list() ? tern::Value::list(std::move(items), v.element_type())
                       : tern::Value::tuple(std::move(items));
  }
  return v;
}

}  // namespace

TraceCalls::TraceCalls(std::unordered_map<const Box*, std::string> objects)
    : objects_(std::move(objects)), before_(script::record_calls(this)) {}
TraceCalls::~TraceCalls() { script::record_calls(before_); }

std::string TraceCalls::name_of(const script::Function& f) {
  for (const Called& c : functions)
    if (c.function == &f) return c.name;
  std::string base = "__torch__." + std::string(f.name()), name = base;
  auto taken = [&] {
    return std::any_of(functions.begin(), functions.end(), [&](const Called& c) { return c.name == name; });
  };
  for (int i = 0; taken(); ++i) name = fmt::format("__torch__.___torch_mangle_{}.{}", i, f.name());
  functions.push_back({name, &f, f.unit ? f.unit->shared_from_this() : nullptr});
  return name;
}

std::optional<tern::Value> TraceCalls::call(const script::Function& f, Span<const tern::Value> inputs) {
  capture::Tracer* tracer = capture::Tracer::current();
  if (!tracer) return std::nullopt;
  ir::Graph& graph = tracer->recorder().graph;
  std::vector<ir::In> operands;
  size_t first = 0;
  if (f.owner()) {
    // A module that is no part of what is traced is recorded by what it does.
    auto it = inputs.empty() || !inputs[0].is_object() ? objects_.end() : objects_.find(inputs[0].box());
    if (it == objects_.end()) return std::nullopt;
    operands.push_back(tracer->attribute(it->second));
    first = 1;
  }
  for (size_t i = first; i < inputs.size(); ++i) {
    if (inputs[i].is_object()) return std::nullopt;
    operands.push_back(tracer->operand(inputs[i]));
  }
  std::vector<tern::Value> given;
  for (const tern::Value& v : inputs) given.push_back(concrete(v));
  tern::Value result;
  const ir::Type* type = nullptr;
  {
    Unrecorded quiet;
    result = f.call(given);
    type = result.is_tensor() ? ir::Type::tensor_like(result.tensor()) : f.returns();
  }
  const ir::Type* types[] = {type ? type : ir::Type::of(result)};
  ir::Node& node = graph.make(f.owner() ? "prim::CallMethod" : "prim::CallFunction", operands, types);
  node.set_attribute("name", tern::Value(f.owner() ? std::string(f.name()) : name_of(f)));
  node.set_origin(capture::Recorder::here());
  Unrecorded quiet;
  tracer->bind(result, node.output());
  return result;
}

}  // namespace tern::jit
