// Sorted search, membership, and unique elements.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/order.args.h"

namespace tern {
namespace {

// ---- sorted search ----

void check_search(const Tensor& bounds, const Tensor& input, bool right, std::optional<std::string_view> side,
                  const Tensor& sorter) {
  if (side) {
    if (*side != "left" && *side != "right")
      failf("torch.searchsorted(): side can only be 'left' or 'right' but got {}", *side);
    if (right && *side == "left")
      fail(
          "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was "
          "True");
  }
  if (sorter.defined()) {
    bool same = sorter.dim() == bounds.dim();
    for (int64_t d = 0; same && d < sorter.dim(); ++d) same = sorter.sizes()[d] == bounds.sizes()[d];
    if (!same)
      failf(
          "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor {}and "
          "got "
          "sorter tensor {}",
          str(bounds.sizes()), str(sorter.sizes()));
    if (sorter.dtype() != kLong)
      failf("torch.searchsorted(): sorter must be a tensor of long dtype but got dtype {}",
            script_name(sorter.dtype()));
  }
  if (bounds.dim() == 0)
    fail("torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension");
  if (input.dim() == 0 && bounds.dim() != 1)
    failf(
        "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but "
        "we got "
        "boundaries tensor dim({}) and input value's dim(0) numel(1)",
        bounds.dim());
  bool fits = bounds.dim() == 1 || bounds.dim() == input.dim();
  for (int64_t d = 0; fits && bounds.dim() > 1 && d + 1 < input.dim(); ++d)
    fits = bounds.sizes()[d] == input.sizes()[d];
  if (!fits)
    failf(
        "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
        "boundaries "
        "tensor and input value tensor must match, but we got boundaries tensor {} and input value tensor {}",
        str(bounds.sizes()), str(input.sizes()));
  if (bounds.is_complex() || input.is_complex()) not_implemented_for("searchsorted_out_cpu", kComplexFloat);
}

void search_into(const Tensor& bounds, const Tensor& input, bool right, const Tensor& sorter,
                 const Tensor& out) {
  if (out.int_numel() == 0) return;
  const Tensor both[] = {bounds, input};
  DType type = bounds.dtype() == input.dtype() ? bounds.dtype() : result_type(both);
  Tensor b = row_major(bounds, type), x = row_major(input, type), places = row_major(out);
  Tensor order = sorter.defined() ? row_major(sorter) : Tensor();
  int64_t n = b.int_sizes()[b.dim() - 1], width = x.dim() ? x.int_sizes()[x.dim() - 1] : 1;
  const int64_t* perm = order.defined() ? order.data_ptr<int64_t>() : nullptr;
  if (perm)
    for (int64_t i = 0; i < order.int_numel(); ++i)
      if (perm[i] < 0 || perm[i] >= n) fail("torch.searchsorted(): sorter index out of range");
  Tensor found = out.dtype() == kLong && out.is_contiguous() ? out : make_tensor(out.sizes(), kLong);
  int64_t* to = found.data_ptr<int64_t>();
  by_real_dtype("searchsorted_out_cpu", type, [&](auto zero) {
    using T = decltype(zero);
    using W = wide_t<T>;
    const T* values = static_cast<const T*>(x.data());
    const T* line = static_cast<const T*>(b.data());
    parallel_for(0, x.int_numel(), 2048, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t first = bounds.dim() == 1 ? 0 : i / width * n, low = 0, high = n;
        W v = static_cast<W>(values[i]);
        while (low < high) {
          int64_t middle = low + (high - low) / 2;
          W m = static_cast<W>(line[first + (perm ? perm[first + middle] : middle)]);
          // Written so that NaN counts as the largest.
          if (right ? !(m > v) : !(m >= v))
            low = middle + 1;
          else
            high = middle;
        }
        to[i] = low;
      }
    });
  });
  if (!found.is_same(out)) copy_elements(found, out);
}
Shapes search_shape(const Tensor& input, bool out_int32) {
  return {Shape(Dims(input.sizes()), out_int32 ? kInt : kLong)};
}
void check_bounds(const Tensor& bounds) {
  if (bounds.dim() != 1) failf("boundaries tensor must be 1 dimension, but got dim({})", bounds.dim());
}

// ---- membership ----

void check_isin(const Tensor& t) {
  if (t.is_complex() || t.dtype() == kBool)
    failf("Unsupported input type encountered for isin(): {}", script_name(t.dtype()));
}
void isin_into(const Tensor& elements, const Tensor& among, bool invert, const Tensor& out) {
  const Tensor both[] = {elements, among};
  DType type = result_type(both);
  Tensor x = row_major(elements, type), set = make_tensor({among.numel()}, type);
  copy_elements(row_major(among).as_view({among.numel()}, {SymInt(1)}), set);
  bool* to = out.data_ptr<bool>();
  by_real_dtype("isin", type, [&](auto zero) {
    using T = decltype(zero);
    using W = wide_t<T>;
    const T* from = static_cast<const T*>(x.data());
    const T* raw = static_cast<const T*>(set.data());
    std::vector<W> sorted;
    for (int64_t i = 0; i < set.int_numel(); ++i)
      if (W v = static_cast<W>(raw[i]); v == v) sorted.push_back(v);  // NaN equals nothing
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < x.int_numel(); ++i) {
      W v = static_cast<W>(from[i]);
      to[i] = (v == v && std::binary_search(sorted.begin(), sorted.end(), v)) != invert;
    }
  });
}

// ---- unique ----

struct Unique {
  std::vector<int64_t> first;    // the row that stands for each group
  std::vector<int64_t> inverse;  // group of each row
  std::vector<int64_t> counts;
};

// Groups n rows; `order` goes through them (sorted, or as they stand), `same` compares neighbours.
template <class Same>
Unique group(const std::vector<int64_t>& order, Same&& same) {
  Unique u;
  u.inverse.resize(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !same(order[i - 1], order[i])) {
      u.first.push_back(order[i]);
      u.counts.push_back(0);
    }
    u.inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(u.first.size()) - 1;
    ++u.counts.back();
  }
  return u;
}
Tensor longs(const std::vector<int64_t>& v, Dims sizes) {
  Tensor t = make_tensor(sizes, kLong);
  std::copy(v.begin(), v.end(), t.data_ptr<int64_t>());
  return t;
}
Tensor no_longs() { return make_tensor({SymInt(0)}, kLong); }

using Three = std::tuple<Tensor, Tensor, Tensor>;

Three unique_elements(const Tensor& self, bool sort, bool inverse, bool counts) {
  Tensor x = row_major(self), values;
  Unique u;
  by_real_dtype("unique", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = wide_t<T>;
    const T* p = static_cast<const T*>(x.data());
    std::vector<int64_t> order(static_cast<size_t>(x.int_numel()));
    std::iota(order.begin(), order.end(), int64_t{0});
    if (sort)  // NaN last, each its own
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        W a = static_cast<W>(p[i]), b = static_cast<W>(p[j]);
        return a < b || (a == a && b != b);
      });
    u = group(order, [&](int64_t i, int64_t j) { return static_cast<W>(p[i]) == static_cast<W>(p[j]); });
    values = make_tensor({SymInt(static_cast<int64_t>(u.first.size()))}, x.dtype());
    for (size_t i = 0; i < u.first.size(); ++i) static_cast<T*>(values.data())[i] = p[u.first[i]];
  });
  return {values, inverse ? longs(u.inverse, Dims(self.sizes())) : no_longs(),
          counts ? longs(u.counts, {values.numel()}) : no_longs()};
}

Three unique_rows(const Tensor& self, int64_t dim, bool sort) {
  int64_t d = wrap_dim(dim, self.dim());
  int64_t zeros = 0;
  for (int64_t i = 0; i < self.dim(); ++i) zeros += self.int_sizes()[i] == 0;
  if (self.dim() && self.int_sizes()[d] == 0) {
    if (zeros > 1) fail("Number of zero sized dimensions is more than one, so unique cannot be applied ");
    Tensor empty = make_tensor(self.sizes(), self.dtype());
    return {empty, no_longs(), no_longs()};
  }
  if (zeros) fail("There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  int64_t n = self.dim() ? self.int_sizes()[d] : 1;
  // The dimension first, the others behind it in their order.
  Dims sizes(self.sizes()), strides(self.strides());
  if (self.dim()) {
    std::rotate(sizes.begin(), sizes.begin() + d, sizes.begin() + d + 1);
    std::rotate(strides.begin(), strides.begin() + d, strides.begin() + d + 1);
  }
  Tensor x = row_major(self.as_view(sizes, strides));
  int64_t width = n ? x.int_numel() / n : 0;
  Tensor rows;
  Unique u;
  by_real_dtype("unique_dim", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = wide_t<T>;
    const T* p = static_cast<const T*>(x.data());
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    auto at = [&](int64_t row, int64_t k) { return static_cast<W>(p[row * width + k]); };
    if (sort)
      std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
        for (int64_t k = 0; k < width; ++k) {
          W a = at(i, k), b = at(j, k);
          if (a < b) return true;
          if (b < a) return false;
        }
        return false;
      });
    u = group(order, [&](int64_t i, int64_t j) {
      for (int64_t k = 0; k < width; ++k)
        if (!(at(i, k) == at(j, k))) return false;
      return true;
    });
    sizes[0] = SymInt(static_cast<int64_t>(u.first.size()));
    rows = make_tensor(self.dim() ? sizes : Dims{SymInt(1)}, x.dtype());
    for (size_t i = 0; i < u.first.size(); ++i)
      std::copy_n(p + u.first[i] * width, width,
                  static_cast<T*>(rows.data()) + static_cast<int64_t>(i) * width);
  });
  Tensor values = rows;
  if (self.dim()) {
    Dims s(rows.sizes()), t(rows.strides());
    std::rotate(s.begin(), s.begin() + 1, s.begin() + d + 1);
    std::rotate(t.begin(), t.begin() + 1, t.begin() + d + 1);
    values = rows.as_view(s, t);
  }
  return {values, longs(u.inverse, {SymInt(n)}),
          longs(u.counts, {SymInt(static_cast<int64_t>(u.counts.size()))})};
}

Shapes unique_shape(const char* op, const Tensor& self, bool inverse, bool counts) {
  SymInt n = unknown_size(op, self);
  return {Shape(Dims{n}, self.dtype()), Shape(inverse ? Dims(self.sizes()) : Dims{SymInt(0)}, kLong),
          Shape(Dims{counts ? n : SymInt(0)}, kLong)};
}
Shapes unique_rows_shape(const char* op, const Tensor& self, int64_t dim) {
  int64_t d = wrap_dim(dim, self.dim());
  Dims sizes(self.sizes());
  if (sizes.empty()) sizes.push_back(1);
  SymInt n = sizes[d], m = unknown_size(op, self);
  sizes[d] = m;
  return {Shape(sizes, self.dtype()), Shape(Dims{n}, kLong), Shape(Dims{m}, kLong)};
}

// The type that both are compared in.
void check_ordered(const Tensor& sequence, const Tensor& values) {
  const DType d = result_type({sequence, values});
  const bool whole = is_integral(d);
  if (!whole && (!is_floating(d) || is_float8(d))) not_implemented_for("searchsorted_out_cpu", d);
}

}  // namespace

Shapes shape_searchsorted_Tensor(const args::searchsorted_Tensor& a) {
  check_search(a.sorted_sequence, a.self, a.right, a.side, a.sorter);
  return search_shape(a.self, a.out_int32);
}
void kernel_searchsorted_Tensor(const args::searchsorted_Tensor& a, Out out) {
  check_ordered(a.sorted_sequence, a.self);
  search_into(a.sorted_sequence, a.self, a.right || a.side.value_or("left") == "right", a.sorter, out[0]);
}
Shapes shape_searchsorted_Scalar(const args::searchsorted_Scalar& a) {
  Tensor value = wrap_number(a.self);
  check_search(a.sorted_sequence, value, a.right, a.side, a.sorter);
  return search_shape(value, a.out_int32);
}
void kernel_searchsorted_Scalar(const args::searchsorted_Scalar& a, Out out) {
  search_into(a.sorted_sequence, wrap_number(a.self), a.right || a.side.value_or("left") == "right", a.sorter,
              out[0]);
}
Shapes shape_bucketize_Tensor(const args::bucketize_Tensor& a) {
  check_bounds(a.boundaries);
  check_search(a.boundaries, a.self, a.right, {}, {});
  return search_shape(a.self, a.out_int32);
}
void kernel_bucketize_Tensor(const args::bucketize_Tensor& a, Out out) {
  check_ordered(a.boundaries, a.self);
  search_into(a.boundaries, a.self, a.right, {}, out[0]);
}
Shapes shape_bucketize_Scalar(const args::bucketize_Scalar& a) {
  check_bounds(a.boundaries);
  return {Shape(Dims(), a.out_int32 ? kInt : kLong)};
}
void kernel_bucketize_Scalar(const args::bucketize_Scalar& a, Out out) {
  search_into(a.boundaries, wrap_number(a.self), a.right, {}, out[0]);
}

Shapes shape_isin_Tensor_Tensor(const args::isin_Tensor_Tensor& a) {
  check_isin(a.elements);
  check_isin(a.test_elements);
  return {Shape(Dims(a.elements.sizes()), kBool)};
}
// Few elements are compared each with each, many looked up in the sorted others.
Tensor body_isin_Tensor_Tensor(const args::isin_Tensor_Tensor& a) {
  const Tensor &elements = a.elements, &among = a.test_elements;
  auto found = [&](const Tensor& t) { return a.invert ? logical_not(t) : t; };
  SymInt count = elements.numel(), others = among.numel();
  bool few = !count.is_symbolic() && !others.is_symbolic() &&
             static_cast<double>(others.as_int()) < 10 * std::pow(static_cast<double>(count.as_int()), 0.145);
  if (few) {
    if (count == 0) return empty_like(elements, kBool);
    auto either = [&](const Tensor& t) { return a.invert ? bitwise_not(t) : t; };
    if (among.dim() == 0) return either(eq(elements, among));
    Dims sizes(elements.sizes());
    SmallVector<int64_t, 6> dims;
    for (int64_t d = 0; d < among.dim(); ++d) {
      sizes.push_back(1);
      dims.push_back(-1 - d);
    }
    return either(any_of(eq(reshape(elements, sizes), among), Ints(dims)));
  }
  Tensor flat = flatten(elements), others_flat = flatten(among);
  if (a.assume_unique) {
    auto [sorted, order] = sort(cat(std::vector<Tensor>{flat, others_flat}), std::optional<bool>(true));
    Tensor twice = eq(slice(sorted, 0, 1), slice(sorted, 0, 0, -1));
    twice = found(constant_pad_nd(twice, {0, 1}, false));
    Tensor mask = index_copy(empty_like(twice), 0, order, twice);
    return reshape(slice(mask, 0, 0, count), elements.sizes());
  }
  Tensor sorted = std::get<0>(sort(others_flat));
  Tensor at = searchsorted(sorted, flat);
  at = where(lt(at, Scalar(others)), at, 0);
  return reshape(found(eq(index(sorted, std::vector<Tensor>{at}), flat)), elements.sizes());
}
void kernel_isin_Tensor_Tensor(const args::isin_Tensor_Tensor& a, Out out) {
  isin_into(a.elements, a.test_elements, a.invert, out[0]);
}
Shapes shape_isin_Tensor_Scalar(const args::isin_Tensor_Scalar& a) {
  check_isin(a.elements);
  return {Shape(Dims(a.elements.sizes()), kBool)};
}
void kernel_isin_Tensor_Scalar(const args::isin_Tensor_Scalar& a, Out out) {
  isin_into(a.elements, wrap_number(a.test_element), a.invert, out[0]);
}
Shapes shape_isin_Scalar_Tensor(const args::isin_Scalar_Tensor& a) {
  check_isin(a.test_elements);
  return {Shape(Dims(), kBool)};
}
void kernel_isin_Scalar_Tensor(const args::isin_Scalar_Tensor& a, Out out) {
  isin_into(wrap_number(a.element), a.test_elements, a.invert, out[0]);
}

Three kernel__unique2(const args::_unique2& a) {
  return unique_elements(a.self, true, a.return_inverse, a.return_counts);
}
Shapes shape__unique2(const args::_unique2& a) {
  return unique_shape("_unique2", a.self, a.return_inverse, a.return_counts);
}
std::tuple<Tensor, Tensor> kernel__unique(const args::_unique& a) {
  auto [values, inverse, counts] = unique_elements(a.self, true, a.return_inverse, false);
  return {values, inverse};
}
Shapes shape__unique(const args::_unique& a) {
  Shapes s = unique_shape("_unique", a.self, a.return_inverse, false);
  s.pop_back();
  return s;
}
Three kernel_unique_dim(const args::unique_dim& a) { return unique_rows(a.self, a.dim, true); }
Shapes shape_unique_dim(const args::unique_dim& a) { return unique_rows_shape("unique_dim", a.self, a.dim); }
Three kernel_unique_consecutive(const args::unique_consecutive& a) {
  if (a.dim && !(*a.dim == 0 && a.self.dim() == 1)) return unique_rows(a.self, *a.dim, false);
  return unique_elements(a.self, false, a.return_inverse, a.return_counts);
}
Shapes shape_unique_consecutive(const args::unique_consecutive& a) {
  if (a.dim && !(*a.dim == 0 && a.self.dim() == 1))
    return unique_rows_shape("unique_consecutive", a.self, *a.dim);
  return unique_shape("unique_consecutive", a.self, a.return_inverse, a.return_counts);
}
Three kernel_unique_dim_consecutive(const args::unique_dim_consecutive& a) {
  return unique_rows(a.self, a.dim, false);
}
Shapes shape_unique_dim_consecutive(const args::unique_dim_consecutive& a) {
  return unique_rows_shape("unique_dim_consecutive", a.self, a.dim);
}

}  // namespace tern
