// The tables of rules that rung.cpp looks into.
#pragma once
#include <string_view>
#include <utility>
#include <vector>

#include "tern/dispatch/op.h"

namespace tern::nested {

using Rule = void (*)(const Op& op, const Arg* args, Value* results);
using Rules = std::vector<std::pair<std::string_view, Rule>>;

void elementwise(const Op& op, const Arg* args, Value* results);  // on the buffers
Rules view_rules();                                               // views.cpp
Rules compute_rules();                                            // compute.cpp

}  // namespace tern::nested
