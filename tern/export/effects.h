// Calls that do more than give results, in a file of PyTorch's.
#pragma once
#include "tern/export/program.h"

namespace tern {

// PyTorch ties such a call to a functional program by a token: an input, an output, and in between one that
// every call takes and gives, with_effects(token, operator, ...). A call without one could be taken for dead.
// The program itself where there is no such call.
ExportedProgram with_tokens(const ExportedProgram& program);

}  // namespace tern
