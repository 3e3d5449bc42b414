#include "tern/export/pt2_names.h"

#include <cctype>
#include <unordered_map>

#include "tern/export/assertions.h"
#include "tern/ir/names.h"

namespace tern::pt2 {
namespace {

bool is_identifier(std::string_view name) {
  for (char c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) && name != "None" &&
         name != "True" && name != "False";
}

std::string identifier(std::string_view name) {
  std::string out;
  for (char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, "_");
  return out;
}

template <class F>
void each_value(const ir::Block& block, F&& f) {
  for (ir::Value* v : block.params()) f(*v);
  for (const ir::Node& n : block) {
    for (ir::Value* v : n.outputs()) f(*v);
    for (const ir::Block* b : n.blocks()) each_value(*b, f);
  }
}

}  // namespace

ExportedProgram with_identifiers(const ExportedProgram& program) {
  const ExportedProgram::Data& from = program.data();
  bool good = true;
  each_value(from.graph->top(), [&](ir::Value& v) { good &= is_identifier(v.name()); });
  if (good) return program;

  auto data = new_shared<ExportedProgram::Data>();
  static_cast<ExportedProgram::Interface&>(*data) = from;
  data->graph = from.graph->clone();
  std::unordered_map<std::string, std::string> renamed;
  each_value(data->graph->top(), [&](ir::Value& v) {
    std::string old = v.name();
    if (is_identifier(old)) return;
    data->graph->rename(v, identifier(old));
    renamed.emplace(std::move(old), v.name());
  });
  auto rename = [&](std::string& name) {
    if (auto it = renamed.find(name); it != renamed.end()) name = it->second;
  };
  for (InputSpec& s : data->signature.inputs) rename(s.name);
  for (OutputSpec& s : data->signature.outputs)
    if (s.kind == OutputKind::user_input_mutation) rename(s.target);
  refresh_output_names(*data);
  for (ModuleCall& call : data->module_calls) {
    if (!call.signature) continue;
    for (auto* names : {&call.signature->inputs, &call.signature->outputs, &call.signature->arg_names})
      for (std::string& name : *names) rename(name);
    for (std::string& name : call.signature->arg_names)
      if (!is_identifier(name)) name = identifier(name);
  }
  return ExportedProgram(data);
}

}  // namespace tern::pt2
