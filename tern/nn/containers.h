// Modules that hold modules: Sequential, ModuleList, ModuleDict, and AnyLayer, which is any layer Tensor ->
// Tensor; ParameterList and ParameterDict, which hold parameters.
#pragma once
#include <initializer_list>
#include <typeinfo>

#include "tern/base/pointer.h"
#include "tern/nn/layer.h"

namespace tern::nn {

// Any module whose forward takes a tensor and gives a tensor. A handle, as every module.
class AnyLayer : public Module {
 public:
  template <class M>
  requires(std::is_base_of_v<Module, M> && !std::is_same_v<M, AnyLayer> &&
           requires(M & m, const Tensor& x) {
             { m.forward(x) } -> std::convertible_to<Tensor>;
           }) AnyLayer(const M& layer)
      : Module(layer), holder_(new_shared<Holder<M>>(layer)) {
    this->template name_type<M>();
  }
  AnyLayer(const AnyLayer& o) : Module(o), holder_(Cloning::current() ? o.holder_->copy() : o.holder_) {}

  Tensor operator()(const Tensor& x, Loc loc = Loc::here()) const { return holder_->call(x, loc); }
  Tensor forward(const Tensor& x) const { return (*this)(x, Loc{}); }
  // The layer as what it is; throws TypeError, naming both, when it is something else.
  template <class M>
  M& as() const {
    if (holder_->type() != typeid(M)) wrong_type(tree::type_name_of<M>());
    return static_cast<Holder<M>&>(*holder_).layer;
  }
  void rename(std::string_view name);  // the name calls are recorded under

 private:
  struct AnyHolder {
    virtual ~AnyHolder() = default;
    virtual Tensor call(const Tensor& x, Loc loc) = 0;
    virtual Shared<AnyHolder> copy() const = 0;
    virtual const std::type_info& type() const = 0;
    virtual Module& module() = 0;
  };
  template <class M>
  struct Holder : AnyHolder {
    explicit Holder(const M& l) : layer(l) {}
    Tensor call(const Tensor& x, Loc loc) override { return details::call_at(loc, layer, x); }
    Shared<AnyHolder> copy() const override { return new_shared<Holder>(layer); }
    const std::type_info& type() const override { return typeid(M); }
    Module& module() override { return layer; }
    M layer;
  };
  [[noreturn]] void wrong_type(std::string_view wanted) const;

  Shared<AnyHolder> holder_;
};

// One layer after the other. Children are numbered "0", "1", … or have the names they are given.
class Sequential : public Layer<Sequential> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.container.Sequential";
  static constexpr bool is_ours = true;
  Sequential() : items_(new_shared<std::vector<AnyLayer>>()) {}
  template <class... L>
  requires(sizeof...(L) > 0 && (std::is_base_of_v<Module, L> && ...) &&
           !(sizeof...(L) == 1 &&
             (std::is_same_v<L, Sequential> && ...))) explicit Sequential(const L&... layers)
      : Sequential() {
    (push_back(layers), ...);
  }
  explicit Sequential(std::initializer_list<std::pair<std::string_view, AnyLayer>> named) : Sequential() {
    for (const auto& [name, layer] : named) push_back(name, layer);
  }
  Sequential(const Sequential& o);

  void push_back(const AnyLayer& layer) { push_back(std::to_string(size()), layer); }
  void push_back(std::string_view name, const AnyLayer& layer);
  size_t size() const { return items_->size(); }
  const AnyLayer& operator[](size_t i) const;  // throws IndexError
  auto begin() const { return items_->begin(); }
  auto end() const { return items_->end(); }
  Tensor forward(const Tensor& x);

 private:
  Shared<std::vector<AnyLayer>> items_;
};

[[noreturn]] void index_out_of_range(std::string_view what, size_t index, size_t size);
[[noreturn]] void no_such_key(std::string_view key);

// Modules of one class in a row: nn::ModuleList<Block> blocks = add("blocks", nn::ModuleList<Block>()). It
// has no forward.
template <class M = AnyLayer>
class ModuleList : public Module {
 public:
  static constexpr const char* type_name = "torch.nn.modules.container.ModuleList";
  ModuleList() : items_(new_shared<std::vector<M>>()) { name_type<ModuleList>(); }
  ModuleList(std::initializer_list<M> items) : ModuleList() {
    for (const M& item : items) push_back(item);
  }
  ModuleList(const ModuleList& o) : Module(o), items_(o.items_) {
    if (Cloning::current()) items_ = new_shared<std::vector<M>>(*o.items_);
  }
  void push_back(const M& item) { items_->push_back(add(std::to_string(size()), item)); }
  size_t size() const { return items_->size(); }
  M& operator[](size_t i) const {
    if (i >= size()) index_out_of_range("ModuleList", i, size());
    return (*items_)[i];
  }
  auto begin() const { return items_->begin(); }
  auto end() const { return items_->end(); }

 private:
  Shared<std::vector<M>> items_;
};

// Modules of one class by name, in the order they were put in.
template <class M = AnyLayer>
class ModuleDict : public Module {
 public:
  static constexpr const char* type_name = "torch.nn.modules.container.ModuleDict";
  ModuleDict() : items_(new_shared<std::vector<std::pair<std::string, M>>>()) { name_type<ModuleDict>(); }
  ModuleDict(std::initializer_list<std::pair<std::string, M>> items) : ModuleDict() {
    for (const auto& [key, item] : items) insert(key, item);
  }
  ModuleDict(const ModuleDict& o) : Module(o), items_(o.items_) {
    if (Cloning::current()) items_ = new_shared<std::vector<std::pair<std::string, M>>>(*o.items_);
  }
  void insert(std::string_view key, const M& item) {
    M added = add(key, item);
    for (auto& [name, there] : *items_)
      if (name == key) {
        there.~M();
        ::new (&there) M(added);
        return;
      }
    items_->emplace_back(std::string(key), added);
  }
  bool contains(std::string_view key) const {
    for (const auto& [name, item] : *items_)
      if (name == key) return true;
    return false;
  }
  M& operator[](std::string_view key) const {
    for (auto& [name, item] : *items_)
      if (name == key) return item;
    no_such_key(key);
  }
  size_t size() const { return items_->size(); }
  auto begin() const { return items_->begin(); }
  auto end() const { return items_->end(); }

 private:
  Shared<std::vector<std::pair<std::string, M>>> items_;
};

// Parameters in a row. Plain tensors become parameters; assigning to an item replaces it in the module.
class ParameterList : public Module {
 public:
  static constexpr const char* type_name = "torch.nn.modules.container.ParameterList";
  ParameterList();
  ParameterList(std::initializer_list<Tensor> tensors);
  ParameterList(const ParameterList& o);
  void push_back(const Tensor& tensor);
  size_t size() const { return items_->size(); }
  Parameter& operator[](size_t i) const;  // throws IndexError
  auto begin() const { return items_->begin(); }
  auto end() const { return items_->end(); }

 private:
  Shared<std::vector<Parameter>> items_;
};

// Parameters by name, in the order they were put in.
class ParameterDict : public Module {
 public:
  static constexpr const char* type_name = "torch.nn.modules.container.ParameterDict";
  using Item = std::pair<std::string, Parameter>;
  ParameterDict();
  ParameterDict(std::initializer_list<std::pair<std::string_view, Tensor>> items);
  ParameterDict(const ParameterDict& o);
  void insert(std::string_view key, const Tensor& tensor);  // takes the place of one of that name
  bool contains(std::string_view key) const;
  size_t size() const { return items_->size(); }
  Parameter& operator[](std::string_view key) const;  // throws KeyError
  auto begin() const { return items_->begin(); }
  auto end() const { return items_->end(); }

 private:
  Parameter* find(std::string_view key) const;
  Shared<std::vector<Item>> items_;
};

}  // namespace tern::nn
