// Subscripts of tensors, tuples, containers and objects.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

namespace tern::script {
Val Compiler::subscript(const Expr& e) { return subscript_value(value(*e.items[0]), e); }

Val Compiler::subscript_value(Val base, const Expr& e) {
  const Type* t = base.type;
  uint32_t at = e.at;
  bool unknown = t->is(TypeKind::any) && !strict_;
  if (t->is_tensor() || unknown) return index_tensor(materialise(std::move(base)), e);
  bool container = t->is(TypeKind::list) || t->is(TypeKind::dict) || t->is(TypeKind::string) ||
                   t->is(TypeKind::tuple) || t->is(TypeKind::class_) || t->is(TypeKind::interface);
  if (!container) error(at, fmt::format("'{}' object is not subscriptable", say(base)));
  if (e.items.size() != 2)
    error(at, fmt::format("Only tensors can be indexed with more than one index; this is {}", say(base)));
  const Expr& index = *e.items[1];
  if (t->is(TypeKind::tuple)) {
    auto whole = [&](const Expr* x, int64_t otherwise) -> int64_t {
      if (!x) return otherwise;
      Val v = value(*x);
      if (v.is_none()) return otherwise;
      if (!v.is_constant() || !v.in.constant().is_int())
        error(x->at, "slices of tuples take constant integers");
      return v.in.constant().to_int();
    };
    int64_t n = static_cast<int64_t>(t->elements().size());
    auto get = [&](int64_t i) {
      if (base.kind == Val::tuple) return base.items[static_cast<size_t>(i)];
      if (base.is_constant())
        return typed(In(base.in.constant().items()[static_cast<size_t>(i)]),
                     t->element(static_cast<size_t>(i)));
      return simple("prim::TupleIndex", {base.in, In(i)}, t->element(static_cast<size_t>(i)));
    };
    if (index.kind == ExprKind::slice) {
      int64_t step = whole(index.items[2].get(), 1);
      if (step == 0) error(index.at, "a slice's step cannot be 0");
      int64_t start = whole(index.items[0].get(), step > 0 ? 0 : n - 1),
              stop = whole(index.items[1].get(), step > 0 ? n : -n - 1);
      auto clamp = [&](int64_t i) {
        return std::clamp<int64_t>(i < 0 ? i + n : i, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
      };
      Val v;
      v.kind = Val::tuple;
      std::vector<const Type*> types;
      for (int64_t i = clamp(start), end = clamp(stop); step > 0 ? i < end : i > end; i += step) {
        v.items.push_back(get(i));
        types.push_back(v.items.back().type);
      }
      v.type = Type::tuple(types);
      return v;
    }
    Val i = value(index);
    if (i.is_constant() && i.in.constant().is_int()) {
      int64_t k = i.in.constant().to_int();
      if (k < -n || k >= n)
        error(index.at, fmt::format("Tuple index out of range. Tuple is length {} and index is {}", n, k));
      return get(k < 0 ? k + n : k);
    }
    const Type* common = n ? t->element(0) : nullptr;
    for (const Type* x : t->elements()) common = common ? unify(common, x) : nullptr;
    if (!common)
      error(index.at,
            fmt::format("Cannot index into a tuple with a non-integer literal because we cannot resolve the "
                        "output type"));
    base = materialise(base);
    return simple("prim::TupleIndex", {base.in, operand(i)}, common);
  }
  base = materialise(std::move(base));
  if (t->is(TypeKind::class_) || t->is(TypeKind::interface)) {
    ClassType* c = unit_.find_class(t->name());
    Val i = index.kind == ExprKind::slice ? Val() : value(index);
    if (c && index.kind == ExprKind::slice &&
        (c->short_name() == "ModuleList" || c->short_name() == "Sequential"))
      return subscript_value(modules_of(base, "values", at), e);
    if (c && index.kind != ExprKind::slice) {
      if (Function* f = c->method("__getitem__")) {
        Args args;
        args.positional = {i};
        return call_function(*f, base, std::move(args), at);
      }
      std::string n;
      if (i.is_constant() && i.in.constant().is_int()) {
        int64_t k = i.in.constant().to_int(), count = 0;
        for (const Attribute& a : c->attributes)
          count += isdigit(static_cast<unsigned char>(a.name.view()[0])) != 0;
        n = std::to_string(k < 0 ? k + count : k);
      } else if (i.is_constant() && i.in.constant().is_string()) {
        n = i.in.constant().string();
      }
      if (!n.empty() && c->find(n)) return as_value(value_attribute(base, n, at), at);
    }
    error(at, fmt::format("{} cannot be indexed with this; an index of a list of modules must be a constant",
                          t->name().view()));
  }
  Args args;
  args.positional.push_back(base);
  if (index.kind == ExprKind::slice) {
    for (const ExprPtr& part : index.items)
      args.positional.push_back(part ? value(*part) : constant(tern::Value()));
    if (!index.items[2]) args.positional.back() = constant(1);
    return call_builtin("aten::slice", std::move(args), at);
  }
  args.positional.push_back(value(index));
  return call_builtin("aten::__getitem__", std::move(args), at);
}

// Each index in turn: ints select, slices slice, None unsqueezes, ... skips; tensors and lists are gathered
// into one aten::index. With `indices` the last step is left to the caller, for assignment.
Val Compiler::index_tensor(Val base, const Expr& e, std::vector<Val>* indices) {
  std::vector<const Expr*> parts;
  for (size_t i = 1; i < e.items.size(); ++i) {
    const Expr* x = e.items[i].get();
    if (e.items.size() == 2 && x->kind == ExprKind::tuple)
      for (const ExprPtr& p : x->items) parts.push_back(p.get());
    else
      parts.push_back(x);
  }
  struct Part {
    const Expr* expr;
    Val value;
    bool tensor = false;
  };
  std::vector<Part> all;
  size_t taken = 0;  // dims of the tensor that are used up
  for (const Expr* x : parts) {
    Part p{x, {}};
    if (x->kind != ExprKind::slice && x->kind != ExprKind::dots) {
      p.value = value(*x);
      if (p.value.type->is(TypeKind::list)) {
        Args args;
        args.positional.push_back(p.value);
        p.value = call_builtin("aten::tensor", std::move(args), x->at);
      }
      if (p.value.type->is(TypeKind::optional)) error(x->at, "an index that may be None: test it first");
      p.tensor = p.value.type->is_tensor();
    }
    if (x->kind == ExprKind::slice ||
        (x->kind != ExprKind::dots && !p.value.is_none() && !p.value.type->is(TypeKind::bool_)))
      ++taken;
    all.push_back(std::move(p));
  }
  Val v = std::move(base);
  int64_t dim = 0;
  bool after_dots = false;
  std::vector<std::pair<int64_t, Val>> tensors;
  auto run = [&](const char* name, std::vector<Val> args, uint32_t at) {
    Args a;
    a.positional = std::move(args);
    return call_builtin(name, std::move(a), at);
  };
  for (size_t i = 0; i < all.size(); ++i) {
    const Part& p = all[i];
    uint32_t at = p.expr->at;
    if (p.expr->kind == ExprKind::dots) {
      if (after_dots) error(at, "an index can have one '...' only");
      after_dots = true;
      // What comes after counts from the end.
      int64_t rest = 0;
      for (size_t k = i + 1; k < all.size(); ++k)
        if (all[k].expr->kind == ExprKind::slice || all[k].tensor || all[k].value.is_none() ||
            all[k].value.type->is(TypeKind::int_))
          ++rest;
      dim = -rest;
      continue;
    }
    if (p.expr->kind == ExprKind::slice) {
      auto bound = [&](size_t k) {
        return p.expr->items[k] ? value(*p.expr->items[k]) : constant(tern::Value());
      };
      Val start = bound(0), stop = bound(1), step = p.expr->items[2] ? value(*p.expr->items[2]) : constant(1);
      if (!(start.is_none() && stop.is_none() && !p.expr->items[2]))
        v = run("aten::slice", {v, constant(dim), start, stop, step}, at);
      else if (all.size() == 1)
        v = run("aten::slice", {v, constant(dim), start, stop, step}, at);
      ++dim;
    } else if (p.tensor) {
      tensors.emplace_back(dim, p.value);
      ++dim;
    } else if (p.value.is_none()) {
      v = run("aten::unsqueeze", {v, constant(dim)}, at);
      ++dim;
    } else if (p.value.type->is(TypeKind::int_) || p.value.type->is(TypeKind::number) ||
               p.value.type->is(TypeKind::any)) {
      v = run("aten::select", {v, constant(dim), p.value}, at);
      if (dim < 0) ++dim;
    } else {
      error(at,
            fmt::format(
                "Unsupported operation: indexing tensor with unsupported index type '{}'. Only ints, slices, "
                "lists and tensors are supported",
                say(p.value)));
    }
  }
  if (tensors.empty()) return v;
  if (after_dots && tensors.back().first < 0)
    error(e.at, "Ellipses followed by tensor indexing is currently not supported");
  std::vector<Val> list;
  for (auto& [d, t] : tensors) {
    while (static_cast<int64_t>(list.size()) < d) list.push_back(constant(tern::Value()));
    list.push_back(t);
  }
  if (indices) {
    *indices = std::move(list);
    return v;
  }
  Val l;
  l.kind = Val::list;
  l.items = std::move(list);
  l.type = Type::list(Type::optional(Type::tensor()));
  return run("aten::index", {v, l}, e.at);
}

}  // namespace tern::script
