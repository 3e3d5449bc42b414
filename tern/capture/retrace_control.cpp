// Branches, loops and operators that take functions, while a graph is retraced.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/capture/closures.h"
#include "tern/capture/higher_order.h"
#include "tern/capture/retracer.h"
#include "tern/dispatch/autocast.h"
#include "tern/ir/auto_functionalized.h"
#include "tern/ir/higher_order.h"
#include "tern/ops.h"

namespace tern::capture {

bool Retracer::is_boolean(const tern::Value& v) const {
  return v.is_bool() || (is_symbolic(v) && (booleans_.count(v.sym().bits()) || is_condition(v.sym())));
}

std::optional<bool> Retracer::known_truth(const tern::Value& v) {
  if (v.is_bool()) return v.to_bool();
  if (v.is_int())
    if (auto n = v.sym().maybe_int()) return *n != 0;
  return std::nullopt;
}

// A symbol for an int, a bool or a float of the graph.
tern::Value Retracer::new_number(ir::Value& v) {
  bool boolean = v.type()->is(ir::TypeKind::bool_), real = v.type()->is(ir::TypeKind::float_);
  SymInt n = boolean ? graph_->shapes->create_unbacked_symbool("condition").as_expr()
             : real  ? graph_->shapes->create_unbacked_float_symbol("float", Loc{})
                     : graph_->shapes->create_unbacked_symint("carried");
  if (boolean) booleans_.insert(n.bits());
  core_.bind(n, v);
  return n;
}

// A tensor that stands where nothing is read, of that shape as far as it is known here.
Tensor Retracer::stand_in(const Tensor& like, const tern::Value& what) {
  Dims sizes;
  for (SymInt n : like.sizes()) sizes.push_back(n.is_int() || n.hint() ? n : SymInt(0));
  std::optional<int64_t> grows = static_cast<const Uninitialized*>(what.box())->grows;
  if (grows) sizes[static_cast<size_t>(wrap_dim(*grows, like.dim(), false))] = 0;
  return plain(zeros(sizes, like.dtype())).tensor();
}

tern::Value Retracer::uninitialized() {
  static const tern::Value only = tern::Value::object(new Uninitialized);
  return only;
}

// A list that became a tensor (export/script_values.h).
tern::Value Retracer::append_row(const ir::Node& node, const std::vector<tern::Value>& inputs) {
  const Tensor& x = inputs[1].tensor();
  Tensor more = node.attribute("rows")->to_bool() ? unsqueeze(x, 0) : x;
  if (is_uninitialized(inputs[0])) return more;
  return cat({inputs[0].tensor(), more}, node.attribute("dim")->to_int());
}

Retracer::Branch Retracer::run_inside(const ir::Block& source, ir::Block& target) {
  Branch b{&target, {}, {}, {}};
  Recorder::Known outside = core_.known();
  ir::InsertAt at(target.return_node());
  if (options_.functional) functional_.begin_block();
  made_.emplace_back();
  run_block(source);
  made_.pop_back();
  for (const ir::Operand& o : source.returns()) {
    b.returns.push_back(tree::flatten(plain(value_of(o))));
    b.operands.emplace_back();
    for (const tern::Value& leaf : b.returns.back().leaves)
      b.operands.back().push_back(is_uninitialized(leaf) ? ir::In() : core_.operand(leaf));
  }
  if (options_.functional) b.writes = functional_.end_block();
  core_.forget_to(std::move(outside));
  return b;
}

const tern::Value& Retracer::only(const tree::Flat& flat) {
  if (!flat.spec.is_leaf()) fail("a function of a higher-order operator gives a container");
  return flat.leaves[0];
}

// The same containers on both sides; one that is not initialised becomes like the other.
void Retracer::align(std::string_view what, tree::Flat& a, std::vector<ir::In>& in_a, tree::Flat& b,
                     std::vector<ir::In>& in_b) {
  auto empty = [](const tree::Flat& f) { return f.spec.is_leaf() && is_uninitialized(f.leaves[0]); };
  auto become = [](tree::Flat& f, std::vector<ir::In>& in, const tree::Flat& other) {
    f.spec = other.spec;
    f.leaves.assign(other.leaves.size(), uninitialized());
    in.assign(other.leaves.size(), ir::In());
  };
  if (empty(a)) become(a, in_a, b);
  if (empty(b)) become(b, in_b, a);
  if (!(a.spec == b.spec))
    failf(ErrorKind::not_supported, "{}: the containers differ ({} and {}): a program has one structure",
          what, a.spec.str(), b.spec.str());
}

Functional::Write* Retracer::find(std::vector<Functional::Write>& writes, const Storage& s) {
  for (Functional::Write& w : writes)
    if (w.storage == s) return &w;
  return nullptr;
}

tern::Value Retracer::merge(const tern::Value& a, const tern::Value& b) {
  return either("If", a, b, *graph_->shapes);
}

void Retracer::give(ir::Node& node, size_t output, const tern::Value& fake, const ir::Value* to) {
  ir::Value& v = node.output(output);
  if (fake.is_tensor()) {
    v.set_type(ir::Type::tensor_like(fake.tensor()));
    core_.bind(fake.tensor(), v);
  } else if (fake.is_int()) {
    core_.bind(fake.sym(), v);
  }
  if (to) set_value(*to, fake);
}

void Retracer::set_value(const ir::Value& v, const tern::Value& plain) {
  tern::Value& now = values_[&v] = options_.functional ? functional_.wrap(plain) : plain;
  note_made(now);
}

// The type of what is carried or chosen where it is not one constant; nullptr: it must be one.
const ir::Type* Retracer::open_type(const tern::Value& a, const tern::Value& b) const {
  if (is_boolean(a) && is_boolean(b)) return ir::Type::boolean();
  if (a.is_int() && b.is_int() && !is_boolean(a) && !is_boolean(b)) return ir::Type::integer();
  return nullptr;
}

void Retracer::refuse(std::string_view what, const tern::Value& a, const tern::Value& b) {
  if (a.is_tensor() != b.is_tensor())
    failf("{}: one branch gives a {}, the other a {}", what, a.kind_name(), b.kind_name());
  failf(ErrorKind::not_supported,
        "{}: {} and {} are given: only tensors, ints and bools may depend on data in a program; make it a "
        "tensor",
        what, a.str(), b.str());
}

// One result of an If, whose paths give `va` and `vb`.
tern::Value Retracer::choose(ir::Node& made, ir::Block& block_a, ir::In a, tern::Value va, ir::Block& block_b,
                             ir::In b, tern::Value vb, std::string_view name) {
  auto fill = [&](ir::Block& block, ir::In& in, tern::Value& v, const tern::Value& other) {
    if (!is_uninitialized(v)) return;
    if (other.is_tensor()) {
      Recorder::Known outside = core_.known();
      ir::InsertAt at(block.return_node());
      v = stand_in(other.tensor(), v);
      in = core_.operand(v);
      core_.forget_to(std::move(outside));
      return;
    }
    v = !is_symbolic(other) ? other : is_boolean(other) ? tern::Value(false) : tern::Value(0);
    in = core_.operand(v);
  };
  if (is_uninitialized(va) && is_uninitialized(vb))
    return static_cast<const Uninitialized*>(va.box())->grows ? va : vb;
  fill(block_a, a, va, vb);
  fill(block_b, b, vb, va);
  bool tensors = va.is_tensor() && vb.is_tensor();
  if (!tensors && !is_symbolic(va) && !is_symbolic(vb) && va.equals(vb)) return va;
  const ir::Type* type = tensors ? ir::Type::tensor() : open_type(va, vb);
  if (!type) refuse("If", va, vb);
  block_a.add_return(a);
  block_b.add_return(b);
  ir::Value& out = made.add_output(type, name);
  if (!tensors) return new_number(out);
  tern::Value fake = merge(va, vb);
  give(made, made.num_outputs() - 1, fake, nullptr);
  return fake;
}

void Retracer::take(const ir::Node& node, size_t path) {
  const ir::Block& taken = *node.blocks()[path];
  run_block(taken);
  for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = value_of(taken.returns()[i]);
}

// What a block says when it raises, whatever happens; nullopt: it does not.
std::optional<std::string> Retracer::always_raises(const ir::Block& block) {
  for (const ir::Node& n : block)
    if (n.is("prim::RaiseException"))
      return n.input(0).is_constant() && n.input(0).constant().is_string()
                 ? n.input(0).constant().string()
                 : "the script raises for these inputs";
  return std::nullopt;
}

// Of a number that was taken out of a tensor; others are conditions on sizes, which wrong inputs do not meet
// anyway.
void Retracer::assume(const ir::In& condition, bool expected, const std::string& otherwise) {
  const ir::Node* item = condition.is_value() ? condition.value()->node() : nullptr;
  if (!item || !takes_number_out(*item) || !item->input(0).is_value()) return;
  ir::In holds(item->input(0).value());
  if (!expected) {
    ir::In inputs[] = {holds};
    holds = ir::In(graph_->call("aten::logical_not", inputs, holds.value()->type()).output());
  }
  ir::In inputs[] = {holds, ir::In(tern::Value(otherwise))};
  graph_->call("aten::_assert_async.msg", inputs);
}

void Retracer::run_if(const ir::Node& node) {
  tern::Value condition = value_of(node.input(0));
  if (std::optional<bool> known = known_truth(condition)) return take(node, *known ? 0 : 1);
  ir::In inputs[] = {core_.operand(plain(condition))};
  // A program does not raise: the other path is the program, and that it is taken is checked where it can be.
  std::optional<std::string> first = always_raises(*node.blocks()[0]),
                             second = always_raises(*node.blocks()[1]);
  if (first.has_value() != second.has_value()) {
    assume(inputs[0], second.has_value(), first ? *first : *second);
    return take(node, first ? 1 : 0);
  }
  ir::Node& made = graph_->make("prim::If", inputs, {});
  made.set_origin(node.origin());
  Branch a = run_inside(*node.blocks()[0], made.add_block());
  Branch b = run_inside(*node.blocks()[1], made.add_block());
  core_.source = &node;
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    tree::Flat &x = a.returns[i], &y = b.returns[i];
    align("If", x, a.operands[i], y, b.operands[i]);
    std::vector<tern::Value> leaves;
    for (size_t k = 0; k < x.leaves.size(); ++k)
      leaves.push_back(choose(made, *a.block, a.operands[i][k], x.leaves[k], *b.block, b.operands[i][k],
                              y.leaves[k], node.output(i).name()));
    set_value(node.output(i), tree::unflatten(x.spec, leaves));
  }
  // Memory written on one of the paths: its value is a result of the node.
  std::vector<Storage> written;
  for (Branch* branch : {&a, &b})
    for (Functional::Write& w : branch->writes)
      if (std::none_of(written.begin(), written.end(), [&](const Storage& s) { return s == w.storage; }))
        written.push_back(w.storage);
  for (const Storage& s : written) {
    Tensor now[2];
    int k = 0;
    for (Branch* branch : {&a, &b}) {
      Functional::Write* w = find(branch->writes, s);
      now[k] = w ? w->before : s->alias->value;
      branch->block->add_return(core_.operand(now[k]));
      ++k;
    }
    made.add_output(ir::Type::tensor(), "written");
    tern::Value fake = merge(now[0], now[1]);
    give(made, made.num_outputs() - 1, fake, nullptr);
    functional_.set_value(s, fake.tensor());
  }
}

// A region of the program (gradient mode, autocast) becomes part of it: the casts are made here.
void Retracer::run_region(const ir::Node& node) {
  const ir::Block& body = *node.blocks()[0];
  for (size_t i = 0; i < body.params().size(); ++i) values_[&body.param(i)] = value_of(node.input(i));
  std::optional<Autocast> casts;
  if (node.is("higher_order::wrap_with_autocast")) {
    const tern::Value& dtype = *node.attribute("dtype");
    casts.emplace(dtype.is_none() ? kBFloat16 : static_cast<DType>(dtype.to_int()),
                  node.attribute("enabled")->to_bool());
  }
  run_block(body);
  for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = value_of(body.returns()[i]);
}

// An operator with blocks that take its inputs and stand on their own.
void Retracer::run_higher_order(const ir::Node& node, const ir::HigherOrder& op) {
  std::vector<tern::Value> leading, operands;
  for (size_t i = 0; i < node.inputs().size(); ++i)
    (i < op.first ? leading : operands).push_back(value_of(node.input(i)));
  if (op.first) {
    if (std::optional<bool> known = known_truth(leading[0])) {
      const ir::Block& taken = *node.blocks()[*known ? 0 : 1];
      for (size_t i = 0; i < operands.size(); ++i) values_[&taken.param(i)] = operands[i];
      run_block(taken);
      for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = value_of(taken.returns()[i]);
      return;
    }
  }
  std::vector<ir::In> inputs;
  for (const tern::Value& v : leading) inputs.push_back(core_.operand(plain(v)));
  for (tern::Value& v : operands) {
    v = plain(v);
    inputs.push_back(core_.operand(v));
  }
  std::string_view name = op.kind.substr(14);
  ir::Node& made = graph_->make(op.kind, inputs, {}, name);
  made.set_origin(node.origin());
  for (const auto& [key, value] : node.attributes()) made.set_attribute(key, value);
  for (const auto& [key, value] : node.all_meta()) made.set_meta(key, value);
  ir::Operands groups = ir::operands_of(node);
  std::vector<Branch> branches;
  for (const ir::Block* from : node.blocks()) {
    ir::Block& block = made.add_block();
    std::vector<tern::Value> inside = body_operands(name, groups, operands, *graph_->shapes);
    for (size_t i = 0; i < inside.size(); ++i) {
      const ir::Value& param = from->param(i);
      ir::Value& p = block.add_param(
          inside[i].is_tensor() ? ir::Type::tensor_like(inside[i].tensor()) : param.type(), param.name());
      if (inside[i].is_tensor()) core_.bind(inside[i].tensor(), p);
      if (inside[i].is_int()) core_.bind(inside[i].sym(), p);
      values_[&param] = options_.functional ? functional_.wrap(inside[i]) : inside[i];
    }
    branches.push_back(run_inside(*from, block));
    if (!branches.back().writes.empty()) failf("a function of {} changes memory from outside of it", name);
  }
  core_.source = &node;
  if (node.is("higher_order::while_loop")) {
    branches[0].block->add_return(branches[0].operands.at(0).at(0));
    branches.erase(branches.begin());
  }
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    made.add_output(node.output(i).type(), node.output(i).name());
    for (Branch& b : branches) b.block->add_return(b.operands[i].at(0));
  }
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    const tern::Value& given = only(branches[0].returns[i]);
    give(made, i,
         branches.size() > 1 ? either(name, given, only(branches[1].returns[i]), *graph_->shapes)
                             : result_of_body(name, groups, operands, i, given, *graph_->shapes),
         &node.output(i));
  }
  lift_closures(made, op.first);
}

// The call on copies stays one node; what it gives is known from the operator's rule.
void Retracer::run_auto_functionalized(const ir::Node& node) {
  std::vector<tern::Value> inputs;
  for (const ir::Operand& o : node.inputs()) inputs.push_back(plain(value_of(o)));
  std::vector<tern::Value> results =
      record_on_copies(node.kind(), *node.attribute("operator"), *node.attribute("arg_names"), inputs);
  for (size_t i = 0; i < node.num_outputs(); ++i)
    values_[&node.output(i)] = options_.functional ? functional_.wrap(results.at(i)) : results.at(i);
}

std::vector<tern::Value> Retracer::record_on_copies(Symbol kind, const tern::Value& target,
                                                    const tern::Value& names,
                                                    const std::vector<tern::Value>& inputs) {
  std::vector<ir::In> operands;
  for (const tern::Value& v : inputs) operands.push_back(core_.operand(v));
  ir::Node& made = graph_->make(kind, operands, {}, kind.view().substr(14));
  if (core_.source) made.set_origin(core_.source->origin());
  made.set_attribute("operator", target);
  made.set_attribute("arg_names", names);
  std::vector<tern::Value> results;
  {
    Exclude without_recording(rung_record | rung_autograd | rung_functional | rung_core);
    results = ir::run_auto_functionalized(made, inputs);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    made.add_output(ir::Type::of(results[i]), "getitem");
    give(made, i, results[i], nullptr);
  }
  return results;
}

// Whether two outer tensors are the same view of the same memory.
bool Retracer::same_memory(const tern::Value& a, const tern::Value& b) {
  if (!a.is_tensor() || !b.is_tensor()) return false;
  const Tensor &x = a.tensor(), &y = b.tensor();
  if (x.is_same(y)) return true;
  if (!Functional::is_wrapped(x) || !(x.storage() == y.storage()) || x.dim() != y.dim() ||
      !surely_eq(x.offset(), y.offset()))
    return false;
  for (int64_t d = 0; d < x.dim(); ++d)
    if (!surely_eq(x.sizes()[d], y.sizes()[d]) || !surely_eq(x.strides()[d], y.strides()[d])) return false;
  return true;
}

// prim::Loop(trip count, condition, carried...) with a block (i, carried...) -> (condition, carried...).
// Rounds that are sure to come are run one by one; from where it depends on data, the rest is a loop of the
// program.
void Retracer::run_loop(const ir::Node& node) {
  const ir::Block& body = *node.blocks()[0];
  size_t carried = node.num_outputs();
  tern::Value trips = value_of(node.input(0)), condition = value_of(node.input(1));
  std::vector<tern::Value> state;
  for (size_t i = 0; i < carried; ++i) state.push_back(value_of(node.input(i + 2)));
  int64_t known_trips = trips.is_int() ? trips.sym().maybe_int().value_or(-1) : -1, round = 0;
  bool fixed = body.returns()[0].is_constant();
  int64_t start = steps_, longest = max_unrolled / std::max<int64_t>(known_trips, 1);
  while (options_.unroll && known_trips >= 0) {
    std::optional<bool> on = known_truth(condition);
    bool over = round >= known_trips || (on && !*on);
    if (over) {
      for (size_t i = 0; i < carried; ++i) values_[&node.output(i)] = state[i];
      return;
    }
    // Where the number of rounds is known, one round says how many nodes all will take.
    if (!on || steps_ - start > max_unrolled || (fixed && round == 1 && steps_ - start > longest)) break;
    values_[&body.param(0)] = tern::Value(round++);
    for (size_t i = 0; i < carried; ++i) values_[&body.param(i + 1)] = state[i];
    run_block(body);
    core_.source = &node;
    condition = value_of(body.returns()[0]);
    for (size_t i = 0; i < carried; ++i) state[i] = value_of(body.returns()[i + 1]);
  }
  if (round) trips = tern::Value(known_trips - round);
  record_loop(node, plain(trips), plain(condition), state, round);
}

// A tensor as it is in any round.
Tensor Retracer::in_any_round(const Tensor& start, const std::vector<bool>& free) {
  if (std::find(free.begin(), free.end(), true) == free.end()) return start.shallow_copy();
  Dims sizes(start.sizes());
  for (size_t d = 0; d < sizes.size(); ++d)
    if (free[d]) {
      sizes[d] = graph_->shapes->create_unbacked_symint("size");
      graph_->shapes->check_is_size(sizes[d]);
    }
  return make_tensor(sizes, start.dtype(), start.device(), true);
}

// Learns from what a round gives; true if the round has to be recorded again.
bool Retracer::adjust(Carried& c, const tern::Value& given, const tern::Value& outer_given,
                      std::string_view name) {
  if (is_uninitialized(given)) return false;
  if (is_uninitialized(c.start)) {
    if (given.is_tensor()) {
      Tensor t = stand_in(given.tensor(), c.start);
      c.start = options_.functional ? tern::Value(functional_.wrap(t)) : tern::Value(t);
    } else {
      c.start = !is_symbolic(given) ? given : is_boolean(given) ? tern::Value(false) : tern::Value(0);
    }
    return true;
  }
  if (c.stays) {
    c.stays = same_memory(c.start, outer_given);
    return !c.stays;
  }
  tern::Value start = plain(c.start);
  if (start.is_tensor() && given.is_tensor()) {
    const Tensor &x = start.tensor(), &y = given.tensor();
    bool more = false;
    c.free.resize(static_cast<size_t>(x.dim()));
    for (int64_t d = 0; x.dim() == y.dim() && d < x.dim(); ++d)
      if (!c.free[static_cast<size_t>(d)] && !surely_eq(x.sizes()[d], y.sizes()[d]))
        c.free[static_cast<size_t>(d)] = more = true;
    return more;
  }
  if (c.open || (!is_symbolic(start) && !is_symbolic(given) && start.equals(given))) return false;
  if (!open_type(start, given)) refuse(fmt::format("Loop: '{}'", name), start, given);
  return c.open = true;
}

void Retracer::record_loop(const ir::Node& node, const tern::Value& trips, const tern::Value& condition,
                           const std::vector<tern::Value>& state, int64_t first) {
  const ir::Block& body = *node.blocks()[0];
  std::vector<tree::Flat> flat;
  std::vector<std::vector<Carried>> carried;
  auto add_leaves = [&](size_t i, const tern::Value& v) {
    flat[i] = tree::flatten(v);
    carried[i].clear();
    for (const tern::Value& leaf : flat[i].leaves) {
      Carried c{leaf};
      c.stays = options_.functional && leaf.is_tensor();
      c.open = is_symbolic(leaf);
      carried[i].push_back(std::move(c));
    }
  };
  for (const tern::Value& v : state) {
    flat.emplace_back();
    carried.emplace_back();
    add_leaves(flat.size() - 1, v);
  }
  std::vector<Storage> written;
  for (int round = 0;; ++round) {
    if (round > 1000) fail("what a loop carries keeps changing");
    std::vector<ir::In> inputs{core_.operand(trips), core_.operand(condition)};
    for (auto& leaves : carried)
      for (Carried& c : leaves) {
        if (!c.changes()) continue;
        if (c.start.is_tensor() && Functional::is_wrapped(c.start.tensor()))
          for (const Storage& s : written)
            if (s == c.start.tensor().storage())
              fail(ErrorKind::not_supported,
                   "a loop starts from a value whose memory it writes to, and goes on with another: clone() "
                   "it before the loop");
        inputs.push_back(core_.operand(plain(c.start)));
      }
    std::vector<Tensor> before;
    for (const Storage& s : written) {
      before.push_back(s->alias->value);
      inputs.push_back(core_.operand(s->alias->value));
    }
    ir::Node& made = graph_->make("prim::Loop", inputs, {});
    made.set_origin(node.origin());
    ir::Block& block = made.add_block();
    SymInt counter = graph_->shapes->create_unbacked_symint("i");
    core_.bind(counter, block.add_param(ir::Type::integer(), body.param(0).name()));
    values_[&body.param(0)] = tern::Value(first ? counter + first : counter);
    for (size_t i = 0; i < carried.size(); ++i) {
      std::vector<tern::Value> inside;
      for (Carried& c : carried[i]) {
        if (!c.changes()) {
          inside.push_back(c.start);
          continue;
        }
        tern::Value start = plain(c.start);
        std::string name = body.param(i + 1).name();
        if (start.is_tensor()) {
          Tensor t = in_any_round(start.tensor(), c.free);
          core_.bind(t, block.add_param(ir::Type::tensor_like(t), name));
          inside.push_back(options_.functional ? tern::Value(functional_.wrap(t)) : tern::Value(t));
        } else {
          inside.push_back(new_number(block.add_param(open_type(start, start), name)));
        }
      }
      values_[&body.param(i + 1)] = tree::unflatten(flat[i].spec, inside);
    }
    for (const Storage& s : written) {
      Tensor inside = s->alias->value.shallow_copy();
      core_.bind(inside, block.add_param(ir::Type::tensor_like(inside), "written"));
      functional_.set_value(s, inside);
    }
    Branch b = run_inside(body, block);
    core_.source = &node;
    for (size_t k = 0; k < written.size(); ++k) functional_.set_value(written[k], before[k]);

    auto forget = [&] {
      made.remove_block(0);
      graph_->erase(made);
    };
    bool again = false;
    for (size_t i = 0; i < carried.size() && !again; ++i) {
      tree::Flat& given = b.returns[i + 1];
      if (carried[i].size() == 1 && is_uninitialized(carried[i][0].start) && !given.spec.is_leaf()) {
        forget();  // now its structure is known
        add_leaves(
            i, tree::unflatten(given.spec, std::vector<tern::Value>(given.leaves.size(), uninitialized())));
        again = true;
        break;
      }
      std::vector<ir::In> unused;
      align("Loop", flat[i], unused, given, b.operands[i + 1]);
    }
    if (again) continue;
    for (size_t i = 0; i < carried.size(); ++i) {
      std::vector<tern::Value> outer = tree::flatten(value_of(body.returns()[i + 1])).leaves;
      for (size_t k = 0; k < carried[i].size(); ++k) {
        const tern::Value& given = b.returns[i + 1].leaves[k];
        again |= adjust(carried[i][k], given, k < outer.size() ? outer[k] : given, node.output(i).name());
      }
    }
    for (Functional::Write& w : b.writes)
      if (std::none_of(written.begin(), written.end(), [&](const Storage& s) { return s == w.storage; })) {
        written.push_back(w.storage);
        again = true;
      }
    if (again) {
      forget();
      continue;
    }
    block.add_return(b.operands[0].at(0));
    for (size_t i = 0; i < carried.size(); ++i) {
      std::vector<tern::Value> leaves;
      for (size_t k = 0; k < carried[i].size(); ++k) {
        Carried& c = carried[i][k];
        tern::Value start = plain(c.start);
        if (!c.changes()) {
          leaves.push_back(c.start);
          continue;
        }
        const tern::Value& given = b.returns[i + 1].leaves[k];
        block.add_return(is_uninitialized(given) ? core_.operand(start) : b.operands[i + 1][k]);
        ir::Value& out = made.add_output(start.is_tensor() ? ir::Type::tensor() : open_type(start, start),
                                         node.output(i).name());
        if (!start.is_tensor()) {
          leaves.push_back(new_number(out));
          continue;
        }
        tern::Value fake = merge(start, is_uninitialized(given) ? start : given);
        give(made, made.num_outputs() - 1, fake, nullptr);
        leaves.push_back(options_.functional ? functional_.wrap(fake) : fake);
      }
      values_[&node.output(i)] = tree::unflatten(flat[i].spec, leaves);
      note_made(values_[&node.output(i)]);
    }
    for (size_t k = 0; k < written.size(); ++k) {
      Functional::Write* w = find(b.writes, written[k]);
      block.add_return(core_.operand(w ? w->before : before[k]));
      made.add_output(ir::Type::tensor(), "written");
      tern::Value fake = merge(before[k], w ? tern::Value(w->before) : tern::Value(before[k]));
      give(made, made.num_outputs() - 1, fake, nullptr);
      functional_.set_value(written[k], fake.tensor());
    }
    return;
  }
}

}  // namespace tern::capture
