// jit::trace: a module or a function, run once on example inputs, as a ScriptModule.
//   jit::trace(net, {randn({2, 784})}).save("net.pt");
// A struct may name the arguments of its forward: static constexpr const char* arguments[] = {"x", "mask"};
#pragma once
#include "tern/base/pointer.h"
#include "tern/jit/script_module.h"
#include "tern/nn/callable.h"

namespace tern::jit {

struct TraceOptions {
  // The traced module is run beside the function on `check_inputs` (by default the example inputs): another
  // graph is an error, other numbers are a TracerWarning.
  bool check_trace = true;
  std::vector<std::vector<tern::Value>> check_inputs = {};
  double check_tolerance = 1e-5;
  bool strict = true;                   // dictionaries as outputs are refused, lists warned of
  bool force_outplace = false;          // in-place calls are recorded as their functional form
  std::vector<std::string> names = {};  // of the inputs
  // Example inputs by the names of the arguments; then there are no positional ones.
  std::vector<std::pair<std::string, tern::Value>> keyword_inputs = {};
  std::string name = "traced";  // of a traced function
};

// What is traced, without its C++ type.
struct Traced {
  tern::Function<tern::Value(const std::vector<tern::Value>&)> call;
  const nn::Module* module = nullptr;
  std::vector<std::string> names = {};  // of the arguments, where they are known
};

// Throws what the function throws, and TracingCheckError's text: "Graphs differed across invocations!".
ScriptModule trace(const Traced& what, const std::vector<tern::Value>& inputs,
                   const TraceOptions& options = {});
// A function that scripts and other traces can call, by `options.name`.
Shared<script::Function> trace_function(const Traced& what, const std::vector<tern::Value>& inputs,
                                        const TraceOptions& options = {});
// The graph alone: parameters that are used follow the inputs, each tensor once; no self, no methods.
struct TracedGraph {
  Owned<ir::Graph> graph;
  tern::Value outputs;
  std::vector<Tensor> inputs;  // for the graph's inputs, in order
};
TracedGraph trace_graph(const Traced& what, const std::vector<tern::Value>& inputs,
                        const TraceOptions& options = {});

// Several methods of one module, each with its example inputs.
struct TracedMethod {
  std::string name;
  Traced what;
  std::vector<tern::Value> inputs;
  std::vector<std::vector<tern::Value>> check_inputs = {};
};
ScriptModule trace_module(const nn::Module& module, const std::vector<TracedMethod>& methods,
                          const TraceOptions& options = {});

template <class T>
concept Traceable = !std::is_same_v<T, Traced>;
template <Traceable T>
Traced traced(T& what) {
  Traced t{nn::as_callable(what)};
  if constexpr (std::is_base_of_v<nn::Module, T>) t.module = &what;
  if constexpr (requires { T::arguments; })
    for (const char* name : T::arguments) t.names.emplace_back(name);
  return t;
}
template <Traceable T>
ScriptModule trace(const T& what, const std::vector<tern::Value>& inputs, const TraceOptions& options = {}) {
  return trace(traced(const_cast<T&>(what)), inputs, options);
}
template <Traceable T>
Shared<script::Function> trace_function(const T& what, const std::vector<tern::Value>& inputs,
                                        const TraceOptions& options = {}) {
  return trace_function(traced(const_cast<T&>(what)), inputs, options);
}
template <Traceable T>
TracedGraph trace_graph(const T& what, const std::vector<tern::Value>& inputs,
                        const TraceOptions& options = {}) {
  return trace_graph(traced(const_cast<T&>(what)), inputs, options);
}

// method("weighted_sum", net, &Net::weighted_sum, {w}), for trace_module.
template <class M, class R, class... A>
TracedMethod method(std::string name, M& module, R (M::*function)(A...), std::vector<tern::Value> inputs,
                    std::vector<std::vector<tern::Value>> check_inputs = {}) {
  module.template name_type<M>();
  Traced what{[&module, function](const std::vector<tern::Value>& args) {
    return nn::call_with_values<R, A...>(
        args, [&](auto&... a) -> R { return (module.*function)(static_cast<A>(a)...); });
  }};
  what.module = &module;
  return {std::move(name), std::move(what), std::move(inputs), std::move(check_inputs)};
}
// trace(net, &Net::forward, {x}): only forward can be traced alone.
[[noreturn]] void not_forward();
template <class M, class R, class... A>
ScriptModule trace(const M& module, R (M::*function)(A...), const std::vector<tern::Value>& inputs,
                   const TraceOptions& options = {}) {
  if constexpr (std::is_same_v<decltype(&M::forward), R (M::*)(A...)>) {
    if (function == &M::forward) return trace(module, inputs, options);
  }
  not_forward();
}

// Names the value a tensor stands for in the trace that is recorded now: Tensor y = jit::named("y", x + 1).
Tensor named(std::string_view name, const Tensor& t);

}  // namespace tern::jit
