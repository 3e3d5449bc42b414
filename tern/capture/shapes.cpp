#include "tern/capture/shapes.h"

#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/capture/retrace.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/builtins.h"
#include "tern/sym/shape_env.h"
#include "tern/tensor/nesting.h"

namespace tern::capture {
namespace {

using ir::Block;
using ir::Node;
using ir::Operand;
using ir::Type;
using ir::TypeKind;
using MaybeValue = std::optional<tern::Value>;

constexpr int max_depth = 64;  // of calls

Tensor fake_of(const Tensor& t) {
  if (!t.defined() || t.is_fake()) return t;
  check_not_nested(t, "shape propagation");
  Tensor fake = make_tensor(t.sizes(), t.strides(), t.dtype(), t.device(), true);
  if (t.requires_grad()) fake.requires_grad_(true);
  return fake;
}
tern::Value fake_of(const tern::Value& v) {
  if (v.is_tensor()) return fake_of(v.tensor());
  if (v.is_list() || v.is_tuple()) {
    std::vector<tern::Value> items;
    for (const tern::Value& item : v.items()) items.push_back(fake_of(item));
    return v.is_list() ? tern::Value::list(std::move(items), v.element_type())
                       : tern::Value::tuple(std::move(items));
  }
  if (v.is_dict()) {
    std::vector<std::pair<tern::Value, tern::Value>> entries;
    for (auto& [key, item] : v.entries()) entries.emplace_back(key, fake_of(item));
    return tern::Value::dict(std::move(entries));
  }
  return v;
}

class Propagator {
 public:
  Propagator(ir::Graph& graph, const ShapeOptions& options) : graph_(graph), options_(options) {
    if (!graph.shapes) graph.shapes = new_shared<ShapeEnv>();
    collect_writes(graph.top(), set_attributes_);
  }

  ShapeReport run() {
    saved_ = thread_state.active;
    thread_state.active |= rung_fake;
    try {
      Exclude others(rung_record | rung_functional | rung_core);
      for (size_t i = 0; i < graph_.inputs().size(); ++i) {
        ir::Value& in = *graph_.inputs()[i];
        if (i < options_.inputs.size()) {
          if (!options_.inputs[i].is_none()) set(in, fake_of(options_.inputs[i]));
        } else if (in.type()->is_tensor() && in.type()->has_sizes()) {
          set(in, tern::Value(fake_like(*in.type(), graph_.shapes.get())));
        } else if (in.type()->is(TypeKind::int_)) {
          set(in, tern::Value(graph_.shapes->create_unbacked_symint("input")));
        }
      }
      block(graph_.top());
    } catch (...) {
      thread_state.active = saved_;
      throw;
    }
    thread_state.active = saved_;
    annotate(graph_.top());
    return report_;
  }

 private:
  // Names of attributes that are written somewhere: what they hold now says nothing.
  static void collect_writes(const Block& b, std::unordered_set<Symbol>& names) {
    for (const Node& n : b) {
      if (n.is("prim::SetAttr"))
        if (const tern::Value* name = n.attribute("name")) names.insert(Symbol(name->string()));
      for (const Block* inner : n.blocks()) collect_writes(*inner, names);
    }
  }

  // ---- values ----
  void set(const ir::Value& v, MaybeValue value) {
    if (value)
      values_[&v] = std::move(*value);
    else
      values_.erase(&v);
  }
  MaybeValue get(const Operand& o) {
    if (o.is_constant()) return fake_of(o.constant());
    if (o.is_list()) {
      std::vector<tern::Value> items;
      for (const Operand& item : o.list()) {
        MaybeValue v = get(item);
        if (!v) return std::nullopt;
        items.push_back(std::move(*v));
      }
      return tern::Value::list(std::move(items));
    }
    auto it = values_.find(&o.value());
    if (it == values_.end()) return std::nullopt;
    if (it->second.kind() >= ValueKind::list && changed_.count(it->second.box())) return std::nullopt;
    return it->second;
  }
  // A number nobody knows is a symbol; anything else stays open.
  MaybeValue unknown(const Type* t, const char* why) {
    if (t->is(TypeKind::int_)) return tern::Value(graph_.shapes->create_unbacked_symint(why));
    return std::nullopt;
  }
  void give_unknown(const Node& n, const std::string& why) {
    for (const ir::Value* v : n.outputs()) {
      if (v->type()->is_tensor() && report_.why.empty()) {
        std::string place = n.origin() ? n.origin()->place() : "";
        report_.why =
            fmt::format("{} (%{}{}): {}", n.qualified(), n.name(), place.empty() ? "" : " at " + place, why);
      }
      set(*v, unknown(v->type(), "unknown"));
    }
  }

  // ---- nodes ----
  void block(const Block& b) {
    for (const Node& n : b) {
      try {
        node(n);
      } catch (const Error& e) {
        give_unknown(n, e.message());
      }
    }
  }
  void node(const Node& n) {
    if (n.is("prim::If")) return branch(n);
    if (n.is("prim::Loop")) return loop(n);
    if (n.is("prim::GetAttr")) return attribute(n);
    if (n.is("prim::CallMethod") || n.is("prim::CallFunction")) return call(n);
    if (n.is("prim::fork")) {
      block(*n.blocks()[0]);
      return set(n.output(), get(n.blocks()[0]->returns()[0]));
    }
    if (!n.blocks().empty()) return give_unknown(n, "a node with blocks of its own");
    std::vector<tern::Value> inputs;
    for (const Operand& o : n.inputs()) {
      MaybeValue v = get(o);
      if (!v) {
        if (ir::builtin_mutates(n.kind())) forget(n);
        return give_unknown(n, "an input is not known");
      }
      inputs.push_back(std::move(*v));
    }
    if (n.op()) return operation(n, inputs);
    structural(n, inputs);
  }

  void operation(const Node& n, std::vector<tern::Value>& inputs) {
    const Op& op = *n.op();
    const Schema& schema = op.schema();
    size_t split = 0;
    while (split < inputs.size() && !schema.args[split].keyword_only) ++split;
    std::vector<std::pair<Symbol, tern::Value>> keywords;
    for (size_t i = split; i < inputs.size(); ++i) keywords.emplace_back(schema.args[i].name, inputs[i]);
    Bound bound(op, Span<const tern::Value>(inputs).first(split), keywords);
    std::vector<tern::Value> results(std::max<size_t>(op.results, 1));
    tern::call(op, bound.args(), results.data());
    for (size_t i = 0; i < n.num_outputs(); ++i) set(n.output(i), results[i]);
  }

  void structural(const Node& n, std::vector<tern::Value>& inputs) {
    std::string_view kind = n.kind().view();
    if (kind == "prim::ListUnpack" || kind == "prim::TupleUnpack") {
      if (inputs[0].items().size() != n.num_outputs()) fail("another number of elements");
      for (size_t i = 0; i < n.num_outputs(); ++i) set(n.output(i), inputs[0].items()[i]);
    } else if (kind == "prim::Constant") {
      const tern::Value* v = n.attribute("value");
      set(n.output(), v ? fake_of(*v) : tern::Value());
    } else if (kind == "prim::ListConstruct") {
      const Type* t = n.output().type();
      set(n.output(), tern::Value::list(std::move(inputs), t->is(TypeKind::list) ? t->element() : nullptr));
    } else if (kind == "prim::TupleConstruct") {
      set(n.output(), tern::Value::tuple(std::move(inputs)));
    } else if (kind == "prim::DictConstruct") {
      std::vector<std::pair<tern::Value, tern::Value>> entries;
      for (size_t i = 0; i + 1 < inputs.size(); i += 2) entries.emplace_back(inputs[i], inputs[i + 1]);
      set(n.output(), tern::Value::dict(std::move(entries)));
    } else if (kind == "prim::unchecked_cast" || kind == "aten::wait") {
      set(n.output(), inputs[0]);
    } else if (kind == "prim::RaiseException" || kind == "prim::Print" || kind == "aten::warn" ||
               kind == "prim::SetAttr") {
      return;
    } else if (ir::Builtin builtin = ir::find_builtin(n.kind())) {
      if (ir::builtin_mutates(n.kind()) && uncertain_) {
        forget(n);
        return give_unknown(n, "it changes a container in a branch or loop");
      }
      tern::Value result = builtin(inputs);
      if (n.num_outputs() == 1) set(n.output(), fake_of(result));
      if (n.num_outputs() > 1)
        for (size_t i = 0; i < n.num_outputs(); ++i) set(n.output(i), result.items().at(i));
    } else {
      give_unknown(n, "no rule for it");
    }
  }
  // A container that may or may not have been changed.
  void forget(const Node& n) {
    if (!n.inputs().empty() && n.input(0).is_value())
      if (auto it = values_.find(&n.input(0).value());
          it != values_.end() && it->second.kind() >= ValueKind::list)
        changed_.insert(it->second.box());
  }
  void forget_changed(const Block& b) {
    for (const Node& n : b) {
      if (!n.op() && ir::builtin_mutates(n.kind())) forget(n);
      for (const Block* inner : n.blocks()) forget_changed(*inner);
    }
  }

  void attribute(const Node& n) {
    const tern::Value* v = nullptr;
    const tern::Value* name = n.attribute("name");
    if (options_.known && name && !set_attributes_.count(Symbol(name->string()))) v = options_.known(n);
    if (!v) return give_unknown(n, "an attribute that is not known");
    set(n.output(), fake_of(*v));
  }

  void call(const Node& n) {
    const ir::Graph* g = options_.callee && depth_ < max_depth ? options_.callee(n) : nullptr;
    if (!g || g->inputs().size() != n.inputs().size()) return give_unknown(n, "a call of what is not known");
    std::unordered_map<const ir::Value*, tern::Value> frame;
    for (size_t i = 0; i < n.inputs().size(); ++i)
      if (MaybeValue v = get(n.input(i))) frame.emplace(g->inputs()[i], *v);
    values_.swap(frame);
    ++depth_;
    block(g->top());
    --depth_;
    std::vector<MaybeValue> results;
    for (const Operand& o : g->outputs()) results.push_back(get(o));
    values_.swap(frame);
    if (results.size() == n.num_outputs()) {
      for (size_t i = 0; i < results.size(); ++i) set(n.output(i), results[i]);
    } else {
      std::vector<tern::Value> items;
      for (MaybeValue& r : results) {
        if (!r) return give_unknown(n, "a result is not known");
        items.push_back(std::move(*r));
      }
      set(n.output(), tern::Value::tuple(std::move(items)));
    }
  }

  // ---- control flow ----
  void branch(const Node& n) {
    MaybeValue condition = get(n.input(0));
    std::optional<bool> known;
    if (condition && condition->is_bool()) known = condition->to_bool();
    if (condition && condition->is_int())
      if (auto v = condition->sym().maybe_int()) known = *v != 0;
    if (known) {
      const Block& taken = *n.blocks()[*known ? 0 : 1];
      block(taken);
      for (size_t i = 0; i < n.num_outputs(); ++i) set(n.output(i), get(taken.returns()[i]));
      return;
    }
    ++uncertain_;
    for (const Block* b : n.blocks()) forget_changed(*b);
    for (const Block* b : n.blocks()) block(*b);
    --uncertain_;
    // A branch that raises gives nothing.
    bool raises[2] = {ends(*n.blocks()[0]), ends(*n.blocks()[1])};
    for (size_t i = 0; i < n.num_outputs(); ++i) {
      const Operand &a = n.blocks()[0]->returns()[i], &b = n.blocks()[1]->returns()[i];
      if (raises[0] != raises[1])
        set(n.output(i), get(raises[0] ? b : a));
      else
        set(n.output(i), merge(get(a), get(b), nullptr));
    }
  }
  static bool ends(const Block& b) {
    for (const Node& n : b)
      if (n.is("prim::RaiseException")) return true;
    return false;
  }

  void loop(const Node& n) {
    const Block& body = *n.blocks()[0];
    size_t carried = n.num_outputs();
    std::vector<MaybeValue> state;
    for (size_t i = 0; i < carried; ++i) state.push_back(get(n.input(i + 2)));
    ++uncertain_;
    forget_changed(body);
    std::vector<Widened> widened(carried);
    for (int round = 0; round < 8; ++round) {
      set(body.param(0), tern::Value(graph_.shapes->create_unbacked_symint("round")));
      for (size_t i = 0; i < carried; ++i) set(body.param(i + 1), state[i]);
      block(body);
      bool changed = false;
      for (size_t i = 0; i < carried; ++i) {
        if (!state[i]) continue;
        MaybeValue next = merge(state[i], get(body.returns()[i + 1]), &widened[i]);
        if (widened[i].grew || !next) {
          state[i] = next;
          changed = true;
        }
      }
      if (!changed) break;
      if (round == 6) std::fill(state.begin(), state.end(), std::nullopt);
    }
    --uncertain_;
    for (size_t i = 0; i < carried; ++i) set(n.output(i), state[i]);
  }

  // What two paths give. Dims in which they differ become symbols; `widened` remembers those that did, so
  // that a loop comes to an end.
  struct Widened {
    std::vector<bool> dims;
    bool number = false;
    bool grew = false;  // by the last merge
  };
  MaybeValue merge(const MaybeValue& a, const MaybeValue& b, Widened* widened) {
    Widened once;
    if (!widened) widened = &once;
    widened->grew = false;
    if (!a || !b) return std::nullopt;
    if (a->is_tensor() && b->is_tensor()) return merge(a->tensor(), b->tensor(), *widened);
    if (a->is_int() && b->is_int()) {
      if (a->sym().bits() == b->sym().bits() || widened->number) return a;
      widened->number = widened->grew = true;
      return tern::Value(graph_.shapes->create_unbacked_symint("merged"));
    }
    if (a->kind() != b->kind()) return std::nullopt;
    if (a->is_list() || a->is_tuple()) {
      if (a->items().size() != b->items().size()) return std::nullopt;
      std::vector<tern::Value> items;
      for (size_t i = 0; i < a->items().size(); ++i) {
        Widened inner;
        MaybeValue item = merge(MaybeValue(a->items()[i]), MaybeValue(b->items()[i]), &inner);
        if (!item || inner.grew) return std::nullopt;
        items.push_back(std::move(*item));
      }
      return a;
    }
    return a->equals(*b) ? a : std::nullopt;
  }
  MaybeValue merge(const Tensor& a, const Tensor& b, Widened& widened) {
    if (!a.defined() || !b.defined() || a.dim() != b.dim() || a.dtype() != b.dtype() ||
        a.device() != b.device())
      return std::nullopt;
    widened.dims.resize(static_cast<size_t>(a.dim()));
    Dims sizes(a.sizes());
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d].bits() == b.sizes()[d].bits() || widened.dims[d]) continue;
      widened.dims[d] = widened.grew = true;
      sizes[d] = graph_.shapes->create_unbacked_symint("merged");
      graph_.shapes->check_is_size(sizes[d]);
    }
    bool grad = a.requires_grad() || b.requires_grad();
    bool same_strides = true;
    for (size_t d = 0; d < sizes.size(); ++d)
      same_strides = same_strides && a.strides()[d].bits() == b.strides()[d].bits();
    if (!widened.grew && same_strides && a.requires_grad() == grad) return tern::Value(a);
    Tensor out = widened.grew ? make_tensor(sizes, a.dtype(), a.device(), true)
                              : make_tensor(sizes, a.strides(), a.dtype(), a.device(), true);
    if (grad) out.requires_grad_(true);
    return tern::Value(out);
  }

  // ---- types ----
  void annotate(Block& b) {
    for (ir::Value* v : b.params()) annotate(*v);
    for (Node& n : b) {
      for (ir::Value* v : n.outputs()) annotate(*v);
      for (Block* inner : n.blocks()) annotate(*inner);
    }
  }
  void annotate(ir::Value& v) {
    if (!v.type()->is_tensor()) return;
    auto it = values_.find(&v);
    if (it == values_.end() || !it->second.is_tensor() || !it->second.tensor().defined()) {
      ++report_.open;
      v.set_type(Type::tensor());
      return;
    }
    ++report_.known;
    const Type* t = Type::tensor_like(it->second.tensor());
    // Strides of open sizes are not worth their text.
    if (it->second.tensor().is_symbolic()) {
      ir::TensorInfo info = t->info();
      info.strides.reset();
      t = Type::tensor(info);
    }
    v.set_type(t);
  }

  ir::Graph& graph_;
  const ShapeOptions& options_;
  std::unordered_map<const ir::Value*, tern::Value> values_;
  std::unordered_set<const Box*> changed_;
  std::unordered_set<Symbol> set_attributes_;
  ShapeReport report_;
  int uncertain_ = 0, depth_ = 0;
  decltype(thread_state.active) saved_{};
};

}  // namespace

ShapeReport propagate_shapes(ir::Graph& graph, const ShapeOptions& options) {
  return Propagator(graph, options).run();
}

}  // namespace tern::capture
