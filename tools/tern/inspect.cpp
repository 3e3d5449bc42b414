// tern info, tern check, tern convert.
#include <cstdio>
#include <map>

#include "commands.h"
#include "tern/base/format.h"
#include "tern/io/file.h"
#include "tern/io/json.h"
#include "tern/io/zip.h"
#include "tern/ir/verify.h"
#include "tern/jit/archive.h"
#include "tern/onnx/onnx.h"
#include "tern/runtime/model_file.h"
#include "tern/sym/shape_env.h"
#include "tern/tensor/generator.h"

namespace tern::command {

std::string type_text(const ir::Type& type) {
  if (!type.is_tensor()) return type.str();
  std::string text(type.dtype() == DType::undefined ? "?" : name(type.dtype()));
  if (!type.has_sizes()) return text + "[?]";
  const char* between = "[";
  for (SymInt s : type.sizes()) {
    text += between + (s.is_int() ? s.str() : ShapeEnv::of(s).str_by_dims(s));
    between = ", ";
  }
  return text + (type.sizes().empty() ? "[]" : "]");
}

namespace {

void count_operators(const ir::Block& block, std::map<std::string, size_t>& counts) {
  for (const ir::Node& n : block) {
    ++counts[n.qualified()];
    for (ir::Block* b : n.blocks()) count_operators(*b, counts);
  }
}

// What the file's author called the dim; s0 where it does not say.
std::string dim_name(const ir::Graph& graph, const std::string& symbol) {
  std::optional<SymInt> s = graph.shapes ? graph.shapes->find_symbol(symbol) : std::nullopt;
  return s ? graph.shapes->str_by_dims(*s) : symbol;
}

}  // namespace

std::string bytes_text(double bytes) {
  const char* unit[] = {"B", "kB", "MB", "GB"};
  int k = 0;
  while (bytes >= 1000 && k < 3) {
    bytes /= 1000;
    ++k;
  }
  return k ? fmt::format("{:.1f} {}", bytes, unit[k]) : fmt::format("{:.0f} {}", bytes, unit[k]);
}

int run_info(const Info& options) {
  ModelFormat format = format_of_file(options.model);
  if (format == ModelFormat::pt) return script_info(options);
  if (format == ModelFormat::checkpoint) return checkpoint_info(options);
  ExportedProgram program = load_model(options.model);
  const ExportedProgram::Data& data = program.data();
  std::map<std::string, size_t> counts;
  count_operators(data.graph->top(), counts);
  size_t nodes = 0;
  for (auto& [op, n] : counts) nodes += n;
  double bytes = 0;
  int64_t elements = 0;
  for (const auto& [name, t] : data.state) {
    bytes += static_cast<double>(t.nbytes().guard_int());
    elements += t.numel().guard_int();
  }
  auto inputs = data.graph->inputs();
  auto outputs = data.graph->outputs();
  if (options.json) {
    io::JsonWriter json({.indent = 2});
    json.begin_object();
    json.member("format", name_of(format));
    json.key("inputs");
    json.begin_array();
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (data.signature.inputs[i].kind != InputKind::user_input) continue;
      json.begin_object();
      json.member("name", inputs[i]->name());
      json.member("type", type_text(*inputs[i]->type()));
      json.end_object();
    }
    json.end_array();
    json.key("outputs");
    json.begin_array();
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (data.signature.outputs[i].kind != OutputKind::user_output) continue;
      json.begin_object();
      json.member("name", data.signature.outputs[i].name);
      json.member("type", outputs[i].type() ? type_text(*outputs[i].type()) : "None");
      json.end_object();
    }
    json.end_array();
    json.key("dims");
    json.begin_object();
    for (const auto& [symbol, range] : data.range_constraints)
      json.member(dim_name(*data.graph, symbol), range.str());
    json.end_object();
    json.key("operators");
    json.begin_object();
    for (auto& [op, n] : counts) json.member(op, static_cast<int64_t>(n));
    json.end_object();
    json.member("tensors", static_cast<int64_t>(data.state.size()));
    json.member("elements", elements);
    json.member("bytes", static_cast<int64_t>(bytes));
    json.end_object();
    std::printf("%s\n", json.str().c_str());
    return 0;
  }
  std::printf("%s: %s\n", options.model.c_str(), std::string(name_of(format)).c_str());
  std::printf("inputs\n");
  for (size_t i = 0; i < inputs.size(); ++i)
    if (data.signature.inputs[i].kind == InputKind::user_input)
      std::printf("  %-24s %s\n", inputs[i]->name().c_str(), type_text(*inputs[i]->type()).c_str());
  std::printf("outputs\n");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const OutputSpec& spec = data.signature.outputs[i];
    std::string type = outputs[i].type() ? type_text(*outputs[i].type()) : "None";
    if (spec.kind == OutputKind::user_output)
      std::printf("  %-24s %s\n", spec.name.c_str(), type.c_str());
    else
      std::printf("  %-24s %s  (new value of %s)\n", spec.name.c_str(), type.c_str(), spec.target.c_str());
  }
  if (!data.range_constraints.empty()) std::printf("dims\n");
  for (const auto& [symbol, range] : data.range_constraints)
    std::printf("  %-24s %s\n", dim_name(*data.graph, symbol).c_str(), range.str().c_str());
  std::printf("weights\n  %zu tensors, %lld elements, %s\n", data.state.size(),
              static_cast<long long>(elements), bytes_text(bytes).c_str());
  std::printf("operators (%zu nodes)\n", nodes);
  for (auto& [op, n] : counts) std::printf("  %6zu  %s\n", n, op.c_str());
  return 0;
}

int run_check(const Check& options) {
  size_t errors = 0;
  ModelFormat format = format_of_file(options.model);
  if (format == ModelFormat::onnx) {
    for (const onnx::Problem& p : onnx::check(onnx::load(options.model))) {
      bool error = p.severity == onnx::Problem::Severity::error;
      std::printf("%s: %s\n", error ? "error" : "note", p.str().c_str());
      errors += error;
    }
  }
  if (format == ModelFormat::pt || format == ModelFormat::checkpoint) {
    // Every byte of every member is compared with its checksum.
    io::Blob file = io::map_file(options.model);
    if (io::ZipReader::looks_like_zip(file.bytes)) io::ZipReader(file, options.model).verify();
  }
  if (format == ModelFormat::checkpoint) {
    jit::load_checkpoint(options.model);
    std::printf("%s: valid\n", options.model.c_str());
    return 0;
  }
  if (format == ModelFormat::pt) return script_check(options);
  ExportedProgram program = load_model(options.model);
  ir::verify(program.graph());
  verify(program);
  for (const ir::Node& n : program.graph().top())
    if (!n.op() && n.kind().view().starts_with("aten::") && n.outputs().size() &&
        !n.outputs()[0]->type()->is(ir::TypeKind::int_))
      std::printf("note: %s (%%%s) is not an operator Tern knows\n", n.qualified().c_str(), n.name().c_str());
  std::printf("%s: %s\n", options.model.c_str(), errors ? "invalid" : "valid");
  return errors ? 2 : 0;
}

}  // namespace tern::command
