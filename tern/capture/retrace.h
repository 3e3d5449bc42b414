// retrace(): runs a graph under chosen rungs with a recorder. It is functionalisation, decomposition and
// shape propagation, depending on what is mounted; origin, scope and names of the nodes it interprets are
// passed on.
#pragma once
#include "tern/base/function.h"
#include "tern/base/pointer.h"
#include "tern/ir/graph.h"

namespace tern {
struct Op;
}

namespace tern::capture {

struct RetraceOptions {
  bool functional = true;                 // mutation becomes new values
  Function<bool(const Op&)> expand = {};  // which operators are replaced by their bodies
  // Example inputs: fake tensors with the wanted (symbolic) sizes. By default made from the types of the
  // graph's inputs.
  std::vector<tern::Value> inputs = {};
  Shared<ShapeEnv> shapes = {};  // by default the graph's
  bool keep_names = true;
  std::string_view item_kind = "aten::item";  // how the number in a tensor is taken out
  bool unroll = false;                        // rounds of loops that are sure to come, one by one
};

struct Retraced {
  Owned<ir::Graph> graph;
  // Inputs that the program writes to: their new values come first among the outputs, in this order.
  std::vector<size_t> mutated;
  // Fake: the user's outputs, for their shapes. A list, tuple or dict is as many outputs of the graph as it
  // has leaves.
  std::vector<tern::Value> outputs;
  bool prints = false;  // what the graph prints is lost
};

// Throws with the node and its source line in front of the reason.
Retraced retrace(const ir::Graph& graph, const RetraceOptions& options = {});

// Which operators run_decompositions expands: composites only (what PyTorch calls CompositeImplicit), or
// everything that is not core ATen.
bool is_composite(const Op& op);
bool is_not_core(const Op& op);

// A fake tensor of that type; unknown dims become unbacked symbols of `shapes`.
Tensor fake_like(const ir::Type& type, ShapeEnv* shapes);

}  // namespace tern::capture
