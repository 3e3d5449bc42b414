#include "tern/capture/retrace.h"

#include <algorithm>

#include "tern/base/format.h"
#include "tern/capture/retracer.h"
#include "tern/dispatch/op_flags.h"
#include "tern/ir/auto_functionalized.h"
#include "tern/ir/higher_order.h"
#include "tern/ops.h"
#include "tern/tensor/sym_number.h"

namespace tern::capture {

Retraced Retracer::run() {
  Mount on_core(rung_core, core_);
  std::optional<Mount> on_functional;
  if (options_.functional) on_functional.emplace(rung_functional, functional_);
  // Calls go to the functional rung whatever their arguments are, and nothing runs for real.
  thread_state.active |= rung_fake;
  Exclude above(rung_record | rung_autograd);

  std::vector<tern::Value> outer;
  for (size_t i = 0; i < from_.inputs().size(); ++i) {
    const ir::Value& in = *from_.inputs()[i];
    tern::Value inner = i < options_.inputs.size() ? options_.inputs[i] : example(*in.type());
    ir::Value& v =
        graph_->add_input(inner.is_tensor() ? ir::Type::tensor_like(inner.tensor()) : in.type(), in.name());
    if (inner.is_tensor()) core_.bind(inner.tensor(), v);
    if (inner.is_int()) core_.bind(inner.sym(), v);
    outer.push_back(options_.functional ? functional_.wrap(inner) : inner);
    values_[&in] = outer.back();
  }
  run_block(from_.top());

  for (auto& [body, outer_constant] : constants_)
    if (Functional::was_written(outer_constant))
      failf(
          "a constant tensor of shape {} is written to: that change would be lost; make it a buffer or an "
          "input, or "
          "clone() it first",
          str(outer_constant.sizes()));

  Retraced result;
  core_.source = nullptr;
  std::vector<ir::In> outputs;
  for (const ir::Operand& o : from_.outputs()) {
    result.outputs.push_back(plain(value_of(o)));
    for (const tern::Value& leaf : tree::flatten(result.outputs.back()).leaves)
      outputs.push_back(core_.operand(leaf));
  }
  if (options_.functional)
    for (size_t i = 0; i < outer.size(); ++i) {
      if (!outer[i].is_tensor()) continue;
      const Tensor& t = outer[i].tensor();
      if (Functional::was_reshaped(t))
        failf(
            ErrorKind::not_supported,
            "the input {} gets other sizes or strides in place: that change would be lost; clone() it first",
            from_.inputs()[i]->name());
      if (!Functional::was_written(t)) continue;
      result.mutated.push_back(i);
      graph_->add_output(core_.operand(functional_.unwrap(t)));
    }
  for (const ir::In& o : outputs) graph_->add_output(o);
  result.prints = prints_;
  result.graph = std::move(graph_);
  return result;
}

tern::Value Retracer::example(const ir::Type& type) {
  if (type.is_tensor()) return fake_like(type, graph_->shapes.get());
  if (type.is(ir::TypeKind::int_)) return graph_->shapes->create_unbacked_symint("input");
  failf("retrace: an input of type {} needs an example", type.str());
}

tern::Value Retracer::value_of(const ir::Operand& o) {
  if (o.is_value()) {
    auto it = values_.find(&o.value());
    if (it == values_.end()) failf("retrace: %{} has no value", o.value().name());
    return it->second;
  }
  if (o.is_list()) {
    std::vector<tern::Value> items;
    for (const ir::Operand& item : o.list()) items.push_back(value_of(item));
    return tern::Value::list(std::move(items));
  }
  // A constant tensor is memory of its own: a write to it must not reach the graph we read.
  if (o.constant().is_tensor() && options_.functional) {
    auto [it, fresh] = constants_.try_emplace(o.constant().tensor().body());
    if (fresh) {
      it->second = functional_.wrap(o.constant().tensor());
      known_.set_constant(it->second, o.constant().tensor());
    }
    return it->second;
  }
  return o.constant();
}

void Retracer::run_block(const ir::Block& block) {
  for (const ir::Node& node : block) {
    core_.source = &node;
    try {
      run_node(node);
    } catch (const Error& e) {
      std::string place = node.origin() ? node.origin()->place() : "";
      throw e.with_context(
          fmt::format("{} (%{}{})", node.qualified(), node.name(), place.empty() ? "" : " @ " + place));
    }
  }
}

void Retracer::run_node(const ir::Node& node) {
  ++steps_;
  if (node.is("prim::If")) return run_if(node);
  if (node.is("prim::Loop")) return run_loop(node);
  if (const ir::HigherOrder* op = ir::find_higher_order(node.kind().view()))
    return op->inlined ? run_region(node) : run_higher_order(node, *op);
  if (ir::is_auto_functionalized(node)) return run_auto_functionalized(node);
  std::vector<tern::Value> inputs;
  for (const ir::Operand& o : node.inputs()) inputs.push_back(value_of(o));
  if (const Op* op = node.op()) {
    op = &by_numbers(*op, inputs);
    std::string_view text = op->text;
    if (text.starts_with("sym_size.int(")) {
      // Read off the shape; recorded again only where it is used.
      const Tensor& t = inputs[0].tensor();
      values_[&node.output()] = tern::Value(t->sizes[wrap_dim(inputs[1].to_int(), t.dim(), false)]);
      return;
    }
    if (text.starts_with("item(") || text.starts_with("_local_scalar_dense(")) {
      if (std::optional<tern::Value> number = known_.number(inputs[0].tensor())) {
        values_[&node.output()] = *number;
        return;
      }
      Tensor t = plain(inputs[0]).tensor();
      values_[&node.output()] = tern::Value(core_.Recorder::item(t, Loc{})->sym());
      return;
    }
    bool keep = is_effect(*op) || text.starts_with("lift_fresh_copy(");
    if (keep)
      for (tern::Value& v : inputs) v = plain(v);
    const Schema& schema = op->schema();
    for (size_t i = 0; i < inputs.size(); ++i)
      if (inputs[i].is_tensor() && schema.args[i].type.base != BaseType::tensor)
        if (std::optional<tern::Value> number = known_.number(inputs[i].tensor())) inputs[i] = *number;
    size_t split = 0;
    while (split < inputs.size() && !schema.args[split].keyword_only) ++split;
    std::vector<std::pair<Symbol, tern::Value>> keywords;
    for (size_t i = split; i < inputs.size(); ++i) keywords.emplace_back(schema.args[i].name, inputs[i]);
    Bound bound(*op, Span<const tern::Value>(inputs).first(split), keywords);
    std::vector<tern::Value> results(std::max<int>(op->results, 1));
    if (keep) {
      core_.Recorder::call(*op, bound.args(), results.data());
      if (options_.functional)
        for (tern::Value& v : results) v = functional_.wrap(v);
    } else {
      tern::call(*op, bound.args(), results.data());
    }
    known_.follow(*op, inputs, Span<const tern::Value>(results).first(node.num_outputs()));
    for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = results[i];
    return;
  }
  if (inputs.size() == 1 && inputs[0].is_tensor() && node.kind().view().starts_with("aten::")) {
    if (std::optional<tern::Value> number = known_.number(inputs[0].tensor())) inputs[0] = *number;
  }
  bool real = node.is("aten::Float") || node.is("aten::FloatImplicit"),
       whole = node.is("aten::Int") || node.is("aten::IntImplicit");
  if (real || whole || node.is("aten::Bool")) {
    if (inputs[0].is_tensor()) {
      Tensor t = plain(inputs[0]).tensor();
      // A number is true unless it is zero.
      if (node.is("aten::Bool") && t.dtype() != kBool) t = plain(ne(inputs[0].tensor(), 0)).tensor();
      Scalar value = *core_.Recorder::item(t, Loc{});
      if (whole) value = sym_int(value);
      if (real) value = sym_float(value);
      SymInt number = value.sym();
      if (node.is("aten::Bool")) booleans_.insert(number.bits());
      values_[&node.output()] = tern::Value(number);
      return;
    }
  }
  check_change(node, inputs);
  run_structural(node, inputs);
  for (const ir::Value* out : node.outputs()) note_made(values_[out]);
}

// A trace makes tensors of sizes, and so repeat_interleave(x, x.size(0)) calls the overload for tensors. It
// is the one for ints again where the number is known: another overload that has an int in that place.
const Op& Retracer::by_numbers(const Op& op, const std::vector<tern::Value>& inputs) const {
  const Schema& schema = op.schema();
  auto known = [&](size_t i) {
    return inputs[i].is_tensor() && inputs[i].tensor().defined() && known_.number(inputs[i].tensor());
  };
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i) any = any || known(i);
  if (!any) return op;
  for (const Op* other : overloads(schema.name)) {
    const Schema& theirs = other->schema();
    bool fits = other != &op && theirs.args.size() == schema.args.size();
    for (size_t i = 0; fits && i < schema.args.size(); ++i) {
      std::string ours = schema.args[i].type.str(), type = theirs.args[i].type.str();
      fits = schema.args[i].name == theirs.args[i].name &&
             (ours == type || (ours == "Tensor" && type == "SymInt" && known(i)));
    }
    if (fits) return *other;
  }
  return op;
}

// Lists and dicts are taken apart while the program is captured: one that a branch or a round of a loop
// changes has to be of its own making.
void Retracer::check_change(const ir::Node& node, const std::vector<tern::Value>& inputs) const {
  static constexpr std::string_view changes[] = {"append", "extend",     "insert",  "pop",       "remove",
                                                 "clear",  "reverse",    "sort",    "_set_item", "Delete",
                                                 "update", "setdefault", "popitem", "add_"};
  if (made_.empty() || inputs.empty() || (!inputs[0].is_list() && !inputs[0].is_dict())) return;
  std::string_view kind = node.kind().view();
  if (!kind.starts_with("aten::")) return;
  if (std::find(std::begin(changes), std::end(changes), kind.substr(6)) == std::end(changes)) return;
  if (!made_.back().count(inputs[0].box()))
    failf(ErrorKind::not_supported,
          "a {} from outside is changed in a branch or a loop that depends on data: how long it gets is not "
          "known; use tensors",
          inputs[0].kind_name());
}

void Retracer::note_made(const tern::Value& v) {
  if (!made_.empty() && (v.is_list() || v.is_dict())) made_.back().insert(v.box());
}

// Containers are taken apart and put together; arithmetic on sizes is done on the symbols.
void Retracer::run_structural(const ir::Node& node, std::vector<tern::Value>& inputs) {
  if (node.is("prim::ListUnpack") || node.is("prim::TupleUnpack")) {
    for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = inputs[0].items().at(i);
    return;
  }
  if (node.is("prim::RaiseException"))
    failf(ErrorKind::runtime, "the script raises: {}",
          inputs[0].is_string() ? inputs[0].string() : "an exception");
  if (node.is("prim::Print")) prints_ = true;
  if (node.is("prim::Print") || node.is("aten::warn")) return;  // said when a script runs, not a program
  if (node.num_outputs() == 0) {
    ir::Builtin builtin = ir::find_builtin(node.kind());
    if (!builtin) failf(ErrorKind::not_supported, "retrace knows no operator {}", node.qualified());
    builtin(inputs);
    return;
  }
  if (node.num_outputs() > 1) {
    ir::Builtin builtin = ir::find_builtin(node.kind());
    if (!builtin) failf(ErrorKind::not_supported, "retrace knows no operator {}", node.qualified());
    tern::Value results = builtin(inputs);
    for (size_t i = 0; i < node.num_outputs(); ++i) values_[&node.output(i)] = results.items().at(i);
    return;
  }
  tern::Value& result = values_[&node.output()];
  if (node.is("prim::ListConstruct")) {
    result = tern::Value::list(std::move(inputs));
  } else if (node.is("prim::TupleConstruct")) {
    result = tern::Value::tuple(std::move(inputs));
  } else if (node.is("prim::DictConstruct")) {
    std::vector<std::pair<tern::Value, tern::Value>> entries;
    for (size_t i = 0; i + 1 < inputs.size(); i += 2) entries.emplace_back(inputs[i], inputs[i + 1]);
    result = tern::Value::dict(std::move(entries));
  } else if (node.is("prim::Constant")) {
    const tern::Value* value = node.attribute("value");
    result = value ? *value : tern::Value();
  } else if (node.is("prim::unchecked_cast")) {
    result = inputs[0];
  } else if (node.is("prim::Uninitialized")) {
    result = uninitialized();
  } else if (node.is("prim::NoRows")) {
    auto* none = new Uninitialized;
    none->grows = node.attribute("dim")->to_int();
    result = tern::Value::object(none);
  } else if (node.is("prim::AppendRow")) {
    result = append_row(node, inputs);
  } else if (node.output().type()->is(ir::TypeKind::bool_) && any_symbolic(inputs)) {
    result = record_number(node, inputs);
  } else if (node.output().type()->is(ir::TypeKind::float_) && any_symbolic(inputs)) {
    result = record_number(node, inputs);
    note_product(node, inputs, result.sym());
  } else if (node.output().type()->is(ir::TypeKind::int_) && inputs.size() == 1 && inputs[0].is_int() &&
             inputs[0].sym().is_real()) {
    auto product = products_.find(inputs[0].sym().bits());
    bool whole = node.is("aten::trunc") || node.is("aten::Int") || node.is("aten::floor");
    result = whole && product != products_.end()
                 ? tern::Value(truncated_product(product->second.first, product->second.second))
                 : record_number(node, inputs);
  } else if (node.is("prim::NumToTensor") && any_symbolic(inputs)) {
    result = scalar_tensor(inputs[0].scalar(), inputs[0].scalar().dtype());
    known_.set(result.tensor(), inputs[0]);
  } else if (ir::Builtin builtin = ir::find_builtin(node.kind())) {
    bool data = node.is("aten::tensor") || node.is("aten::as_tensor");
    result = data ? constant_tensor(builtin, inputs) : builtin(inputs);
    if (node.is("prim::NumToTensor") && inputs[0].is_number()) known_.set(result.tensor(), inputs[0]);
  } else {
    failf(ErrorKind::not_supported, "retrace knows no operator {}", node.qualified());
  }
}

// torch.tensor([1, 2]): data that the program brings along, unless it is computed from tensors or open
// sizes.
tern::Value Retracer::constant_tensor(ir::Builtin builtin, const std::vector<tern::Value>& inputs) {
  bool numbers = !any_symbolic(inputs) && tree_of_numbers(inputs[0]);
  if (!numbers) return builtin(inputs);
  Tensor real;
  {
    Exclude for_real(rung_record | rung_autograd | rung_functional | rung_core | rung_fake);
    real = builtin(inputs).tensor();
  }
  tern::Value outer = options_.functional ? tern::Value(functional_.wrap(real)) : tern::Value(real);
  known_.set_constant(outer.tensor(), real);
  return outer;
}

bool Retracer::tree_of_numbers(const tern::Value& v) {
  if (v.is_number()) return !(v.is_int() && v.sym().is_symbolic());
  if (!v.is_list() && !v.is_tuple()) return false;
  for (const tern::Value& item : v.items())
    if (!tree_of_numbers(item)) return false;
  return true;
}

bool Retracer::any_symbolic(const std::vector<tern::Value>& inputs) {
  for (const tern::Value& v : inputs)
    if (v.is_int() && v.sym().is_symbolic()) return true;
  return false;
}

// A question on sizes that the program asks at run time is not answered here, nor is a float computed from
// them: the node stays.
tern::Value Retracer::record_number(const ir::Node& node, const std::vector<tern::Value>& inputs) {
  std::vector<ir::In> operands;
  for (const tern::Value& v : inputs) operands.push_back(core_.operand(v));
  const ir::Type* types[] = {node.output().type()};
  ir::Node& made = graph_->make(node.kind(), operands, types, node.output().name());
  made.set_origin(node.origin());
  return new_number(made.output());
}

// float(size), and that times a factor: rounded down it is a size again.
void Retracer::note_product(const ir::Node& node, const std::vector<tern::Value>& inputs, SymInt result) {
  if (node.is("aten::Float") && !inputs[0].sym().is_real()) products_[result.bits()] = {inputs[0].sym(), 1};
  if (!node.is("aten::mul") || inputs.size() != 2) return;
  for (size_t i = 0; i < 2; ++i) {
    if (!is_symbolic(inputs[i]) || !inputs[1 - i].is_float()) continue;
    auto size = products_.find(inputs[i].sym().bits());
    double factor = inputs[1 - i].to_double();
    if (size != products_.end() && size->second.second == 1 && factor >= 0)
      products_[result.bits()] = {size->second.first, factor};
  }
}

Retraced retrace(const ir::Graph& graph, const RetraceOptions& options) {
  return Retracer(graph, options).run();
}

bool is_composite(const Op& op) {
  if (!op.body) return false;
  // Quantized tensors do not exist in programs: their operators become arithmetic between what PT2E has for
  // them, which stays as it is.
  if (op.is(op_whole)) return !op.schema().name.view().starts_with("quantized_decomposed::");
  return op.is(op_composite | op_implicit);
}
bool is_not_core(const Op& op) { return op.body && !op.is(op_core); }

Tensor fake_like(const ir::Type& type, ShapeEnv* shapes) {
  if (!type.has_sizes()) fail("a tensor type without sizes: give an example input");
  Dims sizes;
  for (SymInt s : type.sizes()) {
    if (s.is_int() && s.as_int() < 0) {
      s = shapes->create_unbacked_symint("size");
      shapes->check_is_size(s);
    }
    sizes.push_back(s);
  }
  DType dtype = type.dtype() == DType::undefined ? kFloat : type.dtype();
  if (type.has_strides())
    return make_tensor(sizes, type.strides(), dtype, type.device().value_or(kCPU), true);
  return make_tensor(sizes, dtype, type.device().value_or(kCPU), true);
}

}  // namespace tern::capture
