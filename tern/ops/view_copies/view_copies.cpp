// The twins of the views that copy: the view's own geometry, then the elements.
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/copy.args.h"
#include "tern/ops/view.args.h"
#include "tern/ops/view_copies.args.h"

namespace tern {
namespace {

// What the view operator makes of these arguments.
template <class Twin, class... P>
Tensor through(Tensor (*view)(const Twin&), const P&... p) {
  const Arg list[] = {Arg(p)...};
  return view(Twin(list));
}
Shapes fresh(const Tensor& t) { return {Shape(Dims(t.sizes()), t.dtype())}; }

}  // namespace

// A copy can have any shape, whatever the strides are.
Shapes shape_view_copy(const args::view_copy& a) {
  Tensor dense = make_tensor(a.self.sizes(), a.self.dtype(), a.self.device(), true);
  return fresh(through(view_view, dense, a.size));
}
void kernel_view_copy(const args::view_copy& a, Out out) {
  copy_elements(a.self,
                out[0].as_view(Dims(a.self.sizes()), contiguous_strides(a.self.sizes()), out[0].offset()));
}

Shapes shape_view_copy_dtype(const args::view_copy_dtype& a) {
  return fresh(through(view_view_dtype, a.self, a.dtype));
}
void kernel_view_copy_dtype(const args::view_copy_dtype& a, Out out) {
  copy_elements(through(view_view_dtype, a.self, a.dtype), out[0]);
}

Shapes shape_permute_copy(const args::permute_copy& a) {
  return fresh(through(view_permute, a.self, a.dims));
}
void kernel_permute_copy(const args::permute_copy& a, Out out) {
  copy_elements(through(view_permute, a.self, a.dims), out[0]);
}

Shapes shape_transpose_copy_int(const args::transpose_copy_int& a) {
  return fresh(through(view_transpose_int, a.self, a.dim0, a.dim1));
}
void kernel_transpose_copy_int(const args::transpose_copy_int& a, Out out) {
  copy_elements(through(view_transpose_int, a.self, a.dim0, a.dim1), out[0]);
}

Shapes shape_t_copy(const args::t_copy& a) { return fresh(through(view_t, a.self)); }
void kernel_t_copy(const args::t_copy& a, Out out) { copy_elements(through(view_t, a.self), out[0]); }

Shapes shape_select_copy_int(const args::select_copy_int& a) {
  return fresh(through(view_select_int, a.self, a.dim, a.index));
}
void kernel_select_copy_int(const args::select_copy_int& a, Out out) {
  copy_elements(through(view_select_int, a.self, a.dim, a.index), out[0]);
}

Shapes shape_slice_copy_Tensor(const args::slice_copy_Tensor& a) {
  return fresh(through(view_slice_Tensor, a.self, a.dim, a.start, a.end, a.step));
}
void kernel_slice_copy_Tensor(const args::slice_copy_Tensor& a, Out out) {
  copy_elements(through(view_slice_Tensor, a.self, a.dim, a.start, a.end, a.step), out[0]);
}

Shapes shape_diagonal_copy(const args::diagonal_copy& a) {
  return fresh(through(view_diagonal, a.self, a.offset, a.dim1, a.dim2));
}
void kernel_diagonal_copy(const args::diagonal_copy& a, Out out) {
  copy_elements(through(view_diagonal, a.self, a.offset, a.dim1, a.dim2), out[0]);
}

Shapes shape_as_strided_copy(const args::as_strided_copy& a) {
  return fresh(through(view_as_strided, a.self, a.size, a.stride, a.storage_offset));
}
void kernel_as_strided_copy(const args::as_strided_copy& a, Out out) {
  copy_elements(through(view_as_strided, a.self, a.size, a.stride, a.storage_offset), out[0]);
}

Shapes shape_unfold_copy(const args::unfold_copy& a) {
  return fresh(through(view_unfold, a.self, a.dimension, a.size, a.step));
}
void kernel_unfold_copy(const args::unfold_copy& a, Out out) {
  copy_elements(through(view_unfold, a.self, a.dimension, a.size, a.step), out[0]);
}

Shapes shape_expand_copy(const args::expand_copy& a) {
  return fresh(through(view_expand, a.self, a.size, a.implicit));
}
void kernel_expand_copy(const args::expand_copy& a, Out out) {
  copy_elements(through(view_expand, a.self, a.size, a.implicit), out[0]);
}

Shapes shape_squeeze_copy(const args::squeeze_copy& a) { return fresh(through(view_squeeze, a.self)); }
void kernel_squeeze_copy(const args::squeeze_copy& a, Out out) {
  copy_elements(through(view_squeeze, a.self), out[0]);
}

Shapes shape_squeeze_copy_dim(const args::squeeze_copy_dim& a) {
  return fresh(through(view_squeeze_dim, a.self, a.dim));
}
void kernel_squeeze_copy_dim(const args::squeeze_copy_dim& a, Out out) {
  copy_elements(through(view_squeeze_dim, a.self, a.dim), out[0]);
}

Shapes shape_squeeze_copy_dims(const args::squeeze_copy_dims& a) {
  return fresh(through(view_squeeze_dims, a.self, a.dim));
}
void kernel_squeeze_copy_dims(const args::squeeze_copy_dims& a, Out out) {
  copy_elements(through(view_squeeze_dims, a.self, a.dim), out[0]);
}

Shapes shape_unsqueeze_copy(const args::unsqueeze_copy& a) {
  return fresh(through(view_unsqueeze, a.self, a.dim));
}
void kernel_unsqueeze_copy(const args::unsqueeze_copy& a, Out out) {
  copy_elements(through(view_unsqueeze, a.self, a.dim), out[0]);
}

Shapes shape_view_as_real_copy(const args::view_as_real_copy& a) {
  return fresh(through(view_view_as_real, a.self));
}
void kernel_view_as_real_copy(const args::view_as_real_copy& a, Out out) {
  copy_elements(through(view_view_as_real, a.self), out[0]);
}

Shapes shape_view_as_complex_copy(const args::view_as_complex_copy& a) {
  return fresh(through(view_view_as_complex, a.self));
}
void kernel_view_as_complex_copy(const args::view_as_complex_copy& a, Out out) {
  copy_elements(through(view_view_as_complex, a.self), out[0]);
}

Shapes shape_alias_copy(const args::alias_copy& a) { return fresh(through(view_alias, a.self)); }
void kernel_alias_copy(const args::alias_copy& a, Out out) {
  copy_elements(through(view_alias, a.self), out[0]);
}

Shapes shape_detach_copy(const args::detach_copy& a) { return fresh(through(view_detach, a.self)); }
void kernel_detach_copy(const args::detach_copy& a, Out out) {
  copy_elements(through(view_detach, a.self), out[0]);
}

namespace {

std::vector<Tensor> copies(std::vector<Tensor> parts) {
  for (Tensor& t : parts) t = clone(t, MemoryFormat::contiguous);
  return parts;
}

}  // namespace

std::vector<Tensor> body_split_copy_Tensor(const args::split_copy_Tensor& a) {
  return copies(split(a.self, a.split_size, a.dim));
}
std::vector<Tensor> body_split_with_sizes_copy(const args::split_with_sizes_copy& a) {
  return copies(split_with_sizes(a.self, a.split_sizes, a.dim));
}
std::vector<Tensor> body_unbind_copy_int(const args::unbind_copy_int& a) {
  return copies(unbind(a.self, a.dim));
}

}  // namespace tern
