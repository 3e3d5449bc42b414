// What the view families' gradient formulas are written with.
#include "tern/ops/formulas.h"

#include "tern/dispatch/grad_context.h"
#include "tern/ops.h"

namespace tern {

SmallVector<int64_t, 6> inverse_permutation(Ints dims) {
  SmallVector<int64_t, 6> inverse(dims.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i)
    inverse[wrap_dim(dims[i], static_cast<int64_t>(dims.size()))] = static_cast<int64_t>(i);
  return inverse;
}

SmallVector<int64_t, 6> swapped_dims(int64_t ndim, int64_t a, int64_t b) {
  SmallVector<int64_t, 6> dims;
  for (int64_t d = 0; d < ndim; ++d) dims.push_back(d);
  if (ndim > 0) std::swap(dims[wrap_dim(a, ndim)], dims[wrap_dim(b, ndim)]);
  return dims;
}

SmallVector<int64_t, 6> reversed_dims(int64_t ndim) {
  SmallVector<int64_t, 6> dims;
  for (int64_t d = ndim; d-- > 0;) dims.push_back(d);
  return dims;
}

Dims negated(Span<const SymInt> values) {
  Dims result;
  for (SymInt v : values) result.push_back(-v);
  return result;
}

std::vector<Tensor> list_gradients(GradContext& c) {
  std::vector<Tensor> list;
  for (size_t i = 0; i < c.incoming.size(); ++i) list.push_back(c.grad(static_cast<int>(i)));
  return list;
}

Tensor as_strided_backward(const Tensor& grad, const Tensor& self, Span<const SymInt> size,
                           Span<const SymInt> stride, std::optional<SymInt> offset) {
  // The memory as one row, in which both geometries are lists of positions. Elements of the view that share
  // memory add up.
  SymInt extent = self.offset() + 1, reach = offset.value_or(self.offset()) + 1;
  for (int64_t d = 0; d < self.dim(); ++d) extent = extent + (self.sizes()[d] - 1) * self.strides()[d];
  for (size_t d = 0; d < size.size(); ++d) reach = reach + (size[d] - 1) * stride[d];
  SymInt length = surely_le(reach, extent) ? extent : sym_max(reach, extent);
  Tensor positions = arange(Scalar(length), kLong, {}, grad.device());
  Tensor at = reshape(as_strided(positions, size, stride, offset.value_or(self.offset())), {-1});
  Tensor memory = index_add(zeros({length}, grad.dtype(), {}, grad.device()), 0, at, reshape(grad, {-1}));
  return as_strided(memory, self.sizes(), self.strides(), self.offset());
}

Tensor repeat_backward(const Tensor& grad, Span<const SymInt> repeats, Span<const SymInt> sizes) {
  if (surely_eq(product(repeats), 0)) return zeros(sizes, grad.dtype(), {}, grad.device());
  // The leading repeats add dimensions; each other one splits its dimension into (repeat, size).
  Dims split;
  SmallVector<int64_t, 6> dims;
  int64_t lead = static_cast<int64_t>(repeats.size() - sizes.size());
  for (size_t d = 0; d < repeats.size(); ++d) {
    dims.push_back(static_cast<int64_t>(split.size()));
    split.push_back(repeats[d]);
    if (static_cast<int64_t>(d) >= lead) split.push_back(sizes[d - lead]);
  }
  if (dims.empty()) return grad;
  return sum(reshape(grad, split), dims, false);
}

}  // namespace tern
