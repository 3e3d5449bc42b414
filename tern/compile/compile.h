// compile(): a module or function that is captured when it is called, once for every kind of input it meets,
// and run by a backend.
//   auto fast = compile(net, {.backend = "onnxrt"});
//   Tensor y = fast(x);
#pragma once
#include "tern/base/pointer.h"
#include "tern/export/export.h"
#include "tern/runtime/session.h"

namespace tern {

struct CompileOptions {
  std::string backend = "native";
  bool dynamic = true;  // sizes other than 0 and 1 become symbols where the program allows it
  int threads = 0;
};

// A cheap handle. What it was made from is borrowed and must outlive it. Where gradients are wanted the
// captured program is interpreted, so that they flow.
class Compiled {
 public:
  Compiled(Exportable what, CompileOptions options);

  Value call(const std::vector<Value>& args) const;
  template <class... A>
  Value operator()(const A&... args) const {
    return call({tree::to_value(args)...});
  }

  // What happened so far.
  size_t executions() const;                      // calls that the backend ran
  std::vector<ExportedProgram> programs() const;  // one for every set of guards

 private:
  struct State;
  Shared<State> state_;
};

template <class T>
Compiled compile(const T& what, CompileOptions options = {}) {
  return Compiled(details::exportable(const_cast<T&>(what)), std::move(options));
}

}  // namespace tern
