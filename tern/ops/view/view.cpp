// The view operators: geometry only, for real, fake and symbolic tensors alike.
#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/view.args.h"
#include "tern/ops/view/geometry.h"
#include "tern/tensor/share.h"

namespace tern {

namespace {

Tensor viewed(const Tensor& self, Span<const SymInt> size) {
  Dims sizes = infer_sizes(size, self.numel());
  std::optional<Dims> strides = view_strides(self, sizes);
  if (!strides)
    fail(
        "view size is not compatible with input tensor's size and stride (at least one dimension spans "
        "across two "
        "contiguous subspaces). Use .reshape(...) instead.");
  return self.as_view(std::move(sizes), std::move(*strides));
}

}  // namespace

Tensor view_view(const args::view& a) { return viewed(a.self, a.size); }
Tensor view__unsafe_view(const args::_unsafe_view& a) { return viewed(a.self, a.size); }

Tensor body_reshape(const args::reshape& a) {
  Dims sizes = infer_sizes(a.shape, a.self.numel());
  if (view_strides(a.self, sizes)) return view(a.self, sizes);
  return _unsafe_view(clone(a.self, MemoryFormat::contiguous), sizes);
}

// The same bytes as another type: the last dimension shrinks or grows with the element size.
Tensor view_view_dtype(const args::view_dtype& a) {
  int64_t from = a.self.element_size(), to = element_size(a.dtype);
  Dims sizes(a.self.sizes()), strides(a.self.strides());
  SymInt offset = a.self.offset();
  if (from != to) {
    if (a.self.dim() == 0)
      failf("self.dim() cannot be 0 to view {} as {} (different element sizes)", script_name(a.self.dtype()),
            script_name(a.dtype));
    if (!surely_eq(strides.back(), 1))
      failf("self.stride(-1) must be 1 to view {} as {} (different element sizes), but got {}",
            script_name(a.self.dtype()), script_name(a.dtype), strides.back().str());
    auto scale = [&](SymInt v, const char* what) {
      if (to < from) return v * (from / to);
      if (!(mod(v, to / from) == 0))
        failf("{} must be divisible by {} to view {} as {} (different element sizes), but got {}", what,
              to / from, script_name(a.self.dtype()), script_name(a.dtype), v.str());
      return floor_div(v, to / from);
    };
    sizes.back() = scale(sizes.back(), "self.size(-1)");
    offset = scale(offset, "self.storage_offset()");
    for (size_t d = 0; d + 1 < strides.size(); ++d) strides[d] = scale(strides[d], "self.stride()");
  }
  Tensor t = a.self.as_view(std::move(sizes), std::move(strides), offset);
  t->dtype = a.dtype;
  return t;
}

Tensor view_view_as_real(const args::view_as_real& a) {
  if (!a.self.is_complex()) fail("view_as_real is only supported for complex tensors");
  Dims sizes(a.self.sizes()), strides(a.self.strides());
  for (SymInt& s : strides) s = s * 2;
  sizes.push_back(2);
  strides.push_back(1);
  Tensor t = a.self.as_view(std::move(sizes), std::move(strides), a.self.offset() * 2);
  t->dtype = to_real(a.self.dtype());
  return t;
}

Tensor view_view_as_complex(const args::view_as_complex& a) {
  if (a.self.dtype() != kFloat && a.self.dtype() != kDouble && a.self.dtype() != kHalf)
    failf(
        "view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar "
        "type: {}",
        script_name(a.self.dtype()));
  Dims sizes(a.self.sizes()), strides(a.self.strides());
  if (sizes.empty()) fail("Input tensor must have one or more dimensions");
  if (!(sizes.back() == 2)) fail("Tensor must have a last dimension of size 2");
  if (!surely_eq(strides.back(), 1)) fail("Tensor must have a last dimension with stride 1");
  sizes.pop_back();
  strides.pop_back();
  for (SymInt& s : strides) s = floor_div(s, 2);
  Tensor t = a.self.as_view(std::move(sizes), std::move(strides), floor_div(a.self.offset(), 2));
  t->dtype = to_complex(a.self.dtype());
  return t;
}

Tensor body_flatten_using_ints(const args::flatten_using_ints& a) {
  int64_t start = wrap_dim(a.start_dim, a.self.dim()), end = wrap_dim(a.end_dim, a.self.dim());
  if (start > end) fail("flatten() has invalid args: start_dim cannot come after end_dim");
  if (a.self.dim() == 0) return reshape(a.self, {1});
  if (start == end) return a.self;
  Dims sizes;
  for (int64_t d = 0; d < start; ++d) sizes.push_back(a.self.sizes()[d]);
  SymInt middle = 1;
  for (int64_t d = start; d <= end; ++d) middle = middle * a.self.sizes()[d];
  sizes.push_back(middle);
  for (int64_t d = end + 1; d < a.self.dim(); ++d) sizes.push_back(a.self.sizes()[d]);
  return reshape(a.self, sizes);
}

Tensor body_unflatten_int(const args::unflatten_int& a) {
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  if (a.sizes.empty()) fail("unflatten: sizes must be non-empty");
  if (a.self.dim() == 0) fail("unflatten: the tensor has no dimension to unflatten");
  Dims inner;
  try {
    inner = infer_sizes(a.sizes, a.self.sizes()[dim]);
  } catch (const Error&) {
    failf("unflatten: Provided sizes {} don't multiply up to the size of dim {} ({}) in the input tensor",
          str(a.sizes), dim, a.self.sizes()[dim].str());
  }
  Dims sizes;
  for (int64_t d = 0; d < a.self.dim(); ++d) {
    if (d != dim)
      sizes.push_back(a.self.sizes()[d]);
    else
      for (SymInt s : inner) sizes.push_back(s);
  }
  return view(a.self, sizes);
}

// ---- order of dimensions ----

namespace {

Tensor permuted(const Tensor& self, Span<const int64_t> dims) {
  if (static_cast<int64_t>(dims.size()) != self.dim())
    failf(
        "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
        "desired ordering "
        "of dimensions i.e. input.dim() = {} is not equal to len(dims) = {}",
        self.dim(), dims.size());
  Dims sizes, strides;
  uint64_t seen = 0;
  for (int64_t d : dims) {
    int64_t at = wrap_dim(d, self.dim());
    if (seen >> at & 1) fail("permute(): duplicate dims are not allowed.");
    seen |= uint64_t{1} << at;
    sizes.push_back(self.sizes()[at]);
    strides.push_back(self.strides()[at]);
  }
  return self.as_view(std::move(sizes), std::move(strides));
}

Tensor transposed(const Tensor& self, int64_t dim0, int64_t dim1) {
  dim0 = wrap_dim(dim0, self.dim());
  dim1 = wrap_dim(dim1, self.dim());
  Dims sizes(self.sizes()), strides(self.strides());
  if (self.dim() > 0) {
    std::swap(sizes[dim0], sizes[dim1]);
    std::swap(strides[dim0], strides[dim1]);
  }
  return self.as_view(std::move(sizes), std::move(strides));
}

}  // namespace

Tensor view_permute(const args::permute& a) { return permuted(a.self, a.dims.span()); }
Tensor view_transpose_int(const args::transpose_int& a) { return transposed(a.self, a.dim0, a.dim1); }
Tensor view_t(const args::t& a) {
  if (a.self.dim() > 2) failf("t() expects a tensor with <= 2 dimensions, but self is {}D", a.self.dim());
  return transposed(a.self, 0, a.self.dim() < 2 ? 0 : 1);
}

Tensor body_movedim_intlist(const args::movedim_intlist& a) {
  if (a.source.size() != a.destination.size())
    failf(
        "movedim: Invalid source or destination dims: source ({} dims) should contain the same number of "
        "dims as "
        "destination ({} dims)",
        a.source.size(), a.destination.size());
  SmallVector<int64_t, 6> order(static_cast<size_t>(a.self.dim()), -1);
  SmallVector<int64_t, 6> taken(static_cast<size_t>(a.self.dim()), 0);
  for (size_t i = 0; i < a.source.size(); ++i) {
    int64_t from = wrap_dim(a.source[i], a.self.dim()), to = wrap_dim(a.destination[i], a.self.dim());
    if (a.self.dim() == 0) continue;
    if (taken[from]) failf("movedim: repeated dim in `source`");
    if (order[to] >= 0) failf("movedim: repeated dim in `destination`");
    taken[from] = 1;
    order[to] = from;
  }
  size_t next = 0;
  for (int64_t& d : order) {
    if (d >= 0) continue;
    while (taken[next]) ++next;
    d = static_cast<int64_t>(next++);
  }
  return permute(a.self, order);
}

// ---- parts ----

Tensor view_select_int(const args::select_int& a) { return select_view(a.self, a.dim, a.index); }
Tensor view_slice_Tensor(const args::slice_Tensor& a) {
  return slice_view(a.self, a.dim, a.start, a.end, a.step);
}
Tensor view_diagonal(const args::diagonal& a) { return diagonal_view(a.self, a.offset, a.dim1, a.dim2); }
Tensor view_unfold(const args::unfold& a) { return unfold_view(a.self, a.dimension, a.size, a.step); }
Tensor view_as_strided(const args::as_strided& a) {
  return strided_view(a.self, a.size, a.stride, a.storage_offset.value_or(a.self.offset()));
}
Tensor view_slice_inverse(const args::slice_inverse& a) {
  return strided_view(a.self, a.src.sizes(), a.src.strides(), a.src.offset());
}

Tensor body_narrow_Tensor(const args::narrow_Tensor& a) {
  if (a.start.dim() != 0 || !is_integral(a.start.dtype())) fail("start must be an 0-dim integral Tensor.");
  return narrow(a.self, a.dim, item(a.start).sym(), a.length);
}
Tensor body_narrow(const args::narrow& a) {
  if (a.self.dim() == 0) fail("narrow() cannot be applied to a 0-dim tensor.");
  if (a.length.is_int() && a.length.as_int() < 0) fail("narrow(): length must be non-negative.");
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  SymInt size = a.self.sizes()[dim], start = a.start;
  if (start.is_int() || start.hint()) {
    if (start < -size || start > size)
      failf(ErrorKind::index, "start out of range (expected to be in range of [{}, {}], but got {})",
            (-size).str(), size.str(), start.str());
    if (start < 0) start = start + size;
    if (!surely_le(start + a.length, size) && start + a.length > size)
      failf("start ({}) + length ({}) exceeds dimension size ({}).", start.str(), a.length.str(), size.str());
  }
  return slice(a.self, dim, start, start + a.length, 1);
}

Tensor view_expand(const args::expand& a) { return expand_view(a.self, a.size); }

std::vector<Tensor> body_broadcast_tensors(const args::broadcast_tensors& a) {
  Dims sizes;
  for (const Tensor& t : a.tensors) sizes = broadcast_sizes(sizes, t.sizes());
  std::vector<Tensor> list;
  for (const Tensor& t : a.tensors) list.push_back(expanded(t, sizes));
  return list;
}

std::vector<Tensor> body_meshgrid_indexing(const args::meshgrid_indexing& a) {
  if (a.tensors.empty()) fail("meshgrid expects a non-empty TensorList");
  if (a.indexing != "ij" && a.indexing != "xy")
    failf("torch.meshgrid: indexing must be one of \"xy\" or \"ij\", but received: {}", a.indexing);
  std::vector<Tensor> tensors = a.tensors.vec();
  bool swap = a.indexing == "xy" && tensors.size() >= 2;
  if (swap) std::swap(tensors[0], tensors[1]);
  Dims sizes;
  for (const Tensor& t : tensors) {
    if (t.dim() > 1)
      failf("torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {}", str(t.sizes()));
    sizes.push_back(t.numel());
  }
  std::vector<Tensor> grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Dims shape(tensors.size(), SymInt(1));
    shape[i] = tensors[i].numel();
    grids.push_back(expand(view(tensors[i], shape), sizes));
  }
  if (swap) std::swap(grids[0], grids[1]);
  return grids;
}

// ---- dimensions of size one ----

namespace {

Tensor squeezed(const Tensor& self, uint64_t which) {
  Dims sizes, strides;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if ((which >> d & 1) && (surely_eq(self.sizes()[d], 1) || guard_eq_or(self.sizes()[d], 1, false)))
      continue;
    sizes.push_back(self.sizes()[d]);
    strides.push_back(self.strides()[d]);
  }
  return self.as_view(std::move(sizes), std::move(strides));
}

Tensor unsqueezed(const Tensor& self, int64_t dim) {
  dim = wrap_dim(dim, self.dim() + 1);
  Dims sizes(self.sizes()), strides(self.strides());
  SymInt stride = dim < self.dim() ? sizes[dim] * strides[dim] : SymInt(1);
  sizes.insert(static_cast<size_t>(dim), 1);
  strides.insert(static_cast<size_t>(dim), stride);
  return self.as_view(std::move(sizes), std::move(strides));
}

}  // namespace

Tensor view_squeeze(const args::squeeze& a) { return squeezed(a.self, ~uint64_t{0}); }
Tensor body_squeeze(const args::squeeze& a) {
  std::vector<int64_t> ones;
  for (int64_t d = 0; d < a.self.dim(); ++d)
    if (a.self.size(d) == 1) ones.push_back(d);
  return squeeze(a.self, Ints(ones));
}
Tensor view_squeeze_dim(const args::squeeze_dim& a) {
  return squeezed(a.self, uint64_t{1} << wrap_dim(a.dim, a.self.dim()));
}
Tensor view_squeeze_dims(const args::squeeze_dims& a) {
  uint64_t which = 0;
  for (int64_t d : a.dim) which |= uint64_t{1} << wrap_dim(d, a.self.dim());
  return squeezed(a.self, which);
}
Tensor view_unsqueeze(const args::unsqueeze& a) { return unsqueezed(a.self, a.dim); }

// ---- lists of views ----

std::vector<Tensor> view_split_with_sizes(const args::split_with_sizes& a) {
  if (a.self.dim() == 0) fail("split expects at least a 1-dimensional tensor");
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  SymInt size = a.self.sizes()[dim], sum = 0;
  for (SymInt s : a.split_sizes) {
    if (s.is_int() && s.as_int() < 0)
      failf("split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={}",
            str(a.split_sizes));
    sum = sum + s;
  }
  if (!require_eq(sum, size))
    failf(
        "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {}), "
        "but got "
        "split_sizes={}",
        size.str(), dim, str(a.split_sizes));
  std::vector<Tensor> parts;
  SymInt at = a.self.offset();
  for (SymInt s : a.split_sizes) {
    Dims sizes(a.self.sizes());
    sizes[dim] = s;
    parts.push_back(a.self.as_view(std::move(sizes), Dims(a.self.strides()), at));
    at = at + s * a.self.strides()[dim];
  }
  return parts;
}

std::vector<Tensor> body_split_Tensor(const args::split_Tensor& a) {
  if (a.self.dim() == 0) fail("split expects at least a 1-dimensional tensor");
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  SymInt size = a.self.sizes()[dim], step = a.split_size;
  if (step.is_int() && step.as_int() < 0)
    failf("split expects split_size be non-negative, but got split_size={}", step.str());
  Dims sizes;
  if (step == 0) {
    if (!(size == 0))
      failf("split_size can only be 0 if dimension size is 0, but got dimension size of {}", size.str());
    sizes.push_back(0);
    return split_with_sizes(a.self, sizes, dim);
  }
  int64_t count = std::max<int64_t>(floor_div(size + step - 1, step).guard_int(), 1);
  for (int64_t i = 0; i + 1 < count; ++i) sizes.push_back(step);
  sizes.push_back(size - step * (count - 1));
  return split_with_sizes(a.self, sizes, dim);
}

namespace {

SymInt chunk_size(const Tensor& self, int64_t chunks, int64_t dim) {
  if (self.dim() == 0) fail("chunk expects at least a 1-dimensional tensor");
  if (chunks <= 0) failf("chunk expects `chunks` to be greater than 0, got: {}", chunks);
  return floor_div(self.sizes()[wrap_dim(dim, self.dim())] + chunks - 1, chunks);
}

// The parts of an unsafe split share memory with the whole, yet count their writes for themselves: each may
// be changed in place with a history of its own, as traced LSTM cells do. Memory that is only planned or
// captured has no history, there they are views.
std::vector<Tensor> apart(std::vector<Tensor> parts) {
  for (Tensor& t : parts) {
    if (t.is_fake() || !t.storage()->data || t.storage()->alias) continue;
    t = t.shallow_copy();
    t->storage = share(t.storage());
  }
  return parts;
}

}  // namespace

std::vector<Tensor> body_chunk(const args::chunk& a) {
  SymInt step = chunk_size(a.self, a.chunks, a.dim);
  if (surely_eq(step, 0))
    return split_with_sizes(a.self, Dims(static_cast<size_t>(a.chunks), SymInt(0)), a.dim);
  return split(a.self, step, a.dim);
}
std::vector<Tensor> body_unsafe_chunk(const args::unsafe_chunk& a) {
  SymInt step = chunk_size(a.self, a.chunks, a.dim);
  if (surely_eq(step, 0))
    return unsafe_split_with_sizes(a.self, Dims(static_cast<size_t>(a.chunks), SymInt(0)), a.dim);
  return unsafe_split(a.self, step, a.dim);
}
std::vector<Tensor> view_unsafe_split_Tensor(const args::unsafe_split_Tensor& a) {
  return apart(split(a.self, a.split_size, a.dim));
}
std::vector<Tensor> view_unsafe_split_with_sizes(const args::unsafe_split_with_sizes& a) {
  return apart(split_with_sizes(a.self, a.split_sizes, a.dim));
}

std::vector<Tensor> body_tensor_split_sections(const args::tensor_split_sections& a) {
  if (a.self.dim() == 0)
    fail("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  int64_t dim = wrap_dim(a.dim, a.self.dim()), sections = a.sections.guard_int();
  if (sections <= 0) failf("number of sections must be larger than 0, got {}", sections);
  SymInt size = a.self.sizes()[dim], least = floor_div(size, sections);
  int64_t longer = mod(size, sections).guard_int();
  std::vector<Tensor> parts;
  SymInt from = 0;
  for (int64_t i = 0; i < sections; ++i) {
    SymInt to = from + least + (i < longer ? 1 : 0);
    parts.push_back(slice(a.self, dim, from, to, 1));
    from = to;
  }
  return parts;
}
std::vector<Tensor> body_tensor_split_indices(const args::tensor_split_indices& a) {
  if (a.self.dim() == 0)
    fail("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  std::vector<Tensor> parts;
  SymInt from = 0;
  for (SymInt to : a.indices) {
    parts.push_back(slice(a.self, a.dim, from, to, 1));
    from = to;
  }
  parts.push_back(slice(a.self, a.dim, from, std::nullopt, 1));
  return parts;
}

std::vector<Tensor> body_tensor_split_tensor_indices_or_sections(
    const args::tensor_split_tensor_indices_or_sections& a) {
  const Tensor& where = a.tensor_indices_or_sections;
  if (a.self.dim() == 0)
    fail("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims");
  if (where.dtype() != kLong)
    failf("tensor_split expected tensor_indices_or_sections to have dtype of long, but got {}",
          script_name(where.dtype()));
  if (where.dim() > 1)
    failf(
        "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional "
        "tensor, but got a tensor with {} dims",
        where.dim());
  if (where.dim() == 0) return tensor_split(a.self, where.item().sym(), a.dim);
  Dims indices;
  SymInt n = where.sizes()[0];
  for (int64_t i = 0; i < n.guard_int(); ++i) indices.push_back(select(where, 0, i).item().sym());
  return tensor_split(a.self, indices, a.dim);
}

std::vector<Tensor> view_unbind_int(const args::unbind_int& a) {
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  if (a.self.dim() == 0) fail(ErrorKind::index, "Dimension specified as 0 but tensor has no dimensions");
  std::vector<Tensor> parts;
  int64_t n = a.self.sizes()[dim].guard_int();
  for (int64_t i = 0; i < n; ++i) parts.push_back(select_view(a.self, dim, i));
  return parts;
}
std::vector<Tensor> body_unbind_int(const args::unbind_int& a) {
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  if (a.self.dim() == 0) fail(ErrorKind::index, "Dimension specified as 0 but tensor has no dimensions");
  std::vector<Tensor> parts;
  int64_t n = a.self.sizes()[dim].guard_int();
  for (int64_t i = 0; i < n; ++i) parts.push_back(slice(a.self, dim, i, i + 1));
  for (Tensor& part : parts) part = squeeze(part, Ints(Span<const int64_t>(&dim, 1)));
  return parts;
}

// ---- the same tensor with other sizes ----

namespace {

Tensor take_geometry(const Tensor& self, const Tensor& view) {
  self->sizes = view->sizes;
  self->strides = view->strides;
  self->contiguous = view->contiguous;
  ++self.storage()->version;
  return self;
}

}  // namespace

Tensor kernel_squeeze_(const args::squeeze_& a) {
  return take_geometry(a.self, squeezed(a.self, ~uint64_t{0}));
}
Tensor kernel_squeeze__dim(const args::squeeze__dim& a) {
  return take_geometry(a.self, squeezed(a.self, uint64_t{1} << wrap_dim(a.dim, a.self.dim())));
}
Tensor kernel_squeeze__dims(const args::squeeze__dims& a) {
  uint64_t which = 0;
  for (int64_t d : a.dim) which |= uint64_t{1} << wrap_dim(d, a.self.dim());
  return take_geometry(a.self, squeezed(a.self, which));
}
Tensor kernel_unsqueeze_(const args::unsqueeze_& a) {
  return take_geometry(a.self, unsqueezed(a.self, a.dim));
}
Tensor kernel_transpose_(const args::transpose_& a) {
  return take_geometry(a.self, transposed(a.self, a.dim0, a.dim1));
}
Tensor kernel_as_strided_(const args::as_strided_& a) {
  Tensor view = as_strided(a.self.shallow_copy(), a.size, a.stride, a.storage_offset);
  a.self->offset = view.offset();
  a.self->numel = view.numel();
  a.self->symbolic = view.is_symbolic();
  return take_geometry(a.self, view);
}
Tensor kernel_t_(const args::t_& a) {
  if (a.self.dim() > 2) failf("t_() expects a tensor with <= 2 dimensions, but self is {}D", a.self.dim());
  return take_geometry(a.self, transposed(a.self, 0, a.self.dim() < 2 ? 0 : 1));
}

}  // namespace tern
