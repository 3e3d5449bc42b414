// Blocks that stand on their own: what a block uses from outside becomes a parameter of it.
#pragma once
#include "tern/ir/graph.h"

namespace tern::capture {

// For a node whose blocks all take the node's inputs from `first_operand` on (higher_order::cond: 1): values
// from outside that any of the blocks uses become further inputs of the node and parameters of each block, in
// order of first use. With `items_inside`, a number that is taken out of a tensor is taken out again inside.
void lift_closures(ir::Node& node, size_t first_operand, bool items_inside = false);

// What a block uses and does not define, in order of first use.
std::vector<ir::Value*> values_from_outside(const ir::Block& block);

}  // namespace tern::capture
