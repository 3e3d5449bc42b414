// Between TorchScript and exported programs.
#pragma once
#include "tern/base/pointer.h"
#include "tern/export/program.h"
#include "tern/jit/script_module.h"

namespace tern {

// The module's `forward` with every call inlined; parameters and buffers become the program's state, other
// attributes constants. The graph stays as the script has it (training dialect): mutation, branches and loops
// included. Sizes of inputs are not known.
ExportedProgram from_script(const jit::ScriptModule& module, std::string_view method = "forward");
// The same for inputs like these: sizes and types are known, mutation has become new values and composites
// are expanded. A size that is a symbol of `shapes` stays dynamic; other values than tensors become
// constants. Arguments at the end that have defaults may be left out: the program then takes none.
ExportedProgram from_script(const jit::ScriptModule& module, const std::vector<Value>& examples,
                            std::string_view method = "forward", Shared<ShapeEnv> shapes = nullptr);
// A module whose `forward` is the program's graph; what the program writes to its buffers and inputs is
// written there before it returns.
jit::ScriptModule to_script(const ExportedProgram& program);

// Tensors that stand inside the graph become constants of the program: files keep them beside the graph.
void lift_constants(ExportedProgram::Data& data);

}  // namespace tern
