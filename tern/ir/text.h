// The text forms of a graph. The native one is TorchScript's grammar with inline constants and parses back
// exactly; the others are views over the same walk.
#pragma once
#include <string>
#include <string_view>

#include "tern/base/pointer.h"
#include "tern/ir/graph.h"

namespace tern::ir {

struct PrintOptions {
  bool origins = true;       // "scope: ..." and "# file:line:col"
  size_t max_tensor = 1000;  // larger constant tensors are printed without their data (and do not parse back)
};
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const Node& node, const PrintOptions& options = {});  // one line, its blocks below

// Reads the native text and what PyTorch prints for a TorchScript graph. Operators without an overload name
// are resolved by the types of the arguments; symbolic dims are made in `shapes` (a new env if null). Throws
// Error(value) with line and column.
Owned<Graph> parse(std::string_view text, Shared<ShapeEnv> shapes = nullptr);

// As str(torch graph): constants and lists as nodes, no overload names.
std::string torch_text(const Graph& graph, bool origins = true);

// As torch.fx prints GraphModule.code and Graph.
struct FxOptions {
  bool free_last_uses = true;  // ";  x = None"
  // Inputs that fx shows as attributes (`linear_weight = self.linear.weight`), as in unlifted modules: name
  // and path.
  std::vector<std::pair<std::string, std::string>> self_attributes = {};
  std::vector<std::string> prologue =
      {};  // lines after the signature: "x, = fx_pytree.tree_flatten_spec(...)"
  std::string return_prefix = {},
              return_suffix = {};  // around the results: "pytree.tree_unflatten(" ", self._out_spec)"
  bool tuple_output = true;        // "return (x,)"; false: a single output stands alone
  std::string name = "forward";
};
std::string fx_code(const Graph& graph, const FxOptions& options = {});
std::string fx_graph(const Graph& graph, const FxOptions& options = {});
// A branch or body of a higher-order node as fx prints the submodule.
std::string fx_code(const Block& block, const FxOptions& options = {});

// A constant as the native text has it, and back.
std::string constant_text(const tern::Value& value, size_t max_tensor = 1000);
tern::Value parse_constant(std::string_view text, ShapeEnv* shapes = nullptr);

}  // namespace tern::ir
