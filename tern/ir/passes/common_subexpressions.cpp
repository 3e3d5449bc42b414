// Common subexpressions: a pure node equal to one that dominates it is replaced by it.
#include <optional>
#include <unordered_map>

#include "tern/dispatch/op.h"
#include "tern/ir/alias.h"
#include "tern/ir/pass.h"

namespace tern::ir {
namespace {

size_t mix(size_t h, size_t x) { return (h ^ x) * 0x9E3779B97F4A7C15ull ^ (h >> 30); }

size_t hash_operand(const Operand& o) {
  if (o.is_value()) return mix(1, reinterpret_cast<size_t>(&o.value()));
  if (o.is_constant()) return hash_constant(o.constant());
  size_t h = 3;
  for (const Operand& item : o.list()) h = mix(h, hash_operand(item));
  return h;
}
bool same_operand(const Operand& a, const Operand& b) {
  if (a.is_value()) return b.is_value() && &a.value() == &b.value();
  if (a.is_constant()) return b.is_constant() && same_constant(a.constant(), b.constant());
  if (!b.is_list() || a.list().size() != b.list().size()) return false;
  for (size_t i = 0; i < a.list().size(); ++i)
    if (!same_operand(a.list()[i], b.list()[i])) return false;
  return true;
}
bool same_node(const Node& a, const Node& b) {
  if (a.op() != b.op() || a.kind() != b.kind() || a.inputs().size() != b.inputs().size() ||
      a.num_outputs() != b.num_outputs() || a.attributes().size() != b.attributes().size())
    return false;
  for (size_t i = 0; i < a.inputs().size(); ++i)
    if (!same_operand(a.input(i), b.input(i))) return false;
  for (auto& [name, v] : a.attributes()) {
    const tern::Value* other = b.attribute(name);
    if (!other || !same_constant(v, *other)) return false;
  }
  // A cast or an unpacking means its type, too.
  if (!a.op())
    for (size_t i = 0; i < a.num_outputs(); ++i)
      if (a.output(i).type() != b.output(i).type()) return false;
  return true;
}

struct Merger {
  Graph& graph;
  std::unordered_multimap<size_t, Node*> seen = {};
  bool changed = false;
  std::optional<AliasAnalysis> aliases = {};  // made when two equal nodes are found that give memory
  FlatSet<const Node*> escaping = {};

  static bool touches_memory(const Node& n) {
    for (Value* v : n.outputs())
      if (AliasAnalysis::is_mutable(*v->type())) return true;
    for (const Operand& o : n.inputs())
      if (AliasAnalysis::is_mutable(*o.type())) return true;
    return false;
  }
  // Nobody may write to what the nodes read or give; and two results that others get to see stay two.
  bool may_merge(Node& kept, const Node& n) {
    if (!touches_memory(n)) return true;
    if (!aliases) aliases.emplace(graph);
    if (aliases->has_writers(n) || aliases->has_writers(kept)) return false;
    bool both = false, any = false;
    for (size_t i = 0; i < n.num_outputs(); ++i) {
      bool seen_kept = escaping.count(&kept) || aliases->escapes(kept.output(i));
      bool seen_n = aliases->escapes(n.output(i));
      // A view of an input is that input's memory both times.
      bool same_memory = n.op() && n.op()->is(op_view);
      both = both || (seen_kept && seen_n && !same_memory);
      any = any || seen_kept || seen_n;
    }
    if (!both && any) escaping.insert(&kept);
    return !both;
  }

  void walk(Block& b) {
    std::vector<size_t> added;
    for (Node& n : b) {
      if (n.num_outputs() && is_pure(n)) {
        size_t h = mix(n.kind().id(), reinterpret_cast<size_t>(n.op()));
        for (const Operand& o : n.inputs()) h = mix(h, hash_operand(o));
        Node* equal = nullptr;
        auto [from, to] = seen.equal_range(h);
        for (auto it = from; it != to && !equal; ++it)
          if (same_node(*it->second, n) && may_merge(*it->second, n)) equal = it->second;
        if (equal) {
          for (size_t i = 0; i < n.num_outputs(); ++i) n.output(i).replace_all_uses_with(equal->output(i));
          graph.erase(n);
          changed = true;
          continue;
        }
        seen.emplace(h, &n);
        added.push_back(h);
      }
      for (Block* inner : n.blocks()) walk(*inner);
    }
    if (!b.parent()) return;
    // What a block defines is not visible after it.
    for (size_t h : added) {
      auto [from, to] = seen.equal_range(h);
      for (auto it = from; it != to; ++it)
        if (&it->second->block() == &b) {
          seen.erase(it);
          break;
        }
    }
  }
};

}  // namespace

bool cse(Graph& graph, const PassOptions&) {
  Merger m{graph};
  m.seen.reserve(graph.num_nodes());
  m.walk(graph.top());
  return m.changed;
}

}  // namespace tern::ir
