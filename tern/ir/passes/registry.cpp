// The list of passes, and what they ask about nodes.
#include <bit>

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

// Whether it is enough to look at the node, without its blocks.
bool own_effect(const Node& n) {
  if (n.op()) return n.op()->is(op_impure | op_random | op_inplace | op_out) || n.op()->schema().mutates();
  static const Symbol harmless[] = {"prim::Constant",
                                    "prim::ListConstruct",
                                    "prim::TupleConstruct",
                                    "prim::DictConstruct",
                                    "prim::ListUnpack",
                                    "prim::TupleUnpack",
                                    "prim::If",
                                    "prim::Loop",
                                    "prim::GetAttr",
                                    "prim::unchecked_cast",
                                    "prim::Uninitialized",
                                    "prim::isinstance",
                                    "higher_order::cond",
                                    "higher_order::while_loop",
                                    "higher_order::map_impl",
                                    "higher_order::scan",
                                    "higher_order::wrap_with_set_grad_enabled",
                                    "higher_order::wrap_with_autocast",
                                    "higher_order::auto_functionalized",
                                    "higher_order::auto_functionalized_v2",
                                    "prim::fork",
                                    "aten::wait"};
  for (Symbol s : harmless)
    if (n.kind() == s) return false;
  if (!find_builtin(n.kind())) return true;
  return builtin_has_effect(n.kind());
}

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

bool is_pure(const Node& n) {
  if (!n.blocks().empty() || n.is("prim::GetAttr") || n.is("prim::Uninitialized") || n.is("prim::fork"))
    return false;
  return !own_effect(n);
}

bool has_mutation(const Graph& graph) {
  return any_node(graph.top(), [](const Node& n) {
    if (n.op()) return n.op()->is(op_inplace | op_out) || n.op()->schema().mutates();
    if (n.is("prim::Print") || n.is("aten::warn") || n.is("prim::RaiseException")) return false;
    std::string_view kind = n.kind().view();
    if (kind.find("_assert") != std::string_view::npos ||
        kind.find("sym_constrain") != std::string_view::npos)
      return false;
    return own_effect(n);
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
