#include "tern/capture/recorder.h"

#include <algorithm>

#include "tern/base/format.h"
#include "tern/base/small_vector.h"
#include "tern/base/warning.h"
#include "tern/sym/evaluate.h"
#include "tern/sym/shape_env.h"

namespace tern::capture {

Recorder::Recorder(ir::Graph& g, Rung rung) : graph(g), rung_(rung) {}

void Recorder::bind(const Tensor& t, ir::Value& v) {
  if (values_.emplace(t.body(), &v).second) {
    kept_.push_back(t);
    ++handles_[t.storage().get()];
  } else {
    values_[t.body()] = &v;
  }
  if (!t.is_symbolic()) return;
  for (int64_t d = 0; d < t.dim(); ++d) {
    SymInt s = t->sizes[d];
    if (s.is_symbolic()) sources_.emplace(s.bits(), std::pair(&v, d));
  }
}

void Recorder::bind(SymInt s, ir::Value& v) {
  if (s.is_symbolic()) symbols_[s.bits()] = &v;
}

ir::Value* Recorder::find(const Tensor& t) const {
  auto it = values_.find(t.body());
  return it == values_.end() ? nullptr : it->second;
}

ir::In Recorder::operand(const Tensor& t) {
  if (!t.defined()) return {};
  if (ir::Value* v = find(t)) return *v;
  if (t->wrapped_number) {
    Scalar s = read_scalar(t);
    return s.is_symbolic() ? operand(s.sym()) : ir::In(tern::Value(s));
  }
  if (unknown) return unknown(t);
  return tern::Value(t);
}

ir::In Recorder::operand(SymInt s) { return s.is_symbolic() ? materialise(s) : ir::In(tern::Value(s)); }

ir::In Recorder::operand(const tern::Value& v) {
  switch (v.kind()) {
    case ValueKind::tensor:
      return operand(v.tensor());
    case ValueKind::int_:
      return operand(v.sym());
    case ValueKind::list: {
      std::vector<ir::In> items;
      for (const tern::Value& item : v.items()) items.push_back(operand(item));
      return ir::In::list(std::move(items));
    }
    default:
      return v;
  }
}

ir::In Recorder::operand(const Arg& a) {
  switch (a.kind) {
    case ArgKind::tensor:
      return operand(*a.tensor_ptr);
    case ArgKind::int_:
      return operand(a.sym());
    case ArgKind::tensors: {
      std::vector<ir::In> items;
      items.reserve(a.tensors().size());
      for (const Tensor& t : a.tensors()) items.push_back(operand(t));
      return ir::In::list(std::move(items));
    }
    case ArgKind::ints: {
      std::vector<ir::In> items;
      items.reserve(a.syms().size());
      for (SymInt s : a.syms()) items.push_back(operand(s));
      return ir::In::list(std::move(items));
    }
    default:
      return a.to_value();
  }
}

// The node that computes a symbolic size: found where it was recorded, read off a tensor that has it, or
// computed from the symbols it is made of.
ir::In Recorder::materialise(SymInt s) {
  if (auto it = symbols_.find(s.bits()); it != symbols_.end()) return *it->second;
  ShapeEnv& env = ShapeEnv::of(s);
  SymInt simple = env.simplify(s);
  if (simple.is_int()) return tern::Value(simple);
  if (simple.bits() != s.bits()) {
    ir::In in = materialise(simple);
    if (in.is_value()) symbols_[s.bits()] = in.value();
    return in;
  }
  auto remember = [&](int64_t size, ir::Node& node) -> ir::In {
    node.output().set_type(ir::Type::integer());
    if (source) node.set_origin(source->origin());
    symbols_[size] = &node.output();
    return node.output();
  };
  auto read = [&](int64_t size, std::pair<ir::Value*, int64_t> at) -> ir::In {
    if (auto it = symbols_.find(size); it != symbols_.end()) return *it->second;
    ir::In inputs[] = {*at.first, tern::Value(at.second)};
    return remember(size, graph.call("aten::sym_size.int", inputs, ir::Type::integer(), "sym_size_int"));
  };
  auto combine = [&](const char* op, ir::In a, ir::In b) -> ir::In {
    ir::In inputs[] = {a, b};
    const ir::Type* types[] = {ir::Type::integer()};
    std::string_view name = std::string_view(op).substr(6);
    ir::Node& n = graph.make(op, inputs, types, name.substr(0, name.find('.')));
    if (source) n.set_origin(source->origin());
    return n.output();
  };
  auto finish = [&](ir::In in) -> ir::In {
    if (in.is_value()) symbols_[s.bits()] = in.value();
    return in;
  };
  const sym::Node& e = env.table().node(env.unwrap(s));
  if (e.kind == sym::Kind::real_constant) return tern::Value(e.factor());
  if (e.kind == sym::Kind::symbol || e.kind == sym::Kind::real_symbol) {
    if (auto it = sources_.find(s.bits()); it != sources_.end()) return read(s.bits(), it->second);
    // Of a derived dim nothing has the root's size: 2*h + 1 is the input's, and h is computed from it.
    for (const auto& [size, at] : sources_) {
      SymInt derived = SymInt::from_bits(size);
      if (&ShapeEnv::of(derived) != &env) continue;
      sym::ExprTable::Normal n = env.table().normalise(env.unwrap(env.simplify(derived)));
      if (n.form != env.unwrap(s)) continue;
      ir::In root = read(size, at);
      if (n.offset > 0) root = combine("aten::sub.int", root, tern::Value(n.offset));
      if (n.offset < 0) root = combine("aten::add.int", root, tern::Value(-n.offset));
      if (n.factor != 1) root = combine("aten::floordiv.int", root, tern::Value(n.factor));
      return finish(root);
    }
    failf("the symbolic size {} is not a size of any tensor in the graph", s.str());
  }
  if (auto it = sources_.find(s.bits()); it != sources_.end()) {
    std::vector<uint32_t> parts;
    env.table().collect_symbols(env.unwrap(s), parts);
    for (uint32_t i : parts)
      if (sources_.find(env.wrap(env.table().symbol(i)).bits()) == sources_.end())
        return read(s.bits(), it->second);
  }
  auto part = [&](const sym::Term& t) { return operand(env.wrap(t.expr)); };
  switch (e.kind) {
    case sym::Kind::sum: {
      ir::In total;
      bool first = true;
      int64_t constant = 0;
      for (const sym::Term& t : e.terms()) {
        if (t.expr == sym::ExprTable::unit) {
          constant = t.factor;
          continue;
        }
        ir::In term = part(t);
        if (t.factor != 1) term = combine("aten::mul.int", tern::Value(t.factor), term);
        total = first ? term : combine("aten::add.int", total, term);
        first = false;
      }
      if (constant > 0) total = combine("aten::add.int", total, tern::Value(constant));
      if (constant < 0) total = combine("aten::sub.int", total, tern::Value(-constant));
      return finish(total);
    }
    case sym::Kind::product: {
      ir::In total;
      bool first = true;
      for (const sym::Term& t : e.terms())
        for (int64_t k = 0; k < t.factor; ++k) {
          total = first ? part(t) : combine("aten::mul.int", total, part(t));
          first = false;
        }
      return finish(total);
    }
    case sym::Kind::floor_div:
      return finish(combine("aten::floordiv.int", part(e.items[0]), part(e.items[1])));
    case sym::Kind::mod:
      return finish(combine("aten::remainder.int", part(e.items[0]), part(e.items[1])));
    case sym::Kind::min:
    case sym::Kind::max: {
      ir::In total = part(e.items[0]);
      for (size_t i = 1; i < e.count; ++i)
        total =
            combine(e.kind == sym::Kind::min ? "prim::min.int" : "prim::max.int", total, part(e.items[i]));
      return finish(total);
    }
    case sym::Kind::truncated: {
      ir::In size[] = {part(e.items[0])};
      const ir::Type *real[] = {ir::Type::floating()}, *whole[] = {ir::Type::integer()};
      ir::In factors[] = {graph.make("aten::Float", size, real, "sym_float").output(),
                          tern::Value(e.factor())};
      ir::In product[] = {graph.make("aten::mul", factors, real, "mul").output()};
      return remember(s.bits(), graph.make("aten::trunc", product, whole, "trunc"));
    }
    case sym::Kind::real: {
      const sym::RealFunction& f = sym::real_function(e.function());
      std::vector<ir::In> operands;
      for (const sym::Term& t : e.terms()) operands.push_back(part(t));
      const ir::Type* types[] = {ir::Type::floating()};
      static constexpr std::pair<sym::Real, const char*> names[] = {{sym::Real::to_float, "sym_float"},
                                                                    {sym::Real::int_divide, "truediv"},
                                                                    {sym::Real::divide, "truediv"},
                                                                    {sym::Real::floor_div, "floordiv"},
                                                                    {sym::Real::mod, "mod"},
                                                                    {sym::Real::min, "sym_min"},
                                                                    {sym::Real::max, "sym_max"},
                                                                    {sym::Real::sqrt, "sym_sqrt"}};
      std::string_view name = std::string_view(f.node).substr(6);
      name = name.substr(0, name.find('.'));
      for (const auto& [function, other] : names)
        if (function == e.function()) name = other;
      ir::Node& n = graph.make(f.node, operands, types, name);
      if (source) n.set_origin(source->origin());
      return finish(n.output());
    }
    case sym::Kind::rounded: {
      ir::In inputs[] = {part(e.items[0])};
      const ir::Type* types[] = {ir::Type::integer()};
      return remember(s.bits(), graph.make("aten::trunc", inputs, types, "trunc"));
    }
    case sym::Kind::negation: {
      ir::In inputs[] = {part(e.items[0])};
      const ir::Type* types[] = {ir::Type::boolean()};
      ir::Node& n = graph.make("aten::__not__", inputs, types, "not_1");
      if (source) n.set_origin(source->origin());
      return finish(n.output());
    }
    case sym::Kind::all:
    case sym::Kind::any: {
      const char* op = e.kind == sym::Kind::all ? "aten::__and__.bool" : "aten::__or__.bool";
      ir::In total = part(e.items[0]);
      for (size_t i = 1; i < e.count; ++i) {
        total = combine(op, total, part(e.items[i]));
        total.value()->set_type(ir::Type::boolean());
      }
      return finish(total);
    }
    case sym::Kind::eq:
    case sym::Kind::ne:
    case sym::Kind::lt:
    case sym::Kind::le:
    case sym::Kind::gt:
    case sym::Kind::ge: {
      static constexpr const char* names[] = {"aten::eq.int", "aten::ne.int", "aten::lt.int",
                                              "aten::le.int", "aten::gt.int", "aten::ge.int"};
      ir::In condition = combine(names[static_cast<size_t>(e.kind) - static_cast<size_t>(sym::Kind::eq)],
                                 part(e.items[0]), part(e.items[1]));
      condition.value()->set_type(ir::Type::boolean());
      return finish(condition);
    }
    default:
      failf("the symbolic size {} cannot be computed in a graph", s.str());
  }
}

ir::Node& Recorder::record(const Op& op, const Arg* args) {
  std::vector<ir::In> inputs;
  inputs.reserve(op.arity);
  const Schema& schema = op.schema();
  for (int i = 0; i < op.arity; ++i) {
    inputs.push_back(operand(args[i]));
    // A list that was left out is an empty one.
    const SchemaType& type = schema.args[static_cast<size_t>(i)].type;
    if (type.list && type.base == BaseType::int_ && !type.optional_list && inputs.back().is_constant() &&
        inputs.back().constant().is_none())
      inputs.back() = ir::In(tern::Value::list({}, ir::Type::integer()));
  }
  // A retraced node of the same operator keeps its name; others are named after the operator.
  std::string name;
  if (source && source->op() == &op && source->num_outputs() == 1) name = source->output().name();
  ir::Node& node = graph.call(op, inputs, nullptr, name);
  if (source) {
    node.set_origin(source->origin());
    for (const auto& [key, value] : source->all_meta()) node.set_meta(key, value);
  } else {
    node.set_origin(here());
  }
  return node;
}

void Recorder::note(const ir::Node& node) {
  if (!note_regions) return;
  Region region{thread_state.grad_enabled, std::nullopt};
  if (const AutocastSetting* setting = Autocast::current()) region.autocast = *setting;
  regions.emplace(&node, region);
}

const ir::Origin* Recorder::here() {
  return ir::Origin::at(thread_state.loc, ir::ModuleScope::of(thread_state.scope));
}

void Recorder::bind_results(ir::Node& node, const Op& op, tern::Value* results) {
  for (int r = 0; r < op.results; ++r) {
    ir::Value& v = node.output(r);
    const tern::Value& result = results[r];
    if (result.is_tensor()) {
      v.set_type(ir::Type::tensor_like(result.tensor()));
      bind(result.tensor(), v);
    } else if (result.is_int()) {
      bind(result.sym(), v);
    } else if (result.is_list()) {
      // Each entry gets a value of its own.
      std::vector<const ir::Type*> types;
      for (const tern::Value& item : result.items())
        types.push_back(item.is_tensor() ? ir::Type::tensor_like(item.tensor()) : ir::Type::of(item));
      ir::In inputs[] = {v};
      ir::Node& unpack = graph.make("prim::ListUnpack", inputs, types, "getitem");
      unpack.set_origin(node.origin());
      for (size_t i = 0; i < types.size(); ++i) {
        const tern::Value& item = result.items()[i];
        if (item.is_tensor()) bind(item.tensor(), unpack.output(i));
        if (item.is_int()) bind(item.sym(), unpack.output(i));
      }
    }
  }
}

namespace {

// The arguments with every symbolic number replaced by its value: while tracing the kernels run for real.
struct Concrete {
  SmallVector<Arg, 8> args;
  std::vector<Dims> lists;  // these two never move: args point into them
  std::vector<Tensor> numbers;

  Concrete(const Op& op, const Arg* from) : args(from, static_cast<size_t>(op.arity)) {
    auto is_symbolic = [](SymInt s) { return s.is_symbolic(); };
    for (Arg& a : args) {
      if (a.kind == ArgKind::int_ && a.sym().is_symbolic()) {
        a = Arg(a.sym().hint().value());
      } else if (a.kind == ArgKind::ints && std::any_of(a.syms().begin(), a.syms().end(), is_symbolic)) {
        if (lists.empty()) lists.reserve(args.size());
        Dims& list = lists.emplace_back(a.syms());
        for (SymInt& s : list)
          if (s.is_symbolic()) s = s.hint().value();
        a = Arg(Span<const SymInt>(list));
      } else if (a.kind == ArgKind::tensor && a.tensor_ptr->defined() && (*a.tensor_ptr)->wrapped_number &&
                 a.tensor_ptr->is_fake()) {
        if (numbers.empty()) numbers.reserve(args.size());
        a = Arg(numbers.emplace_back(wrap_number(Scalar(a.tensor_ptr->offset().hint().value()))));
      }
    }
  }
};

}  // namespace

void Recorder::call(const Op& op, const Arg* args, tern::Value* results) {
  // The number in a tensor: under export a symbol.
  std::string_view text = op.text;
  if (text.starts_with("item(") || text.starts_with("_local_scalar_dense("))
    if (std::optional<Scalar> number = item(args[0].tensor(), thread_state.loc)) {
      results[0] = tern::Value(*number);
      return;
    }
  // A call on numbers alone that nothing recorded needs (a factory's size) is recorded too: it is the user's
  // call.
  const Op* recorded = &op;
  std::vector<ir::In> inputs;
  if (force_outplace && op.is(op_inplace)) recorded = outplace(op, args, inputs);
  ir::Node& node = inputs.empty() ? record(*recorded, args) : graph.call(*recorded, inputs);
  if (!inputs.empty()) node.set_origin(here());
  note(node);
  ir::Graph& g = graph;
  try {
    if (sizes_as_nodes)
      descend(rung_, op, Concrete(op, args).args.data(), results);
    else if (rung_ == rung_record)
      Autocast::pass_below(*this, op, args, results);
    else
      descend(rung_, op, args, results);
  } catch (...) {
    forget(node);
    g.erase(node);
    throw;
  }
  bind_results(node, *recorded, results);
}

namespace {
std::string base_name(const Op& op) {
  std::string_view text = op.schema().name.view();
  return std::string(text.substr(text.find("::") + 2));
}
}  // namespace

// The functional form of an in-place call; `inputs` are filled where its arguments are others.
const Op* Recorder::outplace(const Op& op, const Arg* args, std::vector<ir::In>& inputs) {
  std::string name = base_name(op);
  const Tensor& self = args[0].tensor();
  warn_of_views(op, self);
  if (name == "copy_") {
    // A copy onto a part of something else has no functional form of its own.
    if (handles_[self.storage().get()] > 1) return &op;
    ir::In source = operand(args[1]);
    if (args[1].tensor().dtype() != self.dtype()) {
      ir::In to[] = {source, tern::Value(self.dtype()), tern::Value(false), tern::Value(false), ir::In()};
      source = graph.call("aten::to.dtype", to, ir::Type::tensor()).output();
    }
    inputs = {source, operand(args[0])};
    return &get_op("aten::expand_as");
  }
  if (name == "fill_") {
    inputs = {operand(args[0]), operand(args[1])};
    return &get_op("aten::full_like");
  }
  if (name == "zero_") {
    inputs = {operand(args[0])};
    return &get_op("aten::zeros_like");
  }
  return op.functional ? op.functional : &op;
}

void Recorder::warn_of_views(const Op& op, const Tensor& changed) {
  size_t handles = handles_[changed.storage().get()];
  if (!sizes_as_nodes || handles < 2) return;
  std::string name = base_name(op);
  if (name == "copy_") name += " (possibly due to an assignment)";
  warn("TracerWarning",
       fmt::format(
           "There are {} live references to the data region being modified when tracing in-place operator "
           "{}. This might cause the trace to be incorrect, because all other views that also reference "
           "this data will not reflect this change in the trace! On the other hand, if all other views use "
           "the same memory chunk, but are disjoint (e.g. are outputs of torch.split), this might still be "
           "safe.",
           handles, name));
}

void Recorder::left(const Tensor& t, std::string_view as) {
  if (!sizes_as_nodes || !knows(t)) return;
  if (as == "rows")
    warn("TracerWarning",
         "Iterating over a tensor might cause the trace to be incorrect. Passing a tensor of different shape "
         "won't "
         "change the number of iterations executed (and might lead to errors or silently give incorrect "
         "results).");
  else
    warn("TracerWarning",
         fmt::format(
             "Converting a tensor to {} might cause the trace to be incorrect. We can't record the data flow "
             "of Python values, so this value will be treated as a constant in the future. This means that "
             "the trace might not generalize to other inputs!",
             as));
}

// A number that the graph computes, and that has this value now.
SymInt Recorder::known_number(ir::Node& node, int64_t value, const char* name, Loc loc) {
  node.set_origin(here());
  SymbolOptions options;
  options.specialize_zero_one = false;
  if (value < 0) options.declared = {};
  SymInt s = shapes->create_symbol(value, name, options, loc);
  bind(s, node.output());
  return s;
}

SymInt Recorder::size(const Tensor& t, int64_t d, Loc loc) {
  if (!sizes_as_nodes || !knows(t)) return t->sizes[d];
  At at(loc);
  ir::In inputs[] = {operand(t), tern::Value(d)};
  const ir::Type* type[] = {ir::Type::integer()};
  return known_number(graph.make("aten::size", inputs, type, "size"), t->sizes[d].as_int(), "size", loc);
}

SymInt Recorder::numel(const Tensor& t, Loc loc) {
  At at(loc);
  if (!sizes_as_nodes || !knows(t)) return t->numel;
  ir::In inputs[] = {operand(t)};
  const ir::Type* type[] = {ir::Type::integer()};
  return known_number(graph.make("aten::numel", inputs, type, "numel"), t->numel.as_int(), "numel", loc);
}

// A size that depends on data (nonzero): under export a symbol of its own.
std::optional<SymInt> Recorder::unknown_size(Loc loc) {
  if (!shapes || sizes_as_nodes) return std::nullopt;
  SymInt s = shapes->create_unbacked_symint("size", loc);
  shapes->check_is_size(s, loc);
  return s;
}

std::optional<Scalar> Recorder::item(const Tensor& t, Loc loc) {
  bool has_data = !t.is_fake() && !(thread_state.active & rung_fake);
  if (has_data && sizes_as_nodes && knows(t) && is_integral(t.dtype()) && t.int_numel() == 1) {
    // An integer may go on as a size or an index, and stays what the graph computes.
    At at(loc);
    ir::In inputs[] = {operand(t)};
    const ir::Type* type[] = {ir::Type::integer()};
    int64_t now = read_scalar(t).to_int();
    return Scalar(known_number(graph.make("aten::Int", inputs, type, "int"), now, "item", loc));
  }
  if (has_data) return std::nullopt;
  if (t.is_complex())
    failf(ErrorKind::not_supported,
          "item: the value of a {} tensor is not known while a program is captured; compute with the tensor "
          "itself",
          name(t.dtype()));
  bool real = t.is_floating_point(), boolean = t.dtype() == kBool;
  At at(loc);
  ir::In inputs[] = {operand(t)};
  const ir::Type* type = real ? ir::Type::floating() : boolean ? ir::Type::boolean() : ir::Type::integer();
  ir::Node& node = graph.call(item_kind, inputs, type, item_kind.substr(std::string_view("aten::").size()));
  if (source)
    node.set_origin(source->origin());
  else
    node.set_origin(ir::Origin::at(thread_state.loc, ir::ModuleScope::of(thread_state.scope)));
  // A number that is retraced keeps its symbol, and with it what is known of it.
  const tern::Value* known = source ? source->meta("unbacked_symbol") : nullptr;
  SymInt s = known && &ShapeEnv::of(known->sym()) == shapes.get() ? known->sym()
             : real    ? shapes->create_unbacked_float_symbol("item", loc)
             : boolean ? shapes->create_unbacked_symbool("item", loc).as_expr()
                       : shapes->create_unbacked_symint("item", loc);
  node.set_meta("unbacked_symbol", tern::Value(s));
  bind(s, node.output());
  return Scalar(s);
}

}  // namespace tern::capture
