// Sorting and selection along a dimension.
#include <algorithm>
#include <numeric>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/sort.args.h"

namespace tern {
namespace {

// Does `a` come before `b`?
template <class T>
struct Before {
  bool descending;
  bool operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      return descending ? b < a : a < b;
    } else {
      wide_t<T> x = static_cast<wide_t<T>>(a), y = static_cast<wide_t<T>>(b);
      bool x_nan = x != x, y_nan = y != y;
      if (descending) return (x_nan && !y_nan) || y < x;
      return (!x_nan && y_nan) || x < y;
    }
  }
};

// The first k of every row in order: values and where they were.
void order_rows(const Tensor& self, int64_t dim, bool descending, int64_t k, bool only_kth,
                const Tensor& values, const Tensor& indices) {
  if (values.int_numel() == 0) return;
  Tensor from = row_major(self);
  dim = wrap_dim(dim, self.dim());
  Rows rows = rows_around(from, dim);
  int64_t n = rows.size;
  k = std::min(k, n);
  int64_t kept = only_kth ? 1 : k;
  int64_t* at = indices.data_ptr<int64_t>();
  by_real_dtype("sort", self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = static_cast<const T*>(from.data());
    T* y = static_cast<T*>(values.data());
    parallel_for(0, rows.outer * rows.inner, std::max<int64_t>(1, 4096 / n), [&](int64_t begin, int64_t end) {
      std::vector<int64_t> order(static_cast<size_t>(n));
      for (int64_t row = begin; row < end; ++row) {
        int64_t outer = row / rows.inner, inner = row % rows.inner;
        const T* p = x + outer * n * rows.inner + inner;
        std::iota(order.begin(), order.end(), 0);
        Before<T> before{descending};
        auto less = [&](int64_t a, int64_t b) {
          T u = p[a * rows.inner], v = p[b * rows.inner];
          return before(u, v) || (!before(v, u) && a < b);
        };
        if (k >= n)
          std::sort(order.begin(), order.end(), less);
        else
          std::partial_sort(order.begin(), order.begin() + k, order.end(), less);
        for (int64_t i = 0; i < kept; ++i) {
          int64_t source = order[static_cast<size_t>(only_kth ? k - 1 : i)],
                  to = (outer * kept + i) * rows.inner + inner;
          y[to] = p[source * rows.inner];
          at[to] = source;
        }
      }
    });
  });
}

Shapes sorted_shape(const Tensor& self, int64_t dim) {
  wrap_dim(dim, self.dim());
  return {Shape(self.sizes(), self.dtype()), Shape(self.sizes(), kLong)};
}

}  // namespace

Shapes shape_sort(const args::sort& a) { return sorted_shape(a.self, a.dim); }
void kernel_sort(const args::sort& a, Out out) {
  order_rows(a.self, a.dim, a.descending, INT64_MAX, false, out[0], out[1]);
}
Shapes shape_sort_stable(const args::sort_stable& a) { return sorted_shape(a.self, a.dim); }
void kernel_sort_stable(const args::sort_stable& a, Out out) {
  order_rows(a.self, a.dim, a.descending, INT64_MAX, false, out[0], out[1]);
}

Shapes shape_topk(const args::topk& a) {
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  SymInt size = a.self.dim() == 0 ? SymInt(1) : a.self.sizes()[dim];
  if (a.k < 0 || (!surely_le(a.k, size) && a.k > size)) failf("selected index k out of range");
  Dims sizes(a.self.sizes());
  if (a.self.dim() > 0) sizes[dim] = a.k;
  return {Shape(sizes, a.self.dtype()), Shape(sizes, kLong)};
}
void kernel_topk(const args::topk& a, Out out) {
  order_rows(a.self, a.dim, a.largest, a.k.guard_int(), false, out[0], out[1]);
}

Shapes shape_kthvalue(const args::kthvalue& a) {
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  SymInt size = a.self.dim() == 0 ? SymInt(1) : a.self.sizes()[dim];
  if (a.k < 1 || (!surely_le(a.k, size) && a.k > size))
    failf("kthvalue(): selected number k out of range for dimension {}", dim);
  Dims sizes(a.self.sizes());
  if (a.self.dim() > 0) {
    if (a.keepdim)
      sizes[dim] = 1;
    else
      sizes.erase(static_cast<size_t>(dim));
  }
  return {Shape(sizes, a.self.dtype()), Shape(sizes, kLong)};
}
void kernel_kthvalue(const args::kthvalue& a, Out out) {
  order_rows(a.self, a.dim, false, a.k.guard_int(), true, out[0], out[1]);
}

}  // namespace tern
