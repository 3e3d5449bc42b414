// SymInt and SymBool: every symbolic case goes to the value's ShapeEnv.
#include "tern/sym/sym_int.h"

#include "tern/base/error.h"
#include "tern/sym/range.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

ShapeEnv& env_of(SymInt a, SymInt b) { return ShapeEnv::of(a.is_symbolic() ? a : b); }

bool compare_ints(sym::Op op, int64_t a, int64_t b) {
  switch (op) {
    case sym::Op::eq:
      return a == b;
    case sym::Op::ne:
      return a != b;
    case sym::Op::lt:
      return a < b;
    case sym::Op::le:
      return a <= b;
    case sym::Op::gt:
      return a > b;
    case sym::Op::ge:
      return a >= b;
    default:
      fail(ErrorKind::internal, "internal error: not a comparison");
  }
}

}  // namespace

bool sym::surely(Op op, SymInt a, SymInt b) {
  if (a.is_int() && b.is_int()) return compare_ints(op, a.as_int(), b.as_int());
  return env_of(a, b).decide(op, a, b) == true;
}

int64_t SymInt::guard_symbolic(Loc loc) const { return ShapeEnv::of(*this).guard_value(*this, loc); }
std::optional<int64_t> SymInt::hint() const { return is_int() ? bits_ : ShapeEnv::of(*this).hint(*this); }
std::optional<int64_t> SymInt::maybe_int() const {
  if (is_int()) return bits_;
  SymInt simple = ShapeEnv::of(*this).simplify(*this);
  return simple.is_int() ? std::optional(simple.as_int()) : std::nullopt;
}
std::string SymInt::str() const { return is_int() ? std::to_string(bits_) : ShapeEnv::of(*this).str(*this); }

bool SymInt::is_real() const {
  if (is_int()) return false;
  ShapeEnv& env = ShapeEnv::of(*this);
  return env.table().is_real(env.unwrap(*this));
}

SymInt sym::arithmetic(Op op, SymInt a, SymInt b) {
  if (a.is_symbolic() || b.is_symbolic()) return env_of(a, b).arithmetic(op, a, b);
  switch (op) {
    case Op::add:
      return a.as_int() + b.as_int();
    case Op::sub:
      return a.as_int() - b.as_int();
    case Op::mul:
      return a.as_int() * b.as_int();
    case Op::floor_div:
      return floor_div(a, b);
    case Op::mod:
      return mod(a, b);
    case Op::min:
      return a.as_int() < b.as_int() ? a : b;
    case Op::max:
      return a.as_int() > b.as_int() ? a : b;
    default:
      return compare_ints(op, a.as_int(), b.as_int());
  }
}
bool sym::compare(Op op, SymInt a, SymInt b, Loc loc) {
  if (a.is_int() && b.is_int()) return compare_ints(op, a.as_int(), b.as_int());
  return env_of(a, b).guard(op, a, b, loc);
}

SymInt floor_div(SymInt a, SymInt b) {
  if (a.is_symbolic() || b.is_symbolic()) return sym::arithmetic(sym::Op::floor_div, a, b);
  if (b.as_int() == 0) fail(ErrorKind::value, "floor_div: division by zero");
  return floor_div_int(a.as_int(), b.as_int());
}
SymInt mod(SymInt a, SymInt b) {
  if (a.is_symbolic() || b.is_symbolic()) return sym::arithmetic(sym::Op::mod, a, b);
  if (b.as_int() == 0) fail(ErrorKind::value, "mod: division by zero");
  return mod_int(a.as_int(), b.as_int());
}
SymInt truncated_product(SymInt size, double factor) {
  if (size.is_symbolic()) return ShapeEnv::of(size).truncated_product(size, factor);
  return static_cast<int64_t>(static_cast<double>(size.as_int()) * factor);
}
SymInt sym_min(SymInt a, SymInt b) { return sym::arithmetic(sym::Op::min, a, b); }
SymInt sym_max(SymInt a, SymInt b) { return sym::arithmetic(sym::Op::max, a, b); }

bool guard_eq_or(SymInt a, SymInt b, bool otherwise, Loc loc) {
  if (a.is_int() && b.is_int()) return a.as_int() == b.as_int();
  return env_of(a, b).guard_eq_or(a, b, otherwise, loc);
}
bool require_eq(SymInt a, SymInt b, Loc loc) {
  if (a.is_int() && b.is_int()) return a.as_int() == b.as_int();
  return env_of(a, b).require_eq(a, b, loc);
}

SymBool SymBool::from_expr(SymInt expression) {
  SymBool out(expression.is_int() && expression.as_int() != 0);
  if (expression.is_symbolic()) out.value_ = expression;
  return out;
}
bool SymBool::guard_bool(Loc loc) const {
  return value_.is_int() ? value_.as_int() != 0 : ShapeEnv::of(value_).guard_condition(*this, loc);
}
std::string SymBool::str() const {
  return value_.is_int() ? (value_.as_int() ? "True" : "False") : value_.str();
}

SymBool sym_compare(sym::Op op, SymInt a, SymInt b) {
  if (a.is_int() && b.is_int()) return compare_ints(op, a.as_int(), b.as_int());
  return env_of(a, b).compare(op, a, b);
}
SymBool sym_and(SymBool a, SymBool b) {
  if (!a.is_symbolic()) return a.as_expr().as_int() ? b : a;
  if (!b.is_symbolic()) return b.as_expr().as_int() ? a : b;
  return ShapeEnv::of(a.as_expr()).connective(sym::Kind::all, a, b);
}
SymBool sym_or(SymBool a, SymBool b) {
  if (!a.is_symbolic()) return a.as_expr().as_int() ? a : b;
  if (!b.is_symbolic()) return b.as_expr().as_int() ? b : a;
  return ShapeEnv::of(a.as_expr()).connective(sym::Kind::any, a, b);
}
SymBool sym_not(SymBool a) {
  if (!a.is_symbolic()) return a.as_expr().as_int() == 0;
  return ShapeEnv::of(a.as_expr()).negate(a);
}

}  // namespace tern
