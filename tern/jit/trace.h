// jit::trace: a module or a function, run once on example inputs, as a ScriptModule.
//   jit::trace(net, {randn({2, 784})}).save("net.pt");
#pragma once
#include "tern/jit/script_module.h"
#include "tern/nn/callable.h"

namespace tern::jit {

struct TraceOptions {
  // The traced module is run beside the function on `check_inputs` (by default the example inputs): another
  // graph is an error, other numbers are a TracerWarning.
  bool check_trace = true;
  std::vector<std::vector<tern::Value>> check_inputs = {};
  double check_tolerance = 1e-5;
  bool strict = true;                   // dictionaries as outputs are refused
  bool force_outplace = false;          // in-place calls are recorded as their functional form
  std::vector<std::string> names = {};  // of the inputs
};

// What is traced, without its C++ type.
struct Traced {
  tern::Function<tern::Value(const std::vector<tern::Value>&)> call;
  const nn::Module* module = nullptr;
};

// Throws what the function throws, and TracingCheckError's text: "Graphs differed across invocations!".
ScriptModule trace(const Traced& what, const std::vector<tern::Value>& inputs,
                   const TraceOptions& options = {});
// The graph alone: parameters that are used follow the inputs, each tensor once; no self.
struct TracedGraph {
  std::unique_ptr<ir::Graph> graph;
  tern::Value outputs;
  std::vector<Tensor> inputs;  // for the graph's inputs, in order
};
TracedGraph trace_graph(const Traced& what, const std::vector<tern::Value>& inputs,
                        const TraceOptions& options = {});

template <class T>
concept Traceable = !std::is_same_v<T, Traced>;
template <Traceable T>
Traced traced(T& what) {
  Traced t{nn::as_callable(what)};
  if constexpr (std::is_base_of_v<nn::Module, T>) t.module = &what;
  return t;
}
template <Traceable T>
ScriptModule trace(const T& what, const std::vector<tern::Value>& inputs, const TraceOptions& options = {}) {
  return trace(traced(const_cast<T&>(what)), inputs, options);
}
template <Traceable T>
TracedGraph trace_graph(const T& what, const std::vector<tern::Value>& inputs,
                        const TraceOptions& options = {}) {
  return trace_graph(traced(const_cast<T&>(what)), inputs, options);
}

}  // namespace tern::jit
