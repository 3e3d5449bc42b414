#include "tern/export/pt2_control.h"

#include <algorithm>
#include <set>

#include "tern/base/format.h"
#include "tern/capture/closures.h"
#include "tern/capture/recorder.h"
#include "tern/ir/pass.h"
#include "tern/ops.h"
#include "tern/sym/shape_env.h"

namespace tern::pt2 {
namespace {

bool has_control(const ir::Block& block) {
  for (const ir::Node& n : block) {
    if (n.is("prim::If") || n.is("prim::Loop")) return true;
    for (const ir::Block* b : n.blocks())
      if (has_control(*b)) return true;
  }
  return false;
}

const ir::Type* number_type(DType dtype) {
  return ir::Type::tensor_like(make_tensor(Dims{}, dtype, kCPU, true));
}

class Converter {
 public:
  explicit Converter(ir::Graph& graph) : graph_(graph) {}

  // From the outside in: what a loop carries is tensors before what is inside of it looks for them.
  void run(ir::Block& block) {
    std::vector<ir::Node*> nodes;
    for (ir::Node& n : block) nodes.push_back(&n);
    for (ir::Node* n : nodes) {
      if (n->is("prim::If"))
        n = &convert_if(*n);
      else if (n->is("prim::Loop"))
        n = &convert_loop(*n);
      for (ir::Block* b : n->blocks()) run(*b);
    }
  }
  // A number that was taken out of a tensor only to be put into one.
  void tidy(ir::Block& block) {
    for (ir::Node& n : block) {
      for (ir::Block* b : n.blocks()) tidy(*b);
      if (!n.is("aten::scalar_tensor") || !n.input(0).is_value()) continue;
      const ir::Node* item = n.input(0).value().node();
      if (item && capture::takes_number_out(*item) && item->input(0).value().type() == n.output().type())
        n.output().replace_all_uses_with(item->input(0).value());
    }
  }

 private:
  static bool is_tensor(const ir::In& in) {
    return in.is_value() ? in.value()->type()->is_tensor() : in.constant().is_tensor();
  }
  ir::In call(std::string_view op, std::initializer_list<ir::In> inputs, const ir::Type* type) {
    return ir::In(graph_.call(op, Span<const ir::In>(inputs.begin(), inputs.size()), type).output());
  }

  // A condition that is a tensor already, of one element and of any dtype.
  ir::In as_scalar_of(ir::In in, DType dtype) {
    const ir::Type* given = in.is_value() ? in.value()->type() : ir::Type::of(in.constant());
    if (dtype == kBool && given->dtype() != kBool) {
      ir::TensorInfo info = given->info();
      info.dtype = kBool;
      in = call("aten::ne.Scalar", {in, ir::In(Value(0))}, ir::Type::tensor(info));
    }
    if (given->has_sizes() && given->sizes().empty()) return in;
    return call("aten::reshape", {in, ir::In(Value::list(std::vector<Value>{}))}, number_type(dtype));
  }
  // A number of the graph as a tensor without dimensions, computed where nodes go now.
  ir::In tensor_of(const ir::In& in, DType dtype) {
    const ir::Type* type = number_type(dtype);
    if (is_tensor(in)) return as_scalar_of(in, dtype);
    const ir::Node* n = in.is_value() ? in.value()->node() : nullptr;
    if (n && capture::takes_number_out(*n) && n->input(0).is_value()) {
      ir::Value& t = n->input(0).value();
      if (t.type()->dtype() == dtype && t.type()->has_sizes())
        return t.type()->sizes().empty()
                   ? ir::In(t)
                   : call("aten::reshape", {ir::In(t), ir::In(Value::list(std::vector<Value>{}))}, type);
    }
    if (n && !n->op() && dtype == kBool) {
      static constexpr std::pair<std::string_view, const char*> logic[] = {
          {"aten::__not__", "aten::logical_not"},
          {"aten::__and__", "aten::logical_and"},
          {"aten::__or__", "aten::logical_or"}};
      for (auto& [kind, op] : logic) {
        if (n->kind().view() != kind) continue;
        ir::In a = tensor_of(ir::In(n->input(0)), kBool);
        if (n->inputs().size() == 1) return call(op, {a}, type);
        return call(op, {a, tensor_of(ir::In(n->input(1)), kBool)}, type);
      }
      for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
        if (n->kind().view() != fmt::format("aten::{}", name) || n->inputs().size() != 2) continue;
        ir::In a = tensor_of(ir::In(n->input(0)), kLong), b = tensor_of(ir::In(n->input(1)), kLong);
        return call(fmt::format("aten::{}.Tensor", name), {a, b}, type);
      }
    }
    return call("aten::scalar_tensor", {in, ir::In(Value(dtype)), ir::In(), ir::In(), ir::In()}, type);
  }
  DType dtype_of(const ir::Type& type) { return type.is(ir::TypeKind::bool_) ? kBool : kLong; }
  ir::In as_tensor(const ir::In& in, const ir::Type& type) {
    return is_tensor(in) ? in : tensor_of(in, dtype_of(type));
  }
  // Back to a number where one is asked for.
  ir::Value& number_of(ir::Value& tensor) {
    ir::In inputs[] = {ir::In(tensor)};
    ir::Node& item = graph_.call("aten::item", inputs, ir::Type::integer(), "item");
    item.set_meta("unbacked_symbol", Value(graph_.shapes->create_unbacked_symint("item")));
    return item.output();
  }

  // A copy of a block at the end of another; what is from outside stays what it is.
  std::vector<ir::In> copy_into(ir::Block& target, const ir::Block& source, ir::ValueMap map) {
    for (ir::Value* v : capture::values_from_outside(source))
      if (!map.count(v)) map.emplace(v, ir::In(*v));
    graph_.insert_at_end(target);
    return graph_.inline_block(source, map);
  }
  // The outputs of `old`, from the output of `made` at `first` on; then `old` goes.
  void hand_over(ir::Node& old, ir::Node& made, size_t first) {
    ir::InsertAt here(old);
    for (size_t i = 0; i < old.num_outputs(); ++i) {
      ir::Value& out = made.output(first + i);
      old.output(i).replace_all_uses_with(old.output(i).type()->is_tensor() ? out : number_of(out));
    }
    while (!old.blocks().empty()) old.remove_block(old.blocks().size() - 1);
    graph_.erase(old);
  }

  ir::Node& convert_if(ir::Node& node) {
    ir::InsertAt here(node);
    ir::In inputs[] = {tensor_of(ir::In(node.input(0)), kBool)};
    ir::Node& made = graph_.make("higher_order::cond", inputs, {}, "cond");
    made.set_origin(node.origin());
    for (const ir::Block* from : node.blocks()) {
      ir::Block& block = made.add_block();
      std::vector<ir::In> returns = copy_into(block, *from, {});
      for (size_t i = 0; i < returns.size(); ++i)
        block.add_return(as_tensor(returns[i], *node.output(i).type()));
      graph_.insert_at(node);
    }
    for (const ir::Value* out : node.outputs())
      made.add_output(out->type()->is_tensor() ? out->type() : number_type(dtype_of(*out->type())),
                      "getitem");
    capture::lift_closures(made, 1, true);
    hand_over(node, made, 0);
    return made;
  }

  // Carried are the number of rounds, whether to go on, and what the loop carries.
  ir::Node& convert_loop(ir::Node& node) {
    const ir::Block& body = *node.blocks()[0];
    ir::InsertAt here(node);
    bool bounded = !node.input(0).is_constant() ||
                   node.input(0).constant().sym().maybe_int().value_or(0) < (int64_t{1} << 62);
    std::vector<ir::In> inputs{tensor_of(ir::In(Value(0)), kLong), tensor_of(ir::In(node.input(1)), kBool)};
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const ir::Type &start = *body.param(i + 1).type(), &end = *node.output(i).type();
      bool same = !end.is_tensor() || (start.has_sizes() && end.has_sizes() &&
                                       std::equal(start.sizes().begin(), start.sizes().end(),
                                                  end.sizes().begin(), end.sizes().end(), surely_eq));
      if (!same)
        failf(
            ErrorKind::not_supported,
            "prim::Loop (%{}{}): a .pt2 file cannot hold a loop that changes the size of what it carries ({} "
            "and {}); an ONNX file can",
            node.name(), node.origin() && node.origin()->has_place() ? " @ " + node.origin()->place() : "",
            start.str(), end.str());
      inputs.push_back(as_tensor(ir::In(node.input(i + 2)), end));
    }
    ir::Node& made = graph_.make("higher_order::while_loop", inputs, {}, "while_loop");
    made.set_origin(node.origin());
    made.set_attribute("num_carried", Value(static_cast<int64_t>(inputs.size())));
    ir::Block *asked = &made.add_block(), *round = &made.add_block();
    for (ir::Block* block : {asked, round})
      for (const ir::In& in : inputs)
        block->add_param(in.is_value() ? in.value()->type() : ir::Type::of(in.constant()), "carried");

    graph_.insert_at_end(*asked);
    ir::In go_on(asked->param(1));
    if (bounded) {
      ir::In left =
          call("aten::lt.Tensor", {ir::In(asked->param(0)), tensor_of(ir::In(node.input(0)), kLong)},
               number_type(kBool));
      go_on = call("aten::logical_and", {left, go_on}, number_type(kBool));
    }
    asked->add_return(go_on);

    graph_.insert_at_end(*round);
    ir::ValueMap map;
    if (body.param(0).has_uses()) map.emplace(&body.param(0), ir::In(number_of(round->param(0))));
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      ir::Value& p = round->param(i + 2);
      map.emplace(&body.param(i + 1), node.output(i).type()->is_tensor() ? ir::In(p) : ir::In(number_of(p)));
    }
    std::vector<ir::In> returns = copy_into(*round, body, std::move(map));
    round->add_return(call("aten::add.Tensor", {ir::In(round->param(0)), ir::In(Value(1)), ir::In(Value(1))},
                           number_type(kLong)));
    round->add_return(tensor_of(returns[0], kBool));
    for (size_t i = 0; i < node.num_outputs(); ++i)
      round->add_return(as_tensor(returns[i + 1], *node.output(i).type()));
    graph_.insert_at(node);
    for (const ir::Value* p : round->params()) made.add_output(p->type(), "getitem");
    capture::lift_closures(made, 0, true);
    hand_over(node, made, 2);
    return made;
  }

  ir::Graph& graph_;
};

}  // namespace

namespace {

void collect_symbols(const ir::Block& block, std::set<std::string>& names) {
  for (const ir::Node& n : block) {
    if (const Value* symbol = n.meta("unbacked_symbol")) names.insert(symbol->str());
    for (const ir::Block* b : n.blocks()) collect_symbols(*b, names);
  }
}

}  // namespace

ExportedProgram with_control_operators(const ExportedProgram& program) {
  const ExportedProgram::Data& from = program.data();
  if (!has_control(from.graph->top())) return program;
  auto data = new_shared<ExportedProgram::Data>();
  static_cast<ExportedProgram::Interface&>(*data) = from;
  data->graph = from.graph->clone();
  if (!data->graph->shapes) data->graph->shapes = new_shared<ShapeEnv>();
  Converter converter(*data->graph);
  converter.run(data->graph->top());
  converter.tidy(data->graph->top());
  ir::dce(*data->graph);
  // Conditions that are tensors now need no number, and no range of it.
  std::set<std::string> before, after;
  collect_symbols(from.graph->top(), before);
  collect_symbols(data->graph->top(), after);
  std::erase_if(data->range_constraints,
                [&](const auto& r) { return before.count(r.first) && !after.count(r.first); });
  for (size_t i = 0; i < data->signature.outputs.size(); ++i)
    if (const ir::Operand& o = data->graph->outputs()[i]; o.is_value())
      data->signature.outputs[i].name = o.value().name();
  return ExportedProgram(data);
}

}  // namespace tern::pt2
