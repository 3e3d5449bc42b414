// What PyTorch 2.13's run_decompositions() does: which operators it expands, and which calls it writes
// otherwise.
#pragma once
#include "tern/export/program.h"

namespace tern {

// Whether an operator is replaced by its body on the way to the dialect.
bool is_decomposed(const Op& op, Dialect to);
// Calls that mean nothing to a program that runs: dropout in evaluation becomes the copy PyTorch makes of it,
// and detach_ of a constant goes. The program itself where it has none of them.
ExportedProgram without_idle_calls(const ExportedProgram& program);
// After the lowering: a constant that is brought in is a clone, and the new statistics of a batch norm are
// what it gives, not copied onto the old ones.
void write_as_pytorch(ir::Graph& graph);

}  // namespace tern
