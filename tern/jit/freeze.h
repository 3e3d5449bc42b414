// Freezing: a module in evaluation as one graph a method, its parameters and attributes as constants.
//   jit::freeze(jit::load("net.pt").eval()).save("frozen.pt");
#pragma once
#include "tern/jit/script_module.h"

namespace tern::jit {

// A new module with `forward` and the methods among `preserved`. Attributes become constants unless the
// module writes to them or `preserved` names them (dotted names reach into submodules); what is not needed
// any more is removed, submodules included. Throws for a module in training mode and for unknown names.
ScriptModule freeze(const ScriptModule& module, const std::vector<std::string>& preserved = {},
                    bool optimize_numerics = true);

// What freeze does to the graphs at the end: dropout is removed and, with `optimize_numerics`, batch norm and
// additions or multiplications by constants are folded into the convolutions (and batch norm into the linear
// layers) before them. Results may differ in the last digits.
void run_frozen_optimizations(const ScriptModule& module, bool optimize_numerics = true,
                              const std::vector<std::string>& other_methods = {});

// Freezes unless that was done, and optimises. The module is put in evaluation mode.
ScriptModule optimize_for_inference(const ScriptModule& module,
                                    const std::vector<std::string>& other_methods = {});

// Whether something was folded. The graph's weights must be constants.
bool fold_frozen_numerics(ir::Graph& graph);

}  // namespace tern::jit
