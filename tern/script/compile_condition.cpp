// Conditions, with what they tell about the types of names, and the values that hang on them.

#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

namespace tern::script {
Val Compiler::to_bool(Val v, uint32_t at) {
  if (v.type->is(TypeKind::bool_)) return v;
  if (v.type->is_tensor() || v.type->is(TypeKind::int_) || v.type->is(TypeKind::float_) ||
      v.type->is(TypeKind::number) || (v.type->is(TypeKind::any) && !strict_)) {
    at_ = at;
    return simple("aten::Bool", {operand(v)}, Type::boolean());
  }
  if (v.type->is(TypeKind::class_) || v.type->is(TypeKind::interface)) {
    ClassType* c = unit_.find_class(v.type->name());
    for (const char* m : {"__bool__", "__len__"})
      if (Function* f = c ? c->method(m) : nullptr) {
        Val r = call_function(*f, v, {}, at);
        return r.type->is(TypeKind::bool_) ? r : simple("aten::Bool", {operand(r)}, Type::boolean());
      }
  }
  // What has a length is true when it is not empty.
  if (v.type->is(TypeKind::list) || v.type->is(TypeKind::string) || v.type->is(TypeKind::dict)) {
    at_ = at;
    Val n = simple("aten::len", {operand(v)}, Type::integer());
    return simple("aten::Bool", {operand(n)}, Type::boolean());
  }
  error(at, fmt::format("Could not cast value of type {} to bool", say(v)));
}

Condition Compiler::condition(const Expr& e) {
  Condition c;
  at_ = e.at;
  if (e.kind == ExprKind::unary && e.text == "not") {
    Condition inner = condition(*e.items[0]);
    c.when_true = inner.when_false;
    c.when_false = inner.when_true;
    if (inner.known) {
      c.known = !*inner.known;
      c.value = constant(*c.known);
    } else if (inner.value.is_constant()) {
      c.value = constant(!inner.value.in.constant().to_bool());
    } else {
      at_ = e.at;
      c.value = simple("aten::__not__", {operand(inner.value)}, Type::boolean());
    }
    return c;
  }
  if (e.kind == ExprKind::binary && (e.text == "and" || e.text == "or")) return both_conditions(e);
  if (e.kind == ExprKind::binary && (e.text == "is" || e.text == "is not"))
    return identity(*e.items[0], *e.items[1], e.text == "is not", e.at);
  if (e.kind == ExprKind::call && e.items.size() == 3) {
    const Expr& callee = *e.items[0];
    bool named = callee.kind == ExprKind::name, of_jit = callee.kind == ExprKind::attribute &&
                                                         callee.items[0]->kind == ExprKind::attribute &&
                                                         callee.items[0]->text == "jit";
    if ((named || of_jit) && callee.text == "isinstance") return instance(e);
    if (named && callee.text == "hasattr") {
      Val v = value(*e.items[1]);
      Val n = value(*e.items[2]);
      if (!n.is_constant() || !n.in.constant().is_string())
        error(e.at, "hasattr's second argument must be a string literal");
      if (strict_ && !class_of(v) && v.type->fields().empty())
        error(
            e.items[1]->at,
            fmt::format("hasattr's first argument must be an object or NamedTuple, got {} instead", say(v)));
      bool has = false;
      if (ClassType* cls = class_of(v)) {
        Symbol wanted(n.in.constant().string());
        if (cls->kind == ClassKind::plain)
          if (Function* init = cls->method("__init__")) unit_.compile(*init);
        has = cls->find(wanted) || cls->method(wanted) || cls->getter(wanted);
      }
      for (Symbol f : v.type->fields()) has = has || f.view() == n.in.constant().string();
      c.known = has;
      c.value = constant(has);
      return c;
    }
  }
  Sugar s = sugar(e);
  if (s.kind == Sugar::value && s.self.is_constant() && s.self.type->is(TypeKind::bool_) &&
      e.kind == ExprKind::call)
    c.known = s.self.in.constant().to_bool();
  c.value = to_bool(as_value(std::move(s), e.at), e.at);
  return c;
}

Condition Compiler::both_conditions(const Expr& e) {
  bool is_and = e.text == "and";
  Condition c, a = condition(*e.items[0]);
  if (a.known) {
    if (*a.known != is_and) return a;
    for (const Refinement& r : is_and ? a.when_true : a.when_false) refine(r);
    Condition b = condition(*e.items[1]);
    auto& into = is_and ? b.when_true : b.when_false;
    auto& from = is_and ? a.when_true : a.when_false;
    into.insert(into.begin(), from.begin(), from.end());
    return b;
  }
  at_ = e.at;
  ir::Node& node = make("prim::If", {operand(a.value)}, {Type::boolean()});
  ir::Block& then = node.add_block();
  ir::Block& otherwise = node.add_block();
  ir::Block& second = is_and ? then : otherwise;
  (is_and ? otherwise : then).add_return(In(!is_and));
  Condition b;
  Frame asked, other;
  {
    Inside there(*this, second);
    for (const Refinement& r : is_and ? a.when_true : a.when_false) refine(r);
    b = condition(*e.items[1]);
    second.add_return(operand(b.value));
    asked = there.frame;
  }
  other.block = is_and ? &otherwise : &then;
  if (strict_) merge(node, is_and ? asked : other, is_and ? other : asked, false, false, e.at);
  c.value = typed(node.output(0), Type::boolean());
  auto join = [](std::vector<Refinement> x, const std::vector<Refinement>& y) {
    x.insert(x.end(), y.begin(), y.end());
    return x;
  };
  if (is_and)
    c.when_true = join(a.when_true, b.when_true);
  else
    c.when_false = join(a.when_false, b.when_false);
  return c;
}

Condition Compiler::identity(const Expr& l, const Expr& r, bool negated, uint32_t at) {
  Condition c;
  const Expr *left = &l, *right = &r;
  if (left->kind == ExprKind::constant && left->value.is_none()) std::swap(left, right);
  Val a = value(*left), b = value(*right);
  if (b.is_none()) {
    const Type* t = a.type;
    bool maybe = t->is(TypeKind::optional) || t->is(TypeKind::any);
    if (t->is(TypeKind::union_))
      for (const Type* u : t->elements()) maybe = maybe || u->is(TypeKind::none);
    if (!maybe) {
      c.known = t->is(TypeKind::none) != negated;
      c.value = constant(*c.known);
      return c;
    }
    if (left->kind == ExprKind::name && !t->is(TypeKind::any)) {
      (negated ? c.when_true : c.when_false).push_back({left->text, without(t, Type::none())});
    }
  }
  at_ = at;
  bool flags = a.type->is(TypeKind::bool_) && b.type->is(TypeKind::bool_);
  Symbol kind = flags ? (negated ? "aten::ne" : "aten::eq") : (negated ? "aten::__isnot__" : "aten::__is__");
  c.value = simple(kind, {operand(a), operand(b)}, Type::boolean());
  return c;
}

// Of a module the class is known, and its name is all that a class of torch.nn is here. What is only a base
// of classes is no type of the script.
bool Compiler::is_of_class(const ClassType& module, const std::vector<const Expr*>& names) {
  bool any = false;
  for (const Expr* name : names) {
    const std::string path = dotted(*name);
    const bool base =
        name->text == "Module" || name->text.starts_with('_') || name->text.find("Base") != std::string::npos;
    auto named = [&](const Owned<ClassType>& c) { return c->is_module() && c->short_name() == name->text; };
    const bool of_nn = !base && (path.starts_with("nn.") || path.starts_with("torch.nn."));
    if (!of_nn && std::none_of(unit_.classes().begin(), unit_.classes().end(), named))
      type_expr(*name);  // a type of another kind, or an error
    any |= name->text == module.short_name();
  }
  return any;
}

Condition Compiler::instance(const Expr& e) {
  Condition c;
  Val v = materialise(value(*e.items[1]));
  std::vector<const Type*> types;
  std::vector<const Expr*> parts;
  if (e.items[2]->kind == ExprKind::tuple || e.items[2]->kind == ExprKind::list)
    for (const ExprPtr& p : e.items[2]->items) parts.push_back(p.get());
  else
    parts.push_back(e.items[2].get());
  bool any_list = false, any_tuple = false, any_dict = false;
  if (ClassType* module = class_of(v); module && module->is_module()) {
    c.known = is_of_class(*module, parts);
    c.value = constant(*c.known);
    return c;
  }
  for (const Expr* p : parts) {
    if (strict_ && p->kind == ExprKind::name && (p->text == "dict" || p->text == "set"))
      error(p->at, fmt::format("Unknown type name '{}'", p->text));
    if (strict_ && p->kind == ExprKind::name && p->text == "Dict")
      error(p->at,
            "Attempted to use Dict without contained types. Please add contained type, e.g. Dict[int, int]");
    if (p->kind == ExprKind::name && (p->text == "list" || p->text == "List"))
      any_list = true;
    else if (p->kind == ExprKind::name && (p->text == "tuple" || p->text == "Tuple"))
      any_tuple = true;
    else if (p->kind == ExprKind::name && (p->text == "dict" || p->text == "Dict"))
      any_dict = true;
    else
      types.push_back(type_expr(*p));
  }
  auto is = [&](const Type* t) {
    if (any_list && t->is(TypeKind::list)) return true;
    if (any_tuple && t->is(TypeKind::tuple)) return true;
    if (any_dict && t->is(TypeKind::dict)) return true;
    for (const Type* w : types)
      if (!t->is(TypeKind::any) &&
          (plain(t) == w || (w->is_tensor() && t->is_tensor()) || (strict_ && subtype(t, w))))
        return true;
    return false;
  };
  const Type* t = v.type;
  std::vector<const Type*> possible;
  if (t->is(TypeKind::optional))
    possible = {t->element(), Type::none()};
  else if (t->is(TypeKind::union_))
    possible = t->elements().vec();
  else if (t->is(TypeKind::number))  // of item(): which one it is shows when it runs
    possible = {Type::integer(), Type::floating(), Type::complex()};
  else
    possible = {t};
  std::vector<const Type*> yes, no;
  for (const Type* p : possible) (is(p) ? yes : no).push_back(p);
  if (!t->is(TypeKind::any) && (yes.empty() || no.empty())) {
    c.known = no.empty();
    c.value = constant(*c.known);
    return c;
  }
  at_ = e.at;
  ir::Node& n = make("prim::isinstance", {v.in}, {Type::boolean()});
  std::vector<tern::Value> names;
  if (t->is(TypeKind::any)) {
    if (any_dict)
      error(e.at, "isinstance of Any with a dict needs the types of its keys and values: Dict[str, int]");
    for (const Type* w : types) names.push_back(tern::Value(w->str()));
    if (any_list) names.emplace_back("list");
    if (any_tuple) names.emplace_back("tuple");
  } else {
    for (const Type* w : yes) names.push_back(tern::Value(w->str()));
  }
  n.set_attribute("types", tern::Value::list(std::move(names)));
  c.value = typed(n.output(), Type::boolean());
  if (e.items[1]->kind == ExprKind::name && !t->is(TypeKind::number)) {
    const std::string& name = e.items[1]->text;
    if (any_list || any_tuple) {
      // Which list or tuple it is nobody knows.
    } else if (t->is(TypeKind::any)) {
      c.when_true.push_back({name, types.size() == 1 ? types[0] : make_union(types)});
      c.when_false.push_back({name, t});
    } else {
      c.when_true.push_back({name, make_union(yes)});
      c.when_false.push_back({name, make_union(no)});
    }
  }
  return c;
}

Val Compiler::ternary(const Expr& e, const Type* hint) {
  Condition c = condition(*e.items[1]);
  if (c.known) {
    Inside here(*this);
    for (const Refinement& r : *c.known ? c.when_true : c.when_false) refine(r);
    return value(*e.items[*c.known ? 0 : 2], hint);
  }
  at_ = e.at;
  ir::Node& node = make("prim::If", {operand(c.value)}, {});
  Val sides[2];
  Frame frames[2];
  ir::Block* blocks[2] = {&node.add_block(), &node.add_block()};
  for (int k = 0; k < 2; ++k) {
    Inside there(*this, *blocks[k]);
    for (const Refinement& r : k == 0 ? c.when_true : c.when_false) refine(r);
    sides[k] = materialise(value(*e.items[k == 0 ? 0 : 2], hint), hint);
    frames[k] = there.frame;
  }
  const Type* type = unify(sides[0].type, sides[1].type);
  if (!type && hint && subtype(sides[0].type, hint) && subtype(sides[1].type, hint)) type = hint;
  if (!type)
    error(e.at, fmt::format("if-expression's true branch has type {} but false branch has type {}",
                            say(sides[0]), say(sides[1])));
  for (int k = 0; k < 2; ++k) blocks[k]->add_return(sides[k].in);
  Val chosen = typed(node.add_output(type), type);
  // What a side has told about the types of names stays told.
  if (strict_) merge(node, frames[0], frames[1], false, false, e.at);
  return chosen;
}

}  // namespace tern::script
