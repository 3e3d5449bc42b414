// Exported programs and script modules as sources of the lowering.
#include "tern/onnx/program.h"

#include <unordered_map>

#include "tern/base/format.h"
#include "tern/capture/retrace.h"
#include "tern/dispatch/op.h"
#include "tern/export/export.h"
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

bool needs_lowering(const ir::Block& block) {
  for (const ir::Node& n : block) {
    if (n.op() && (n.op()->schema().mutates() || !can_lower(*n.op()))) return true;
    for (const ir::Block* b : n.blocks())
      if (needs_lowering(*b)) return true;
  }
  return false;
}

// Calls that ONNX can say stay as the user made them: LayerNormalization is better than its formula.
bool must_expand(const Op& op) { return !can_lower(op) && op.body; }

}  // namespace

Model export_model(const ExportedProgram& given, const ExportOptions& options) {
  ExportedProgram program = given;
  if (needs_lowering(program.graph().top())) program = lower(given, must_expand, Dialect::aten);
  Source source{program.graph()};
  const GraphSignature& signature = program.signature();
  for (size_t i = 0; i < signature.inputs.size(); ++i) {
    const InputSpec& spec = signature.inputs[i];
    std::string input = program.graph().inputs()[i]->name();
    switch (spec.kind) {
      case InputKind::user_input:
        if (spec.constant) source.constants.emplace_back(input, *spec.constant);
        break;
      case InputKind::parameter:
      case InputKind::buffer:
      case InputKind::constant_tensor:
        source.weights.push_back({input, spec.target.empty() ? input : spec.target, program.state_of(spec)});
        break;
      default:
        failf(ErrorKind::not_supported,
              "onnx: the input '{}' of the program is a {}, which ONNX does not have", input,
              name_of(spec.kind));
    }
  }
  // The user's outputs first, then the new values of what the program writes to, as PyTorch's exporter orders
  // them.
  for (bool user : {true, false})
    for (size_t i = 0; i < signature.outputs.size(); ++i)
      if ((signature.outputs[i].kind == OutputKind::user_output) == user) source.output_order.push_back(i);
  return export_model(source, options);
}

void save(const ExportedProgram& program, const std::string& path, const ExportOptions& options) {
  write(export_model(program, options), path, options.write);
}

namespace {

// Reads of self become inputs of the graph.
class Lifter {
 public:
  Lifter(ir::Graph& graph, const jit::ScriptModule& module) : graph_(graph), module_(module) {}

  std::vector<Source::Weight> run() {
    paths_.emplace(&graph_.top().param(0), "");
    lift(graph_.top());
    for (ir::Node* n : reads_) graph_.erase(*n);
    if (graph_.top().param(0).has_uses())
      fail(ErrorKind::not_supported, "onnx: the module itself is used as a value, which ONNX cannot express");
    graph_.top().remove_param(0);
    return std::move(weights_);
  }

 private:
  void lift(const ir::Block& block) {
    for (ir::Node& n : block) {
      if (n.is("prim::GetAttr")) {
        read(n);
        continue;
      }
      if (n.is("prim::SetAttr"))
        failf(ErrorKind::not_supported,
              "onnx: the module changes its attribute at %{}; ONNX models have no state",
              n.inputs().size() ? n.input(0).is_value() ? n.input(0).value().name() : "" : "");
      for (const ir::Block* b : n.blocks()) lift(*b);
    }
  }

  void read(ir::Node& n) {
    const tern::Value* name = n.attribute(Symbol("name"));
    auto it = n.input(0).is_value() ? paths_.find(&n.input(0).value()) : paths_.end();
    if (it == paths_.end() || !name)
      failf(ErrorKind::not_supported, "onnx: %{} reads an attribute of no module", n.name());
    std::string path = it->second.empty() ? name->string() : it->second + "." + name->string();
    reads_.insert(reads_.begin(), &n);
    tern::Value v = module_.attr(path);
    if (v.is_object()) {
      paths_.emplace(&n.output(), path);
      return;
    }
    if (!v.is_tensor()) {
      graph_.replace_all_uses(n.output(), v);
      return;
    }
    ir::Value*& input = inputs_[path];
    if (!input) {
      input = &graph_.add_input(ir::Type::tensor_like(v.tensor()), n.output().name());
      weights_.push_back({input->name(), path, v.tensor()});
    }
    graph_.replace_all_uses(n.output(), *input);
  }

  ir::Graph& graph_;
  const jit::ScriptModule& module_;
  std::unordered_map<const ir::Value*, std::string> paths_;
  std::unordered_map<std::string, ir::Value*> inputs_;
  std::vector<ir::Node*> reads_;
  std::vector<Source::Weight> weights_;
};

}  // namespace

Model export_model(const jit::ScriptModule& module, Span<const tern::Value> examples,
                   const ExportOptions& options) {
  Owned<ir::Graph> graph = module.whole_graph("forward");
  std::vector<Source::Weight> weights = Lifter(*graph, module).run();
  std::unordered_map<std::string, const Tensor*> by_input;
  for (const Source::Weight& w : weights) by_input.emplace(w.input, &w.tensor);
  size_t given = 0;
  Source source{*graph};
  for (ir::Value* v : graph->inputs()) {
    if (by_input.count(v->name())) continue;
    if (given >= examples.size())
      failf(ErrorKind::value, "onnx::export_model: the module takes more than the {} example inputs given",
            examples.size());
    const tern::Value& e = examples[given++];
    if (e.is_tensor())
      v->set_type(ir::Type::tensor_like(e.tensor()));
    else
      source.constants.emplace_back(v->name(), e);
  }
  if (given != examples.size())
    failf(ErrorKind::value, "onnx::export_model: {} example inputs were given, but the module takes {}",
          examples.size(), given);
  source.weights = weights;
  // On fake tensors: mutation becomes new values and shapes become known. What cannot run so is lowered as it
  // stands.
  Owned<ir::Graph> shaped;
  try {
    capture::RetraceOptions how;
    how.expand = must_expand;
    for (ir::Value* v : graph->inputs()) {
      bool constant = false;
      for (const auto& [name, value] : source.constants)
        if (name == v->name()) {
          how.inputs.push_back(value);
          constant = true;
        }
      if (!constant) how.inputs.push_back(capture::fake_like(*v->type(), graph->shapes.get()));
    }
    capture::Retraced r = capture::retrace(*graph, how);
    if (r.mutated.empty()) shaped = std::move(r.graph);
  } catch (const Error&) {
  }
  Source final{shaped ? *shaped : *graph, source.weights, source.output_names, source.constants};
  return export_model(final, options);
}

void save(const jit::ScriptModule& module, Span<const tern::Value> examples, const std::string& path,
          const ExportOptions& options) {
  write(export_model(module, examples, options), path, options.write);
}

}  // namespace tern::onnx
