// Convolutions with packed weights: pixels with their channels innermost, unfolded a block of output pixels
// at a time and multiplied; depthwise ones tap by tap.
#include <algorithm>
#include <cmath>
#include <memory>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/packed.args.h"
#include "tern/ops/quantized/detail/packed.h"
#include "tern/ops/quantized/values.h"

namespace tern {
namespace quantized {
namespace {

// Always three spatial dimensions; missing ones have size one.
struct Geometry {
  int64_t batch = 1, in_channels = 0, out_channels = 0, groups = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1},
          padding[3] = {0, 0, 0}, dilation[3] = {1, 1, 1};
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t in_pixels() const { return in[0] * in[1] * in[2]; }
  int64_t out_pixels() const { return out[0] * out[1] * out[2]; }
};

Geometry geometry(const PackedConv& c, Span<const int64_t> x_sizes, Span<const SymInt> y_sizes) {
  Geometry g;
  const auto dims = static_cast<size_t>(c.dims), shift = 3 - dims;
  g.batch = x_sizes[0];
  g.in_channels = c.in_channels();
  g.out_channels = c.out_channels();
  g.groups = c.p.groups;
  for (size_t d = 0; d < dims; ++d) {
    g.in[d + shift] = x_sizes[d + 2];
    g.out[d + shift] = y_sizes[d + 2].as_int();
    g.kernel[d + shift] = c.weight.int_sizes()[d + 2];
    g.stride[d + shift] = c.p.stride[d];
    g.padding[d + shift] = c.p.padding[d];
    g.dilation[d + shift] = c.p.dilation[d];
  }
  return g;
}

// Output pixels [begin, end) of one image as rows of taps times channels of one group; outside is zero.
void unfold(const Geometry& g, const uint8_t* image, int64_t group, uint8_t zero, int64_t begin, int64_t end,
            uint8_t* rows) {
  const int64_t channels = g.in_channels / g.groups, width = g.taps() * channels;
  const bool side_by_side = g.groups == 1 && g.dilation[2] == 1;
  auto run = [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      uint8_t* to = rows + (p - begin) * width;
      const int64_t z0 = p / (g.out[1] * g.out[2]) * g.stride[0] - g.padding[0],
                    y0 = p / g.out[2] % g.out[1] * g.stride[1] - g.padding[1],
                    x0 = p % g.out[2] * g.stride[2] - g.padding[2];
      for (int64_t i = 0; i < g.kernel[0]; ++i)
        for (int64_t j = 0; j < g.kernel[1]; ++j) {
          const int64_t z = z0 + i * g.dilation[0], y = y0 + j * g.dilation[1];
          if (z < 0 || z >= g.in[0] || y < 0 || y >= g.in[1]) {
            to = std::fill_n(to, g.kernel[2] * channels, zero);
            continue;
          }
          const uint8_t* line = image + (z * g.in[1] + y) * g.in[2] * g.in_channels + group * channels;
          if (side_by_side && x0 >= 0 && x0 + g.kernel[2] <= g.in[2]) {
            to = std::copy_n(line + x0 * channels, g.kernel[2] * channels, to);
            continue;
          }
          for (int64_t k = 0; k < g.kernel[2]; ++k) {
            const int64_t x = x0 + k * g.dilation[2];
            to = x < 0 || x >= g.in[2] ? std::fill_n(to, channels, zero)
                                       : std::copy_n(line + x * g.in_channels, channels, to);
          }
        }
    }
  };
  parallel_for(begin, end, std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)), run);
}

// One image into sums [out pixels, out channels]; `done` gets them block by block.
template <class F>
void convolve(const PackedConv& c, const Geometry& g, const uint8_t* image, int32_t zero, int32_t* sums,
              F done) {
  const int64_t width = g.taps() * (g.in_channels / g.groups), pixels = g.out_pixels(),
                out = g.out_channels / g.groups;
  const bool as_is = g.taps() == 1 && g.groups == 1 && g.out_pixels() == g.in_pixels() &&
                     g.padding[0] + g.padding[1] + g.padding[2] == 0;
  const int64_t block =
      std::clamp<int64_t>(262144 / std::max<int64_t>(std::max(width, g.out_channels), 1), 64, 4096);
  std::unique_ptr<uint8_t[]> rows;
  if (!as_is) rows.reset(new uint8_t[static_cast<size_t>(std::min(block, pixels) * width) + 1]);
  for (int64_t i = 0; i < pixels; i += block) {
    const int64_t n = std::min(block, pixels - i);
    for (int64_t group = 0; group < g.groups; ++group) {
      if (!as_is) unfold(g, image, group, static_cast<uint8_t>(zero), i, i + n, rows.get());
      c.matrices[static_cast<size_t>(group)].multiply(n, as_is ? image + i * width : rows.get(), width, zero,
                                                      sums + group * out, g.out_channels);
    }
    done(i, n);
  }
}

// As many outputs as inputs, each of one channel: the sums of one output pixel are a line of channels.
template <class F>
void convolve_depthwise(const PackedConv& c, const Geometry& g, const uint8_t* image, int32_t zero,
                        int32_t* sums, F done) {
  const int64_t channels = g.in_channels, pixels = g.out_pixels();
  const int64_t block = std::clamp<int64_t>(262144 / std::max<int64_t>(channels, 1), 64, 4096);
  auto run = [&](int64_t b, int64_t first, int64_t last) {
    std::vector<const uint8_t*> seen(static_cast<size_t>(g.taps()));
    for (int64_t p = first; p < last; ++p) {
      int32_t* to = sums + (p - b) * channels;
      const int64_t z0 = p / (g.out[1] * g.out[2]) * g.stride[0] - g.padding[0],
                    y0 = p / g.out[2] % g.out[1] * g.stride[1] - g.padding[1],
                    x0 = p % g.out[2] * g.stride[2] - g.padding[2];
      size_t tap = 0;
      for (int64_t i = 0; i < g.kernel[0]; ++i)
        for (int64_t j = 0; j < g.kernel[1]; ++j)
          for (int64_t k = 0; k < g.kernel[2]; ++k, ++tap) {
            const int64_t z = z0 + i * g.dilation[0], y = y0 + j * g.dilation[1], x = x0 + k * g.dilation[2];
            const bool inside = z >= 0 && z < g.in[0] && y >= 0 && y < g.in[1] && x >= 0 && x < g.in[2];
            seen[tap] = inside ? image + ((z * g.in[1] + y) * g.in[2] + x) * channels : nullptr;
          }
      kernels::multiply_taps(seen.data(), c.taps.data(), g.taps(), zero, to, channels);
      if (!c.shifted) continue;
      // Zero points of the weight, by the sum of what was seen.
      for (int64_t k = 0; k < channels; ++k) {
        int32_t sum = 0;
        for (const uint8_t* pixel : seen)
          if (pixel) sum += pixel[k] - zero;
        to[k] -= sum * c.rows.zero_points[static_cast<size_t>(k)];
      }
    }
  };
  for (int64_t b = 0; b < pixels; b += block) {
    const int64_t n = std::min(block, pixels - b);
    parallel_for(b, b + n, std::max<int64_t>(1, 32768 / std::max<int64_t>(g.taps() * channels, 1)),
                 [&](int64_t first, int64_t last) { run(b, first, last); });
    done(b, n);
  }
}

// Each input pixel gives to all outputs it reaches.
void convolve_transposed(const PackedConv& c, const Geometry& g, const uint8_t* image, int32_t zero,
                         int32_t* sums) {
  const int64_t out = g.out_channels / g.groups, in = g.in_channels / g.groups, width = g.taps() * out;
  std::fill_n(sums, g.out_pixels() * g.out_channels, 0);
  std::unique_ptr<int32_t[]> given(new int32_t[static_cast<size_t>(g.in_pixels() * width) + 1]);
  for (int64_t group = 0; group < g.groups; ++group) {
    c.matrices[static_cast<size_t>(group)].multiply(g.in_pixels(), image + group * in, g.in_channels, zero,
                                                    given.get(), width);
    for (int64_t p = 0; p < g.in_pixels(); ++p) {
      const int32_t* from = given.get() + p * width;
      const int64_t z0 = p / (g.in[1] * g.in[2]) * g.stride[0] - g.padding[0],
                    y0 = p / g.in[2] % g.in[1] * g.stride[1] - g.padding[1],
                    x0 = p % g.in[2] * g.stride[2] - g.padding[2];
      for (int64_t t = 0; t < g.taps(); ++t, from += out) {
        const int64_t z = z0 + t / (g.kernel[1] * g.kernel[2]) * g.dilation[0],
                      y = y0 + t / g.kernel[2] % g.kernel[1] * g.dilation[1],
                      x = x0 + t % g.kernel[2] * g.dilation[2];
        if (z < 0 || z >= g.out[0] || y < 0 || y >= g.out[1] || x < 0 || x >= g.out[2]) continue;
        int32_t* to = sums + ((z * g.out[1] + y) * g.out[2] + x) * g.out_channels + group * out;
        for (int64_t k = 0; k < out; ++k) to[k] += from[k];
      }
    }
  }
}

Dims result_sizes(const PackedConv& c, Span<const SymInt> x) {
  Dims sizes{x[0], SymInt(c.out_channels())};
  for (size_t d = 0; d < static_cast<size_t>(c.dims); ++d) {
    const int64_t reach = c.p.dilation[d] * (c.weight.int_sizes()[d + 2] - 1) + 1;
    SymInt n = c.p.transposed
                   ? (x[d + 2] - 1) * c.p.stride[d] - 2 * c.p.padding[d] + reach + c.p.output_padding[d]
                   : floor_div(x[d + 2] + 2 * c.p.padding[d] - reach, c.p.stride[d]) + 1;
    if (n.is_int() && n.as_int() <= 0)
      failf("[QConv{}D] each dimension of output tensor should be greater than 0: the input is {}", c.dims,
            str(x));
    sizes.push_back(n);
  }
  return sizes;
}

}  // namespace

int64_t PackedConv::in_channels() const {
  return p.transposed ? weight.int_sizes()[0] : weight.int_sizes()[1] * p.groups;
}
int64_t PackedConv::out_channels() const {
  return p.transposed ? weight.int_sizes()[1] * p.groups : weight.int_sizes()[0];
}

Value PackedConv::make(int64_t dims, const Tensor& weight, const Tensor& bias, ConvParameters parameters) {
  check_quantized("quantized::conv_prepack", weight);
  if (weight.is_fake()) fail("quantized::conv_prepack: the weight has no data");
  if (weight.dim() != dims + 2)
    failf("Weights are expected to have {} dimensions, got {}", dims + 2, weight.dim());
  if (weight.dtype() != DType::qint8)
    failf("quantized::conv_prepack: the weight should be qint8, got {}", name(weight.dtype()));
  const auto n = static_cast<size_t>(dims);
  if (parameters.output_padding.empty()) parameters.output_padding.assign(n, 0);
  for (auto [list, what] :
       {std::pair(&parameters.stride, "stride"), std::pair(&parameters.padding, "padding"),
        std::pair(&parameters.output_padding, "output_padding"),
        std::pair(&parameters.dilation, "dilation")}) {
    if (list->size() != n)
      failf("Specify {} for {}: {} elements are expected, got {}", what, "convolution", dims, list->size());
    for (int64_t v : *list)
      if (v < (list == &parameters.stride || list == &parameters.dilation ? 1 : 0) || v > 32767)
        failf("quantized::conv_prepack: a {} of {}", what, v);
  }
  auto* c = new PackedConv;
  Value v = Value::object(c);
  c->dims = dims;
  c->weight = weight.contiguous();
  c->p = std::move(parameters);
  const int64_t groups = c->p.groups;
  const int64_t split = c->p.transposed ? c->weight.int_sizes()[0] : c->weight.int_sizes()[0];
  if (groups < 1 || split % groups)
    failf("quantized::conv_prepack: {} channels cannot be divided into {} groups", split, groups);
  const int64_t out = c->out_channels();
  if (!quantizer_of(weight).per_tensor() && quantizer_of(weight).axis != (c->p.transposed ? 1 : 0))
    fail("quantized::conv_prepack: per-channel weights are quantized along the output channels");
  if (c->p.transposed && groups > 1 && !quantizer_of(weight).per_tensor()) {
    // Along dimension one: the channels of a group, the same for all.
    RowParameters once(weight, out / groups);
    for (int64_t g = 0; g < groups; ++g) {
      c->rows.scales.insert(c->rows.scales.end(), once.scales.begin(), once.scales.end());
      c->rows.zero_points.insert(c->rows.zero_points.end(), once.zero_points.begin(), once.zero_points.end());
    }
  } else {
    c->rows = RowParameters(weight, out);
  }
  if (bias.defined()) {
    if (bias.dim() != 1 || bias.int_numel() != out)
      failf("bias should have K elements: {}, got {}", out, str(bias.sizes()));
    c->bias = to(bias, kFloat).contiguous();
  }
  int64_t taps = 1;
  for (size_t d = 0; d < n; ++d) taps *= c->weight.int_sizes()[d + 2];
  const auto* w = static_cast<const int8_t*>(c->weight.data());
  const int64_t in_group = c->in_channels() / groups, out_group = out / groups;
  const int32_t* zeros = c->rows.zero_points.data();
  if (!c->p.transposed && in_group == 1 && out_group == 1) {
    c->taps.resize(static_cast<size_t>(taps * out));
    c->shifted = std::any_of(zeros, zeros + out, [](int32_t z) { return z != 0; });
    for (int64_t k = 0; k < out; ++k)
      for (int64_t t = 0; t < taps; ++t) c->taps[static_cast<size_t>(t * out + k)] = w[k * taps + t];
    return v;
  }
  std::vector<int8_t> matrix(static_cast<size_t>(taps * in_group * out_group));
  for (int64_t g = 0; g < groups; ++g) {
    if (!c->p.transposed) {
      // [out, taps, in]
      for (int64_t k = 0; k < out_group; ++k)
        for (int64_t i = 0; i < in_group; ++i)
          for (int64_t t = 0; t < taps; ++t)
            matrix[static_cast<size_t>((k * taps + t) * in_group + i)] =
                w[((g * out_group + k) * in_group + i) * taps + t];
      c->matrices.emplace_back(out_group, taps * in_group, matrix.data(), zeros + g * out_group);
    } else {
      // [taps, out, in]
      std::vector<int32_t> repeated;
      for (int64_t t = 0; t < taps; ++t)
        repeated.insert(repeated.end(), zeros + g * out_group, zeros + (g + 1) * out_group);
      for (int64_t i = 0; i < in_group; ++i)
        for (int64_t k = 0; k < out_group; ++k)
          for (int64_t t = 0; t < taps; ++t)
            matrix[static_cast<size_t>((t * out_group + k) * in_group + i)] =
                w[((g * in_group + i) * out_group + k) * taps + t];
      c->matrices.emplace_back(taps * out_group, in_group, matrix.data(), repeated.data());
    }
  }
  return v;
}

const PackedConv& PackedConv::of(const Value& v, const char* op) {
  const auto* p = v.is_object() ? dynamic_cast<const PackedConv*>(v.box()) : nullptr;
  if (!p)
    failf(ErrorKind::type, "{}: expected the packed weights of a convolution, got {}", op, v.kind_name());
  return *p;
}

Tensor PackedConv::run(const Tensor& x, double scale, int64_t zero_point, bool relu) const {
  check_quantized("quantized::conv", x);
  if (x.dtype() == DType::qint32)
    fail("quantized::conv: Expected activation data type QUInt8 or QInt8 but got QInt32");
  check_parameters("quantized::conv", x.dtype(), zero_point);
  if (x.dim() != dims + 2)
    failf("quantized::conv{}d(): Expected activation tensor to have {} dimensions, got {}", dims, dims + 2,
          x.dim());
  if (!(x.sizes()[1] == in_channels()))
    failf(
        "[QConv{}D] Given groups={}, weight of size {}, expected input to have {} channels, but got {} "
        "channels instead",
        dims, p.groups, str(weight.sizes()), in_channels(), x.sizes()[1].str());
  Dims sizes = result_sizes(*this, x.sizes());
  QuantizerPtr q = per_tensor_quantizer(scale, zero_point);
  Tensor y = make_quantized(sizes, x.dtype(), q, without_data(x), channels_last_strides(sizes), x.device());
  if (y.is_fake() || y.int_numel() == 0) return y;
  const Quantizer& in = per_tensor(x);
  // Channels innermost; signed bytes are moved up by 128.
  SmallVector<int64_t, 6> order{0};
  for (int64_t d = 2; d < x.dim(); ++d) order.push_back(d);
  order.push_back(1);
  Tensor bytes = permute(int_view(x), order).contiguous();
  auto zero = static_cast<int32_t>(in.zero_point);
  if (x.dtype() == DType::qint8) {
    bytes = to(to(bytes, kShort) + 128, kByte);
    zero += 128;
  }
  Geometry g = geometry(*this, Span<const int64_t>(x.int_sizes(), static_cast<size_t>(x.dim())), sizes);
  std::vector<float> scales(rows.scales);
  for (float& s : scales) s *= static_cast<float>(in.scale);
  const kernels::Requantize r{g.out_channels, scales.data(),
                              bias.defined() ? bias.data_ptr<float>() : nullptr, relu};
  const int64_t in_bytes = g.in_pixels() * g.in_channels, out_bytes = g.out_pixels() * g.out_channels;
  const int64_t held = p.transposed ? g.out_pixels() : std::min<int64_t>(g.out_pixels(), 4096);
  std::unique_ptr<int32_t[]> sums(new int32_t[static_cast<size_t>(held * g.out_channels) + 1]);
  for (int64_t b = 0; b < g.batch; ++b) {
    const auto* image = static_cast<const uint8_t*>(bytes.data()) + b * in_bytes;
    char* to = static_cast<char*>(y.data()) + b * out_bytes;
    auto done = [&](int64_t first, int64_t n) {
      kernels::finish_quantized(r, int_dtype(x.dtype()), static_cast<float>(scale),
                                static_cast<int32_t>(zero_point), n, sums.get(), g.out_channels,
                                to + first * g.out_channels, g.out_channels);
    };
    if (p.transposed) {
      convolve_transposed(*this, g, image, zero, sums.get());
      done(0, g.out_pixels());
    } else if (!taps.empty()) {
      convolve_depthwise(*this, g, image, zero, sums.get(), done);
    } else {
      convolve(*this, g, image, zero, sums.get(), done);
    }
  }
  return y;
}

}  // namespace quantized

using namespace quantized;

namespace {

std::vector<int64_t> list(const Ints& v) { return {v.begin(), v.end()}; }

// A one-dimensional layer is kept as a two-dimensional one.
std::vector<int64_t> second(const Ints& v, int64_t first) {
  if (v.size() != 1) failf("quantized::conv1d_prepack: expected one number, got {}", v.size());
  return {first, v[0]};
}

Tensor run_1d(const char* op, const Tensor& x, const Value& packed, double scale, int64_t zero_point,
              bool relu) {
  check_quantized(op, x);
  if (x.dim() != 3) failf("{}(): Expected activation tensor to have 3 dimensions, got {}", op, x.dim());
  Tensor y = PackedConv::of(packed, op).run(unsqueeze(x, 2), scale, zero_point, relu);
  return squeeze(y, 2);
}

// The result is quantized as the input was, and is real again.
Tensor run_dynamic(const char* op, const Tensor& x, const Value& packed, bool reduce_range, int64_t dims) {
  if (x.is_quantized() || x.dtype() != kFloat)
    failf("{}: expected a Float input but got {}", op, script_name(x.dtype()));
  Choice c{1, 0};
  if (!without_data(x)) c = choose_parameters(x, DType::quint8, reduce_range);
  Tensor q = from_real(x, DType::quint8, per_tensor_quantizer(c.scale, c.zero_point));
  Tensor y = dims == 1 ? run_1d(op, q, packed, c.scale, c.zero_point, false)
                       : PackedConv::of(packed, op).run(q, c.scale, c.zero_point, false);
  return to_real(y);
}
std::tuple<Tensor, Tensor> unpacked(const char* op, const Value& packed, bool one_dim = false) {
  const PackedConv& c = PackedConv::of(packed, op);
  if (!one_dim) return {c.weight, c.bias};
  Tensor w = squeeze(int_view(c.weight), 2);
  return {quantized_view(w, quantizer_ptr(c.weight)), c.bias};
}
Value ints(const std::vector<int64_t>& v) { return Value(Span<const SymInt>(dims_of(v))); }

Tensor with_added(const char* op, const Tensor& x, const Tensor& more, const Value& packed, double scale,
                  int64_t zero_point, bool relu) {
  check_quantized(op, more);
  const PackedConv& c = PackedConv::of(packed, op);
  Tensor y = to_real(c.run(x, scale, zero_point, false)) + to_real(more);
  Tensor q = from_real(y, x.dtype(), per_tensor_quantizer(scale, zero_point));
  return relu ? tern::relu(q) : q;
}

}  // namespace

#define TERN_CONV(name, relu)                                       \
  Tensor kernel_quantized_##name(const args::quantized_##name& a) { \
    return PackedConv::of(a.packed_weight, "quantized::" #name)     \
        .run(a.qx, a.output_scale, a.output_zero_point, relu);      \
  }
#define TERN_OLD_CONV(name, relu)                                   \
  Tensor kernel_quantized_##name(const args::quantized_##name& a) { \
    return PackedConv::of(a.weight, "quantized::" #name)            \
        .run(a.qx, a.output_scale, a.output_zero_point, relu);      \
  }
#define TERN_CONV_1D(name, relu)                                                                          \
  Tensor kernel_quantized_##name(const args::quantized_##name& a) {                                       \
    return run_1d("quantized::" #name, a.qx, a.packed_weight, a.output_scale, a.output_zero_point, relu); \
  }
#define TERN_CONV_DYNAMIC(name, dims)                                                     \
  Tensor kernel_quantized_##name(const args::quantized_##name& a) {                       \
    return run_dynamic("quantized::" #name, a.qx, a.packed_weight, a.reduce_range, dims); \
  }
#define TERN_CONV_UNPACK(name, one_dim)                                                 \
  std::tuple<Tensor, Tensor> kernel_quantized_##name(const args::quantized_##name& a) { \
    return unpacked("quantized::" #name, a.packed_weights, one_dim);                    \
  }
#define TERN_CONV_FACTS(name)                                                                              \
  Value kernel_quantized_##name##_stride(const args::quantized_##name##_stride& a) {                       \
    return ints(PackedConv::of(a.packed_weights, "quantized::" #name "_stride").p.stride);                 \
  }                                                                                                        \
  Value kernel_quantized_##name##_padding(const args::quantized_##name##_padding& a) {                     \
    return ints(PackedConv::of(a.packed_weights, "quantized::" #name "_padding").p.padding);               \
  }                                                                                                        \
  Value kernel_quantized_##name##_output_padding(const args::quantized_##name##_output_padding& a) {       \
    return ints(PackedConv::of(a.packed_weights, "quantized::" #name "_output_padding").p.output_padding); \
  }                                                                                                        \
  Value kernel_quantized_##name##_dilation(const args::quantized_##name##_dilation& a) {                   \
    return ints(PackedConv::of(a.packed_weights, "quantized::" #name "_dilation").p.dilation);             \
  }                                                                                                        \
  SymInt kernel_quantized_##name##_groups(const args::quantized_##name##_groups& a) {                      \
    return PackedConv::of(a.packed_weights, "quantized::" #name "_groups").p.groups;                       \
  }                                                                                                        \
  SymInt kernel_quantized_##name##_transpose(const args::quantized_##name##_transpose& a) {                \
    return static_cast<int64_t>(                                                                           \
        PackedConv::of(a.packed_weights, "quantized::" #name "_transpose").p.transposed);                  \
  }
TERN_CONV(conv2d_new, false)
TERN_CONV(conv2d_relu_new, true)
TERN_CONV(conv3d_new, false)
TERN_CONV(conv3d_relu_new, true)
TERN_CONV(conv_transpose2d, false)
TERN_CONV(conv_transpose3d, false)
TERN_OLD_CONV(conv2d, false)
TERN_OLD_CONV(conv2d_relu, true)
TERN_OLD_CONV(conv3d, false)
TERN_OLD_CONV(conv3d_relu, true)
TERN_CONV_1D(conv1d, false)
TERN_CONV_1D(conv1d_relu, true)
TERN_CONV_1D(conv_transpose1d, false)
TERN_CONV_DYNAMIC(conv1d_dynamic, 1)
TERN_CONV_DYNAMIC(conv2d_dynamic, 2)
TERN_CONV_DYNAMIC(conv3d_dynamic, 3)
TERN_CONV_DYNAMIC(conv_transpose1d_dynamic, 1)
TERN_CONV_DYNAMIC(conv_transpose2d_dynamic, 2)
TERN_CONV_DYNAMIC(conv_transpose3d_dynamic, 3)
TERN_CONV_UNPACK(conv_unpack, false)
TERN_CONV_UNPACK(conv1d_unpack, true)
TERN_CONV_UNPACK(conv2d_unpack, false)
TERN_CONV_UNPACK(conv3d_unpack, false)
TERN_CONV_UNPACK(conv_transpose1d_unpack, true)
TERN_CONV_UNPACK(conv_transpose2d_unpack, false)
TERN_CONV_UNPACK(conv_transpose3d_unpack, false)
TERN_CONV_FACTS(conv2d)
TERN_CONV_FACTS(conv3d)
TERN_CONV_FACTS(conv_transpose2d)
TERN_CONV_FACTS(conv_transpose3d)

Tensor kernel_quantized_conv2d_add(const args::quantized_conv2d_add& a) {
  return with_added("quantized::conv2d_add", a.qx, a.qaccum, a.packed_weight, a.output_scale,
                    a.output_zero_point, false);
}
Tensor kernel_quantized_conv2d_add_relu(const args::quantized_conv2d_add_relu& a) {
  return with_added("quantized::conv2d_add_relu", a.qx, a.qaccum, a.packed_weight, a.output_scale,
                    a.output_zero_point, true);
}
Value kernel_quantized_conv_prepack(const args::quantized_conv_prepack& a) {
  return PackedConv::make(2, a.weight, a.bias,
                          {list(a.stride), list(a.padding), {}, list(a.dilation), a.groups, false});
}
Value kernel_quantized_conv2d_prepack(const args::quantized_conv2d_prepack& a) {
  return PackedConv::make(2, a.weight, a.bias,
                          {list(a.stride), list(a.padding), {}, list(a.dilation), a.groups, false});
}
Value kernel_quantized_conv3d_prepack(const args::quantized_conv3d_prepack& a) {
  return PackedConv::make(3, a.weight, a.bias,
                          {list(a.stride), list(a.padding), {}, list(a.dilation), a.groups, false});
}
Value kernel_quantized_conv1d_prepack(const args::quantized_conv1d_prepack& a) {
  check_quantized("quantized::conv1d_prepack", a.weight);
  return PackedConv::make(
      2, unsqueeze(a.weight, 2), a.bias,
      {second(a.stride, 1), second(a.padding, 0), {}, second(a.dilation, 1), a.groups, false});
}
Value kernel_quantized_conv_transpose1d_prepack(const args::quantized_conv_transpose1d_prepack& a) {
  check_quantized("quantized::conv_transpose1d_prepack", a.weight);
  return PackedConv::make(2, unsqueeze(a.weight, 2), a.bias,
                          {second(a.stride, 1), second(a.padding, 0), second(a.output_padding, 0),
                           second(a.dilation, 1), a.groups, true});
}
Value kernel_quantized_conv_transpose2d_prepack(const args::quantized_conv_transpose2d_prepack& a) {
  return PackedConv::make(
      2, a.weight, a.bias,
      {list(a.stride), list(a.padding), list(a.output_padding), list(a.dilation), a.groups, true});
}
Value kernel_quantized_conv_transpose3d_prepack(const args::quantized_conv_transpose3d_prepack& a) {
  return PackedConv::make(
      3, a.weight, a.bias,
      {list(a.stride), list(a.padding), list(a.output_padding), list(a.dilation), a.groups, true});
}

}  // namespace tern
