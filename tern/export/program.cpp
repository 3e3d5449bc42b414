#include "tern/export/program.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/dispatch/op.h"
#include "tern/export/core_aten.h"
#include "tern/export/export.h"
#include "tern/export/module.h"
#include "tern/export/numbers.h"
#include "tern/export/pt2_symbols.h"
#include "tern/ir/text.h"
#include "tern/ir/verify.h"

namespace tern {

std::string_view name_of(InputKind kind) {
  static constexpr std::string_view names[] = {"USER_INPUT",      "PARAMETER",  "BUFFER",
                                               "CONSTANT_TENSOR", "CUSTOM_OBJ", "TOKEN"};
  return names[static_cast<size_t>(kind)];
}
std::string_view name_of(OutputKind kind) {
  static constexpr std::string_view names[] = {"USER_OUTPUT",           "LOSS_OUTPUT",
                                               "BUFFER_MUTATION",       "PARAMETER_MUTATION",
                                               "GRADIENT_TO_PARAMETER", "GRADIENT_TO_USER_INPUT",
                                               "USER_INPUT_MUTATION",   "TOKEN"};
  return names[static_cast<size_t>(kind)];
}
std::string_view name_of(Dialect dialect) { return dialect == Dialect::training ? "TRAINING" : "ATEN"; }

std::vector<std::string> GraphSignature::targets(InputKind kind) const {
  std::vector<std::string> found;
  for (const InputSpec& s : inputs)
    if (s.kind == kind) found.push_back(kind == InputKind::user_input ? s.name : s.target);
  return found;
}

std::string GraphSignature::str() const {
  std::string out = "# inputs\n";
  for (const InputSpec& s : inputs) {
    out += fmt::format("{}: {}", s.name, name_of(s.kind));
    if (!s.target.empty()) out += fmt::format(" target='{}'", s.target);
    if (s.kind == InputKind::buffer) out += s.persistent ? " persistent=True" : " persistent=False";
    out += '\n';
  }
  out += "\n# outputs\n";
  for (const OutputSpec& s : outputs) {
    out += fmt::format("{}: {}", s.name, name_of(s.kind));
    if (!s.target.empty()) out += fmt::format(" target='{}'", s.target);
    out += '\n';
  }
  out += '\n';
  return out;
}

const Tensor& ExportedProgram::state_of(const InputSpec& spec) const {
  auto look = [&](const NamedTensors& all) -> const Tensor* {
    for (const auto& [name, tensor] : all)
      if (name == spec.target) return &tensor;
    return nullptr;
  };
  const Tensor* found = look(data_->state);
  if (!found) found = look(data_->constants);
  if (!found) failf("the program has no tensor '{}' for its input {}", spec.target, spec.name);
  return *found;
}

const SymInt* ExportedProgram::symbol_of(size_t input) const {
  for (const auto& [index, symbol] : data_->int_inputs)
    if (index == input) return &symbol;
  return nullptr;
}

ExportedModule ExportedProgram::module() const { return ExportedModule(*this); }

namespace {

ExportedProgram decomposed(const ExportedProgram& program, const Function<bool(const Op&)>& expand,
                           Dialect dialect) {
  ExportedProgram lowered = lower(without_idle_calls(program), expand, dialect);
  write_as_pytorch(lowered.graph());
  make_tensors_of_numbers(lowered.graph());
  return lowered;
}

}  // namespace

ExportedProgram ExportedProgram::run_decompositions(Function<bool(const Op&)> expand) const {
  bool training = data_->dialect == Dialect::training;
  if (!expand) return run_decompositions(training ? Dialect::aten : Dialect::core);
  return decomposed(*this, expand, training ? Dialect::aten : Dialect::core);
}

ExportedProgram ExportedProgram::run_decompositions(Dialect to) const {
  if (to == Dialect::training)
    fail(ErrorKind::value, "run_decompositions: a program cannot become what the user wrote again");
  return decomposed(
      *this, [to](const Op& op) { return is_decomposed(op, to); }, to);
}

std::string ExportedProgram::code() const { return ir::fx_code(graph()); }

namespace {

// "f32[s0, 4]", "Sym(s0)": what PyTorch writes beside a name.
std::string annotation(const ir::Type& type) {
  if (!type.is_tensor()) return "";
  if (!type.has_sizes() || type.dtype() == DType::undefined) return "";
  static const std::pair<DType, std::string_view> short_names[] = {
      {DType::float32, "f32"},   {DType::float64, "f64"},   {DType::float16, "f16"},
      {DType::bfloat16, "bf16"}, {DType::int64, "i64"},     {DType::int32, "i32"},
      {DType::int16, "i16"},     {DType::int8, "i8"},       {DType::uint8, "u8"},
      {DType::bool_, "b8"},      {DType::complex64, "c64"}, {DType::complex128, "c128"},
      {DType::complex32, "c32"},
  };
  std::string out(name(type.dtype()));
  for (auto& [d, n] : short_names)
    if (d == type.dtype()) out = n;
  out += '[';
  for (size_t i = 0; i < type.sizes().size(); ++i) {
    if (i) out += ", ";
    out += type.sizes()[i].str();
  }
  return out + "]";
}

std::string annotated(const ir::Graph& graph, std::string_view name,
                      std::optional<pt2::GraphSymbols>& symbols) {
  const ir::Value* v = graph.find(name);
  std::string note = v && v->type() ? annotation(*v->type()) : "";
  using enum ir::TypeKind;
  if (symbols && v && v->type() && (v->type()->is(int_) || v->type()->is(float_) || v->type()->is(bool_)))
    if (std::optional<SymInt> s = symbols->known(*v))
      note = fmt::format("Sym({})", v->type()->is(bool_) ? SymBool::from_expr(*s).str() : s->str());
  return note.empty() ? std::string(name) : fmt::format("{}: \"{}\"", name, note);
}

bool is_word(std::string_view s) {
  for (char c : s)
    if (!(std::isalnum(static_cast<unsigned char>(c)) || c == '_')) return false;
  return !s.empty();
}

// The readable form of the fx code: types beside names, the source line above the nodes that come from it.
std::string readable(const ir::Graph& graph) {
  std::string out, code = ir::fx_code(graph);
  std::optional<pt2::GraphSymbols> symbols;
  if (graph.shapes) symbols.emplace(*graph.shapes);
  std::unordered_map<std::string, const ir::Node*> nodes;
  for (const ir::Node& n : graph.top()) {
    for (ir::Value* v : n.outputs()) nodes.emplace(v->name(), &n);
    nodes.emplace(n.name(), &n);
  }
  std::string last_place;
  size_t at = 0;
  while (at < code.size()) {
    size_t end = std::min(code.find('\n', at), code.size());
    std::string_view line(code.data() + at, end - at);
    at = end + 1;
    if (line.starts_with("def ")) {
      size_t open = line.find('('), close = line.rfind(')');
      std::string args;
      std::string_view list = line.substr(open + 1, close - open - 1);
      while (!list.empty()) {
        size_t comma = std::min(list.find(", "), list.size());
        if (!args.empty()) args += ", ";
        args += annotated(graph, list.substr(0, comma), symbols);
        list = comma == list.size() ? std::string_view() : list.substr(comma + 2);
      }
      out += fmt::format("{}({}){}\n", line.substr(0, open), args, line.substr(close + 1));
      continue;
    }
    size_t eq = line.find(" = ");
    std::string_view name =
        eq == std::string_view::npos || line.size() < 4 ? std::string_view() : line.substr(4, eq - 4);
    if (line.starts_with("    ") && is_word(name)) {
      auto it = nodes.find(std::string(name));
      std::string place;
      if (it != nodes.end() && it->second->origin()) place = it->second->origin()->place();
      if (it != nodes.end() && place != last_place) {
        if (!last_place.empty() || !out.ends_with(":\n")) out += "\n";
        out += place.empty() ? "    # No stacktrace found for following nodes\n"
                             : fmt::format("    # File: {}\n", place);
        last_place = place;
      }
      out += fmt::format("    {}{}\n", annotated(graph, name, symbols), line.substr(eq));
    } else if (!line.empty()) {
      out += fmt::format("{}\n", line);
    }
  }
  return out;
}

std::string indent(std::string_view text, std::string_view by) {
  std::string out;
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    out += fmt::format("{}{}\n", by, text.substr(0, end));
    text = end == text.size() ? std::string_view() : text.substr(end + 1);
  }
  return out;
}

}  // namespace

std::string ExportedProgram::str() const {
  std::string ranges;
  for (const auto& [symbol, r] : data_->range_constraints)
    ranges += fmt::format("{}{}: VR{}", ranges.empty() ? "" : ", ", symbol, r.str());
  return fmt::format(
      "ExportedProgram:\n    class GraphModule(torch.nn.Module):\n{}    \nGraph signature: \n{}Range "
      "constraints: {{{}}}\n",
      indent(readable(graph()), "        "), indent(signature().str(), "    "), ranges);
}

void verify(const ExportedProgram& program) {
  const ExportedProgram::Data& d = program.data();
  ir::verify(*d.graph);
  auto wrong = [](std::string text) { fail(ErrorKind::internal, "exported program: " + text); };
  if (d.signature.inputs.size() != d.graph->inputs().size())
    wrong(fmt::format("{} input specs for {} inputs", d.signature.inputs.size(), d.graph->inputs().size()));
  if (d.signature.outputs.size() != d.graph->outputs().size())
    wrong(
        fmt::format("{} output specs for {} outputs", d.signature.outputs.size(), d.graph->outputs().size()));
  size_t user_inputs = 0, user_outputs = 0;
  for (size_t i = 0; i < d.signature.inputs.size(); ++i) {
    const InputSpec& s = d.signature.inputs[i];
    if (s.name != d.graph->inputs()[i]->name())
      wrong(fmt::format("input {} is called {} in the graph", s.name, d.graph->inputs()[i]->name()));
    user_inputs += s.kind == InputKind::user_input;
    if (s.kind == InputKind::parameter || s.kind == InputKind::buffer || s.kind == InputKind::constant_tensor)
      program.state_of(s);
  }
  for (const OutputSpec& s : d.signature.outputs)
    user_outputs += s.kind == OutputKind::user_output || s.kind == OutputKind::loss_output;
  if (user_inputs != d.in_spec.leaf_count())
    wrong("the input tree has another number of leaves than there are user inputs");
  if (user_outputs != d.out_spec.leaf_count())
    wrong("the output tree has another number of leaves than there are user outputs");
}

}  // namespace tern
