#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/softmax.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/kernels/pointwise.h"
#include "tern/kernels/softmax.h"

#include "tern/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {

// One line of floats; x and y may be the same.
HWY_ATTR HWY_INLINE void softmax_line(bool log, const float* x, float* y, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  if (n <= lanes && !log) {  // one vector, filled up with what adds nothing
    const auto inside = hn::FirstN(df, static_cast<size_t>(n));
    const Vf v = hn::IfThenElse(inside, hn::MaskedLoad(inside, df, x), all(-kInf));
    const Vf e = exp_any(hn::Sub(v, hn::MaxOfLanes(df, v)));
    return hn::BlendedStore(hn::Div(e, hn::SumOfLanes(df, e)), inside, df, y);
  }
  // Two of each: one waits for its last result while the other goes on.
  Vf top = all(-kInf), other_top = top;
  int64_t i = 0;
  float max = -kInf;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    top = hn::Max(top, hn::LoadU(df, x + i));
    other_top = hn::Max(other_top, hn::LoadU(df, x + i + lanes));
  }
  top = hn::Max(top, other_top);
  for (; i + lanes <= n; i += lanes) top = hn::Max(top, hn::LoadU(df, x + i));
  if (n >= lanes) max = hn::GetLane(hn::MaxOfLanes(df, top));
  for (; i < n; ++i) max = std::max(max, x[i]);
  const Vf shift = all(max);
  Vf total = hn::Zero(df), other_total = total;
  float sum = 0;
  for (i = 0; i + 2 * lanes <= n; i += 2 * lanes) {
    const Vf e = exp_any(hn::Sub(hn::LoadU(df, x + i), shift)),
             f = exp_any(hn::Sub(hn::LoadU(df, x + i + lanes), shift));
    if (!log) {
      hn::StoreU(e, df, y + i);
      hn::StoreU(f, df, y + i + lanes);
    }
    total = hn::Add(total, e);
    other_total = hn::Add(other_total, f);
  }
  total = hn::Add(total, other_total);
  for (; i + lanes <= n; i += lanes) {
    const Vf e = exp_any(hn::Sub(hn::LoadU(df, x + i), shift));
    if (!log) hn::StoreU(e, df, y + i);
    total = hn::Add(total, e);
  }
  if (n >= lanes) sum = hn::GetLane(hn::SumOfLanes(df, total));
  if (i < n) {  // what is left, in a vector filled up with what adds nothing
    const auto inside = hn::FirstN(df, static_cast<size_t>(n - i));
    const Vf v = hn::IfThenElse(inside, hn::MaskedLoad(inside, df, x + i), all(-kInf));
    const Vf e = exp_any(hn::Sub(v, shift));
    sum += hn::GetLane(hn::SumOfLanes(df, e));
    if (!log) hn::BlendedStore(e, inside, df, y + i);
  }
  const float factor = log ? std::log(sum) : 1 / sum;
#pragma GCC ivdep
  for (i = 0; i < n; ++i) y[i] = log ? x[i] - max - factor : y[i] * factor;
}

// Lines of at most one vector: as many as a vector has lanes share one logarithm.
HWY_ATTR HWY_INLINE void log_softmax_short_lines(const float* x, float* y, int64_t lines, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  const auto inside = hn::FirstN(df, static_cast<size_t>(n));
  HWY_ALIGN float sums[hn::MaxLanes(df)];
  for (int64_t first = 0; first < lines; first += lanes) {
    const int64_t count = std::min(lanes, lines - first);
    hn::Store(all(1), df, sums);
    for (int64_t l = 0; l < count; ++l) {
      const Vf v = hn::IfThenElse(inside, hn::MaskedLoad(inside, df, x + (first + l) * n), all(-kInf));
      const Vf shifted = hn::Sub(v, hn::MaxOfLanes(df, v));
      hn::BlendedStore(shifted, inside, df, y + (first + l) * n);
      sums[l] = hn::GetLane(hn::SumOfLanes(df, exp_any(shifted)));
    }
    hn::Store(log_any(hn::Load(df, sums)), df, sums);
    for (int64_t l = 0; l < count; ++l) {
      float* to = y + (first + l) * n;
      hn::BlendedStore(hn::Sub(hn::MaskedLoad(inside, df, to), all(sums[l])), inside, df, to);
    }
  }
}

HWY_ATTR void softmax_lines(bool log, const float* x, float* y, int64_t lines, int64_t n) {
  if (log && n <= static_cast<int64_t>(hn::Lanes(df))) return log_softmax_short_lines(x, y, lines, n);
  for (int64_t l = 0; l < lines; ++l) softmax_line(log, x + l * n, y + l * n, n);
}

HWY_ATTR void softmax_backward_line(bool log, const float* g, const float* y, float* out, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  Vf total = hn::Zero(df);
  float sum = 0;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vf v = hn::LoadU(df, g + i);
    total = log ? hn::Add(total, v) : hn::MulAdd(v, hn::LoadU(df, y + i), total);
  }
  if (n >= lanes) sum = hn::GetLane(hn::SumOfLanes(df, total));
  for (; i < n; ++i) sum += log ? g[i] : g[i] * y[i];
  if (log) {
    const Vf s = all(sum);
    for (i = 0; i + lanes <= n; i += lanes)
      hn::StoreU(hn::Sub(hn::LoadU(df, g + i), hn::Mul(exp_any(hn::LoadU(df, y + i)), s)), df, out + i);
    for (; i < n; ++i) out[i] = g[i] - std::exp(y[i]) * sum;
  } else {
#pragma GCC ivdep
    for (i = 0; i < n; ++i) out[i] = (g[i] - sum) * y[i];
  }
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(softmax_lines);
HWY_EXPORT(softmax_backward_line);
namespace {

void forward_line(bool log, const float* x, float* y, int64_t n) {
  HWY_DYNAMIC_DISPATCH(softmax_lines)(log, x, y, 1, n);
}
void forward_line(bool log, const double* x, double* y, int64_t n) {
  double max = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t i = 0; i < n; ++i) max = std::max(max, x[i]);
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
  for (int64_t i = 0; i < n; ++i) y[i] = log ? x[i] - max - std::log(sum) : std::exp(x[i] - max) / sum;
}
void backward_line(bool log, const float* g, const float* y, float* out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(softmax_backward_line)(log, g, y, out, n);
}
void backward_line(bool log, const double* g, const double* y, double* out, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += log ? g[i] : g[i] * y[i];
  for (int64_t i = 0; i < n; ++i) out[i] = log ? g[i] - std::exp(y[i]) * sum : (g[i] - sum) * y[i];
}

// A line of the middle dim as T: in place when it is contiguous and of that type, else in `buffer`.
template <class T>
const T* line(DType type, const void* data, int64_t at, int64_t stride, int64_t n, T* buffer) {
  const char* from = static_cast<const char*>(data) + at * element_size(type);
  if (type == dtype_of<T> && stride == 1) return reinterpret_cast<const T*>(from);
  find_cast(type, dtype_of<T>)(from, stride, buffer, 1, n);
  return buffer;
}

template <class F>
void each_line(DType type, int64_t outer, int64_t n, int64_t inner, F f) {
  if (!is_floating(type) || is_float8(type))
    failf(ErrorKind::not_supported, "softmax is not implemented for {}; cast to float32 first", name(type));
  if (n == 0) return;
  parallel_for(0, outer * inner, std::max<int64_t>(1, 8192 / n), [&](int64_t begin, int64_t end) {
    auto run = [&]<class T>(T) {
      constexpr int64_t few = 256;
      T place[3 * few];
      std::vector<T> room;  // of three lines, where they do not fit in place
      if (n > few) room.resize(static_cast<size_t>(3 * n));
      T* a = n > few ? room.data() : place;
      for (int64_t l = begin; l < end; ++l)
        f(inner == 1 ? l * n : l / inner * n * inner + l % inner, a, a + n, a + 2 * n);
    };
    type == kDouble ? run(double{}) : run(float{});
  });
}
template <class T>
void put_line(DType type, void* data, int64_t at, int64_t stride, int64_t n, const T* from) {
  void* to = static_cast<char*>(data) + at * element_size(type);
  if (to != from) find_cast(dtype_of<T>, type)(from, 1, to, stride, n);
}

}  // namespace

void softmax(bool log, DType in_type, const void* x, DType out_type, void* y, int64_t outer, int64_t n,
             int64_t inner) {
  if (in_type == kFloat && out_type == kFloat && inner == 1 && n > 0)
    return parallel_for(0, outer, std::max<int64_t>(1, 8192 / n), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(softmax_lines)
      (log, static_cast<const float*>(x) + begin * n, static_cast<float*>(y) + begin * n, end - begin, n);
    });
  const DType compute = in_type == kDouble || out_type == kDouble ? kDouble : in_type;
  each_line(compute, outer, n, inner, [&]<class T>(int64_t at, T* a, T* b, T*) {
    T* to = out_type == dtype_of<T> && inner == 1 ? static_cast<T*>(y) + at : b;
    forward_line(log, line(in_type, x, at, inner, n, a), to, n);
    put_line(out_type, y, at, inner, n, to);
  });
}

void softmax_backward(bool log, DType type, const void* grad_y, const void* y, DType out_type, void* grad_x,
                      int64_t outer, int64_t n, int64_t inner) {
  each_line(type, outer, n, inner, [&]<class T>(int64_t at, T* a, T* b, T* c) {
    backward_line(log, line(type, grad_y, at, inner, n, a), line(type, y, at, inner, n, b), c, n);
    put_line(out_type, grad_x, at, inner, n, c);
  });
}

}  // namespace tern::kernels
#endif
