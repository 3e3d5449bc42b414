#include "tern/sym/sym_float.h"

#include "tern/base/format.h"
#include "tern/sym/shape_env.h"

namespace tern {

SymFloat SymFloat::from_int(SymInt value) {
  if (value.is_int()) return SymFloat(static_cast<double>(value.as_int()));
  SymFloat out;
  out.expr_ = ShapeEnv::of(value).real(sym::Real::to_float, value);
  return out;
}

SymFloat SymFloat::unbacked(ShapeEnv& env, std::string source, Loc loc) {
  SymFloat out;
  out.expr_ = env.create_unbacked_float_symbol(std::move(source), loc);
  return out;
}

bool SymFloat::is_unbacked() const { return is_symbolic() && ShapeEnv::of(expr_).is_unbacked(expr_); }

double SymFloat::guard_float(Loc loc) const {
  return is_symbolic() ? ShapeEnv::of(expr_).guard_real(expr_, loc) : value_;
}

std::optional<double> SymFloat::hint() const {
  return is_symbolic() ? ShapeEnv::of(expr_).real_hint(expr_) : value_;
}

std::string SymFloat::str() const {
  if (is_symbolic()) return expr_.str();
  std::string text = fmt::format("{}", value_);
  bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return whole ? text + ".0" : text;
}

}  // namespace tern
