// Builtins on numbers: arithmetic, mathematics, comparisons, conversions.
#include <algorithm>
#include <cmath>
#include <complex>
#include <numeric>
#include <optional>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/builtin_families.h"

namespace tern::ir {
namespace {

using namespace builtin;

int64_t checked(bool overflow, int64_t r) {
  if (overflow || SymInt(r).is_symbolic()) fail(ErrorKind::value, "integer overflow");
  return r;
}

// The integer whose lowest 64 bits these are.
int64_t wrapped(uint64_t bits) {
  auto r = static_cast<int64_t>(bits);
  // Sizes that are symbols take a few of the integers.
  if (SymInt(r).is_symbolic()) fail(ErrorKind::value, "integer overflow");
  return r;
}

// ---- arithmetic ----

template <class IntOp, class FloatOp, class ComplexOp>
V arithmetic(std::string_view what, Args in, IntOp i, FloatOp f, ComplexOp c) {
  V a = number(in[0]), b = number(in[1]);
  if (any_complex(a, b)) return c(a.scalar().to_complex(), b.scalar().to_complex());
  if (any_float(a, b)) return f(a.to_double(), b.to_double());
  (void)what;
  return i(a.sym(), b.sym());
}
V sub(Args in) {
  if (in.size() == 2 && in[0].is_int() && in[1].is_int()) {
    SymInt x = in[0].sym(), y = in[1].sym();
    int64_t r;
    if (x.is_int() && y.is_int() && !__builtin_sub_overflow(x.as_int(), y.as_int(), &r))
      return checked(false, r);
  }
  need(in, 2, 3, "sub");
  return arithmetic(
      "-", in,
      [](SymInt x, SymInt y) -> V {
        if (x.is_symbolic() || y.is_symbolic()) return x - y;
        int64_t r;
        bool o = __builtin_sub_overflow(x.as_int(), y.as_int(), &r);
        return checked(o, r);
      },
      [](double x, double y) -> V { return x - y; }, [](auto x, auto y) -> V { return x - y; });
}
V mul(Args in) {
  if (in.size() == 2 && in[0].is_int() && in[1].is_int()) {
    SymInt x = in[0].sym(), y = in[1].sym();
    int64_t r;
    if (x.is_int() && y.is_int() && !__builtin_mul_overflow(x.as_int(), y.as_int(), &r))
      return checked(false, r);
  }
  need(in, 2, 2, "mul");
  for (int side = 0; side < 2; ++side) {
    const V &a = in[side], &b = in[1 - side];
    if (!(a.is_list() || a.is_tuple() || a.is_string()) || !(b.is_int() || b.is_bool())) continue;
    int64_t times = std::max<int64_t>(integer(b).guard_int(Loc{}), 0);
    size_t length = a.is_string() ? a.string().size() : a.items().size();
    if (length && times > (int64_t{1} << 28) / static_cast<int64_t>(length))
      fail(ErrorKind::value, "the repeated sequence is too long");
    if (a.is_string()) {
      std::string text;
      for (int64_t k = 0; k < times; ++k) text += a.string();
      return text;
    }
    std::vector<V> items;
    for (int64_t k = 0; k < times; ++k) items.insert(items.end(), a.items().begin(), a.items().end());
    return a.is_list() ? V::list(std::move(items), a.element_type()) : V::tuple(std::move(items));
  }
  return arithmetic(
      "*", in,
      [](SymInt x, SymInt y) -> V {
        if (x.is_symbolic() || y.is_symbolic()) return x * y;
        int64_t r;
        bool o = __builtin_mul_overflow(x.as_int(), y.as_int(), &r);
        return checked(o, r);
      },
      [](double x, double y) -> V { return x * y; }, [](auto x, auto y) -> V { return x * y; });
}
V truediv(Args in) {
  need(in, 2, 2, "div");
  V a = number(in[0]), b = number(in[1]);
  if (any_complex(a, b)) return a.scalar().to_complex() / b.scalar().to_complex();
  double divisor = b.to_double();
  if (divisor == 0) fail(ErrorKind::value, "division by zero");
  return a.to_double() / divisor;
}
V floordiv(Args in) {
  need(in, 2, 2, "floordiv");
  V a = number(in[0]), b = number(in[1]);
  if (any_float(a, b)) {
    if (b.to_double() == 0) fail(ErrorKind::value, "division by zero");
    return std::floor(a.to_double() / b.to_double());
  }
  if (b.sym().is_int() && b.sym().as_int() == 0) fail(ErrorKind::value, "division by 0");
  return floor_div(a.sym(), b.sym());
}
V remainder(Args in) {
  need(in, 2, 2, "remainder");
  if (in[0].is_string()) unsupported("%", in);
  V a = number(in[0]), b = number(in[1]);
  if (any_float(a, b)) {
    double x = a.to_double(), y = b.to_double();
    if (y == 0) fail(ErrorKind::value, "division by zero");
    double r = std::fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
  }
  return mod(a.sym(), b.sym());
}
V fmod(Args in) {
  need(in, 2, 2, "fmod");
  return std::fmod(real(in[0]), real(in[1]));
}
V power(Args in) {
  need(in, 2, 2, "pow");
  V a = number(in[0]), b = number(in[1]);
  if (any_complex(a, b)) return std::pow(a.scalar().to_complex(), b.scalar().to_complex());
  if (any_float(a, b)) return std::pow(a.to_double(), b.to_double());
  int64_t exponent = b.sym().guard_int(Loc{});
  if (exponent < 0) return std::pow(a.to_double(), static_cast<double>(exponent));
  SymInt base = a.sym();
  if (base.is_symbolic()) {
    if (exponent > 64) fail(ErrorKind::value, "the power of a symbolic size is too large");
    SymInt r = 1;
    for (int64_t k = 0; k < exponent; ++k) r = r * base;
    return r;
  }
  int64_t r = 1, x = base.as_int();
  while (exponent) {
    if (exponent & 1 && __builtin_mul_overflow(r, x, &r)) fail(ErrorKind::value, "integer overflow");
    exponent >>= 1;
    if (exponent && __builtin_mul_overflow(x, x, &x)) fail(ErrorKind::value, "integer overflow");
  }
  return checked(false, r);
}
V neg(Args in) {
  need(in, 1, 1, "neg");
  V a = number(in[0]);
  if (a.is_float()) return -a.to_double();
  if (a.is_complex()) return -a.scalar().to_complex();
  return -a.sym();
}
V absolute(Args in) {
  need(in, 1, 1, "abs");
  if (in[0].is_tensor()) {
    static const Op& op = get_op("aten::abs");
    Arg arg[] = {in[0].tensor()};
    return call1(op, arg);
  }
  V a = number(in[0]);
  if (a.is_float()) return std::fabs(a.to_double());
  if (a.is_complex()) return std::abs(a.scalar().to_complex());
  return sym_max(a.sym(), -a.sym());
}
template <class F>
V bits(std::string_view what, Args in, F f) {
  need(in, 2, 2, what);
  if (in[0].is_bool() && in[1].is_bool()) return f(int64_t{in[0].to_bool()}, int64_t{in[1].to_bool()}) != 0;
  return f(integer(in[0]).guard_int(Loc{}), integer(in[1]).guard_int(Loc{}));
}
V bit_and(Args in) {
  return bits("and", in, [](int64_t a, int64_t b) { return a & b; });
}
V bit_or(Args in) {
  return bits("or", in, [](int64_t a, int64_t b) { return a | b; });
}
V bit_xor(Args in) {
  return bits("xor", in, [](int64_t a, int64_t b) { return a ^ b; });
}
int64_t shift_amount(int64_t b) {
  if (b < 0) fail(ErrorKind::value, "negative shift count");
  return std::min<int64_t>(b, 63);
}
V shift_left(Args in) {
  return bits("<<", in, [](int64_t a, int64_t b) {
    return static_cast<int64_t>(static_cast<uint64_t>(a) << shift_amount(b));
  });
}
V shift_right(Args in) {
  return bits(">>", in, [](int64_t a, int64_t b) { return a >> shift_amount(b); });
}

template <double (*F)(double)>
V math(Args in) {
  need(in, 1, 1, "a function of math");
  return F(real(in[0]));
}
template <double (*F)(double)>
V whole(Args in) {  // floor, ceil, trunc: an int
  need(in, 1, 1, "a function of math");
  V a = number(in[0]);
  if (!a.is_float()) return a.sym();
  double r = F(a.to_double());
  if (!(std::fabs(r) < 9.2e18))
    failf(ErrorKind::value, "Cannot convert float {:f} to integer", a.to_double());
  return static_cast<int64_t>(r);
}
V logarithm(Args in) {
  need(in, 1, 2, "log");
  auto one = [](const V& v) -> std::complex<double> {
    V n = number(v);
    return n.is_complex() ? std::log(n.scalar().to_complex()) : std::log(n.to_double());
  };
  bool complex = number(in[0]).is_complex() || (in.size() == 2 && number(in[1]).is_complex());
  std::complex<double> r = in.size() == 2 ? one(in[0]) / one(in[1]) : one(in[0]);
  if (in.size() == 2 && !complex) return std::log(real(in[0])) / std::log(real(in[1]));
  return complex ? V(r) : V(r.real());
}
V round_half_even(Args in) {
  need(in, 1, 2, "round");
  V a = number(in[0]);
  if (in.size() == 1 || in[1].is_none()) return a.is_float() ? V(std::nearbyint(a.to_double())) : a;
  double scale = std::pow(10.0, static_cast<double>(integer(in[1]).guard_int(Loc{})));
  return std::nearbyint(a.to_double() * scale) / scale;
}
V atan2(Args in) {
  need(in, 2, 2, "atan2");
  return std::atan2(real(in[0]), real(in[1]));
}
V gcd(Args in) {
  need(in, 2, 2, "gcd");
  return std::gcd(integer(in[0]).guard_int(Loc{}), integer(in[1]).guard_int(Loc{}));
}
V is_nan(Args in) {
  need(in, 1, 1, "isnan");
  std::complex<double> c = number(in[0]).scalar().to_complex();
  return std::isnan(c.real()) || std::isnan(c.imag());
}
V is_inf(Args in) {
  need(in, 1, 1, "isinf");
  std::complex<double> c = number(in[0]).scalar().to_complex();
  return std::isinf(c.real()) || std::isinf(c.imag());
}
V is_finite(Args in) {
  need(in, 1, 1, "isfinite");
  std::complex<double> c = number(in[0]).scalar().to_complex();
  return std::isfinite(c.real()) && std::isfinite(c.imag());
}
V divmod(Args in) {
  need(in, 2, 2, "divmod");
  if (any_float(number(in[0]), number(in[1])) && real(in[1]) == 0)
    fail(ErrorKind::value, "ZeroDivisionError: float divmod()");
  if (!number(in[1]).is_float() && number(in[1]).sym().is_int() && number(in[1]).sym().as_int() == 0)
    fail(ErrorKind::value, "ZeroDivisionError: integer division or modulo by zero");
  return V::tuple({floordiv(in), remainder(in)});
}

// ---- comparisons ----

V condition(SymBool c) {
  if (c.is_symbolic()) return V(c.as_expr());
  return c.guard_bool(Loc{});
}
bool both_sizes(Args in) {
  return in[0].is_int() && in[1].is_int() && (in[0].sym().is_symbolic() || in[1].sym().is_symbolic());
}
template <sym::Op Relation>
V compare(Args in) {
  need(in, 2, 2, "a comparison");
  // A condition on sizes stays symbolic: whoever branches on it writes the guard.
  if (both_sizes(in)) return condition(sym_compare(Relation, in[0].sym(), in[1].sym()));
  if constexpr (Relation == sym::Op::eq || Relation == sym::Op::ne) {
    bool equal = in[0].is_tensor() && in[1].is_number() ? same(number(in[0]), in[1]) : same(in[0], in[1]);
    return equal == (Relation == sym::Op::eq);
  } else {
    bool numbers = in[0].is_number() || in[0].is_tensor();
    if (numbers && (std::isnan(in[0].is_float() ? in[0].to_double() : 0) ||
                    std::isnan(in[1].is_float() ? in[1].to_double() : 0)))
      return false;
    int o = order(in[0], in[1]);
    if constexpr (Relation == sym::Op::lt) return o < 0;
    if constexpr (Relation == sym::Op::le) return o <= 0;
    if constexpr (Relation == sym::Op::gt) return o > 0;
    if constexpr (Relation == sym::Op::ge) return o >= 0;
  }
}
V is_identical(Args in) {
  need(in, 2, 2, "is");
  if (in[0].is_none() || in[1].is_none()) return in[0].is_none() && in[1].is_none();
  return in[0].is_same(in[1]);
}
V is_not_identical(Args in) { return !is_identical(in).to_bool(); }
V logical_not(Args in) {
  need(in, 1, 1, "not");
  if (in[0].is_int() && in[0].sym().is_symbolic()) return condition(sym_not(SymBool::from_expr(in[0].sym())));
  return !truth(in[0]);
}

// ---- conversions ----

V to_int(Args in) {
  need(in, 1, 1, "int");
  if (in[0].is_string()) {
    const std::string& text = in[0].string();
    size_t used = 0;
    try {
      int64_t v = std::stoll(text, &used);
      if (used == text.size()) return v;
    } catch (const std::exception&) {
    }
    failf(ErrorKind::value, "invalid literal for int() with base 10: '{}'", text);
  }
  if (in[0].is_complex()) fail(ErrorKind::value, "value cannot be converted to type int without overflow");
  return integer(in[0]);
}
V to_float(Args in) {
  need(in, 1, 1, "float");
  if (in[0].is_string()) {
    try {
      size_t used = 0;
      double v = std::stod(in[0].string(), &used);
      if (used == in[0].string().size()) return v;
    } catch (const std::exception&) {
    }
    failf(ErrorKind::value, "could not convert string to float: '{}'", in[0].string());
  }
  if (in[0].is_complex()) return in[0].scalar().to_complex().real();
  return real(in[0]);
}
V to_boolean(Args in) {
  need(in, 1, 1, "bool");
  return truth(in[0]);
}
V to_complex(Args in) {
  need(in, 1, 2, "complex");
  std::complex<double> c = number(in[0]).scalar().to_complex();
  if (in.size() == 2) c += number(in[1]).scalar().to_complex() * std::complex<double>(0, 1);
  return c;
}
V item(Args in) {
  need(in, 1, 1, "item");
  return number(in[0]);
}
// A tensor where a number is wanted, without anybody saying so.
const V& implicit(Args in, bool integral) {
  need(in, 1, 1, "an implicit conversion");
  if (!in[0].is_tensor()) return in[0];
  const Tensor& t = in[0].tensor();
  if (t.requires_grad())
    fail(ErrorKind::runtime, "Cannot input a tensor that requires grad as a scalar argument");
  if (t.dim() != 0)
    fail(ErrorKind::runtime, "Cannot input a tensor of dimension other than 0 as a scalar argument");
  if (integral && (t.is_floating_point() || t.is_complex()))
    failf(ErrorKind::runtime, "Cannot input a tensor of type {} as an integral argument",
          script_name(t.dtype()));
  return in[0];
}
V implicit_int(Args in) { return integer(implicit(in, true)); }
V implicit_float(Args in) { return real(implicit(in, false)); }
V implicit_number(Args in) { return number(implicit(in, false)); }
V to_string(Args in) {
  need(in, 1, 1, "str");
  return text_of(in[0]);
}
V number_to_tensor(Args in) {
  need(in, 1, 1, "NumToTensor");
  if (in[0].is_tensor()) return in[0];
  Scalar s = in[0].scalar();
  return tensor(s, {.dtype = s.is_float() ? kDouble : s.is_complex() ? kComplexDouble : DType::undefined});
}
V unwrap_optional(Args in) {
  need(in, 1, 1, "unchecked_unwrap_optional");
  if (in[0].is_none()) fail(ErrorKind::value, "Unwrapping null optional");
  return in[0];
}
V device_of_text(Args in) {
  need(in, 1, 2, "device");
  if (!in[0].is_string()) return in[0];
  std::string text = in[0].string();
  if (in.size() == 2 && !in[1].is_none()) text += ":" + std::to_string(integer(in[1]).guard_int(Loc{}));
  auto d = Device::parse(text);
  if (!d) failf(ErrorKind::value, "'{}' is no device", text);
  return *d;
}

V factorial(Args in) {
  need(in, 1, 1, "factorial");
  int64_t n = integer(in[0]).guard_int(Loc{});
  if (n < 0) fail(ErrorKind::value, "factorial() not defined for negative values");
  uint64_t r = 1;
  // From 66! on the lowest 64 bits are zero.
  for (int64_t k = 2; k <= n && r; ++k) r *= static_cast<uint64_t>(k);
  return wrapped(r);
}
V copysign(Args in) {
  need(in, 2, 2, "copysign");
  return std::copysign(real(in[0]), real(in[1]));
}
V math_remainder(Args in) {
  need(in, 2, 2, "remainder");
  return std::remainder(real(in[0]), real(in[1]));
}
double degrees(double x) { return x * 180.0 / M_PI; }
double radians(double x) { return x * M_PI / 180.0; }
V modf(Args in) {
  need(in, 1, 1, "modf");
  double whole_part, fraction = std::modf(real(in[0]), &whole_part);
  return V::tuple({fraction, whole_part});
}
V frexp(Args in) {
  need(in, 1, 1, "frexp");
  int exponent;
  double mantissa = std::frexp(real(in[0]), &exponent);
  return V::tuple({mantissa, static_cast<int64_t>(exponent)});
}
V ldexp(Args in) {
  need(in, 2, 2, "ldexp");
  int64_t e = std::clamp<int64_t>(integer(in[1]).guard_int(Loc{}), -100000, 100000);
  return std::ldexp(real(in[0]), static_cast<int>(e));
}
V angle(Args in) {
  need(in, 1, 1, "angle");
  return std::arg(number(in[0]).scalar().to_complex());
}
V polar(Args in) {
  need(in, 2, 2, "polar");
  return std::polar(real(in[0]), real(in[1]));
}
// A function of math that complex numbers have too.
template <double (*F)(double), std::complex<double> (*C)(const std::complex<double>&)>
V math_or_complex(Args in) {
  need(in, 1, 1, "a function of math");
  V a = number(in[0]);
  return a.is_complex() ? V(C(a.scalar().to_complex())) : V(F(a.to_double()));
}
V hash_of(Args in) {
  need(in, 1, 1, "hash");
  if (in[0].is_none()) return int64_t{0};
  if (in[0].is_bool()) return int64_t{in[0].to_bool()};
  if (in[0].is_int()) return integer(in[0]);
  if (in[0].is_float()) return static_cast<int64_t>(std::hash<double>()(in[0].to_double()));
  if (in[0].is_string()) return static_cast<int64_t>(std::hash<std::string>()(in[0].string()));
  return static_cast<int64_t>(std::hash<std::string>()(in[0].str()) >> 2);
}
V identity_of(Args in) {
  need(in, 1, 1, "id");
  if (in[0].is_none()) return int64_t{0};
  return static_cast<int64_t>(reinterpret_cast<uintptr_t>(in[0].box()) >> 2);
}

constexpr BuiltinEntry table[] = {
    {"factorial", factorial},
    {"copysign", copysign},
    {"mathremainder", math_remainder},
    {"degrees", math<degrees>},
    {"radians", math<radians>},
    {"erfc", math<std::erfc>},
    {"asinh", math_or_complex<std::asinh, std::asinh<double>>},
    {"acosh", math_or_complex<std::acosh, std::acosh<double>>},
    {"atanh", math_or_complex<std::atanh, std::atanh<double>>},
    {"modf", modf},
    {"frexp", frexp},
    {"ldexp", ldexp},
    {"angle", angle},
    {"polar", polar},
    {"hash", hash_of},
    {"id", identity_of},
    {"add", add},
    {"sub", sub},
    {"mul", mul},
    {"div", truediv},
    {"truediv", truediv},
    {"floordiv", floordiv},
    {"remainder", remainder},
    {"mod", remainder},
    {"fmod", fmod},
    {"pow", power},
    {"neg", neg},
    {"abs", absolute},
    {"__and__", bit_and},
    {"__or__", bit_or},
    {"__xor__", bit_xor},
    {"and_", bit_and},
    {"or_", bit_or},
    {"xor", bit_xor},
    {"__lshift__", shift_left},
    {"__rshift__", shift_right},
    {"lshift", shift_left},
    {"rshift", shift_right},
    {"bitwise_and", bit_and},
    {"bitwise_or", bit_or},
    {"bitwise_xor", bit_xor},
    {"sqrt", math_or_complex<std::sqrt, std::sqrt<double>>},
    {"exp", math_or_complex<std::exp, std::exp<double>>},
    {"expm1", math<std::expm1>},
    {"log", logarithm},
    {"log10", math_or_complex<std::log10, std::log10<double>>},
    {"log1p", math<std::log1p>},
    {"log2", math<std::log2>},
    {"sin", math_or_complex<std::sin, std::sin<double>>},
    {"cos", math_or_complex<std::cos, std::cos<double>>},
    {"tan", math_or_complex<std::tan, std::tan<double>>},
    {"asin", math_or_complex<std::asin, std::asin<double>>},
    {"acos", math_or_complex<std::acos, std::acos<double>>},
    {"atan", math_or_complex<std::atan, std::atan<double>>},
    {"sinh", math_or_complex<std::sinh, std::sinh<double>>},
    {"cosh", math_or_complex<std::cosh, std::cosh<double>>},
    {"tanh", math_or_complex<std::tanh, std::tanh<double>>},
    {"atan2", atan2},
    {"fabs", math<std::fabs>},
    {"erf", math<std::erf>},
    {"gamma", math<std::tgamma>},
    {"lgamma", math<std::lgamma>},
    {"floor", whole<std::floor>},
    {"ceil", whole<std::ceil>},
    {"trunc", whole<std::trunc>},
    {"round", round_half_even},
    {"gcd", gcd},
    {"isnan", is_nan},
    {"isinf", is_inf},
    {"isfinite", is_finite},
    {"divmod", divmod},
    {"eq", compare<sym::Op::eq>},
    {"ne", compare<sym::Op::ne>},
    {"lt", compare<sym::Op::lt>},
    {"le", compare<sym::Op::le>},
    {"gt", compare<sym::Op::gt>},
    {"ge", compare<sym::Op::ge>},
    {"__is__", is_identical},
    {"__isnot__", is_not_identical},
    {"__not__", logical_not},
    {"not_", logical_not},
    {"Int", to_int},
    {"Float", to_float},
    {"Bool", to_boolean},
    {"Complex", to_complex},
    {"str", to_string},
    {"IntImplicit", implicit_int},
    {"FloatImplicit", implicit_float},
    {"ComplexImplicit", implicit_number},
    {"ScalarImplicit", implicit_number},
    {"item", item},
    {"NumToTensor", number_to_tensor},
    {"BoolImplicit", to_boolean},
    {"sym_int", to_int},
    {"sym_not", logical_not},
    {"unchecked_unwrap_optional", unwrap_optional},
    {"_unwrap_optional", unwrap_optional},
    {"device", device_of_text},
};

}  // namespace

V builtin::add(Args in) {
  if (in.size() == 2 && in[0].is_int() && in[1].is_int()) {
    SymInt x = in[0].sym(), y = in[1].sym();
    int64_t r;
    if (x.is_int() && y.is_int() && !__builtin_add_overflow(x.as_int(), y.as_int(), &r))
      return checked(false, r);
  }
  need(in, 2, 3, "add");
  const V &a = in[0], &b = in[1];
  if (a.is_string() && b.is_string()) return a.string() + b.string();
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    std::vector<V> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return a.is_list() ? V::list(std::move(items), a.element_type()) : V::tuple(std::move(items));
  }
  if (!a.is_number() && !a.is_tensor()) unsupported("+", in);
  return arithmetic(
      "+", in,
      [](SymInt x, SymInt y) -> V {
        if (x.is_symbolic() || y.is_symbolic()) return x + y;
        int64_t r;
        bool o = __builtin_add_overflow(x.as_int(), y.as_int(), &r);
        return checked(o, r);
      },
      [](double x, double y) -> V { return x + y; }, [](auto x, auto y) -> V { return x + y; });
}

namespace {
// An operation on two ints of the program; nothing if there is anything else.
template <class F>
std::optional<V> of_ints(Args in, F f) {
  if (in.size() != 2 || !in[0].is_int() || !in[1].is_int()) return std::nullopt;
  SymInt a = in[0].sym(), b = in[1].sym();
  if (a.is_symbolic() || b.is_symbolic()) return std::nullopt;
  return V(wrapped(f(static_cast<uint64_t>(a.as_int()), static_cast<uint64_t>(b.as_int()))));
}
// Two numbers of which one is a float.
bool with_float(Args in) {
  return in.size() == 2 && in[0].is_number() && in[1].is_number() && any_float(in[0], in[1]);
}
}  // namespace

V builtin::wrapping_add(Args in) {
  std::optional<V> r = of_ints(in, [](uint64_t a, uint64_t b) { return a + b; });
  return r ? *r : add(in);
}
V builtin::wrapping_sub(Args in) {
  std::optional<V> r = of_ints(in, [](uint64_t a, uint64_t b) { return a - b; });
  return r ? *r : sub(in);
}
V builtin::wrapping_mul(Args in) {
  std::optional<V> r = of_ints(in, [](uint64_t a, uint64_t b) { return a * b; });
  return r ? *r : mul(in);
}
V builtin::real_floor_quotient(Args in) {
  return with_float(in) ? V(std::floor(in[0].to_double() / in[1].to_double())) : floordiv(in);
}
V builtin::real_remainder(Args in) {
  if (!with_float(in)) return remainder(in);
  double a = in[0].to_double(), b = in[1].to_double();
  return std::fmod(std::fmod(a, b) + b, b);
}
V builtin::real_power(Args in) {
  need(in, 2, 2, "pow");
  V a = number(in[0]), b = number(in[1]);
  if (a.is_int() && b.is_int() && !a.sym().is_symbolic() && !b.sym().is_symbolic())
    return std::pow(a.to_double(), b.to_double());
  return power(in);
}
V builtin::real_quotient(Args in) {
  need(in, 2, 3, "div");
  V a = number(in[0]), b = number(in[1]);
  if (any_complex(a, b)) return a.scalar().to_complex() / b.scalar().to_complex();
  return a.to_double() / b.to_double();
}
V builtin::real_round(Args in) {
  V r = round_half_even(in);
  return r.is_int() && !r.sym().is_symbolic() ? V(r.to_double()) : r;
}

Span<const BuiltinEntry> number_builtins() { return table; }

}  // namespace tern::ir
