// Running reductions along one dim; float accumulates in double, integers in int64.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/base/wrapping.h"
#include "tern/kernels/pointwise.h"
#include "tern/kernels/reduce.h"

namespace tern::kernels {
namespace {

template <class T>
void scan_line(Scan op, const T* x, T* y, int64_t n, int64_t* indices, int64_t index_stride) {
  T total = x[0];
  int64_t at = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (i > 0) {
      if (op == Scan::sum) {
        total = wrapping_sum(total, x[i]);
      } else if (op == Scan::prod) {
        total = wrapping_product(total, x[i]);
      } else if constexpr (!std::is_same_v<T, std::complex<double>>) {
        if (op == Scan::logsumexp) {
          const double a = static_cast<double>(total), b = static_cast<double>(x[i]);
          const double m = a > b || a != a ? a : b;
          total = static_cast<T>(std::isinf(m) && a == b ? m : m + std::log1p(std::exp(-std::abs(a - b))));
        } else if (!(total != total) &&
                   (x[i] != x[i] ||
                    (op == Scan::max ? x[i] >= total : x[i] <= total))) {  // the last of equals
          total = x[i];
          at = i;
        } else if (total != total && x[i] != x[i]) {
          at = i;
        }
      } else if (op == Scan::logsumexp) {
        const T a = total.real() < x[i].real() ? x[i] : total, b = total.real() < x[i].real() ? total : x[i];
        total = std::isinf(a.real()) && a.real() == b.real() ? b : a + std::log(T(1) + std::exp(b - a));
      }
    }
    y[i] = total;
    if (indices) indices[i * index_stride] = at;
  }
}

// Sums and products of floats over several lines side by side, so that no addition waits for the one before.
template <bool Sum>
void scan_floats(const float* x, const int64_t* from, int64_t in_stride, float* y, const int64_t* to,
                 int64_t out_stride, int64_t n, int count) {
  constexpr int side = 8;
  auto step = [](double a, float b) { return Sum ? a + static_cast<double>(b) : a * static_cast<double>(b); };
  if (count == side) {
    double total[side];
    for (double& t : total) t = Sum ? 0 : 1;
    for (int64_t i = 0; i < n; ++i)
      for (int k = 0; k < side; ++k) {
        total[k] = step(total[k], x[from[k] + i * in_stride]);
        y[to[k] + i * out_stride] = static_cast<float>(total[k]);
      }
    return;
  }
  for (int k = 0; k < count; ++k) {
    double total = Sum ? 0 : 1;
    for (int64_t i = 0; i < n; ++i) {
      total = step(total, x[from[k] + i * in_stride]);
      y[to[k] + i * out_stride] = static_cast<float>(total);
    }
  }
}

}  // namespace

void scan(Scan op, int ndim, const int64_t* sizes, int dim, DType in_type, const void* in,
          const int64_t* in_strides, DType out_type, void* out, const int64_t* out_strides,
          int64_t* indices) {
  if (is_complex(in_type) && op != Scan::sum && op != Scan::prod && op != Scan::logsumexp)
    fail(ErrorKind::not_supported, "cummax and cummin are not defined for complex numbers");
  const int64_t n = ndim ? sizes[dim] : 1;
  int64_t lines = 1;
  for (int d = 0; d < ndim; ++d)
    if (d != dim) lines *= sizes[d];
  if (n == 0 || lines == 0) return;
  if (in_type == kFloat && out_type == kFloat && (op == Scan::sum || op == Scan::prod)) {
    const int64_t in_stride = ndim ? in_strides[dim] : 1, out_stride = ndim ? out_strides[dim] : 1;
    return parallel_for(0, lines, std::max<int64_t>(8, 16384 / n), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; line += 8) {
        const int count = static_cast<int>(std::min<int64_t>(8, end - line));
        int64_t from[8] = {}, to[8] = {};
        for (int k = 0; k < count; ++k) {
          int64_t rest = line + k;
          for (int d = ndim - 1; d >= 0; --d) {
            if (d == dim) continue;
            from[k] += rest % sizes[d] * in_strides[d];
            to[k] += rest % sizes[d] * out_strides[d];
            rest /= sizes[d];
          }
        }
        auto run = op == Scan::sum ? scan_floats<true> : scan_floats<false>;
        run(static_cast<const float*>(in), from, in_stride, static_cast<float*>(out), to, out_stride, n,
            count);
      }
    });
  }
  const DType compute = is_complex(in_type) || is_complex(out_type)     ? kComplexDouble
                        : is_floating(in_type) || is_floating(out_type) ? kDouble
                                                                        : kLong;
  const Cast load = find_cast(in_type, compute), save = find_cast(compute, out_type);
  const int64_t in_width = element_size(in_type), out_width = element_size(out_type),
                width = element_size(compute);
  const int64_t in_stride = ndim ? in_strides[dim] : 1, out_stride = ndim ? out_strides[dim] : 1;
  parallel_for(0, lines, std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) {
    std::vector<char> buffer(static_cast<size_t>(2 * n * width));
    for (int64_t line = begin; line < end; ++line) {
      int64_t rest = line, from = 0, to = 0;
      for (int d = ndim - 1; d >= 0; --d) {
        if (d == dim) continue;
        from += rest % sizes[d] * in_strides[d];
        to += rest % sizes[d] * out_strides[d];
        rest /= sizes[d];
      }
      char *x = buffer.data(), *y = x + n * width;
      load(static_cast<const char*>(in) + from * in_width, in_stride, x, 1, n);
      int64_t* index = indices ? indices + to : nullptr;
      auto run = [&]<class T>(T) {
        scan_line(op, reinterpret_cast<const T*>(x), reinterpret_cast<T*>(y), n, index, out_stride);
      };
      compute == kDouble ? run(double{}) : compute == kLong ? run(int64_t{}) : run(std::complex<double>{});
      save(y, 1, static_cast<char*>(out) + to * out_width, out_stride, n);
    }
  });
}

}  // namespace tern::kernels
