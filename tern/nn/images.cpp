// Resizing, sampling, blocks of images, bags of embeddings and distances: checks, the choice of the operator,
// printing.
#include "tern/nn/images.h"

#include <cmath>

#include "tern/autograd/autograd.h"
#include "tern/base/format.h"
#include "tern/base/warning.h"
#include "tern/dispatch/ladder.h"
#include "tern/nn/init.h"
#include "tern/nn/make.h"
#include "tern/ops.h"

namespace tern::nn {
namespace F {
namespace {

std::string spatial_text(const Tensor& x) {
  std::string text = "[";
  for (int64_t d = 2; d < x.dim(); ++d) text += (d > 2 ? ", " : "") + x.size(d).str();
  return text + "]";
}
std::string factor_text(const std::vector<double>& factors) {
  std::string text = "(";
  for (size_t i = 0; i < factors.size(); ++i) text += (i ? ", " : "") + python_float(factors[i]);
  return text + (factors.size() == 1 ? ",)" : ")");
}

// The size that factors give, rounded down.
std::vector<SymInt> scaled(const Tensor& x, const std::vector<double>& factors) {
  std::vector<SymInt> sizes;
  for (size_t d = 0; d < factors.size(); ++d)
    sizes.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(x.size(static_cast<int64_t>(d) + 2).guard_int()) * factors[d])));
  return sizes;
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateArgs& a, Loc loc) {
  const std::string& mode = a.mode;
  if (a.align_corners && (mode == "nearest" || mode == "area" || mode == "nearest-exact"))
    fail(ErrorKind::value,
         "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
         "trilinear");
  const bool align = a.align_corners.value_or(false);
  const size_t dims = static_cast<size_t>(std::max<int64_t>(x.dim() - 2, 0));
  if (!a.size.empty() && !a.scale_factor.empty())
    fail(ErrorKind::value, "only one of size or scale_factor should be defined");
  if (a.size.empty() && a.scale_factor.empty())
    fail(ErrorKind::value, "either size or scale_factor should be defined");
  std::vector<SymInt> size = a.size;
  std::vector<double> factors = a.scale_factor;
  if (size.size() == 1) size.resize(dims, size[0]);
  if (factors.size() == 1) factors.resize(dims, factors[0]);
  if (!size.empty() && size.size() != dims)
    failf(ErrorKind::value,
          "Input and output must have the same number of spatial dimensions, but got input with spatial "
          "dimensions of {} "
          "and output size of {}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and output "
          "size in (o1, "
          "o2, ...,oK) format.",
          spatial_text(x), extent_text(size, false));
  if (!factors.empty() && factors.size() != dims)
    failf(ErrorKind::value,
          "Input and scale_factor must have the same number of spatial dimensions, but got input with "
          "spatial dimensions "
          "of {} and scale_factor of shape {}. Please provide input tensor in (N, C, d1, d2, ...,dK) format "
          "and "
          "scale_factor in (s1, s2, ...,sK) format.",
          spatial_text(x), factor_text(factors));
  if (a.recompute_scale_factor && !size.empty())
    fail(ErrorKind::value, "recompute_scale_factor is not meaningful with an explicit size.");
  if (a.recompute_scale_factor || (mode == "area" && size.empty())) {
    size = scaled(x, factors);
    factors.clear();
  }
  if (a.antialias && !((mode == "bilinear" || mode == "bicubic" || mode == "lanczos") && x.dim() == 4))
    fail(ErrorKind::value,
         "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor "
         "as input");
  std::optional<Span<const SymInt>> to;
  std::optional<Span<const double>> by;
  if (factors.empty())
    to = Span<const SymInt>(size.data(), size.size());
  else
    by = Span<const double>(factors.data(), factors.size());
  At at(loc);
  if (mode == "nearest") {
    if (dims == 1) return upsample_nearest1d_vec(x, to, by);
    if (dims == 2) return upsample_nearest2d_vec(x, to, by);
    if (dims == 3) return upsample_nearest3d_vec(x, to, by);
  }
  if (mode == "nearest-exact") {
    if (dims == 1) return _upsample_nearest_exact1d_vec(x, to, by);
    if (dims == 2) return _upsample_nearest_exact2d_vec(x, to, by);
    if (dims == 3) return _upsample_nearest_exact3d_vec(x, to, by);
  }
  if (mode == "area") {
    if (dims == 1) return tern::adaptive_avg_pool1d(x, {size[0].guard_int()});
    if (dims == 2) return tern::adaptive_avg_pool2d(x, size);
    if (dims == 3) return tern::adaptive_avg_pool3d(x, size);
  }
  if (mode == "linear" && dims == 1) return upsample_linear1d_vec(x, to, align, by);
  if (mode == "bilinear" && dims == 2)
    return a.antialias ? _upsample_bilinear2d_aa_vec(x, to, align, by)
                       : upsample_bilinear2d_vec(x, to, align, by);
  if (mode == "trilinear" && dims == 3) return upsample_trilinear3d_vec(x, to, align, by);
  if (mode == "bicubic" && dims == 2)
    return a.antialias ? _upsample_bicubic2d_aa_vec(x, to, align, by)
                       : upsample_bicubic2d_vec(x, to, align, by);
  if (mode == "lanczos" && dims == 2) {
    if (align) fail(ErrorKind::value, "Lanczos mode does not support align_corners=True");
    if (!a.antialias) fail(ErrorKind::value, "Lanczos mode requires antialias=True");
    return _upsample_lanczos2d_aa_vec(x, to, align, by);
  }
  for (auto [name, wanted] : {std::pair{"linear", 3}, {"bilinear", 4}, {"trilinear", 5}})
    if (mode == name && x.dim() >= 3 && x.dim() <= 5)
      failf(ErrorKind::not_supported, "Got {}D input, but {} mode needs {}D input", x.dim(), name, wanted);
  failf(ErrorKind::not_supported,
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got {}D) for the modes: nearest | linear | "
        "bilinear | "
        "bicubic | trilinear | lanczos | area | nearest-exact (got {})",
        x.dim(), mode);
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, std::string_view mode, std::string_view padding,
                   bool align, Loc loc) {
  int64_t m = mode == "bilinear" ? 0 : mode == "nearest" ? 1 : mode == "bicubic" ? 2 : -1;
  int64_t p = padding == "zeros" ? 0 : padding == "border" ? 1 : padding == "reflection" ? 2 : -1;
  if (m < 0)
    failf(
        ErrorKind::value,
        "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{}'",
        mode);
  if (p < 0)
    failf(ErrorKind::value,
          "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but "
          "got: '{}'",
          padding);
  return grid_sampler(x, grid, m, p, align, loc);
}
Tensor affine_grid(const Tensor& theta, Sizes size, bool align, Loc loc) {
  if (!theta.is_floating_point())
    failf(ErrorKind::value, "Expected theta to have floating point type, but got {}", name(theta.dtype()));
  for (SymInt s : size)
    if (s.is_int() && s.as_int() <= 0)
      failf(ErrorKind::value, "Expected non-zero, positive output size. Got torch.Size({})", tern::str(size));
  return affine_grid_generator(theta, size, align, loc);
}
Tensor pixel_shuffle(const Tensor& x, int64_t factor, Loc loc) { return tern::pixel_shuffle(x, factor, loc); }
Tensor pixel_unshuffle(const Tensor& x, int64_t factor, Loc loc) {
  return tern::pixel_unshuffle(x, factor, loc);
}
Tensor channel_shuffle(const Tensor& x, int64_t groups, Loc loc) {
  return tern::channel_shuffle(x, groups, loc);
}
Tensor unfold(const Tensor& x, Extent<2> kernel, const UnfoldArgs& a, Loc loc) {
  return im2col(x, kernel.ints(), a.dilation.ints(), a.padding.ints(), a.stride.ints(), loc);
}
Tensor fold(const Tensor& x, Sizes output_size, Extent<2> kernel, const UnfoldArgs& a, Loc loc) {
  return col2im(x, output_size, kernel.ints(), a.dilation.ints(), a.padding.ints(), a.stride.ints(), loc);
}

Tensor embedding_bag(const Tensor& input, const Tensor& weight, const Tensor& offsets,
                     const EmbeddingBagArgs& a, Loc loc) {
  At at(loc);
  Tensor indices = input, begins = offsets, samples = a.per_sample_weights;
  if (samples.defined() && samples.dim() != input.dim())
    failf(ErrorKind::value,
          "embedding_bag: If per_sample_weights (torch.Size({})) is not None, then it must have the same "
          "shape as the "
          "input (torch.Size({}))",
          tern::str(samples.sizes()), tern::str(input.sizes()));
  if (input.dim() == 2) {
    if (offsets.defined())
      fail(ErrorKind::value,
           "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
           "sequences. "
           "However, found offsets of type Tensor");
    begins =
        arange(Scalar(0), Scalar(input.numel()), Scalar(input.size(1)), input.dtype(), {}, input.device());
    indices = input.reshape({-1});
    if (samples.defined()) samples = samples.reshape({-1});
  } else if (input.dim() == 1) {
    if (!offsets.defined()) fail(ErrorKind::value, "offsets has to be a 1D Tensor but got None");
    if (offsets.dim() != 1) fail(ErrorKind::value, "offsets has to be a 1D Tensor");
  } else {
    failf(ErrorKind::value, "input has to be 1D or 2D Tensor, but got Tensor of dimension {}", input.dim());
  }
  int64_t mode = a.mode == "sum" ? 0 : a.mode == "mean" ? 1 : a.mode == "max" ? 2 : -1;
  if (mode < 0) fail(ErrorKind::value, "mode has to be one of sum, mean or max");
  if (mode == 2 && a.scale_grad_by_freq)
    fail(ErrorKind::value, "max mode does not support scaling the gradient by the frequency");
  if (mode == 2 && a.sparse) fail(ErrorKind::value, "max mode does not support sparse weights");
  if (samples.defined() && mode != 0)
    failf(ErrorKind::not_supported,
          "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
          "mode='sum' (got "
          "mode='{}'). Please open a feature request on GitHub.",
          a.mode);
  if (a.max_norm) F::renormalise(weight, indices, *a.max_norm, a.norm_type);
  return std::get<0>(tern::embedding_bag(weight, indices, begins, a.scale_grad_by_freq, mode, a.sparse,
                                         samples, a.include_last_offset, a.padding_idx));
}

Tensor local_response_norm(const Tensor& x, int64_t size, double alpha, double beta, double k, Loc loc) {
  if (x.dim() < 3)
    failf(ErrorKind::value,
          "Expected 3D or higher dimensionality                          input (got {} dimensions)", x.dim());
  At at(loc);
  Tensor squares = tern::mul(x, x).unsqueeze(1);
  if (x.dim() == 3) {
    squares = tern::pad(squares, {0, 0, size / 2, (size - 1) / 2});
    squares = tern::avg_pool2d(squares, {size, 1}, {1, 1}).squeeze(1);
  } else {
    Dims volume = {x.size(0), SymInt(1), x.size(1), x.size(2), SymInt(-1)};
    squares = tern::pad(squares.view(volume), {0, 0, 0, 0, size / 2, (size - 1) / 2});
    squares = tern::avg_pool3d(squares, {size, 1, 1}, {1, 1, 1}).squeeze(1).view(x.sizes());
  }
  return tern::div(x, tern::pow(squares * alpha + k, beta));
}
Tensor lp_pool1d(const Tensor& x, double p, int64_t kernel, std::optional<int64_t> stride, bool ceil_mode,
                 Loc loc) {
  At at(loc);
  Tensor out = tern::avg_pool1d(tern::pow(x, p), {kernel}, {stride.value_or(kernel)}, {0}, ceil_mode);
  return tern::pow(tern::sign(out) * tern::relu(tern::abs(out)) * static_cast<double>(kernel), 1 / p);
}
Tensor lp_pool2d(const Tensor& x, double p, Extent<2> kernel, Extent<2> stride, bool ceil_mode, Loc loc) {
  At at(loc);
  Tensor out = tern::avg_pool2d(tern::pow(x, p), kernel.ints(), stride.ints(), {0, 0}, ceil_mode);
  return tern::pow(tern::sign(out) * tern::relu(tern::abs(out)) * static_cast<double>(kernel[0] * kernel[1]),
                   1 / p);
}
Tensor lp_pool3d(const Tensor& x, double p, Extent<3> kernel, Extent<3> stride, bool ceil_mode, Loc loc) {
  At at(loc);
  Tensor out = tern::avg_pool3d(tern::pow(x, p), kernel.ints(), stride.ints(), {0, 0, 0}, ceil_mode);
  const auto window = static_cast<double>(kernel[0] * kernel[1] * kernel[2]);
  return tern::pow(tern::sign(out) * tern::relu(tern::abs(out)) * window, 1 / p);
}
namespace {

// What the pooling was given, as far as its result tells; `wanted` where it is said.
template <int N>
Dims unpooled_sizes(const Tensor& x, Extent<N> kernel, Extent<N> stride, Extent<N> padding, Sizes wanted) {
  Dims sizes;
  for (int d = 0; d < N; ++d) sizes.push_back((x.size(d - N) - 1) * stride[d] + kernel[d] - 2 * padding[d]);
  if (wanted.size() == 0) return sizes;
  size_t skip = wanted.size() == N + 2 ? 2 : 0;
  if (wanted.size() - skip != N)
    failf(ErrorKind::value,
          "output_size should be a sequence containing {} or {} elements, but it has a length of '{}'", N,
          N + 2, wanted.size());
  for (int d = 0; d < N; ++d) {
    SymInt size = wanted[skip + static_cast<size_t>(d)], usual = sizes[static_cast<size_t>(d)];
    if (size <= usual - stride[d] || size >= usual + stride[d])
      failf(ErrorKind::value, "invalid output_size \"{}\" (dim {} must be between {} and {})",
            tern::str(wanted), d, (usual - stride[d]).str(), (usual + stride[d]).str());
    sizes[static_cast<size_t>(d)] = size;
  }
  return sizes;
}

// Sizes of the windows' grid: given, or a part of the input's. Then where the windows lie, one number a
// channel and dimension.
template <int N>
SmallVector<int64_t> fractional_sizes(const Tensor& x, Extent<N> output_size, Span<const double> ratio) {
  if (output_size.has_value() == (ratio.size() != 0))
    fail(ErrorKind::value, output_size.has_value()
                               ? "only one of output_size and output_ratio may be specified"
                               : "fractional_max_pool requires specifying either an output_size or an "
                                 "output_ratio");
  SmallVector<int64_t> sizes;
  for (int d = 0; d < N; ++d) {
    if (output_size.has_value()) {
      sizes.push_back(output_size[d]);
      continue;
    }
    double r = ratio[ratio.size() == 1 ? 0 : static_cast<size_t>(d)];
    if (!(r > 0 && r < 1)) failf(ErrorKind::value, "output_ratio must be between 0 and 1 (got {})", r);
    sizes.push_back(static_cast<int64_t>(static_cast<double>(x.size(d - N).guard_int()) * r));
  }
  return sizes;
}
Tensor window_places(const Tensor& x, int64_t dims) {
  bool batched = x.dim() == dims + 2;
  return tern::rand({batched ? x.size(0) : SymInt(1), x.size(-dims - 1), SymInt(dims)}, x.dtype(), {},
                    x.device());
}

}  // namespace

Tensor max_unpool1d(const Tensor& x, const Tensor& indices, Extent<1> kernel, Extent<1> stride,
                    Extent<1> padding, Sizes output_size, Loc loc) {
  if (!stride.has_value()) stride = kernel;
  Dims sizes = unpooled_sizes<1>(x, kernel, stride, padding, output_size);
  sizes.push_back(SymInt(1));
  At at(loc);
  return tern::squeeze(tern::max_unpool2d(tern::unsqueeze(x, -1), tern::unsqueeze(indices, -1), sizes), -1);
}
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, Extent<2> kernel, Extent<2> stride,
                    Extent<2> padding, Sizes output_size, Loc loc) {
  if (!stride.has_value()) stride = kernel;
  return tern::max_unpool2d(x, indices, unpooled_sizes<2>(x, kernel, stride, padding, output_size), loc);
}
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, Extent<3> kernel, Extent<3> stride,
                    Extent<3> padding, Sizes output_size, Loc loc) {
  if (!stride.has_value()) stride = kernel;
  return tern::max_unpool3d(x, indices, unpooled_sizes<3>(x, kernel, stride, padding, output_size),
                            stride.ints(), padding.ints(), loc);
}

std::tuple<Tensor, Tensor> fractional_max_pool2d_with_indices(const Tensor& x, Extent<2> kernel,
                                                              Extent<2> output_size,
                                                              Span<const double> output_ratio,
                                                              const Tensor& places, Loc loc) {
  At at(loc);
  SmallVector<int64_t> sizes = fractional_sizes<2>(x, output_size, output_ratio);
  return tern::fractional_max_pool2d(x, kernel.ints(), sizes,
                                     places.defined() ? places : window_places(x, 2));
}
std::tuple<Tensor, Tensor> fractional_max_pool3d_with_indices(const Tensor& x, Extent<3> kernel,
                                                              Extent<3> output_size,
                                                              Span<const double> output_ratio,
                                                              const Tensor& places, Loc loc) {
  At at(loc);
  SmallVector<int64_t> sizes = fractional_sizes<3>(x, output_size, output_ratio);
  return tern::fractional_max_pool3d(x, kernel.ints(), sizes,
                                     places.defined() ? places : window_places(x, 3));
}

}  // namespace F

namespace {

std::string upsample_text(const UpsampleOptions& options) {
  std::string text;
  if (!options.scale_factor.empty())
    text = "scale_factor=" + (options.scale_factor.size() == 1 ? python_float(options.scale_factor[0])
                                                               : F::factor_text(options.scale_factor));
  else
    text = "size=" + extent_text(options.size, options.size.size() == 1);
  return text + ", mode='" + options.mode + "'";
}
Tensor upsample(const Tensor& x, const UpsampleOptions& options) {
  return F::interpolate(x, {.size = options.size,
                            .scale_factor = options.scale_factor,
                            .mode = options.mode,
                            .align_corners = options.align_corners,
                            .recompute_scale_factor = options.recompute_scale_factor});
}

}  // namespace

Upsample::Upsample(UpsampleOptions o) : options(std::move(o)) { set_repr(upsample_text(options)); }
Tensor Upsample::forward(const Tensor& x) { return upsample(x, options); }
UpsamplingNearest2d::UpsamplingNearest2d(UpsampleOptions o) : options(std::move(o)) {
  options.mode = "nearest";
  set_repr(upsample_text(options));
}
Tensor UpsamplingNearest2d::forward(const Tensor& x) { return upsample(x, options); }
UpsamplingBilinear2d::UpsamplingBilinear2d(UpsampleOptions o) : options(std::move(o)) {
  options.mode = "bilinear";
  options.align_corners = true;
  set_repr(upsample_text(options));
}
Tensor UpsamplingBilinear2d::forward(const Tensor& x) { return upsample(x, options); }

PixelShuffle::PixelShuffle(int64_t factor) : upscale_factor(factor) {
  set_repr(fmt::format("upscale_factor={}", factor));
}
PixelUnshuffle::PixelUnshuffle(int64_t factor) : downscale_factor(factor) {
  set_repr(fmt::format("downscale_factor={}", factor));
}
ChannelShuffle::ChannelShuffle(int64_t n) : groups(n) { set_repr(fmt::format("groups={}", n)); }

Unfold::Unfold(const UnfoldOptions& o) : options(o) {
  set_repr(fmt::format("kernel_size={}, dilation={}, padding={}, stride={}", o.kernel.short_str(),
                       o.dilation.short_str(), o.padding.short_str(), o.stride.short_str()));
}
Tensor Unfold::forward(const Tensor& x) {
  return F::unfold(x, options.kernel,
                   {.dilation = options.dilation, .padding = options.padding, .stride = options.stride});
}
Fold::Fold(const FoldOptions& o) : options(o) {
  set_repr(fmt::format("output_size={}, kernel_size={}, dilation={}, padding={}, stride={}",
                       o.output_size.short_str(), o.kernel.short_str(), o.dilation.short_str(),
                       o.padding.short_str(), o.stride.short_str()));
}
Tensor Fold::forward(const Tensor& x) {
  return F::fold(x, options.output_size.span(), options.kernel,
                 {.dilation = options.dilation, .padding = options.padding, .stride = options.stride});
}

EmbeddingBag::EmbeddingBag(const EmbeddingBagOptions& o) : options(o) {
  if (options.padding_idx) {
    int64_t& padding = *options.padding_idx;
    if (padding >= o.count) fail(ErrorKind::value, "padding_idx must be within num_embeddings");
    if (padding < -o.count) fail(ErrorKind::value, "padding_idx must be within num_embeddings");
    if (padding < 0) padding += o.count;
  }
  weight =
      register_parameter("weight", init::normal_(make_uninitialised({o.count, o.dim}, o.dtype, o.device)));
  if (options.padding_idx && !weight.is_meta()) init::zeros_(weight.detach().select(0, *options.padding_idx));
  std::string text = fmt::format("{}, {}", o.count, o.dim);
  if (o.max_norm) text += ", max_norm=" + python_float(*o.max_norm);
  if (o.norm_type != 2) text += ", norm_type=" + python_float(o.norm_type);
  if (o.scale_grad_by_freq) text += ", scale_grad_by_freq=True";
  text += fmt::format(", mode='{}'", o.mode);
  if (options.padding_idx) text += fmt::format(", padding_idx={}", *options.padding_idx);
  set_repr(text);
}
Tensor EmbeddingBag::forward(const Tensor& input, const Tensor& offsets, const Tensor& per_sample_weights) {
  return F::embedding_bag(input, weight.now(), offsets,
                          {.mode = options.mode,
                           .scale_grad_by_freq = options.scale_grad_by_freq,
                           .sparse = options.sparse,
                           .include_last_offset = options.include_last_offset,
                           .per_sample_weights = per_sample_weights,
                           .padding_idx = options.padding_idx,
                           .max_norm = options.max_norm,
                           .norm_type = options.norm_type});
}

LocalResponseNorm::LocalResponseNorm(int64_t n, double a, double b, double c)
    : size(n), alpha(a), beta(b), k(c) {
  set_repr(fmt::format("{}, alpha={}, beta={}, k={}", n, python_float(a), python_float(b), python_float(c)));
}

namespace {

// Sums over windows of channels, `before` below each one and `after` above it.
Tensor channel_windows(const Tensor& x, int64_t before, int64_t after) {
  Tensor padded = tern::pad(x, {0, 0, 0, 0, before, after});
  Tensor total = tern::narrow(padded, 1, 0, x.size(1));
  for (int64_t i = 1; i <= before + after; ++i) total = total + tern::narrow(padded, 1, i, x.size(1));
  return total;
}

// PyTorch's function for this layer is older than its autograd: channel 0 stays in every window above it, and
// the backward takes windows without that.
struct CrossMapNorm : autograd::Function<CrossMapNorm> {
  static std::vector<Tensor> forward(autograd::Context& c, Span<const Tensor> in) {
    const Tensor& x = in[0];
    const int64_t size = c.values[0].to_int(), reach = (size - 1) / 2 + 1;
    const double alpha = c.values[1].to_double(), beta = c.values[2].to_double(), k = c.values[3].to_double();
    Tensor squares = tern::mul(x, x);
    Tensor sums = channel_windows(squares, reach - 1, reach - 1);
    if (x.size(1).guard_int() > reach) {
      Tensor above = tern::narrow(sums, 1, reach, x.size(1) - reach) + tern::narrow(squares, 1, 0, 1);
      sums = tern::cat({tern::narrow(sums, 1, 0, reach), above}, 1);
    }
    Tensor scale = sums * (alpha / static_cast<double>(size)) + k;
    Tensor y = tern::pow(scale, -beta) * x;
    c.save({x, y, scale});
    return {y};
  }
  static std::vector<Tensor> backward(autograd::Context& c, Span<const Tensor> grads) {
    const int64_t size = c.values[0].to_int(), before = size - (size - 1) / 2 - (size % 2 == 0 ? 1 : 0);
    const double alpha = c.values[1].to_double(), beta = c.values[2].to_double();
    const Tensor x = c.saved(0), y = c.saved(1), scale = c.saved(2);
    Tensor ratios = channel_windows(grads[0] * y / scale, before, size - 1 - before);
    return {tern::pow(scale, -beta) * grads[0] - x * ratios * (2 * alpha * beta / static_cast<double>(size))};
  }
};

}  // namespace

CrossMapLRN2d::CrossMapLRN2d(int64_t n, double a, double b, double c) : size(n), alpha(a), beta(b), k(c) {
  std::string shift = python_float(c);
  if (shift.ends_with(".0")) shift.resize(shift.size() - 2);
  set_repr(fmt::format("{}, alpha={}, beta={}, k={}", n, python_float(a), python_float(b), shift));
}
Tensor CrossMapLRN2d::forward(const Tensor& x) {
  if (x.dim() != 4)
    failf(ErrorKind::value, "CrossMapLRN2d: Expected input to be 4D, got {}D instead.", x.dim());
  return CrossMapNorm::apply({x}, {Value(size), Value(alpha), Value(beta), Value(k)})[0];
}

Bilinear::Bilinear(const BilinearOptions& o) : options(o) {
  if (o.in1 <= 0) failf(ErrorKind::value, "in1_features must be > 0, but got {}", o.in1);
  weight = register_parameter("weight", make_uninitialised({o.out, o.in1, o.in2}, o.dtype, o.device));
  bias = register_parameter("bias", o.bias ? make_uninitialised({o.out}, o.dtype, o.device) : Tensor());
  double bound = 1 / std::sqrt(static_cast<double>(o.in1));
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
  set_repr(fmt::format("in1_features={}, in2_features={}, out_features={}, bias={}", o.in1, o.in2, o.out,
                       o.bias ? "True" : "False"));
}
Tensor Bilinear::forward(const Tensor& a, const Tensor& b) {
  return bilinear(a, b, weight.now(), bias.now());
}
Tensor CosineSimilarity::forward(const Tensor& a, const Tensor& b) {
  return cosine_similarity(a, b, dim, eps);
}
Tensor PairwiseDistance::forward(const Tensor& a, const Tensor& b) {
  return pairwise_distance(a, b, p, eps, keepdim);
}

}  // namespace tern::nn
