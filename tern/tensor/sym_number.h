// Numbers that may be symbolic while a program is captured: what item() of a tensor gives, and what is
// computed from sizes. Arithmetic is Scalar's own; here are the functions and the comparisons.
//   Scalar s = x.item();
//   y * (s * 2.0 + 1), y / sym_sqrt(x.size(-1)), check(sym_gt(s, 0))
#pragma once
#include "tern/tensor/scalar.h"

namespace tern {

Scalar sym_float(const Scalar& a);
Scalar sym_int(const Scalar& a);  // the whole part
Scalar sym_floor(const Scalar& a);
Scalar sym_ceil(const Scalar& a);
Scalar sym_sqrt(const Scalar& a);
Scalar sym_pow(const Scalar& base, const Scalar& exponent);
Scalar sym_floor_div(const Scalar& a, const Scalar& b);
Scalar sym_divide(const Scalar& a, const Scalar& b);  // true division
Scalar sym_mod(const Scalar& a, const Scalar& b);     // Python's: the sign of b
Scalar sym_abs(const Scalar& a);
Scalar sym_min(const Scalar& a, const Scalar& b);
Scalar sym_max(const Scalar& a, const Scalar& b);

// The condition itself, no guard.
SymBool sym_compare(sym::Op op, const Scalar& a, const Scalar& b);
inline SymBool sym_eq(const Scalar& a, const Scalar& b) { return sym_compare(sym::Op::eq, a, b); }
inline SymBool sym_ne(const Scalar& a, const Scalar& b) { return sym_compare(sym::Op::ne, a, b); }
inline SymBool sym_lt(const Scalar& a, const Scalar& b) { return sym_compare(sym::Op::lt, a, b); }
inline SymBool sym_le(const Scalar& a, const Scalar& b) { return sym_compare(sym::Op::le, a, b); }
inline SymBool sym_gt(const Scalar& a, const Scalar& b) { return sym_compare(sym::Op::gt, a, b); }
inline SymBool sym_ge(const Scalar& a, const Scalar& b) { return sym_compare(sym::Op::ge, a, b); }

// The answer: a guard where sizes are compared; throws where the number comes from data.
inline bool operator<(const Scalar& a, const Scalar& b) { return sym_lt(a, b).guard_bool(Loc{}); }
inline bool operator<=(const Scalar& a, const Scalar& b) { return sym_le(a, b).guard_bool(Loc{}); }
inline bool operator>(const Scalar& a, const Scalar& b) { return sym_gt(a, b).guard_bool(Loc{}); }
inline bool operator>=(const Scalar& a, const Scalar& b) { return sym_ge(a, b).guard_bool(Loc{}); }

}  // namespace tern
