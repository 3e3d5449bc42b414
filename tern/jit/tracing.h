// Tasks, which traces keep. (Sizes that a trace keeps: shape() and numel() of dispatch/recording.h.)
#pragma once
#include "tern/base/function.h"
#include "tern/base/pointer.h"
#include "tern/jit/script_module.h"
#include "tern/tree/convert.h"

namespace tern::jit {

// What a task gives.
class Future {
 public:
  bool defined() const { return state_ != nullptr; }

 private:
  friend Future fork_value(const tern::Function<tern::Value()>& task);
  friend tern::Value wait(const Future& future);
  struct State;
  Shared<State> state_;
};

// Runs the function at once. A trace records it as prim::fork: whoever runs the graph may run it beside the
// rest.
Future fork_value(const tern::Function<tern::Value()>& task);
template <class F, class... A>
Future fork(F&& f, const A&... args) {
  return fork_value([&] { return tree::to_value(f(args...)); });
}
// What the task gave; aten::wait in a trace. Throws for an empty Future.
tern::Value wait(const Future& future);

}  // namespace tern::jit
