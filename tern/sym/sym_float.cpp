#include "tern/sym/sym_float.h"

#include "tern/base/format.h"
#include "tern/sym/shape_env.h"

namespace tern {

SymFloat SymFloat::from_int(SymInt value) {
  if (value.is_int()) return SymFloat(static_cast<double>(value.as_int()));
  SymFloat out;
  out.expr_ = value;
  out.kind_ = Kind::from_int;
  return out;
}

SymFloat SymFloat::unbacked(ShapeEnv& env, std::string source, Loc loc) {
  SymFloat out;
  out.expr_ = env.create_unbacked_float_symbol(std::move(source), loc);
  out.kind_ = Kind::symbol;
  return out;
}

bool SymFloat::is_unbacked() const {
  return kind_ == Kind::symbol || (kind_ == Kind::from_int && ShapeEnv::of(expr_).is_unbacked(expr_));
}

double SymFloat::guard_float(Loc loc) const {
  if (kind_ == Kind::number) return value_;
  if (kind_ == Kind::from_int) return static_cast<double>(expr_.guard_int(loc));
  std::string at = loc_text(loc), name = str();
  failf(ErrorKind::runtime,
        "GuardOnDataDependentSymNode: Could not extract specialized float from data-dependent expression {0} "
        "(unhinted: {0}).\n\n"
        "Caused by: {1}\nKeep it a tensor: compute with the tensor instead of its item().",
        name, at.empty() ? "(unknown line)" : at);
}

std::optional<double> SymFloat::hint() const {
  if (kind_ == Kind::number) return value_;
  if (kind_ == Kind::symbol) return std::nullopt;
  std::optional<int64_t> h = expr_.hint();
  return h ? std::optional(static_cast<double>(*h)) : std::nullopt;
}

std::string SymFloat::str() const {
  if (kind_ == Kind::symbol) return expr_.str();
  if (kind_ == Kind::from_int) return fmt::format("ToFloat({})", expr_.str());
  std::string text = fmt::format("{}", value_);
  bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return whole ? text + ".0" : text;
}

}  // namespace tern
