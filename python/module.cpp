// The extension module `tern._tern`: its parts in order. The package in python/tern gives them PyTorch's
// names.
#include "python/objects.h"

#include "tern/base/warning.h"

#ifndef TERN_VERSION
#define TERN_VERSION "0.1.0"
#endif

NB_MODULE(_tern, m) {
  using namespace tern::python;
  nb::set_leak_warnings(false);  // dtypes and operators live as long as the process
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const tern::Error&) {
      set_python_error();
    }
  });
  // As Python's own warnings: shown once a place, filtered, or raised, as the user has it.
  tern::set_default_warning([](const tern::Warning& warning) {
    nb::gil_scoped_acquire gil;
    PyObject* category =
        warning.category == "DeprecationWarning" ? PyExc_DeprecationWarning : PyExc_UserWarning;
    const std::string text =
        warning.category == "UserWarning" ? warning.text : warning.category + ": " + warning.text;
    if (PyErr_WarnEx(category, text.c_str(), 1) < 0) throw nb::python_error();
  });
  m.attr("_LinAlgError") = nb::borrow(linear_algebra_error());
  bind_types(m);
  bind_tensor(m);
  bind_arrays(m);
  bind_autograd(m);
  bind_operators(m);
  bind_models(m);
  bind_shapes(m);
}
