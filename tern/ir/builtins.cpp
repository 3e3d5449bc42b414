#include "tern/ir/builtins.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/type.h"

namespace tern::ir {
namespace {

using V = tern::Value;
using Args = Span<const V>;

void need(Args in, size_t at_least, size_t at_most, std::string_view what) {
  if (in.size() < at_least || in.size() > at_most)
    failf(ErrorKind::type, "{} takes {} to {} arguments but {} were given", what, at_least, at_most,
          in.size());
}
[[noreturn]] void unsupported(std::string_view what, Args in) {
  std::string kinds;
  for (const V& v : in) kinds += (kinds.empty() ? "" : ", ") + std::string(v.kind_name());
  failf(ErrorKind::type, "unsupported operand types for {}: {}", what, kinds);
}

// A tensor with one element stands for its number.
V number(const V& v) {
  if (v.is_tensor()) return V(v.tensor().item(Loc{}));
  if (!v.is_number()) failf(ErrorKind::type, "expected a number but found {}", v.kind_name());
  return v;
}
SymInt integer(const V& v) {
  V n = number(v);
  if (n.is_float()) return SymInt(n.scalar().to_int());
  return n.sym();
}
double real(const V& v) { return number(v).to_double(); }
bool any_complex(const V& a, const V& b) { return a.is_complex() || b.is_complex(); }
bool any_float(const V& a, const V& b) { return a.is_float() || b.is_float(); }
int64_t checked(bool overflow, int64_t r) {
  if (overflow || r < SymInt::lowest_int) fail(ErrorKind::value, "integer overflow");
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
V add(Args in) {
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
V sub(Args in) {
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
  if (!(std::fabs(r) < 4e18)) fail(ErrorKind::value, "cannot convert the float to an integer");
  return static_cast<int64_t>(r);
}
V logarithm(Args in) {
  need(in, 1, 2, "log");
  return in.size() == 2 ? std::log(real(in[0])) / std::log(real(in[1])) : std::log(real(in[0]));
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
  return std::isnan(real(in[0]));
}
V is_inf(Args in) {
  need(in, 1, 1, "isinf");
  return std::isinf(real(in[0]));
}
V is_finite(Args in) {
  need(in, 1, 1, "isfinite");
  return std::isfinite(real(in[0]));
}
V divmod(Args in) { return V::tuple({floordiv(in), remainder(in)}); }

// ---- comparisons ----

bool same(const V& a, const V& b) { return a.equals(b); }
int order(const V& a, const V& b) {  // Python's < for strings and sequences
  if (a.is_string() && b.is_string()) return a.string().compare(b.string());
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const auto &x = a.items(), &y = b.items();
    for (size_t k = 0; k < x.size() && k < y.size(); ++k)
      if (!same(x[k], y[k])) return order(x[k], y[k]);
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  V x = number(a), y = number(b);
  if (any_complex(x, y)) fail(ErrorKind::type, "complex numbers have no order");
  if (any_float(x, y)) return x.to_double() < y.to_double() ? -1 : x.to_double() > y.to_double();
  return x.sym() < y.sym() ? -1 : x.sym() > y.sym() ? 1 : 0;
}
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
    failf(ErrorKind::value, "invalid literal for int(): '{}'", text);
  }
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
std::string text_of(const V& v) {
  return v.is_string() ? v.string() : v.kind() == ValueKind::device ? v.device().str() : v.str();
}
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

// ---- what a tensor is ----

const Tensor& tensor_in(Args in, std::string_view what) {
  if (in.empty() || !in[0].is_tensor()) failf(ErrorKind::type, "{} needs a tensor", what);
  return in[0].tensor();
}
V size_of(Args in) {
  const Tensor& t = tensor_in(in, "size");
  if (in.size() == 2) return t.size(integer(in[1]).guard_int(Loc{}), Loc{});
  Dims d;
  for (int64_t k = 0; k < t.dim(); ++k) d.push_back(t.size(k, Loc{}));
  return V::list({d.begin(), d.end()}, Type::integer());
}
V stride_of(Args in) {
  const Tensor& t = tensor_in(in, "stride");
  if (in.size() == 2) return t.stride(integer(in[1]).guard_int(Loc{}));
  return V::list({t.strides().begin(), t.strides().end()}, Type::integer());
}
V dim_of(Args in) { return tensor_in(in, "dim").dim(); }
V numel_of(Args in) { return tensor_in(in, "numel").numel(); }
V offset_of(Args in) { return tensor_in(in, "storage_offset").offset(); }
V dtype_of_tensor(Args in) { return tensor_in(in, "dtype").dtype(); }
V device_of_tensor(Args in) { return tensor_in(in, "device").device(); }
V layout_of(Args in) {
  tensor_in(in, "layout");
  return int64_t{0};
}
V requires_grad_of(Args in) { return tensor_in(in, "requires_grad").requires_grad(); }
V floating_of(Args in) { return tensor_in(in, "is_floating_point").is_floating_point(); }
V complex_of(Args in) { return tensor_in(in, "is_complex").is_complex(); }
V element_size_of(Args in) { return tensor_in(in, "element_size").element_size(); }
V contiguous_of(Args in) { return tensor_in(in, "is_contiguous").is_contiguous(); }
template <DeviceType D>
V on_device(Args in) {
  return tensor_in(in, "the device").device().type == D;
}
// torch.tensor of numbers in nested lists: (data, dtype, device, requires_grad).
void flatten_numbers(const V& v, size_t depth, Dims& sizes, std::vector<V>& out) {
  if (depth > 64) fail(ErrorKind::value, "tensor: lists nested too deeply");
  if (!v.is_list() && !v.is_tuple()) {
    if (depth != sizes.size())
      fail(ErrorKind::value, "tensor: expected a sequence of the same length at each level");
    out.push_back(number(v));
    return;
  }
  int64_t n = static_cast<int64_t>(v.items().size());
  if (out.empty() && depth == sizes.size())
    sizes.push_back(n);
  else if (depth >= sizes.size() || sizes[depth].as_int() != n)
    fail(ErrorKind::value, "tensor: expected sequences of the same length");
  for (const V& item : v.items()) flatten_numbers(item, depth + 1, sizes, out);
}
V make_tensor_of(Args in) {
  need(in, 1, 4, "tensor");
  Dims sizes;
  std::vector<V> items;
  flatten_numbers(in[0], 0, sizes, items);
  DType dtype = items.empty() ? default_dtype() : kBool;
  for (const V& v : items) {
    DType t = v.is_complex() ? to_complex(default_dtype())
              : v.is_float() ? default_dtype()
              : v.is_bool()  ? kBool
                             : kLong;
    dtype = promote(dtype, t);
  }
  if (in.size() > 1 && !in[1].is_none()) dtype = static_cast<DType>(in[1].to_int());
  Tensor t = make_tensor(sizes, dtype);
  for (size_t i = 0; i < items.size(); ++i) {
    Dims none;
    t.as_view(none, none, SymInt(static_cast<int64_t>(i))).fill_(items[i].scalar(), Loc{});
  }
  if (in.size() > 3 && in[3].is_bool() && in[3].to_bool()) t.requires_grad_(true);
  return t;
}
V device_type(Args in) {
  need(in, 1, 1, "type");
  std::string text = in[0].device().str();
  return text.substr(0, text.find(':'));
}
V device_index(Args in) {
  need(in, 1, 1, "index");
  Device d = in[0].device();
  return d.index < 0 ? V() : V(static_cast<int64_t>(d.index));
}
V grad_enabled(Args) { return thread_state.grad_enabled; }
V never(Args) { return false; }

// ---- sequences ----

size_t length(const V& v) {
  if (v.is_string()) return v.string().size();
  if (v.is_dict()) return v.entries().size();
  return v.items().size();
}
V len(Args in) {
  need(in, 1, 1, "len");
  if (in[0].is_tensor()) {
    if (in[0].tensor().dim() == 0) fail(ErrorKind::type, "len() of a 0-d tensor");
    return in[0].tensor().size(0, Loc{});
  }
  return static_cast<int64_t>(length(in[0]));
}
size_t position(const V& index, size_t n, std::string_view what) {
  int64_t i = integer(index).guard_int(Loc{}), size = static_cast<int64_t>(n);
  if (i < -size || i >= size) failf(ErrorKind::index, "{} index out of range", what);
  return static_cast<size_t>(i < 0 ? i + size : i);
}
V get_item(Args in) {
  need(in, 2, 2, "[]");
  const V &v = in[0], &key = in[1];
  if (v.is_dict()) {
    if (V* found = v.find(key)) return *found;
    failf(ErrorKind::index, "KeyError: {}", key.str());
  }
  if (v.is_string()) return std::string(1, v.string()[position(key, v.string().size(), "string")]);
  return v.items()[position(key, v.items().size(), v.is_list() ? "list" : "tuple")];
}
V set_item(Args in) {
  need(in, 3, 3, "[]=");
  if (in[0].is_dict()) {
    if (V* found = in[0].find(in[1]))
      *found = in[2];
    else
      in[0].entries().emplace_back(in[1], in[2]);
  } else {
    in[0].items()[position(in[1], in[0].items().size(), "list")] = in[2];
  }
  return in[0];
}
V delete_item(Args in) {
  need(in, 2, 2, "del");
  if (in[0].is_dict()) {
    auto& entries = in[0].entries();
    for (auto it = entries.begin(); it != entries.end(); ++it)
      if (same(it->first, in[1])) {
        entries.erase(it);
        return {};
      }
    failf(ErrorKind::index, "KeyError: {}", in[1].str());
  }
  auto& items = in[0].items();
  items.erase(items.begin() + static_cast<ptrdiff_t>(position(in[1], items.size(), "list")));
  return {};
}
struct Range {
  int64_t start, stop, step;
};
Range slice_range(Args in, size_t n) {
  int64_t size = static_cast<int64_t>(n);
  int64_t step = in.size() > 3 && !in[3].is_none() ? integer(in[3]).guard_int(Loc{}) : 1;
  if (step == 0) fail(ErrorKind::value, "slice step cannot be zero");
  auto clip = [&](const V& v, int64_t otherwise) {
    if (v.is_none()) return otherwise;
    int64_t i = integer(v).guard_int(Loc{});
    if (i < 0) i += size;
    return step > 0 ? std::clamp<int64_t>(i, 0, size) : std::clamp<int64_t>(i, -1, size - 1);
  };
  static const V none{};
  return {clip(in.size() > 1 ? in[1] : none, step > 0 ? 0 : size - 1),
          clip(in.size() > 2 ? in[2] : none, step > 0 ? size : -1), step};
}
V slice(Args in) {
  need(in, 1, 4, "slice");
  Range r = slice_range(in, length(in[0]));
  auto each = [&](auto f) {
    for (int64_t k = r.start; r.step > 0 ? k < r.stop : k > r.stop; k += r.step) f(static_cast<size_t>(k));
  };
  if (in[0].is_string()) {
    std::string out;
    each([&](size_t k) { out += in[0].string()[k]; });
    return out;
  }
  std::vector<V> items;
  each([&](size_t k) { items.push_back(in[0].items()[k]); });
  return in[0].is_tuple() ? V::tuple(std::move(items)) : V::list(std::move(items), in[0].element_type());
}
V append(Args in) {
  need(in, 2, 2, "append");
  in[0].items().push_back(in[1]);
  return in[0];
}
V extend(Args in) {
  need(in, 2, 2, "extend");
  std::vector<V> more = in[1].items();
  in[0].items().insert(in[0].items().end(), more.begin(), more.end());
  return {};
}
V insert(Args in) {
  need(in, 3, 3, "insert");
  auto& items = in[0].items();
  int64_t i = integer(in[1]).guard_int(Loc{}), n = static_cast<int64_t>(items.size());
  i = std::clamp<int64_t>(i < 0 ? i + n : i, 0, n);
  items.insert(items.begin() + i, in[2]);
  return {};
}
V pop(Args in) {
  need(in, 1, 3, "pop");
  if (in[0].is_dict()) {
    auto& entries = in[0].entries();
    for (auto it = entries.begin(); it != entries.end(); ++it)
      if (in.size() > 1 && same(it->first, in[1])) {
        V v = it->second;
        entries.erase(it);
        return v;
      }
    if (in.size() == 3) return in[2];
    fail(ErrorKind::index, "KeyError: the key is not in the dict");
  }
  auto& items = in[0].items();
  if (items.empty()) fail(ErrorKind::index, "pop from empty list");
  size_t at = in.size() > 1 ? position(in[1], items.size(), "pop") : items.size() - 1;
  V v = items[at];
  items.erase(items.begin() + static_cast<ptrdiff_t>(at));
  return v;
}
size_t find_in(const std::vector<V>& items, const V& v) {
  for (size_t k = 0; k < items.size(); ++k)
    if (same(items[k], v)) return k;
  return items.size();
}
V remove(Args in) {
  need(in, 2, 2, "remove");
  auto& items = in[0].items();
  size_t at = find_in(items, in[1]);
  if (at == items.size()) fail(ErrorKind::value, "list.remove(x): x not in list");
  items.erase(items.begin() + static_cast<ptrdiff_t>(at));
  return {};
}
V index_of(Args in) {
  need(in, 2, 2, "index");
  size_t at = find_in(in[0].items(), in[1]);
  if (at == in[0].items().size()) failf(ErrorKind::value, "'{}' is not in list", in[1].str());
  return static_cast<int64_t>(at);
}
V count_of(Args in) {
  need(in, 2, 2, "count");
  if (in[0].is_string()) {
    int64_t n = 0;
    const std::string &text = in[0].string(), &part = in[1].string();
    if (part.empty()) return static_cast<int64_t>(text.size() + 1);
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
    return n;
  }
  return static_cast<int64_t>(
      std::count_if(in[0].items().begin(), in[0].items().end(), [&](const V& v) { return same(v, in[1]); }));
}
V reverse(Args in) {
  need(in, 1, 1, "reverse");
  std::reverse(in[0].items().begin(), in[0].items().end());
  return {};
}
V clear(Args in) {
  need(in, 1, 1, "clear");
  if (in[0].is_dict())
    in[0].entries().clear();
  else
    in[0].items().clear();
  return {};
}
V copy(Args in) {
  need(in, 1, 1, "copy");
  if (in[0].is_dict()) return V::dict(in[0].entries());
  return V::list(in[0].items(), in[0].element_type());
}
void sort_items(std::vector<V>& items, bool backwards) {
  std::stable_sort(items.begin(), items.end(),
                   [&](const V& a, const V& b) { return backwards ? order(b, a) < 0 : order(a, b) < 0; });
}
V sort(Args in) {
  need(in, 1, 2, "sort");
  sort_items(in[0].items(), in.size() > 1 && truth(in[1]));
  return {};
}
V sorted(Args in) {
  need(in, 1, 2, "sorted");
  std::vector<V> items = in[0].items();
  sort_items(items, in.size() > 1 && truth(in[1]));
  return V::list(std::move(items), in[0].element_type());
}
V to_list(Args in) {
  need(in, 1, 1, "list");
  if (in[0].is_string()) {
    std::vector<V> items;
    for (char c : in[0].string()) items.emplace_back(std::string(1, c));
    return V::list(std::move(items), Type::string());
  }
  if (in[0].is_dict()) {
    std::vector<V> keys;
    for (auto& [k, v] : in[0].entries()) keys.push_back(k);
    return V::list(std::move(keys));
  }
  return V::list(in[0].items(), in[0].element_type());
}
V contains(Args in) {
  need(in, 2, 2, "in");
  if (in[0].is_dict()) return in[0].find(in[1]) != nullptr;
  if (in[0].is_string()) return in[0].string().find(in[1].string()) != std::string::npos;
  return find_in(in[0].items(), in[1]) != in[0].items().size();
}
V extreme(Args in, bool largest, std::string_view what) {
  const std::vector<V> all = in.size() == 1 ? in[0].items() : in.vec();
  if (all.empty()) failf(ErrorKind::value, "{}() arg is an empty sequence", what);
  V best = all[0];
  for (size_t k = 1; k < all.size(); ++k) {
    if (best.is_int() && all[k].is_int())
      best = largest ? sym_max(best.sym(), all[k].sym()) : sym_min(best.sym(), all[k].sym());
    else if (largest ? order(all[k], best) > 0 : order(all[k], best) < 0)
      best = all[k];
  }
  if (in.size() == 2 && any_float(in[0], in[1]) && !best.is_float()) return best.to_double();
  return best;
}
V minimum(Args in) {
  need(in, 1, 64, "min");
  return extreme(in, false, "min");
}
V maximum(Args in) {
  need(in, 1, 64, "max");
  return extreme(in, true, "max");
}
V sum(Args in) {
  need(in, 1, 1, "sum");
  V total = int64_t{0};
  for (const V& v : in[0].items()) {
    V pair[] = {total, v};
    total = add(pair);
  }
  return total;
}
V all_of(Args in) {
  need(in, 1, 1, "all");
  return std::all_of(in[0].items().begin(), in[0].items().end(), truth);
}
V any_of(Args in) {
  need(in, 1, 1, "any");
  return std::any_of(in[0].items().begin(), in[0].items().end(), truth);
}
V range_length(Args in) {
  need(in, 3, 3, "range");
  int64_t lo = integer(in[0]).guard_int(Loc{}), hi = integer(in[1]).guard_int(Loc{}),
          step = integer(in[2]).guard_int(Loc{});
  if (step == 0) fail(ErrorKind::value, "range() arg 3 must not be zero");
  if (step > 0) return lo < hi ? 1 + (hi - 1 - lo) / step : 0;
  return lo > hi ? 1 + (lo - 1 - hi) / -step : 0;
}
V derive_index(Args in) {
  need(in, 3, 3, "range");
  return integer(in[1]) + integer(in[0]) * integer(in[2]);
}
V range_list(Args in) {
  need(in, 1, 1, "range");
  int64_t n = integer(in[0]).guard_int(Loc{});
  if (n > (int64_t{1} << 26)) fail(ErrorKind::value, "the range is too long for a list");
  std::vector<V> items;
  for (int64_t k = 0; k < n; ++k) items.emplace_back(k);
  return V::list(std::move(items), Type::integer());
}

// ---- dicts ----

V keys(Args in) {
  need(in, 1, 1, "keys");
  std::vector<V> out;
  for (auto& [k, v] : in[0].entries()) out.push_back(k);
  return V::list(std::move(out));
}
V values(Args in) {
  need(in, 1, 1, "values");
  std::vector<V> out;
  for (auto& [k, v] : in[0].entries()) out.push_back(v);
  return V::list(std::move(out));
}
V items(Args in) {
  need(in, 1, 1, "items");
  std::vector<V> out;
  for (auto& [k, v] : in[0].entries()) out.push_back(V::tuple({k, v}));
  return V::list(std::move(out));
}
V get(Args in) {
  need(in, 2, 3, "get");
  if (V* found = in[0].find(in[1])) return *found;
  return in.size() == 3 ? in[2] : V();
}
V set_default(Args in) {
  need(in, 3, 3, "setdefault");
  if (V* found = in[0].find(in[1])) return *found;
  in[0].entries().emplace_back(in[1], in[2]);
  return in[2];
}
V update(Args in) {
  need(in, 2, 2, "update");
  std::vector<std::pair<V, V>> more = in[1].entries();
  for (auto& [k, v] : more) {
    V triple[] = {in[0], k, v};
    set_item(triple);
  }
  return {};
}
V make_dict(Args in) {
  need(in, 0, 1, "dict");
  V d = V::dict();
  if (in.empty()) return d;
  if (in[0].is_dict()) return V::dict(in[0].entries());
  for (const V& pair : in[0].items()) {
    V triple[] = {d, pair.items().at(0), pair.items().at(1)};
    set_item(triple);
  }
  return d;
}

// ---- strings ----

V format(Args in) {
  need(in, 1, 1000, "format");
  const std::string& text = in[0].string();
  std::string out;
  size_t used = 1;
  for (size_t at = 0; at < text.size();) {
    size_t open = text.find("{}", at);
    out += text.substr(at, open == std::string::npos ? open : open - at);
    if (open == std::string::npos) break;
    if (used >= in.size()) failf(ErrorKind::value, "Too few arguments for format string: {}", text);
    out += text_of(in[used++]);
    at = open + 2;
  }
  if (used < in.size()) failf(ErrorKind::value, "Too many arguments for format string: {}", text);
  return out;
}
V percent_format(Args in) {
  need(in, 1, 1000, "%");
  const std::string& text = in[0].string();
  std::string out;
  size_t used = 1;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%' || at + 1 == text.size()) {
      out += text[at];
      continue;
    }
    char c = text[++at];
    if (c == '%') {
      out += '%';
      continue;
    }
    if (used >= in.size()) failf(ErrorKind::value, "Too few arguments for format string: {}", text);
    const V& v = in[used++];
    if (c == 's')
      out += text_of(v);
    else if (c == 'd' || c == 'i')
      out += std::to_string(integer(v).guard_int(Loc{}));
    else if (c == 'f')
      out += fmt::format("{:.6f}", real(v));
    else if (c == 'e')
      out += fmt::format("{:.6e}", real(v));
    else if (c == 'g')
      out += fmt::format("{:g}", real(v));
    else if (c == 'x')
      out += fmt::format("{:x}", integer(v).guard_int(Loc{}));
    else
      failf(ErrorKind::value, "unsupported format character '{}'", c);
  }
  if (used < in.size()) failf(ErrorKind::value, "Too many arguments for format string: {}", text);
  return out;
}
V upper(Args in) {
  need(in, 1, 1, "upper");
  std::string s = in[0].string();
  for (char& c : s) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return s;
}
V lower(Args in) {
  need(in, 1, 1, "lower");
  std::string s = in[0].string();
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}
V strip(Args in) {
  need(in, 1, 2, "strip");
  std::string marks = in.size() > 1 && in[1].is_string() ? in[1].string() : " \t\n\r\f\v";
  const std::string& s = in[0].string();
  size_t from = s.find_first_not_of(marks);
  return from == std::string::npos ? std::string() : s.substr(from, s.find_last_not_of(marks) - from + 1);
}
V split(Args in) {
  need(in, 1, 3, "split");
  const std::string& s = in[0].string();
  int64_t most = in.size() > 2 ? integer(in[2]).guard_int(Loc{}) : -1;
  std::vector<V> parts;
  if (in.size() < 2 || in[1].is_none()) {
    for (size_t at = s.find_first_not_of(" \t\n\r\f\v"); at != std::string::npos;) {
      size_t end = s.find_first_of(" \t\n\r\f\v", at);
      parts.emplace_back(s.substr(at, end == std::string::npos ? end : end - at));
      at = end == std::string::npos ? end : s.find_first_not_of(" \t\n\r\f\v", end);
    }
  } else {
    const std::string& mark = in[1].string();
    if (mark.empty()) fail(ErrorKind::value, "empty separator");
    size_t at = 0;
    for (size_t end; (most < 0 || static_cast<int64_t>(parts.size()) < most) &&
                     (end = s.find(mark, at)) != std::string::npos;
         at = end + mark.size())
      parts.emplace_back(s.substr(at, end - at));
    parts.emplace_back(s.substr(at));
  }
  return V::list(std::move(parts), Type::string());
}
V join(Args in) {
  need(in, 2, 2, "join");
  std::string out;
  for (size_t k = 0; k < in[1].items().size(); ++k)
    out += (k ? in[0].string() : "") + in[1].items()[k].string();
  return out;
}
V starts_with(Args in) {
  need(in, 2, 4, "startswith");
  return in[0].string().rfind(in[1].string(), 0) == 0;
}
V ends_with(Args in) {
  need(in, 2, 4, "endswith");
  const std::string &s = in[0].string(), &end = in[1].string();
  return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}
V replace(Args in) {
  need(in, 3, 4, "replace");
  std::string s = in[0].string();
  const std::string &from = in[1].string(), &to = in[2].string();
  if (from.empty()) return s;
  for (size_t at = 0; (at = s.find(from, at)) != std::string::npos; at += to.size())
    s.replace(at, from.size(), to);
  return s;
}
V find(Args in) {
  need(in, 2, 4, "find");
  size_t at = in[0].string().find(in[1].string());
  return at == std::string::npos ? int64_t{-1} : static_cast<int64_t>(at);
}
V ord(Args in) {
  need(in, 1, 1, "ord");
  if (in[0].string().size() != 1) fail(ErrorKind::type, "ord() expected a character");
  return static_cast<int64_t>(static_cast<unsigned char>(in[0].string()[0]));
}
V chr(Args in) {
  need(in, 1, 1, "chr");
  return std::string(1, static_cast<char>(integer(in[0]).guard_int(Loc{})));
}

// ---- effects ----

V print(Args in) {
  std::string out;
  for (size_t k = 0; k < in.size(); ++k) out += (k ? " " : "") + text_of(in[k]);
  std::fputs((out + "\n").c_str(), stdout);
  return {};
}
V warn(Args in) {
  need(in, 1, 2, "warn");
  std::fputs(("UserWarning: " + text_of(in[0]) + "\n").c_str(), stderr);
  return {};
}
V raise(Args in) {
  need(in, 1, 2, "RaiseException");
  fail(ErrorKind::runtime, text_of(in[0]));
}
V check(Args in) {  // torch._check, assert statements of export
  need(in, 1, 2, "an assertion");
  if (!truth(in[0].is_tensor() ? number(in[0]) : in[0]))
    fail(ErrorKind::runtime, in.size() > 1 ? text_of(in[1]) : "assertion failed");
  return {};
}
V first_of(Args in) {
  need(in, 1, 8, "a cast");
  return in[0];
}
V to_sym_float(Args in) {
  need(in, 1, 1, "sym_float");
  return real(in[0]);
}

struct Entry {
  std::string_view name;
  Builtin function;
  bool effect = false;
};

constexpr Entry table[] = {
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
    {"sqrt", math<std::sqrt>},
    {"exp", math<std::exp>},
    {"expm1", math<std::expm1>},
    {"log", logarithm},
    {"log10", math<std::log10>},
    {"log1p", math<std::log1p>},
    {"log2", math<std::log2>},
    {"sin", math<std::sin>},
    {"cos", math<std::cos>},
    {"tan", math<std::tan>},
    {"asin", math<std::asin>},
    {"acos", math<std::acos>},
    {"atan", math<std::atan>},
    {"sinh", math<std::sinh>},
    {"cosh", math<std::cosh>},
    {"tanh", math<std::tanh>},
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
    {"IntImplicit", to_int},
    {"FloatImplicit", to_float},
    {"ComplexImplicit", item},
    {"ScalarImplicit", item},
    {"item", item},
    {"NumToTensor", number_to_tensor},
    {"BoolImplicit", to_boolean},
    {"sym_float", to_sym_float},
    {"sym_int", to_int},
    {"sym_max", maximum},
    {"sym_min", minimum},
    {"sym_not", logical_not},
    {"sym_size", size_of},
    {"sym_stride", stride_of},
    {"sym_numel", numel_of},
    {"sym_storage_offset", offset_of},
    {"unchecked_unwrap_optional", unwrap_optional},
    {"_unwrap_optional", unwrap_optional},
    {"device", device_of_text},
    {"size", size_of},
    {"shape", size_of},
    {"stride", stride_of},
    {"dim", dim_of},
    {"ndim", dim_of},
    {"numel", numel_of},
    {"storage_offset", offset_of},
    {"dtype", dtype_of_tensor},
    {"layout", layout_of},
    {"requires_grad", requires_grad_of},
    {"is_floating_point", floating_of},
    {"is_complex", complex_of},
    {"element_size", element_size_of},
    {"itemsize", element_size_of},
    {"is_contiguous", contiguous_of},
    {"is_cpu", on_device<DeviceType::cpu>},
    {"is_cuda", on_device<DeviceType::cuda>},
    {"is_meta", on_device<DeviceType::meta>},
    {"is_xpu", on_device<DeviceType::xpu>},
    {"is_mps", on_device<DeviceType::mps>},
    {"is_sparse", never},
    {"is_quantized", never},
    {"is_mkldnn", never},
    {"is_nested", never},
    {"is_scripting", never},
    {"is_tracing", never},
    {"tensor", make_tensor_of},
    {"as_tensor", make_tensor_of},
    {"is_autocast_enabled", never},
    {"is_autocast_cpu_enabled", never},
    {"is_grad_enabled", grad_enabled},
    {"len", len},
    {"__getitem__", get_item},
    {"getitem", get_item},
    {"TupleIndex", get_item},
    {"StringIndex", get_item},
    {"_set_item", set_item, true},
    {"__setitem__", set_item, true},
    {"Delete", delete_item, true},
    {"slice", slice},
    {"TupleSlice", slice},
    {"append", append, true},
    {"extend", extend, true},
    {"insert", insert, true},
    {"pop", pop, true},
    {"remove", remove, true},
    {"index", index_of},
    {"count", count_of},
    {"reverse", reverse, true},
    {"clear", clear, true},
    {"copy", copy},
    {"sort", sort, true},
    {"sorted", sorted},
    {"list", to_list},
    {"__contains__", contains},
    {"contains", contains},
    {"min", minimum},
    {"max", maximum},
    {"sum", sum},
    {"all", all_of},
    {"any", any_of},
    {"__range_length", range_length},
    {"__derive_index", derive_index},
    {"rangelist", range_list},
    {"keys", keys},
    {"values", values},
    {"items", items},
    {"get", get},
    {"setdefault", set_default, true},
    {"update", update, true},
    {"dict", make_dict},
    {"format", format},
    {"percentFormat", percent_format},
    {"upper", upper},
    {"lower", lower},
    {"strip", strip},
    {"split", split},
    {"join", join},
    {"startswith", starts_with},
    {"endswith", ends_with},
    {"replace", replace},
    {"find", find},
    {"ord", ord},
    {"chr", chr},
    {"Print", print, true},
    {"warn", warn, true},
    {"RaiseException", raise, true},
    {"_assert_scalar", check, true},
    {"_assert_async", check, true},
    {"sym_constrain_range", first_of, true},
    {"sym_constrain_range_for_size", first_of, true},
    {"_check", check, true},
};

// prim:: and aten:: differ only here: aten::device makes one, prim::device asks a tensor for it; prim::type
// and prim::index ask a device.
const Entry* look_up(Symbol kind) {
  static const auto* by_name = [] {
    auto* map = new std::unordered_map<std::string_view, const Entry*>;
    for (const Entry& e : table) map->emplace(e.name, &e);
    return map;
  }();
  static constexpr Entry device{"device", device_of_tensor}, type{"type", device_type},
      index{"index", device_index};
  std::string_view text = kind.view();
  size_t colons = text.find("::");
  if (colons == std::string_view::npos) return nullptr;
  std::string_view space = text.substr(0, colons), name = text.substr(colons + 2);
  if (space != "aten" && space != "prim" && space != "_operator" && space != "math" && space != "torch")
    return nullptr;
  name = name.substr(0, name.find('.'));
  if (space == "prim" && name == "device") return &device;
  if (space == "prim" && name == "type") return &type;
  if (space == "prim" && name == "index") return &index;
  auto it = by_name->find(name);
  return it == by_name->end() ? nullptr : it->second;
}

}  // namespace

Builtin find_builtin(Symbol kind) {
  const Entry* e = look_up(kind);
  return e ? e->function : nullptr;
}
bool builtin_has_effect(Symbol kind) {
  const Entry* e = look_up(kind);
  return e && e->effect;
}

bool truth(const tern::Value& v) {
  switch (v.kind()) {
    case ValueKind::none:
      return false;
    case ValueKind::bool_:
      return v.to_bool();
    case ValueKind::int_:
      if (v.sym().is_symbolic()) return SymBool::from_expr(v.sym()).guard_bool(Loc{});
      return v.sym().as_int() != 0;
    case ValueKind::tensor:
      return v.tensor().item(Loc{}).to_bool();
    case ValueKind::string:
      return !v.string().empty();
    case ValueKind::list:
    case ValueKind::tuple:
      return !v.items().empty();
    case ValueKind::dict:
      return !v.entries().empty();
    case ValueKind::float_:
    case ValueKind::complex_:
      return v.scalar().to_bool();
    default:
      return true;
  }
}

}  // namespace tern::ir
