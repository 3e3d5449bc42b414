// Histograms: equal bins, given edges, several dimensions, and counts of integers.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/order.args.h"

namespace tern {
namespace {

template <class F>
void by_histogram_dtype(const char* op, DType d, F&& f) {
  if (d != kFloat && d != kDouble) not_implemented_for(op, d);
  if (d == kFloat)
    f(float{});
  else
    f(double{});
}

// The outer edges of a column: as asked, or its extremes, and never the same number twice.
template <class T>
std::pair<T, T> outer_edges(const T* x, int64_t n, int64_t stride, bool given, double low, double high) {
  T left = static_cast<T>(low), right = static_cast<T>(high);
  if (!given && n > 0) {
    left = right = x[0];
    for (int64_t i = 0; i < n; ++i) {
      T v = x[i * stride];
      if (!(v >= left)) left = v;
      if (!(v <= right)) right = v;
    }
  }
  if (!given && n == 0) return {T(0), T(1)};
  if (left == right) {
    left -= T(0.5);
    right += T(0.5);
  }
  if (!std::isfinite(left) || !std::isfinite(right))
    failf("torch.histogramdd(): range of [{}, {}] is not finite", left, right);
  return {left, right};
}

// Edges as linspace makes them: from both ends towards the middle.
template <class T>
void fill_edges(T* edges, int64_t bins, T left, T right) {
  T step = (right - left) / static_cast<T>(bins);
  for (int64_t i = 0; i <= bins; ++i)
    edges[i] = i < (bins + 1) / 2 ? left + step * static_cast<T>(i) : right - step * static_cast<T>(bins - i);
}

// The bin of v among edges (bins + 1 of them); -1 outside. The last bin includes its right edge.
template <class T>
int64_t bin_of(T v, const T* edges, int64_t bins) {
  if (!(v >= edges[0] && v <= edges[bins])) return -1;
  return std::min<int64_t>(std::upper_bound(edges, edges + bins + 1, v) - edges - 1, bins - 1);
}

// Counts rows [n, dims] into the row-major histogram.
template <class T>
void count_into(const Tensor& x, const Tensor& weight, const std::vector<std::vector<T>>& edges, bool density,
                const Tensor& out) {
  int64_t dims = static_cast<int64_t>(edges.size()), n = dims ? x.int_numel() / dims : 0;
  const T* from = static_cast<const T*>(x.data());
  Tensor w = weight.defined() ? row_major(weight) : Tensor();
  std::vector<double> total(static_cast<size_t>(out.int_numel()), 0.0);
  for (int64_t i = 0; i < n; ++i) {
    int64_t place = 0;
    for (int64_t d = 0; d < dims && place >= 0; ++d) {
      int64_t bins = static_cast<int64_t>(edges[static_cast<size_t>(d)].size()) - 1;
      int64_t bin = bin_of(from[i * dims + d], edges[static_cast<size_t>(d)].data(), bins);
      place = bin < 0 ? -1 : place * bins + bin;
    }
    if (place >= 0)
      total[static_cast<size_t>(place)] +=
          w.defined() ? static_cast<double>(static_cast<const T*>(w.data())[i]) : 1.0;
  }
  double sum = 0;
  for (double v : total) sum += v;
  T* to = static_cast<T*>(out.data());
  for (size_t k = 0; k < total.size(); ++k) {
    double v = total[k];
    if (density) {
      v /= sum;
      int64_t rest = static_cast<int64_t>(k);
      for (int64_t d = dims; d-- > 0;) {
        const auto& e = edges[static_cast<size_t>(d)];
        int64_t bins = static_cast<int64_t>(e.size()) - 1, at = rest % bins;
        rest /= bins;
        v /= static_cast<double>(e[static_cast<size_t>(at) + 1] - e[static_cast<size_t>(at)]);
      }
    }
    to[k] = static_cast<T>(v);
  }
}

void check_bins(Ints bins) {
  for (size_t d = 0; d < bins.size(); ++d)
    if (bins[d] <= 0) failf("torch.histogram(): bins must be > 0, but got {} for dimension {}", bins[d], d);
}
void check_edges(const Tensor& edges, int64_t d) {
  if (edges.dim() != 1)
    failf(
        "torch.histogramdd(): bins tensor should have one dimension, but got {} dimensions in the bins "
        "tensor for "
        "dimension {}",
        edges.dim(), d);
}
void check_weight(const Tensor& self, const Tensor& weight, bool rows) {
  if (!weight.defined()) return;
  if (weight.dtype() != self.dtype())
    failf(
        "torch.histogramdd(): if weight tensor is provided, input tensor and weight tensor should have the "
        "same "
        "dtype, but got input(self) {}, and weight {}",
        script_name(self.dtype()), script_name(weight.dtype()));
  int64_t dims = self.dim() - (rows ? 1 : 0);
  bool same = weight.dim() == dims;
  for (int64_t d = 0; same && d < dims; ++d) same = weight.sizes()[d] == self.sizes()[d];
  if (!same)
    failf(
        "torch.histogramdd(): if weight tensor is provided it should have the same shape as the input tensor "
        "excluding its innermost dimension, but got input with shape {} and weight with shape {}",
        str(self.sizes()), str(weight.sizes()));
}

template <class T>
std::vector<std::vector<T>> equal_edges(const Tensor& x, int64_t dims, Ints bins,
                                        const std::optional<Span<const double>>& range) {
  std::vector<std::vector<T>> edges;
  int64_t n = dims ? x.int_numel() / dims : 0;
  if (range && static_cast<int64_t>(range->size()) != 2 * dims)
    failf("torch.histogramdd(): for a {}-dimensional histogram range should have {} elements, but got {}",
          dims, 2 * dims, range->size());
  for (int64_t d = 0; d < dims; ++d) {
    double low = 0, high = 0;
    if (range) {
      low = (*range)[2 * d];
      high = (*range)[2 * d + 1];
      if (low > high) fail("torch.histogramdd(): min should not exceed max");
    }
    auto [left, right] =
        outer_edges(static_cast<const T*>(x.data()) + d, n, dims, range.has_value(), low, high);
    int64_t count = bins.at(static_cast<size_t>(d));
    std::vector<T> e(static_cast<size_t>(count) + 1);
    fill_edges(e.data(), count, left, right);
    edges.push_back(std::move(e));
  }
  return edges;
}
template <class T>
std::vector<std::vector<T>> given_edges(Span<const Tensor> bins) {
  std::vector<std::vector<T>> edges;
  for (const Tensor& b : bins) {
    Tensor e = row_major(b);
    const T* p = static_cast<const T*>(e.data());
    edges.emplace_back(p, p + e.int_numel());
  }
  return edges;
}
// Between given edges, also in narrow types: counted in float32.
void count_between(const Tensor& self, const Tensor& weight, Span<const Tensor> bins, bool density,
                   const Tensor& out) {
  const DType d = compute_dtype(self.dtype());
  std::vector<Tensor> edges;
  for (const Tensor& b : bins) edges.push_back(row_major(b, d));
  Tensor counts = d == out.dtype() ? out : make_tensor(out.sizes(), d);
  by_histogram_dtype("histogram_cpu", d, [&](auto zero) {
    using T = decltype(zero);
    count_into<T>(row_major(self, d), weight.defined() ? row_major(weight, d) : weight, given_edges<T>(edges),
                  density, counts);
  });
  if (!counts.is_same(out)) copy_elements(counts, out);
}
void check_counts(const Tensor& self, Ints bins) {
  if (self.dim() >= 2 && !(self.sizes().back() == static_cast<int64_t>(bins.size())))
    fail("histogramdd: The size of bins must be equal to the innermost dimension of the input.");
}
void check_rows(const Tensor& self, size_t bins) {
  if (self.dim() < 2)
    failf("torch.histogramdd(): input tensor should have at least 2 dimensions, but got {}", self.dim());
  if (!(self.sizes().back() == static_cast<int64_t>(bins)))
    failf("torch.histogramdd(): expected {} sequences of bin edges for a {}-dimensional histogram but got {}",
          self.sizes().back().str(), self.sizes().back().str(), bins);
}

}  // namespace

Shapes shape_histc(const args::histc& a) {
  if (!a.self.is_floating_point()) not_implemented_for("histogram_cpu", a.self.dtype());
  check_bins(Ints(a.bins));
  return {Shape(Dims{SymInt(a.bins)}, a.self.dtype())};
}
void kernel_histc(const args::histc& a, Out out) {
  double low = a.min.to_double(), high = a.max.to_double();
  Tensor x = row_major(a.self);
  by_float_dtype("histogram_cpu", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = wide_t<T>;
    const T* from = static_cast<const T*>(x.data());
    int64_t n = x.int_numel();
    W left = static_cast<W>(low), right = static_cast<W>(high);
    if (left == right && n > 0) {
      left = right = static_cast<W>(from[0]);
      for (int64_t i = 0; i < n; ++i) {
        W v = static_cast<W>(from[i]);
        if (std::isnan(v)) {  // it is both
          left = right = v;
          break;
        }
        left = std::min(left, v);
        right = std::max(right, v);
      }
    }
    if (left == right) {
      left -= 1;
      right += 1;
    }
    if (!std::isfinite(left) || !std::isfinite(right))
      failf("torch.histc: range of [{}, {}] is not finite", left, right);
    if (!(left < right)) fail("torch.histc: max must be larger than min");
    std::vector<int64_t> counts(static_cast<size_t>(a.bins), 0);
    for (int64_t i = 0; i < n; ++i) {
      W v = static_cast<W>(from[i]);
      if (!(v >= left && v <= right)) continue;
      int64_t bin = static_cast<int64_t>((v - left) * static_cast<W>(a.bins) / (right - left));
      ++counts[static_cast<size_t>(std::min(bin, a.bins - 1))];
    }
    for (int64_t b = 0; b < a.bins; ++b)
      static_cast<T*>(out[0].data())[b] = static_cast<T>(static_cast<W>(counts[static_cast<size_t>(b)]));
  });
}

Shapes shape_histogram_bins_tensor(const args::histogram_bins_tensor& a) {
  check_edges(a.bins, 0);
  check_weight(a.self, a.weight, false);
  return {Shape(Dims{a.bins.sizes()[0] - 1}, a.self.dtype()), Shape(Dims(a.bins.sizes()), a.self.dtype())};
}
void kernel_histogram_bins_tensor(const args::histogram_bins_tensor& a, Out out) {
  copy_elements(a.bins, out[1]);
  count_between(a.self, a.weight, Span<const Tensor>(&a.bins, 1), a.density, out[0]);
}
Shapes shape_histogram_bin_ct(const args::histogram_bin_ct& a) {
  check_bins(Ints(a.bins));
  check_weight(a.self, a.weight, false);
  return {Shape(Dims{SymInt(a.bins)}, a.self.dtype()), Shape(Dims{SymInt(a.bins + 1)}, a.self.dtype())};
}
void kernel_histogram_bin_ct(const args::histogram_bin_ct& a, Out out) {
  by_histogram_dtype("histogramdd", a.self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor x = row_major(a.self);
    auto edges = equal_edges<T>(x, 1, Ints(a.bins), a.range);
    std::copy(edges[0].begin(), edges[0].end(), static_cast<T*>(out[1].data()));
    count_into<T>(x, a.weight, edges, a.density, out[0]);
  });
}

std::vector<Tensor> body__histogramdd_bin_edges(const args::_histogramdd_bin_edges& a) {
  check_counts(a.self, a.bins);
  check_rows(a.self, a.bins.size());
  check_bins(a.bins);
  std::vector<Tensor> result;
  if (a.self.is_fake()) {
    for (int64_t n : a.bins)
      result.push_back(make_tensor({SymInt(n + 1)}, a.self.dtype(), a.self.device(), true));
    return result;
  }
  by_histogram_dtype("histogramdd", a.self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    auto edges = equal_edges<T>(row_major(a.self), a.self.int_sizes()[a.self.dim() - 1], a.bins, a.range);
    for (auto& e : edges) result.push_back(from_vector<T>(e, {SymInt(static_cast<int64_t>(e.size()))}));
  });
  return result;
}
Shapes shape__histogramdd_from_bin_cts(const args::_histogramdd_from_bin_cts& a) {
  check_counts(a.self, a.bins);
  check_rows(a.self, a.bins.size());
  check_bins(a.bins);
  check_weight(a.self, a.weight, true);
  Dims sizes;
  for (int64_t b : a.bins) sizes.push_back(b);
  return {Shape(sizes, a.self.dtype())};
}
void kernel__histogramdd_from_bin_cts(const args::_histogramdd_from_bin_cts& a, Out out) {
  by_histogram_dtype("histogramdd", a.self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor x = row_major(a.self);
    count_into<T>(x, a.weight, equal_edges<T>(x, a.self.int_sizes()[a.self.dim() - 1], a.bins, a.range),
                  a.density, out[0]);
  });
}
Shapes shape__histogramdd_from_bin_tensors(const args::_histogramdd_from_bin_tensors& a) {
  check_rows(a.self, a.bins.size());
  check_weight(a.self, a.weight, true);
  Dims sizes;
  for (size_t d = 0; d < a.bins.size(); ++d) {
    check_edges(a.bins[d], static_cast<int64_t>(d));
    sizes.push_back(a.bins[d].sizes()[0] - 1);
  }
  return {Shape(sizes, a.self.dtype())};
}
void kernel__histogramdd_from_bin_tensors(const args::_histogramdd_from_bin_tensors& a, Out out) {
  count_between(a.self, a.weight, a.bins, a.density, out[0]);
}
std::tuple<Tensor, std::vector<Tensor>> body_histogramdd(const args::histogramdd& a) {
  return {_histogramdd_from_bin_cts(a.self, a.bins, a.range, a.weight, a.density),
          _histogramdd_bin_edges(a.self, a.bins, a.range, a.weight, a.density)};
}
std::tuple<Tensor, std::vector<Tensor>> body_histogramdd_int_bins(const args::histogramdd_int_bins& a) {
  std::vector<int64_t> bins(a.self.dim() ? static_cast<size_t>(a.self.sizes().back().guard_int()) : 0,
                            a.bins);
  return {_histogramdd_from_bin_cts(a.self, bins, a.range, a.weight, a.density),
          _histogramdd_bin_edges(a.self, bins, a.range, a.weight, a.density)};
}
std::tuple<Tensor, std::vector<Tensor>> body_histogramdd_TensorList_bins(
    const args::histogramdd_TensorList_bins& a) {
  return {_histogramdd_from_bin_tensors(a.self, a.bins, a.weight, a.density),
          std::vector<Tensor>(a.bins.begin(), a.bins.end())};
}

Tensor kernel_bincount(const args::bincount& a) {
  int64_t least = a.minlength.guard_int();
  if (least < 0) fail("minlength should be >= 0");
  if (a.self.dim() != 1) {
    if (a.self.int_numel() == 0) return make_tensor({SymInt(0)}, kLong);
    fail("bincount only supports 1-d non-negative integral inputs.");
  }
  if (!is_integral(a.self.dtype())) not_implemented_for("bincount_cpu", a.self.dtype());
  Tensor x = row_major(a.self, kLong);
  const int64_t* p = x.data_ptr<int64_t>();
  int64_t n = x.int_numel(), size = least;
  for (int64_t i = 0; i < n; ++i) {
    if (p[i] < 0) fail("bincount only supports 1-d non-negative integral inputs.");
    if (p[i] == std::numeric_limits<int64_t>::max())
      failf("maximum value of input overflowed, it should be < {} but got {}", p[i], p[i]);
    size = std::max(size, p[i] + 1);
  }
  bool weighted = a.weights.defined();
  if (weighted && (a.weights.dim() != 1 || a.weights.int_numel() != n))
    fail("weights should be 1-d and have the same length as input");
  if (!weighted) {
    Tensor out = make_tensor({SymInt(size)}, kLong);
    fill_elements(out, 0);
    for (int64_t i = 0; i < n; ++i) ++out.data_ptr<int64_t>()[p[i]];
    return out;
  }
  bool single = a.weights.dtype() == kFloat;
  Tensor out = make_tensor({SymInt(size)}, single ? kFloat : kDouble), w = row_major(a.weights, out.dtype());
  fill_elements(out, 0);
  for (int64_t i = 0; i < n; ++i) {
    if (single)
      out.data_ptr<float>()[p[i]] += w.data_ptr<float>()[i];
    else
      out.data_ptr<double>()[p[i]] += w.data_ptr<double>()[i];
  }
  return out;
}
Shapes shape_bincount(const args::bincount& a) {
  DType d = !a.weights.defined() ? kLong : a.weights.dtype() == kFloat ? kFloat : kDouble;
  return {Shape(Dims{unknown_size("bincount", a.self)}, d)};
}

}  // namespace tern
