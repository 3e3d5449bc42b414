#include "tern/script/adopt.h"

#include "tern/base/format.h"

namespace tern::script {

using ir::Type;
using ir::TypeKind;

Function& Adoption::function(const Function& from, Symbol name) {
  if (from.unit == &into_ && from.qualified() == name) return const_cast<Function&>(from);
  if (auto it = functions_.find(&from); it != functions_.end() && it->second->qualified() == name)
    return *it->second;
  Function& made = into_.add_function(new_owned<Function>(name));
  functions_[&from] = &made;
  fill(made, from);
  return made;
}

// A function that an adopted one calls: under its own name if that is free.
Function& Adoption::any_function(const Function& from) {
  if (from.unit == &into_) return const_cast<Function&>(from);
  if (auto it = functions_.find(&from); it != functions_.end()) return *it->second;
  std::string wanted = from.qualified().str();
  if (!wanted.starts_with("__torch__.")) wanted = "__torch__." + wanted;
  return function(from, into_.unique_class_name(wanted));
}

void Adoption::fill(Function& made, const Function& from) {
  // Only the signature is there of an interface's methods.
  bool has_body = !(from.owner() && from.owner()->kind == ClassKind::interface);
  if (has_body && from.unit) from.unit->compile(const_cast<Function&>(from));
  if (!has_body && from.unit) from.unit->declare(const_cast<Function&>(from));
  std::vector<Argument> args = from.args();
  for (Argument& a : args) a.type = type(a.type, from.unit);
  const Type* returns = from.returns() ? type(from.returns(), from.unit) : nullptr;
  Owned<ir::Graph> graph = from.compiled() ? from.graph().clone() : nullptr;
  if (graph) rename(graph->top(), from.unit);
  made.set(std::move(graph), std::move(args), returns);
}

void Adoption::rename(ir::Block& block, Unit* from) {
  auto fix = [&](ir::Value* v) {
    if (v->type()) v->set_type(type(v->type(), from));
  };
  for (ir::Value* p : block.params()) fix(p);
  for (ir::Node& n : block) {
    for (ir::Value* v : n.outputs()) fix(v);
    if (n.is("prim::CallFunction"))
      if (const tern::Value* name = n.attribute("name"); name && from)
        if (Function* callee = from->find_function(Symbol(name->string())))
          n.set_attribute("name", tern::Value(any_function(*callee).qualified().view()));
    for (ir::Block* b : n.blocks()) rename(*b, from);
  }
}

const Type* Adoption::type(const Type* t, Unit* from) {
  auto inside = [&] {
    std::vector<const Type*> elements;
    for (const Type* e : t->elements()) elements.push_back(type(e, from));
    return elements;
  };
  switch (t->kind()) {
    case TypeKind::class_:
    case TypeKind::interface: {
      ClassType* c = from ? from->find_class(t->name()) : nullptr;
      return c ? class_of(*c).type() : t;
    }
    case TypeKind::optional:
      return Type::optional(type(t->element(), from));
    case TypeKind::list:
      return Type::list(type(t->element(), from));
    case TypeKind::future:
      return Type::future(type(t->element(), from));
    case TypeKind::dict:
      return Type::dict(type(t->element(0), from), type(t->element(1), from));
    case TypeKind::union_:
      return Type::union_of(inside());
    case TypeKind::tuple:
      if (t->fields().size()) {
        if (ClassType* c = from ? from->find_class(t->name()) : nullptr) class_of(*c);
        return t;
      }
      return Type::tuple(inside());
    default:
      return t;
  }
}

ClassType& Adoption::class_of(ClassType& from) {
  if (from.unit == &into_) return from;
  if (auto it = classes_.find(&from); it != classes_.end()) return *it->second;
  auto fresh = new_owned<ClassType>();
  // The types of named tuples are their fields: they keep their name.
  bool keeps_name = from.kind == ClassKind::named_tuple;
  if (keeps_name)
    if (ClassType* there = into_.find_class(from.name)) return *(classes_[&from] = there);
  fresh->name = keeps_name ? from.name : into_.unique_class_name(from.name.view());
  fresh->kind = from.kind;
  fresh->part_of_trace = from.part_of_trace;
  ClassType& made = into_.add_class(std::move(fresh));
  classes_[&from] = &made;
  for (const Attribute& a : from.attributes) {
    Attribute copy = a;
    copy.type = a.type ? type(a.type, from.unit) : nullptr;
    made.add(std::move(copy));
  }
  // All of them first: they may call each other.
  std::vector<std::pair<Function*, Function*>> methods;
  for (const auto& m : from.methods) {
    Function& f =
        made.add_method(new_owned<Function>(Symbol(made.name.str() + "." + std::string(m->name())), &made));
    methods.emplace_back(&f, m.get());
    functions_[m.get()] = &f;
  }
  for (auto& [f, m] : methods) fill(*f, *m);
  return made;
}

tern::Value Adoption::value(const tern::Value& v) {
  if (v.kind() < ValueKind::list) return v;
  if (auto it = objects_.find(v.box()); it != objects_.end()) return it->second;
  tern::Value out = v;
  if (Object* o = Object::of(v)) {
    if (o->unit.get() == &into_) return v;
    ClassType& type = class_of(*o->type);
    out = Object::make(into_.shared_from_this(), type);
    objects_[v.box()] = out;
    Object& made = *Object::of(out);
    for (size_t i = 0; i < o->slots.size(); ++i) made.slots[i] = value(o->slots[i]);
    return out;
  }
  if (v.is_list() || v.is_tuple()) {
    std::vector<tern::Value> items;
    for (const tern::Value& item : v.items()) items.push_back(value(item));
    out = v.is_list() ? tern::Value::list(std::move(items), v.element_type())
                      : tern::Value::tuple(std::move(items));
  } else if (v.is_dict()) {
    std::vector<std::pair<tern::Value, tern::Value>> entries;
    for (auto& [key, item] : v.entries()) entries.emplace_back(value(key), value(item));
    out = tern::Value::dict(std::move(entries));
    static_cast<DictBox*>(out.box())->key = static_cast<DictBox*>(v.box())->key;
    static_cast<DictBox*>(out.box())->value = static_cast<DictBox*>(v.box())->value;
  }
  objects_[v.box()] = out;
  return out;
}

}  // namespace tern::script
