// Module: a handle to shared state: parameters, buffers, children, the training flag, hooks. Layers and
// users' networks are plain classes that derive from it:
//   struct Net : nn::Module {
//     nn::Linear fc1 = add("fc1", nn::Linear(784, 128)), fc2 = add("fc2", nn::Linear(128, 10));
//     Tensor forward(Tensor x) { return fc2(relu(fc1(x))); }
//   };
// Copying a module copies the handle; clone(net) makes an independent one. Calling is in nn/layer.h.
#pragma once
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tern/base/function.h"
#include "tern/base/pointer.h"
#include "tern/base/symbol.h"
#include "tern/tensor/value.h"
#include "tern/tree/convert.h"

namespace tern::nn {

using StateDict = std::vector<std::pair<std::string, Tensor>>;     // in registration order
const Tensor* find(const StateDict& dict, std::string_view name);  // nullptr if absent

struct Slot {
  Tensor tensor;
};

// A tensor that a module has registered. It is a Tensor in every use; assigning one to it replaces it in the
// module, which is how weights are tied: `head.weight = embedding.weight`. A plain Tensor member would be
// left behind by clone().
class Registered : public Tensor {
 public:
  Registered() = default;
  explicit Registered(Shared<Slot> slot) : Tensor(slot->tensor), slot_(std::move(slot)) {}
  Registered(const Registered& o);
  Registered& operator=(const Registered& o);
  Registered& operator=(const Tensor& t);
  // The tensor that is registered now: another copy of the layer may have replaced it.
  const Tensor& now() const { return slot_ ? slot_->tensor : static_cast<const Tensor&>(*this); }

 private:
  Shared<Slot> slot_;
};
using Parameter = Registered;
using Buffer = Registered;

struct LoadResult {
  std::vector<std::string> missing, unexpected;
};
std::string size_mismatch(std::string_view name, const Tensor& given, const Tensor& wanted);
// Throws PyTorch's text, which ends with the given errors; returns where there are none.
void check_loaded(std::string_view type, const LoadResult& result, std::vector<std::string> errors,
                  bool strict);

class Module {
 public:
  struct State;

  Module();
  explicit Module(Shared<State> state) : state_(std::move(state)) {}
  Module(const Module& o);                    // the same module; under clone() its copy
  Module& operator=(const Module&) = delete;  // see replace()

  // Registration; the name is part of every state_dict key. An undefined tensor stands for None (no bias).
  // Throws for empty names, names with a dot and, of parameters, tensors that have history or no floating
  // type.
  Parameter register_parameter(std::string_view name, const Tensor& tensor);
  Buffer register_buffer(std::string_view name, const Tensor& tensor, bool persistent = true);
  template <class M>
  M add(std::string_view name, M child) {
    child.template name_type<M>();
    add_child(name, child);
    return child;
  }
  template <class M>
  void add_member(std::string_view name, M& child) {  // the same for a member that exists already
    child.template name_type<M>();
    add_child(name, child);
  }
  // Puts another child of the same class in the place of a member: replace("fc", fc, nn::Linear(512, 10)).
  template <class M>
  void replace(std::string_view name, M& member, const M& next) {
    M added = add(name, M(next));
    member.~M();
    ::new (&member) M(added);
  }

  // Names are dotted paths from this module. Shared tensors and modules are listed once, under their first
  // name.
  StateDict named_parameters(bool recurse = true) const;
  StateDict named_buffers(bool recurse = true) const;
  std::vector<Tensor> parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  std::vector<std::pair<std::string, Module>> named_modules() const;  // itself first, as ""
  std::vector<std::pair<std::string, Module>> named_children() const;
  std::vector<Module> children() const;
  Tensor parameter(std::string_view path) const;  // "encoder.0.weight"; these throw when absent
  Tensor buffer(std::string_view path) const;
  Module submodule(std::string_view path) const;

  // Every name, shared tensors under each of theirs. The tensors share memory with the module, without
  // history.
  StateDict state_dict(std::string_view prefix = "") const;
  // Copies the values in. Throws PyTorch's message: missing and unexpected keys (when strict) and shapes that
  // differ.
  LoadResult load_state_dict(const StateDict& dict, bool strict = true) const;

  // These change the tensors themselves, so that every handle sees it. Only floating tensors change their
  // dtype.
  const Module& to(DType dtype) const;
  const Module& to(Device device) const;
  const Module& half() const { return to(DType::float16); }
  const Module& bfloat16() const { return to(DType::bfloat16); }
  const Module& to_float() const { return to(DType::float32); }
  const Module& to_double() const { return to(DType::float64); }
  const Module& train(bool on = true) const;
  const Module& eval() const { return train(false); }
  bool training() const;
  void zero_grad() const;
  const Module& requires_grad_(bool on = true) const;
  const Module& apply(const Function<void(const Module&)>& f) const;  // children first

  std::string str() const;                                // PyTorch's repr
  std::string_view type_name() const;                     // "torch.nn.modules.linear.Linear", "my.Net"
  std::string_view name() const { return name_.view(); }  // the name this handle was added under
  void set_name(std::string_view name) { name_ = name; }
  bool is_same(const Module& o) const { return state_ == o.state_; }
  const void* id() const { return state_.get(); }

  // A pre-hook sees the tuple of arguments and may return another; a hook sees arguments and output and may
  // return another output. A hook may also return nothing. The number is for remove_hook.
  template <class F>
  int register_forward_pre_hook(F hook) const {
    return add_pre_hook([hook](const Module& m, const Value& args) mutable -> Value {
      if constexpr (std::is_void_v<decltype(hook(m, args))>)
        return hook(m, args), Value();
      else
        return tree::to_value(hook(m, args));
    });
  }
  template <class F>
  int register_forward_hook(F hook) const {
    return add_hook([hook](const Module& m, const Value& args, const Value& output) mutable -> Value {
      if constexpr (std::is_void_v<decltype(hook(m, args, output))>)
        return hook(m, args, output), Value();
      else
        return tree::to_value(hook(m, args, output));
    });
  }
  // Called in backward, once the gradients of the arguments are known: the tuples of gradients of arguments
  // and outputs (None where there is none). It may return other gradients for the arguments, or nothing.
  template <class F>
  int register_full_backward_hook(F hook) const {
    return add_backward_hook(
        [hook](const Module& m, const Value& inputs, const Value& outputs) mutable -> Value {
          if constexpr (std::is_void_v<decltype(hook(m, inputs, outputs))>)
            return hook(m, inputs, outputs), Value();
          else
            return tree::to_value(hook(m, inputs, outputs));
        });
  }
  void remove_hook(int number) const;
  bool has_hooks() const;
  bool has_backward_hooks() const;
  Value run_pre_hooks(Value args) const;
  Value run_hooks(const Value& args, Value output) const;
  Value run_backward_hooks(Value grad_inputs, const Value& grad_outputs) const;

  // What scripts see of a module besides its tensors and children: numbers, strings, containers of them. A
  // trace carries them along. Throws for names that are taken.
  void register_attribute(std::string_view name, Value value) const;
  std::vector<std::pair<std::string, Value>> attributes() const;
  // Methods in TorchScript's language that a trace of the module carries along: "def twice(self, x): ...".
  void export_methods(std::string_view source) const;
  std::string exported_methods() const;
  // Of a module that someone else runs (jit::ScriptLayer): the object that stands for it; None otherwise.
  void set_object(Value object) const;
  Value object() const;

  // The class's name, for printing and scopes; set once, when a typed handle is at hand.
  template <class M>
  void name_type() const {
    if (!has_type()) set_type(tree::type_name_of<M>());
  }
  void set_type(std::string_view name) const;
  bool has_type() const;

  // Where this module stands below the one that is running: the path and type of the scope it enters.
  Symbol scope_path() const;
  Symbol scope_type() const;

 protected:
  void set_repr(std::string text) const;  // what stands between the brackets of str()

 private:
  void add_child(std::string_view name, Module& child);
  int add_pre_hook(Function<Value(const Module&, const Value&)> hook) const;
  int add_hook(Function<Value(const Module&, const Value&, const Value&)> hook) const;
  int add_backward_hook(Function<Value(const Module&, const Value&, const Value&)> hook) const;

  Shared<State> state_;
  Symbol name_;
};

// Sees every module of this thread run its forward: what a trace that keeps the hierarchy listens with.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  virtual void enter(const Module& module) = 0;
  virtual void leave(const Module& module) = 0;
};
CallObserver* call_observer();
CallObserver* observe_calls(CallObserver* observer);  // gives the one before

// While one is alive on this thread, copying a module copies its state too: what clone() is made of.
class Cloning {
 public:
  Cloning();
  ~Cloning();
  Cloning(const Cloning&) = delete;
  static Cloning* current();
  Shared<Module::State> copy(const Shared<Module::State>& state);
  Shared<Slot> copy(const Shared<Slot>& slot);

 private:
  struct Maps;
  Owned<Maps> maps_;
  Cloning* outer_;
};

// An independent module with copies of all tensors; what was shared inside stays shared. Members that are
// modules or nn::Parameter come along; a member that is a plain Tensor stays the original's.
template <class M>
M clone(const M& module) {
  Cloning cloning;
  return M(module);
}

// Changes what a tensor holds, for every handle to it: sizes, dtype and memory become `from`'s.
void replace_contents(const Tensor& t, const Tensor& from);

}  // namespace tern::nn
