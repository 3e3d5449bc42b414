#include "tern/nn/containers.h"

#include "tern/base/format.h"

namespace tern::nn {

void AnyLayer::rename(std::string_view name) {
  holder_ = holder_->copy();  // another copy of this handle keeps its own name
  holder_->module().set_name(name);
}
void AnyLayer::wrong_type(std::string_view wanted) const {
  failf(ErrorKind::type, "AnyLayer::as: the layer is a {}, not a {}", this->type_name(), wanted);
}

Sequential::Sequential(const Sequential& o) : Layer(o), items_(o.items_) {
  if (Cloning::current()) items_ = new_shared<std::vector<AnyLayer>>(*o.items_);
}
void Sequential::push_back(std::string_view name, const AnyLayer& layer) {
  AnyLayer added = add(name, layer);
  added.rename(name);
  items_->push_back(added);
}
const AnyLayer& Sequential::operator[](size_t i) const {
  if (i >= size()) index_out_of_range("Sequential", i, size());
  return (*items_)[i];
}
Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const AnyLayer& layer : *items_) y = layer(y, thread_state.loc);
  return y;
}

void index_out_of_range(std::string_view what, size_t index, size_t size) {
  failf(ErrorKind::index, "{}: index {} is out of range for {} modules", what, index, size);
}
void no_such_key(std::string_view key) { failf(ErrorKind::value, "ModuleDict has no key '{}'", key); }

}  // namespace tern::nn
