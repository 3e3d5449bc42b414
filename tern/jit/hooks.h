// The graph of a call of a module that has hooks. Internal to this room.
#pragma once
#include "tern/base/pointer.h"
#include "tern/jit/script_module.h"
#include "tern/script/unit.h"

namespace tern::jit {

// A call of `forward` with calls of its module's hooks around it. Throws for a hook that the class has not.
Owned<ir::Graph> graph_with_hooks(const script::Function& forward, script::Unit& unit);
inline bool has_hooks(const script::ClassType& type) {
  return !type.pre_hooks.empty() || !type.hooks.empty();
}

}  // namespace tern::jit
