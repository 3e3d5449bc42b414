// Pickled values of PyTorch → Values: tensors over shared storages, containers, objects of a Unit. Internal
// to this room.
#pragma once
#include <unordered_map>

#include "tern/base/flat_map.h"
#include "tern/base/function.h"
#include "tern/base/pointer.h"
#include "tern/io/pickle.h"
#include "tern/jit/script_module.h"

namespace tern::jit {

// The bytes of a storage by its key ("0"); `bytes` is what the pickle says it needs.
using StorageReader = tern::Function<io::Blob(std::string_view key, uint64_t bytes)>;

// What PyTorch left to do when it saved a tensor.
struct LazyBits {
  bool conj = false, neg = false;
};

class Unpickler {
 public:
  Unpickler(std::string label, StorageReader storages, Shared<script::Unit> unit = nullptr)
      : label_(std::move(label)), storages_(std::move(storages)), unit_(std::move(unit)) {}

  tern::Value read(const io::Pickle& p);

  bool opaque_classes = false;  // what is not known is kept as its name; a whole nn.Module is its state
  bool without_data = false;    // tensors are on the meta device
  bool keep_kinds = false;      // what Python has as a kind of its own is a PythonKind
  // For formats that name whole tensors.
  void set_tensor(const std::string& key, const Storage& s, const Dims& sizes, const Dims& strides,
                  int64_t offset, DType dtype);

 private:
  [[noreturn]] void bad(std::string_view what) const;
  tern::Value make(const io::Pickle& p);
  tern::Value of_kind(std::string_view kind, tern::Value v) const;
  tern::Value read_plain(const io::Pickle& p);  // without its kind, for who knows what it is
  tern::Value object(const io::Pickle& p);
  // The call `module.name(*args)` that the pickle asks for.
  tern::Value call(std::string_view module, std::string_view name, const io::Pickle& args,
                   const io::Pickle& p);
  tern::Value opaque(std::string_view module, std::string_view name, const io::Pickle& p);
  void collect_state(const io::Pickle& module, const std::string& prefix, int depth,
                     std::vector<std::pair<tern::Value, tern::Value>>& entries);
  tern::Value instance(const io::Pickle& p, std::string_view class_name);
  tern::Value native(const io::Pickle& p, std::string_view class_name);
  tern::Value quantized_tensor(const io::Pickle& args);
  tern::Value nested_tensor(const io::Pickle& args);
  tern::Value bare_storage(const io::Pickle& p);
  std::string unknown_tensor(std::string_view function, const io::Pickle& args);
  static LazyBits bits_in(const io::Pickle& args, size_t i);
  tern::Value tensor(const io::Pickle& storage, const io::Pickle& offset, const io::Pickle& size,
                     const io::Pickle& stride, bool requires_grad, std::optional<DType> dtype,
                     LazyBits bits = {});
  Tensor tensor_over(const Storage& s, const Dims& sizes, const Dims& strides, int64_t offset, DType dtype);
  tern::Value dict(const io::Pickle& p);
  Storage storage(const io::Pickle& p, DType& dtype);
  Dims dims(const io::Pickle& p);

  std::string label_;
  StorageReader storages_;
  Shared<script::Unit> unit_;
  FlatMap<uint32_t, tern::Value> memo_;
  std::unordered_map<std::string, Storage> by_key_;
  std::unordered_map<std::string, Tensor> tensors_;  // by key
  FlatSet<uint32_t> busy_;                           // values that are being made
  int depth_ = 0;
};

// An object of a class that is not known.
struct Opaque final : Box {
  std::string class_name;
  static tern::Value make(std::string name);
};

// Element types of lists and dicts from what the class says about the attribute.
void apply_type(const tern::Value& value, const ir::Type& type);

}  // namespace tern::jit
