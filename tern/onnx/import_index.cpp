// Import of gathers, scatters and sorting.
#include "tern/onnx/import.h"

namespace tern::onnx {

namespace {

int64_t axis_of(Importing& n, int64_t otherwise) {
  int64_t axis = n.integer("axis", otherwise), rank = n.in(0).dim();
  if (axis < -rank || axis >= std::max<int64_t>(rank, 1)) n.refuse("the axis is out of range");
  return axis < 0 ? axis + rank : axis;
}

// Negative positions count from the end.
Tensor wrapped(Importing& n, Tensor index, SymInt size) {
  if (index.dtype() != kLong) index = n("aten::to.dtype", {index, kLong});
  return n("aten::where.self",
           {n("aten::lt.Scalar", {index, 0}), n("aten::add.Scalar", {index, size}), index});
}

// ATen gathers and scatters no wide unsigned integers: the same bits, as signed ones. With `ordered` the sign
// is flipped, so that the larger one stays the larger one.
DType signed_type(DType t) {
  return t == DType::uint16 ? kShort : t == DType::uint32 ? kInt : t == DType::uint64 ? kLong : t;
}
Tensor with_flipped_sign(Importing& n, const Tensor& t) {
  const int64_t sign = t.dtype() == kShort ? INT16_MIN : t.dtype() == kInt ? INT32_MIN : INT64_MIN;
  return n("aten::bitwise_xor.Scalar", {t, sign});
}
Tensor as_signed(Importing& n, const Tensor& t, bool ordered = false) {
  const DType type = signed_type(t.dtype());
  if (type == t.dtype()) return t;
  Tensor bits = n("aten::view.dtype", {t, type});
  return ordered ? with_flipped_sign(n, bits) : bits;
}
Tensor as_before(Importing& n, const Tensor& result, DType type, bool ordered = false) {
  if (type == result.dtype()) return result;
  return n("aten::view.dtype", {ordered ? with_flipped_sign(n, result) : result, type});
}

void import_gather(Importing& n) {
  // Of sizes: sizes.
  if (n.item(0).ints && !n.item(0).scalar && n.constant(1) && n.constant(1)->dim() <= 1) {
    const std::vector<SymInt>& all = *n.item(0).ints;
    std::vector<SymInt> picked;
    for (int64_t i : n.constants(1)) {
      if (i < 0) i += static_cast<int64_t>(all.size());
      if (i < 0 || i >= static_cast<int64_t>(all.size())) n.refuse("an index is out of range");
      picked.push_back(all[static_cast<size_t>(i)]);
    }
    Item item;
    item.scalar = n.constant(1)->dim() == 0;
    item.ints = std::move(picked);
    return n.out(std::move(item));
  }
  Tensor x = n.in(0);
  int64_t axis = axis_of(n, 0);
  if (auto index = n.constant(1); index && index->dim() == 0)
    return n.out(n("aten::select.int", {x, axis, n.constants(1)[0]}));
  Tensor index = n.in(1);
  if (index.dtype() != kLong) index = n("aten::to.dtype", {index, kLong});
  std::vector<tern::Value> indices(static_cast<size_t>(axis));
  indices.emplace_back(index);
  n.out(n("aten::index.Tensor", {x, tern::Value::list(std::move(indices))}));
}

void import_gather_elements(Importing& n) {
  Tensor x = n.in(0);
  int64_t axis = axis_of(n, 0);
  Tensor y = n("aten::gather", {as_signed(n, x), axis, wrapped(n, n.in(1), x.size(axis))});
  n.out(as_before(n, y, x.dtype()));
}

// Positions [..., k] as k index tensors.
std::vector<tern::Value> columns(Importing& n, const Tensor& indices) {
  auto count = indices.size(-1).maybe_int();
  if (!count) n.refuse("the last size of indices is not known");
  std::vector<tern::Value> out;
  for (int64_t k = 0; k < *count; ++k) {
    Tensor c = n("aten::select.int", {indices, -1, k});
    out.emplace_back(c.dtype() == kLong ? c : n("aten::to.dtype", {c, kLong}));
  }
  return out;
}

void import_gather_nd(Importing& n) {
  Tensor x = n.in(0), indices = n.in(1);
  int64_t batch = n.integer("batch_dims", 0);
  std::vector<tern::Value> list_of;
  // Batch dims are indexed by their own numbers, broadcast over the rest of the indices.
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<SymInt> shape(static_cast<size_t>(indices.dim()) - 1, SymInt(1));
    shape[static_cast<size_t>(b)] = x.size(b);
    Tensor own = n("aten::arange", {x.size(b), kLong});
    list_of.emplace_back(n("aten::reshape", {own, list(shape)}));
  }
  for (tern::Value& c : columns(n, indices)) list_of.push_back(std::move(c));
  if (list_of.empty()) n.refuse("GatherND without indices");
  n.out(n("aten::index.Tensor", {x, tern::Value::list(std::move(list_of))}));
}

void import_scatter_elements(Importing& n) {
  const std::string reduction = n.text("reduction", "none");
  const bool ordered = reduction == "max" || reduction == "min";
  const DType type = n.in(0).dtype();
  Tensor x = as_signed(n, n.in(0), ordered), updates = as_signed(n, n.in(2), ordered), y;
  int64_t axis = axis_of(n, 0);
  Tensor index = wrapped(n, n.in(1), x.size(axis));
  if (reduction == "none") {
    y = n("aten::scatter.src", {x, axis, index, updates});
  } else if (reduction == "add") {
    y = n("aten::scatter_add", {x, axis, index, updates});
  } else {
    const char* how = reduction == "mul" ? "prod" : reduction == "max" ? "amax" : "amin";
    y = n("aten::scatter_reduce.two", {x, axis, index, updates, how, true});
  }
  n.out(as_before(n, y, type, ordered));
}

void import_scatter_nd(Importing& n) {
  const std::string reduction = n.text("reduction", "none");
  const bool ordered = reduction == "max" || reduction == "min";
  const DType type = n.in(0).dtype();
  Tensor x = as_signed(n, n.in(0), ordered), indices = n.in(1), updates = as_signed(n, n.in(2), ordered);
  if (reduction == "none" || reduction == "add") {
    Tensor y = n("aten::index_put", {x, tern::Value::list(columns(n, indices)), updates, reduction == "add"});
    return n.out(as_before(n, y, type));
  }
  // Other reductions on rows: what a position names, flattened; their numbers along one dim.
  std::vector<tern::Value> cols = columns(n, indices);
  const int64_t count = static_cast<int64_t>(cols.size());
  SymInt rows = 1, row = 1, places = 1;
  for (int64_t d = count; d < x.dim(); ++d) row *= x.size(d);
  for (int64_t d = 0; d + 1 < indices.dim(); ++d) places *= indices.size(d);
  Tensor number;
  for (int64_t d = count; d-- > 0;) {
    Tensor part = n("aten::mul.Scalar", {wrapped(n, cols[static_cast<size_t>(d)].tensor(), x.size(d)), rows});
    number = number.defined() ? n("aten::add.Tensor", {number, part}) : part;
    rows *= x.size(d);
  }
  if (!number.defined()) n.refuse("ScatterND without indices");
  auto table = [&](const Tensor& t, SymInt first, SymInt second) {
    return n("aten::reshape", {t, list(std::vector<SymInt>{first, second})});
  };
  Tensor index = n("aten::expand", {table(number, places, 1), list(std::vector<SymInt>{places, row})});
  const char* how = reduction == "mul" ? "prod" : reduction == "max" ? "amax" : "amin";
  Tensor y =
      n("aten::scatter_reduce.two", {table(x, rows, row), 0, index, table(updates, places, row), how, true});
  y = n("aten::reshape", {y, list(std::vector<SymInt>(x.sizes().begin(), x.sizes().end()))});
  n.out(as_before(n, y, type, ordered));
}

void import_top_k(Importing& n) {
  Tensor x = n.in(0);
  SymInt k = n.opset() < 10 ? SymInt(n.integer("k", 1)) : n.sizes(1).at(0);
  const int64_t axis = n.integer("axis", -1);
  const bool largest = n.integer("largest", 1) != 0;
  if (!n.wants(1)) {
    n.out(n.call_many("aten::topk", {x, k, axis, largest, n.integer("sorted", 1) != 0})[0].take_tensor(), 0);
    return;
  }
  // Of equal elements the one with the lower index comes first: ONNX says so, topk does not.
  std::vector<tern::Value> r = n.call_many("aten::sort.stable", {x, true, axis, largest});
  for (size_t i = 0; i < 2; ++i) n.out(n("aten::narrow", {r[i].take_tensor(), axis, int64_t{0}, k}), i);
}

void import_non_zero(Importing& n) { n.out(n("aten::t", {n("aten::nonzero", {n.in(0)})})); }

void import_compress(Importing& n) {
  Tensor x = n.in(0);
  int64_t axis = 0;
  if (n.has_attribute("axis"))
    axis = axis_of(n, 0);
  else
    x = n("aten::reshape", {x, list(std::vector<int64_t>{-1})});
  Tensor where = n("aten::reshape", {n("aten::nonzero", {n.in(1)}), list(std::vector<int64_t>{-1})});
  n.out(n("aten::index_select", {x, axis, where}));
}

void import_one_hot(Importing& n) {
  Tensor indices = n.in(0), values = n.in(2);
  SymInt depth;
  if (auto d = n.constant(1))
    depth = read_scalar(d->as_view({}, {})).to_int();
  else
    depth = n.sizes(1).at(0);
  int64_t axis = n.integer("axis", -1);
  if (axis < 0) axis += indices.dim() + 1;
  Tensor index = indices.dtype() == kLong ? indices : n("aten::to.dtype", {indices, kLong});
  index = n("aten::unsqueeze", {wrapped(n, index, depth), axis});
  std::vector<SymInt> shape(static_cast<size_t>(indices.dim()) + 1, SymInt(1));
  shape[static_cast<size_t>(axis)] = depth;
  Tensor classes = n("aten::reshape", {n("aten::arange", {depth, kLong}), list(shape)});
  Tensor hot = n("aten::eq.Tensor", {index, classes});
  n.out(n("aten::where.self",
          {hot, n("aten::select.int", {values, 0, 1}), n("aten::select.int", {values, 0, 0})}));
}

constexpr Import table[] = {
    {"Gather", import_gather},
    {"GatherElements", import_gather_elements},
    {"GatherND", import_gather_nd},
    {"Scatter", import_scatter_elements},
    {"ScatterElements", import_scatter_elements},
    {"ScatterND", import_scatter_nd},
    {"TopK", import_top_k},
    {"NonZero", import_non_zero},
    {"Compress", import_compress},
    {"OneHot", import_one_hot},
};

}  // namespace

Span<const Import> index_imports() { return table; }

}  // namespace tern::onnx
