// The classes of torch.nn that are made of other modules, as Python source: they are evaluated and compiled
// as a user's classes are. Internal to this room.
#pragma once
#include "tern/jit/python_value.h"

namespace tern::jit {

const PythonFile& nn_library();
struct LibraryClass {
  std::string_view name;              // "MultiheadAttention"
  std::string_view module;            // "activation": where PyTorch has it below torch.nn.modules
  std::string_view definitions = {};  // classes that its methods name
};
const LibraryClass* find_library_class(std::string_view name);
std::string library_classes();  // "MultiheadAttention, ..."

}  // namespace tern::jit
