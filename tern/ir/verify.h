// The verifier: what every pass must leave true.
#pragma once
#include "tern/ir/graph.h"

namespace tern::ir {

// Checks structure, names, uses, dominance, arity and types against schemas, and blocks of structural nodes.
// Linear. Throws Error(internal) that names the node and the reason.
void verify(const Graph& graph);

}  // namespace tern::ir
