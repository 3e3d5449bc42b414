// What the files of the Python door share: Python's Tensor, and the ways between Python objects and Tern's
// values.
#pragma once
#include <nanobind/nanobind.h>

#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/op.h"

namespace tern::python {

namespace nb = nanobind;

// Python's Tensor: a handle that never changes while the object lives, so that kernels may borrow it without
// the GIL.
struct TensorObject {
  PyObject_HEAD Tensor tensor;
  PyObject* dict;
  PyObject* weak_references;
};

// The enumerations as Python objects.
struct DTypeObject {
  DType value;
};
struct LayoutObject {
  Layout value;
};
struct MemoryFormatObject {
  MemoryFormat value;
};

struct Types {
  PyTypeObject* tensor = nullptr;
  PyTypeObject* parameter = nullptr;  // the Python class of tensors whose body is a parameter
  PyTypeObject* size = nullptr;
  PyTypeObject* dtype = nullptr;
  PyTypeObject* device = nullptr;
  PyTypeObject* layout = nullptr;
  PyTypeObject* memory_format = nullptr;
  PyTypeObject* generator = nullptr;
  PyTypeObject* sym_int = nullptr;
  PyTypeObject* script_object = nullptr;
};
// An object of a class of PyTorch's that Tern has (tensor/value.h: NativeObject).
struct ScriptObject {
  Value value;
};
extern Types types;

inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == types.tensor || Py_TYPE(o) == types.parameter ||
         PyType_IsSubtype(Py_TYPE(o), types.tensor);
}
inline const Tensor& tensor_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o)->tensor; }

// A new reference to the one Python object of this tensor; None for an undefined one.
PyObject* wrap(const Tensor& t);
nb::object object_from(const Tensor& t);
nb::object object_from(SymInt v);
nb::object object_from(const Value& v);
nb::object object_from(const Scalar& v);
nb::object object_from(DType t);  // the one object of each dtype: `is` works
nb::object object_from(Device d);
nb::object size_object(const Tensor& t);  // tern.Size

// Numbers and sizes out of Python. The `maybe` forms answer false where the object is something else.
bool is_number(PyObject* o);  // int, float, bool, complex, SymInt and NumPy's scalars
bool maybe_int(PyObject* o, bool loose, SymInt& value);
bool maybe_scalar(PyObject* o, Scalar& value);
bool maybe_dtype(PyObject* o, DType& value);
Scalar scalar_of(PyObject* o);
SymInt int_of(PyObject* o, const char* what);
DType dtype_of_object(PyObject* o);
Device device_of_object(PyObject* o);
Value value_from(PyObject* o);
Dims dims_from(PyObject* o, const char* what);
std::string type_name(PyObject* o);

// The Python exception for what is being thrown; call inside a catch block.
void set_python_error() noexcept;
template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// A reference that may be dropped by any thread.
std::shared_ptr<PyObject> shared_reference(PyObject* borrowed);

// Without the GIL for a scope, when the work is worth it.
class Released {
 public:
  explicit Released(bool wanted) : state_(wanted ? PyEval_SaveThread() : nullptr) {}
  ~Released() {
    if (state_) PyEval_RestoreThread(state_);
  }
  Released(const Released&) = delete;

 private:
  PyThreadState* state_;
};

// ---- operators (op.cpp, arguments.cpp) ----

// An operator with what Python calls need at once: its defaults as Args and the class of its named results.
struct Overload {
  const Op* op;
  const Schema* schema;
  std::vector<Arg> defaults;
  std::vector<bool> has_default;
  std::list<Value> kept_values;
  std::list<Dims> kept_ints;
  std::list<std::vector<double>> kept_floats;
  std::list<std::unique_ptr<bool[]>> kept_bools;
  size_t positional = 0;  // arguments before the first keyword-only one
  int varargs = -1;       // the list that may be spelled out: view(2, 3)
  int out = -1;           // the first out= argument; -1 if there is none
  int outs = 0;
  bool numbers_as_tensors = false;
  bool factory = false;              // takes requires_grad= although the schema does not say so
  PyObject* result_class = nullptr;  // a namedtuple

  explicit Overload(const Op& op);
};
const Overload& overload_of(const Op& op);  // made once

// What the Args of one call borrow from.
struct Room {
  SmallVector<Arg, 16> args;
  std::list<Tensor> tensors;
  std::list<std::vector<Tensor>> tensor_lists;
  std::list<Dims> int_lists;
  std::list<std::vector<double>> float_lists;
  std::list<std::unique_ptr<bool[]>> bool_lists;
  std::list<std::vector<Scalar>> scalar_lists;
  std::list<std::vector<std::string_view>> string_lists;
  std::list<std::complex<double>> complexes;
  std::list<Value> values;
  bool requires_grad = false;
};

// Binds a Python call to a schema. `loose` also takes numbers for tensors and one-element tensors for
// numbers. False when it does not fit; then `why`, when asked for, says what is wrong.
bool bind(const Overload& overload, PyObject* const* args, size_t nargs, PyObject* names, bool loose,
          Room& room, std::string* why);

// Chooses among the overloads of "aten::add" as PyTorch does, and calls. A new reference, or nullptr with the
// exception set.
struct Packet {
  Symbol name;
  std::vector<const Overload*> overloads;  // out= variants last
};
const Packet* find_packet(std::string_view qualified);  // nullptr if Tern has no such operator
PyObject* call_packet(const Packet& packet, PyObject* const* args, size_t nargs, PyObject* names) noexcept;
PyObject* call_named(const char* name, std::initializer_list<PyObject*> args) noexcept;  // "aten::add"
PyObject* run(const Overload& overload, Room& room);

// ---- the parts of the module, each in its file ----
void bind_types(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_operators(nb::module_& m);
void bind_models(nb::module_& m);
void bind_shapes(nb::module_& m);
void bind_arrays(nb::module_& m);
void bind_autograd(nb::module_& m);
PyObject* get_item(PyObject* self, PyObject* index) noexcept;
int set_item(PyObject* self, PyObject* index, PyObject* value) noexcept;
nb::object to_numpy(const Tensor& t);
nb::object to_list(const Tensor& t);
nb::object to_dlpack(const Tensor& t, bool versioned, bool copied);
Tensor from_data(PyObject* data, DType dtype);  // tern.tensor: nested sequences, numbers, arrays

}  // namespace tern::python
