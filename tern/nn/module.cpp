// The state behind a Module: registration, listing, hooks, cloning, scopes. What moves tensors in and out of
// it is in state.cpp, printing in print.cpp.
#include "tern/nn/module.h"

#include <unordered_map>

#include "tern/base/flat_map.h"
#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/nn/state.h"

namespace tern::nn {
namespace {

thread_local Cloning* cloning = nullptr;
thread_local CallObserver* observer = nullptr;

void check_name(std::string_view what, std::string_view name) {
  if (name.empty()) failf(ErrorKind::value, "{} name can't be empty string \"\"", what);
  if (name.find('.') != std::string_view::npos)
    failf(ErrorKind::value, "{} name can't contain \".\", got: {}", what, name);
}

// A name is one parameter, buffer or child; the same kind may take its own place again.
template <class A, class B>
void check_free(std::string_view name, std::vector<A>& these, std::vector<B>& those) {
  if (find_named(these, name) || find_named(those, name))
    failf(ErrorKind::value, "attribute '{}' already exists", name);
}

// Walks a dotted path down the children; `what` for the message.
Module::State& walk(Module::State& root, std::string_view path) {
  Module::State* state = &root;
  while (!path.empty()) {
    std::string_view step = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(path.size(), step.size() + 1));
    Child* child = find_named(state->children, step);
    if (!child) failf(ErrorKind::value, "{} has no attribute `{}`", last_part(state->type), step);
    state = child->state.get();
  }
  return *state;
}

std::pair<std::string_view, std::string_view> split_path(std::string_view path) {
  size_t dot = path.rfind('.');
  if (dot == std::string_view::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

using Seen = FlatSet<const void*>;

void list_tensors(const Module::State& state, bool buffers, bool recurse, const std::string& prefix,
                  Seen& tensors, Seen& modules, StateDict& out) {
  if (!modules.insert(&state).second) return;
  for (const auto& entry : buffers ? state.buffers : state.parameters) {
    const Tensor& t = entry.slot->tensor;
    if (t.defined() && tensors.insert(t.body()).second) out.emplace_back(prefix + entry.name, t);
  }
  if (!recurse) return;
  for (const auto& child : state.children)
    list_tensors(*child.state, buffers, true, prefix + child.name + ".", tensors, modules, out);
}

void list_modules(const Shared<Module::State>& state, const std::string& path, Seen& seen,
                  std::vector<std::pair<std::string, Module>>& out) {
  if (!seen.insert(state.get()).second) return;
  out.emplace_back(path, Module(state));
  for (const auto& child : state->children)
    list_modules(child.state, path.empty() ? child.name : path + "." + child.name, seen, out);
}

bool reaches(const Module::State& from, const Module::State* wanted) {
  if (&from == wanted) return true;
  for (const auto& child : from.children)
    if (reaches(*child.state, wanted)) return true;
  return false;
}

// The first path from a module to another below it; false if there is none.
bool find_path(const Module::State& from, const void* wanted, std::string& path) {
  for (const auto& child : from.children) {
    size_t length = path.size();
    if (length) path += '.';
    path += child.name;
    if (child.state.get() == wanted || find_path(*child.state, wanted, path)) return true;
    path.resize(length);
  }
  return false;
}

Symbol join(Symbol parent, std::string_view name) {
  return parent.empty() ? Symbol(name) : Symbol(parent.str() + "." + std::string(name));
}

}  // namespace

const Tensor* find(const StateDict& dict, std::string_view name) {
  for (const auto& [key, tensor] : dict)
    if (key == name) return &tensor;
  return nullptr;
}

Registered::Registered(const Registered& o) : Tensor(o), slot_(o.slot_) {
  if (!cloning || !slot_) return;
  slot_ = cloning->copy(slot_);
  Tensor::operator=(slot_->tensor);
}
Registered& Registered::operator=(const Registered& o) {
  if (slot_) return *this = static_cast<const Tensor&>(o.now());
  slot_ = o.slot_;
  Tensor::operator=(o);
  return *this;
}
Registered& Registered::operator=(const Tensor& t) {
  if (slot_) {
    if (t.defined() && slot_->tensor.defined() && slot_->tensor->is_parameter && !t->is_parameter) {
      if (!t.is_leaf()) fail("a parameter can't be replaced by a tensor that has history: assign t.detach()");
      t->is_parameter = true;
      if (t.is_floating_point() || t.is_complex()) t.requires_grad_(slot_->tensor->requires_grad);
    }
    slot_->tensor = t;
  }
  Tensor::operator=(t);
  return *this;
}

Module::Module() : state_(new_shared<State>()) {}
Module::Module(const Module& o) : state_(cloning ? cloning->copy(o.state_) : o.state_), name_(o.name_) {}

Parameter Module::register_parameter(std::string_view name, const Tensor& tensor) {
  check_name("parameter", name);
  check_free(name, state_->buffers, state_->children);
  if (tensor.defined()) {
    if (!tensor.is_leaf())
      failf(
          "Cannot assign non-leaf Tensor to parameter '{}'. Model parameters must be created explicitly. To "
          "express "
          "'{}' as a function of another Tensor, compute the value in the forward() method.",
          name, name);
    if (!tensor->is_parameter) {
      tensor->is_parameter = true;
      tensor.requires_grad_();
    }
  }
  return Parameter(put(state_->parameters, name, tensor, true));
}

Buffer Module::register_buffer(std::string_view name, const Tensor& tensor, bool persistent) {
  check_name("buffer", name);
  check_free(name, state_->parameters, state_->children);
  return Buffer(put(state_->buffers, name, tensor, persistent));
}

void Module::add_child(std::string_view name, Module& child) {
  check_name("module", name);
  check_free(name, state_->parameters, state_->buffers);
  if (reaches(*child.state_, state_.get()))
    failf(ErrorKind::value, "add(\"{}\"): a module can't be its own descendant", name);
  child.name_ = name;
  if (Child* there = find_named(state_->children, name))
    there->state = child.state_;
  else
    state_->children.push_back({std::string(name), child.state_});
}

StateDict Module::named_parameters(bool recurse) const {
  StateDict out;
  Seen tensors, modules;
  list_tensors(*state_, false, recurse, "", tensors, modules, out);
  return out;
}
StateDict Module::named_buffers(bool recurse) const {
  StateDict out;
  Seen tensors, modules;
  list_tensors(*state_, true, recurse, "", tensors, modules, out);
  return out;
}
std::vector<Tensor> Module::parameters(bool recurse) const {
  std::vector<Tensor> out;
  for (auto& [name, tensor] : named_parameters(recurse)) out.push_back(tensor);
  return out;
}
std::vector<Tensor> Module::buffers(bool recurse) const {
  std::vector<Tensor> out;
  for (auto& [name, tensor] : named_buffers(recurse)) out.push_back(tensor);
  return out;
}
std::vector<std::pair<std::string, Module>> Module::named_modules() const {
  std::vector<std::pair<std::string, Module>> out;
  Seen seen;
  list_modules(state_, "", seen, out);
  return out;
}
std::vector<std::pair<std::string, Module>> Module::named_children() const {
  std::vector<std::pair<std::string, Module>> out;
  Seen seen;
  for (const auto& child : state_->children)
    if (seen.insert(child.state.get()).second) out.emplace_back(child.name, Module(child.state));
  return out;
}
std::vector<Module> Module::children() const {
  std::vector<Module> out;
  for (auto& [name, child] : named_children()) out.push_back(child);
  return out;
}

Tensor Module::parameter(std::string_view path) const {
  auto [modules, name] = split_path(path);
  State& state = walk(*state_, modules);
  Entry* entry = find_named(state.parameters, name);
  if (!entry) failf(ErrorKind::value, "{} has no attribute `{}`", last_part(state.type), name);
  return entry->slot->tensor;
}
Tensor Module::buffer(std::string_view path) const {
  auto [modules, name] = split_path(path);
  State& state = walk(*state_, modules);
  Entry* entry = find_named(state.buffers, name);
  if (!entry) failf(ErrorKind::value, "{} has no attribute `{}`", last_part(state.type), name);
  return entry->slot->tensor;
}
Module Module::submodule(std::string_view path) const {
  State& found = walk(*state_, path);
  return Module(found.shared_from_this());
}

const Module& Module::train(bool on) const {
  state_->training = on;
  for (const auto& child : state_->children) Module(child.state).train(on);
  return *this;
}
bool Module::training() const { return state_->training; }
void Module::zero_grad() const {
  for (const Tensor& p : parameters()) p.zero_grad();
}
const Module& Module::requires_grad_(bool on) const {
  for (const Tensor& p : parameters()) p.requires_grad_(on);
  return *this;
}
const Module& Module::apply(const Function<void(const Module&)>& f) const {
  for (const Module& child : children()) child.apply(f);
  f(*this);
  return *this;
}

// ---- hooks ----

int Module::add_pre_hook(Function<Value(const Module&, const Value&)> hook) const {
  state_->pre_hooks.emplace_back(state_->next_hook, std::move(hook));
  return state_->next_hook++;
}
int Module::add_hook(Function<Value(const Module&, const Value&, const Value&)> hook) const {
  state_->hooks.emplace_back(state_->next_hook, std::move(hook));
  return state_->next_hook++;
}
void Module::remove_hook(int number) const {
  std::erase_if(state_->pre_hooks, [&](const auto& h) { return h.first == number; });
  std::erase_if(state_->hooks, [&](const auto& h) { return h.first == number; });
  std::erase_if(state_->backward_hooks, [&](const auto& h) { return h.first == number; });
}
int Module::add_backward_hook(Function<Value(const Module&, const Value&, const Value&)> hook) const {
  state_->backward_hooks.emplace_back(state_->next_hook, std::move(hook));
  return state_->next_hook++;
}
bool Module::has_hooks() const {
  return !state_->pre_hooks.empty() || !state_->hooks.empty() || !state_->backward_hooks.empty();
}
bool Module::has_backward_hooks() const { return !state_->backward_hooks.empty(); }
Value Module::run_backward_hooks(Value grad_inputs, const Value& grad_outputs) const {
  auto hooks = state_->backward_hooks;
  for (auto& [number, hook] : hooks) {
    Value changed = hook(*this, grad_inputs, grad_outputs);
    if (!changed.is_none()) grad_inputs = changed.is_tuple() ? changed : Value::tuple({changed});
  }
  return grad_inputs;
}
Value Module::run_pre_hooks(Value args) const {
  auto hooks = state_->pre_hooks;  // a hook may remove itself
  for (auto& [number, hook] : hooks) {
    Value changed = hook(*this, args);
    if (!changed.is_none()) args = changed.is_tuple() ? changed : Value::tuple({changed});
  }
  return args;
}
Value Module::run_hooks(const Value& args, Value output) const {
  auto hooks = state_->hooks;
  for (auto& [number, hook] : hooks) {
    Value changed = hook(*this, args, output);
    if (!changed.is_none()) output = changed;
  }
  return output;
}

// ---- what scripts see ----

void Module::register_attribute(std::string_view name, Value value) const {
  check_name("attribute", name);
  if (find_named(state_->parameters, name) || find_named(state_->buffers, name) ||
      find_named(state_->children, name))
    failf(ErrorKind::value, "register_attribute: {} has a '{}' already", last_part(state_->type), name);
  for (auto& [key, v] : state_->attributes)
    if (key == name) {
      v = std::move(value);
      return;
    }
  state_->attributes.emplace_back(std::string(name), std::move(value));
}
std::vector<std::pair<std::string, Value>> Module::attributes() const { return state_->attributes; }
void Module::export_methods(std::string_view source) const {
  state_->exported += source;
  state_->exported += '\n';
}
std::string Module::exported_methods() const { return state_->exported; }
void Module::set_object(Value object) const { state_->object = std::move(object); }
Value Module::object() const { return state_->object; }

CallObserver* call_observer() { return observer; }
CallObserver* observe_calls(CallObserver* next) { return std::exchange(observer, next); }

// ---- names and scopes ----

std::string_view Module::type_name() const { return state_->type; }
bool Module::has_type() const { return !state_->type.empty(); }
void Module::set_type(std::string_view name) const { state_->type = name; }
void Module::set_repr(std::string text) const { state_->repr = std::move(text); }
Symbol Module::scope_type() const { return state_->type; }

Symbol Module::scope_path() const {
  const Scope* scope = thread_state.scope;
  if (!scope) return {};
  // Nearly always the running module calls a child of its own, by the name the child was added under.
  if (!name_.empty() && scope->module)
    for (const Child& child : static_cast<const State*>(scope->module)->children)
      if (child.state == state_ && child.name == name_.view()) return join(scope->path, child.name);
  for (; scope; scope = scope->parent) {
    if (!scope->module) continue;
    if (scope->module == state_.get()) return scope->path;
    std::string path;
    if (find_path(*static_cast<const State*>(scope->module), state_.get(), path))
      return join(scope->path, path);
  }
  // Not a part of what is running: a module made on the fly, which is known by its own name only.
  scope = thread_state.scope;
  return join(scope->path, name_.empty() ? last_part(state_->type) : name_.view());
}

// ---- cloning ----

struct Cloning::Maps {
  std::unordered_map<const void*, Shared<Module::State>> states;
  std::unordered_map<const void*, Shared<Slot>> slots;
  std::unordered_map<const void*, Tensor> tensors;

  Tensor copy(const Tensor& t) {
    if (!t.defined()) return {};
    auto [at, is_new] = tensors.try_emplace(t.body());
    if (is_new) {
      NoGrad no_grad;
      Tensor copied = t.detach().clone();
      copied->is_parameter = t->is_parameter;
      if (t->requires_grad) copied.requires_grad_();
      at->second = copied;
    }
    return at->second;
  }
};

Cloning::Cloning() : maps_(new_owned<Maps>()), outer_(cloning) { cloning = this; }
Cloning::~Cloning() { cloning = outer_; }
Cloning* Cloning::current() { return cloning; }

Shared<Slot> Cloning::copy(const Shared<Slot>& slot) {
  // A slot that this clone made is already a copy: copying the new module once more must not copy it again.
  if (auto found = maps_->slots.find(slot.get()); found != maps_->slots.end()) return found->second;
  auto copied = new_shared<Slot>();
  copied->tensor = maps_->copy(slot->tensor);
  maps_->slots[slot.get()] = copied;
  maps_->slots[copied.get()] = copied;
  return copied;
}

Shared<Module::State> Cloning::copy(const Shared<Module::State>& state) {
  if (auto found = maps_->states.find(state.get()); found != maps_->states.end()) return found->second;
  auto copied = new_shared<Module::State>();
  maps_->states[state.get()] = copied;
  maps_->states[copied.get()] = copied;
  copied->type = state->type;
  copied->repr = state->repr;
  copied->training = state->training;
  copied->pre_hooks = state->pre_hooks;
  copied->hooks = state->hooks;
  copied->backward_hooks = state->backward_hooks;
  copied->attributes = state->attributes;
  copied->exported = state->exported;
  copied->object = state->object;
  copied->next_hook = state->next_hook;
  for (const auto& e : state->parameters) copied->parameters.push_back({e.name, copy(e.slot), e.persistent});
  for (const auto& e : state->buffers) copied->buffers.push_back({e.name, copy(e.slot), e.persistent});
  for (const auto& child : state->children) copied->children.push_back({child.name, copy(child.state)});
  return copied;
}

}  // namespace tern::nn
