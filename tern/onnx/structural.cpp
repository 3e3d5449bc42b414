// Lowering of what is no operator on tensors: numbers, lists, tuples, If and Loop.
#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/builtins.h"
#include "tern/onnx/driver.h"

namespace tern::onnx {

namespace {

std::string_view base_name(std::string_view kind) {
  if (size_t colons = kind.find("::"); colons != std::string_view::npos) kind = kind.substr(colons + 2);
  return kind.substr(0, kind.find('.'));
}

struct NumberOp {
  std::string_view name, onnx;
};
constexpr NumberOp binary_ops[] = {
    {"add", "Add"},     {"sub", "Sub"},        {"mul", "Mul"},       {"eq", "Equal"},
    {"lt", "Less"},     {"le", "LessOrEqual"}, {"gt", "Greater"},    {"ge", "GreaterOrEqual"},
    {"min", "Min"},     {"max", "Max"},        {"sym_min", "Min"},   {"sym_max", "Max"},
    {"__and__", "And"}, {"__or__", "Or"},      {"remainder", "Mod"}, {"mod", "Mod"},
    {"pow", "Pow"},
};

DType number_dtype(const ir::Type* t) {
  switch (t->kind()) {
    case ir::TypeKind::int_:
      return DType::int64;
    case ir::TypeKind::float_:
      return DType::float32;
    case ir::TypeKind::bool_:
      return DType::bool_;
    default:
      return DType::undefined;
  }
}

const Slot* item_of(const Slot& list, int64_t i, Slot& storage) {
  int64_t n = 0;
  if (list.kind == Slot::Kind::list)
    n = static_cast<int64_t>(list.items.size());
  else if (list.is_constant() && (list.constant.is_list() || list.constant.is_tuple()))
    n = static_cast<int64_t>(list.constant.items().size());
  if (i < 0) i += n;
  if (i < 0 || i >= n) return nullptr;
  if (list.kind == Slot::Kind::list) return &list.items[static_cast<size_t>(i)];
  storage = Slot::of(list.constant.items()[static_cast<size_t>(i)]);
  return &storage;
}

}  // namespace

bool Driver::lower_structural(const ir::Node& node) {
  std::string_view kind = node.kind().view();
  if (kind == "prim::If") return lower_if(node), true;
  if (kind == "prim::Loop") return lower_loop(node), true;
  if (kind == "higher_order::cond") {  // branches take the operands as parameters
    for (const ir::Block* block : node.blocks())
      for (size_t i = 0; i < block->params().size(); ++i) bind(block->param(i), slot(node.input(i + 1)));
    return lower_if(node), true;
  }
  if (kind == "prim::Constant") {
    const tern::Value* v = node.attribute(Symbol("value"));
    bind(node.output(), Slot::of(v ? *v : tern::Value()));
    return true;
  }
  if (kind == "prim::ListConstruct" || kind == "prim::TupleConstruct") {
    std::vector<Slot> items;
    for (const ir::Operand& o : node.inputs()) items.push_back(slot(o));
    bind(node.output(), Slot::list(std::move(items)));
    return true;
  }
  if (kind == "prim::ListUnpack" || kind == "prim::TupleUnpack") {
    Slot list = slot(node.input(0)), storage;
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const Slot* item = item_of(list, static_cast<int64_t>(i), storage);
      if (!item) refuse(node, "the list has fewer items than are taken out of it");
      bind(node.output(i), *item);
    }
    return true;
  }
  if (kind == "prim::TupleIndex" || base_name(kind) == "__getitem__" || base_name(kind) == "getitem") {
    Slot list = slot(node.input(0)), index = slot(node.input(1)), storage;
    if (!index.is_constant() || !index.constant.is_int()) refuse(node, "the index is computed by the model");
    const Slot* item = item_of(list, index.constant.to_int(), storage);
    if (!item) refuse(node, "the index is out of range, or the length of the list is not known");
    bind(node.output(), *item);
    return true;
  }
  if (kind == "prim::RaiseException" || kind == "prim::Print" || kind == "aten::warn")
    return true;  // no effect on results
  if (kind == "prim::unchecked_cast" || kind == "prim::unchecked_unwrap_optional" || kind == "prim::data" ||
      base_name(kind) == "_unwrap_optional") {
    bind(node.output(), slot(node.input(0)));
    return true;
  }
  std::string_view base = base_name(kind);
  if (base.starts_with("sym_constrain_range") || base == "_assert_scalar" || base == "_assert_async" ||
      base == "_assert_tensor_metadata" || base == "_check" || base.starts_with("_functional_assert")) {
    for (const ir::Value* v : node.outputs()) bind(*v, Slot::of(tern::Value()));
    return true;
  }
  return false;
}

bool Driver::lower_number(const ir::Node& node) {
  if (node.num_outputs() != 1) return false;
  std::string_view base = base_name(node.kind().view());
  std::vector<Slot> in;
  bool constant = true;
  for (const ir::Operand& o : node.inputs()) {
    in.push_back(slot(o));
    const Slot& s = in.back();
    constant = constant && s.is_constant() && !s.constant.is_tensor() &&
               !(s.constant.is_int() && s.constant.sym().is_symbolic());
  }
  const ir::Value& out = node.output();
  // Sizes first: a static one is a constant, whatever tensor it is asked of.
  const ir::Type* type = node.inputs().size() ? node.input(0).type() : nullptr;
  if ((base == "sym_size" || base == "size") && type && type->is_tensor()) {
    Call call(*this, node);
    auto one = [&](int64_t d) -> Slot {
      if (auto known = call.dim(0, d)) return Slot::of(tern::Value(*known));
      return Slot::of(call.size_of(call.tensor(0), d));
    };
    if (in.size() > 1) {
      bind(out, one(call.integer(1)));
    } else {
      std::vector<Slot> sizes;
      for (int64_t d = 0, n = call.rank(0); d < n; ++d) sizes.push_back(one(d));
      bind(out, Slot::list(std::move(sizes)));
    }
    return true;
  }
  if ((base == "sym_numel" || base == "numel") && type && type->is_tensor()) {
    bind(out,
         Slot::of(Ref{emit("Size", {ref(in[0], "tensor")}, {}, 1, DType::int64)[0].name, DType::int64, 0}));
    return true;
  }
  if ((base == "dim" || base == "len") && type && (type->is_tensor() || in[0].kind == Slot::Kind::list)) {
    if (in[0].kind == Slot::Kind::list) {
      bind(out, Slot::of(tern::Value(static_cast<int64_t>(in[0].items.size()))));
    } else {
      Call call(*this, node);
      if (base == "dim")
        bind(out, Slot::of(tern::Value(call.rank(0))));
      else
        bind(out, Slot::of(call.size_of(call.tensor(0), 0)));
    }
    return true;
  }
  if (base == "dtype" && type && type->is_tensor() && type->dtype() != DType::undefined) {
    bind(out, Slot::of(tern::Value(type->dtype())));
    return true;
  }
  if (constant)
    if (ir::Builtin f = ir::find_builtin(Symbol(node.qualified()))) {
      std::vector<tern::Value> values;
      for (const Slot& s : in) values.push_back(s.constant);
      bind(out, Slot::of(f(values)));
      return true;
    }

  auto number = [&](const Slot& s, DType dtype) -> Ref {
    if (s.is_constant() && s.constant.is_number() && dtype != DType::undefined &&
        !(s.constant.is_int() && s.constant.sym().is_symbolic()))
      return initializer(tensor(s.constant.scalar(), {.dtype = dtype}));
    Ref r = ref(s, "number");
    if (dtype == DType::undefined || r.dtype == dtype) return r;
    Ref c = emit("Cast", {r}, {Attribute::of("to", static_cast<int64_t>(data_type_of(dtype)))}, 1, dtype)[0];
    c.rank = r.rank;
    return c;
  };
  auto common = [&] {
    DType d = DType::bool_;
    for (const Slot& s : in) {
      DType e = s.kind == Slot::Kind::ref ? s.ref.dtype
                : s.constant.is_float()   ? DType::float32
                : s.constant.is_bool()    ? DType::bool_
                                          : DType::int64;
      if (e != DType::undefined) d = promote(d, e);
    }
    return d;
  };
  auto rank_of = [&] {
    int rank = 0;
    for (const Slot& s : in)
      if (s.kind == Slot::Kind::ref)
        rank = std::max(rank, s.ref.rank);
      else if (s.constant.is_int() && s.constant.sym().is_symbolic())
        rank = 1;
    return rank;
  };
  auto give = [&](Ref r, int rank) {
    r.rank = rank;
    bind(out, Slot::of(std::move(r)));
    return true;
  };
  auto scalar_of = [&](const Slot& s) -> Ref {
    Ref r = ref(s, "number");
    return r;
  };
  if (in.size() == 1) {
    // A tensor of one element as a number keeps its value; the shape is what it was.
    if (base == "Int" || base == "IntImplicit" || base == "sym_int") {
      Ref r = scalar_of(in[0]);
      if (r.dtype != DType::undefined && is_floating(r.dtype))
        return give(number(in[0], DType::int64), r.rank);
      return give(number(in[0], DType::int64), r.rank);
    }
    if (base == "Float" || base == "FloatImplicit" || base == "sym_float")
      return give(number(in[0], DType::float32), rank_of());
    if (base == "Bool" || base == "is_nonzero" || base == "ScalarImplicit" || base == "item" ||
        base == "_local_scalar_dense") {
      Ref r = base == "Bool" || base == "is_nonzero" ? number(in[0], DType::bool_) : scalar_of(in[0]);
      if (r.rank != 0) {
        r = emit("Squeeze", {r}, {}, 1, r.dtype)[0];
      }
      return give(r, 0);
    }
    if (base == "__not__" || base == "sym_not")
      return give(emit("Not", {number(in[0], DType::bool_)}, {}, 1, DType::bool_)[0], rank_of());
    if (base == "neg")
      return give(emit("Neg", {ref(in[0], "number")}, {}, 1, DType::undefined)[0], rank_of());
    if (base == "NumToTensor" || base == "tensor" || base == "scalar_tensor") {
      Ref r = scalar_of(in[0]);
      if (r.rank > 0) r = as_scalar({0, r});
      return give(r, 0);
    }
    return false;
  }
  if (base == "tensor" && !in.empty() && (in[0].kind == Slot::Kind::ref || in[0].constant.is_number())) {
    Ref r = scalar_of(in[0]);
    if (r.rank > 0) r = as_scalar({0, r});
    return give(r, 0);
  }
  if (in.size() != 2) return false;
  for (const Slot& s : in)
    if (s.kind == Slot::Kind::list || s.is_none()) return false;
  DType d = common();
  if (base == "ne") {
    Ref e = emit("Equal", {number(in[0], d), number(in[1], d)}, {}, 1, DType::bool_)[0];
    return give(emit("Not", {e}, {}, 1, DType::bool_)[0], rank_of());
  }
  if (base == "floordiv" || base == "floor_divide") {
    Ref a = number(in[0], d), b = number(in[1], d);
    if (is_floating(d))
      return give(emit("Floor", {emit("Div", {a, b}, {}, 1, d)[0]}, {}, 1, d)[0], rank_of());
    Ref rest = emit("Mod", {a, b}, {}, 1, d)[0];
    return give(emit("Div", {emit("Sub", {a, rest}, {}, 1, d)[0], b}, {}, 1, d)[0], rank_of());
  }
  if (base == "truediv" || base == "div")
    return give(
        emit("Div", {number(in[0], DType::float32), number(in[1], DType::float32)}, {}, 1, DType::float32)[0],
        rank_of());
  for (const NumberOp& op : binary_ops)
    if (op.name == base) {
      Attributes at;
      if (op.onnx == "Mod" && is_floating(d)) return false;
      return give(emit(op.onnx, {number(in[0], d), number(in[1], d)}, std::move(at), 1, DType::undefined)[0],
                  rank_of());
    }
  return false;
}

// Names in a subgraph must be made in it: what comes from outside passes through Identity.
Ref Driver::output_of_block(const Slot& s, const ir::Type* type, DType dtype) {
  Ref r = ref(s, "result of a block");
  if (!r) fail(ErrorKind::not_supported, "a block gives None, which ONNX has no value for");
  if (type && type->is(ir::TypeKind::int_) && r.rank != 0) r = as_scalar({0, r});
  if (dtype != DType::undefined && r.dtype != dtype && r.dtype != DType::undefined)
    r = emit("Cast", {r}, {Attribute::of("to", static_cast<int64_t>(data_type_of(dtype)))}, 1, dtype)[0];
  GraphProto& g = *scopes_.back().graph;
  bool again = false;
  for (const ValueInfo& v : g.outputs) again = again || v.name == r.name;
  if (again || !scopes_.back().produced.count(r.name)) {
    int rank = r.rank;
    r = emit("Identity", {r}, {}, 1, r.dtype)[0];
    r.rank = rank;
  }
  g.outputs.push_back(
      {r.name, TypeProto::tensor(r.dtype == DType::undefined ? DataType::undefined : data_type_of(r.dtype))});
  return r;
}

void Driver::lower_if(const ir::Node& node) {
  Slot condition = slot(node.input(0));
  if (condition.is_constant() && !condition.constant.is_tensor()) {
    const ir::Block& block = *node.blocks()[ir::truth(condition.constant) ? 0 : 1];
    lower_block(block);
    for (size_t i = 0; i < node.num_outputs(); ++i) bind(node.output(i), slot(block.returns()[i]));
    return;
  }
  Ref c = ref(condition, "condition");
  if (c.dtype != DType::bool_) c = emit("Cast", {c}, {Attribute::of("to", int64_t{9})}, 1, DType::bool_)[0];
  std::shared_ptr<GraphProto> branches[2];
  std::vector<Ref> results[2];
  for (size_t k = 0; k < 2; ++k) {
    branches[k] = std::make_shared<GraphProto>();
    branches[k]->name = fresh(k ? "else_branch" : "then_branch");
    scopes_.push_back({branches[k].get(), {}, {}, {}});
    const ir::Block& block = *node.blocks()[k];
    lower_block(block);
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const ir::Type* t = node.output(i).type();
      DType wanted = t->is_tensor() ? t->dtype() : number_dtype(t);
      if (wanted == DType::undefined && k == 1) wanted = results[0][i].dtype;
      results[k].push_back(output_of_block(slot(block.returns()[i]), t, wanted));
    }
    for (const std::string& key : scopes_.back().vectors) vectors_.erase(key);
    for (const std::string& key : scopes_.back().scalars) scalars_.erase(key);
    scopes_.pop_back();
  }
  current_ = &node;
  std::vector<Ref> out =
      emit("If", {c}, {Attribute::of("then_branch", branches[0]), Attribute::of("else_branch", branches[1])},
           node.num_outputs(), DType::bool_);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].dtype = results[0][i].dtype;
    out[i].rank = results[0][i].rank == results[1][i].rank ? results[0][i].rank : -1;
    bind(node.output(i), Slot::of(out[i]));
  }
}

void Driver::lower_loop(const ir::Node& node) {
  const ir::Block& block = *node.blocks()[0];
  Slot trips = slot(node.input(0)), condition = slot(node.input(1));
  Inputs inputs;
  bool endless = trips.is_constant() && trips.constant.is_int() && trips.constant.to_int() == INT64_MAX;
  inputs.push_back(endless ? Ref() : as_scalar(size(trips)));
  Ref c = ref(condition, "condition");
  if (c.dtype != DType::bool_) c = emit("Cast", {c}, {Attribute::of("to", int64_t{9})}, 1, DType::bool_)[0];
  inputs.push_back(c);
  std::vector<Ref> carried;
  for (size_t i = 2; i < node.inputs().size(); ++i) {
    Slot s = slot(node.input(i));
    const ir::Type* t = block.param(i - 1).type();
    Ref r = t->is(ir::TypeKind::int_) ? as_scalar(size(s)) : ref(s, "initial value of a loop");
    if (!r) refuse(node, "a loop starts with None, which ONNX has no value for");
    inputs.push_back(r);
    carried.push_back(r);
  }
  auto body = std::make_shared<GraphProto>();
  body->name = fresh("loop_body");
  scopes_.push_back({body.get(), {}, {}, {}});
  auto param = [&](const Ref& like, std::string_view hint) {
    Ref r{fresh(hint), like.dtype, like.rank};
    TypeProto t =
        TypeProto::tensor(r.dtype == DType::undefined ? DataType::undefined : data_type_of(r.dtype));
    if (r.rank == 0) t.shape.emplace();
    body->inputs.push_back({r.name, std::move(t)});
    return r;
  };
  bind(block.param(0), Slot::of(param({"i", DType::int64, 0}, "iteration")));
  param({"c", DType::bool_, 0}, "condition");
  for (size_t i = 0; i < carried.size(); ++i) {
    Ref like = carried[i];
    if (block.param(i + 1).type()->is_tensor() && !block.param(i + 1).type()->has_sizes()) like.rank = -1;
    bind(block.param(i + 1), Slot::of(param(like, block.param(i + 1).name())));
  }
  lower_block(block);
  output_of_block(slot(block.returns()[0]), ir::Type::boolean(), DType::bool_);
  std::vector<Ref> results;
  for (size_t i = 0; i < carried.size(); ++i)
    results.push_back(
        output_of_block(slot(block.returns()[i + 1]), block.param(i + 1).type(), carried[i].dtype));
  for (const std::string& key : scopes_.back().vectors) vectors_.erase(key);
  for (const std::string& key : scopes_.back().scalars) scalars_.erase(key);
  scopes_.pop_back();
  current_ = &node;
  if (carried.empty()) return;  // a loop without results has no effect in a functional graph
  std::vector<Ref> out = emit("Loop", inputs, {Attribute::of("body", body)}, carried.size(), DType::bool_);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].dtype = carried[i].dtype;
    out[i].rank = results[i].rank == carried[i].rank ? carried[i].rank : -1;
    bind(node.output(i), Slot::of(out[i]));
  }
}

}  // namespace tern::onnx
