// What a Module's handles share. Only the nn room looks inside.
#pragma once
#include "tern/base/pointer.h"
#include "tern/nn/module.h"

namespace tern::nn {

struct Entry {
  std::string name;
  Shared<Slot> slot;
  bool persistent = true;
};

struct Child {
  std::string name;
  Shared<Module::State> state;
};

struct Module::State : SharedFromThis<Module::State> {
  std::string type;  // dotted: "torch.nn.modules.linear.Linear"
  std::string repr;  // "in_features=3, out_features=4, bias=True"
  std::vector<Entry> parameters, buffers;
  std::vector<Child> children;
  bool training = true;
  std::vector<std::pair<int, Function<Value(const Module&, const Value&)>>> pre_hooks;
  std::vector<std::pair<int, Function<Value(const Module&, const Value&, const Value&)>>> hooks,
      backward_hooks;
  int next_hook = 0;
  std::vector<std::pair<std::string, Value>> attributes;
  std::string exported;  // source of methods
  Value object;
};

template <class T>
T* find_named(std::vector<T>& all, std::string_view name) {
  for (T& one : all)
    if (one.name == name) return &one;
  return nullptr;
}

inline Shared<Slot> put(std::vector<Entry>& all, std::string_view name, const Tensor& tensor,
                        bool persistent) {
  Entry* entry = find_named(all, name);
  if (!entry) {
    all.push_back({std::string(name), new_shared<Slot>(), persistent});
    entry = &all.back();
  }
  entry->slot->tensor = tensor;
  entry->persistent = persistent;
  return entry->slot;
}

inline std::string_view last_part(std::string_view type) {
  if (type.empty()) return "Module";
  size_t dot = type.find('<') == std::string_view::npos ? type.rfind('.') : type.rfind('.', type.find('<'));
  return dot == std::string_view::npos ? type : type.substr(dot + 1);
}

}  // namespace tern::nn
