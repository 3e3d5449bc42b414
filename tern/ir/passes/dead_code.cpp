// Dead code: results nobody uses. Goes backwards, so one walk is enough.
#include "tern/ir/builtins.h"
#include "tern/ir/pass.h"

namespace tern::ir {
namespace {

bool sweep(Graph& graph, Block& b) {
  bool changed = false;
  for (Node* n = b.last(); n != &b.return_node();) {
    Node* before = n->prev();
    bool used = false;
    for (Value* v : n->outputs()) used = used || v->has_uses();
    if (!used && !has_effect(*n)) {
      graph.erase(*n);
      changed = true;
    } else {
      // Results of a branch that nobody uses.
      if (n->is("prim::If") || n->is("higher_order::cond"))
        for (size_t i = n->num_outputs(); i-- > 0;) {
          if (n->output(i).has_uses()) continue;
          n->remove_output(i);
          for (Block* inner : n->blocks()) inner->return_node().remove_input(i);
          changed = true;
        }
      for (Block* inner : n->blocks()) changed |= sweep(graph, *inner);
    }
    n = before;
  }
  return changed;
}

}  // namespace

bool dce(Graph& graph, const PassOptions&) { return sweep(graph, graph.top()); }

}  // namespace tern::ir
