// Calls of operators whose arguments have to fit each other: `tern ops` finds their dtypes with these.
#pragma once
#include <optional>

#include "tern/dispatch/op.h"

namespace tern::command {

// One call of the operators named; nullptr where any tensors of one shape will do.
const char* call_of(const Op& op);
// Whether a call takes quantized tensors: then it is tried with the quantized types.
bool takes_quantized(const char* call);
// What the call says of an argument, with tensors of `dtype`; nothing where it leaves it to its default.
std::optional<Value> written_value(const char* call, const SchemaArg& arg, DType dtype);

}  // namespace tern::command
