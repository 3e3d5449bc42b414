// Resizing: rules over SymInt, the way to the kernel, and the decompositions of run_decompositions().
#include <algorithm>
#include <array>
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/resample.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/upsample.args.h"

namespace tern {
namespace {

using kernels::Resampling;

std::string sizes_text(Span<const SymInt> sizes) {
  static const char* names[] = {"D", "H", "W"};
  std::string text;
  for (size_t i = 0; i < sizes.size(); ++i)
    text += fmt::format("{}{}: {}", i ? ", " : "", names[3 - sizes.size() + i], sizes[i].str());
  return text;
}

// The sizes of the result; `input` are the sizes of what is resized.
Dims result_sizes(Span<const SymInt> input, Span<const SymInt> output_size, int dims) {
  const size_t n = static_cast<size_t>(dims);
  if (output_size.size() != n)
    failf("It is expected output_size equals to {}, but got size {}", n, output_size.size());
  if (input.size() != n + 2)
    failf("It is expected input_size equals to {}, but got size {}", n + 2, input.size());
  Span<const SymInt> in(input.data() + 2, n);
  auto is_empty = [](SymInt s) { return !surely_lt(0, s) && s <= 0; };
  bool empty = false;
  for (size_t d = 0; d < n; ++d) empty |= is_empty(in[d]) || is_empty(output_size[d]);
  if (empty)
    failf("Input and output sizes should be greater than 0, but got input ({}) {}output ({})", sizes_text(in),
          n == 1 ? "and " : "", sizes_text(output_size));
  Dims sizes(input);
  for (size_t d = 0; d < n; ++d) sizes[d + 2] = output_size[d];
  return sizes;
}

void check_type(Resampling method, int dims, DType type, bool backward) {
  bool pixels = type == DType::uint8 && !backward && (method <= Resampling::nearest_exact || dims == 2);
  bool narrow = type == kHalf || type == kBFloat16;
  if (type == kFloat || type == kDouble || pixels || (narrow && method < Resampling::linear_aa)) return;
  not_implemented_for(method <= Resampling::nearest_exact ? "compute_indices_weights_nearest"
                      : method == Resampling::linear      ? "compute_indices_weights_linear"
                      : method == Resampling::cubic       ? "compute_indices_weights_cubic"
                                                          : "compute_index_ranges_weights",
                      type);
}

template <class A>
kernels::ResampleShape geometry(const A& a, int dims, const Tensor& in, const Tensor& out) {
  kernels::ResampleShape s;
  s.dims = dims;
  s.planes = in.int_sizes()[0] * in.int_sizes()[1];
  for (int d = 0; d < dims; ++d) s.in[d] = in.int_sizes()[d + 2], s.out[d] = out.int_sizes()[d + 2];
  if constexpr (requires { a.align_corners; }) s.align_corners = a.align_corners;
  if constexpr (requires { a.scales; }) {
    s.factor[0] = a.scales.value_or(0);
  } else {
    s.factor[dims - 1] = a.scales_w.value_or(0), s.factor[dims - 2] = a.scales_h.value_or(0);
    if constexpr (requires { a.scales_d; }) s.factor[0] = a.scales_d.value_or(0);
  }
  return s;
}

template <class A>
Shapes forward_shape(const A& a, int dims) {
  Dims sizes = result_sizes(a.self.sizes(), a.output_size, dims);
  for (int64_t d = 1; d < a.self.dim(); ++d)
    if (surely_eq(a.self.sizes()[d], 0))
      failf("Non-empty {}D data tensor expected but got a tensor with sizes {}", dims + 2,
            str(a.self.sizes()));
  return {laid_out_as(a.self, std::move(sizes), a.self.dtype())};
}
template <class A>
void forward(const A& a, int dims, Resampling method, const Tensor& out) {
  // As large as it was, there is nothing to weigh, and any type will do.
  if (method >= Resampling::linear_aa &&
      std::equal(a.self.int_sizes(), a.self.int_sizes() + a.self.dim(), out.int_sizes()))
    return copy_elements(a.self, out);
  check_type(method, dims, a.self.dtype(), false);
  if (out.int_numel() == 0) return;
  Tensor x = row_major(a.self);
  Tensor y = out.is_contiguous() ? out : make_tensor(out.sizes(), out.dtype());
  kernels::resample(x.dtype(), method, geometry(a, dims, x, y), x.data(), y.data());
  if (!y.is_same(out)) copy_elements(y, out);
}
// PyTorch keeps channels last in some of the gradients only.
template <class A>
Shapes backward_shape(const A& a, int dims, Resampling method) {
  Dims full = result_sizes(a.input_size, a.output_size, dims);
  if (a.grad_output.dim() != dims + 2)
    failf("Expected grad_output to be a tensor of dimension {} but got: dimension {}", dims + 2,
          a.grad_output.dim());
  for (size_t d = 0; d < full.size(); ++d)
    if (a.grad_output.sizes()[d] != full[d])
      failf(
          "Expected grad_output to have the same shape as output; output.size({}) = {} but got "
          "grad_output.size({}) = {}",
          d, full[d].str(), d, a.grad_output.sizes()[d].str());
  if (method >= Resampling::cubic || (dims == 3 && method <= Resampling::nearest_exact))
    return {Shape(a.input_size, a.grad_output.dtype())};
  return {laid_out_as(a.grad_output, Dims(a.input_size), a.grad_output.dtype())};
}
template <class A>
void backward(const A& a, int dims, Resampling method, const Tensor& out) {
  check_type(method, dims, a.grad_output.dtype(), true);
  if (out.int_numel() == 0) return;
  Tensor g = row_major(a.grad_output);
  Tensor x = out.is_contiguous() ? out : make_tensor(out.sizes(), out.dtype());
  kernels::resample_backward(g.dtype(), method, geometry(a, dims, x, g), g.data(), x.data());
  if (!x.is_same(out)) copy_elements(x, out);
}

// How far apart in the input two neighbours of the result are.
Tensor step(SymInt in, SymInt out, bool align_corners, std::optional<double> factor, DType type) {
  if (align_corners) return out > 1 ? quotient(Scalar(in - 1), out - 1, type) : wrap_number(0.0);
  return factor && *factor > 0 ? wrap_number(1.0 / *factor) : quotient(Scalar(in), out, type);
}
Tensor source_positions(SymInt in, SymInt out, bool align_corners, std::optional<double> factor,
                        const Tensor& places) {
  Tensor scale = step(in, out, align_corners, factor, places.dtype());
  return align_corners ? places * scale : (places + 0.5) * scale - 0.5;
}
// What the decomposition computes in: narrow floats in float.
DType compute_type(DType d) { return d == kDouble ? kDouble : kFloat; }
Tensor like_input(const Tensor& result, const Tensor& input) {
  if (input.dim() < 4 || input.is_contiguous()) return result;
  MemoryFormat last = input.dim() == 4 ? MemoryFormat::channels_last : MemoryFormat::channels_last_3d;
  return input.is_contiguous(last) ? result.contiguous(last) : result;
}
Tensor places(SymInt n, DType type) { return arange(Scalar(n), {}, {}, kCPU, false).to(type); }

// The weights of the four neighbours of a point `t` behind the second one.
std::array<Tensor, 4> cubic_weights(const Tensor& t) {
  const double a = -0.75;
  Tensor near = stack({t, 1.0 - t}), far = stack({t + 1.0, 2.0 - t});
  Tensor w_far = ((far * a - 5 * a) * far + 8 * a) * far - 4 * a;
  Tensor w_near = (near * (a + 2) - (a + 3)) * near * near + 1;
  std::vector<Tensor> f = w_far.unbind(0), n = w_near.unbind(0);
  return {f[0], n[0], n[1], f[1]};
}

}  // namespace

Dims resized(const Tensor& input, std::optional<Span<const SymInt>> output_size,
             std::optional<Span<const double>> factors) {
  if (output_size.has_value() == factors.has_value())
    fail("Must specify exactly one of output_size and scale_factors");
  const size_t dims = static_cast<size_t>(std::max<int64_t>(input.dim() - 2, 0));
  const size_t given = output_size ? output_size->size() : factors->size();
  if (given != dims)
    failf("{} has {} numbers, but the input has {} spatial dimensions",
          output_size ? "output_size" : "scale_factors", given, dims);
  if (output_size) return Dims(*output_size);
  Dims sizes;
  for (size_t d = 0; d < dims; ++d) sizes.push_back(truncated_product(input.sizes()[d + 2], (*factors)[d]));
  return sizes;
}
std::optional<double> factor_at(std::optional<Span<const double>> factors, size_t i) {
  return factors ? std::optional<double>((*factors)[i]) : std::nullopt;
}

// ---- decompositions ----

Tensor nearest_body(const Tensor& self, Span<const SymInt> output_size,
                    std::initializer_list<std::optional<double>> factors, bool exact) {
  const size_t dims = output_size.size();
  std::vector<Tensor> indices(2);
  for (size_t d = 0; d < dims; ++d) {
    SymInt in = self.sizes()[d + 2];
    Tensor scale = step(in, output_size[d], false, factors.begin()[d], kFloat);
    Tensor at =
        ((arange(Scalar(output_size[d]), kFloat, {}, kCPU, false) + (exact ? 0.5 : 0.0)) * scale).to(kLong);
    for (size_t k = d + 1; k < dims; ++k) at = at.unsqueeze(-1);
    indices.push_back(at);
  }
  return like_input(_unsafe_index(self, indices), self);
}

Tensor linear_body(const Tensor& self, Span<const SymInt> output_size, bool align_corners,
                   std::initializer_list<std::optional<double>> factors) {
  const size_t dims = output_size.size();
  DType type = compute_type(self.dtype());
  Tensor x = is_floating(self.dtype()) ? self.to(type) : self;
  std::vector<Tensor> at, low, high;
  for (size_t d = 0; d < dims; ++d) {
    SymInt in = self.sizes()[d + 2];
    Tensor p = clamp(
        source_positions(in, output_size[d], align_corners, factors.begin()[d], places(output_size[d], type)),
        Scalar(0.0));
    Dims column = {output_size[d]};
    for (size_t k = d + 1; k < dims; ++k) column.push_back(1);
    at.push_back(p.reshape(column));
    low.push_back(at.back().to(kLong));
    high.push_back(clamp(low.back() + 1, {}, Scalar(in - 1)));
  }
  std::vector<Tensor> corners;
  for (size_t corner = 0; corner < size_t{1} << dims; ++corner) {
    std::vector<Tensor> indices(2);
    for (size_t d = 0; d < dims; ++d) indices.push_back(corner >> (dims - 1 - d) & 1 ? high[d] : low[d]);
    corners.push_back(_unsafe_index(x, indices).to(type));
  }
  for (size_t d = dims; d-- > 0;) {
    Tensor part = clamp(at[d] - low[d], Scalar(0.0), Scalar(1.0));
    std::vector<Tensor> fewer;
    for (size_t i = 0; i < corners.size(); i += 2)
      fewer.push_back(corners[i] + (corners[i + 1] - corners[i]) * part);
    corners = std::move(fewer);
  }
  Tensor result = like_input(corners[0], self);
  if (!is_floating(self.dtype())) result = round(result);
  return result.to(self.dtype());
}

Tensor cubic_body(const Tensor& self, Span<const SymInt> output_size, bool align_corners,
                  std::initializer_list<std::optional<double>> factors) {
  SymInt height = self.sizes()[2], width = self.sizes()[3];
  DType type = compute_type(self.dtype());
  Tensor input = self.to(type);
  Tensor i = places(output_size[0], type), j = places(output_size[1], type);
  Tensor x_at = source_positions(width, output_size[1], align_corners, factors.begin()[1], j);
  Tensor y_at = source_positions(height, output_size[0], align_corners, factors.begin()[0], i).unsqueeze(-1);
  Tensor x = floor(x_at), y = floor(y_at);
  Tensor y_part = clamp(y_at - y, Scalar(0.0), Scalar(1.0)),
         x_part = clamp(x_at - x, Scalar(0.0), Scalar(1.0));
  x = x.to(kLong);
  y = y.to(kLong);
  const std::array<Tensor, 4> ys = {y - 1, y, y + 1, y + 2}, xs = {x - 1, x, x + 1, x + 2};
  std::array<Tensor, 4> x_weights = cubic_weights(x_part), y_weights = cubic_weights(y_part);
  Tensor result;
  std::array<Tensor, 4> rows;
  for (size_t r = 0; r < 4; ++r)
    for (size_t k = 0; k < 4; ++k) {
      Tensor row = clamp(ys[r], Scalar(0), Scalar(height - 1)),
             column = clamp(xs[k], Scalar(0), Scalar(width - 1));
      std::vector<Tensor> indices = {Tensor(), Tensor(), row, column};
      Tensor part = _unsafe_index(input, indices) * x_weights[k];
      rows[r] = rows[r].defined() ? rows[r] + part : part;
    }
  for (size_t r = 0; r < 4; ++r) {
    Tensor part = rows[r] * y_weights[r];
    result = result.defined() ? result + part : part;
  }
  if (self.dtype() == DType::uint8) result = clamp(round(result), Scalar(0), Scalar(255));
  return like_input(result, self).to(self.dtype());
}

// ---- the operators: method and number of dims ----

#define TERN_UPSAMPLE(op, dims, method)                                                          \
  Shapes shape_##op(const args::op& a) { return forward_shape(a, dims); }                        \
  void kernel_##op(const args::op& a, Out out) { forward(a, dims, Resampling::method, out[0]); } \
  Shapes shape_##op##_backward(const args::op##_backward& a) {                                   \
    return backward_shape(a, dims, Resampling::method);                                          \
  }                                                                                              \
  void kernel_##op##_backward(const args::op##_backward& a, Out out) {                           \
    backward(a, dims, Resampling::method, out[0]);                                               \
  }
TERN_UPSAMPLE(upsample_nearest1d, 1, nearest)
TERN_UPSAMPLE(upsample_nearest2d, 2, nearest)
TERN_UPSAMPLE(upsample_nearest3d, 3, nearest)
TERN_UPSAMPLE(_upsample_nearest_exact1d, 1, nearest_exact)
TERN_UPSAMPLE(_upsample_nearest_exact2d, 2, nearest_exact)
TERN_UPSAMPLE(_upsample_nearest_exact3d, 3, nearest_exact)
TERN_UPSAMPLE(upsample_linear1d, 1, linear)
TERN_UPSAMPLE(upsample_bilinear2d, 2, linear)
TERN_UPSAMPLE(upsample_trilinear3d, 3, linear)
TERN_UPSAMPLE(upsample_bicubic2d, 2, cubic)
TERN_UPSAMPLE(_upsample_bilinear2d_aa, 2, linear_aa)
TERN_UPSAMPLE(_upsample_bicubic2d_aa, 2, cubic_aa)
TERN_UPSAMPLE(_upsample_lanczos2d_aa, 2, lanczos_aa)
#undef TERN_UPSAMPLE

// The forms that may say factors in place of sizes.
namespace {
struct ByFactors {
  const Tensor& self;
  Dims output_size;
  bool align_corners;
  std::optional<double> scales_h, scales_w;
};
template <class A>
ByFactors by_factors(const A& a) {
  bool align_corners = false;
  if constexpr (requires { a.align_corners; }) align_corners = a.align_corners;
  return {a.input, resized(a.input, a.output_size, a.scale_factors), align_corners,
          factor_at(a.scale_factors, 0), factor_at(a.scale_factors, 1)};
}
}  // namespace

Shapes shape_upsample_nearest2d_vec(const args::upsample_nearest2d_vec& a) {
  return forward_shape(by_factors(a), 2);
}
void kernel_upsample_nearest2d_vec(const args::upsample_nearest2d_vec& a, Out out) {
  forward(by_factors(a), 2, Resampling::nearest, out[0]);
}
Shapes shape_upsample_bilinear2d_vec(const args::upsample_bilinear2d_vec& a) {
  return forward_shape(by_factors(a), 2);
}
void kernel_upsample_bilinear2d_vec(const args::upsample_bilinear2d_vec& a, Out out) {
  forward(by_factors(a), 2, Resampling::linear, out[0]);
}

}  // namespace tern
