// Lines of channels are what is vectorised; positions and windows are plain loops around them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/images.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "tern/base/parallel.h"
#include "tern/kernels/images.h"
#include "tern/kernels/pool_windows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Maximum (NaN wins) or sum over a window; kVectors vectors of channels stay in registers. Maxima and NaNs
// are found apart, which makes the chain from one position to the next one instruction long.
template <bool kMaximum, int kVectors, class D>
HWY_ATTR HWY_INLINE void pool_block(D d, const Windows& w, const Range& a, const Range& b, const Range& c,
                                    int64_t channels, const float* HWY_RESTRICT in, float* HWY_RESTRICT out) {
  using V = hn::Vec<D>;
  const size_t lanes = hn::Lanes(d);
  const int64_t next = w.step[2] * channels;
  const V start = hn::Set(d, kMaximum ? -std::numeric_limits<float>::infinity() : 0.0f);
  V v0 = start, v1 = start, v2 = start, v3 = start;
  V n0 = hn::Zero(d), n1 = n0, n2 = n0, n3 = n0;  // NaN where there was one
  auto take = [&](V& acc, V& nan, const float* x) HWY_ATTR {
    const V v = hn::LoadU(d, x);
    if constexpr (kMaximum) {
      nan = hn::IfThenElse(hn::IsNaN(v), v, nan);
      acc = hn::Max(acc, v);
    } else {
      acc = hn::Add(acc, v);
    }
  };
  for (int64_t i = a.begin; i < a.end; i += w.step[0])
    for (int64_t j = b.begin; j < b.end; j += w.step[1]) {
      const float* x = in + ((i * w.in[1] + j) * w.in[2] + c.begin) * channels;
      for (int64_t k = c.begin; k < c.end; k += w.step[2], x += next) {
        take(v0, n0, x);
        if constexpr (kVectors > 1) take(v1, n1, x + lanes);
        if constexpr (kVectors > 2) take(v2, n2, x + 2 * lanes), take(v3, n3, x + 3 * lanes);
      }
    }
  auto give = [&](V acc, V nan, float* to)
                  HWY_ATTR { hn::StoreU(kMaximum ? hn::IfThenElse(hn::IsNaN(nan), nan, acc) : acc, d, to); };
  give(v0, n0, out);
  if constexpr (kVectors > 1) give(v1, n1, out + lanes);
  if constexpr (kVectors > 2) give(v2, n2, out + 2 * lanes), give(v3, n3, out + 3 * lanes);
}
template <bool kMaximum>
HWY_ATTR HWY_INLINE void pool_window(const Windows& w, const Range& a, const Range& b, const Range& c,
                                     int64_t channels, const float* in, float* out) {
  const hn::ScalableTag<float> wide;
  const hn::CappedTag<float, 1> one;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(wide));
  int64_t at = 0;
  for (; at + 4 * lanes <= channels; at += 4 * lanes)
    pool_block<kMaximum, 4>(wide, w, a, b, c, channels, in + at, out + at);
  for (; at + 2 * lanes <= channels; at += 2 * lanes)
    pool_block<kMaximum, 2>(wide, w, a, b, c, channels, in + at, out + at);
  for (; at + lanes <= channels; at += lanes)
    pool_block<kMaximum, 1>(wide, w, a, b, c, channels, in + at, out + at);
  for (; at < channels; ++at) pool_block<kMaximum, 1>(one, w, a, b, c, channels, in + at, out + at);
}
// Output positions [begin, end) of a batch of images.
template <bool kMaximum>
HWY_ATTR void pool_range(const PoolShape& s, const Windows& w, int64_t channels, int64_t begin, int64_t end,
                         const float* x, float* y) {
  const int64_t o = begin % w.out_volume;
  int64_t image = begin / w.out_volume, i = o / (w.out[1] * w.out[2]), j = o / w.out[2] % w.out[1],
          k = o % w.out[2];
  for (int64_t at = begin; at < end; ++at) {
    const Range &a = w.ranges[0][i], &b = w.ranges[1][j], &c = w.ranges[2][k];
    float* out = y + at * channels;
    pool_window<kMaximum>(w, a, b, c, channels, x + image * w.in_volume * channels, out);
    if (!kMaximum && a.begin < a.end && b.begin < b.end && c.begin < c.end) {
      const float divisor = static_cast<float>(w.divisor(s, a, b, c));
#pragma GCC ivdep
      for (int64_t n = 0; n < channels; ++n) out[n] /= divisor;
    }
    if (++k < w.out[2]) continue;
    k = 0;
    if (++j < w.out[1]) continue;
    j = 0;
    if (++i < w.out[0]) continue;
    i = 0;
    ++image;
  }
}
HWY_ATTR void max_range(const PoolShape& s, const Windows& w, int64_t channels, int64_t begin, int64_t end,
                        const float* x, float* y) {
  pool_range<true>(s, w, channels, begin, end, x, y);
}
HWY_ATTR void mean_range(const PoolShape& s, const Windows& w, int64_t channels, int64_t begin, int64_t end,
                         const float* x, float* y) {
  pool_range<false>(s, w, channels, begin, end, x, y);
}
HWY_ATTR void affine_line(const float* x, const float* scale, const float* shift, float* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * scale[i] + shift[i];
}

// Columns [from, to) of three rows: the colours of a picture, and what every network of images begins with.
HWY_ATTR HWY_INLINE void interleave_three(int64_t columns, int64_t from, int64_t to, const float* x,
                                          float* y) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = from;
  for (; j + lanes <= to; j += lanes)
    hn::StoreInterleaved3(hn::LoadU(d, x + j), hn::LoadU(d, x + columns + j),
                          hn::LoadU(d, x + 2 * columns + j), d, y + 3 * j);
  for (; j < to; ++j)
    for (int64_t i = 0; i < 3; ++i) y[3 * j + i] = x[i * columns + j];
}

// Tiles of 16 by 16: a cache line of either side is read or written whole.
HWY_ATTR void transpose(int64_t rows, int64_t columns, int64_t from, int64_t to, const float* x, float* y) {
  if (rows == 3) return interleave_three(columns, from, to, x, y);
  constexpr int64_t kTile = 16;
  for (int64_t c = from; c < to; c += kTile)
    for (int64_t r = 0; r < rows; r += kTile) {
      const int64_t c_end = std::min(c + kTile, to), r_end = std::min(r + kTile, rows);
      for (int64_t j = c; j < c_end; ++j) {
#pragma GCC ivdep
        for (int64_t i = r; i < r_end; ++i) y[j * rows + i] = x[i * columns + j];
      }
    }
}

}  // namespace
}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
namespace {

HWY_EXPORT(max_range);
HWY_EXPORT(mean_range);
HWY_EXPORT(affine_line);
HWY_EXPORT(transpose);

constexpr int64_t kGrain = 16384;  // elements worth a thread

// f(begin, end) of the output positions, in parallel.
template <class F>
void each_range(const PoolShape& s, int64_t channels, const Windows& w, F f) {
  const int64_t window = std::max<int64_t>(1, w.in_volume / std::max<int64_t>(1, w.out_volume)),
                grain = std::max<int64_t>(1, kGrain / (channels * window));
  parallel_for(0, s.planes * w.out_volume, grain, f);
}

}  // namespace

void transpose_planes(int64_t batch, int64_t rows, int64_t columns, const float* x, float* y) {
  const auto run = [](auto... a) { HWY_DYNAMIC_DISPATCH(transpose)(a...); };
  const int64_t tiles = (columns + 15) / 16, grain = std::max<int64_t>(1, kGrain / (16 * rows + 1));
  parallel_for(0, batch * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end;) {
      const int64_t b = at / tiles, tile = at % tiles, last = std::min(tiles, tile + end - at);
      run(rows, columns, tile * 16, std::min(columns, last * 16), x + b * rows * columns,
          y + b * rows * columns);
      at += last - tile;
    }
  });
}

void max_pool_channels_last(const PoolShape& s, int64_t channels, const float* x, float* y) {
  const Windows w(s);
  each_range(s, channels, w, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(max_range)(s, w, channels, begin, end, x, y);
  });
}

void avg_pool_channels_last(const PoolShape& s, int64_t channels, const float* x, float* y) {
  const Windows w(s);
  each_range(s, channels, w, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(mean_range)(s, w, channels, begin, end, x, y);
  });
}

void affine_channels_last(int64_t pixels, int64_t channels, const float* x, const float* scale,
                          const float* shift, Activation activation, float* y) {
  const auto line = [](auto... a) { HWY_DYNAMIC_DISPATCH(affine_line)(a...); };
  parallel_for(0, pixels, std::max<int64_t>(1, kGrain / channels), [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) line(x + p * channels, scale, shift, y + p * channels, channels);
    activate(activation, y + begin * channels, (end - begin) * channels);
  });
}

}  // namespace tern::kernels
#endif
