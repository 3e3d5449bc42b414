// Calling a module: Layer<Derived> gives `block(x)`, nn::call(net, x) does the same for any Module. A call
// enters the module's scope (nn_module_stack), runs its hooks and calls forward.
#pragma once
#include <ostream>

#include "tern/dispatch/ladder.h"
#include "tern/nn/module.h"

namespace tern::nn {

namespace details {

// A user's forward speaks for itself: the lines inside it are recorded, not the line of the call. A layer of
// ours is recorded at the line where it was called.
class CallSite {
 public:
  CallSite(bool ours, Loc loc) : saved_(thread_state.loc) {
    if (!ours)
      thread_state.loc = {};
    else if (!thread_state.loc)
      thread_state.loc = loc;
  }
  ~CallSite() { thread_state.loc = saved_; }
  CallSite(const CallSite&) = delete;

 private:
  Loc saved_;
};

class Observed {
 public:
  explicit Observed(const Module& module) : module_(module), observer_(call_observer()) {
    if (observer_) observer_->enter(module_);
  }
  ~Observed() {
    if (observer_) observer_->leave(module_);
  }
  Observed(const Observed&) = delete;

 private:
  const Module& module_;
  CallObserver* observer_;
};

// Lets the module's backward hooks see the gradients of a call: around its arguments, then its outputs.
class BackwardCall {
 public:
  explicit BackwardCall(const Module& module);
  Value arguments(const Value& args);
  Value outputs(const Value& output);

 private:
  Value box_;
};

template <class M, class... A>
decltype(auto) observed_forward(M& module, A&&... args) {
  Observed observed(module);
  return module.forward(std::forward<A>(args)...);
}

template <class M, class... A>
auto call_with_hooks(M& module, A&&... args) {
  using Result = std::remove_cvref_t<decltype(module.forward(std::forward<A>(args)...))>;
  using Args = std::tuple<std::decay_t<A>...>;
  Value given = module.run_pre_hooks(tree::args_to_value(static_cast<const std::decay_t<A>&>(args)...));
  BackwardCall backward(module);
  Args seen = tree::from_value<Args>(module.has_backward_hooks() ? backward.arguments(given) : given);
  if constexpr (std::is_void_v<Result>) {
    std::apply([&](auto&... a) { observed_forward(module, a...); }, seen);
    module.run_hooks(given, {});
  } else {
    Value output = tree::to_value(
        std::apply([&](auto&... a) -> Result { return observed_forward(module, a...); }, seen));
    output = module.run_hooks(given, std::move(output));
    return tree::from_value<Result>(module.has_backward_hooks() ? backward.outputs(output) : output);
  }
}

template <class T>
concept Convertible = requires(const T& x, const Value& v) {
  tree::to_value(x);
  tree::from_value<T>(v);
};

template <class M>
inline constexpr bool is_ours = requires {
  M::is_ours;
};

template <class M, class... A>
decltype(auto) call_at(Loc loc, M& module, A&&... args) {
  module.template name_type<M>();
  EnterScope scope(module.scope_path(), module.scope_type(), module.id());
  CallSite site(is_ours<M>, loc);
  if (module.has_hooks()) [[unlikely]]
    return call_with_hooks(module, std::forward<A>(args)...);
  return observed_forward(module, std::forward<A>(args)...);
}

}  // namespace details

// Calls a module as PyTorch's __call__ does. Hooks want arguments and results that tree/convert.h knows.
template <class M, class... A>
decltype(auto) call(M& module, A&&... args) {
  return details::call_at(Loc{}, module, std::forward<A>(args)...);
}

// What a module that is called as `block(x)` derives from: struct Block : nn::Layer<Block> { Tensor
// forward(Tensor x); };
template <class Derived>
class Layer : public Module {
 public:
  Layer() { name_type<Derived>(); }

  auto operator()(Loc loc = Loc::here()) const { return details::call_at(loc, self()); }
  template <class A>
  auto operator()(A&& a, Loc loc = Loc::here()) const {
    return details::call_at(loc, self(), std::forward<A>(a));
  }
  template <class A, class B>
  requires(!std::is_same_v<std::remove_cvref_t<B>, Loc>) auto operator()(A&& a, B&& b,
                                                                         Loc loc = Loc::here()) const {
    return details::call_at(loc, self(), std::forward<A>(a), std::forward<B>(b));
  }
  template <class A, class B, class C>
  requires(!std::is_same_v<std::remove_cvref_t<C>, Loc>) auto operator()(A&& a, B&& b, C&& c,
                                                                         Loc loc = Loc::here()) const {
    return details::call_at(loc, self(), std::forward<A>(a), std::forward<B>(b), std::forward<C>(c));
  }
  template <class A, class B, class C, class D, class... More>
  requires(!std::is_same_v<std::remove_cvref_t<D>, Loc>) auto operator()(A&& a, B&& b, C&& c, D&& d,
                                                                         More&&... more) const {
    return details::call_at(Loc{}, self(), std::forward<A>(a), std::forward<B>(b), std::forward<C>(c),
                            std::forward<D>(d), std::forward<More>(more)...);
  }

 private:
  // A module is a handle: a const one still runs and trains.
  Derived& self() const { return const_cast<Derived&>(static_cast<const Derived&>(*this)); }
};

// PyTorch's repr under the module's own class. A Module that was neither added nor called yet does not know
// its class, so `net.str()` of such a one says "Module".
template <class M>
requires std::is_base_of_v<Module, M> std::string str(const M& module) {
  module.template name_type<M>();
  return module.str();
}
template <class M>
requires std::is_base_of_v<Module, M> std::ostream& operator<<(std::ostream& out, const M& module) {
  const std::string text = nn::str(module);
  return out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

}  // namespace tern::nn
