// What the evaluator of __init__ handles: TorchScript's values, modules, and Python's lists and dicts of
// them. Internal to this room.
#pragma once
#include "tern/base/pointer.h"
#include "tern/jit/script_module.h"
#include "tern/script/ast.h"

namespace tern::jit {

struct PythonList;
struct PythonDict;

struct PythonValue {
  enum Kind : uint8_t { plain, module, list, tuple, dict, name, bound, super } kind = plain;
  tern::Value value = {};           // plain
  Shared<ModuleTree> tree = {};     // module; bound and super: of self
  Shared<PythonList> items = {};    // list, tuple
  Shared<PythonDict> entries = {};  // dict
  std::string text = {};            // name: "torch.nn.Linear"; bound: the method
  Shared<PythonValue> owner = {};   // bound: what it is a method of

  PythonValue() = default;
  PythonValue(tern::Value v) : value(std::move(v)) {}
  static PythonValue of(Shared<ModuleTree> t) {
    PythonValue v;
    v.kind = module;
    v.tree = std::move(t);
    return v;
  }
  static PythonValue named(std::string n) {
    PythonValue v;
    v.kind = name;
    v.text = std::move(n);
    return v;
  }
  static PythonValue sequence(std::vector<PythonValue> items, Kind kind);
  bool is_none() const { return kind == plain && value.is_none(); }
};
struct PythonList {
  std::vector<PythonValue> items;
};
struct PythonDict {
  std::vector<std::pair<tern::Value, PythonValue>> entries;
};
inline PythonValue PythonValue::sequence(std::vector<PythonValue> items, Kind kind) {
  PythonValue v;
  v.kind = kind;
  v.items = new_shared<PythonList>(PythonList{std::move(items)});
  return v;
}

struct PythonArgs {
  std::vector<PythonValue> positional;
  std::vector<std::pair<std::string, PythonValue>> keywords;
};

// Whether it is a declaration only: @torch.jit._overload_method.
bool declares_overload(const script::Def& d);

// The classes and functions of one source file.
struct PythonFile {
  script::File file;
  const script::Class* find_class(std::string_view name) const;
  const script::Def* find_def(std::string_view name) const;
  bool is_module_class(const script::Class& c) const;  // nn.Module, directly or through others
  // The class and those it derives from, nearest first.
  std::vector<const script::Class*> line_of(const script::Class& c) const;
  std::string methods_text(const script::Class& c) const;  // without __init__, lines where they were
  std::string definitions_text() const;                    // all but module classes
  // The function among methods, on the lines where it was if these are free.
  void add_function(std::string& methods, const script::Def& d) const;
};

// As an attribute or argument; throws for what is not TorchScript's.
tern::Value to_value(const PythonValue& v, std::string_view what);

// Runs torch functions, methods of tensors, nn.init and Python's own functions.
PythonValue call_function(const std::string& name, PythonArgs& args);
PythonValue call_tensor_method(const Tensor& self, const std::string& name, PythonArgs& args);

}  // namespace tern::jit
