// Capturing a module or a function as an ExportedProgram:
//   auto batch = Dim("batch", {.max = 4096});
//   auto program = export_program(net, {{"x", randn({2, 784})}}, {.dynamic = {{"x", {{0, batch}}}}});
// Nothing runs for real: inputs become fake tensors whose dynamic sizes are symbols, and no state is written
// to.
#pragma once
#include "tern/export/module.h"
#include "tern/export/program.h"
#include "tern/nn/callable.h"
#include "tern/sym/dims.h"
#include "tern/tree/convert.h"

namespace tern {

// An example input with the name that graph and messages use. Anything tree/convert.h knows is a value.
struct NamedValue {
  std::string name;
  Value value;
  template <class T>
  NamedValue(std::string_view n, const T& v) : name(n), value(tree::to_value(v)) {}
  NamedValue(const Tensor& t) : value(t) {}  // named by its position
};
using NamedValues = std::vector<NamedValue>;

// Dims of an input by its name, or by the place of a tensor inside it: "x", "ys[0]", "zs['a']". The name of a
// container stands for every tensor in it.
using DynamicShapes = std::vector<std::pair<std::string, std::vector<std::pair<int64_t, Dim>>>>;

struct ExportOptions {
  NamedValues kwargs = {};  // passed after the positional arguments; keywords in the program's input tree
  DynamicShapes dynamic = {};
  bool allow_complex_guards_as_runtime_asserts =
      false;  // relations that Dims cannot say are checked at run time
};

// What is captured, without its C++ type.
struct Exportable {
  Function<Value(const std::vector<Value>& args)> call;
  struct State {
    std::string name;
    Tensor tensor;
    InputKind kind = InputKind::parameter;
    bool persistent = true;
  };
  std::vector<State> state = {};  // each tensor once
  NamedTensors aliases = {};      // further names of the same tensors
  std::string type_name = {};
  Function<void()> check_state = {};  // throws if the module was changed in a way that a program cannot say
};
Exportable exportable_state(const nn::Module& module);  // all but `call`

// Throws UserError texts of PyTorch with suggested fixes where the dims do not hold.
ExportedProgram export_program(const Exportable& what, const NamedValues& args,
                               const ExportOptions& options = {});
ExportedProgram export_for_training(const Exportable& what, const NamedValues& args,
                                    const ExportOptions& options = {});

// A program without mutation, with the operators that `expand` names replaced by their bodies; with `unroll`,
// loops are written out as far as their rounds are sure to come.
ExportedProgram lower(const ExportedProgram& program, const Function<bool(const Op&)>& expand,
                      Dialect dialect, bool unroll = false);

namespace details {

template <class T>
Exportable exportable(T& what) {
  if constexpr (std::is_same_v<T, ExportedModule>) {
    Exportable e = exportable_state(what);
    e.call = [&what](const std::vector<Value>& args) { return what.call_flat_args(args); };
    return e;
  } else if constexpr (std::is_base_of_v<nn::Module, T>) {
    Function<Value(const std::vector<Value>&)> call = nn::as_callable(what);
    Exportable e = exportable_state(what);
    e.call = std::move(call);
    return e;
  } else {
    return {.call = nn::as_callable(what)};
  }
}

template <class T>
concept CanExport = !std::is_same_v<T, Exportable>;

}  // namespace details

// A module with one `forward`, or a function: arguments and result are what tree/convert.h knows. Functional
// ATen.
template <class T>
requires details::CanExport<T> ExportedProgram export_program(const T& what, const NamedValues& args,
                                                              const ExportOptions& options = {}) {
  return export_program(details::exportable(const_cast<T&>(what)), args, options);
}
// The calls as the user made them, mutation included.
template <class T>
requires details::CanExport<T> ExportedProgram export_for_training(const T& what, const NamedValues& args,
                                                                   const ExportOptions& options = {}) {
  return export_for_training(details::exportable(const_cast<T&>(what)), args, options);
}

}  // namespace tern
