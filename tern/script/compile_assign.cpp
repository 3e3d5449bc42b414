// Assignment: to names, attributes, subscripts and tuples of them, plain and augmented.
#include <algorithm>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

namespace tern::script {

void Compiler::assign_sugar(const Expr& target, Sugar s) {
  if (target.kind == ExprKind::name && (s.kind == Sugar::function || s.kind == Sugar::class_)) {
    // `_0 = __torch__.torch.nn.functional.relu`: the name stands for the function from here on.
    Val v;
    v.type = Type::function();
    v.in = In(std::string(s.kind == Sugar::function ? s.callee->qualified().view() : s.owner->name.view()));
    set(target.text, std::move(v));
    return;
  }
  if (target.kind == ExprKind::tuple && s.kind == Sugar::iterable) {
    std::optional<std::vector<Sugar>> items = static_items(s, target.at);
    if (items && items->size() == target.items.size()) {
      for (size_t i = 0; i < items->size(); ++i) assign_sugar(*target.items[i], std::move((*items)[i]));
      return;
    }
  }
  assign(target, as_value(std::move(s), target.at));
}

void Compiler::assign(const Expr& target, Val v) {
  switch (target.kind) {
    case ExprKind::name: {
      const Type* declared = declared_type(target.text);
      v = materialise(std::move(v), declared);
      if (declared && v.type->is(TypeKind::none) && subtype(v.type, declared)) v.type = declared;
      check_reassigned(target, v, declared);
      keep_long_string(target.text, v);
      set(target.text, std::move(v));
      return;
    }
    case ExprKind::attribute: {
      Val self = value(*target.items[0]);
      ClassType* type = class_of(self);
      if (!type)
        error(target.at,
              fmt::format("Tried to set an attribute: {} on a non-class: {}", target.text, say(self)));
      if (Function* setter = type->setter(target.text)) {
        Args args;
        args.positional.push_back(std::move(v));
        call_function(*setter, self, std::move(args), target.at);
        return;
      }
      bool in_init = def_.name == "__init__" && function_.owner() == type;
      if (type->kind == ClassKind::plain && !type->find(target.text) && !in_init)
        if (Function* init = type->method("__init__")) unit_.compile(*init);
      const Attribute* a = type->find(target.text);
      if (!a && in_init && type->kind == ClassKind::plain) {
        v = materialise(v);
        a = &type->add({target.text, plain(v.type)});
      }
      if (!a)
        error(target.at,
              fmt::format("Tried to set nonexistent attribute: {}. Did you forget to initialize it in "
                          "__init__()?",
                          target.text));
      if (a->role == Role::constant)
        error(target.at, fmt::format("Can't set constant '{}' of {}", target.text, class_text(self.type)));
      const Type* wanted = a->type;
      std::optional<Val> fitting = try_type(v, wanted);
      if (!fitting)
        error(target.at, fmt::format("Wrong type for attribute assignment. Expected {} but got {}",
                                     ir_text(wanted), say(v)));
      v = materialise(std::move(*fitting), wanted);
      at_ = target.at;
      ir::Node& n = make("prim::SetAttr", {self.in, v.in}, {});
      n.set_attribute("name", tern::Value(target.text));
      return;
    }
    case ExprKind::subscript:
      return assign_subscript(target, std::move(v));
    case ExprKind::tuple:
    case ExprKind::list: {
      if (strict_ && target.kind == ExprKind::list)
        error(target.at, "lhs of assignment must be a variable, subscript, or starred expression");
      std::vector<Val> items;
      size_t n = target.items.size();
      size_t star = n;
      for (size_t i = 0; i < n; ++i)
        if (target.items[i]->kind == ExprKind::starred) star = i;
      if (v.kind == Val::list) v = materialise(v);
      if (v.kind != Val::plain) {
        items = v.items;
      } else if (v.type->is(TypeKind::tuple)) {
        if (v.in.is_constant()) {
          for (size_t i = 0; i < v.type->elements().size(); ++i)
            items.push_back(typed(In(v.in.constant().items()[i]), v.type->element(i)));
        } else {
          std::vector<const Type*> types = v.type->elements().vec();
          ir::Node& unpack = make("prim::TupleUnpack", {v.in}, types);
          for (size_t i = 0; i < types.size(); ++i) items.push_back(typed(unpack.output(i), types[i]));
        }
      } else if (v.type->is(TypeKind::list) || (v.type->is(TypeKind::any) && !strict_)) {
        if (star < n) error(target.at, "cannot statically infer the expected size of a list in this context");
        const Type* element = v.type->is(TypeKind::list) ? v.type->element() : Type::any();
        ir::Node& unpack = make(v.type->is(TypeKind::list) ? "prim::ListUnpack" : "prim::TupleUnpack", {v.in},
                                std::vector<const Type*>(n, element));
        for (size_t i = 0; i < n; ++i) items.push_back(typed(unpack.output(i), element));
      } else {
        error(target.at, fmt::format("{} cannot be used as a tuple", say(v)));
      }
      if (star < n) {
        if (items.size() + 1 < n)
          error(target.at,
                fmt::format("need at least {} values to unpack but found only {}", n - 1, items.size()));
        size_t many = items.size() + 1 - n;
        Val rest;
        rest.kind = Val::tuple;
        rest.items.assign(items.begin() + static_cast<long>(star),
                          items.begin() + static_cast<long>(star + many));
        items.erase(items.begin() + static_cast<long>(star), items.begin() + static_cast<long>(star + many));
        std::vector<const Type*> types;
        for (const Val& i : rest.items) types.push_back(i.type);
        rest.type = Type::tuple(types);
        items.insert(items.begin() + static_cast<long>(star), rest);
      }
      if (items.size() < n)
        error(target.at, fmt::format("need {} values to unpack but found only {}", n, items.size()));
      if (items.size() > n)
        error(target.at, fmt::format("too many values to unpack: need {} but found {}", n, items.size()));
      for (size_t i = 0; i < n; ++i) {
        const Expr& t = *target.items[i];
        assign(t.kind == ExprKind::starred ? *t.items[0] : t, std::move(items[i]));
      }
      return;
    }
    default:
      error(target.at, "this cannot be assigned to");
  }
}

// A long string is written as a statement when the graph becomes source, under the name it has here.
void Compiler::keep_long_string(const std::string& name, Val& v) {
  constexpr size_t never_long = 30;
  if (v.held || !v.is_constant() || !v.type->is(TypeKind::string) ||
      v.in.constant().string().size() < never_long || shown_name(name).empty())
    return;
  ir::Node& n = make("prim::Constant", {}, {v.type}, name);
  n.set_attribute("value", v.in.constant());
  v = typed(n.output(), v.type);
}

// In a branch or a loop a name keeps the type it had outside.
void Compiler::check_reassigned(const Expr& target, const Val& v, const Type* declared) {
  const std::string& name = target.text;
  if (!strict_) return;
  for (Frame* f = frame_->parent; f; f = f->parent) {
    if (f->undefined.count(name)) return;
    auto it = f->values.find(name);
    if (it == f->values.end()) continue;
    const Type* before = declared ? declared : plain(it->second.type);
    if (it->second.type->is(TypeKind::function)) return;
    if (!subtype(v.type, before))
      error(target.at,
            fmt::format("Variable '{}' previously had type {} but is now being assigned to a value of type "
                        "{}",
                        name, ir_text(before), say(v)));
    return;
  }
}

void Compiler::assign_subscript(const Expr& target, Val v) {
  Val base = materialise(value(*target.items[0]));
  if (base.type->is_tensor() || (base.type->is(TypeKind::any) && !strict_)) {
    std::vector<Val> indices;
    Val part = index_tensor(base, target, &indices);
    if (!v.type->is_tensor() && !v.type->is(TypeKind::any)) {  // numbers, of the tensor's type
      Args args;
      args.positional = {v};
      args.keywords = {{"dtype", simple("prim::dtype", {operand(part)}, Type::integer())},
                       {"device", simple("prim::device", {operand(part)}, Type::device_type())}};
      v = call_builtin("aten::tensor", std::move(args), target.at);
    }
    if (!indices.empty()) {
      Val list;
      list.kind = Val::list;
      list.items = indices;
      list.type = Type::list(Type::optional(Type::tensor()));
      Args args;
      args.positional = {part, list, v};
      call_builtin("aten::index_put_", std::move(args), target.at);
    } else {
      Args args;
      args.positional = {part, v};
      call_builtin("aten::copy_", std::move(args), target.at);
    }
    return;
  }
  if (base.type->is(TypeKind::tuple))
    error(target.at, fmt::format("{} does not support subscripted assignment", say(base)));
  if (target.items.size() != 2 || target.items[1]->kind == ExprKind::slice)
    error(target.at,
          "Sliced expression not yet supported for subscripted assignment. File a bug if you want this");
  if (class_of(base)) {
    ClassType* type = unit_.find_class(base.type->name());
    Function* f = type ? type->method("__setitem__") : nullptr;
    if (!f) call_magic(base, "__setitem__", {}, target.at);
    Args args;
    args.positional = {value(*target.items[1]), v};
    call_function(*f, base, std::move(args), target.at);
    return;
  }
  Args args;
  args.positional = {base, value(*target.items[1]), v};
  call_builtin("aten::_set_item", std::move(args), target.at);
}

void Compiler::augmented(const Stmt& s) {
  const Expr& target = *s.targets[0];
  if (strict_ && (s.op == "//" || s.op == "@"))
    error(s.at,
          fmt::format("unsupported kind of augmented assignment: {}", s.op == "@" ? "MatMult" : "FloorDiv"));
  // x[mask] += 1: the elements are picked, changed and put back; slices and numbers give a view.
  Val whole, places, old;
  bool picked = false;
  if (target.kind == ExprKind::subscript) {
    Val base = materialise(value(*target.items[0]));
    if (base.type->is_tensor()) {
      std::vector<Val> indices;
      old = whole = index_tensor(base, target, &indices);
      picked = !indices.empty();
      if (picked) {
        places.kind = Val::list;
        places.items = std::move(indices);
        places.type = Type::list(Type::optional(Type::tensor()));
        places = materialise(std::move(places));
        Args args;
        args.positional = {whole, places};
        old = call_builtin("aten::index", std::move(args), target.at);
      }
    }
  }
  if (!old.type) old = value(target);
  Val by = value(*s.value);
  static const std::unordered_map<std::string, std::string> in_place = {
      {"+", "aten::add_"},         {"-", "aten::sub_"},         {"*", "aten::mul_"},
      {"/", "aten::div_"},         {"%", "aten::fmod_"},        {"**", "aten::pow_"},
      {"|", "aten::__ior__"},      {"&", "aten::__iand__"},     {"^", "aten::__ixor__"},
      {"<<", "aten::__ilshift__"}, {">>", "aten::__irshift__"}, {"//", "aten::floor_divide_"}};
  auto it = in_place.find(s.op);
  if (old.kind != Val::plain) old = materialise(old);
  bool mutates = (old.type->is_tensor() || (old.type->is(TypeKind::list) && (s.op == "+" || s.op == "*"))) &&
                 it != in_place.end();
  if (mutates) {
    Args args;
    args.positional = {old, by};
    Val v = call_builtin(it->second, std::move(args), s.at);
    if (picked) {
      Args put;
      put.positional = {whole, places, v};
      call_builtin("aten::index_put_", std::move(put), target.at);
      return;
    }
    // A name keeps the changed tensor; a place in a container already holds it.
    if (target.kind == ExprKind::name)
      assign(target, v);
    else if (target.kind == ExprKind::subscript && !whole.type)
      assign(target, v);
    return;
  }
  if (s.op == "%" && strict_ && !class_of(old)) {
    Args args;  // PyTorch's %= is C's
    args.positional = {old, by};
    return assign(target, call_builtin("aten::fmod", std::move(args), s.at));
  }
  assign(target, binary(s.op, old, by, s.at));
}

}  // namespace tern::script
