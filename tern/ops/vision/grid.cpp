// Sampling an image at the places of a grid. A place is a few weighted elements of the image (taps) with the
// derivatives of the weights; everything else follows from them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/vision.args.h"

namespace tern {
namespace {

enum : int64_t { bilinear_mode, nearest_mode, bicubic_mode };
enum : int64_t { zeros_padding, border_padding, reflection_padding };

struct Sampling {
  int dims;
  int64_t mode, padding;
  bool align_corners;
  int64_t sizes[3];  // of the image
};

template <class T>
struct Taps {
  int count = 0;
  int64_t offset[16];
  T weight[16];
  T slope[16][3];          // by the grid's coordinate of each dim
  bool undefined = false;  // NaN or infinity where the weights are computed from it
};

// A position and its derivative by the normalised coordinate.
template <class T>
struct Position {
  T at, slope;
};
template <class T>
Position<T> unnormalised(T c, int64_t size, bool align) {
  const T n = static_cast<T>(size);
  return align ? Position<T>{(c + 1) / 2 * (n - 1), (n - 1) / 2} : Position<T>{((c + 1) * n - 1) / 2, n / 2};
}
template <class T>
Position<T> padded(Position<T> p, int64_t size, const Sampling& s) {
  if (s.padding == zeros_padding) return p;
  if (s.padding == reflection_padding) {
    const T low = s.align_corners ? 0 : T(-0.5);
    const T span = static_cast<T>(s.align_corners ? size - 1 : size);
    if (span == 0) return {0, 0};
    T sign = 1, in = p.at - low;
    if (in < 0) sign = -1, in = -in;
    // In the plane as PyTorch's vectors have it: far out, where neither is exact, it is another number.
    const T flips = std::floor(in / span);
    const T extra = s.dims == 2 ? in - flips * span : std::fmod(in, span);
    const bool odd = std::fmod(flips, T(2)) != 0;
    p = odd ? Position<T>{span - extra + low, -sign * p.slope} : Position<T>{extra + low, sign * p.slope};
  }
  const T top = static_cast<T>(size - 1);
  if (std::isnan(p.at) && s.dims == 3) return {top, 0};
  if (!(p.at > 0)) return {0, 0};
  if (p.at >= top) return {top, 0};
  return p;
}
// Far out: a place on the same side that is surely outside, and that an index can hold. NaN is outside, too.
template <class T>
T tame(T at) {
  return std::isnan(at) ? T(-100) : std::clamp(at, T(-1e9), T(1e9));
}

template <class T>
void cubic_coefficients(T t, T* w, T* dw) {
  const T a = T(-0.75);
  auto near = [&](T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [&](T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  auto near_slope = [&](T x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; };
  auto far_slope = [&](T x) { return (3 * a * x - 10 * a) * x + 8 * a; };
  w[0] = far(t + 1), w[1] = near(t), w[2] = near(1 - t), w[3] = far(2 - t);
  dw[0] = far_slope(t + 1), dw[1] = near_slope(t), dw[2] = -near_slope(1 - t), dw[3] = -far_slope(2 - t);
}

// `grid` holds x, y(, z): the last dim of the image first.
template <class T>
void find_taps(const Sampling& s, const T* grid, Taps<T>& taps) {
  taps.count = 0;
  taps.undefined = false;
  const int n = s.dims;
  if (s.mode == bicubic_mode) {
    T w[2][4], dw[2][4];
    int64_t at[2][4];
    for (int d = 0; d < 2; ++d) {
      Position<T> p = unnormalised(grid[1 - d], s.sizes[d], s.align_corners);
      taps.undefined = taps.undefined || !std::isfinite(p.at);
      if (s.padding == zeros_padding || !std::isfinite(p.at)) p.at = tame(p.at);
      const T base = std::floor(p.at);
      cubic_coefficients(p.at - base, w[d], dw[d]);
      for (int k = 0; k < 4; ++k) {
        dw[d][k] *= p.slope;
        const T place = padded(Position<T>{base - 1 + static_cast<T>(k), T(1)}, s.sizes[d], s).at;
        at[d][k] = static_cast<int64_t>(tame(place));
      }
    }
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        if (at[0][i] < 0 || at[0][i] >= s.sizes[0] || at[1][j] < 0 || at[1][j] >= s.sizes[1]) continue;
        int k = taps.count++;
        taps.offset[k] = at[0][i] * s.sizes[1] + at[1][j];
        taps.weight[k] = w[0][i] * w[1][j];
        taps.slope[k][0] = dw[0][i] * w[1][j];
        taps.slope[k][1] = w[0][i] * dw[1][j];
      }
    return;
  }
  T part[3], slope[3];
  int64_t base[3];
  for (int d = 0; d < n; ++d) {
    Position<T> p = padded(unnormalised(grid[n - 1 - d], s.sizes[d], s.align_corners), s.sizes[d], s);
    taps.undefined = taps.undefined || (n == 2 && s.mode == bilinear_mode && !std::isfinite(p.at));
    p.at = tame(p.at);
    const T whole = s.mode == nearest_mode ? std::nearbyint(p.at) : std::floor(p.at);
    base[d] = static_cast<int64_t>(whole);
    part[d] = p.at - whole;
    slope[d] = p.slope;
  }
  const int corners = s.mode == nearest_mode ? 1 : 1 << n;
  for (int corner = 0; corner < corners; ++corner) {
    int64_t offset = 0;
    bool inside = true;
    T weight = 1;
    for (int d = 0; d < n; ++d) {
      const int bit = corner >> (n - 1 - d) & 1;
      const int64_t i = base[d] + bit;
      inside = inside && i >= 0 && i < s.sizes[d];
      offset = offset * s.sizes[d] + i;
      if (s.mode != nearest_mode) weight *= bit ? part[d] : 1 - part[d];
    }
    if (!inside) continue;
    const int k = taps.count++;
    taps.offset[k] = offset;
    taps.weight[k] = weight;
    for (int d = 0; d < n; ++d) {
      if (s.mode == nearest_mode) {
        taps.slope[k][d] = 0;
        continue;
      }
      T product = (corner >> (n - 1 - d) & 1) ? slope[d] : -slope[d];
      for (int e = 0; e < n; ++e)
        if (e != d) product *= (corner >> (n - 1 - e) & 1) ? part[e] : 1 - part[e];
      taps.slope[k][d] = product;
    }
  }
}

void check(const Tensor& input, const Tensor& grid, int dims, int64_t mode, int64_t padding) {
  if (input.dtype() != grid.dtype())
    failf("grid_sampler(): expected input and grid to have same dtype, but input has {} and grid has {}",
          name(input.dtype()), name(grid.dtype()));
  if (input.dim() != dims + 2 || grid.dim() != input.dim())
    failf(
        "grid_sampler(): expected {}D input and grid with same number of dimensions, but got input with "
        "sizes {} and grid "
        "with sizes {}",
        dims + 2, str(input.sizes()), str(grid.sizes()));
  if (input.size(0) != grid.size(0))
    failf(
        "grid_sampler(): expected grid and input to have same batch size, but got input with sizes {} and "
        "grid with sizes "
        "{}",
        str(input.sizes()), str(grid.sizes()));
  if (grid.size(-1) != dims)
    failf("grid_sampler(): expected grid to have size {} in last dimension, but got grid with sizes {}", dims,
          str(grid.sizes()));
  for (int64_t d = 2; d < input.dim(); ++d)
    if (surely_eq(input.size(d), 0))
      failf(
          "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {} with "
          "dimension {} "
          "being empty",
          str(input.sizes()), d);
  if (mode < 0 || mode > 2) failf("grid_sampler(): unknown interpolation mode {}", mode);
  if (padding < 0 || padding > 2) failf("grid_sampler(): unknown padding mode {}", padding);
  if (mode == bicubic_mode && dims == 3) fail("grid_sampler(): bicubic interpolation only supports 4D input");
}

Dims sampled_sizes(const Tensor& input, const Tensor& grid) {
  Dims sizes = {input.size(0), input.size(1)};
  for (int64_t d = 1; d + 1 < grid.dim(); ++d) sizes.push_back(grid.size(d));
  return sizes;
}

Sampling sampling(const Tensor& input, int dims, int64_t mode, int64_t padding, bool align) {
  Sampling s{dims, mode, padding, align, {}};
  for (int d = 0; d < dims; ++d) s.sizes[d] = input.int_sizes()[d + 2];
  return s;
}

template <class A>
void sample(const A& a, int dims, const Tensor& out) {
  if (out.int_numel() == 0) return;
  const Sampling s = sampling(a.input, dims, a.interpolation_mode, a.padding_mode, a.align_corners);
  by_float_dtype("grid_sampler", a.input.dtype(), [&]<class Stored>(Stored) {
    using T = wide_t<Stored>;
    Tensor x = row_major(a.input, dtype_of<T>), grid = row_major(a.grid, dtype_of<T>);
    Tensor y =
        out.dtype() == dtype_of<T> && out.is_contiguous() ? out : make_tensor(out.sizes(), dtype_of<T>);
    const int64_t batch = x.int_sizes()[0], channels = x.int_sizes()[1];
    int64_t image = 1, places = y.int_numel() / (batch * channels);
    for (int d = 0; d < dims; ++d) image *= s.sizes[d];
    parallel_for(0, batch * places, 256, [&](int64_t begin, int64_t end) {
      Taps<T> taps;
      for (int64_t p = begin; p < end; ++p) {
        find_taps(s, grid.data_ptr<T>() + p * dims, taps);
        const int64_t n = p / places, place = p % places;
        const T* from = x.data_ptr<T>() + n * channels * image;
        T* to = y.data_ptr<T>() + n * channels * places + place;
        for (int64_t c = 0; c < channels; ++c) {
          T sum = taps.undefined ? std::numeric_limits<T>::quiet_NaN() : T(0);
          for (int k = 0; k < taps.count; ++k) sum += taps.weight[k] * from[c * image + taps.offset[k]];
          to[c * places] = sum;
        }
      }
    });
    if (!y.is_same(out)) copy_elements(y, out);
  });
}

template <class A>
void sample_backward(const A& a, int dims, Out out) {
  const Sampling s = sampling(a.input, dims, a.interpolation_mode, a.padding_mode, a.align_corners);
  by_float_dtype("grid_sampler_backward", a.input.dtype(), [&]<class Stored>(Stored) {
    using T = wide_t<Stored>;
    Tensor x = row_major(a.input, dtype_of<T>), grid = row_major(a.grid, dtype_of<T>),
           g = row_major(a.grad_output, dtype_of<T>);
    Tensor gx = make_tensor(x.sizes(), dtype_of<T>), gg = make_tensor(grid.sizes(), dtype_of<T>);
    fill_elements(gx, 0);
    fill_elements(gg, 0);
    const int64_t batch = x.int_sizes()[0], channels = x.int_sizes()[1];
    int64_t image = 1, places = grid.int_numel() / std::max<int64_t>(batch * dims, 1);
    for (int d = 0; d < dims; ++d) image *= s.sizes[d];
    parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
      Taps<T> taps;
      for (int64_t n = begin; n < end; ++n)
        for (int64_t place = 0; place < places; ++place) {
          find_taps(s, grid.data_ptr<T>() + (n * places + place) * dims, taps);
          const T* from = x.data_ptr<T>() + n * channels * image;
          T* to = gx.data_ptr<T>() + n * channels * image;
          T* slope = gg.data_ptr<T>() + (n * places + place) * dims;
          for (int64_t c = 0; c < channels; ++c) {
            const T grad = g.data_ptr<T>()[(n * channels + c) * places + place];
            for (int k = 0; k < taps.count; ++k) {
              to[c * image + taps.offset[k]] += taps.weight[k] * grad;
              for (int d = 0; d < dims; ++d)
                slope[dims - 1 - d] += taps.slope[k][d] * from[c * image + taps.offset[k]] * grad;
            }
          }
        }
    });
    if (out[0].int_numel()) copy_elements(gx, out[0]);
    if (out[1].int_numel()) copy_elements(gg, out[1]);
  });
}

}  // namespace

Tensor body_grid_sampler(const args::grid_sampler& a) {
  int dims = a.input.dim() == 5 ? 3 : 2;
  if (a.input.dim() != 4 && a.input.dim() != 5)
    failf(
        "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with "
        "sizes {} and "
        "grid with sizes {}",
        str(a.input.sizes()), str(a.grid.sizes()));
  check(a.input, a.grid, dims, a.interpolation_mode, a.padding_mode);
  return dims == 2 ? grid_sampler_2d(a.input, a.grid, a.interpolation_mode, a.padding_mode, a.align_corners)
                   : grid_sampler_3d(a.input, a.grid, a.interpolation_mode, a.padding_mode, a.align_corners);
}

#define TERN_GRID_SAMPLER(n)                                                                             \
  Shapes shape_grid_sampler_##n##d(const args::grid_sampler_##n##d& a) {                                 \
    check(a.input, a.grid, n, a.interpolation_mode, a.padding_mode);                                     \
    return {Shape(sampled_sizes(a.input, a.grid), a.input.dtype())};                                     \
  }                                                                                                      \
  void kernel_grid_sampler_##n##d(const args::grid_sampler_##n##d& a, Out out) { sample(a, n, out[0]); } \
  Shapes shape_grid_sampler_##n##d_backward(const args::grid_sampler_##n##d_backward& a) {               \
    check(a.input, a.grid, n, a.interpolation_mode, a.padding_mode);                                     \
    Dims none = {0};                                                                                     \
    return {Shape(a.output_mask[0] ? Dims(a.input.sizes()) : none, a.input.dtype()),                     \
            Shape(Dims(a.grid.sizes()), a.grid.dtype())};                                                \
  }                                                                                                      \
  void kernel_grid_sampler_##n##d_backward(const args::grid_sampler_##n##d_backward& a, Out out) {       \
    sample_backward(a, n, out);                                                                          \
  }
TERN_GRID_SAMPLER(2)
TERN_GRID_SAMPLER(3)
#undef TERN_GRID_SAMPLER

}  // namespace tern
