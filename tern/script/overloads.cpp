// Which overload a call means: types matched with TorchScript's implicit conversions.

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

namespace tern::script {
namespace {

std::string say(const ir::Type* t) { return t->str(ir::TypeStyle::annotation); }

}  // namespace

// Leniency: 0 as the types say; 1 with TorchScript's implicit conversions; 2 with numbers for tensors.
std::optional<Val> Compiler::convert(const Val& v, const Type* type, int leniency) {
  const Type* t = v.type;
  if (v.kind != Val::plain) {
    if (type->is(TypeKind::any)) return v;
    Bindings none;
    if (v.kind == Val::list && type->is(TypeKind::list)) {
      Val out = v;
      for (Val& item : out.items) {
        std::optional<Val> c = convert(item, type->element(), leniency);
        if (!c) return std::nullopt;
        item = *c;
      }
      out.type = type;
      return out;
    }
    if (v.kind == Val::tuple && type->is(TypeKind::tuple) && type->elements().size() == v.items.size()) {
      Val out = v;
      for (size_t i = 0; i < out.items.size(); ++i) {
        std::optional<Val> c = convert(out.items[i], type->element(i), leniency);
        if (!c) return std::nullopt;
        out.items[i] = *c;
        if (out.items[i].type->is(TypeKind::none)) out.items[i].type = type->element(i);
      }
      out.type = type;
      return out;
    }
    if (v.kind == Val::tuple && type->is(TypeKind::list)) {
      Val out = v;
      out.kind = Val::list;
      for (Val& item : out.items) {
        std::optional<Val> c = convert(item, type->element(), leniency);
        if (!c) return std::nullopt;
        item = *c;
      }
      out.type = type;
      return out;
    }
    if (type->is(TypeKind::optional)) return convert(v, type->element(), leniency);
    if (type->is(TypeKind::union_)) {
      for (const Type* u : type->elements())
        if (std::optional<Val> c = convert(v, u, leniency)) return c;
    }
    return std::nullopt;
  }
  if (t->fits(*type)) {
    if (type->is(TypeKind::number) && t->is(TypeKind::bool_) && leniency < 1) return std::nullopt;
    Val out = v;
    if (t->is(TypeKind::none) || (t->is(TypeKind::any) && v.in.is_value()))
      out.type = t->is(TypeKind::any) ? t : type;
    return out;
  }
  if (type->is(TypeKind::optional))
    return t->is(TypeKind::optional) ? std::nullopt : convert(v, type->element(), leniency);
  if (t->is(TypeKind::tuple) && type->is(TypeKind::list)) {
    for (const Type* e : t->elements())
      if (!e->fits(*type->element())) return std::nullopt;
    Val out;
    out.kind = Val::list;
    out.type = type;
    if (v.is_constant()) {
      for (const tern::Value& item : v.in.constant().items()) out.items.push_back(constant(item));
    } else {
      ir::Node& unpack = make("prim::TupleUnpack", {v.in}, t->elements().vec());
      for (ir::Value* o : unpack.outputs()) out.items.push_back(typed(*o, o->type()));
    }
    return out;
  }
  if (leniency < 1) return std::nullopt;
  if (t->is_tensor()) {
    if (type->is(TypeKind::int_)) return simple("aten::IntImplicit", {v.in}, type);
    if (type->is(TypeKind::float_)) return simple("aten::FloatImplicit", {v.in}, type);
    if (type->is(TypeKind::complex_)) return simple("aten::ComplexImplicit", {v.in}, type);
    if (type->is(TypeKind::number)) return simple("aten::ScalarImplicit", {v.in}, type);
  }
  if (type->is(TypeKind::float_) && (t->is(TypeKind::int_) || t->is(TypeKind::number))) {
    if (v.is_constant() && !v.in.constant().scalar().is_symbolic())
      return constant(v.in.constant().to_double());
    return simple("aten::Float", {v.in}, type);
  }
  if (type->is(TypeKind::int_) && t->is(TypeKind::number)) return simple("aten::Int", {v.in}, type);
  if (type->is(TypeKind::complex_) && (t->is(TypeKind::int_) || t->is(TypeKind::float_)))
    return simple("aten::Complex", {v.in}, type);
  if (type->is(TypeKind::device) && t->is(TypeKind::string)) return simple("aten::device", {v.in}, type);
  if (leniency >= 2 && type->is_tensor() &&
      (t->is(TypeKind::int_) || t->is(TypeKind::float_) || t->is(TypeKind::number) || t->is(TypeKind::bool_)))
    return v;
  return std::nullopt;
}

std::optional<Val> Compiler::coerce(const Val& v, const Pattern& p, Bindings& b, int leniency,
                                    int fixed_size) {
  switch (p.kind) {
    case Pattern::exact:
      return convert(v, p.type, leniency);
    case Pattern::variable: {
      if (const Type* bound = b.find(p.name)) return convert(v, bound, leniency);
      b.items.emplace_back(p.name, plain(v.type));
      return v;
    }
    case Pattern::optional:
      if (v.is_none()) return v;
      if (v.kind == Val::plain && v.type->is(TypeKind::optional)) {
        Val inner = v;
        inner.type = v.type->element();
        // The value stays optional: only its type is matched.
        Bindings trial = b;
        std::optional<Val> c = coerce(inner, p.items[0], trial, 0, fixed_size);
        if (!c) return std::nullopt;
        b = trial;
        return v;
      }
      return coerce(v, p.items[0], b, leniency, fixed_size);
    case Pattern::list: {
      if (v.kind == Val::list || v.kind == Val::tuple) {
        Val out = v;
        out.kind = Val::list;
        const Type* element = nullptr;
        for (Val& item : out.items) {
          std::optional<Val> c = coerce(item, p.items[0], b, leniency, 0);
          if (!c) return std::nullopt;
          item = *c;
          element = element ? element : plain(item.type);
        }
        if (out.items.empty() && p.items[0].kind == Pattern::variable && !b.find(p.items[0].name))
          b.items.emplace_back(p.items[0].name,
                               v.type->is(TypeKind::list) ? v.type->element() : Type::tensor());
        out.type =
            Type::list(p.items[0].kind == Pattern::exact || !element ? instantiate(p.items[0], b) : element);
        return out;
      }
      if (v.type->is(TypeKind::any)) return v;
      if (v.type->is(TypeKind::list)) {
        const Pattern& inner = p.items[0];
        if (inner.kind == Pattern::variable) {
          const Type* bound = b.find(inner.name);
          if (!bound)
            b.items.emplace_back(inner.name, plain(v.type->element()));
          else if (!v.type->element()->fits(*bound))
            return std::nullopt;
          return v;
        }
        if (inner.kind == Pattern::exact) {
          bool ok = v.type->element()->fits(*inner.type);
          return ok ? std::optional<Val>(v) : std::nullopt;
        }
        if (inner.kind == Pattern::optional && inner.items[0].kind == Pattern::exact) {
          const Type* e =
              v.type->element()->is(TypeKind::optional) ? v.type->element()->element() : v.type->element();
          return e->fits(*inner.items[0].type) ? std::optional<Val>(v) : std::nullopt;
        }
        if (inner.kind == Pattern::tuple && v.type->element()->is(TypeKind::tuple) &&
            v.type->element()->elements().size() == inner.items.size()) {
          for (size_t i = 0; i < inner.items.size(); ++i) {
            const Type* e = v.type->element()->element(i);
            if (inner.items[i].kind == Pattern::variable && !b.find(inner.items[i].name))
              b.items.emplace_back(inner.items[i].name, plain(e));
          }
          return v;
        }
        return std::nullopt;
      }
      if (v.type->is(TypeKind::tuple)) {
        const Type* element = v.type->elements().size() ? v.type->element(0) : Type::any();
        for (const Type* e : v.type->elements()) {
          const Type* both = element ? unify(element, e) : nullptr;
          if (!both) return std::nullopt;
          element = both;
        }
        if (p.items[0].kind == Pattern::exact && !element->fits(*p.items[0].type)) return std::nullopt;
        return convert(v, Type::list(element), leniency);
      }
      if (fixed_size > 0) {
        std::optional<Val> one = coerce(v, p.items[0], b, leniency, 0);
        if (!one) return std::nullopt;
        Val out;
        out.kind = Val::list;
        out.items.assign(static_cast<size_t>(fixed_size), *one);
        out.type = Type::list(plain(one->type));
        return out;
      }
      return std::nullopt;
    }
    case Pattern::dict: {
      if (v.type->is(TypeKind::any)) return v;
      if (!v.type->is(TypeKind::dict)) return std::nullopt;
      for (size_t i = 0; i < 2; ++i) {
        const Pattern& inner = p.items[i];
        const Type* e = v.type->element(i);
        if (inner.kind != Pattern::variable) {
          if (inner.kind == Pattern::exact && !e->fits(*inner.type)) return std::nullopt;
          continue;
        }
        const Type* bound = b.find(inner.name);
        if (!bound)
          b.items.emplace_back(inner.name, plain(e));
        else if (!e->fits(*bound))
          return std::nullopt;
      }
      return v;
    }
    case Pattern::tuple:
      return v.type->is(TypeKind::tuple) && v.type->elements().size() == p.items.size()
                 ? std::optional<Val>(v)
                 : std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::vector<ir::In>> Compiler::match(const Signature& s, const Args& args, int leniency,
                                                   Bindings& bindings, std::string* why) {
  auto refuse = [&](std::string text) {
    if (why) *why = std::move(text);
    return std::nullopt;
  };
  std::vector<const Val*> slots(s.args.size(), nullptr);
  size_t positions = 0;
  for (const SigArg& a : s.args) positions += !a.keyword_only;
  std::vector<Val> variadic;
  Val tail;  // view(2, 3) for view(int[] size)
  for (size_t i = 0; i < args.positional.size(); ++i) {
    if (i < positions) {
      slots[i] = &args.positional[i];
    } else if (s.vararg) {
      variadic.push_back(args.positional[i]);
    } else {
      // The last positional list takes the rest: x.view(2, 3), x.permute(0, 2, 1).
      size_t last = positions - 1;
      bool list_of_ints = positions && s.op && s.args[last].type.kind == Pattern::list &&
                          s.args[last].type.items[0].kind == Pattern::exact &&
                          s.args[last].type.items[0].type->is(TypeKind::int_);
      if (!list_of_ints)
        return refuse(fmt::format("takes {} positional arguments but {} were given", positions,
                                  args.positional.size()));
      if (tail.kind == Val::plain) {
        tail.kind = Val::list;
        tail.items.push_back(*slots[last]);
        tail.type = Type::list(Type::integer());
      }
      tail.items.push_back(args.positional[i]);
    }
  }
  if (tail.kind == Val::list) slots[positions - 1] = &tail;
  // view(5): one int for the whole list.
  Val single;
  if (s.op && positions && args.positional.size() == positions && tail.kind == Val::plain) {
    const SigArg& a = s.args[positions - 1];
    if (a.type.kind == Pattern::list && !a.fixed_size && a.type.items[0].kind == Pattern::exact &&
        a.type.items[0].type->is(TypeKind::int_) && slots[positions - 1]->kind == Val::plain &&
        slots[positions - 1]->type->is(TypeKind::int_)) {
      single.kind = Val::list;
      single.items.push_back(*slots[positions - 1]);
      single.type = Type::list(Type::integer());
      slots[positions - 1] = &single;
    }
  }
  for (auto& [name, v] : args.keywords) {
    size_t at = s.args.size();
    for (size_t i = 0; i < s.args.size(); ++i)
      if (s.args[i].name == name || (name.view() == "input" && s.args[i].name.view() == "self") ||
          (name.view() == "axis" && s.args[i].name.view() == "dim"))
        at = i;
    if (at == s.args.size()) return refuse(fmt::format("unknown keyword argument '{}'", name.view()));
    if (slots[at]) return refuse(fmt::format("argument '{}' is given twice", name.view()));
    slots[at] = &v;
  }
  std::vector<In> inputs;
  for (size_t i = 0; i < s.args.size(); ++i) {
    const SigArg& a = s.args[i];
    if (!slots[i]) {
      if (a.default_value)
        inputs.push_back(In(*a.default_value));
      else if (a.type.kind == Pattern::optional)
        inputs.push_back(In());
      else
        return refuse(fmt::format("argument '{}' is missing", a.name.view()));
      continue;
    }
    std::optional<Val> c = coerce(*slots[i], a.type, bindings, leniency, a.fixed_size);
    if (!c)
      return refuse(fmt::format("expected a value of type {} for argument '{}' but found {}",
                                script::str(a.type), a.name.view(), say(slots[i]->type)));
    if (c->kind == Val::list && s.op) {
      std::vector<In> items;
      for (const Val& item : c->items) items.push_back(operand(item));
      inputs.push_back(In::list(std::move(items)));
    } else {
      inputs.push_back(operand(*c));
    }
  }
  for (const Val& v : variadic) inputs.push_back(operand(v));
  return inputs;
}

std::optional<Val> Compiler::try_builtin(const std::string& name, const Args& args, uint32_t at,
                                         std::string* why) {
  Symbol symbol(name.substr(0, name.find('.')));
  const std::vector<Signature>& all = signatures(symbol);
  at_ = at;
  for (int leniency = 0; leniency < 3; ++leniency) {
    for (const Signature& s : all) {
      Bindings bindings;
      std::string reason;
      std::optional<std::vector<In>> inputs = match(s, args, leniency, bindings, &reason);
      if (!inputs) {
        if (leniency == 2 && why) *why += fmt::format("\n  {}: {}", s.str(), reason);
        continue;
      }
      at_ = at;
      if (s.op) return result(call_op(*s.op, *inputs));
      std::vector<const Type*> types;
      for (const Pattern& r : s.returns) {
        const Type* t = instantiate(r, bindings);
        if (!t->is(TypeKind::none)) types.push_back(t);
      }
      return result(make(symbol, std::move(*inputs), types));
    }
  }
  return std::nullopt;
}

Val Compiler::call_builtin(const std::string& name, Args args, uint32_t at) {
  if (name == "aten::add_" && args.positional.size() == 2 && args.positional[0].type->is(TypeKind::list)) {
    Val list = materialise(args.positional[0]);
    args.positional[0] = list;
    call_builtin("aten::extend", std::move(args), at);
    return list;
  }
  std::string why;
  if (std::optional<Val> v = try_builtin(name, args, at, &why)) return *v;
  Symbol symbol(name);
  bool known = !signatures(symbol).empty();
  if (!known && name.starts_with("aten::")) {
    // min, max and abs of numbers are prim's; so are a few more that source spells with torch.
    std::string other = "prim::" + name.substr(6);
    if (!signatures(Symbol(other)).empty())
      if (std::optional<Val> v = try_builtin(other, args, at, &why)) return *v;
  }
  if (!unit_.known_operators_only) return unknown_operator(name, std::move(args), at);
  if (!known) error(at, fmt::format("there is no operator {}", name));
  std::string given;
  for (const Val& v : args.positional) given += (given.empty() ? "" : ", ") + say(v.type);
  for (auto& [k, v] : args.keywords) given += (given.empty() ? "" : ", ") + k.str() + "=" + say(v.type);
  error(at, fmt::format("{}({}): no overload takes these arguments:{}", name, given, why));
}

// Kept as it was written: it prints back, and running it says what is missing.
Val Compiler::unknown_operator(const std::string& name, Args args, uint32_t at) {
  at_ = at;
  std::vector<In> inputs;
  for (const Val& v : args.positional) inputs.push_back(operand(v));
  std::vector<tern::Value> names;
  for (auto& [k, v] : args.keywords) {
    inputs.push_back(operand(v));
    names.push_back(tern::Value(k.view()));
  }
  at_ = at;
  ir::Node& n = make(Symbol(name), std::move(inputs), {Type::any()});
  if (!names.empty()) n.set_attribute("keywords", tern::Value::list(std::move(names), Type::string()));
  return result(n);
}

Val Compiler::to_type(Val v, const Type* type, uint32_t at, std::string_view what) {
  if (v.kind == Val::plain && v.type->is(TypeKind::any)) {
    // The operator it comes from is not known: what the annotation says is believed.
    if (v.in.is_value() && v.in.value()->node() && v.in.value()->type()->is(TypeKind::any) &&
        v.in.value()->node()->num_outputs() == 1)
      v.in.value()->set_type(type);
    v.type = type;
    return v;
  }
  if (std::optional<Val> c = convert(v, type, 1)) {
    if (c->kind == Val::plain && c->type->is(TypeKind::none)) c->type = type;
    return *c;
  }
  error(at, fmt::format("{} should have type {} but has type {}", what, say(type), say(v.type)));
}

}  // namespace tern::script
