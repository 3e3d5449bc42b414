// Import of what changes shapes and makes tensors. Sizes are followed as sizes, so that a Shape … Gather …
// Concat … Reshape chain becomes one reshape.
#include <algorithm>
#include <climits>

#include "tern/onnx/import.h"
#include "tern/sym/shape_env.h"

namespace tern::onnx {

namespace {

int64_t wrapped(Importing& n, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= std::max<int64_t>(rank, 1))
    n.refuse("the axis " + std::to_string(axis) + " is out of range");
  return axis < 0 ? axis + rank : axis;
}

std::vector<SymInt> sizes_of(const Tensor& t) { return {t.sizes().begin(), t.sizes().end()}; }

Item size_item(std::vector<SymInt> values, bool scalar = false) {
  bool known = true;
  for (SymInt s : values) known = known && s.is_int();
  Item item;
  if (known) {
    std::vector<int64_t> ints;
    for (SymInt s : values) ints.push_back(s.as_int());
    item.tensor = scalar ? tern::tensor(Scalar(ints[0]), {.dtype = kLong})
                         : from_vector(ints, {static_cast<int64_t>(ints.size())});
    item.real = item.tensor;
    return item;
  }
  item.ints = std::move(values);
  item.scalar = scalar;
  return item;
}

void import_shape(Importing& n) {
  int64_t rank, start = n.integer("start", 0), end = n.integer("end", INT64_MAX);
  std::vector<SymInt> all;
  if (n.item(0).ints && !n.item(0).tensor.defined()) {
    if (!n.item(0).scalar) all.push_back(static_cast<int64_t>(n.item(0).ints->size()));
  } else {
    all = sizes_of(n.in(0));
  }
  rank = static_cast<int64_t>(all.size());
  auto clamp = [&](int64_t v) { return std::min(std::max<int64_t>(v < 0 ? v + rank : v, 0), rank); };
  start = clamp(start), end = clamp(end);
  std::vector<SymInt> part;
  for (int64_t d = start; d < end; ++d) part.push_back(all[static_cast<size_t>(d)]);
  n.out(size_item(std::move(part)));
}

void import_size(Importing& n) { n.out(size_item({n.in(0).numel()}, true)); }

void import_constant(Importing& n) {
  for (const Attribute& a : n.node().attributes) {
    Tensor t;
    if (a.name == "value" && !a.tensors.empty())
      t = to_tensor(a.tensors[0]);
    else if (a.name == "value_float")
      t = tern::tensor(Scalar(a.f), {.dtype = kFloat});
    else if (a.name == "value_int")
      t = tern::tensor(Scalar(a.i), {.dtype = kLong});
    else if (a.name == "value_floats")
      t = from_vector(a.floats, {static_cast<int64_t>(a.floats.size())});
    else if (a.name == "value_ints")
      t = from_vector(a.ints, {static_cast<int64_t>(a.ints.size())});
    else
      continue;
    return n.out(Item{t, t});
  }
  n.refuse("a Constant without a value that Tern has a dtype for");
}

void import_constant_of_shape(Importing& n) {
  std::vector<SymInt> sizes = n.sizes(0);
  tern::Value value = 0.0;
  DType dtype = kFloat;
  if (const Attribute* a = n.node().find("value"); a && !a->tensors.empty()) {
    Tensor t = to_tensor(a->tensors[0]);
    dtype = t.dtype();
    value = read_scalar(t.as_view({}, {}));
  }
  n.out(n("aten::full", {list(sizes), value, dtype}));
}

void import_range(Importing& n) {
  DType dtype = n.item(0).ints ? kLong : n.in(0).dtype();
  std::vector<tern::Value> bounds;
  for (size_t i = 0; i < 3; ++i) {
    if (auto t = n.constant(i)) {
      bounds.push_back(read_scalar(*t));
    } else if (is_integral(dtype, false)) {
      bounds.push_back(n.sizes(i).at(0));
    } else {
      n.refuse("the bounds of a Range of floats are computed by the model");
    }
  }
  n.out(n("aten::arange.start_step", {bounds[0], bounds[1], bounds[2], dtype}));
}

// 0 copies the input's size (unless allowzero), -1 is what is left.
void import_reshape(Importing& n) {
  if (n.item(0).ints && !n.item(0).tensor.defined()) {
    std::vector<SymInt> s = n.sizes(1);
    if (s.size() <= 1 && (s.empty() || s[0].is_int())) {
      Item item = n.item(0);
      item.scalar = s.empty();
      return n.out(std::move(item));
    }
  }
  Tensor x = n.in(0);
  std::vector<SymInt> sizes;
  if (n.opset() < 5) {
    for (int64_t v : n.ints("shape")) sizes.push_back(v);
  } else {
    sizes = n.sizes(1);
  }
  if (!n.integer("allowzero", 0))
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d].is_int() && sizes[d].as_int() == 0) {
        if (d >= x.sizes().size()) n.refuse("a size of 0 has no dim of the input to copy");
        sizes[d] = x.sizes()[d];
      }
  n.out(n("aten::reshape", {x, list(sizes)}));
}

void import_flatten(Importing& n) {
  Tensor x = n.in(0);
  int64_t axis = n.integer("axis", 1);
  if (axis < 0) axis += x.dim();
  SymInt rows = product(Span<const SymInt>(x.sizes().data(), static_cast<size_t>(axis)));
  SymInt columns = product(x.sizes().drop_front(static_cast<size_t>(axis)));
  n.out(n("aten::reshape", {x, list(std::vector<SymInt>{rows, columns})}));
}

void import_transpose(Importing& n) {
  Tensor x = n.in(0);
  std::vector<int64_t> perm = n.ints("perm");
  if (perm.empty())
    for (int64_t d = x.dim(); d-- > 0;) perm.push_back(d);
  n.out(n("aten::permute", {x, list(perm)}));
}

std::vector<int64_t> axes_of(Importing& n, int64_t since) {
  if (n.opset() < since) return n.ints("axes");
  return n.has(1) ? n.constants(1) : std::vector<int64_t>();
}

void import_squeeze(Importing& n) {
  if (n.item(0).ints && n.item(0).ints->size() == 1) {
    Item item = n.item(0);
    item.scalar = true;
    item.tensor = {};
    return n.out(std::move(item));
  }
  Tensor x = n.in(0);
  std::vector<int64_t> axes = axes_of(n, 13);
  n.out(axes.empty() ? n("aten::squeeze", {x}) : n("aten::squeeze.dims", {x, list(axes)}));
}

void import_unsqueeze(Importing& n) {
  std::vector<int64_t> axes = axes_of(n, 13);
  if (n.item(0).ints && n.item(0).scalar && axes.size() == 1) {
    Item item = n.item(0);
    item.scalar = false;
    item.tensor = {};
    return n.out(std::move(item));
  }
  Tensor x = n.in(0);
  int64_t rank = x.dim() + static_cast<int64_t>(axes.size());
  for (int64_t& a : axes) a = wrapped(n, a, rank);
  std::sort(axes.begin(), axes.end());
  for (int64_t a : axes) x = n("aten::unsqueeze", {x, a});
  n.out(x);
}

void import_concat(Importing& n) {
  bool sizes = false, all = true;
  for (size_t i = 0; i < n.size(); ++i) {
    sizes = sizes || n.item(i).ints.has_value();
    auto t = n.constant(i);
    all = all && (n.item(i).ints ? !n.item(i).scalar : t && t->dim() == 1 && t->dtype() == kLong);
  }
  if (sizes && all) {
    std::vector<SymInt> joined;
    for (size_t i = 0; i < n.size(); ++i)
      for (SymInt s : n.sizes(i)) joined.push_back(s);
    return n.out(size_item(std::move(joined)));
  }
  std::vector<Tensor> parts;
  for (size_t i = 0; i < n.size(); ++i) parts.push_back(n.in(i));
  n.out(n("aten::cat", {parts, n.integer("axis", 1)}));
}

void import_split(Importing& n) {
  Tensor x = n.in(0);
  int64_t axis = wrapped(n, n.integer("axis", 0), x.dim());
  std::vector<SymInt> sizes;
  if (n.opset() >= 13 ? n.has(1) : n.has_attribute("split")) {
    if (n.opset() >= 13)
      sizes = n.sizes(1);
    else
      for (int64_t s : n.ints("split")) sizes.push_back(s);
  } else {
    int64_t parts = n.integer("num_outputs", static_cast<int64_t>(n.node().outputs.size()));
    if (parts < 1) n.refuse("Split into no parts");
    SymInt total = x.size(axis), each = floor_div(total + (parts - 1), parts);
    for (int64_t i = 0; i + 1 < parts; ++i) sizes.push_back(each);
    sizes.push_back(total - each * (parts - 1));
  }
  std::vector<Tensor> out = n.call("aten::split_with_sizes", {x, list(sizes), axis}).tensors();
  for (size_t k = 0; k < out.size() && k < n.outputs().size(); ++k) n.out(out[k], k);
}

void import_slice(Importing& n) {
  std::vector<SymInt> starts, ends;
  std::vector<int64_t> axes, steps;
  if (n.opset() < 10) {
    for (int64_t s : n.ints("starts")) starts.push_back(s);
    for (int64_t s : n.ints("ends")) ends.push_back(s);
    axes = n.ints("axes");
  } else {
    starts = n.sizes(1), ends = n.sizes(2);
    if (n.has(3)) axes = n.constants(3);
    if (n.has(4)) steps = n.constants(4);
  }
  if (starts.size() != ends.size()) n.refuse("starts and ends have different lengths");
  bool on_sizes = n.item(0).ints && !n.item(0).scalar && starts.size() == 1;
  if (on_sizes && starts[0].is_int() && ends[0].is_int()) {
    const std::vector<SymInt>& all = *n.item(0).ints;
    int64_t len = static_cast<int64_t>(all.size()), step = steps.empty() ? 1 : steps[0];
    auto clamp = [&](int64_t v) {
      return std::min(std::max<int64_t>(v < 0 ? v + len : v, step > 0 ? 0 : -1), step > 0 ? len : len - 1);
    };
    int64_t from = clamp(starts[0].as_int());
    int64_t to = step < 0 && ends[0].as_int() < -len ? -1 : clamp(ends[0].as_int());
    std::vector<SymInt> part;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step) part.push_back(all[static_cast<size_t>(i)]);
    return n.out(size_item(std::move(part)));
  }
  Tensor x = n.in(0);
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t axis = wrapped(n, i < axes.size() ? axes[i] : static_cast<int64_t>(i), x.dim());
    int64_t step = i < steps.size() ? steps[i] : 1;
    if (step == 0) n.refuse("a step of 0");
    SymInt start = starts[i], end = ends[i];
    // The largest and smallest ints stand for "to the end".
    if (end.is_int() && end.as_int() >= INT32_MAX) end = INT64_MAX;
    if (step > 0) {
      x = n("aten::slice.Tensor", {x, axis, start, end, step});
      continue;
    }
    // Backwards: the elements forwards, then reversed.
    auto size = x.size(axis).maybe_int();
    if (!size || !start.is_int() || !starts[i].is_int() || !ends[i].is_int())
      n.refuse("a negative step needs static sizes");
    int64_t len = *size, first = start.as_int(), last = ends[i].as_int();
    if (first < 0) first += len;
    first = std::min(std::max<int64_t>(first, -1), len - 1);
    last = last < 0 ? last < -len ? -1 : last + len : last;
    last = std::min(last, len - 1);
    std::vector<int64_t> picks;
    for (int64_t k = first; k > last; k += step) picks.push_back(k);
    x = n("aten::index_select", {x, axis, from_vector(picks, {static_cast<int64_t>(picks.size())})});
  }
  n.out(x);
}

void import_expand(Importing& n) {
  Tensor x = n.in(0);
  std::vector<SymInt> sizes = n.sizes(1);
  // Both ways: a 1 in the wanted shape keeps the input's size.
  size_t rank = std::max(sizes.size(), static_cast<size_t>(x.dim()));
  std::vector<SymInt> out(rank, SymInt(1));
  for (size_t d = 0; d < rank; ++d) {
    SymInt mine = d + static_cast<size_t>(x.dim()) >= rank
                      ? x.sizes()[d + static_cast<size_t>(x.dim()) - rank]
                      : SymInt(1);
    SymInt wanted = d + sizes.size() >= rank ? sizes[d + sizes.size() - rank] : SymInt(1);
    out[d] = wanted.is_int() && wanted.as_int() == 1 ? mine : wanted;
  }
  // A constant has data, which sizes that are not known cannot have: it is made by the graph.
  bool open = std::any_of(out.begin(), out.end(), [](SymInt s) { return s.is_symbolic(); });
  if (open && !x.is_fake()) x = n("aten::clone", {x});
  n.out(n("aten::expand", {x, list(out)}));
}

void import_tile(Importing& n) {
  Tensor x = n.in(0);
  std::vector<SymInt> repeats = n.sizes(1);
  n.out(n("aten::repeat", {x, list(repeats)}));
}

void import_pad(Importing& n) {
  Tensor x = n.in(0);
  std::string mode = n.text("mode", "constant");
  std::vector<SymInt> given;
  tern::Value value = 0.0;
  std::vector<int64_t> axes;
  if (n.opset() < 11) {
    for (int64_t p : n.ints("pads")) given.push_back(p);
    value = n.number("value", 0);
  } else {
    given = n.sizes(1);
    if (n.has(2)) {
      auto v = n.constant(2);
      if (!v) n.refuse("the value of Pad is computed by the model");
      value = read_scalar(*v);
    }
    if (n.has(3)) axes = n.constants(3);
  }
  if (axes.empty())
    for (int64_t d = 0; d < x.dim(); ++d) axes.push_back(d);
  if (given.size() != 2 * axes.size()) n.refuse("pads has the wrong length");
  std::vector<SymInt> begin(static_cast<size_t>(x.dim()), SymInt(0)), end = begin;
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t d = static_cast<size_t>(wrapped(n, axes[i], x.dim()));
    begin[d] = given[i];
    end[d] = given[i + axes.size()];
  }
  if (mode == "constant") {
    std::vector<SymInt> pad;
    for (size_t d = begin.size(); d-- > 0;) pad.push_back(begin[d]), pad.push_back(end[d]);
    if (is_integral(x.dtype(), true) && value.is_float()) value = static_cast<int64_t>(value.to_double());
    return n.out(n("aten::constant_pad_nd", {x, list(pad), value}));
  }
  // Along each dim a list of positions.
  for (size_t d = 0; d < begin.size(); ++d) {
    if (begin[d].is_int() && begin[d].as_int() == 0 && end[d].is_int() && end[d].as_int() == 0) continue;
    auto size = x.size(static_cast<int64_t>(d)).maybe_int();
    if (!size || !begin[d].is_int() || !end[d].is_int() || *size < 1)
      n.refuse("padding by '" + mode + "' needs static sizes");
    int64_t len = *size;
    std::vector<int64_t> at;
    for (int64_t i = -begin[d].as_int(); i < len + end[d].as_int(); ++i) {
      if (mode == "edge")
        at.push_back(std::min(std::max<int64_t>(i, 0), len - 1));
      else if (mode == "wrap")
        at.push_back((i % len + len) % len);
      else if (mode == "reflect") {
        int64_t period = std::max<int64_t>(2 * (len - 1), 1), k = (i % period + period) % period;
        at.push_back(len == 1 ? 0 : k < len ? k : period - k);
      } else
        n.refuse("the mode '" + mode + "' is unknown");
    }
    x = n("aten::index_select",
          {x, static_cast<int64_t>(d), from_vector(at, {static_cast<int64_t>(at.size())})});
  }
  n.out(x);
}

void import_trilu(Importing& n) {
  int64_t k = n.has(1) ? n.constants(1).at(0) : 0;
  n.out(n(n.integer("upper", 1) ? "aten::triu" : "aten::tril", {n.in(0), k}));
}

void import_eye_like(Importing& n) {
  Tensor x = n.in(0);
  DType dtype = n.has_attribute("dtype") ? dtype_of(static_cast<DataType>(n.integer("dtype", 1))) : x.dtype();
  int64_t k = n.integer("k", 0);
  Tensor ones = n("aten::full", {list(sizes_of(x)), 1, dtype});
  n.out(n("aten::triu", {n("aten::tril", {ones, k}), k}));
}

void import_depth_to_space(Importing& n) {
  Tensor x = n.in(0);
  int64_t block = n.integer("blocksize", 1);
  std::vector<SymInt> s = sizes_of(x);
  SymInt channels = floor_div(s.at(1), block * block);
  bool crd = n.text("mode", "DCR") == "CRD";
  std::vector<SymInt> split = crd ? std::vector<SymInt>{s[0], channels, block, block, s[2], s[3]}
                                  : std::vector<SymInt>{s[0], block, block, channels, s[2], s[3]};
  std::vector<int64_t> perm =
      crd ? std::vector<int64_t>{0, 1, 4, 2, 5, 3} : std::vector<int64_t>{0, 3, 4, 1, 5, 2};
  Tensor y = n("aten::permute", {n("aten::reshape", {x, list(split)}), list(perm)});
  n.out(n("aten::reshape", {y, list(std::vector<SymInt>{s[0], channels, s[2] * block, s[3] * block})}));
}
void import_space_to_depth(Importing& n) {
  Tensor x = n.in(0);
  int64_t block = n.integer("blocksize", 1);
  std::vector<SymInt> s = sizes_of(x);
  SymInt h = floor_div(s.at(2), block), w = floor_div(s.at(3), block);
  Tensor y = n("aten::reshape", {x, list(std::vector<SymInt>{s[0], s[1], h, block, w, block})});
  y = n("aten::permute", {y, list(n.text("mode", "DCR") == "CRD" ? std::vector<int64_t>{0, 1, 3, 5, 2, 4}
                                                                 : std::vector<int64_t>{0, 3, 5, 1, 2, 4})});
  n.out(n("aten::reshape", {y, list(std::vector<SymInt>{s[0], s[1] * (block * block), h, w})}));
}

constexpr Import table[] = {
    {"Shape", import_shape},
    {"Size", import_size},
    {"Constant", import_constant},
    {"ConstantOfShape", import_constant_of_shape},
    {"Range", import_range},
    {"Reshape", import_reshape},
    {"Flatten", import_flatten},
    {"Transpose", import_transpose},
    {"Squeeze", import_squeeze},
    {"Unsqueeze", import_unsqueeze},
    {"Concat", import_concat},
    {"Split", import_split},
    {"Slice", import_slice},
    {"Expand", import_expand},
    {"Tile", import_tile},
    {"Pad", import_pad},
    {"Trilu", import_trilu},
    {"EyeLike", import_eye_like},
    {"DepthToSpace", import_depth_to_space},
    {"SpaceToDepth", import_space_to_depth},
};

}  // namespace

Span<const Import> shape_imports() { return table; }

}  // namespace tern::onnx
