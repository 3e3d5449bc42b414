// The JSON of the .pt2 schema as an ExportedProgram.
#include <complex>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/export/assertions.h"
#include "tern/export/pt2_origin.h"
#include "tern/export/pt2_schema.h"
#include "tern/ir/higher_order.h"
#include "tern/sym/shape_env.h"

namespace tern::pt2 {
namespace {

using io::Json;

// The one member of a union that is not null.
struct Union {
  std::string_view key;
  Json value;
};
Union active(Json j) {
  if (!j.is_object()) j.fail_here("expected an object with one member");
  for (size_t i = 0; i < j.size(); ++i)
    if (!j.value(i).is_null()) return {j.key(i), j.value(i)};
  j.fail_here("none of the members of a union is set");
}

std::optional<Json> maybe(Json j, std::string_view key) {
  auto found = j.find(key);
  return found && !found->is_null() ? found : std::nullopt;
}
std::string text_of(Json j) { return std::string(j.as_string()); }

// Values by name, in the graph being read and those around it.
struct Names {
  std::unordered_map<std::string, ir::Value*> values;
  const Names* outside = nullptr;
  ir::Value* find(const std::string& name) const {
    for (const Names* n = this; n; n = n->outside)
      if (auto it = n->values.find(name); it != n->values.end()) return it->second;
    return nullptr;
  }
};

class ProgramReader {
 public:
  explicit ProgramReader(Json root) : root_(root), data_(new_shared<ExportedProgram::Data>()) {
    data_->graph = new_owned<ir::Graph>();
    data_->graph->shapes = new_shared<ShapeEnv>();
  }

  Shared<ExportedProgram::Data> read() {
    if (auto version = maybe(root_, "schema_version")) {
      int64_t major = (*version)["major"].as_int();
      if (major < 1 || major > 8)
        version->fail_here(
            fmt::format("schema version {} is not known; this Tern reads up to version 8", major));
    }
    Json module = root_["graph_module"];
    read_ranges();
    collect_hints(module["graph"]);
    for (const auto& [name, hint] : hints_) symbol(name);
    read_inputs(module["signature"]["input_specs"]);
    Names names;
    read_graph(module["graph"], graph().top(), names, true);
    read_outputs(module["signature"]["output_specs"]);
    read_module_calls(module);
    drop_tokens();
    read_dialect();
    data_->range_constraints = ranges_;
    return data_;
  }

 private:
  ir::Graph& graph() { return *data_->graph; }
  ShapeEnv& env() { return *data_->graph->shapes; }

  // ---- symbols ----

  void read_ranges() {
    auto all = maybe(root_, "range_constraints");
    if (!all) return;
    for (size_t i = 0; i < all->size(); ++i) {
      Json r = all->value(i);
      Range range;
      if (auto min = maybe(r, "min_val")) range.min = bound(*min);
      if (auto max = maybe(r, "max_val")) range.max = bound(*max);
      if (range.is_empty()) r.fail_here("an empty range");
      ranges_.emplace_back(std::string(all->key(i)), range);
    }
  }
  // Integers beyond 64 bits stand for infinity.
  static int64_t bound(Json j) {
    if (j.kind() == io::JsonKind::integer) return j.as_int();
    double v = j.as_double();
    return v < 0 ? -Range::infinity : Range::infinity;
  }

  // "s77", "Symbol('s77', positive=True, integer=True)".
  static std::optional<std::string> bare_symbol(std::string_view text) {
    if (text.starts_with("Symbol('")) {
      size_t end = text.find('\'', 8);
      if (end == std::string_view::npos || text.back() != ')' || text.find('(', 7) != std::string_view::npos)
        return std::nullopt;
      return std::string(text.substr(8, end - 8));
    }
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return std::nullopt;
    for (char c : text)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return std::nullopt;
    return std::string(text);
  }

  void collect_hints(Json g) {
    auto look = [&](Json s) {
      if (!s.is_object()) return;
      auto e = maybe(s, "as_expr");
      if (!e) return;
      auto name = bare_symbol((*e)["expr_str"].as_string());
      if (!name) return;
      std::optional<int64_t> hint;
      if (auto h = maybe(*e, "hint")) {
        Union u = active(*h);
        if (u.key == "as_int") hint = u.value.as_int();
      }
      auto [it, fresh] = hints_.try_emplace(*name, hint);
      if (!fresh && !it->second) it->second = hint;
    };
    if (auto tensors = maybe(g, "tensor_values"))
      for (Json meta : *tensors)
        for (Json s : meta["sizes"]) look(s);
    if (auto ints = maybe(g, "sym_int_values"))
      for (Json s : *ints) look(s);
  }

  SymInt symbol(const std::string& name) {
    if (auto found = env().find_symbol(name)) return *found;
    bool unbacked = name[0] == 'u';
    Range range{unbacked ? -Range::infinity : 0, Range::infinity};
    for (const auto& [symbol, r] : ranges_)
      if (symbol == name) range = r;
    auto hint = hints_.find(name);
    return env().add_symbol(name, hint == hints_.end() ? std::nullopt : hint->second, range);
  }

  SymInt expression(Json e) {
    std::string_view text = e["expr_str"].as_string();
    if (auto name = bare_symbol(text)) return symbol(*name);
    try {
      return env().parse(text);
    } catch (const Error& error) {
      e.fail_here(error.message());
    }
  }
  SymInt sym_int(Json j) {
    Union u = active(j);
    if (u.key == "as_int") return small(u.value);
    if (u.key == "as_expr") return expression(u.value);
    j.fail_here("expected an integer or an expression");
  }
  static SymInt small(Json j) {
    int64_t v = j.as_int();
    if (SymInt(v).is_symbolic()) j.fail_here("the integer is out of range");
    return v;
  }

  // ---- types ----

  const ir::Type* tensor_type(Json meta) {
    ir::TensorInfo info;
    auto dtype = dtype_of_scalar_type(meta["dtype"].as_int());
    if (!dtype) meta["dtype"].fail_here("an unknown dtype");
    info.dtype = *dtype;
    auto dims = [&](Json all) {
      if (all.size() > 64) all.fail_here("too many dimensions");
      Dims d;
      for (Json s : all) d.push_back(sym_int(s));
      return d;
    };
    info.sizes = dims(meta["sizes"]);
    for (size_t i = 0; i < info.sizes->size(); ++i)
      if ((*info.sizes)[i].is_int() && (*info.sizes)[i].as_int() < 0)
        meta["sizes"].fail_here("a negative size");
    info.strides = dims(meta["strides"]);
    if (info.strides->size() != info.sizes->size()) meta.fail_here("another number of strides than sizes");
    info.requires_grad = meta["requires_grad"].as_bool();
    info.device = device(meta["device"]);
    return ir::Type::tensor(info);
  }
  Device device(Json j) {
    std::string type = text_of(j["type"]);
    auto d = Device::parse(type);
    if (!d) j.fail_here(fmt::format("the device {} is not known", type));
    if (auto index = maybe(j, "index")) d->index = static_cast<int8_t>(index->as_int());
    return *d;
  }

  // ---- graphs ----

  struct Scope {
    Json graph;
    Names& names;
  };

  void read_graph(Json g, ir::Block& block, Names& names, bool top) {
    Scope scope{g, names};
    Json inputs = g["inputs"];
    if (top && inputs.size() != data_->signature.inputs.size())
      inputs.fail_here(
          fmt::format("{} inputs, but the signature has {}", inputs.size(), data_->signature.inputs.size()));
    for (size_t i = 0; i < inputs.size(); ++i) {
      Union u = active(inputs[i]);
      std::string name = name_in(u, top ? data_->signature.inputs[i].name : fmt::format("arg_{}", i));
      ir::Value& v = block.add_param(type_of_argument(scope, u), name);
      bind(scope, v, name, top);
      if (top) {
        data_->signature.inputs[i].name = v.name();
        if (u.key == "as_sym_int")
          if (auto values = maybe(g, "sym_int_values"))
            if (auto s = maybe(*values, name)) data_->int_inputs.emplace_back(i, sym_int(*s));
      }
    }
    ir::InsertAt at(block.return_node());
    for (Json node : g["nodes"]) read_node(scope, node);
    for (Json out : g["outputs"]) block.add_return(argument(scope, out));
  }

  static std::string name_in(const Union& u, std::string otherwise) {
    if (u.key == "as_tensor" || u.key == "as_custom_obj") return text_of(u.value["name"]);
    if (u.key.starts_with("as_sym_") && u.value.is_object())
      if (auto name = maybe(u.value, "as_name")) return text_of(*name);
    return otherwise;
  }

  const ir::Type* type_of_argument(Scope& scope, const Union& u) {
    if (u.key == "as_tensor") return tensor_value_type(scope, text_of(u.value["name"]));
    if (u.key == "as_sym_int" || u.key == "as_int") return ir::Type::integer();
    if (u.key == "as_sym_bool" || u.key == "as_bool") return ir::Type::boolean();
    if (u.key == "as_sym_float" || u.key == "as_float") return ir::Type::floating();
    if (u.key == "as_string") return ir::Type::string();
    if (u.key == "as_none") return ir::Type::none();
    if (u.key == "as_custom_obj") return ir::Type::class_named(u.value["class_fqn"].as_string());
    return ir::Type::any();
  }
  const ir::Type* tensor_value_type(Scope& scope, const std::string& name) {
    auto meta = maybe(scope.graph["tensor_values"], name);
    return meta ? tensor_type(*meta) : ir::Type::tensor();
  }

  // Gives a value its name in the file; inside blocks, where a name may be taken, one like it.
  void bind(Scope& scope, ir::Value& v, const std::string& name, bool exact) {
    if (name.empty()) return;
    if (v.name() != name && !graph().find(name)) {
      try {
        graph().set_name(v, name);
      } catch (const Error&) {  // the name of a node with several results: this value gets one like it
      }
    }
    if (exact && v.name() != name) scope.graph.fail_here(fmt::format("the name {} is used twice", name));
    if (!scope.names.values.emplace(name, &v).second)
      scope.graph.fail_here(fmt::format("the name {} is used twice", name));
  }

  ir::In value_named(Scope& scope, Json at, const std::string& name) {
    if (ir::Value* v = scope.names.find(name)) return *v;
    at.fail_here(fmt::format("{} is not defined here", name));
  }

  ir::In argument(Scope& scope, Json arg) {
    Union u = active(arg);
    std::string_view k = u.key;
    auto list = [&](auto&& item) {
      std::vector<ir::In> items;
      for (Json j : u.value) items.push_back(item(j));
      return ir::In::list(std::move(items));
    };
    auto tensor = [&](Json j) { return value_named(scope, j, text_of(j["name"])); };
    auto sym = [&](Json j) -> ir::In {
      Union s = active(j);
      if (s.key == "as_name") return value_named(scope, j, text_of(s.value));
      if (s.key == "as_int") return Value(small(s.value));
      if (s.key == "as_float") return Value(s.value.as_double());
      if (s.key == "as_bool") return Value(s.value.as_bool());
      j.fail_here("expected a name or a number");
    };
    auto optional = [&](Json j) -> ir::In {
      Union o = active(j);
      if (o.key == "as_none") return {};
      return tensor(o.value);
    };
    if (k == "as_none") return {};
    if (k == "as_tensor") return tensor(u.value);
    if (k == "as_tensors") return list(tensor);
    if (k == "as_int") return Value(small(u.value));
    if (k == "as_ints") return list([&](Json j) -> ir::In { return Value(small(j)); });
    if (k == "as_float") return Value(u.value.as_double());
    if (k == "as_floats") return list([&](Json j) -> ir::In { return Value(j.as_double()); });
    if (k == "as_string" || k == "as_operator") return Value(u.value.as_string());
    if (k == "as_strings") return list([&](Json j) -> ir::In { return Value(j.as_string()); });
    if (k == "as_bool") return Value(u.value.as_bool());
    if (k == "as_bools") return list([&](Json j) -> ir::In { return Value(j.as_bool()); });
    if (k == "as_sym_int" || k == "as_sym_bool" || k == "as_sym_float") return sym(u.value);
    if (k == "as_sym_ints" || k == "as_sym_bools" || k == "as_sym_floats") return list(sym);
    if (k == "as_optional_tensors") return list(optional);
    if (k == "as_optional_tensor") return optional(u.value);
    if (k == "as_device") return Value(device(u.value));
    if (k == "as_layout") {
      if (u.value.as_int() != strided_layout) u.value.fail_here("only strided tensors are supported");
      return Value(static_cast<int64_t>(Layout::strided));
    }
    if (k == "as_scalar_type") {
      auto d = dtype_of_scalar_type(u.value.as_int());
      if (!d) u.value.fail_here("an unknown dtype");
      return Value(*d);
    }
    if (k == "as_memory_format") {
      auto f = memory_format_of(u.value.as_int());
      if (!f) u.value.fail_here("an unknown memory format");
      return Value(*f);
    }
    if (k == "as_complex")
      return Value(std::complex<double>(u.value["real"].as_double(), u.value["imag"].as_double()));
    if (k == "as_int_lists")
      return list([&](Json j) -> ir::In {
        std::vector<Value> row;
        for (Json i : j) row.emplace_back(small(i));
        return Value::list(std::move(row));
      });
    if (k == "as_float_lists")
      return list([&](Json j) -> ir::In {
        std::vector<Value> row;
        for (Json i : j) row.emplace_back(i.as_double());
        return Value::list(std::move(row));
      });
    if (k == "as_nested_tensors")
      return list([&](Json j) -> ir::In {
        std::vector<ir::In> row;
        for (Json i : j) row.push_back(tensor(i));
        return ir::In::list(std::move(row));
      });
    if (k == "as_custom_obj") return value_named(scope, u.value, text_of(u.value["name"]));
    arg.fail_here(fmt::format("arguments of the kind {} are not supported", k));
  }

  // ---- nodes ----

  void read_node(Scope& scope, Json node) {
    std::string target = text_of(node["target"]);
    ir::Node* made = nullptr;
    if (target.starts_with("torch.ops.higher_order.")) {
      made = &higher_order(scope, node, target.substr(23));
    } else if (const SymFunction* f = sym_function_of_target(target)) {
      made = &sym_call(scope, node, *f);
    } else {
      auto qualified = qualified_of(target);
      const Op* op = qualified ? find_op(std::string_view(*qualified)) : nullptr;
      // Of a tensor made in the program: in-place or not is the same.
      if (!op && qualified == "aten::detach_") op = find_op(std::string_view("aten::detach"));
      made = op ? &op_call(scope, node, *op) : &unknown_call(scope, node, qualified ? *qualified : target);
    }
    read_metadata(*made, node);
  }

  static std::string node_name(Json node) {
    auto name = maybe(node, "name");
    return name ? text_of(*name) : "";
  }

  ir::Node& op_call(Scope& scope, Json node, const Op& op) {
    const Schema& schema = op.schema();
    std::vector<ir::In> inputs(schema.args.size());
    std::vector<bool> given(schema.args.size());
    for (Json in : node["inputs"]) {
      std::string name = text_of(in["name"]);
      int at = schema.find(name);
      if (at < 0) in.fail_here(fmt::format("{} has no argument '{}'", op.qualified(), name));
      if (given[static_cast<size_t>(at)]) in.fail_here(fmt::format("'{}' is given twice", name));
      given[static_cast<size_t>(at)] = true;
      inputs[static_cast<size_t>(at)] = argument(scope, in["arg"]);
    }
    for (size_t i = 0; i < given.size(); ++i) {
      if (given[i]) continue;
      if (!schema.args[i].default_value && !schema.args[i].type.accepts_none())
        node.fail_here(
            fmt::format("{}: the argument '{}' is missing", op.qualified(), schema.args[i].name.view()));
      if (schema.args[i].default_value) inputs[i] = *schema.args[i].default_value;
    }
    ir::Node* made;
    try {
      made = &graph().call(op, inputs, nullptr, first_output_name(node));
    } catch (const Error& e) {
      node.fail_here(e.message());
    }
    bind_outputs(scope, *made, node);
    return *made;
  }

  static std::string first_output_name(Json node) {
    Json outputs = node["outputs"];
    std::string name = outputs.size() == 1 ? name_in(active(outputs[0]), "") : "";
    return name.empty() ? node_name(node) : name;
  }

  void bind_outputs(Scope& scope, ir::Node& made, Json node) {
    Json outputs = node["outputs"];
    // A list of results in the file may be one list, or one entry a result (hops, older files).
    if (outputs.size() != made.num_outputs())
      outputs.fail_here(fmt::format("{} gives {} results, the file has {}", made.qualified(),
                                    made.num_outputs(), outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) {
      Union u = active(outputs[i]);
      ir::Value& v = made.output(i);
      if (u.key == "as_tensors") {
        std::vector<const ir::Type*> types;
        for (Json t : u.value) types.push_back(tensor_value_type(scope, text_of(t["name"])));
        ir::In in[] = {v};
        ir::Node& unpack = graph().make("prim::ListUnpack", in, types, "getitem");
        for (size_t k = 0; k < u.value.size(); ++k)
          bind(scope, unpack.output(k), text_of(u.value[k]["name"]), false);
        continue;
      }
      if (u.key == "as_none") continue;
      if (v.type()->is_tensor() || v.type()->is(ir::TypeKind::number) || v.type()->is(ir::TypeKind::any) ||
          v.type()->is(ir::TypeKind::optional))
        v.set_type(type_of_argument(scope, u));
      bind(scope, v, name_in(u, ""), false);
      note_symbol(scope, made, u);
    }
  }

  // A number that comes from data: its node remembers the symbol the file has for it.
  void note_symbol(Scope& scope, ir::Node& made, const Union& u) {
    bool real = u.key == "as_sym_float";
    if ((u.key != "as_sym_int" && !real) || !made.op() || made.is("aten::sym_size")) return;
    auto values = maybe(scope.graph, real ? "sym_float_values" : "sym_int_values");
    auto s = values ? maybe(*values, name_in(u, "")) : std::nullopt;
    if (!s) return;
    SymInt symbol = sym_int(*s);
    if (symbol.is_symbolic()) made.set_meta("unbacked_symbol", Value(symbol));
  }

  ir::Node& sym_call(Scope& scope, Json node, const SymFunction& f) {
    std::vector<ir::In> inputs;
    bool floats = false;
    for (Json in : node["inputs"]) {
      inputs.push_back(argument(scope, in["arg"]));
      const ir::In& i = inputs.back();
      floats |= i.is_value() ? i.value()->type()->is(ir::TypeKind::float_)
                             : i.is_constant() && i.constant().is_float();
    }
    std::string kind(f.builtin);
    bool logic = f.builtin == "aten::__and__" || f.builtin == "aten::__or__";
    if (f.builtin == "aten::div" && !floats)
      kind += ".int";
    else if (logic)
      kind += ".bool";
    else if (inputs.size() == 2)
      kind += floats ? ".float" : ".int";
    else if (f.builtin == "aten::neg")
      kind += floats ? ".float" : ".int";
    Json outputs = node["outputs"];
    if (outputs.size() != 1) node.fail_here("an operator on numbers gives one result");
    Union u = active(outputs[0]);
    const ir::Type* types[] = {type_of_argument(scope, u)};
    std::string name = name_in(u, "");
    ir::Node& made = graph().make(kind, inputs, types, name);
    bind(scope, made.output(), name, false);
    return made;
  }

  // An operator nobody knows: kept with the names of its arguments, so that it is written back as it was.
  ir::Node& unknown_call(Scope& scope, Json node, const std::string& kind) {
    std::vector<ir::In> inputs;
    std::vector<Value> names;
    int64_t keywords = 0;
    for (Json in : node["inputs"]) {
      inputs.push_back(argument(scope, in["arg"]));
      names.emplace_back(in["name"].as_string());
      if (auto k = maybe(in, "kind"); k && k->as_int() == 2) ++keywords;
    }
    std::vector<const ir::Type*> types;
    for (Json out : node["outputs"]) {
      Union u = active(out);
      types.push_back(u.key == "as_tensors" ? ir::Type::list(ir::Type::tensor())
                                            : type_of_argument(scope, u));
    }
    ir::Node& made = graph().make(kind, inputs, types, first_output_name(node));
    made.set_attribute("arg_names", Value::list(std::move(names)));
    made.set_attribute("num_keywords", Value(keywords));
    bind_outputs(scope, made, node);
    return made;
  }

  ir::Node& higher_order(Scope& scope, Json node, const std::string& name) {
    if (name == "with_effects") return effect(scope, node);
    if (++depth_ > 50) node.fail_here("graphs are nested too deeply");
    std::string kind = fmt::format("higher_order::{}", name);
    const ir::HigherOrder* op = ir::find_higher_order(kind);
    std::vector<ir::In> inputs;
    std::vector<Json> graphs;
    std::vector<std::pair<Symbol, Value>> attributes;
    std::vector<Value> names;
    size_t part = 0;
    for (Json in : node["inputs"]) {
      Union u = active(in["arg"]);
      const ir::HigherOrderPart* p = op && part < op->parts.size() ? &op->parts[part] : nullptr;
      if (p && p->kind != ir::HigherOrderPart::spread) ++part;
      if (u.key == "as_graph") {
        graphs.push_back(u.value["graph"]);
        continue;
      }
      if (u.key == "as_operator" && !op) {
        auto qualified = qualified_of(text_of(u.value));
        attributes.emplace_back("operator", Value(qualified ? *qualified : text_of(u.value)));
        continue;
      }
      ir::In value = argument(scope, in["arg"]);
      if (p && p->kind == ir::HigherOrderPart::constant) {
        if (!value.is_constant()) in.fail_here(fmt::format("{} must be a constant", p->name));
        attributes.emplace_back(p->name, value.constant());
        continue;
      }
      if (!op) {
        inputs.push_back(value);
        names.emplace_back(in["name"].as_string());
        continue;
      }
      size_t before = inputs.size();
      if (value.is_list())
        for (const ir::In& item : value.items()) inputs.push_back(item);
      else if (value.is_constant() && value.constant().is_list())
        for (const Value& item : value.constant().items()) inputs.emplace_back(item);
      else
        inputs.push_back(value);
      if (p && (p->kind == ir::HigherOrderPart::list || p->kind == ir::HigherOrderPart::tuple) &&
          !p->name.empty())
        attributes.emplace_back(p->name, Value(static_cast<int64_t>(inputs.size() - before)));
    }
    if (!op) attributes.emplace_back("arg_names", Value::list(std::move(names)));
    if (op && graphs.size() != op->num_graphs)
      node.fail_here(fmt::format("{} takes {} graphs, not {}", name, op->num_graphs, graphs.size()));
    std::vector<const ir::Type*> types;
    std::vector<std::string> out_names;
    for (Json out : node["outputs"]) {
      Union u = active(out);
      if (u.key == "as_tensors") {
        for (Json t : u.value) {
          types.push_back(tensor_value_type(scope, text_of(t["name"])));
          out_names.push_back(text_of(t["name"]));
        }
      } else {
        types.push_back(type_of_argument(scope, u));
        out_names.push_back(name_in(u, ""));
      }
    }
    ir::Node& made = graph().make(kind, inputs, types, node_name(node));
    for (const auto& [key, value] : attributes) made.set_attribute(key, value);
    for (size_t i = 0; i < out_names.size(); ++i) bind(scope, made.output(i), out_names[i], false);
    for (Json g : graphs) {
      collect_hints(g);
      Names inside;
      inside.outside = &scope.names;
      read_graph(g, made.add_block(), inside, false);
    }
    --depth_;
    return made;
  }

  // with_effects(token, operator, arguments...) -> (token, results...): a token keeps calls that do more than
  // give results in order. Here they keep their order anyway: the node is the call itself, and the token that
  // comes out is the one that went in.
  ir::Node& effect(Scope& scope, Json node) {
    Json all = node["inputs"], outputs = node["outputs"];
    if (all.size() < 2 || outputs.size() < 1) node.fail_here("with_effects needs a token and an operator");
    Union target = active(all[1]["arg"]);
    if (target.key != "as_operator") all[1].fail_here("expected an operator");
    auto qualified = qualified_of(text_of(target.value));
    const Op* op = qualified ? find_op(std::string_view(*qualified)) : nullptr;
    if (!op)
      node.fail_here(fmt::format("with_effects calls {}, which is not known; define() it as an operator",
                                 text_of(target.value)));
    const Schema& schema = op->schema();
    std::vector<ir::In> inputs(schema.args.size());
    for (size_t i = 0; i < schema.args.size(); ++i)
      if (schema.args[i].default_value) inputs[i] = *schema.args[i].default_value;
    for (size_t i = 2; i < all.size(); ++i) {
      std::string name = text_of(all[i]["name"]);
      int at = name.empty() ? static_cast<int>(i - 2) : schema.find(name);
      if (at < 0 || static_cast<size_t>(at) >= inputs.size())
        all[i].fail_here(fmt::format("{} has no argument '{}'", op->qualified(), name));
      inputs[static_cast<size_t>(at)] = argument(scope, all[i]["arg"]);
    }
    ir::Node& made = graph().call(*op, inputs, nullptr, node_name(node));
    for (size_t i = 1; i < outputs.size() && i <= made.num_outputs(); ++i) {
      Union u = active(outputs[i]);
      if (u.key == "as_none") continue;
      made.output(i - 1).set_type(type_of_argument(scope, u));
      bind(scope, made.output(i - 1), name_in(u, ""), false);
    }
    ir::In token = argument(scope, all[0]["arg"]);
    if (!token.is_value()) all[0].fail_here("expected a token");
    scope.names.values[name_in(active(outputs[0]), "")] = token.value();
    return made;
  }

  // ---- where nodes come from ----

  void read_metadata(ir::Node& made, Json node) {
    auto meta = maybe(node, "metadata");
    if (!meta) return;
    ir::Origin origin;
    for (size_t i = 0; i < meta->size(); ++i) {
      if (!meta->value(i).is_string()) continue;
      std::string_view key = meta->key(i), text = meta->value(i).as_string();
      if (key == "nn_module_stack")
        origin.scope = module_stack(text);
      else
        made.set_meta(Symbol(key), Value(text));
      if (key == "stack_trace") read_trace(text, origin);
    }
    if (origin.scope || origin.has_place()) made.set_origin(ir::Origin::make(origin));
  }

  // ---- signature ----

  void read_inputs(Json specs) {
    for (Json j : specs) {
      Union u = active(j);
      InputSpec s;
      auto targeted = [&](InputKind kind, std::string_view key) {
        s.kind = kind;
        s.name = text_of(u.value["arg"]["name"]);
        s.target = text_of(u.value[key]);
      };
      if (u.key == "parameter") {
        targeted(InputKind::parameter, "parameter_name");
      } else if (u.key == "buffer") {
        targeted(InputKind::buffer, "buffer_name");
        if (auto p = maybe(u.value, "persistent")) s.persistent = p->as_bool();
      } else if (u.key == "tensor_constant") {
        targeted(InputKind::constant_tensor, "tensor_constant_name");
      } else if (u.key == "custom_obj") {
        targeted(InputKind::custom_obj, "custom_obj_name");
        s.constant = Value(u.value["arg"]["class_fqn"].as_string());
      } else if (u.key == "token") {
        s.kind = InputKind::token;
        s.name = text_of(u.value["arg"]["name"]);
      } else if (u.key == "constant_input") {
        s.name = text_of(u.value["name"]);
        s.constant = constant(active(u.value["value"]));
      } else if (u.key == "user_input") {
        Union arg = active(u.value["arg"]);
        s.name = name_in(arg, fmt::format("arg_{}", data_->signature.inputs.size()));
        if (arg.key == "as_none" || arg.key == "as_int" || arg.key == "as_float" || arg.key == "as_bool" ||
            arg.key == "as_string")
          s.constant = constant(arg);
      } else {
        j.fail_here(fmt::format("inputs of the kind {} are not known", u.key));
      }
      data_->signature.inputs.push_back(std::move(s));
    }
  }

  static Value constant(const Union& u) {
    if (u.key == "as_none") return {};
    if (u.key == "as_int") return Value(small(u.value));
    if (u.key == "as_float") return Value(u.value.as_double());
    if (u.key == "as_bool") return Value(u.value.as_bool());
    if (u.key == "as_string") return Value(u.value.as_string());
    u.value.fail_here("expected a constant");
  }

  void read_outputs(Json specs) {
    if (specs.size() != graph().outputs().size())
      specs.fail_here(
          fmt::format("{} outputs, but the graph has {}", specs.size(), graph().outputs().size()));
    static constexpr struct {
      std::string_view key, target;
      OutputKind kind;
    } kinds[] = {
        {"user_output", "", OutputKind::user_output},
        {"loss_output", "", OutputKind::loss_output},
        {"buffer_mutation", "buffer_name", OutputKind::buffer_mutation},
        {"parameter_mutation", "parameter_name", OutputKind::parameter_mutation},
        {"gradient_to_parameter", "parameter_name", OutputKind::gradient_to_parameter},
        {"gradient_to_user_input", "user_input_name", OutputKind::gradient_to_user_input},
        {"user_input_mutation", "user_input_name", OutputKind::user_input_mutation},
        {"token", "", OutputKind::token},
    };
    for (Json j : specs) {
      Union u = active(j);
      OutputSpec s;
      bool known = false;
      for (const auto& k : kinds) {
        if (k.key != u.key) continue;
        s.kind = k.kind;
        if (!k.target.empty()) s.target = text_of(u.value[k.target]);
        known = true;
      }
      if (!known) j.fail_here(fmt::format("outputs of the kind {} are not known", u.key));
      data_->signature.outputs.push_back(std::move(s));
    }
    refresh_output_names(*data_);
  }

  void read_module_calls(Json module) {
    if (auto fields = maybe(module, "treespec_namedtuple_fields"))
      for (size_t i = 0; i < fields->size(); ++i) {
        std::vector<std::string> names;
        for (Json n : fields->value(i)["field_names"]) names.push_back(text_of(n));
        tree::register_named_tuple(fields->key(i), std::move(names));
      }
    bool root = false;
    for (Json j : module["module_call_graph"]) {
      ModuleCall call;
      call.path = text_of(j["fqn"]);
      if (auto s = maybe(j, "signature")) {
        ModuleCall::Signature signature;
        for (auto [key, names] :
             {std::pair("inputs", &signature.inputs), std::pair("outputs", &signature.outputs)})
          for (Json arg : (*s)[key]) names->push_back(name_in(active(arg), ""));
        signature.in_spec = tree::from_json((*s)["in_spec"].as_string());
        signature.out_spec = tree::from_json((*s)["out_spec"].as_string());
        if (auto names = maybe(*s, "forward_arg_names"))
          for (Json n : *names) signature.arg_names.push_back(text_of(n));
        if (call.path.empty()) {
          data_->in_spec = signature.in_spec;
          data_->out_spec = signature.out_spec;
          data_->arg_names = signature.arg_names;
          root = true;
        }
        call.signature = std::move(signature);
      }
      data_->module_calls.push_back(std::move(call));
    }
    if (!root) module.fail_here("the signature of the root module is missing");
    check_tree(module);
  }

  void check_tree(Json at) {
    size_t inputs = 0, outputs = 0;
    for (const InputSpec& s : data_->signature.inputs) inputs += s.kind == InputKind::user_input;
    for (const OutputSpec& s : data_->signature.outputs)
      outputs += s.kind == OutputKind::user_output || s.kind == OutputKind::loss_output;
    if (data_->in_spec.leaf_count() != inputs)
      at.fail_here(
          fmt::format("the input tree has {} leaves for {} inputs", data_->in_spec.leaf_count(), inputs));
    if (data_->out_spec.leaf_count() != outputs)
      at.fail_here(
          fmt::format("the output tree has {} leaves for {} outputs", data_->out_spec.leaf_count(), outputs));
    if (data_->in_spec.children().size() != 2)
      at.fail_here("the input tree is not a pair of arguments and keywords");
  }

  // Tokens only pass through: what is in the file for them is not part of the program.
  void drop_tokens() {
    auto& outputs = data_->signature.outputs;
    for (size_t i = outputs.size(); i-- > 0;)
      if (outputs[i].kind == OutputKind::token) {
        outputs.erase(outputs.begin() + static_cast<std::ptrdiff_t>(i));
        graph().top().return_node().remove_input(i);
      }
    auto& inputs = data_->signature.inputs;
    for (size_t i = inputs.size(); i-- > 0;) {
      if (inputs[i].kind != InputKind::token || graph().inputs()[i]->has_uses()) continue;
      inputs.erase(inputs.begin() + static_cast<std::ptrdiff_t>(i));
      graph().top().remove_param(i);
      for (auto& [index, symbol] : data_->int_inputs) index -= index > i;
    }
  }

  void read_dialect() {
    data_->dialect = Dialect::aten;
    auto is_training = [](std::string_view s) { return s == "TRAINING" || s == "PRE_DISPATCH"; };
    if (auto verifiers = maybe(root_, "verifiers"))
      for (Json v : *verifiers)
        if (is_training(v.as_string())) data_->dialect = Dialect::training;
    if (auto dialect = maybe(root_, "dialect"))
      if (dialect->is_string() && is_training(dialect->as_string())) data_->dialect = Dialect::training;
    for (const ir::Node& n : graph().top())
      for (const ir::ModuleScope* s = n.scope(); s; s = s->parent)
        if (s->path.empty() && data_->root_type.empty()) data_->root_type = s->type_name.str();
  }

  Json root_;
  Shared<ExportedProgram::Data> data_;
  std::vector<std::pair<std::string, Range>> ranges_;
  std::unordered_map<std::string, std::optional<int64_t>> hints_;
  int depth_ = 0;
};

}  // namespace

Shared<ExportedProgram::Data> read_program(Json root) { return ProgramReader(root).read(); }

}  // namespace tern::pt2
