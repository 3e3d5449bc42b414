// Which overload a call without an overload name means.
#pragma once
#include "tern/ir/graph.h"

namespace tern::ir {

const Type* type_of(const In& in);

// The first overload, in declaration order, that takes arguments of these types and gives so many results;
// nullptr if none does.
const Op* resolve_overload(Symbol name, Span<const In> inputs, Span<const std::pair<Symbol, In>> keywords,
                           size_t results);

}  // namespace tern::ir
