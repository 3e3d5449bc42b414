// Where a node comes from, as the metadata of a .pt2 file says it.
#pragma once
#include "tern/ir/graph.h"

namespace tern::pt2 {

void read_trace(std::string_view text, ir::Origin& origin);  // of "stack_trace"
const ir::ModuleScope* module_stack(std::string_view text);  // of "nn_module_stack"

}  // namespace tern::pt2
