// Returns, breaks and continues as values. While a function is compiled, a path that leaves ends with
// prim::ReturnStmt(value) or prim::LoopContinuation(go on, carried...); here these become results of branches
// and loops, a flag that says whether one was reached, and branches on it around what comes after. Internal
// to this room.
#pragma once
#include <unordered_set>
#include <utility>
#include <vector>

#include "tern/ir/graph.h"

namespace tern::script {

struct ExitFacts {
  // The calls at the two ends of a `with`, which stand in one block; those inside come first.
  std::vector<std::pair<ir::Node*, ir::Node*>> withs;
  // Arguments that are tensors because nothing is annotated: PyTorch has a type of its own for them.
  std::unordered_set<const ir::Value*> inferred;
};

// Stands where a flag, a string or None is assigned: PyTorch has a node there, and what follows a path that
// may have left is more than nothing then.
constexpr const char* said_constant = "prim::said";

// Takes the values and the order that PyTorch's compiler has. Throws for paths that nest too deeply.
void lower_exits(ir::Graph& graph, const ExitFacts& facts);

// What PyTorch does with every graph it has compiled: loops that count and ask count by themselves, what
// nobody needs goes, constants are computed, results stand in the order of their first uses.
void tidy(ir::Graph& graph);
// The part of it that archives need, whose source was tidied when it was compiled.
void prune(ir::Block& block);

}  // namespace tern::script
