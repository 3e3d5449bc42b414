// What PyTorch does with a function before it takes the place of a call: conditions that types or constants
// decide, and constants that can be computed.
#pragma once
#include "tern/ir/graph.h"

namespace tern::script {

void preoptimise(ir::Graph& graph);

}  // namespace tern::script
