// What a gradient formula sees: the saved arguments and results, the gradients that arrive, and where to put
// its own.
#pragma once
#include "tern/dispatch/op.h"

namespace tern {

// What the formulas of the wanted gradients read: bit i is argument i.
struct GradNeeds {
  uint64_t whole = 0;
  uint64_t meta = 0;  // shape and dtype only
};

struct GradContext {
  const Op& op;
  const Arg* args;              // in schema order; what was not saved is an undefined tensor
  const Value* results;         // what was not saved is None
  Span<const Tensor> incoming;  // one per result; undefined where nothing flowed back
  Span<const Shape> result_shapes;
  uint64_t wanted;             // arguments that need a gradient
  Value* gradients;            // one per argument
  GradNeeds* needs = nullptr;  // where it is given, the formulas only say here what they will read

  void need(uint64_t whole, uint64_t meta) const {
    needs->whole |= whole;
    needs->meta |= meta;
  }
  bool wants(int arg) const { return wanted >> arg & 1; }
  bool has_grad(int result = 0) const { return incoming[result].defined(); }
  Tensor grad(int result = 0) const;  // zeros where nothing flowed back
  const Tensor& result(int i = 0) const { return results[i].tensor(); }
  void set(int arg, Tensor g) { gradients[arg] = Value(std::move(g)); }
  void set(int arg, const std::vector<Tensor>& g) { gradients[arg] = Value(g); }
};

}  // namespace tern
