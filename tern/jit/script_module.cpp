#include "tern/jit/script_module.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/flat_map.h"
#include "tern/base/format.h"
#include "tern/capture/trace.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/builtins.h"
#include "tern/ir/pass.h"
#include "tern/ir/verify.h"
#include "tern/jit/archive.h"
#include "tern/nn/module.h"
#include "tern/script/adopt.h"
#include "tern/script/ast.h"
#include "tern/script/compile.h"
#include "tern/script/signature.h"
#include "tern/tensor/nesting.h"

namespace tern::jit {

using ir::Type;
using ir::TypeKind;
using script::Attribute;
using script::ClassType;
using script::Object;
using script::Role;

namespace {

bool is_module(const tern::Value& v) {
  Object* o = Object::of(v);
  return o && o->type->is_module();
}

// Every attribute of a module and of what is inside, depth first, each module once unless `shared_too`.
template <class F>
void walk(const tern::Value& module, const std::string& prefix, std::unordered_set<const Box*>* seen, F&& f) {
  if (seen && !seen->insert(module.box()).second) return;
  Object& o = *Object::of(module);
  f(prefix, o);
  for (const Attribute& a : o.type->attributes) {
    if (a.role == Role::constant) continue;
    const tern::Value* v = o.find(a.name);
    if (v && is_module(*v)) walk(*v, prefix.empty() ? a.name.str() : prefix + "." + a.name.str(), seen, f);
  }
}

std::string join(const std::string& prefix, Symbol name) {
  return prefix.empty() ? name.str() : prefix + "." + name.str();
}

NamedTensors tensors(const tern::Value& module, Role role, bool recurse) {
  NamedTensors out;
  std::unordered_set<const Box*> seen;
  std::unordered_set<const TensorBody*> listed;
  walk(module, "", &seen, [&](const std::string& prefix, Object& o) {
    if (!recurse && &o != Object::of(module)) return;
    for (const Attribute& a : o.type->attributes) {
      const tern::Value* v = a.role == role ? o.find(a.name) : nullptr;
      if (v && v->is_tensor() && listed.insert(v->tensor().body()).second)
        out.emplace_back(join(prefix, a.name), v->tensor());
    }
  });
  return out;
}

// Objects anew; tensors by `tensor`, containers copied.
template <class F>
tern::Value copy_value(const tern::Value& v, std::unordered_map<const Box*, tern::Value>& done, F&& tensor) {
  if (v.is_tensor()) return tern::Value(tensor(v.tensor()));
  if (v.kind() < ValueKind::list) return v;
  auto it = done.find(v.box());
  if (it != done.end()) return it->second;
  tern::Value out = v;
  if (v.is_list() || v.is_tuple()) {
    std::vector<tern::Value> items;
    for (const tern::Value& i : v.items()) items.push_back(copy_value(i, done, tensor));
    out = v.is_list() ? tern::Value::list(std::move(items), v.element_type())
                      : tern::Value::tuple(std::move(items));
  } else if (v.is_dict()) {
    std::vector<std::pair<tern::Value, tern::Value>> entries;
    for (auto& [k, x] : v.entries())
      entries.emplace_back(copy_value(k, done, tensor), copy_value(x, done, tensor));
    out = tern::Value::dict(std::move(entries));
    static_cast<DictBox*>(out.box())->key = static_cast<DictBox*>(v.box())->key;
    static_cast<DictBox*>(out.box())->value = static_cast<DictBox*>(v.box())->value;
  } else if (Object* o = Object::of(v)) {
    out = Object::make(o->unit, *o->type);
    done[v.box()] = out;
    Object& made = *Object::of(out);
    for (size_t i = 0; i < o->slots.size(); ++i) made.slots[i] = copy_value(o->slots[i], done, tensor);
    return out;
  }
  done[v.box()] = out;
  return out;
}

}  // namespace

ScriptModule::ScriptModule(tern::Value object) : object_(std::move(object)) {
  if (!is_module(object_)) {
    Object* o = Object::of(object_);
    failf(ErrorKind::type, "ScriptModule: expected a module but found {}",
          o ? o->type->name.str() : std::string(object_.kind_name()));
  }
}

Object& ScriptModule::self() const {
  Object* o = Object::of(object_);
  if (!o) fail(ErrorKind::value, "ScriptModule: it is empty");
  return *o;
}
ClassType& ScriptModule::type() const { return *self().type; }
std::string ScriptModule::type_name() const { return type().name.str(); }

script::Function& ScriptModule::method(std::string_view name) const {
  script::Function* f = type().method(Symbol(name));
  if (!f) {
    std::string all;
    for (const std::string& m : methods()) all += (all.empty() ? "" : ", ") + m;
    failf(ErrorKind::value, "{} has no method '{}'; it has {}", type_name(), name,
          all.empty() ? "none" : all);
  }
  f->graph();
  return *f;
}
bool ScriptModule::has_method(std::string_view name) const { return type().method(Symbol(name)) != nullptr; }
std::vector<std::string> ScriptModule::methods() const {
  std::vector<std::string> names;
  for (const auto& m : type().methods) names.emplace_back(m->name());
  return names;
}

const std::vector<script::Argument>& ScriptModule::arguments(std::string_view name) const {
  return method(name).args();
}
const Type* ScriptModule::returns(std::string_view name) const { return method(name).returns(); }
std::string ScriptModule::signature(std::string_view name) const {
  const script::Function& f = method(name);
  std::string text = std::string(f.name()) + "(";
  for (size_t i = 1; i < f.args().size(); ++i) {
    const script::Argument& a = f.args()[i];
    text += (i > 1 ? ", " : "") + script::plain(a.type)->str(ir::TypeStyle::annotation) + " " + a.name.str();
    if (a.default_value) text += "=" + a.default_value->str();
  }
  return text + ") -> " + script::plain(f.returns())->str(ir::TypeStyle::annotation);
}
std::vector<tern::Value> ScriptModule::traced_inputs(std::string_view name) const {
  script::TracedInputs& all = self().unit->traced_inputs();
  auto it = all.find(type_name() + "." + std::string(name));
  return it == all.end() ? std::vector<tern::Value>() : it->second;
}

void ScriptModule::set_traced_inputs(std::string_view name, const std::vector<tern::Value>& inputs) const {
  std::vector<tern::Value> kept;
  for (const tern::Value& v : inputs) {
    bool sized = v.is_tensor() && !v.tensor().is_symbolic() && !v.tensor().is_nested();
    if (!sized && !v.is_number()) return;  // files have no room for others
    kept.push_back(sized ? tern::Value(make_tensor(v.tensor().sizes(), v.tensor().strides(),
                                                   v.tensor().dtype(), kMeta, true))
                         : v);
  }
  self().unit->traced_inputs()[type_name() + "." + std::string(name)] = std::move(kept);
}

namespace {

void collect_missing(const ir::Block& block, std::set<std::string>& names) {
  for (const ir::Node& n : block) {
    std::string_view kind = n.kind().view();
    if (!n.op() && !kind.starts_with("prim::") && !kind.starts_with("higher_order::") &&
        kind != "aten::wait" && !ir::find_builtin(n.kind()) &&
        overloads(Symbol(kind.substr(0, kind.find('.')))).empty())
      names.insert(n.qualified());
    for (const ir::Block* b : n.blocks()) collect_missing(*b, names);
  }
}

// The error with the place in the user's own source, where an archive's debug information knows it.
Error with_original_place(const Error& e, const script::Unit& unit) {
  const std::string& text = e.message();
  size_t from = text.rfind("code/__torch__");  // the innermost
  size_t ending = from == std::string::npos ? from : text.find(".py:", from);
  if (!unit.original || ending == std::string::npos) return e;
  ir::Origin place;
  place.file = text.substr(from, ending + 3 - from);
  const char *at = text.data() + ending + 4, *stop = text.data() + text.size();
  auto line = std::from_chars(at, stop, place.line);
  if (line.ec != std::errc()) return e;
  if (line.ptr != stop && *line.ptr == ':') std::from_chars(line.ptr + 1, stop, place.column);
  std::optional<ir::Origin> original = unit.original(place);
  if (!original) return e;
  std::string what = original->text.empty() ? original->function.str() : original->text.str();
  return Error(e.kind(), fmt::format("{}\n  from {}:{}{}", text, original->file.view(), original->line,
                                     what.empty() ? "" : ": " + what));
}

}  // namespace

std::vector<std::string> ScriptModule::missing_operators() const {
  std::set<std::string> names;
  self().unit->compile_all();
  for (const auto& [path, module] : named_modules())
    for (const std::string& m : module.methods()) collect_missing(module.graph(m).top(), names);
  for (const auto& f : self().unit->functions())
    if (f->compiled()) collect_missing(f->graph().top(), names);
  return {names.begin(), names.end()};
}

// What register_forward_pre_hook and register_forward_hook put around a call of the module.
tern::Value ScriptModule::call_hooked(const script::Function& forward, const std::vector<tern::Value>& given,
                                      const Keywords& keywords) const {
  std::vector<tern::Value> bound = forward.bind(given, keywords);
  tern::Value inputs = tern::Value::tuple({bound.begin() + 1, bound.end()});
  for (const std::string& hook : type().pre_hooks) {
    tern::Value changed = method(hook).call(std::vector<tern::Value>{object_, inputs});
    if (!changed.is_none()) inputs = changed.is_tuple() ? changed : tern::Value::tuple({changed});
  }
  std::vector<tern::Value> all{object_};
  all.insert(all.end(), inputs.items().begin(), inputs.items().end());
  tern::Value result = forward.call(all);
  for (const std::string& hook : type().hooks) {
    const script::Function& f = method(hook);
    tern::Value changed = f.call(std::vector<tern::Value>{object_, inputs, result});
    if (!changed.is_none()) result = changed;
  }
  return result;
}

tern::Value ScriptModule::call(std::string_view name, Span<const tern::Value> args,
                               const Keywords& keywords) const {
  script::Function& f = method(name);
  if (type().part_of_trace && f.compiled()) fail("Trace submodules cannot be called.");
  std::vector<tern::Value> all{object_};
  all.insert(all.end(), args.begin(), args.end());
  try {
    if (name == "forward" && !(type().pre_hooks.empty() && type().hooks.empty()))
      return call_hooked(f, all, keywords);
    return f.call(all, keywords);
  } catch (const Error& e) {
    throw with_original_place(e, *self().unit);
  }
}

NamedTensors ScriptModule::named_parameters(bool recurse) const {
  return self(), tensors(object_, Role::parameter, recurse);
}
NamedTensors ScriptModule::named_buffers(bool recurse) const {
  return self(), tensors(object_, Role::buffer, recurse);
}
std::vector<Tensor> ScriptModule::parameters() const {
  std::vector<Tensor> out;
  for (auto& [name, t] : named_parameters()) out.push_back(t);
  return out;
}
std::vector<std::pair<std::string, ScriptModule>> ScriptModule::named_children() const {
  std::vector<std::pair<std::string, ScriptModule>> out;
  Object& o = self();
  for (const Attribute& a : o.type->attributes) {
    const tern::Value* v = a.role == Role::constant ? nullptr : o.find(a.name);
    if (v && is_module(*v)) out.emplace_back(a.name.str(), ScriptModule(*v));
  }
  return out;
}
std::vector<std::pair<std::string, ScriptModule>> ScriptModule::named_modules() const {
  std::vector<std::pair<std::string, ScriptModule>> out;
  self();
  std::unordered_set<const Box*> seen;
  auto visit = [&](auto& again, const tern::Value& m, const std::string& prefix) -> void {
    if (!seen.insert(m.box()).second) return;
    ScriptModule module(m);
    out.emplace_back(prefix, module);
    for (auto& [name, child] : module.named_children())
      again(again, child.object(), prefix.empty() ? name : prefix + "." + name);
  };
  visit(visit, object_, "");
  return out;
}

bool ScriptModule::has_attr(std::string_view path) const {
  size_t dot = path.find('.');
  const tern::Value* v = self().find(Symbol(path.substr(0, dot)));
  if (!v || dot == std::string_view::npos) return v != nullptr;
  return is_module(*v) && ScriptModule(*v).has_attr(path.substr(dot + 1));
}
tern::Value ScriptModule::attr(std::string_view path) const {
  size_t dot = path.find('.');
  tern::Value v = self().get(Symbol(path.substr(0, dot)));
  // Below the modules may be objects of the script's own classes.
  while (dot != std::string_view::npos) {
    path.remove_prefix(dot + 1);
    dot = path.find('.');
    Object* o = Object::of(v);
    if (!o) failf(ErrorKind::type, "ScriptModule: expected an object but found a {}", v.kind_name());
    v = o->get(Symbol(path.substr(0, dot)));
  }
  return v;
}
void ScriptModule::set_attr(std::string_view path, tern::Value value) const {
  size_t dot = path.find('.');
  Symbol name(path.substr(0, dot));
  if (dot != std::string_view::npos)
    return ScriptModule(self().get(name)).set_attr(path.substr(dot + 1), std::move(value));
  const Attribute* a = type().find(name);
  if (a && a->role != Role::constant && !script::is_instance(value, *a->type))
    failf(ErrorKind::type, "{}.{} has type {}; a {} cannot be put there", type_name(), name.view(),
          a->type->str(ir::TypeStyle::annotation), value.kind_name());
  self().set(name, std::move(value));
}
void ScriptModule::del_attr(std::string_view path) const {
  attr(path);
  failf("cannot delete '{}' of {}: the attributes of a compiled module are part of its type", path,
        type_name());
}
ScriptModule ScriptModule::submodule(std::string_view path) const {
  return path.empty() ? *this : ScriptModule(attr(path));
}

NamedTensors ScriptModule::state_dict() const {
  NamedTensors out;
  self();
  walk(object_, "", nullptr, [&](const std::string& prefix, Object& o) {
    for (Role role : {Role::parameter, Role::buffer})
      for (const Attribute& a : o.type->attributes)
        if (const tern::Value* v = a.role == role ? o.find(a.name) : nullptr; v && v->is_tensor())
          out.emplace_back(join(prefix, a.name), v->tensor());
  });
  return out;
}

void ScriptModule::load_state_dict(const NamedTensors& state, bool strict) const {
  std::map<std::string, Tensor> given(state.begin(), state.end());
  nn::LoadResult result;
  std::vector<std::string> errors;
  std::set<std::string> names;
  NamedTensors mine = state_dict();
  for (auto& [name, t] : mine) {
    names.insert(name);
    auto it = given.find(name);
    if (it == given.end())
      result.missing.push_back(name);
    else if (it->second.sizes().vec() != t.sizes().vec())
      errors.push_back(nn::size_mismatch(name, it->second, t));
  }
  for (auto& [name, t] : state)
    if (!names.count(name)) result.unexpected.push_back(name);
  nn::check_loaded(type_name(), result, std::move(errors), strict);
  NoGrad no_grad;
  for (auto& [name, t] : mine)
    if (auto it = given.find(name); it != given.end()) t.copy_(it->second);
}

namespace {

template <class F>
void replace_tensors(const tern::Value& module, F&& f) {
  std::unordered_set<const Box*> seen;
  std::unordered_map<const TensorBody*, Tensor> done;  // what is shared stays shared
  std::vector<Tensor> kept;
  NoGrad no_grad;
  walk(module, "", &seen, [&](const std::string&, Object& o) {
    for (const Attribute& a : o.type->attributes) {
      if (a.role != Role::parameter && a.role != Role::buffer) continue;
      const tern::Value* v = o.find(a.name);
      if (!v || !v->is_tensor()) continue;
      Tensor old = v->tensor();
      kept.push_back(old);
      auto [it, fresh] = done.try_emplace(old.body());
      if (fresh) {
        it->second = f(old);
        if (!it->second.is_same(old)) {
          it->second.body()->is_parameter = a.role == Role::parameter;
          if (old->requires_grad) it->second.requires_grad_(true);
        }
      }
      o.set(a.name, tern::Value(it->second));
    }
  });
}

}  // namespace

const ScriptModule& ScriptModule::to(DType dtype) const {
  if (!is_floating(dtype) && !tern::is_complex(dtype))
    fail(ErrorKind::type, "to: modules have floating-point or complex types only");
  self();
  replace_tensors(object_,
                  [&](const Tensor& t) { return t.is_floating_point() || t.is_complex() ? t.to(dtype) : t; });
  return *this;
}
const ScriptModule& ScriptModule::to(Device device) const {
  self();
  replace_tensors(object_, [&](const Tensor& t) { return t.to(device); });
  return *this;
}
const ScriptModule& ScriptModule::train(bool on) const {
  self();
  std::unordered_set<const Box*> seen;
  walk(object_, "", &seen, [&](const std::string&, Object& o) {
    if (o.type->slot("training") >= 0) o.set("training", tern::Value(on));
  });
  return *this;
}
bool ScriptModule::is_training() const {
  const tern::Value* v = self().find("training");
  return v && v->is_bool() && v->to_bool();
}

void ScriptModule::save(const std::string& path,
                        const std::map<std::string, std::string>& extra_files) const {
  io::FileWriter out(path);
  std::string name = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  jit::save(*this, out, name.substr(0, name.rfind('.')), extra_files);
  out.commit();
}
std::vector<uint8_t> ScriptModule::save_bytes(const std::map<std::string, std::string>& extra_files) const {
  io::MemoryWriter out;
  jit::save(*this, out, "archive", extra_files);
  return out.take();
}

ScriptModule ScriptModule::copy() const {
  self();
  std::unordered_map<const Box*, tern::Value> done;
  return ScriptModule(copy_value(object_, done, [](const Tensor& t) { return t; }));
}

ScriptModule ScriptModule::deepcopy() const {
  self();
  std::unordered_map<const Box*, tern::Value> done;
  std::unordered_map<const TensorBody*, Tensor> made;
  std::unordered_map<const StorageBody*, Storage> storages;
  return ScriptModule(copy_value(object_, done, [&](const Tensor& t) {
    auto [it, fresh] = made.try_emplace(t.body());
    if (!fresh) return it->second;
    if (t.is_fake()) return it->second = t.shallow_copy();
    auto [s, first] = storages.try_emplace(t.storage().get());
    if (first) {
      s->second = Storage::allocate(t.storage()->bytes);
      if (t.storage()->bytes) std::memcpy(s->second->data, t.storage()->data, t.storage()->bytes);
    }
    Tensor c =
        t.is_nested()
            ? nested_over(make_view_of(s->second, Dims{SymInt(0)}, Dims{SymInt(1)}, t.offset(), t.dtype()),
                          nesting_ptr(t))
            : make_view_of(s->second, t.sizes(), t.strides(), t.offset(), t.dtype());
    c.body()->is_parameter = t->is_parameter;
    if (t.is_quantized()) {
      c->meaning = t->meaning;
      c->rungs |= rung_meaning;
    }
    if (t->requires_grad) c.requires_grad_(true);
    return it->second = c;
  }));
}

// ---- making ----

namespace {

// Types of what is read from self, from the outside in.
void fill_types(script::Unit& unit, ir::Block& block) {
  for (ir::Node& n : block) {
    if (n.is("prim::GetAttr") && n.input(0).is_value()) {
      const Type* t = n.input(0).value().type();
      ClassType* c = t->is(TypeKind::class_) ? unit.find_class(t->name()) : nullptr;
      const tern::Value* name = n.attribute("name");
      const Attribute* a = c && name ? c->find(Symbol(name->string())) : nullptr;
      if (!a)
        failf(ErrorKind::value, "make_module: the graph reads '{}' of {}, which has no such attribute",
              name ? name->string() : "?", t->str(ir::TypeStyle::annotation));
      bool narrower = a->type->is_tensor() && n.output().type() && n.output().type()->is_tensor();
      if (!narrower) n.output().set_type(a->type);
    }
    for (ir::Block* b : n.blocks()) fill_types(unit, *b);
  }
}

// Classes and objects first, methods when all classes are known.
class Builder {
 public:
  explicit Builder(Shared<script::Unit> unit) : unit_(std::move(unit)), adoption_(*unit_) {}

  tern::Value build(const Shared<ModuleTree>& tree) {
    tern::Value object = declare(tree);
    for (auto& [name, f] : tree->functions) adoption_.function(*f, Symbol(name));
    for (auto& [name, v] : tree->globals) unit_->globals.emplace(name, v);
    std::set<std::string> defined;
    for (ModuleTree* t : order_) {
      if (t->definitions.empty()) continue;
      unit_->known_operators_only = true;
      std::string where =
          t == tree.get() ? "__torch__" : "__torch__." + t->type_name.substr(0, t->type_name.rfind('.'));
      if (!defined.insert(where).second) continue;
      auto source = new_shared<script::Source>();
      source->text = t->definitions;
      source->name = t->source_name;
      unit_->define(source, where, true);
    }
    // What somebody writes, unlike a file from elsewhere, has operators that are there.
    if (!tree->entries.empty()) unit_->known_operators_only = true;
    for (ModuleTree* t : order_) add_methods(*t);
    for (ModuleTree* t : order_)
      if (!t->source.empty()) define_source(*t);
    for (ModuleTree* t : order_)
      if (!t->source.empty()) compile_source(*t);
    for (ModuleTree* t : order_) drop_uncompiled(*t);
    return object;
  }

 private:
  tern::Value declare(const Shared<ModuleTree>& tree) {
    if (auto it = done_.find(tree.get()); it != done_.end()) return it->second;
    if (!tree->object.is_none()) {
      tern::Value object = adoption_.value(tree->object);
      name_class(*tree, *Object::of(object)->type);
      return done_[tree.get()] = object;
    }
    auto made = new_owned<ClassType>();
    std::string wanted = tree->type_name.empty() ? "Module" : tree->type_name;
    made->name = unit_->unique_class_name(wanted.starts_with("__torch__.") ? wanted : "__torch__." + wanted);
    made->kind = script::ClassKind::module;
    made->part_of_trace = tree->part_of_trace;
    made->pre_hooks = tree->pre_hooks;
    made->hooks = tree->hooks;
    size_t count = tree->members.size() + 1 + tree->children.size();
    made->attributes.reserve(count);
    ClassType& type = unit_->add_class(std::move(made));
    std::vector<std::pair<Symbol, tern::Value>> values;
    values.reserve(count);
    auto add = [&](const std::string& name, tern::Value v, Role role, const Type* t) {
      if (!t) {
        Object* o = Object::of(v);
        t = o ? o->type->type() : script::plain(Type::of(v));
      }
      Symbol symbol(name);
      type.add({symbol, t, role, role == Role::constant ? v : tern::Value()});
      if (role != Role::constant) values.emplace_back(symbol, std::move(v));
    };
    for (const ModuleTree::Member& m : tree->members) add(m.name, adoption_.value(m.value), m.role, m.type);
    if (!type.find("training"))
      add("training", tern::Value(tree->training), Role::attribute, Type::boolean());
    for (auto& [name, child] : tree->children) add(name, declare(child), Role::attribute, nullptr);
    tern::Value object = Object::make(unit_, type);
    Object& made_object = *Object::of(object);
    for (auto& [name, v] : values) made_object.set(name, std::move(v));
    name_class(*tree, type);
    types_[tree.get()] = &type;
    order_.push_back(tree.get());
    return done_[tree.get()] = object;
  }
  // What graphs call the class, and, below a module that was there already, its submodules.
  void name_class(const ModuleTree& tree, ClassType& type) {
    if (!tree.alias.empty()) name_class(Symbol(tree.alias), type);
  }
  void name_class(Symbol alias, ClassType& type) {
    aliases_.emplace(alias, type.type());
    for (const Attribute& a : type.attributes) {
      if (!a.type || !a.type->is(TypeKind::class_)) continue;
      Symbol below = capture::join_path(alias.view(), a.name.view());
      if (aliases_.count(below)) continue;
      if (ClassType* c = unit_->find_class(a.type->name()); c && c->is_module()) name_class(below, *c);
    }
  }
  void rename_classes(ir::Block& block) {
    auto fix = [&](ir::Value* v) {
      if (!v->type() || !v->type()->is(TypeKind::class_)) return;
      if (auto it = aliases_.find(v->type()->name()); it != aliases_.end()) v->set_type(it->second);
    };
    for (ir::Value* v : block.params()) fix(v);
    for (ir::Node& n : block) {
      for (ir::Value* v : n.outputs()) fix(v);
      for (ir::Block* b : n.blocks()) rename_classes(*b);
    }
  }

  void add_methods(ModuleTree& tree) {
    ClassType& type = *types_.at(&tree);
    for (ModuleTree::Method& m : tree.methods) {
      ir::Graph& g = *m.graph;
      if (g.inputs().empty()) fail(ErrorKind::value, "make_module: the graph of a method takes self first");
      g.inputs()[0]->set_type(type.type());
      rename_classes(g.top());
      fill_types(*unit_, g.top());
      std::vector<script::Argument> args;
      for (size_t i = 0; i < g.inputs().size(); ++i) {
        ir::Value& v = *g.inputs()[i];
        script::Argument a;
        a.name = i == 0 ? std::string("self") : v.name();
        a.type = i == 0 ? type.type() : script::plain(v.type());
        size_t from_end = g.inputs().size() - i;
        if (i > 0 && from_end <= m.defaults.size())
          a.default_value = m.defaults[m.defaults.size() - from_end];
        args.push_back(std::move(a));
      }
      std::vector<const Type*> types;
      for (const ir::Operand& o : g.outputs()) types.push_back(script::plain(o.type()));
      const Type* returns = types.empty() ? Type::none() : types.size() == 1 ? types[0] : Type::tuple(types);
      ir::verify(g);
      auto f = new_owned<script::Function>(capture::join_path(type.name.view(), m.name), &type);
      f->set(std::move(m.graph), std::move(args), returns);
      type.add_method(std::move(f));
    }
  }
  // All first, so that they find each other; then what is asked for, and what that calls.
  void define_source(const ModuleTree& tree) {
    ClassType& type = *types_.at(&tree);
    auto source = new_shared<script::Source>();
    source->text = tree.source;
    source->name = tree.source_name.empty() ? std::string(type.short_name()) : tree.source_name;
    unit_->define_methods(type, source);
  }
  void compile_source(const ModuleTree& tree) {
    ClassType& type = *types_.at(&tree);
    if (tree.entries.empty()) {
      for (size_t i = 0; i < type.methods.size(); ++i) unit_->compile(*type.methods[i]);
      return;
    }
    for (auto& [name, getter, setter] : type.properties)
      for (script::Function* f : {getter, setter})
        if (f) unit_->compile(*f);
    auto compile = [&](script::Function& f) {
      unit_->compile(f);
      compile_called(f.graph().top());
    };
    // Overloads are all compiled, whoever calls them.
    for (size_t i = 0; i < type.methods.size(); ++i)
      for (script::Function* f : std::vector(type.methods[i]->overloads)) compile(*f);
    for (const std::string& name : tree.entries)
      if (script::Function* f = type.method(Symbol(name)); f && f->overloads.empty()) compile(*f);
  }
  // A call needs no more of a method than what it says about its types.
  void compile_called(const ir::Block& block) {
    for (const ir::Node& n : block) {
      for (const ir::Block* b : n.blocks()) compile_called(*b);
      if (!n.is("prim::CallMethod") || !n.input(0).type()->is(TypeKind::class_)) continue;
      ClassType* type = unit_->find_class(n.input(0).type()->name());
      script::Function* f = type ? type->method(Symbol(n.attribute("name")->string())) : nullptr;
      if (!f || !called_.insert(f).second) continue;
      unit_->compile(*f);
      compile_called(f->graph().top());
    }
  }
  // Methods that only ran while the module was made are no part of it.
  void drop_uncompiled(const ModuleTree& tree) {
    if (tree.entries.empty()) return;
    std::erase_if(types_.at(&tree)->methods, [](const auto& m) { return !m->compiled(); });
  }

  Shared<script::Unit> unit_;
  script::Adoption adoption_;
  FlatMap<const ModuleTree*, tern::Value> done_;
  FlatMap<const ModuleTree*, ClassType*> types_;
  std::vector<ModuleTree*> order_;
  std::set<const script::Function*> called_;
  FlatMap<Symbol, const Type*> aliases_;
};

}  // namespace

ScriptModule make_module(ModuleTree tree) { return make_module(new_shared<ModuleTree>(std::move(tree))); }
ScriptModule make_module(const Shared<ModuleTree>& tree) {
  return ScriptModule(Builder(script::Unit::make()).build(tree));
}

std::pair<std::string, Shared<ModuleTree>> child(std::string name, const ScriptModule& module) {
  auto tree = new_shared<ModuleTree>();
  tree->object = module.object();
  return {std::move(name), std::move(tree)};
}

ScriptModule make_module(std::string_view type_name, const ir::Graph& graph,
                         const std::vector<StateInput>& state, bool training) {
  auto root = new_shared<ModuleTree>();
  root->type_name = type_name;
  root->training = training;
  auto made = new_owned<ir::Graph>();
  made->shapes = graph.shapes;
  ir::ValueMap map;
  ir::Value& self = made->add_input(Type::any(), "self");
  std::map<size_t, const StateInput*> by_input;
  for (const StateInput& s : state) {
    if (s.input >= graph.inputs().size())
      failf(ErrorKind::index, "make_module: '{}' is for input {}, but the graph has {}", s.path, s.input,
            graph.inputs().size());
    if (!by_input.emplace(s.input, &s).second)
      failf(ErrorKind::value, "make_module: input {} is given twice", s.input);
  }
  for (size_t i = 0; i < graph.inputs().size(); ++i)
    if (!by_input.count(i))
      map.emplace(graph.inputs()[i],
                  ir::In(made->add_input(graph.inputs()[i]->type(), graph.inputs()[i]->name())));
  std::map<std::string, ir::Value*> modules{{"", &self}};
  std::map<std::string, Shared<ModuleTree>> trees{{"", root}};
  auto read = [&](ir::Value& from, std::string_view name, const Type* type) -> ir::Value& {
    ir::In inputs[] = {ir::In(from)};
    const Type* types[] = {type};
    ir::Node& n = made->make("prim::GetAttr", inputs, types, name);
    n.set_attribute("name", tern::Value(name));
    return n.output();
  };
  for (auto& [input, s] : by_input) {
    std::string path;
    std::string_view rest = s->path;
    for (size_t dot; (dot = rest.find('.')) != std::string_view::npos; rest = rest.substr(dot + 1)) {
      std::string child(rest.substr(0, dot)), parent = path;
      path = path.empty() ? child : path + "." + child;
      if (modules.count(path)) continue;
      auto t = new_shared<ModuleTree>();
      t->type_name = "Module";
      t->training = training;
      trees[parent]->children.emplace_back(child, t);
      trees[path] = t;
      modules[path] = &read(*modules[parent], child, Type::any());
    }
    trees[path]->members.push_back({std::string(rest), tern::Value(s->tensor), s->role, Type::tensor()});
    map.emplace(graph.inputs()[input], ir::In(read(*modules[path], rest, Type::tensor())));
  }
  for (const ir::In& out : made->inline_block(graph.top(), map)) made->add_output(out);
  root->methods.push_back({"forward", std::move(made)});
  return make_module(root);
}

}  // namespace tern::jit
