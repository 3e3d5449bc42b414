// The classes of torch.nn that are made of other modules, as Python source: they are evaluated and compiled
// as a user's classes are. Internal to this room.
#pragma once
#include "tern/jit/python_value.h"

namespace tern::jit {

const PythonFile& nn_library();
// "activation" for "MultiheadAttention": where PyTorch has it below torch.nn.modules; empty if it is not
// here.
std::string_view library_module(std::string_view class_name);
std::string library_classes();  // "MultiheadAttention, ..."

}  // namespace tern::jit
