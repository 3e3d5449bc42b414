// The prims whose arguments are named or ordered otherwise than ATen's.
#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/formulas.h"
#include "tern/ops/prims.args.h"

namespace tern {

Tensor body_prims_prod(const args::prims_prod& a) {
  Tensor t = a.output_dtype ? to(a.inp, *a.output_dtype) : a.inp;
  uint64_t mask = dim_mask(a.dims, t.dim());
  for (int64_t d = t.dim(); d-- > 0;)
    if (mask >> d & 1) t = prod(t, d, false, t.dtype());
  return t;
}
Tensor body_prims_broadcast_in_dim(const args::prims_broadcast_in_dim& a) {
  if (a.broadcast_dimensions.size() != static_cast<size_t>(a.a.dim()))
    failf("broadcast_in_dim: {} dims are named for a tensor of {} dims", a.broadcast_dimensions.size(),
          a.a.dim());
  Dims sizes(a.shape.size(), SymInt(1));
  for (size_t i = 0; i < a.broadcast_dimensions.size(); ++i)
    sizes[wrap_dim(a.broadcast_dimensions[i], static_cast<int64_t>(a.shape.size()))] =
        a.a.size(static_cast<int64_t>(i));
  Tensor t = a.a;
  // Dims of size one where the result has dims that the tensor lacks; then expanded.
  for (int64_t d = 0; d < static_cast<int64_t>(a.shape.size()); ++d) {
    bool has = false;
    for (int64_t named : a.broadcast_dimensions)
      has |= wrap_dim(named, static_cast<int64_t>(a.shape.size())) == d;
    if (!has) t = unsqueeze(t, d);
  }
  return expand(t, a.shape);
}
Tensor body_prims_squeeze(const args::prims_squeeze& a) { return squeeze(a.a, a.dimensions); }
Tensor body_prims_transpose(const args::prims_transpose& a) { return permute(a.a, a.permutation); }
Tensor body_prims_split_dim(const args::prims_split_dim& a) {
  int64_t dim = wrap_dim(a.dim, a.a.dim());
  Dims sizes(a.a.sizes());
  if (!(mod(sizes[dim], a.outer_length) == 0))
    failf("Attempting to split dimension of length {}, but outer length of {} divides it with a remainder",
          sizes[dim].str(), a.outer_length.str());
  SymInt inner = floor_div(sizes[dim], a.outer_length);
  sizes[dim] = inner;
  sizes.insert(dim, a.outer_length);
  return view(a.a, sizes);
}
Tensor body_prims_collapse(const args::prims_collapse& a) { return clone(flatten(a.a, a.start, a.end)); }
Tensor body_prims_collapse_view(const args::prims_collapse_view& a) { return flatten(a.a, a.start, a.end); }
Tensor body_prims_view_of(const args::prims_view_of& a) { return alias(a.a); }
Tensor body_prims_view_of_dtype(const args::prims_view_of_dtype& a) { return view(a.a, a.dtype); }
Tensor body_prims_reshape(const args::prims_reshape& a) { return reshape(a.a, a.shape); }
Tensor body_prims_rev(const args::prims_rev& a) { return flip(a.a, a.dims); }
Tensor body_prims_conj(const args::prims_conj& a) { return conj(a.a); }
Tensor body_prims_convert_element_type(const args::prims_convert_element_type& a) {
  return _to_copy(a.a, a.dtype);
}
Tensor body_prims_device_put(const args::prims_device_put& a) {
  return to(a.a, a.device, a.a.dtype(), a.non_blocking);
}
Tensor body_prims_full_like(const args::prims_full_like& a) {
  return full_like(a.a, a.fill_value, a.dtype, {}, a.device);
}
Tensor body_prims_where(const args::prims_where& a) { return where(a.pred, a.a, a.b); }
Scalar body_prims_item(const args::prims_item& a) { return item(a.a); }

}  // namespace tern
