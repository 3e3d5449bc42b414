// Lowering of what is no operator on tensors: numbers, lists, tuples.
#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/builtins.h"
#include "tern/ir/higher_order.h"
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
  if (ir::find_higher_order(kind)) return lower_higher_order(node), true;
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
      base == "_assert_tensor_metadata" || base == "_check" || base == "_linalg_check_errors" ||
      base.starts_with("_functional_assert")) {
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
    // Python's floats are doubles: what is rounded to a size must not be rounded before.
    if (base == "Float" || base == "FloatImplicit" || base == "sym_float")
      return give(number(in[0], is_floating(common()) ? DType::float32 : DType::float64), rank_of());
    if (base == "sqrt")
      return give(emit("Sqrt", {number(in[0], DType::float64)}, {}, 1, DType::float64)[0], rank_of());
    if (base == "trunc") return give(number(in[0], DType::int64), rank_of());
    if (base == "floor" || base == "ceil") {
      Ref whole =
          emit(base == "floor" ? "Floor" : "Ceil", {number(in[0], DType::float64)}, {}, 1, DType::float64)[0];
      return give(number(Slot::of(whole), DType::int64), rank_of());
    }
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
  if (base == "truediv" || base == "div") {
    DType real = is_floating(d) ? d : DType::float64;
    return give(emit("Div", {number(in[0], real), number(in[1], real)}, {}, 1, real)[0], rank_of());
  }
  for (const NumberOp& op : binary_ops)
    if (op.name == base) {
      Attributes at;
      if (op.onnx == "Mod" && is_floating(d)) {
        // Of floats ONNX has C's fmod; Python's remainder has the sign of the divisor.
        Ref a = number(in[0], d), b = number(in[1], d);
        Ref whole = emit("Floor", {emit("Div", {a, b}, {}, 1, d)[0]}, {}, 1, d)[0];
        return give(emit("Sub", {a, emit("Mul", {whole, b}, {}, 1, d)[0]}, {}, 1, d)[0], rank_of());
      }
      return give(emit(op.onnx, {number(in[0], d), number(in[1], d)}, std::move(at), 1, DType::undefined)[0],
                  rank_of());
    }
  return false;
}

}  // namespace tern::onnx
