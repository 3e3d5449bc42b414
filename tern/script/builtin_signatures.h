// The schemas of the language's own operators, in TorchScript's schema language. Internal to this room.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tern::script {

std::vector<std::string> builtin_schemas();

}  // namespace tern::script
