// Numbers where a schema has a tensor.
#pragma once
#include "tern/export/program.h"

namespace tern {

// where(condition, x, 0.0) and its like get scalar_tensor(0.0) of the dtype they compute in: PyTorch takes a
// number in place of a tensor for the arithmetic operators only.
void make_tensors_of_numbers(ir::Graph& graph);
// A program with that done; the program itself where there is no such number.
ExportedProgram with_tensors_for_numbers(const ExportedProgram& program);

}  // namespace tern
