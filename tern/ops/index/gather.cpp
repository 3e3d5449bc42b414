// One index per element or per row along a dimension: index_select, gather, embedding and their writes.
#include <algorithm>
#include <cstring>
#include <limits>

#include "tern/base/format.h"
#include "tern/base/wrapping.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/checks.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/index.args.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

void check_index_type(const char* op, const Tensor& index) {
  if (index.dtype() != kLong && index.dtype() != kInt)
    failf("{}(): Expected dtype int32 or int64 for index", op);
}
Tensor as_rows(const Tensor& t) { return t.dim() == 0 ? t.as_view({SymInt(1)}, {SymInt(1)}) : t; }

}  // namespace

// ---- rows ----

Shapes shape_index_select(const args::index_select& a) {
  check_index_type("index_select", a.index);
  if (a.index.dim() > 1) fail(ErrorKind::index, "index_select(): Index is supposed to be a vector");
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  Dims sizes(a.self.sizes());
  if (a.self.dim() == 0) {
    if (!(a.index.numel() == 1))
      fail(ErrorKind::index, "index_select(): Index to scalar can have only 1 value");
    return {Shape(sizes, a.self.dtype())};
  }
  sizes[dim] = a.index.numel();
  return {Shape(std::move(sizes), a.self.dtype())};
}
void kernel_index_select(const args::index_select& a, Out out) {
  Tensor self = as_rows(row_major(a.self)), index = index_values(a.index);
  int64_t dim = wrap_dim(a.dim, self.dim());
  Rows rows = rows_around(self, dim);
  const int64_t* p = index.data_ptr<int64_t>();
  int64_t count = index.int_numel(), bytes = rows.inner * self.element_size();
  for (int64_t k = 0; k < count; ++k) {
    if (p[k] >= 0 && p[k] < rows.size) continue;
    // PyTorch's two kernels say it in two ways.
    if (dim == 1 || self.int_numel() == 0)
      failf("INDICES element is out of DATA bounds, id={} axis_dim={}", p[k], rows.size);
    fail(ErrorKind::index, "index out of range in self");
  }
  const char* from = static_cast<const char*>(self.data());
  char* to = static_cast<char*>(out[0].data());
  parallel_for(0, rows.outer * count, std::max<int64_t>(1, 32768 / std::max<int64_t>(bytes, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   std::memcpy(to + i * bytes, from + (i / count * rows.size + p[i % count]) * bytes,
                               static_cast<size_t>(bytes));
               });
}

Tensor index_select_backward(const Tensor& grad, Span<const SymInt> sizes, int64_t dim, const Tensor& index) {
  return index_add(zeros(sizes, grad.dtype(), {}, grad.device()), dim, index, grad);
}
Tensor index_select_shaped(const Tensor& grad, int64_t dim, const Tensor& index, Span<const SymInt> sizes) {
  return expand(index_select(grad, dim, index), sizes.size() == 0 ? grad.sizes() : sizes);
}

namespace {

// Self's elements where they can be written to by position: in the result itself if it is row-major.
Tensor writable_copy(const Tensor& self, const Tensor& result) {
  bool direct = result.is_contiguous() && result.dtype() == self.dtype();
  Tensor copy = direct ? result : make_tensor(self.sizes(), self.dtype());
  copy_elements(self, copy);
  return copy;
}

enum class Write { copy, add, fill };

Shapes write_shape(const char* op, const Tensor& self, int64_t dim, const Tensor& index,
                   const Tensor* source) {
  check_index_type(op, index);
  dim = wrap_dim(dim, self.dim());
  if (index.dim() > 1)
    failf(ErrorKind::index, "{}(): Index is supposed to be a vector, but got dim: {}", op, index.dim());
  if (source) {
    if (source->dtype() != self.dtype())
      failf("{}(): self and source expected to have the same dtype, but got (self) {} and (source) {}", op,
            script_name(self.dtype()), script_name(source->dtype()));
    SymInt rows = source->dim() == 0 ? SymInt(1) : dim < source->dim() ? source->sizes()[dim] : SymInt(1);
    if (!require_eq(index.numel(), rows))
      failf(ErrorKind::index,
            "{}(): Number of indices ({}) should be equal to source.size(dim): ({}), for dim: {}", op,
            index.numel().str(), rows.str(), dim);
    if (source->dim() != self.dim() && source->dim() != 0 && self.dim() != 0) {
      if (std::string_view(op) == "index_add")
        failf(
            "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
            "self.shape = {} source.shape = {}",
            str(self.sizes()), str(source->sizes()));
      failf(ErrorKind::index, "{}(): source and self must have the same number of dimensions, got {} and {}",
            op, str(source->sizes()), str(self.sizes()));
    }
    for (int64_t d = 0; d < self.dim() && d < source->dim(); ++d)
      if (d != dim && !require_eq(self.sizes()[d], source->sizes()[d]))
        failf(ErrorKind::index,
              "{}(): source and self must have the same size except in dim {}, got {} and {}", op, dim,
              str(source->sizes()), str(self.sizes()));
  }
  return {source ? Shape(self.sizes(), self.dtype()) : like(self)};
}

// As PyTorch says it: where index_add goes by elements (matrices) it is scatter_add that finds out.
[[noreturn]] void row_out_of_bounds(Write how, const Tensor& self, int64_t dim, const Tensor& index,
                                    bool plain, int64_t v, int64_t size) {
  const char* op = how == Write::copy ? "index_copy_(): " : "";
  if (how == Write::add && !(self.dim() == 2 && index.dtype() == kLong && plain))
    fail(ErrorKind::index, "index out of range in self");
  failf(how == Write::add ? ErrorKind::runtime : ErrorKind::index,
        "{}index {} is out of bounds for dimension {} with size {}", op, v, dim, size);
}

// Writes rows of the source (or a number) to the rows of out that the indices name.
void write_rows(const char* op, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source,
                Write how, const Scalar& number, const Tensor& result) {
  Tensor out = writable_copy(self, result);
  Tensor target = as_rows(out), from = source.defined() ? as_rows(row_major(source)) : Tensor();
  dim = wrap_dim(dim, target.dim());
  Rows rows = rows_around(target, dim);
  Tensor places = index_values(index);
  if (how == Write::fill) places = places.clone();  // its rows may be counted from the end
  int64_t* p = places.data_ptr<int64_t>();
  int64_t count = places.int_numel();
  for (int64_t k = 0; k < count; ++k) {
    if (how == Write::fill && p[k] < 0 && p[k] >= -rows.size) p[k] += rows.size;
    if (p[k] < 0 || p[k] >= rows.size)
      row_out_of_bounds(how, self, dim, index, number.equals(1), p[k], rows.size);
  }
  by_dtype(op, self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = wide_t<T>;
    T* to = static_cast<T*>(out.data());
    const T* with = from.defined() ? static_cast<const T*>(from.data()) : nullptr;
    Tensor one = tensor(number, {.dtype = self.dtype()});
    T value = *static_cast<const T*>(one.data());
    bool plain = number.equals(1);
    for (int64_t o = 0; o < rows.outer; ++o)
      for (int64_t k = 0; k < count; ++k) {
        T* row = to + (o * rows.size + p[k]) * rows.inner;
        const T* in = with ? with + (o * count + k) * rows.inner : nullptr;
        if (how == Write::fill)
          std::fill_n(row, rows.inner, value);
        else if (how == Write::copy)
          std::copy_n(in, rows.inner, row);
        else
          for (int64_t i = 0; i < rows.inner; ++i) {
            if constexpr (std::is_same_v<T, bool>)
              row[i] = row[i] || (in[i] && value);
            else
              row[i] = static_cast<T>(
                  wrapping_sum(static_cast<W>(row[i]),
                               plain ? static_cast<W>(in[i])
                                     : wrapping_product(static_cast<W>(in[i]), static_cast<W>(value))));
          }
      }
  });
  if (!out.is_same(result)) copy_elements(out, result);
}

}  // namespace

Shapes shape_index_add(const args::index_add& a) {
  return write_shape("index_add", a.self, a.dim, a.index, &a.source);
}
namespace {

// Rows along a dim as what index_put takes; a tensor without dims counts as one row.
Tensor put_along(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& values,
                 bool accumulate) {
  if (self.dim() == 0) return squeeze(put_along(unsqueeze(self, 0), 0, index, values, accumulate), 0);
  std::vector<Tensor> at(static_cast<size_t>(wrap_dim(dim, self.dim())));
  at.push_back(index.dim() ? index : unsqueeze(index, 0));
  return index_put(self, at, values, accumulate);
}

}  // namespace

Tensor body_index_add(const args::index_add& a) {
  bool plain = a.alpha.is_int() && a.alpha.to_int() == 1;
  return put_along(a.self, a.dim, a.index, plain ? a.source : times(a.source, a.alpha), true);
}
Tensor body_index_copy(const args::index_copy& a) {
  return put_along(a.self, a.dim, a.index, a.source, false);
}
namespace {
Tensor fill_along(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  Dims sizes(self.sizes());
  if (!sizes.empty()) sizes[static_cast<size_t>(wrap_dim(dim, self.dim()))] = index.numel();
  return put_along(self, dim, index, expand(value, sizes), false);
}
}  // namespace
Tensor body_index_fill_int_Scalar(const args::index_fill_int_Scalar& a) {
  return fill_along(a.self, a.dim, a.index, scalar_tensor(a.value, a.self.dtype()));
}
Tensor body_index_fill_int_Tensor(const args::index_fill_int_Tensor& a) {
  return fill_along(a.self, a.dim, a.index, a.value);
}

void kernel_index_add(const args::index_add& a, Out out) {
  write_rows("index_add", a.self, a.dim, a.index, a.source, Write::add, a.alpha, out[0]);
}
Shapes shape_index_copy(const args::index_copy& a) {
  return write_shape("index_copy", a.self, a.dim, a.index, &a.source);
}
void kernel_index_copy(const args::index_copy& a, Out out) {
  write_rows("index_copy", a.self, a.dim, a.index, a.source, Write::copy, 1, out[0]);
}
Shapes shape_index_fill_int_Scalar(const args::index_fill_int_Scalar& a) {
  check_fits(a.value, a.self.dtype());
  return write_shape("index_fill", a.self, a.dim, a.index, nullptr);
}
void kernel_index_fill_int_Scalar(const args::index_fill_int_Scalar& a, Out out) {
  write_rows("index_fill", a.self, a.dim, a.index, Tensor(), Write::fill, a.value, out[0]);
}
Shapes shape_index_fill_int_Tensor(const args::index_fill_int_Tensor& a) {
  if (a.value.dim() != 0)
    failf("index_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
          a.value.dim());
  return write_shape("index_fill", a.self, a.dim, a.index, nullptr);
}
void kernel_index_fill_int_Tensor(const args::index_fill_int_Tensor& a, Out out) {
  write_rows("index_fill", a.self, a.dim, a.index, Tensor(), Write::fill, read_scalar(a.value), out[0]);
}

// ---- embedding ----

Shapes shape_embedding(const args::embedding& a) {
  if (a.weight.dim() != 2) fail("'weight' must be 2-D");
  if (a.indices.dtype() != kLong && a.indices.dtype() != kInt)
    failf(
        "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but "
        "got "
        "torch.{}Tensor instead (while checking arguments for embedding)",
        script_name(a.indices.dtype()));
  Dims sizes(a.indices.sizes());
  sizes.push_back(a.weight.sizes()[1]);
  return {Shape(std::move(sizes), a.weight.dtype())};
}
void kernel_embedding(const args::embedding& a, Out out) {
  Tensor weight = row_major(a.weight), index = index_values(a.indices);
  const int64_t* p = index.data_ptr<int64_t>();
  int64_t rows = weight.int_sizes()[0], bytes = weight.int_sizes()[1] * weight.element_size(),
          n = index.int_numel();
  for (int64_t i = 0; i < n; ++i)
    if (p[i] < 0 || p[i] >= rows)
      failf(ErrorKind::index, "index out of range in self: {} is not in a table of {} rows", p[i], rows);
  const char* from = static_cast<const char*>(weight.data());
  char* to = static_cast<char*>(out[0].data());
  parallel_for(0, n, std::max<int64_t>(1, 32768 / std::max<int64_t>(bytes, 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   std::memcpy(to + i * bytes, from + p[i] * bytes, static_cast<size_t>(bytes));
               });
}

Shapes shape_embedding_dense_backward(const args::embedding_dense_backward& a) {
  return {Shape(Dims{a.num_weights, a.grad_output.sizes().back()}, a.grad_output.dtype())};
}
void kernel_embedding_dense_backward(const args::embedding_dense_backward& a, Out out) {
  Tensor grad = row_major(a.grad_output), index = index_values(a.indices);
  const int64_t* p = index.data_ptr<int64_t>();
  int64_t n = index.int_numel(), width = out[0].int_sizes()[1], rows = out[0].int_sizes()[0],
          padding = a.padding_idx.guard_int();
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < n; ++i)
    if (p[i] < 0 || p[i] >= rows)
      failf(ErrorKind::index, "embedding_dense_backward: index {} is not in a table of {} rows", p[i], rows);
  if (a.scale_grad_by_freq) {
    counts.assign(static_cast<size_t>(rows), 0);
    for (int64_t i = 0; i < n; ++i) ++counts[static_cast<size_t>(p[i])];
  }
  fill_elements(out[0], 0);
  by_float_dtype("embedding_backward", out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    using W = wide_t<T>;
    const T* from = static_cast<const T*>(grad.data());
    T* to = static_cast<T*>(out[0].data());
    for (int64_t i = 0; i < n; ++i) {
      if (p[i] == padding) continue;
      W scale = counts.empty() ? W(1) : W(1) / static_cast<W>(counts[static_cast<size_t>(p[i])]);
      for (int64_t k = 0; k < width; ++k)
        to[p[i] * width + k] = static_cast<T>(static_cast<W>(to[p[i] * width + k]) +
                                              static_cast<W>(from[i * width + k]) * scale);
    }
  });
}
Tensor embedding_double_backward(const Tensor& grad, const Tensor& indices, SymInt padding_idx) {
  Tensor rows = embedding(grad, indices);
  if (surely_lt(padding_idx, 0)) return rows;
  return masked_fill(rows, unsqueeze(indices == Operand(padding_idx), -1), 0);
}

// ---- one index per element ----

namespace {

void check_gather(const char* op, const Tensor& self, int64_t dim, const Tensor& index, const Tensor* src) {
  if (index.numel().is_int() && index.numel().as_int() == 0) return;
  if (index.dtype() != kLong && index.dtype() != kInt)
    failf("{}(): Expected dtype int32/int64 for index", op);
  int64_t n = std::max<int64_t>(self.dim(), 1), m = std::max<int64_t>(index.dim(), 1);
  if (n != m)
    failf("Index tensor must have the same number of dimensions as {} tensor", src ? "self" : "input");
  for (int64_t d = 0; d < self.dim() && d < index.dim(); ++d) {
    if (d != dim && !surely_le(index.sizes()[d], self.sizes()[d]) && index.sizes()[d] > self.sizes()[d])
      failf(
          "Size does not match at dimension {} expected index {} to be no larger than self {} apart from "
          "dimension {}",
          d, str(index.sizes()), str(self.sizes()), dim);
    if (src && d < src->dim() && !surely_le(index.sizes()[d], src->sizes()[d]) &&
        index.sizes()[d] > src->sizes()[d])
      failf(
          "Expected index {} to be no larger than self {} apart from dimension {} and to be no larger size "
          "than src {}",
          str(index.sizes()), str(self.sizes()), dim, str(src->sizes()));
  }
  if (src && std::max<int64_t>(src->dim(), 1) != m)
    fail("Index tensor must have the same number of dimensions as src tensor");
  if (src && src->dtype() != self.dtype()) failf("{}(): Expected self.dtype to be equal to src.dtype", op);
}

[[noreturn, gnu::cold]] void out_of_bounds(int64_t v, int64_t dim, int64_t size) {
  failf("index {} is out of bounds for dimension {} with size {}", v, dim, size);
}

// f(offset into self's rows, offset into src or the result) for each index: in order, or, where no two of
// them write to one place, by several threads.
template <class F>
void for_each_index(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& other,
                    bool by_threads, F f) {
  Tensor room;
  const Tensor& places =
      index.dim() == 0 ? (room = as_rows(index_values(index))) : row_major(index, room, kLong);
  const int64_t count = places.int_numel(), last = places.dim() - 1;
  if (count == 0) return;
  const int64_t* sizes = places.int_sizes();
  const int64_t *own = self.int_strides(), *others = other.int_strides();
  const int64_t* p = places.data_ptr<int64_t>();
  const int64_t step = own[dim], size = self.int_sizes()[dim], width = sizes[last],
                along = last == dim ? 0 : own[last], beside = others[last];
  auto run = [&, p, f](int64_t begin, int64_t end) {
    const auto use = f;  // its pointers stay in registers
    for (int64_t at = begin; at < end;) {
      int64_t row = at == 0 ? 0 : at / width, first = at - row * width;  // the first needs no division
      int64_t to = first * along, from = first * beside;
      const int64_t n = std::min(width - first, end - at);
      for (int64_t d = last; d-- > 0; row /= sizes[d]) {
        const int64_t i = row % sizes[d];
        to += d == dim ? 0 : i * own[d];
        from += i * others[d];
      }
      const int64_t* q = p + at;
      if (step == 1 && along == 0 && beside == 1) {  // one dimension, as it lies
        for (int64_t j = 0; j < n; ++j) {
          const int64_t v = q[j];
          if (static_cast<uint64_t>(v) >= static_cast<uint64_t>(size)) out_of_bounds(v, dim, size);
          use(to + v, from + j);
        }
        at += n;
        continue;
      }
      for (int64_t j = 0; j < n; ++j) {
        const int64_t v = q[j];
        if (static_cast<uint64_t>(v) >= static_cast<uint64_t>(size)) out_of_bounds(v, dim, size);
        use(to + j * along + v * step, from + j * beside);
      }
      at += n;
    }
  };
  if (by_threads)
    parallel_for(0, count, 16384, run);
  else
    run(0, count);
}

struct Reduction {
  enum Kind { replace, sum, prod, amax, amin, mean } kind;
};

Reduction::Kind reduction(const char* op, std::string_view name, bool old_names) {
  if (old_names) {
    if (name == "add") return Reduction::sum;
    if (name == "multiply") return Reduction::prod;
    failf("reduce argument must be either add or multiply.");
  }
  if (name == "sum") return Reduction::sum;
  if (name == "prod") return Reduction::prod;
  if (name == "mean") return Reduction::mean;
  if (name == "amax") return Reduction::amax;
  if (name == "amin") return Reduction::amin;
  failf("{}: reduce argument must be either sum, prod, mean, amax or amin, got {}", op, name);
}

template <class T>
T reduce_two(Reduction::Kind kind, T a, T b) {
  using W = wide_t<T>;
  switch (kind) {
    case Reduction::replace:
      return b;
    case Reduction::prod:
      if constexpr (std::is_same_v<T, bool>)
        return a && b;
      else
        return static_cast<T>(wrapping_product(static_cast<W>(a), static_cast<W>(b)));
    case Reduction::amax:
    case Reduction::amin:
      if constexpr (requires { a.real(); }) {
        fail(ErrorKind::not_supported, "scatter_reduce: complex numbers have no order");
      } else {
        W x = static_cast<W>(a), y = static_cast<W>(b);
        if (x != x) return a;
        if (y != y) return b;
        return kind == Reduction::amax ? (x < y ? b : a) : (y < x ? b : a);
      }
    default:
      if constexpr (std::is_same_v<T, bool>)
        return a || b;
      else
        return static_cast<T>(wrapping_sum(static_cast<W>(a), static_cast<W>(b)));
  }
}

// The neutral element of a reduction: what a place starts from that does not include itself.
template <class T>
T neutral(Reduction::Kind kind) {
  if constexpr (requires(T t) { t.real(); }) {
    return kind == Reduction::prod ? T(1) : T(0);
  } else if constexpr (std::is_same_v<T, bool>) {
    return kind == Reduction::prod || kind == Reduction::amin;
  } else {
    if (kind == Reduction::prod) return static_cast<T>(static_cast<wide_t<T>>(1));
    using W = wide_t<T>;
    constexpr bool real = std::numeric_limits<W>::has_infinity;
    if (kind == Reduction::amax)
      return static_cast<T>(real ? -std::numeric_limits<W>::infinity() : std::numeric_limits<W>::lowest());
    if (kind == Reduction::amin)
      return static_cast<T>(real ? std::numeric_limits<W>::infinity() : std::numeric_limits<W>::max());
    return static_cast<T>(static_cast<W>(0));
  }
}

void scatter_into(const char* op, const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                  Reduction::Kind kind, bool include_self, const Tensor& result) {
  Tensor copy = writable_copy(self, result), out = as_rows(copy), from = as_rows(src);
  dim = wrap_dim(dim, out.dim());
  by_dtype(op, self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = static_cast<T*>(out.data());
    const T* with = static_cast<const T*>(from.data());
    std::vector<int64_t> counts;
    if (kind == Reduction::mean) counts.assign(static_cast<size_t>(out.int_numel()), include_self ? 1 : 0);
    if (!include_self) {
      for_each_index(out, dim, index, from, false, [&](int64_t o, int64_t) { to[o] = neutral<T>(kind); });
    }
    if (kind == Reduction::sum)
      for_each_index(out, dim, index, from, false, [to, with](int64_t o, int64_t s) {
        to[o] = reduce_two<T>(Reduction::sum, to[o], with[s]);
      });
    else if (kind == Reduction::replace)
      for_each_index(out, dim, index, from, false, [to, with](int64_t o, int64_t s) { to[o] = with[s]; });
    else
      for_each_index(out, dim, index, from, false, [&](int64_t o, int64_t s) {
        to[o] = reduce_two<T>(kind, to[o], with[s]);
        if (!counts.empty()) ++counts[static_cast<size_t>(o)];
      });
    for (size_t o = 0; o < counts.size(); ++o) {
      if (counts[o] <= 1) continue;
      if constexpr (std::is_same_v<T, bool>)
        continue;
      else if constexpr (std::is_integral_v<T>) {
        // Rounds down, as PyTorch divides integers here.
        T n = static_cast<T>(counts[o]), q = static_cast<T>(to[o] / n);
        to[o] = static_cast<T>(q - ((to[o] % n != 0 && (to[o] < 0)) ? 1 : 0));
      } else {
        using W = wide_t<T>;
        to[o] = static_cast<T>(static_cast<W>(to[o]) / static_cast<W>(static_cast<float>(counts[o])));
      }
    }
  });
  if (!copy.is_same(result)) copy_elements(copy, result);
}
Tensor number_like(const Tensor& index, const Scalar& value, DType dtype) {
  Tensor one = tensor(value, {.dtype = dtype});
  return one.as_view(Dims(index.sizes()), Dims(index.sizes().size(), SymInt(0)));
}

}  // namespace

Shapes shape_gather(const args::gather& a) {
  int64_t dim = wrap_dim(a.dim, a.self.dim());
  check_gather("gather", a.self, dim, a.index, nullptr);
  return {Shape(a.index.sizes(), a.self.dtype())};
}
void kernel_gather(const args::gather& a, Out out) {
  if (out[0].int_numel() == 0) return;
  const Tensor one = a.self.dim() == 0 ? as_rows(a.self) : Tensor(),
               only = out[0].dim() == 0 ? as_rows(out[0]) : Tensor();
  const Tensor &self = one.defined() ? one : a.self, &result = only.defined() ? only : out[0];
  int64_t dim = wrap_dim(a.dim, self.dim());
  by_element_size(self.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* from = static_cast<const T*>(self.data());
    T* to = static_cast<T*>(result.data());
    for_each_index(self, dim, a.index, result, true, [from, to](int64_t s, int64_t o) { to[o] = from[s]; });
  });
}
Tensor body_take_along_dim(const args::take_along_dim& a) {
  auto from_front = [](const Tensor& indices, SymInt size) { return remainder(indices, Scalar(size)); };
  if (a.indices.dtype() != kLong && a.indices.dtype() != kInt)
    fail("gather(): Expected dtype int32/int64 for index");
  if (!a.dim) return gather(reshape(a.self, {-1}), 0, from_front(reshape(a.indices, {-1}), a.self.numel()));
  int64_t dim = wrap_dim(*a.dim, a.self.dim());
  if (a.self.dim() != a.indices.dim())
    failf(
        "torch.take_along_dim(): input and indices should have the same number of dimensions, but got {} "
        "dimensions for input, "
        "and {} dimensions for indices",
        a.self.dim(), a.indices.dim());
  Dims s(a.self.sizes()), i(a.indices.sizes());
  s[dim] = i[dim];
  Dims common = broadcast_sizes(s, i), whole = common;
  whole[dim] = a.self.sizes()[dim];
  return gather(expand(a.self, whole), dim, from_front(expand(a.indices, common), whole[dim]));
}

Shapes shape_scatter_src(const args::scatter_src& a) {
  check_gather("scatter", a.self, wrap_dim(a.dim, a.self.dim()), a.index, &a.src);
  return {Shape(a.self.sizes(), a.self.dtype())};
}
void kernel_scatter_src(const args::scatter_src& a, Out out) {
  scatter_into("scatter", a.self, a.dim, a.index, a.src, Reduction::replace, true, out[0]);
}
Shapes shape_scatter_value(const args::scatter_value& a) {
  check_gather("scatter", a.self, wrap_dim(a.dim, a.self.dim()), a.index, nullptr);
  return {Shape(a.self.sizes(), a.self.dtype())};
}
void kernel_scatter_value(const args::scatter_value& a, Out out) {
  scatter_into("scatter", a.self, a.dim, a.index, number_like(a.index, a.value, a.self.dtype()),
               Reduction::replace, true, out[0]);
}
Shapes shape_scatter_reduce(const args::scatter_reduce& a) {
  check_gather("scatter", a.self, wrap_dim(a.dim, a.self.dim()), a.index, &a.src);
  reduction("scatter", a.reduce, true);
  return {Shape(a.self.sizes(), a.self.dtype())};
}
void kernel_scatter_reduce(const args::scatter_reduce& a, Out out) {
  scatter_into("scatter", a.self, a.dim, a.index, a.src, reduction("scatter", a.reduce, true), true, out[0]);
}
Shapes shape_scatter_value_reduce(const args::scatter_value_reduce& a) {
  check_gather("scatter", a.self, wrap_dim(a.dim, a.self.dim()), a.index, nullptr);
  reduction("scatter", a.reduce, true);
  return {Shape(a.self.sizes(), a.self.dtype())};
}
void kernel_scatter_value_reduce(const args::scatter_value_reduce& a, Out out) {
  scatter_into("scatter", a.self, a.dim, a.index, number_like(a.index, a.value, a.self.dtype()),
               reduction("scatter", a.reduce, true), true, out[0]);
}
Shapes shape_scatter_add(const args::scatter_add& a) {
  check_gather("scatter_add", a.self, wrap_dim(a.dim, a.self.dim()), a.index, &a.src);
  return {Shape(a.self.sizes(), a.self.dtype())};
}
void kernel_scatter_add(const args::scatter_add& a, Out out) {
  scatter_into("scatter_add", a.self, a.dim, a.index, a.src, Reduction::sum, true, out[0]);
}
Shapes shape_scatter_reduce_two(const args::scatter_reduce_two& a) {
  check_gather("scatter_reduce", a.self, wrap_dim(a.dim, a.self.dim()), a.index, &a.src);
  reduction("scatter_reduce", a.reduce, false);
  return {Shape(a.self.sizes(), a.self.dtype())};
}
void kernel_scatter_reduce_two(const args::scatter_reduce_two& a, Out out) {
  const auto kind = reduction("scatter_reduce", a.reduce, false);
  if (kind == Reduction::mean && a.self.dtype() == kBool && a.index.int_numel() > 0)
    not_implemented_for("scatter_gather_tensor_cpu_reduce_mean", kBool);
  scatter_into("scatter_reduce", a.self, a.dim, a.index, a.src, kind, a.include_self, out[0]);
}

std::tuple<Tensor, Tensor> scatter_reduce_backward(const Tensor& grad, const Tensor& self, int64_t dim,
                                                   const Tensor& index, const Tensor& src,
                                                   std::string_view reduce, bool include_self,
                                                   const Tensor& result) {
  Tensor grad_self, grad_src;
  auto part = [&](const Tensor& t) { return gather(t, dim, index); };
  if (reduce == "sum") {
    grad_self = grad;
    grad_src = part(grad);
  } else if (reduce == "mean") {
    Tensor ones = ones_like(src), count = include_self ? ones_like(self) : zeros_like(self);
    count = scatter_add(count, dim, index, ones);
    count = masked_fill(count, count == 0, 1);
    grad_self = grad / count;
    grad_src = part(grad) / part(count);
  } else if (reduce == "prod") {
    // The product of the others: result over the factor, and where factors are zero counted by hand.
    Tensor start = include_self ? self : scatter(self, dim, index, 1);
    Tensor zero_self = start == 0, zero_src = src == 0;
    Tensor zeros_in = scatter_add(to(zero_self, self.dtype()), dim, index, to(zero_src, self.dtype()));
    Tensor rest = scatter_reduce(masked_fill(start, zero_self, 1), dim, index, masked_fill(src, zero_src, 1),
                                 "prod", true);
    Tensor none = zeros_in == 0, one = zeros_in == 1;
    Tensor others_self =
        where(none, result / masked_fill(start, zero_self, 1), where(logical_and(one, zero_self), rest, 0));
    grad_self = grad * others_self;
    Tensor none_at = part(to(none, kFloat)) != 0, one_at = part(to(one, kFloat)) != 0;
    Tensor others_src = where(none_at, part(result) / masked_fill(src, zero_src, 1),
                              where(logical_and(one_at, zero_src), part(rest), 0));
    grad_src = part(grad) * others_src;
  } else {
    Tensor value = part(result), self_is = to(self == result, grad.dtype()),
           src_is = to(src == value, grad.dtype());
    Tensor count = scatter_add(include_self ? self_is : scatter(self_is, dim, index, 0), dim, index, src_is);
    Tensor shared = grad / masked_fill(count, count == 0, 1);
    grad_self = self_is * shared;
    grad_src = src_is * part(shared);
  }
  if (!include_self) grad_self = scatter(grad_self, dim, index, 0);
  return {grad_self, grad_src};
}

}  // namespace tern
