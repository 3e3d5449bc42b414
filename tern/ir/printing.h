// What the printers of this room share.
#pragma once
#include "tern/ir/graph.h"

namespace tern::ir {

void append_name(std::string& out, Name name);
void append_qualified(std::string& out, const Op& op);
void append_origin(std::string& out, const Origin* origin);  // ", scope: ... # file:line:column"
// The elements in row-major order, shortest text that reads back; a complex one as two numbers.
void append_tensor_items(std::string& out, const Tensor& t, std::string_view separator);
std::string torch_quoted(std::string_view text);  // as PyTorch writes strings: bytes beyond ASCII in octal

}  // namespace tern::ir
