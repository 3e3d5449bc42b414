#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/conv_winograd.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <utility>

#include "tern/base/parallel.h"
#include "tern/kernels/conv_winograd.h"
#include "tern/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr hn::ScalableTag<float> df;
using Vf = hn::Vec<decltype(df)>;

// m[tile][o] = sum over c of v[tile][c] * u[c][o], for the columns of a panel.
template <int Tiles, int Vectors>
HWY_ATTR void product(int64_t in, const float* v, const float* u, float* m) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  Vf sum[Tiles][Vectors];
#pragma GCC unroll 16
  for (int t = 0; t < Tiles; ++t)
#pragma GCC unroll 2
    for (int k = 0; k < Vectors; ++k) sum[t][k] = hn::Zero(df);
  for (int64_t c = 0; c < in; ++c, u += Vectors * lanes) {
    Vf b[Vectors];
#pragma GCC unroll 2
    for (int k = 0; k < Vectors; ++k) b[k] = hn::Load(df, u + k * lanes);
#pragma GCC unroll 16
    for (int t = 0; t < Tiles; ++t) {
      const Vf p = hn::Set(df, v[t * in + c]);
#pragma GCC unroll 2
      for (int k = 0; k < Vectors; ++k) sum[t][k] = hn::MulAdd(p, b[k], sum[t][k]);
    }
  }
#pragma GCC unroll 16
  for (int t = 0; t < Tiles; ++t)
#pragma GCC unroll 2
    for (int k = 0; k < Vectors; ++k) hn::StoreU(sum[t][k], df, m + (t * Vectors + k) * lanes);
}

using Product = void (*)(int64_t, const float*, const float*, float*);
template <int Vectors, int... T>
Product product_of(int64_t tiles, std::integer_sequence<int, T...>) {
  static constexpr Product table[] = {product<T + 1, Vectors>...};
  return table[tiles - 1];
}

// Bt d B with Bt = (1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1): the sixteen factors of a tile.
HWY_ATTR void transform_in(const WinogradConv& c, const float* image, int64_t stride, float* v) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df)), line = c.padded[1] * c.in;
  for (int64_t channel = 0; channel < c.in; channel += lanes) {
    Vf rows[4][4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const float* at = image + j * c.in + channel;
      const Vf d0 = hn::LoadU(df, at), d1 = hn::LoadU(df, at + line), d2 = hn::LoadU(df, at + 2 * line),
               d3 = hn::LoadU(df, at + 3 * line);
      rows[0][j] = hn::Sub(d0, d2), rows[1][j] = hn::Add(d1, d2);
      rows[2][j] = hn::Sub(d2, d1), rows[3][j] = hn::Sub(d1, d3);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      float* to = v + 4 * i * stride + channel;
      hn::StoreU(hn::Sub(rows[i][0], rows[i][2]), df, to);
      hn::StoreU(hn::Add(rows[i][1], rows[i][2]), df, to + stride);
      hn::StoreU(hn::Sub(rows[i][2], rows[i][1]), df, to + 2 * stride);
      hn::StoreU(hn::Sub(rows[i][1], rows[i][3]), df, to + 3 * stride);
    }
  }
}

// At m A with At = (1 1 1 0; 0 1 -1 -1): the four outputs of a tile, in one vector of channels.
HWY_ATTR void transform_out(const float* m, int64_t stride, Vf out[2][2]) {
  Vf columns[2][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const Vf m0 = hn::LoadU(df, m + j * stride), m1 = hn::LoadU(df, m + (4 + j) * stride),
             m2 = hn::LoadU(df, m + (8 + j) * stride), m3 = hn::LoadU(df, m + (12 + j) * stride);
    columns[0][j] = hn::Add(hn::Add(m0, m1), m2);
    columns[1][j] = hn::Sub(hn::Sub(m1, m2), m3);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    out[i][0] = hn::Add(hn::Add(columns[i][0], columns[i][1]), columns[i][2]);
    out[i][1] = hn::Sub(hn::Sub(columns[i][1], columns[i][2]), columns[i][3]);
  }
}

}  // namespace

int64_t winograd_lanes() { return static_cast<int64_t>(hn::Lanes(df)); }
int64_t winograd_group() { return kTileRows; }

// Tiles [begin, end), those of all images counted through; not more than a group.
HWY_ATTR void winograd_tiles(const WinogradConv& c, int64_t begin, int64_t end, const float* image,
                             const float* residual, float* y, float* scratch) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df)), count = end - begin;
  const auto sequence = std::make_integer_sequence<int, kTileRows>();
  float *v = scratch, *m = scratch + 16 * count * c.in;
  struct Place {
    int64_t image, row, column;
  } places[kTileRows];
  for (int64_t t = 0; t < count; ++t) {
    const int64_t all = begin + t, row = all / c.tiles[1];
    places[t] = {row / c.tiles[0], row % c.tiles[0] * 2, all % c.tiles[1] * 2};
    const Place& p = places[t];
    transform_in(c, image + ((p.image * c.padded[0] + p.row) * c.padded[1] + p.column) * c.in, count * c.in,
                 v + t * c.in);
  }
  const float* u = c.weights;
  for (int64_t column = 0; column < c.out;) {
    const int64_t vectors = c.out - column > lanes ? 2 : 1, width = vectors * lanes;
    const Product f = vectors == 2 ? product_of<2>(count, sequence) : product_of<1>(count, sequence);
    for (int64_t k = 0; k < 16; ++k, u += c.in * width)
      f(c.in, v + k * count * c.in, u, m + k * count * width);
    for (int64_t t = 0; t < count; ++t) {
      const Place& p = places[t];
      for (int64_t at = 0; at < width; at += lanes) {
        Vf out[2][2];
        transform_out(m + t * width + at, count * width, out);
        const Vf bias = hn::LoadU(df, c.bias.data() + column + at);
        for (int64_t i = 0; i < 2 && p.row + i < c.y[0]; ++i)
          for (int64_t j = 0; j < 2 && p.column + j < c.y[1]; ++j) {
            const int64_t to = ((p.image * c.y[0] + p.row + i) * c.y[1] + p.column + j) * c.out + column + at;
            Vf s = hn::Add(out[i][j], bias);
            if (residual) s = hn::Add(s, hn::LoadU(df, residual + to));
            if (c.relu) s = hn::IfThenElse(hn::Lt(s, hn::Zero(df)), hn::Zero(df), s);
            hn::StoreU(s, df, y + to);
          }
      }
    }
    column += width;
  }
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(winograd_lanes);
HWY_EXPORT(winograd_group);
HWY_EXPORT(winograd_tiles);

bool WinogradConv::fits(const ConvShape& s, Activation activation) {
  if (s.dims != 2 || s.groups != 1 || s.transposed || activation > Activation::relu) return false;
  for (int d = 0; d < 2; ++d)
    if (s.kernel[d] != 3 || s.stride[d] != 1 || s.dilation[d] != 1) return false;
  // Whole vectors on every machine.
  return s.in_channels % 16 == 0 && s.out_channels % 16 == 0;
}

WinogradConv::WinogradConv(const ConvShape& s, const float* weight, const float* b, Activation activation)
    : batch(s.batch),
      in(s.in_channels),
      out(s.out_channels),
      bias(static_cast<size_t>(s.out_channels)),
      relu(activation == Activation::relu) {
  for (int d = 0; d < 2; ++d) {
    x[d] = s.in_size[d], y[d] = s.out_size(d), padding[d] = s.padding[d];
    tiles[d] = (y[d] + 1) / 2, padded[d] = tiles[d] * 2 + 2;
  }
  if (b) std::copy_n(b, out, bias.begin());
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(winograd_lanes)();
  weight_memory_ = std::make_unique<float[]>(static_cast<size_t>(16 * in * out + 16));
  auto* u =
      reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(weight_memory_.get()) + 63) & ~uintptr_t{63});
  weights = u;
  // G g Gt with G = (1 0 0; 1/2 1/2 1/2; 1/2 -1/2 1/2; 0 0 1).
  auto spread = [](double a, double b, double c, double* to, int step) {
    to[0] = a, to[step] = (a + b + c) / 2, to[2 * step] = (a - b + c) / 2, to[3 * step] = c;
  };
  for (int64_t column = 0; column < out;) {
    const int64_t width = out - column > lanes ? 2 * lanes : lanes;
    for (int64_t o = 0; o < width; ++o)
      for (int64_t c = 0; c < in; ++c) {
        const float* g = weight + ((column + o) * in + c) * 9;
        double half[12], whole[16];
        for (int k = 0; k < 3; ++k) spread(g[k], g[3 + k], g[6 + k], half + k, 3);
        for (int k = 0; k < 4; ++k) spread(half[3 * k], half[3 * k + 1], half[3 * k + 2], whole + 4 * k, 1);
        for (int64_t k = 0; k < 16; ++k) u[(k * in + c) * width + o] = static_cast<float>(whole[k]);
      }
    u += 16 * in * width;
    column += width;
  }
  image_ = std::make_unique<float[]>(static_cast<size_t>(batch * padded[0] * padded[1] * in));
}

// The border was zero from the start and stays so.
const float* WinogradConv::pad(const float* from, int64_t begin, int64_t end) {
  const int64_t rows = std::min(x[0], padded[0] - padding[0]),
                columns = std::min(x[1], padded[1] - padding[1]);
  for (int64_t n = begin; n < end; ++n)
    for (int64_t h = 0; h < rows; ++h)
      std::copy_n(from + (n * x[0] + h) * x[1] * in, columns * in,
                  image_.get() + ((n * padded[0] + h + padding[0]) * padded[1] + padding[1]) * in);
  return image_.get();
}

void WinogradConv::run(const float* from, const float* residual, float* to, int64_t first, int64_t last) {
  const float* image = pad(from, first, last);
  const int64_t each = tiles[0] * tiles[1], start = first * each, all = (last - first) * each,
                most = HWY_DYNAMIC_DISPATCH(winograd_group)(), lanes = HWY_DYNAMIC_DISPATCH(winograd_lanes)();
  // Groups of nearly the same size.
  const int64_t groups = (all + most - 1) / most;
  const size_t room = static_cast<size_t>(16 * most * (in + 2 * lanes));
  const int64_t work = 16 * most * in * out;
  parallel_for(0, groups, std::max<int64_t>(1, 65536 / work), [&](int64_t begin, int64_t end) {
    const auto scratch = std::make_unique_for_overwrite<float[]>(room);
    for (int64_t g = begin; g < end; ++g) HWY_DYNAMIC_DISPATCH(winograd_tiles)
    (*this, start + all * g / groups, start + all * (g + 1) / groups, image, residual, to, scratch.get());
  });
}

}  // namespace tern::kernels
#endif
