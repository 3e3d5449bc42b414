// dtype, device, layout, memory format, Generator and SymInt as Python sees them, and plain values between
// the two languages.
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <complex>
#include <memory>

#include "python/objects.h"
#include "tern/base/format.h"
#include "tern/tensor/generator.h"

namespace tern::python {

Types types;

namespace {

constexpr DType all_dtypes[] = {
    DType::uint8,           DType::int8,        DType::int16,         DType::int32,
    DType::int64,           DType::float16,     DType::float32,       DType::float64,
    DType::complex32,       DType::complex64,   DType::complex128,    DType::bool_,
    DType::bfloat16,        DType::float8_e5m2, DType::float8_e4m3fn, DType::float8_e5m2fnuz,
    DType::float8_e4m3fnuz, DType::uint16,      DType::uint32,        DType::uint64,
    DType::qint8,           DType::quint8,      DType::qint32};
constexpr std::pair<const char*, DType> dtype_aliases[] = {
    {"half", DType::float16},    {"float", DType::float32},    {"double", DType::float64},
    {"short", DType::int16},     {"int", DType::int32},        {"long", DType::int64},
    {"chalf", DType::complex32}, {"cfloat", DType::complex64}, {"cdouble", DType::complex128}};
PyObject* dtype_objects[256] = {};

nb::object string_object(std::string_view s) { return nb::str(s.data(), s.size()); }

// A class of NumPy's, once somebody has imported it.
template <Name name>
bool is_of_numpy(PyObject* o) {
  static PyObject* type = nullptr;
  if (!type) {
    nb::object module = nb::steal(PyImport_GetModule(nb::str("numpy").ptr()));
    if (module.is_valid()) type = PyObject_GetAttrString(module.ptr(), name.text);
    PyErr_Clear();
    if (!type) return false;
  }
  return PyObject_TypeCheck(o, reinterpret_cast<PyTypeObject*>(type));
}

int64_t long_value(PyObject* o, bool upper_half = true) {
  int overflow = 0;
  long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow) {
    // The upper half of uint64 keeps its bits, as ATen's int64 carries them.
    unsigned long long u = overflow > 0 ? PyLong_AsUnsignedLongLong(o) : 0;
    if (overflow < 0 || !upper_half || PyErr_Occurred()) {
      PyErr_Clear();
      fail(ErrorKind::value, "Overflow when unpacking long long: the number does not fit in 64 bits");
    }
    return static_cast<int64_t>(u);
  }
  return v;
}

}  // namespace

bool is_numpy_scalar(PyObject* o) { return is_of_numpy<"generic">(o); }
bool is_array(nb::handle o) { return is_of_numpy<"ndarray">(o.ptr()); }

std::string type_name(PyObject* o) {
  nb::object type = nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(o)));
  std::string name = nb::cast<std::string>(type.attr("__name__"));
  // NumPy's types have the names of Python's: bool, str.
  return nb::cast<std::string>(nb::str(type.attr("__module__"))) == "numpy" ? "numpy." + name : name;
}

bool is_number(PyObject* o) {
  return PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o) || Py_TYPE(o) == types.sym_int ||
         is_numpy_scalar(o);
}

bool maybe_int(PyObject* o, bool loose, SymInt& value) {
  if (PyLong_Check(o)) {
    if (!loose && PyBool_Check(o)) return false;
    value = long_value(o, false);
    return true;
  }
  if (PyFloat_Check(o)) return false;
  if (Py_TYPE(o) == types.sym_int) {
    value = *nb::inst_ptr<SymInt>(o);
    return true;
  }
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    if (!loose || t.dim() != 0 || !is_integral(t.dtype())) return false;
    value = t.is_fake() ? Scalar(t.item()).sym() : SymInt(read_scalar(t).to_int());
    return true;
  }
  if (!PyIndex_Check(o)) return false;
  PyObject* index = PyNumber_Index(o);
  if (!index) {
    PyErr_Clear();
    return false;
  }
  nb::object keep = nb::steal(index);
  value = long_value(index, false);
  return true;
}

bool maybe_scalar(PyObject* o, Scalar& value) {
  if (PyFloat_Check(o)) {
    value = PyFloat_AsDouble(o);
  } else if (PyBool_Check(o)) {
    value = Scalar(o == Py_True);
  } else if (PyLong_Check(o)) {
    value = long_value(o);
  } else if (PyComplex_Check(o)) {
    value = std::complex<double>(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o));
  } else if (is_tensor(o) || PyUnicode_Check(o) || PyTuple_Check(o) || PyList_Check(o)) {
    return false;
  } else if (Py_TYPE(o) == types.sym_int) {
    value = *nb::inst_ptr<SymInt>(o);
  } else if (is_numpy_scalar(o)) {
    nb::object item = nb::borrow(o).attr("item")();
    return !is_numpy_scalar(item.ptr()) && maybe_scalar(item.ptr(), value);
  } else {
    return false;
  }
  return true;
}

Scalar scalar_of(PyObject* o) {
  Scalar s;
  if (is_tensor(o)) return tensor_of(o).is_fake() ? tensor_of(o).item() : read_scalar(tensor_of(o));
  if (!maybe_scalar(o, s)) failf(ErrorKind::type, "expected a number, not {}", type_name(o));
  return s;
}

SymInt int_of(PyObject* o, const char* what) {
  SymInt v;
  if (!maybe_int(o, true, v)) failf(ErrorKind::type, "{} must be an int, not {}", what, type_name(o));
  return v;
}

bool maybe_dtype(PyObject* o, DType& value) {
  if (Py_TYPE(o) == types.dtype)
    value = nb::inst_ptr<DTypeObject>(o)->value;
  else if (o == reinterpret_cast<PyObject*>(&PyFloat_Type))
    value = DType::float64;
  else if (o == reinterpret_cast<PyObject*>(&PyLong_Type))
    value = DType::int64;
  else if (o == reinterpret_cast<PyObject*>(&PyBool_Type))
    value = DType::bool_;
  else if (o == reinterpret_cast<PyObject*>(&PyComplex_Type))
    value = DType::complex128;
  else
    return false;
  return true;
}
DType dtype_of_object(PyObject* o) {
  DType t = DType::undefined;
  if (o != Py_None && !maybe_dtype(o, t))
    failf(ErrorKind::type, "dtype must be a tern.dtype (tern.float32), not {}", type_name(o));
  return t;
}

Device device_of_object(PyObject* o) {
  if (Py_TYPE(o) == types.device) return *nb::inst_ptr<Device>(o);
  if (!PyUnicode_Check(o))
    failf(ErrorKind::type, "device must be a tern.device or a string, not {}", type_name(o));
  std::string text = nb::cast<std::string>(nb::handle(o));
  auto d = Device::parse(text);
  if (!d) failf("Expected one of cpu, cuda, mps, xpu, meta device type at start of device string: {}", text);
  return *d;
}

Dims dims_from(PyObject* o, const char* what) {
  Dims dims;
  SymInt one;
  if (maybe_int(o, true, one)) {
    dims.push_back(one);
    return dims;
  }
  nb::object items = nb::steal(PySequence_Tuple(o));
  if (!items.is_valid()) throw nb::python_error();
  for (Py_ssize_t i = 0; i < PyTuple_Size(items.ptr()); ++i)
    dims.push_back(int_of(PyTuple_GetItem(items.ptr(), i), what));
  return dims;
}

Value value_from(PyObject* o) {
  if (o == Py_None) return {};
  if (is_tensor(o)) return tensor_of(o);
  Scalar s;
  if (maybe_scalar(o, s)) return s;
  if (PyUnicode_Check(o)) return nb::cast<std::string>(nb::handle(o));
  DType t;
  if (maybe_dtype(o, t)) return t;
  if (Py_TYPE(o) == types.device) return *nb::inst_ptr<Device>(o);
  if (Py_TYPE(o) == types.memory_format) return nb::inst_ptr<MemoryFormatObject>(o)->value;
  if (Py_TYPE(o) == types.layout) return static_cast<int64_t>(nb::inst_ptr<LayoutObject>(o)->value);
  if (Py_TYPE(o) == types.generator) {
    auto* box = new GeneratorBox;
    box->generator = *nb::inst_ptr<Generator>(o);
    return Value::object(box);
  }
  if (Py_TYPE(o) == types.script_object) return nb::inst_ptr<ScriptObject>(o)->value;
  if (PyDict_Check(o)) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto [k, v] : nb::borrow<nb::dict>(o))
      entries.emplace_back(value_from(k.ptr()), value_from(v.ptr()));
    return Value::dict(std::move(entries));
  }
  if (PyTuple_Check(o) || PyList_Check(o)) {
    std::vector<Value> items;
    for (nb::handle item : nb::borrow(o)) items.push_back(value_from(item.ptr()));
    return PyTuple_Check(o) ? Value::tuple(std::move(items)) : Value::list(std::move(items));
  }
  failf(ErrorKind::type,
        "a {} is not a value that Tern can take: tensors, numbers, strings, lists, tuples and dicts are",
        type_name(o));
}

nb::object object_from(SymInt v) {
  if (v.is_int()) return nb::steal(PyLong_FromLongLong(v.as_int()));
  return nb::cast(v);
}
nb::object object_from(const Scalar& s) {
  switch (s.kind()) {
    case Scalar::Kind::int_:
      return object_from(s.sym());
    case Scalar::Kind::float_:
      return nb::steal(PyFloat_FromDouble(s.to_double()));
    case Scalar::Kind::bool_:
      return nb::borrow(s.to_bool() ? Py_True : Py_False);
    case Scalar::Kind::complex_: {
      std::complex<double> c = s.to_complex();
      return nb::steal(PyComplex_FromDoubles(c.real(), c.imag()));
    }
  }
  return nb::none();
}
nb::object object_from(DType t) {
  PyObject* o = dtype_objects[static_cast<uint8_t>(t)];
  return o ? nb::borrow(o) : nb::object(nb::none());
}
nb::object object_from(Device d) { return nb::cast(d); }
nb::object object_from(const Tensor& t) { return nb::steal(wrap(t)); }

nb::object object_from(const Value& v) {
  switch (v.kind()) {
    case ValueKind::none:
      return nb::none();
    case ValueKind::tensor:
      return object_from(v.tensor());
    case ValueKind::int_:
    case ValueKind::float_:
    case ValueKind::bool_:
    case ValueKind::complex_:
      return object_from(v.scalar());
    case ValueKind::device:
      return object_from(v.device());
    case ValueKind::string:
      return string_object(v.string());
    case ValueKind::list:
    case ValueKind::tuple: {
      nb::list items;
      for (const Value& item : v.items()) items.append(object_from(item));
      return v.is_list() ? nb::object(items) : nb::object(nb::tuple(items));
    }
    case ValueKind::dict: {
      nb::dict result;
      for (auto& [key, value] : v.entries()) result[object_from(key)] = object_from(value);
      return result;
    }
    case ValueKind::object:
      if (auto* box = dynamic_cast<GeneratorBox*>(v.box())) return nb::cast(box->generator);
      if (dynamic_cast<NativeObject*>(v.box())) return nb::cast(ScriptObject{v});
      fail(ErrorKind::not_supported, "the operator gave an object that has no Python class");
  }
  return nb::none();
}

PyObject* linear_algebra_error() {
  static PyObject* type = PyErr_NewExceptionWithDoc(
      "tern._LinAlgError", "Error raised by linear algebra functions: a singular matrix, no convergence.",
      PyExc_RuntimeError, nullptr);
  return type;
}

void set_python_error() noexcept {
  try {
    throw;
  } catch (nb::python_error& e) {
    e.restore();
  } catch (const nb::builtin_exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (const Error& e) {
    PyObject* type = PyExc_RuntimeError;
    switch (e.kind()) {
      case ErrorKind::value:
      case ErrorKind::usage:
        type = PyExc_ValueError;
        break;
      case ErrorKind::index:
        type = PyExc_IndexError;
        break;
      case ErrorKind::linear_algebra:
        type = linear_algebra_error();
        break;
      case ErrorKind::type:
        type = PyExc_TypeError;
        break;
      case ErrorKind::not_supported:
        type = PyExc_NotImplementedError;
        break;
      default:
        break;
    }
    PyErr_SetString(type, e.what());
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown error");
  }
}

std::shared_ptr<PyObject> shared_reference(PyObject* borrowed) {
  return {Py_NewRef(borrowed), [](PyObject* o) {
            if (!Py_IsInitialized()) return;  // the interpreter has gone: the process is ending
            PyGILState_STATE state = PyGILState_Ensure();
            Py_DECREF(o);
            PyGILState_Release(state);
          }};
}

namespace {

void bind_dtypes(nb::module_& m) {
  auto c = nb::class_<DTypeObject>(m, "dtype", "The element type of a tensor.")
               .def("__repr__", [](const DTypeObject& t) { return "tern." + std::string(name(t.value)); })
               .def("__reduce__",
                    [](const DTypeObject& t) {
                      return nb::make_tuple(nb::module_::import_("tern._ops").attr("dtype"),
                                            nb::make_tuple(string_object(name(t.value))));
                    })
               .def("__copy__", [](nb::object self) { return self; })
               .def("__deepcopy__", [](nb::object self, nb::object) { return self; })
               .def("__eq__", [](nb::handle self, nb::handle other) { return self.is(other); })
               .def("__hash__", [](const DTypeObject& t) { return static_cast<int64_t>(t.value) + 1; })
               .def("to_real", [](const DTypeObject& t) { return object_from(to_real(t.value)); })
               .def("to_complex", [](const DTypeObject& t) { return object_from(to_complex(t.value)); })
               .def_prop_ro("is_floating_point", [](const DTypeObject& t) { return is_floating(t.value); })
               .def_prop_ro("is_complex", [](const DTypeObject& t) { return is_complex(t.value); })
               .def_prop_ro("is_signed", [](const DTypeObject& t) { return is_signed(t.value); })
               .def_prop_ro("itemsize", [](const DTypeObject& t) { return element_size(t.value); })
               .def_prop_ro("name", [](const DTypeObject& t) { return std::string(name(t.value)); });
  types.dtype = reinterpret_cast<PyTypeObject*>(c.ptr());
  for (DType t : all_dtypes) {
    nb::object o = nb::cast(DTypeObject{t});
    dtype_objects[static_cast<uint8_t>(t)] = o.inc_ref().ptr();
    m.attr(std::string(name(t)).c_str()) = o;
  }
  for (auto [alias, t] : dtype_aliases) m.attr(alias) = object_from(t);
  m.def("_dtype", [](std::string_view text) {
    auto t = parse_dtype(text);
    if (!t) failf(ErrorKind::value, "there is no dtype '{}'", text);
    return object_from(*t);
  });
  m.def("promote_types", [](nb::handle a, nb::handle b) {
    return object_from(promote(dtype_of_object(a.ptr()), dtype_of_object(b.ptr())));
  });
  m.def("can_cast", [](nb::handle a, nb::handle b) {
    return can_cast(dtype_of_object(a.ptr()), dtype_of_object(b.ptr()));
  });
  m.def("get_default_dtype", [] { return object_from(default_dtype()); });
  m.def("set_default_dtype", [](nb::handle t) { set_default_dtype(dtype_of_object(t.ptr())); });
}

void bind_script_objects(nb::module_& m) {
  auto native = [](const ScriptObject& o) -> const NativeObject& {
    return *static_cast<const NativeObject*>(o.value.box());
  };
  auto c =
      nb::class_<ScriptObject>(m, "ScriptObject", "Packed weights of a quantized layer.")
          .def("__repr__",
               [native](const ScriptObject& o) {
                 return "<tern.ScriptObject " + std::string(native(o).class_name()) + ">";
               })
          .def("_type", [native](const ScriptObject& o) { return std::string(native(o).class_name()); })
          .def("__getstate__", [native](const ScriptObject& o) { return object_from(native(o).state()); });
  types.script_object = reinterpret_cast<PyTypeObject*>(c.ptr());
}

void bind_devices(nb::module_& m) {
  auto device =
      nb::class_<Device>(m, "device", "Where a tensor lives: cpu or meta.")
          .def(
              "__init__",
              [](Device* self, nb::object type, nb::object index) {
                Device d = device_of_object(type.ptr());
                if (!index.is_none())
                  d.index = static_cast<int8_t>(int_of(index.ptr(), "device index").guard_int());
                new (self) Device(d);
              },
              nb::arg("type"), nb::arg("index") = nb::none())
          .def("__repr__",
               [](const Device& d) {
                 std::string text = "device(type='" + Device{d.type, -1}.str() + "'";
                 if (d.index >= 0) text += ", index=" + std::to_string(d.index);
                 return text + ")";
               })
          .def("__str__", &Device::str)
          .def("__eq__",
               [](const Device& a, nb::handle b) {
                 return Py_TYPE(b.ptr()) == types.device && a == *nb::inst_ptr<Device>(b);
               })
          .def("__ne__",
               [](const Device& a, nb::handle b) {
                 return Py_TYPE(b.ptr()) != types.device || !(a == *nb::inst_ptr<Device>(b));
               })
          .def("__hash__", [](const Device& d) { return static_cast<int64_t>(d.type) * 256 + d.index + 1; })
          .def("__reduce__",
               [](nb::object self) { return nb::make_tuple(self.type(), nb::make_tuple(nb::str(self))); })
          .def_prop_ro("type",
                       [](const Device& d) {
                         return Device{d.type, -1}.str();
                       })
          .def_prop_ro("index", [](const Device& d) {
            return d.index < 0 ? nb::object(nb::none()) : nb::object(nb::int_(d.index));
          });
  types.device = reinterpret_cast<PyTypeObject*>(device.ptr());

  auto layout = nb::class_<LayoutObject>(m, "layout").def("__repr__", [](const LayoutObject& l) {
    return l.value == Layout::strided ? "tern.strided" : "tern.sparse_coo";
  });
  types.layout = reinterpret_cast<PyTypeObject*>(layout.ptr());
  m.attr("strided") = nb::cast(LayoutObject{Layout::strided});
  m.attr("sparse_coo") = nb::cast(LayoutObject{Layout::sparse});

  auto format =
      nb::class_<MemoryFormatObject>(m, "memory_format").def("__repr__", [](const MemoryFormatObject& f) {
        return "tern." + std::string(name(f.value));
      });
  types.memory_format = reinterpret_cast<PyTypeObject*>(format.ptr());
  for (MemoryFormat f : {MemoryFormat::contiguous, MemoryFormat::preserve, MemoryFormat::channels_last,
                         MemoryFormat::channels_last_3d})
    m.attr(std::string(name(f)).c_str()) = nb::cast(MemoryFormatObject{f});
}

nb::object bytes_tensor(const std::vector<uint8_t>& bytes) {
  return object_from(from_vector(bytes, {SymInt(static_cast<int64_t>(bytes.size()))}));
}
std::vector<uint8_t> tensor_bytes(nb::handle o) {
  if (!is_tensor(o.ptr()))
    failf(ErrorKind::type, "the RNG state must be a uint8 tensor, not {}", type_name(o.ptr()));
  const Tensor& t = tensor_of(o.ptr());
  if (t.dtype() != DType::uint8 || !t.is_contiguous())
    fail(ErrorKind::type, "RNG state must be a contiguous torch.ByteTensor");
  const uint8_t* data = t.data_ptr<uint8_t>();
  return {data, data + t.int_numel()};
}
uint64_t seed_of(nb::handle seed) {
  if (PyLong_Check(seed.ptr())) return static_cast<uint64_t>(long_value(seed.ptr()));
  return static_cast<uint64_t>(int_of(seed.ptr(), "the seed").guard_int());
}

void bind_generator(nb::module_& m) {
  auto c = nb::class_<Generator>(m, "Generator",
                                 "A random number generator: PyTorch's CPU engine, and its numbers.")
               .def(
                   "__init__", [](Generator* self, nb::object) { new (self) Generator(); },
                   nb::arg("device") = nb::none())
               .def("manual_seed",
                    [](nb::object self, nb::handle seed) {
                      nb::inst_ptr<Generator>(self)->manual_seed(seed_of(seed));
                      return self;
                    })
               .def("initial_seed", &Generator::initial_seed)
               .def("get_state", [](const Generator& g) { return bytes_tensor(g.state()); })
               .def("set_state",
                    [](nb::object self, nb::handle state) {
                      nb::inst_ptr<Generator>(self)->set_state(tensor_bytes(state));
                      return self;
                    })
               .def_prop_ro("device", [](const Generator&) { return object_from(kCPU); });
  types.generator = reinterpret_cast<PyTypeObject*>(c.ptr());
  m.def("_default_generator", [] { return nb::cast(Generator(default_generator())); });
  m.def("get_rng_state", [] { return bytes_tensor(default_generator().state()); });
  m.def(
      "set_rng_state", [](nb::handle state) { default_generator().set_state(tensor_bytes(state)); },
      nb::arg("new_state"));
  m.def("initial_seed", [] { return default_generator().initial_seed(); });
}

SymInt other_int(nb::handle o) { return int_of(o.ptr(), "the other side of a symbolic int"); }

void bind_sym_int(nb::module_& m) {
  auto c =
      nb::class_<SymInt>(m, "SymInt", "A size that stands for many: comparing it writes a guard.")
          .def("__repr__", &SymInt::str)
          .def("__int__", [](SymInt a) { return a.guard_int(); })
          .def("__index__", [](SymInt a) { return a.guard_int(); })
          .def("__bool__", [](SymInt a) { return a != SymInt(0); })
          .def("__hash__", [](SymInt a) { return a.bits(); })
          .def("__add__", [](SymInt a, nb::handle b) { return object_from(a + other_int(b)); })
          .def("__radd__", [](SymInt a, nb::handle b) { return object_from(other_int(b) + a); })
          .def("__sub__", [](SymInt a, nb::handle b) { return object_from(a - other_int(b)); })
          .def("__rsub__", [](SymInt a, nb::handle b) { return object_from(other_int(b) - a); })
          .def("__mul__", [](SymInt a, nb::handle b) { return object_from(a * other_int(b)); })
          .def("__rmul__", [](SymInt a, nb::handle b) { return object_from(other_int(b) * a); })
          .def("__floordiv__", [](SymInt a, nb::handle b) { return object_from(floor_div(a, other_int(b))); })
          .def("__rfloordiv__",
               [](SymInt a, nb::handle b) { return object_from(floor_div(other_int(b), a)); })
          .def("__mod__", [](SymInt a, nb::handle b) { return object_from(mod(a, other_int(b))); })
          .def("__rmod__", [](SymInt a, nb::handle b) { return object_from(mod(other_int(b), a)); })
          .def("__neg__", [](SymInt a) { return object_from(-a); })
          .def("__eq__", [](SymInt a, nb::handle b) { return a == other_int(b); })
          .def("__ne__", [](SymInt a, nb::handle b) { return a != other_int(b); })
          .def("__lt__", [](SymInt a, nb::handle b) { return a < other_int(b); })
          .def("__le__", [](SymInt a, nb::handle b) { return a <= other_int(b); })
          .def("__gt__", [](SymInt a, nb::handle b) { return a > other_int(b); })
          .def("__ge__", [](SymInt a, nb::handle b) { return a >= other_int(b); });
  types.sym_int = reinterpret_cast<PyTypeObject*>(c.ptr());
}

}  // namespace

void bind_types(nb::module_& m) {
  bind_dtypes(m);
  bind_script_objects(m);
  bind_devices(m);
  bind_generator(m);
  bind_sym_int(m);
}

}  // namespace tern::python
