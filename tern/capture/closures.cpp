#include "tern/capture/closures.h"

#include <algorithm>

#include "tern/capture/recorder.h"
#include "tern/sym/shape_env.h"

namespace tern::capture {
namespace {

// Values that a block, or one in it, uses and none of them defines, in order of first use.
struct Finder {
  std::vector<ir::Value*> found;

  void look(const ir::Block& whole) { look_in(whole, whole); }

 private:
  void look_in(const ir::Block& block, const ir::Block& whole) {
    for (const ir::Node& n : block) {
      for (const ir::Operand& o : n.inputs()) look_at(o, whole);
      for (const ir::Block* b : n.blocks()) look_in(*b, whole);
    }
    for (const ir::Operand& o : block.returns()) look_at(o, whole);
  }
  void look_at(const ir::Operand& o, const ir::Block& whole) {
    if (o.is_list()) {
      for (const ir::Operand& item : o.list()) look_at(item, whole);
    } else if (o.is_value() && !is_inside(o.value().block(), whole) && seen_.insert(&o.value()).second) {
      found.push_back(&o.value());
    }
  }
  static bool is_inside(const ir::Block& inner, const ir::Block& whole) {
    const ir::Block* b = &inner;
    while (b != &whole && b->parent()) b = &b->parent()->block();
    return b == &whole;
  }
  FlatSet<const ir::Value*> seen_;
};

void replace_inside(ir::Block& block, ir::Value& from, ir::Value& to) {
  for (ir::Node& n : block) {
    n.replace_input(from, to);
    for (ir::Block* b : n.blocks()) replace_inside(*b, from, to);
  }
  block.return_node().replace_input(from, to);
}

// A number that is computed from sizes: cheaper to compute again than to hand in, and files cannot list it
// among tensors.
bool can_move_in(const ir::Value& v, bool items) {
  const ir::Node* n = v.node();
  if (!n || n->num_outputs() != 1 || !n->blocks().empty()) return false;
  bool number = v.type()->is(ir::TypeKind::int_) || v.type()->is(ir::TypeKind::bool_);
  return number && (n->is("aten::sym_size") || (items && takes_number_out(*n)) ||
                    (!n->op() && n->kind().view().starts_with("aten::")));
}

// Copies such computations to the start of the blocks that use them, until none is left outside.
void move_numbers_in(ir::Node& node, bool items) {
  for (bool again = true; again;) {
    again = false;
    for (ir::Block* b : node.blocks()) {
      Finder finder;
      finder.look(*b);
      for (ir::Value* v : finder.found) {
        if (!can_move_in(*v, items)) continue;
        ir::InsertAt start(*b->first());
        ir::ValueMap map;  // what it computes from stays the same
        for (const ir::Operand& o : v->node()->inputs())
          if (o.is_value()) map.emplace(&o.value(), ir::In(o.value()));
        ir::Node& copy = node.graph().copy(*v->node(), map);
        if (takes_number_out(copy))
          copy.set_meta("unbacked_symbol", tern::Value(node.graph().shapes->create_unbacked_symint("item")));
        for (ir::Node* n = copy.next(); !n->is_return(); n = n->next()) {
          n->replace_input(*v, copy.output());
          for (ir::Block* inner : n->blocks()) replace_inside(*inner, *v, copy.output());
        }
        b->return_node().replace_input(*v, copy.output());
        again = true;
      }
    }
  }
}

}  // namespace

void lift_closures(ir::Node& node, size_t first_operand, bool items_inside) {
  move_numbers_in(node, items_inside);
  Finder finder;
  for (const ir::Block* b : node.blocks()) finder.look(*b);
  for (ir::Value* v : finder.found) {
    // An operand that is given already serves.
    size_t at = node.inputs().size();
    for (size_t i = first_operand; i < node.inputs().size(); ++i)
      if (node.input(i).is_value() && &node.input(i).value() == v) at = std::min(at, i);
    if (at == node.inputs().size()) {
      node.add_input(*v);
      for (ir::Block* b : node.blocks()) b->add_param(v->type(), v->name());
    }
    for (ir::Block* b : node.blocks()) replace_inside(*b, *v, b->param(at - first_operand));
  }
}

std::vector<ir::Value*> values_from_outside(const ir::Block& block) {
  Finder finder;
  finder.look(block);
  return std::move(finder.found);
}

}  // namespace tern::capture
