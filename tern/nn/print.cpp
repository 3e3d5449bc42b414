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
  std::string out = std::string(last_part(state.type)) + "(";
  if (lines.empty()) return out + state.repr + ")";
  if (!state.repr.empty()) out += "\n  " + state.repr;
  for (const std::string& line : lines) out += "\n  " + line;
  return out + "\n)";
}

}  // namespace

std::string Module::str() const { return print(*state_); }

}  // namespace tern::nn
