#include "tern/export/control_flow.h"

#include "tern/base/format.h"
#include "tern/capture/closures.h"
#include "tern/capture/higher_order.h"
#include "tern/capture/recorder.h"
#include "tern/dispatch/autocast.h"
#include "tern/ir/higher_order.h"
#include "tern/ops.h"
#include "tern/sym/shape_env.h"

namespace tern {
namespace {

using Body = ir::Control::Body;
using Attributes = std::vector<std::pair<Symbol, Value>>;

// The recorder of an export on this thread; nullptr where things run for real.
capture::Recorder* exporting() {
  if (!(thread_state.active & ~thread_state.excluded & rung_record)) return nullptr;
  if (!(thread_state.active & rung_fake)) return nullptr;
  return dynamic_cast<capture::Recorder*>(thread_state.modes[0]);
}

bool is_symbolic(const Value& v) { return v.is_int() && v.sym().is_symbolic(); }

bool truth_of(std::string_view name, const Value& v) {
  if (!v.is_tensor()) return v.is_int() ? SymBool::from_expr(v.sym()).guard_bool() : v.to_bool();
  if (!(v.tensor().numel() == 1))
    failf("{}: the condition must have one element, but its shape is {}", name, str(v.tensor().sizes()));
  return v.tensor().item<bool>();
}

// Records one node with its blocks.
class NodeRecorder {
 public:
  NodeRecorder(capture::Recorder& recorder, std::string_view name)
      : recorder_(recorder),
        graph_(recorder.graph),
        name_(name),
        kind_(fmt::format("higher_order::{}", name == "map" ? "map_impl" : name)),
        op_(*ir::find_higher_order(kind_)) {}

  // The bodies get and give flat values; `leading` are inputs that the bodies do not get. Gives what the
  // operator gives.
  std::vector<Value> run(const Attributes& attributes, const std::vector<Value>& leading,
                         const std::vector<Value>& operands, const std::vector<Body>& bodies,
                         Span<const std::string_view> roles) {
    std::vector<ir::In> inputs;
    for (const Value& v : leading) inputs.push_back(recorder_.operand(v));
    for (const Value& v : operands) inputs.push_back(recorder_.operand(v));
    ir::Node& node = graph_.make(kind_, inputs, {}, kind_.substr(14));
    node.set_origin(capture::Recorder::here());
    recorder_.note(node);
    for (const auto& [key, value] : attributes) node.set_attribute(key, value);
    groups_ = ir::operands_of(node);
    if (name_ == "while_loop") groups_.carried = operands.size();
    std::vector<Value> results;
    try {
      std::vector<Recorded> recorded;
      for (size_t i = 0; i < bodies.size(); ++i)
        recorded.push_back(record(node, operands, bodies[i], roles[i]));
      results = finish(node, operands, recorded);
    } catch (...) {
      while (!node.blocks().empty()) node.remove_block(node.blocks().size() - 1);
      recorder_.forget(node);
      graph_.erase(node);
      throw;
    }
    capture::lift_closures(node, op_.first);
    return results;
  }

 private:
  struct Recorded {
    ir::Block* block;
    std::vector<Value> given;
    std::vector<ir::In> returns;
  };

  Recorded record(ir::Node& node, const std::vector<Value>& operands, const Body& f, std::string_view role) {
    Recorded r{&node.add_block(), {}, {}};
    capture::Recorder::Known outside = recorder_.known();
    std::vector<Value> inside = capture::body_operands(name_, groups_, operands, *graph_.shapes);
    for (size_t i = 0; i < inside.size(); ++i) {
      if (inside[i].is_tensor()) {
        ir::Value* outer = recorder_.find(operands[i].tensor());
        recorder_.bind(inside[i].tensor(), r.block->add_param(ir::Type::tensor_like(inside[i].tensor()),
                                                              outer ? outer->name() : "arg"));
      } else {
        ir::Value& p = r.block->add_param(ir::Type::of(inside[i]), "size");
        if (inside[i].is_int()) recorder_.bind(inside[i].sym(), p);
      }
    }
    {
      ir::InsertAt at(r.block->return_node());
      r.given = f(inside);
      if (!op_.inlined) check_mutation(*r.block, role);
      for (const Value& v : r.given) r.returns.push_back(recorder_.operand(v));
    }
    recorder_.forget_to(std::move(outside));
    return r;
  }

  // A write inside a body to memory from outside of it cannot be told to the program around.
  void check_mutation(const ir::Block& block, std::string_view role) {
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
              "{}: {} changes %{} in place ({}); a branch must not change its inputs: return a new tensor "
              "instead",
              name_, role, v->name(), op->qualified());
      }
    }
  }

  std::vector<Value> finish(ir::Node& node, const std::vector<Value>& operands,
                            std::vector<Recorded>& recorded) {
    if (name_ == "while_loop") {
      check_condition(recorded[0]);
      recorded[0].block->add_return(recorded[0].returns[0]);
      recorded.erase(recorded.begin());
    }
    std::vector<Value> results;
    for (size_t k = 0; k < recorded[0].given.size(); ++k) {
      const Value& x = recorded[0].given[k];
      const Value& y = recorded.back().given[k];
      // A number that every path gives is known outside too.
      bool known = !x.is_tensor() && !is_symbolic(x) && !is_symbolic(y) && k >= groups_.carried;
      if (known && !x.equals(y))
        failf("{}: the branches give different constants, {} and {}; only tensors may differ", name_, x.str(),
              y.str());
      if (known) {
        results.push_back(x);
        continue;
      }
      for (Recorded& r : recorded) r.block->add_return(r.returns[k]);
      Value fake = recorded.size() > 1
                       ? capture::either(name_, x, y, *graph_.shapes)
                       : capture::result_of_body(name_, groups_, operands, k, x, *graph_.shapes);
      // What leaves a block is another tensor than what is inside of it.
      if (op_.inlined && fake.is_tensor()) fake = fake.tensor().shallow_copy();
      const ir::Type* type = fake.is_tensor() ? ir::Type::tensor_like(fake.tensor()) : ir::Type::of(fake);
      ir::Value& out = node.add_output(type, "getitem");
      if (fake.is_tensor())
        recorder_.bind(fake.tensor(), out);
      else if (fake.is_int())
        recorder_.bind(fake.sym(), out);
      results.push_back(std::move(fake));
    }
    return results;
  }

  void check_condition(const Recorded& r) {
    bool ok = r.given.size() == 1;
    if (ok && r.given[0].is_tensor())
      ok = r.given[0].tensor().dtype() == DType::bool_ && r.given[0].tensor().dim() == 0;
    else if (ok)
      ok = r.given[0].is_bool() || is_symbolic(r.given[0]);
    if (!ok)
      failf("while_loop: cond_fn must return a boolean scalar tensor or a boolean but got {}",
            r.given.empty() ? "nothing"
            : r.given[0].is_tensor()
                ? fmt::format("a tensor of {} of shape {}", name(r.given[0].tensor().dtype()),
                              str(r.given[0].tensor().sizes()))
                : std::string(r.given[0].kind_name()));
  }

  capture::Recorder& recorder_;
  ir::Graph& graph_;
  std::string name_, kind_;
  const ir::HigherOrder& op_;
  ir::Operands groups_;
};

// The leaves that are inputs of the node; the others are known, and are put back inside.
struct Operands {
  tree::Flat flat;
  std::vector<Value> given;

  Operands(const std::vector<Value>& operands, bool all) : flat(tree::flatten(Value::tuple(operands))) {
    for (const Value& v : flat.leaves) {
      chosen_.push_back(all || v.is_tensor() || is_symbolic(v));
      if (chosen_.back()) given.push_back(v);
    }
  }
  std::vector<Value> inside(const std::vector<Value>& values) const {
    std::vector<Value> leaves = flat.leaves;
    size_t next = 0;
    for (size_t i = 0; i < leaves.size(); ++i)
      if (chosen_[i]) leaves[i] = values[next++];
    return tree::unflatten(flat.spec, leaves).items();
  }

 private:
  std::vector<bool> chosen_;
};

// A function on trees as one on flat values; notes the structure of its result.
Body flat_body(const Operands& operands, const Branch& f, tree::Spec& spec) {
  return [&operands, &f, &spec](const std::vector<Value>& values) {
    tree::Flat result = tree::flatten(f(operands.inside(values)));
    spec = result.spec;
    return std::move(result.leaves);
  };
}

Value stack_leaves(const std::vector<tree::Flat>& rounds) {
  std::vector<Value> leaves;
  for (size_t k = 0; k < rounds[0].leaves.size(); ++k) {
    std::vector<Tensor> parts;
    for (const tree::Flat& r : rounds) {
      if (!r.leaves[k].is_tensor())
        failf("map: the function must give tensors, but gives a {}", r.leaves[k].kind_name());
      parts.push_back(r.leaves[k].tensor());
    }
    leaves.emplace_back(stack(parts));
  }
  return tree::unflatten(rounds[0].spec, leaves);
}

Value select_leaves(const tree::Flat& xs, int64_t i) {
  std::vector<Value> leaves;
  for (const Value& v : xs.leaves) leaves.emplace_back(select(v.tensor(), 0, i));
  return tree::unflatten(xs.spec, leaves);
}

void check_mapped(const tree::Flat& xs) {
  if (xs.leaves.empty()) fail("map: there is nothing to map over");
  for (const Value& v : xs.leaves) {
    if (!v.is_tensor()) failf("Mapped xs can only consist of tensors. Got xs {}.", v.str());
    if (v.tensor().dim() == 0) fail("Leading dimensions of mapped xs cannot be 0.");
  }
  for (const Value& v : xs.leaves) {
    SymInt n = v.tensor().sizes()[0], first = xs.leaves[0].tensor().sizes()[0];
    if (n.is_int() && n.as_int() == 0) fail("Leading dimensions of mapped xs cannot be 0.");
    if (!(n == first)) {
      std::string shapes;
      for (const Value& t : xs.leaves) shapes += (shapes.empty() ? "" : ", ") + str(t.tensor().sizes());
      failf("Leading dimensions of mapped xs must be consistent. Got shapes [{}].", shapes);
    }
  }
}

}  // namespace

Value cond(const Predicate& predicate, const Branch& true_fn, const Branch& false_fn,
           const std::vector<Value>& operands) {
  const Value& p = predicate.value();
  capture::Recorder* recorder = exporting();
  bool known = p.is_bool();
  if (p.is_int()) known = p.sym().maybe_int().has_value();
  if (p.is_tensor() && !p.tensor().is_fake() && recorder && !recorder->knows(p.tensor())) known = true;
  if (!recorder || known) return truth_of("cond", p) ? true_fn(operands) : false_fn(operands);
  if (p.is_tensor() && p.tensor().dtype() != DType::bool_)
    failf("cond: the condition must be a bool tensor, but it is one of {}", name(p.tensor().dtype()));
  Operands given(operands, false);
  tree::Spec a, b;
  auto check = [&](const std::vector<Value>& values) {
    std::vector<Value> leaves = flat_body(given, false_fn, b)(values);
    if (!(a == b))
      failf("cond: the branches must give the same structure, but true_fn gives {} and false_fn gives {}",
            a.str(), b.str());
    return leaves;
  };
  static constexpr std::string_view roles[] = {"true_fn", "false_fn"};
  std::vector<Body> bodies{flat_body(given, true_fn, a), check};
  return tree::unflatten(a, NodeRecorder(*recorder, "cond").run({}, {p}, given.given, bodies, roles));
}

Value map(const Branch& f, const Value& xs, const std::vector<Value>& args) {
  tree::Flat flat = tree::flatten(xs);
  check_mapped(flat);
  if (capture::Recorder* recorder = exporting()) {
    std::vector<Value> all{xs};
    all.insert(all.end(), args.begin(), args.end());
    Operands given(all, false);
    tree::Spec spec;
    static constexpr std::string_view roles[] = {"f"};
    Attributes attributes{{"num_mapped", Value(static_cast<int64_t>(flat.leaves.size()))}};
    return tree::unflatten(
        spec,
        NodeRecorder(*recorder, "map").run(attributes, {}, given.given, {flat_body(given, f, spec)}, roles));
  }
  std::vector<tree::Flat> rounds;
  for (int64_t i = 0, n = flat.leaves[0].tensor().sizes()[0].guard_int(); i < n; ++i) {
    std::vector<Value> one{select_leaves(flat, i)};
    one.insert(one.end(), args.begin(), args.end());
    rounds.push_back(tree::flatten(f(one)));
  }
  return stack_leaves(rounds);
}

std::vector<Value> while_loop(const Branch& cond_fn, const Branch& body_fn,
                              const std::vector<Value>& carried) {
  auto check = [&](const Value& result, const tree::Spec& wanted) {
    tree::Flat flat =
        tree::flatten(result.is_tuple() || result.is_list() ? Value::tuple(result.items())
                                                            : Value::tuple(std::vector<Value>{result}));
    if (!(flat.spec == wanted))
      failf(
          "while_loop: body_fn should return the same structure as carried_inputs, but they are {} and it "
          "gives {}",
          wanted.str(), flat.spec.str());
    return flat;
  };
  tree::Flat start = tree::flatten(Value::tuple(carried));
  for (const Value& v : start.leaves)
    if (!v.is_tensor() && !v.is_int())
      failf(
          "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only consists of "
          "tensor or int leaves, but got {}.",
          v.str());
  if (capture::Recorder* recorder = exporting()) {
    Operands given(carried, true);
    tree::Spec condition;
    auto body = [&](const std::vector<Value>& values) {
      return check(body_fn(given.inside(values)), start.spec).leaves;
    };
    static constexpr std::string_view roles[] = {"cond_fn", "body_fn"};
    Attributes attributes{{"num_carried", Value(static_cast<int64_t>(given.given.size()))}};
    std::vector<Value> leaves =
        NodeRecorder(*recorder, "while_loop")
            .run(attributes, {}, given.given, {flat_body(given, cond_fn, condition), body}, roles);
    return tree::unflatten(start.spec, leaves).items();
  }
  std::vector<Value> state = carried;
  while (truth_of("while_loop", cond_fn(state)))
    state = tree::unflatten(start.spec, check(body_fn(state), start.spec).leaves).items();
  return state;
}

std::pair<Value, Value> scan(const Branch& combine_fn, const Value& init, const Value& xs, int64_t dim,
                             bool reverse) {
  tree::Flat start = tree::flatten(init), flat = tree::flatten(xs);
  if (start.leaves.empty()) fail("scan() operator requires init leaves.");
  for (const Value& v : start.leaves)
    if (!v.is_tensor()) failf("All init leaves must be a Tensor but got {}", v.str());
  if (flat.leaves.empty()) fail("scan: there is nothing to go over");
  for (Value& v : flat.leaves) {
    if (!v.is_tensor()) failf("All xs leaves must be a Tensor but got {}", v.str());
    const Tensor& t = v.tensor();
    int64_t d = dim < 0 ? dim + t.dim() : dim;
    bool empty = d < 0 || d >= t.dim() || (t.sizes()[d].is_int() && t.sizes()[d].as_int() == 0);
    if (empty) fail("All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0");
    Tensor moved = d == 0 ? t : movedim(t, d, 0);
    v = reverse ? flip(moved, {0}) : moved;
  }
  check_mapped(flat);
  auto split = [&](const Value& result) {
    if (!(result.is_tuple() || result.is_list()) || result.items().size() != 2)
      fail("scan: combine_fn must give a pair of the carry and an output");
    tree::Flat carry = tree::flatten(result.items()[0]), y = tree::flatten(result.items()[1]);
    if (!(carry.spec == start.spec))
      failf("scan: init and the carry of combine_fn must have the same structure, but are {} and {}",
            start.spec.str(), carry.spec.str());
    return std::pair(carry, y);
  };

  Value last, ys;
  if (capture::Recorder* recorder = exporting()) {
    Operands given({init, tree::unflatten(flat.spec, flat.leaves)}, true);
    tree::Spec spec;
    auto body = [&](const std::vector<Value>& values) {
      auto [carry, y] = split(combine_fn(given.inside(values)));
      spec = y.spec;
      carry.leaves.insert(carry.leaves.end(), y.leaves.begin(), y.leaves.end());
      return carry.leaves;
    };
    static constexpr std::string_view roles[] = {"combine_fn"};
    Attributes attributes{{"num_init", Value(static_cast<int64_t>(start.leaves.size()))},
                          {"num_xs", Value(static_cast<int64_t>(flat.leaves.size()))}};
    std::vector<Value> all = NodeRecorder(*recorder, "scan").run(attributes, {}, given.given, {body}, roles);
    auto middle = all.begin() + static_cast<std::ptrdiff_t>(start.leaves.size());
    last = tree::unflatten(start.spec, std::vector<Value>(all.begin(), middle));
    ys = tree::unflatten(spec, std::vector<Value>(middle, all.end()));
  } else {
    last = init;
    std::vector<tree::Flat> rounds;
    for (int64_t i = 0, n = flat.leaves[0].tensor().sizes()[0].guard_int(); i < n; ++i) {
      auto [carry, y] = split(combine_fn({last, select_leaves(flat, i)}));
      last = tree::unflatten(start.spec, carry.leaves);
      rounds.push_back(std::move(y));
    }
    ys = stack_leaves(rounds);
  }
  tree::Flat out = tree::flatten(ys);
  for (Value& v : out.leaves) {
    Tensor t = reverse ? flip(v.tensor(), {0}) : v.tensor();
    int64_t d = dim < 0 ? dim + t.dim() : dim;
    v = d == 0 ? t : movedim(t, 0, d);
  }
  return {last, tree::unflatten(out.spec, out.leaves)};
}

bool RecordControl::run(const ir::Node& node, const std::vector<Value>& inputs,
                        const std::vector<Body>& bodies, std::vector<Value>& outputs) {
  capture::Recorder* recorder = exporting();
  const ir::HigherOrder* op = ir::find_higher_order(node.kind().view());
  if (!recorder || !op) return false;
  // A region of the program is recorded as one again: the modes are noted with each call.
  if (op->inlined) return false;
  auto middle = inputs.begin() + static_cast<std::ptrdiff_t>(op->first);
  std::vector<Value> leading(inputs.begin(), middle), operands(middle, inputs.end());
  if (op->first && !leading[0].is_tensor() && !is_symbolic(leading[0])) return false;
  Attributes attributes(node.attributes().begin(), node.attributes().end());
  size_t carried = ir::operands_of(node).carried;
  std::string_view name = op->kind.substr(14);
  static constexpr std::string_view roles[] = {"a body", "a body"};
  if (name == "while_loop") {
    // What is not carried comes from around the loop.
    std::vector<Value> rest(operands.begin() + static_cast<std::ptrdiff_t>(carried), operands.end());
    operands.resize(carried);
    auto with_rest = [&](const Body& f) -> Body {
      return [&f, &rest](std::vector<Value> state) {
        state.insert(state.end(), rest.begin(), rest.end());
        return f(state);
      };
    };
    std::vector<Body> closed{with_rest(bodies[0]), with_rest(bodies[1])};
    outputs = NodeRecorder(*recorder, name).run(attributes, leading, operands, closed, roles);
    return true;
  }
  outputs = NodeRecorder(*recorder, name == "map_impl" ? "map" : name)
                .run(attributes, leading, operands, bodies, roles);
  return true;
}

}  // namespace tern
