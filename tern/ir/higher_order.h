// Operators that take functions (torch.ops.higher_order): how their nodes are laid out. The functions are the
// node's blocks, what they are given are its inputs in order, settings are attributes.
#pragma once
#include <cstddef>
#include <string_view>

#include "tern/base/span.h"

namespace tern::ir {

class Node;

// One argument of the operator as PyTorch writes it.
struct HigherOrderPart {
  enum Kind : unsigned char {
    value,     // one input
    constant,  // the attribute of that name
    graph,     // the next block; the name of the submodule PyTorch makes of it
    list,      // inputs in a list: as many as the attribute of that name says, or the rest
    tuple,     // the same in a tuple
    spread,    // the rest, each an argument of its own
  } kind;
  std::string_view name = {};
  bool carried = false;  // a counted list: of what is carried, not of what is sliced
};

struct HigherOrder {
  std::string_view kind;  // "higher_order::cond"
  Span<const HigherOrderPart> parts;
  size_t num_graphs;
  size_t first;  // its blocks take the inputs from this one on
  bool inlined;  // a region of the program around it: nothing is repeated or chosen
};

// nullptr for what takes no function, or is not known.
const HigherOrder* find_higher_order(std::string_view kind);

// How the inputs from `first` on are divided: values that a body gives back changed, tensors of which it gets
// one slice a round, and what it gets as it is.
struct Operands {
  size_t carried = 0, sliced = 0;
};
Operands operands_of(const Node& node);

// Calls f(part, first, last): the inputs [first, last), or the index of the block as `first`.
template <class F>
void each_part(const HigherOrder& op, Operands groups, size_t num_inputs, F&& f) {
  size_t next = 0, block = 0;
  for (const HigherOrderPart& p : op.parts) {
    size_t last = next;
    switch (p.kind) {
      case HigherOrderPart::constant:
        break;
      case HigherOrderPart::graph:
        f(p, block, block + 1);
        ++block;
        continue;
      case HigherOrderPart::value:
        last = next + 1;
        break;
      case HigherOrderPart::list:
      case HigherOrderPart::tuple:
        last = p.name.empty() ? num_inputs : next + (p.carried ? groups.carried : groups.sliced);
        break;
      case HigherOrderPart::spread:
        last = num_inputs;
        break;
    }
    f(p, next, last);
    next = last;
  }
}

}  // namespace tern::ir
