// Lists and tuples: the two ways to write lists (operands, prim::ListConstruct nodes); tuples that only carry
// values.
#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/ir/builtins.h"
#include "tern/ir/pass.h"

namespace tern::ir {
namespace {

template <class F>
void each_block(Block& b, F&& f) {
  for (Node& n : b)
    for (Block* inner : n.blocks()) each_block(*inner, f);
  f(b);
}

// A use of a list that neither keeps nor changes it: an argument of an operator, or of a builtin without
// effect.
bool reads_only(const Node& user, const Value& list) {
  if (user.op()) {
    const Schema& s = user.op()->schema();
    for (size_t i = 0; i < user.inputs().size(); ++i) {
      const Operand& o = user.input(i);
      if (o.is_list()) {
        for (const Operand& item : o.list())
          if (item.is_value() && &item.value() == &list) return false;
      } else if (o.is_value() && &o.value() == &list && (!s.args[i].type.list || s.args[i].alias.write)) {
        return false;
      }
    }
    return true;
  }
  if (user.is("prim::ListUnpack")) return true;
  return find_builtin(user.kind()) && !builtin_has_effect(user.kind()) && !user.is("aten::__getitem__");
}

}  // namespace

bool inline_lists(Graph& graph, const PassOptions&) {
  bool changed = false;
  each_block(graph.top(), [&](Block& b) {
    for (Node& n : b) {
      if (!n.is("prim::ListConstruct")) continue;
      bool argument = true;
      for (const Use& u : n.output().uses()) argument = argument && reads_only(*u.user, n.output());
      if (!argument) continue;
      std::vector<In> items;
      for (const Operand& o : n.inputs()) items.emplace_back(o);
      In list = items.empty() && n.output().type()->is(TypeKind::list)
                    ? In(tern::Value::list({}, n.output().type()->element()))
                    : In::list(std::move(items));
      graph.replace_all_uses(n.output(), list);
      graph.erase(n);
      changed = true;
    }
  });
  return changed;
}

bool lists_to_nodes(Graph& graph, const PassOptions&) {
  bool changed = false;
  auto to_node = [&](auto& self, const Operand& o) -> In {
    std::vector<In> items;
    const Type* type = o.type();
    if (o.is_constant()) {
      for (const tern::Value& v : o.constant().items()) items.emplace_back(v);
    } else {
      for (const Operand& item : o.list()) items.push_back(item.is_list() ? self(self, item) : In(item));
    }
    changed = true;
    return In(graph.make("prim::ListConstruct", items, {&type, 1}).output());
  };
  each_block(graph.top(), [&](Block& b) {
    auto lift = [&](Node& n) {
      InsertAt here(n);
      for (size_t i = 0; i < n.inputs().size(); ++i) {
        const Operand& o = n.input(i);
        if (!o.is_list() && !(o.is_constant() && o.constant().is_list())) continue;
        In made = to_node(to_node, o);
        made.value()->node()->set_origin(n.origin());
        // The schema knows better what an empty list, or one of mixed numbers, is a list of.
        if (n.op()) {
          const Type* wanted = Type::of(n.op()->schema().args[i].type);
          if (wanted->is(TypeKind::optional)) wanted = wanted->element();
          if (wanted->is(TypeKind::list)) made.value()->set_type(wanted);
        }
        n.set_input(i, made);
      }
    };
    for (Node& n : b) lift(n);
    lift(b.return_node());
  });
  return changed;
}

bool lower_tuples(Graph& graph, const PassOptions&) {
  bool changed = false;
  // Results of branches and loops become one value per element.
  auto split_outputs = [&](Node& n) {
    bool branch = n.is("prim::If"), loop = n.is("prim::Loop");
    if (!branch && !loop) return;
    for (size_t i = 0; i < n.num_outputs(); ++i) {
      const Type* t = n.output(i).type();
      if (!t->is(TypeKind::tuple)) continue;
      Span<const Type* const> elements = t->elements();
      size_t count = elements.size();
      auto unpack_before = [&](Node& at, const Operand& tuple) {
        std::vector<In> parts;
        Node* made = tuple.is_value() ? tuple.value().node() : nullptr;
        if (made && made->is("prim::TupleConstruct") && made->inputs().size() == count) {
          for (const Operand& o : made->inputs()) parts.emplace_back(o);
          return parts;
        }
        In in(tuple);
        InsertAt here(at);
        for (Value* v : graph.make("prim::TupleUnpack", {&in, 1}, elements).outputs()) parts.emplace_back(*v);
        return parts;
      };
      for (Block* b : n.blocks()) {
        size_t at = i + (loop ? 1 : 0);
        std::vector<In> parts = unpack_before(b->return_node(), b->returns()[at]);
        b->return_node().remove_input(at);
        for (size_t k = 0; k < count; ++k) b->return_node().insert_input(at + k, parts[k]);
        if (!loop) continue;
        std::vector<In> params;
        for (size_t k = 0; k < count; ++k)
          params.emplace_back(b->insert_param(at + 1 + k, elements[k], b->param(at).name()));
        InsertAt here(*b->first());
        const Type* type = t;
        Value& tuple = graph.make("prim::TupleConstruct", params, {&type, 1}).output();
        b->param(at).replace_all_uses_with(tuple);
        b->remove_param(at);
      }
      if (loop) {
        std::vector<In> parts = unpack_before(n, n.input(i + 2));
        n.remove_input(i + 2);
        for (size_t k = 0; k < count; ++k) n.insert_input(i + 2 + k, parts[k]);
      }
      // The outputs behind i are made anew, so that the new ones stand in its place.
      std::vector<Value*> old;
      for (size_t k = i + 1; k < n.num_outputs(); ++k) old.push_back(&n.output(k));
      Value* tuple = &n.output(i);
      std::vector<In> parts;
      for (size_t k = 0; k < count; ++k) parts.emplace_back(n.add_output(elements[k], tuple->name()));
      for (Value* v : old) v->replace_all_uses_with(n.add_output(v->type(), v->name()));
      InsertAt here(*n.next());
      const Type* type = t;
      tuple->replace_all_uses_with(graph.make("prim::TupleConstruct", parts, {&type, 1}).output());
      for (size_t k = 0; k <= old.size(); ++k) n.remove_output(i);
      changed = true;
    }
  };
  auto simplify = [&](Node& n) {
    bool unpack = n.is("prim::TupleUnpack"), index = n.is("prim::TupleIndex");
    if ((!unpack && !index) || !n.input(0).is_value()) return;
    Node* made = n.input(0).value().node();
    if (!made || !made->is("prim::TupleConstruct")) return;
    if (unpack) {
      if (made->inputs().size() != n.num_outputs()) return;
      for (size_t i = 0; i < n.num_outputs(); ++i) graph.replace_all_uses(n.output(i), In(made->input(i)));
    } else {
      if (!n.input(1).is_constant() || !n.input(1).constant().is_int()) return;
      int64_t size = static_cast<int64_t>(made->inputs().size()), at = n.input(1).constant().to_int();
      if (at < -size || at >= size) return;
      graph.replace_all_uses(n.output(), In(made->input(static_cast<size_t>(at < 0 ? at + size : at))));
    }
    graph.erase(n);
    changed = true;
  };
  auto walk = [&](auto& self, Block& b) -> void {
    for (Node* n = b.first(); n != &b.return_node();) {
      split_outputs(*n);
      for (Block* inner : n->blocks()) self(self, *inner);
      Node* next = n->next();
      simplify(*n);
      n = next;
    }
    for (Node* n = b.last(); n != &b.return_node();) {
      Node* before = n->prev();
      if (n->is("prim::TupleConstruct") && !n->output().has_uses()) {
        graph.erase(*n);
        changed = true;
      }
      n = before;
    }
  };
  walk(walk, graph.top());
  return changed;
}

bool inline_calls(Graph& graph, const Function<const Graph*(const Node& call)>& resolve) {
  bool changed = false;
  // Nodes that came from inlining are looked at again, `depth` calls deep.
  auto walk = [&](auto& self, Block& b, Node* from, Node* to, int depth) -> void {
    if (depth > 100) fail("inlining: calls are nested more than 100 deep; is the function recursive?");
    for (Node* n = from; n != to;) {
      Node* next = n->next();
      for (Block* inner : n->blocks()) self(self, *inner, inner->first(), &inner->return_node(), depth);
      if (n->is("prim::CallMethod") || n->is("prim::CallFunction")) {
        const Graph* callee = resolve(*n);
        if (callee) {
          if (callee->inputs().size() != n->inputs().size() || callee->outputs().size() != n->num_outputs())
            failf("inlining %{}: the function takes {} and gives {} values, the call has {} and {}",
                  n->name(), callee->inputs().size(), callee->outputs().size(), n->inputs().size(),
                  n->num_outputs());
          ValueMap map;
          for (size_t i = 0; i < n->inputs().size(); ++i) map[callee->inputs()[i]] = In(n->input(i));
          Node* before = n->prev();
          InsertAt here(*n);
          std::vector<In> results = graph.inline_block(callee->top(), map);
          for (size_t i = 0; i < n->num_outputs(); ++i) graph.replace_all_uses(n->output(i), results[i]);
          graph.insert_at(*next);
          graph.erase(*n);
          changed = true;
          self(self, b, before->next(), next, depth + 1);
        }
      }
      n = next;
    }
  };
  walk(walk, graph.top(), graph.top().first(), &graph.top().return_node(), 0);
  return changed;
}

}  // namespace tern::ir
