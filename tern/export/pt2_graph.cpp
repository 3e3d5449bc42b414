// Graphs and their nodes in the JSON of the .pt2 schema.
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/export/pt2_schema.h"
#include "tern/export/pt2_write.h"
#include "tern/ir/higher_order.h"

namespace tern::pt2 {
namespace {

bool is_unpack(const ir::Node& n) { return n.is("prim::ListUnpack") || n.is("prim::TupleUnpack"); }
bool same(const Value& a, const Value& b) { return a.kind() == b.kind() && a.equals(b); }

}  // namespace

GraphWriter::GraphWriter(const ExportedProgram& program)
    : ValueWriter(program.graph().shapes ? program.graph().shapes : new_shared<ShapeEnv>()),
      data_(program.data()),
      graph_(program.graph()),
      symbols_(*shapes_) {
  for (const auto& [input, symbol] : data_.int_inputs) symbols_.set(*graph_.inputs()[input], symbol);
}

template <class F>
void GraphWriter::for_values(const ir::Block& block, F&& f) {
  for (size_t i = 0; i < block.params().size(); ++i)
    if (block.parent() || !data_.signature.inputs[i].constant) f(*block.params()[i]);
  for (const ir::Node& n : block)
    for (const ir::Value* v : n.outputs()) f(*v);
}

void GraphWriter::write_graph(const ir::Block& block, bool single_tensor_return) {
  w_.begin_object();
  w_.key("inputs");
  w_.begin_array();
  for (size_t i = 0; i < block.params().size(); ++i) {
    const ir::Value& v = block.param(i);
    const bool top = !block.parent();
    if (top && data_.signature.inputs[i].constant)
      constant_argument(*data_.signature.inputs[i].constant);
    else if (top && data_.signature.inputs[i].kind == InputKind::custom_obj)
      one("as_custom_obj", [&] { custom_object(data_.signature.inputs[i]); });
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
        custom_object(s);
      }
  w_.end_object();
  w_.key("sym_float_values");
  w_.begin_object();
  for_values(block, [&](const ir::Value& v) {
    if (!v.type()->is(ir::TypeKind::float_)) return;
    w_.key(v.name());
    sym_expr("as_float", symbols_.of(v));
  });
  w_.end_object();
  w_.end_object();
}

void GraphWriter::custom_object(const InputSpec& s) {
  w_.begin_object();
  w_.member("name", s.name);
  w_.member("class_fqn", s.constant ? s.constant->string() : std::string());
  w_.end_object();
}

void GraphWriter::write_values(const ir::Block& block) {
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

void GraphWriter::write_node(const ir::Node& n) {
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

void GraphWriter::named_argument(std::string_view name, bool keyword, const Function<void()>& arg) {
  w_.begin_object();
  w_.member("name", name);
  w_.key("arg");
  arg();
  w_.member("kind", keyword ? 2 : 1);
  w_.end_object();
}

// What equals its default is left out, as torch.fx does; what stands after a gap is given by its name.
// PyTorch wants an argument that Python cannot name (uniform's `from`) in any case.
void GraphWriter::schema_inputs(const ir::Node& n, const Schema& schema) {
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

void GraphWriter::plain_inputs(const ir::Node& n, bool sym) {
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
void GraphWriter::higher_order_inputs(const ir::Node& n) {
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
void GraphWriter::named_inputs(const ir::Node& n) {
  if (n.is("higher_order::with_effects")) return tied_inputs(n);
  if (const Value* target = n.attribute("operator"))
    named_argument("", false, [&] { one_value("as_operator", target_of(target->string())); });
  plain_inputs(n, false);
}

// with_effects(token, operator, the operator's arguments...).
void GraphWriter::tied_inputs(const ir::Node& n) {
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

void GraphWriter::node_output(const ir::Value& v) {
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

void GraphWriter::metadata(const ir::Node& n) {
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

}  // namespace tern::pt2
