// Tensor: a cheap handle to a strided view of a Storage. Everything an operator computes is a free function
// of <tern/ops.h>; the methods here are what a tensor *is*, and the closed list of operators that read best
// as methods.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tern/base/pointer.h"
#include "tern/base/small_vector.h"
#include "tern/base/span.h"
#include "tern/sym/sym_int.h"
#include "tern/tensor/device.h"
#include "tern/tensor/dtype.h"
#include "tern/tensor/ints.h"
#include "tern/tensor/scalar.h"
#include "tern/tensor/storage.h"
#include "tern/tensor/thread_state.h"

namespace tern {

using Dims = SmallVector<SymInt, 6>;

struct AutogradMeta;  // autograd/history.h: gradient, history, hooks
struct AliasView;     // capture/functional.h: how this view comes from its base
class Tensor;

// What the elements stand for where sizes and strides do not say it: a Quantizer (tensor/quantizer.h) or,
// when the tensor is nested, a Nesting (tensor/nesting.h).
struct Meaning {};

struct TensorBody {
  Counter refs;
  DType dtype = kFloat;
  Device device;
  uint8_t rungs = 0;            // which rungs of the ladder a call with this tensor climbs
  bool requires_grad = false;   // asked for by the user (leaves); rung_autograd says whether history is kept
  bool wrapped_number = false;  // a Python number on its way through an operator: promotes weakly
  bool symbolic = false;        // a size, stride or the offset is symbolic
  bool contiguous = true;       // row-major and dense, as far as can be said without a guard
  bool is_parameter = false;
  Storage storage;
  SymInt offset = 0;
  SymInt numel = 1;
  Dims sizes, strides;
  TensorBody* base =
      nullptr;  // counted: the tensor this is a view of, so that in-place changes reach its history
  AutogradMeta* autograd = nullptr;
  AliasView* alias = nullptr;
  void (*free_autograd)(AutogradMeta*) = nullptr;
  void (*free_alias)(AliasView*) = nullptr;
  Shared<const Meaning> meaning;  // rung_meaning is set with it
  void* python = nullptr;  // borrowed: the Python object that stands for this tensor, while there is one
};

// The right operand of an operator: a tensor or a number, and where the expression stands.
struct Operand;

class Tensor {
 public:
  Tensor() = default;  // undefined: "no tensor"
  Tensor(const Tensor& o) : body_(o.body_) {
    if (body_) body_->refs.add();
  }
  Tensor(Tensor&& o) noexcept : body_(std::exchange(o.body_, nullptr)) {}
  Tensor& operator=(const Tensor& o) & {
    Tensor copy(o);
    std::swap(body_, copy.body_);
    return *this;
  }
  Tensor& operator=(Tensor&& o) & noexcept {
    std::swap(body_, o.body_);
    return *this;
  }
  ~Tensor() {
    if (body_ && body_->refs.drop()) destroy(body_);
  }
  static Tensor adopt(TensorBody* body) {  // takes over one reference
    Tensor t;
    t.body_ = body;
    return t;
  }

  bool defined() const { return body_ != nullptr; }
  explicit operator bool() const = delete;  // write defined() or item<bool>()
  bool is_same(const Tensor& o) const { return body_ == o.body_; }
  TensorBody* body() const { return body_; }
  TensorBody* operator->() const { return body_; }

  // What it is.
  DType dtype() const { return body_->dtype; }
  Device device() const { return body_->device; }
  int64_t dim() const { return static_cast<int64_t>(body_->sizes.size()); }
  SymInt numel() const { return body_->numel; }
  Span<const SymInt> sizes() const { return body_->sizes; }
  Span<const SymInt> strides() const { return body_->strides; }
  SymInt size(int64_t d, Loc loc = Loc::here()) const;  // negative d counts from the end; throws IndexError
  SymInt stride(int64_t d) const;
  SymInt offset() const { return body_->offset; }
  const Storage& storage() const { return body_->storage; }
  uint32_t version() const { return body_->storage->version; }
  bool is_contiguous() const { return body_->contiguous; }
  bool is_contiguous(MemoryFormat format) const;
  bool is_fake() const { return body_->rungs & rung_fake; }  // no data: meta, or under export
  bool is_meta() const { return body_->device.type == DeviceType::meta; }
  bool is_symbolic() const { return body_->symbolic; }
  bool is_floating_point() const { return tern::is_floating(dtype()); }
  bool is_complex() const { return tern::is_complex(dtype()); }
  bool is_quantized() const { return (body_->rungs & rung_meaning) && tern::is_quantized(dtype()); }
  // Tensors of different sizes in one: sizes() has -1 where they differ, strides() says nothing.
  bool is_nested() const { return (body_->rungs & rung_meaning) && !tern::is_quantized(dtype()); }
  int64_t element_size() const { return tern::element_size(dtype()); }
  SymInt nbytes() const { return numel() * element_size(); }

  // The memory. Preconditions: not fake, sizes concrete; T is the C++ type of the dtype (checked).
  void* data() const {
    return static_cast<char*>(body_->storage->data) + body_->offset.as_int() * tern::element_size(dtype());
  }
  template <class T>
  T* data_ptr() const {
    check_data(dtype_of<T>);
    return static_cast<T*>(data());
  }
  const int64_t* int_sizes() const { return reinterpret_cast<const int64_t*>(body_->sizes.data()); }
  const int64_t* int_strides() const { return reinterpret_cast<const int64_t*>(body_->strides.data()); }
  int64_t int_numel() const { return body_->numel.as_int(); }

  // Another view of the same memory; no history, no record: what view operators are made of.
  Tensor as_view(Dims sizes, Dims strides, SymInt offset) const;
  Tensor as_view(Dims sizes, Dims strides) const {
    return as_view(std::move(sizes), std::move(strides), offset());
  }
  Tensor shallow_copy() const;  // a new handle body over the same memory: no history

  // Gradients (autograd/).
  bool requires_grad() const {
    return (body_->rungs & rung_autograd) || (body_->storage->rungs && requires_grad_through_base());
  }
  bool is_leaf() const;
  const Tensor& requires_grad_(bool on = true) const;
  Tensor grad() const;
  void set_grad(const Tensor& g) const;
  void zero_grad() const { set_grad(Tensor()); }
  void backward() const;
  void backward(const Tensor& gradient, bool retain_graph = false, bool create_graph = false) const;
  void retain_grad() const;
  Tensor detach(Loc loc = Loc::here()) const;

  // One number out. Throws unless there is exactly one element; under export gives an unbacked symbol.
  Scalar item(Loc loc = Loc::here()) const;
  Scalar taken_out(Loc loc = Loc::here()) const;  // the same for item<T>(): it is a number of the program's
  template <class T>
  T item(Loc loc = Loc::here()) const {
    Scalar s = taken_out(loc);
    if constexpr (std::is_same_v<T, bool>)
      return s.to_bool(loc);
    else if constexpr (std::is_floating_point_v<T>)
      return static_cast<T>(s.to_double(loc));
    else
      return static_cast<T>(s.to_int(loc));
  }
  template <class T>
  std::vector<T> to_vector()
      const;                // the elements in row-major order, converted to T (double, int64_t, float, bool)
  std::string str() const;  // as PyTorch prints it

  // Operators that read best as methods (defined in ops/methods.cpp; each is the free function of the same
  // name).
  Tensor to(DType dtype, bool non_blocking = false, bool copy = false, Loc loc = Loc::here()) const;
  Tensor to(Device device, Loc loc = Loc::here()) const;
  Tensor to(Device device, DType dtype, Loc loc = Loc::here()) const;
  Tensor to(const Tensor& other, Loc loc = Loc::here()) const;
  Tensor cpu(Loc loc = Loc::here()) const;
  Tensor clone(Loc loc = Loc::here()) const;
  Tensor contiguous(MemoryFormat format = MemoryFormat::contiguous, Loc loc = Loc::here()) const;
  const Tensor& copy_(const Tensor& from, Loc loc = Loc::here()) const;
  const Tensor& fill_(Scalar value, Loc loc = Loc::here()) const;
  const Tensor& zero_(Loc loc = Loc::here()) const;
  Tensor view(Span<const SymInt> sizes, Loc loc = Loc::here()) const;
  Tensor reshape(Span<const SymInt> sizes, Loc loc = Loc::here()) const;
  Tensor flatten(int64_t start = 0, int64_t end = -1, Loc loc = Loc::here()) const;
  Tensor expand(Span<const SymInt> sizes, Loc loc = Loc::here()) const;
  Tensor expand_as(const Tensor& other, Loc loc = Loc::here()) const;
  Tensor permute(Ints dims, Loc loc = Loc::here()) const;
  Tensor transpose(int64_t a, int64_t b, Loc loc = Loc::here()) const;
  Tensor t(Loc loc = Loc::here()) const;
  Tensor squeeze(Loc loc = Loc::here()) const;
  Tensor squeeze(int64_t d, Loc loc = Loc::here()) const;
  Tensor unsqueeze(int64_t d, Loc loc = Loc::here()) const;
  Tensor select(int64_t d, SymInt index, Loc loc = Loc::here()) const;
  Tensor slice(int64_t d = 0, std::optional<SymInt> start = {}, std::optional<SymInt> end = {},
               SymInt step = 1, Loc loc = Loc::here()) const;
  Tensor narrow(int64_t d, SymInt start, SymInt length, Loc loc = Loc::here()) const;
  Tensor index_select(int64_t d, const Tensor& index, Loc loc = Loc::here()) const;
  Tensor gather(int64_t d, const Tensor& index, Loc loc = Loc::here()) const;
  std::vector<Tensor> split(SymInt size, int64_t d = 0, Loc loc = Loc::here()) const;
  std::vector<Tensor> chunk(int64_t chunks, int64_t d = 0, Loc loc = Loc::here()) const;
  std::vector<Tensor> unbind(int64_t d = 0, Loc loc = Loc::here()) const;
  Tensor operator[](SymInt index) const;  // select(0, index)

  Tensor sum(Loc loc = Loc::here()) const;
  Tensor sum(Ints dims, bool keepdim = false, Loc loc = Loc::here()) const;
  Tensor mean(Loc loc = Loc::here()) const;
  Tensor mean(Ints dims, bool keepdim = false, Loc loc = Loc::here()) const;
  Tensor max(Loc loc = Loc::here()) const;
  Tensor min(Loc loc = Loc::here()) const;
  Tensor argmax(std::optional<int64_t> d = {}, bool keepdim = false, Loc loc = Loc::here()) const;
  Tensor all(Loc loc = Loc::here()) const;
  Tensor any(Loc loc = Loc::here()) const;
  Tensor softmax(int64_t d, Loc loc = Loc::here()) const;
  Tensor matmul(const Tensor& other, Loc loc = Loc::here()) const;
  Tensor mm(const Tensor& other, Loc loc = Loc::here()) const;
  Tensor abs(Loc loc = Loc::here()) const;
  Tensor neg(Loc loc = Loc::here()) const;
  Tensor exp(Loc loc = Loc::here()) const;
  Tensor log(Loc loc = Loc::here()) const;
  Tensor sqrt(Loc loc = Loc::here()) const;
  Tensor rsqrt(Loc loc = Loc::here()) const;
  Tensor sin(Loc loc = Loc::here()) const;
  Tensor cos(Loc loc = Loc::here()) const;
  Tensor tanh(Loc loc = Loc::here()) const;
  Tensor sigmoid(Loc loc = Loc::here()) const;
  Tensor relu(Loc loc = Loc::here()) const;
  Tensor pow(Scalar exponent, Loc loc = Loc::here()) const;
  Tensor clamp(std::optional<Scalar> min, std::optional<Scalar> max = {}, Loc loc = Loc::here()) const;
  Tensor masked_fill(const Tensor& mask, Scalar value, Loc loc = Loc::here()) const;
  const Tensor& add_(Operand other, Scalar alpha = 1) const;
  const Tensor& sub_(Operand other, Scalar alpha = 1) const;
  const Tensor& mul_(Operand other) const;
  const Tensor& div_(Operand other) const;
  const Tensor& relu_(Loc loc = Loc::here()) const;

 private:
  bool requires_grad_through_base() const;
  static void destroy(TensorBody* body);
  void check_data(DType wanted) const;
  TensorBody* body_ = nullptr;
};

struct TensorOptions {
  DType dtype = DType::undefined;  // undefined: the default dtype, or what the values say
  Device device = kCPU;
  bool requires_grad = false;
};

// Uninitialised memory in row-major order (or with the given strides); no dispatch, no record.
Tensor make_tensor(Span<const SymInt> sizes, DType dtype, Device device = kCPU, bool fake = false);
Tensor make_tensor(Span<const SymInt> sizes, Span<const SymInt> strides, DType dtype, Device device = kCPU,
                   bool fake = false);
Tensor make_view_of(const Storage& storage, Span<const SymInt> sizes, Span<const SymInt> strides,
                    SymInt offset, DType dtype);
Tensor wrap_number(const Scalar& value);  // a 0-dim tensor that promotes weakly, as Python numbers do
Scalar read_scalar(const Tensor& t);      // the one element of a real tensor

// From values in memory (copied).
Tensor tensor(Scalar value, TensorOptions options = {});
Tensor tensor(std::initializer_list<double> values, TensorOptions options = {});
Tensor tensor(std::initializer_list<float> values, TensorOptions options = {});
Tensor tensor(std::initializer_list<int> values, TensorOptions options = {});
Tensor tensor(std::initializer_list<int64_t> values, TensorOptions options = {});
Tensor tensor(std::initializer_list<bool> values, TensorOptions options = {});
template <class T>
Tensor from_vector(const std::vector<T>& values, Span<const SymInt> sizes) {
  Tensor t = make_tensor(sizes, dtype_of<T>);
  std::copy(values.begin(), values.end(), t.template data_ptr<T>());
  return t;
}
// Borrowed, not copied: `owner` keeps the memory alive.
Tensor from_memory(void* data, DType dtype, Span<const SymInt> sizes, Shared<const void> owner);

// Geometry, over SymInt.
Dims contiguous_strides(Span<const SymInt> sizes);
Dims channels_last_strides(Span<const SymInt> sizes);
SymInt product(Span<const SymInt> sizes);
int64_t wrap_dim(int64_t d, int64_t ndim, bool wrap_scalar = true);  // throws PyTorch's IndexError
std::string str(Span<const SymInt> sizes);                           // "[2, 3]"
bool is_dense_row_major(Span<const SymInt> sizes, Span<const SymInt> strides);

struct Operand {
  Tensor tensor;
  Loc loc;
  Operand(const Tensor& t, Loc at = Loc::here()) : tensor(t), loc(at) {}
  template <class N>
  requires(std::is_arithmetic_v<N> || std::is_same_v<N, SymInt> || std::is_same_v<N, Scalar>)
      Operand(N value, Loc at = Loc::here())
      : tensor(wrap_number(Scalar(value))), loc(at) {}
};

// A number on the left of an operator, and where the expression stands.
struct LeftNumber {
  Scalar value;
  Loc loc;
  template <class N>
  requires(std::is_arithmetic_v<N> || std::is_same_v<N, SymInt> || std::is_same_v<N, Scalar>)
      LeftNumber(N v, Loc at = Loc::here())
      : value(v), loc(at) {}
};

Tensor operator+(const Tensor& a, Operand b);
Tensor operator-(const Tensor& a, Operand b);
Tensor operator*(const Tensor& a, Operand b);
Tensor operator/(const Tensor& a, Operand b);
Tensor operator+(LeftNumber a, const Tensor& b);
Tensor operator-(LeftNumber a, const Tensor& b);
Tensor operator*(LeftNumber a, const Tensor& b);
Tensor operator/(LeftNumber a, const Tensor& b);
Tensor operator-(const Tensor& a);
// Elementwise, as in PyTorch: the result is a bool tensor.
Tensor operator==(const Tensor& a, Operand b);
Tensor operator!=(const Tensor& a, Operand b);
Tensor operator<(const Tensor& a, Operand b);
Tensor operator<=(const Tensor& a, Operand b);
Tensor operator>(const Tensor& a, Operand b);
Tensor operator>=(const Tensor& a, Operand b);

}  // namespace tern
