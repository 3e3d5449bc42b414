// From Args to C++ types and from Values back: what generated code is written with.
#pragma once
#include <tuple>

#include "tern/dispatch/ladder.h"

namespace tern {

template <class T>
struct Unpack;
#define TERN_UNPACK(T, expression)                     \
  template <>                                          \
  struct Unpack<T> {                                   \
    static T from(const Arg& a) { return expression; } \
  };
TERN_UNPACK(const Tensor&, a.tensor())
TERN_UNPACK(Span<const Tensor>, a.tensors())
TERN_UNPACK(int64_t, a.to_int())
TERN_UNPACK(SymInt, a.sym())
TERN_UNPACK(double, a.to_double())
TERN_UNPACK(bool, a.to_bool())
TERN_UNPACK(Scalar, a.scalar())
TERN_UNPACK(std::string_view, a.string())
TERN_UNPACK(DType, static_cast<DType>(a.bits))
TERN_UNPACK(Layout, static_cast<Layout>(a.bits))
TERN_UNPACK(MemoryFormat, static_cast<MemoryFormat>(a.bits))
TERN_UNPACK(Device, a.device())
TERN_UNPACK(const Generator*, a.generator())
TERN_UNPACK(Ints, a.is_none() ? Ints() : Ints(a.ints()))
TERN_UNPACK(Span<const SymInt>, a.syms())
TERN_UNPACK(Span<const double>, a.floats())
TERN_UNPACK(Span<const bool>, a.bools())
TERN_UNPACK(Span<const Scalar>, a.scalars())
TERN_UNPACK(Span<const std::string_view>, a.strings())
TERN_UNPACK(const Value&, *a.value_ptr)
#undef TERN_UNPACK
template <class T>
struct Unpack<std::optional<T>> {
  static std::optional<T> from(const Arg& a) {
    if (a.is_none()) return std::nullopt;
    return Unpack<T>::from(a);
  }
};

// What a body, a view or a dynamic kernel returns, into the result slots.
inline void give(Value* r, Tensor t) { r[0] = Value(std::move(t)); }
inline void give(Value* r, const std::vector<Tensor>& list) { r[0] = Value(list); }
inline void give(Value* r, SymInt v) { r[0] = Value(v); }
inline void give(Value* r, int64_t v) { r[0] = Value(v); }
inline void give(Value* r, bool v) { r[0] = Value(v); }
inline void give(Value* r, DType v) { r[0] = Value(v); }
inline void give(Value* r, double v) { r[0] = Value(v); }
inline void give(Value* r, const Scalar& v) { r[0] = Value(v); }
inline void give(Value* r, const Value& v) { r[0] = v; }
template <class... T>
void give(Value* r, const std::tuple<T...>& t) {
  std::apply([&](const auto&... item) { (give(r++, item), ...); }, t);
}

// Where the user called is noted only when somebody records.
inline void call_at(const Op& op, const Arg* args, Value* results, Loc loc) {
  if (thread_state.active) [[unlikely]] {
    At at(loc);
    return call(op, args, results);
  }
  call(op, args, results);
}
inline Tensor call1_at(const Op& op, const Arg* args, Loc loc) {
  Value result;
  call_at(op, args, &result, loc);
  return result.take_tensor();
}

}  // namespace tern
