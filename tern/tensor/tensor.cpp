#include "tern/tensor/tensor.h"

#include <algorithm>
#include <complex>
#include <cstring>

#include "tern/base/format.h"
#include "tern/tensor/nesting.h"
#include "tern/tensor/quantizer.h"

namespace tern {

SymInt recorded_size(const Tensor& t, int64_t d, Loc loc);  // dispatch/ladder.cpp

void Tensor::destroy(TensorBody* body) {
  if (body->autograd) body->free_autograd(body->autograd);
  if (body->alias) body->free_alias(body->alias);
  if (body->base) adopt(body->base);  // gives its reference back
  body->~TensorBody();
  pool_free(body, sizeof(TensorBody));
}

void Tensor::check_data(DType wanted) const {
  if (!body_) fail("data_ptr: the tensor is undefined");
  if (is_fake()) fail("data_ptr: the tensor has no data (it is a meta or fake tensor)");
  if (is_nested()) fail("data_ptr: the tensor is nested: values() is its buffer, unbind() its tensors");
  if (wanted != dtype())
    failf("data_ptr: expected a tensor of {} but this one is {}", script_name(wanted), script_name(dtype()));
}

SymInt Tensor::size(int64_t d, Loc loc) const {
  d = wrap_dim(d, dim(), false);
  if (is_nested() && body_->sizes[d] == -1)
    failf("Given dimension {} is irregular and does not have a size.", d);
  if (thread_state.sizes_recorded) return recorded_size(*this, d, loc);
  return body_->sizes[d];
}
SymInt Tensor::stride(int64_t d) const {
  if (is_nested()) fail("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.");
  return body_->strides[wrap_dim(d, dim(), false)];
}

namespace {

TensorBody* new_body() { return ::new (pool_allocate(sizeof(TensorBody))) TensorBody; }

// Fills in what follows from sizes, strides and offset.
void finish(TensorBody& b) {
  int64_t count = 1;
  bool dense = true, empty = false, concrete = b.offset.is_int();
  for (size_t i = b.sizes.size(); concrete && i-- > 0;) {
    int64_t size = b.sizes[i].bits(), stride = b.strides[i].bits();
    concrete = b.sizes[i].is_int() && b.strides[i].is_int();
    dense &= size == 1 || stride == count;
    empty |= size == 0;
    concrete = concrete && !__builtin_mul_overflow(count, size, &count);
  }
  if (concrete) {
    b.numel = count;
    b.contiguous = dense || empty;
    return;
  }
  b.numel = product(b.sizes);
  b.contiguous = is_dense_row_major(b.sizes, b.strides);
  b.symbolic = b.offset.is_symbolic() || b.numel.is_symbolic();
  if (!b.symbolic)
    for (size_t i = 0; i < b.sizes.size(); ++i)
      b.symbolic |= b.sizes[i].is_symbolic() | b.strides[i].is_symbolic();
}

// The bytes that a view reaches from the start of its storage.
size_t extent_bytes(Span<const SymInt> sizes, Span<const SymInt> strides, DType dtype) {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].is_symbolic() || strides[i].is_symbolic()) return 0;
    if (sizes[i].as_int() == 0) return 0;
    int64_t step;
    if (__builtin_mul_overflow(sizes[i].as_int() - 1, strides[i].as_int(), &step) ||
        __builtin_add_overflow(last, step, &last))
      failf("the size {} is too large: the number of elements overflows", str(sizes));
  }
  int64_t bytes;
  if (__builtin_mul_overflow(last + 1, element_size(dtype), &bytes))
    failf("the size {} is too large: the number of bytes overflows", str(sizes));
  return static_cast<size_t>(bytes);
}

void check_sizes(Span<const SymInt> sizes) {
  for (SymInt s : sizes)
    if (s.is_int() && s.as_int() < 0)
      failf("Trying to create tensor with negative dimension {}: {}", s.as_int(), str(sizes));
}

}  // namespace

Tensor make_tensor(Span<const SymInt> sizes, Span<const SymInt> strides, DType dtype, Device device,
                   bool fake) {
  check_sizes(sizes);
  fake |= device.type == DeviceType::meta;
  size_t bytes = extent_bytes(sizes, strides, dtype);
  if (!fake && device.type != DeviceType::cpu)
    failf("Tern has no backend for device {}: use cpu or meta", device.str());
  Storage storage = fake ? Storage::empty(bytes, device) : Storage::allocate(bytes);
  TensorBody* b = new_body();
  Tensor t = Tensor::adopt(b);
  b->dtype = dtype;
  b->device = device;
  b->rungs = fake ? rung_fake : 0;
  b->storage = std::move(storage);
  b->sizes = Dims(sizes);
  b->strides = Dims(strides);
  finish(*b);
  if (!fake && b->symbolic) fail("a tensor with data cannot have symbolic sizes");
  return t;
}

Tensor make_tensor(Span<const SymInt> sizes, DType dtype, Device device, bool fake) {
  // The way of nearly every result: sizes that are plain numbers, row-major, on the CPU.
  int64_t count = 1, step = 1;
  bool plain = !fake && device.type == DeviceType::cpu && sizes.size() <= 6;
  for (size_t i = sizes.size(); plain && i-- > 0;) {
    int64_t size = sizes[i].bits();
    plain = size >= 0 && size < (int64_t{1} << 31) && step < (int64_t{1} << 26);
    if (!plain) break;
    count *= size;
    step *= std::max<int64_t>(size, 1);
  }
  if (plain) {
    TensorBody* b = new_body();
    Tensor t = Tensor::adopt(b);
    b->storage = Storage::allocate(static_cast<size_t>(count * element_size(dtype)));
    b->dtype = dtype;
    b->device = device;
    b->numel = count;
    b->sizes.resize_for_overwrite(sizes.size());
    b->strides.resize_for_overwrite(sizes.size());
    step = 1;
    for (size_t i = sizes.size(); i-- > 0;) {
      b->sizes[i] = sizes[i];
      b->strides[i] = step;
      step *= std::max<int64_t>(sizes[i].bits(), 1);
    }
    return t;
  }
  return make_tensor(sizes, contiguous_strides(sizes), dtype, device, fake);
}

Tensor make_view_of(const Storage& storage, Span<const SymInt> sizes, Span<const SymInt> strides,
                    SymInt offset, DType dtype) {
  check_sizes(sizes);
  if (sizes.size() != strides.size())
    failf("mismatch in length of strides and shape: {} and {}", str(strides), str(sizes));
  size_t bytes = extent_bytes(sizes, strides, dtype);
  if (offset.is_int() &&
      bytes + static_cast<size_t>(offset.as_int() * element_size(dtype)) > storage->bytes && bytes &&
      !(storage->data == nullptr && storage->bytes == 0))
    failf(
        "setStorage: sizes {}, strides {}, storage offset {}, and itemsize {} requiring a storage size of {} "
        "are out "
        "of bounds for storage of size {}",
        str(sizes), str(strides), offset.as_int(), element_size(dtype),
        bytes + offset.as_int() * element_size(dtype), storage->bytes);
  TensorBody* b = new_body();
  Tensor t = Tensor::adopt(b);
  b->dtype = dtype;
  b->device = storage->device;
  b->storage = storage;
  b->offset = offset;
  b->sizes = Dims(sizes);
  b->strides = Dims(strides);
  finish(*b);
  return t;
}

Tensor from_memory(void* data, DType dtype, Span<const SymInt> sizes, Shared<const void> owner) {
  Dims strides = contiguous_strides(sizes);
  Storage storage = Storage::borrow(data, extent_bytes(sizes, strides, dtype), std::move(owner));
  return make_view_of(storage, sizes, strides, 0, dtype);
}

Tensor Tensor::as_view(Dims sizes, Dims strides, SymInt offset) const {
  TensorBody* b = new_body();
  Tensor t = Tensor::adopt(b);
  b->dtype = dtype();
  b->device = device();
  b->rungs = body_->rungs & (rung_fake | rung_meaning);
  if (b->rungs & rung_meaning) b->meaning = body_->meaning;
  b->storage = body_->storage;
  b->offset = offset;
  b->sizes = std::move(sizes);
  b->strides = std::move(strides);
  b->base = body_->base ? body_->base : body_;
  b->base->refs.add();
  finish(*b);
  return t;
}

Tensor Tensor::shallow_copy() const {
  Tensor t = as_view(body_->sizes, body_->strides, offset());
  adopt(std::exchange(t->base, nullptr));
  t->wrapped_number = body_->wrapped_number;
  if (is_nested()) {
    t->numel = body_->numel;
    t->contiguous = body_->contiguous;
  }
  return t;
}

bool Tensor::is_contiguous(MemoryFormat format) const {
  if (format == MemoryFormat::contiguous || format == MemoryFormat::preserve) return is_contiguous();
  if (dim() != (format == MemoryFormat::channels_last ? 4 : 5)) return false;
  // Dense in the order N, spatial..., C; a dimension of size one may have any stride.
  SymInt expected = 1;
  auto fits = [&](int64_t d) {
    if (surely_eq(body_->sizes[d], 1)) return true;
    if (!surely_eq(body_->strides[d], expected)) return false;
    expected *= body_->sizes[d];
    return true;
  };
  if (!fits(1)) return false;
  for (int64_t d = dim() - 1; d >= 2; --d)
    if (!fits(d)) return false;
  return fits(0);
}

Dims contiguous_strides(Span<const SymInt> sizes) {
  Dims strides(sizes.size(), SymInt(1));
  SymInt step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    if (sizes[i].is_int() && step.is_int()) {
      int64_t next;
      if (__builtin_mul_overflow(step.as_int(), std::max<int64_t>(sizes[i].as_int(), 1), &next) ||
          next > (int64_t{1} << 61))
        failf("the size {} is too large: the number of elements overflows", str(sizes));
      step = next;
    } else {
      step = step * sizes[i];
    }
  }
  return strides;
}

Dims channels_last_strides(Span<const SymInt> sizes) {
  Dims strides(sizes.size(), SymInt(1));
  SymInt step = 1;
  auto place = [&](size_t d) {
    strides[d] = step;
    step = step * (sizes[d].is_int() ? SymInt(std::max<int64_t>(sizes[d].as_int(), 1)) : sizes[d]);
  };
  place(1);
  for (size_t d = sizes.size() - 1; d >= 2; --d) place(d);
  place(0);
  return strides;
}

SymInt product(Span<const SymInt> sizes) {
  SymInt n = 1;
  for (SymInt s : sizes) n = n * s;
  return n;
}

bool is_dense_row_major(Span<const SymInt> sizes, Span<const SymInt> strides) {
  SymInt expected = 1;
  bool dense = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i].is_int() && sizes[i].as_int() == 0) return true;
    if (sizes[i].is_int() && sizes[i].as_int() == 1) continue;
    bool same = strides[i].is_int() && expected.is_int() ? strides[i].as_int() == expected.as_int()
                                                         : surely_eq(strides[i], expected);
    dense &= same;
    expected = expected * sizes[i];
  }
  return dense;
}

int64_t wrap_dim(int64_t d, int64_t ndim, bool wrap_scalar) {
  int64_t range = ndim;
  if (range == 0) {
    if (!wrap_scalar) failf(ErrorKind::index, "Dimension specified as {} but tensor has no dimensions", d);
    range = 1;
  }
  if (d < -range || d >= range)
    failf(ErrorKind::index, "Dimension out of range (expected to be in range of [{}, {}], but got {})",
          -range, range - 1, d);
  return d < 0 ? d + range : d;
}

std::string str(Span<const SymInt> sizes) {
  std::string text = "[";
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + sizes[i].str();
  return text + "]";
}

Tensor wrap_number(const Scalar& value) {
  Tensor t;
  if (value.is_symbolic()) {
    // A symbolic number has no element to hold; the scalar travels beside the tensor as its offset.
    t = make_tensor({}, value.sym().is_real() ? kDouble : value.dtype(), kCPU, true);
    t->offset = value.sym();
  } else {
    // In full precision, whatever the default dtype is: 0.1 times a double tensor is 0.1 in double.
    t = tensor(value, {.dtype = value.is_float()     ? kDouble
                                : value.is_complex() ? kComplexDouble
                                                     : value.dtype()});
  }
  t->wrapped_number = true;
  return t;
}

namespace {
template <class T>
Tensor from_list(std::initializer_list<T> values, TensorOptions options, DType natural) {
  Tensor t = make_tensor({SymInt(values.size())}, natural);
  if (values.size()) {
    if constexpr (std::is_same_v<T, int>) {
      std::copy(values.begin(), values.end(), t.data_ptr<int64_t>());
    } else if constexpr (std::is_same_v<T, double>) {
      if (natural == kDouble)
        std::copy(values.begin(), values.end(), t.data_ptr<double>());
      else
        std::transform(values.begin(), values.end(), t.data_ptr<float>(), [](double v) { return float(v); });
    } else {
      std::copy(values.begin(), values.end(), t.data_ptr<T>());
    }
  }
  if (options.dtype != DType::undefined && options.dtype != natural) t = t.to(options.dtype);
  if (options.requires_grad) t.requires_grad_();
  return t;
}
DType float_type() { return default_dtype() == kDouble ? kDouble : kFloat; }
}  // namespace

Tensor tensor(std::initializer_list<double> v, TensorOptions o) {
  Tensor t = from_list(v, o, o.dtype == kDouble ? kDouble : float_type());
  return t;
}
Tensor tensor(std::initializer_list<float> v, TensorOptions o) { return from_list(v, o, kFloat); }
Tensor tensor(std::initializer_list<int> v, TensorOptions o) { return from_list(v, o, kLong); }
Tensor tensor(std::initializer_list<int64_t> v, TensorOptions o) { return from_list(v, o, kLong); }
Tensor tensor(std::initializer_list<bool> v, TensorOptions o) { return from_list(v, o, kBool); }

namespace {
template <class T>
void store(const Tensor& t, T v) {
  *static_cast<T*>(t.data()) = v;
}
}  // namespace

Tensor tensor(Scalar value, TensorOptions options) {
  DType d = options.dtype == DType::undefined ? value.dtype() : options.dtype;
  Tensor t = make_tensor({}, d, options.device);
  if (!t.is_fake()) switch (d) {
      case kFloat:
        store<float>(t, static_cast<float>(value.to_double()));
        break;
      case kDouble:
        store<double>(t, value.to_double());
        break;
      case kLong:
        store<int64_t>(t, value.to_int());
        break;
      case kBool:
        store<bool>(t, value.to_bool());
        break;
      case kInt:
        store<int32_t>(t, static_cast<int32_t>(value.to_int()));
        break;
      case kShort:
        store<int16_t>(t, static_cast<int16_t>(value.to_int()));
        break;
      case kChar:
        store<int8_t>(t, static_cast<int8_t>(value.to_int()));
        break;
      case kByte:
        store<uint8_t>(t, static_cast<uint8_t>(value.to_int()));
        break;
      case DType::uint16:
        store<uint16_t>(t, static_cast<uint16_t>(value.to_int()));
        break;
      case DType::uint32:
        store<uint32_t>(t, static_cast<uint32_t>(value.to_int()));
        break;
      case DType::uint64:
        store<uint64_t>(t, static_cast<uint64_t>(value.to_int()));
        break;
      case kHalf:
        store<Half>(t, static_cast<float>(value.to_double()));
        break;
      case kBFloat16:
        store<BFloat16>(t, static_cast<float>(value.to_double()));
        break;
      case DType::complex32: {
        const std::complex<double> v = value.to_complex();
        Half* parts = static_cast<Half*>(t.data());
        parts[0] = static_cast<float>(v.real()), parts[1] = static_cast<float>(v.imag());
        break;
      }
      case kComplexFloat:
        store<std::complex<float>>(t, std::complex<float>(value.to_complex()));
        break;
      case kComplexDouble:
        store<std::complex<double>>(t, value.to_complex());
        break;
      case DType::float8_e5m2:
        store<Float8E5M2>(t, static_cast<float>(value.to_double()));
        break;
      case DType::float8_e4m3fn:
        store<Float8E4M3FN>(t, static_cast<float>(value.to_double()));
        break;
      case DType::float8_e5m2fnuz:
        store<Float8E5M2FNUZ>(t, static_cast<float>(value.to_double()));
        break;
      case DType::float8_e4m3fnuz:
        store<Float8E4M3FNUZ>(t, static_cast<float>(value.to_double()));
        break;
      default:
        failf(ErrorKind::type, "tensor: no element of dtype {} can be made", name(d));
    }
  if (options.requires_grad) t.requires_grad_();
  return t;
}

Scalar read_scalar(const Tensor& t) {
  if (t->wrapped_number && t.is_fake()) return t.offset();
  if (t.int_numel() == 0) fail("a Tensor with 0 elements cannot be converted to Scalar");
  if (t.is_nested()) refuse_sizes();
  if (t.is_quantized()) return static_cast<double>(dequantized(t).data_ptr<float>()[0]);
  const void* p = t.data();
  auto real = [&]<class T>(T) { return static_cast<double>(static_cast<float>(*static_cast<const T*>(p))); };
  switch (t.dtype()) {
    case kFloat:
      return *static_cast<const float*>(p);
    case kDouble:
      return *static_cast<const double*>(p);
    case kLong:
      return *static_cast<const int64_t*>(p);
    case kBool:
      return *static_cast<const uint8_t*>(p) != 0;  // memory that nobody wrote may hold anything
    case kInt:
      return *static_cast<const int32_t*>(p);
    case kShort:
      return *static_cast<const int16_t*>(p);
    case kChar:
      return *static_cast<const int8_t*>(p);
    case kByte:
      return *static_cast<const uint8_t*>(p);
    case DType::uint16:
      return *static_cast<const uint16_t*>(p);
    case DType::uint32:
      return *static_cast<const uint32_t*>(p);
    case DType::uint64:
      return static_cast<int64_t>(*static_cast<const uint64_t*>(p));
    case kHalf:
      return real(Half());
    case kBFloat16:
      return real(BFloat16());
    case DType::complex32: {
      const Half* parts = static_cast<const Half*>(p);
      return std::complex<double>(static_cast<float>(parts[0]), static_cast<float>(parts[1]));
    }
    case kComplexFloat:
      return *static_cast<const std::complex<float>*>(p);
    case kComplexDouble:
      return *static_cast<const std::complex<double>*>(p);
    case DType::float8_e5m2:
      return real(Float8E5M2());
    case DType::float8_e4m3fn:
      return real(Float8E4M3FN());
    case DType::float8_e5m2fnuz:
      return real(Float8E5M2FNUZ());
    case DType::float8_e4m3fnuz:
      return real(Float8E4M3FNUZ());
    default:
      failf(ErrorKind::type, "item: no element of dtype {} can be read", name(t.dtype()));
  }
}

}  // namespace tern
