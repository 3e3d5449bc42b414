// Arg: a borrowed argument, 16 bytes. The one calling convention of stubs, interpreter, Python and modes:
// an operator gets one Arg per schema argument, in schema order.
#pragma once
#include "tern/tensor/generator.h"
#include "tern/tensor/value.h"

namespace tern {

enum class ArgKind : uint8_t {
  none,
  tensor,
  int_,
  float_,
  bool_,
  complex_,
  string,
  device,
  generator,
  tensors,
  ints,
  floats,
  bools,
  scalars,
  strings,
  value,
};

struct Arg {
  ArgKind kind = ArgKind::none;
  uint32_t count = 0;  // of a list or string
  union {
    int64_t bits = 0;
    double number;
    const Tensor* tensor_ptr;  // also of a list of tensors; undefined entries are None
    const SymInt* ints_ptr;
    const double* floats_ptr;
    const bool* bools_ptr;
    const Scalar* scalars_ptr;
    const double* complex_ptr;  // real and imaginary
    const char* text_ptr;
    const std::string_view* strings_ptr;
    const Generator* generator_ptr;
    const Value* value_ptr;
  };

  Arg() = default;
  Arg(std::nullopt_t) {}
  Arg(const Tensor& t) : kind(ArgKind::tensor) { tensor_ptr = &t; }
  Arg(SymInt v) : kind(ArgKind::int_) { bits = v.bits(); }
  template <class I>
  requires(std::is_integral_v<I> && !std::is_same_v<I, bool>) Arg(I v) : kind(ArgKind::int_) { bits = v; }
  Arg(double v) : kind(ArgKind::float_) { number = v; }
  template <class B>
  requires std::is_same_v<B, bool> Arg(B v) : kind(ArgKind::bool_) { bits = v; }
  Arg(DType v) : Arg(static_cast<int64_t>(v)) {}
  Arg(MemoryFormat v) : Arg(static_cast<int64_t>(v)) {}
  Arg(Layout v) : Arg(static_cast<int64_t>(v)) {}
  Arg(Device d) : kind(ArgKind::device) { bits = static_cast<int>(d.type) | (d.index + 1) << 8; }
  Arg(const Generator* g) : kind(g ? ArgKind::generator : ArgKind::none) { generator_ptr = g; }
  Arg(std::string_view s) : kind(ArgKind::string), count(static_cast<uint32_t>(s.size())) {
    text_ptr = s.data();
  }
  Arg(Span<const Tensor> l) : kind(ArgKind::tensors), count(static_cast<uint32_t>(l.size())) {
    tensor_ptr = l.data();
  }
  Arg(Span<const SymInt> l) : kind(ArgKind::ints), count(static_cast<uint32_t>(l.size())) {
    ints_ptr = l.data();
  }
  Arg(Span<const double> l) : kind(ArgKind::floats), count(static_cast<uint32_t>(l.size())) {
    floats_ptr = l.data();
  }
  Arg(Span<const bool> l) : kind(ArgKind::bools), count(static_cast<uint32_t>(l.size())) {
    bools_ptr = l.data();
  }
  Arg(Span<const Scalar> l) : kind(ArgKind::scalars), count(static_cast<uint32_t>(l.size())) {
    scalars_ptr = l.data();
  }
  Arg(Span<const std::string_view> l) : kind(ArgKind::strings), count(static_cast<uint32_t>(l.size())) {
    strings_ptr = l.data();
  }
  Arg(const std::complex<double>& c) : kind(ArgKind::complex_) {
    complex_ptr = reinterpret_cast<const double*>(&c);
  }
  Arg(const Scalar& s);  // a complex Scalar is borrowed, others are copied
  explicit Arg(const Value* v) : kind(ArgKind::value) { value_ptr = v; }
  Arg(const Ints& l)
      : kind(l.has_value() ? ArgKind::ints : ArgKind::none), count(static_cast<uint32_t>(l.size())) {
    ints_ptr = reinterpret_cast<const SymInt*>(l.data());  // a SymInt that is an int is that int
  }
  template <class T>
  Arg(const std::optional<T>& v) {
    if (v) *this = Arg(*v);
  }

  bool is_none() const {
    return kind == ArgKind::none || (kind == ArgKind::tensor && !tensor_ptr->defined());
  }
  bool is_number() const {
    return kind == ArgKind::int_ || kind == ArgKind::float_ || kind == ArgKind::bool_ ||
           kind == ArgKind::complex_;
  }
  // What generated code unpacks with; preconditions hold because the binder checked the schema.
  const Tensor& tensor() const {
    static const Tensor undefined;
    return kind == ArgKind::tensor ? *tensor_ptr : undefined;
  }
  Span<const Tensor> tensors() const { return {tensor_ptr, count}; }
  SymInt sym() const { return SymInt::from_bits(bits); }
  int64_t to_int() const { return sym().guard_int(Loc{}); }
  double to_double() const { return kind == ArgKind::float_ ? number : static_cast<double>(to_int()); }
  bool to_bool() const { return kind == ArgKind::float_ ? number != 0 : to_int() != 0; }
  Scalar scalar() const;
  Device device() const {
    return {static_cast<DeviceType>(bits & 255), static_cast<int8_t>((bits >> 8) - 1)};
  }
  std::string_view string() const { return {text_ptr, count}; }
  Span<const SymInt> syms() const { return {ints_ptr, count}; }
  Span<const int64_t> ints()
      const;  // every entry concrete (a symbolic one is specialised in place by the binder)
  Span<const double> floats() const { return {floats_ptr, count}; }
  Span<const bool> bools() const { return Span<const bool>(bools_ptr, count); }
  Span<const Scalar> scalars() const { return {scalars_ptr, count}; }
  Span<const std::string_view> strings() const { return {strings_ptr, count}; }
  const Generator* generator() const { return kind == ArgKind::generator ? generator_ptr : nullptr; }

  Value to_value() const;  // owned
};
static_assert(sizeof(Arg) == 16);

// A generator as a Value.
struct GeneratorBox : Box {
  Generator generator;
};

}  // namespace tern
