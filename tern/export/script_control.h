// Operators that take functions, as TorchScript says them.
#pragma once
#include "tern/ir/graph.h"

namespace tern {

// cond becomes prim::If; while_loop, map and scan become prim::Loop; a region without gradients stands in the
// program, with its results detached. Conditions that are tensors become bool. Throws not_supported for a
// region of autocast and for an operator that nobody knows.
void write_control_as_script(ir::Graph& graph);

}  // namespace tern
