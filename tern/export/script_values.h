// What a script holds and a program cannot, in terms of what it can: a value that may be None, and a list of
// tensors whose length depends on data. Internal to this room.
#pragma once
#include "tern/ir/graph.h"

namespace tern {

// Results of branches and loops that may be None become a flag and a value that is read only if the flag says
// so. Those that are used as they are (given to an operator, returned) stay. Whether there were any.
bool split_optionals(ir::Graph& graph);

// Lists of tensors that branches and loops append to become tensors that grow, of which the elements are the
// rows; or, where all are concatenated in the end, the pieces. prim::NoRows is one before the first element,
// prim::AppendRow(rows, x) one more. Lists that are used in other ways stay. Whether there were any.
bool lists_to_rows(ir::Graph& graph);

}  // namespace tern
