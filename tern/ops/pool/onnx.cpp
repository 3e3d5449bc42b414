// Pooling, padding and resizing in ONNX.
#include "tern/onnx/lower.h"
#include "tern/ops.h"

namespace tern::onnx {

namespace {

// Pooling works on a batch: without one, a dimension comes and goes.
struct Batched {
  Batched(Call& call, size_t spatial) : c(call), added(call.rank(0) == static_cast<int64_t>(spatial) + 1) {
    x = added ? c.unsqueeze(c.tensor(0), {0}) : c.tensor(0);
  }
  Ref finish(const Ref& y) { return added ? c.squeeze(y, {0}) : y; }
  Call& c;
  bool added;
  Ref x;
};

std::vector<int64_t> spread(std::vector<int64_t> v, size_t n, int64_t otherwise) {
  if (v.empty()) return std::vector<int64_t>(n, otherwise);
  if (v.size() == 1) v.resize(n, v[0]);
  return v;
}

std::vector<int64_t> both_sides(std::vector<int64_t> v) {
  size_t n = v.size();
  for (size_t i = 0; i < n; ++i) v.push_back(v[i]);
  return v;
}

template <size_t N>
void lower_max_pool(Call& c) {
  Batched in(c, N);
  std::vector<int64_t> kernel = spread(c.ints(1), N, 1);
  std::vector<int64_t> stride = c.ints(2).empty() ? kernel : spread(c.ints(2), N, 1);
  Attributes at = {Attribute::of("kernel_shape", kernel), Attribute::of("strides", stride),
                   Attribute::of("pads", both_sides(spread(c.ints(3), N, 0))),
                   Attribute::of("dilations", spread(c.ints(4), N, 1)),
                   Attribute::of("ceil_mode", int64_t{c.flag(5)})};
  bool wants_indices = c.node().num_outputs() > 1 && c.node().output(1).has_uses();
  if (!wants_indices) {
    c.set(in.finish(c.emit("MaxPool", {in.x}, std::move(at))));
    return;
  }
  std::vector<Ref> out = c.emit_many("MaxPool", {in.x}, std::move(at), 2);
  // ONNX counts through the whole tensor, PyTorch through one plane.
  Ref plane;
  for (size_t d = 0; d < N; ++d) {
    Ref size = c.size_of(in.x, static_cast<int64_t>(d + 2));
    plane = plane ? c.emit("Mul", {plane, size}) : size;
  }
  out[1].dtype = DType::int64;
  Ref indices = c.emit("Mod", {out[1], plane});
  c.set(in.finish(out[0]), 0);
  c.set(in.finish(indices), 1);
}

template <size_t N>
void lower_avg_pool(Call& c) {
  Batched in(c, N);
  std::vector<int64_t> kernel = spread(c.ints(1), N, 1);
  std::vector<int64_t> stride = c.ints(2).empty() ? kernel : spread(c.ints(2), N, 1);
  bool ceil = c.flag(4), include = c.flag(5);
  bool divisor = N > 1 && !c.is_none(6);
  std::vector<int64_t> padding = spread(c.ints(3), N, 0);
  if (divisor && ceil) c.refuse("divisor_override together with ceil_mode cannot be expressed");
  Attributes at = {Attribute::of("kernel_shape", kernel), Attribute::of("strides", stride),
                   Attribute::of("pads", both_sides(padding)), Attribute::of("ceil_mode", int64_t{ceil}),
                   Attribute::of("count_include_pad", int64_t{include || divisor})};
  Ref y = c.emit("AveragePool", {in.x}, std::move(at));
  if (divisor) {
    double count = 1;
    for (int64_t k : kernel) count *= static_cast<double>(k);
    y = c.emit("Mul", {y, c.constant(Scalar(count / c.number(6)), y.dtype)});
  }
  c.set(in.finish(y));
}

std::vector<int64_t> spatial_axes(size_t n) {
  std::vector<int64_t> axes;
  for (size_t d = 0; d < n; ++d) axes.push_back(static_cast<int64_t>(d) - static_cast<int64_t>(n));
  return axes;
}

// Windows of different lengths: an average along one dimension is a product with a matrix of weights, which
// the graph computes where a size is open.
Ref window_weights(Call& c, const Size& in, const Size& out, DType dtype) {
  auto number = [&](int64_t n) { return c.constant(Scalar(n), kLong); };
  auto range = [&](const Ref& end) { return c.emit("Range", {number(0), end, number(1)}, {}, kLong); };
  Ref n = c.as_scalar(in), m = c.as_scalar(out), o = range(m);
  Ref from = c.emit("Div", {c.emit("Mul", {o, n}), m});
  Ref over =
      c.emit("Add", {c.emit("Mul", {c.emit("Add", {o, number(1)}), n}), c.emit("Sub", {m, number(1)})});
  Ref to = c.emit("Div", {over, m});
  Ref i = c.unsqueeze(range(n), {-1});
  Ref inside = c.emit("And", {c.emit("GreaterOrEqual", {i, from}), c.emit("Less", {i, to})});
  return c.emit("Div", {c.cast(inside, dtype), c.cast(c.emit("Sub", {to, from}), dtype)});
}

template <size_t N, bool Max>
void lower_adaptive(Call& c) {
  std::vector<Size> sizes = c.extents(1);
  if (sizes.size() == 1) sizes.resize(N, sizes[0]);
  std::vector<int64_t> wanted;
  for (const Size& s : sizes) wanted.push_back(s.is_static() ? s.value : -1);
  bool global = true, divides = true;
  std::vector<int64_t> kernel;
  for (size_t d = 0; d < N; ++d) {
    auto size = c.dim(0, static_cast<int64_t>(d) - static_cast<int64_t>(N));
    global = global && wanted[d] == 1;
    divides = divides && size && *size > 0 && wanted[d] > 0 && *size % wanted[d] == 0;
    if (divides) kernel.push_back(*size / wanted[d]);
  }
  if (Max && c.node().num_outputs() > 1 && c.node().output(1).has_uses())
    c.refuse("the indices of adaptive_max_pool are used");
  if (global) {
    c.set(c.emit(Max ? "ReduceMax" : "ReduceMean", {c.tensor(0), c.constant(spatial_axes(N))},
                 {Attribute::of("keepdims", int64_t{1})}));
    return;
  }
  if (divides) {
    Batched in(c, N);
    c.set(in.finish(c.emit(Max ? "MaxPool" : "AveragePool", {in.x},
                           {Attribute::of("kernel_shape", kernel), Attribute::of("strides", kernel)})));
    return;
  }
  if (Max) c.refuse("adaptive_max_pool needs static sizes that are multiples of the output's");
  Ref y = c.tensor(0);
  int64_t rank = c.rank(0);
  for (size_t d = 0; d < N; ++d) {
    int64_t at = static_cast<int64_t>(d) - static_cast<int64_t>(N);
    auto size = c.dim(0, at);
    Size in = size ? Size{*size} : Size{0, c.size_of(c.tensor(0), at)};
    Ref weights = window_weights(c, in, sizes[d], y.dtype);
    std::vector<int64_t> perm;
    for (int64_t i = 0; i < rank; ++i) perm.push_back(i);
    size_t axis = static_cast<size_t>(rank) - N + d;
    std::swap(perm[axis], perm.back());
    bool last = d + 1 == N;
    if (!last) y = c.transpose(y, perm);
    y = c.emit("MatMul", {y, weights});
    if (!last) y = c.transpose(y, perm);
  }
  c.set(y);
}

// PyTorch lists pairs from the last dimension on; ONNX all beginnings, then all ends.
void pad(Call& c, const std::string& mode, const Ref& value) {
  Ref x = c.tensor(0);
  int64_t rank = c.rank(0);
  std::vector<Size> given = c.extents(1);
  size_t dims = given.size() / 2;
  std::vector<Size> pads(2 * static_cast<size_t>(rank));
  if (static_cast<int64_t>(dims) > rank) c.refuse("there are more pads than dimensions");
  for (size_t i = 0; i < dims; ++i) {
    size_t d = static_cast<size_t>(rank) - 1 - i;
    pads[d] = given[2 * i];
    pads[d + static_cast<size_t>(rank)] = given[2 * i + 1];
  }
  c.set(c.emit("Pad", {x, c.join(pads), value}, {Attribute::of("mode", mode)}));
}

void lower_constant_pad(Call& c) {
  Ref x = c.tensor(0);
  pad(c, "constant", c.is_none(2) ? Ref() : c.constant(c.scalar(2), x.dtype));
}

void lower_pad(Call& c) {
  std::string mode = c.size() > 2 ? c.text(2) : "constant";
  Ref x = c.tensor(0);
  if (mode == "constant") return pad(c, mode, c.is_none(3) ? Ref() : c.constant(c.scalar(3), x.dtype));
  if (mode == "circular" && c.opset() < 19) c.refuse("circular padding needs opset 19");
  pad(c, mode == "replicate" ? "edge" : mode == "circular" ? "wrap" : mode, {});
}

void lower_reflection_pad(Call& c) { pad(c, "reflect", {}); }
void lower_replication_pad(Call& c) { pad(c, "edge", {}); }

struct ResizeMode {
  const char* mode;
  const char* transform;
  const char* nearest = nullptr;
  bool antialias = false;
};

// Sizes where they are given, else the factors: PyTorch then computes coordinates with them, not with the
// rounded sizes.
void resize(Call& c, size_t spatial, const ResizeMode& m, std::vector<Size> sizes,
            std::vector<double> factors) {
  Attributes at = {Attribute::of("mode", std::string(m.mode)),
                   Attribute::of("coordinate_transformation_mode", std::string(m.transform))};
  if (m.nearest) at.push_back(Attribute::of("nearest_mode", std::string(m.nearest)));
  if (std::string_view(m.mode) == "cubic")
    at.push_back(Attribute::of("cubic_coeff_a", m.antialias ? -0.5f : -0.75f));
  if (m.antialias) {  // elements outside of the image have no weight
    at.push_back(Attribute::of("antialias", int64_t{1}));
    at.push_back(Attribute::of("exclude_outside", int64_t{1}));
  }
  Ref x = c.tensor(0);
  if (!factors.empty()) {
    std::vector<float> scales = {1, 1};
    for (double f : factors) scales.push_back(static_cast<float>(f));
    c.set(c.emit("Resize", {x, {}, c.constant(from_vector(scales, {static_cast<int64_t>(scales.size())}))},
                 std::move(at)));
    return;
  }
  std::vector<Size> all;
  for (size_t d = 0; d < 2; ++d) {
    auto known = c.dim(0, static_cast<int64_t>(d));
    all.push_back(known ? Size{*known} : Size{0, c.size_of(x, static_cast<int64_t>(d))});
  }
  if (sizes.empty()) {  // factors that only say how large the result is
    sizes = c.result_extents();
    sizes.erase(sizes.begin(), sizes.begin() + 2);
  }
  if (sizes.size() != spatial) c.refuse("the output size is missing");
  all.insert(all.end(), sizes.begin(), sizes.end());
  c.set(c.emit("Resize", {x, {}, {}, c.join(all)}, std::move(at)));
}

std::vector<double> factors_of(Call& c, size_t i) {
  std::vector<double> out;
  if (c.is_none(i)) return out;
  const ir::Operand& o = c.node().input(i);
  if (!o.is_constant()) c.refuse("scale_factors are computed by the model");
  for (const tern::Value& v : o.constant().items()) out.push_back(v.to_double());
  return out;
}

template <size_t N>
void lower_nearest(Call& c) {  // (input, output_size, scale_factors)
  resize(c, N, {"nearest", "asymmetric", "floor"}, c.is_none(1) ? std::vector<Size>() : c.extents(1),
         factors_of(c, 2));
}
template <size_t N>
void lower_nearest_exact(Call& c) {
  resize(c, N, {"nearest", "half_pixel", "round_prefer_ceil"},
         c.is_none(1) ? std::vector<Size>() : c.extents(1), factors_of(c, 2));
}
template <size_t N>
void lower_nearest_sizes(Call& c) {  // (self, output_size, scales...)
  resize(c, N, {"nearest", "asymmetric", "floor"}, c.extents(1), {});
}
template <size_t N>
void lower_linear(Call& c) {  // (input, output_size, align_corners, scale_factors)
  resize(c, N, {"linear", c.flag(2) ? "align_corners" : "half_pixel"},
         c.is_none(1) ? std::vector<Size>() : c.extents(1),
         c.flag(2) ? std::vector<double>() : factors_of(c, 3));
}
template <size_t N>
void lower_linear_sizes(Call& c) {  // (self, output_size, align_corners, scales...)
  resize(c, N, {"linear", c.flag(2) ? "align_corners" : "half_pixel"}, c.extents(1), {});
}
void lower_bicubic(Call& c) {
  resize(c, 2, {"cubic", c.flag(2) ? "align_corners" : "half_pixel"},
         c.is_none(1) ? std::vector<Size>() : c.extents(1),
         c.flag(2) ? std::vector<double>() : factors_of(c, 3));
}

void lower_bicubic_sizes(Call& c) {
  resize(c, 2, {"cubic", c.flag(2) ? "align_corners" : "half_pixel"}, c.extents(1), {});
}
// PyTorch's antialiased filters are centred at (i + 0.5)·step even with align_corners, where the step is
// (in - 1)/(out - 1): Resize has no such coordinates. The weights are what the filter makes of unit vectors.
template <bool Cubic>
void resize_with_weights(Call& c) {
  Ref y = c.tensor(0);
  for (int64_t d : {2, 3}) {
    std::optional<int64_t> in = c.dim(0, d);
    Size out = c.result_extents()[static_cast<size_t>(d)];
    if (!in || !out.is_static())
      c.refuse("antialias=True with align_corners=True needs sizes that are known");
    Tensor unit = tern::eye(*in).reshape({1, 1, *in, *in});
    Tensor weights = Cubic ? _upsample_bicubic2d_aa(unit, {out.value, *in}, true)
                           : _upsample_bilinear2d_aa(unit, {out.value, *in}, true);
    weights = weights.reshape({out.value, *in});
    Ref w = c.cast(c.constant(d == 2 ? weights : weights.t().contiguous()), y.dtype);
    y = d == 2 ? c.emit("MatMul", {w, y}) : c.emit("MatMul", {y, w});
  }
  c.set(y);
}
template <bool Cubic>
void lower_antialiased(Call& c) {
  if (c.flag(2)) return resize_with_weights<Cubic>(c);
  resize(c, 2, {Cubic ? "cubic" : "linear", "half_pixel", nullptr, true},
         c.is_none(1) ? std::vector<Size>() : c.extents(1), factors_of(c, 3));
}
template <bool Cubic>
void lower_antialiased_sizes(Call& c) {
  if (c.flag(2)) return resize_with_weights<Cubic>(c);
  resize(c, 2, {Cubic ? "cubic" : "linear", "half_pixel", nullptr, true}, c.extents(1), {});
}
template <size_t N>
void lower_nearest_exact_sizes(Call& c) {
  resize(c, N, {"nearest", "half_pixel", "round_prefer_ceil"}, c.extents(1), {});
}

void lower_grid_sampler(Call& c) {
  static const char* modes[] = {"linear", "nearest", "cubic"};
  static const char* old_modes[] = {"bilinear", "nearest", "bicubic"};
  static const char* paddings[] = {"zeros", "border", "reflection"};
  int64_t mode = c.integer(2), padding = c.integer(3);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) c.refuse("unknown interpolation or padding mode");
  c.set(c.emit("GridSample", {c.tensor(0), c.tensor(1)},
               {Attribute::of("mode", std::string(c.opset() >= 20 ? modes[mode] : old_modes[mode])),
                Attribute::of("padding_mode", std::string(paddings[padding])),
                Attribute::of("align_corners", int64_t{c.flag(4)})}));
}

// (self, output_size, kernel_size, dilation, padding, stride)
void lower_col2im(Call& c) {
  Batched in(c, 1);
  Attributes at = {Attribute::of("dilations", spread(c.ints(3), 2, 1)),
                   Attribute::of("pads", both_sides(spread(c.ints(4), 2, 0))),
                   Attribute::of("strides", spread(c.ints(5), 2, 1))};
  Ref kernel = c.constant(spread(c.ints(2), 2, 1));
  c.set(in.finish(c.emit("Col2Im", {in.x, c.join(c.extents(1)), kernel}, std::move(at))));
}

constexpr Lowering table[] = {
    {"aten::col2im", lower_col2im},
    {"aten::max_pool1d", lower_max_pool<1>},
    {"aten::max_pool2d", lower_max_pool<2>},
    {"aten::max_pool3d", lower_max_pool<3>},
    {"aten::max_pool1d_with_indices", lower_max_pool<1>},
    {"aten::max_pool2d_with_indices", lower_max_pool<2>},
    {"aten::max_pool3d_with_indices", lower_max_pool<3>},
    {"aten::avg_pool1d", lower_avg_pool<1>},
    {"aten::avg_pool2d", lower_avg_pool<2>},
    {"aten::avg_pool3d", lower_avg_pool<3>},
    {"aten::adaptive_avg_pool1d", lower_adaptive<1, false>},
    {"aten::adaptive_avg_pool2d", lower_adaptive<2, false>},
    {"aten::adaptive_avg_pool3d", lower_adaptive<3, false>},
    {"aten::_adaptive_avg_pool2d", lower_adaptive<2, false>},
    {"aten::_adaptive_avg_pool3d", lower_adaptive<3, false>},
    {"aten::adaptive_max_pool1d", lower_adaptive<1, true>},
    {"aten::adaptive_max_pool2d", lower_adaptive<2, true>},
    {"aten::adaptive_max_pool3d", lower_adaptive<3, true>},
    {"aten::constant_pad_nd", lower_constant_pad},
    {"aten::pad", lower_pad},
    {"aten::reflection_pad1d", lower_reflection_pad},
    {"aten::reflection_pad2d", lower_reflection_pad},
    {"aten::reflection_pad3d", lower_reflection_pad},
    {"aten::replication_pad1d", lower_replication_pad},
    {"aten::replication_pad2d", lower_replication_pad},
    {"aten::replication_pad3d", lower_replication_pad},
    {"aten::upsample_nearest1d.vec", lower_nearest<1>},
    {"aten::upsample_nearest2d.vec", lower_nearest<2>},
    {"aten::upsample_nearest3d.vec", lower_nearest<3>},
    {"aten::_upsample_nearest_exact1d.vec", lower_nearest_exact<1>},
    {"aten::_upsample_nearest_exact2d.vec", lower_nearest_exact<2>},
    {"aten::_upsample_nearest_exact3d.vec", lower_nearest_exact<3>},
    {"aten::upsample_nearest1d", lower_nearest_sizes<1>},
    {"aten::upsample_nearest2d", lower_nearest_sizes<2>},
    {"aten::upsample_nearest3d", lower_nearest_sizes<3>},
    {"aten::upsample_linear1d.vec", lower_linear<1>},
    {"aten::upsample_bilinear2d.vec", lower_linear<2>},
    {"aten::upsample_trilinear3d.vec", lower_linear<3>},
    {"aten::upsample_linear1d", lower_linear_sizes<1>},
    {"aten::upsample_bilinear2d", lower_linear_sizes<2>},
    {"aten::upsample_trilinear3d", lower_linear_sizes<3>},
    {"aten::upsample_bicubic2d.vec", lower_bicubic},
    {"aten::upsample_bicubic2d", lower_bicubic_sizes},
    {"aten::_upsample_bilinear2d_aa.vec", lower_antialiased<false>},
    {"aten::_upsample_bilinear2d_aa", lower_antialiased_sizes<false>},
    {"aten::_upsample_bicubic2d_aa.vec", lower_antialiased<true>},
    {"aten::_upsample_bicubic2d_aa", lower_antialiased_sizes<true>},
    {"aten::_upsample_nearest_exact1d", lower_nearest_exact_sizes<1>},
    {"aten::_upsample_nearest_exact2d", lower_nearest_exact_sizes<2>},
    {"aten::_upsample_nearest_exact3d", lower_nearest_exact_sizes<3>},
    {"aten::grid_sampler", lower_grid_sampler},
    {"aten::grid_sampler_2d", lower_grid_sampler},
};

}  // namespace

Span<const Lowering> pool_lowerings() { return table; }

}  // namespace tern::onnx
