// Dead code: results nobody uses. Goes backwards, so one walk is enough.
#include "tern/ir/builtins.h"
#include "tern/ir/higher_order.h"
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
      for (Block* inner : n->blocks()) changed |= sweep(graph, *inner);
    }
    n = before;
  }
  return changed;
}

}  // namespace

bool dce(Graph& graph, const PassOptions&) { return sweep(graph, graph.top()); }

}  // namespace tern::ir
