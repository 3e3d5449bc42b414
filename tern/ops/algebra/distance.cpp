// Distances between all rows of two matrices, or of one.
#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/algebra.args.h"
#include "tern/ops/elements.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

template <class W>
W distance(const W* a, const W* b, int64_t n, double p) {
  W total = 0;
  if (p == 0) {
    for (int64_t i = 0; i < n; ++i) total += a[i] != b[i] ? W(1) : W(0);
    return total;
  }
  if (p == 1) {
    for (int64_t i = 0; i < n; ++i) total += std::abs(a[i] - b[i]);
    return total;
  }
  if (p == 2) {
    for (int64_t i = 0; i < n; ++i) total += (a[i] - b[i]) * (a[i] - b[i]);
    return std::sqrt(total);
  }
  if (std::isinf(p)) {
    for (int64_t i = 0; i < n; ++i) {
      W d = std::abs(a[i] - b[i]);
      if (d > total || d != d) total = d;
    }
    return total;
  }
  for (int64_t i = 0; i < n; ++i) total += std::pow(std::abs(a[i] - b[i]), static_cast<W>(p));
  return std::pow(total, static_cast<W>(1 / p));
}

// The derivative of the distance by one difference.
template <class W>
W slope(W diff, W grad, W dist, double p) {
  W sign = diff > 0 ? W(1) : diff < 0 ? W(-1) : W(0);
  if (p == 0 || dist == 0) return p == 1 ? grad * sign : W(0);
  if (p == 1) return grad * sign;
  if (p == 2) return grad * diff / dist;
  if (std::isinf(p)) return std::abs(diff) == dist ? grad * sign : W(0);
  if (p < 2 && diff == 0) return 0;
  return sign * std::pow(std::abs(diff), static_cast<W>(p - 1)) * grad /
         std::pow(dist, static_cast<W>(p - 1));
}

struct Batches {
  Dims batch;
  SymInt rows, columns, width;
};
Batches batches(const Tensor& x1, const Tensor& x2) {
  if (x1.dim() < 2) failf("cdist only supports at least 2D tensors, X1 got: {}D", x1.dim());
  if (x2.dim() < 2) failf("cdist only supports at least 2D tensors, X2 got: {}D", x2.dim());
  if (!(x1.size(-1) == x2.size(-1)))
    failf("X1 and X2 must have the same number of columns. X1: {} X2: {}", x1.size(-1).str(),
          x2.size(-1).str());
  Span<const SymInt> s = x1.sizes(), t = x2.sizes();
  return {broadcast_sizes(s.first(s.size() - 2), t.first(t.size() - 2)), x1.size(-2), x2.size(-2),
          x1.size(-1)};
}
Tensor batched(const Tensor& t, const Dims& batch, SymInt rows, SymInt width) {
  Dims sizes(batch);
  sizes.push_back(rows);
  sizes.push_back(width);
  return row_major(expand_view(t, sizes));
}
void check_type(const char* op, const Tensor& t) {
  if (t.dtype() != kFloat && t.dtype() != kDouble) not_implemented_for(op, t.dtype());
}
template <class F>
void by_wide(DType d, F&& f) {
  if (d == kFloat)
    f(float{});
  else
    f(double{});
}

}  // namespace

Tensor body_cdist(const args::cdist& a) {
  batches(a.x1, a.x2);
  if (a.p < 0) fail("cdist only supports non-negative p values");
  if (a.compute_mode && (*a.compute_mode < 0 || *a.compute_mode > 2))
    failf("possible modes: 0, 1, 2, but was: {}", *a.compute_mode);
  return _cdist_forward(a.x1, a.x2, a.p, a.compute_mode);
}
Shapes shape__cdist_forward(const args::_cdist_forward& a) {
  Batches b = batches(a.x1, a.x2);
  check_type("cdist", a.x1);
  if (a.x1.dtype() != a.x2.dtype())
    failf("expected scalar type {} but found {}", script_name(a.x1.dtype()), script_name(a.x2.dtype()));
  Dims sizes = b.batch;
  sizes.push_back(b.rows);
  sizes.push_back(b.columns);
  return {Shape(sizes, a.x1.dtype())};
}
void kernel__cdist_forward(const args::_cdist_forward& a, Out out) {
  Batches b = batches(a.x1, a.x2);
  Tensor x = batched(a.x1, b.batch, b.rows, b.width), y = batched(a.x2, b.batch, b.columns, b.width);
  int64_t rows = b.rows.as_int(), columns = b.columns.as_int(), width = b.width.as_int();
  by_wide(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *p = static_cast<const T*>(x.data()), *q = static_cast<const T*>(y.data());
    T* to = static_cast<T*>(out[0].data());
    parallel_for(0, out[0].int_numel(), std::max<int64_t>(1, 16384 / std::max<int64_t>(width, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     int64_t column = i % columns, row = i / columns, batch = row / rows;
                     to[i] = distance(p + row * width, q + (batch * columns + column) * width, width, a.p);
                   }
                 });
  });
}
Shapes shape__cdist_backward(const args::_cdist_backward& a) {
  Batches b = batches(a.x1, a.x2);
  Dims sizes = b.batch;
  sizes.push_back(b.rows);
  sizes.push_back(b.width);
  return {Shape(sizes, a.x1.dtype())};
}
void kernel__cdist_backward(const args::_cdist_backward& a, Out out) {
  Batches b = batches(a.x1, a.x2);
  Tensor x = batched(a.x1, b.batch, b.rows, b.width), y = batched(a.x2, b.batch, b.columns, b.width);
  Tensor grad = batched(a.grad, b.batch, b.rows, b.columns),
         dist = batched(a.cdist, b.batch, b.rows, b.columns);
  int64_t rows = b.rows.as_int(), columns = b.columns.as_int(), width = b.width.as_int();
  fill_elements(out[0], 0);
  by_wide(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *p = static_cast<const T*>(x.data()), *q = static_cast<const T*>(y.data());
    const T *g = static_cast<const T*>(grad.data()), *d = static_cast<const T*>(dist.data());
    T* to = static_cast<T*>(out[0].data());
    int64_t all = width ? out[0].int_numel() / width : 0;
    for (int64_t row = 0; row < all; ++row)
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t k = 0; k < width; ++k)
          to[row * width + k] += slope<T>(p[row * width + k] - q[(row / rows * columns + c) * width + k],
                                          g[row * columns + c], d[row * columns + c], a.p);
  });
}

Tensor body_pdist(const args::pdist& a) {
  if (a.self.dim() != 2) failf("pdist only supports 2D tensors, got: {}D", a.self.dim());
  if (!a.self.is_floating_point()) fail("pdist only supports floating-point dtypes");
  if (a.p < 0) fail("pdist only supports non-negative p values");
  return _pdist_forward(contiguous(a.self), a.p);
}
Shapes shape__pdist_forward(const args::_pdist_forward& a) {
  check_type("pdist", a.self);
  if (a.self.dim() != 2) failf("pdist only supports 2D tensors, got: {}D", a.self.dim());
  SymInt n = a.self.size(0);
  return {Shape(Dims{floor_div(n * (n - 1), 2)}, a.self.dtype())};
}
void kernel__pdist_forward(const args::_pdist_forward& a, Out out) {
  Tensor x = row_major(a.self);
  int64_t n = x.int_sizes()[0], width = x.int_sizes()[1];
  by_wide(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* p = static_cast<const T*>(x.data());
    T* to = static_cast<T*>(out[0].data());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j) *to++ = distance(p + i * width, p + j * width, width, a.p);
  });
}
Shapes shape__pdist_backward(const args::_pdist_backward& a) {
  return {Shape(Dims(a.self.sizes()), a.self.dtype())};
}
void kernel__pdist_backward(const args::_pdist_backward& a, Out out) {
  Tensor x = row_major(a.self), grad = row_major(a.grad), dist = row_major(a.pdist);
  int64_t n = x.int_sizes()[0], width = x.int_sizes()[1];
  fill_elements(out[0], 0);
  by_wide(x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T *p = static_cast<const T*>(x.data()), *g = static_cast<const T*>(grad.data()),
            *d = static_cast<const T*>(dist.data());
    T* to = static_cast<T*>(out[0].data());
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i + 1; j < n; ++j, ++g, ++d)
        for (int64_t k = 0; k < width; ++k) {
          T s = slope<T>(p[i * width + k] - p[j * width + k], *g, *d, a.p);
          to[i * width + k] += s;
          to[j * width + k] -= s;
        }
  });
}

}  // namespace tern
