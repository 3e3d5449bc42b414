// The body of the operators whose row says @each.
#pragma once
#include "tern/dispatch/op.h"

namespace tern {

void body_each(const Op& op, const Arg* args, Value* results);

}  // namespace tern
