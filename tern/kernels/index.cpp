#include "tern/kernels/index.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/kernels/pointwise.h"
#include "tern/tensor/by_dtype.h"

namespace tern::kernels {
namespace {

[[noreturn]] void out_of_range(const char* what, int64_t index, int64_t size) {
  failf(ErrorKind::index, "{}: index {} is out of bounds for dimension with size {}", what, index, size);
}

// Positions of an array of any strides in row-major order.
struct Walk {
  int ndim;
  const int64_t* sizes;
  int64_t index[64] = {};
  int64_t count = 1;

  Walk(int n, const int64_t* s) : ndim(n), sizes(s) {
    if (n > 64) fail("indexing works on at most 64 dimensions");
    for (int d = 0; d < n; ++d) count *= s[d];
  }
  void seek(int64_t at) {
    for (int d = ndim - 1; d >= 0; --d) index[d] = at % sizes[d], at /= sizes[d];
  }
  void next() {
    for (int d = ndim - 1; d >= 0 && ++index[d] == sizes[d]; --d) index[d] = 0;
  }
  int64_t offset(const int64_t* strides) const {
    int64_t o = 0;
    for (int d = 0; d < ndim; ++d) o += index[d] * strides[d];
    return o;
  }
};

// Elements move as plain bits of their width.
template <class F>
void by_width(DType type, F f) {
  switch (element_size(type)) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    case 8:
      return f(uint64_t{});
    default:
      return f(std::complex<double>{});
  }
}
template <class F>
void by_type(DType type, const char* what, F f) {
  by_dtype(Types<bool>{} + kIntegers + kFloats + kComplexes, type, f,
           [&] { failf(ErrorKind::not_supported, "{} is not implemented for {}", what, name(type)); });
}
template <class T>
inline constexpr bool is_complex_type =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
template <class T>
using Arithmetic = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float,
                                      std::conditional_t<std::is_integral_v<T>, uint64_t, T>>;

template <class T>
void accumulate(T& to, T value) {
  if constexpr (std::is_same_v<T, bool>)
    to = to || value;
  else
    to = static_cast<T>(static_cast<Arithmetic<T>>(to) + static_cast<Arithmetic<T>>(value));
}

template <class T>
void apply(ScatterOp op, T& to, T value) {
  using A = Arithmetic<T>;
  switch (op) {
    case ScatterOp::set:
      to = value;
      return;
    case ScatterOp::add:
      return accumulate(to, value);
    case ScatterOp::mul:
      if constexpr (std::is_same_v<T, bool>)
        to = to && value;
      else
        to = static_cast<T>(static_cast<A>(to) * static_cast<A>(value));
      return;
    case ScatterOp::amax:
    case ScatterOp::amin:
      if constexpr (is_complex_type<T>) {
        fail(ErrorKind::not_supported, "scatter_reduce: complex numbers have no order");
      } else {
        using V = std::conditional_t<std::is_integral_v<T>, T, A>;
        const V a = static_cast<V>(to), b = static_cast<V>(value);
        if (b != b || (op == ScatterOp::amax ? b > a : b < a)) to = value;
      }
  }
}

std::vector<int64_t> checked(const char* what, DType index_type, const void* index, int64_t n, int64_t size) {
  if (index_type != kLong && index_type != kInt)
    failf(ErrorKind::type, "{}: expected an index of type int64 or int32, got {}", what, name(index_type));
  std::vector<int64_t> rows(static_cast<size_t>(n));
  find_cast(index_type, kLong)(index, 1, rows.data(), 1, n);
  for (int64_t r : rows)
    if (r < 0 || r >= size) out_of_range(what, r, size);
  return rows;
}

}  // namespace

void index_select(DType type, const void* in, int64_t outer, int64_t size, int64_t inner, DType index_type,
                  const void* index, int64_t n, void* out) {
  const std::vector<int64_t> rows = checked("index_select", index_type, index, n, size);
  const int64_t bytes = inner * element_size(type);
  if (bytes == 0) return;
  parallel_for(0, outer * n, std::max<int64_t>(1, 65536 / bytes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(static_cast<char*>(out) + i * bytes,
                  static_cast<const char*>(in) + (i / n * size + rows[i % n]) * bytes,
                  static_cast<size_t>(bytes));
  });
}

void index_add(DType type, void* out, int64_t outer, int64_t size, int64_t inner, DType index_type,
               const void* index, int64_t n, const void* in, double alpha, int64_t skip) {
  const std::vector<int64_t> rows = checked("index_add", index_type, index, n, size);
  by_type(type, "index_add", [&]<class T>(T) {
    // Rows may repeat, columns do not: split those.
    parallel_for(0, inner, std::max<int64_t>(16, 32768 / (outer * n + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t j = 0; j < n; ++j) {
          if (rows[j] == skip) continue;
          T* to = static_cast<T*>(out) + (o * size + rows[j]) * inner;
          const T* from = static_cast<const T*>(in) + (o * n + j) * inner;
          if (alpha == 1) {
            for (int64_t i = begin; i < end; ++i) accumulate(to[i], from[i]);
          } else {
            for (int64_t i = begin; i < end; ++i) {
              if constexpr (std::is_integral_v<T>)
                accumulate(to[i], static_cast<T>(static_cast<uint64_t>(static_cast<int64_t>(alpha)) *
                                                 static_cast<uint64_t>(from[i])));
              else if constexpr (is_complex_type<T>)
                accumulate(to[i], from[i] * static_cast<typename T::value_type>(alpha));
              else
                accumulate(to[i], T(static_cast<Arithmetic<T>>(static_cast<Arithmetic<T>>(from[i]) * alpha)));
            }
          }
        }
    });
  });
}

namespace {

// Calls f(index offset, a offset, b offset of the other position of dim) for all positions of the index, in
// order: the last dim is a plain loop. `b` is where the position along `dim` is replaced by the index.
template <class F>
void each_index(const IndexShape& s, int64_t begin, int64_t end, const int64_t* index_strides,
                const int64_t* a_strides, const int64_t* b_strides, F f) {
  if (s.ndim == 0) {
    if (begin < end) f(0, 0, 0);
    return;
  }
  const int last = s.ndim - 1;
  const int64_t n = s.index_sizes[last], step = last == s.dim ? 0 : b_strides[last];
  Walk walk(s.ndim, s.index_sizes);
  walk.seek(begin);
  for (int64_t i = begin; i < end;) {
    const int64_t run = std::min(n - walk.index[last], end - i);
    const int64_t index = walk.offset(index_strides), a = walk.offset(a_strides),
                  b = walk.offset(b_strides) - walk.index[s.dim] * b_strides[s.dim];
    for (int64_t j = 0; j < run; ++j)
      f(index + j * index_strides[last], a + j * a_strides[last], b + j * step);
    i += run;
    if (i < end) walk.seek(i);
  }
}

}  // namespace

void gather(DType type, const IndexShape& s, const void* in, const int64_t* in_strides, const int64_t* index,
            const int64_t* index_strides, void* out, const int64_t* out_strides) {
  by_width(type, [&]<class T>(T) {
    const int64_t count = Walk(s.ndim, s.index_sizes).count;
    parallel_for(0, count, 16384, [&](int64_t begin, int64_t end) {
      const int64_t stride = s.ndim ? in_strides[s.dim] : 0;
      each_index(s, begin, end, index_strides, out_strides, in_strides,
                 [&](int64_t i, int64_t to, int64_t from) {
                   const int64_t at = index[i];
                   if (at < 0 || at >= s.dim_size) out_of_range("gather", at, s.dim_size);
                   static_cast<T*>(out)[to] = static_cast<const T*>(in)[from + at * stride];
                 });
    });
  });
}

void scatter(DType type, ScatterOp op, const IndexShape& s, void* out, const int64_t* out_strides,
             const int64_t* index, const int64_t* index_strides, const void* src,
             const int64_t* src_strides) {
  // Targets may repeat along dim: in order, on one thread.
  by_type(type, "scatter", [&]<class T>(T) {
    const int64_t stride = s.ndim ? out_strides[s.dim] : 0, count = Walk(s.ndim, s.index_sizes).count;
    auto run = [&](auto how) {
      each_index(s, 0, count, index_strides, src_strides, out_strides,
                 [&](int64_t i, int64_t from, int64_t to) {
                   const int64_t at = index[i];
                   if (at < 0 || at >= s.dim_size) out_of_range("scatter", at, s.dim_size);
                   how(static_cast<T*>(out)[to + at * stride], static_cast<const T*>(src)[from]);
                 });
    };
    if (op == ScatterOp::set)
      run([](T& to, T value) { to = value; });
    else if (op == ScatterOp::add)
      run([](T& to, T value) { accumulate(to, value); });
    else
      run([op](T& to, T value) { apply(op, to, value); });
  });
}

void index_offsets(int n_indices, const int64_t* const* indices, const int64_t* sizes, const int64_t* strides,
                   int64_t n, int64_t* offsets) {
  std::fill_n(offsets, n, 0);
  for (int k = 0; k < n_indices; ++k)
    for (int64_t i = 0; i < n; ++i) {
      int64_t at = indices[k][i];
      if (at < -sizes[k] || at >= sizes[k]) out_of_range("index", at, sizes[k]);
      if (at < 0) at += sizes[k];
      offsets[i] += at * strides[k];
    }
}

void index_get(DType type, const void* in, int64_t n, const int64_t* offsets, int ndim,
               const int64_t* slice_sizes, const int64_t* slice_strides, void* out) {
  const int64_t slice = Walk(ndim, slice_sizes).count;
  by_width(type, [&]<class T>(T) {
    parallel_for(0, n, std::max<int64_t>(1, 16384 / (slice + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        Walk walk(ndim, slice_sizes);
        T* to = static_cast<T*>(out) + i * slice;
        const T* from = static_cast<const T*>(in) + offsets[i];
        if (ndim == 1 && slice_strides[0] == 1) {
          std::copy_n(from, slice, to);
          continue;
        }
        for (int64_t j = 0; j < slice; ++j, walk.next()) to[j] = from[walk.offset(slice_strides)];
      }
    });
  });
}

void index_put(DType type, bool add, void* out, int64_t n, const int64_t* offsets, int ndim,
               const int64_t* slice_sizes, const int64_t* slice_strides, const void* values) {
  const int64_t slice = Walk(ndim, slice_sizes).count;
  auto put = [&]<class T>(T, auto store) {
    for (int64_t i = 0; i < n; ++i) {
      Walk walk(ndim, slice_sizes);
      T* to = static_cast<T*>(out) + offsets[i];
      const T* from = static_cast<const T*>(values) + i * slice;
      for (int64_t j = 0; j < slice; ++j, walk.next()) store(to[walk.offset(slice_strides)], from[j]);
    }
  };
  if (add)
    by_type(type, "index_put", [&]<class T>(T t) { put(t, [](T& to, T value) { accumulate(to, value); }); });
  else
    by_width(type, [&]<class T>(T t) { put(t, [](T& to, T value) { to = value; }); });
}

namespace {
// Calls f(walk) at each element that is not zero.
template <class F>
void each_nonzero(DType type, int ndim, const int64_t* sizes, const int64_t* strides, const void* x, F f) {
  Walk walk(ndim, sizes);
  const Cast to_bool = find_cast(type, kBool);
  const int64_t width = element_size(type);
  bool row[512];
  const int64_t inner = ndim ? sizes[ndim - 1] : 1, stride = ndim ? strides[ndim - 1] : 1;
  for (int64_t i = 0; i < walk.count;) {
    const int64_t done = ndim ? walk.index[ndim - 1] : 0, n = std::min<int64_t>(512, inner - done);
    to_bool(static_cast<const char*>(x) + walk.offset(strides) * width, stride, row, 1, n);
    for (int64_t j = 0; j < n; ++j, walk.next())
      if (row[j]) f(walk);
    i += n;
  }
}
}  // namespace

int64_t nonzero_count(DType type, int ndim, const int64_t* sizes, const int64_t* strides, const void* x) {
  int64_t count = 0;
  each_nonzero(type, ndim, sizes, strides, x, [&](const Walk&) { ++count; });
  return count;
}

void nonzero(DType type, int ndim, const int64_t* sizes, const int64_t* strides, const void* x,
             int64_t* out) {
  each_nonzero(type, ndim, sizes, strides, x,
               [&](const Walk& walk) { out = std::copy_n(walk.index, ndim, out); });
}

int64_t masked_select(DType type, int ndim, const int64_t* sizes, const void* x, const int64_t* x_strides,
                      const bool* mask, const int64_t* mask_strides, void* out) {
  int64_t count = 0;
  by_width(type, [&]<class T>(T) {
    each_nonzero(kBool, ndim, sizes, mask_strides, mask, [&](const Walk& walk) {
      static_cast<T*>(out)[count++] = static_cast<const T*>(x)[walk.offset(x_strides)];
    });
  });
  return count;
}

void masked_scatter(DType type, int ndim, const int64_t* sizes, void* x, const int64_t* x_strides,
                    const bool* mask, const int64_t* mask_strides, const void* source, int64_t source_count) {
  int64_t count = 0;
  by_width(type, [&]<class T>(T) {
    each_nonzero(kBool, ndim, sizes, mask_strides, mask, [&](const Walk& walk) {
      if (count == source_count)
        fail("masked_scatter: expected the source to have at least as many elements as the mask has ones");
      static_cast<T*>(x)[walk.offset(x_strides)] = static_cast<const T*>(source)[count++];
    });
  });
}

void sort(DType type, int ndim, const int64_t* sizes, int dim, const void* x, const int64_t* x_strides,
          bool descending, int64_t k, void* values, int64_t* indices, const int64_t* out_strides) {
  if (is_complex(type)) fail(ErrorKind::not_supported, "sort: complex numbers have no order");
  const int64_t n = ndim ? sizes[dim] : 1, x_stride = ndim ? x_strides[dim] : 1,
                out_stride = ndim ? out_strides[dim] : 1;
  if (k < 0 || k > n)
    failf(ErrorKind::runtime, "topk: k = {} is out of range for dimension with size {}", k, n);
  int64_t lines = 1;
  for (int d = 0; d < ndim; ++d)
    if (d != dim) lines *= sizes[d];
  if (n == 0 || k == 0) return;
  const int64_t width = element_size(type);
  auto run = [&]<class T>(T) {  // T holds every value of the type exactly
    const Cast load = find_cast(type, dtype_of<T>), same = find_cast(type, type);
    auto less = [](T a, T b) { return a < b || (b != b && a == a); };
    parallel_for(0, lines, std::max<int64_t>(1, 2048 / n), [&](int64_t begin, int64_t end) {
      std::vector<T> keys(static_cast<size_t>(n));
      std::vector<int64_t> order(keys.size());
      for (int64_t line = begin; line < end; ++line) {
        int64_t rest = line, from = 0, to = 0;
        for (int d = ndim - 1; d >= 0; --d) {
          if (d == dim) continue;
          from += rest % sizes[d] * x_strides[d], to += rest % sizes[d] * out_strides[d], rest /= sizes[d];
        }
        const char* source = static_cast<const char*>(x) + from * width;
        load(source, x_stride, keys.data(), 1, n);
        std::iota(order.begin(), order.end(), 0);
        // Ties by position make any algorithm stable.
        auto before = [&](int64_t a, int64_t b) {
          const T ka = keys[a], kb = keys[b];
          if (descending ? less(kb, ka) : less(ka, kb)) return true;
          if (descending ? less(ka, kb) : less(kb, ka)) return false;
          return a < b;
        };
        if (k < n)
          std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
        else
          std::sort(order.begin(), order.end(), before);
        for (int64_t j = 0; j < k; ++j) {
          indices[to + j * out_stride] = order[j];
          if (values)
            same(source + order[j] * x_stride * width, 1,
                 static_cast<char*>(values) + (to + j * out_stride) * width, 1, 1);
        }
      }
    });
  };
  if (type == DType::uint64)
    run(uint64_t{});
  else if (is_floating(type))
    type == kDouble ? run(double{}) : run(float{});
  else
    run(int64_t{});
}

}  // namespace tern::kernels
