#include "tern/capture/closures.h"

#include <algorithm>
#include <unordered_set>

namespace tern::capture {
namespace {

// Values from outside, in order of first use. `inside` holds what the blocks themselves define.
struct Finder {
  std::unordered_set<const ir::Value*> inside, seen;
  std::vector<ir::Value*> found;

  void look(const ir::Operand& o) {
    if (o.is_list()) {
      for (const ir::Operand& item : o.list()) look(item);
    } else if (o.is_value() && !inside.count(&o.value()) && seen.insert(&o.value()).second) {
      found.push_back(&o.value());
    }
  }
  void look(const ir::Block& block) {
    for (const ir::Value* p : block.params()) inside.insert(p);
    for (const ir::Node& n : block) {
      for (const ir::Operand& o : n.inputs()) look(o);
      for (const ir::Value* v : n.outputs()) inside.insert(v);
      for (const ir::Block* b : n.blocks()) look(*b);
    }
    for (const ir::Operand& o : block.returns()) look(o);
  }
};

void replace_inside(ir::Block& block, ir::Value& from, ir::Value& to) {
  for (ir::Node& n : block) {
    n.replace_input(from, to);
    for (ir::Block* b : n.blocks()) replace_inside(*b, from, to);
  }
  block.return_node().replace_input(from, to);
}

}  // namespace

void lift_closures(ir::Node& node, size_t first_operand) {
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

}  // namespace tern::capture
