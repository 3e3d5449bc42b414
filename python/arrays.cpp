// Tensors from and to NumPy, DLPack and nested lists. Arrays share their memory; lists are copied.
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <memory>

#include "python/objects.h"
#include "tern/autograd/autograd.h"
#include "tern/base/format.h"
#include "tern/tensor/by_dtype.h"

namespace tern::python {

namespace {

// Gives NumPy a tensor's memory through __array_interface__; the array keeps this object, and so the tensor,
// alive.
struct Memory {
  Tensor tensor;
};

std::string type_string(DType t) {
  int64_t n = element_size(t);
  if (t == DType::bool_) return "|b1";
  if (t == DType::bfloat16) return "<u2";
  if (is_float8(t)) return "|u1";
  char kind = is_complex(t) ? 'c' : is_floating(t) ? 'f' : is_signed(t) ? 'i' : 'u';
  return fmt::format("{}{}{}", n == 1 ? '|' : '<', kind, n);
}

nb::object array_interface(const Memory& m) {
  const Tensor& t = m.tensor;
  nb::list shape, strides;
  for (int64_t d = 0; d < t.dim(); ++d) {
    shape.append(t.int_sizes()[d]);
    strides.append(t.int_strides()[d] * t.element_size());
  }
  nb::dict r;
  r["version"] = 3;
  r["typestr"] = type_string(t.dtype());
  r["shape"] = nb::tuple(shape);
  r["strides"] = nb::tuple(strides);
  r["data"] = nb::make_tuple(reinterpret_cast<uintptr_t>(t.data()), false);
  return r;
}

void check_has_data(const Tensor& t, const char* what) {
  if (t.is_fake()) failf(ErrorKind::type, "{}: a {} tensor has no data", what, t.is_meta() ? "meta" : "fake");
  if (t.is_nested()) failf("{}: the tensor is nested: unbind() gives its tensors", what);
}

nb::object ml_dtype(DType t) {
  try {
    return nb::module_::import_("ml_dtypes").attr(std::string(name(t)).c_str());
  } catch (nb::python_error&) {
    failf(ErrorKind::type, "numpy(): NumPy has no {}; install ml_dtypes, or convert with .float() first",
          name(t));
  }
}

bool needs_ml_dtypes(DType t) { return t == DType::bfloat16 || is_float8(t); }

}  // namespace

nb::object to_numpy(const Tensor& t) {
  check_has_data(t, "numpy()");
  if (t.requires_grad())
    fail("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
  if (t.dtype() == DType::complex32)
    fail(ErrorKind::type, "numpy(): NumPy has no complex32; convert to complex64 first");
  nb::module_ numpy = nb::module_::import_("numpy");
  nb::object array;
  if (t.int_numel() == 0) {
    array = numpy.attr("empty")(nb::tuple(size_object(t)), type_string(t.dtype()));
  } else {
    array = numpy.attr("asarray")(nb::cast(Memory{t.shallow_copy()}));
  }
  if (needs_ml_dtypes(t.dtype())) array = array.attr("view")(ml_dtype(t.dtype()));
  return array;
}

namespace {

struct ArrayView {
  void* data;
  DType dtype;
  Dims sizes, strides;
  size_t bytes;
};

ArrayView view_of_array(nb::handle array) {
  ArrayView v;
  nb::object dtype = array.attr("dtype");
  std::string dtype_name = nb::cast<std::string>(dtype.attr("name"));
  std::string order = nb::cast<std::string>(dtype.attr("byteorder"));
  if (order == ">")
    fail(ErrorKind::value,
         "from_numpy: the array is big-endian: convert it with array.astype(array.dtype.newbyteorder('='))");
  auto t = parse_dtype(dtype_name);
  if (!t)
    failf(ErrorKind::type,
          "from_numpy: can't convert an array of {}; supported are the integer, floating, complex and bool "
          "types",
          dtype_name);
  v.dtype = *t;
  nb::dict interface = nb::cast<nb::dict>(array.attr("__array_interface__"));
  nb::tuple data = nb::cast<nb::tuple>(interface["data"]);
  v.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(data[0]));
  int64_t item = element_size(v.dtype);
  int64_t reach = 0;
  bool empty = false;
  nb::tuple shape = nb::cast<nb::tuple>(array.attr("shape")),
            strides = nb::cast<nb::tuple>(array.attr("strides"));
  for (size_t d = 0; d < nb::len(shape); ++d) {
    int64_t n = nb::cast<int64_t>(shape[d]), s = nb::cast<int64_t>(strides[d]);
    if (n > 1 && s < 0)
      fail(ErrorKind::value,
           "At least one stride in the given numpy array is negative, and tensors with negative strides are "
           "not currently "
           "supported. (You can probably work around this by making a copy of your array  with "
           "array.copy().)");
    if (n > 1 && s % item != 0)
      fail(ErrorKind::value,
           "given numpy array strides not a multiple of the element byte size. Copy the numpy array to "
           "reallocate the memory.");
    v.sizes.push_back(n);
    v.strides.push_back(s % item == 0 && s >= 0 ? s / item : 1);
    if (n == 0)
      empty = true;
    else
      reach += (n - 1) * (n > 1 ? s : 0);
  }
  v.bytes = empty ? 0 : static_cast<size_t>(reach + item);
  return v;
}

Tensor from_array(nb::handle array) {
  ArrayView v = view_of_array(array);
  Tensor t = make_view_of(Storage::borrow(v.data, v.bytes, shared_reference(array.ptr())), v.sizes, v.strides,
                          0, v.dtype);
  return t;
}

// ---- buffers ----

// A tensor over any object's buffer, which the tensor keeps; second: whether it may be written to.
std::pair<Tensor, bool> from_buffer(PyObject* object, DType dtype, int64_t count, int64_t offset) {
  if (!PyObject_CheckBuffer(object))
    fail(ErrorKind::value, "object does not implement Python buffer protocol.");
  std::shared_ptr<Py_buffer> buffer(new Py_buffer{}, [](Py_buffer* b) {
    if (Py_IsInitialized()) {
      PyGILState_STATE state = PyGILState_Ensure();
      PyBuffer_Release(b);
      PyGILState_Release(state);
    }
    delete b;
  });
  bool writable = true;
  if (PyObject_GetBuffer(object, buffer.get(), PyBUF_WRITABLE) != 0) {
    PyErr_Clear();
    writable = false;
    if (PyObject_GetBuffer(object, buffer.get(), PyBUF_SIMPLE) != 0) {
      PyErr_Clear();
      fail("could not retrieve buffer from object");
    }
  }
  const int64_t length = buffer->len, item = element_size(dtype);
  if (item == 0 || is_quantized(dtype))
    failf(ErrorKind::type, "frombuffer: bytes cannot be taken for elements of {}", name(dtype));
  if (length == 0 || count == 0)
    failf(ErrorKind::value, "both buffer length ({}) and count ({}) must not be 0", length, count);
  if (offset < 0 || offset >= length)
    failf(ErrorKind::value,
          "offset ({} bytes) must be non-negative and no greater than buffer length ({} bytes) minus 1",
          offset, length);
  if (count < 0) {
    if ((length - offset) % item != 0)
      failf(ErrorKind::value,
            "buffer length ({} bytes) after offset ({} bytes) must be a multiple of element size ({})",
            length - offset, offset, item);
    count = (length - offset) / item;
  } else if (count > (length - offset) / item) {
    failf(ErrorKind::value,
          "requested buffer length ({} * {} bytes) after offset ({} bytes) must not be greater than actual "
          "buffer length ({} bytes)",
          count, item, offset, length);
  }
  return {from_memory(static_cast<char*>(buffer->buf) + offset, dtype, {SymInt(count)}, buffer), writable};
}

// ---- DLPack ----

struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
};
struct DLManaged {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManaged*);
};
struct DLManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedVersioned*);
  uint64_t flags;
  DLTensor tensor;
};
constexpr uint64_t read_only_flag = 1, copied_flag = 2;

struct DLCode {
  DType dtype;
  uint8_t code, bits;
};
constexpr DLCode dl_codes[] = {
    {DType::int8, 0, 8},         {DType::int16, 0, 16},          {DType::int32, 0, 32},
    {DType::int64, 0, 64},       {DType::uint8, 1, 8},           {DType::uint16, 1, 16},
    {DType::uint32, 1, 32},      {DType::uint64, 1, 64},         {DType::float16, 2, 16},
    {DType::float32, 2, 32},     {DType::float64, 2, 64},        {DType::bfloat16, 4, 16},
    {DType::complex32, 5, 32},   {DType::complex64, 5, 64},      {DType::complex128, 5, 128},
    {DType::bool_, 6, 8},        {DType::float8_e4m3fn, 10, 8},  {DType::float8_e4m3fnuz, 11, 8},
    {DType::float8_e5m2, 12, 8}, {DType::float8_e5m2fnuz, 13, 8}};

DLTensor describe(const Tensor& t) {
  DLTensor d{};
  for (const DLCode& c : dl_codes)
    if (c.dtype == t.dtype()) d.dtype = {c.code, c.bits, 1};
  d.data = t.int_numel() ? t.data() : nullptr;
  d.device = {1, 0};
  d.ndim = static_cast<int32_t>(t.dim());
  d.shape = const_cast<int64_t*>(t.int_sizes());
  d.strides = const_cast<int64_t*>(t.int_strides());
  return d;
}

template <class Managed>
nb::object capsule(const Tensor& t, const char* capsule_name, bool copied) {
  auto* m = new Managed{};
  m->tensor = describe(t);
  m->context = new Tensor(t);
  m->deleter = [](Managed* self) {
    delete static_cast<Tensor*>(self->context);
    delete self;
  };
  if constexpr (std::is_same_v<Managed, DLManagedVersioned>) {
    m->major = 1;
    m->minor = 0;
    m->flags = copied ? copied_flag : 0;
  }
  // A consumer renames the capsule; one that was never consumed frees the tensor itself.
  PyObject* c = PyCapsule_New(m, capsule_name, [](PyObject* o) {
    for (const char* n : {"dltensor", "dltensor_versioned"}) {
      if (!PyCapsule_IsValid(o, n)) continue;
      auto* self = static_cast<Managed*>(PyCapsule_GetPointer(o, n));
      self->deleter(self);
    }
  });
  if (!c) {
    m->deleter(m);
    throw nb::python_error();
  }
  return nb::steal(c);
}

template <class Managed>
Tensor take(PyObject* o, const char* fresh, const char* used) {
  auto* m = static_cast<Managed*>(PyCapsule_GetPointer(o, fresh));
  if (!m) throw nb::python_error();
  const DLTensor& d = m->tensor;
  if constexpr (std::is_same_v<Managed, DLManagedVersioned>) {
    if (m->major > 1)
      failf(ErrorKind::value, "from_dlpack: DLPack version {}.{} is newer than 1", m->major, m->minor);
    if (m->flags & read_only_flag)
      fail(ErrorKind::value, "from_dlpack: the exported memory is read-only: pass a copy");
  }
  if (d.device.type != 1)
    failf(ErrorKind::value, "from_dlpack: the memory is on DLPack device type {}; Tern takes cpu (1)",
          d.device.type);
  DType dtype = DType::undefined;
  for (const DLCode& c : dl_codes)
    if (c.code == d.dtype.code && c.bits == d.dtype.bits && d.dtype.lanes == 1) dtype = c.dtype;
  if (dtype == DType::undefined)
    failf(ErrorKind::type, "from_dlpack: Tern has no dtype for code {}, {} bits, {} lanes", d.dtype.code,
          d.dtype.bits, d.dtype.lanes);
  if (d.ndim < 0) failf(ErrorKind::value, "from_dlpack: the exported memory has {} dimensions", d.ndim);
  Dims sizes, strides;
  int64_t reach = 0;
  bool empty = false;
  for (int32_t i = 0; i < d.ndim; ++i) {
    if (d.shape[i] < 0) failf(ErrorKind::value, "from_dlpack: dimension {} has size {}", i, d.shape[i]);
    sizes.push_back(d.shape[i]);
    empty |= d.shape[i] == 0;
  }
  strides = contiguous_strides(sizes);
  for (int32_t i = 0; i < d.ndim; ++i) {
    if (d.strides) strides[static_cast<size_t>(i)] = d.strides[i];
    int64_t stride = strides[static_cast<size_t>(i)].as_int();
    if (stride < 0 && d.shape[i] > 1)
      fail(ErrorKind::value, "from_dlpack: negative strides are not supported: pass a copy");
    if (d.shape[i] > 1) reach += (d.shape[i] - 1) * stride;
  }
  size_t bytes = empty ? 0 : static_cast<size_t>((reach + 1) * element_size(dtype));
  std::shared_ptr<const void> owner(m, [](const void* p) {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    auto* self = static_cast<Managed*>(const_cast<void*>(p));
    if (self->deleter) self->deleter(self);
    PyGILState_Release(state);
  });
  PyCapsule_SetName(o, used);
  PyCapsule_SetDestructor(o, nullptr);
  char* data = static_cast<char*>(d.data) + d.byte_offset;
  return make_view_of(Storage::borrow(data, bytes, std::move(owner)), sizes, strides, 0, dtype);
}

Tensor from_dlpack(nb::handle o) {
  nb::object c = nb::borrow(o);
  if (nb::hasattr(o, "__dlpack__")) {
    try {
      c = o.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0));
    } catch (nb::python_error& e) {
      if (!e.matches(PyExc_TypeError)) throw;
      c = o.attr("__dlpack__")();
    }
  }
  if (PyCapsule_IsValid(c.ptr(), "dltensor_versioned"))
    return take<DLManagedVersioned>(c.ptr(), "dltensor_versioned", "used_dltensor_versioned");
  if (PyCapsule_IsValid(c.ptr(), "dltensor")) return take<DLManaged>(c.ptr(), "dltensor", "used_dltensor");
  if (PyCapsule_CheckExact(c.ptr()))
    fail(ErrorKind::value, "from_dlpack: the capsule was consumed already, or is not DLPack's");
  failf(ErrorKind::type, "from_dlpack: {} has no __dlpack__", type_name(o.ptr()));
}

// ---- single elements ----

template <class F>
void with_type(DType t, F&& f) {
  by_dtype(kElements + tern::Types<ComplexHalf>{}, t, f, [&] {
    failf(ErrorKind::not_supported, "elements of {} cannot be read or written from Python", name(t));
  });
}

PyObject* read_element(const void* p, DType t) {
  PyObject* result = nullptr;
  with_type(t, [&](auto kind) {
    using T = decltype(kind);
    T v;
    std::memcpy(&v, p, sizeof v);
    if constexpr (std::is_same_v<T, bool>)
      result = Py_NewRef(v ? Py_True : Py_False);
    else if constexpr (std::is_same_v<T, uint64_t>)
      result = PyLong_FromUnsignedLongLong(v);
    else if constexpr (std::is_integral_v<T>)
      result = PyLong_FromLongLong(v);
    else if constexpr (requires { v.real(); })
      result = PyComplex_FromDoubles(v.real(), v.imag());
    else if constexpr (std::is_same_v<T, double>)
      result = PyFloat_FromDouble(v);
    else
      result = PyFloat_FromDouble(static_cast<double>(static_cast<float>(v)));
  });
  return result;
}

void write_element(void* p, DType t, const Scalar& s) {
  if (s.is_complex() && !is_complex(t)) fail(ErrorKind::type, "must be real number, not complex");
  if (is_integral(t) && t != DType::uint64) check_fits(s, t);
  with_type(t, [&](auto kind) {
    using T = decltype(kind);
    T v;
    if constexpr (std::is_same_v<T, bool>)
      v = s.to_bool();
    else if constexpr (std::is_integral_v<T>)
      v = static_cast<T>(s.to_int());
    else if constexpr (std::is_same_v<T, ComplexHalf>)
      v = {static_cast<float>(s.to_complex().real()), static_cast<float>(s.to_complex().imag())};
    else if constexpr (requires { v.real(); })
      v = T(s.to_complex());
    else if constexpr (std::is_same_v<T, double>)
      v = s.to_double();
    else
      v = T(static_cast<float>(s.to_double()));
    std::memcpy(p, &v, sizeof v);
  });
}

nb::object list_of(const Tensor& t, const char* p, int64_t d) {
  if (d == t.dim()) return nb::steal(read_element(p, t.dtype()));
  int64_t n = t.int_sizes()[d], step = t.int_strides()[d] * t.element_size();
  nb::object list = nb::steal(PyList_New(n));
  for (int64_t i = 0; i < n; ++i)
    PyList_SetItem(list.ptr(), i, list_of(t, p + i * step, d + 1).release().ptr());
  return list;
}

// ---- nested sequences ----

// A tensor among the items stands for its one element.
bool is_sequence(PyObject* o) {
  if (is_tensor(o) || PyUnicode_Check(o) || PyBytes_Check(o) || PyDict_Check(o) || is_number(o)) return false;
  if (is_array(o)) return nb::cast<int64_t>(nb::handle(o).attr("ndim")) > 0;
  return PySequence_Check(o);
}

Scalar only_element(const Tensor& t) {
  if (!(t.numel() == 1))
    fail(ErrorKind::value, "only one element tensors can be converted to Python scalars");
  return read_scalar(t);
}

Scalar leaf(PyObject* o) {
  Scalar s;
  if (is_tensor(o)) return only_element(tensor_of(o));
  if (maybe_scalar(o, s)) return s;
  if (is_array(o)) return scalar_of(nb::object(nb::handle(o).attr("item")()).ptr());
  if (PyUnicode_Check(o)) fail(ErrorKind::value, "tensor(): too many dimensions 'str'");
  if (nb::hasattr(nb::handle(o), "__float__"))
    return scalar_of(nb::object(nb::handle(o).attr("__float__")()).ptr());
  failf("Could not infer dtype of {}: tensor() takes numbers, and sequences and arrays of them",
        type_name(o));
}

DType leaf_dtype(PyObject* o) {
  if (is_tensor(o)) return tensor_of(o).dtype();
  if (is_numpy_scalar(o) || is_array(o))
    if (auto t = parse_dtype(nb::cast<std::string>(nb::handle(o).attr("dtype").attr("name")))) return *t;
  if (PyLong_Check(o)) return PyBool_Check(o) ? DType::bool_ : DType::int64;
  return leaf(o).dtype();
}

// A Python int is of any size: what it may be is the dtype's to say.
void store_int(void* p, DType t, PyObject* o) {
  if (t == DType::bool_) return write_element(p, t, Scalar(PyObject_IsTrue(o) == 1));
  if (t == DType::uint64) {
    unsigned long long v = PyLong_AsUnsignedLongLong(o);
    if (PyErr_Occurred()) throw nb::python_error();
    std::memcpy(p, &v, sizeof v);
    return;
  }
  int overflow = 0;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (!overflow) return write_element(p, t, Scalar(static_cast<int64_t>(v)));
  if (!is_floating(t) && !is_complex(t)) fail(ErrorKind::value, "Overflow when unpacking long long");
  double d = PyLong_AsDouble(o);
  if (PyErr_Occurred()) throw nb::python_error();
  write_element(p, t, Scalar(d));
}

void store_leaf(void* p, DType t, PyObject* o) {
  nb::object number;
  if (is_numpy_scalar(o) || is_array(o)) {
    number = nb::handle(o).attr("item")();
    o = number.ptr();
  }
  if (PyLong_Check(o) && !PyBool_Check(o)) return store_int(p, t, o);
  write_element(p, t, leaf(o));
}

nb::object item_at(PyObject* o, Py_ssize_t i) {
  PyObject* item = PySequence_GetItem(o, i);
  if (!item) throw nb::python_error();
  return nb::steal(item);
}

constexpr int deepest = 64;  // a list that holds itself ends here

DType infer(PyObject* o, int depth) {
  if (depth > deepest) fail(ErrorKind::value, "tensor(): too many dimensions (the list may contain itself)");
  if (!is_sequence(o)) return leaf_dtype(o);
  DType t = DType::undefined;
  Py_ssize_t n = PySequence_Size(o);
  for (Py_ssize_t i = 0; i < n; ++i) {
    DType inner = infer(item_at(o, i).ptr(), depth + 1);
    if (inner == DType::undefined) continue;
    t = t == DType::undefined ? inner : promote(t, inner);
  }
  return t;
}

void store(PyObject* o, char* p, const Tensor& t, int64_t d) {
  if (d == t.dim()) {
    if (is_sequence(o))
      failf(ErrorKind::value, "tensor(): a sequence stands at dim {} where others have numbers", d);
    return store_leaf(p, t.dtype(), o);
  }
  int64_t n = t.int_sizes()[d], step = t.int_strides()[d] * t.element_size();
  if (!is_sequence(o))
    failf(ErrorKind::type, "expected a sequence of length {} at dim {} (got a {})", n, d, type_name(o));
  if (PySequence_Size(o) != n)
    failf(ErrorKind::value, "expected sequence of length {} at dim {} (got {})", n, d, PySequence_Size(o));
  for (int64_t i = 0; i < n; ++i) store(item_at(o, i).ptr(), p + i * step, t, d + 1);
}

Tensor copy_of(const Tensor& t, DType dtype) {
  const Op& op = get_op("aten::_to_copy");
  const Overload& overload = overload_of(op);
  SmallVector<Arg, 16> args{Span<const Arg>(overload.defaults.data(), overload.defaults.size())};
  args[0] = Arg(t);
  if (dtype != DType::undefined) args[1] = Arg(dtype);
  NoGrad no_grad;
  return call1(op, args.data());
}

}  // namespace

Tensor from_data(PyObject* data, DType dtype) {
  if (is_tensor(data)) return copy_of(tensor_of(data).shallow_copy(), dtype);
  if (PyUnicode_Check(data) || PyBytes_Check(data))
    failf(ErrorKind::type, "tensor(): invalid data type '{}'", type_name(data));
  if (is_array(data)) {
    nb::object array = nb::borrow(data);
    bool plain = true;
    for (nb::handle s : nb::cast<nb::tuple>(array.attr("strides"))) plain &= nb::cast<int64_t>(s) >= 0;
    nb::object copy = plain ? array : array.attr("copy")();
    return copy_of(from_array(copy), dtype);
  }
  Dims sizes;
  nb::object at = nb::borrow(data);
  while (is_sequence(at.ptr())) {
    if (sizes.size() > deepest)
      fail(ErrorKind::value, "tensor(): too many dimensions (the list may contain itself)");
    Py_ssize_t n = PySequence_Size(at.ptr());
    if (n < 0) throw nb::python_error();
    sizes.push_back(static_cast<int64_t>(n));
    if (n == 0) break;
    at = item_at(at.ptr(), 0);
  }
  if (dtype == DType::undefined) dtype = infer(data, 0);
  if (dtype == DType::undefined) dtype = default_dtype();
  Tensor t = make_tensor(sizes, dtype);
  if (t.int_numel() > 0) store(data, static_cast<char*>(t.data()), t, 0);
  return t;
}

void check_fits(const Scalar& value, DType dtype) {
  auto refuse = [&] {
    static constexpr std::pair<DType, const char*> names[] = {{DType::uint8, "uint8_t"},
                                                              {DType::float16, "c10::Half"},
                                                              {DType::bfloat16, "c10::BFloat16"},
                                                              {DType::float32, "float"},
                                                              {DType::float64, "double"}};
    std::string type = is_integral(dtype) ? std::string(name(dtype)) + "_t" : std::string(name(dtype));
    for (auto& [t, text] : names)
      if (t == dtype) type = text;
    failf("value cannot be converted to type {} without overflow", type);
  };
  if (value.is_symbolic() || dtype == DType::bool_ || is_complex(dtype)) return;
  if (value.is_complex() && value.to_complex().imag() != 0) refuse();
  if (dtype == DType::float32 && std::isfinite(value.to_double()) &&
      std::abs(value.to_double()) > static_cast<double>(std::numeric_limits<float>::max()))
    refuse();
  if (!is_integral(dtype)) return;
  if (value.is_float() || value.is_complex()) {
    double d = value.to_double();
    if (!(d >= -9223372036854775808.0 && d < 9223372036854775808.0)) refuse();
  }
  const int bits = static_cast<int>(element_size(dtype)) * 8;
  if (bits == 64) return;
  const int64_t v = value.to_int(), half = int64_t{1} << (bits - 1);
  // Negative numbers wrap in an unsigned type, as in PyTorch.
  const int64_t high = is_signed(dtype) ? half - 1 : 2 * half - 1, low = is_signed(dtype) ? -half : -high;
  if (v < low || v > high) refuse();
}

nb::object to_list(const Tensor& t) {
  check_has_data(t, "tolist()");
  return list_of(t, t.int_numel() ? static_cast<const char*>(t.data()) : nullptr, 0);
}

nb::object to_dlpack(const Tensor& t, bool versioned, bool copied) {
  check_has_data(t, "__dlpack__");
  if (t.requires_grad()) fail("Can't export tensors that require gradient, use tensor.detach()");
  if (versioned) return capsule<DLManagedVersioned>(t, "dltensor_versioned", copied);
  return capsule<DLManaged>(t, "dltensor", copied);
}

namespace {

nb::object made(Tensor t) {
  if (autograd::inference_mode()) autograd::mark_inference(t);
  return object_from(t);
}

}  // namespace

void bind_arrays(nb::module_& m) {
  nb::class_<Memory>(m, "_Memory").def_prop_ro("__array_interface__", &array_interface);
  m.def("_from_buffer", [](nb::handle buffer, nb::handle dtype, int64_t count, int64_t offset) {
    auto [tensor, writable] = from_buffer(buffer.ptr(), dtype_of_object(dtype.ptr()), count, offset);
    return nb::make_tuple(object_from(tensor), writable);
  });
  m.def("from_numpy", [](nb::handle array) {
    if (!is_array(array))
      failf(ErrorKind::type, "from_numpy: expected np.ndarray (got {})", type_name(array.ptr()));
    return made(from_array(array));
  });
  m.def(
      "_from_data",
      [](nb::handle data, nb::handle dtype) {
        return made(from_data(data.ptr(), dtype_of_object(dtype.ptr())));
      },
      nb::arg("data").none(), nb::arg("dtype").none());
  m.def("from_dlpack", [](nb::handle o) { return made(from_dlpack(o)); });
  m.def("_to_dlpack", [](nb::handle o, bool versioned, bool copied) {
    return to_dlpack(tensor_of(o.ptr()), versioned, copied);
  });
  m.def("_from_storage",
        [](nb::handle source, nb::handle dtype, nb::handle sizes, nb::handle strides, nb::handle offset) {
          // Another view of the same memory, for unpickling: no history.
          const Tensor& t = tensor_of(source.ptr());
          return object_from(make_view_of(t.storage(), dims_from(sizes.ptr(), "a size"),
                                          dims_from(strides.ptr(), "a stride"),
                                          int_of(offset.ptr(), "the offset"), dtype_of_object(dtype.ptr())));
        });
  // All the memory that the tensor shares, as bytes.
  m.def("_storage_bytes", [](nb::handle o) {
    const Storage& storage = tensor_of(o.ptr()).storage();
    check_has_data(tensor_of(o.ptr()), "untyped_storage()");
    const SymInt size(static_cast<int64_t>(storage->bytes)), step(1);
    return object_from(make_view_of(storage, {size}, {step}, 0, DType::uint8));
  });
  m.def("_storage_address",
        [](nb::handle o) { return reinterpret_cast<uintptr_t>(tensor_of(o.ptr()).storage()->data); });
  // The bytes of a tensor in row-major order, and back, for pickling.
  m.def("_bytes", [](nb::handle o) {
    const Tensor& t = tensor_of(o.ptr());
    check_has_data(t, "pickle");
    if (!t.is_contiguous()) fail("pickle: the tensor must be contiguous");
    int64_t n = t.int_numel() * t.element_size();
    return nb::bytes(n ? t.data() : "", static_cast<size_t>(n));
  });
  m.def("_from_bytes", [](nb::bytes bytes, nb::handle dtype, nb::handle sizes) {
    Tensor t = make_tensor(dims_from(sizes.ptr(), "a size"), dtype_of_object(dtype.ptr()));
    size_t n = static_cast<size_t>(t.int_numel() * t.element_size());
    if (n != bytes.size())
      failf(ErrorKind::value, "unpickling a tensor: {} bytes are there, {} are needed", bytes.size(), n);
    if (n) std::memcpy(t.data(), bytes.c_str(), n);
    return object_from(t);
  });
}

}  // namespace tern::python
