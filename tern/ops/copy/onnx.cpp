// Copies in ONNX: values never change there, so a copy is its source; what is left are casts.
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

void lower_same(Call& c) { c.set(c.tensor(0)); }

void lower_cast(Call& c) {
  Ref x = c.tensor(0);
  if (c.dtype() == DType::undefined) return c.set(x);
  c.set(c.cast(x, c.dtype()));
}

template <size_t I>
void lower_to(Call& c) {  // the dtype is argument I
  Ref x = c.tensor(0);
  DType d = c.dtype_argument(I);
  c.set(d == DType::undefined ? x : c.cast(x, d));
}

void lower_to_other(Call& c) { c.set(c.cast(c.tensor(0), c.tensor(1).dtype)); }

void lower_copy(Call& c) {  // (self, src): src in self's dtype and sizes
  Ref self = c.tensor(0), src = c.cast(c.tensor(1), self.dtype);
  const ir::Type *a = c.type(0), *b = c.type(1);
  bool same = a->has_sizes() && b->has_sizes() && a->sizes().size() == b->sizes().size();
  for (size_t d = 0; same && d < a->sizes().size(); ++d) same = surely_eq(a->sizes()[d], b->sizes()[d]);
  c.set(same ? src : c.emit("Expand", {src, c.shape(self)}));
}

constexpr Lowering table[] = {
    {"aten::clone", lower_same},
    {"aten::contiguous", lower_same},
    {"aten::detach", lower_same},
    {"aten::alias", lower_same},
    {"aten::lift_fresh", lower_same},
    {"aten::lift_fresh_copy", lower_same},
    {"aten::resolve_conj", lower_same},
    {"aten::resolve_neg", lower_same},
    {"aten::_to_copy", lower_cast},
    {"aten::to.dtype", lower_to<1>},
    {"aten::to.dtype_layout", lower_to<1>},
    {"aten::to.device", lower_to<2>},
    {"aten::to.prim_Device", lower_to<2>},
    {"aten::to.other", lower_to_other},
    {"aten::type_as", lower_to_other},
    {"aten::copy", lower_copy},
};

}  // namespace

Span<const Lowering> copy_lowerings() { return table; }

}  // namespace tern::onnx
