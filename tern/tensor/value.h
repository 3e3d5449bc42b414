// Value: any value an operator or a script can take or give, owned. 16 bytes; containers are shared by
// reference, as Python's are.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/tensor/tensor.h"

namespace tern {

namespace ir {
class Type;
}

enum class ValueKind : uint8_t {
  none,
  int_,
  float_,
  bool_,
  device,  // in place
  tensor,  // counted body
  complex_,
  string,
  list,
  tuple,
  dict,
  object,  // counted Boxes
};

struct Box {
  Counter refs;
  virtual ~Box() = default;
};

class Value {
 public:
  Value() = default;
  Value(const Tensor& t);  // an undefined tensor becomes None
  Value(Tensor&& t) {
    if (!t.defined()) return;
    kind_ = ValueKind::tensor;
    body_ = t.body();
    ::new (&t) Tensor();  // the reference moved into this value
  }
  template <class I>
  requires(std::is_integral_v<I> && !std::is_same_v<I, bool>) Value(I v) : kind_(ValueKind::int_) {
    int_ = v;
  }
  Value(SymInt v) : kind_(ValueKind::int_) { int_ = v.bits(); }
  Value(double v) : kind_(ValueKind::float_) { float_ = v; }
  template <class B>
  requires std::is_same_v<B, bool> Value(B v) : kind_(ValueKind::bool_) { int_ = v; }
  Value(std::complex<double> v);
  Value(Device d) : kind_(ValueKind::device) { int_ = static_cast<int>(d.type) | (d.index + 1) << 8; }
  Value(DType d) : Value(static_cast<int64_t>(d)) {}
  Value(MemoryFormat f) : Value(static_cast<int64_t>(f)) {}
  Value(const Scalar& s);
  Value(std::string_view s);
  Value(const std::string& s) : Value(std::string_view(s)) {}
  Value(const char* s) : Value(std::string_view(s)) {}
  Value(Span<const SymInt> ints);             // list of int
  Value(const std::vector<Tensor>& tensors);  // list of Tensor
  static Value list(std::vector<Value> items, const ir::Type* element = nullptr);
  static Value tuple(std::vector<Value> items);
  static Value dict(std::vector<std::pair<Value, Value>> items = {});
  static Value object(Box* box);  // takes over one reference

  Value(const Value& o) : kind_(o.kind_), int_(o.int_) { retain(); }
  Value(Value&& o) noexcept : kind_(std::exchange(o.kind_, ValueKind::none)), int_(o.int_) {}
  Value& operator=(Value o) noexcept {
    std::swap(kind_, o.kind_);
    std::swap(int_, o.int_);
    return *this;
  }
  ~Value() {
    if (kind_ >= ValueKind::tensor) release();
  }

  ValueKind kind() const { return kind_; }
  bool is_none() const { return kind_ == ValueKind::none; }
  bool is_tensor() const { return kind_ == ValueKind::tensor; }
  bool is_int() const { return kind_ == ValueKind::int_; }
  bool is_float() const { return kind_ == ValueKind::float_; }
  bool is_bool() const { return kind_ == ValueKind::bool_; }
  bool is_string() const { return kind_ == ValueKind::string; }
  bool is_list() const { return kind_ == ValueKind::list; }
  bool is_tuple() const { return kind_ == ValueKind::tuple; }
  bool is_dict() const { return kind_ == ValueKind::dict; }
  bool is_object() const { return kind_ == ValueKind::object; }
  bool is_complex() const { return kind_ == ValueKind::complex_; }
  bool is_number() const { return is_int() || is_float() || is_bool() || is_complex(); }

  // Each throws a TypeError that names what it found instead.
  const Tensor& tensor() const;
  Tensor take_tensor() {  // moves it out; None gives an undefined tensor
    if (is_none()) return {};
    if (!is_tensor()) wrong_kind("Tensor");
    kind_ = ValueKind::none;
    return Tensor::adopt(body_);
  }
  SymInt sym() const;
  int64_t to_int() const;
  double to_double() const;  // an int converts
  bool to_bool() const;
  Scalar scalar() const;
  Device device() const;
  const std::string& string() const;
  std::vector<Value>& items() const;  // of a list or a tuple; shared, so const in the handle
  std::vector<std::pair<Value, Value>>& entries() const;  // of a dict, in insertion order
  Value* find(const Value& key) const;                    // in a dict; nullptr if absent
  const ir::Type* element_type() const;                   // of a list; nullptr if not said
  void set_element_type(const ir::Type* t) const;
  std::vector<Tensor> tensors() const;  // of a list or tuple of tensors
  Dims ints() const;                    // of a list or tuple of ints
  Box* box() const { return box_; }

  bool is_same(const Value& o) const { return kind_ == o.kind_ && int_ == o.int_; }  // identity
  bool equals(const Value& o) const;   // Python's ==, with tensors by identity
  std::string str() const;             // Python's repr; tensors as "Tensor[2, 3]"
  std::string_view kind_name() const;  // "int", "List", ...

 private:
  void retain() const {
    if (kind_ == ValueKind::tensor)
      body_->refs.add();
    else if (kind_ > ValueKind::tensor)
      box_->refs.add();
  }
  void release();
  [[noreturn]] void wrong_kind(std::string_view wanted) const;

  ValueKind kind_ = ValueKind::none;
  union {
    int64_t int_ = 0;
    double float_;
    TensorBody* body_;
    Box* box_;
  };
};
static_assert(sizeof(Value) == 16);

// An object of a class that PyTorch defines in C++ and Tern knows (torch.classes): packed weights.
struct NativeObject : Box {
  virtual std::string_view class_name() const = 0;  // "__torch__.torch.classes.rnn.CellParamsBase"
  virtual Value state() const = 0;                  // what a file keeps of it
};

struct StringBox : Box {
  std::string text;
};
struct ListBox : Box {
  std::vector<Value> items;
  const ir::Type* element = nullptr;
};
struct DictBox : Box {
  std::vector<std::pair<Value, Value>> entries;
  const ir::Type *key = nullptr, *value = nullptr;
};

}  // namespace tern
