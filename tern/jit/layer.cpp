#include "tern/jit/layer.h"

namespace tern::jit {
namespace {

// The same tensors and children, under the same names.
void mirror(const ScriptModule& from, nn::Module& into) {
  std::string type = from.type_name();
  into.set_type(type.starts_with("__torch__.") ? type.substr(10) : type);
  into.set_object(from.object());
  for (auto& [name, t] : from.named_parameters(false)) into.register_parameter(name, t);
  for (auto& [name, t] : from.named_buffers(false)) into.register_buffer(name, t);
  for (auto& [name, child] : from.named_children()) {
    nn::Module part;
    mirror(child, part);
    into.add_member(name, part);
  }
}

}  // namespace

ScriptLayer::ScriptLayer(ScriptModule module) : module_(std::move(module)) {
  mirror(module_, *this);
  Module::train(module_.is_training());
}

tern::Value ScriptLayer::run(std::string_view method, const std::vector<tern::Value>& args) const {
  EnterScope scope(scope_path(), scope_type(), id());
  return module_.call(method, args);
}

}  // namespace tern::jit
