#include "tern/tensor/scalar.h"

#include <charconv>
#include <cmath>
#include <complex>

#include "tern/base/format.h"
#include "tern/sym/shape_env.h"
#include "tern/tensor/sym_number.h"

namespace tern {

namespace {
// A number that is a float when the program runs; the capture must know it now.
double guard_real(SymInt s, Loc loc) { return ShapeEnv::of(s).guard_real(s, loc); }
}  // namespace

int64_t Scalar::to_int(Loc loc) const {
  if (is_symbolic() && int_.is_real()) return static_cast<int64_t>(guard_real(int_, loc));
  switch (kind_) {
    case Kind::float_:
      return static_cast<int64_t>(number_[0]);
    case Kind::complex_:
      if (number_[1] != 0) fail("value cannot be converted to type int64_t without overflow");
      return static_cast<int64_t>(number_[0]);
    default:
      return int_.guard_int(loc);
  }
}

double Scalar::to_double(Loc loc) const {
  if (is_symbolic() && int_.is_real()) return guard_real(int_, loc);
  switch (kind_) {
    case Kind::float_:
      return number_[0];
    case Kind::complex_:
      if (number_[1] != 0) fail("value cannot be converted to type double without overflow");
      return number_[0];
    default:
      return static_cast<double>(int_.guard_int(loc));
  }
}

bool Scalar::to_bool(Loc loc) const {
  if (is_symbolic()) return sym_ne(*this, 0).guard_bool(loc);
  switch (kind_) {
    case Kind::float_:
      return number_[0] != 0;
    case Kind::complex_:
      return number_[0] != 0 || number_[1] != 0;
    default:
      return int_.guard_int(loc) != 0;
  }
}

std::complex<double> Scalar::to_complex() const {
  if (kind_ == Kind::complex_) return {number_[0], number_[1]};
  return {to_double(), 0};
}

DType Scalar::dtype() const {
  switch (kind_) {
    case Kind::float_:
      return default_dtype();
    case Kind::complex_:
      return tern::to_complex(default_dtype());
    case Kind::bool_:
      return kBool;
    default:
      if (!is_symbolic()) return kLong;
      if (int_.is_real()) return default_dtype();
      return is_condition(int_) ? kBool : kLong;
  }
}

bool Scalar::equals(double v) const {
  if (is_symbolic()) return surely_eq(int_, static_cast<int64_t>(v));
  if (kind_ == Kind::complex_) return number_[0] == v && number_[1] == 0;
  return to_double() == v;
}

std::string Scalar::str() const {
  switch (kind_) {
    case Kind::float_:
      return python_float(number_[0]);
    case Kind::bool_:
      return int_.as_int() ? "True" : "False";
    case Kind::complex_:
      return fmt::format("({}{}{}j)", python_float(number_[0]), std::signbit(number_[1]) ? "" : "+",
                         python_float(number_[1]));
    default:
      return int_.str();
  }
}

namespace {
template <class F>
Scalar combine(const Scalar& a, const Scalar& b, F f) {
  if (a.is_symbolic() || b.is_symbolic()) {
    ShapeEnv& env = ShapeEnv::of(a.is_symbolic() ? a.sym() : b.sym());
    if (a.is_float()) return f(env.real(a.to_double()), b.sym());
    if (b.is_float()) return f(a.sym(), env.real(b.to_double()));
  }
  if (a.is_complex() || b.is_complex()) return f(a.to_complex(), b.to_complex());
  if (a.is_float() || b.is_float()) return f(a.to_double(), b.to_double());
  SymInt x = a.is_int() ? a.sym() : SymInt(a.to_bool()), y = b.is_int() ? b.sym() : SymInt(b.to_bool());
  return f(x, y);
}
}  // namespace

Scalar operator-(const Scalar& a) {
  if (a.is_symbolic() && a.sym().is_real()) return ShapeEnv::of(a.sym()).real(sym::Real::neg, a.sym());
  return Scalar(-1) * a;
}
Scalar operator+(const Scalar& a, const Scalar& b) {
  return combine(a, b, [](auto x, auto y) { return Scalar(x + y); });
}
Scalar operator-(const Scalar& a, const Scalar& b) {
  return combine(a, b, [](auto x, auto y) { return Scalar(x - y); });
}
Scalar operator*(const Scalar& a, const Scalar& b) {
  return combine(a, b, [](auto x, auto y) { return Scalar(x * y); });
}
Scalar operator/(const Scalar& a, const Scalar& b) {
  if (a.is_complex() || b.is_complex()) return a.to_complex() / b.to_complex();
  if (a.is_symbolic() || b.is_symbolic()) return sym_divide(a, b);
  return a.to_double() / b.to_double();
}

std::string python_float(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  char digits[40];
  auto end = std::to_chars(digits, digits + sizeof digits, v, std::chars_format::scientific).ptr;
  std::string_view text(digits, end - digits);
  size_t e = text.find('e');
  int exponent = 0;
  const char* at = text.data() + e + 1;
  if (*at == '+') ++at;
  std::from_chars(at, end, exponent);
  // Python's repr: scientific below 1e-4 and from 1e16 on.
  if (exponent < -4 || exponent >= 16)
    return fmt::format("{}e{}{:02}", text.substr(0, e), exponent < 0 ? "-" : "+", std::abs(exponent));
  end = std::to_chars(digits, digits + sizeof digits, v, std::chars_format::fixed).ptr;
  std::string fixed(digits, end);
  return fixed.find('.') == std::string::npos ? fixed + ".0" : fixed;
}

}  // namespace tern
