#include "tern/tensor/sym_number.h"

#include <algorithm>
#include <cmath>

#include "tern/base/error.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

// A number as an operand of an expression.
SymInt expr(ShapeEnv& env, const Scalar& s) {
  if (s.is_complex()) fail(ErrorKind::type, "a complex number cannot stand beside a symbolic one");
  if (s.is_float()) return env.real(s.to_double());
  return s.is_int() ? s.sym() : SymInt(s.to_bool() ? 1 : 0);
}
ShapeEnv& env_of(const Scalar& a, const Scalar& b) {
  return ShapeEnv::of(a.is_symbolic() ? a.sym() : b.sym());
}
bool is_real(const Scalar& s) { return s.is_float() || (s.is_int() && s.sym().is_real()); }

Scalar apply(sym::Real f, const Scalar& a, const Scalar& b = 0.0) {
  if (!a.is_symbolic() && !b.is_symbolic()) return sym::real_function(f).value(a.to_double(), b.to_double());
  ShapeEnv& env = env_of(a, b);
  bool one = sym::real_function(f).arity == 1;
  return env.real(f, expr(env, a), one ? SymInt(0) : expr(env, b));
}
SymInt size(const Scalar& s) { return s.is_int() ? s.sym() : SymInt(s.to_int()); }

}  // namespace

Scalar sym_float(const Scalar& a) { return is_real(a) ? a : apply(sym::Real::to_float, a); }
Scalar sym_int(const Scalar& a) {
  if (!a.is_symbolic()) return a.to_int();
  return ShapeEnv::of(a.sym()).rounded(a.sym());
}
Scalar sym_floor(const Scalar& a) { return is_real(a) ? sym_int(sym_floor_div(a, 1.0)) : a; }
Scalar sym_ceil(const Scalar& a) { return is_real(a) ? -sym_floor(-a) : a; }
Scalar sym_sqrt(const Scalar& a) { return apply(sym::Real::sqrt, a); }

Scalar sym_pow(const Scalar& a, const Scalar& b) {
  if (is_real(a) || is_real(b)) return apply(sym::Real::pow, a, b);
  SymInt base = size(a), r = 1;
  int64_t exponent = b.to_int();
  if (exponent < 0 || exponent > 64) return apply(sym::Real::pow, a, b);
  for (int64_t i = 0; i < exponent; ++i) r = r * base;
  return r;
}
Scalar sym_floor_div(const Scalar& a, const Scalar& b) {
  if (is_real(a) || is_real(b)) return apply(sym::Real::floor_div, a, b);
  return floor_div(size(a), size(b));
}
Scalar sym_divide(const Scalar& a, const Scalar& b) {
  return apply(is_real(a) || is_real(b) ? sym::Real::divide : sym::Real::int_divide, a, b);
}
Scalar sym_mod(const Scalar& a, const Scalar& b) {
  if (is_real(a) || is_real(b)) return apply(sym::Real::mod, a, b);
  return mod(size(a), size(b));
}
Scalar sym_abs(const Scalar& a) { return sym_max(a, -a); }
Scalar sym_min(const Scalar& a, const Scalar& b) {
  if (is_real(a) || is_real(b)) return apply(sym::Real::min, a, b);
  return sym_min(size(a), size(b));
}
Scalar sym_max(const Scalar& a, const Scalar& b) {
  if (is_real(a) || is_real(b)) return apply(sym::Real::max, a, b);
  return sym_max(size(a), size(b));
}

SymBool sym_compare(sym::Op op, const Scalar& a, const Scalar& b) {
  if (a.is_symbolic() || b.is_symbolic()) {
    ShapeEnv& env = env_of(a, b);
    return env.compare(op, expr(env, a), expr(env, b));
  }
  if (!is_real(a) && !is_real(b)) return sym_compare(op, size(a), size(b));
  static constexpr sym::Kind kinds[] = {sym::Kind::eq, sym::Kind::ne, sym::Kind::lt,
                                        sym::Kind::le, sym::Kind::gt, sym::Kind::ge};
  size_t which = static_cast<size_t>(op) - static_cast<size_t>(sym::Op::eq);
  return sym::holds(kinds[which], a.to_double(), b.to_double());
}

}  // namespace tern
