// Import of convolution, pooling, normalisation, resizing, dropout and attention.
#include <algorithm>
#include <cmath>

#include "tern/onnx/import.h"

namespace tern::onnx {

namespace {

// ---- windows ----

struct Window {
  std::vector<int64_t> kernel, stride, dilation, begin, end;
  bool symmetric() const { return begin == end; }
};

std::vector<int64_t> attribute_or(Importing& n, std::string_view name, size_t dims, int64_t value) {
  std::vector<int64_t> v = n.ints(name);
  return v.empty() ? std::vector<int64_t>(dims, value) : v;
}

int64_t static_size(Importing& n, const Tensor& x, int64_t d, const char* why) {
  auto s = x.size(d).maybe_int();
  if (!s) n.refuse(std::string(why) + " needs static sizes");
  return *s;
}

Window window(Importing& n, const Tensor& x, std::vector<int64_t> kernel) {
  Window w;
  size_t dims = kernel.size();
  if (x.dim() != static_cast<int64_t>(dims) + 2) n.refuse("the input has the wrong number of dims");
  w.kernel = std::move(kernel);
  w.stride = attribute_or(n, "strides", dims, 1);
  w.dilation = attribute_or(n, "dilations", dims, 1);
  std::string automatic = n.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t d = 0; d < dims; ++d) {
      int64_t size = static_size(n, x, static_cast<int64_t>(d) + 2, "auto_pad");
      int64_t out = (size + w.stride[d] - 1) / w.stride[d];
      int64_t total =
          std::max<int64_t>(0, (out - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1 - size);
      int64_t small = total / 2;
      w.begin.push_back(automatic == "SAME_UPPER" ? small : total - small);
      w.end.push_back(automatic == "SAME_UPPER" ? total - small : small);
    }
  } else {
    std::vector<int64_t> pads =
        automatic == "VALID" ? std::vector<int64_t>(2 * dims, 0) : attribute_or(n, "pads", 2 * dims, 0);
    if (pads.size() != 2 * dims) n.refuse("pads has the wrong length");
    w.begin.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(dims));
    w.end.assign(pads.begin() + static_cast<ptrdiff_t>(dims), pads.end());
  }
  if (w.stride.size() != dims || w.dilation.size() != dims)
    n.refuse("strides or dilations have the wrong length");
  return w;
}

Tensor padded(Importing& n, const Tensor& x, const Window& w, tern::Value value) {
  std::vector<int64_t> pad;
  for (size_t d = w.begin.size(); d-- > 0;) pad.push_back(w.begin[d]), pad.push_back(w.end[d]);
  return n("aten::constant_pad_nd", {x, list(pad), value});
}

// ---- convolution ----

void import_conv(Importing& n) {
  Tensor x = n.in(0), weight = n.in(1);
  if (weight.dim() < 3) n.refuse("the weight needs at least three dims");
  std::vector<int64_t> kernel;
  for (int64_t d = 2; d < weight.dim(); ++d) kernel.push_back(static_size(n, weight, d, "a kernel"));
  Window w = window(n, x, kernel);
  if (!w.symmetric()) {
    x = padded(n, x, w, 0);
    w.begin.assign(w.begin.size(), 0);
  }
  n.out(
      n("aten::convolution", {x, weight, n.in_or_none(2), list(w.stride), list(w.begin), list(w.dilation),
                              false, list(std::vector<int64_t>(w.kernel.size(), 0)), n.integer("group", 1)}));
}

void import_conv_transpose(Importing& n) {
  Tensor x = n.in(0), weight = n.in(1);
  std::vector<int64_t> kernel;
  for (int64_t d = 2; d < weight.dim(); ++d) kernel.push_back(static_size(n, weight, d, "a kernel"));
  size_t dims = kernel.size();
  std::vector<int64_t> stride = attribute_or(n, "strides", dims, 1),
                       dilation = attribute_or(n, "dilations", dims, 1);
  std::vector<int64_t> extra = attribute_or(n, "output_padding", dims, 0), wanted = n.ints("output_shape");
  std::vector<int64_t> pads = attribute_or(n, "pads", 2 * dims, 0);
  std::string automatic = n.text("auto_pad", "NOTSET");
  if (wanted.size() == dims + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() || automatic.starts_with("SAME")) {
    for (size_t d = 0; d < dims; ++d) {
      int64_t size = static_size(n, x, static_cast<int64_t>(d) + 2, "output_shape");
      int64_t out = wanted.empty() ? size * stride[d] : wanted[d];
      int64_t total = stride[d] * (size - 1) + extra[d] + (kernel[d] - 1) * dilation[d] + 1 - out;
      if (total < 0) extra[d] -= total, total = 0;
      bool upper = automatic == "SAME_UPPER" || !automatic.starts_with("SAME");
      int64_t small = total / 2;
      pads[d] = automatic == "SAME_UPPER" ? small : total - small;
      pads[d + dims] = total - pads[d];
      (void)upper;
    }
  }
  // Without padding, then the border is cut off; output_padding keeps more of the end.
  bool symmetric = true;
  for (size_t d = 0; d < dims; ++d)
    symmetric = symmetric && pads[d] == pads[d + dims] && extra[d] < std::max(stride[d], dilation[d]);
  std::vector<int64_t> padding(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(dims)), none(dims, 0);
  Tensor y =
      n("aten::convolution", {x, weight, n.in_or_none(2), list(stride), list(symmetric ? padding : none),
                              list(dilation), true, list(symmetric ? extra : none), n.integer("group", 1)});
  if (!symmetric) {
    std::vector<int64_t> cut;
    for (size_t d = dims; d-- > 0;) cut.push_back(-pads[d]), cut.push_back(extra[d] - pads[d + dims]);
    Tensor bias = n.in_or_none(2);
    bool grows = false;
    for (size_t d = 0; d < dims; ++d) grows = grows || extra[d] > pads[d + dims];
    if (bias.defined() && grows) n.refuse("output_padding beyond the padding together with a bias");
    y = n("aten::constant_pad_nd", {y, list(cut), 0});
  }
  n.out(y);
}

// ---- pooling ----

const char* by_dims(Importing& n, size_t dims, const char* one, const char* two, const char* three) {
  if (dims < 1 || dims > 3) n.refuse("pooling over this number of dims");
  return dims == 1 ? one : dims == 2 ? two : three;
}

bool half_of_kernel(const Window& w) {
  for (size_t d = 0; d < w.kernel.size(); ++d)
    if (2 * w.begin[d] > w.kernel[d]) return false;
  return true;
}

void import_max_pool(Importing& n) {
  Tensor x = n.in(0);
  Window w = window(n, x, n.ints("kernel_shape"));
  size_t dims = w.kernel.size();
  bool ceil = n.integer("ceil_mode", 0) != 0;
  DType dtype = x.dtype();
  bool indices = n.wants(1);
  if (indices && n.integer("storage_order", 0)) n.refuse("indices in column-major order");
  Tensor source = x;
  bool moved = !w.symmetric() || !half_of_kernel(w);
  if (is_integral(dtype, true)) x = n("aten::to.dtype", {x, kFloat});
  if (moved) {
    if (indices) n.refuse("indices of a pool with different padding on its sides");
    x = padded(n, x, w, -INFINITY);
    w.begin.assign(dims, 0);
  }
  std::vector<tern::Value> args = {x, list(w.kernel), list(w.stride), list(w.begin), list(w.dilation), ceil};
  if (!indices) {
    Tensor y = n(by_dims(n, dims, "aten::max_pool1d", "aten::max_pool2d", "aten::max_pool3d"), args);
    return n.out(y.dtype() == dtype ? y : n("aten::to.dtype", {y, dtype}));
  }
  std::vector<tern::Value> r =
      n.call_many(by_dims(n, dims, "aten::max_pool1d_with_indices", "aten::max_pool2d_with_indices",
                          "aten::max_pool3d_with_indices"),
                  args);
  n.out(r[0].take_tensor(), 0);
  // ONNX counts through the whole tensor.
  SymInt plane = product(source.sizes().drop_front(2)), planes = source.size(0) * source.size(1);
  std::vector<SymInt> shape = {source.size(0), source.size(1)};
  shape.resize(dims + 2, SymInt(1));
  Tensor offset = n("aten::mul.Scalar", {n("aten::arange", {planes, kLong}), plane});
  n.out(n("aten::add.Tensor", {r[1].take_tensor(), n("aten::reshape", {offset, list(shape)})}), 1);
}

void import_average_pool(Importing& n) {
  Tensor x = n.in(0);
  Window w = window(n, x, n.ints("kernel_shape"));
  size_t dims = w.kernel.size();
  for (int64_t d : w.dilation)
    if (d != 1) n.refuse("AveragePool with dilations");
  bool ceil = n.integer("ceil_mode", 0) != 0, include = n.integer("count_include_pad", 0) != 0;
  const char* op = by_dims(n, dims, "aten::avg_pool1d", "aten::avg_pool2d", "aten::avg_pool3d");
  bool unpadded = true;
  for (size_t d = 0; d < dims; ++d) unpadded = unpadded && !w.begin[d] && !w.end[d];
  if (unpadded || (w.symmetric() && half_of_kernel(w)))
    return n.out(n(op, {x, list(w.kernel), list(w.stride), list(w.begin), ceil, include || unpadded}));
  std::vector<int64_t> zero(dims, 0);
  auto pool = [&](const Tensor& t) {
    return n(op, {padded(n, t, w, 0), list(w.kernel), list(w.stride), list(zero), ceil, true});
  };
  if (include) return n.out(pool(x));
  // The mean over real elements is the mean of all divided by the share of real ones.
  n.out(n("aten::div.Tensor", {pool(x), pool(n("aten::ones_like", {x}))}));
}

std::vector<int64_t> spatial(const Tensor& x) {
  std::vector<int64_t> dims;
  for (int64_t d = 2; d < x.dim(); ++d) dims.push_back(d);
  return dims;
}
void import_global_average_pool(Importing& n) {
  n.out(n("aten::mean.dim", {n.in(0), list(spatial(n.in(0))), true}));
}
void import_global_max_pool(Importing& n) { n.out(n("aten::amax", {n.in(0), list(spatial(n.in(0))), true})); }

// ---- normalisation ----

void import_batch_normalization(Importing& n) {
  if (n.integer("training_mode", 0)) n.refuse("BatchNormalization in training mode");
  n.out(n("aten::batch_norm",
          {n.in(0), n.in(1), n.in(2), n.in(3), n.in(4), false, 0.1, n.number("epsilon", 1e-5), false}));
}

void import_instance_normalization(Importing& n) {
  n.out(n("aten::instance_norm", {n.in(0), n.in(1), n.in(2), tern::Value(), tern::Value(), true, 0.1,
                                  n.number("epsilon", 1e-5), false}));
}

void import_layer_normalization(Importing& n) {
  Tensor x = n.in(0);
  int64_t axis = n.integer("axis", -1);
  if (axis < 0) axis += x.dim();
  std::vector<SymInt> shape(x.sizes().begin() + axis, x.sizes().end());
  std::vector<tern::Value> r = n.call_many(
      "aten::native_layer_norm", {x, list(shape), tern::Value(), tern::Value(), n.number("epsilon", 1e-5)});
  Tensor y = n("aten::mul.Tensor", {r[0].take_tensor(), n.in(1)});
  if (n.has(2)) y = n("aten::add.Tensor", {y, n.in(2)});
  n.out(y);
  if (n.wants(1)) n.out(r[1].take_tensor(), 1);
  if (n.wants(2)) n.out(r[2].take_tensor(), 2);
}

void import_rms_normalization(Importing& n) {
  Tensor x = n.in(0);
  int64_t axis = n.integer("axis", -1);
  if (axis < 0) axis += x.dim();
  std::vector<SymInt> shape(x.sizes().begin() + axis, x.sizes().end());
  Tensor y = n("aten::rms_norm", {x, list(shape), tern::Value(), n.number("epsilon", 1e-5)});
  n.out(n("aten::mul.Tensor", {y, n.in(1)}));
}

void import_group_normalization(Importing& n) {
  Tensor x = n.in(0), scale = n.in(1), bias = n.in(2);
  int64_t groups = n.integer("num_groups", 1);
  SymInt channels = x.size(1);
  if (n.opset() < 21) {  // one number a group
    auto each = [&](const Tensor& t) {
      SymInt times = floor_div(channels, SymInt(groups));
      Tensor wide =
          n("aten::expand", {n("aten::unsqueeze", {t, 1}), list(std::vector<SymInt>{groups, times})});
      return n("aten::reshape", {wide, list(std::vector<int64_t>{-1})});
    };
    scale = each(scale), bias = each(bias);
  }
  n.out(n("aten::group_norm", {x, groups, scale, bias, n.number("epsilon", 1e-5), false}));
}

void import_lrn(Importing& n) {
  Tensor x = n.in(0);
  int64_t size = n.integer("size", 1);
  double alpha = n.number("alpha", 1e-4), beta = n.number("beta", 0.75), bias = n.number("bias", 1);
  Tensor square = n("aten::mul.Tensor", {x, x});
  std::vector<int64_t> pad(2 * static_cast<size_t>(x.dim() - 2), 0);
  pad.push_back((size - 1) / 2), pad.push_back(size - 1 - (size - 1) / 2);
  Tensor wide = n("aten::constant_pad_nd", {square, list(pad), 0}), sum;
  if (size < 1 || size > 1024) n.refuse("the size of LRN");
  for (int64_t k = 0; k < size; ++k) {
    Tensor part = n("aten::narrow", {wide, 1, k, x.size(1)});
    sum = sum.defined() ? n("aten::add.Tensor", {sum, part}) : part;
  }
  Tensor scale =
      n("aten::add.Scalar", {n("aten::mul.Scalar", {sum, alpha / static_cast<double>(size)}), bias});
  n.out(n("aten::div.Tensor", {x, n("aten::pow.Tensor_Scalar", {scale, beta})}));
}

void import_lp_normalization(Importing& n) {
  Tensor x = n.in(0);
  std::vector<int64_t> axis = {n.integer("axis", -1)};
  Tensor norm = n("aten::linalg_vector_norm", {x, static_cast<double>(n.integer("p", 2)), list(axis), true});
  Tensor y = n("aten::div.Tensor", {x, norm});
  n.out(n("aten::where.self", {n("aten::eq.Scalar", {norm, 0}), n("aten::zeros_like", {x}), y}));
}

void import_mean_variance_normalization(Importing& n) {
  Tensor x = n.in(0);
  std::vector<int64_t> axes = n.ints("axes");
  if (axes.empty()) axes = {0, 2, 3};
  Tensor mean = n("aten::mean.dim", {x, list(axes), true});
  Tensor centred = n("aten::sub.Tensor", {x, mean});
  Tensor var = n("aten::mean.dim", {n("aten::mul.Tensor", {centred, centred}), list(axes), true});
  n.out(n("aten::div.Tensor", {centred, n("aten::add.Scalar", {n("aten::sqrt", {var}), 1e-9})}));
}

void import_dropout(Importing& n) {
  if (n.opset() >= 12 && n.has(2) && n.constant_number(2, 0) != 0 &&
      (!n.has(1) || n.constant_number(1, 0.5) != 0))
    n.refuse("Dropout in training mode");
  Tensor x = n.in(0);
  n.out(x);
  if (n.wants(1)) n.out(n("aten::ones_like", {x, DType::bool_}), 1);
}

// ---- resizing: along each dim a table of positions and weights ----

struct Resample {
  std::string transform, mode, nearest;
  double cubic_a = -0.75;
  bool exclude_outside = false, antialias = false;
};

double source_position(Importing& n, const Resample& r, int64_t out, double scale, int64_t in_size,
                       int64_t out_size) {
  double x = static_cast<double>(out);
  if (r.transform == "asymmetric") return x / scale;
  if (r.transform == "align_corners")
    return out_size == 1 ? 0
                         : x * static_cast<double>(in_size - 1) / (static_cast<double>(in_size) * scale - 1);
  if (r.transform == "half_pixel") return (x + 0.5) / scale - 0.5;
  if (r.transform == "pytorch_half_pixel") return out_size > 1 ? (x + 0.5) / scale - 0.5 : 0;
  if (r.transform == "half_pixel_symmetric") {
    double adjustment = static_cast<double>(out_size) / (scale * static_cast<double>(in_size));
    double centre = static_cast<double>(in_size) / 2;
    return centre * (1 - adjustment) + (x + 0.5) / scale - 0.5;
  }
  n.refuse("the coordinate transformation '" + r.transform + "' is not supported");
}

double cubic_weight(double distance, double a) {
  const double d = std::abs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// A smaller image: each of its elements is a mean over as much of the larger one as it covers, as a product
// with a matrix.
Tensor antialiased(Importing& n, const Tensor& x, int64_t axis, int64_t out_size, double scale,
                   const Resample& r) {
  const int64_t in_size = static_size(n, x, axis, "Resize");
  const double shrink = std::min(scale, 1.0), reach = r.mode == "linear" ? 1 : 2;
  std::vector<float> matrix(static_cast<size_t>(in_size * out_size), 0.0f);
  for (int64_t o = 0; o < out_size; ++o) {
    const double s = source_position(n, r, o, scale, in_size, out_size), base = std::floor(s);
    const int64_t first = static_cast<int64_t>(std::floor(-reach / shrink)) + 1,
                  end = static_cast<int64_t>(reach) + 1 - first;
    std::vector<std::pair<int64_t, double>> taps;
    double sum = 0;
    for (int64_t k = first; k < end; ++k) {
      const int64_t i = static_cast<int64_t>(base) + k;
      const double d = (static_cast<double>(k) - (s - base)) * shrink;
      const double w = r.mode == "linear" ? std::max(0.0, 1 - std::abs(d)) : cubic_weight(d, r.cubic_a);
      if (r.exclude_outside && (i < 0 || i >= in_size)) continue;
      taps.emplace_back(std::min(std::max<int64_t>(i, 0), in_size - 1), w);
      sum += w;
    }
    for (auto [i, w] : taps) matrix[static_cast<size_t>(i * out_size + o)] += static_cast<float>(w / sum);
  }
  Tensor m = from_vector(matrix, {in_size, out_size});
  if (x.dtype() != kFloat) m = n("aten::to.dtype", {m, x.dtype()});
  Tensor last = n("aten::transpose.int", {x, axis, int64_t{-1}});
  return n("aten::transpose.int", {n("aten::matmul", {last, m}), axis, int64_t{-1}});
}

Tensor resampled(Importing& n, const Tensor& x, int64_t axis, int64_t out_size, double scale,
                 const Resample& r) {
  int64_t in_size = static_size(n, x, axis, "Resize");
  if (in_size < 1 || out_size < 0) n.refuse("Resize of nothing");
  if (r.antialias) return antialiased(n, x, axis, out_size, scale, r);
  auto inside = [&](int64_t i) { return std::min(std::max<int64_t>(i, 0), in_size - 1); };
  size_t taps = r.mode == "nearest" ? 1 : r.mode == "linear" ? 2 : 4;
  std::vector<std::vector<int64_t>> at(taps);
  std::vector<std::vector<float>> weight(taps);
  for (int64_t o = 0; o < out_size; ++o) {
    double s = source_position(n, r, o, scale, in_size, out_size);
    if (taps == 1) {
      double f = std::floor(s);
      int64_t i = r.nearest == "floor"               ? static_cast<int64_t>(f)
                  : r.nearest == "ceil"              ? static_cast<int64_t>(std::ceil(s))
                  : r.nearest == "round_prefer_ceil" ? static_cast<int64_t>(std::floor(s + 0.5))
                                                     : static_cast<int64_t>(std::ceil(s - 0.5));
      at[0].push_back(inside(i));
      weight[0].push_back(1);
      continue;
    }
    int64_t base = static_cast<int64_t>(std::floor(s));
    double t = s - static_cast<double>(base);
    double w[4];
    if (taps == 2) {
      w[0] = 1 - t, w[1] = t;
    } else {
      double a = r.cubic_a;
      auto near = [&](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
      auto far = [&](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
      w[0] = far(t + 1), w[1] = near(t), w[2] = near(1 - t), w[3] = far(2 - t);
    }
    int64_t first = taps == 2 ? base : base - 1;
    if (r.exclude_outside) {
      double sum = 0;
      for (size_t k = 0; k < taps; ++k) {
        int64_t i = first + static_cast<int64_t>(k);
        if (i < 0 || i >= in_size) w[k] = 0;
        sum += w[k];
      }
      for (size_t k = 0; k < taps; ++k) w[k] /= sum;
    }
    for (size_t k = 0; k < taps; ++k) {
      at[k].push_back(inside(first + static_cast<int64_t>(k)));
      weight[k].push_back(static_cast<float>(w[k]));
    }
  }
  Tensor sum;
  std::vector<SymInt> shape(static_cast<size_t>(x.dim()), SymInt(1));
  shape[static_cast<size_t>(axis)] = out_size;
  for (size_t k = 0; k < taps; ++k) {
    Tensor part = n("aten::index_select", {x, axis, from_vector(at[k], {out_size})});
    if (taps == 1) return part;
    Tensor w = from_vector(weight[k], {out_size});
    if (x.dtype() != kFloat) w = n("aten::to.dtype", {w, x.dtype()});
    part = n("aten::mul.Tensor", {part, n("aten::reshape", {w, list(shape)})});
    sum = sum.defined() ? n("aten::add.Tensor", {sum, part}) : part;
  }
  return sum;
}

// Where a size is not known, only the forms that ATen has an operator for: it says how the size follows.
std::optional<Tensor> upsampled(Importing& n, const Tensor& x, const Resample& r,
                                const std::vector<int64_t>& axes, const std::vector<double>& scales,
                                const std::vector<SymInt>& sizes) {
  int64_t spatial = x.dim() - 2;
  if (spatial < 1 || spatial > 3 || r.antialias || r.exclude_outside) return std::nullopt;
  std::vector<SymInt> out(static_cast<size_t>(spatial));
  std::vector<tern::Value> factors(static_cast<size_t>(spatial), tern::Value(1.0));
  for (int64_t d = 0; d < spatial; ++d) out[static_cast<size_t>(d)] = x.size(d + 2);
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = axes[i] < 0 ? axes[i] + x.dim() : axes[i];
    bool same = scales.empty() ? surely_eq(sizes[i], x.size(axis)) : scales[i] == 1;
    if (axis < 2 && !same) return std::nullopt;
    if (axis < 2) continue;
    if (scales.empty())
      out[static_cast<size_t>(axis - 2)] = sizes[i];
    else
      factors[static_cast<size_t>(axis - 2)] = tern::Value(scales[i]);
  }
  bool corners = r.transform == "align_corners", half = r.transform == "half_pixel";
  bool floor = r.transform == "asymmetric" && r.nearest == "floor";
  bool exact = half && r.nearest == "round_prefer_ceil";
  static constexpr const char* nearest[] = {"aten::upsample_nearest1d.vec", "aten::upsample_nearest2d.vec",
                                            "aten::upsample_nearest3d.vec"};
  static constexpr const char* exactly[] = {"aten::_upsample_nearest_exact1d.vec",
                                            "aten::_upsample_nearest_exact2d.vec",
                                            "aten::_upsample_nearest_exact3d.vec"};
  static constexpr const char* linear[] = {"aten::upsample_linear1d.vec", "aten::upsample_bilinear2d.vec",
                                           "aten::upsample_trilinear3d.vec"};
  size_t k = static_cast<size_t>(spatial - 1);
  tern::Value to = scales.empty() ? list(out) : tern::Value();
  tern::Value by = scales.empty() ? tern::Value() : tern::Value::list(std::move(factors));
  if (r.mode == "nearest" && (floor || exact)) return n(floor ? nearest[k] : exactly[k], {x, to, by});
  if (!corners && !half) return std::nullopt;
  if (r.mode == "linear") return n(linear[k], {x, to, corners, by});
  if (r.mode == "cubic" && spatial == 2 && r.cubic_a == -0.75)
    return n("aten::upsample_bicubic2d.vec", {x, to, corners, by});
  return std::nullopt;
}

void import_resize(Importing& n) {
  Tensor x = n.in(0);
  Resample r;
  r.mode = n.text("mode", "nearest");
  bool upsample = n.node().op == "Upsample";
  r.transform =
      n.text("coordinate_transformation_mode", upsample || n.opset() < 11 ? "asymmetric" : "half_pixel");
  r.nearest = n.text("nearest_mode", upsample || n.opset() < 11 ? "floor" : "round_prefer_floor");
  r.cubic_a = n.number("cubic_coeff_a", -0.75);
  r.exclude_outside = n.integer("exclude_outside", 0) != 0;
  if (r.mode == "bilinear") r.mode = "linear";
  r.antialias = n.integer("antialias", 0) != 0 && r.mode != "nearest";
  if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic")
    n.refuse("the mode '" + r.mode + "' of Resize");
  std::vector<int64_t> axes = n.ints("axes");
  if (axes.empty())
    for (int64_t d = 0; d < x.dim(); ++d) axes.push_back(d);
  size_t scales_at = upsample || n.opset() < 11 ? 1 : 2, sizes_at = 3;
  std::vector<double> scales;
  std::vector<SymInt> sizes;
  if (upsample && n.opset() < 9)
    scales = n.floats("scales");
  else if (n.has(scales_at) && n.constant(scales_at) && n.constant(scales_at)->int_numel())
    scales = n.constant(scales_at)->to_vector<double>();
  else if (n.has(sizes_at))
    sizes = n.sizes(sizes_at);
  if (scales.empty() && sizes.empty()) n.refuse("Resize needs constant scales or sizes");
  if (std::max(scales.size(), sizes.size()) != axes.size()) n.refuse("scales or sizes have the wrong length");
  std::string policy = n.text("keep_aspect_ratio_policy", "stretch");
  auto known = [&](size_t i) -> int64_t {
    if (auto size = sizes[i].maybe_int()) return *size;
    n.refuse("a size of Resize is computed by the model");
  };
  if (!sizes.empty() && policy != "stretch") {
    double factor = policy == "not_larger" ? INFINITY : 0;
    for (size_t i = 0; i < axes.size(); ++i) {
      double s = static_cast<double>(known(i)) / static_cast<double>(static_size(n, x, axes[i], "Resize"));
      factor = policy == "not_larger" ? std::min(factor, s) : std::max(factor, s);
    }
    scales.assign(axes.size(), factor);
    for (size_t i = 0; i < axes.size(); ++i)
      sizes[i] =
          static_cast<int64_t>(std::floor(factor * static_cast<double>(*x.size(axes[i]).maybe_int()) + 0.5));
  }
  DType dtype = x.dtype();
  bool integers = !is_floating(dtype) && r.mode != "nearest";
  if (integers) x = n("aten::to.dtype", {x, kFloat});
  bool open = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    bool same = sizes.empty() ? scales[i] == 1 : surely_eq(sizes[i], x.size(axes[i]));
    open |= !same && (!x.size(axes[i]).maybe_int() || (!sizes.empty() && !sizes[i].maybe_int()));
  }
  if (open)
    if (std::optional<Tensor> y = upsampled(n, x, r, axes, scales, sizes))
      return n.out(integers ? n("aten::to.dtype", {*y, dtype}) : *y);
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = axes[i] < 0 ? axes[i] + x.dim() : axes[i];
    if (!scales.empty() && scales[i] == 1 && (sizes.empty() || surely_eq(sizes[i], x.size(axis)))) continue;
    if (scales.empty() && surely_eq(sizes[i], x.size(axis)) && !x.size(axis).maybe_int()) continue;
    int64_t in_size = static_size(n, x, axis, "Resize");
    int64_t out = !sizes.empty() ? known(i)
                                 : static_cast<int64_t>(std::floor(static_cast<double>(in_size) * scales[i]));
    double scale = !scales.empty() ? scales[i] : static_cast<double>(out) / static_cast<double>(in_size);
    if (out == in_size && scale == 1 && r.transform != "align_corners") continue;
    x = resampled(n, x, axis, out, scale, r);
  }
  n.out(integers ? n("aten::to.dtype", {x, dtype}) : x);
}

void import_grid_sample(Importing& n) {
  std::string mode = n.text("mode", "linear"), padding = n.text("padding_mode", "zeros");
  int64_t m = mode == "linear" || mode == "bilinear" ? 0
              : mode == "nearest"                    ? 1
              : mode == "cubic" || mode == "bicubic" ? 2
                                                     : -1;
  int64_t p = padding == "zeros" ? 0 : padding == "border" ? 1 : padding == "reflection" ? 2 : -1;
  if (m < 0) n.refuse("the mode '" + mode + "' of GridSample");
  if (p < 0) n.refuse("the padding mode '" + padding + "' of GridSample");
  n.out(n("aten::grid_sampler", {n.in(0), n.in(1), m, p, n.integer("align_corners", 0) != 0}));
}

constexpr Import table[] = {
    {"Conv", import_conv},
    {"ConvTranspose", import_conv_transpose},
    {"MaxPool", import_max_pool},
    {"AveragePool", import_average_pool},
    {"GlobalAveragePool", import_global_average_pool},
    {"GlobalMaxPool", import_global_max_pool},
    {"BatchNormalization", import_batch_normalization},
    {"InstanceNormalization", import_instance_normalization},
    {"LayerNormalization", import_layer_normalization},
    {"RMSNormalization", import_rms_normalization},
    {"GroupNormalization", import_group_normalization},
    {"LRN", import_lrn},
    {"LpNormalization", import_lp_normalization},
    {"MeanVarianceNormalization", import_mean_variance_normalization},
    {"Dropout", import_dropout},
    {"Resize", import_resize},
    {"Upsample", import_resize},
    {"GridSample", import_grid_sample},
};

}  // namespace

Span<const Import> nn_imports() { return table; }

}  // namespace tern::onnx
