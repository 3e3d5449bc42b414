// Copies that put elements in other places.
#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/rearrange.args.h"
#include "tern/ops/view/geometry.h"

namespace tern {

Shapes shape_repeat(const args::repeat& a) {
  int64_t lead = static_cast<int64_t>(a.repeats.size()) - a.self.dim();
  if (lead < 0)
    fail("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  Dims sizes(a.repeats);
  for (SymInt r : a.repeats)
    if (r.is_int() && r.as_int() < 0)
      failf("Trying to create tensor with negative dimension {}: {}", r.as_int(), str(a.repeats));
  for (int64_t d = 0; d < a.self.dim(); ++d) sizes[lead + d] = sizes[lead + d] * a.self.sizes()[d];
  return {Shape(std::move(sizes), a.self.dtype())};
}
void kernel_repeat(const args::repeat& a, Out out) {
  if (out[0].int_numel() == 0) return;
  // The output as (repeat, size) pairs, the input with a stride of zero for each repeat.
  int64_t n = out[0].dim(), lead = n - a.self.dim();
  Dims sizes, to, from;
  for (int64_t d = 0; d < n; ++d) {
    SymInt size = d < lead ? SymInt(1) : a.self.sizes()[d - lead], stride = out[0].strides()[d];
    sizes.push_back(a.repeats[d]);
    to.push_back(stride * size);
    from.push_back(0);
    sizes.push_back(size);
    to.push_back(stride);
    from.push_back(d < lead ? SymInt(0) : a.self.strides()[d - lead]);
  }
  copy_elements(a.self.as_view(sizes, from), out[0].as_view(sizes, to));
}
Tensor body_tile(const args::tile& a) {
  Dims repeats;
  for (int64_t d = static_cast<int64_t>(a.dims.size()); d < a.self.dim(); ++d) repeats.push_back(1);
  for (SymInt r : a.dims) repeats.push_back(r);
  return repeat(a.self, repeats);
}

Shapes shape_flip(const args::flip& a) {
  uint64_t seen = 0;
  for (int64_t d : a.dims) {
    int64_t at = wrap_dim(d, a.self.dim());
    if (seen >> at & 1) failf("dim {} appears multiple times in the list of dims", at);
    seen |= uint64_t{1} << at;
  }
  return {like(a.self)};
}
void kernel_flip(const args::flip& a, Out out) {
  if (out[0].int_numel() == 0) return;
  if (a.self.dim() == 0) return copy_elements(a.self, out[0]);
  // Written through negative strides from the far corner.
  SmallVector<int64_t, 6> strides(a.self.int_strides(), static_cast<size_t>(a.self.dim()));
  int64_t start = 0;
  for (int64_t dim : a.dims) {
    int64_t d = wrap_dim(dim, a.self.dim());
    start += (a.self.int_sizes()[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  by_element_size(out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    parallel_for(0, out[0].int_numel(), 32768, [&](int64_t begin, int64_t end) {
      Walk<2> walk(out[0].dim(), out[0].int_sizes());
      walk.operand(0, strides.data());
      walk.operand(1, out[0].int_strides());
      walk.seek(begin);
      const T* from = static_cast<const T*>(a.self.data()) + start;
      T* to = static_cast<T*>(out[0].data());
      for (int64_t i = begin; i < end; ++i, walk.next()) to[walk.offset(1)] = from[walk.offset(0)];
    });
  });
}

namespace {

// Pairs of (dimension, shift in [0, size)).
void check_roll(const args::roll& a) {
  if (a.shifts.empty()) fail("`shifts` required");
  if (!a.dims.empty() && a.dims.size() != a.shifts.size())
    failf("shifts and dimensions must align. shifts: {}, dims:{}", a.shifts.size(), a.dims.size());
  if (a.dims.empty() && a.shifts.size() != 1)
    failf("shifts and dimensions must align. shifts: {}, dims:{}", a.shifts.size(), 0);
}

}  // namespace

Shapes shape_roll(const args::roll& a) {
  check_roll(a);
  for (int64_t d : a.dims) {
    if (a.self.dim() == 0)
      failf(ErrorKind::index, "Dimension specified as {} but tensor has no dimensions", d);
    wrap_dim(d, a.self.dim());
  }
  return {Shape(a.self.sizes(), a.self.dtype())};
}
Tensor body_fliplr(const args::fliplr& a) {
  if (a.self.dim() < 2) fail("Input must be >= 2-d.");
  return flip(a.self, {1});
}
Tensor body_flipud(const args::flipud& a) {
  if (a.self.dim() < 1) fail("Input must be >= 1-d.");
  return flip(a.self, {0});
}
Tensor body_roll(const args::roll& a) {
  check_roll(a);
  if (surely_eq(a.self.numel(), 0)) return clone(a.self);
  if (a.dims.empty()) return view(roll(reshape(a.self, {-1}), a.shifts, {0}), a.self.sizes());
  Tensor result = a.self;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    int64_t d = wrap_dim(a.dims[i], a.self.dim());
    SymInt size = a.self.sizes()[d];
    Tensor from = arange(Scalar(size), {}, {}, a.self.device()) + Operand(mod(size - a.shifts[i], size));
    result = index_select(result, d, fmod(from, Scalar(size)));
  }
  return result;
}
void kernel_roll(const args::roll& a, Out out) {
  if (out[0].int_numel() == 0) return;
  if (a.dims.empty()) {
    Tensor flat = row_major(a.self);
    int64_t n = flat.int_numel(), cut = ((-a.shifts[0].guard_int()) % n + n) % n, size = flat.element_size();
    Tensor rows = flat.as_view({SymInt(n)}, {1}), to = out[0].as_view({SymInt(n)}, {1});
    (void)size;
    copy_elements(slice_view(rows, 0, cut, n, 1), slice_view(to, 0, 0, n - cut, 1));
    copy_elements(slice_view(rows, 0, 0, cut, 1), slice_view(to, 0, n - cut, n, 1));
    return;
  }
  Tensor from = a.self;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    int64_t d = wrap_dim(a.dims[i], a.self.dim()), n = a.self.dim() ? a.self.int_sizes()[d] : 1;
    Tensor to = i + 1 == a.dims.size() ? out[0] : make_tensor(a.self.sizes(), a.self.dtype());
    if (a.self.dim() == 0) {
      copy_elements(from, to);
    } else {
      int64_t cut = ((-a.shifts[i].guard_int()) % n + n) % n;
      copy_elements(slice_view(from, d, cut, n, 1), slice_view(to, d, 0, n - cut, 1));
      copy_elements(slice_view(from, d, 0, cut, 1), slice_view(to, d, n - cut, n, 1));
    }
    from = to;
  }
}

Tensor body_rot90(const args::rot90& a) {
  if (a.dims.size() != 2) failf("expected total rotation dims == 2, but got dims = {}", a.dims.size());
  if (a.self.dim() < 2) failf("expected total dims >= 2, but got total dims = {}", a.self.dim());
  int64_t d0 = wrap_dim(a.dims[0], a.self.dim()), d1 = wrap_dim(a.dims[1], a.self.dim());
  if (d0 == d1)
    failf("expected rotation dims to be different, but got dim0 = {} and dim1 = {}", a.dims[0], a.dims[1]);
  switch ((a.k % 4 + 4) % 4) {
    case 1:
      return transpose(flip(a.self, {d1}), d0, d1);
    case 2:
      return flip(a.self, {d0, d1});
    case 3:
      return transpose(flip(a.self, {d0}), d0, d1);
    default:
      return clone(a.self, MemoryFormat::contiguous);
  }
}

Tensor body_repeat_interleave_self_int(const args::repeat_interleave_self_int& a) {
  if (a.repeats.is_int() && a.repeats.as_int() < 0) fail("Repeats must be non-negative");
  Tensor self = a.dim ? a.self : reshape(a.self, {-1});
  int64_t d = wrap_dim(a.dim.value_or(0), self.dim());
  if (self.dim() == 0) self = reshape(self, {1});
  Dims sizes(self.sizes());
  sizes.insert(static_cast<size_t>(d) + 1, a.repeats);
  return flatten(clone(expand(unsqueeze(self, d + 1), sizes), MemoryFormat::contiguous), d, d + 1);
}
Tensor body_repeat_interleave_self_Tensor(const args::repeat_interleave_self_Tensor& a) {
  Tensor self = a.dim ? a.self : reshape(a.self, {-1});
  int64_t d = wrap_dim(a.dim.value_or(0), self.dim());
  Tensor repeats = a.repeats;
  if (repeats.dim() == 0 || (repeats.dim() == 1 && surely_eq(repeats.sizes()[0], 1)))
    repeats = expand(reshape(repeats, {1}), {self.sizes()[d]});
  else if (repeats.dim() == 1) {
    if (!require_eq(repeats.sizes()[0], self.sizes()[d]))
      failf(
          "repeats must have the same size as input along dim, but got repeats.size(0) = {} and "
          "input.size({}) = {}",
          repeats.sizes()[0].str(), d, self.sizes()[d].str());
  } else {
    fail("repeats must be 0-dim or 1-dim tensor");
  }
  return index_select(self, d, repeat_interleave(repeats, a.output_size));
}
Tensor kernel_repeat_interleave_Tensor(const args::repeat_interleave_Tensor& a) {
  if (a.repeats.dim() != 1) fail("repeat_interleave only accept 1D vector as repeat");
  if (a.repeats.dtype() != kLong && a.repeats.dtype() != kInt) fail("repeats has to be Long or Int tensor");
  Tensor repeats = row_major(a.repeats, kLong);
  const int64_t* r = repeats.data_ptr<int64_t>();
  int64_t total = 0;
  for (int64_t i = 0; i < repeats.int_numel(); ++i) {
    if (r[i] < 0) fail("repeats can not be negative");
    total += r[i];
  }
  if (a.output_size && !(*a.output_size == total)) fail("allocated size does not match required size");
  Tensor out = make_tensor({SymInt(total)}, kLong);
  int64_t* to = out.data_ptr<int64_t>();
  for (int64_t i = 0; i < repeats.int_numel(); ++i) to = std::fill_n(to, r[i], i);
  return a.repeats.dtype() == kInt ? row_major(out, kInt) : out;
}
Shapes shape_repeat_interleave_Tensor(const args::repeat_interleave_Tensor& a) {
  SymInt size = a.output_size ? *a.output_size : unknown_size("repeat_interleave", a.repeats);
  return {Shape(Dims{size}, a.repeats.dtype())};
}

// ---- writes into what would be a view ----

namespace {

void check_source(const Tensor& src, const Tensor& part, const char* what) {
  bool same = src.dim() == part.dim();
  for (int64_t d = 0; same && d < src.dim(); ++d) same = require_eq(src.sizes()[d], part.sizes()[d]);
  if (!same)
    failf("expected src to have a size equal to the {} of self. src size = {}, {} size = {}", what,
          str(src.sizes()), what, str(part.sizes()));
}

}  // namespace

Shapes shape_select_scatter(const args::select_scatter& a) {
  check_source(a.src, select_view(a.self, a.dim, a.index), "slice");
  return {like(a.self)};
}
void kernel_select_scatter(const args::select_scatter& a, Out out) {
  copy_elements(a.self, out[0]);
  copy_elements(a.src, select_view(out[0], a.dim, a.index));
}
// Where the number along the dimension is the index, the source.
Tensor body_select_scatter(const args::select_scatter& a) {
  shape_select_scatter(a);
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  SymInt n = a.self.size(dim), at = a.index;
  if (at < 0) at = at + n;
  Dims sizes(static_cast<size_t>(a.self.dim()), SymInt(1));
  sizes[static_cast<size_t>(dim)] = n;
  Tensor chosen = eq(view(arange(Scalar(n), {}, {}, a.self.device()), sizes), Scalar(at));
  return where(chosen, expand(unsqueeze(a.src, dim), a.self.sizes()), a.self);
}
Shapes shape_slice_scatter(const args::slice_scatter& a) {
  check_source(a.src, slice_view(a.self, a.dim, a.start, a.end, a.step), "slice");
  return {like(a.self)};
}
void kernel_slice_scatter(const args::slice_scatter& a, Out out) {
  copy_elements(a.self, out[0]);
  copy_elements(a.src, slice_view(out[0], a.dim, a.start, a.end, a.step));
}
Shapes shape_diagonal_scatter(const args::diagonal_scatter& a) {
  check_source(a.src, diagonal_view(a.self, a.offset, a.dim1, a.dim2), "slice");
  return {like(a.self)};
}
void kernel_diagonal_scatter(const args::diagonal_scatter& a, Out out) {
  copy_elements(a.self, out[0]);
  copy_elements(a.src, diagonal_view(out[0], a.offset, a.dim1, a.dim2));
}

// The geometry counts in the memory of self, which the output has again where it is dense.
Shapes shape_as_strided_scatter(const args::as_strided_scatter& a) {
  check_source(a.src, strided_view(a.self, a.size, a.stride, a.storage_offset.value_or(a.self.offset())),
               "slice");
  return {like(a.self)};
}
void kernel_as_strided_scatter(const args::as_strided_scatter& a, Out out) {
  SymInt offset = a.storage_offset.value_or(a.self.offset());
  bool same = a.self.offset() == 0;
  for (int64_t d = 0; same && d < a.self.dim(); ++d)
    same = a.self.int_strides()[d] == out[0].int_strides()[d];
  if (same &&
      static_cast<int64_t>(a.self.storage()->bytes) <= static_cast<int64_t>(out[0].storage()->bytes)) {
    copy_elements(a.self, out[0]);
    return copy_elements(a.src, strided_view(out[0], a.size, a.stride, offset));
  }
  Tensor memory = make_tensor({SymInt(a.self.storage()->bytes / static_cast<size_t>(a.self.element_size()))},
                              a.self.dtype());
  Tensor whole = memory.as_view(Dims(a.self.sizes()), Dims(a.self.strides()), a.self.offset());
  copy_elements(a.self, whole);
  copy_elements(a.src, strided_view(memory, a.size, a.stride, offset));
  copy_elements(whole, out[0]);
}

Shapes shape_unfold_backward(const args::unfold_backward& a) {
  return {Shape(a.input_sizes, a.grad_in.dtype())};
}
Tensor body_unfold_backward(const args::unfold_backward& a) {
  int64_t n = static_cast<int64_t>(a.input_sizes.size());
  if (n == 0) return squeeze_copy(a.grad_in, 0);
  int64_t dim = wrap_dim(a.dim, n);
  Tensor places = unfold(arange(Scalar(a.input_sizes[dim]), kInt, {}, a.grad_in.device()), 0, a.size, a.step);
  std::vector<Tensor> at(static_cast<size_t>(dim));
  at.push_back(flatten(places));
  Tensor rows = flatten(movedim(a.grad_in, -1, dim + 1), dim, dim + 1);
  return contiguous(_unsafe_index_put(new_zeros(a.grad_in, a.input_sizes), at, rows, true));
}
void kernel_unfold_backward(const args::unfold_backward& a, Out out) {
  int64_t dim = wrap_dim(a.dim, out[0].dim());
  fill_elements(out[0], 0);
  // Position k of every window at a time: those do not overlap.
  Tensor sum = out[0];
  for (int64_t k = 0; k < a.size; ++k) {
    Tensor part = select_view(a.grad_in, a.grad_in.dim() - 1, k);
    if (out[0].dim() == 0) {
      Tensor list[] = {sum, part};
      run_loop("add", list, sum);
      continue;
    }
    int64_t windows = part.int_sizes()[dim];
    if (windows == 0) continue;
    Tensor target = slice_view(sum, dim, k, k + (windows - 1) * a.step + 1, a.step);
    Tensor list[] = {target, part};
    run_loop("add", list, target);
  }
}

}  // namespace tern
