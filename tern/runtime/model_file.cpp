#include "tern/runtime/model_file.h"

#include <algorithm>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/export/assertions.h"
#include "tern/export/pt2.h"
#include "tern/export/script.h"
#include "tern/io/file.h"
#include "tern/jit/archive.h"
#include "tern/onnx/onnx.h"
#include "tern/onnx/program.h"

namespace tern {

std::string_view name_of(ModelFormat format) {
  switch (format) {
    case ModelFormat::pt2:
      return "pt2";
    case ModelFormat::pt:
      return "pt";
    case ModelFormat::checkpoint:
      return "checkpoint";
    default:
      return "onnx";
  }
}

ModelFormat format_of_file(const std::string& path) {
  io::Blob head = io::map_file(path);
  if (head.bytes.size() < 4) failf(ErrorKind::file, "{}: too short to be a model", path);
  if (jit::looks_like_checkpoint(head, path)) return ModelFormat::checkpoint;
  if (head.bytes[0] != 'P' || head.bytes[1] != 'K') {
    // A field of ModelProto comes first: numbers (0) and what has a length (2), with small field numbers.
    uint8_t key = static_cast<uint8_t>(head.bytes[0]), field = key >> 3, wire = key & 7;
    std::string_view name = path;
    for (std::string_view ending : {".pt2", ".pt", ".pth", ".ts"})
      if (name.ends_with(ending))
        failf(ErrorKind::file, "{}: a {} file is a zip archive, and this is none", path, ending);
    if (key & 0x80 || !field || (wire != 0 && wire != 2))
      failf(ErrorKind::file, "{}: no model: neither a zip archive (.pt2, .pt) nor protobuf (.onnx)", path);
    return ModelFormat::onnx;
  }
  return looks_like_pt2(path) ? ModelFormat::pt2 : ModelFormat::pt;
}

ModelFormat format_of_name(const std::string& path) {
  std::string_view text = path;
  if (text.ends_with(".pt2")) return ModelFormat::pt2;
  if (text.ends_with(".pt") || text.ends_with(".pth") || text.ends_with(".ts")) return ModelFormat::pt;
  if (text.ends_with(".onnx")) return ModelFormat::onnx;
  failf(ErrorKind::value, "{}: the name of a model ends in .pt2, .pt or .onnx", path);
}

namespace {

Value example_tree(size_t leaves) { return Value::tuple(std::vector<Value>(leaves)); }

// The names of a model's weights as a tree of modules can have them: no part is empty, and what is a tensor
// has nothing below it.
std::vector<std::string> targets_of(const onnx::Imported& imported) {
  std::vector<std::string> targets;
  std::unordered_set<std::string> tensors, modules;
  for (const auto& [name, tensor] : imported.state) {
    std::string target;
    for (char c : name.empty() ? std::string("weight") : name)
      target += c == '.' && (target.empty() || target.back() == '.') ? '_' : c;
    if (target.back() == '.') target.back() = '_';
    auto parents_are_modules = [&] {
      for (size_t dot = target.find('.'); dot != std::string::npos; dot = target.find('.', dot + 1))
        if (tensors.count(target.substr(0, dot))) return false;
      return true;
    };
    while (tensors.count(target) || modules.count(target) || !parents_are_modules()) {
      std::replace(target.begin(), target.end(), '.', '_');
      if (tensors.count(target) || modules.count(target)) target += '_';
    }
    for (size_t dot = target.find('.'); dot != std::string::npos; dot = target.find('.', dot + 1))
      modules.insert(target.substr(0, dot));
    tensors.insert(target);
    targets.push_back(std::move(target));
  }
  return targets;
}

// An imported graph has the user's inputs first; a program has its state first.
ExportedProgram program_of(onnx::Imported imported) {
  auto data = new_shared<ExportedProgram::Data>();
  data->graph = new_owned<ir::Graph>();
  ir::Graph& graph = *data->graph;
  graph.shapes = imported.graph->shapes;
  graph.name = imported.graph->name;
  ir::ValueMap map;
  std::vector<std::string> targets = targets_of(imported);
  Span<ir::Value* const> inputs = imported.graph->inputs();
  for (size_t i = imported.num_inputs; i < inputs.size(); ++i) {
    ir::Value& v = graph.add_input(inputs[i]->type(), "p_" + inputs[i]->name());
    map.emplace(inputs[i], ir::In(v));
    const Tensor& tensor = imported.state[i - imported.num_inputs].second;
    const std::string& name = targets[i - imported.num_inputs];
    bool floating = tensor.is_floating_point() || tensor.is_complex();
    data->signature.inputs.push_back(
        {.kind = floating ? InputKind::parameter : InputKind::buffer, .name = v.name(), .target = name});
    data->state.emplace_back(name, tensor);
  }
  for (size_t i = 0; i < imported.num_inputs; ++i) {
    ir::Value& v = graph.add_input(inputs[i]->type(), inputs[i]->name());
    map.emplace(inputs[i], ir::In(v));
    data->signature.inputs.push_back({.kind = InputKind::user_input, .name = v.name()});
    data->arg_names.push_back(v.name());
  }
  for (const ir::In& out : graph.inline_block(imported.graph->top(), map)) graph.add_output(out);
  lift_constants(*data);
  for (const ir::Operand& o : graph.outputs())
    data->signature.outputs.push_back(
        {.kind = OutputKind::user_output, .name = o.is_value() ? o.value().name() : ""});
  size_t outputs = graph.outputs().size();
  data->in_spec = tree::flatten(Value::tuple({example_tree(imported.num_inputs), Value::dict()})).spec;
  if (outputs != 1) data->out_spec = tree::flatten(example_tree(outputs)).spec;
  data->module_calls.push_back(
      {"", ModuleCall::Signature{{}, {}, data->in_spec, data->out_spec, data->arg_names}});
  data->range_constraints = symbol_ranges(graph);
  data->dialect = Dialect::aten;
  data->root_type = "onnx.Model";
  return ExportedProgram(data);
}

}  // namespace

ExportedProgram load_model(const std::string& path) {
  switch (format_of_file(path)) {
    case ModelFormat::pt2:
      return load_program(path);
    case ModelFormat::pt:
      return from_script(jit::load(path));
    case ModelFormat::checkpoint:
      failf(ErrorKind::file,
            "{}: a checkpoint of torch.save: it holds weights but no program. Load it into a module "
            "(jit::load_state_dict), or save the model with torch.jit.save or torch.export.save",
            path);
    default:
      return program_of(onnx::import_model(onnx::load(path)));
  }
}

void save_model(const ExportedProgram& program, const std::string& path, const SaveModelOptions& options) {
  switch (format_of_name(path)) {
    case ModelFormat::pt2:
      return save(program, path);
    case ModelFormat::pt:
      return to_script(program).save(path);
    default: {
      onnx::ExportOptions o;
      if (options.opset) o.opset = options.opset;
      onnx::save(program, path, o);
    }
  }
}

}  // namespace tern
