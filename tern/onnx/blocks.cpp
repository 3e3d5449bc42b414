// Lowering of blocks: If, Loop, and the operators that take functions (cond, while_loop, map, scan).
#include "tern/base/format.h"
#include "tern/ir/builtins.h"
#include "tern/ir/higher_order.h"
#include "tern/onnx/driver.h"

namespace tern::onnx {
namespace {

DType number_dtype(const ir::Type* t) {
  switch (t->kind()) {
    case ir::TypeKind::int_:
      return DType::int64;
    case ir::TypeKind::float_:
      return DType::float32;
    case ir::TypeKind::bool_:
      return DType::bool_;
    default:
      return DType::undefined;
  }
}

}  // namespace

// A graph inside the one being written: what is lowered while it is open goes into it.
class Driver::Body {
 public:
  Body(Driver& driver, std::string_view name) : driver_(driver), graph_(new_shared<GraphProto>()) {
    graph_->name = driver.fresh(name);
    driver.scopes_.push_back({graph_.get(), {}, {}, {}});
  }
  Ref param(const Ref& like, std::string_view hint) {
    Ref r{driver_.fresh(hint), like.dtype, like.rank};
    TypeProto t =
        TypeProto::tensor(r.dtype == DType::undefined ? DataType::undefined : data_type_of(r.dtype));
    if (r.rank == 0) t.shape.emplace();
    graph_->inputs.push_back({r.name, std::move(t)});
    return r;
  }
  void set_output_type(TypeProto type) { graph_->outputs.back().type = std::move(type); }
  Shared<GraphProto> finish() {
    Scope& scope = driver_.scopes_.back();
    for (const std::string& key : scope.vectors) driver_.vectors_.erase(key);
    for (const std::string& key : scope.scalars) driver_.scalars_.erase(key);
    driver_.scopes_.pop_back();
    return graph_;
  }

 private:
  Driver& driver_;
  Shared<GraphProto> graph_;
};

// Names in a subgraph must be made in it: what comes from outside passes through Identity.
Ref Driver::output_of_block(const Slot& s, const ir::Type* type, DType dtype) {
  Ref r = ref(s, "result of a block");
  if (!r) fail(ErrorKind::not_supported, "a block gives None, which ONNX has no value for");
  if (type && type->is(ir::TypeKind::int_) && r.rank != 0) r = as_scalar({0, r});
  if (dtype != DType::undefined && r.dtype != dtype && r.dtype != DType::undefined)
    r = emit("Cast", {r}, {Attribute::of("to", static_cast<int64_t>(data_type_of(dtype)))}, 1, dtype)[0];
  GraphProto& g = *scopes_.back().graph;
  bool again = false;
  for (const ValueInfo& v : g.outputs) again = again || v.name == r.name;
  if (again || !scopes_.back().produced.count(r.name)) {
    int rank = r.rank;
    r = emit("Identity", {r}, {}, 1, r.dtype)[0];
    r.rank = rank;
  }
  g.outputs.push_back(
      {r.name, TypeProto::tensor(r.dtype == DType::undefined ? DataType::undefined : data_type_of(r.dtype))});
  return r;
}

void Driver::lower_if(const ir::Node& node) {
  Slot condition = slot(node.input(0));
  if (condition.is_constant() && !condition.constant.is_tensor()) {
    const ir::Block& block = *node.blocks()[ir::truth(condition.constant) ? 0 : 1];
    lower_block(block);
    for (size_t i = 0; i < node.num_outputs(); ++i) bind(node.output(i), slot(block.returns()[i]));
    return;
  }
  Ref c = ref(condition, "condition");
  if (c.dtype != DType::bool_) c = emit("Cast", {c}, {Attribute::of("to", int64_t{9})}, 1, DType::bool_)[0];
  Shared<GraphProto> branches[2];
  std::vector<Ref> results[2];
  for (size_t k = 0; k < 2; ++k) {
    Body body(*this, k ? "else_branch" : "then_branch");
    const ir::Block& block = *node.blocks()[k];
    lower_block(block);
    for (size_t i = 0; i < node.num_outputs(); ++i) {
      const ir::Type* t = node.output(i).type();
      DType wanted = t->is_tensor() ? t->dtype() : number_dtype(t);
      if (wanted == DType::undefined && k == 1) wanted = results[0][i].dtype;
      results[k].push_back(output_of_block(slot(block.returns()[i]), t, wanted));
    }
    branches[k] = body.finish();
  }
  current_ = &node;
  std::vector<Ref> out =
      emit("If", {c}, {Attribute::of("then_branch", branches[0]), Attribute::of("else_branch", branches[1])},
           node.num_outputs(), DType::bool_);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].dtype = results[0][i].dtype;
    out[i].rank = results[0][i].rank == results[1][i].rank ? results[0][i].rank : -1;
    bind(node.output(i), Slot::of(out[i]));
  }
}

void Driver::lower_loop(const ir::Node& node) {
  const ir::Block& block = *node.blocks()[0];
  Slot trips = slot(node.input(0)), condition = slot(node.input(1));
  Inputs inputs;
  bool endless = trips.is_constant() && trips.constant.is_int() && trips.constant.to_int() == INT64_MAX;
  inputs.push_back(endless ? Ref() : as_scalar(size(trips)));
  Ref c = ref(condition, "condition");
  if (c.dtype != DType::bool_) c = emit("Cast", {c}, {Attribute::of("to", int64_t{9})}, 1, DType::bool_)[0];
  inputs.push_back(c);
  std::vector<Ref> carried;
  for (size_t i = 2; i < node.inputs().size(); ++i) {
    Slot s = slot(node.input(i));
    const ir::Type* t = block.param(i - 1).type();
    Ref r = t->is(ir::TypeKind::int_) ? as_scalar(size(s)) : ref(s, "initial value of a loop");
    if (!r) refuse(node, "a loop starts with None, which ONNX has no value for");
    inputs.push_back(r);
    carried.push_back(r);
  }
  Body body(*this, "loop_body");
  bind(block.param(0), Slot::of(body.param({"i", DType::int64, 0}, "iteration")));
  body.param({"c", DType::bool_, 0}, "condition");
  for (size_t i = 0; i < carried.size(); ++i) {
    Ref like = carried[i];
    if (block.param(i + 1).type()->is_tensor() && !block.param(i + 1).type()->has_sizes()) like.rank = -1;
    bind(block.param(i + 1), Slot::of(body.param(like, block.param(i + 1).name())));
  }
  lower_block(block);
  output_of_block(slot(block.returns()[0]), ir::Type::boolean(), DType::bool_);
  std::vector<Ref> results;
  for (size_t i = 0; i < carried.size(); ++i)
    results.push_back(
        output_of_block(slot(block.returns()[i + 1]), block.param(i + 1).type(), carried[i].dtype));
  auto graph = body.finish();
  current_ = &node;
  if (carried.empty()) return;  // a loop without results has no effect in a functional graph
  std::vector<Ref> out = emit("Loop", inputs, {Attribute::of("body", graph)}, carried.size(), DType::bool_);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].dtype = carried[i].dtype;
    out[i].rank = results[i].rank == carried[i].rank ? carried[i].rank : -1;
    bind(node.output(i), Slot::of(out[i]));
  }
}

// Blocks take the operands as parameters; those that stay the same in every round are seen from inside.
void Driver::lower_higher_order(const ir::Node& node) {
  const ir::HigherOrder& op = *ir::find_higher_order(node.kind().view());
  ir::Operands groups = ir::operands_of(node);
  for (const ir::Block* block : node.blocks())
    for (size_t i = groups.carried + groups.sliced; i < block->params().size(); ++i)
      bind(block->param(i), slot(node.input(op.first + i)));
  if (op.inlined) {
    if (node.is("higher_order::wrap_with_autocast") && ir::truth(*node.attribute("enabled")))
      refuse(node, "its casts are not in the program yet; call run_decompositions() first");
    const ir::Block& block = *node.blocks()[0];
    lower_block(block);
    for (size_t i = 0; i < node.num_outputs(); ++i) bind(node.output(i), slot(block.returns()[i]));
    return;
  }
  if (node.is("higher_order::cond")) return lower_if(node);
  if (node.is("higher_order::while_loop")) return lower_while(node);
  lower_scan(node, groups);
}

// The condition is asked once before the Loop, and at the end of each round.
void Driver::lower_while(const ir::Node& node) {
  const ir::Block &condition = *node.blocks()[0], &block = *node.blocks()[1];
  size_t carried = node.num_outputs();
  auto ask = [&](auto&& state) -> Slot {
    for (size_t i = 0; i < carried; ++i) bind(condition.param(i), state(i));
    lower_block(condition);
    return slot(condition.returns()[0]);
  };
  auto as_bool = [&](const Slot& s) {
    Ref c = ref(s, "condition");
    if (c.dtype != DType::bool_) c = emit("Cast", {c}, {Attribute::of("to", int64_t{9})}, 1, DType::bool_)[0];
    return c;
  };
  Inputs inputs{Ref(), as_bool(ask([&](size_t i) { return slot(node.input(i)); }))};
  std::vector<Ref> start;
  for (size_t i = 0; i < carried; ++i) {
    Slot s = slot(node.input(i));
    Ref r = block.param(i).type()->is(ir::TypeKind::int_) ? as_scalar(size(s)) : ref(s, "initial value");
    inputs.push_back(r);
    start.push_back(r);
  }
  Body body(*this, "loop_body");
  body.param({"i", DType::int64, 0}, "iteration");
  body.param({"c", DType::bool_, 0}, "condition");
  for (size_t i = 0; i < carried; ++i)
    bind(block.param(i), Slot::of(body.param(start[i], block.param(i).name())));
  lower_block(block);
  output_of_block(ask([&](size_t i) { return slot(block.returns()[i]); }), ir::Type::boolean(), DType::bool_);
  for (size_t i = 0; i < carried; ++i)
    output_of_block(slot(block.returns()[i]), block.param(i).type(), start[i].dtype);
  auto graph = body.finish();
  current_ = &node;
  std::vector<Ref> out = emit("Loop", inputs, {Attribute::of("body", graph)}, carried, DType::bool_);
  for (size_t i = 0; i < carried; ++i) {
    out[i].dtype = start[i].dtype;
    out[i].rank = start[i].rank;
    bind(node.output(i), Slot::of(out[i]));
  }
}

// map and scan as Scan: states first, then what is gone over along axis 0.
void Driver::lower_scan(const ir::Node& node, ir::Operands groups) {
  const ir::Block& block = *node.blocks()[0];
  Inputs inputs;
  for (size_t i = 0; i < groups.carried + groups.sliced; ++i)
    inputs.push_back(ref(slot(node.input(i)), i < groups.carried ? "init" : "xs"));
  Inputs states(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(groups.carried));
  Body body(*this, "scan_body");
  for (size_t i = 0; i < inputs.size(); ++i) {
    Ref inside = inputs[i];
    if (i >= groups.carried && inside.rank > 0) --inside.rank;
    bind(block.param(i), Slot::of(body.param(inside, block.param(i).name())));
  }
  lower_block(block);
  std::vector<Ref> results;
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    const ir::Type* t = node.output(i).type();
    results.push_back(
        output_of_block(slot(block.returns()[i]), t, i < states.size() ? states[i].dtype : t->dtype()));
    // ONNX Runtime wants to know the shapes of what a round gives.
    body.set_output_type(type_of(block.returns()[i].type(), results.back()));
  }
  auto graph = body.finish();
  current_ = &node;
  std::vector<Ref> out = emit(
      "Scan", inputs,
      {Attribute::of("body", graph), Attribute::of("num_scan_inputs", static_cast<int64_t>(groups.sliced))},
      node.num_outputs(), DType::bool_);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].dtype = results[i].dtype;
    out[i].rank = i < states.size() ? states[i].rank : results[i].rank < 0 ? -1 : results[i].rank + 1;
    bind(node.output(i), Slot::of(out[i]));
  }
}

}  // namespace tern::onnx
