#include "tern/export/effects.h"

#include <algorithm>

namespace tern {
namespace {

bool has_effect(const ir::Node& n) { return n.is("aten::_linalg_check_errors"); }
bool any_effect(const ir::Block& block) {
  for (const ir::Node& n : block)
    if (has_effect(n)) return true;
  return false;
}

template <class Specs, class Kind>
size_t find_token(const Specs& specs, Kind token) {
  return static_cast<size_t>(
      std::find_if(specs.begin(), specs.end(), [&](const auto& s) { return s.kind == token; }) -
      specs.begin());
}

// The token's place among the inputs and outputs; a program without one gets it in front of both.
std::pair<size_t, size_t> add_token(ExportedProgram::Data& data, const ir::Type* type) {
  size_t in = find_token(data.signature.inputs, InputKind::token),
         out = find_token(data.signature.outputs, OutputKind::token);
  if (in < data.signature.inputs.size() && out < data.signature.outputs.size()) return {in, out};
  ir::Value& token = data.graph->top().insert_param(0, type, "token");
  data.graph->top().return_node().insert_input(0, token);
  data.signature.inputs.insert(data.signature.inputs.begin(),
                               InputSpec{.kind = InputKind::token, .name = std::string(token.name())});
  data.signature.outputs.insert(data.signature.outputs.begin(),
                                OutputSpec{.kind = OutputKind::token, .name = {}});
  for (auto& [input, symbol] : data.int_inputs) ++input;
  return {0, 0};
}

}  // namespace

ExportedProgram with_tokens(const ExportedProgram& program) {
  if (program.dialect() == Dialect::training || !any_effect(program.graph().top())) return program;
  auto data = new_shared<ExportedProgram::Data>();
  static_cast<ExportedProgram::Interface&>(*data) = program.data();
  data->graph = program.graph().clone();
  ir::Graph& graph = *data->graph;
  const ir::Type* types[] = {ir::Type::tensor_like(make_tensor(Dims{0}, kFloat, kCPU, true)),
                             ir::Type::none()};
  auto [in, out] = add_token(*data, types[0]);
  ir::Value* token = graph.inputs()[in];
  for (ir::Node& n : graph.top()) {
    if (!has_effect(n)) continue;
    ir::InsertAt here(n);
    std::vector<ir::In> inputs{*token};
    for (const ir::Operand& o : n.inputs()) inputs.emplace_back(o);
    ir::Node& tied = graph.make("higher_order::with_effects", inputs, types, "with_effects");
    tied.set_attribute("operator", Value(n.qualified()));
    tied.set_origin(n.origin());
    for (const auto& [key, value] : n.all_meta()) tied.set_meta(key, value);
    token = &tied.output(0);
    graph.erase(n);
  }
  graph.top().return_node().set_input(out, *token);
  data->signature.outputs[out].name = token->name();
  return ExportedProgram(data);
}

}  // namespace tern
