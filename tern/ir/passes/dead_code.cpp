// Dead code: results nobody uses, and writes to memory that nobody looks at.
#include "tern/dispatch/op.h"
#include "tern/ir/alias.h"
#include "tern/ir/higher_order.h"
#include "tern/ir/pass.h"

namespace tern::ir {
namespace {

// In a graph that writes to memory, what is needed is found from the outputs and effects backwards: a node
// that is needed needs its operands, and every write to the memory they stand for.
class Marker {
 public:
  Marker(const Graph& graph, bool as_torch)
      : aliases_(graph), reached_(aliases_.num_locations()), as_torch_(as_torch) {
    for (const Operand& o : graph.outputs()) need(o);
    roots(graph.top());
    for (; !nodes_.empty() || !values_.empty();) {
      if (!nodes_.empty()) {
        const Node* n = nodes_.back();
        nodes_.pop_back();
        visit(*n);
      } else {
        const Value* v = values_.back();
        values_.pop_back();
        visit(*v);
      }
    }
  }
  bool is_needed(const Node& n) const { return needed_.count(&n); }
  bool is_needed(const Value& v) const { return used_.count(&v); }

 private:
  void roots(const Block& b) {
    for (const Node& n : b) {
      bool root = own_side_effect(n);
      if (!root)
        for (uint32_t l : aliases_.written(n)) root = root || aliases_.outlives(l);
      if (root) need(n);
      if (as_torch_ && n.is("prim::Loop")) rounds(n);
      for (const Block* inner : n.blocks()) roots(*inner);
    }
  }
  bool own_side_effect(const Node& n) const {
    if (as_torch_ && n.op() && n.op()->is(op_random) && !n.op()->schema().mutates()) return false;
    return n.blocks().empty() && has_side_effect(n);
  }
  // What a round gives to the next one that looks at it, and whether there is one.
  void rounds(const Node& loop) {
    const Block& body = *loop.blocks()[0];
    need(body.returns()[0]);
    for (size_t i = 1; i < body.params().size(); ++i)
      if (body.param(i).has_uses()) need(body.returns()[i]);
  }

  void need(const Node& n) {
    if (needed_.insert(&n).second) nodes_.push_back(&n);
  }
  void need(const Operand& o) {
    if (o.is_list()) {
      for (const Operand& item : o.list()) need(item);
      return;
    }
    if (o.is_value() && used_.insert(&o.value()).second) values_.push_back(&o.value());
    if (everything_) return;
    everything_ = aliases_.reaches_everything(o);
    for (uint32_t l : aliases_.reachable(o)) {
      if (reached_[l]) continue;
      reached_[l] = true;
      for (const Node* writer : aliases_.writers(l)) need(*writer);
    }
  }
  void visit(const Node& n) {
    bool branch = n.is("prim::If") || n.is("higher_order::cond") || (as_torch_ && n.is("prim::Loop"));
    for (const Operand& o : n.inputs()) need(o);
    if (Node* parent = n.parent()) need(*parent);
    // What a branch returns is needed only where its result is.
    if (!branch)
      for (const Block* b : n.blocks())
        for (const Operand& o : b->returns()) need(o);
  }
  void visit(const Value& v) {
    const Node* n = v.node();
    if (!n) return;
    need(*n);
    if (n->is("prim::If") || n->is("higher_order::cond"))
      for (const Block* b : n->blocks()) need(b->returns()[v.index()]);
    if (as_torch_ && n->is("prim::Loop")) need(n->blocks()[0]->returns()[v.index() + 1]);
  }

  AliasAnalysis aliases_;
  std::vector<bool> reached_;  // locations whose writers are needed
  bool as_torch_;
  bool everything_ = false;  // all of them
  FlatSet<const Node*> needed_;
  FlatSet<const Value*> used_;
  std::vector<const Node*> nodes_;
  std::vector<const Value*> values_;
};

// Goes backwards, so one walk is enough.
bool sweep(Graph& graph, Block& b, const Marker* marker) {
  bool changed = false;
  for (Node* n = b.last(); n != &b.return_node();) {
    Node* before = n->prev();
    bool used = false;
    for (Value* v : n->outputs()) used = used || v->has_uses();
    if (!used && (marker ? !marker->is_needed(*n) : !has_effect(*n))) {
      graph.erase(*n);
      changed = true;
    } else {
      // Results of a branch that nobody uses; what is carried from round to round stays.
      const HigherOrder* op = find_higher_order(n->kind().view());
      bool loop = n->is("higher_order::while_loop");
      if (n->is("prim::If") || (op && !loop))
        for (size_t i = n->num_outputs(), carried = op ? operands_of(*n).carried : 0; i-- > carried;) {
          if (n->output(i).has_uses()) continue;
          n->remove_output(i);
          for (Block* inner : n->blocks()) inner->return_node().remove_input(i);
          changed = true;
        }
      for (Block* inner : n->blocks()) changed |= sweep(graph, *inner, marker);
    }
    n = before;
  }
  return changed;
}

// Writes that might be for nobody: their results are not used, and they do nothing else. (In a graph that was
// swept, a result that is used is used for the outputs or for an effect.)
bool has_idle_writes(const Block& b) {
  for (const Node& n : b) {
    bool used = false;
    for (const Value* v : n.outputs()) used = used || v->has_uses();
    if (!used && n.blocks().empty() && has_effect(n) && !has_side_effect(n)) return true;
    for (const Block* inner : n.blocks())
      if (has_idle_writes(*inner)) return true;
  }
  return false;
}

}  // namespace

bool dce(Graph& graph, const PassOptions& options) {
  bool changed = !options.as_torch && sweep(graph, graph.top(), nullptr);
  if (!options.as_torch && !has_idle_writes(graph.top())) return changed;
  Marker marker(graph, options.as_torch);
  return sweep(graph, graph.top(), &marker) || changed;
}

}  // namespace tern::ir
