// A graph that belongs to a Unit's functions, run by itself: attributes, methods and classes are the Unit's.
#pragma once
#include "tern/script/unit.h"

namespace tern::script {

std::vector<tern::Value> run_graph(const ir::Graph& graph, Span<const tern::Value> inputs, Unit& unit,
                                   ir::Observer* observer = nullptr);

}  // namespace tern::script
