// What a line of names.ops cannot say: sizes as lists, and tensors that get other memory or lose their
// history.
#include <algorithm>
#include <cstring>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/names.args.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

Tensor take_over(const Tensor& self, const Storage& storage, Dims sizes, Dims strides, SymInt offset) {
  self->storage = storage;
  Tensor view = self.as_view(std::move(sizes), std::move(strides), offset);
  self->sizes = view->sizes;
  self->strides = view->strides;
  self->offset = view->offset;
  self->numel = view->numel;
  self->contiguous = view->contiguous;
  self->symbolic = view->symbolic;
  ++self->storage->version;
  return self;
}

}  // namespace

Tensor body_matrix_H(const args::matrix_H& a) {
  if (a.self.dim() == 0) return a.self;
  if (a.self.dim() != 2)
    failf(
        "tensor.H is only supported on matrices (2-D tensors). Got {}-D tensor. For batches of matrices, "
        "consider using tensor.mH",
        a.self.dim());
  return adjoint(a.self);
}

Tensor body_sum_to_size(const args::sum_to_size& a) {
  int64_t lead = a.self.dim() - static_cast<int64_t>(a.size.size());
  bool fits = lead >= 0;
  for (int64_t d = 0; fits && d < static_cast<int64_t>(a.size.size()); ++d)
    fits = a.size[d] == 1 || a.size[d] == a.self.sizes()[d + lead];
  if (!fits) failf("size {} is not expandable to size {}.", str(a.size), str(a.self.sizes()));
  if (a.size.empty()) return sum(a.self, Ints());
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < a.self.dim(); ++d)
    if (d < lead || (surely_eq(a.size[d - lead], 1) && !surely_eq(a.self.sizes()[d], 1))) dims.push_back(d);
  if (dims.empty()) return a.self;
  Tensor summed = sum(a.self, dims, true);
  return lead ? reshape(summed, a.size) : summed;
}

Value body_sym_size(const args::sym_size& a) { return Value(a.self.sizes()); }
Value body_sym_stride(const args::sym_stride& a) { return Value(a.self.strides()); }

Tensor body__shape_as_tensor(const args::_shape_as_tensor& a) {
  std::vector<Tensor> sizes;
  bool symbolic = false;
  for (int64_t d = 0; d < a.self.dim(); ++d) symbolic |= a.self.size(d).is_symbolic();
  if (!symbolic) {
    Tensor t = make_tensor({SymInt(a.self.dim())}, kLong);
    for (int64_t d = 0; d < a.self.dim(); ++d) t.data_ptr<int64_t>()[d] = a.self.int_sizes()[d];
    return t;
  }
  for (int64_t d = 0; d < a.self.dim(); ++d) sizes.push_back(scalar_tensor(a.self.size(d), kLong));
  return stack(sizes);
}
Tensor body__reshape_from_tensor(const args::_reshape_from_tensor& a) {
  if (a.shape.dim() != 1)
    failf("_reshape_from_tensor: the shape must be a 1-D tensor, but it has {} dimensions", a.shape.dim());
  Dims sizes;
  int64_t n = a.shape.sizes()[0].guard_int();
  for (int64_t i = 0; i < n; ++i) sizes.push_back(select(a.shape, 0, i).item().sym());
  return reshape(a.self, sizes);
}

Tensor kernel_detach_(const args::detach_& a) {
  if (a.self->base)
    fail(
        "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) "
        "for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and "
        "hence detach_() cannot be called on these gradients. To fix this error, please refer to the "
        "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution.");
  TensorBody* body = a.self.body();
  if (body->autograd && body->free_autograd) body->free_autograd(body->autograd);
  body->autograd = nullptr;
  body->requires_grad = false;
  body->rungs = static_cast<uint8_t>(body->rungs & ~rung_autograd);
  return a.self;
}

Tensor kernel_set_(const args::set_& a) {
  return take_over(a.self, Storage::allocate(0), Dims{SymInt(0)}, Dims{SymInt(1)}, 0);
}
Tensor kernel_set__source_Storage(const args::set__source_Storage& a) {
  SymInt count = static_cast<int64_t>(a.source.storage()->bytes / static_cast<size_t>(a.self.element_size()));
  return take_over(a.self, a.source.storage(), Dims{count}, Dims{SymInt(1)}, 0);
}
Tensor kernel_set__source_Storage_storage_offset(const args::set__source_Storage_storage_offset& a) {
  Dims strides = a.stride.empty() ? contiguous_strides(a.size) : Dims(a.stride);
  Tensor all = a.self.shallow_copy();
  SymInt count = static_cast<int64_t>(a.source.storage()->bytes / static_cast<size_t>(a.self.element_size()));
  take_over(all, a.source.storage(), Dims{count}, Dims{SymInt(1)}, 0);
  strided_view(all, a.size, strides, a.storage_offset);  // checks the bounds
  return take_over(a.self, a.source.storage(), Dims(a.size), std::move(strides), a.storage_offset);
}
Tensor kernel_set__source_Tensor(const args::set__source_Tensor& a) {
  if (a.self.dtype() != a.source.dtype())
    failf("Could not set tensor of type {} to a tensor of type {}", name(a.source.dtype()),
          name(a.self.dtype()));
  return take_over(a.self, a.source.storage(), Dims(a.source.sizes()), Dims(a.source.strides()),
                   a.source.offset());
}
Tensor kernel_set__source_Tensor_storage_offset(const args::set__source_Tensor_storage_offset& a) {
  if (a.self.dtype() != a.source.dtype())
    failf("Could not set tensor of type {} to a tensor of type {}", name(a.source.dtype()),
          name(a.self.dtype()));
  Dims strides = a.stride.empty() ? contiguous_strides(a.size) : Dims(a.stride);
  Tensor view = strided_view(a.source, a.size, strides, a.storage_offset);
  return take_over(a.self, a.source.storage(), Dims(a.size), std::move(strides), a.storage_offset);
}
namespace {

void check_resize(Span<const SymInt> size, MemoryFormat format) {
  for (SymInt s : size)
    if (s.is_int() && s.as_int() < 0)
      failf("Trying to create tensor with negative dimension {}: {}", s.as_int(), str(size));
  if (format == MemoryFormat::preserve)
    fail("Unsupported memory format Preserve: resize_ takes contiguous or channels_last");
}

Tensor resize_in_place(const Tensor& self, Span<const SymInt> size, std::optional<MemoryFormat> given) {
  const MemoryFormat format = given.value_or(MemoryFormat::contiguous);
  check_resize(size, format);
  if (self.requires_grad()) fail("cannot resize variables that require grad");
  bool same = self.sizes().size() == size.size();
  for (size_t d = 0; same && d < size.size(); ++d) same = self.sizes()[d] == size[d];
  Dims strides = strides_for(size, format);
  if (!same && !self.is_fake()) {
    const Tensor wanted = make_tensor(size, self.dtype(), kMeta, true);  // refuses what cannot be
    const int64_t bytes = (wanted.int_numel() + self.offset().as_int()) * self.element_size();
    if (static_cast<size_t>(bytes) > self->storage->bytes) self->storage.grow(static_cast<size_t>(bytes));
  }
  if (same && !given) return self;
  return take_over(self, self->storage, Dims(size), strides.empty() ? contiguous_strides(size) : strides,
                   self.offset());
}

// "Preserve" is as the template is.
std::optional<MemoryFormat> format_of(const Tensor& t, std::optional<MemoryFormat> asked) {
  if (asked != MemoryFormat::preserve) return asked;
  for (MemoryFormat last : {MemoryFormat::channels_last, MemoryFormat::channels_last_3d})
    if (!t.is_contiguous() && t.is_contiguous(last)) return last;
  return MemoryFormat::contiguous;
}

}  // namespace

Tensor kernel_resize_(const args::resize_& a) { return resize_in_place(a.self, a.size, a.memory_format); }
Tensor kernel_resize_as_(const args::resize_as_& a) {
  return resize_in_place(a.self, a.the_template.sizes(), format_of(a.the_template, a.memory_format));
}

Shapes shape_resize(const args::resize& a) {
  const MemoryFormat format = a.memory_format.value_or(MemoryFormat::contiguous);
  check_resize(a.size, format);
  return {Shape(Dims(a.size), a.self.dtype(), strides_for(a.size, format))};
}
// Of the memory that a clone would have: as it is, without gaps.
void kernel_resize(const args::resize& a, Out out) {
  const int64_t count = std::min(a.self.int_numel(), out[0].int_numel());
  if (count == 0) return;
  const Shape clone = like(a.self);
  const Dims strides = clone.strides.empty() ? contiguous_strides(clone.sizes) : clone.strides;
  Tensor from = a.self;
  if (!std::equal(strides.begin(), strides.end(), from.strides().begin())) {
    from = make_tensor(clone.sizes, strides, clone.dtype);
    copy_elements(a.self, from);
  }
  std::memcpy(out[0].data(), from.data(), static_cast<size_t>(count * from.element_size()));
}
Tensor body_resize_as(const args::resize_as& a) {
  static const Op& resize = get_op("aten::resize");
  const MemoryFormat format = format_of(a.the_template, a.memory_format).value_or(MemoryFormat::contiguous);
  const Arg args[] = {Arg(a.self), Arg(a.the_template.sizes()), Arg(format)};
  return call1(resize, args);
}

Tensor body_fill_diagonal_(const args::fill_diagonal_& a) {
  int64_t n = a.self.dim();
  if (n < 2) fail("dimensions must larger than 1");
  SymInt step = 0, height = a.self.sizes()[0], width = a.self.sizes()[1];
  for (int64_t d = 0; d < n; ++d) {
    if (n > 2 && !(a.self.sizes()[d] == height)) fail("all dimensions of input must be of equal length");
    step += a.self.strides()[d];
  }
  Dims sizes{sym_min(height, width)}, strides{step};
  fill_(as_strided(a.self, sizes, strides, a.self.offset()), a.fill_value);
  // A tall matrix: on again one row below the square, as a flat memory would be stepped through.
  if (a.wrap && n == 2 && height > width + 1) {
    Dims rest{floor_div(height * width + width, width + 1) - sizes[0]};
    fill_(as_strided(a.self, rest, strides, a.self.offset() + a.self.strides()[0] * (width + 1)),
          a.fill_value);
  }
  return a.self;
}

Tensor body_flatten_dense_tensors(const args::flatten_dense_tensors& a) {
  if (a.tensors.empty()) fail("flatten_dense_tensors: expected a non-empty list of tensors");
  std::vector<Tensor> flat;
  for (const Tensor& t : a.tensors) flat.push_back(t.contiguous().view({-1}));
  return cat(flat, 0);
}
std::vector<Tensor> body_unflatten_dense_tensors(const args::unflatten_dense_tensors& a) {
  std::vector<Tensor> result;
  SymInt at = 0;
  for (const Tensor& t : a.tensors) {
    SymInt n = t.numel();
    result.push_back(narrow(a.flat, 0, at, n).view(t.sizes()));
    at = at + n;
  }
  return result;
}

}  // namespace tern
