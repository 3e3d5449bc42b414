// What can be iterated over: lengths, elements, and elements known while compiling.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/script/compiler.h"

namespace tern::script {
Sugar Compiler::iterable(Sugar s, uint32_t at) {
  if (s.kind == Sugar::iterable) return s;
  if (s.kind == Sugar::class_ && s.owner->kind == ClassKind::enumeration) {
    Sugar members;
    members.self.kind = Val::list;
    for (const Attribute& a : s.owner->attributes)
      members.self.items.push_back(typed(In(a.value), s.owner->type()));
    members.self.type = Type::list(s.owner->type());
    s = std::move(members);
  }
  Val v = as_value(std::move(s), at);
  Sugar out;
  if (v.type->is(TypeKind::dict)) {
    Args args;
    args.positional.push_back(v);
    v = call_builtin("aten::keys", std::move(args), at);
  }
  if (v.kind == Val::list) v = materialise(v);
  bool fine = v.type->is(TypeKind::list) || v.type->is(TypeKind::tuple) || v.type->is_tensor() ||
              v.type->is(TypeKind::string) || v.type->is(TypeKind::class_) ||
              (v.type->is(TypeKind::any) && !strict_);
  if (!fine) error(at, fmt::format("'{}' object is not iterable", say(v)));
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
  if (over.text != "zip" && over.text != "enumerate") return length(over.items[0], at);
  if (over.items.empty()) error(at, "zip() needs something to iterate over");
  std::vector<In> lengths;
  add_lengths(over, lengths, at);
  In all = simple("prim::ListConstruct", std::move(lengths), Type::list(Type::integer())).in;
  return simple("prim::min", {all}, Type::integer());
}
// Of everything that is walked in step; enumerate() counts as long as there are numbers.
void Compiler::add_lengths(const Sugar& over, std::vector<In>& lengths, uint32_t at) {
  bool pairs = over.kind == Sugar::iterable && over.text == "enumerate";
  if (over.kind != Sugar::iterable || (over.text != "zip" && !pairs)) {
    lengths.push_back(operand(length(over, at)));
    return;
  }
  if (pairs && over.items.size() == 1) lengths.emplace_back(INT64_MAX);
  if (pairs && over.items.size() == 2)
    lengths.push_back(
        simple("aten::__range_length", {operand(over.items[1].self), In(INT64_MAX), In(1)}, Type::integer())
            .in);
  for (size_t i = 0; i < (pairs ? 1 : over.items.size()); ++i) add_lengths(over.items[i], lengths, at);
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
    s.self.kind = Val::tuple;
    if (over.text == "enumerate") {
      Val i = index;
      if (over.items.size() == 2)
        i = simple("aten::__derive_index", {operand(index), operand(over.items[1].self), In(1)},
                   Type::integer());
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
    // A dict of parameters has no order here; of a list's, the parameters are the elements.
    if (c->short_name() == "ParameterDict") return std::nullopt;
    for (const std::string& n : module_names(*c)) {
      Sugar s;
      s.self = constant(tern::Value(n));
      out.push_back(c->short_name() == "ModuleDict" ? std::move(s) : value_attribute(v, n, at));
    }
    return out;
  }
  return std::nullopt;
}

// What a container of modules holds; of a list of parameters, these.
std::vector<std::string> Compiler::module_names(const ClassType& c) {
  bool parameters = c.short_name() == "ParameterList";
  std::vector<std::string> names;
  for (const Attribute& a : c.attributes)
    if (parameters ? a.role == Role::parameter : a.role == Role::attribute && a.type->is(TypeKind::class_))
      names.push_back(a.name.str());
  return names;
}

// items(), keys() and values() of a ModuleDict: as many as there are, one by one.
Val Compiler::modules_of(const Val& dict, std::string_view what, uint32_t at) {
  auto tuple = [](std::vector<Val> items) {
    Val v;
    v.kind = Val::tuple;
    std::vector<const Type*> types;
    for (const Val& i : items) types.push_back(i.type);
    v.type = Type::tuple(types);
    v.items = std::move(items);
    return v;
  };
  std::vector<Val> all;
  for (const std::string& n : module_names(*class_of(dict))) {
    Val key = constant(tern::Value(n));
    if (what == "keys") {
      all.push_back(std::move(key));
      continue;
    }
    Val module = value_attribute(dict, n, at).self;
    all.push_back(what == "values" ? std::move(module) : tuple({std::move(key), std::move(module)}));
  }
  return tuple(std::move(all));
}

}  // namespace tern::script
