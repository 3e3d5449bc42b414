// Calls of functions, methods and constructors.

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

}  // namespace tern::script
