// Types of IR values: interned, so equal types are the same pointer; dims of tensors are SymInts.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tern/base/span.h"
#include "tern/base/symbol.h"
#include "tern/tensor/value.h"

namespace tern {
class ShapeEnv;
struct SchemaType;
}  // namespace tern

namespace tern::ir {

enum class TypeKind : uint8_t {
  tensor,
  int_,
  float_,
  bool_,
  complex_,
  string,
  none,
  device,
  generator,
  number,
  any,
  function,
  optional,
  list,
  dict,
  tuple,
  future,
  union_,  // of elements
  class_,
  interface,
  enum_,  // by qualified name
};

enum class TypeStyle : uint8_t {
  native,      // TorchScript's graph text plus what it leaves out, so that it parses back
  torch,       // exactly as TorchScript's graph text
  annotation,  // as in TorchScript source: List[int], Optional[Tensor]
};

constexpr SymInt unknown_dim = -1;  // "*" in a tensor type

// What is known about a tensor; nothing by default.
struct TensorInfo {
  DType dtype = DType::undefined;
  std::optional<Dims> sizes = {};  // entries may be unknown_dim
  std::optional<Dims> strides = {};
  std::optional<Device> device = {};
  std::optional<bool> requires_grad = {};
};

class Type {
 public:
  static const Type* tensor();
  static const Type* tensor(const TensorInfo& info);
  static const Type* tensor_like(const Tensor& t);  // dtype, sizes, strides, requires_grad, device
  static const Type* integer();
  static const Type* floating();
  static const Type* boolean();
  static const Type* complex();
  static const Type* string();
  static const Type* none();
  static const Type* device_type();
  static const Type* generator();
  static const Type* number();
  static const Type* any();
  static const Type* function();
  static const Type* optional(const Type* element);  // of an optional is itself
  static const Type* list(const Type* element);
  static const Type* dict(const Type* key, const Type* value);
  static const Type* tuple(Span<const Type* const> elements);
  static const Type* named_tuple(Symbol name, Span<const Symbol> fields, Span<const Type* const> elements);
  static const Type* future(const Type* element);
  static const Type* union_of(Span<const Type* const> elements);
  static const Type* class_named(Symbol name);
  static const Type* interface_named(Symbol name);
  static const Type* enum_named(Symbol name);
  static const Type* of(
      const tern::Value& value);  // an empty list without an element type is a list of Tensor
  static const Type* of(const SchemaType& type);

  TypeKind kind() const { return kind_; }
  bool is(TypeKind k) const { return kind_ == k; }
  bool is_tensor() const { return kind_ == TypeKind::tensor; }
  Span<const Type* const> elements() const { return {elements_, count_}; }
  const Type* element(size_t i = 0) const { return elements_[i]; }  // precondition: i < elements().size()
  Symbol name() const { return name_; }                             // of a class, enum, interface, NamedTuple
  Span<const Symbol> fields() const { return {fields_, fields_ ? count_ : 0}; }

  // Of a tensor.
  DType dtype() const { return dtype_; }  // undefined: unknown
  bool has_sizes() const { return has_sizes_; }
  Span<const SymInt> sizes() const { return {sizes_, rank_}; }
  bool has_strides() const { return has_strides_; }
  Span<const SymInt> strides() const { return {strides_, has_strides_ ? rank_ : 0}; }
  std::optional<Device> device() const { return has_device_ ? std::optional(device_) : std::nullopt; }
  std::optional<bool> requires_grad() const {
    return requires_grad_ < 0 ? std::nullopt : std::optional(requires_grad_ != 0);
  }
  TensorInfo info() const;

  std::string str(TypeStyle style = TypeStyle::native) const;
  // Whether a value of this type may stand where `wanted` is asked for; Any and unknown facts fit everything.
  bool fits(const Type& wanted) const;
  bool fits(const SchemaType& wanted) const;

 private:
  friend struct TypeTable;
  TypeKind kind_ = TypeKind::any;
  DType dtype_ = DType::undefined;
  bool has_sizes_ = false, has_strides_ = false, has_device_ = false;
  int8_t requires_grad_ = -1;
  Device device_;
  Symbol name_;
  uint32_t count_ = 0, rank_ = 0;
  const Type* const* elements_ = nullptr;
  const Symbol* fields_ = nullptr;
  const SymInt *sizes_ = nullptr, *strides_ = nullptr;
};

// Reads every style of Type::str. Symbolic dims are made in `shapes`; throws Error(value) with the column,
// also for a symbolic dim when `shapes` is null.
const Type* parse_type(std::string_view text, ShapeEnv* shapes = nullptr);

}  // namespace tern::ir
