// Members of TorchScript's enums: values that know their name. Each is one object, so that == is identity.
#pragma once
#include "tern/base/symbol.h"
#include "tern/tensor/value.h"

namespace tern::ir {

struct EnumMember final : Box {
  Symbol type;  // "__torch__.Color"
  std::string name;
  tern::Value value;

  static EnumMember* of(const tern::Value& v) {  // nullptr if it is something else
    return v.is_object() ? dynamic_cast<EnumMember*>(v.box()) : nullptr;
  }
};

}  // namespace tern::ir
