// All families' functions in one index.
#include <unordered_map>

#include "tern/dispatch/op.h"
#include "tern/onnx/lower.h"

namespace tern::onnx {

const Lowering* find_lowering(std::string_view qualified) {
  static const auto* index = [] {
    auto* map = new std::unordered_map<std::string_view, const Lowering*>;
    for (Span<const Lowering> table :
         {conv_lowerings(), pool_lowerings(), norm_lowerings(), view_lowerings(), index_lowerings(),
          join_lowerings(), linear_lowerings(), reduce_lowerings(), creation_lowerings(),
          arithmetic_lowerings(), activation_lowerings(), attention_lowerings(), sort_lowerings(),
          copy_lowerings(), rnn_lowerings(), quant_lowerings(), embedding_bag_lowerings()})
      for (const Lowering& l : table) map->emplace(l.op, &l);
    return map;
  }();
  auto it = index->find(qualified);
  return it == index->end() ? nullptr : it->second;
}

const Lowering* find_complex_lowering(std::string_view qualified) {
  for (const Lowering& l : complex_lowerings())
    if (l.op == qualified) return &l;
  return nullptr;
}

namespace {

// What the driver lowers itself: numbers taken from tensors, and assertions, which ONNX does not have.
bool is_number_or_assertion(std::string_view qualified) {
  for (std::string_view s : {"aten::sym_", "aten::item", "aten::_local_scalar_dense", "aten::_assert_",
                             "aten::_functional_assert", "aten::is_nonzero", "aten::size", "aten::numel"})
    if (qualified.starts_with(s)) return true;
  return false;
}

}  // namespace

bool can_lower(const Op& op) {
  std::string name = op.qualified();
  if (op.onnx || find_lowering(name) || find_complex_lowering(name) || is_number_or_assertion(name))
    return true;
  const Schema& s = op.schema();
  if (s.overload.view() != "Scalar") return false;
  const Op* twin = find_op(s.name, Symbol("Tensor"));
  return twin && twin->onnx && twin->schema().args.size() == s.args.size();
}

}  // namespace tern::onnx
