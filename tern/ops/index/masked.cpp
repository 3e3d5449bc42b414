// Masks: filling, selecting, and the places of nonzero elements.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/checks.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/index/indices.h"
#include "tern/ops/masked.args.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

void check_mask(const char* op, const Tensor& mask) {
  if (mask.dtype() != kBool)
    failf("{}: only supports boolean masks, but got mask with dtype {}", op, script_name(mask.dtype()));
}
Shapes masked_shape(const char* op, const Tensor& self, const Tensor& mask) {
  check_mask(op, mask);
  Dims sizes = broadcast_sizes(self.sizes(), mask.sizes());
  return {Shape(std::move(sizes), self.dtype())};
}
void fill_masked(const Tensor& self, const Tensor& mask, const Scalar& value, const Tensor& out) {
  if (self.dtype() != kBool && !is_complex(self.dtype()) && value.is_complex() &&
      value.to_complex().imag() != 0)
    failf("value cannot be converted to type {} without overflow", script_name(self.dtype()));
  if (out.int_numel() == 0) return;
  // A few elements, one after the other in all three.
  constexpr int64_t few = 256;
  if (const int64_t n = out.int_numel(); n <= few && self.int_numel() == n && mask.int_numel() == n &&
                                         out.is_contiguous() && self.is_contiguous() &&
                                         mask.is_contiguous()) {
    const Tensor one = tensor(value, {.dtype = self.dtype()});
    const bool* chosen = mask.data_ptr<bool>();
    return by_element_size(self.dtype(), [&](auto zero) {
      using T = decltype(zero);
      const T *from = static_cast<const T*>(self.data()), filling = *static_cast<const T*>(one.data());
      T* to = static_cast<T*>(out.data());
      for (int64_t i = 0; i < n; ++i) to[i] = chosen[i] ? filling : from[i];
    });
  }
  // A choice between bits, whatever they stand for.
  const int64_t width = self.element_size();
  const DType bits = width == 1   ? DType::uint8
                     : width == 2 ? DType::int16
                     : width == 4 ? DType::int32
                     : width == 8 ? DType::int64
                                  : DType::complex128;
  Tensor one = tensor(value, {.dtype = self.dtype()}), where = expand_view(mask, out.sizes()),
         from = expand_view(self, out.sizes());
  const SmallVector<int64_t, 6> still(static_cast<size_t>(out.dim()), 0);
  const DType types[] = {kBool, bits, bits};
  const kernels::Operand inputs[] = {{where.data(), kBool, where.int_strides()},
                                     {one.data(), bits, still.data()},
                                     {from.data(), bits, from.int_strides()}};
  const kernels::Operand to{out.data(), bits, out.int_strides()};
  kernels::run_pointwise(kernels::find_loop("where", bits), types, bits, static_cast<int>(out.dim()),
                         out.int_sizes(), &to, 1, inputs, 3, nullptr);
}

}  // namespace

Shapes shape_masked_fill_Scalar(const args::masked_fill_Scalar& a) {
  return masked_shape("masked_fill_", a.self, a.mask);
}
void kernel_masked_fill_Scalar(const args::masked_fill_Scalar& a, Out out) {
  check_fits(a.value, a.self.dtype());
  fill_masked(a.self, a.mask, a.value, out[0]);
}
Tensor body_masked_fill_Scalar(const args::masked_fill_Scalar& a) {
  check_mask("masked_fill_", a.mask);
  return where(a.mask, scalar_tensor(a.value, a.self.dtype(), {}, a.self.device()), a.self);
}
Shapes shape_masked_fill_Tensor(const args::masked_fill_Tensor& a) {
  if (a.value.dim() != 0)
    failf("masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
          a.value.dim());
  return masked_shape("masked_fill_", a.self, a.mask);
}
void kernel_masked_fill_Tensor(const args::masked_fill_Tensor& a, Out out) {
  fill_masked(a.self, a.mask, read_scalar(a.value), out[0]);
}
Tensor body_masked_fill_Tensor(const args::masked_fill_Tensor& a) {
  check_mask("masked_fill_", a.mask);
  return where(a.mask, to(a.value, a.self.dtype()), a.self);
}

Tensor nonzero_positions(const Tensor& t) {
  Tensor truth = row_major(t, kBool);
  const bool* p = static_cast<const bool*>(truth.data());
  int64_t n = truth.int_numel(), dims = t.dim(), count = std::count(p, p + n, true);
  // A dimension after the other in memory, as PyTorch lays them out.
  Tensor out =
      make_tensor({SymInt(count), SymInt(dims)}, {SymInt(1), SymInt(std::max<int64_t>(count, 1))}, kLong);
  int64_t* to = static_cast<int64_t*>(out.data());
  for (int64_t i = 0; i < n; ++i) {
    if (!p[i]) continue;
    int64_t rest = i;
    for (int64_t d = dims; d-- > 0;) {
      to[d * count] = rest % t.int_sizes()[d];
      rest /= t.int_sizes()[d];
    }
    ++to;
  }
  return out;
}
Tensor kernel_nonzero(const args::nonzero& a) { return nonzero_positions(a.self); }
Shapes shape_nonzero(const args::nonzero& a) {
  return {Shape(Dims{unknown_size("nonzero", a.self), SymInt(a.self.dim())}, kLong)};
}
std::vector<Tensor> body_nonzero_numpy(const args::nonzero_numpy& a) {
  Tensor self = a.self.dim() == 0 ? unsqueeze(a.self, 0) : a.self;
  return unbind(nonzero(self), 1);
}

Tensor kernel_masked_select(const args::masked_select& a) {
  check_mask("masked_select", a.mask);
  Dims sizes = broadcast_sizes(a.self.sizes(), a.mask.sizes());
  Tensor self = row_major(expand_view(a.self, sizes)), mask = row_major(expand_view(a.mask, sizes));
  const bool* m = static_cast<const bool*>(mask.data());
  int64_t n = mask.int_numel();
  Tensor out = make_tensor({SymInt(std::count(m, m + n, true))}, self.dtype());
  by_element_size(self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(self.data());
    T* to = static_cast<T*>(out.data());
    for (int64_t i = 0; i < n; ++i)
      if (m[i]) *to++ = from[i];
  });
  return out;
}
Shapes shape_masked_select(const args::masked_select& a) {
  check_mask("masked_select", a.mask);
  broadcast_sizes(a.self.sizes(), a.mask.sizes());
  return {Shape(Dims{unknown_size("masked_select", a.mask)}, a.self.dtype())};
}
Tensor masked_select_backward(const Tensor& grad, Span<const SymInt> sizes, const Tensor& mask) {
  Dims common = broadcast_sizes(sizes, mask.sizes());
  Tensor spread = masked_scatter(zeros(common, grad.dtype(), {}, grad.device()), expand(mask, common), grad);
  return sum_to(spread, sizes);
}

Shapes shape_masked_scatter(const args::masked_scatter& a) {
  if (a.self.dtype() != a.source.dtype())
    failf("masked_scatter: expected self and source to have same dtypes but got {} and {}",
          script_name(a.self.dtype()), script_name(a.source.dtype()));
  return masked_shape("masked_scatter_", a.self, a.mask);
}
void kernel_masked_scatter(const args::masked_scatter& a, Out out) {
  copy_elements(a.self, out[0]);
  Tensor mask = row_major(expand_view(a.mask, out[0].sizes())), source = row_major(a.source);
  const bool* m = static_cast<const bool*>(mask.data());
  int64_t n = mask.int_numel(), count = std::count(m, m + n, true);
  if (count > source.int_numel()) failf("Number of elements of source < number of ones in mask");
  by_element_size(out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(source.data());
    T* to = static_cast<T*>(out[0].data());
    Walk<1> walk(out[0].dim(), out[0].int_sizes());
    walk.operand(0, out[0].int_strides());
    for (int64_t i = 0; i < n; ++i, walk.next())
      if (m[i]) to[walk.offset(0)] = *from++;
  });
}
Shapes shape_masked_scatter_backward(const args::masked_scatter_backward& a) {
  return {Shape(a.sizes, a.grad_output.dtype())};
}
void kernel_masked_scatter_backward(const args::masked_scatter_backward& a, Out out) {
  fill_elements(out[0], 0);
  Dims sizes = broadcast_sizes(a.grad_output.sizes(), a.mask.sizes());
  Tensor grad = row_major(expand_view(a.grad_output, sizes)), mask = row_major(expand_view(a.mask, sizes));
  const bool* m = static_cast<const bool*>(mask.data());
  by_element_size(out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(grad.data());
    T *to = static_cast<T*>(out[0].data()), *end = to + out[0].int_numel();
    for (int64_t i = 0; i < mask.int_numel() && to != end; ++i)
      if (m[i]) *to++ = from[i];
  });
}

}  // namespace tern
