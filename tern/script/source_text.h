// How constants and types are written in TorchScript source. Internal to this room.
#pragma once
#include "tern/script/compile.h"

namespace tern::script {

std::string annotation(const ir::Type* type);
std::string quoted(std::string_view text);
bool is_identifier(std::string_view text);  // and no word of the language
bool is_keyword(std::string_view word);

bool is_ascii(std::string_view text);

// `type` says what the reader expects: ints are written as floats for a float. Tensors, packed objects and
// text beyond ASCII go to the table. Throws for what source has no word for.
std::string constant_text(const tern::Value& value, const ir::Type* type, ConstantTable& constants);

}  // namespace tern::script
