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

ParameterList::ParameterList() : items_(new_shared<std::vector<Parameter>>()) { name_type<ParameterList>(); }
ParameterList::ParameterList(std::initializer_list<Tensor> tensors) : ParameterList() {
  for (const Tensor& t : tensors) push_back(t);
}
ParameterList::ParameterList(const ParameterList& o) : Module(o), items_(o.items_) {
  if (Cloning::current()) items_ = new_shared<std::vector<Parameter>>(*o.items_);
}
void ParameterList::push_back(const Tensor& tensor) {
  items_->push_back(register_parameter(std::to_string(size()), tensor));
}
Parameter& ParameterList::operator[](size_t i) const {
  if (i >= size()) index_out_of_range("ParameterList", i, size());
  return (*items_)[i];
}

ParameterDict::ParameterDict() : items_(new_shared<std::vector<Item>>()) { name_type<ParameterDict>(); }
ParameterDict::ParameterDict(std::initializer_list<std::pair<std::string_view, Tensor>> items)
    : ParameterDict() {
  for (const auto& [key, tensor] : items) insert(key, tensor);
}
ParameterDict::ParameterDict(const ParameterDict& o) : Module(o), items_(o.items_) {
  if (Cloning::current()) items_ = new_shared<std::vector<Item>>(*o.items_);
}
void ParameterDict::insert(std::string_view key, const Tensor& tensor) {
  Parameter added = register_parameter(key, tensor);
  if (Parameter* there = find(key))
    *there = tensor;
  else
    items_->emplace_back(std::string(key), added);
}
bool ParameterDict::contains(std::string_view key) const { return find(key) != nullptr; }
Parameter& ParameterDict::operator[](std::string_view key) const {
  if (Parameter* found = find(key)) return *found;
  no_such_key(key);
}
Parameter* ParameterDict::find(std::string_view key) const {
  for (Item& item : *items_)
    if (item.first == key) return &item.second;
  return nullptr;
}

}  // namespace tern::nn
