#include "tern/tree/convert.h"

#include "tern/base/format.h"
#include "tern/tree/types.h"

namespace tern::tree {

// "std::string tern::tree::type_name_of() [with T = my::Net; std::string = ...]" (g++) or "[T = my::Net]"
// (clang).
std::string dotted_name(std::string_view pretty) {
  size_t at = pretty.find("T = ");
  if (at == std::string_view::npos) return std::string(pretty);
  std::string_view name = pretty.substr(at + 4);
  int depth = 0;
  size_t end = 0;
  for (; end < name.size(); ++end) {
    char c = name[end];
    if (c == '<' || c == '(' || c == '[' || c == '{') ++depth;
    if ((c == ';' || c == ']') && depth == 0) break;
    if (c == '>' || c == ')' || c == ']' || c == '}') --depth;
  }
  name = name.substr(0, end);
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.compare(i, 2, "::") == 0) {
      text += '.';
      ++i;
    } else {
      text += name[i];
    }
  }
  for (std::string_view hidden : {"{anonymous}.", "(anonymous namespace).", "<unnamed>."})
    for (size_t found; (found = text.find(hidden)) != std::string::npos;) text.erase(found, hidden.size());
  // A class inside a function: "my.test().Net".
  for (size_t call; (call = text.find("().")) != std::string::npos;) text.erase(call, 2);
  return text;
}

void wrong_length(std::string_view what, size_t wanted, size_t found) {
  failf(ErrorKind::value, "tree::from_value: expected {} items for the {}, found {}", wanted, what, found);
}

const std::vector<Value>& sequence(const Value& v) {
  const NodeBox* box = node_box(v);
  if (box && (box->type == types::named_tuple || box->type == types::deque)) return box->children;
  if (!v.is_list() && !v.is_tuple())
    failf(ErrorKind::type, "tree::from_value: expected a list or tuple, found {}",
          box ? std::string_view(box->type) : v.kind_name());
  return v.items();
}

}  // namespace tern::tree
