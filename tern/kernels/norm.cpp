// All of these are made of four loops over lines of the compute type: moments, two dot products, and an
// affine map.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/norm.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/kernels/norm.h"
#include "tern/kernels/pointwise.h"

#ifndef TERN_KERNELS_NORM_ONCE
#define TERN_KERNELS_NORM_ONCE
namespace tern::kernels {
namespace {
template <class T>
struct LineLoops {
  double (*sum)(const T*, int64_t);
  double (*squares)(const T*, double, int64_t);
  double (*dot)(const T*, const T*, int64_t);
  void (*affine)(T*, const T*, T, T, int64_t);
  void (*centre)(T*, const T*, T, T, const T*, const T*, int64_t);
  void (*combine)(T*, const T*, T, const T*, T, T, int64_t);
  void (*weigh)(T*, const T*, const T*, const T*, int64_t);
  void (*collect)(double*, double*, const T*, const T*, double, double, int64_t);
};
}  // namespace
}  // namespace tern::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

constexpr int kLanes = 16;

template <class F>
HWY_ATTR inline double sum_of(int64_t n, F f) {
  double lanes[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += f(i + l);
  for (; i < n; ++i) sum += f(i);
  for (double v : lanes) sum += v;
  return sum;
}

// The sum of f(0), f(1), ... of floats: a few vectors are added in float, which costs no more than rounding,
// their totals in double. f gives a vector of floats from i on; `one` a single one.
template <class F, class G>
HWY_ATTR HWY_INLINE double sum_floats(int64_t n, F f, G one) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  double total = 0;
  int64_t i = 0;
  while (i + 4 * lanes <= n) {
    auto a = hn::Zero(d), b = a, c = a, e = a;
    for (const int64_t end = std::min(n, i + 32 * lanes); i + 4 * lanes <= end; i += 4 * lanes) {
      a = hn::Add(a, f(i));
      b = hn::Add(b, f(i + lanes));
      c = hn::Add(c, f(i + 2 * lanes));
      e = hn::Add(e, f(i + 3 * lanes));
    }
    float part[hn::MaxLanes(d)];
    hn::StoreU(hn::Add(hn::Add(a, b), hn::Add(c, e)), d, part);
    for (int64_t l = 0; l < lanes; ++l) total += part[l];
  }
  for (; i < n; ++i) total += one(i);
  return total;
}

template <class T>
HWY_ATTR double sum(const T* x, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::ScalableTag<float> d;
    return sum_floats(
        n, [d, x](int64_t i) HWY_ATTR { return hn::LoadU(d, x + i); },
        [x](int64_t i) HWY_ATTR { return static_cast<double>(x[i]); });
  }
  return sum_of(n, [x](int64_t i) HWY_ATTR { return static_cast<double>(x[i]); });
}
template <class T>
HWY_ATTR double squares(const T* x, double mean, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    namespace hn = hwy::HWY_NAMESPACE;
    const hn::ScalableTag<float> d;
    const float m = static_cast<float>(mean);
    const auto ms = hn::Set(d, m);
    const double total = sum_floats(
        n,
        [d, x, ms](int64_t i) HWY_ATTR {
          const auto v = hn::Sub(hn::LoadU(d, x + i), ms);
          return hn::Mul(v, v);
        },
        [x, m](int64_t i) HWY_ATTR { return static_cast<double>(x[i] - m) * (x[i] - m); });
    // Around the mean as a float can hold it; what that leaves out is known.
    const double off = mean - m;
    return std::max(0.0, total - static_cast<double>(n) * off * off);
  }
  return sum_of(n, [x, mean](int64_t i) HWY_ATTR {
    const double d = x[i] - mean;
    return d * d;
  });
}
template <class T>
HWY_ATTR double dot(const T* a, const T* b, int64_t n) {
  return sum_of(n, [a, b](int64_t i) HWY_ATTR { return static_cast<double>(a[i]) * b[i]; });
}
// out = a * x + b
template <class T>
HWY_ATTR void affine(T* out, const T* x, T a, T b, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + b;
}
// out = (x - m) * s, times w and plus b if they are given: exact where x is its own mean
template <class T>
HWY_ATTR void centre(T* out, const T* x, T m, T s, const T* w, const T* b, int64_t n) {
  if (w && b)
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - m) * s * w[i] + b[i];
  else if (w)
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - m) * s * w[i];
  else if (b)
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - m) * s + b[i];
  else
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - m) * s;
}
// out = a * x + b * y + c
template <class T>
HWY_ATTR void combine(T* out, const T* x, T a, const T* y, T b, T c, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) out[i] = a * x[i] + b * y[i] + c;
}
// out = x * w + b elementwise; w and b may be null
template <class T>
HWY_ATTR void weigh(T* out, const T* x, const T* w, const T* b, int64_t n) {
  if (w && b)
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] * w[i] + b[i];
  else if (w)
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] * w[i];
  else
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) out[i] = x[i] + (b ? b[i] : T(0));
}
// gw += g * (x - mean) * rstd, gb += g
template <class T>
HWY_ATTR void collect(double* gw, double* gb, const T* g, const T* x, double mean, double rstd, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    gw[i] += g[i] * (x[i] - mean) * rstd;
    gb[i] += g[i];
  }
}

template <class T>
constexpr LineLoops<T> make_loops() {
  return {sum<T>, squares<T>, dot<T>, affine<T>, centre<T>, combine<T>, weigh<T>, collect<T>};
}
constexpr LineLoops<float> kFloatLoops = make_loops<float>();
constexpr LineLoops<double> kDoubleLoops = make_loops<double>();

}  // namespace

const LineLoops<float>* float_line_loops() { return &kFloatLoops; }
const LineLoops<double>* double_line_loops() { return &kDoubleLoops; }

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(float_line_loops);
HWY_EXPORT(double_line_loops);
namespace {

template <class T>
const LineLoops<T>& loops() {
  if constexpr (std::is_same_v<T, double>)
    return *HWY_DYNAMIC_DISPATCH(double_line_loops)();
  else
    return *HWY_DYNAMIC_DISPATCH(float_line_loops)();
}

// A contiguous array of `type` seen as lines of T.
template <class T>
struct Lines {
  DType type;
  const void* data;
  int64_t width = element_size(type);

  explicit operator bool() const { return data; }
  const T* get(int64_t at, int64_t n, std::vector<T>& buffer) const {
    const char* from = static_cast<const char*>(data) + at * width;
    if (type == dtype_of<T>) return reinterpret_cast<const T*>(from);
    if (static_cast<int64_t>(buffer.size()) < n) buffer.resize(static_cast<size_t>(n));
    find_cast(type, dtype_of<T>)(from, 1, buffer.data(), 1, n);
    return buffer.data();
  }
  // Where to write; put() brings it home.
  T* target(int64_t at, int64_t n, std::vector<T>& buffer) const {
    if (type == dtype_of<T>) return static_cast<T*>(const_cast<void*>(data)) + at;
    if (static_cast<int64_t>(buffer.size()) < n) buffer.resize(static_cast<size_t>(n));
    return buffer.data();
  }
  void put(int64_t at, int64_t n, const T* from) const {
    if (type != dtype_of<T>)
      find_cast(dtype_of<T>, type)(from, 1, static_cast<char*>(const_cast<void*>(data)) + at * width, 1, n);
  }
};

template <class F>
void by_compute(DType type, const char* what, F f) {
  if (type == kDouble) return f(double{});
  if (compute_dtype(type) == kFloat && !is_float8(type)) return f(float{});
  failf(ErrorKind::not_supported, "{} is not implemented for {}; use a floating point type", what,
        name(type));
}

int64_t grain(int64_t n) { return std::max<int64_t>(1, 16384 / (n + 1)); }

// Sums over rows, in parallel over columns: gw and gb of layer_norm.
template <class T>
void parameter_gradients(int64_t rows, int64_t n, const Lines<T>& g, const Lines<T>& x, const T* mean,
                         const T* rstd, DType type, void* grad_weight, void* grad_bias) {
  parallel_for(0, n, std::max<int64_t>(64, 32768 / (rows + 1)), [&](int64_t begin, int64_t end) {
    const int64_t m = end - begin;
    std::vector<double> gw(static_cast<size_t>(m)), gb(gw);
    std::vector<T> a, b;
    for (int64_t r = 0; r < rows; ++r)
      loops<T>().collect(gw.data(), gb.data(), g.get(r * n + begin, m, a), x.get(r * n + begin, m, b),
                         mean[r], rstd[r], m);
    const int64_t offset = begin * element_size(type);
    if (grad_weight) find_cast(kDouble, type)(gw.data(), 1, static_cast<char*>(grad_weight) + offset, 1, m);
    if (grad_bias) find_cast(kDouble, type)(gb.data(), 1, static_cast<char*>(grad_bias) + offset, 1, m);
  });
}

template <class T>
std::vector<T> parameter(DType type, const void* data, int64_t n, double absent) {
  std::vector<T> v(static_cast<size_t>(n), static_cast<T>(absent));
  if (data) find_cast(type, dtype_of<T>)(data, 1, v.data(), 1, n);
  return v;
}

}  // namespace

void layer_norm(DType type, int64_t rows, int64_t n, const void* x, const void* weight, const void* bias,
                double eps, void* y, void* mean, void* rstd) {
  by_compute(type, "layer_norm", [&]<class T>(T) {
    const LineLoops<T>& l = loops<T>();
    const Lines<T> in{type, x}, out{type, y};
    std::vector<T> wv, bv;
    const T* w = weight ? Lines<T>{type, weight}.get(0, n, wv) : nullptr;
    const T* b = bias ? Lines<T>{type, bias}.get(0, n, bv) : nullptr;
    parallel_for(0, rows, grain(n), [&](int64_t begin, int64_t end) {
      std::vector<T> from, to;
      for (int64_t r = begin; r < end; ++r) {
        const T* a = in.get(r * n, n, from);
        T* o = out.target(r * n, n, to);
        const double m = l.sum(a, n) / static_cast<double>(n);
        const double s = 1 / std::sqrt(l.squares(a, m, n) / static_cast<double>(n) + eps);
        l.centre(o, a, static_cast<T>(m), static_cast<T>(s), w, b, n);
        out.put(r * n, n, o);
        if (mean) static_cast<T*>(mean)[r] = static_cast<T>(m);
        if (rstd) static_cast<T*>(rstd)[r] = static_cast<T>(s);
      }
    });
  });
}

void rms_norm(DType type, int64_t rows, int64_t n, const void* x, const void* weight, double eps, void* y,
              void* rstd) {
  by_compute(type, "rms_norm", [&]<class T>(T) {
    const LineLoops<T>& l = loops<T>();
    const Lines<T> in{type, x}, out{type, y};
    std::vector<T> wv;
    const T* w = weight ? Lines<T>{type, weight}.get(0, n, wv) : nullptr;
    parallel_for(0, rows, grain(n), [&](int64_t begin, int64_t end) {
      std::vector<T> from, to;
      for (int64_t r = begin; r < end; ++r) {
        const T* a = in.get(r * n, n, from);
        T* o = out.target(r * n, n, to);
        const double s = 1 / std::sqrt(l.squares(a, 0, n) / static_cast<double>(n) + eps);
        l.affine(o, a, static_cast<T>(s), T(0), n);
        if (w) l.weigh(o, o, w, nullptr, n);
        out.put(r * n, n, o);
        if (rstd) static_cast<T*>(rstd)[r] = static_cast<T>(s);
      }
    });
  });
}

void layer_norm_backward(DType type, int64_t rows, int64_t n, const void* grad_y, const void* x,
                         const void* mean, const void* rstd, const void* weight, void* grad_x,
                         void* grad_weight, void* grad_bias) {
  by_compute(type, "layer_norm_backward", [&]<class T>(T) {
    const LineLoops<T>& l = loops<T>();
    const Lines<T> g{type, grad_y}, in{type, x}, out{type, grad_x};
    const T *means = static_cast<const T*>(mean), *rstds = static_cast<const T*>(rstd);
    std::vector<T> wv;
    const T* w = weight ? Lines<T>{type, weight}.get(0, n, wv) : nullptr;
    if (grad_x)
      parallel_for(0, rows, grain(n), [&](int64_t begin, int64_t end) {
        std::vector<T> ga, xa, to, weighted(static_cast<size_t>(n));
        for (int64_t r = begin; r < end; ++r) {
          const T *gr = g.get(r * n, n, ga), *xr = in.get(r * n, n, xa);
          if (w) {
            l.weigh(weighted.data(), gr, w, nullptr, n);
            gr = weighted.data();
          }
          const double m = means[r], s = rstds[r], count = static_cast<double>(n);
          const double total = l.sum(gr, n),
                       along = (l.dot(gr, xr, n) - total * m) * s;  // sum of g and of g * xhat
          const double slope = -along * s * s / count, level = -slope * m - total * s / count;
          T* o = out.target(r * n, n, to);
          l.combine(o, gr, static_cast<T>(s), xr, static_cast<T>(slope), static_cast<T>(level), n);
          out.put(r * n, n, o);
        }
      });
    if (grad_weight || grad_bias)
      parameter_gradients<T>(rows, n, g, in, means, rstds, type, grad_weight, grad_bias);
  });
}

void group_norm(DType type, int64_t batch, int64_t channels, int64_t inner, int64_t groups, const void* x,
                const void* weight, const void* bias, double eps, void* y, void* mean, void* rstd) {
  by_compute(type, "group_norm", [&]<class T>(T) {
    const LineLoops<T>& l = loops<T>();
    const Lines<T> in{type, x}, out{type, y};
    const std::vector<T> w = parameter<T>(type, weight, channels, 1),
                         b = parameter<T>(type, bias, channels, 0);
    const int64_t per = channels / groups, n = per * inner;
    parallel_for(0, batch * groups, grain(n), [&](int64_t begin, int64_t end) {
      std::vector<T> from, to;
      for (int64_t r = begin; r < end; ++r) {
        const T* a = in.get(r * n, n, from);
        T* o = out.target(r * n, n, to);
        const double m = l.sum(a, n) / static_cast<double>(n);
        const double s = 1 / std::sqrt(l.squares(a, m, n) / static_cast<double>(n) + eps);
        for (int64_t c = 0; c < per; ++c) {
          const int64_t channel = r % groups * per + c;
          const double scale = s * w[channel];
          l.affine(o + c * inner, a + c * inner, static_cast<T>(scale),
                   static_cast<T>(b[channel] - m * scale), inner);
        }
        out.put(r * n, n, o);
        if (mean) static_cast<T*>(mean)[r] = static_cast<T>(m);
        if (rstd) static_cast<T*>(rstd)[r] = static_cast<T>(s);
      }
    });
  });
}

void group_norm_backward(DType type, int64_t batch, int64_t channels, int64_t inner, int64_t groups,
                         const void* grad_y, const void* x, const void* mean, const void* rstd,
                         const void* weight, void* grad_x, void* grad_weight, void* grad_bias) {
  by_compute(type, "group_norm_backward", [&]<class T>(T) {
    const LineLoops<T>& l = loops<T>();
    const Lines<T> g{type, grad_y}, in{type, x}, out{type, grad_x};
    const std::vector<T> w = parameter<T>(type, weight, channels, 1);
    const T *means = static_cast<const T*>(mean), *rstds = static_cast<const T*>(rstd);
    const int64_t per = channels / groups, n = per * inner;
    // Per channel of each image: sum of g and of g * x.
    std::vector<double> sums(static_cast<size_t>(batch * channels)), dots(sums);
    parallel_for(0, batch * groups, grain(n), [&](int64_t begin, int64_t end) {
      std::vector<T> ga, xa, to;
      for (int64_t r = begin; r < end; ++r) {
        const T *gr = g.get(r * n, n, ga), *xr = in.get(r * n, n, xa);
        const double m = means[r], s = rstds[r];
        double total = 0, along = 0;
        for (int64_t c = 0; c < per; ++c) {
          const double a = l.sum(gr + c * inner, inner), b = l.dot(gr + c * inner, xr + c * inner, inner);
          sums[r * per + c] = a, dots[r * per + c] = b;
          total += a * w[r % groups * per + c];
          along += (b - a * m) * s * w[r % groups * per + c];
        }
        if (!grad_x) continue;
        const double slope = -along * s * s / static_cast<double>(n),
                     level = -slope * m - total * s / static_cast<double>(n);
        T* o = out.target(r * n, n, to);
        for (int64_t c = 0; c < per; ++c)
          l.combine(o + c * inner, gr + c * inner, static_cast<T>(s * w[r % groups * per + c]),
                    xr + c * inner, static_cast<T>(slope), static_cast<T>(level), inner);
        out.put(r * n, n, o);
      }
    });
    std::vector<double> gw(static_cast<size_t>(channels)), gb(gw);
    for (int64_t i = 0; i < batch * channels; ++i) {
      gw[i % channels] += (dots[i] - sums[i] * means[i / per]) * rstds[i / per];
      gb[i % channels] += sums[i];
    }
    if (grad_weight) find_cast(kDouble, type)(gw.data(), 1, grad_weight, 1, channels);
    if (grad_bias) find_cast(kDouble, type)(gb.data(), 1, grad_bias, 1, channels);
  });
}

void batch_norm_stats(DType type, int64_t batch, int64_t channels, int64_t inner, const void* x, void* mean,
                      void* var) {
  by_compute(type, "batch_norm", [&]<class T>(T) {
    const LineLoops<T>& l = loops<T>();
    const Lines<T> in{type, x};
    const double n = static_cast<double>(batch * inner);
    if (inner < 8) {  // [batch, channels] mostly: walk rows, not columns
      const int64_t row = channels * inner;
      std::vector<double> m(static_cast<size_t>(channels)), v(m);
      std::vector<T> buffer;
      for (int64_t b = 0; b < batch; ++b) {
        const T* a = in.get(b * row, row, buffer);
        for (int64_t i = 0; i < row; ++i) m[i / inner] += a[i];
      }
      for (double& value : m) value /= n;
      for (int64_t b = 0; b < batch; ++b) {
        const T* a = in.get(b * row, row, buffer);
        for (int64_t i = 0; i < row; ++i) v[i / inner] += (a[i] - m[i / inner]) * (a[i] - m[i / inner]);
      }
      for (int64_t c = 0; c < channels; ++c)
        static_cast<T*>(mean)[c] = static_cast<T>(m[c]), static_cast<T*>(var)[c] = static_cast<T>(v[c] / n);
      return;
    }
    parallel_for(0, channels, grain(batch * inner), [&](int64_t begin, int64_t end) {
      std::vector<T> buffer;
      for (int64_t c = begin; c < end; ++c) {
        double m = 0, v = 0;
        for (int64_t b = 0; b < batch; ++b)
          m += l.sum(in.get((b * channels + c) * inner, inner, buffer), inner);
        m /= n;
        for (int64_t b = 0; b < batch; ++b)
          v += l.squares(in.get((b * channels + c) * inner, inner, buffer), m, inner);
        static_cast<T*>(mean)[c] = static_cast<T>(m);
        static_cast<T*>(var)[c] = static_cast<T>(v / n);
      }
    });
  });
}

void batch_norm_apply(DType type, int64_t batch, int64_t channels, int64_t inner, const void* x,
                      const void* mean, const void* rstd, const void* weight, const void* bias, void* y) {
  by_compute(type, "batch_norm", [&]<class T>(T) {
    const LineLoops<T>& l = loops<T>();
    const Lines<T> in{type, x}, out{type, y};
    std::vector<T> scale = parameter<T>(type, weight, channels, 1),
                   shift = parameter<T>(type, bias, channels, 0);
    for (int64_t c = 0; c < channels; ++c) {
      const double s = static_cast<double>(scale[c]) * static_cast<const T*>(rstd)[c];
      shift[c] = static_cast<T>(shift[c] - s * static_cast<const T*>(mean)[c]);
      scale[c] = static_cast<T>(s);
    }
    if (inner == 1)
      return parallel_for(0, batch, grain(channels), [&](int64_t begin, int64_t end) {
        std::vector<T> from, to;
        for (int64_t b = begin; b < end; ++b) {
          T* o = out.target(b * channels, channels, to);
          l.weigh(o, in.get(b * channels, channels, from), scale.data(), shift.data(), channels);
          out.put(b * channels, channels, o);
        }
      });
    parallel_for(0, batch * channels, grain(inner), [&](int64_t begin, int64_t end) {
      std::vector<T> from, to;
      for (int64_t i = begin; i < end; ++i) {
        T* o = out.target(i * inner, inner, to);
        l.affine(o, in.get(i * inner, inner, from), scale[i % channels], shift[i % channels], inner);
        out.put(i * inner, inner, o);
      }
    });
  });
}

void batch_norm_backward(DType type, int64_t batch, int64_t channels, int64_t inner, const void* grad_y,
                         const void* x, const void* mean, const void* rstd, const void* weight, bool training,
                         void* grad_x, void* grad_weight, void* grad_bias) {
  by_compute(type, "batch_norm_backward", [&]<class T>(T) {
    const LineLoops<T>& l = loops<T>();
    const Lines<T> g{type, grad_y}, in{type, x}, out{type, grad_x};
    const std::vector<T> w = parameter<T>(type, weight, channels, 1);
    std::vector<double> gw(static_cast<size_t>(channels)), gb(gw);
    const double n = static_cast<double>(batch * inner);
    parallel_for(0, channels, grain(batch * inner), [&](int64_t begin, int64_t end) {
      std::vector<T> ga, xa, to;
      for (int64_t c = begin; c < end; ++c) {
        const double m = static_cast<const T*>(mean)[c], s = static_cast<const T*>(rstd)[c];
        double total = 0, product = 0;
        for (int64_t b = 0; b < batch; ++b) {
          const int64_t at = (b * channels + c) * inner;
          const T* gl = g.get(at, inner, ga);
          total += l.sum(gl, inner);
          product += l.dot(gl, in.get(at, inner, xa), inner);
        }
        const double along = (product - total * m) * s;
        gw[c] = along, gb[c] = total;
        if (!grad_x) continue;
        const double scale = s * w[c], slope = training ? -along * s * scale / n : 0;
        const double level = training ? -slope * m - total * scale / n : 0;
        for (int64_t b = 0; b < batch; ++b) {
          const int64_t at = (b * channels + c) * inner;
          T* o = out.target(at, inner, to);
          l.combine(o, g.get(at, inner, ga), static_cast<T>(scale), in.get(at, inner, xa),
                    static_cast<T>(slope), static_cast<T>(level), inner);
          out.put(at, inner, o);
        }
      }
    });
    if (grad_weight) find_cast(kDouble, type)(gw.data(), 1, grad_weight, 1, channels);
    if (grad_bias) find_cast(kDouble, type)(gb.data(), 1, grad_bias, 1, channels);
  });
}

}  // namespace tern::kernels
#endif
