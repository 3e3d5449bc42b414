// What an ONNX operator's import is made of. Importing a model runs it on fake tensors under a recorder: each
// operator is a function that computes its outputs with ATen calls. What is constant is computed for real.
// Inside this room only.
#pragma once
#include <optional>
#include <unordered_map>

#include "tern/onnx/model.h"
#include "tern/tensor/value.h"

namespace tern::onnx {

// A value of the model while it is imported.
struct Item {
  Tensor tensor = {};  // fake and recorded, or real: a constant. Undefined while only `ints` is known
  Tensor real = {};    // a weight's data, where the tensor stands for it
  std::optional<std::vector<SymInt>> ints =
      {};               // of an int64 tensor of at most one dim whose elements are sizes
  bool scalar = false;  // `ints` has no dim
  std::optional<std::vector<Item>> sequence = {};
  bool defined() const { return tensor.defined() || ints || sequence; }
};

class Importer;

// One node.
class Importing {
 public:
  Importing(Importer& importer, const NodeProto& node, std::vector<Item> inputs, int64_t opset)
      : importer_(importer),
        node_(node),
        inputs_(std::move(inputs)),
        opset_(opset),
        outputs_(node.outputs.size()) {}

  const NodeProto& node() const { return node_; }
  int64_t opset() const { return opset_; }
  size_t size() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].defined(); }
  bool wants(size_t k) const { return k < node_.outputs.size() && !node_.outputs[k].empty(); }
  Tensor in(size_t i);                                            // throws where it is left out
  Tensor in_or_none(size_t i);                                    // undefined where it is left out
  const Item& item(size_t i) const { return inputs_[given(i)]; }  // as `in`, not yet a tensor
  std::vector<SymInt> sizes(size_t i);       // elements of an int tensor; computed ones become symbols
  std::vector<int64_t> constants(size_t i);  // refuses where they are computed by the model
  std::optional<Tensor> constant(size_t i);  // the data, where it is known
  double constant_number(size_t i, double otherwise);

  bool has_attribute(std::string_view name) const { return node_.find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> ints(std::string_view name) const;  // empty if absent
  std::vector<double> floats(std::string_view name) const;

  // An ATen call by name.
  tern::Value call(const char* op, std::vector<tern::Value> args);
  Tensor operator()(const char* op, std::vector<tern::Value> args) {
    return call(op, std::move(args)).take_tensor();
  }
  std::vector<tern::Value> call_many(const char* op, std::vector<tern::Value> args);

  void out(Tensor t, size_t k = 0) { outputs_.at(k) = {std::move(t)}; }
  void out(Item item, size_t k = 0) { outputs_.at(k) = std::move(item); }
  [[noreturn]] void refuse(std::string_view why) const;

  Importer& importer() { return importer_; }
  std::vector<Item>& outputs() { return outputs_; }

 private:
  size_t given(size_t i) const;

  Importer& importer_;
  const NodeProto& node_;
  std::vector<Item> inputs_;
  int64_t opset_;
  std::vector<Item> outputs_;
};

struct Import {
  std::string_view op;
  void (*import)(Importing& n);
};
Span<const Import> math_imports();
Span<const Import> shape_imports();
Span<const Import> nn_imports();
Span<const Import> index_imports();
Span<const Import> rnn_imports();
Span<const Import> signal_imports();
const Import* find_import(std::string_view op);

// A list of ints as an argument.
inline tern::Value list(const std::vector<int64_t>& v) {
  Dims d;
  for (int64_t i : v) d.push_back(i);
  return tern::Value(Span<const SymInt>(d.data(), d.size()));
}
inline tern::Value list(const std::vector<SymInt>& v) {
  return tern::Value(Span<const SymInt>(v.data(), v.size()));
}

}  // namespace tern::onnx
