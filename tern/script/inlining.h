// Which nodes are written inside the statement that uses them, when a graph becomes source. Internal to this
// room.
#pragma once
#include <unordered_set>

#include "tern/ir/graph.h"

namespace tern::script {

// A node is, when its one value is used once and nothing stands between it and its user but other such nodes:
// then the order in which things happen stays. A value that has a variable's name keeps its statement unless
// it is returned.
std::unordered_set<const ir::Node*> inlined_nodes(const ir::Graph& graph);

// Whether a variable or attribute gave it its name, and not its operator.
bool is_named(const ir::Value& value);
// Notes the variable that names a value where the graph's name alone does not tell: `mean` of aten::mean, or
// x_1, which a graph calls its second x.
void note_variable(const ir::Value& value, std::string_view variable);
const std::string* noted_variable(const ir::Value& value);  // nullptr if there is none

// `for`, `while`, or a `while` that counts as well: how a loop is written.
enum class LoopForm : uint8_t { counted, conditional, both };
LoopForm form_of(const ir::Node& loop);

}  // namespace tern::script
