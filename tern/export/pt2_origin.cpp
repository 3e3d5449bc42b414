#include "tern/export/pt2_origin.h"

#include <algorithm>

namespace tern::pt2 {

// 'File "net.py", line 7, in forward\n    code': the innermost frame.
void read_trace(std::string_view text, ir::Origin& origin) {
  size_t at = text.rfind("File \"");
  if (at == std::string_view::npos) return;
  text.remove_prefix(at + 6);
  size_t quote = text.find("\", line ");
  if (quote == std::string_view::npos) return;
  origin.file = Symbol(text.substr(0, quote));
  text.remove_prefix(quote + 8);
  uint64_t line = 0;
  while (!text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) && line < 100'000'000) {
    line = line * 10 + static_cast<uint64_t>(text[0] - '0');
    text.remove_prefix(1);
  }
  origin.line = static_cast<uint32_t>(line);
  if (text.starts_with(", in ")) {
    text.remove_prefix(5);
    size_t end = std::min(text.find('\n'), text.size());
    origin.function = Symbol(text.substr(0, end));
    text.remove_prefix(end);
    size_t code = text.find_first_not_of("\n ");
    if (code != std::string_view::npos) origin.text = Symbol(text.substr(code, text.find('\n', code) - code));
  }
}

// "key,path,type;key,path,type", from the root inwards.
const ir::ModuleScope* module_stack(std::string_view text) {
  const ir::ModuleScope* scope = nullptr;
  while (!text.empty()) {
    size_t end = std::min(text.find(';'), text.size());
    std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    size_t a = one.find(','), b = a == std::string_view::npos ? a : one.find(',', a + 1);
    if (b == std::string_view::npos || one.starts_with("_empty_nn_module_stack")) continue;
    std::string_view path = one.substr(a + 1, b - a - 1);
    // Files of 2024 write the path as L['self'].fc.
    if (path.starts_with("L['self']")) path.remove_prefix(path.size() > 9 && path[9] == '.' ? 10 : 9);
    scope = ir::ModuleScope::make(Symbol(path), Symbol(one.substr(b + 1)), scope);
  }
  return scope;
}

}  // namespace tern::pt2
