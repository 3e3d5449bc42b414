// ScriptLayer: a ScriptModule as a part of a C++ module. Its tensors are parameters and buffers of the whole;
// in a trace its calls stay calls.
//   struct Net : nn::Module {
//     jit::ScriptLayer head = add("head", jit::ScriptLayer(jit::load("head.pt")));
//     Tensor forward(Tensor x) { return head(relu(x)).tensor(); }
//   };
#pragma once
#include "tern/jit/script_module.h"
#include "tern/nn/layer.h"

namespace tern::jit {

class ScriptLayer : public nn::Module {
 public:
  explicit ScriptLayer(ScriptModule module);
  const ScriptModule& module() const { return module_; }

  template <class... A>
  tern::Value operator()(const A&... args) const {
    return call("forward", args...);
  }
  template <class... A>
  tern::Value call(std::string_view method, const A&... args) const {
    std::vector<tern::Value> given{tree::to_value(args)...};
    return run(method, given);
  }
  tern::Value forward(const std::vector<tern::Value>& args) const { return run("forward", args); }

 private:
  tern::Value run(std::string_view method, const std::vector<tern::Value>& args) const;
  ScriptModule module_;
};

}  // namespace tern::jit
