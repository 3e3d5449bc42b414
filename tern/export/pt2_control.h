// Choices and loops as .pt2 files hold them. Internal to this room.
#pragma once
#include "tern/export/program.h"

namespace tern::pt2 {

// prim::If and prim::Loop as torch.cond and torch.while_loop: numbers that they give or carry become tensors
// without dimensions. The program itself where there are none. Throws for a loop whose tensors change size.
ExportedProgram with_control_operators(const ExportedProgram& program);

}  // namespace tern::pt2
