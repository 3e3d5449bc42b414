// The functions PyTorch ships as scripts. Internal to this room.
#pragma once
#include "tern/base/pointer.h"
#include "tern/script/ast.h"
#include "tern/tensor/dtype.h"

namespace tern::script {

Shared<const Source> functional_source();        // of "__torch__.torch.nn.functional"
Shared<const Source> torch_functional_source();  // of "__torch__.torch.functional"
Shared<const Source> nn_init_source();           // of "__torch__.torch.nn.init"
Shared<const Source> amp_autocast_source();      // of "__torch__.torch.amp.autocast_mode"
Shared<const Source> profiler_source();          // of "__torch__.torch.autograd.profiler"
// Of "__torch__.torch.<device>.amp.autocast_mode".
Shared<const Source> device_autocast_source(std::string_view device, DType dtype);
inline bool is_functional(const Shared<const Source>& s) {
  return s == functional_source() || s == torch_functional_source() || s == nn_init_source();
}

}  // namespace tern::script
