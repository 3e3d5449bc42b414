#include "tern/tensor/value.h"

#include <complex>

#include "tern/base/format.h"

namespace tern {

Value::Value(const Tensor& t) {
  if (!t.defined()) return;
  kind_ = ValueKind::tensor;
  body_ = t.body();
  retain();
}
struct ComplexBox : Box {
  std::complex<double> value;
};

Value::Value(std::complex<double> v) : kind_(ValueKind::complex_) {
  auto* box = new ComplexBox;
  box->value = v;
  box_ = box;
}
Value::Value(const Scalar& s) {
  switch (s.kind()) {
    case Scalar::Kind::int_:
      *this = Value(s.sym());
      break;
    case Scalar::Kind::float_:
      *this = Value(s.to_double());
      break;
    case Scalar::Kind::bool_:
      *this = Value(s.to_bool());
      break;
    case Scalar::Kind::complex_:
      *this = Value(s.to_complex());
      break;
  }
}
Value::Value(std::string_view s) : kind_(ValueKind::string) {
  auto* box = new StringBox;
  box->text = s;
  box_ = box;
}
Value::Value(Span<const SymInt> ints) : kind_(ValueKind::list) {
  auto* box = new ListBox;
  box->items.assign(ints.begin(), ints.end());
  box_ = box;
}
Value::Value(const std::vector<Tensor>& tensors) : kind_(ValueKind::list) {
  auto* box = new ListBox;
  box->items.assign(tensors.begin(), tensors.end());
  box_ = box;
}
Value Value::list(std::vector<Value> items, const ir::Type* element) {
  auto* box = new ListBox;
  box->items = std::move(items);
  box->element = element;
  Value v;
  v.kind_ = ValueKind::list;
  v.box_ = box;
  return v;
}
Value Value::tuple(std::vector<Value> items) {
  Value v = list(std::move(items));
  v.kind_ = ValueKind::tuple;
  return v;
}
Value Value::dict(std::vector<std::pair<Value, Value>> items) {
  auto* box = new DictBox;
  box->entries = std::move(items);
  Value v;
  v.kind_ = ValueKind::dict;
  v.box_ = box;
  return v;
}
Value Value::object(Box* box) {
  Value v;
  v.kind_ = ValueKind::object;
  v.box_ = box;
  return v;
}

void Value::release() {
  if (kind_ == ValueKind::tensor) {
    Tensor::adopt(body_);
  } else if (box_->refs.drop()) {
    delete box_;
  }
}

std::string_view Value::kind_name() const {
  static constexpr std::string_view names[] = {"NoneType", "int",    "float", "bool",  "Device", "Tensor",
                                               "complex",  "string", "List",  "Tuple", "Dict",   "Object"};
  return names[static_cast<int>(kind_)];
}
void Value::wrong_kind(std::string_view wanted) const {
  failf(ErrorKind::type, "expected a value of type {} but found {}", wanted, kind_name());
}

const Tensor& Value::tensor() const {
  static_assert(sizeof(Tensor) == sizeof(TensorBody*));
  static const Tensor undefined;
  if (is_none()) return undefined;
  if (!is_tensor()) wrong_kind("Tensor");
  return reinterpret_cast<const Tensor&>(body_);
}
SymInt Value::sym() const {
  if (is_int()) return SymInt::from_bits(int_);
  if (is_bool()) return int_;
  wrong_kind("int");
}
int64_t Value::to_int() const { return sym().guard_int(Loc{}); }
double Value::to_double() const {
  if (is_float()) return float_;
  if (is_int() && sym().is_symbolic()) return scalar().to_double();
  if (is_int() || is_bool()) return static_cast<double>(to_int());
  wrong_kind("float");
}
bool Value::to_bool() const {
  if (!is_bool()) wrong_kind("bool");
  return SymInt::from_bits(int_).guard_int(Loc{}) != 0;
}
Scalar Value::scalar() const {
  switch (kind_) {
    case ValueKind::int_:
      return sym();
    case ValueKind::float_:
      return float_;
    case ValueKind::bool_:
      return int_ != 0;
    case ValueKind::complex_:
      return static_cast<ComplexBox*>(box_)->value;
    default:
      wrong_kind("number");
  }
}
Device Value::device() const {
  if (kind_ != ValueKind::device) wrong_kind("Device");
  return {static_cast<DeviceType>(int_ & 255), static_cast<int8_t>((int_ >> 8) - 1)};
}
const std::string& Value::string() const {
  if (!is_string()) wrong_kind("string");
  return static_cast<StringBox*>(box_)->text;
}
std::vector<Value>& Value::items() const {
  if (!is_list() && !is_tuple()) wrong_kind("list or tuple");
  return static_cast<ListBox*>(box_)->items;
}
std::vector<std::pair<Value, Value>>& Value::entries() const {
  if (!is_dict()) wrong_kind("dict");
  return static_cast<DictBox*>(box_)->entries;
}
Value* Value::find(const Value& key) const {
  for (auto& [k, v] : entries())
    if (k.equals(key)) return &v;
  return nullptr;
}
const ir::Type* Value::element_type() const {
  return is_list() ? static_cast<ListBox*>(box_)->element : nullptr;
}
void Value::set_element_type(const ir::Type* t) const {
  if (is_list()) static_cast<ListBox*>(box_)->element = t;
}
std::vector<Tensor> Value::tensors() const {
  std::vector<Tensor> result;
  for (const Value& v : items()) result.push_back(v.tensor());
  return result;
}
Dims Value::ints() const {
  Dims result;
  for (const Value& v : items()) result.push_back(v.sym());
  return result;
}

bool Value::equals(const Value& o) const {
  if (is_number() && o.is_number()) {
    Scalar a = scalar(), b = o.scalar();
    if (a.is_symbolic() || b.is_symbolic()) return a.is_int() && b.is_int() && surely_eq(a.sym(), b.sym());
    if (a.is_int() && b.is_int()) return a.to_int() == b.to_int();
    return a.to_complex() == b.to_complex();
  }
  if (kind_ != o.kind_) return false;
  switch (kind_) {
    case ValueKind::string:
      return string() == o.string();
    case ValueKind::list:
    case ValueKind::tuple: {
      const auto &a = items(), &b = o.items();
      if (a.size() != b.size()) return false;
      for (size_t i = 0; i < a.size(); ++i)
        if (!a[i].equals(b[i])) return false;
      return true;
    }
    case ValueKind::dict: {
      if (entries().size() != o.entries().size()) return false;
      for (auto& [k, v] : entries()) {
        const Value* other = o.find(k);
        if (!other || !v.equals(*other)) return false;
      }
      return true;
    }
    default:
      return is_same(o) || is_none();
  }
}

std::string Value::str() const {
  switch (kind_) {
    case ValueKind::none:
      return "None";
    case ValueKind::tensor:
      return "Tensor" + tern::str(tensor().sizes());
    case ValueKind::device:
      return "device(type='" + device().str() + "')";
    case ValueKind::string: {
      std::string text = "'";
      for (char c : string()) {
        if (c == '\n')
          text += "\\n";
        else if (c == '\'' || c == '\\')
          text += {'\\', c};
        else
          text += c;
      }
      return text + "'";
    }
    case ValueKind::list:
    case ValueKind::tuple: {
      std::string text = is_list() ? "[" : "(";
      const auto& all = items();
      for (size_t i = 0; i < all.size(); ++i) text += (i ? ", " : "") + all[i].str();
      if (is_tuple() && all.size() == 1) text += ",";
      return text + (is_list() ? "]" : ")");
    }
    case ValueKind::dict: {
      std::string text = "{";
      for (auto& [k, v] : entries()) text += (text.size() > 1 ? ", " : "") + k.str() + ": " + v.str();
      return text + "}";
    }
    case ValueKind::object:
      if (const auto* native = dynamic_cast<const NativeObject*>(box_))
        return "<" + std::string(native->class_name()) + ">";
      return "<object>";
    default:
      return scalar().str();
  }
}

}  // namespace tern
