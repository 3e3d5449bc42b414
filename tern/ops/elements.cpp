#include "tern/ops/elements.h"

#include "tern/base/format.h"

#include "tern/dispatch/ladder.h"
#include "tern/dispatch/pointwise.h"
#include "tern/sym/shape_env.h"

namespace tern {

void not_implemented_for(std::string_view op, DType d) {
  failf(ErrorKind::not_supported, "\"{}\" not implemented for '{}'", op, script_name(d));
}

Tensor row_major(const Tensor& t, DType dtype) {
  if (dtype == DType::undefined) dtype = t.dtype();
  if (t.is_contiguous() && t.dtype() == dtype) return t;
  Tensor fresh = make_tensor(t.sizes(), dtype);
  copy_elements(t, fresh);
  return fresh;
}

Tensor index_values(const Tensor& t) {
  if (!is_integral(t.dtype()))
    fail(ErrorKind::index, "tensors used as indices must be long, int, byte or bool tensors");
  return row_major(t, kLong);
}

Rows rows_around(const Tensor& t, int64_t d) {
  Rows r;
  for (int64_t i = 0; i < t.dim(); ++i) {
    int64_t n = t.int_sizes()[i];
    if (i < d)
      r.outer *= n;
    else if (i == d)
      r.size = n;
    else
      r.inner *= n;
  }
  return r;
}

bool channels_innermost(const Tensor& t) {
  const int64_t n = t.dim();
  if (n < 3 || n > 5) return false;
  if (t.is_symbolic())
    return n > 3 && !t.is_contiguous() &&
           t.is_contiguous(n == 4 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d);
  const int64_t *sizes = t.int_sizes(), *strides = t.int_strides();
  if (strides[1] == 0) return false;
  int64_t least = 0;
  auto outside = [&](int64_t d) {
    if (sizes[d] == 0 || strides[d] < least || (d == 0 && least == strides[1])) return false;
    least = strides[d] * sizes[d];
    return true;
  };
  bool last = outside(1);
  for (int64_t d = n - 1; last && d >= 2; --d) last = outside(d);
  return last && outside(0);
}
Shape laid_out_as(const Tensor& model, Dims sizes, DType dtype) {
  Shape shape(std::move(sizes), dtype);
  if (model.dim() >= 4 && channels_innermost(model)) shape.strides = channels_last_strides(shape.sizes);
  return shape;
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

SymInt unknown_size(const char* op, const Tensor& t) {
  const ThreadState& state = thread_state;
  for (Mode* first : state.modes)
    for (Mode* mode = first; mode; mode = mode->below)
      if (std::optional<SymInt> size = mode->unknown_size(state.loc)) return *size;
  for (SymInt s : t.sizes())
    if (s.is_symbolic()) return ShapeEnv::of(s).create_unbacked_symint(op, state.loc);
  failf(ErrorKind::not_supported,
        "{}: the size of the result depends on the data, which a {} tensor does not have; export with "
        "dynamic shapes, or "
        "give a real tensor",
        op, t.is_meta() ? "meta" : "fake");
}

}  // namespace tern
