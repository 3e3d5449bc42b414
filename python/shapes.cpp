// Fake tensors and symbolic sizes in Python: what an operator does to shapes, without data.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/objects.h"
#include "tern/base/format.h"
#include "tern/sym/shape_env.h"

namespace tern::python {
namespace {

using Bindings = std::vector<std::pair<SymInt, int64_t>>;

SymValues values_of(const Bindings& bindings) {
  SymValues values;
  for (auto& [symbol, value] : bindings) {
    if (!symbol.is_symbolic())
      failf(ErrorKind::type, "a value is given to a symbol, not to the number {}", symbol.as_int());
    values.set(symbol, value);
  }
  return values;
}

// Whether every guard and assertion written so far holds for these values.
bool holds(ShapeEnv& env, const Bindings& bindings) {
  SymValues values = values_of(bindings);
  for (const Guard& g : env.guards())
    if (SymInt c = g.condition.as_expr(); c.is_symbolic() ? !env.evaluate(c, values) : c.as_int() == 0)
      return false;
  for (const RuntimeAssert& a : env.runtime_asserts())
    if (SymInt c = a.condition.as_expr(); c.is_symbolic() ? !env.evaluate(c, values) : c.as_int() == 0)
      return false;
  return true;
}

nb::list guard_texts(const ShapeEnv& env) {
  nb::list texts;
  for (const Guard& g : env.guards()) texts.append(nb::str(g.text.c_str()));
  return texts;
}

Tensor fake_tensor(nb::handle size, nb::handle stride, nb::handle dtype) {
  Dims sizes = dims_from(size.ptr(), "size");
  DType type = dtype.is_none() ? kFloat : dtype_of_object(dtype.ptr());
  if (stride.is_none()) return make_tensor(sizes, type, kCPU, true);
  Dims strides = dims_from(stride.ptr(), "stride");
  if (strides.size() != sizes.size())
    failf("a tensor of {} dimensions has as many strides, not {}", sizes.size(), strides.size());
  return make_tensor(sizes, strides, type, kCPU, true);
}

// Everything is fake inside of `with`: also what factories make.
struct FakeMode {
  bool before = false;
  void enter() {
    before = thread_state.active & rung_fake;
    thread_state.active |= rung_fake;
  }
  void exit() {
    if (!before) thread_state.active &= static_cast<uint8_t>(~rung_fake);
  }
};

}  // namespace

void bind_shapes(nb::module_& m) {
  nb::class_<ShapeEnv>(m, "ShapeEnv")
      .def(nb::init<>())
      .def(
          "symbol",
          [](ShapeEnv& env, int64_t hint, const std::string& source) {
            return object_from(env.create_symbol(hint, source, {.duck = false}, Loc{}));
          },
          nb::arg("hint"), nb::arg("source") = "")
      .def("evaluate",
           [](ShapeEnv& env, nb::handle value, const Bindings& bindings) {
             SymInt v = int_of(value.ptr(), "value");
             return v.is_int() ? v.as_int() : env.evaluate(v, values_of(bindings));
           })
      .def("holds", &holds)
      .def_prop_ro("guards", &guard_texts);
  nb::class_<FakeMode>(m, "FakeMode")
      .def(nb::init<>())
      .def("__enter__", &FakeMode::enter)
      .def("__exit__", [](FakeMode& mode, nb::args) { mode.exit(); });
  m.def(
      "fake_tensor",
      [](nb::handle size, nb::handle dtype, nb::handle stride) {
        return object_from(fake_tensor(size, stride, dtype));
      },
      nb::arg("size"), nb::arg("dtype") = nb::none(), nb::arg("stride") = nb::none());
}

}  // namespace tern::python
