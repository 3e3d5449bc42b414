#include "tern/ir/type_merge.h"

namespace tern::ir {

const Type* merged(const Type* a, const Type* b) {
  if (a == b) return a;
  if (!a->is_tensor() || !b->is_tensor()) return Type::any();
  TensorInfo x = a->info(), y = b->info(), out;
  if (x.dtype == y.dtype) out.dtype = x.dtype;
  if (x.device == y.device) out.device = x.device;
  if (x.requires_grad == y.requires_grad) out.requires_grad = x.requires_grad;
  auto together = [](const std::optional<Dims>& p, const std::optional<Dims>& q) -> std::optional<Dims> {
    if (!p || !q || p->size() != q->size()) return std::nullopt;
    Dims dims = *p;
    for (size_t i = 0; i < dims.size(); ++i)
      if (dims[i].bits() != (*q)[i].bits()) dims[i] = unknown_dim;
    return dims;
  };
  out.sizes = together(x.sizes, y.sizes);
  if (out.sizes) out.strides = together(x.strides, y.strides);
  if (out.strides)
    for (SymInt s : *out.strides)
      if (s.is_int() && s.as_int() < 0) {
        out.strides.reset();
        break;
      }
  return Type::tensor(out);
}

}  // namespace tern::ir
