// Model files in Python: tern.load("net.pt2") gives something to call; tern.save writes any format.
#include <nanobind/stl/string.h>

#include "objects.h"
#include "tern/export/module.h"
#include "tern/jit/archive.h"
#include "tern/runtime/model_file.h"
#include "tern/runtime/session.h"

namespace tern::python {
namespace {

// A loaded model. Called, it runs on the program's own state, gradients included; `session` runs it on a
// backend.
class Model {
 public:
  explicit Model(ExportedProgram program) : program_(std::move(program)), module_(program_.module()) {}

  nb::object call(nb::args args, nb::kwargs kwargs) const {
    std::vector<Value> positional;
    for (nb::handle a : args) positional.push_back(value_from(a.ptr()));
    Keywords keywords;
    for (auto [name, value] : kwargs)
      keywords.emplace_back(nb::cast<std::string>(name), value_from(value.ptr()));
    return object_from(module_.call(positional, keywords));
  }
  nb::object run(nb::args args, const std::string& backend) const {
    std::vector<Value> inputs;
    for (nb::handle a : args) inputs.push_back(value_from(a.ptr()));
    return object_from(Value::tuple(Session(program_, {.backend = backend}).run(inputs)));
  }
  nb::dict state_dict() const {
    nb::dict state;
    for (const auto& [name, t] : program_.state_dict()) state[name.c_str()] = object_from(t);
    return state;
  }
  const ExportedProgram& program() const { return program_; }

 private:
  ExportedProgram program_;
  ExportedModule module_;
};

// Objects of unknown classes have no Python object here: their names stand for them.
Value named(const Value& v) {
  if (const std::string* name = jit::opaque_class(v)) return Value("<" + *name + ">");
  if (v.is_dict()) {
    std::vector<std::pair<Value, Value>> entries;
    for (const auto& [k, item] : v.entries()) entries.emplace_back(k, named(item));
    return Value::dict(std::move(entries));
  }
  if (!v.is_list() && !v.is_tuple()) return v;
  std::vector<Value> items;
  for (const Value& item : v.items()) items.push_back(named(item));
  return v.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

}  // namespace

void bind_models(nb::module_& m) {
  nb::class_<Model>(m, "Model")
      .def("__call__", &Model::call)
      .def("run", &Model::run, nb::arg("args"), nb::arg("backend") = "native")
      .def("state_dict", &Model::state_dict)
      .def_prop_ro("code", [](const Model& model) { return model.program().code(); })
      .def("__repr__", [](const Model& model) { return model.program().str(); });
  nb::dict readers, writers;
  // A checkpoint of torch.save is what it holds: dicts of tensors.
  nb::object reader = nb::cpp_function([](const std::string& path) -> nb::object {
    if (format_of_file(path) == ModelFormat::checkpoint)
      return object_from(named(jit::load_checkpoint(path)));
    return nb::cast(Model(load_model(path)));
  });
  nb::object writer = nb::cpp_function(
      [](const Model& model, const std::string& path) { save_model(model.program(), path); });
  for (const char* extension : {".pt2", ".pt", ".onnx"}) {
    readers[extension] = reader;
    writers[extension] = writer;
  }
  for (const char* extension : {".pth", ".ckpt", ".bin"}) readers[extension] = reader;
  m.attr("_readers") = readers;
  m.attr("_writers") = writers;
}

}  // namespace tern::python
