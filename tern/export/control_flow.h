// Control flow that depends on data or repeats a function, as operators that a capture records with the
// functions as blocks.
#pragma once
#include "tern/base/function.h"
#include "tern/ir/interpreter.h"
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

// f on each slice of xs along the first dimension (tensors, or containers of tensors of one length), with
// `args` as they are; the results are stacked. f must not write to what it is given.
Value map(const Branch& f, const Value& xs, const std::vector<Value>& args = {});

// Goes on with body_fn(carried...) while cond_fn(carried...) holds. What is carried (tensors and numbers)
// keeps its shape and dtype from round to round.
std::vector<Value> while_loop(const Branch& cond_fn, const Branch& body_fn,
                              const std::vector<Value>& carried);

// combine_fn(carry, x) -> (carry, y) over the slices of xs along `dim`: the last carry, and the y's stacked
// along `dim`. `reverse` starts at the end.
std::pair<Value, Value> scan(const Branch& combine_fn, const Value& init, const Value& xs, int64_t dim = 0,
                             bool reverse = false);

namespace details {

// A function of C++ types as one of Values.
template <class... A, class F>
Branch branch(F f) {
  using Result = std::remove_cvref_t<std::invoke_result_t<F, A...>>;
  return [f](const std::vector<Value>& args) mutable -> Value {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return tree::to_value<Result>(f(tree::from_value<A>(args[I])...));
    }
    (std::index_sequence_for<A...>());
  };
}

}  // namespace details

// cond(x.sum() > 0, [](Tensor x) { return x.cos(); }, [](Tensor x) { return x.sin(); }, x)
template <class T, class F, class... A>
requires(!std::is_convertible_v<T, Branch>) auto cond(const Predicate& predicate, T true_fn, F false_fn,
                                                      const A&... operands) {
  using Result = std::remove_cvref_t<decltype(true_fn(operands...))>;
  std::vector<Value> given{tree::to_value(operands)...};
  return tree::from_value<Result>(
      cond(predicate, details::branch<A...>(true_fn), details::branch<A...>(false_fn), given));
}

// map([](Tensor x, Tensor y) { return x + y; }, xs, y)
template <class F, class X, class... A>
requires(!std::is_convertible_v<F, Branch>) auto map(F f, const X& xs, const A&... args) {
  using Result = std::remove_cvref_t<decltype(f(xs, args...))>;
  std::vector<Value> given{tree::to_value(args)...};
  return tree::from_value<Result>(map(details::branch<X, A...>(f), tree::to_value(xs), given));
}

// while_loop([](Tensor i, Tensor x) { return i < 3; }, [](Tensor i, Tensor x) { return std::tuple(i + 1, x *
// 2); }, i, x)
template <class C, class F, class... A>
requires(!std::is_convertible_v<C, Branch>) std::tuple<A...> while_loop(C cond_fn, F body_fn,
                                                                        const A&... carried) {
  std::vector<Value> given{tree::to_value(carried)...};
  return tree::from_value<std::tuple<A...>>(
      Value::tuple(while_loop(details::branch<A...>(cond_fn), details::branch<A...>(body_fn), given)));
}

// scan([](Tensor c, Tensor x) { return std::pair(c + x, c * x); }, init, xs)
template <class F, class C, class X>
requires(!std::is_convertible_v<F, Branch>) auto scan(F combine_fn, const C& init, const X& xs,
                                                      int64_t dim = 0, bool reverse = false) {
  using Result = std::remove_cvref_t<decltype(combine_fn(init, xs))>;
  auto [carry, ys] =
      scan(details::branch<C, X>(combine_fn), tree::to_value(init), tree::to_value(xs), dim, reverse);
  return tree::from_value<Result>(Value::tuple({carry, ys}));
}

// While a program is captured again: its operators that take functions are recorded, not run.
class RecordControl : public ir::Control {
 public:
  bool run(const ir::Node& node, const std::vector<Value>& inputs, const std::vector<Body>& bodies,
           std::vector<Value>& outputs) override;
};

}  // namespace tern
