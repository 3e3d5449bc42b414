// Sorting and selection along a dimension.
#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

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

enum class Choice { stable, any_order, top, top_unsorted, kth };

template <class T>
struct Item {
  T value;
  int64_t at;
};

// The k-th smallest item comes to its place by swaps around a median of three. What equal items do is part of
// the contract with PyTorch, whose own selection this follows step by step.
template <class T, class Greater>
void select_kth(Span<Item<T>> items, int64_t k, Greater greater) {
  auto at = [&](int64_t i) -> Item<T>& { return items[static_cast<size_t>(i)]; };
  auto order = [&](int64_t first, int64_t second) {
    if (greater(at(first).value, at(second).value)) std::swap(at(first), at(second));
  };
  int64_t low = 0, high = static_cast<int64_t>(items.size()) - 1;
  while (high > low) {
    if (high == low + 1) return order(low, high);
    std::swap(at(low + (high - low) / 2), at(low + 1));
    order(low + 1, high);
    order(low, high);
    order(low + 1, low);
    const T pivot = at(low).value;
    int64_t up = low + 1, down = high;
    while (true) {
      do ++up;
      while (greater(pivot, at(up).value));
      do --down;
      while (greater(at(down).value, pivot));
      if (down < up) break;
      std::swap(at(up), at(down));
    }
    std::swap(at(low), at(down));
    if (down <= k) low = up;
    if (down >= k) high = down - 1;
  }
}

// Unsigned keys in the order of the values; NaN is the greatest, and the two zeros are one.
template <class T>
uint32_t ordered_key(T value) {
  if constexpr (std::is_integral_v<T>) {
    const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(value));
    return std::is_signed_v<T> ? bits ^ 0x80000000u : static_cast<uint32_t>(value);
  } else {
    const float f = static_cast<float>(value);
    if (f != f) return UINT32_MAX;
    const uint32_t bits = f == 0 ? 0 : std::bit_cast<uint32_t>(f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  }
}

// A stable sort by the bytes of the keys, the lowest first; bytes that all keys share cost one look. With
// `unless_tied` and equal keys it changes nothing and gives false.
template <class T>
bool radix_sort(Span<Item<T>> items, bool descending, bool unless_tied) {
  struct Entry {
    uint32_t key, at;
  };
  const size_t n = items.size();
  std::vector<Entry> from(n), to(n);
  uint32_t counts[4][256] = {};
  for (size_t i = 0; i < n; ++i) {
    const uint32_t key = ordered_key(items[i].value) ^ (descending ? UINT32_MAX : 0);
    from[i] = {key, static_cast<uint32_t>(i)};
    for (int b = 0; b < 4; ++b) ++counts[b][key >> 8 * b & 255];
  }
  for (int b = 0; b < 4; ++b) {
    uint32_t* count = counts[b];
    if (count[from[0].key >> 8 * b & 255] == n) continue;
    uint32_t start = 0;
    for (int v = 0; v < 256; ++v) start += std::exchange(count[v], start);
    for (const Entry& e : from) to[count[e.key >> 8 * b & 255]++] = e;
    from.swap(to);
  }
  for (size_t i = 1; unless_tied && i < n; ++i)
    if (from[i].key == from[i - 1].key) return false;
  const std::vector<Item<T>> before(items.begin(), items.end());
  for (size_t i = 0; i < n; ++i) items[i] = before[from[i].at];
  return true;
}

// A handful of items, each put where it belongs; false where two are equal, which it leaves in any order.
template <class T>
bool sort_few(Span<Item<T>> items, Before<T> before) {
  for (size_t i = 1; i < items.size(); ++i) {
    const Item<T> item = items[i];
    size_t to = i;
    for (; to > 0 && before(item.value, items[to - 1].value); --to) items[to] = items[to - 1];
    items[to] = item;
    if (to > 0 && !before(items[to - 1].value, item.value)) return false;
  }
  return true;
}

// Puts the k items that are asked for in front, by the library's own algorithms: so equal items come in the
// order that PyTorch gives them.
template <class T>
void arrange(Span<Item<T>> items, int64_t k, Choice choice, bool descending) {
  Before<T> value_before{descending};
  auto before = [&](const Item<T>& a, const Item<T>& b) { return value_before(a.value, b.value); };
  auto n = static_cast<int64_t>(items.size());
  if constexpr (sizeof(T) <= 4) {
    // Where no order is asked for, equal items come in PyTorch's: that of std::sort.
    const bool stable = choice == Choice::stable;
    if ((stable || choice == Choice::any_order) && n >= 64 && n <= UINT32_MAX &&
        radix_sort(items, descending, !stable))
      return;
  }
  switch (choice) {
    case Choice::stable:
      return std::stable_sort(items.begin(), items.end(), before);
    case Choice::any_order:
      return std::sort(items.begin(), items.end(), before);
    case Choice::kth:
      return select_kth(items, k - 1, [](T a, T b) { return Before<T>{false}(b, a); });
    case Choice::top:
    case Choice::top_unsorted:
      if (k == 0) return;
      std::nth_element(items.begin(), items.begin() + (k - 1), items.end(), before);
      if (choice == Choice::top) std::sort(items.begin(), items.begin() + (k - 1), before);
  }
}

// The first k of a long row, as std::partial_sort chooses them among equal ones: its heap, fed by a scan that
// skips what cannot enter. `heap` has room for k + 1.
template <class T>
void select_top(const T* x, int64_t n, int64_t k, bool descending, Item<T>* heap) {
  Before<T> value_before{descending};
  auto before = [&](const Item<T>& a, const Item<T>& b) { return value_before(a.value, b.value); };
  for (int64_t i = 0; i < k; ++i) heap[i] = {x[i], i};
  std::make_heap(heap, heap + k, before);
  auto offer = [&](int64_t i) {
    if (!value_before(x[i], heap[0].value)) return;
    heap[k] = {x[i], i};
    std::pop_heap(heap, heap + k + 1, before);
  };
  int64_t i = k;
  if constexpr (std::is_arithmetic_v<T>) {
    constexpr int64_t block = 32;
    for (; i + block <= n; i += block) {
      const T worst = heap[0].value;  // a NaN passes every test: each element is then looked at
      unsigned any = 0;
      if (descending)
        for (int64_t j = 0; j < block; ++j) any |= !(x[i + j] <= worst);
      else
        for (int64_t j = 0; j < block; ++j) any |= !(x[i + j] >= worst);
      if (any)
        for (int64_t j = 0; j < block; ++j) offer(i + j);
    }
  }
  for (; i < n; ++i) offer(i);
  std::sort_heap(heap, heap + k, before);
}

// The first k of every row in order: values and where they were.
void order_rows(const Tensor& self, int64_t dim, bool descending, int64_t k, Choice choice,
                const Tensor& values, const Tensor& indices) {
  if (values.int_numel() == 0) return;
  if (!values.is_contiguous() || !indices.is_contiguous()) {  // rows one after the other, then laid out
    Tensor v = make_tensor(values.sizes(), values.dtype()), i = make_tensor(indices.sizes(), kLong);
    order_rows(self, dim, descending, k, choice, v, i);
    copy_elements(v, values);
    return copy_elements(i, indices);
  }
  Tensor room;
  const Tensor& from = row_major(self, room);
  dim = wrap_dim(dim, self.dim());
  Rows rows = rows_around(from, dim);
  int64_t n = rows.size;
  k = std::min(k, n);
  const bool only_kth = choice == Choice::kth;
  int64_t kept = only_kth ? 1 : k;
  int64_t* at = indices.data_ptr<int64_t>();
  by_real_dtype("sort", self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* x = static_cast<const T*>(from.data());
    T* y = static_cast<T*>(values.data());
    // PyTorch takes the heap where k is a small part of the row.
    const bool by_heap = (choice == Choice::top || choice == Choice::top_unsorted) && k * 64 <= n && k > 0;
    const bool few = n <= 8 && choice == Choice::top;
    parallel_for(0, rows.outer * rows.inner, std::max<int64_t>(1, 4096 / n), [&](int64_t begin, int64_t end) {
      SmallVector<Item<T>, 64> held;
      held.resize_for_overwrite(static_cast<size_t>(by_heap ? k + 1 : n));
      const Span<Item<T>> items(held.data(), held.size());
      const bool apart = by_heap && rows.inner > 1;
      std::unique_ptr<T[]> line(apart ? new T[static_cast<size_t>(n)] : nullptr);
      for (int64_t row = begin; row < end; ++row) {
        const int64_t outer = rows.inner == 1 ? row : row / rows.inner, inner = row - outer * rows.inner;
        const T* p = x + outer * n * rows.inner + inner;
        if (by_heap) {
          for (int64_t i = 0; apart && i < n; ++i) line[i] = p[i * rows.inner];
          select_top(apart ? line.get() : p, n, k, descending, items.data());
        } else {
          auto fill = [&] {
            for (int64_t i = 0; i < n; ++i) items[static_cast<size_t>(i)] = {p[i * rows.inner], i};
          };
          fill();
          // Without equal items there is one order: no need to go the library's way to it.
          if (!few || !sort_few(items, Before<T>{descending})) {
            if (few) fill();
            arrange(items, k, choice, descending);
          }
        }
        for (int64_t i = 0; i < kept; ++i) {
          const Item<T>& item = items[static_cast<size_t>(only_kth ? k - 1 : i)];
          int64_t to = (outer * kept + i) * rows.inner + inner;
          y[to] = item.value;
          at[to] = item.at;
        }
      }
    });
  });
}

Shapes sorted_shape(const Tensor& self, int64_t dim) {
  wrap_dim(dim, self.dim());
  return {like(self), like(self, kLong)};
}

}  // namespace

Shapes shape_sort(const args::sort& a) { return sorted_shape(a.self, a.dim); }
void kernel_sort(const args::sort& a, Out out) {
  order_rows(a.self, a.dim, a.descending, INT64_MAX, Choice::any_order, out[0], out[1]);
}
Shapes shape_sort_stable(const args::sort_stable& a) { return sorted_shape(a.self, a.dim); }
void kernel_sort_stable(const args::sort_stable& a, Out out) {
  order_rows(a.self, a.dim, a.descending, INT64_MAX,
             a.stable.value_or(false) ? Choice::stable : Choice::any_order, out[0], out[1]);
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
  order_rows(a.self, a.dim, a.largest, a.k.guard_int(), a.sorted ? Choice::top : Choice::top_unsorted, out[0],
             out[1]);
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
  order_rows(a.self, a.dim, false, a.k.guard_int(), Choice::kth, out[0], out[1]);
}

}  // namespace tern
