// Scripts that run inside a trace stay calls: prim::CallFunction, or prim::CallMethod for methods of the
// ScriptModules that belong to the traced module. Internal to this room.
#pragma once
#include <unordered_map>

#include "tern/base/pointer.h"
#include "tern/capture/trace.h"
#include "tern/script/unit.h"

namespace tern::jit {

class TraceCalls final : public script::CallRecorder {
 public:
  // `objects` are the script modules below the traced one, by path. While it lives it hears of this thread's
  // calls.
  explicit TraceCalls(std::unordered_map<const Box*, std::string> objects);
  ~TraceCalls() override;
  TraceCalls(const TraceCalls&) = delete;
  std::optional<tern::Value> call(const script::Function& function, Span<const tern::Value> inputs) override;

  // The functions that the graph calls, each under the name it has there.
  struct Called {
    std::string name;
    const script::Function* function;
    Shared<script::Unit> unit;  // keeps it
  };
  std::vector<Called> functions;

 private:
  std::string name_of(const script::Function& function);
  std::unordered_map<const Box*, std::string> objects_;
  script::CallRecorder* before_;
};

}  // namespace tern::jit
