// Python's Tensor: what a tensor is, Python's operators on it, and the numbers that come out of it.
// Everything an operator computes is a method that operators.cpp adds from the table.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <complex>

#include "python/objects.h"
#include "tern/autograd/autograd.h"
#include "tern/base/format.h"
#include "tern/tensor/nesting.h"
#include "tern/tensor/print.h"
#include "tern/tensor/share.h"

#include <structmember.h>  // needs Python.h first

namespace tern::python {

namespace {

TensorObject* object_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o); }

// Objects that have gone, to be used again; under the GIL.
constexpr int most_spare = 64;
TensorObject* spare[most_spare];
int spares = 0;

PyObject* new_object(PyTypeObject* type, Tensor t) {
  TensorObject* o;
  if (spares && type == types.tensor) {
    o = spare[--spares];
    PyObject_Init(reinterpret_cast<PyObject*>(o), type);
  } else {
    o = PyObject_GC_New(TensorObject, type);
    if (!o) throw nb::python_error();
  }
  t->python = o;
  new (&o->tensor) Tensor(std::move(t));
  o->dict = nullptr;
  o->weak_references = nullptr;
  PyObject_GC_Track(o);
  return reinterpret_cast<PyObject*>(o);
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(object_of(self)->dict);
  return 0;
}
int clear(PyObject* self) {
  Py_CLEAR(object_of(self)->dict);
  return 0;
}
void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  TensorObject* o = object_of(self);
  if (o->weak_references) PyObject_ClearWeakRefs(self);
  Py_CLEAR(o->dict);
  if (o->tensor.defined() && o->tensor->python == o) o->tensor->python = nullptr;
  o->tensor.~Tensor();
  if (type == types.tensor && spares < most_spare)
    spare[spares++] = o;
  else
    PyObject_GC_Del(o);
  Py_DECREF(type);
}

// Tensor(), Tensor(2, 3), Tensor([1., 2.]), and for subclasses Tensor(tensor): another object over the same
// memory.
PyObject* create(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    if (kwargs && PyDict_Size(kwargs) > 0)
      fail(ErrorKind::type, "Tensor() takes no keyword arguments; use tern.tensor(data, dtype=...)");
    Py_ssize_t n = PyTuple_Size(args);
    PyObject* first = n ? PyTuple_GetItem(args, 0) : nullptr;
    if (n == 1 && is_tensor(first)) return new_object(type, tensor_of(first).shallow_copy());
    SymInt ignored;
    if (n == 0 || maybe_int(first, false, ignored)) {
      Dims sizes = n ? dims_from(args, "a size") : Dims{SymInt(0)};
      return new_object(type, make_tensor(sizes, default_dtype()));
    }
    if (n != 1) fail(ErrorKind::type, "Tensor() takes sizes, or one sequence of values");
    if (!PySequence_Check(first))
      failf(ErrorKind::type, "Tensor(): data must be a sequence (got {})", type_name(first));
    return new_object(type, from_data(first, default_dtype()));
  });
}

Py_hash_t hash(PyObject* self) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self) >> 4); }

// ---- Python's operators ----

const Packet& packet_named(const char* name, const char* other = nullptr) {
  const Packet* p = find_packet(name);
  if (!p && other) p = find_packet(other);
  if (!p) failf(ErrorKind::not_supported, "Tern has no operator {}", name);
  return *p;
}

bool is_operand(PyObject* o) { return is_tensor(o) || is_number(o); }

PyObject* call_two(const Packet& packet, PyObject* a, PyObject* b) {
  PyObject* args[] = {a, b};
  return call_packet(packet, args, 2, nullptr);
}
// The packet is looked up once.
template <Name name>
PyObject* call_named(std::initializer_list<PyObject*> args) {
  return guarded([&]() -> PyObject* {
    static const Packet& packet = packet_named(name.text);
    return call_packet(packet, args.begin(), args.size(), nullptr);
  });
}

// `reflected` is called as reflected(tensor, number); empty: the operator itself takes the number on the
// left.
template <Name name, Name other = "", Name reflected = "">
PyObject* binary(PyObject* a, PyObject* b) {
  if (!is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  return guarded([&]() -> PyObject* {
    static const Packet& packet = packet_named(name.text, other.text);
    if constexpr (reflected.text[0] != 0) {
      if (!is_tensor(a)) {
        static const Packet& swapped = packet_named(reflected.text);
        return call_two(swapped, b, a);
      }
    }
    return call_two(packet, a, b);
  });
}

// 2 << x: the number becomes a tensor's equal.
template <Name name, Name other, Name reflected>
PyObject* shift(PyObject* a, PyObject* b) {
  if (is_tensor(a) || !is_operand(a)) return binary<name, other>(a, b);
  return call_named<reflected>({a, b});
}

PyObject* true_divide(PyObject* a, PyObject* b) {
  if (is_tensor(b) && !is_operand(a) && is_array(a)) {
    nb::object inverse = nb::steal(call_named<"aten::reciprocal">({b}));
    return inverse.is_valid() ? PyNumber_Multiply(inverse.ptr(), a) : nullptr;
  }
  if (!is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  if (is_tensor(a)) return call_named<"aten::div">({a, b});
  nb::object inverse =
      nb::steal(call_named<"aten::reciprocal">({b}));  // as PyTorch's __rtruediv__ records it
  return inverse.is_valid() ? call_named<"aten::mul">({inverse.ptr(), a}) : nullptr;
}

PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None || !is_operand(a) || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  return call_named<"aten::pow">({a, b});
}
PyObject* inplace_power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None || !is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  return call_named<"aten::pow_">({a, b});
}
PyObject* matrix_multiply(PyObject* a, PyObject* b) {
  if (!is_tensor(a) || !is_tensor(b)) Py_RETURN_NOTIMPLEMENTED;
  return call_named<"aten::matmul">({a, b});
}

template <Name name>
PyObject* unary(PyObject* a) {
  return call_named<name>({a});
}
PyObject* positive(PyObject* a) {
  if (tensor_of(a).dtype() == kBool) {
    PyErr_SetString(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported.");
    return nullptr;
  }
  return Py_NewRef(a);
}
PyObject* invert(PyObject* a) {
  if (!is_integral(tensor_of(a).dtype(), true)) {
    PyErr_SetString(PyExc_TypeError,
                    "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return nullptr;
  }
  return call_named<"aten::bitwise_not">({a});
}

PyObject* compare(PyObject* a, PyObject* b, int op) {
  if (!is_operand(b) && (op == Py_EQ || op == Py_NE) && is_array(b))
    return guarded([&]() -> PyObject* {
      nb::object other = object_from(from_data(b, DType::undefined));
      return op == Py_EQ ? call_named<"aten::eq">({a, other.ptr()})
                         : call_named<"aten::ne">({a, other.ptr()});
    });
  if (!is_operand(b)) Py_RETURN_NOTIMPLEMENTED;
  switch (op) {
    case Py_LT:
      return call_named<"aten::lt">({a, b});
    case Py_LE:
      return call_named<"aten::le">({a, b});
    case Py_EQ:
      return call_named<"aten::eq">({a, b});
    case Py_NE:
      return call_named<"aten::ne">({a, b});
    case Py_GT:
      return call_named<"aten::gt">({a, b});
    default:
      return call_named<"aten::ge">({a, b});
  }
}

// ---- numbers out ----

Scalar number_of(const Tensor& t) {
  if (!(t.numel() == 1)) failf("a Tensor with {} elements cannot be converted to Scalar", t.numel().str());
  if (t.is_fake() || thread_state.active) return t.item();
  return read_scalar(t);
}

int as_bool(PyObject* self) {
  try {
    const Tensor& t = tensor_of(self);
    if (t.numel() == 0) fail("Boolean value of Tensor with no values is ambiguous");
    if (!(t.numel() == 1)) fail("Boolean value of Tensor with more than one value is ambiguous");
    return number_of(t).to_bool();
  } catch (...) {
    set_python_error();
    return -1;
  }
}
// float(x), int(x), complex(x): the exception is Python's for an argument that does not fit.
Scalar python_number(const Tensor& t) {
  if (!(t.numel() == 1))
    fail(ErrorKind::value, "only one element tensors can be converted to Python scalars");
  return number_of(t);
}
PyObject* as_float(PyObject* self) {
  return guarded([&] { return PyFloat_FromDouble(python_number(tensor_of(self)).to_double()); });
}
PyObject* as_complex(PyObject* self, PyObject*) {
  return guarded([&] {
    std::complex<double> z = python_number(tensor_of(self)).to_complex();
    return PyComplex_FromDoubles(z.real(), z.imag());
  });
}
PyObject* as_int(PyObject* self) {
  return guarded([&]() -> PyObject* {
    Scalar s = python_number(tensor_of(self));
    if (s.is_float()) return PyLong_FromDouble(s.to_double());
    return PyLong_FromLongLong(s.to_int());
  });
}
PyObject* as_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    if (!is_integral(t.dtype(), true) || !(t.numel() == 1))
      fail(ErrorKind::type, "only integer tensors of a single element can be converted to an index");
    return PyLong_FromLongLong(number_of(t).to_int());
  });
}
PyObject* item(PyObject* self, PyObject*) {
  return guarded([&] { return object_from(number_of(tensor_of(self))).release().ptr(); });
}

Py_ssize_t length(PyObject* self) {
  const Tensor& t = tensor_of(self);
  if (t.dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  try {
    return static_cast<Py_ssize_t>(t.size(0).guard_int());
  } catch (...) {
    set_python_error();
    return -1;
  }
}
PyObject* sequence_item(PyObject* self, Py_ssize_t i) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    if (t.dim() == 0) fail(ErrorKind::type, "iteration over a 0-d tensor");
    if (t.size(0) <= SymInt(i)) fail(ErrorKind::index, "index out of range");
    nb::object index = nb::steal(PyLong_FromSsize_t(i));
    return get_item(self, index.ptr());
  });
}
PyObject* iterate(PyObject* self) {
  if (tensor_of(self).dim() == 0) {
    PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
    return nullptr;
  }
  nb::object parts = nb::steal(call_named<"aten::unbind">({self}));
  return parts.is_valid() ? PyObject_GetIter(parts.ptr()) : nullptr;
}

// ---- attributes ----

using Getter = PyObject* (*)(const Tensor&);
template <Getter get>
PyObject* getter(PyObject* self, void*) {
  return guarded([&] { return get(tensor_of(self)); });
}
PyObject* boolean(bool b) { return Py_NewRef(b ? Py_True : Py_False); }

template <Name name>
PyObject* op_getter(PyObject* self, void*) {
  return call_named<name>({self});
}

PyObject* transposed(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    nb::list dims;
    for (int64_t d = tensor_of(self).dim(); d-- > 0;) dims.append(d);
    return call_named<"aten::permute">({self, dims.ptr()});
  });
}
PyObject* matrix_transposed(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    if (tensor_of(self).dim() == 0) return Py_NewRef(self);
    if (tensor_of(self).dim() == 1)
      fail("tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.");
    nb::int_ second(-2), last(-1);
    return call_named<"aten::transpose">({self, second.ptr(), last.ptr()});
  });
}

template <bool batches>
PyObject* adjoint(PyObject* self, void*) {
  return guarded([&]() -> PyObject* {
    const int64_t d = tensor_of(self).dim();
    if (d == 0) return call_named<"aten::conj">({self});
    if (batches && d == 1)
      fail("tensor.mH is only supported on matrices or batches of matrices. Got 1-D tensor.");
    if (!batches && d != 2)
      failf("tensor.H is only supported on matrices (2-D tensors). Got {}-D tensor.{}", d,
            d > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    return call_named<"aten::adjoint">({self});
  });
}

PyObject* strides_tuple(const Tensor& t) {
  if (t.is_nested()) t.stride(0);  // throws
  nb::list items;
  for (SymInt s : t.strides()) items.append(object_from(s));
  return nb::tuple(items).release().ptr();
}

// x.data: the same memory, whose changes x does not count.
Tensor untracked(const Tensor& t) {
  Tensor copy = t.shallow_copy();
  if (autograd::is_inference(t)) autograd::mark_inference(copy, &t);
  if (!t.is_fake()) copy->storage = share(t.storage());
  return copy;
}

int set_requires_grad(PyObject* self, PyObject* value, void*) {
  return guarded([&]() -> PyObject* {
    if (!value) fail(ErrorKind::type, "requires_grad cannot be deleted");
    tensor_of(self).requires_grad_(PyObject_IsTrue(value) == 1);
    return Py_None;
  })
             ? 0
             : -1;
}
int set_grad(PyObject* self, PyObject* value, void*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    if (!value || value == Py_None) {
      t.set_grad(Tensor());
      return Py_None;
    }
    if (!is_tensor(value))
      failf(ErrorKind::type, "assigned grad expected to be a Tensor or None but got grad of type {}",
            type_name(value));
    t.set_grad(tensor_of(value));
    return Py_None;
  })
             ? 0
             : -1;
}
// x.data = y: the same object, with y's memory.
int set_data(PyObject* self, PyObject* value, void*) {
  return guarded([&]() -> PyObject* {
    if (!value || !is_tensor(value)) fail(ErrorKind::type, "data must be set to a Tensor");
    autograd::set_data(tensor_of(self), tensor_of(value));
    return Py_None;
  })
             ? 0
             : -1;
}

PyGetSetDef attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"shape", getter<+[](const Tensor& t) { return size_object(t).release().ptr(); }>, nullptr, nullptr,
     nullptr},
    {"dtype", getter<+[](const Tensor& t) { return object_from(t.dtype()).release().ptr(); }>, nullptr,
     nullptr, nullptr},
    {"device", getter<+[](const Tensor& t) { return object_from(t.device()).release().ptr(); }>, nullptr,
     nullptr, nullptr},
    {"ndim", getter<+[](const Tensor& t) { return PyLong_FromLongLong(t.dim()); }>, nullptr, nullptr,
     nullptr},
    {"requires_grad", getter<+[](const Tensor& t) { return boolean(t.requires_grad()); }>, set_requires_grad,
     nullptr, nullptr},
    {"is_leaf", getter<+[](const Tensor& t) { return boolean(t.is_leaf()); }>, nullptr, nullptr, nullptr},
    {"grad", getter<+[](const Tensor& t) { return wrap(t.grad()); }>, set_grad, nullptr, nullptr},
    {"data", getter<+[](const Tensor& t) { return wrap(untracked(t)); }>, set_data, nullptr, nullptr},
    {"T", transposed, nullptr, nullptr, nullptr},
    {"mT", matrix_transposed, nullptr, nullptr, nullptr},
    {"H", adjoint<false>, nullptr, nullptr, nullptr},
    {"mH", adjoint<true>, nullptr, nullptr, nullptr},
    {"real", op_getter<"aten::real">, nullptr, nullptr, nullptr},
    {"imag", op_getter<"aten::imag">, nullptr, nullptr, nullptr},
    {"itemsize", getter<+[](const Tensor& t) { return PyLong_FromLongLong(t.element_size()); }>, nullptr,
     nullptr, nullptr},
    {"nbytes", getter<+[](const Tensor& t) { return object_from(t.nbytes()).release().ptr(); }>, nullptr,
     nullptr, nullptr},
    {"is_cpu", getter<+[](const Tensor& t) { return boolean(t.device().type == DeviceType::cpu); }>, nullptr,
     nullptr, nullptr},
    {"is_meta", getter<+[](const Tensor& t) { return boolean(t.is_meta()); }>, nullptr, nullptr, nullptr},
    {"is_cuda", getter<+[](const Tensor& t) { return boolean(t.device().type == DeviceType::cuda); }>,
     nullptr, nullptr, nullptr},
    {"is_sparse", getter<+[](const Tensor&) { return boolean(false); }>, nullptr, nullptr, nullptr},
    {"is_quantized", getter<+[](const Tensor& t) { return boolean(t.is_quantized()); }>, nullptr, nullptr,
     nullptr},
    {"is_nested", getter<+[](const Tensor& t) { return boolean(t.is_nested()); }>, nullptr, nullptr, nullptr},
    {"layout", getter<+[](const Tensor&) {
       return nb::module_::import_("tern._tern").attr("strided").inc_ref().ptr();
     }>,
     nullptr, nullptr, nullptr},
    {"_base", getter<+[](const Tensor& t) {
       if (!t->base) Py_RETURN_NONE;
       t->base->refs.add();
       return wrap(Tensor::adopt(t->base));
     }>,
     nullptr, nullptr, nullptr},
    {"_version", getter<+[](const Tensor& t) {
       if (autograd::is_inference(t)) fail("Inference tensors do not track version counter.");
       return PyLong_FromLongLong(t.version());
     }>,
     nullptr, nullptr, nullptr},
    {"_is_parameter", getter<+[](const Tensor& t) { return boolean(t->is_parameter); }>, nullptr, nullptr,
     nullptr},
    {}};

PyMemberDef members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TensorObject, dict), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TensorObject, weak_references), READONLY, nullptr},
    {}};

// ---- methods that are not operators ----

PyObject* method_size(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    PyObject* dim = PyTuple_Size(args) ? PyTuple_GetItem(args, 0)
                    : kwargs           ? PyDict_GetItemString(kwargs, "dim")
                                       : nullptr;
    if (!dim || dim == Py_None) return size_object(t).release().ptr();
    return object_from(t.size(int_of(dim, "dim").guard_int())).release().ptr();
  });
}
PyObject* method_stride(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    PyObject* dim = PyTuple_Size(args) ? PyTuple_GetItem(args, 0)
                    : kwargs           ? PyDict_GetItemString(kwargs, "dim")
                                       : nullptr;
    if (!dim || dim == Py_None) return strides_tuple(t);
    return object_from(t.stride(int_of(dim, "dim").guard_int())).release().ptr();
  });
}
PyObject* method_is_contiguous(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    PyObject* format = PyTuple_Size(args) ? PyTuple_GetItem(args, 0)
                       : kwargs           ? PyDict_GetItemString(kwargs, "memory_format")
                                          : nullptr;
    if (!format) return boolean(tensor_of(self).is_contiguous());
    if (Py_TYPE(format) != types.memory_format)
      failf(ErrorKind::type, "memory_format must be a tern.memory_format, not {}", type_name(format));
    return boolean(tensor_of(self).is_contiguous(nb::inst_ptr<MemoryFormatObject>(format)->value));
  });
}
template <Getter get>
PyObject* plain_method(PyObject* self, PyObject*) {
  return guarded([&] { return get(tensor_of(self)); });
}
PyObject* method_requires_grad(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    PyObject* on = PyTuple_Size(args) ? PyTuple_GetItem(args, 0)
                   : kwargs           ? PyDict_GetItemString(kwargs, "requires_grad")
                                      : nullptr;
    tensor_of(self).requires_grad_(!on || PyObject_IsTrue(on) == 1);
    return Py_NewRef(self);
  });
}

// to(dtype, ...) is an operator; the many other forms are taken apart in Python.
PyObject* method_to(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* names) {
  return guarded([&]() -> PyObject* {
    Py_ssize_t given = nargs + (names ? PyTuple_Size(names) : 0);
    SmallVector<PyObject*, 8> all;
    all.push_back(self);
    for (Py_ssize_t i = 0; i < given; ++i) all.push_back(args[i]);
    if (nargs && Py_TYPE(args[0]) == types.dtype) {
      static const Overload& overload = overload_of(get_op("aten::to.dtype"));
      Room room;
      if (bind(overload, all.data(), static_cast<size_t>(nargs) + 1, names, false, room, nullptr))
        return run(overload, room);
    }
    static PyObject* other = PyUnicode_InternFromString("_to");
    return PyObject_VectorcallMethod(other, all.data(), static_cast<size_t>(nargs) + 1, names);
  });
}

template <class F>
PyCFunction with_keywords(F f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

PyMethodDef methods[] = {
    {"size", with_keywords(method_size), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"stride", with_keywords(method_stride), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"is_contiguous", with_keywords(method_is_contiguous), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"requires_grad_", with_keywords(method_requires_grad), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"to", with_keywords(method_to), METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"item", item, METH_NOARGS, nullptr},
    {"__complex__", as_complex, METH_NOARGS, nullptr},
    {"dim", plain_method<+[](const Tensor& t) { return PyLong_FromLongLong(t.dim()); }>, METH_NOARGS,
     nullptr},
    {"ndimension", plain_method<+[](const Tensor& t) { return PyLong_FromLongLong(t.dim()); }>, METH_NOARGS,
     nullptr},
    {"numel", plain_method<+[](const Tensor& t) { return object_from(t.numel()).release().ptr(); }>,
     METH_NOARGS, nullptr},
    {"nelement", plain_method<+[](const Tensor& t) { return object_from(t.numel()).release().ptr(); }>,
     METH_NOARGS, nullptr},
    {"element_size", plain_method<+[](const Tensor& t) { return PyLong_FromLongLong(t.element_size()); }>,
     METH_NOARGS, nullptr},
    {"storage_offset", plain_method<+[](const Tensor& t) { return object_from(t.offset()).release().ptr(); }>,
     METH_NOARGS, nullptr},
    {"data_ptr", plain_method<+[](const Tensor& t) {
       return PyLong_FromVoidPtr(t.is_fake() || t.int_numel() == 0 ? nullptr : t.data());
     }>,
     METH_NOARGS, nullptr},
    {"is_floating_point", plain_method<+[](const Tensor& t) { return boolean(t.is_floating_point()); }>,
     METH_NOARGS, nullptr},
    {"is_complex", plain_method<+[](const Tensor& t) { return boolean(t.is_complex()); }>, METH_NOARGS,
     nullptr},
    {"is_signed", plain_method<+[](const Tensor& t) { return boolean(is_signed(t.dtype())); }>, METH_NOARGS,
     nullptr},
    {"retain_grad", plain_method<+[](const Tensor& t) {
       t.retain_grad();
       Py_RETURN_NONE;
     }>,
     METH_NOARGS, nullptr},
    {"numpy", plain_method<+[](const Tensor& t) { return to_numpy(t).release().ptr(); }>, METH_NOARGS,
     nullptr},
    {"tolist", plain_method<+[](const Tensor& t) { return to_list(t).release().ptr(); }>, METH_NOARGS,
     nullptr},
    {}};

template <class F>
void* slot(F f) {
  return reinterpret_cast<void*>(f);
}

}  // namespace

PyObject* wrap(const Tensor& t) { return wrap(Tensor(t)); }
PyObject* wrap(Tensor&& t) {
  if (!t.defined()) Py_RETURN_NONE;
  if (t->python) return Py_NewRef(static_cast<PyObject*>(t->python));
  PyTypeObject* type = t->is_parameter ? types.parameter : types.tensor;
  return new_object(type, std::move(t));
}

nb::object size_object(const Tensor& t) {
  if (t.is_nested()) refuse_sizes();
  // A Size is a tuple with methods: made and filled like one.
  static const auto alloc =
      types.size ? reinterpret_cast<allocfunc>(PyType_GetSlot(types.size, Py_tp_alloc)) : nullptr;
  nb::object size = nb::steal(alloc ? alloc(types.size, t.dim()) : PyTuple_New(t.dim()));
  if (!size.is_valid()) throw nb::python_error();
  for (int64_t d = 0; d < t.dim(); ++d) {
    SymInt s = t.size(d);
    PyTuple_SetItem(size.ptr(), d,
                    s.is_int() ? PyLong_FromLongLong(s.as_int()) : object_from(s).release().ptr());
  }
  return size;
}

void bind_tensor(nb::module_& m) {
  PyType_Slot slots[] = {
      {Py_tp_new, slot(create)},
      {Py_tp_dealloc, slot(dealloc)},
      {Py_tp_traverse, slot(traverse)},
      {Py_tp_clear, slot(clear)},
      {Py_tp_hash, slot(hash)},
      {Py_tp_richcompare, slot(compare)},
      {Py_tp_iter, slot(iterate)},
      {Py_tp_getset, attributes},
      {Py_tp_methods, methods},
      {Py_tp_members, members},
      {Py_mp_length, slot(length)},
      {Py_mp_subscript, slot(get_item)},
      {Py_mp_ass_subscript, slot(set_item)},
      {Py_sq_item, slot(sequence_item)},
      {Py_nb_bool, slot(as_bool)},
      {Py_nb_float, slot(as_float)},
      {Py_nb_int, slot(as_int)},
      {Py_nb_index, slot(as_index)},
      {Py_nb_add, slot(binary<"aten::add", "", "aten::add">)},
      {Py_nb_subtract, slot(binary<"aten::sub", "", "aten::rsub">)},
      {Py_nb_multiply, slot(binary<"aten::mul", "", "aten::mul">)},
      {Py_nb_true_divide, slot(true_divide)},
      {Py_nb_floor_divide, slot(binary<"aten::floor_divide">)},
      {Py_nb_remainder, slot(binary<"aten::remainder">)},
      {Py_nb_power, slot(power)},
      {Py_nb_matrix_multiply, slot(matrix_multiply)},
      {Py_nb_and, slot(binary<"aten::__and__", "aten::bitwise_and", "aten::bitwise_and">)},
      {Py_nb_or, slot(binary<"aten::__or__", "aten::bitwise_or", "aten::bitwise_or">)},
      {Py_nb_xor, slot(binary<"aten::__xor__", "aten::bitwise_xor", "aten::bitwise_xor">)},
      {Py_nb_lshift, slot(shift<"aten::__lshift__", "aten::bitwise_left_shift", "aten::bitwise_left_shift">)},
      {Py_nb_rshift,
       slot(shift<"aten::__rshift__", "aten::bitwise_right_shift", "aten::bitwise_right_shift">)},
      {Py_nb_negative, slot(unary<"aten::neg">)},
      {Py_nb_positive, slot(positive)},
      {Py_nb_absolute, slot(unary<"aten::abs">)},
      {Py_nb_invert, slot(invert)},
      {Py_nb_inplace_add, slot(binary<"aten::add_">)},
      {Py_nb_inplace_subtract, slot(binary<"aten::sub_">)},
      {Py_nb_inplace_multiply, slot(binary<"aten::mul_">)},
      {Py_nb_inplace_true_divide, slot(binary<"aten::div_">)},
      {Py_nb_inplace_floor_divide, slot(binary<"aten::floor_divide_">)},
      {Py_nb_inplace_remainder, slot(binary<"aten::remainder_">)},
      {Py_nb_inplace_power, slot(inplace_power)},
      {Py_nb_inplace_and, slot(binary<"aten::__iand__", "aten::bitwise_and_">)},
      {Py_nb_inplace_or, slot(binary<"aten::__ior__", "aten::bitwise_or_">)},
      {Py_nb_inplace_xor, slot(binary<"aten::__ixor__", "aten::bitwise_xor_">)},
      {Py_nb_inplace_lshift, slot(binary<"aten::__ilshift__", "aten::bitwise_left_shift_">)},
      {Py_nb_inplace_rshift, slot(binary<"aten::__irshift__", "aten::bitwise_right_shift_">)},
      {0, nullptr}};
  PyType_Spec spec{"tern.Tensor", sizeof(TensorObject), 0,
                   static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC),
                   slots};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) throw nb::python_error();
  types.tensor = types.parameter = reinterpret_cast<PyTypeObject*>(type);
  m.attr("Tensor") = nb::borrow(type);

  m.def(
      "_tensor_text",
      [](nb::handle tensor, int precision, int64_t threshold, int64_t edge_items, int64_t line_width,
         std::optional<bool> scientific) {
        if (!is_tensor(tensor.ptr()))
          failf(ErrorKind::type, "expected a Tensor, not {}", type_name(tensor.ptr()));
        return str(tensor_of(tensor.ptr()),
                   PrintOptions{precision, threshold, edge_items, line_width, scientific, "tern"});
      },
      nb::arg("tensor"), nb::arg("precision"), nb::arg("threshold"), nb::arg("edge_items"),
      nb::arg("line_width"), nb::arg("scientific").none());
  m.def("_output_nr", [](nb::handle t) { return autograd::output_number(tensor_of(t.ptr())); });
  m.def("_set_size_class",
        [](nb::handle c) { types.size = reinterpret_cast<PyTypeObject*>(c.inc_ref().ptr()); });
  m.def("_set_parameter_class",
        [](nb::handle c) { types.parameter = reinterpret_cast<PyTypeObject*>(c.inc_ref().ptr()); });
  // The tensor's data as an object of a subclass.
  m.def("_make_subclass", [](nb::handle cls, nb::handle data, bool requires_grad, bool parameter) {
    if (!is_tensor(data.ptr())) failf(ErrorKind::type, "expected a Tensor, not {}", type_name(data.ptr()));
    Tensor t = tensor_of(data.ptr()).shallow_copy();
    t->is_parameter = parameter;
    if (requires_grad) t.requires_grad_();
    return nb::steal(new_object(reinterpret_cast<PyTypeObject*>(cls.ptr()), t));
  });
}

}  // namespace tern::python
