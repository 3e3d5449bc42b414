// What is known of a value that comes from one of two places.
#pragma once
#include "tern/ir/type.h"

namespace tern::ir {

// Of two tensors what they agree on: a dim they differ in is unknown. Of other types the first if they are
// equal, Any if not.
const Type* merged(const Type* a, const Type* b);

}  // namespace tern::ir
