// Values as tests/script/record.py writes them, and arguments written as source: for tests that hold scripts
// against what PyTorch recorded.
#pragma once
#include <string>
#include <vector>

#include "tern/script/unit.h"

namespace tern::testing {

// "tensor(float32, [2], [1., 2.])", "{'a': 1}", ...
std::string show(const tern::Value& v);

// The arguments of "f(1, x=[2, 3])": each is evaluated as a script of its own, in `unit`; `number` makes
// their names.
struct ScriptCall {
  std::string function;
  std::vector<tern::Value> positional;
  std::vector<std::pair<Symbol, tern::Value>> keywords;
};
ScriptCall read_call(script::Unit& unit, const std::string& text, size_t number);

// Whether two such texts say the same, numbers up to a relative 1e-4.
bool same_values(const std::string& a, const std::string& b);

}  // namespace tern::testing
