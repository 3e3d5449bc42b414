// Sizes that may be symbolic. A SymInt is an integer, or a handle to an expression of a ShapeEnv.
// Comparing two of them asks the env, which answers from the hints and writes the guard down.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "tern/base/location.h"

namespace tern {

class SymInt {
 public:
  // The upper 16 bits of a handle. The integers that begin with them, one in 65,536, cannot be had; the
  // smallest of all, which models mask with, can.
  static constexpr int64_t handle_tag = -0x75A4;

  constexpr SymInt() = default;
  template <class I>
  requires std::is_integral_v<I>
  constexpr SymInt(I value) : bits_(static_cast<int64_t>(value)) {}

  constexpr bool is_symbolic() const { return bits_ >> 48 == handle_tag; }
  constexpr bool is_int() const { return bits_ >> 48 != handle_tag; }
  constexpr int64_t as_int() const { return bits_; }  // precondition: is_int()
  constexpr int64_t bits() const { return bits_; }
  static constexpr SymInt from_bits(int64_t bits) {
    SymInt s;
    s.bits_ = bits;
    return s;
  }

  // The value now; of a symbolic one the hint, and the program is specialised to it (a guard is written
  // down with `loc`). Throws for an unbacked symbol, naming where it came from.
  int64_t guard_int(Loc loc = Loc::here()) const { return is_int() ? bits_ : guard_symbolic(loc); }
  explicit operator int64_t() const { return guard_int(Loc{}); }
  std::optional<int64_t> hint() const;       // the example's value, if there is one; writes no guard
  std::optional<int64_t> maybe_int() const;  // the value if it is statically known; writes no guard
  std::string str() const;                   // "s0 + 1"
  bool is_real() const;                      // a symbol that stands for a float: zuf0

 private:
  int64_t guard_symbolic(Loc loc) const;
  int64_t bits_ = 0;
};
static_assert(std::is_trivially_copyable_v<SymInt> && sizeof(SymInt) == 8);

// The right operand of a comparison: converting to it notes where the comparison stands.
struct SymOperand {
  SymInt value;
  Loc loc;
  template <class I>
  requires std::is_integral_v<I> SymOperand(I v, Loc at = Loc::here()) : value(v), loc(at) {}
  SymOperand(SymInt v, Loc at = Loc::here()) : value(v), loc(at) {}
};

namespace sym {
enum class Op : uint8_t { add, sub, mul, floor_div, mod, min, max, eq, ne, lt, le, gt, ge };
SymInt arithmetic(Op op, SymInt a, SymInt b);
bool compare(Op op, SymInt a, SymInt b, Loc loc);  // answers and writes the guard down
}  // namespace sym

// Numbers wrap round, as in PyTorch: what is too large for memory is refused where memory is asked for.
inline SymInt operator+(SymInt a, SymInt b) {
  if (a.is_int() && b.is_int()) return static_cast<int64_t>(uint64_t(a.as_int()) + uint64_t(b.as_int()));
  return sym::arithmetic(sym::Op::add, a, b);
}
inline SymInt operator-(SymInt a, SymInt b) {
  if (a.is_int() && b.is_int()) return static_cast<int64_t>(uint64_t(a.as_int()) - uint64_t(b.as_int()));
  return sym::arithmetic(sym::Op::sub, a, b);
}
inline SymInt operator*(SymInt a, SymInt b) {
  if (a.is_int() && b.is_int()) return static_cast<int64_t>(uint64_t(a.as_int()) * uint64_t(b.as_int()));
  return sym::arithmetic(sym::Op::mul, a, b);
}
// Python's // and %: towards minus infinity. Throws on division by zero.
SymInt floor_div(SymInt a, SymInt b);
SymInt mod(SymInt a, SymInt b);
SymInt truncated_product(SymInt size, double factor);  // the whole part; neither is negative
SymInt sym_min(SymInt a, SymInt b);
SymInt sym_max(SymInt a, SymInt b);
inline SymInt operator-(SymInt a) { return SymInt(0) - a; }
inline SymInt& operator+=(SymInt& a, SymInt b) { return a = a + b; }
inline SymInt& operator-=(SymInt& a, SymInt b) { return a = a - b; }
inline SymInt& operator*=(SymInt& a, SymInt b) { return a = a * b; }

inline bool operator==(SymInt a, SymOperand b) {
  if (a.is_int() && b.value.is_int()) return a.as_int() == b.value.as_int();
  return sym::compare(sym::Op::eq, a, b.value, b.loc);
}
inline bool operator!=(SymInt a, SymOperand b) {
  if (a.is_int() && b.value.is_int()) return a.as_int() != b.value.as_int();
  return sym::compare(sym::Op::ne, a, b.value, b.loc);
}
inline bool operator<(SymInt a, SymOperand b) {
  if (a.is_int() && b.value.is_int()) return a.as_int() < b.value.as_int();
  return sym::compare(sym::Op::lt, a, b.value, b.loc);
}
inline bool operator<=(SymInt a, SymOperand b) {
  if (a.is_int() && b.value.is_int()) return a.as_int() <= b.value.as_int();
  return sym::compare(sym::Op::le, a, b.value, b.loc);
}
inline bool operator>(SymInt a, SymOperand b) {
  if (a.is_int() && b.value.is_int()) return a.as_int() > b.value.as_int();
  return sym::compare(sym::Op::gt, a, b.value, b.loc);
}
inline bool operator>=(SymInt a, SymOperand b) {
  if (a.is_int() && b.value.is_int()) return a.as_int() >= b.value.as_int();
  return sym::compare(sym::Op::ge, a, b.value, b.loc);
}

// Questions that never write a guard: true only where it is certain for every allowed value.
namespace sym {
bool surely(Op op, SymInt a, SymInt b);
}
inline bool surely_eq(SymInt a, SymInt b) {
  if (a.bits() == b.bits()) return true;
  return !(a.is_int() && b.is_int()) && sym::surely(sym::Op::eq, a, b);
}
inline bool surely_lt(SymInt a, SymInt b) {
  return a.is_int() && b.is_int() ? a.as_int() < b.as_int() : sym::surely(sym::Op::lt, a, b);
}
inline bool surely_le(SymInt a, SymInt b) {
  return a.is_int() && b.is_int() ? a.as_int() <= b.as_int() : sym::surely(sym::Op::le, a, b);
}
// a == b where the answer decides only speed or layout: from the hint for backed symbols with a guard; for
// unbacked ones the given default, without a guard.
bool guard_eq_or(SymInt a, SymInt b, bool otherwise, Loc loc = Loc::here());
// Requires a == b: true at once if known; for unbacked symbols a run-time assertion is noted. Returns false
// where it cannot be.
bool require_eq(SymInt a, SymInt b, Loc loc = Loc::here());

// A boolean or a float that may be symbolic, as operators take and give them (sym_float, item() of a bool).
class SymBool {
 public:
  SymBool(bool value = false) : value_(value ? 1 : 0) {}
  static SymBool from_expr(SymInt expression);  // nonzero means true
  bool is_symbolic() const { return value_.is_symbolic(); }
  SymInt as_expr() const { return value_; }
  bool guard_bool(Loc loc = Loc::here()) const;
  std::string str() const;

 private:
  SymInt value_;
};
SymBool sym_compare(sym::Op op, SymInt a, SymInt b);  // the condition itself, no guard
SymBool sym_and(SymBool a, SymBool b);
SymBool sym_or(SymBool a, SymBool b);
SymBool sym_not(SymBool a);

}  // namespace tern
