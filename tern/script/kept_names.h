// Operators that go by two names: scripts keep one of them. Internal to this room.
#pragma once
#include "tern/dispatch/op.h"

namespace tern::script {

// aten::cat for aten::concat, aten::abs_ for aten::absolute_, ...; of others the operator itself. aten::rsub
// of two tensors is aten::sub, whose first two arguments are swapped.
const Op& kept_name(const Op& op);

}  // namespace tern::script
