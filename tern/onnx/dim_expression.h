// Names of dims that are expressions of others: "n + 1", "2*n", "(a + b)//4".
#pragma once
#include <optional>
#include <string_view>

#include "tern/base/function.h"
#include "tern/sym/sym_int.h"

namespace tern::onnx {

bool is_word(std::string_view text);  // letters, digits and underscores, no digit first

// The value of such a name, with `symbol` giving the value of each word in it; nullopt where the text is no
// expression of +, -, *, // and parentheses, or a word has no value.
std::optional<SymInt> dim_expression(std::string_view text,
                                     const Function<std::optional<SymInt>(std::string_view)>& symbol);

}  // namespace tern::onnx
