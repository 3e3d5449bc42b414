// Displays, comprehensions and f-strings.

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

namespace tern::script {
// Elements of different types make a Union of them; an annotation has to say the type the elements have.
Val Compiler::list_display(const Expr& e, const Type* hint) {
  Val v;
  v.kind = Val::list;
  const Type* wanted = container_hint(hint, TypeKind::list);
  const Type* element = wanted ? wanted->element() : nullptr;
  std::vector<const Type*> types;
  const Type* common = nullptr;
  auto add = [&](Val x) {
    types.push_back(plain(x.type));
    const Type* both = !common ? plain(x.type) : unify(common, plain(x.type));
    common = types.size() == 1 ? plain(x.type) : both ? both : make_union({common, plain(x.type)});
    v.items.push_back(std::move(x));
  };
  for (const ExprPtr& item : e.items) {
    if (item->kind != ExprKind::starred)
      add(value(*item, element));
    else
      for (Val& x : starred_items(*item)) add(std::move(x));
  }
  if (element) {
    for (Val& x : v.items) {
      std::optional<Val> fitting = convert(x, element, !strict_);
      if (!fitting && !strict_) fitting = try_type(x, element);
      if (!fitting)
        error(e.at, fmt::format(
                        "List type annotation `{}` did not match the types of the given list elements, which "
                        "were unified to {}",
                        ir_text(wanted), ir_text(common)));
      x = *fitting;
    }
  }
  v.type = Type::list(element ? element : common ? common : Type::tensor());
  mark_display(v);
  return v;
}

// The part of a hint that says which container is meant.
const ir::Type* Compiler::container_hint(const Type* hint, TypeKind kind) {
  if (!hint) return nullptr;
  if (hint->is(TypeKind::optional)) hint = hint->element();
  if (hint->is(kind)) return hint;
  const Type* found = nullptr;
  if (hint->is(TypeKind::union_))
    for (const Type* t : hint->elements())
      if (t->is(kind)) {
        if (found) return nullptr;
        found = t;
      }
  return found;
}

Val Compiler::dict_display(const Expr& e, const Type* hint) {
  const Type* wanted = container_hint(hint, TypeKind::dict);
  const Type *key = nullptr, *item = nullptr;
  if (wanted) key = wanted->element(0), item = wanted->element(1);
  std::vector<In> inputs;
  const Type *keys = nullptr, *items = nullptr;
  for (size_t i = 0; i < e.items.size(); i += 2) {
    Val k = materialise(value(*e.items[i])), v = materialise(value(*e.items[i + 1], item), item);
    auto add = [](const Type* so_far, const Type* t) {
      if (!so_far) return t;
      const Type* both = unify(so_far, t);
      return both ? both : make_union({so_far, t});
    };
    const Type* all_keys = keys ? unify(keys, plain(k.type)) : plain(k.type);
    if (!all_keys)
      error(e.items[i]->at,
            fmt::format("Dict keys must contain only a single type. Expected: {} but found {} instead",
                        ir_text(keys), ir_text(k.type)));
    keys = all_keys;
    items = add(items, plain(v.type));
    if (wanted) {
      std::optional<Val> fitting_key = try_type(k, key), fitting = convert(v, item, !strict_);
      if (!fitting_key || !fitting)
        error(e.at,
              fmt::format("Dict type annotation `{}` did not match the type of an actual {}, which was {}",
                          ir_text(wanted), !fitting_key ? "key type" : "value type",
                          !fitting_key ? ir_text(k.type) : ir_text(v.type)));
      k = materialise(*fitting_key);
      v = materialise(*fitting, item);
    }
    inputs.push_back(k.in);
    inputs.push_back(v.in);
  }
  at_ = e.at;
  return simple("prim::DictConstruct", std::move(inputs),
                Type::dict(key    ? key
                           : keys ? keys
                                  : Type::string(),
                           item    ? item
                           : items ? items
                                   : Type::tensor()));
}

Val Compiler::comprehension(const Expr& e, const Type* hint) {
  bool is_dict = e.kind == ExprKind::dict_comp;
  size_t first = is_dict ? 2 : 1;
  const Expr &target = *e.items[first], &over_expr = *e.items[first + 1];
  Sugar over = iterable(sugar(over_expr), over_expr.at);
  const Type* wanted = container_hint(hint, is_dict ? TypeKind::dict : TypeKind::list);
  if (e.items.size() > first + 2 && strict_) error(e.at, "Comprehension ifs are not supported yet");
  if (std::optional<std::vector<Sugar>> items = static_items(over, over_expr.at);
      items && !is_dict && e.items.size() == first + 2) {
    Val v;
    v.kind = Val::list;
    const Type* common = nullptr;
    for (Sugar& item : *items) {
      Inside here(*this);
      assign_sugar(target, std::move(item));
      Val x = materialise(value(*e.items[0]));
      const Type* both = common ? unify(common, plain(x.type)) : plain(x.type);
      if (!both) error(e.at, "the elements of a list comprehension must have one type");
      common = both;
      v.items.push_back(std::move(x));
    }
    v.type = Type::list(common ? common : Type::tensor());
    return v;
  }
  at_ = e.at;
  ir::Node& made =
      is_dict
          ? make("prim::DictConstruct", {},
                 {wanted && wanted->is(TypeKind::dict) ? wanted : Type::dict(Type::string(), Type::tensor())})
          : make("prim::ListConstruct", {},
                 {wanted && wanted->is(TypeKind::list) ? wanted : Type::list(Type::tensor())});
  Val trip = over.kind == Sugar::iterable && over.text == "range" && over.items.size() == 1
                 ? over.items[0].self
                 : length(over, over_expr.at);
  ir::Node& node = make("prim::Loop", {operand(trip), In(true)}, {});
  ir::Block& block = node.add_block();
  ir::Value& counter = block.add_param(Type::integer());
  Inside there(*this, block);
  assign_sugar(target, element(over, typed(counter, Type::integer()), over_expr.at));
  // Conditions nest the addition.
  for (size_t i = first + 2; i < e.items.size(); ++i) {
    Condition c = condition(*e.items[i]);
    ir::Node& choice = make("prim::If", {operand(c.value)}, {});
    ir::Block& inner = choice.add_block();
    choice.add_block();
    graph_->insert_at_end(inner);
    for (const Refinement& r : c.when_true) refine(r);
  }
  if (is_dict) {
    Val k = materialise(value(*e.items[0])), v = materialise(value(*e.items[1]));
    if (!(wanted && wanted->is(TypeKind::dict)))
      made.output().set_type(Type::dict(plain(k.type), plain(v.type)));
    make("aten::_set_item", {In(made.output()), k.in, v.in}, {});
  } else {
    const Type* element_type = wanted && wanted->is(TypeKind::list) ? wanted->element() : nullptr;
    Val x = materialise(value(*e.items[0], element_type), element_type);
    if (!element_type) made.output().set_type(Type::list(plain(x.type)));
    make("aten::append", {In(made.output()), x.in}, {made.output().type()});
  }
  block.add_return(In(true));
  return typed(made.output(), made.output().type());
}

Val Compiler::fstring(const Expr& e) {
  std::string format;
  Args args;
  for (const ExprPtr& item : e.items) {
    if (item->kind == ExprKind::constant && item->value.is_string()) {
      // aten::format knows no escapes: text with braces is an argument itself.
      if (item->value.string().find_first_of("{}") == std::string::npos) {
        format += item->value.string();
        continue;
      }
      format += "{}";
      args.positional.push_back(constant(item->value));
    } else {
      format += "{}";
      args.positional.push_back(value(*item));
    }
  }
  if (args.positional.empty()) return constant(format);
  args.positional.insert(args.positional.begin(), constant(format));
  return call_builtin("aten::format", std::move(args), e.at);
}

}  // namespace tern::script
