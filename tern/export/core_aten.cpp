#include "tern/export/core_aten.h"

#include <algorithm>

#include "tern/capture/retrace.h"
#include "tern/dispatch/op.h"

namespace tern {
namespace {

bool is_one_of(const Op& op, Span<const std::string_view> names) {
  std::string_view text = op.text;
  return std::find(names.begin(), names.end(), text.substr(0, text.find('('))) != names.end();
}

// What PyTorch's table of decompositions leaves alone, though it is no core ATen and Tern has a body for it.
bool is_kept(const Op& op) {
  static constexpr std::string_view kept[] = {
      "_batch_norm_with_update",
      "_batch_norm_with_update_functional",
      "_conj",
      "_trilinear",
      "addbmm",
      "addmv",
      "cholesky",
      "dist",
      "ldexp.Tensor",
      "narrow_copy",
      "put",
      "round.decimals",
      "triangular_solve",
      "unbind_copy.int",
      "var_mean.correction",
      "new_empty_strided",
      "replication_pad1d_backward",
      "replication_pad2d_backward",
      "replication_pad3d_backward",
      "upsample_bilinear2d.vec",
      "upsample_nearest2d.vec",
  };
  return is_one_of(op, kept);
}

// Core ATen that its table expands all the same.
bool is_expanded_too(const Op& op) {
  static constexpr std::string_view expanded[] = {
      "adaptive_avg_pool1d", "avg_pool1d",       "col2im",           "fill.Scalar",
      "reflection_pad1d",    "reflection_pad2d", "reflection_pad3d", "replication_pad2d",
      "replication_pad3d",   "select_scatter",   "squeeze.dim",
  };
  return op.body && is_one_of(op, expanded);
}

void collect(const ir::Block& block, bool (*wanted)(const ir::Node&), std::vector<ir::Node*>& found) {
  for (ir::Node& n : block) {
    for (const ir::Block* b : n.blocks()) collect(*b, wanted, found);
    if (wanted(n)) found.push_back(&n);
  }
}

bool is_zero(const ir::Operand& o) {
  if (!o.is_constant()) return false;
  const Value v = o.constant();
  return v.is_bool() ? !v.to_bool() : v.is_number() && v.scalar().to_double() == 0;
}
bool is_idle_dropout(const ir::Node& n) {
  return n.is("aten::dropout") && n.inputs().size() == 3 && (is_zero(n.input(1)) || is_zero(n.input(2)));
}
bool is_idle(const ir::Node& n) { return is_idle_dropout(n) || n.is("aten::detach_"); }

bool is_copy_of_statistics(const ir::Node& n) {
  if (!n.is("aten::copy") || !n.input(0).is_value() || !n.input(1).is_value()) return false;
  const ir::Value &old = n.input(0).value(), &given = n.input(1).value();
  return given.node() && given.node()->is("aten::_native_batch_norm_legit_functional") &&
         old.type()->dtype() == given.type()->dtype();
}

// The name stays: the signature refers to outputs by it.
void replace_by_clone(ir::Graph& graph, ir::Node& n) {
  ir::InsertAt here(n);
  ir::In inputs[] = {ir::In(n.input(0)), ir::In()};
  ir::Node& copy = graph.call("aten::clone", inputs, n.output().type());
  copy.set_origin(n.origin());
  for (const auto& [key, value] : n.all_meta()) copy.set_meta(key, value);
  std::string name(n.output().name());
  graph.replace_all_uses(n.output(), ir::In(copy.output()));
  graph.erase(n);
  graph.set_name(copy.output(), name);
}

}  // namespace

bool is_decomposed(const Op& op, Dialect to) {
  if (is_kept(op)) return false;
  return to == Dialect::core ? is_expanded_too(op) || capture::is_not_core(op) : capture::is_composite(op);
}

ExportedProgram without_idle_calls(const ExportedProgram& program) {
  std::vector<ir::Node*> idle;
  collect(program.graph().top(), is_idle, idle);
  if (idle.empty()) return program;
  auto data = new_shared<ExportedProgram::Data>();
  static_cast<ExportedProgram::Interface&>(*data) = program.data();
  data->graph = program.graph().clone();
  ir::Graph& graph = *data->graph;
  idle.clear();
  collect(graph.top(), is_idle, idle);
  for (ir::Node* n : idle) {
    if (is_idle_dropout(*n)) {
      replace_by_clone(graph, *n);
    } else {
      graph.replace_all_uses(n->output(), ir::In(n->input(0)));
      graph.erase(*n);
    }
  }
  return ExportedProgram(data);
}

void write_as_pytorch(ir::Graph& graph) {
  std::vector<ir::Node*> brought, copied;
  collect(
      graph.top(), [](const ir::Node& n) { return n.is("aten::lift_fresh_copy"); }, brought);
  for (ir::Node* n : brought) replace_by_clone(graph, *n);
  collect(graph.top(), is_copy_of_statistics, copied);
  for (ir::Node* n : copied) {
    std::string name(n->output().name());
    ir::Value& given = n->input(1).value();
    graph.replace_all_uses(n->output(), ir::In(given));
    graph.erase(*n);
    graph.set_name(given, name);
  }
}

}  // namespace tern
