// A number of any kind: what `Scalar` means in a schema.
#pragma once
#include <cstdint>
#include <string>

#include "tern/base/complex_name.h"
#include "tern/sym/sym_int.h"
#include "tern/tensor/dtype.h"

namespace tern {

class Scalar {
 public:
  enum class Kind : uint8_t { int_, float_, bool_, complex_ };

  Scalar() : Scalar(0) {}
  template <class I>
  requires(std::is_integral_v<I> && !std::is_same_v<I, bool>) Scalar(I v) : kind_(Kind::int_), int_(v) {}
  template <class F>
  requires std::is_floating_point_v<F> Scalar(F v)
      : kind_(Kind::float_), number_{static_cast<double>(v), 0} {}
  template <class B>
  requires std::is_same_v<B, bool> Scalar(B v) : kind_(Kind::bool_), int_(v) {}
  Scalar(SymInt v) : kind_(Kind::int_), int_(v) {}
  template <class F>
  Scalar(std::complex<F> v) : kind_(Kind::complex_), number_{v.real(), v.imag()} {}

  Kind kind() const { return kind_; }
  bool is_int() const { return kind_ == Kind::int_; }
  bool is_float() const { return kind_ == Kind::float_; }
  bool is_bool() const { return kind_ == Kind::bool_; }
  bool is_complex() const { return kind_ == Kind::complex_; }
  bool is_symbolic() const { return kind_ == Kind::int_ && int_.is_symbolic(); }

  SymInt sym() const { return int_; }    // precondition: is_int()
  int64_t to_int(Loc loc = {}) const;    // truncates; throws for a complex number with an imaginary part
  double to_double(Loc loc = {}) const;  // throws for a complex number with an imaginary part
  bool to_bool(Loc loc = {}) const;
  std::complex<double> to_complex() const;
  const double* parts() const { return number_; }  // real and imaginary; precondition: is_complex()
  DType dtype() const;          // int64, default float, bool, complex: what an operator sees
  bool equals(double v) const;  // real and equal to v
  std::string str() const;      // as Python prints it

 private:
  Kind kind_;
  SymInt int_;
  double number_[2] = {0, 0};  // a float is its real part
};
Scalar operator-(const Scalar& a);
Scalar operator+(const Scalar& a, const Scalar& b);
Scalar operator-(const Scalar& a, const Scalar& b);
Scalar operator*(const Scalar& a, const Scalar& b);
Scalar operator/(const Scalar& a, const Scalar& b);  // true division

std::string python_float(double v);  // shortest text that reads back: "0.1", "1e-05", "inf"

}  // namespace tern
