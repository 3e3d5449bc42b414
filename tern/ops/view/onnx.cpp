// Views and rearrangements in ONNX, where every view is a copy.
#include <algorithm>
#include <climits>

#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

int64_t wrapped(int64_t d, int64_t rank) { return d < 0 ? d + std::max<int64_t>(rank, 1) : d; }

std::vector<int64_t> identity(int64_t rank) {
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < rank; ++d) perm.push_back(d);
  return perm;
}

Ref slice(Call& c, const Ref& x, int64_t axis, const Size& start, const Size& end, const Size& step = {1}) {
  return c.emit("Slice", {x, c.as_vector(start), c.as_vector(end), c.constant(std::vector<int64_t>{axis}),
                          c.as_vector(step)});
}

void lower_view(Call& c) { c.set(c.reshape(c.tensor(0), c.extents(1))); }
void lower_to_result_shape(Call& c) {
  const ir::Type* t = c.result_type();
  if (t->has_sizes()) {
    c.set(c.reshape(c.tensor(0), c.result_extents()));
    return;
  }
  c.refuse("the sizes of the result are not known; give the graph's inputs sizes");
}

void lower_flatten(Call& c) {
  if (c.result_type()->has_sizes()) return lower_to_result_shape(c);
  int64_t start = c.integer(1), end = c.integer(2);
  if (start == 1 && end == -1)
    return c.set(c.emit("Reshape", {c.tensor(0), c.constant(std::vector<int64_t>{0, -1})}));
  if (start == 0 && end == -1)
    return c.set(c.emit("Reshape", {c.tensor(0), c.constant(std::vector<int64_t>{-1})}));
  int64_t rank = c.rank(0);
  start = wrapped(start, rank), end = wrapped(end, rank);
  std::vector<Size> shape;
  for (int64_t d = 0; d < rank; ++d) {
    if (d > start && d <= end) continue;
    if (d == start)
      shape.push_back({-1});
    else if (auto n = c.dim(0, d))
      shape.push_back({*n});
    else
      shape.push_back({0, c.size_of(c.tensor(0), d)});
  }
  c.set(c.reshape(c.tensor(0), shape));
}

void lower_permute(Call& c) {
  std::vector<int64_t> dims = c.ints(1);
  for (int64_t& d : dims) d = wrapped(d, static_cast<int64_t>(dims.size()));
  c.set(c.transpose(c.tensor(0), dims));
}

void swap_dims(Call& c, int64_t a, int64_t b) {
  int64_t rank = c.rank(0);
  if (rank == 0) return c.set(c.tensor(0));
  std::vector<int64_t> perm = identity(rank);
  std::swap(perm.at(static_cast<size_t>(wrapped(a, rank))), perm.at(static_cast<size_t>(wrapped(b, rank))));
  c.set(c.transpose(c.tensor(0), perm));
}
void lower_transpose(Call& c) { swap_dims(c, c.integer(1), c.integer(2)); }
void lower_t(Call& c) {
  if (c.rank(0) < 2) return c.set(c.tensor(0));
  swap_dims(c, 0, 1);
}
void lower_mT(Call& c) { swap_dims(c, -2, -1); }
void lower_numpy_T(Call& c) {
  std::vector<int64_t> perm = identity(c.rank(0));
  c.set(c.transpose(c.tensor(0), {perm.rbegin(), perm.rend()}));
}

void lower_slice(Call& c) {
  Size start = c.is_none(2) ? Size{0} : c.extent(2);
  Size end = c.is_none(3) ? Size{INT64_MAX} : c.extent(3);
  Size step = c.size() > 4 ? c.extent(4) : Size{1};
  if (start.is_static() && start.value == 0 && end.is_static() && end.value >= INT64_MAX / 2 &&
      step.is_static() && step.value == 1)
    return c.set(c.tensor(0));
  c.set(slice(c, c.tensor(0), c.integer(1), start, end, step));
}

void lower_narrow(Call& c) {
  Size start = c.extent(2), length = c.extent(3);
  Size end = start.is_static() && length.is_static() && start.value >= 0
                 ? Size{start.value + length.value}
                 : Size{0, c.emit("Add", {c.as_vector(start), c.as_vector(length)})};
  if (!end.is_static()) end.ref.rank = 1;
  c.set(slice(c, c.tensor(0), c.integer(1), start, end));
}

// -1 keeps a size: as a factor of a broadcast that is 1.
void lower_expand(Call& c) {
  std::vector<Size> sizes = c.extents(1);
  for (Size& s : sizes)
    if (s.is_static() && s.value == -1) s.value = 1;
  c.set(c.emit("Expand", {c.tensor(0), c.join(sizes)}));
}

void drop_ones(Call& c, std::vector<int64_t> candidates) {
  int64_t rank = c.rank(0);
  std::vector<int64_t> axes;
  for (int64_t d : candidates) {
    d = wrapped(d, rank);
    if (auto n = c.dim(0, d); n && *n == 1) axes.push_back(d);
    // A dynamic size counts as larger than one, as in the capture.
    else if (!n && !c.type(0)->has_sizes())
      c.refuse("squeeze of a tensor whose sizes are not known");
  }
  c.set(axes.empty() ? c.tensor(0) : c.squeeze(c.tensor(0), axes));
}
void lower_squeeze(Call& c) { drop_ones(c, identity(c.rank(0))); }
void lower_squeeze_dims(Call& c) { drop_ones(c, c.ints(1)); }

void split(Call& c, const std::vector<Size>& sizes, int64_t axis) {
  if (sizes.size() == 1) return c.set_list({c.tensor(0)});
  std::vector<Ref> out =
      c.emit_many("Split", {c.tensor(0), c.join(sizes)}, {Attribute::of("axis", axis)}, sizes.size());
  c.set_list(std::move(out));
}
void lower_split_with_sizes(Call& c) { split(c, c.extents(1), c.integer(2)); }

int64_t static_dim(Call& c, int64_t axis, const char* what) {
  auto n = c.dim(0, axis);
  if (!n)
    c.refuse(std::string(what) +
             " along a dimension whose size is not static has an unknown number of results");
  return *n;
}

std::vector<Size> pieces(int64_t total, int64_t each) {
  std::vector<Size> sizes;
  if (total == 0) return {{0}};
  for (int64_t at = 0; at < total; at += each) sizes.push_back({std::min(each, total - at)});
  return sizes;
}
void lower_split(Call& c) {
  int64_t each = c.integer(1), axis = c.integer(2);
  split(c, pieces(static_dim(c, axis, "split"), std::max<int64_t>(each, 1)), axis);
}
void lower_chunk(Call& c) {
  int64_t chunks = c.integer(1), axis = c.integer(2), n = static_dim(c, axis, "chunk");
  if (chunks < 1) c.refuse("chunk needs at least one chunk");
  split(c, pieces(n, std::max<int64_t>((n + chunks - 1) / chunks, 1)), axis);
}
void lower_unbind(Call& c) {
  int64_t axis = c.integer(1), n = static_dim(c, axis, "unbind");
  std::vector<Ref> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(
        c.emit("Gather", {c.tensor(0), c.constant(Scalar(i), kLong)}, {Attribute::of("axis", axis)}));
  c.set_list(std::move(out));
}

// Elements of the flattened input, by a table of positions.
void take_positions(Call& c, const Ref& x, const std::vector<int64_t>& positions,
                    std::vector<int64_t> sizes) {
  Ref flat = c.emit("Reshape", {x, c.constant(std::vector<int64_t>{-1})});
  Dims dims;
  for (int64_t s : sizes) dims.push_back(s);
  c.set(c.emit("Gather", {flat, c.constant(from_vector(positions, dims))},
               {Attribute::of("axis", int64_t{0})}));
}

void lower_as_strided(Call& c) {
  std::vector<int64_t> size = c.ints(1), stride = c.ints(2);
  int64_t offset = c.is_none(3) ? 0 : c.integer(3), count = 1, available = 1;
  for (int64_t d = 0, n = c.rank(0); d < n; ++d) available *= static_dim(c, d, "as_strided");
  for (int64_t s : size) count *= s;
  if (count > (1 << 24))
    c.refuse("as_strided with so many elements cannot be expressed; use reshape, permute or slice");
  std::vector<int64_t> positions(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = offset;
    for (size_t d = size.size(); d-- > 0;) {
      at += rest % size[d] * stride[d];
      rest /= size[d];
    }
    if (at < 0 || at >= available) c.refuse("as_strided reads outside its input's elements");
    positions[static_cast<size_t>(i)] = at;
  }
  take_positions(c, c.tensor(0), positions, size);
}

// 0, step, ... below the end; a dim that the graph knows only when it runs among them.
Ref range(Call& c, const Ref& end, int64_t step = 1) {
  Ref r = c.emit("Range", {c.constant(Scalar(0), kLong), end, c.constant(Scalar(step), kLong)}, {}, kLong);
  r.rank = 1;
  return r;
}
Size extent_of(Call& c, int64_t d) {
  if (auto n = c.dim(0, d)) return {*n};
  return {0, c.size_of(c.tensor(0), d)};
}

void lower_unfold(Call& c) {
  int64_t rank = c.rank(0), axis = wrapped(c.integer(1), rank), size = c.integer(2), step = c.integer(3);
  if (rank == 0 || step < 1) c.refuse("unfold of these sizes cannot be expressed");
  Ref starts =
      range(c, c.emit("Sub", {c.as_scalar(extent_of(c, axis)), c.constant(Scalar(size - 1), kLong)}), step);
  Ref positions = c.emit("Add", {c.unsqueeze(starts, {-1}), range(c, c.constant(Scalar(size), kLong))});
  Ref y = c.emit("Gather", {c.tensor(0), positions}, {Attribute::of("axis", axis)});
  std::vector<int64_t> perm;
  for (int64_t d = 0; d <= rank; ++d)
    if (d != axis + 1) perm.push_back(d);
  perm.push_back(axis + 1);
  c.set(axis == rank - 1 ? y : c.transpose(y, perm));
}

void lower_diagonal(Call& c) {
  int64_t rank = c.rank(0), offset = c.integer(1), a = wrapped(c.integer(2), rank),
          b = wrapped(c.integer(3), rank);
  std::vector<int64_t> perm;
  std::vector<Size> shape;
  for (int64_t d = 0; d < rank; ++d)
    if (d != a && d != b) {
      perm.push_back(d);
      shape.push_back(extent_of(c, d));
    }
  perm.push_back(a), perm.push_back(b);
  Ref rows = c.as_scalar(extent_of(c, a)), columns = c.as_scalar(extent_of(c, b));
  auto number = [&](int64_t n) { return c.constant(Scalar(n), kLong); };
  int64_t down = std::max<int64_t>(0, -offset), right = std::max<int64_t>(0, offset);
  Size all{0, c.emit("Mul", {rows, columns})};
  all.ref.rank = 0;
  shape.push_back(all);
  // Element k of the diagonal stands at (down + k)·columns + right + k.
  Ref count = c.emit("Min", {c.emit("Sub", {rows, number(down)}), c.emit("Sub", {columns, number(right)})});
  Ref first = c.emit("Add", {c.emit("Mul", {columns, number(down)}), number(right)});
  Ref positions =
      c.emit("Add", {c.emit("Mul", {range(c, count), c.emit("Add", {columns, number(1)})}), first});
  Ref flat = c.reshape(c.transpose(c.tensor(0), perm), shape);
  c.set(c.emit("Gather", {flat, positions}, {Attribute::of("axis", int64_t{-1})}));
}

void lower_repeat(Call& c) {
  std::vector<Size> repeats = c.extents(1);
  Ref x = c.tensor(0);
  int64_t rank = c.rank(0);
  std::vector<int64_t> front;
  for (int64_t d = 0; d < static_cast<int64_t>(repeats.size()) - rank; ++d) front.push_back(d);
  if (!front.empty()) x = c.unsqueeze(x, front);
  c.set(repeats.empty() ? x : c.emit("Tile", {x, c.join(repeats)}));
}

void lower_flip(Call& c) {
  std::vector<int64_t> dims = c.ints(1);
  if (dims.empty()) return c.set(c.tensor(0));
  std::vector<int64_t> starts(dims.size(), -1), ends(dims.size(), INT64_MIN), steps(dims.size(), -1);
  c.set(c.emit("Slice",
               {c.tensor(0), c.constant(starts), c.constant(ends), c.constant(dims), c.constant(steps)}));
}

void lower_roll(Call& c) {
  std::vector<int64_t> shifts = c.ints(1), dims = c.ints(2);
  Ref x = c.tensor(0);
  bool flat = dims.empty();
  Ref y = flat ? c.emit("Reshape", {x, c.constant(std::vector<int64_t>{-1})}) : x;
  if (flat) dims = {0};
  if (shifts.size() != dims.size()) c.refuse("roll needs a shift for each dim");
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t shift = shifts[i];
    int64_t axis = dims[i];
    std::optional<int64_t> n;
    if (!flat) n = c.dim(0, axis);
    if (n && *n) shift = (shift % *n + *n) % *n;
    if (shift == 0 || (n && *n == 0)) continue;
    Ref back = slice(c, y, axis, {-shift}, {INT64_MAX}), front = slice(c, y, axis, {0}, {-shift});
    y = c.emit("Concat", {back, front}, {Attribute::of("axis", axis)});
  }
  c.set(flat ? c.emit("Reshape", {y, c.shape(x)}) : y);
}

// Parts of `self` around `src`.
Ref replaced(Call& c, const Ref& self, const Ref& src, int64_t axis, const Size& start, const Size& end,
             int64_t n) {
  Inputs parts;
  if (!(start.is_static() && start.value == 0)) parts.push_back(slice(c, self, axis, {0}, start));
  parts.push_back(src);
  if (!(end.is_static() && end.value >= n)) parts.push_back(slice(c, self, axis, end, {INT64_MAX}));
  return parts.size() == 1 ? src : c.emit("Concat", parts, {Attribute::of("axis", axis)});
}

void lower_slice_scatter(Call& c) {
  int64_t rank = c.rank(0), axis = wrapped(c.integer(2), rank);
  Ref self = c.tensor(0), src = c.cast(c.tensor(1), self.dtype);
  int64_t step = c.integer(5);
  if (!c.dim(0, axis) && step == 1) {  // Slice counts from the end and cuts off what lies beyond it
    int64_t start = c.is_none(3) ? 0 : c.integer(3), end = c.is_none(4) ? INT64_MAX : c.integer(4);
    return c.set(replaced(c, self, src, axis, {start}, {end}, INT64_MAX));
  }
  int64_t n = static_dim(c, axis, "slice_scatter");
  auto bound = [&](size_t i, int64_t otherwise) {
    int64_t v = c.is_none(i) ? otherwise : c.integer(i);
    return std::min(std::max<int64_t>(v < 0 ? v + n : v, 0), n);
  };
  int64_t start = bound(3, 0), end = std::max(bound(4, n), start);
  if (step == 1) return c.set(replaced(c, self, src, axis, {start}, {end}, n));
  std::vector<int64_t> rows, perm = identity(rank);
  for (int64_t i = start; i < end; i += step) rows.push_back(i);
  std::swap(perm[0], perm[static_cast<size_t>(axis)]);
  Ref y = c.emit("ScatterND", {axis ? c.transpose(self, perm) : self,
                               c.constant(from_vector(rows, {static_cast<int64_t>(rows.size()), 1})),
                               axis ? c.transpose(src, perm) : src});
  c.set(axis ? c.transpose(y, perm) : y);
}

void lower_select_scatter(Call& c) {
  int64_t axis = wrapped(c.integer(2), c.rank(0)), index = c.integer(3);
  std::optional<int64_t> n = c.dim(0, axis);
  if (index < 0 && n) index += *n;
  int64_t end = index == -1 ? INT64_MAX : index + 1;
  Ref self = c.tensor(0), src = c.unsqueeze(c.cast(c.tensor(1), self.dtype), {axis});
  c.set(replaced(c, self, src, axis, {index}, {end}, n.value_or(INT64_MAX)));
}

constexpr Lowering table[] = {
    {"aten::view", lower_view},
    {"aten::_unsafe_view", lower_view},
    {"aten::reshape", lower_view},
    {"aten::view_copy", lower_view},
    {"aten::flatten.using_ints", lower_flatten},
    {"aten::unflatten.int", lower_to_result_shape},
    {"aten::permute", lower_permute},
    {"aten::transpose.int", lower_transpose},
    {"aten::t", lower_t},
    {"aten::mT", lower_mT},
    {"aten::numpy_T", lower_numpy_T},
    {"aten::slice.Tensor", lower_slice},
    {"aten::narrow", lower_narrow},
    {"aten::expand", lower_expand},
    {"aten::broadcast_to", lower_expand},
    {"aten::squeeze", lower_squeeze},
    {"aten::squeeze.dim", lower_squeeze_dims},
    {"aten::squeeze.dims", lower_squeeze_dims},
    {"aten::split_with_sizes", lower_split_with_sizes},
    {"aten::split.sizes", lower_split_with_sizes},
    {"aten::split.Tensor", lower_split},
    {"aten::unsafe_split.Tensor", lower_split},
    {"aten::unsafe_split_with_sizes", lower_split_with_sizes},
    {"aten::chunk", lower_chunk},
    {"aten::unbind.int", lower_unbind},
    {"aten::as_strided", lower_as_strided},
    {"aten::unfold", lower_unfold},
    {"aten::diagonal", lower_diagonal},
    {"aten::repeat", lower_repeat},
    {"aten::flip", lower_flip},
    {"aten::roll", lower_roll},
    {"aten::slice_scatter", lower_slice_scatter},
    {"aten::select_scatter", lower_select_scatter},
};

}  // namespace

Span<const Lowering> view_lowerings() { return table; }

}  // namespace tern::onnx
