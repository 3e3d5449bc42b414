// higher_order::auto_functionalized(_v2): an operator that writes to its arguments, called on copies of them.
// The node has the attributes "operator" (its qualified name) and "arg_names" (of the inputs).
#pragma once
#include <vector>

#include "tern/ir/graph.h"

namespace tern::ir {

bool is_auto_functionalized(const Node& node);

// Runs the operator. Gives its results (None if it has none), then the copies as it left them.
// Throws not_supported for an operator nobody defined.
std::vector<tern::Value> run_auto_functionalized(const Node& node, const std::vector<tern::Value>& inputs);

}  // namespace tern::ir
