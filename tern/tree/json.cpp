// Specs as JSON: protocol 1 of torch.utils._pytree. The context of a node is a string that itself holds JSON,
// except a defaultdict's, which is an object, and a namedtuple's, which is the bare name of its class.
#include "tern/io/json.h"

#include "tern/base/format.h"
#include "tern/tree/tree.h"
#include "tern/tree/types.h"

namespace tern::tree {
namespace {

constexpr io::JsonStyle python_style{.nonfinite_as_strings = false};

void write_value(io::JsonWriter& w, const Value& v) {
  switch (v.kind()) {
    case ValueKind::none:
      return w.null();
    case ValueKind::int_:
      return w.value(v.to_int());
    case ValueKind::bool_:
      return w.value(v.to_bool());
    case ValueKind::float_:
      return w.value(v.to_double());
    case ValueKind::string:
      return w.value(v.string());
    case ValueKind::list:
    case ValueKind::tuple:
      w.begin_array();
      for (const Value& item : v.items()) write_value(w, item);
      return w.end_array();
    case ValueKind::dict:
      w.begin_object();
      for (auto& [key, item] : v.entries()) {
        w.key(key.string());
        write_value(w, item);
      }
      return w.end_object();
    default:
      failf(ErrorKind::type,
            "tree::to_json: Object of type {} is not JSON serializable: only numbers, strings, None "
            "and containers of them can be keys of a dict or context of a node",
            v.kind_name());
  }
}

Value read_value(io::Json j) {
  switch (j.kind()) {
    case io::JsonKind::null:
      return {};
    case io::JsonKind::boolean:
      return j.as_bool();
    case io::JsonKind::integer:
      return j.as_int();
    case io::JsonKind::real:
      return j.as_double();
    case io::JsonKind::string:
      return j.as_string();
    case io::JsonKind::array: {
      std::vector<Value> items;
      for (io::Json item : j) items.push_back(read_value(item));
      return Value::list(std::move(items));
    }
    case io::JsonKind::object: {
      std::vector<std::pair<Value, Value>> entries;
      for (size_t i = 0; i < j.size(); ++i) entries.emplace_back(j.key(i), read_value(j.value(i)));
      return Value::dict(std::move(entries));
    }
  }
  return {};
}

std::string context_json(const Value& context) {
  io::JsonWriter w(python_style);
  write_value(w, context);
  return w.take();
}

// A type nobody knows whose context is kept as the text it was.
bool keeps_text(const Spec& spec) { return spec.context().is_string(); }

void write_spec(io::JsonWriter& w, const Spec& spec) {
  w.begin_object();
  w.key("type");
  spec.is_leaf() ? w.null() : w.value(spec.type());
  w.key("context");
  if (spec.is_leaf()) {
    w.null();
  } else if (spec.type() == types::default_dict) {
    const Value& factory = spec.context().items()[0];
    w.begin_object();
    if (factory.is_none()) {
      w.key("default_factory_module");
      w.null();
      w.key("default_factory_name");
      w.null();
    } else {
      const std::string& name = factory.string();
      size_t dot = name.rfind('.');
      w.member("default_factory_module", dot == std::string::npos ? "builtins" : name.substr(0, dot));
      w.member("default_factory_name", dot == std::string::npos ? name : name.substr(dot + 1));
    }
    w.key("dict_context");
    write_value(w, spec.context().items()[1]);
    w.end_object();
  } else if (spec.type() == types::named_tuple || keeps_text(spec)) {
    w.value(spec.context().string());
  } else if (spec.context().is_dict()) {
    write_value(w, spec.context());
  } else {
    w.value(context_json(spec.context()));
  }
  w.key("children_spec");
  w.begin_array();
  for (const Spec& child : spec.children()) write_spec(w, child);
  w.end_array();
  w.end_object();
}

// [["a", "b"], ["c"]]: the context of a registered dataclass, with as many names as children.
bool is_struct_context(const Value& v, size_t children) {
  if (!v.is_list() || v.items().size() != 2) return false;
  for (const Value& names : v.items()) {
    if (!names.is_list()) return false;
    for (const Value& name : names.items())
      if (!name.is_string()) return false;
  }
  return v.items()[0].items().size() == children;
}

void check_keys(io::Json where, const Value& keys, size_t children) {
  if (!keys.is_list()) where.fail_here("expected a list of keys");
  if (keys.items().size() != children)
    where.fail_here(fmt::format("{} keys for {} children", keys.items().size(), children));
}

Spec read_spec(io::Json j) {
  if (!j.is_object()) j.fail_here("expected a spec: an object with type, context and children_spec");
  io::Json type_json = j["type"], context_json = j["context"], children_json = j["children_spec"];
  std::vector<Spec> children;
  for (io::Json child : children_json) children.push_back(read_spec(child));
  if (type_json.is_null()) {
    if (!children.empty()) j.fail_here("a leaf has children");
    return {};
  }
  std::string type(type_json.as_string());
  if (type == types::named_tuple) {
    std::string_view name = context_json.as_string();
    std::vector<std::string> fields = named_tuple_fields(name);
    if (!fields.empty() && fields.size() != children.size())
      context_json.fail_here(
          fmt::format("the namedtuple {} is registered with {} fields, the spec has {} children", name,
                      fields.size(), children.size()));
    return Spec(std::move(type), name, std::move(children), std::move(fields));
  }
  if (type == types::default_dict) {
    io::Json module = context_json["default_factory_module"], name = context_json["default_factory_name"];
    Value factory = name.is_null()
                        ? Value()
                        : Value(fmt::format("{}.{}", module.is_null() ? "builtins" : module.as_string(),
                                            name.as_string()));
    Value keys = read_value(context_json["dict_context"]);
    check_keys(context_json, keys, children.size());
    return Spec(std::move(type), Value::list({factory, keys}), std::move(children));
  }
  if (!context_json.is_string()) return Spec(std::move(type), read_value(context_json), std::move(children));

  bool known = type == types::tuple || type == types::list || type == types::dict ||
               type == types::ordered_dict || type == types::deque;
  Value context;
  try {
    context = read_value(io::parse_json(context_json.as_string(), "context")->root());
  } catch (const Error& e) {
    if (known) context_json.fail_here(e.message());
    context = context_json.as_string();  // somebody's own text
  }
  std::vector<std::string> fields;
  if (type == types::dict || type == types::ordered_dict) {
    check_keys(context_json, context, children.size());
  } else if (!known && is_struct_context(context, children.size())) {
    for (const Value& name : context.items()[0].items()) fields.push_back(name.string());
  } else if (!known) {
    context = context_json.as_string();
  }
  return Spec(std::move(type), std::move(context), std::move(children), std::move(fields));
}

}  // namespace

std::string to_json(const Spec& spec) {
  io::JsonWriter w(python_style);
  w.begin_array();
  w.value(1);
  write_spec(w, spec);
  w.end_array();
  return w.take();
}

Spec from_json(std::string_view text) {
  auto doc = io::parse_json(text, "treespec");
  io::Json root = doc->root();
  if (!root.is_array() || root.size() != 2) root.fail_here("expected [protocol, spec]");
  if (root[0].as_int() != 1)
    root.fail_here(fmt::format("Unknown protocol {}. Available protocols: [1]", root[0].as_int()));
  return read_spec(root[1]);
}

}  // namespace tern::tree
