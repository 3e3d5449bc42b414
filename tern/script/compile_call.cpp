// Calls of functions, methods and constructors.

#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

namespace tern::script {
namespace {

bool has_name(const std::vector<std::string>& all, std::string_view name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

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
      if (!items) error(a.at, "cannot statically infer the expected size of a list in this context");
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
      if (callee.text.starts_with("cast:")) {
        Args args = arguments(e);
        args.positional = {callee.self, constant(static_cast<int64_t>(std::stoi(callee.text.substr(5))))};
        s.self = call_builtin("aten::to", std::move(args), e.at);
        return s;
      }
      if (callee.text == "cpu" && callee.has_self) {
        Args args;
        args.positional = {callee.self, constant(Device())};
        s.self = call_builtin("aten::to", std::move(args), e.at);
        return s;
      }
      if (callee.text.starts_with("modules:")) {
        s.self = modules_of(callee.self, callee.text.substr(8), e.at);
        return s;
      }
      if (callee.text == "wait" && callee.has_self) {
        s.self = simple("aten::wait", {operand(callee.self)}, callee.self.type->element());
        return s;
      }
      if (callee.text == "tolist") {
        if (!hint) {
          if (strict_) error(e.at, "Expected type hint for result of tolist()");
          hint = Type::list(Type::floating());
        }
        s.self = to_list(callee.self, hint, e.at);
        return s;
      }
      return special(callee.text, e, hint);
    }
    case Sugar::builtin: {
      // Their first argument is a type, or they are structural: written by PyTorch with a name of their own.
      if (callee.text == "prim::unchecked_cast" || callee.text == "prim::annotate")
        return special(callee.text.substr(6), e, hint);
      Args args = arguments(e);
      if (callee.has_self) args.positional.insert(args.positional.begin(), callee.self);
      args.bound = callee.has_self && strict_;
      s.self = call_builtin(callee.text, std::move(args), e.at);
      return s;
    }
    case Sugar::function:
      s.self = call_overloaded(*callee.callee, std::nullopt, arguments(e), e.at);
      return s;
    case Sugar::method:
      s.self = call_overloaded(*callee.callee, callee.self, arguments(e), e.at);
      return s;
    case Sugar::class_:
      s.self = construct(*callee.owner, arguments(e), e.at);
      return s;
    case Sugar::value: {
      const Type* t = callee.self.type;
      if (callee.text == "is_scripting") {
        s.self = callee.self;
        return s;
      }
      if (t->is(TypeKind::class_) || t->is(TypeKind::interface)) {
        ClassType* c = unit_.find_class(t->name());
        Function* f = c ? c->method(c->is_module() ? "forward" : "__call__") : nullptr;
        if (!f && c) f = c->method("forward");
        if (!f)
          error(e.at, fmt::format("'{}' object has no attribute or method '{}'.", ir_text(t),
                                  c && c->is_module() ? "forward" : "__call__"));
        s.self = strict_ && c && !(c->pre_hooks.empty() && c->hooks.empty())
                     ? call_hooked(*f, callee.self, arguments(e), e.at)
                     : call_overloaded(*f, callee.self, arguments(e), e.at);
        return s;
      }
      error(e.at, fmt::format("cannot call a value of type '{}'", ir_text(callee.self.type)));
    }
    case Sugar::type:
      if (callee.type_value && callee.type_value->is(TypeKind::list) && e.items.size() == 1) {
        s.self = simple("prim::ListConstruct", {}, callee.type_value);
        return s;
      }
      if (callee.type_value && callee.type_value->is(TypeKind::dict) && e.items.size() == 1) {
        s.self = simple("prim::DictConstruct", {}, callee.type_value);
        return s;
      }
      error(e.at, fmt::format("the type {} cannot be called", ir_text(callee.type_value)));
    case Sugar::space:
      error(e.at, fmt::format("module '{}' cannot be called", callee.text));
    default:
      error(e.at, "this cannot be called");
  }
}

// A module with hooks: what they give is handed on.
Val Compiler::call_hooked(Function& forward, const Val& self, Args args, uint32_t at) {
  const ClassType& c = *forward.owner();
  if (!args.keywords.empty())
    error(at, fmt::format("{} has hooks: give its arguments by their places", c.short_name()));
  auto tuple = [](std::vector<Val> items) {
    Val v;
    v.kind = Val::tuple;
    std::vector<const Type*> types;
    for (const Val& i : items) types.push_back(i.type);
    v.type = Type::tuple(types);
    v.items = std::move(items);
    return v;
  };
  auto run = [&](const std::string& name, std::vector<Val> given) {
    Function* hook = c.method(Symbol(name));
    if (!hook) error(at, fmt::format("{} has no hook {}", c.short_name(), name));
    Args all;
    all.positional = std::move(given);
    return call_function(*hook, self, std::move(all), at);
  };
  Val inputs = materialise(tuple(std::move(args.positional)));
  for (const std::string& name : c.pre_hooks) {
    Val changed = run(name, {inputs});
    if (changed.type->is(TypeKind::none)) continue;
    inputs = changed.type->is(TypeKind::tuple) ? changed : materialise(tuple({changed}));
  }
  Args given;
  given.positional = pieces(inputs).items;
  Val result = call_function(forward, self, std::move(given), at);
  for (const std::string& name : c.hooks) {
    Val changed = run(name, {inputs, result});
    if (!changed.type->is(TypeKind::none)) result = changed;
  }
  return result;
}

// The depth of the list and what its elements are stand in the node: the tensor must be of that kind.
Val Compiler::to_list(const Val& tensor, const Type* type, uint32_t at) {
  const Type* element = plain(type);
  int64_t depth = 0;
  for (; element->is(TypeKind::list); ++depth) element = element->element();
  int64_t code = element->is(TypeKind::int_)       ? 0
                 : element->is(TypeKind::float_)   ? 1
                 : element->is(TypeKind::bool_)    ? 2
                 : element->is(TypeKind::complex_) ? 3
                                                   : -1;
  if (code < 0)
    error(at,
          fmt::format("{} is not one of the supported element types for tolist: int, float, complex, bool",
                      ir_text(element)));
  at_ = at;
  return simple("prim::tolist", {operand(tensor), In(depth), In(code)}, type);
}

// max_pool2d(..., return_indices=True) is another function, for it gives two tensors; so it is with
// unique(..., return_inverse=True). Nothing if no such flag is set.
Function* Compiler::dispatched(Function& f, Args& args) {
  std::string name = f.qualified().str();
  std::string_view space = std::string_view(name).substr(0, name.rfind('.'));
  if (space != "__torch__.torch.nn.functional" && space != "__torch__.torch.functional") return nullptr;
  unit_.declare(f);
  auto is_set = [&](std::string_view flag) {
    for (size_t i = 0; i < f.args().size(); ++i) {
      if (f.args()[i].name.view() != flag) continue;
      const Val* v = i < args.positional.size() ? &args.positional[i] : nullptr;
      for (auto& [key, given] : args.keywords)
        if (key.view() == flag) v = &given;
      return v && v->is_constant() && v->in.constant().is_bool() && v->in.constant().to_bool();
    }
    return false;
  };
  if (is_set("return_indices")) {
    Function* other = unit_.find_function(Symbol(name + "_with_indices"));
    if (other) std::erase_if(args.keywords, [](auto& k) { return k.first.view() == "return_indices"; });
    return other;
  }
  if (is_set("get_infos")) return unit_.find_function(Symbol(name + "_with_infos"));
  if (name == "__torch__.torch.functional.norm") {
    const Val* p = args.positional.size() > 1 ? &args.positional[1] : nullptr;
    for (auto& [key, given] : args.keywords)
      if (key.view() == "p") p = &given;
    return p && !p->type->is(TypeKind::string) ? nullptr : unit_.find_function(Symbol(name + "_named"));
  }
  bool inverse = is_set("return_inverse"), counts = is_set("return_counts");
  if (!inverse && !counts) return nullptr;
  return unit_.find_function(Symbol(name + (inverse && counts ? "_with_inverse_and_counts"
                                            : inverse         ? "_with_inverse"
                                                              : "_with_counts")));
}

// A function or method with declarations of overloads: the first whose arguments fit as they are, then the
// first whose arguments can be made to fit.
Val Compiler::call_overloaded(Function& f, std::optional<Val> self, Args args, uint32_t at) {
  if (Function* other = self ? nullptr : dispatched(f, args))
    return call_function(*other, std::nullopt, std::move(args), at);
  if (f.overloads.empty()) return call_function(f, std::move(self), std::move(args), at);
  std::string why;
  for (bool conversions : {false, true}) {
    why.clear();
    for (Function* candidate : f.overloads) {
      unit_.declare(*candidate);
      std::string reason;
      ir::Node& before = *graph_->insert_point().prev();
      bool fits = bind_call(*candidate, self.has_value(), args, &reason, conversions).has_value();
      while (graph_->insert_point().prev() != &before) graph_->erase(*graph_->insert_point().prev());
      if (fits) return call_function(*candidate, std::move(self), std::move(args), at);
      why += "\n" + schema_text(*candidate) + ":\n" + reason + "\n";
    }
  }
  error(at, "Arguments for call are not valid.\nThe following variants are available:\n" + why +
                "\nThe original call is:");
}

// ---- functions, methods, classes ----

// Arguments in their places and of their types, self left out; nullopt with the reason.
std::optional<std::vector<ir::In>> Compiler::bind_call(Function& f, bool has_self, const Args& args,
                                                       std::string* why, bool conversions) {
  const std::vector<Argument>& wanted = f.args();
  size_t first = has_self ? 1 : 0, positions = 0;
  for (size_t i = first; i < wanted.size(); ++i) positions += !wanted[i].keyword_only;
  auto refuse = [&](std::string text) {
    *why = std::move(text);
    return std::nullopt;
  };
  std::vector<const Val*> slots(wanted.size(), nullptr);
  if (args.positional.size() > positions)
    return refuse(fmt::format("Expected at most {} arguments but found {} positional arguments.",
                              positions + first, args.positional.size() + first));
  for (size_t i = 0; i < args.positional.size(); ++i) slots[first + i] = &args.positional[i];
  for (auto& [k, v] : args.keywords) {
    size_t found = wanted.size();
    for (size_t i = first; i < wanted.size(); ++i)
      if (wanted[i].name == k) found = i;
    if (found == wanted.size()) return refuse(fmt::format("Unknown keyword argument '{}'.", k.view()));
    if (slots[found]) return refuse(fmt::format("Argument '{}' is given twice.", k.view()));
    slots[found] = &v;
  }
  std::vector<In> inputs;
  for (size_t i = first; i < wanted.size(); ++i) {
    if (!slots[i]) {
      if (!wanted[i].default_value)
        return refuse(fmt::format("Argument {} not provided.", wanted[i].name.view()));
      inputs.push_back(In(*wanted[i].default_value));
      continue;
    }
    Val repeated;
    if (wanted[i].fixed_size && slots[i]->kind == Val::plain &&
        (slots[i]->type->is(TypeKind::int_) || slots[i]->type->is(TypeKind::float_))) {
      repeated.kind = Val::list;
      repeated.type = wanted[i].type;
      repeated.items.assign(static_cast<size_t>(wanted[i].fixed_size), *slots[i]);
      slots[i] = &repeated;
    }
    std::optional<Val> v =
        conversions ? try_type(*slots[i], wanted[i].type) : convert(*slots[i], wanted[i].type, false);
    if (!v)
      return refuse(
          fmt::format("Expected a value of type '{}' for argument '{}' but instead found type '{}'.",
                      wanted[i].inferred ? "Tensor (inferred)" : ir_text(wanted[i].type),
                      wanted[i].name.view(), say(*slots[i])));
    inputs.push_back(materialise(std::move(*v), wanted[i].type).in);
  }
  return inputs;
}

// "g(int a, int b=2) -> int"
std::string Compiler::schema_text(const Function& f) {
  std::string text = f.owner() ? f.qualified().str() : std::string(f.name());
  text += "(";
  for (size_t i = 0; i < f.args().size(); ++i) {
    const Argument& a = f.args()[i];
    text += (i ? ", " : "") + a.type->str(ir::TypeStyle::torch) + " " + a.name.str();
    if (a.default_value) text += "=" + a.default_value->str();
  }
  return text + ") -> " + (f.returns() ? f.returns()->str(ir::TypeStyle::torch) : "?");
}

Val Compiler::call_function(Function& f, std::optional<Val> self, Args args, uint32_t at) {
  if (f.ignored) return call_ignored(f, std::move(args), at);
  unit_.declare(f);
  if (f.compiling() && strict_)
    error(at,
          fmt::format("function '{}' is called recursively. Recursive calls are not supported", f.name()));
  if (!f.returns() || (strict_ && !f.owner())) unit_.compile(f);
  std::vector<In> inputs;
  if (f.owner() && !f.is_static) {
    if (!self) {
      // Class.method(self, ...): the object is the first argument.
      if (args.positional.empty()) error(at, fmt::format("{} needs an object", f.qualified().view()));
      self = args.positional[0];
      args.positional.erase(args.positional.begin());
    }
    inputs.push_back(operand(*self));
  } else {
    self.reset();
  }
  std::string why;
  std::optional<std::vector<In>> rest = bind_call(f, self.has_value(), args, &why);
  if (!rest) error(at, schema_text(f) + ":\n" + why);
  inputs.insert(inputs.end(), rest->begin(), rest->end());
  // A hook goes by the name of its class: it is no method that objects have.
  bool hook = f.owner() && (has_name(f.owner()->pre_hooks, f.name()) || has_name(f.owner()->hooks, f.name()));
  at_ = at;
  const Type* returns = f.returns() ? f.returns() : Type::any();
  ir::Node& n = make(self ? "prim::CallMethod" : "prim::CallFunction", std::move(inputs), {returns});
  n.set_attribute("name", tern::Value(self ? f.name() : f.qualified().view()));
  if (hook) n.set_meta("hook", tern::Value(true));
  return result(n);
}

// @torch.jit.ignore and @torch.jit.unused: Python that is not there; whoever comes to it is told so.
Val Compiler::call_ignored(Function& f, Args args, uint32_t at) {
  unit_.declare(f);
  std::string why;
  if (f.owner() && !args.positional.empty()) args.positional.erase(args.positional.begin());
  at_ = at;
  make("prim::RaiseException",
       {In(std::string("This Python function is annotated to be ignored and cannot be run")), In()}, {});
  const Type* returns = f.returns() ? f.returns() : Type::tensor();
  return returns->is(TypeKind::none) ? constant(tern::Value()) : uninitialized(returns);
}

Val Compiler::construct(ClassType& type, Args args, uint32_t at) {
  if (type.kind == ClassKind::named_tuple) {
    Val v;
    v.kind = Val::tuple;
    v.type = type.type();
    std::string schema = std::string(type.short_name()) + "(";
    for (const Attribute& a : type.attributes)
      schema += (schema.back() == '(' ? "" : ", ") + a.type->str(ir::TypeStyle::torch) + " " + a.name.str();
    schema += ") -> ():\n";
    std::vector<std::optional<Val>> slots(type.attributes.size());
    if (args.positional.size() > slots.size())
      error(at, schema + fmt::format("Expected at most {} arguments but found {} positional arguments.",
                                     slots.size(), args.positional.size()));
    for (size_t i = 0; i < args.positional.size(); ++i) slots[i] = args.positional[i];
    for (auto& [k, x] : args.keywords) {
      size_t i = 0;
      while (i < slots.size() && type.attributes[i].name != k) ++i;
      if (i == slots.size()) error(at, schema + fmt::format("Unknown keyword argument '{}'.", k.view()));
      slots[i] = x;
    }
    std::vector<In> inputs;
    for (size_t i = 0; i < slots.size(); ++i) {
      const Attribute& a = type.attributes[i];
      if (!slots[i] && a.role == Role::constant) slots[i] = typed(In(a.value), a.type);
      if (!slots[i]) error(at, schema + fmt::format("Argument {} not provided.", a.name.view()));
      std::optional<Val> v = try_type(*slots[i], a.type);
      if (!v)
        error(at, schema + fmt::format(
                               "Expected a value of type '{}' for argument '{}' but instead found type '{}'.",
                               ir_text(a.type), a.name.view(), say(*slots[i])));
      inputs.push_back(materialise(std::move(*v), a.type).in);
    }
    at_ = at;
    return simple("prim::TupleConstruct", std::move(inputs), type.type());
  }
  if (type.kind == ClassKind::module)
    error(at, fmt::format("modules cannot be made in scripts: {} is one", type.name.view()));
  if (type.kind == ClassKind::enumeration) error(at, "cannot call a EnumClass");
  if (type.kind != ClassKind::plain) error(at, fmt::format("objects of {} cannot be made", type.name.view()));
  Function* init = type.method("__init__");
  if (init) unit_.compile(*init);
  at_ = at;
  Val self = simple("prim::CreateObject", {}, type.type());
  if (init) call_function(*init, self, std::move(args), at);
  return self;
}

}  // namespace tern::script
