// Small tensors whose elements are known although the program is only captured: sizes that became tensors,
// constants, and what is computed from them. A traced script computes sizes that way; taking the number back
// out of such a tensor then needs no data.
#pragma once
#include <optional>
#include <unordered_map>

#include "tern/dispatch/ladder.h"

namespace tern::capture {

class KnownTensors {
 public:
  // The number in a tensor of one element; nullopt when it is not known.
  std::optional<Value> number(const Tensor& t) const;
  void set(const Tensor& t, const Value& number);          // an int (symbolic too), float or bool
  void set_constant(const Tensor& t, const Tensor& real);  // kept only if it is small
  // After a call: what the results hold, if that follows from what the inputs hold. `inputs` and `results`
  // are the tensors as the caller handles them.
  void follow(const Op& op, Span<const Value> inputs, Span<const Value> results);

 private:
  struct Entry {
    Tensor kept;  // keeps the address from being used again
    Tensor real;  // undefined: `symbol` is the value of an int64 tensor without dimensions
    SymInt symbol;
  };
  const Entry* find(const Tensor& t) const;
  bool real_value(const Value& v, Value& real, bool& any) const;
  std::optional<SymInt> symbolic(const Op& op, Span<const Value> inputs) const;
  std::optional<SymInt> integer(const Value& v) const;
  void forget_memory(const Tensor& t);
  std::unordered_map<const TensorBody*, Entry> entries_;
};

}  // namespace tern::capture
