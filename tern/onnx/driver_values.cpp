// Values while a graph becomes a model: their names, numbers that are known or computed, initialisers, nodes.
#include "tern/base/format.h"
#include "tern/capture/retrace.h"
#include "tern/dispatch/op.h"
#include "tern/ir/builtins.h"
#include "tern/onnx/driver.h"
#include "tern/ops.h"
#include "tern/sym/shape_env.h"

namespace tern::onnx {

Slot Driver::slot(const ir::Operand& operand) {
  if (operand.is_value()) {
    auto it = slots_.find(&operand.value());
    if (it == slots_.end()) failf(ErrorKind::internal, "onnx: %{} was not lowered", operand.value().name());
    return it->second;
  }
  if (operand.is_list()) {
    std::vector<Slot> items;
    for (const ir::Operand& o : operand.list()) items.push_back(slot(o));
    return Slot::list(std::move(items));
  }
  return Slot::of(operand.constant());
}

Ref Driver::ref(const Slot& s, std::string_view what) {
  if (s.kind == Slot::Kind::ref) return s.ref;
  if (s.is_constant()) {
    const tern::Value& v = s.constant;
    if (v.is_none()) return {};
    if (v.is_tensor()) return initializer(v.tensor());
    if (v.is_int()) {
      if (SymInt n = v.sym(); n.is_symbolic()) return as_scalar(size(n));
      return initializer(tensor(Scalar(v.to_int()), {.dtype = kLong}));
    }
    if (v.is_float()) return initializer(tensor(Scalar(v.to_double()), {.dtype = kFloat}));
    if (v.is_bool()) return initializer(tensor(Scalar(v.to_bool()), {.dtype = kBool}));
    if (v.is_list() || v.is_tuple()) {
      std::vector<int64_t> ints;
      bool good = true;
      for (const tern::Value& item : v.items()) {
        good = good && item.is_int() && item.sym().is_int();
        if (good) ints.push_back(item.to_int());
      }
      if (good) return initializer(from_vector(ints, {static_cast<int64_t>(ints.size())}));
    }
  }
  failf(ErrorKind::not_supported, "the {} is {}, which ONNX has no value for", what,
        s.is_constant() ? s.constant.kind_name() : "a list");
}

Ref Driver::initializer(const Tensor& value) {
  TensorProto p = to_proto(value.is_complex() ? view_as_real(value.detach()) : value);
  std::string key;
  if (p.raw.bytes.size() <= 1024) {
    key = std::to_string(static_cast<int>(value.dtype()));
    for (int64_t d : p.dims) key += "," + std::to_string(d);
    key += ':';
    key.append(reinterpret_cast<const char*>(p.raw.bytes.data()), p.raw.bytes.size());
    if (auto it = constants_.find(key); it != constants_.end()) return it->second;
  }
  Ref r{fresh("const"), value.dtype(), static_cast<int>(value.dim())};
  p.name = r.name;
  model_.graph.initializers.push_back(std::move(p));
  if (!key.empty()) constants_.emplace(std::move(key), r);
  return r;
}

Size Driver::size(const Slot& s) {
  if (s.kind == Slot::Kind::ref) return {0, s.ref};
  if (s.is_constant() && (s.constant.is_int() || s.constant.is_bool())) {
    if (s.constant.is_bool()) return {s.constant.to_bool()};
    return size(s.constant.sym());
  }
  if (s.is_constant() && s.constant.is_tensor() && s.constant.tensor().int_numel() == 1)
    return {s.constant.tensor().item(Loc{}).to_int()};
  failf(ErrorKind::not_supported, "a size is {}", s.is_constant() ? s.constant.kind_name() : "a list");
}

Size Driver::size(SymInt value) {
  if (value.is_int()) return {value.as_int()};
  std::string key = "sym " + std::to_string(value.bits());
  if (auto it = vectors_.find(key); it != vectors_.end()) return {0, it->second};
  ShapeEnv& env = ShapeEnv::of(value);
  SymInt simple = env.simplify(value);
  if (simple.is_int()) return {simple.as_int()};
  Ref r;
  auto binary = [&](const char* op, const Ref& a, const Ref& b) {
    return emit(op, {a, b}, {}, 1, DType::int64)[0];
  };
  auto number = [&](int64_t n) { return initializer(from_vector(std::vector<int64_t>{n}, {1})); };
  auto part = [&](const sym::Term& t) { return as_vector(size(env.wrap(t.expr))); };
  const sym::Node& e = env.table().node(env.unwrap(simple));
  if (auto it = symbol_sources_.find(simple.bits()); it != symbol_sources_.end()) {
    auto [from, d] = it->second;
    r = emit("Shape", {slots_[from].ref}, {Attribute::of("start", d), Attribute::of("end", d + 1)}, 1,
             DType::int64)[0];
  } else {
    switch (e.kind) {
      case sym::Kind::sum:
        for (const sym::Term& t : e.terms()) {
          Ref term = t.expr == sym::ExprTable::unit ? number(t.factor)
                     : t.factor == 1                ? part(t)
                                                    : binary("Mul", part(t), number(t.factor));
          r = r ? binary("Add", r, term) : term;
        }
        break;
      case sym::Kind::product:
        for (const sym::Term& t : e.terms())
          for (int64_t k = 0; k < t.factor; ++k) r = r ? binary("Mul", r, part(t)) : part(t);
        break;
      case sym::Kind::floor_div:
        r = binary("Div",
                   binary("Sub", part(e.terms()[0]), binary("Mod", part(e.terms()[0]), part(e.terms()[1]))),
                   part(e.terms()[1]));
        break;
      case sym::Kind::mod:
        r = binary("Mod", part(e.terms()[0]), part(e.terms()[1]));
        break;
      case sym::Kind::truncated: {
        auto cast = [&](const Ref& from, DType to) {
          return emit("Cast", {from}, {Attribute::of("to", static_cast<int64_t>(data_type_of(to)))}, 1,
                      to)[0];
        };
        Ref factor = initializer(tensor(Scalar(e.factor()), {.dtype = kDouble}));
        Ref size = cast(part(e.terms()[0]), DType::float64);
        r = cast(emit("Mul", {size, factor}, {}, 1, DType::float64)[0], DType::int64);
        break;
      }
      case sym::Kind::min:
      case sym::Kind::max:
        for (const sym::Term& t : e.terms())
          r = r ? binary(e.kind == sym::Kind::min ? "Min" : "Max", r, part(t)) : part(t);
        break;
      case sym::Kind::symbol:
        // Of a derived dim nothing has the root's size: 2*h + 1 is the input's, and h is computed from it.
        for (const auto& [bits, at] : symbol_sources_) {
          SymInt derived = SymInt::from_bits(bits);
          if (&ShapeEnv::of(derived) != &env) continue;
          sym::ExprTable::Normal n = env.table().normalise(env.unwrap(env.simplify(derived)));
          if (n.form != env.unwrap(simple)) continue;
          r = as_vector(size(derived));
          if (n.offset) r = binary("Sub", r, number(n.offset));
          if (n.factor != 1) r = binary("Div", r, number(n.factor));
          break;
        }
        if (r) break;
        [[fallthrough]];
      default:
        failf(ErrorKind::not_supported, "the symbolic size {} is not a size of any input", simple.str());
    }
  }
  r.rank = 1;
  vectors_[key] = r;
  scopes_.back().vectors.push_back(key);
  return {0, r};
}

Ref Driver::as_vector(const Size& s) {
  if (s.is_static()) return initializer(from_vector(std::vector<int64_t>{s.value}, {1}));
  Ref source = s.ref;
  if (source.rank == 1) return source;
  if (auto it = vectors_.find(source.name); it != vectors_.end()) return it->second;
  Ref wide = source.dtype == DType::int64
                 ? source
                 : emit("Cast", {source}, {Attribute::of("to", int64_t{7})}, 1, DType::int64)[0];
  Ref r =
      emit("Reshape", {wide, initializer(from_vector(std::vector<int64_t>{1}, {1}))}, {}, 1, DType::int64)[0];
  r.rank = 1;
  vectors_[source.name] = r;
  scopes_.back().vectors.push_back(source.name);
  return r;
}

Ref Driver::as_scalar(const Size& s) {
  if (s.is_static()) return initializer(tensor(Scalar(s.value), {.dtype = kLong}));
  if (s.ref.rank == 0) return s.ref;
  if (auto it = scalars_.find(s.ref.name); it != scalars_.end()) return it->second;
  Ref r = emit("Squeeze", {s.ref}, {}, 1, s.ref.dtype)[0];
  r.rank = 0;
  scalars_[s.ref.name] = r;
  scopes_.back().scalars.push_back(s.ref.name);
  return r;
}

std::string Driver::fresh(std::string_view hint) {
  for (;;) {
    std::string name = fmt::format("{}_{}", hint, counters_[std::string(hint)]++);
    if (source_.graph.find(name) || !names_.insert(name).second) continue;
    return name;
  }
}

namespace {

// Where ONNX or ONNX Runtime has no kernel for a dtype, the dtype to compute in.
DType computed_in(std::string_view op, DType d) {
  auto among = [&](std::initializer_list<std::string_view> list) {
    for (std::string_view s : list)
      if (s == op) return true;
    return false;
  };
  bool small = d == DType::int8 || d == DType::int16 || d == DType::uint8 || d == DType::uint16;
  if (d == DType::bool_ &&
      among({"Less",      "LessOrEqual", "Greater",   "GreaterOrEqual", "Sub",        "Abs",    "Neg",
             "ReduceSum", "ReduceMax",   "ReduceMin", "ReduceProd",     "ReduceMean", "CumSum", "ArgMax",
             "ArgMin",    "Clip",        "TopK",      "Sign",           "Relu",       "Pow",    "Mod"}))
    return DType::int32;
  if (op == "Trilu" && d != DType::int64 && !is_floating(d)) return DType::int64;
  if (small && among({"Add",
                      "Sub",
                      "Mul",
                      "Div",
                      "Max",
                      "Min",
                      "Neg",
                      "ReduceSum",
                      "ReduceProd",
                      "ReduceMean",
                      "Relu",
                      "Pow",
                      "Equal",
                      "Less",
                      "LessOrEqual",
                      "Greater",
                      "GreaterOrEqual",
                      "CumSum",
                      "Clip",
                      "TopK",
                      "Abs",
                      "Sign",
                      "ArgMax",
                      "ArgMin",
                      "ReduceMax",
                      "ReduceMin",
                      "MatMul",
                      "Gemm"}))
    return DType::int32;
  return d;
}

}  // namespace

std::vector<Ref> Driver::emit(std::string_view op, const Inputs& given, Attributes attributes, size_t outputs,
                              DType dtype) {
  Inputs inputs = given;
  std::string type(op), domain;
  if (size_t colons = type.find("::"); colons != std::string::npos) {
    domain = type.substr(0, colons);
    type = type.substr(colons + 2);
    bool imported = false;
    for (const OpsetId& o : model_.opsets) imported = imported || o.domain == domain;
    if (!imported) model_.opsets.push_back({domain, 1});
  }
  if (dtype == DType::undefined) dtype = result_dtype(type, inputs, attributes);
  DType back = DType::undefined;
  if (!inputs.empty() && inputs[0].dtype != DType::undefined && type != "Cast") {
    DType from = inputs[0].dtype;
    if (from == DType::bool_ && (type == "Add" || type == "Max"))
      type = "Or";
    else if (from == DType::bool_ && (type == "Mul" || type == "Min"))
      type = "And";
    else if (DType to = computed_in(type, from); to != from) {
      for (Ref& r : inputs)
        if (r && r.dtype == from)
          r = emit("Cast", {r}, {Attribute::of("to", static_cast<int64_t>(data_type_of(to)))}, 1, to)[0];
      if (dtype == from) back = from, dtype = to;
    }
  }
  NodeProto n;
  n.op = type;
  n.domain = domain;
  for (const Ref& r : inputs) n.inputs.push_back(r.name);
  while (!n.inputs.empty() && n.inputs.back().empty()) n.inputs.pop_back();
  n.attributes = std::move(attributes);
  std::vector<Ref> results;
  for (size_t i = 0; i < outputs; ++i) {
    Ref r{fresh("val"), dtype, -1};
    scopes_.back().produced.insert(r.name);
    n.outputs.push_back(r.name);
    results.push_back(std::move(r));
  }
  n.name = "node_" + (n.outputs.empty() ? type : n.outputs[0]);
  annotate(n);
  scopes_.back().graph->nodes.push_back(std::move(n));
  if (back != DType::undefined)
    results[0] = emit("Cast", {results[0]}, {Attribute::of("to", static_cast<int64_t>(data_type_of(back)))},
                      1, back)[0];
  return results;
}

void Driver::annotate(NodeProto& n) const {
  if (!options_.metadata || !current_) return;
  n.metadata.push_back({"pkg.torch.onnx.fx_node", current_->name()});
  const ir::Origin* origin = current_->origin();
  if (!origin) return;
  if (const ir::ModuleScope* scope = origin->scope) {
    std::vector<const ir::ModuleScope*> chain;
    for (; scope; scope = scope->parent) chain.push_back(scope);
    std::string names = "[", classes = "[", space;
    for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
      bool first = it == chain.rbegin();
      names += (first ? "'" : ", '") + (*it)->path.str() + "'";
      classes += (first ? "'" : ", '") + (*it)->type_name.str() + "'";
      space += (first ? "" : "/") + (*it)->path.str() + ": " + (*it)->type_name.str();
    }
    n.metadata.push_back({"namespace", space});
    n.metadata.push_back({"pkg.torch.onnx.name_scopes", names + "]"});
    n.metadata.push_back({"pkg.torch.onnx.class_hierarchy", classes + "]"});
  }
  if (origin->has_place()) n.metadata.push_back({"pkg.torch.onnx.stack_trace", origin->place()});
}

void Driver::bind(const ir::Value& value, Slot s) { slots_[&value] = std::move(s); }

void Driver::refuse(const ir::Node& node, std::string_view why) const {
  std::string place = node.origin() ? node.origin()->place() : "";
  failf(ErrorKind::not_supported, "{} at %{}{}: {}", node.qualified(), node.name(),
        place.empty() ? "" : " (" + place + ")", why);
}

}  // namespace tern::onnx
