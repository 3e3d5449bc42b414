#include "tern/ops/view/geometry.h"

#include "tern/base/format.h"
#include "tern/ops.h"

namespace tern {

Dims infer_sizes(Span<const SymInt> shape, SymInt numel) {
  Dims sizes(shape);
  int64_t unknown = -1;
  SymInt known = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d].is_int() && shape[d].as_int() == -1) {
      if (unknown >= 0) fail("only one dimension can be inferred");
      unknown = static_cast<int64_t>(d);
    } else {
      if (shape[d].is_int() && shape[d].as_int() < 0) failf("invalid shape dimension {}", shape[d].as_int());
      known = known * shape[d];
    }
  }
  auto bad = [&] { failf("shape '{}' is invalid for input of size {}", str(shape), numel.str()); };
  if (unknown < 0) {
    if (!require_eq(known, numel)) bad();
    return sizes;
  }
  if (known.is_int() && known.as_int() == 0) {
    if (numel.is_int() && numel.as_int() == 0)
      failf(
          "cannot reshape tensor of 0 elements into shape {} because the unspecified dimension size -1 can "
          "be any "
          "value and is ambiguous",
          str(shape));
    bad();
  }
  // Sizes that appear on both sides cancel in the quotient, so what is left is exact where the shape is
  // valid.
  SymInt rest = floor_div(numel, known);
  if (!require_eq(rest * known, numel)) bad();
  sizes[static_cast<size_t>(unknown)] = rest;
  return sizes;
}

std::optional<Dims> view_strides(const Tensor& t, Span<const SymInt> sizes) {
  if (t.is_contiguous()) return contiguous_strides(sizes);
  if (surely_eq(t.numel(), 0)) return contiguous_strides(sizes);
  if (t.dim() == 0) return Dims(sizes.size(), SymInt(1));
  Dims strides(sizes.size(), SymInt(1));
  auto same = [](SymInt a, SymInt b) { return surely_eq(a, b) || guard_eq_or(a, b, false); };
  int64_t at = static_cast<int64_t>(sizes.size()) - 1;
  SymInt step = t.strides()[static_cast<size_t>(t.dim() - 1)], old_count = 1, new_count = 1;
  for (int64_t d = t.dim() - 1; d >= 0; --d) {
    old_count = old_count * t.sizes()[d];
    bool last = d == 0;
    // A run of dimensions ends where the next one does not continue its strides.
    if (!last && (surely_eq(t.sizes()[d - 1], 1) || same(t.strides()[d - 1], old_count * step))) continue;
    while (at >= 0 && (surely_eq(sizes[at], 1) || (!same(new_count, old_count) && new_count < old_count))) {
      strides[at] = new_count * step;
      new_count = new_count * sizes[at];
      --at;
    }
    if (!same(new_count, old_count)) return std::nullopt;
    if (!last) {
      step = t.strides()[d - 1];
      old_count = 1;
      new_count = 1;
    }
  }
  if (at >= 0) return std::nullopt;
  return strides;
}

Tensor select_view(const Tensor& t, int64_t dim, SymInt index) {
  if (t.dim() == 0) fail(ErrorKind::index, "select() cannot be applied to a 0-dim tensor.");
  dim = wrap_dim(dim, t.dim());
  SymInt size = t.sizes()[dim];
  if (index.is_int() || index.hint()) {
    if (index >= size || index < -size)
      failf(ErrorKind::index, "select(): index {} out of range for tensor of size {} at dimension {}",
            index.str(), str(t.sizes()), dim);
    if (index < 0) index = index + size;
  }
  Dims sizes(t.sizes()), strides(t.strides());
  SymInt offset = t.offset() + index * strides[dim];
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  return t.as_view(std::move(sizes), std::move(strides), offset);
}

namespace {

// A bound of a slice brought into [0, size].
SymInt slice_bound(SymInt v, SymInt size) {
  if (v.is_int()) {
    if (v.as_int() == 0) return 0;
    if (v.as_int() == INT64_MAX) return size;
    if (v.as_int() < 0) {
      v = v + size;
      return v < 0 ? SymInt(0) : v;
    }
    return surely_le(size, v) || (!surely_lt(v, size) && v > size) ? size : v;
  }
  if (!v.hint() || !size.hint()) return v;  // unbacked: taken to be in range, the run checks
  if (v < 0) v = v + size;
  if (surely_eq(v, size)) return size;
  return v > size ? size : v;
}

}  // namespace

Tensor slice_view(const Tensor& t, int64_t dim, std::optional<SymInt> start, std::optional<SymInt> end,
                  SymInt step) {
  if (t.dim() == 0) fail(ErrorKind::index, "slice() cannot be applied to a 0-dim tensor.");
  dim = wrap_dim(dim, t.dim());
  if (step <= 0) fail(ErrorKind::value, "slice step must be positive");
  SymInt size = t.sizes()[dim], from = slice_bound(start.value_or(0), size),
         to = slice_bound(end.value_or(INT64_MAX), size);
  bool known = (from.is_int() || from.hint()) && (to.is_int() || to.hint());
  if (!surely_le(from, to) && known && to < from) to = from;
  Dims sizes(t.sizes()), strides(t.strides());
  sizes[dim] = step.is_int() && step.as_int() == 1 ? to - from : floor_div(to - from + step - 1, step);
  SymInt offset = t.offset() + from * strides[dim];
  strides[dim] = strides[dim] * step;
  return t.as_view(std::move(sizes), std::move(strides), offset);
}

Tensor diagonal_view(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2) {
  dim1 = wrap_dim(dim1, t.dim());
  dim2 = wrap_dim(dim2, t.dim());
  if (dim1 == dim2) failf("diagonal dimensions cannot be identical {}, {}", dim1, dim2);
  SymInt rows = t.sizes()[dim1], columns = t.sizes()[dim2];
  if (offset >= 0)
    columns = columns - offset;
  else
    rows = rows + offset;
  SymInt length = surely_eq(rows, columns) ? rows : sym_min(rows, columns);
  if (!surely_le(0, length)) length = sym_max(length, 0);
  SymInt start = t.offset();
  if (!surely_eq(length, 0))
    start = offset >= 0 ? start + t.strides()[dim2] * offset : start - t.strides()[dim1] * offset;
  Dims sizes, strides;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (d != dim1 && d != dim2) {
      sizes.push_back(t.sizes()[d]);
      strides.push_back(t.strides()[d]);
    }
  sizes.push_back(length);
  strides.push_back(t.strides()[dim1] + t.strides()[dim2]);
  return t.as_view(std::move(sizes), std::move(strides), start);
}

Tensor unfold_view(const Tensor& t, int64_t dim, int64_t size, int64_t step) {
  dim = wrap_dim(dim, t.dim());
  SymInt length = t.dim() == 0 ? SymInt(1) : t.sizes()[dim];
  if (size < 0) failf("size is {} but must be >= 0", size);
  if (length < size)
    failf("maximum size for tensor at dimension {} is {} but size is {}", dim, length.str(), size);
  if (step <= 0) failf("step is {} but must be > 0", step);
  Dims sizes(t.sizes()), strides(t.strides());
  SymInt stride = t.dim() == 0 ? SymInt(1) : strides[dim];
  if (t.dim() > 0) {
    sizes[dim] = floor_div(length - size, step) + 1;
    strides[dim] = stride * step;
  }
  sizes.push_back(size);
  strides.push_back(stride);
  return t.as_view(std::move(sizes), std::move(strides));
}

Tensor expand_view(const Tensor& t, Span<const SymInt> size) {
  int64_t n = static_cast<int64_t>(size.size()), lead = n - t.dim();
  if (lead < 0)
    failf(
        "expand({}, size={}): the number of sizes provided ({}) must be greater or equal to the number of "
        "dimensions "
        "in the tensor ({})",
        str(t.sizes()), str(size), n, t.dim());
  Dims sizes(size), strides(size.size(), SymInt(0));
  for (int64_t d = 0; d < n; ++d) {
    bool keep = sizes[d].is_int() && sizes[d].as_int() == -1;
    if (d < lead) {
      if (keep)
        failf(
            "expand(size={}): the expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
            "dimension {}",
            str(size), d);
      continue;
    }
    SymInt old = t.sizes()[d - lead];
    if (keep)
      sizes[d] = old;
    else if (sizes[d].is_int() && sizes[d].as_int() < 0)
      failf("expand: the expanded size of the tensor ({}) must not be negative. Target sizes: {}",
            sizes[d].str(), str(size));
    if (surely_eq(old, sizes[d])) {
      strides[d] = t.strides()[d - lead];
    } else if (surely_eq(old, 1)) {
      strides[d] = 0;
    } else if (require_eq(old, sizes[d])) {
      strides[d] = t.strides()[d - lead];
    } else {
      failf(
          "The expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension "
          "{}.  Target "
          "sizes: {}.  Tensor sizes: {}",
          sizes[d].str(), old.str(), d, str(size), str(t.sizes()));
    }
  }
  return t.as_view(std::move(sizes), std::move(strides));
}

Tensor strided_view(const Tensor& t, Span<const SymInt> size, Span<const SymInt> stride, SymInt offset) {
  if (size.size() != stride.size())
    failf("mismatch in length of strides and shape: {} and {}", str(stride), str(size));
  SymInt last = offset;
  bool empty = false;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d].is_int() && size[d].as_int() < 0)
      failf("Trying to create tensor with negative dimension {}: {}", size[d].as_int(), str(size));
    if (stride[d].is_int() && stride[d].as_int() < 0)
      failf("as_strided: Negative strides are not supported at the moment, got strides: {}", str(stride));
    empty |= surely_eq(size[d], 0);
    last = last + (size[d] - 1) * stride[d];
  }
  if (offset.is_int() && offset.as_int() < 0) failf("Tensor: invalid storage offset {}", offset.as_int());
  size_t bytes = t.storage()->bytes;
  if (!empty && last.is_int() && (!t.is_fake() || bytes)) {
    int64_t needed = (last.as_int() + 1) * t.element_size();
    if (needed > static_cast<int64_t>(bytes))
      failf(
          "setStorage: sizes {}, strides {}, storage offset {}, and itemsize {} requiring a storage size of "
          "{} are out of "
          "bounds for storage of size {}",
          str(size), str(stride), offset.str(), t.element_size(), needed, bytes);
  }
  return t.as_view(Dims(size), Dims(stride), offset);
}

Tensor expanded(const Tensor& t, Span<const SymInt> sizes) {
  bool same = static_cast<size_t>(t.dim()) == sizes.size();
  for (size_t d = 0; same && d < sizes.size(); ++d) same = surely_eq(t.sizes()[d], sizes[d]);
  return same ? t : expand(t, sizes);
}

}  // namespace tern
