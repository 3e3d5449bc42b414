// What is done with a compiled graph before anybody sees it, so that it reads as PyTorch's does.
#include <algorithm>
#include <numeric>

#include "tern/base/flat_map.h"
#include "tern/dispatch/op.h"
#include "tern/ir/pass.h"
#include "tern/script/exits.h"
#include "tern/script/inlining.h"
#include "tern/script/preoptimise.h"
#include "tern/script/signature.h"

namespace tern::script {

// Unused results of prim::If and unused carried values of prim::Loop, and what only they needed.
void prune(ir::Block& block) {
  for (ir::Node* n = block.last(); n != &block.return_node();) {
    ir::Node& node = *n;
    n = node.prev();
    if (node.is("prim::If")) {
      for (size_t i = node.num_outputs(); i-- > 0;) {
        if (node.output(i).has_uses()) continue;
        node.remove_output(i);
        for (ir::Block* b : node.blocks()) b->return_node().remove_input(i);
      }
    } else if (node.is("prim::Loop")) {
      ir::Block& body = *node.blocks()[0];
      for (size_t i = node.num_outputs(); i-- > 0;) {
        if (node.output(i).has_uses()) continue;
        ir::Value& p = body.param(i + 1);
        const ir::Operand& back = body.returns()[i + 1];
        bool only_itself = !p.has_uses() || (p.num_uses() == 1 && back.is_value() && &back.value() == &p);
        if (!only_itself) continue;
        node.remove_output(i);
        body.return_node().remove_input(i + 1);
        body.remove_param(i + 1);
        node.remove_input(i + 2);
      }
    }
    for (ir::Block* b : node.blocks()) prune(*b);
    bool used = false;
    for (ir::Value* v : node.outputs()) used = used || v->has_uses();
    if (used) continue;
    bool removable = node.is("prim::Uninitialized") || node.is("prim::unchecked_cast") ||
                     node.is("prim::GetAttr") || node.is("prim::TupleUnpack") ||
                     node.is("prim::TupleIndex") || node.is("aten::__is__") || node.is("aten::__isnot__") ||
                     node.is("aten::__not__") || node.is("aten::IntImplicit") ||
                     node.is("aten::FloatImplicit") || node.is("aten::ScalarImplicit") ||
                     node.is("prim::ListConstruct") || node.is("prim::TupleConstruct");
    if (node.is("prim::If")) removable = node.blocks()[0]->empty() && node.blocks()[1]->empty();
    if (removable) node.graph().erase(node);
  }
}

namespace {

bool is_bool(const ir::Operand& o, bool value) {
  return o.is_constant() && o.constant().is_bool() && o.constant().to_bool() == value;
}

template <class F>
void each_block(ir::Block& block, F&& f) {
  for (ir::Node& n : block)
    for (ir::Block* b : n.blocks()) each_block(*b, f);
  f(block);
}

// ---- loops that count and ask ----

void count_by_itself(ir::Graph& graph, ir::Node& loop) {
  ir::Block& body = *loop.blocks()[0];
  ir::In limit(loop.input(0));
  const ir::Type *flag = ir::Type::boolean(), *number = ir::Type::integer();
  auto add = [&](const char* kind, const ir::In& a, const ir::In& b, const ir::Type* type) {
    ir::Node& n = graph.make(kind, {{a, b}}, {{type}});
    n.set_origin(loop.origin());
    return ir::In(n.output());
  };
  graph.insert_at(loop);
  ir::In start = add("aten::gt", limit, ir::In(0), flag);
  if (!is_bool(loop.input(1), true)) start = add("aten::__and__", start, ir::In(loop.input(1)), flag);
  loop.set_input(0, ir::In(INT64_MAX));
  loop.set_input(1, start);
  loop.add_input(ir::In(0));
  loop.add_output(number);
  ir::Value& counter = body.add_param(number);
  body.param(0).replace_all_uses_with(counter);
  graph.insert_at_end(body);
  ir::In next = add("aten::add", ir::In(counter), ir::In(1), number);
  ir::In below = add("aten::lt", next, limit, flag);
  body.return_node().set_input(0, add("aten::__and__", below, ir::In(body.returns()[0]), flag));
  body.add_return(next);
}

// ---- what nobody needs ----

void remove_carried(ir::Node& loop, size_t i) {
  ir::Block& body = *loop.blocks()[0];
  loop.remove_output(i);
  body.return_node().remove_input(i + 1);
  body.remove_param(i + 1);
  loop.remove_input(i + 2);
}

// Carried values that no round and nobody after the loop looks at.
void drop_carried(ir::Block& block) {
  for (ir::Node* n = block.last(); n != &block.return_node(); n = n->prev()) {
    if (n->is("prim::If"))
      for (size_t i = n->num_outputs(); i-- > 0;) {
        if (n->output(i).has_uses()) continue;
        n->remove_output(i);
        for (ir::Block* b : n->blocks()) b->return_node().remove_input(i);
      }
    if (n->is("prim::Loop"))
      for (size_t i = n->num_outputs(); i-- > 0;)
        if (!n->output(i).has_uses() && !n->blocks()[0]->param(i + 1).has_uses()) remove_carried(*n, i);
    for (ir::Block* b : n->blocks()) drop_carried(*b);
  }
}

void remove_dead(ir::Graph& graph) {
  ir::PassOptions options;
  options.as_torch = true;
  drop_carried(graph.top());
  ir::dce(graph, options);
}

// ---- constants ----

bool same_operand(const ir::Operand& a, const ir::Operand& b) {
  if (a.is_value() && b.is_value()) return &a.value() == &b.value();
  return a.is_constant() && b.is_constant() && ir::same_constant(a.constant(), b.constant());
}

// Branches that are known, loops that never run, results that are the same either way.
bool simplify(ir::Graph& graph, ir::Block& block) {
  bool changed = false;
  for (ir::Node* n = block.first(); n != &block.return_node();) {
    ir::Node& node = *n;
    n = node.next();
    bool loop = node.is("prim::Loop");
    if (node.is("prim::If") && node.input(0).is_constant()) {
      ir::Block& taken = *node.blocks()[is_bool(node.input(0), true) ? 0 : 1];
      if (!taken.empty()) n = taken.first();
      while (!taken.empty()) taken.first()->move_before(node);
      for (ir::Value* v : node.outputs()) graph.replace_all_uses(*v, ir::In(taken.returns()[v->index()]));
      graph.erase(node);
      changed = true;
      continue;
    }
    if (loop && (is_bool(node.input(1), false) ||
                 (node.input(0).is_constant() && node.input(0).constant().to_int() < 1))) {
      for (ir::Value* v : node.outputs()) graph.replace_all_uses(*v, ir::In(node.input(v->index() + 2)));
      graph.erase(node);
      changed = true;
      continue;
    }
    for (ir::Block* b : node.blocks()) changed |= simplify(graph, *b);
    if (node.is("prim::If"))
      for (size_t i = node.num_outputs(); i-- > 0;) {
        const ir::Operand& a = node.blocks()[0]->returns()[i];
        if (!same_operand(a, node.blocks()[1]->returns()[i])) continue;
        graph.replace_all_uses(node.output(i), ir::In(a));
        node.remove_output(i);
        for (ir::Block* b : node.blocks()) b->return_node().remove_input(i);
        changed = true;
      }
    if (loop)
      for (size_t i = node.num_outputs(); i-- > 0;) {
        ir::Value& p = node.blocks()[0]->param(i + 1);
        const ir::Operand& next = node.blocks()[0]->returns()[i + 1];
        if (!next.is_value() || &next.value() != &p) continue;
        ir::In given(node.input(i + 2));
        graph.replace_all_uses(node.output(i), given);
        graph.replace_all_uses(p, given);
        remove_carried(node, i);
        changed = true;
      }
  }
  return changed;
}

bool fold(ir::Graph& graph) {
  ir::PassOptions immutable;
  immutable.fold_memory = false;
  immutable.as_torch = true;
  bool changed = false;
  while (simplify(graph, graph.top()) | ir::fold_constants(graph, immutable)) changed = true;
  return changed;
}

// ---- what types tell ----

bool may_be_none(const ir::Type* t) {
  if (t->is(ir::TypeKind::union_))
    for (const ir::Type* u : t->elements())
      if (u->is(ir::TypeKind::none)) return true;
  return t->is(ir::TypeKind::optional) || t->is(ir::TypeKind::any) || t->is(ir::TypeKind::none);
}

// The number in integer arithmetic, which is put on the right of a sum or product.
const ir::Operand* number_in(ir::Node& n) {
  auto integer = [](const ir::Operand& o) { return o.type()->is(ir::TypeKind::int_); };
  auto known = [&](const ir::Operand& o) {
    return o.is_constant() && o.constant().is_int() && !o.constant().sym().is_symbolic();
  };
  if (n.inputs().size() != 2 || !integer(n.input(0)) || !integer(n.input(1))) return nullptr;
  if ((n.is("aten::add") || n.is("aten::mul")) && known(n.input(0))) {
    ir::In number(n.input(0)), other(n.input(1));
    n.set_input(0, other);
    n.set_input(1, number);
  }
  return known(n.input(1)) ? &n.input(1) : nullptr;
}

// Whether the node's result is something simpler now.
bool simplify_arithmetic(ir::Graph& graph, ir::Node& n) {
  bool sum = n.is("aten::add") || n.is("aten::sub"), product = n.is("aten::mul") || n.is("aten::floordiv");
  const ir::Operand* number = sum || product ? number_in(n) : nullptr;
  if (!number) return false;
  if (number->constant().to_int() == (product ? 1 : 0)) {
    graph.replace_all_uses(n.output(), ir::In(n.input(0)));
    return true;
  }
  ir::Node* before = n.input(0).is_value() ? n.input(0).value().node() : nullptr;
  if (!sum || !before || !(before->is("aten::add") || before->is("aten::sub"))) return false;
  const ir::Operand* first = number_in(*before);
  if (!first) return false;
  int64_t a = number->constant().to_int(), b = first->constant().to_int(), both = 0;
  bool same = before->kind() == n.kind();
  if (same ? __builtin_add_overflow(a, b, &both) : __builtin_sub_overflow(a, b, &both)) return false;
  ir::In start(before->input(0));
  if (both == 0) {
    graph.replace_all_uses(n.output(), start);
  } else {
    n.set_input(0, start);
    n.set_input(1, ir::In(both));
  }
  return true;
}

bool use_types(ir::Graph& graph, ir::Block& block) {
  bool changed = false;
  auto becomes = [&](ir::Value& v, const ir::In& in) {
    changed = true;
    graph.replace_all_uses(v, in);
  };
  for (ir::Node& n : block) {
    for (ir::Block* b : n.blocks()) changed |= use_types(graph, *b);
    bool is = n.is("aten::__is__"), is_not = n.is("aten::__isnot__");
    if (is || is_not) {
      const ir::Type *a = n.input(0).type(), *b = n.input(1).type();
      bool none_a = a->is(ir::TypeKind::none), none_b = b->is(ir::TypeKind::none);
      if (none_a && none_b)
        becomes(n.output(), ir::In(is));
      else if ((none_a && !may_be_none(b)) || (none_b && !may_be_none(a)))
        becomes(n.output(), ir::In(is_not));
    } else if (n.is("prim::unchecked_cast") && plain(n.input(0).type()) == plain(n.output().type())) {
      becomes(n.output(), ir::In(n.input(0)));
    } else if (n.is("prim::If")) {
      // Yes if the condition holds and no if it does not is the condition.
      for (ir::Value* v : n.outputs())
        if (is_bool(n.blocks()[0]->returns()[v->index()], true) &&
            is_bool(n.blocks()[1]->returns()[v->index()], false))
          becomes(*v, ir::In(n.input(0)));
    } else if (simplify_arithmetic(graph, n)) {
      changed = true;
    }
    if (n.num_outputs() == 1 && n.output().type()->is(ir::TypeKind::none) && n.output().has_uses())
      becomes(n.output(), ir::In());
  }
  return changed;
}

// ---- the order of results ----

using Places = FlatMap<const ir::Node*, size_t>;
void number(const ir::Block& block, Places& places) {
  for (const ir::Node& n : block) {
    places.emplace(&n, places.size());
    for (const ir::Block* b : n.blocks()) number(*b, places);
  }
  places.emplace(&block.return_node(), places.size());
}

bool mentions(const ir::Operand& o, const ir::Value& v) {
  if (o.is_list())
    for (const ir::Operand& item : o.list())
      if (mentions(item, v)) return true;
  return o.is_value() && &o.value() == &v;
}
std::pair<size_t, size_t> first_use(const ir::Value& v, const Places& places) {
  std::pair<size_t, size_t> first{SIZE_MAX, SIZE_MAX};
  for (const ir::Use& u : v.uses()) {
    size_t place = places.at(u.user), at = 0;
    while (!mentions(u.user->input(at), v)) ++at;
    first = std::min(first, {place, at});
  }
  return first;
}

// The values take new places and keep their names.
template <class Add, class Remove>
void reorder_values(ir::Graph& graph, Span<ir::Value* const> values, const std::vector<size_t>& order,
                    size_t from, Add&& add, Remove&& remove) {
  std::vector<ir::Value*> old;
  for (size_t i = from; i < values.size(); ++i) old.push_back(values[i]);
  std::vector<std::string> names;
  std::vector<ir::Value*> made;
  for (size_t i : order) {
    names.push_back(old[i]->name());
    made.push_back(&add(old[i]->type()));
    graph.replace_all_uses(*old[i], ir::In(*made.back()));
  }
  for (size_t i = old.size(); i-- > 0;) remove(i + from);
  for (size_t i = 0; i < made.size(); ++i) graph.set_name(*made[i], names[i]);
}
void reorder_inputs(ir::Node& node, const std::vector<size_t>& order, size_t from) {
  std::vector<ir::In> old;
  for (const ir::Operand& o : node.inputs()) old.emplace_back(o);
  for (size_t i = 0; i < order.size(); ++i) node.set_input(from + i, old[from + order[i]]);
}

void sort_results(ir::Graph& graph, ir::Block& block, const Places& places) {
  for (ir::Node* n = block.last(); n != &block.return_node(); n = n->prev()) {
    bool loop = n->is("prim::Loop");
    if (loop || n->is("prim::If")) {
      std::vector<std::pair<size_t, size_t>> uses;
      for (const ir::Value* v : n->outputs()) uses.push_back(first_use(*v, places));
      std::vector<size_t> order(uses.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return uses[a] < uses[b]; });
      if (!std::is_sorted(order.begin(), order.end())) {
        reorder_values(
            graph, n->outputs(), order, 0, [&](const ir::Type* t) -> ir::Value& { return n->add_output(t); },
            [&](size_t i) { n->remove_output(i); });
        for (ir::Block* b : n->blocks()) reorder_inputs(b->return_node(), order, loop ? 1 : 0);
        if (loop) {
          ir::Block& body = *n->blocks()[0];
          reorder_inputs(*n, order, 2);
          reorder_values(
              graph, body.params(), order, 1,
              [&](const ir::Type* t) -> ir::Value& { return body.add_param(t); },
              [&](size_t i) { body.remove_param(i); });
        }
      }
    }
    for (ir::Block* b : n->blocks()) sort_results(graph, *b, places);
  }
}

}  // namespace

void tidy(ir::Graph& graph) {
  each_block(graph.top(), [&](ir::Block& block) {
    for (ir::Node& n : block)
      if (n.is(said_constant))
        graph.erase(n);
      else if (n.is("prim::Loop") && form_of(n) == LoopForm::both)
        count_by_itself(graph, n);
  });
  remove_dead(graph);
  if (fold(graph)) remove_dead(graph);
  Places places;
  places.reserve(graph.num_nodes());
  number(graph.top(), places);
  sort_results(graph, graph.top(), places);
}

void preoptimise(ir::Graph& graph) {
  if (use_types(graph, graph.top())) remove_dead(graph);
  if (fold(graph)) remove_dead(graph);
}

}  // namespace tern::script
