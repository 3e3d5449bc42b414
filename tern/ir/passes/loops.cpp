// Loops that run a known, small number of times become their bodies, one after the other.
#include "tern/ir/pass.h"

namespace tern::ir {
namespace {

constexpr int64_t max_nodes = 256;  // that one loop may become

bool is_true(const Operand& o) {
  if (o.is_constant()) return o.constant().is_bool() && o.constant().to_bool();
  const Node* n = o.is_value() ? o.value().node() : nullptr;
  const tern::Value* v = n && n->is("prim::Constant") ? n->attribute("value") : nullptr;
  return v && v->is_bool() && v->to_bool();
}
const tern::Value* constant_of(const Operand& o) {
  if (o.is_constant()) return &o.constant();
  const Node* n = o.is_value() ? o.value().node() : nullptr;
  return n && n->is("prim::Constant") ? n->attribute("value") : nullptr;
}

int64_t count_nodes(const Block& b, int64_t limit) {
  int64_t count = 0;
  for (const Node& n : b) {
    ++count;
    for (const Block* inner : n.blocks()) count += count_nodes(*inner, limit);
    if (count > limit) break;
  }
  return count;
}

// Every value that is used stands for itself; copying gives those of the block itself their new ones.
void keep_outside(const Operand& o, ValueMap& map) {
  if (o.is_value()) map.emplace(&o.value(), In(o.value()));
  if (o.is_list())
    for (const Operand& item : o.list()) keep_outside(item, map);
}
void keep_outside(const Block& b, ValueMap& map) {
  for (const Node& n : b) {
    for (const Operand& o : n.inputs()) keep_outside(o, map);
    for (const Block* inner : n.blocks()) keep_outside(*inner, map);
  }
  for (const Operand& o : b.returns()) keep_outside(o, map);
}

bool unroll(Graph& graph, Node& loop) {
  const Block& body = *loop.blocks()[0];
  const tern::Value* trips = constant_of(loop.input(0));
  if (!trips || !trips->is_int() || !trips->sym().is_int() || !is_true(loop.input(1)) ||
      !is_true(body.returns()[0]))
    return false;
  int64_t times = trips->to_int() < 0 ? 0 : trips->to_int();
  if (times > max_nodes || count_nodes(body, max_nodes) * times > max_nodes) return false;
  std::vector<In> carried;
  for (size_t i = 2; i < loop.inputs().size(); ++i) carried.emplace_back(loop.input(i));
  InsertAt here(loop);
  for (int64_t i = 0; i < times; ++i) {
    ValueMap map;
    keep_outside(body, map);
    map[&body.param(0)] = In(tern::Value(i));
    for (size_t k = 0; k < carried.size(); ++k) map[&body.param(k + 1)] = carried[k];
    std::vector<In> results = graph.inline_block(body, map);
    carried.assign(results.begin() + 1, results.end());
  }
  for (size_t k = 0; k < loop.num_outputs(); ++k) graph.replace_all_uses(loop.output(k), carried[k]);
  return true;
}

bool walk(Graph& graph, Block& b) {
  bool changed = false;
  for (Node* n = b.first(); n != &b.return_node();) {
    for (Block* inner : n->blocks()) changed |= walk(graph, *inner);
    Node* next = n->next();
    if (n->is("prim::Loop") && unroll(graph, *n)) {
      graph.erase(*n);
      changed = true;
    }
    n = next;
  }
  return changed;
}

}  // namespace

bool unroll_loops(Graph& graph, const PassOptions&) { return walk(graph, graph.top()); }

}  // namespace tern::ir
