#include "tests/house/rooms.h"

#include <algorithm>
#include <array>
#include <optional>

namespace tern::house {
namespace {

using std::string;
using std::string_view;

// DESIGN.md, "Rooms": a folder includes only itself and folders above it.
constexpr std::array rooms = {"base",     "io",     "sym",  "tensor",  "kernels", "dispatch", "ops",
                              "autograd", "tree",   "nn",   "optim",   "ir",      "capture",  "script",
                              "jit",      "export", "onnx", "runtime", "compile"};

// Rooms above that a room must do without all the same. The graph knows operators only through the registry;
// kernels see pointers and strides.
struct Exception {
  string_view room, not_from, but_for, reason;
};
constexpr Exception exceptions[] = {
    {"ir", "ops", "", "ir depends on dispatch, not on ops"},
    {"ir", "autograd", "", "ir depends on dispatch, not on what stands on ops"},
    {"ir", "nn", "", "ir depends on dispatch, not on what stands on ops"},
    {"ir", "optim", "", "ir depends on dispatch, not on what stands on ops"},
    {"kernels", "tensor", "tern/tensor/dtype.h tern/tensor/by_dtype.h",
     "kernels know element types, but no Tensor"},
};

constexpr string_view costly[] = {"iostream", "functional", "regex", "filesystem", "ranges", "sstream"};

struct Include {
  int line;
  string_view target;
  bool quoted;
};

std::vector<Include> includes_of(string_view text) {
  std::vector<Include> found;
  int line_number = 0;
  while (!text.empty()) {
    ++line_number;
    string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    auto skip_blanks = [&] { line.remove_prefix(std::min(line.size(), line.find_first_not_of(" \t"))); };
    skip_blanks();
    if (!line.starts_with('#')) continue;
    line.remove_prefix(1);
    skip_blanks();
    if (!line.starts_with("include")) continue;
    line.remove_prefix(7);
    skip_blanks();
    if (line.empty() || (line[0] != '"' && line[0] != '<')) continue;
    bool quoted = line[0] == '"';
    line.remove_prefix(1);
    found.push_back({line_number, line.substr(0, line.find(quoted ? '"' : '>')), quoted});
  }
  return found;
}

// "base" of "tern/base/error.h", "ops" of the generated "tern/ops.h", "" of the umbrella "tern/tern.h".
string_view room_of(string_view path) {
  path.remove_prefix(5);
  if (path == "ops.h") return "ops";
  size_t slash = path.find('/');
  return slash == string_view::npos ? "" : path.substr(0, slash);
}

std::optional<size_t> height(string_view room) {
  auto it = std::find(rooms.begin(), rooms.end(), room);
  if (it == rooms.end()) return {};
  return it - rooms.begin();
}

// Not installed and included by their own room only: what a kernel or an adapter to a library needs.
bool is_internal(string_view path) {
  return path.starts_with("tern/kernels/") || path.ends_with("-inl.h") || path == "tern/base/format.h" ||
         path.find("/detail/") != string_view::npos;
}

string complaint(string_view path, const Include& include, const string& rule) {
  return string(path) + ":" + std::to_string(include.line) + ": #include of " + string(include.target) +
         ": " + rule;
}

bool is_onnx_part_of_ops(string_view path) {
  return path.starts_with("tern/ops/") && path.ends_with("/onnx.cpp");
}

}  // namespace

std::vector<string> include_violations(string_view path, string_view text) {
  std::vector<string> found;
  string_view room = room_of(path);
  if (room.empty()) return found;  // tern/tern.h gathers all rooms
  std::optional<size_t> own = height(is_onnx_part_of_ops(path) ? "onnx" : room);
  if (!own)
    return {string(path) + ": '" + string(room) + "' is not a room of DESIGN.md; see tests/house/rooms.cpp"};
  for (const Include& include : includes_of(text)) {
    if (!include.target.starts_with("tern/")) continue;
    string_view other = room_of(include.target);
    if (other.empty()) {
      found.push_back(complaint(path, include, "the umbrella header is for users; include what is needed"));
      continue;
    }
    std::optional<size_t> theirs = height(other);
    if (!theirs)
      found.push_back(complaint(path, include, "there is no such room"));
    else if (*theirs > *own)
      found.push_back(
          complaint(path, include, string(room) + " stands above " + string(other) + " in DESIGN.md's list"));
    for (const Exception& e : exceptions)
      if (room == e.room && other == e.not_from && e.but_for.find(include.target) == string_view::npos)
        found.push_back(complaint(path, include, string(e.reason)));
  }
  return found;
}

std::vector<string> included(string_view text) {
  std::vector<string> found;
  for (const Include& include : includes_of(text)) found.emplace_back(include.target);
  return found;
}

std::vector<string> header_violations(string_view path, string_view text) {
  std::vector<string> found;
  if (!text.starts_with("//"))
    found.push_back(string(path) +
                    ":1: a header opens with one or two sentences: what lives here and what does not");
  // Highway includes *-inl.h once per instruction set; those guard themselves.
  if (!path.ends_with("-inl.h") && text.find("#pragma once") == string_view::npos)
    found.push_back(string(path) + ":1: #pragma once is missing");
  if (is_internal(path)) return found;
  for (const Include& include : includes_of(text)) {
    if (std::find(std::begin(costly), std::end(costly), include.target) != std::end(costly))
      found.push_back(complaint(path, include, "too costly for a header"));
    else if (!include.target.starts_with("tern/") && include.target.find_first_of("./") != string_view::npos)
      found.push_back(
          complaint(path, include, "a public header includes only Tern and the C++ standard library"));
    else if (include.target.starts_with("tern/") && is_internal(include.target))
      found.push_back(complaint(path, include, "that header is internal: include it in a .cpp"));
    else if (include.target.starts_with("tern/") && !include.quoted)
      found.push_back(complaint(path, include, "Tern's own headers are included with quotes"));
  }
  return found;
}

}  // namespace tern::house
