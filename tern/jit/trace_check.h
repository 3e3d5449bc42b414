// Whether a trace is to be trusted: traced again and run beside the function. Internal to this room.
#pragma once
#include "tern/jit/script_module.h"
#include "tern/jit/trace.h"

namespace tern::jit {

// One method of a traced module, run on one set of inputs. Throws with both graphs, or warns.
struct TraceCheck {
  const ScriptModule& traced;
  std::string method;
  const Traced& what;
  tern::Function<ScriptModule(const std::vector<tern::Value>& inputs)> again;  // traces anew
  double tolerance;
  void run(const std::vector<tern::Value>& inputs) const;
};

std::vector<tern::Value> fresh_copy(const std::vector<tern::Value>& inputs);

}  // namespace tern::jit
