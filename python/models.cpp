// Model files in Python: tern.load("net.pt2") gives something to call; tern.save writes any format.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <algorithm>
#include <iterator>

#include <unordered_map>

#include "objects.h"
#include "tern/export/module.h"
#include "tern/export/script.h"
#include "tern/ir/text.h"
#include "tern/jit/archive.h"
#include "tern/runtime/model_file.h"
#include "tern/runtime/session.h"

namespace tern::python {
namespace {

// The Python class of a NamedTuple: one for each type, kept for good as types are.
nb::handle class_of(const ir::Type* type) {
  static std::unordered_map<const ir::Type*, PyObject*> classes;
  PyObject*& made = classes[type];
  if (!made) {
    std::string_view name = type->name().view();
    nb::list fields;
    for (Symbol f : type->fields()) fields.append(nb::cast(f.str()));
    made = nb::module_::import_("collections")
               .attr("namedtuple")(nb::cast(std::string(name.substr(name.rfind('.') + 1))), fields)
               .release()
               .ptr();
  }
  return made;
}

bool may_have_names(const ir::Type* type) {
  if (type->is(ir::TypeKind::tuple) && !type->fields().empty()) return true;
  for (const ir::Type* e : type->elements())
    if (may_have_names(e)) return true;
  return false;
}

// What a script gives, its tuples with the names that their types have.
nb::object with_names(nb::object given, const ir::Type* type) {
  if (!type || given.is_none()) return given;
  switch (type->kind()) {
    case ir::TypeKind::optional:
      return with_names(given, type->element());
    case ir::TypeKind::list: {
      if (!may_have_names(type->element()) || !nb::isinstance<nb::list>(given)) return given;
      nb::list items = nb::cast<nb::list>(given);
      for (size_t i = 0; i < items.size(); ++i) items[i] = with_names(items[i], type->element());
      return given;
    }
    case ir::TypeKind::dict: {
      if (!may_have_names(type->element(1)) || !nb::isinstance<nb::dict>(given)) return given;
      nb::dict all = nb::cast<nb::dict>(given);
      for (nb::handle key : all.keys()) all[key] = with_names(all[key], type->element(1));
      return given;
    }
    case ir::TypeKind::tuple: {
      if (!may_have_names(type) || !nb::isinstance<nb::tuple>(given)) return given;
      nb::list items;
      for (size_t i = 0; i < type->elements().size(); ++i)
        items.append(with_names(given[i], type->element(i)));
      return type->fields().empty() ? nb::object(nb::tuple(items)) : class_of(type)(*items);
    }
    default:
      return given;
  }
}

// A loaded model. Called, it runs on its own state, gradients included; `run` runs it on a backend. A .pt is
// a script: it is called as one, with its defaults and containers, and becomes a program where one is needed.
class Model {
 public:
  explicit Model(ExportedProgram program) : program_(std::move(program)), module_(program_->module()) {}
  explicit Model(jit::ScriptModule script) : script_(std::move(script)) {}

  static Model load(const std::string& path) {
    return format_of_file(path) == ModelFormat::pt ? Model(jit::load(path)) : Model(load_model(path));
  }

  nb::object call(nb::args args, nb::kwargs kwargs) const {
    if (script_) return call_method(*script_, "forward", args, kwargs);
    Keywords keywords;
    for (auto [name, value] : kwargs)
      keywords.emplace_back(nb::cast<std::string>(name), value_from(value.ptr()));
    return object_from(module_->call(values_from(args), keywords));
  }
  // What a script has: its methods, submodules, parameters, buffers and other attributes.
  nb::object attribute(const std::string& name) const {
    if (script_ && script_->has_method(name))
      return nb::cpp_function([script = *script_, name](nb::args args, nb::kwargs kwargs) {
        return call_method(script, name, args, kwargs);
      });
    if (script_ && script_->has_attr(name)) {
      for (const auto& [child, module] : script_->named_children())
        if (child == name) return nb::cast(Model(module));
      return object_from(script_->attr(name));
    }
    throw nb::attribute_error(("the model has no attribute '" + name + "'").c_str());
  }
  std::vector<std::string> methods() const {
    return script_ ? script_->methods() : std::vector<std::string>{"forward"};
  }
  nb::object run(nb::args args, const std::string& backend) const {
    std::vector<Value> inputs = values_from(args);
    return object_from(
        Value::tuple(script_ ? run_script(inputs, backend) : run_program(program(), inputs, backend)));
  }
  nb::dict state_dict() const { return dict_of(script_ ? script_->state_dict() : program_->state_dict()); }
  nb::dict named_parameters() const {
    return dict_of(script_ ? script_->named_parameters() : module_->named_parameters());
  }
  nb::dict named_buffers() const {
    return dict_of(script_ ? script_->named_buffers() : module_->named_buffers());
  }
  nb::list parameters() const { return nb::list(named_parameters().values()); }
  void load_state_dict(const nb::dict& state, bool strict) const {
    jit::NamedTensors tensors;
    for (auto [name, t] : state)
      tensors.emplace_back(nb::cast<std::string>(name), value_from(t.ptr()).tensor());
    if (script_) return script_->load_state_dict(tensors, strict);
    module_->load_state_dict(tensors, strict);
  }
  nb::object train(nb::object self, bool on) const {
    if (script_)
      script_->train(on);
    else
      module_->train(on);
    return self;
  }
  bool training() const { return script_ ? script_->is_training() : module_->training(); }
  std::string graph() const { return script_ ? ir::torch_text(script_->graph()) : program_->graph().str(); }
  std::string code() const { return script_ ? script_->code() : program_->code(); }
  std::string str() const { return script_ ? script_->code() : program_->str(); }
  // Core ATen, as PyTorch's call of this name gives it.
  Model run_decompositions() const {
    if (!script_) return Model(program_->run_decompositions(Dialect::core));
    program();  // says why there is none
    std::vector<Value> examples = script_->traced_inputs("forward");
    if (examples.empty())
      fail(ErrorKind::not_supported,
           "run_decompositions: the sizes of a script's inputs are not known; make a program of it first: "
           "tern convert model.pt model.pt2 --shapes x:1x3x224x224");
    return Model(from_script(*script_, examples).run_decompositions(Dialect::core));
  }
  void save(const std::string& path) const {
    if (script_ && format_of_name(path) == ModelFormat::pt) return script_->save(path);
    save_model(program(), path);
  }

 private:
  // Of a script: throws where no program can say what it does, such as assigning its attributes.
  const ExportedProgram& program() const {
    if (!program_) program_ = from_script(*script_);
    return *program_;
  }
  static std::vector<Value> run_program(const ExportedProgram& program, const std::vector<Value>& inputs,
                                        const std::string& backend) {
    return Session(program, {.backend = backend}).run(inputs);
  }
  std::vector<Value> run_script(const std::vector<Value>& inputs, const std::string& backend) const {
    if (backend == "onnxrt") return run_program(from_script(*script_, inputs), inputs, backend);
    if (backend == "native" && inputs.size() + 1 == script_->arguments("forward").size()) try {
        return run_program(program(), inputs, backend);
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::not_supported) throw;
      }
    if (!gradients_) gradients_ = asks_for_gradients(*script_->whole_graph());
    GradMode mode(*gradients_);
    std::vector<Value> leaves = tree::flatten(script_->call("forward", inputs)).leaves;
    for (Value& leaf : leaves)
      if (*gradients_ && leaf.is_tensor()) leaf = Value(leaf.tensor().detach());
    return leaves;
  }
  static nb::object call_method(const jit::ScriptModule& script, const std::string& method,
                                const nb::args& args, const nb::kwargs& kwargs) {
    jit::Keywords keywords;
    for (auto [name, value] : kwargs)
      keywords.emplace_back(Symbol(nb::cast<std::string>(name)), value_from(value.ptr()));
    return with_names(object_from(script.call(method, values_from(args), keywords)), script.returns(method));
  }
  template <class Named>
  static nb::dict dict_of(const Named& tensors) {
    nb::dict all;
    for (const auto& [name, t] : tensors) all[name.c_str()] = object_from(t);
    return all;
  }
  static std::vector<Value> values_from(const nb::args& args) {
    std::vector<Value> values;
    for (nb::handle a : args) values.push_back(value_from(a.ptr()));
    return values;
  }

  mutable std::optional<bool> gradients_;           // whether a script asks for some
  mutable std::optional<ExportedProgram> program_;  // of a script: made when it is asked for
  std::optional<ExportedModule> module_;
  std::optional<jit::ScriptModule> script_;
};

nb::object in_python(const Value& v);

// A kind that Python has and a Value has not.
nb::object of_kind(const jit::PythonKind& k) {
  const std::string& kind = k.kind;
  auto module = [](const char* name) { return nb::module_::import_(name); };
  if (kind == "dtype") return object_from(static_cast<DType>(k.value.to_int()));
  if (kind == "layout") return module("tern").attr("strided");
  if (kind == "Size") return module("tern").attr("Size")(in_python(k.value));
  if (kind == "int") return module("builtins").attr("int")(k.value.string());
  if (kind == "bytes" || kind == "bytearray") {
    nb::bytes bytes(k.value.string().data(), k.value.string().size());
    return kind == "bytes" ? nb::object(bytes) : nb::object(module("builtins").attr("bytearray")(bytes));
  }
  nb::object inner = in_python(k.value);
  if (kind == "OrderedDict" || kind == "Counter") return module("collections").attr(kind.c_str())(inner);
  if (kind.starts_with("defaultdict")) {
    // Only a factory that makes nothing but an empty value: a file says none that runs something.
    static constexpr std::string_view harmless[] = {"list",  "dict", "set",   "int",
                                                    "float", "str",  "tuple", "bool"};
    std::string factory = kind.size() > 12 ? kind.substr(12) : "";
    if (factory == "long") factory = "int";  // as protocol 2 calls them
    if (factory == "unicode") factory = "str";
    bool known = std::find(std::begin(harmless), std::end(harmless), factory) != std::end(harmless);
    return module("collections")
        .attr("defaultdict")(known ? nb::object(module("builtins").attr(factory.c_str())) : nb::none(),
                             inner);
  }
  return module("builtins").attr(kind.c_str())(inner);  // set, frozenset
}

// Objects of unknown classes have no Python object here: their names stand for them.
nb::object in_python(const Value& v) {
  if (const std::string* name = jit::opaque_class(v)) return nb::str(("<" + *name + ">").c_str());
  if (const jit::PythonKind* kind = jit::python_kind(v)) return of_kind(*kind);
  if (v.is_dict()) {
    nb::dict all;
    for (const auto& [k, item] : v.entries()) all[in_python(k)] = in_python(item);
    return all;
  }
  if (!v.is_list() && !v.is_tuple()) return object_from(v);
  nb::list items;
  for (const Value& item : v.items()) items.append(in_python(item));
  return v.is_list() ? nb::object(items) : nb::object(nb::tuple(items));
}

}  // namespace

void bind_models(nb::module_& m) {
  nb::class_<Model>(m, "Model")
      .def("__call__", &Model::call)
      .def("run", &Model::run, nb::arg("args"), nb::arg("backend") = "native")
      .def("run_decompositions", &Model::run_decompositions)
      .def("state_dict", &Model::state_dict)
      .def("load_state_dict", &Model::load_state_dict, nb::arg("state_dict"), nb::arg("strict") = true)
      .def("parameters", &Model::parameters)
      .def("named_parameters", [](const Model& m) { return m.named_parameters().items(); })
      .def("buffers", [](const Model& m) { return m.named_buffers().values(); })
      .def("named_buffers", [](const Model& m) { return m.named_buffers().items(); })
      .def(
          "train", [](nb::object self, bool mode) { return nb::cast<const Model&>(self).train(self, mode); },
          nb::arg("mode") = true)
      .def("eval", [](nb::object self) { return nb::cast<const Model&>(self).train(self, false); })
      .def("methods", &Model::methods)
      .def("__getattr__", &Model::attribute)
      .def_prop_ro("training", &Model::training)
      .def_prop_ro("graph", &Model::graph)
      .def_prop_ro("code", &Model::code)
      .def("__repr__", &Model::str);
  nb::dict readers, writers;
  // A checkpoint of torch.save is what it holds: dicts of tensors.
  nb::object reader = nb::cpp_function([](const std::string& path) -> nb::object {
    if (format_of_file(path) == ModelFormat::checkpoint)
      return in_python(jit::load_checkpoint(path, jit::Kinds::of_python));
    return nb::cast(Model::load(path));
  });
  nb::object writer = nb::cpp_function([](const Model& model, const std::string& path) { model.save(path); });
  for (const char* extension : {".pt2", ".pt", ".onnx"}) {
    readers[extension] = reader;
    writers[extension] = writer;
  }
  for (const char* extension : {".pth", ".ckpt", ".bin"}) readers[extension] = reader;
  m.attr("_readers") = readers;
  m.attr("_writers") = writers;
}

}  // namespace tern::python
