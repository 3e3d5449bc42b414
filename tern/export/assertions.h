// What is true of a captured graph's symbols, written down in the graph and beside it.
#pragma once
#include "tern/capture/recorder.h"
#include "tern/export/program.h"

namespace tern {

// Run-time assertions on numbers that come from data: a range node after the value's own node, _assert_scalar
// for relations.
void insert_assertions(ir::Graph& graph, capture::Recorder& recorder);

// Dims in the types of all values, with everything applied that the capture found out.
void simplify_types(ir::Graph& graph);

// The symbols in the types of the graph's values and what a user may give for them.
std::vector<std::pair<std::string, Range>> symbol_ranges(const ir::Graph& graph);

void refresh_output_names(ExportedProgram::Data& data);

}  // namespace tern
