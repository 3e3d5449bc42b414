// The element types of ATen that a CPU file can carry, their C++ types and their promotion lattice.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tern/base/complex_name.h"

namespace tern {

// The numbers are ATen's ScalarType: TorchScript archives and ATen's int-typed `dtype` arguments use them.
enum class DType : uint8_t {
  uint8 = 0,
  int8 = 1,
  int16 = 2,
  int32 = 3,
  int64 = 4,
  float16 = 5,
  float32 = 6,
  float64 = 7,
  complex32 = 8,
  complex64 = 9,
  complex128 = 10,
  bool_ = 11,
  qint8 = 12,  // quantized: integers that a Quantizer gives a meaning (tensor/quantizer.h)
  quint8 = 13,
  qint32 = 14,
  bfloat16 = 15,
  float8_e5m2 = 23,
  float8_e4m3fn = 24,
  float8_e5m2fnuz = 25,
  float8_e4m3fnuz = 26,
  uint16 = 27,
  uint32 = 28,
  uint64 = 29,
  undefined = 255,
};

constexpr DType kFloat = DType::float32, kDouble = DType::float64, kHalf = DType::float16,
                kBFloat16 = DType::bfloat16, kInt = DType::int32, kLong = DType::int64, kBool = DType::bool_,
                kByte = DType::uint8, kChar = DType::int8, kShort = DType::int16,
                kComplexFloat = DType::complex64, kComplexDouble = DType::complex128;

std::string_view name(DType t);                           // "float32", as torch spells it after "torch."
std::string_view script_name(DType t);                    // "Float", as TorchScript's graph text spells it
std::string_view cpp_name(DType t);                       // "long int", "c10::Half": in PyTorch's messages
std::optional<DType> parse_dtype(std::string_view text);  // either spelling, with or without "torch."
int64_t element_size(DType t);
bool is_floating(DType t);  // half, bfloat16, float8 included
bool is_complex(DType t);
bool is_integral(DType t, bool including_bool = false);
bool is_signed(DType t);
bool is_float8(DType t);
bool is_quantized(DType t);  // qint8, quint8, qint32
DType to_real(DType t);      // complex64 -> float32; others unchanged
DType to_complex(DType t);   // float32 -> complex64
DType default_dtype();       // float32 unless set
void set_default_dtype(DType t);
// torch.promote_types: the smallest type both can be cast to. Throws for float8 with another type and for
// uint16/32/64 with another integer type, as PyTorch does.
DType promote(DType a, DType b);
bool can_cast(DType from, DType to);  // torch.can_cast: within or up a category
// What arithmetic is done in: float32 for half, bfloat16 and float8; the type itself otherwise.
DType compute_dtype(DType t);

// 16-bit and 8-bit floats are storage: conversions to and from float, round to nearest even.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  Half(float f);
  operator float() const;
};
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f);
    bits =
        (u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};
struct ComplexHalf {
  Half re, im;
  float real() const { return re; }
  float imag() const { return im; }
};
template <DType T>
struct Float8 {
  uint8_t bits = 0;
  Float8() = default;
  Float8(float f);
  operator float() const;
};
using Float8E5M2 = Float8<DType::float8_e5m2>;
using Float8E4M3FN = Float8<DType::float8_e4m3fn>;
using Float8E5M2FNUZ = Float8<DType::float8_e5m2fnuz>;
using Float8E4M3FNUZ = Float8<DType::float8_e4m3fnuz>;

template <DType T>
struct CppType;
template <class C>
inline constexpr DType dtype_of = DType::undefined;
#define TERN_CPP_TYPE(D, C)  \
  template <>                \
  struct CppType<DType::D> { \
    using type = C;          \
  };                         \
  template <>                \
  inline constexpr DType dtype_of<C> = DType::D;
TERN_CPP_TYPE(uint8, uint8_t)
TERN_CPP_TYPE(int8, int8_t)
TERN_CPP_TYPE(int16, int16_t)
TERN_CPP_TYPE(int32, int32_t)
TERN_CPP_TYPE(int64, int64_t)
TERN_CPP_TYPE(uint16, uint16_t)
TERN_CPP_TYPE(uint32, uint32_t)
TERN_CPP_TYPE(uint64, uint64_t)
TERN_CPP_TYPE(float16, Half)
TERN_CPP_TYPE(bfloat16, BFloat16)
TERN_CPP_TYPE(float32, float)
TERN_CPP_TYPE(float64, double)
TERN_CPP_TYPE(complex32, ComplexHalf)
TERN_CPP_TYPE(complex64, std::complex<float>)
TERN_CPP_TYPE(complex128, std::complex<double>)
TERN_CPP_TYPE(bool_, bool)
TERN_CPP_TYPE(float8_e5m2, Float8E5M2)
TERN_CPP_TYPE(float8_e4m3fn, Float8E4M3FN)
TERN_CPP_TYPE(float8_e5m2fnuz, Float8E5M2FNUZ)
TERN_CPP_TYPE(float8_e4m3fnuz, Float8E4M3FNUZ)
#undef TERN_CPP_TYPE

}  // namespace tern
