// Between TorchScript and exported programs.
#pragma once
#include "tern/export/program.h"
#include "tern/jit/script_module.h"

namespace tern {

// The module's `forward` with every call inlined; parameters and buffers become the program's state, other
// attributes constants. The graph stays as the script has it (training dialect): mutation, branches and loops
// included. Sizes of inputs are not known.
ExportedProgram from_script(const jit::ScriptModule& module);
// A module whose `forward` is the program's graph.
jit::ScriptModule to_script(const ExportedProgram& program);

}  // namespace tern
