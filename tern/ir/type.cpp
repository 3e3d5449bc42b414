// Types: interning, and which value may stand where.
#include "tern/ir/type.h"

#include "tern/base/arena.h"
#include "tern/base/format.h"
#include "tern/base/intern_table.h"
#include "tern/dispatch/schema.h"
#include "tern/ir/cursor.h"
#include "tern/ir/enum_member.h"
#include "tern/sym/shape_env.h"
#include "tern/tensor/arg.h"

namespace tern::ir {

// ---- interning ----

struct TypeTable {
  Arena arena;
  InternTable<Type> types;

  static TypeTable& get() {
    static TypeTable* table = new TypeTable;
    return *table;
  }

  static size_t mix(size_t h, size_t v) { return (h ^ v) * 0x9E3779B97F4A7C15ull ^ (h >> 29); }
  static size_t hash(const Type& t) {
    size_t h = mix(static_cast<size_t>(t.kind_), static_cast<size_t>(t.dtype_));
    h = mix(h, t.has_sizes_ | t.has_strides_ << 1 | t.has_device_ << 2 | (t.requires_grad_ + 1) << 3);
    h = mix(h, static_cast<size_t>(t.device_.type) | static_cast<size_t>(t.device_.index + 1) << 8);
    h = mix(h, t.name_.id());
    h = mix(h, t.count_ | size_t{t.rank_} << 32);
    for (uint32_t i = 0; i < t.count_; ++i) h = mix(h, reinterpret_cast<size_t>(t.elements_[i]));
    for (Symbol f : t.fields()) h = mix(h, f.id());
    for (SymInt s : t.sizes()) h = mix(h, static_cast<size_t>(s.bits()));
    for (SymInt s : t.strides()) h = mix(h, static_cast<size_t>(s.bits()));
    return h;
  }
  template <class T>
  static bool same(Span<T> a, Span<T> b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if constexpr (std::is_same_v<T, const SymInt>) {
        if (a[i].bits() != b[i].bits()) return false;
      } else if (!(a[i] == b[i])) {
        return false;
      }
    }
    return true;
  }
  static bool equal(const Type& a, const Type& b) {
    return a.kind_ == b.kind_ && a.dtype_ == b.dtype_ && a.has_sizes_ == b.has_sizes_ &&
           a.has_strides_ == b.has_strides_ && a.has_device_ == b.has_device_ &&
           a.requires_grad_ == b.requires_grad_ && a.device_ == b.device_ && a.name_ == b.name_ &&
           same(a.elements(), b.elements()) && same(a.fields(), b.fields()) && same(a.sizes(), b.sizes()) &&
           same(a.strides(), b.strides());
  }
  template <class T>
  const T* keep(Span<const T> items) {
    T* copy = static_cast<T*>(arena.allocate(items.size() * sizeof(T) + 1, alignof(T)));
    for (size_t i = 0; i < items.size(); ++i) ::new (copy + i) T(items[i]);
    return copy;
  }
  const Type* intern(const Type& t) {
    auto make = [&] {
      Type* kept = arena.make<Type>(t);
      if (t.elements_) kept->elements_ = keep(t.elements());
      if (t.fields_) kept->fields_ = keep(t.fields());
      if (t.sizes_) kept->sizes_ = keep(t.sizes());
      if (t.strides_) kept->strides_ = keep(t.strides());
      return kept;
    };
    return types.find_or_add(
        hash(t), [&](const Type& other) { return equal(other, t); }, make);
  }
  static const Type* simple(TypeKind kind) {
    Type t;
    t.kind_ = kind;
    return get().intern(t);
  }
  static const Type* compound(TypeKind kind, Span<const Type* const> elements, Symbol name = {},
                              const Symbol* fields = nullptr) {
    Type t;
    t.kind_ = kind;
    t.elements_ = elements.data();
    t.count_ = static_cast<uint32_t>(elements.size());
    t.name_ = name;
    t.fields_ = fields;
    return get().intern(t);
  }
  static const Type* named(TypeKind kind, Symbol name) {
    Type t;
    t.kind_ = kind;
    t.name_ = name;
    return get().intern(t);
  }
  using Sizes = std::optional<Span<const SymInt>>;
  static const Type* tensor(DType dtype, Sizes sizes, Sizes strides, std::optional<Device> device,
                            std::optional<bool> requires_grad) {
    Type t;
    t.kind_ = TypeKind::tensor;
    t.dtype_ = dtype;
    if (sizes) {
      t.has_sizes_ = true;
      t.sizes_ = sizes->data();
      t.rank_ = static_cast<uint32_t>(sizes->size());
      if (strides && strides->size() == sizes->size() && !sizes->empty()) {
        t.has_strides_ = true;
        t.strides_ = strides->data();
      }
    }
    if (device) {
      t.has_device_ = true;
      t.device_ = *device;
    }
    if (requires_grad) t.requires_grad_ = *requires_grad;
    return get().intern(t);
  }
};

#define TERN_SIMPLE_TYPE(function, kind)                               \
  const Type* Type::function() {                                       \
    static const Type* const type = TypeTable::simple(TypeKind::kind); \
    return type;                                                       \
  }
TERN_SIMPLE_TYPE(tensor, tensor)
TERN_SIMPLE_TYPE(integer, int_)
TERN_SIMPLE_TYPE(floating, float_)
TERN_SIMPLE_TYPE(boolean, bool_)
TERN_SIMPLE_TYPE(complex, complex_)
TERN_SIMPLE_TYPE(string, string)
TERN_SIMPLE_TYPE(none, none)
TERN_SIMPLE_TYPE(device_type, device)
TERN_SIMPLE_TYPE(generator, generator)
TERN_SIMPLE_TYPE(number, number)
TERN_SIMPLE_TYPE(any, any)
TERN_SIMPLE_TYPE(function, function)
#undef TERN_SIMPLE_TYPE

const Type* Type::tensor(const TensorInfo& info) {
  return TypeTable::tensor(info.dtype, info.sizes, info.strides, info.device, info.requires_grad);
}
const Type* Type::tensor_like(const Tensor& t) {
  if (!t.defined()) return tensor();
  if (t.is_nested())  // has no sizes
    return TypeTable::tensor(t.dtype(), {}, {}, t.device(), t.requires_grad());
  return TypeTable::tensor(t.dtype(), t.sizes(), t.strides(), t.device(), t.requires_grad());
}
const Type* Type::optional(const Type* element) {
  if (element->is(TypeKind::optional) || element->is(TypeKind::any) || element->is(TypeKind::none))
    return element;
  return TypeTable::compound(TypeKind::optional, {&element, 1});
}
const Type* Type::list(const Type* element) { return TypeTable::compound(TypeKind::list, {&element, 1}); }
const Type* Type::dict(const Type* key, const Type* value) {
  const Type* both[] = {key, value};
  return TypeTable::compound(TypeKind::dict, both);
}
const Type* Type::tuple(Span<const Type* const> elements) {
  return TypeTable::compound(TypeKind::tuple, elements);
}
const Type* Type::named_tuple(Symbol name, Span<const Symbol> fields, Span<const Type* const> elements) {
  if (fields.size() != elements.size())
    failf(ErrorKind::value, "NamedTuple {}: {} fields but {} types", name.view(), fields.size(),
          elements.size());
  return TypeTable::compound(TypeKind::tuple, elements, name, fields.data());
}
const Type* Type::future(const Type* element) { return TypeTable::compound(TypeKind::future, {&element, 1}); }
const Type* Type::union_of(Span<const Type* const> elements) {
  return TypeTable::compound(TypeKind::union_, elements);
}
const Type* Type::class_named(Symbol name) { return TypeTable::named(TypeKind::class_, name); }
const Type* Type::interface_named(Symbol name) { return TypeTable::named(TypeKind::interface, name); }
const Type* Type::enum_named(Symbol name) { return TypeTable::named(TypeKind::enum_, name); }

const Type* Type::of(const tern::Value& v) {
  switch (v.kind()) {
    case ValueKind::none:
      return none();
    case ValueKind::int_:
      return integer();
    case ValueKind::float_:
      return floating();
    case ValueKind::bool_:
      return boolean();
    case ValueKind::device:
      return device_type();
    case ValueKind::tensor:
      return tensor_like(v.tensor());
    case ValueKind::complex_:
      return complex();
    case ValueKind::string:
      return string();
    case ValueKind::list: {
      if (v.element_type()) return list(v.element_type());
      const Type* element = nullptr;
      bool optional_element = false;
      for (const tern::Value& item : v.items()) {
        if (item.is_none()) {
          optional_element = true;
          continue;
        }
        const Type* t = item.is_tensor() ? tensor() : of(item);
        if (element && element != t) {
          bool numbers =
              element->is(TypeKind::number) || t->is(TypeKind::number) ||
              (item.is_number() && (element->is(TypeKind::int_) || element->is(TypeKind::float_) ||
                                    element->is(TypeKind::bool_) || element->is(TypeKind::complex_)));
          t = numbers ? number() : any();
        }
        element = t;
      }
      if (!element) element = optional_element ? none() : tensor();
      return list(optional_element ? optional(element) : element);
    }
    case ValueKind::tuple: {
      std::vector<const Type*> elements;
      for (const tern::Value& item : v.items()) elements.push_back(of(item));
      return tuple(elements);
    }
    case ValueKind::dict: {
      const Type *key = string(), *value = tensor();
      bool first = true;
      for (auto& [k, item] : v.entries()) {
        const Type *kt = of(k), *vt = item.is_tensor() ? tensor() : of(item);
        key = first || key == kt ? kt : any();
        value = first || value == vt ? vt : any();
        first = false;
      }
      return dict(key, value);
    }
    case ValueKind::object:
      if (const EnumMember* member = EnumMember::of(v)) return enum_named(member->type);
      if (const auto* native = dynamic_cast<const NativeObject*>(v.box()))
        return class_named(Symbol(native->class_name()));
      return dynamic_cast<GeneratorBox*>(v.box()) ? generator() : any();
  }
  return any();
}

const Type* Type::of(const SchemaType& type) {
  const Type* t = any();
  switch (type.base) {
    case BaseType::tensor:
      t = tensor();
      break;
    case BaseType::int_:
    case BaseType::sym_int:
    case BaseType::dtype:
    case BaseType::layout:
    case BaseType::memory_format:
      t = integer();
      break;
    case BaseType::float_:
      t = floating();
      break;
    case BaseType::bool_:
    case BaseType::sym_bool:
      t = boolean();
      break;
    case BaseType::complex_:
      t = complex();
      break;
    case BaseType::scalar:
      t = number();
      break;
    case BaseType::string:
      t = string();
      break;
    case BaseType::device:
      t = device_type();
      break;
    case BaseType::generator:
      t = generator();
      break;
    case BaseType::none:
      t = none();
      break;
    case BaseType::custom:
      t = type.name == Symbol("QScheme") ? integer() : class_named(type.name);
      break;
    default:
      break;
  }
  if (type.list) {
    if (type.element_optional) t = optional(t);
    t = list(t);
    return type.optional_list ? optional(t) : t;
  }
  return type.optional ? optional(t) : t;
}

TensorInfo Type::info() const {
  TensorInfo i;
  i.dtype = dtype_;
  if (has_sizes_) i.sizes = Dims(sizes());
  if (has_strides_) i.strides = Dims(strides());
  i.device = device();
  i.requires_grad = requires_grad();
  return i;
}

// ---- which value may stand where ----

namespace {

bool is_number_kind(TypeKind k) {
  return k == TypeKind::int_ || k == TypeKind::float_ || k == TypeKind::bool_ || k == TypeKind::complex_ ||
         k == TypeKind::number;
}

bool base_fits(const Type& t, const SchemaType& type) {
  TypeKind k = t.kind();
  BaseType wanted = type.base;
  switch (wanted) {
    case BaseType::tensor:
      return k == TypeKind::tensor;
    case BaseType::int_:
    case BaseType::sym_int:
      return k == TypeKind::int_ || k == TypeKind::number;
    case BaseType::dtype:
    case BaseType::layout:
    case BaseType::memory_format:
      return k == TypeKind::int_;
    case BaseType::float_:
      return k == TypeKind::float_ || k == TypeKind::int_ || k == TypeKind::number;
    case BaseType::bool_:
    case BaseType::sym_bool:
      return k == TypeKind::bool_;
    case BaseType::complex_:
      return is_number_kind(k);
    case BaseType::scalar:
      return is_number_kind(k);
    case BaseType::string:
      return k == TypeKind::string;
    case BaseType::device:
      return k == TypeKind::device || k == TypeKind::string;
    case BaseType::generator:
      return k == TypeKind::generator;
    case BaseType::custom:
      return t.name() == type.name || !type.name.view().starts_with("__torch__.");
    default:
      return true;
  }
}

}  // namespace

bool Type::fits(const SchemaType& wanted) const {
  if (kind_ == TypeKind::any || wanted.base == BaseType::any || wanted.base == BaseType::type_var)
    return true;
  if (kind_ == TypeKind::none) return wanted.accepts_none();
  if (kind_ == TypeKind::optional) return wanted.accepts_none() && element()->fits(wanted);
  if (!wanted.list) return base_fits(*this, wanted);
  if (kind_ == TypeKind::list || kind_ == TypeKind::tuple) {
    for (const Type* e : elements()) {
      if (e->is(TypeKind::any)) continue;
      if (e->is(TypeKind::none)) {
        if (!wanted.element_optional) return false;
        continue;
      }
      const Type* item = e->is(TypeKind::optional) ? e->element() : e;
      if (e->is(TypeKind::optional) && !wanted.element_optional) return false;
      if (!base_fits(*item, wanted)) return false;
    }
    return true;
  }
  return wanted.fixed_size && base_fits(*this, wanted);
}

bool Type::fits(const Type& wanted) const {
  if (this == &wanted || kind_ == TypeKind::any || wanted.kind_ == TypeKind::any) return true;
  if (wanted.kind_ == TypeKind::optional) {
    if (kind_ == TypeKind::none) return true;
    return (kind_ == TypeKind::optional ? *element() : *this).fits(*wanted.element());
  }
  if (wanted.kind_ == TypeKind::union_) {
    for (const Type* e : wanted.elements())
      if (fits(*e)) return true;
    return false;
  }
  if (wanted.kind_ == TypeKind::number) return is_number_kind(kind_);
  if (wanted.kind_ == TypeKind::interface) return kind_ == TypeKind::class_ || kind_ == TypeKind::interface;
  if (kind_ != wanted.kind_) return false;
  switch (kind_) {
    case TypeKind::tensor: {
      if (dtype_ != DType::undefined && wanted.dtype_ != DType::undefined && dtype_ != wanted.dtype_)
        return false;
      if (!has_sizes_ || !wanted.has_sizes_) return true;
      if (rank_ != wanted.rank_) return false;
      for (uint32_t i = 0; i < rank_; ++i) {
        SymInt a = sizes_[i], b = wanted.sizes_[i];
        if (a.is_int() && b.is_int() && a.as_int() != b.as_int() && a.as_int() >= 0 && b.as_int() >= 0)
          return false;
      }
      return true;
    }
    case TypeKind::class_:
    case TypeKind::enum_:
      return name_ == wanted.name_;
    default:
      if (count_ != wanted.count_) return false;
      for (uint32_t i = 0; i < count_; ++i)
        if (!elements_[i]->fits(*wanted.elements_[i])) return false;
      return true;
  }
}

}  // namespace tern::ir
