// Tracing: runs a function on example inputs and writes down what it did, as a graph of a module's method.
#pragma once
#include "tern/base/function.h"
#include "tern/ir/graph.h"

namespace tern::capture {

// A tensor that belongs to the module being traced: read by GetAttr along its path.
struct StateTensor {
  std::string path;  // "fc1.weight"
  Tensor tensor;
};

struct TraceOptions {
  bool is_module = false;  // the graph's first input is %self
  std::string class_name = "__torch__.Module";
  bool strict = true;                   // dictionaries as outputs are refused
  bool force_outplace = false;          // in-place calls are recorded as their functional form
  std::vector<std::string> names = {};  // of the inputs; "x", "input_1" ... by default
};

struct Trace {
  std::unique_ptr<ir::Graph> graph;
  tern::Value outputs;  // what the function gave
};

using Traceable = Function<tern::Value(const std::vector<tern::Value>& inputs)>;
Trace trace(const Traceable& f, const std::vector<tern::Value>& inputs, Span<const StateTensor> state,
            const TraceOptions& options = {});

}  // namespace tern::capture
