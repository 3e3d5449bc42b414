// The list of passes, and what they ask about nodes.
#include <bit>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/builtins.h"
#include "tern/ir/pass.h"

namespace tern::ir {

Span<const PassInfo> passes() {
  static constexpr PassInfo all[] = {
      {"dce", "removes nodes whose results nobody uses", dce},
      {"cse", "merges equal pure nodes", cse},
      {"fold_constants", "runs pure nodes on constants", fold_constants},
      {"pool_constants", "one prim::Constant per value, at the start", pool_constants},
      {"inline_constants", "prim::Constant nodes become operands", inline_constants},
      {"constants_to_nodes", "constant operands become prim::Constant nodes", constants_to_nodes},
      {"inline_lists", "prim::ListConstruct nodes that are only arguments become operands", inline_lists},
      {"lists_to_nodes", "list operands become prim::ListConstruct nodes", lists_to_nodes},
      {"lower_tuples", "tuples that are made and taken apart disappear", lower_tuples},
      {"unroll_loops", "loops of a known, small number of rounds become their bodies", unroll_loops},
      {"peephole", "the local rewrite rules", peephole},
  };
  return all;
}

bool PassOptions::is_off(std::string_view name) const {
  for (const std::string& o : off)
    if (o == name) return true;
  return false;
}

bool run_pass(Graph& graph, std::string_view name, const PassOptions& options) {
  for (const PassInfo& p : passes())
    if (p.name == name) return !options.is_off(name) && p.run(graph, options);
  std::string known;
  for (const PassInfo& p : passes()) known += (known.empty() ? "" : ", ") + std::string(p.name);
  failf(ErrorKind::value, "there is no pass '{}'; there are {}", name, known);
}

bool run_passes(Graph& graph, Span<const std::string_view> names, const PassOptions& options) {
  bool changed = false;
  for (std::string_view name : names) changed |= run_pass(graph, name, options);
  return changed;
}

namespace {

// ---- of the node alone, without its blocks ----

bool is_harmless(const Node& n) {
  static const std::unordered_set<Symbol> harmless = {"prim::Constant",
                                                      "prim::ListConstruct",
                                                      "prim::TupleConstruct",
                                                      "prim::DictConstruct",
                                                      "prim::ListUnpack",
                                                      "prim::TupleUnpack",
                                                      "prim::If",
                                                      "prim::Loop",
                                                      "prim::GetAttr",
                                                      "prim::CreateObject",
                                                      "prim::unchecked_cast",
                                                      "prim::Uninitialized",
                                                      "prim::isinstance",
                                                      "higher_order::cond",
                                                      "higher_order::while_loop",
                                                      "higher_order::wrap_with_set_grad_enabled",
                                                      "higher_order::wrap_with_autocast",
                                                      "higher_order::auto_functionalized",
                                                      "higher_order::auto_functionalized_v2",
                                                      "higher_order::map_impl",
                                                      "higher_order::scan",
                                                      "prim::fork",
                                                      "aten::wait"};
  return harmless.count(n.kind()) != 0;
}

// An operator without its overload: what any of them does, it may do.
bool any_overload(const Node& n, bool (*is)(const Op& op)) {
  std::string_view kind = n.kind().view();
  size_t colons = kind.find("::");
  for (const Op* op :
       overloads(Symbol(kind.substr(0, kind.find('.', colons == std::string_view::npos ? 0 : colons)))))
    if (is(*op)) return true;
  return false;
}
bool op_writes(const Op& op) { return op.is(op_inplace | op_out) || op.schema().mutates(); }
bool op_has_side_effect(const Op& op) { return op.is(op_impure | op_random); }

bool own_writes(const Node& n) {
  if (n.op()) return op_writes(*n.op());
  if (n.is("prim::SetAttr")) return true;
  if (is_harmless(n)) return false;
  if (find_builtin(n.kind())) return builtin_mutates(n.kind());
  return any_overload(n, [](const Op& op) { return !op.is(op_out) && op_writes(op); });
}
// Dropout in evaluation draws nothing.
bool draws_nothing(const Node& n) {
  const Operand* train = n.find_input("train");
  return train && train->is_constant() && train->constant().is_bool() && !train->constant().to_bool();
}

bool own_side_effect(const Node& n) {
  if (n.op()) return n.op()->is(op_impure) || (n.op()->is(op_random) && !draws_nothing(n));
  if (n.is("prim::SetAttr") || is_harmless(n)) return false;
  if (find_builtin(n.kind())) return builtin_has_effect(n.kind()) && !builtin_mutates(n.kind());
  std::string_view kind = n.kind().view();
  size_t dot = kind.find('.', kind.find("::"));
  if (overloads(Symbol(kind.substr(0, dot))).empty()) return true;  // a call, or something nobody knows
  return any_overload(n, op_has_side_effect);
}
bool own_effect(const Node& n) { return own_writes(n) || own_side_effect(n); }

template <class F>
bool any_node(const Block& b, F&& f) {
  for (const Node& n : b) {
    if (f(n)) return true;
    for (const Block* inner : n.blocks())
      if (any_node(*inner, f)) return true;
  }
  return false;
}

}  // namespace

bool has_effect(const Node& n) {
  if (own_effect(n)) return true;
  for (const Block* b : n.blocks())
    if (any_node(*b, own_effect)) return true;
  return false;
}

bool has_side_effect(const Node& n) {
  if (own_side_effect(n)) return true;
  for (const Block* b : n.blocks())
    if (any_node(*b, own_side_effect)) return true;
  return false;
}

bool is_pure(const Node& n) {
  if (!n.blocks().empty() || n.is("prim::CreateObject") || n.is("prim::GetAttr") ||
      n.is("prim::Uninitialized") || n.is("prim::fork"))
    return false;
  return !own_effect(n);
}

bool has_mutation(const Graph& graph) {
  return any_node(graph.top(), [](const Node& n) {
    if (own_writes(n)) return true;
    // What nobody knows may change anything; known effects (prints, draws, checks) change no value.
    return !n.op() && own_side_effect(n) && !find_builtin(n.kind());
  });
}

bool same_constant(const tern::Value& a, const tern::Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case ValueKind::int_:
      return a.sym().bits() == b.sym().bits();
    case ValueKind::float_:
      return std::bit_cast<int64_t>(a.to_double()) == std::bit_cast<int64_t>(b.to_double());
    case ValueKind::list:
    case ValueKind::tuple: {
      const auto &x = a.items(), &y = b.items();
      if (x.size() != y.size() || a.element_type() != b.element_type()) return false;
      for (size_t i = 0; i < x.size(); ++i)
        if (!same_constant(x[i], y[i])) return false;
      return true;
    }
    case ValueKind::dict: {
      const auto &x = a.entries(), &y = b.entries();
      if (x.size() != y.size()) return false;
      for (size_t i = 0; i < x.size(); ++i)
        if (!same_constant(x[i].first, y[i].first) || !same_constant(x[i].second, y[i].second)) return false;
      return true;
    }
    default:
      return a.equals(b);
  }
}

size_t hash_constant(const tern::Value& v) {
  auto mix = [](size_t h, size_t x) { return (h ^ x) * 0x9E3779B97F4A7C15ull ^ (h >> 30); };
  size_t h = static_cast<size_t>(v.kind()) + 17;
  switch (v.kind()) {
    case ValueKind::int_:
      return mix(h, static_cast<size_t>(v.sym().bits()));
    case ValueKind::bool_:
      return mix(h, v.sym().bits() != 0);
    case ValueKind::float_:
      return mix(h, std::bit_cast<size_t>(v.to_double()));
    case ValueKind::string:
      return mix(h, std::hash<std::string>{}(v.string()));
    case ValueKind::tensor:
      return mix(h, reinterpret_cast<size_t>(v.tensor().body()));
    case ValueKind::list:
    case ValueKind::tuple:
      for (const tern::Value& item : v.items()) h = mix(h, hash_constant(item));
      return h;
    default:
      return h;
  }
}

}  // namespace tern::ir
