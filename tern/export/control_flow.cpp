#include "tern/export/control_flow.h"

#include "tern/base/format.h"
#include "tern/capture/closures.h"
#include "tern/capture/recorder.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

capture::Recorder* current_recorder() {
  if (!(thread_state.active & ~thread_state.excluded & rung_record)) return nullptr;
  return dynamic_cast<capture::Recorder*>(thread_state.modes[0]);
}

bool truth_of(const Value& v) {
  if (!v.is_tensor()) return v.is_int() ? SymBool::from_expr(v.sym()).guard_bool() : v.to_bool();
  if (!(v.tensor().numel() == 1))
    failf("cond: the condition must have one element, but its shape is {}", str(v.tensor().sizes()));
  return v.tensor().item<bool>();
}

// One branch as it is recorded: what it was given inside its block, what it gave.
struct Recorded {
  ir::Block* block;
  tree::Flat result;
  std::vector<ir::In> returns;
};

class CondRecorder {
 public:
  CondRecorder(capture::Recorder& recorder, const std::vector<Value>& operands)
      : recorder_(recorder), graph_(recorder.graph), operands_(tree::flatten(Value::tuple(operands))) {}

  Value run(const Value& predicate, const Branch& true_fn, const Branch& false_fn) {
    std::vector<ir::In> inputs{recorder_.operand(predicate)};
    for (const Value& v : operands_.leaves)
      if (is_operand(v)) inputs.push_back(recorder_.operand(v));
    ir::Node& node = graph_.make("higher_order::cond", inputs, {}, "cond");
    node.set_origin(ir::Origin::at(thread_state.loc, ir::ModuleScope::of(thread_state.scope)));
    Value result;
    try {
      Recorded a = branch(node, true_fn, "true_fn"), b = branch(node, false_fn, "false_fn");
      result = finish(node, a, b);
    } catch (...) {
      while (!node.blocks().empty()) node.remove_block(node.blocks().size() - 1);
      graph_.erase(node);
      throw;
    }
    capture::lift_closures(node, 1);
    return result;
  }

 private:
  // Numbers that are known stay what they are inside the branches.
  static bool is_operand(const Value& v) { return v.is_tensor() || (v.is_int() && v.sym().is_symbolic()); }

  Recorded branch(ir::Node& node, const Branch& f, std::string_view name) {
    Recorded r{&node.add_block(), {}, {}};
    capture::Recorder::Known outside = recorder_.known();
    std::vector<Value> inside;
    std::vector<std::pair<Tensor, uint32_t>> versions;
    for (const Value& v : operands_.leaves) {
      if (v.is_tensor()) {
        Tensor copy = v.tensor().shallow_copy();
        if (!copy.is_fake())
          copy = make_tensor(copy.sizes(), copy.strides(), copy.dtype(), copy.device(), true);
        ir::Value* outer = recorder_.find(v.tensor());
        recorder_.bind(copy, r.block->add_param(ir::Type::tensor_like(copy), outer ? outer->name() : "arg"));
        inside.emplace_back(copy);
      } else {
        if (is_operand(v)) recorder_.bind(v.sym(), r.block->add_param(ir::Type::integer(), "size"));
        inside.push_back(v);
      }
    }
    {
      ir::InsertAt at(r.block->return_node());
      Value given = tree::unflatten(operands_.spec, inside);
      r.result = tree::flatten(f(given.items()));
      check_mutation(*r.block, name);
      for (const Value& leaf : r.result.leaves) r.returns.push_back(recorder_.operand(leaf));
    }
    recorder_.forget_to(std::move(outside));
    return r;
  }

  // A write inside a branch to memory from outside of it cannot be told to the program around.
  static void check_mutation(const ir::Block& block, std::string_view name) {
    for (const ir::Node& n : block) {
      const Op* op = n.op();
      if (!op || !op->schema().mutates()) continue;
      for (size_t i = 0; i < n.inputs().size(); ++i) {
        if (!op->schema().args[i].alias.write || !n.input(i).is_value()) continue;
        const ir::Value* v = &n.input(i).value();
        while (v->node() && &v->node()->block() == &block && v->node()->op() &&
               (v->node()->op()->is(op_view) || v->node()->op()->is(op_inplace)) &&
               v->node()->input(0).is_value())
          v = &v->node()->input(0).value();
        if (!v->node() || &v->node()->block() != &block)
          failf(
              "cond: {} changes %{} in place ({}); a branch must not change its inputs: return a new tensor "
              "instead",
              name, v->name(), op->qualified());
      }
    }
  }

  Value finish(ir::Node& node, Recorded& a, Recorded& b) {
    if (!(a.result.spec == b.result.spec))
      failf("cond: the branches must give the same structure, but true_fn gives {} and false_fn gives {}",
            a.result.spec.str(), b.result.spec.str());
    std::vector<Value> leaves;
    for (size_t i = 0; i < a.result.leaves.size(); ++i) {
      const Value &x = a.result.leaves[i], &y = b.result.leaves[i];
      if (!x.is_tensor() && !is_operand(x) && !is_operand(y)) {
        if (!x.equals(y))
          failf("cond: the branches give different constants, {} and {}; only tensors may differ", x.str(),
                y.str());
        leaves.push_back(x);
        continue;
      }
      a.block->add_return(a.returns[i]);
      b.block->add_return(b.returns[i]);
      leaves.push_back(x.is_tensor() ? tensor_output(node, x, y) : int_output(node));
    }
    return tree::unflatten(a.result.spec, leaves);
  }

  Value tensor_output(ir::Node& node, const Value& x, const Value& y) {
    if (!y.is_tensor()) failf("cond: one branch gives a tensor, the other a {}", y.kind_name());
    const Tensor &s = x.tensor(), &t = y.tensor();
    if (s.dtype() != t.dtype())
      failf("cond: the branches give tensors of {} and {}; convert one of them with to()", name(s.dtype()),
            name(t.dtype()));
    if (s.dim() != t.dim())
      failf("cond: the branches give tensors of shapes {} and {}", str(s.sizes()), str(t.sizes()));
    Dims sizes(s.sizes());
    ShapeEnv& env = *graph_.shapes;
    for (size_t d = 0; d < sizes.size(); ++d)
      if (!surely_eq(sizes[d], t.sizes()[d])) {
        sizes[d] = env.create_unbacked_symint("cond");
        env.check_is_size(sizes[d]);
      }
    Tensor out = make_tensor(sizes, s.dtype(), s.device(), true);
    recorder_.bind(out, node.add_output(ir::Type::tensor_like(out), "getitem"));
    return out;
  }

  Value int_output(ir::Node& node) {
    SymInt s = graph_.shapes->create_unbacked_symint("cond");
    recorder_.bind(s, node.add_output(ir::Type::integer(), "getitem"));
    return s;
  }

  capture::Recorder& recorder_;
  ir::Graph& graph_;
  tree::Flat operands_;
};

}  // namespace

Value cond(const Predicate& predicate, const Branch& true_fn, const Branch& false_fn,
           const std::vector<Value>& operands) {
  const Value& p = predicate.value();
  capture::Recorder* recorder = current_recorder();
  bool known = p.is_bool();
  if (p.is_int()) known = p.sym().maybe_int().has_value();
  if (p.is_tensor() && !p.tensor().is_fake() && recorder && !recorder->knows(p.tensor())) known = true;
  if (!recorder || !(thread_state.active & rung_fake) || known)
    return truth_of(p) ? true_fn(operands) : false_fn(operands);
  if (p.is_tensor() && p.tensor().dtype() != DType::bool_)
    failf("cond: the condition must be a bool tensor, but it is one of {}", name(p.tensor().dtype()));
  return CondRecorder(*recorder, operands).run(p, true_fn, false_fn);
}

}  // namespace tern
