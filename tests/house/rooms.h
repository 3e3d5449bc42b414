// The order of the rooms and what a header may include, as a function from a file's text to complaints.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tern::house {

// `path` is relative to the root: "tern/ops/activation/onnx.cpp". A complaint names file, line, include and
// the rule.
std::vector<std::string> include_violations(std::string_view path, std::string_view text);
std::vector<std::string> header_violations(std::string_view path, std::string_view text);
// What a file includes, as it is written there: "vector", "tern/base/span.h".
std::vector<std::string> included(std::string_view text);

}  // namespace tern::house
