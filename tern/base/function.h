// A shared, copyable callable, without <functional>: hooks, backends and users' operators are kept as these.
#pragma once
#include <type_traits>
#include <utility>

#include "tern/base/pointer.h"

namespace tern {

template <class Signature>
class Function;

template <class R, class... A>
class Function<R(A...)> {
 public:
  Function() = default;
  Function(std::nullptr_t) {}
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Function> && std::is_invocable_r_v<R, F&, A...>)
      Function(F f)
      : state_(new_shared<F>(std::move(f))), invoke_([](void* state, A... args) -> R {
          return (*static_cast<F*>(state))(std::forward<A>(args)...);
        }) {}

  explicit operator bool() const { return invoke_ != nullptr; }
  R operator()(A... args) const { return invoke_(state_.get(), std::forward<A>(args)...); }

 private:
  Shared<void> state_;
  R (*invoke_)(void*, A...) = nullptr;
};

}  // namespace tern
