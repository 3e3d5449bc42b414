// Names as a .pt2 file may have them.
#pragma once
#include "tern/export/program.h"

namespace tern::pt2 {

// The program with values whose names are Python's identifiers: PyTorch writes source of them. Another model
// format's "/conv/Conv_output_0" becomes _conv_Conv_output_0. The program itself where all names are.
ExportedProgram with_identifiers(const ExportedProgram& program);

}  // namespace tern::pt2
