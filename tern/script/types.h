// What other rooms name of scripts without looking inside: modules, traces and files are declared with it.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/base/symbol.h"
#include "tern/tensor/value.h"

namespace tern::script {

class Unit;  // script/unit.h, like the next three
class ClassType;
class Function;
struct Object;

struct Argument {
  Symbol name;
  const ir::Type* type = nullptr;
  std::optional<tern::Value> default_value = {};
  bool keyword_only = false;
  bool inferred = false;  // a tensor because nothing is annotated
  int fixed_size = 0;     // BroadcastingList2[int]: one value stands for that many
};

enum class Role : uint8_t { parameter, buffer, attribute, constant };

// The source of one function as it stands, and what it calls CONSTANTS.c0, ...: "c0" and the value.
struct CodeWithConstants {
  std::string code;
  std::vector<std::pair<std::string, tern::Value>> constants;
};

}  // namespace tern::script
