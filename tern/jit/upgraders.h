// Operators whose meaning changed: which version of an archive means what. The numbers are PyTorch's operator
// versions, which it writes into the `version` member.
#pragma once
#include <string>

#include "tern/ir/graph.h"

namespace tern::jit {

constexpr int newest_version = 10;  // what PyTorch 2.13 accepts
constexpr int least_written = 3;    // what it writes for code without such operators

// Rewrites the calls in a graph that was compiled from source of that version into what they meant then.
void upgrade(ir::Graph& graph, int version);
// linspace and logspace without a number of steps, which today's signatures do not allow: 100. Offsets stay
// where None was written for it.
void upgrade_source(std::string& text, int version);
// The version a reader must know to run this graph.
int needed_version(const ir::Graph& graph);

}  // namespace tern::jit
