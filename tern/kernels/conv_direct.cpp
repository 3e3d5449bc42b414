#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/conv_direct.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "tern/base/parallel.h"
#include "tern/kernels/conv_direct.h"
#include "tern/kernels/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
constexpr hn::ScalableTag<float> df;
using Vf = hn::Vec<decltype(df)>;

template <int Rows, int Vectors>
HWY_ATTR void tile(const DirectConv& conv, const DirectConv::Panel& panel, const float* pixels,
                   const float* residual, float* y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df)), step = conv.stride[2] * conv.in;
  const float* w = conv.weights + panel.at;
  const float* bias = conv.bias.data() + panel.column;
  Vf sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) sum[r][v] = hn::LoadU(df, bias + v * lanes);
  for (int64_t segment : conv.segments) {
    const float* a = pixels + segment;
    for (int64_t k = 0; k < conv.taps; ++k, w += Vectors * lanes) {
      Vf b[Vectors];
#pragma GCC unroll 2
      for (int v = 0; v < Vectors; ++v) b[v] = hn::Load(df, w + v * lanes);
#pragma GCC unroll 16
      for (int r = 0; r < Rows; ++r) {
        const Vf p = hn::Set(df, a[r * step + k]);
#pragma GCC unroll 2
        for (int v = 0; v < Vectors; ++v) sum[r][v] = hn::MulAdd(p, b[v], sum[r][v]);
      }
    }
  }
  const bool full = panel.width == Vectors * lanes;
#pragma GCC unroll 16
  for (int r = 0; r < Rows; ++r) {
    HWY_ALIGN float edge[Vectors * hn::MaxLanes(df)] = {};
    const float* from = residual ? residual + r * conv.out : nullptr;
    if (from && !full) from = static_cast<float*>(std::memcpy(edge, from, panel.width * sizeof(float)));
    float* to = full ? y + r * conv.out : edge;
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) {
      Vf s = sum[r][v];
      if (from) s = hn::Add(s, hn::LoadU(df, from + v * lanes));
      if (conv.relu) s = hn::IfThenElse(hn::Lt(s, hn::Zero(df)), hn::Zero(df), s);
      hn::StoreU(s, df, to + v * lanes);
    }
    if (!full) std::memcpy(y + r * conv.out, edge, panel.width * sizeof(float));
  }
}

using Tile = void (*)(const DirectConv&, const DirectConv::Panel&, const float*, const float*, float*);
template <int Vectors, int... R>
Tile tile_of(int64_t rows, std::integer_sequence<int, R...>) {
  static constexpr Tile table[] = {tile<R + 1, Vectors>...};
  return table[rows - 1];
}

}  // namespace

int64_t conv_lanes() { return static_cast<int64_t>(hn::Lanes(df)); }

// Rows [begin, end) of outputs, those of all images counted through.
HWY_ATTR void conv_rows(const DirectConv& c, int64_t begin, int64_t end, const float* image,
                        const float* residual, float* y) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df)), width = c.y[2];
  const auto sequence = std::make_integer_sequence<int, kTileRows>();
  // Tiles of nearly the same size: a short one at the end would wait for its own sums.
  const int64_t tiles = (width + kTileRows - 1) / kTileRows;
  for (const DirectConv::Panel& panel : c.panels) {
    const bool wide = panel.width > lanes;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t n = row / (c.y[0] * c.y[1]), d = row / c.y[1] % c.y[0], h = row % c.y[1];
      const float* pixels =
          image + ((n * c.padded[0] + d * c.stride[0]) * c.padded[1] + h * c.stride[1]) * c.padded[2] * c.in;
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t from = width * t / tiles, rows = width * (t + 1) / tiles - from;
        const int64_t at = (row * width + from) * c.out + panel.column;
        const Tile f = wide ? tile_of<2>(rows, sequence) : tile_of<1>(rows, sequence);
        f(c, panel, pixels + from * c.stride[2] * c.in, residual ? residual + at : nullptr, y + at);
      }
    }
  }
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(conv_lanes);
HWY_EXPORT(conv_rows);

DirectConv::DirectConv(const ConvShape& s, const float* weight, const float* b, Activation activation)
    : batch(s.batch),
      in(s.in_channels),
      out(s.out_channels),
      relu(activation == Activation::relu),
      activation_(activation) {
  int64_t kernel[3], dilation[3];
  for (int d = 0; d < 3; ++d) {
    const int from = d - (3 - s.dims);
    x[d] = from < 0 ? 1 : s.in_size[from], y[d] = from < 0 ? 1 : s.out_size(from);
    kernel[d] = from < 0 ? 1 : s.kernel[from], stride[d] = from < 0 ? 1 : s.stride[from];
    padding[d] = from < 0 ? 0 : s.padding[from], dilation[d] = from < 0 ? 1 : s.dilation[from];
    padded[d] = x[d] + 2 * padding[d];
  }
  // Neighbouring taps of a row are one segment.
  const bool joined = dilation[2] == 1;
  const int64_t columns = joined ? 1 : kernel[2], wide = joined ? kernel[2] : 1;
  taps = wide * in;
  for (int64_t i = 0; i < kernel[0]; ++i)
    for (int64_t j = 0; j < kernel[1]; ++j)
      for (int64_t k = 0; k < columns; ++k)
        segments.push_back((((i * dilation[0]) * padded[1] + j * dilation[1]) * padded[2] + k * dilation[2]) *
                           in);

  const int64_t lanes = HWY_DYNAMIC_DISPATCH(conv_lanes)(), volume = kernel[0] * kernel[1] * kernel[2];
  size_t size = 0;
  for (int64_t column = 0; column < out;) {
    const int64_t room = out - column > lanes ? 2 * lanes : lanes;
    panels.push_back({column, std::min(room, out - column), size});
    size += static_cast<size_t>(room * volume * in);
    column += room;
  }
  weight_memory_ = std::make_unique<float[]>(size + 16);
  auto* to =
      reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(weight_memory_.get()) + 63) & ~uintptr_t{63});
  weights = to;
  for (const Panel& p : panels) {
    const int64_t room = p.width > lanes ? 2 * lanes : lanes;
    for (int64_t tap = 0; tap < volume; ++tap)
      for (int64_t c = 0; c < in; ++c, to += room)
        for (int64_t o = 0; o < p.width; ++o) to[o] = weight[((p.column + o) * in + c) * volume + tap];
  }
  bias.resize(static_cast<size_t>((out + 2 * lanes - 1) / lanes * lanes + lanes));
  if (b) std::copy_n(b, out, bias.begin());
  if (padding[0] || padding[1] || padding[2])
    image_ = std::make_unique<float[]>(static_cast<size_t>(batch * padded[0] * padded[1] * padded[2] * in));
}

// The border was zero from the start and stays so.
const float* DirectConv::pad(const float* from, int64_t begin, int64_t end) {
  if (!image_) return from;
  const int64_t line = x[2] * in;
  from += begin * x[0] * x[1] * line;
  for (int64_t n = begin; n < end; ++n)
    for (int64_t d = 0; d < x[0]; ++d)
      for (int64_t h = 0; h < x[1]; ++h, from += line) {
        const int64_t at =
            ((n * padded[0] + d + padding[0]) * padded[1] + h + padding[1]) * padded[2] + padding[2];
        std::copy_n(from, line, image_.get() + at * in);
      }
  return image_.get();
}

void DirectConv::run(const float* from, const float* residual, float* to, int64_t first, int64_t last) {
  const float* image = pad(from, first, last);
  const int64_t rows = y[0] * y[1];
  const int64_t work = y[2] * out * taps * static_cast<int64_t>(segments.size());
  const int64_t grain = std::max<int64_t>(1, 65536 / (work + 1));
  parallel_for(first * rows, last * rows, grain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(conv_rows)(*this, begin, end, image, residual, to);
    if (activation_ > Activation::relu)
      activate(activation_, to + begin * y[2] * out, (end - begin) * y[2] * out);
  });
}

}  // namespace tern::kernels
#endif
