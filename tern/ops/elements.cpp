#include "tern/ops/elements.h"

#include "tern/dispatch/pointwise.h"

namespace tern {

Tensor row_major(const Tensor& t, DType dtype) {
  if (dtype == DType::undefined) dtype = t.dtype();
  if (t.is_contiguous() && t.dtype() == dtype) return t;
  Tensor fresh = make_tensor(t.sizes(), dtype);
  copy_elements(t, fresh);
  return fresh;
}

Tensor index_values(const Tensor& t) {
  if (!is_integral(t.dtype())) fail(ErrorKind::index, "tensors used as indices must be long, int, byte or bool tensors");
  return row_major(t, kLong);
}

Rows rows_around(const Tensor& t, int64_t d) {
  Rows r;
  for (int64_t i = 0; i < t.dim(); ++i) {
    int64_t n = t.int_sizes()[i];
    if (i < d) r.outer *= n;
    else if (i == d) r.size = n;
    else r.inner *= n;
  }
  return r;
}

Dims strides_for(Span<const SymInt> sizes, std::optional<MemoryFormat> format) {
  MemoryFormat f = format.value_or(MemoryFormat::contiguous);
  if (f == MemoryFormat::channels_last || f == MemoryFormat::channels_last_3d) {
    size_t rank = f == MemoryFormat::channels_last ? 4 : 5;
    if (sizes.size() != rank) failf("required rank {} tensor to use {}", rank, name(f));
    return channels_last_strides(sizes);
  }
  return {};
}

Dims strides_like(const Tensor& t, std::optional<MemoryFormat> format) {
  if (format.value_or(MemoryFormat::preserve) == MemoryFormat::preserve) return like(t).strides;
  return strides_for(t.sizes(), format);
}

}  // namespace tern
