// An ExportedProgram as the JSON of the .pt2 schema.
#include <complex>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/export/effects.h"
#include "tern/export/numbers.h"
#include "tern/export/pt2_control.h"
#include "tern/export/pt2_names.h"
#include "tern/export/pt2_schema.h"
#include "tern/export/pt2_symbols.h"
#include "tern/ir/higher_order.h"
#include "tern/sym/shape_env.h"

namespace tern::pt2 {
namespace {

class ProgramJson {
 public:
  explicit ProgramJson(const ExportedProgram& program)
      : program_(program),
        data_(program.data()),
        graph_(program.graph()),
        shapes_(graph_.shapes ? graph_.shapes : new_shared<ShapeEnv>()),
        symbols_(*shapes_) {
    for (const auto& [input, symbol] : data_.int_inputs) symbols_.set(*graph_.inputs()[input], symbol);
  }

  std::string write() {
    w_.begin_object();
    w_.key("graph_module");
    w_.begin_object();
    w_.key("graph");
    write_graph(graph_.top(), false);
    w_.key("signature");
    write_signature();
    w_.key("module_call_graph");
    write_module_calls();
    w_.key("metadata");
    empty_object();
    w_.key("treespec_namedtuple_fields");
    write_named_tuples();
    w_.end_object();
    w_.key("opset_version");
    w_.begin_object();
    w_.member("aten", 10);
    w_.end_object();
    w_.key("range_constraints");
    w_.begin_object();
    for (const auto& [symbol, range] : data_.range_constraints) {
      w_.key(symbol);
      w_.begin_object();
      w_.key("min_val");
      bound(range.min, -Range::infinity);
      w_.key("max_val");
      bound(range.max, Range::infinity);
      w_.end_object();
    }
    w_.end_object();
    w_.key("schema_version");
    w_.begin_object();
    w_.member("major", 8);
    w_.member("minor", 20);
    w_.end_object();
    w_.key("verifiers");
    w_.begin_array();
    w_.value(name_of(data_.dialect));
    w_.end_array();
    w_.member("torch_version", "2.13.0");
    w_.key("guards_code");
    w_.begin_array();
    w_.end_array();
    w_.end_object();
    return w_.take();
  }

 private:
  void empty_object() {
    w_.begin_object();
    w_.end_object();
  }
  void bound(int64_t value, int64_t none) {
    if (value == none)
      w_.null();
    else
      w_.value(value);
  }
  // {"key": value}, with the value written by `f`.
  template <class F>
  void one(std::string_view key, F&& f) {
    w_.begin_object();
    w_.key(key);
    f();
    w_.end_object();
  }
  template <class T>
  void one_value(std::string_view key, const T& v) {
    one(key, [&] { w_.value(v); });
  }

  // ---- graphs ----

  void write_graph(const ir::Block& block, bool single_tensor_return) {
    w_.begin_object();
    w_.key("inputs");
    w_.begin_array();
    for (size_t i = 0; i < block.params().size(); ++i) {
      const ir::Value& v = block.param(i);
      const bool top = !block.parent();
      if (top && data_.signature.inputs[i].constant)
        constant_argument(*data_.signature.inputs[i].constant);
      else if (top && data_.signature.inputs[i].kind == InputKind::custom_obj)
        custom_object(data_.signature.inputs[i]);
      else
        value_argument(v);
    }
    w_.end_array();
    w_.key("outputs");
    w_.begin_array();
    for (const ir::Operand& o : block.returns()) argument(o);
    w_.end_array();
    w_.key("nodes");
    w_.begin_array();
    for (const ir::Node& n : block) write_node(n);
    w_.end_array();
    write_values(block);
    w_.member("is_single_tensor_return", single_tensor_return);
    w_.key("custom_obj_values");
    w_.begin_object();
    if (!block.parent())
      for (const InputSpec& s : data_.signature.inputs)
        if (s.kind == InputKind::custom_obj) {
          w_.key(s.name);
          w_.begin_object();
          w_.member("name", s.name);
          w_.member("class_fqn", s.constant ? s.constant->string() : std::string());
          w_.end_object();
        }
    w_.end_object();
    w_.key("sym_float_values");
    w_.begin_object();
    for_values(block, [&](const ir::Value& v) {
      if (!v.type()->is(ir::TypeKind::float_)) return;
      w_.key(v.name());
      one("as_expr", [&] {
        w_.begin_object();
        w_.member("expr_str", fmt::format("zuf{}", next_float_++));
        w_.key("hint");
        w_.null();
        w_.end_object();
      });
    });
    w_.end_object();
    w_.end_object();
  }

  void custom_object(const InputSpec& s) {
    one("as_custom_obj", [&] {
      w_.begin_object();
      w_.member("name", s.name);
      w_.member("class_fqn", s.constant ? s.constant->string() : std::string());
      w_.end_object();
    });
  }

  static bool is_unpack(const ir::Node& n) { return n.is("prim::ListUnpack") || n.is("prim::TupleUnpack"); }

  template <class F>
  void for_values(const ir::Block& block, F&& f) {
    for (size_t i = 0; i < block.params().size(); ++i)
      if (block.parent() || !data_.signature.inputs[i].constant) f(*block.params()[i]);
    for (const ir::Node& n : block)
      for (const ir::Value* v : n.outputs()) f(*v);
  }

  void write_values(const ir::Block& block) {
    w_.key("tensor_values");
    w_.begin_object();
    for_values(block, [&](const ir::Value& v) {
      if (!v.type()->is_tensor()) return;
      w_.key(v.name());
      tensor_meta(*v.type());
    });
    w_.end_object();
    w_.key("sym_int_values");
    w_.begin_object();
    for_values(block, [&](const ir::Value& v) {
      if (!v.type()->is(ir::TypeKind::int_)) return;
      w_.key(v.name());
      sym_int(symbols_.of(v));
    });
    w_.end_object();
    w_.key("sym_bool_values");
    w_.begin_object();
    for_values(block, [&](const ir::Value& v) {
      if (!v.type()->is(ir::TypeKind::bool_)) return;
      w_.key(v.name());
      sym_expr("as_bool", symbols_.of(v));
    });
    w_.end_object();
  }

  void write_node(const ir::Node& n) {
    if (is_unpack(n)) return;  // part of the outputs of the node above
    w_.begin_object();
    const SymFunction* sym = n.op() ? nullptr : sym_function_of_kind(n.kind().view());
    bool higher_order = n.kind().view().starts_with("higher_order::");
    if (!sym && n.kind().view().starts_with("prim::"))
      failf(ErrorKind::not_supported, "{} (%{}): a .pt2 file cannot hold it", n.kind().view(), n.name());
    w_.member("target", sym ? std::string(sym->target) : target_of(n.op() ? n.qualified() : n.kind().str()));
    w_.key("inputs");
    w_.begin_array();
    if (higher_order)
      higher_order_inputs(n);
    else if (n.op())
      schema_inputs(n, n.op()->schema());
    else
      plain_inputs(n, sym != nullptr);
    w_.end_array();
    w_.key("outputs");
    w_.begin_array();
    for (const ir::Value* v : n.outputs()) node_output(*v);
    w_.end_array();
    w_.key("metadata");
    metadata(n);
    w_.key("is_hop_single_tensor_return");
    if (higher_order)
      w_.value(false);
    else
      w_.null();
    w_.member("name", n.label() ? n.label()->name() : n.name());
    w_.end_object();
  }

  void named_argument(std::string_view name, bool keyword, const Function<void()>& arg) {
    w_.begin_object();
    w_.member("name", name);
    w_.key("arg");
    arg();
    w_.member("kind", keyword ? 2 : 1);
    w_.end_object();
  }

  // What equals its default is left out, as torch.fx does; what stands after a gap is given by its name.
  // PyTorch wants an argument that Python cannot name (uniform's `from`) in any case.
  void schema_inputs(const ir::Node& n, const Schema& schema) {
    bool gap = false;
    for (size_t i = 0; i < n.inputs().size() && i < schema.args.size(); ++i) {
      const SchemaArg& arg = schema.args[i];
      const ir::Operand& o = n.input(i);
      if (arg.name.view() != "from" && arg.default_value && o.is_constant() &&
          same(o.constant(), *arg.default_value)) {
        gap = true;
        continue;
      }
      named_argument(arg.name.view(), gap || arg.keyword_only, [&] { argument(o, &arg.type); });
    }
  }
  static bool same(const Value& a, const Value& b) { return a.kind() == b.kind() && a.equals(b); }

  void plain_inputs(const ir::Node& n, bool sym) {
    const Value* names = n.attribute("arg_names");
    const Value* keywords = n.attribute("num_keywords");
    size_t count = n.inputs().size();
    size_t first_keyword = count - (keywords ? static_cast<size_t>(keywords->to_int()) : 0);
    for (size_t i = 0; i < count; ++i) {
      std::string name = sym ? (i == 0 ? "a" : "b") : "";
      if (names && names->is_list() && i < names->items().size()) name = names->items()[i].string();
      bool keyword = i >= first_keyword || (n.attribute("operator") && !name.empty());
      named_argument(name, keyword, [&] { argument(n.input(i)); });
    }
  }

  // cond(pred, true_graph, false_graph, [operands]): each argument in its place, without names.
  void higher_order_inputs(const ir::Node& n) {
    const ir::HigherOrder* op = ir::find_higher_order(n.kind().view());
    if (!op) return named_inputs(n);
    size_t number = next_graph_[op->kind]++;
    ir::each_part(*op, ir::operands_of(n), n.inputs().size(),
                  [&](const ir::HigherOrderPart& p, size_t a, size_t b) {
                    using Part = ir::HigherOrderPart;
                    if (p.kind == Part::value || p.kind == Part::spread) {
                      for (size_t i = a; i < b; ++i) named_argument("", false, [&] { argument(n.input(i)); });
                      return;
                    }
                    named_argument("", false, [&] {
                      if (p.kind == Part::constant) {
                        const SchemaType dtype{.base = p.name == "dtype" ? BaseType::dtype : BaseType::any};
                        constant_argument(*n.attribute(p.name), &dtype);
                      } else if (p.kind == Part::graph) {
                        one("as_graph", [&] {
                          w_.begin_object();
                          w_.member("name", fmt::format("{}_{}", p.name, number));
                          w_.key("graph");
                          write_graph(*n.blocks()[a], n.is("higher_order::while_loop") && a == 0);
                          w_.end_object();
                        });
                      } else {
                        std::vector<const ir::Operand*> items;
                        for (size_t i = a; i < b; ++i) items.push_back(&n.input(i));
                        operand_list(items);
                      }
                    });
                  });
  }

  // auto_functionalized_v2(operator, x=..., _all_bases=[...]), and what nobody knows.
  void named_inputs(const ir::Node& n) {
    if (n.is("higher_order::with_effects")) return tied_inputs(n);
    if (const Value* target = n.attribute("operator"))
      named_argument("", false, [&] { one_value("as_operator", target_of(target->string())); });
    plain_inputs(n, false);
  }
  // with_effects(token, operator, the operator's arguments...).
  void tied_inputs(const ir::Node& n) {
    const std::string target = n.attribute("operator")->string();
    const Schema& schema = get_op(target).schema();
    named_argument("", false, [&] { argument(n.input(0)); });
    named_argument("", false, [&] { one_value("as_operator", target_of(target)); });
    for (size_t i = 1; i < n.inputs().size(); ++i) {
      const SchemaArg& arg = schema.args[i - 1];
      named_argument(arg.keyword_only ? arg.name.view() : "", arg.keyword_only,
                     [&] { argument(n.input(i), &arg.type); });
    }
  }

  void node_output(const ir::Value& v) {
    if (v.type()->is(ir::TypeKind::list) || v.type()->is(ir::TypeKind::tuple)) {
      one("as_tensors", [&] {
        w_.begin_array();
        for (ir::Use& use : v.uses())
          if (is_unpack(*use.user)) {
            for (const ir::Value* item : use.user->outputs()) named(item->name());
            break;
          }
        w_.end_array();
      });
      return;
    }
    value_argument(v);
  }

  void named(const std::string& name) { one_value("name", name); }

  void value_argument(const ir::Value& v) {
    switch (v.type()->kind()) {
      case ir::TypeKind::int_:
        return one("as_sym_int", [&] { one_value("as_name", v.name()); });
      case ir::TypeKind::bool_:
        return one("as_sym_bool", [&] { one_value("as_name", v.name()); });
      case ir::TypeKind::float_:
        return one("as_sym_float", [&] { one_value("as_name", v.name()); });
      case ir::TypeKind::none:
        return one_value("as_none", true);
      default:
        return one("as_tensor", [&] { named(v.name()); });
    }
  }

  void argument(const ir::Operand& o, const SchemaType* type = nullptr) {
    if (o.is_value()) return value_argument(o.value());
    if (o.is_list()) {
      std::vector<const ir::Operand*> items;
      for (const ir::Operand& item : o.list()) items.push_back(&item);
      return operand_list(items);
    }
    constant_argument(o.constant(), type);
  }

  void operand_list(const std::vector<const ir::Operand*>& items) {
    bool tensors = false, none = false, bools = false, floats = false;
    for (const ir::Operand* o : items) {
      tensors |= o->is_value() && o->value().type()->is_tensor();
      none |= o->is_none();
      bools |= o->is_value() && o->value().type()->is(ir::TypeKind::bool_);
      floats |= (o->is_value() && o->value().type()->is(ir::TypeKind::float_)) ||
                (o->is_constant() && o->constant().is_float());
    }
    if (items.empty()) return one("as_tensors", [&] { empty_array(); });
    if (tensors && none)
      return one("as_optional_tensors", [&] {
        w_.begin_array();
        for (const ir::Operand* o : items) {
          if (o->is_none())
            one_value("as_none", true);
          else
            one("as_tensor", [&] { named(o->value().name()); });
        }
        w_.end_array();
      });
    if (tensors)
      return one("as_tensors", [&] {
        w_.begin_array();
        for (const ir::Operand* o : items) {
          if (!o->is_value() || !o->value().type()->is_tensor())
            fail(ErrorKind::not_supported, "a .pt2 file cannot hold a list of tensors and numbers");
          named(o->value().name());
        }
        w_.end_array();
      });
    std::string_view key = bools ? "as_sym_bools" : floats ? "as_sym_floats" : "as_sym_ints";
    std::string_view literal = bools ? "as_bool" : floats ? "as_float" : "as_int";
    one(key, [&] {
      w_.begin_array();
      for (const ir::Operand* o : items) {
        if (o->is_value())
          one_value("as_name", o->value().name());
        else if (bools)
          one_value(literal, o->constant().to_bool());
        else if (floats)
          one_value(literal, o->constant().to_double());
        else
          one_value(literal, o->constant().to_int());
      }
      w_.end_array();
    });
  }
  void empty_array() {
    w_.begin_array();
    w_.end_array();
  }

  void constant_argument(const Value& v, const SchemaType* type = nullptr) {
    BaseType base = type ? type->base : BaseType::any;
    switch (v.kind()) {
      case ValueKind::none:
        return one_value("as_none", true);
      case ValueKind::bool_:
        return one_value("as_bool", v.to_bool());
      case ValueKind::float_:
        return one_value("as_float", v.to_double());
      case ValueKind::string:
        return one_value("as_string", v.string());
      case ValueKind::int_:
        if (base == BaseType::dtype)
          return one_value("as_scalar_type", scalar_type(static_cast<DType>(v.to_int())));
        if (base == BaseType::memory_format)
          return one_value("as_memory_format", memory_format(static_cast<MemoryFormat>(v.to_int())));
        if (base == BaseType::layout) return one_value("as_layout", strided_layout);
        if (base == BaseType::float_) return one_value("as_float", v.to_double());
        return one_value("as_int", v.to_int());
      case ValueKind::complex_:
        return one("as_complex", [&] {
          std::complex<double> c = v.scalar().to_complex();
          w_.begin_object();
          w_.member("real", c.real());
          w_.member("imag", c.imag());
          w_.end_object();
        });
      case ValueKind::device:
        return one("as_device", [&] { device(v.device()); });
      case ValueKind::list:
      case ValueKind::tuple:
        return constant_list(v, base);
      case ValueKind::tensor:
        fail(ErrorKind::not_supported,
             "a tensor constant inside the graph: lift it to an input before saving");
      default:
        failf(ErrorKind::not_supported, "a .pt2 file cannot hold a {}", v.kind_name());
    }
  }

  void constant_list(const Value& v, BaseType base) {
    const std::vector<Value>& items = v.items();
    auto all = [&](auto&& is) {
      for (const Value& item : items)
        if (!is(item)) return false;
      return true;
    };
    auto write_all = [&](std::string_view key, auto&& put) {
      one(key, [&] {
        w_.begin_array();
        for (const Value& item : items) put(item);
        w_.end_array();
      });
    };
    if (items.empty()) {
      std::string_view key = base == BaseType::tensor   ? "as_tensors"
                             : base == BaseType::float_ ? "as_floats"
                             : base == BaseType::bool_  ? "as_bools"
                                                        : "as_ints";
      return one(key, [&] { empty_array(); });
    }
    if (base == BaseType::float_)
      return write_all("as_floats", [&](const Value& i) { w_.value(i.to_double()); });
    if (all([](const Value& i) { return i.is_int(); }))
      return write_all("as_ints", [&](const Value& i) { w_.value(i.to_int()); });
    if (all([](const Value& i) { return i.is_bool(); }))
      return write_all("as_bools", [&](const Value& i) { w_.value(i.to_bool()); });
    if (all([](const Value& i) { return i.is_float() || i.is_int(); }))
      return write_all("as_floats", [&](const Value& i) { w_.value(i.to_double()); });
    if (all([](const Value& i) { return i.is_string(); }))
      return write_all("as_strings", [&](const Value& i) { w_.value(i.string()); });
    if (all([](const Value& i) { return i.is_none(); }))
      return write_all("as_optional_tensors", [&](const Value&) { one_value("as_none", true); });
    if (all([](const Value& i) { return i.is_list(); }))
      return write_all("as_int_lists", [&](const Value& i) {
        w_.begin_array();
        for (const Value& n : i.items()) w_.value(n.to_int());
        w_.end_array();
      });
    failf(ErrorKind::not_supported, "a .pt2 file cannot hold the list {}", v.str());
  }

  void device(Device d) {
    w_.begin_object();
    w_.member("type", d.str().substr(0, d.str().find(':')));
    w_.key("index");
    if (d.index < 0)
      w_.null();
    else
      w_.value(static_cast<int64_t>(d.index));
    w_.end_object();
  }

  // ---- what values are ----

  void tensor_meta(const ir::Type& type) {
    if (!type.has_sizes())
      fail(ErrorKind::not_supported, "a tensor without known sizes cannot be written to a .pt2 file");
    w_.begin_object();
    w_.member("dtype", scalar_type(type.dtype()));
    w_.key("sizes");
    dims(type.sizes());
    w_.member("requires_grad", type.requires_grad().value_or(false));
    w_.key("device");
    device(type.device().value_or(kCPU));
    w_.key("strides");
    if (type.has_strides())
      dims(type.strides());
    else
      dims(contiguous_strides(type.sizes()));
    w_.key("storage_offset");
    one_value("as_int", 0);
    w_.member("layout", strided_layout);
    w_.end_object();
  }
  void dims(Span<const SymInt> all) {
    w_.begin_array();
    for (SymInt s : all) sym_int(s);
    w_.end_array();
  }
  void sym_int(SymInt s) {
    if (s.is_int())
      one_value("as_int", s.as_int());
    else
      sym_expr("as_int", s);
  }
  void sym_expr(std::string_view hint_key, SymInt s) {
    if (s.is_int() && hint_key == "as_bool") return one_value("as_bool", s.as_int() != 0);
    one("as_expr", [&] {
      w_.begin_object();
      w_.member("expr_str", shapes_->str(s));
      w_.key("hint");
      std::optional<int64_t> hint = shapes_->is_unbacked(s) ? std::nullopt : shapes_->hint(s);
      if (!hint)
        w_.null();
      else if (hint_key == "as_bool")
        one_value(hint_key, *hint != 0);
      else
        one_value(hint_key, *hint);
      w_.end_object();
    });
  }

  // ---- where nodes come from ----

  void metadata(const ir::Node& n) {
    w_.begin_object();
    std::unordered_set<std::string> written;
    for (const auto& [key, value] : n.all_meta()) {
      if (!value.is_string()) continue;
      w_.member(key.view(), value.string());
      written.insert(key.str());
    }
    if (const ir::Origin* o = n.origin(); o && o->has_place() && !written.count("stack_trace")) {
      std::string trace = fmt::format("File \"{}\", line {}, in {}", o->file.view(), o->line,
                                      o->function.empty() ? "forward" : o->function.view());
      if (!o->text.empty()) trace += fmt::format("\n    {}", o->text.view());
      w_.member("stack_trace", trace);
    }
    if (n.scope() && !written.count("nn_module_stack")) {
      std::string stack;
      for (const ir::ModuleScope* s = n.scope(); s; s = s->parent) {
        std::string key = "L__self__", path = s->path.str();
        for (char c : path) key += c == '.' ? '_' : c;
        std::string type = s->type_name.empty() ? "torch.nn.modules.module.Module" : s->type_name.str();
        std::string one = fmt::format("{},{},{}", key, path, type);
        stack = stack.empty() ? one : one + ";" + stack;
      }
      w_.member("nn_module_stack", stack);
    }
    w_.end_object();
  }

  // ---- signature ----

  void write_signature() {
    w_.begin_object();
    w_.key("input_specs");
    w_.begin_array();
    for (size_t i = 0; i < data_.signature.inputs.size(); ++i)
      input_spec(data_.signature.inputs[i], *graph_.inputs()[i]);
    w_.end_array();
    w_.key("output_specs");
    w_.begin_array();
    for (size_t i = 0; i < data_.signature.outputs.size(); ++i)
      output_spec(data_.signature.outputs[i], graph_.outputs()[i]);
    w_.end_array();
    w_.end_object();
  }

  void input_spec(const InputSpec& s, const ir::Value& v) {
    auto targeted = [&](std::string_view kind, std::string_view key) {
      one(kind, [&] {
        w_.begin_object();
        w_.key("arg");
        named(s.name);
        w_.member(key, s.target);
        if (s.kind == InputKind::buffer) w_.member("persistent", s.persistent);
        w_.end_object();
      });
    };
    switch (s.kind) {
      case InputKind::parameter:
        return targeted("parameter", "parameter_name");
      case InputKind::buffer:
        return targeted("buffer", "buffer_name");
      case InputKind::constant_tensor:
        return targeted("tensor_constant", "tensor_constant_name");
      case InputKind::custom_obj:
        return one("custom_obj", [&] {
          w_.begin_object();
          w_.key("arg");
          w_.begin_object();
          w_.member("name", s.name);
          w_.member("class_fqn", s.constant ? s.constant->string() : std::string());
          w_.end_object();
          w_.member("custom_obj_name", s.target);
          w_.end_object();
        });
      case InputKind::token:
        return one("token", [&] { one("arg", [&] { named(s.name); }); });
      case InputKind::user_input:
        break;
    }
    if (s.constant)
      return one("constant_input", [&] {
        w_.begin_object();
        w_.member("name", s.name);
        w_.key("value");
        constant_value(*s.constant);
        w_.end_object();
      });
    one("user_input", [&] { one("arg", [&] { value_argument(v); }); });
  }

  void constant_value(const Value& v) {
    switch (v.kind()) {
      case ValueKind::none:
        return one_value("as_none", true);
      case ValueKind::int_:
        return one_value("as_int", v.to_int());
      case ValueKind::float_:
        return one_value("as_float", v.to_double());
      case ValueKind::bool_:
        return one_value("as_bool", v.to_bool());
      case ValueKind::string:
        return one_value("as_string", v.string());
      default:
        failf(ErrorKind::not_supported, "a .pt2 file cannot hold an input that is a {}", v.kind_name());
    }
  }

  void output_spec(const OutputSpec& s, const ir::Operand& o) {
    auto targeted = [&](std::string_view kind, std::string_view key) {
      one(kind, [&] {
        w_.begin_object();
        w_.key("arg");
        named(s.name);
        w_.member(key, s.target);
        w_.end_object();
      });
    };
    switch (s.kind) {
      case OutputKind::buffer_mutation:
        return targeted("buffer_mutation", "buffer_name");
      case OutputKind::parameter_mutation:
        return targeted("parameter_mutation", "parameter_name");
      case OutputKind::gradient_to_parameter:
        return targeted("gradient_to_parameter", "parameter_name");
      case OutputKind::gradient_to_user_input:
        return targeted("gradient_to_user_input", "user_input_name");
      case OutputKind::user_input_mutation:
        return targeted("user_input_mutation", "user_input_name");
      case OutputKind::token:
        return one("token", [&] { one("arg", [&] { named(s.name); }); });
      case OutputKind::loss_output:
        return one("loss_output", [&] { one("arg", [&] { named(s.name); }); });
      case OutputKind::user_output:
        return one("user_output", [&] { one("arg", [&] { argument(o); }); });
    }
  }

  void write_module_calls() {
    w_.begin_array();
    for (const ModuleCall& call : data_.module_calls) {
      w_.begin_object();
      w_.member("fqn", call.path);
      w_.key("signature");
      if (!call.signature) {
        w_.null();
      } else {
        w_.begin_object();
        auto names = [&](std::string_view key, const std::vector<std::string>& all) {
          w_.key(key);
          w_.begin_array();
          for (const std::string& name : all) {
            const ir::Value* v = graph_.find(name);
            if (v)
              value_argument(*v);
            else
              one_value("as_none", true);
          }
          w_.end_array();
        };
        names("inputs", call.signature->inputs);
        names("outputs", call.signature->outputs);
        w_.member("in_spec", tree::to_json(call.signature->in_spec));
        w_.member("out_spec", tree::to_json(call.signature->out_spec));
        w_.key("forward_arg_names");
        w_.begin_array();
        for (const std::string& name : call.signature->arg_names) w_.value(name);
        w_.end_array();
        w_.end_object();
      }
      w_.end_object();
    }
    w_.end_array();
  }

  void write_named_tuples() {
    w_.begin_object();
    std::unordered_set<std::string> seen;
    auto walk = [&](auto& self, const tree::Spec& spec) -> void {
      if (spec.is_leaf()) return;
      if (spec.type() == "collections.namedtuple" && spec.context().is_string() && !spec.fields().empty() &&
          seen.insert(spec.context().string()).second) {
        w_.key(spec.context().string());
        one("field_names", [&] {
          w_.begin_array();
          for (const std::string& f : spec.fields()) w_.value(f);
          w_.end_array();
        });
      }
      for (const tree::Spec& child : spec.children()) self(self, child);
    };
    walk(walk, data_.in_spec);
    walk(walk, data_.out_spec);
    w_.end_object();
  }

  const ExportedProgram& program_;
  const ExportedProgram::Data& data_;
  const ir::Graph& graph_;
  Shared<ShapeEnv> shapes_;
  GraphSymbols symbols_;
  io::JsonWriter w_;
  std::unordered_map<std::string_view, size_t> next_graph_;  // by the operator's kind
  size_t next_float_ = 0;
};

}  // namespace

std::string program_json(const ExportedProgram& program) {
  ExportedProgram lowered =
      with_tensors_for_numbers(with_identifiers(with_tokens(with_control_operators(program))));
  return ProgramJson(lowered).write();
}

void write_tensor_meta(io::JsonWriter& w, const Tensor& t, int64_t offset) {
  w.begin_object();
  w.member("dtype", scalar_type(t.dtype()));
  auto dims = [&](std::string_view key, Span<const SymInt> all) {
    w.key(key);
    w.begin_array();
    for (SymInt s : all) {
      w.begin_object();
      w.member("as_int", s.guard_int());
      w.end_object();
    }
    w.end_array();
  };
  dims("sizes", t.sizes());
  w.member("requires_grad", t.requires_grad());
  w.key("device");
  w.begin_object();
  w.member("type", "cpu");
  w.key("index");
  w.null();
  w.end_object();
  dims("strides", t.strides());
  w.key("storage_offset");
  w.begin_object();
  w.member("as_int", offset);
  w.end_object();
  w.member("layout", strided_layout);
  w.end_object();
}

}  // namespace tern::pt2
