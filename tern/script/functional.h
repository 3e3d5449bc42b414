// The functions PyTorch ships as scripts. Internal to this room.
#pragma once
#include "tern/script/ast.h"

namespace tern::script {

std::shared_ptr<const Source> functional_source();  // of "__torch__.torch.nn.functional"

}  // namespace tern::script
