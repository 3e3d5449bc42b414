// The door to ONNX: exporting graphs, importing models, checking them.
//   onnx::save(program, "net.onnx");
//   auto [graph, state] = onnx::import_model(onnx::load("net.onnx"));
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tern/base/pointer.h"
#include "tern/ir/graph.h"
#include "tern/onnx/model.h"

namespace tern::onnx {

constexpr int64_t min_opset = 18, max_opset = 23, default_opset = 20;

struct ExportOptions {
  int64_t opset = default_opset;              // 18 to 23
  std::vector<std::string> input_names = {};  // of the user's inputs in order; the graph's names by default
  std::vector<std::string> output_names = {};
  bool value_info = true;  // types of intermediate values
  bool metadata = true;    // scope and source line of each node
  WriteOptions write = {};
};

// A graph and what its inputs are bound to: functional ATen (training or core), or a script's with If and
// Loop.
struct Source {
  struct Weight {
    std::string input;  // of the graph
    std::string name;   // in the model: "fc.weight"
    Tensor tensor;
    std::optional<External> external = {};  // where the bytes already stand: written as a reference
  };
  const ir::Graph& graph;
  std::vector<Weight> weights = {};
  std::vector<std::string> output_names = {};  // by position; empty ones are named by the graph
  std::vector<std::pair<std::string, tern::Value>> constants = {};  // graph inputs that have a fixed value
  std::vector<size_t> output_order = {};  // of the graph's outputs; as they stand if empty
};

// Throws Error(not_supported) that lists every operator that cannot be expressed, with node and source line.
Model export_model(const Source& source, const ExportOptions& options = {});
void save(const Source& source, const std::string& path, const ExportOptions& options = {});
void save(const Model& model, const std::string& path, const WriteOptions& options = {});

// ONNX → ATen. Initializers become inputs of the graph behind the user's, bound to mapped tensors.
struct Imported {
  Owned<ir::Graph> graph;
  std::vector<std::pair<std::string, Tensor>> state;  // graph inputs from num_inputs on, in order
  size_t num_inputs = 0;                              // the user's
  std::vector<std::string> input_names, output_names;
  std::vector<tern::Value> run(Span<const tern::Value> inputs) const;  // by the interpreter
};
Imported import_model(const Model& model);

// What is wrong with a model: names, order, types, opsets, arity and attributes of the operators Tern knows.
struct Problem {
  enum class Severity : uint8_t { error, note } severity = Severity::error;
  std::string where;  // "node 'conv1' (Conv)"
  std::string what;
  std::string str() const { return where + ": " + what; }
};
std::vector<Problem> check(const Model& model);

// Fills in the types of intermediate values and outputs, as far as they can be said.
void infer_shapes(Model& model);

}  // namespace tern::onnx
