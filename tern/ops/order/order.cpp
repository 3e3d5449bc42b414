// Medians, modes, quantiles and running extremes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/kernels/reduce.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/index/indices.h"
#include "tern/ops/order.args.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

Shapes extreme_shape(const char* op, const Tensor& self, int64_t dim) {
  if (self.is_complex()) not_implemented_for(op, self.dtype());
  wrap_dim(dim, self.dim());
  return {Shape(self.sizes(), self.dtype()), Shape(self.sizes(), kLong)};
}

template <class T>
bool is_nan(T v) {
  if constexpr (std::is_integral_v<T>)
    return false;
  else
    return wide_t<T>(v) != wide_t<T>(v);
}

void running_extreme(const char* op, const Tensor& self, int64_t dim, bool max, Out out) {
  if (self.int_numel() == 0) return;
  Tensor x = row_major(self);
  Rows r = self.dim() ? rows_around(x, wrap_dim(dim, x.dim())) : Rows{};
  by_real_dtype(op, x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(x.data());
    T* to = static_cast<T*>(out[0].data());
    int64_t* index = out[1].data_ptr<int64_t>();
    for (int64_t o = 0; o < r.outer; ++o)
      for (int64_t k = 0; k < r.inner; ++k) {
        int64_t at = 0, base = o * r.size * r.inner + k;
        T best = from[base];
        for (int64_t i = 0; i < r.size; ++i) {
          T v = from[base + i * r.inner];
          if (is_nan(v) ||
              (!is_nan(best) && (max ? wide_t<T>(v) >= wide_t<T>(best) : wide_t<T>(v) <= wide_t<T>(best)))) {
            best = v;
            at = i;
          }
          to[base + i * r.inner] = best;
          index[base + i * r.inner] = at;
        }
      }
  });
}

Shapes selected_shape(const char* op, const Tensor& self, int64_t dim, bool keepdim) {
  int64_t d = wrap_dim(dim, self.dim());
  if (self.is_complex() || self.dtype() == kBool) {
    if (std::string_view(op) != "mode" || self.is_complex())
      not_implemented_for(std::string(op) + "_out_impl", self.dtype());
  }
  if (self.dim() && self.sizes()[d].is_int() && self.sizes()[d].as_int() == 0)
    failf(ErrorKind::index, "{}(): Expected reduction dim {} to have non-zero size.", op, dim);
  Dims sizes = reduced_sizes(self.sizes(), self.dim() ? uint64_t{1} << d : 0, keepdim);
  return {Shape(sizes, self.dtype()), Shape(sizes, kLong)};
}

// f(line of n elements with a stride, value to write, index to write) for each line along dim.
template <class F>
void for_lines(const char* op, const Tensor& self, int64_t dim, Out out, F&& f) {
  if (out[0].int_numel() == 0) return;
  Tensor x = row_major(self);
  Rows r = self.dim() ? rows_around(x, wrap_dim(dim, x.dim())) : Rows{};
  by_real_dtype(op, x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(x.data());
    T* values = static_cast<T*>(out[0].data());
    int64_t* indices = out[1].data_ptr<int64_t>();
    parallel_for(0, r.outer * r.inner, std::max<int64_t>(1, 4096 / std::max<int64_t>(r.size, 1)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i)
                     f(from + i / r.inner * r.size * r.inner + i % r.inner, r.inner, r.size, values[i],
                       indices[i]);
                 });
  });
}

template <class T>
int64_t median_index(const T* x, int64_t stride, int64_t n, bool ignore_nan) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  auto at = [&](int64_t i) { return x[i * stride]; };
  int64_t nans = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (!is_nan(at(i))) continue;
    if (!ignore_nan) return i;
    ++nans;
  }
  auto middle = order.begin() + std::max<int64_t>((n - nans - 1) / 2, 0);
  std::nth_element(order.begin(), middle, order.end(), [&](int64_t i, int64_t j) {
    T a = at(i), b = at(j);
    return wide_t<T>(a) < wide_t<T>(b) || (!is_nan(a) && is_nan(b));
  });
  return *middle;
}

void median_into(const Tensor& self, int64_t dim, bool ignore_nan, Out out) {
  for_lines("median_cpu", self, dim, out,
            [&](const auto* x, int64_t stride, int64_t n, auto& value, int64_t& index) {
              index = median_index(x, stride, n, ignore_nan);
              value = x[index * stride];
            });
}
Shapes median_of_all(const Tensor& self) {
  if (self.is_complex() || self.dtype() == kBool) not_implemented_for("median_cpu", self.dtype());
  return {Shape(Dims(), self.dtype())};
}
void median_of_all_into(const Tensor& self, bool ignore_nan, const Tensor& out) {
  if (self.int_numel() == 0)
    return fill_elements(
        out, is_integral(self.dtype()) ? Scalar(std::numeric_limits<int64_t>::min()) : Scalar(NAN));
  Tensor x = row_major(self);
  by_real_dtype("median_cpu", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(x.data());
    *static_cast<T*>(out.data()) = from[median_index(from, 1, x.int_numel(), ignore_nan)];
  });
}

Tensor quantile_of(const char* op, const Tensor& self, const Tensor& q, std::optional<int64_t> dim,
                   bool keepdim, std::string_view how, bool ignore_nan) {
  bool known = how == "linear" || how == "lower" || how == "higher" || how == "midpoint" || how == "nearest";
  if (!known)
    failf("{}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {}", op,
          how);
  if (self.numel().is_int() && self.numel().as_int() == 0) failf("{}() input tensor must be non-empty", op);
  if (q.dim() > 1) failf("{}() q must be a scalar or 1D tensor", op);
  if (self.dtype() != kFloat && self.dtype() != kDouble)
    failf("{}() input tensor must be either float or double dtype", op);
  if (self.dtype() != q.dtype()) failf("{}() q tensor must be same dtype as the input tensor", op);
  if (!q.is_fake() && q.numel().is_int() && q.numel().as_int() &&
      !all(logical_and(q >= 0, q <= 1)).item<bool>())
    failf("{}() q values must be in the range [0, 1]", op);
  int64_t ndim = self.dim(), d = dim ? wrap_dim(*dim, ndim) : 0;
  Dims sizes;  // of the result without q
  if (dim && ndim > 0) {
    sizes = Dims(self.sizes());
    if (keepdim)
      sizes[d] = 1;
    else
      sizes.erase(d);
  } else if (keepdim) {
    sizes = Dims(static_cast<size_t>(ndim), SymInt(1));
  }
  if (q.dim()) sizes.insert(0, q.numel());

  Tensor x;
  if (!dim)
    x = flatten(self);
  else if (d + 1 >= ndim)
    x = self;
  else
    x = transpose(unsqueeze(self, -1), d, -1);
  Tensor sorted = std::get<0>(sort(x));
  if (sorted.dim() == 0) sorted = unsqueeze(sorted, 0);
  Tensor places;
  if (ignore_nan) {
    places = q * sub(sum(logical_not(isnan(sorted)), Ints(-1), true), 1);
    places = masked_fill(places, places < 0, 0);
  } else {
    SymInt last = sorted.size(-1) - 1;
    Tensor bad = any(isnan(sorted), -1, true);
    places = mul(q, Scalar(last));
    Dims common = broadcast_sizes(places.sizes(), bad.sizes());
    places = masked_fill(expanded(places, common), expanded(bad, common), Scalar(last));
  }
  if (places.dim() == 0 || q.dim() == 0)
    places = sorted.dim() == places.dim() ? places : expand(places, [&] {
      Dims s(sorted.sizes());
      s.back() = 1;
      return s;
    }());
  if (how == "lower")
    places = floor(places);
  else if (how == "higher")
    places = ceil(places);
  else if (how == "nearest")
    places = round(places);
  Tensor below = to(places, kLong), result = gather(sorted, -1, below);
  if (how == "linear" || how == "midpoint") {
    Tensor weights = how == "midpoint" ? full_like(places, 0.5) : places - below;
    result = lerp(result, gather(sorted, -1, to(ceil(places), kLong)), weights);
  }
  if (q.dim() == 0)
    result = squeeze(result, -1);
  else
    result = movedim(result, -1, 0);
  return reshape(result, sizes);
}
Tensor number_q(const char* op, const Tensor& self, double q) {
  if (!(q >= 0 && q <= 1)) failf("{}() q must be in the range [0, 1] but got {}", op, q);
  return scalar_tensor(q, self.dtype(), {}, self.device());
}

}  // namespace

Shapes shape_cummax(const args::cummax& a) { return extreme_shape("cummax_cpu", a.self, a.dim); }
void kernel_cummax(const args::cummax& a, Out out) {
  running_extreme("cummax_cpu", a.self, a.dim, true, out);
}
Shapes shape_cummin(const args::cummin& a) { return extreme_shape("cummin_cpu", a.self, a.dim); }
void kernel_cummin(const args::cummin& a, Out out) {
  running_extreme("cummin_cpu", a.self, a.dim, false, out);
}

Shapes shape_median(const args::median& a) { return median_of_all(a.self); }
void kernel_median(const args::median& a, Out out) { median_of_all_into(a.self, false, out[0]); }
Shapes shape_nanmedian(const args::nanmedian& a) { return median_of_all(a.self); }
void kernel_nanmedian(const args::nanmedian& a, Out out) { median_of_all_into(a.self, true, out[0]); }
Shapes shape_median_dim(const args::median_dim& a) {
  return selected_shape("median", a.self, a.dim, a.keepdim);
}
void kernel_median_dim(const args::median_dim& a, Out out) { median_into(a.self, a.dim, false, out); }
Shapes shape_nanmedian_dim(const args::nanmedian_dim& a) {
  return selected_shape("nanmedian", a.self, a.dim, a.keepdim);
}
void kernel_nanmedian_dim(const args::nanmedian_dim& a, Out out) { median_into(a.self, a.dim, true, out); }

Shapes shape_mode(const args::mode& a) { return selected_shape("mode", a.self, a.dim, a.keepdim); }
void kernel_mode(const args::mode& a, Out out) {
  for_lines("mode", a.self, a.dim, out,
            [](const auto* x, int64_t stride, int64_t n, auto& value, int64_t& index) {
              using T = std::decay_t<decltype(value)>;
              std::vector<std::pair<T, int64_t>> pairs;
              for (int64_t i = 0; i < n; ++i) pairs.emplace_back(x[i * stride], i);
              std::sort(pairs.begin(), pairs.end(),
                        [](const auto& p, const auto& q) { return wide_t<T>(p.first) < wide_t<T>(q.first); });
              int64_t run = 0, most = 0;
              for (size_t i = 0; i < pairs.size(); ++i) {
                ++run;
                if (i + 1 < pairs.size() && !(wide_t<T>(pairs[i].first) != wide_t<T>(pairs[i + 1].first)))
                  continue;
                if (run > most) {
                  most = run;
                  value = pairs[i].first;
                  index = pairs[i].second;
                }
                run = 0;
              }
            });
}

Tensor body_nanmean(const args::nanmean& a) {
  if (!a.self.is_floating_point() && !a.self.is_complex())
    failf("nanmean(): expected input to have floating point or complex dtype but got {}",
          script_name(a.self.dtype()));
  Tensor values = detach(a.self), count = sum(logical_not(ne(values, values)), a.dim, a.keepdim);
  return nansum(a.self, a.dim, a.keepdim, a.dtype) / count;
}
Tensor body_quantile(const args::quantile& a) {
  return quantile_of("quantile", a.self, a.q, a.dim, a.keepdim, a.interpolation, false);
}
Tensor body_quantile_scalar(const args::quantile_scalar& a) {
  return quantile_of("quantile", a.self, number_q("quantile", a.self, a.q), a.dim, a.keepdim, a.interpolation,
                     false);
}
Tensor body_nanquantile(const args::nanquantile& a) {
  return quantile_of("nanquantile", a.self, a.q, a.dim, a.keepdim, a.interpolation, true);
}
Tensor body_nanquantile_scalar(const args::nanquantile_scalar& a) {
  return quantile_of("nanquantile", a.self, number_q("nanquantile", a.self, a.q), a.dim, a.keepdim,
                     a.interpolation, true);
}

Shapes shape_nonzero_static(const args::nonzero_static& a) {
  if (a.size.is_int() && a.size.as_int() < 0) fail("nonzero_static: 'size' must be an non-negative integer");
  return {Shape(Dims{a.size, SymInt(a.self.dim())}, kLong)};
}
void kernel_nonzero_static(const args::nonzero_static& a, Out out) {
  fill_elements(out[0], a.fill_value);
  Tensor places = nonzero_positions(a.self);
  int64_t n = std::min(places.int_numel(), out[0].int_numel());
  std::copy_n(row_major(places).data_ptr<int64_t>(), n, out[0].data_ptr<int64_t>());
}

}  // namespace tern
