// The lowering driver: walks the IR, gives each node to its rule or function, keeps names, and reports at
// once all that cannot be expressed.
#include "tern/onnx/driver.h"

#include <algorithm>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/capture/retrace.h"
#include "tern/dispatch/op.h"
#include "tern/ir/builtins.h"
#include "tern/ops.h"
#include "tern/sym/shape_env.h"

namespace tern::onnx {

namespace {

bool lowerable(const ir::Block& block);
bool lowerable(const ir::Node& node) {
  if (node.op() && !can_lower(*node.op())) return false;
  for (const ir::Block* b : node.blocks())
    if (!lowerable(*b)) return false;
  return true;
}
bool lowerable(const ir::Block& block) {
  for (const ir::Node& n : block)
    if (!lowerable(n)) return false;
  return true;
}

// Operators without a rule that have a body are replaced by it. Where the graph cannot be interpreted on fake
// tensors it stays as it is and the driver reports what is missing.
Owned<ir::Graph> expanded(const ir::Graph& graph) {
  for (const ir::Value* v : graph.inputs())
    if (v->type()->is_tensor() && (!v->type()->has_sizes() || v->type()->dtype() == DType::undefined))
      return nullptr;
  capture::RetraceOptions options;
  options.expand = [](const Op& op) { return !can_lower(op) && op.body; };
  try {
    capture::Retraced r = capture::retrace(graph, options);
    if (!r.mutated.empty()) return nullptr;
    return std::move(r.graph);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

namespace {

// Outputs must have a shape; where the IR does not know it, the model itself may.
Model with_output_shapes(Model model) {
  bool missing = false;
  for (const ValueInfo& v : model.graph.outputs)
    missing = missing || !v.type.shape || v.type.elem_type == DataType::undefined;
  if (missing) {
    try {
      infer_shapes(model);
    } catch (const Error&) {  // the model stands as it is
    }
  }
  return model;
}

}  // namespace

Model export_model(const Source& source, const ExportOptions& options) {
  if (options.opset < min_opset || options.opset > max_opset)
    failf(ErrorKind::value, "onnx::export_model: opset {} is not supported; choose one from {} to {}",
          options.opset, min_opset, max_opset);
  if (!lowerable(source.graph.top())) {
    if (auto graph = expanded(source.graph)) {
      Source again{*graph, source.weights, source.output_names, source.constants, source.output_order};
      return with_output_shapes(Driver(again, options).run());
    }
  }
  return with_output_shapes(Driver(source, options).run());
}

void save(const Source& source, const std::string& path, const ExportOptions& options) {
  write(export_model(source, options), path, options.write);
}

void save(const Model& model, const std::string& path, const WriteOptions& options) {
  write(model, path, options);
}

Driver::Driver(const Source& source, const ExportOptions& options) : source_(source), options_(options) {
  // The smallest ir_version that has the opset: older tools can read it.
  model_.ir_version = options.opset >= 23 ? 11 : options.opset >= 21 ? 10 : options.opset >= 19 ? 9 : 8;
  // node metadata exists from ir_version 10 on; readers of older versions skip the field
  if (options.metadata && model_.ir_version < 10) model_.ir_version = 10;
  model_.producer_version = "0.1.0";
  model_.opsets.push_back({"", options.opset});
  model_.graph.name = source.graph.name.empty() ? "main_graph" : source.graph.name;
  scopes_.push_back({&model_.graph, {}, {}, {}});
}

Model Driver::run() {
  add_inputs();
  lower_block(source_.graph.top());
  if (!problems_.empty()) {
    std::string text = fmt::format(
        "onnx: {} of the graph cannot be expressed in ONNX opset {}:",
        problems_.size() == 1 ? "1 node" : fmt::format("{} nodes", problems_.size()), options_.opset);
    for (size_t i = 0; i < problems_.size() && i < 100; ++i) text += "\n  " + problems_[i];
    if (problems_.size() > 100) text += fmt::format("\n  and {} more", problems_.size() - 100);
    text += "\nGive the operator an `onnx` rule (see tern/onnx/lower.h), or write the model without it.";
    fail(ErrorKind::not_supported, std::move(text));
  }
  add_outputs();
  remove_unused();
  fuse_gemm();
  return std::move(model_);
}

// ---- inputs and outputs ----

void Driver::add_inputs() {
  std::unordered_map<std::string, const Source::Weight*> weights;
  for (const Source::Weight& w : source_.weights) weights.emplace(w.input, &w);
  struct Shared {
    const void* data;
    const Tensor* tensor;
    Ref ref;
  };
  std::unordered_map<const void*, std::vector<Shared>> shared;
  size_t user = 0;
  std::unordered_map<std::string, const tern::Value*> constants;
  for (const auto& [name, value] : source_.constants) constants.emplace(name, &value);
  for (const ir::Value* v : source_.graph.inputs()) {
    std::string own = v->name();
    if (auto c = constants.find(own); c != constants.end()) {
      slots_[v] = Slot::of(*c->second);
      continue;
    }
    auto it = weights.find(own);
    if (it == weights.end()) {
      if (user < options_.input_names.size()) own = options_.input_names[user];
      ++user;
    } else {
      own = it->second->name.empty() ? own : it->second->name;
    }
    if (!names_.insert(own).second)
      failf(ErrorKind::value,
            "onnx: two inputs or weights of the model are called '{}'; give them different names", own);
    Ref r{
        own, v->type()->is_tensor() ? v->type()->dtype() : DType::undefined,
        v->type()->is_tensor() && v->type()->has_sizes() ? static_cast<int>(v->type()->sizes().size()) : -1};
    if (it != weights.end()) {
      const Source::Weight& w = *it->second;
      const Tensor& t = w.tensor;
      r.dtype = t.dtype();
      r.rank = static_cast<int>(t.dim());
      bool found = false;
      if (!w.external && !t.is_fake() && t.int_numel() > 0) {
        for (const Shared& s : shared[t.data()])
          if (s.tensor->dtype() == t.dtype() && s.tensor->sizes().vec().size() == t.sizes().size() &&
              str(s.tensor->sizes()) == str(t.sizes()) && str(s.tensor->strides()) == str(t.strides())) {
            r = s.ref;
            found = true;
          }
        if (!found) shared[t.data()].push_back({t.data(), &t, r});
      }
      if (!found) {
        TensorProto p;
        if (w.external) {
          p.name = own;
          p.type = data_type_of(to_real(t.dtype()));
          for (SymInt s : t.sizes()) p.dims.push_back(s.guard_int());
          if (t.is_complex()) p.dims.push_back(2);
          p.external = w.external;
        } else {
          p = to_proto(t.is_complex() ? view_as_real(t.detach()) : t, own);
        }
        model_.graph.initializers.push_back(std::move(p));
      }
      slots_[v] = Slot::of(r);
      continue;
    }
    if (v->type()->is(ir::TypeKind::none)) {
      slots_[v] = Slot::of(tern::Value());
      names_.erase(own);
      continue;
    }
    if (v->type()->is(ir::TypeKind::int_))
      r.dtype = DType::int64, r.rank = 0;
    else if (v->type()->is(ir::TypeKind::float_))
      r.dtype = DType::float32, r.rank = 0;
    else if (v->type()->is(ir::TypeKind::bool_))
      r.dtype = DType::bool_, r.rank = 0;
    else if (!v->type()->is_tensor())
      failf(ErrorKind::not_supported,
            "onnx: the input '{}' has the type {}; ONNX inputs are tensors and numbers", own,
            v->type()->str());
    if (r.dtype == DType::undefined)
      failf(ErrorKind::value, "onnx: the dtype of the input '{}' is not known; give the graph's input a type",
            own);
    slots_[v] = Slot::of(r);
    model_.graph.inputs.push_back({own, type_of(v->type(), r)});
    if (v->type()->is_tensor() && v->type()->has_sizes()) {
      for (size_t d = 0; d < v->type()->sizes().size(); ++d)
        if (SymInt s = v->type()->sizes()[d]; s.is_symbolic())
          symbol_sources_.emplace(s.bits(), std::pair(v, static_cast<int64_t>(d)));
    }
  }
  if (user < options_.input_names.size())
    failf(ErrorKind::value, "onnx: {} input names were given for {} inputs", options_.input_names.size(),
          user);
}

void Driver::add_outputs() {
  std::vector<std::pair<Slot, const ir::Type*>> flat;
  auto flatten = [&](auto& self, const Slot& s, const ir::Type* type) -> void {
    if (s.kind == Slot::Kind::list) {
      for (size_t i = 0; i < s.items.size(); ++i) {
        const ir::Type* inner =
            type && !type->elements().empty()
                ? type->element(type->is(ir::TypeKind::tuple) && i < type->elements().size() ? i : 0)
                : nullptr;
        self(self, s.items[i], inner);
      }
    } else if (s.is_constant() && (s.constant.is_list() || s.constant.is_tuple())) {
      for (const tern::Value& item : s.constant.items()) self(self, Slot::of(item), nullptr);
    } else if (!s.is_none()) {
      flat.emplace_back(s, type);
    }
  };
  std::vector<size_t> order = source_.output_order;
  if (order.empty())
    for (size_t i = 0; i < source_.graph.outputs().size(); ++i) order.push_back(i);
  for (size_t i : order)
    flatten(flatten, slot(source_.graph.outputs()[i]), source_.graph.outputs()[i].type());
  if (!options_.output_names.empty() && options_.output_names.size() != flat.size())
    failf(ErrorKind::value, "onnx: {} output names were given for {} outputs", options_.output_names.size(),
          flat.size());

  std::unordered_map<std::string, std::string> renamed;
  std::unordered_set<std::string> taken;
  for (size_t i = 0; i < flat.size(); ++i) {
    Ref r = ref(flat[i].first, "output");
    std::string wanted = !options_.output_names.empty()    ? options_.output_names[i]
                         : i < source_.output_names.size() ? source_.output_names[i]
                                                           : std::string();
    bool produced = scopes_[0].produced.count(r.name) && !taken.count(r.name);
    if (!produced) {
      current_ = nullptr;
      r = emit("Identity", {r}, {}, 1, r.dtype)[0];
      if (wanted.empty()) {
        wanted = fresh("output");
        names_.erase(wanted);
      }
    }
    taken.insert(r.name);
    if (!wanted.empty() && wanted != r.name) {
      if (!names_.insert(wanted).second || (source_.graph.find(wanted) && options_.output_names.empty()))
        if (wanted = fresh(wanted); !options_.output_names.empty())
          failf(ErrorKind::value, "onnx: the output name '{}' is already the name of another value",
                options_.output_names[i]);
      renamed[r.name] = wanted;
    }
    ValueInfo info{renamed.count(r.name) ? renamed[r.name] : r.name, type_of(flat[i].second, r)};
    model_.graph.outputs.push_back(std::move(info));
  }
  if (renamed.empty()) return;
  auto apply = [&](auto& self, GraphProto& g) -> void {
    auto change = [&](std::string& name) {
      if (auto it = renamed.find(name); it != renamed.end()) name = it->second;
    };
    for (NodeProto& n : g.nodes) {
      for (std::string& s : n.inputs) change(s);
      for (std::string& s : n.outputs) change(s);
      for (Attribute& a : n.attributes)
        for (auto& inner : a.graphs) self(self, *inner);
    }
    if (&g != &model_.graph)
      for (ValueInfo& v : g.outputs) change(v.name);
    for (ValueInfo& v : g.values) change(v.name);
  };
  apply(apply, model_.graph);
}

Dimension Driver::dimension(SymInt size) const {
  if (size.is_int()) return size.as_int() < 0 ? Dimension{} : Dimension{size.as_int(), {}};
  ShapeEnv& env = ShapeEnv::of(size);
  SymInt simple = env.simplify(size);
  if (simple.is_int()) return {simple.as_int(), {}};
  return {{}, env.str_by_dims(simple)};
}

TypeProto Driver::type_of(const ir::Type* type, const Ref& r) {
  DType dtype = r.dtype;
  if (type && type->is_tensor() && type->dtype() != DType::undefined) dtype = type->dtype();
  std::optional<std::vector<Dimension>> shape;
  if (type && type->is_tensor() && type->has_sizes()) {
    shape.emplace();
    for (SymInt s : type->sizes()) shape->push_back(dimension(s));
  } else if (type && !type->is_tensor() && r.rank >= 0) {
    shape.emplace(static_cast<size_t>(r.rank), Dimension{1, {}});
  } else if (r.rank >= 0) {
    shape.emplace(static_cast<size_t>(r.rank));
  }
  if (dtype != DType::undefined && is_complex(dtype)) {  // pairs of reals
    dtype = to_real(dtype);
    if (shape) shape->push_back(Dimension{2, {}});
  }
  return TypeProto::tensor(dtype == DType::undefined ? DataType::undefined : data_type_of(dtype),
                           std::move(shape));
}

void Driver::note_value(const ir::Value& value, const Ref& r) {
  if (!options_.value_info || !value.type()->is_tensor() || r.dtype == DType::undefined) return;
  TypeProto t = type_of(value.type(), r);
  if (t.shape && scopes_.back().produced.count(r.name))
    scopes_.back().graph->values.push_back({r.name, std::move(t)});
}

void Driver::remove_unused() {
  std::unordered_set<std::string> used;
  auto mark = [&](auto& self, const GraphProto& g) -> void {
    for (const NodeProto& n : g.nodes) {
      for (const std::string& s : n.inputs) used.insert(s);
      for (const Attribute& a : n.attributes)
        for (const auto& inner : a.graphs) self(self, *inner);
    }
    for (const ValueInfo& v : g.outputs) used.insert(v.name);
  };
  for (const ValueInfo& v : model_.graph.outputs) used.insert(v.name);
  std::vector<NodeProto> kept;
  for (auto it = model_.graph.nodes.rbegin(); it != model_.graph.nodes.rend(); ++it) {
    bool needed = false;
    for (const std::string& s : it->outputs) needed = needed || used.count(s);
    if (!needed) continue;
    for (const std::string& s : it->inputs) used.insert(s);
    for (const Attribute& a : it->attributes)
      for (const auto& inner : a.graphs) mark(mark, *inner);
    kept.push_back(std::move(*it));
  }
  model_.graph.nodes.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  std::unordered_set<std::string> outputs;
  for (const ValueInfo& v : model_.graph.outputs) outputs.insert(v.name);
  std::erase_if(model_.graph.initializers, [&](const TensorProto& t) { return !used.count(t.name); });
  std::erase_if(model_.graph.values,
                [&](const ValueInfo& v) { return !used.count(v.name) || outputs.count(v.name); });
}

// MatMul of matrices and the Add behind it are one Gemm, where the addend broadcasts into the product.
void Driver::fuse_gemm() {
  GraphProto& g = model_.graph;
  std::unordered_map<std::string, const TypeProto*> types;
  for (const auto* list : {&g.inputs, &g.outputs, &g.values})
    for (const ValueInfo& v : *list) types.emplace(v.name, &v.type);
  std::unordered_map<std::string, TypeProto> weights;
  for (const TensorProto& t : g.initializers) {
    std::vector<Dimension> dims;
    for (int64_t d : t.dims) dims.push_back({d, {}});
    weights.emplace(t.name, TypeProto::tensor(t.type, dims));
  }
  auto find = [&](const std::string& name) -> const TypeProto* {
    if (auto it = types.find(name); it != types.end()) return it->second;
    auto it = weights.find(name);
    return it == weights.end() ? nullptr : &it->second;
  };
  std::unordered_map<std::string, int> uses;
  auto count = [&](auto& self, const GraphProto& in) -> void {
    for (const NodeProto& n : in.nodes) {
      for (const std::string& s : n.inputs) ++uses[s];
      for (const Attribute& a : n.attributes)
        for (const auto& inner : a.graphs) self(self, *inner);
    }
    for (const ValueInfo& v : in.outputs) ++uses[v.name];
  };
  count(count, g);
  std::unordered_map<std::string, size_t> products;
  std::unordered_set<size_t> gone;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    NodeProto& n = g.nodes[i];
    if (n.op == "MatMul" && n.domain.empty()) products.emplace(n.outputs[0], i);
    if (n.op != "Add" || !n.domain.empty()) continue;
    for (size_t k = 0; k < 2; ++k) {
      auto it = products.find(n.inputs[k]);
      if (it == products.end() || uses[n.inputs[k]] != 1) continue;
      const NodeProto& product = g.nodes[it->second];
      const TypeProto *a = find(product.inputs[0]), *b = find(product.inputs[1]), *y = find(n.outputs[0]),
                      *c = find(n.inputs[1 - k]);
      auto rank = [](const TypeProto* t) { return t && t->shape ? static_cast<int>(t->shape->size()) : -1; };
      if (rank(a) != 2 || rank(b) != 2 || rank(y) != 2 || rank(c) < 0 || rank(c) > 2) continue;
      bool fits = a->elem_type == DataType::float32 || a->elem_type == DataType::float64 ||
                  a->elem_type == DataType::float16;
      for (int d = 0; fits && d < rank(c); ++d) {
        const Dimension &mine = (*c->shape)[static_cast<size_t>(d)],
                        &out = (*y->shape)[static_cast<size_t>(d + 2 - rank(c))];
        fits = mine.value == 1 || (mine.value && mine.value == out.value) ||
               (!mine.value && !mine.param.empty() && mine.param == out.param);
      }
      if (!fits) continue;
      n.op = "Gemm";
      n.inputs = {product.inputs[0], product.inputs[1], n.inputs[1 - k]};
      gone.insert(it->second);
      break;
    }
  }
  if (gone.empty()) return;
  std::unordered_set<std::string> dropped;
  std::vector<NodeProto> kept;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    if (gone.count(i))
      dropped.insert(g.nodes[i].outputs[0]);
    else
      kept.push_back(std::move(g.nodes[i]));
  }
  g.nodes = std::move(kept);
  std::erase_if(g.values, [&](const ValueInfo& v) { return dropped.count(v.name); });
}

// ---- the walk ----

void Driver::lower_block(const ir::Block& block) {
  for (const ir::Node& n : block) lower_node(n);
}

void Driver::lower_node(const ir::Node& node) {
  const ir::Node* before = current_;
  current_ = &node;
  size_t first = scopes_.back().graph->nodes.size();
  try {
    if (!lower_structural(node)) {
      Call call(*this, node);
      const Op* op = node.op();
      std::string name = node.qualified();
      if (touches_complex(node)) {
        const Lowering* l = find_complex_lowering(name);
        if (!l)
          refuse(node,
                 "the operator has no lowering for complex numbers, which ONNX keeps as pairs of reals");
        l->lower(call);
      } else if (const Lowering* l = find_lowering(name)) {
        l->lower(call);
      } else if (op && lower_with_rule(node, *op)) {
      } else if (!lower_number(node)) {
        refuse(node, op && op->onnx ? "no rule fits these arguments"
                     : op           ? "the operator has no lowering"
                                    : "Tern does not know this operator");
      }
    }
    finish_node(node, first);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::not_supported) throw;
    bool placed = e.message().find(node.qualified()) == 0;
    std::string place = node.origin() ? node.origin()->place() : "";
    problems_.push_back(placed ? e.message()
                               : fmt::format("{} at %{}{}: {}", node.qualified(), node.name(),
                                             place.empty() ? "" : " (" + place + ")", e.message()));
    // What follows is lowered as well as it can be, so that all problems are found.
    for (const ir::Value* v : node.outputs()) {
      const ir::Type* t = v->type();
      slots_[v] = Slot::of(Ref{fresh("missing"), t->is_tensor() ? t->dtype() : DType::int64,
                               t->is_tensor() && t->has_sizes() ? static_cast<int>(t->sizes().size()) : -1});
    }
  }
  current_ = before;
}

bool Driver::touches_complex(const ir::Node& node) {
  auto holds = [](auto& self, const Slot& s) -> bool {
    if (s.kind == Slot::Kind::ref) return s.ref.dtype != DType::undefined && is_complex(s.ref.dtype);
    if (s.kind == Slot::Kind::list)
      return std::any_of(s.items.begin(), s.items.end(), [&](const Slot& item) { return self(self, item); });
    return s.constant.is_tensor() && s.constant.tensor().is_complex();
  };
  for (const ir::Operand& in : node.inputs())
    if (holds(holds, slot(in))) return true;
  for (const ir::Value* v : node.outputs())
    if (v->type()->is_tensor() && v->type()->dtype() != DType::undefined && is_complex(v->type()->dtype()))
      return true;
  return false;
}

bool Driver::lower_with_rule(const ir::Node& node, const Op& op) {
  Call call(*this, node);
  // `x + 1` as add.Scalar has the rule of add.Tensor, with its promotion: the arguments' names are the same.
  const Schema& s = op.schema();
  if (s.overload.view() == "Scalar")
    if (const Op* twin = find_op(s.name, Symbol("Tensor"));
        twin && twin->onnx && twin->schema().args.size() == s.args.size())
      return apply_rules(*this, call, *twin, twin->onnx);
  return op.onnx && apply_rules(*this, call, op, op.onnx);
}

// Results take the IR's names and dtypes.
void Driver::finish_node(const ir::Node& node, size_t first) {
  GraphProto& g = *scopes_.back().graph;
  for (const ir::Value* v : node.outputs()) {
    auto it = slots_.find(v);
    if (it == slots_.end()) {
      if (!v->has_uses()) continue;
      failf(ErrorKind::not_supported, "the result %{} is used, but ONNX does not have it", v->name());
    }
    Slot& s = it->second;
    if (s.kind != Slot::Kind::ref || !v->type()->is_tensor()) continue;
    DType wanted = v->type()->dtype();
    if (wanted != DType::undefined && s.ref.dtype != DType::undefined && s.ref.dtype != wanted)
      s.ref = emit("Cast", {s.ref}, {Attribute::of("to", static_cast<int64_t>(data_type_of(wanted)))}, 1,
                   wanted)[0];
    if (wanted != DType::undefined) s.ref.dtype = wanted;
    if (v->type()->has_sizes()) s.ref.rank = static_cast<int>(v->type()->sizes().size());
    std::string name = v->name();
    bool free = names_.insert(name).second;
    bool renamed = false;
    if (free) {
      for (size_t i = first; i < g.nodes.size(); ++i)
        for (std::string& out : g.nodes[i].outputs)
          if (out == s.ref.name) {
            renamed = true;
            g.nodes[i].name = "node_" + name;
          }
      if (renamed) {
        for (size_t i = first; i < g.nodes.size(); ++i) {
          for (std::string& in : g.nodes[i].inputs)
            if (in == s.ref.name) in = name;
          for (std::string& out : g.nodes[i].outputs)
            if (out == s.ref.name) out = name;
        }
        scopes_.back().produced.erase(s.ref.name);
        scopes_.back().produced.insert(name);
        // Other results of the node may be the same value.
        for (const ir::Value* other : node.outputs())
          if (auto o = slots_.find(other);
              other != v && o != slots_.end() && o->second.ref.name == s.ref.name)
            o->second.ref.name = name;
        s.ref.name = name;
        note_value(*v, s.ref);
      } else {
        names_.erase(name);
      }
    }
  }
}

}  // namespace tern::onnx
