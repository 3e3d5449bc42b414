// TorchScript's builtins on numbers, strings, lists, tuples and dicts: functions on Values, in one table.
#pragma once
#include "tern/base/span.h"
#include "tern/base/symbol.h"
#include "tern/tensor/value.h"

namespace tern::ir {

using Builtin = tern::Value (*)(Span<const tern::Value> in);

// By name with or without an overload: "aten::add", "aten::add.int", "_operator::ge"; nullptr if there is
// none.
Builtin find_builtin(Symbol kind);
bool builtin_has_effect(Symbol kind);  // mutates its first argument, prints, raises
bool builtin_mutates(Symbol kind);     // changes the container that is its first argument
bool truth(const tern::Value& v);      // Python's bool(v); a symbolic one is guarded on

}  // namespace tern::ir
