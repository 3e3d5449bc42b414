// Control flow that depends on data, as operators that a capture records with both branches.
#pragma once
#include "tern/base/function.h"
#include "tern/sym/sym_int.h"
#include "tern/tree/convert.h"

namespace tern {

// The condition of cond(): a bool tensor of one element, a number, or a condition on sizes.
class Predicate {
 public:
  Predicate(bool value) : value_(value) {}
  Predicate(SymBool condition)
      : value_(condition.is_symbolic() ? Value(condition.as_expr()) : Value(condition.guard_bool())) {}
  Predicate(const Tensor& t) : value_(t) {}
  const Value& value() const { return value_; }

 private:
  Value value_;
};

using Branch = Function<Value(const std::vector<Value>& operands)>;

// Runs one of the branches on the operands. Under a capture both are recorded: they must give the same
// structure, and must not write to what they are given. Tensors that a branch takes from around it become
// operands too.
Value cond(const Predicate& predicate, const Branch& true_fn, const Branch& false_fn,
           const std::vector<Value>& operands);

// cond(x.sum() > 0, [](Tensor x) { return x.cos(); }, [](Tensor x) { return x.sin(); }, x)
template <class T, class F, class... A>
requires(!std::is_convertible_v<T, Branch>) auto cond(const Predicate& predicate, T true_fn, F false_fn,
                                                      const A&... operands) {
  using Result = std::remove_cvref_t<decltype(true_fn(operands...))>;
  auto branch = [](auto f) {
    return [f](const std::vector<Value>& args) mutable -> Value {
      return [&]<size_t... I>(std::index_sequence<I...>) {
        return tree::to_value<Result>(f(tree::from_value<A>(args[I])...));
      }
      (std::index_sequence_for<A...>());
    };
  };
  std::vector<Value> given{tree::to_value(operands)...};
  return tree::from_value<Result>(cond(predicate, Branch(branch(true_fn)), Branch(branch(false_fn)), given));
}

}  // namespace tern
