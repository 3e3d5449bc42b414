// Passes: linear, named, switchable. Each leaves a valid graph.
#pragma once
#include <string_view>
#include <vector>

#include "tern/base/function.h"
#include "tern/ir/graph.h"

namespace tern::ir {

struct PassOptions {
  std::vector<std::string> off = {};                  // names of passes and rules that are not applied
  Function<void(std::string_view what)> report = {};  // called with "rule mul_one: %mul" and the like
  size_t max_folded = 1 << 16;                        // elements of a tensor that constant folding may make
  bool fold_memory = true;                            // fold_constants: tensors and containers, too
  // What PyTorch's own passes leave: dce loops whose rounds compute something for each other (but no draws
  // that nobody uses), fold_constants text that is put together.
  bool as_torch = false;
  bool is_off(std::string_view name) const;
};

// Whether the graph changed. Throws Error(value) for an unknown name, with the names there are.
bool run_pass(Graph& graph, std::string_view name, const PassOptions& options = {});
bool run_passes(Graph& graph, Span<const std::string_view> names, const PassOptions& options = {});
struct PassInfo {
  std::string_view name, what;
  bool (*run)(Graph& graph, const PassOptions& options);
};
Span<const PassInfo> passes();

// ---- what passes ask ----
bool has_effect(const Node& node);  // besides its outputs; blocks included. Random draws and writes count.
bool has_side_effect(const Node& node);  // the same without writes to memory: see AliasAnalysis
bool is_pure(const Node& node);          // same inputs, same outputs, no effect
bool has_mutation(const Graph& graph);   // some node changes a tensor, list or object
bool same_constant(const tern::Value& a, const tern::Value& b);  // same kind and equal; 1 is not 1.0
size_t hash_constant(const tern::Value& v);

// Replaces calls by the graphs they call: prim::CallMethod and prim::CallFunction for which `resolve` gives
// one, whose inputs are the node's. Throws for recursion deeper than 100.
bool inline_calls(Graph& graph, const Function<const Graph*(const Node& call)>& resolve);

// The passes themselves, by topic.
bool dce(Graph& graph, const PassOptions& options = {});
bool cse(Graph& graph, const PassOptions& options = {});
bool fold_constants(Graph& graph, const PassOptions& options = {});
bool pool_constants(Graph& graph, const PassOptions& options = {});
bool inline_constants(Graph& graph, const PassOptions& options = {});    // prim::Constant nodes -> operands
bool constants_to_nodes(Graph& graph, const PassOptions& options = {});  // and back, as TorchScript has them
bool inline_lists(Graph& graph,
                  const PassOptions& options = {});  // prim::ListConstruct that is only an argument
bool lists_to_nodes(Graph& graph, const PassOptions& options = {});
bool lower_tuples(Graph& graph, const PassOptions& options = {});
bool unroll_loops(Graph& graph, const PassOptions& options = {});
bool peephole(Graph& graph, const PassOptions& options = {});

}  // namespace tern::ir
