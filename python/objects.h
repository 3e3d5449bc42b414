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
  PyTypeObject* type = Py_TYPE(o);
  if (type == types.tensor || type == types.parameter) return true;
  if (type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type || type == &PyList_Type ||
      type == &PyTuple_Type)
    return false;
  return PyType_IsSubtype(type, types.tensor);
}
inline const Tensor& tensor_of(PyObject* o) { return reinterpret_cast<TensorObject*>(o)->tensor; }

// A new reference to the one Python object of this tensor; None for an undefined one.
PyObject* wrap(const Tensor& t);
PyObject* wrap(Tensor&& t);
nb::object object_from(const Tensor& t);
nb::object object_from(SymInt v);
nb::object object_from(const Value& v);
nb::object object_from(const Scalar& v);
nb::object object_from(DType t);  // the one object of each dtype: `is` works
nb::object object_from(Device d);
nb::object size_object(const Tensor& t);  // tern.Size

// Numbers and sizes out of Python. The `maybe` forms answer false where the object is something else.
bool is_number(PyObject* o);  // int, float, bool, complex, SymInt and NumPy's scalars
bool is_numpy_scalar(PyObject* o);
bool is_array(nb::handle o);  // numpy.ndarray
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

PyObject* linear_algebra_error();  // the class tern._LinAlgError
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

// The name of an operator as a template argument: what is looked up by it is looked up once.
struct Name {
  char text[40] = {};
  template <size_t N>
  constexpr Name(const char (&s)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = s[i];
  }
};

// An operator with what Python calls need at once: its defaults as Args and the class of its named results.
struct Overload {
  const Op* op;
  const Schema* schema;
  std::vector<Arg> defaults;
  std::vector<bool> has_default;
  std::vector<PyObject*> names;  // of the arguments, interned: a keyword is nearly always this very object
  size_t required = 0;           // arguments without a default
  std::list<Value> kept_values;
  std::list<Dims> kept_ints;
  std::list<std::vector<double>> kept_floats;
  std::list<std::unique_ptr<bool[]>> kept_bools;
  size_t positional = 0;  // arguments before the first keyword-only one
  int varargs = -1;       // the list that may be spelled out: view(2, 3)
  int out = -1;           // the first out= argument; -1 if there is none
  int outs = 0;
  bool numbers_as_tensors = false;
  bool writes_first = false;         // in place
  bool factory = false;              // takes requires_grad= although the schema does not say so
  PyObject* result_class = nullptr;  // a namedtuple

  explicit Overload(const Op& op);
};
const Overload& overload_of(const Op& op);  // made once

// The Args of one call, and what they borrow from: lists, numbers as tensors. Most calls fit in place; the
// rest goes to the heap.
class Room {
 public:
  SmallVector<Arg, 16> args;
  bool requires_grad = false;
  int beyond_int64 = -1;  // the argument that is a number of the upper half of uint64

  Room() = default;
  Room(const Room&) = delete;
  ~Room() { clear(); }
  void clear() {
    if (owned_ || blocks_) release();
    used_ = 0;
    requires_grad = false;
    beyond_int64 = -1;
  }

  // n default values that live as long as the room does.
  template <class T>
  T* make(size_t n) {
    static_assert(alignof(T) <= 16);
    if constexpr (std::is_trivially_destructible_v<T>) {
      T* items = static_cast<T*>(take(n * sizeof(T)));
      for (size_t i = 0; i < n; ++i) ::new (static_cast<void*>(items + i)) T();
      return items;
    } else {
      auto* owned = static_cast<Owned*>(take(sizeof(Owned) + n * sizeof(T)));
      T* items = reinterpret_cast<T*>(owned + 1);
      for (size_t i = 0; i < n; ++i) ::new (static_cast<void*>(items + i)) T();
      *owned = {owned_, n, [](void* first, size_t count) {
                  for (size_t i = 0; i < count; ++i) static_cast<T*>(first)[i].~T();
                }};
      owned_ = owned;
      return items;
    }
  }

 private:
  struct alignas(16) Owned {  // what follows it must be destroyed
    Owned* next;
    size_t count;
    void (*destroy)(void*, size_t);
  };
  struct alignas(16) Block {
    Block* next;
  };
  void* take(size_t bytes) {
    bytes = (bytes + 15) & ~size_t{15};
    if (used_ + bytes > sizeof place_) return take_block(bytes);
    void* at = place_ + used_;
    used_ += bytes;
    return at;
  }
  void* take_block(size_t bytes);
  void release();

  Owned* owned_ = nullptr;
  Block* blocks_ = nullptr;
  size_t used_ = 0;
  alignas(16) unsigned char place_[384];
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
PyObject* run(const Overload& overload, Room& room);
void check_may_change(const Tensor& t);  // throws for an inference tensor in normal mode

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
Tensor from_data(PyObject* data, DType dtype);      // tern.tensor: nested sequences, numbers, arrays
void check_fits(const Scalar& value, DType dtype);  // throws for a number that the dtype cannot hold

}  // namespace tern::python
