// Joining tensors in ONNX.
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

// PyTorch leaves out empty tensors of one dimension, whatever the others look like.
void lower_cat(Call& c) {
  Inputs parts;
  size_t i = 0;
  const ir::Operand& list = c.node().input(0);
  for (Ref& r : c.tensors(0)) {
    bool legacy_empty = false;
    if (list.is_list()) {
      const ir::Type* t = list.list()[i].type();
      legacy_empty =
          t && t->is_tensor() && t->has_sizes() && t->sizes().size() == 1 && t->sizes()[0].maybe_int() == 0;
    }
    ++i;
    if (!legacy_empty) parts.push_back(c.dtype() == DType::undefined ? r : c.cast(r, c.dtype()));
  }
  if (parts.empty()) c.refuse("all tensors are empty");
  c.set(parts.size() == 1 ? parts[0] : c.emit("Concat", parts, {Attribute::of("axis", c.integer(1))}));
}

void lower_stack(Call& c) {
  Inputs parts;
  int64_t axis = c.integer(1);
  for (Ref& r : c.tensors(0))
    parts.push_back(c.unsqueeze(c.dtype() == DType::undefined ? r : c.cast(r, c.dtype()), {axis}));
  c.set(parts.size() == 1 ? parts[0] : c.emit("Concat", parts, {Attribute::of("axis", axis)}));
}

constexpr Lowering table[] = {
    {"aten::cat", lower_cat},
    {"aten::concat", lower_cat},
    {"aten::concatenate", lower_cat},
    {"aten::stack", lower_stack},
};

}  // namespace

Span<const Lowering> join_lowerings() { return table; }

}  // namespace tern::onnx
