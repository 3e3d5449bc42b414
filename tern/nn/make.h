// Memory for a layer's parameters, before they get their initial values.
#pragma once
#include "tern/tensor/tensor.h"

namespace tern::nn {

// An undefined dtype is the default one; on the meta device there is no memory. Throws for negative sizes.
Tensor make_uninitialised(Span<const SymInt> sizes, DType dtype, Device device);

}  // namespace tern::nn
