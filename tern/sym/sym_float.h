// A float that may be symbolic: a number, an integer size seen as a float, one that comes from data (zuf0),
// or what is computed from them. A Scalar made of its expression goes into operators.
#pragma once
#include <optional>
#include <string>

#include "tern/sym/sym_int.h"

namespace tern {

class ShapeEnv;

class SymFloat {
 public:
  SymFloat(double value = 0) : value_(value) {}
  static SymFloat from_int(SymInt value);  // float(s0)
  // From item() of a float tensor: "zuf0".
  static SymFloat unbacked(ShapeEnv& env, std::string source = {}, Loc loc = Loc::here());

  bool is_symbolic() const { return expr_.is_symbolic(); }
  bool is_unbacked() const;
  double as_double() const { return value_; }       // precondition: !is_symbolic()
  SymInt as_expr() const { return expr_; }          // precondition: is_symbolic(); is_real()
  double guard_float(Loc loc = Loc::here()) const;  // throws for an unbacked one
  std::optional<double> hint() const;
  std::string str() const;  // "1.5", "ToFloat(s0)", "zuf0"

 private:
  double value_ = 0;
  SymInt expr_ = 0;
};

}  // namespace tern
