// PyTorch's repr of a module: one line for a leaf, a bracketed list for the rest, equal neighbours in a
// ModuleList folded.
#include "tern/base/format.h"
#include "tern/nn/state.h"

namespace tern::nn {
namespace {

std::string indent(const std::string& text) {
  std::string out;
  for (char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

// ParameterList and ParameterDict show their parameters as they are now.
std::string text_of(const Module::State& state) {
  const std::string_view type = last_part(state.type);
  if (type != "ParameterList" && type != "ParameterDict") return state.repr;
  std::string text;
  for (const Entry& e : state.parameters) {
    const Tensor& t = e.slot->tensor;
    std::string sizes;
    for (const SymInt& s : t.sizes()) sizes += (sizes.empty() ? "" : "x") + s.str();
    text += fmt::format("{}  ({}): Parameter containing: [{} of size {}]", text.empty() ? "" : "\n", e.name,
                        type == "ParameterList" ? fmt::format("torch.{}", tern::name(t.dtype()))
                                                : fmt::format("torch.{}Tensor", script_name(t.dtype())),
                        sizes);
  }
  return text;
}

std::string print(const Module::State& state) {
  std::vector<std::string> lines;
  bool folds = last_part(state.type) == "ModuleList";
  for (size_t i = 0; i < state.children.size();) {
    std::string text = indent(print(*state.children[i].state));
    size_t end = i + 1;
    while (folds && end < state.children.size() && indent(print(*state.children[end].state)) == text) ++end;
    lines.push_back(end - i > 1 ? fmt::format("({}-{}): {} x {}", i, end - 1, end - i, text)
                                : fmt::format("({}): {}", state.children[i].name, text));
    i = end;
  }
  const std::string own = text_of(state);
  std::string out = std::string(last_part(state.type)) + "(";
  if (lines.empty() && own.find('\n') == std::string::npos) return out + own + ")";
  if (!own.empty()) out += "\n  " + indent(own);
  for (const std::string& line : lines) out += "\n  " + line;
  return out + "\n)";
}

}  // namespace

std::string Module::str() const { return print(*state_); }

}  // namespace tern::nn
