// What a captured program may assume of numbers that come from data: torch._check and its relatives. On plain
// numbers they are checked at once; under a capture they become knowledge and run-time assertions in the
// graph.
//   SymInt n = x.item().sym();
//   check_is_size(n);
//   check(sym_le(n, 5));
#pragma once
#include <string>

#include "tern/sym/sym_int.h"

namespace tern {

// Throws `message` where the condition is false.
void check(SymBool condition, std::string message = {}, Loc loc = Loc::here());
void check_is_size(SymInt value, Loc loc = Loc::here());
// `value` lies between min and max, both included: "Invalid value range for 3 between [4, 5]".
void constrain_range(SymInt value, int64_t min, int64_t max, Loc loc = Loc::here());

// Comparisons that are conditions, not answers: a == b of two sizes would write a guard.
inline SymBool sym_eq(SymInt a, SymInt b) { return sym_compare(sym::Op::eq, a, b); }
inline SymBool sym_ne(SymInt a, SymInt b) { return sym_compare(sym::Op::ne, a, b); }
inline SymBool sym_lt(SymInt a, SymInt b) { return sym_compare(sym::Op::lt, a, b); }
inline SymBool sym_le(SymInt a, SymInt b) { return sym_compare(sym::Op::le, a, b); }
inline SymBool sym_gt(SymInt a, SymInt b) { return sym_compare(sym::Op::gt, a, b); }
inline SymBool sym_ge(SymInt a, SymInt b) { return sym_compare(sym::Op::ge, a, b); }

}  // namespace tern
