// Windows are found once; planes are then independent.
#include "tern/kernels/pool.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/base/wrapping.h"
#include "tern/kernels/pointwise.h"
#include "tern/kernels/pool_windows-inl.h"

namespace tern::kernels {
namespace {

// Runs f(T* in plane, T* out plane, plane) with planes brought to the compute type and the written one
// brought home.
template <class F>
void each_plane(DType type, const char* what, const PoolShape& s, const void* from, int64_t from_volume,
                void* to, int64_t to_volume, F f) {
  if (is_complex(type) || is_float8(type))
    failf(ErrorKind::not_supported, "{} is not implemented for {}", what, name(type));
  auto run = [&]<class T>(T) {
    const bool direct = type == dtype_of<T>;
    const int64_t width = element_size(type);
    parallel_for(0, s.planes, std::max<int64_t>(1, 8192 / (from_volume + to_volume + 1)),
                 [&](int64_t begin, int64_t end) {
                   std::vector<T> a(direct ? 0 : static_cast<size_t>(from_volume)),
                       b(direct ? 0 : static_cast<size_t>(to_volume));
                   for (int64_t p = begin; p < end; ++p) {
                     const char* source = static_cast<const char*>(from) + p * from_volume * width;
                     char* target = static_cast<char*>(to) + p * to_volume * width;
                     if (direct) {
                       f(reinterpret_cast<const T*>(source), reinterpret_cast<T*>(target), p);
                       continue;
                     }
                     find_cast(type, dtype_of<T>)(source, 1, a.data(), 1, from_volume);
                     f(static_cast<const T*>(a.data()), b.data(), p);
                     find_cast(dtype_of<T>, type)(b.data(), 1, target, 1, to_volume);
                   }
                 });
  };
  if (type == kDouble) return run(double{});
  is_floating(type) ? run(float{}) : run(int64_t{});
}

// The best of each column over the rows of a window, then the best of the columns: what a window's rows share
// with its neighbours is done once, along memory.
void max_pool_planes(const PoolShape& s, const Windows& w, const float* x, float* y, int64_t* indices) {
  const int64_t wide = w.in[2];
  parallel_for(0, s.planes, std::max<int64_t>(1, 16384 / (w.in_volume + 1)), [&](int64_t begin, int64_t end) {
    std::vector<float> best(static_cast<size_t>(wide));
    std::vector<int32_t> row(static_cast<size_t>(wide));
    for (int64_t p = begin; p < end; ++p) {
      const float* in = x + p * w.in_volume;
      int64_t o = p * w.out_volume;
      for (const Range& a : w.ranges[1]) {
        std::fill(best.begin(), best.end(), -std::numeric_limits<float>::infinity());
        std::fill(row.begin(), row.end(), static_cast<int32_t>(a.begin));
        for (int64_t i = a.begin; i < a.end; i += w.step[1]) {
          const float* line = in + i * wide;
          for (int64_t j = 0; j < wide; ++j) {
            const bool better = line[j] > best[j] || line[j] != line[j];
            best[j] = better ? line[j] : best[j];
            row[j] = better ? static_cast<int32_t>(i) : row[j];
          }
        }
        for (const Range& b : w.ranges[2]) {
          int64_t at = b.begin;
          float top = best[b.begin];
          for (int64_t j = b.begin + w.step[2]; j < b.end; j += w.step[2]) {
            // Of equal ones the first in the plane; of several NaNs the last.
            const bool nan = best[j] != best[j];
            if (best[j] > top || (best[j] == top && row[j] < row[at]) ||
                (nan && (top == top || row[j] >= row[at])))
              top = best[j], at = j;
          }
          y[o] = top;
          if (indices) indices[o] = row[at] * wide + at;
          ++o;
        }
      }
    }
  });
}

void avg_pool_planes(const PoolShape& s, const Windows& w, const float* x, float* y) {
  const int64_t wide = w.in[2];
  const Range one{0, 1, 1};
  parallel_for(0, s.planes, std::max<int64_t>(1, 16384 / (w.in_volume + 1)), [&](int64_t begin, int64_t end) {
    std::vector<float> sum(static_cast<size_t>(wide));
    for (int64_t p = begin; p < end; ++p) {
      const float* in = x + p * w.in_volume;
      float* out = y + p * w.out_volume;
      for (const Range& a : w.ranges[1]) {
        std::fill(sum.begin(), sum.end(), 0.0f);
        for (int64_t i = a.begin; i < a.end; ++i)
          for (int64_t j = 0; j < wide; ++j) sum[j] += in[i * wide + j];
        for (const Range& b : w.ranges[2]) {
          float total = 0;
          for (int64_t j = b.begin; j < b.end; ++j) total += sum[j];
          const bool empty = a.end <= a.begin || b.end <= b.begin;
          *out++ = empty ? 0.0f : total / static_cast<float>(w.divisor(s, one, a, b));
        }
      }
    }
  });
}

// Two dims of floats with windows that hold something.
bool is_plain(DType type, const PoolShape& s, const Windows& w) {
  if (type != kFloat || s.dims != 2) return false;
  for (int d = 1; d < 3; ++d)
    for (const Range& r : w.ranges[d])
      if (r.end <= r.begin) return false;
  return w.in[1] <= INT32_MAX;
}

}  // namespace

int64_t pool_out_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                      bool ceil_mode) {
  const int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
  if (room < 0 && !ceil_mode) return 0;
  int64_t out =
      (ceil_mode ? (room + stride - 1 + (room < 0 ? -(stride - 1) : 0)) / stride : room / stride) + 1;
  // The last window starts inside of the input or its left padding.
  if (ceil_mode && (out - 1) * stride >= in + padding) --out;
  return std::max<int64_t>(out, 0);
}

void max_pool(DType type, const PoolShape& s, const void* x, void* y, int64_t* indices) {
  const Windows w(s);
  if (is_plain(type, s, w))
    return max_pool_planes(s, w, static_cast<const float*>(x), static_cast<float*>(y), indices);
  each_plane(type, "max_pool", s, x, w.in_volume, y, w.out_volume,
             [&]<class T>(const T* in, T* out, int64_t plane) {
               w.each([&](int64_t o, const Range& a, const Range& b, const Range& c) {
                 T best = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                               : std::numeric_limits<T>::lowest();
                 int64_t at = (a.begin * w.in[1] + b.begin) * w.in[2] + c.begin;
                 w.inside(a, b, c, [&](int64_t i) {
                   if (in[i] > best || in[i] != in[i]) best = in[i], at = i;
                 });
                 out[o] = best;
                 if (indices) indices[plane * w.out_volume + o] = at;
               });
             });
}

void max_pool_backward(DType type, const PoolShape& s, const void* grad_y, const int64_t* indices,
                       void* grad_x) {
  const Windows w(s);
  each_plane(type, "max_pool_backward", s, grad_y, w.out_volume, grad_x, w.in_volume,
             [&]<class T>(const T* g, T* out, int64_t plane) {
               std::fill_n(out, w.in_volume, T(0));
               for (int64_t o = 0; o < w.out_volume; ++o) {
                 T& to = out[indices[plane * w.out_volume + o]];
                 to = wrapping_sum(to, g[o]);
               }
             });
}

void avg_pool(DType type, const PoolShape& s, const void* x, void* y) {
  const Windows w(s);
  if (is_plain(type, s, w))
    return avg_pool_planes(s, w, static_cast<const float*>(x), static_cast<float*>(y));
  each_plane(type, "avg_pool", s, x, w.in_volume, y, w.out_volume,
             [&]<class T>(const T* in, T* out, int64_t) {
               w.each([&](int64_t o, const Range& a, const Range& b, const Range& c) {
                 T sum = 0;
                 w.inside(a, b, c, [&](int64_t i) { sum = wrapping_sum(sum, in[i]); });
                 const bool empty = a.end <= a.begin || b.end <= b.begin || c.end <= c.begin;
                 out[o] = empty ? T(0) : sum / static_cast<T>(w.divisor(s, a, b, c));
               });
             });
}

void avg_pool_backward(DType type, const PoolShape& s, const void* grad_y, void* grad_x) {
  const Windows w(s);
  each_plane(type, "avg_pool_backward", s, grad_y, w.out_volume, grad_x, w.in_volume,
             [&]<class T>(const T* g, T* out, int64_t) {
               std::fill_n(out, w.in_volume, T(0));
               w.each([&](int64_t o, const Range& a, const Range& b, const Range& c) {
                 if (a.end <= a.begin || b.end <= b.begin || c.end <= c.begin) return;
                 const T share = g[o] / static_cast<T>(w.divisor(s, a, b, c));
                 w.inside(a, b, c, [&](int64_t i) { out[i] = wrapping_sum(out[i], share); });
               });
             });
}

}  // namespace tern::kernels
