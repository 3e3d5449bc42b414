// Constants: folding, pooling, and the two ways to write them (operands, prim::Constant nodes).
#include <optional>
#include <unordered_map>

#include "tern/base/error.h"
#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ir/alias.h"
#include "tern/ir/interpreter.h"
#include "tern/ir/pass.h"

namespace tern::ir {
namespace {

template <class F>
void each_node(Block& b, F&& f) {
  for (Node& n : b) {
    for (Block* inner : n.blocks()) each_node(*inner, f);
    f(n);
  }
}

// Only graphs that write to memory, or keep something twice, need to know about it.
class LazyAliases {
 public:
  explicit LazyAliases(const Graph& graph) : graph_(graph) {}
  const AliasAnalysis& get() {
    if (!made_) made_.emplace(graph_);
    return *made_;
  }
  bool has_writers(const Value& v) {
    if (!mutation_) mutation_ = has_mutation(graph_);
    return *mutation_ && AliasAnalysis::is_mutable(*v.type()) && get().has_writers(v);
  }
  bool has_writers(const Operand& o) {
    if (!mutation_) mutation_ = has_mutation(graph_);
    return *mutation_ && AliasAnalysis::is_mutable(*o.type()) && get().has_writers(o);
  }

 private:
  const Graph& graph_;
  std::optional<bool> mutation_;
  std::optional<AliasAnalysis> made_;
};

// The node's operands as values, if all are constants.
bool constant_inputs(const Node& n, std::vector<tern::Value>& values) {
  for (const Operand& o : n.inputs()) {
    if (o.is_constant()) {
      values.push_back(o.constant());
    } else if (o.is_value() && o.value().node() && o.value().node()->is("prim::Constant")) {
      const tern::Value* v = o.value().node()->attribute("value");
      values.push_back(v ? *v : tern::Value());
    } else {
      return false;
    }
  }
  return true;
}

bool small_enough(const tern::Value& v, size_t limit) {
  if (v.is_tensor()) {
    const Tensor& t = v.tensor();
    return !t.is_fake() && !t.is_symbolic() && !t.requires_grad() &&
           static_cast<size_t>(t.int_numel()) <= limit;
  }
  if (v.is_list() || v.is_tuple()) {
    for (const tern::Value& item : v.items())
      if (!small_enough(item, limit)) return false;
    return v.items().size() <= limit;
  }
  return !v.is_object();
}

}  // namespace

bool fold_constants(Graph& graph, const PassOptions& options) {
  bool changed = false;
  LazyAliases aliases(graph);
  auto fold = [&](Node& n) {
    if (n.num_outputs() == 0 || n.is("prim::Constant") || !is_pure(n) || n.inputs().empty()) return;
    bool foldable = n.op() || n.kind().view().substr(0, 6) == "aten::" || n.is("prim::TupleIndex") ||
                    n.is("prim::ListUnpack") || n.is("prim::TupleUnpack") || n.is("prim::min") ||
                    n.is("prim::max") || n.is("prim::NumToTensor");
    std::vector<tern::Value> values;
    if (options.as_torch && n.is("aten::format")) return;
    if (!foldable || !constant_inputs(n, values)) return;
    for (const Operand& o : n.inputs())
      if (aliases.has_writers(o)) return;
    for (const Value* v : n.outputs())
      if (aliases.has_writers(*v) || (!options.fold_memory && AliasAnalysis::is_mutable(*v->type()))) return;
    std::vector<tern::Value> results;
    try {
      Graph single;
      ValueMap map;
      std::vector<In> inputs;
      for (Operand& o : n.inputs())
        if (o.is_value()) map.emplace(&o.value(), In(values[static_cast<size_t>(&o - n.inputs().begin())]));
      Node& copy = single.copy(n, map);
      for (Value* v : copy.outputs()) single.add_output(In(*v));
      NoGrad no_grad;
      Exclude no_record(rung_record | rung_core | rung_functional);
      results = run(single, {});
    } catch (const Error&) {
      return;  // it fails when it is reached, if it is
    }
    for (const tern::Value& v : results)
      if (!small_enough(v, options.max_folded)) return;
    if (options.report) options.report("fold_constants: %" + n.name());
    for (size_t i = 0; i < n.num_outputs(); ++i) graph.replace_all_uses(n.output(i), In(results[i]));
    graph.erase(n);
    changed = true;
  };
  // Conditions that are constant leave one branch.
  auto choose_branch = [&](Node& n) {
    if (!n.is("prim::If") || !n.input(0).is_constant() || !n.input(0).constant().is_bool()) return;
    Block& taken = *n.blocks()[n.input(0).constant().to_bool() ? 0 : 1];
    while (!taken.empty()) taken.first()->move_before(n);
    for (size_t i = 0; i < n.num_outputs(); ++i) graph.replace_all_uses(n.output(i), In(taken.returns()[i]));
    graph.erase(n);
    changed = true;
  };
  each_node(graph.top(), [&](Node& n) {
    if (n.is("prim::If"))
      choose_branch(n);
    else
      fold(n);
  });
  return changed;
}

bool pool_constants(Graph& graph, const PassOptions&) {
  bool changed = false;
  LazyAliases aliases(graph);
  std::unordered_multimap<size_t, Node*> pool;
  Node* place = graph.top().first();
  each_node(graph.top(), [&](Node& n) {
    if (!n.is("prim::Constant")) return;
    const tern::Value* v = n.attribute("value");
    tern::Value value = v ? *v : tern::Value();
    if (aliases.has_writers(n.output())) return;
    size_t h = hash_constant(value);
    auto [from, to] = pool.equal_range(h);
    for (auto it = from; it != to; ++it) {
      const tern::Value* other = it->second->attribute("value");
      if (!same_constant(other ? *other : tern::Value(), value) ||
          it->second->output().type() != n.output().type())
        continue;
      if (!value.is_tensor() && AliasAnalysis::is_mutable(*n.output().type()) &&
          !aliases.get().safe_to_merge(n.output(), it->second->output()))
        continue;
      n.output().replace_all_uses_with(it->second->output());
      graph.erase(n);
      changed = true;
      return;
    }
    pool.emplace(h, &n);
    if (&n == place) {
      place = n.next();
    } else {
      n.move_before(*place);
      changed = true;
    }
  });
  return changed;
}

bool inline_constants(Graph& graph, const PassOptions&) {
  bool changed = false;
  LazyAliases aliases(graph);
  each_node(graph.top(), [&](Node& n) {
    if (!n.is("prim::Constant")) return;
    const tern::Value* v = n.attribute("value");
    // A container is made anew where it is used: once made and then changed, it must stay one.
    if (v && !v->is_tensor() && aliases.has_writers(n.output())) return;
    graph.replace_all_uses(n.output(), In(v ? *v : tern::Value()));
    graph.erase(n);
    changed = true;
  });
  return changed;
}

bool constants_to_nodes(Graph& graph, const PassOptions&) {
  bool changed = false;
  auto to_node = [&](const tern::Value& v, const Node& user) -> In {
    const Type* type = Type::of(v);
    Node& c = graph.make("prim::Constant", {}, {&type, 1});
    if (!v.is_none()) c.set_attribute("value", v);
    c.set_origin(user.origin());
    changed = true;
    return In(c.output());
  };
  auto lift = [&](Node& n) {
    InsertAt here(n);
    for (size_t i = 0; i < n.inputs().size(); ++i) {
      Operand& o = n.input(i);
      if (o.is_value()) continue;
      if (o.is_constant()) {
        n.set_input(i, to_node(o.constant(), n));
        continue;
      }
      std::vector<In> items;
      for (const Operand& item : o.list())
        items.push_back(item.is_constant() ? to_node(item.constant(), n) : In(item));
      n.set_input(i, In::list(std::move(items)));
    }
  };
  auto walk = [&](auto& self, Block& b) -> void {
    for (Node& n : b) {
      if (n.is("prim::Constant")) continue;
      for (Block* inner : n.blocks()) self(self, *inner);
      lift(n);
    }
    lift(b.return_node());
  };
  walk(walk, graph.top());
  return changed;
}

}  // namespace tern::ir
