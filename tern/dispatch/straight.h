// For operators that are made of others: whether a call may skip them and go to a kernel of its own.
#pragma once
#include <initializer_list>

#include "tern/tensor/tensor.h"
#include "tern/tensor/thread_state.h"

namespace tern {

// Nobody looks at the operators below this call: nothing records or changes them, and no operand is fake,
// quantized or wants a gradient.
inline bool goes_straight(std::initializer_list<const Tensor*> operands) {
  unsigned rungs = thread_state.active;
  bool gradients = false;
  for (const Tensor* t : operands) {
    if (!t->defined()) continue;
    rungs |= (*t)->rungs;
    gradients = gradients || t->requires_grad();
  }
  const unsigned passed_by = thread_state.excluded | rung_autograd;
  return !(rungs & ~passed_by) && !(gradients && thread_state.grad_enabled);
}

}  // namespace tern
