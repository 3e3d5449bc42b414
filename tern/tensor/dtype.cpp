#include "tern/tensor/dtype.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>

#include "tern/base/format.h"

namespace tern {
namespace {

struct Row {
  DType type;
  const char* name;
  const char* script;
  const char* other;  // torch's second name: "float" for float32
  const char* cpp;
  int8_t size;
  char category;  // b(ool) u(nsigned) i(nteger) f(loat) 8 (float8) c(omplex) q(uantized)
};
constexpr Row rows[] = {
    {DType::uint8, "uint8", "Byte", "byte", "unsigned char", 1, 'u'},
    {DType::int8, "int8", "Char", "char", "signed char", 1, 'i'},
    {DType::int16, "int16", "Short", "short", "short int", 2, 'i'},
    {DType::int32, "int32", "Int", "int", "int", 4, 'i'},
    {DType::int64, "int64", "Long", "long", "long int", 8, 'i'},
    {DType::float16, "float16", "Half", "half", "c10::Half", 2, 'f'},
    {DType::float32, "float32", "Float", "float", "float", 4, 'f'},
    {DType::float64, "float64", "Double", "double", "double", 8, 'f'},
    {DType::complex32, "complex32", "ComplexHalf", "chalf", "c10::complex<c10::Half>", 4, 'c'},
    {DType::complex64, "complex64", "ComplexFloat", "cfloat", "c10::complex<float>", 8, 'c'},
    {DType::complex128, "complex128", "ComplexDouble", "cdouble", "c10::complex<double>", 16, 'c'},
    {DType::bool_, "bool", "Bool", "bool", "bool", 1, 'b'},
    {DType::qint8, "qint8", "QInt8", "", "c10::qint8", 1, 'q'},
    {DType::quint8, "quint8", "QUInt8", "", "c10::quint8", 1, 'q'},
    {DType::qint32, "qint32", "QInt32", "", "c10::qint32", 4, 'q'},
    {DType::bfloat16, "bfloat16", "BFloat16", "bfloat16", "c10::BFloat16", 2, 'f'},
    {DType::float8_e5m2, "float8_e5m2", "Float8_e5m2", "", "c10::Float8_e5m2", 1, '8'},
    {DType::float8_e4m3fn, "float8_e4m3fn", "Float8_e4m3fn", "", "c10::Float8_e4m3fn", 1, '8'},
    {DType::float8_e5m2fnuz, "float8_e5m2fnuz", "Float8_e5m2fnuz", "", "c10::Float8_e5m2fnuz", 1, '8'},
    {DType::float8_e4m3fnuz, "float8_e4m3fnuz", "Float8_e4m3fnuz", "", "c10::Float8_e4m3fnuz", 1, '8'},
    {DType::uint16, "uint16", "UInt16", "", "short unsigned int", 2, 'u'},
    {DType::uint32, "uint32", "UInt32", "", "unsigned int", 4, 'u'},
    {DType::uint64, "uint64", "UInt64", "", "long unsigned int", 8, 'u'},
};
constexpr Row unknown = {DType::undefined, "undefined", "Undefined", "", "undefined", 0, '?'};

const Row& row(DType t) {
  static const auto index = [] {
    std::array<const Row*, 256> table;
    table.fill(&unknown);
    for (const Row& r : rows) table[static_cast<uint8_t>(r.type)] = &r;
    return table;
  }();
  return *index[static_cast<uint8_t>(t)];
}

std::atomic<DType> default_type{DType::float32};

bool is_wide_unsigned(DType t) { return t == DType::uint16 || t == DType::uint32 || t == DType::uint64; }

}  // namespace

std::string_view name(DType t) { return row(t).name; }
std::string_view script_name(DType t) { return row(t).script; }
std::string_view cpp_name(DType t) { return row(t).cpp; }
int64_t element_size(DType t) { return row(t).size; }
bool is_floating(DType t) { return row(t).category == 'f' || row(t).category == '8'; }
bool is_complex(DType t) { return row(t).category == 'c'; }
bool is_float8(DType t) { return row(t).category == '8'; }
bool is_quantized(DType t) { return row(t).category == 'q'; }
bool is_integral(DType t, bool including_bool) {
  char c = row(t).category;
  return c == 'i' || c == 'u' || (including_bool && c == 'b');
}
bool is_signed(DType t) { return row(t).category != 'u' && row(t).category != 'b'; }

std::optional<DType> parse_dtype(std::string_view text) {
  if (text.starts_with("torch.")) text.remove_prefix(6);
  for (const Row& r : rows)
    if (text == r.name || text == r.script || (*r.other && text == r.other)) return r.type;
  return std::nullopt;
}

DType to_real(DType t) {
  switch (t) {
    case DType::complex32:
      return DType::float16;
    case DType::complex64:
      return DType::float32;
    case DType::complex128:
      return DType::float64;
    default:
      return t;
  }
}
DType to_complex(DType t) {
  switch (t) {
    case DType::float16:
      return DType::complex32;
    case DType::float64:
      return DType::complex128;
    case DType::complex32:
    case DType::complex64:
    case DType::complex128:
      return t;
    default:
      return DType::complex64;
  }
}

DType default_dtype() { return default_type.load(std::memory_order_relaxed); }
void set_default_dtype(DType t) {
  if (!is_floating(t) || is_float8(t))
    failf(ErrorKind::type, "set_default_dtype: expected a floating-point dtype, got torch.{}", name(t));
  default_type = t;
}

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (a == DType::undefined) return b;
  if (b == DType::undefined) return a;
  if (is_quantized(a) || is_quantized(b))
    failf(
        "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should "
        "be, offending types: {} {}",
        script_name(a), script_name(b));
  if (is_float8(a) || is_float8(b))
    failf("Promotion for Float8 Types is not supported, attempted to promote {} and {}", script_name(a),
          script_name(b));
  if (a == kBool) return b;
  if (b == kBool) return a;
  bool ia = is_integral(a), ib = is_integral(b);
  if (ia && ib) {
    if (is_wide_unsigned(a) || is_wide_unsigned(b))
      failf("Promotion for uint16, uint32, uint64 types is not supported, attempted to promote {} and {}",
            script_name(a), script_name(b));
    if (a == kByte || b == kByte) {  // uint8 with a signed type: the next signed type that holds both
      DType signed_one = a == kByte ? b : a;
      return signed_one == kChar ? kShort : signed_one;
    }
    return element_size(a) > element_size(b) ? a : b;
  }
  if (ia) return b;
  if (ib) return a;
  if (is_complex(a) || is_complex(b)) {
    DType ra = to_real(a), rb = to_real(b);
    // bfloat16 has no complex partner: with complex32 it needs complex64.
    DType real = promote(ra, rb);
    return real == kHalf ? DType::complex32 : to_complex(real);
  }
  if (element_size(a) == element_size(b)) return kFloat;  // half with bfloat16
  return element_size(a) > element_size(b) ? a : b;
}

bool can_cast(DType from, DType to) {
  if (is_quantized(from) || is_quantized(to)) return from == to;
  if (is_complex(from) && !is_complex(to)) return false;
  if (is_floating(from) && is_integral(to, true)) return false;
  if (is_integral(from) && to == kBool) return false;
  return true;
}

DType compute_dtype(DType t) {
  return t == kHalf || t == kBFloat16 || is_float8(t) ? kFloat : t == DType::complex32 ? kComplexFloat : t;
}

Half::Half(float f) {
  uint32_t u = std::bit_cast<uint32_t>(f), sign = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  if (a >= 0x7f800000) {
    bits = static_cast<uint16_t>(sign | (a > 0x7f800000 ? 0x7e00 : 0x7c00));
  } else if (a >= 0x477ff000) {  // rounds to beyond 65504
    bits = static_cast<uint16_t>(sign | 0x7c00);
  } else if (a < 0x38800000) {  // subnormal: add a number whose last bit is the half's last bit
    float magic = std::bit_cast<float>(0x3f000000u);
    bits = static_cast<uint16_t>(sign |
                                 (std::bit_cast<uint32_t>(std::bit_cast<float>(a) + magic) - 0x3f000000u));
  } else {
    bits = static_cast<uint16_t>(sign | ((a + 0xc8000fff + ((a >> 13) & 1)) >> 13));
  }
}
Half::operator float() const {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, e = (bits >> 10) & 31, m = bits & 0x3ff;
  if (e == 31) return std::bit_cast<float>(sign | 0x7f800000 | (m << 13));
  if (e == 0) {
    float v = std::ldexp(static_cast<float>(m), -24);
    return sign ? -v : v;
  }
  return std::bit_cast<float>(sign | ((e + 112) << 23) | (m << 13));
}

namespace {

// A float8 format: mantissa bits, exponent bias, and how the top codes are read.
struct Format8 {
  int mantissa, bias;
  bool infinities;  // e5m2: IEEE-like
  bool fnuz;        // no negative zero: 0x80 is the only NaN
  uint8_t max_code() const { return infinities ? 0x7b : fnuz ? 0x7f : 0x7e; }
};
constexpr Format8 format_of(DType t) {
  switch (t) {
    case DType::float8_e5m2:
      return {2, 15, true, false};
    case DType::float8_e4m3fn:
      return {3, 7, false, false};
    case DType::float8_e5m2fnuz:
      return {2, 16, false, true};
    default:
      return {3, 8, false, true};
  }
}

float decode8(uint8_t bits, Format8 f) {
  uint8_t a = bits & 0x7f;
  if (f.fnuz ? bits == 0x80 : a > (f.infinities ? 0x7c : 0x7e))
    return std::numeric_limits<float>::quiet_NaN();
  float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (f.infinities && a == 0x7c) return sign * std::numeric_limits<float>::infinity();
  int e = a >> f.mantissa, m = a & ((1 << f.mantissa) - 1);
  return sign * (e ? std::ldexp(static_cast<float>(m | (1 << f.mantissa)), e - f.bias - f.mantissa)
                   : std::ldexp(static_cast<float>(m), 1 - f.bias - f.mantissa));
}

uint8_t encode8(float v, Format8 f) {
  uint8_t sign = std::signbit(v) ? 0x80 : 0;
  uint8_t nan = f.fnuz ? 0x80 : 0x7f | sign;
  if (std::isnan(v)) return nan;
  float a = std::fabs(v);
  uint8_t overflow = f.infinities ? 0x7c | sign : f.fnuz ? nan : f.max_code() | sign;  // e4m3fn saturates
  if (std::isinf(a)) return overflow;
  int e;
  std::frexp(a, &e);
  int exponent = a == 0 ? 1 - f.bias : std::max(e - 1, 1 - f.bias);
  int64_t q =
      std::llrint(std::ldexp(a, f.mantissa - exponent));  // to nearest even, in units of the last place
  int64_t code = q + (static_cast<int64_t>(exponent + f.bias - 1) << f.mantissa);
  if (code > f.max_code()) return overflow;
  if (code == 0) return f.fnuz ? 0 : sign;
  return static_cast<uint8_t>(code) | sign;
}

}  // namespace

template <DType T>
Float8<T>::Float8(float f) : bits(encode8(f, format_of(T))) {}
template <DType T>
Float8<T>::operator float() const {
  return decode8(bits, format_of(T));
}
template struct Float8<DType::float8_e5m2>;
template struct Float8<DType::float8_e4m3fn>;
template struct Float8<DType::float8_e5m2fnuz>;
template struct Float8<DType::float8_e4m3fnuz>;

}  // namespace tern
