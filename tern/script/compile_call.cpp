// Calls: overloads by type with TorchScript's implicit conversions, functions, methods, constructors, and the
// names the language itself gives a meaning.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

namespace tern::script {
namespace {

std::string say(const ir::Type* t) { return t->str(ir::TypeStyle::annotation); }

}  // namespace

Compiler::Args Compiler::arguments(const Expr& call, size_t skip) {
  Args args;
  for (size_t i = 1 + skip; i < call.items.size(); ++i) {
    const Expr& a = *call.items[i];
    if (a.kind == ExprKind::keyword) {
      args.keywords.emplace_back(a.text, value(*a.items[0]));
    } else if (a.kind == ExprKind::starred) {
      Sugar over;
      over.self = value(*a.items[0]);
      auto items = static_items(iterable(std::move(over), a.at), a.at);
      if (!items) error(a.at, "only a tuple can be spread over arguments: the length of a list is not known");
      for (Sugar& s : *items) args.positional.push_back(as_value(std::move(s), a.at));
    } else {
      args.positional.push_back(value(a));
    }
  }
  return args;
}

Sugar Compiler::call(const Expr& e, const Type* hint) {
  Sugar callee = sugar(*e.items[0]);
  Sugar s;
  switch (callee.kind) {
    case Sugar::special: {
      if (callee.text == "__new__") {
        s.self = simple("prim::CreateObject", {}, callee.owner->type());
        return s;
      }
      if (callee.text == "tolist") {
        const Type* type = hint ? hint : Type::list(Type::floating());
        s.self = simple("prim::tolist", {operand(callee.self)}, type);
        return s;
      }
      return special(callee.text, e, hint);
    }
    case Sugar::builtin: {
      if (callee.text == "jit::is_scripting") {
        s.self = constant(true);
        return s;
      }
      // Their first argument is a type, or they are structural: written by PyTorch with a name of their own.
      if (callee.text == "prim::unchecked_cast" || callee.text == "prim::annotate")
        return special(callee.text.substr(6), e, hint);
      Args args = arguments(e);
      if (callee.has_self) args.positional.insert(args.positional.begin(), callee.self);
      s.self = call_builtin(callee.text, std::move(args), e.at);
      return s;
    }
    case Sugar::function:
      s.self = call_function(*callee.callee, std::nullopt, arguments(e), e.at);
      return s;
    case Sugar::method:
      s.self = call_function(*callee.callee, callee.self, arguments(e), e.at);
      return s;
    case Sugar::class_:
      s.self = construct(*callee.owner, arguments(e), e.at);
      return s;
    case Sugar::value:
      if (callee.self.type->is(TypeKind::class_) || callee.self.type->is(TypeKind::interface)) {
        ClassType* c = unit_.find_class(callee.self.type->name());
        Function* f = c ? c->method(c->is_module() ? "forward" : "__call__") : nullptr;
        if (!f)
          error(e.at, fmt::format("{} has no {} to call", callee.self.type->name().view(),
                                  c && c->is_module() ? "forward" : "__call__"));
        s.self = call_function(*f, callee.self, arguments(e), e.at);
        return s;
      }
      error(e.at, fmt::format("a value of type {} cannot be called", say(callee.self.type)));
    case Sugar::type:
      if (callee.type_value && callee.type_value->is(TypeKind::list) && e.items.size() == 1) {
        s.self = simple("prim::ListConstruct", {}, callee.type_value);
        return s;
      }
      if (callee.type_value && callee.type_value->is(TypeKind::dict) && e.items.size() == 1) {
        s.self = simple("prim::DictConstruct", {}, callee.type_value);
        return s;
      }
      error(e.at, fmt::format("the type {} cannot be called", say(callee.type_value)));
    case Sugar::space:
      error(e.at, fmt::format("'{}' is not defined", callee.text));
    default:
      error(e.at, "this cannot be called");
  }
}

// ---- overloads ----

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

// ---- functions, methods, classes ----

Val Compiler::call_function(Function& f, std::optional<Val> self, Args args, uint32_t at) {
  unit_.declare(f);
  if (!f.returns()) unit_.compile(f);
  const std::vector<Argument>& wanted = f.args();
  std::vector<In> inputs;
  size_t first = 0;
  if (f.owner() && self) {
    inputs.push_back(operand(*self));
    first = 1;
  } else if (f.owner() && !self) {
    // Class.method(self, ...): the object is the first argument.
    if (args.positional.empty()) error(at, fmt::format("{} needs an object", f.qualified().view()));
    self = args.positional[0];
    args.positional.erase(args.positional.begin());
    inputs.push_back(operand(*self));
    first = 1;
  }
  std::vector<const Val*> slots(wanted.size(), nullptr);
  if (args.positional.size() + first > wanted.size())
    error(at, fmt::format("{} takes {} arguments but {} were given: {}", f.qualified().view(),
                          wanted.size() - first, args.positional.size(), f.signature()));
  for (size_t i = 0; i < args.positional.size(); ++i) slots[first + i] = &args.positional[i];
  for (auto& [k, v] : args.keywords) {
    size_t found = wanted.size();
    for (size_t i = first; i < wanted.size(); ++i)
      if (wanted[i].name == k) found = i;
    if (found == wanted.size())
      error(at, fmt::format("{} has no argument '{}': {}", f.qualified().view(), k.view(), f.signature()));
    if (slots[found]) error(at, fmt::format("argument '{}' is given twice", k.view()));
    slots[found] = &v;
  }
  for (size_t i = first; i < wanted.size(); ++i) {
    if (!slots[i]) {
      if (!wanted[i].default_value)
        error(at, fmt::format("argument '{}' is missing: {}", wanted[i].name.view(), f.signature()));
      inputs.push_back(In(*wanted[i].default_value));
      continue;
    }
    Val v = to_type(*slots[i], wanted[i].type, at,
                    fmt::format("argument '{}' of {}", wanted[i].name.view(), f.qualified().view()));
    inputs.push_back(materialise(std::move(v), wanted[i].type).in);
  }
  at_ = at;
  const Type* returns = f.returns() ? f.returns() : Type::any();
  ir::Node& n = make(self ? "prim::CallMethod" : "prim::CallFunction", std::move(inputs), {returns});
  n.set_attribute("name", tern::Value(self ? f.name() : f.qualified().view()));
  return result(n);
}

Val Compiler::construct(ClassType& type, Args args, uint32_t at) {
  if (type.kind == ClassKind::named_tuple) {
    Val v;
    v.kind = Val::tuple;
    v.type = type.type();
    std::vector<std::optional<Val>> slots(type.attributes.size());
    if (args.positional.size() > slots.size())
      error(at, fmt::format("{} has {} fields but {} values were given", type.name.view(), slots.size(),
                            args.positional.size()));
    for (size_t i = 0; i < args.positional.size(); ++i) slots[i] = args.positional[i];
    for (auto& [k, x] : args.keywords) {
      size_t i = 0;
      while (i < slots.size() && type.attributes[i].name != k) ++i;
      if (i == slots.size()) error(at, fmt::format("{} has no field '{}'", type.name.view(), k.view()));
      slots[i] = x;
    }
    std::vector<In> inputs;
    for (size_t i = 0; i < slots.size(); ++i) {
      const Attribute& a = type.attributes[i];
      if (!slots[i] && a.role == Role::constant) slots[i] = constant(a.value);
      if (!slots[i])
        error(at, fmt::format("the field '{}' of {} is missing", a.name.view(), type.name.view()));
      inputs.push_back(
          materialise(to_type(*slots[i], a.type, at, fmt::format("field '{}'", a.name.view())), a.type).in);
    }
    at_ = at;
    return simple("prim::TupleConstruct", std::move(inputs), type.type());
  }
  if (type.kind == ClassKind::module)
    error(at, fmt::format("modules cannot be made in scripts: {} is one", type.name.view()));
  if (type.kind != ClassKind::plain) error(at, fmt::format("objects of {} cannot be made", type.name.view()));
  Function* init = type.method("__init__");
  if (init) unit_.compile(*init);
  at_ = at;
  Val self = simple("prim::CreateObject", {}, type.type());
  if (init) call_function(*init, self, std::move(args), at);
  return self;
}

// ---- the language's own names ----

Sugar Compiler::special(const std::string& name, const Expr& e, const Type* hint) {
  Sugar s;
  size_t count = e.items.size() - 1;
  auto need = [&](size_t low, size_t high) {
    if (count < low || count > high)
      error(e.at, fmt::format("{} takes {} arguments but {} were given", name,
                              low == high ? std::to_string(low) : fmt::format("{} to {}", low, high), count));
  };
  auto arg = [&](size_t i) -> const Expr& { return *e.items[i + 1]; };
  if (name == "annotate" || name == "unchecked_cast" || name == "cast") {
    need(2, 2);
    const Type* type = type_expr(arg(0));
    Val v = value(arg(1), type);
    if (name != "annotate") {
      v = materialise(v, type);
      s.self = v.in.is_value() ? simple("prim::unchecked_cast", {v.in}, type) : typed(v.in, type);
    } else if (v.kind == Val::list || v.kind == Val::tuple) {
      s.self = to_type(std::move(v), type, e.at, "the value");
      s.self.type = type;
    } else {
      s.self = to_type(materialise(std::move(v), type), type, e.at, "the value");
      if (s.self.kind == Val::plain) s.self.type = type;
    }
    return s;
  }
  if (name == "uninitialized") {
    need(1, 1);
    s.self = uninitialized(type_expr(arg(0)));
    return s;
  }
  if (name == "getattr") {
    need(2, 3);
    Val n = value(arg(1));
    if (!n.is_constant() || !n.in.constant().is_string()) error(arg(1).at, "getattr takes a name in quotes");
    Sugar object = sugar(arg(0));
    if (count == 3 && object.kind == Sugar::value && object.self.type->is(TypeKind::class_)) {
      ClassType* c = unit_.find_class(object.self.type->name());
      Symbol wanted(n.in.constant().string());
      if (c && !c->find(wanted) && !c->method(wanted)) return sugar(arg(2));
    }
    return attribute(object, n.in.constant().string(), arg(1).at);
  }
  if (name == "isinstance" || name == "hasattr") {
    need(2, 2);
    s.self = condition(e).value;
    return s;
  }
  if (name == "print") {
    Args args = arguments(e);
    std::vector<In> inputs;
    for (const Val& v : args.positional) inputs.push_back(operand(v));
    make("prim::Print", std::move(inputs), {});
    s.self = constant(tern::Value());
    return s;
  }
  if (name == "range" || name == "enumerate" || name == "zip" || name == "reversed") {
    s.kind = Sugar::iterable;
    s.text = name;
    if (name == "range")
      need(1, 3);
    else if (name == "enumerate")
      need(1, 2);
    else if (name == "reversed")
      need(1, 1);
    for (size_t i = 0; i < count; ++i) {
      const Expr& a = arg(i);
      if (a.kind == ExprKind::keyword) {
        Sugar v;
        v.self = value(*a.items[0]);
        s.items.push_back(std::move(v));
        continue;
      }
      Sugar item = sugar(a);
      if (name == "range" || (name == "enumerate" && i == 1)) {
        std::optional<Val> n = convert(as_value(std::move(item), a.at), Type::integer(), 1);
        if (!n) error(a.at, fmt::format("{} takes integers", name));
        item = Sugar();
        item.self = *n;
      } else {
        item = iterable(std::move(item), a.at);
      }
      s.items.push_back(std::move(item));
    }
    return s;
  }
  if (name == "tuple") {
    need(0, 1);
    s.self.kind = Val::tuple;
    std::vector<const Type*> types;
    if (count) {
      auto items = static_items(iterable(sugar(arg(0)), e.at), e.at);
      if (!items) error(e.at, "tuple() takes what has a known length: a tuple or a display");
      for (Sugar& i : *items) {
        s.self.items.push_back(as_value(std::move(i), e.at));
        types.push_back(s.self.items.back().type);
      }
    }
    s.self.type = Type::tuple(types);
    return s;
  }
  if (name == "list") {
    need(0, 1);
    if (count == 0) {
      s.self = simple("prim::ListConstruct", {},
                      hint && hint->is(TypeKind::list) ? hint : Type::list(Type::tensor()));
      return s;
    }
    Sugar over = sugar(arg(0));
    if (over.kind == Sugar::value &&
        (over.self.type->is(TypeKind::list) || over.self.type->is(TypeKind::string))) {
      Args args;
      args.positional.push_back(materialise(over.self));
      s.self = call_builtin("aten::list", std::move(args), e.at);
      return s;
    }
    if (over.kind == Sugar::value && over.self.type->is(TypeKind::dict)) {
      Args args;
      args.positional.push_back(over.self);
      s.self = call_builtin("aten::keys", std::move(args), e.at);
      return s;
    }
    over = iterable(std::move(over), e.at);
    if (auto items = static_items(over, e.at)) {
      s.self.kind = Val::list;
      const Type* common = nullptr;
      for (Sugar& i : *items) {
        s.self.items.push_back(as_value(std::move(i), e.at));
        common = common ? unify(common, plain(s.self.items.back().type)) : plain(s.self.items.back().type);
        if (!common) error(e.at, "the elements of a list must have one type");
      }
      s.self.type = Type::list(common ? common : Type::tensor());
      s.self = materialise(s.self);
      return s;
    }
    // [x for x in over]
    ir::Node& made = make("prim::ListConstruct", {}, {Type::list(Type::tensor())});
    Val trip = length(over, e.at);
    ir::Node& node = make("prim::Loop", {operand(trip), In(true)}, {});
    ir::Block& block = node.add_block();
    ir::Value& counter = block.add_param(Type::integer(), "i");
    {
      ir::Node& saved = graph_->insert_point();
      graph_->insert_at_end(block);
      Val x = materialise(as_value(element(over, typed(counter, Type::integer()), e.at), e.at));
      made.output().set_type(Type::list(plain(x.type)));
      make("aten::append", {In(made.output()), x.in}, {made.output().type()});
      graph_->insert_at(saved);
    }
    block.add_return(In(true));
    s.self = typed(made.output(), made.output().type());
    return s;
  }
  if (name == "dict") {
    if (count == 0) {
      s.self = simple("prim::DictConstruct", {},
                      hint && hint->is(TypeKind::dict) ? hint : Type::dict(Type::string(), Type::tensor()));
      return s;
    }
    Args args = arguments(e);
    if (args.positional.empty()) {
      std::vector<In> inputs;
      const Type* common = nullptr;
      for (auto& [k, v] : args.keywords) {
        inputs.push_back(In(k.str()));
        inputs.push_back(operand(v));
        common = common ? unify(common, plain(v.type)) : plain(v.type);
        if (!common) error(e.at, "the values of a dict must have one type");
      }
      s.self = simple("prim::DictConstruct", std::move(inputs), Type::dict(Type::string(), common));
      return s;
    }
    s.self = call_builtin("aten::dict", std::move(args), e.at);
    return s;
  }
  if (name == "super") {
    Val* self = find("self");
    if (!self) error(e.at, "super() stands in methods only");
    s.self = *self;
    return s;
  }
  if (name == "len") {
    need(1, 1);
    Sugar over = sugar(arg(0));
    if (over.kind == Sugar::iterable) {
      s.self = length(over, e.at);
      return s;
    }
    Val v = as_value(std::move(over), e.at);
    if (v.type->is(TypeKind::tuple)) {
      s.self = constant(static_cast<int64_t>(v.type->elements().size()));
      return s;
    }
    if (v.type->is(TypeKind::class_)) {
      ClassType* c = unit_.find_class(v.type->name());
      if (Function* f = c ? c->method("__len__") : nullptr) {
        s.self = call_function(*f, v, {}, e.at);
        return s;
      }
      Sugar module;
      module.self = v;
      auto items = static_items(module, e.at);
      if (!items) error(e.at, fmt::format("{} has no length", v.type->name().view()));
      s.self = constant(static_cast<int64_t>(items->size()));
      return s;
    }
    Args args;
    args.positional.push_back(std::move(v));
    s.self = call_builtin("aten::len", std::move(args), e.at);
    return s;
  }
  static const std::unordered_map<std::string, std::string> builtins = {{"int", "aten::Int"},
                                                                        {"float", "aten::Float"},
                                                                        {"bool", "aten::Bool"},
                                                                        {"complex", "aten::Complex"},
                                                                        {"str", "aten::str"},
                                                                        {"min", "prim::min"},
                                                                        {"max", "prim::max"},
                                                                        {"abs", "prim::abs"},
                                                                        {"sum", "aten::sum"},
                                                                        {"sorted", "aten::sorted"},
                                                                        {"round", "aten::round"},
                                                                        {"ord", "aten::ord"},
                                                                        {"chr", "aten::chr"},
                                                                        {"any", "aten::any"},
                                                                        {"all", "aten::all"},
                                                                        {"divmod", "aten::divmod"},
                                                                        {"pow", "aten::pow"},
                                                                        {"device", "aten::device"},
                                                                        {"rangelist", "prim::rangelist"}};
  auto it = builtins.find(name);
  if (it == builtins.end()) error(e.at, fmt::format("'{}' is not part of TorchScript", name));
  Args args = arguments(e);
  for (Val& v : args.positional)
    if (v.kind != Val::plain) v = materialise(v);
  if (name == "device" && args.positional.size() == 1 && args.positional[0].is_constant() &&
      args.keywords.empty() && args.positional[0].in.constant().is_string()) {
    std::optional<Device> d = Device::parse(args.positional[0].in.constant().string());
    if (!d) error(e.at, fmt::format("'{}' names no device", args.positional[0].in.constant().string()));
    s.self = constant(*d);
    return s;
  }
  if ((name == "float" || name == "int") && args.positional.size() == 1 && args.positional[0].is_constant()) {
    const tern::Value& c = args.positional[0].in.constant();
    if (name == "float" && c.is_string()) {
      const std::string& text = c.string();
      if (text == "inf" || text == "+inf" || text == "Infinity") {
        s.self = constant(double(__builtin_inf()));
        return s;
      }
      if (text == "-inf" || text == "-Infinity") {
        s.self = constant(-double(__builtin_inf()));
        return s;
      }
      if (text == "nan") {
        s.self = constant(double(__builtin_nan("")));
        return s;
      }
    }
    if (name == "float" && args.positional[0].type->is(TypeKind::float_)) {
      s.self = args.positional[0];
      return s;
    }
    if (name == "int" && args.positional[0].type->is(TypeKind::int_)) {
      s.self = args.positional[0];
      return s;
    }
  }
  if (args.positional.size() == 1 && ((name == "bool" && args.positional[0].type->is(TypeKind::bool_)) ||
                                      (name == "int" && args.positional[0].type->is(TypeKind::int_)) ||
                                      (name == "float" && args.positional[0].type->is(TypeKind::float_)) ||
                                      (name == "str" && args.positional[0].type->is(TypeKind::string)))) {
    s.self = args.positional[0];
    return s;
  }
  if ((name == "min" || name == "max") && args.positional.size() > 2) {
    Val v = args.positional[0];
    for (size_t i = 1; i < args.positional.size(); ++i) {
      Args two;
      two.positional = {v, args.positional[i]};
      v = call_builtin(it->second, std::move(two), e.at);
    }
    s.self = v;
    return s;
  }
  s.self = call_builtin(it->second, std::move(args), e.at);
  return s;
}

// ---- iteration ----

Sugar Compiler::iterable(Sugar s, uint32_t at) {
  if (s.kind == Sugar::iterable) return s;
  Val v = as_value(std::move(s), at);
  Sugar out;
  if (v.type->is(TypeKind::dict)) {
    Args args;
    args.positional.push_back(v);
    v = call_builtin("aten::keys", std::move(args), at);
  }
  if (v.kind == Val::list) v = materialise(v);
  bool fine = v.type->is(TypeKind::list) || v.type->is(TypeKind::tuple) || v.type->is_tensor() ||
              v.type->is(TypeKind::string) || v.type->is(TypeKind::class_) || v.type->is(TypeKind::any);
  if (!fine) error(at, fmt::format("a value of type {} cannot be iterated over", say(v.type)));
  out.self = std::move(v);
  return out;
}

Val Compiler::length(const Sugar& over, uint32_t at) {
  at_ = at;
  if (over.kind != Sugar::iterable) {
    Args args;
    args.positional.push_back(over.self);
    return call_builtin("aten::len", std::move(args), at);
  }
  if (over.text == "range") {
    if (over.items.size() == 1) return over.items[0].self;
    Val step = over.items.size() == 3 ? over.items[2].self : constant(1);
    return simple("aten::__range_length",
                  {operand(over.items[0].self), operand(over.items[1].self), operand(step)}, Type::integer());
  }
  if (over.text == "zip") {
    if (over.items.empty()) error(at, "zip() needs something to iterate over");
    std::vector<Val> lengths;
    for (const Sugar& i : over.items) lengths.push_back(length(i, at));
    Val least = lengths[0];
    for (size_t i = 1; i < lengths.size(); ++i)
      least = simple("prim::min", {operand(least), operand(lengths[i])}, Type::integer());
    return least;
  }
  return length(over.items[0], at);
}

Sugar Compiler::element(const Sugar& over, const Val& index, uint32_t at) {
  at_ = at;
  Sugar s;
  if (over.kind == Sugar::iterable) {
    if (over.text == "range") {
      if (over.items.size() == 1) {
        s.self = index;
        return s;
      }
      Val step = over.items.size() == 3 ? over.items[2].self : constant(1);
      s.self = simple("aten::__derive_index", {operand(index), operand(over.items[0].self), operand(step)},
                      Type::integer());
      return s;
    }
    if (over.text == "reversed") {
      Val n = length(over.items[0], at);
      Val last = simple("aten::sub", {operand(n), In(1)}, Type::integer());
      Val mirrored = simple("aten::sub", {operand(last), operand(index)}, Type::integer());
      return element(over.items[0], mirrored, at);
    }
    s.self.kind = Val::tuple;
    if (over.text == "enumerate") {
      Val i = index;
      if (over.items.size() == 2)
        i = simple("aten::add", {operand(index), operand(over.items[1].self)}, Type::integer());
      s.self.items.push_back(i);
      s.self.items.push_back(as_value(element(over.items[0], index, at), at));
    } else {
      for (const Sugar& i : over.items) s.self.items.push_back(as_value(element(i, index, at), at));
    }
    std::vector<const Type*> types;
    for (const Val& v : s.self.items) types.push_back(v.type);
    s.self.type = Type::tuple(types);
    return s;
  }
  Args args;
  args.positional.push_back(over.self);
  if (over.self.type->is_tensor() || over.self.type->is(TypeKind::any)) {
    args.positional.push_back(constant(0));
    args.positional.push_back(index);
    s.self = call_builtin("aten::select", std::move(args), at);
    return s;
  }
  args.positional.push_back(index);
  s.self = call_builtin("aten::__getitem__", std::move(args), at);
  return s;
}

// The elements where there is a fixed number of them: tuples, containers of modules, and enumerate or zip
// over such.
std::optional<std::vector<Sugar>> Compiler::static_items(const Sugar& over, uint32_t at) {
  std::vector<Sugar> out;
  if (over.kind == Sugar::iterable) {
    if (over.text == "range") return std::nullopt;
    std::vector<std::vector<Sugar>> parts;
    size_t least = SIZE_MAX;
    bool any = false;
    size_t sources = over.text == "enumerate" ? 1 : over.items.size();
    for (size_t i = 0; i < sources; ++i) {
      auto items = static_items(over.items[i], at);
      if (items) {
        any = true;
        least = std::min(least, items->size());
        parts.push_back(std::move(*items));
      } else {
        parts.emplace_back();
      }
    }
    if (!any) return std::nullopt;
    if (over.text == "reversed") {
      std::reverse(parts[0].begin(), parts[0].end());
      return std::move(parts[0]);
    }
    int64_t start = 0;
    if (over.text == "enumerate" && over.items.size() == 2) {
      if (!over.items[1].self.is_constant()) error(at, "enumerate over modules takes a constant start");
      start = over.items[1].self.in.constant().to_int();
    }
    for (size_t k = 0; k < least; ++k) {
      Sugar s;
      s.self.kind = Val::tuple;
      if (over.text == "enumerate") s.self.items.push_back(constant(start + static_cast<int64_t>(k)));
      for (size_t i = 0; i < sources; ++i) {
        bool fixed = !parts[i].empty();
        s.self.items.push_back(as_value(
            fixed ? parts[i][k] : element(over.items[i], constant(static_cast<int64_t>(k)), at), at));
      }
      std::vector<const Type*> types;
      for (const Val& v : s.self.items) types.push_back(v.type);
      s.self.type = Type::tuple(types);
      out.push_back(std::move(s));
    }
    return out;
  }
  const Val& v = over.self;
  if (v.kind == Val::tuple) {
    for (const Val& i : v.items) {
      Sugar s;
      s.self = i;
      out.push_back(std::move(s));
    }
    return out;
  }
  if (v.type->is(TypeKind::tuple)) {
    if (v.is_constant()) {
      for (size_t i = 0; i < v.type->elements().size(); ++i) {
        Sugar s;
        s.self = typed(In(v.in.constant().items()[i]), v.type->element(i));
        out.push_back(std::move(s));
      }
      return out;
    }
    at_ = at;
    ir::Node& unpack = make("prim::TupleUnpack", {v.in}, v.type->elements().vec());
    for (ir::Value* o : unpack.outputs()) {
      Sugar s;
      s.self = typed(*o, o->type());
      out.push_back(std::move(s));
    }
    return out;
  }
  if (v.type->is(TypeKind::class_)) {
    ClassType* c = unit_.find_class(v.type->name());
    if (!c || !c->is_module()) return std::nullopt;
    std::vector<std::string> names;
    for (const Attribute& a : c->attributes)
      if (a.role == Role::attribute && a.type->is(TypeKind::class_)) names.push_back(a.name.str());
    for (const std::string& n : names) out.push_back(value_attribute(v, n, at));
    return out;
  }
  return std::nullopt;
}

}  // namespace tern::script
