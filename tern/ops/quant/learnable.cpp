// Fake quantisation with a trained scale and zero point ("learned step size quantisation").
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/learnable.args.h"

namespace tern {
namespace {

// Scales and rounded zero points, and which of them each element of a row-major tensor takes.
struct Grid {
  std::vector<float> scale, zero;
  int64_t inner = 0;  // elements of one channel in a row; 0: one scale for all
  size_t channel(int64_t i) const {
    return inner ? static_cast<size_t>(i / inner) % scale.size() : size_t{0};
  }
};

void check_grid_range(int64_t low, int64_t high) {
  if (low > 0 || high < 0) fail("`quant_min` should be less than or equal to `quant_max` and 0 between them");
  if (low > high) fail("`quant_min` should be less than or equal to `quant_max`.");
}
void check_whole(const Tensor& scale, const Tensor& zero_point, int64_t low, int64_t high) {
  check_grid_range(low, high);
  if (surely_eq(scale.numel(), 0) || surely_eq(zero_point.numel(), 0))
    fail("scale and zero-point need to hold an element");
}
void check_by_channel(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis,
                      int64_t low, int64_t high) {
  check_grid_range(low, high);
  if (scale.dim() != 1) fail("scale should be a 1-D tensor");
  if (zero_point.dim() != 1) fail("zero point should be a 1-D tensor");
  if (!(scale.numel() == zero_point.numel())) fail("scale and zero-point need to have the same dimensions");
  if (axis < 0 || axis >= self.dim())
    fail(ErrorKind::index, "`axis` must be between 0 and number of dimensions of input");
  if (!(scale.numel() == self.size(axis)))
    fail("dimensions of scale and zero-point are not consistent with input tensor");
}
Grid grid_of(const Tensor& self, const Tensor& scale, const Tensor& zero_point, int64_t axis, int64_t low,
             int64_t high) {
  Grid g;
  std::vector<float> scales = scale.to_vector<float>(), zeros = zero_point.to_vector<float>();
  if (axis < 0) {
    scales.resize(1);
    zeros.resize(1);
  } else {
    g.inner = rows_around(self, axis).inner;
  }
  g.scale = std::move(scales);
  for (float z : zeros)
    g.zero.push_back(
        std::fmin(std::fmax(std::nearbyint(z), static_cast<float>(low)), static_cast<float>(high)));
  return g;
}

void quantize(const Tensor& self, const Grid& grid, int64_t low, int64_t high, const Tensor& out) {
  Tensor x = row_major(self), y = make_tensor(x.sizes(), x.dtype());
  by_float_dtype("fake_quantize_tensor_cachemask_kernel_type_handling", x.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < x.int_numel(); ++i) {
      const float scale = grid.scale[grid.channel(i)], zero = grid.zero[grid.channel(i)],
                  v = static_cast<float>(static_cast<const T*>(x.data())[i]);
      const float q = std::nearbyint(v * (1.0f / scale)) + zero;
      const float inside = std::fmin(std::fmax(q, static_cast<float>(low)), static_cast<float>(high));
      static_cast<T*>(y.data())[i] = static_cast<T>((inside - zero) * scale);
    }
  });
  copy_elements(y, out);
}

// Outside of the range the value follows the limits, and so scale and zero point; inside, scale follows the
// rounding.
void quantize_backward(const Tensor& grad, const Tensor& self, const Grid& grid, int64_t low, int64_t high,
                       double factor, Out out) {
  Tensor x = row_major(self), g = row_major(grad, self.dtype()), dx = make_tensor(x.sizes(), x.dtype());
  std::vector<double> d_scale(grid.scale.size()), d_zero(grid.scale.size());
  by_float_dtype("fake_quantize_learnable", x.dtype(), [&]<class T>(T) {
    for (int64_t i = 0; i < x.int_numel(); ++i) {
      const size_t c = grid.channel(i);
      const float scale = grid.scale[c], inverse = 1.0f / scale, zero = grid.zero[c],
                  v = static_cast<float>(static_cast<const T*>(x.data())[i]),
                  dy = static_cast<float>(static_cast<const T*>(g.data())[i]);
      const float q = std::nearbyint(v * inverse + zero);
      const bool below = q<static_cast<float>(low), above = q> static_cast<float>(high);
      static_cast<T*>(dx.data())[i] = static_cast<T>(below || above ? 0.0f : dy);
      const float slope = below   ? static_cast<float>(low) - zero
                          : above ? static_cast<float>(high) - zero
                                  : ((q - zero) * scale - v) * inverse;
      d_scale[c] += static_cast<double>(dy * slope) * factor;
      if (below || above) d_zero[c] -= static_cast<double>(dy * scale) * factor;
    }
  });
  copy_elements(dx, out[0]);
  for (int k = 0; k < 2; ++k) {
    const std::vector<double>& from = k ? d_zero : d_scale;
    const Tensor& to = out[static_cast<size_t>(k) + 1];
    Tensor values = make_tensor({static_cast<int64_t>(from.size())}, kDouble);
    std::copy(from.begin(), from.end(), values.data_ptr<double>());
    copy_elements(values, to);
  }
}
Shapes gradient_shapes(const Tensor& grad, const Tensor& self, const Tensor& scale, const Tensor& zero_point,
                       SymInt channels) {
  if (!(grad.numel() == self.numel())) fail("`X` and `dY` are not the same size");
  return {like(self), Shape(Dims{channels}, scale.dtype()), Shape(Dims{channels}, zero_point.dtype())};
}

}  // namespace

Shapes shape__fake_quantize_learnable_per_tensor_affine(
    const args::_fake_quantize_learnable_per_tensor_affine& a) {
  check_whole(a.scale, a.zero_point, a.quant_min, a.quant_max);
  return {like(a.self)};
}
void kernel__fake_quantize_learnable_per_tensor_affine(
    const args::_fake_quantize_learnable_per_tensor_affine& a, Out out) {
  quantize(a.self, grid_of(a.self, a.scale, a.zero_point, -1, a.quant_min, a.quant_max), a.quant_min,
           a.quant_max, out[0]);
}
Shapes shape__fake_quantize_learnable_per_tensor_affine_backward(
    const args::_fake_quantize_learnable_per_tensor_affine_backward& a) {
  check_whole(a.scale, a.zero_point, a.quant_min, a.quant_max);
  return gradient_shapes(a.grad, a.self, a.scale, a.zero_point, 1);
}
void kernel__fake_quantize_learnable_per_tensor_affine_backward(
    const args::_fake_quantize_learnable_per_tensor_affine_backward& a, Out out) {
  quantize_backward(a.grad, a.self, grid_of(a.self, a.scale, a.zero_point, -1, a.quant_min, a.quant_max),
                    a.quant_min, a.quant_max, a.grad_factor, out);
}
Shapes shape__fake_quantize_learnable_per_channel_affine(
    const args::_fake_quantize_learnable_per_channel_affine& a) {
  check_by_channel(a.self, a.scale, a.zero_point, a.axis, a.quant_min, a.quant_max);
  return {like(a.self)};
}
void kernel__fake_quantize_learnable_per_channel_affine(
    const args::_fake_quantize_learnable_per_channel_affine& a, Out out) {
  quantize(a.self, grid_of(a.self, a.scale, a.zero_point, a.axis, a.quant_min, a.quant_max), a.quant_min,
           a.quant_max, out[0]);
}
Shapes shape__fake_quantize_learnable_per_channel_affine_backward(
    const args::_fake_quantize_learnable_per_channel_affine_backward& a) {
  check_by_channel(a.self, a.scale, a.zero_point, a.axis, a.quant_min, a.quant_max);
  return gradient_shapes(a.grad, a.self, a.scale, a.zero_point, a.scale.numel());
}
void kernel__fake_quantize_learnable_per_channel_affine_backward(
    const args::_fake_quantize_learnable_per_channel_affine_backward& a, Out out) {
  quantize_backward(a.grad, a.self, grid_of(a.self, a.scale, a.zero_point, a.axis, a.quant_min, a.quant_max),
                    a.quant_min, a.quant_max, a.grad_factor, out);
}

}  // namespace tern
