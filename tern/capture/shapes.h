// Shape propagation: a graph is walked with fake tensors, and its values are given the types that come out.
// Nothing is computed and the graph stays as it is; what cannot be known stays open.
#pragma once
#include "tern/base/function.h"
#include "tern/ir/graph.h"

namespace tern::capture {

struct ShapeOptions {
  // One for each input: a tensor, real or fake (symbolic sizes too), a number, a container. None where
  // nothing is known; missing ones are made from the types of the graph's inputs.
  std::vector<tern::Value> inputs = {};
  // What an attribute holds; nullptr when nobody knows. Only its shape is looked at.
  Function<const tern::Value*(const ir::Node& get_attr)> known = {};
  // The graph that a prim::CallMethod or prim::CallFunction runs, with the call's inputs; nullptr if unknown.
  Function<const ir::Graph*(const ir::Node& call)> callee = {};
};

struct ShapeReport {
  size_t known = 0, open = 0;  // tensors with sizes, and those without
  std::string why;             // of the first that has none: the node and the reason
};

// Branches give what both give; loops what every round gives.
ShapeReport propagate_shapes(ir::Graph& graph, const ShapeOptions& options = {});

}  // namespace tern::capture
