// What opgen writes: every family's table, named in one place so that a static library drops nothing.
#pragma once
#include "tern/dispatch/op.h"

namespace tern {

using OpTable = Span<const Op>;
Span<const OpTable> op_tables();  // generated: registry.gen.cpp

}  // namespace tern
