// A module or a function as something that takes and gives Values: what trace and export call.
#pragma once
#include <tuple>

#include "tern/nn/layer.h"
#include "tern/tree/convert.h"

namespace tern::nn {

[[noreturn]] void wrong_argument_count(size_t wanted, size_t given);

template <class Result, class... A, class Call>
Value call_with_values(const std::vector<Value>& args, Call&& call) {
  if (args.size() != sizeof...(A)) wrong_argument_count(sizeof...(A), args.size());
  auto given = [&]<size_t... I>(std::index_sequence<I...>) {
    return std::tuple<std::remove_cvref_t<A>...>{tree::from_value<std::remove_cvref_t<A>>(args[I])...};
  }
  (std::index_sequence_for<A...>());
  if constexpr (std::is_void_v<Result>) {
    std::apply(call, given);
    return {};
  } else {
    return tree::to_value<std::remove_cvref_t<Result>>(std::apply(call, given));
  }
}

template <class>
struct Callable;
template <class C, class R, class... A>
struct Callable<R (C::*)(A...)> {
  template <class F>
  static Value call(F& f, const std::vector<Value>& args) {
    return call_with_values<R, A...>(args, [&](auto&... a) -> R { return f(static_cast<A>(a)...); });
  }
  template <class M>
  static Value call_module(M& m, const std::vector<Value>& args) {
    return call_with_values<R, A...>(args,
                                     [&](auto&... a) -> R { return nn::call(m, static_cast<A>(a)...); });
  }
};
template <class C, class R, class... A>
struct Callable<R (C::*)(A...) const> : Callable<R (C::*)(A...)> {};
template <class R, class... A>
struct Callable<R (*)(A...)> {
  static Value call(R (*f)(A...), const std::vector<Value>& args) {
    return call_with_values<R, A...>(args, [&](auto&... a) -> R { return f(static_cast<A>(a)...); });
  }
};

// A module with one `forward`, a function or a lambda. It is borrowed.
template <class T>
Function<Value(const std::vector<Value>&)> as_callable(T& what) {
  if constexpr (std::is_base_of_v<Module, T>) {
    what.template name_type<T>();
    return [&what](const std::vector<Value>& args) {
      return Callable<decltype(&T::forward)>::call_module(what, args);
    };
  } else if constexpr (std::is_pointer_v<T>) {
    return [&what](const std::vector<Value>& args) { return Callable<T>::call(what, args); };
  } else {
    return [&what](const std::vector<Value>& args) {
      return Callable<decltype(&T::operator())>::call(what, args);
    };
  }
}

}  // namespace tern::nn
