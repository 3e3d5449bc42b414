// Reductions of segments: along the axis each row before it has its own, one behind the other. And a hash.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/segment.args.h"

namespace tern {
namespace {

enum class How : uint8_t { sum, mean, max, min, prod };

How how_of(std::string_view name) {
  if (name == "sum") return How::sum;
  if (name == "mean") return How::mean;
  if (name == "max" || name == "amax") return How::max;
  if (name == "min" || name == "amin") return How::min;
  if (name == "prod") return How::prod;
  failf("reduce argument must be either sum, prod, mean, amax or amin, got {}", name);
}

// How many segments each row has; checks what sizes alone tell.
SymInt segment_count(const Tensor& data, const Tensor& lengths, const Tensor& offsets, int64_t axis) {
  if (!lengths.defined() && !offsets.defined())
    fail("segment_reduce(): Either lengths or offsets must be defined.");
  const Tensor& bounds = offsets.defined() ? offsets : lengths;
  const char* what = offsets.defined() ? "offsets" : "lengths";
  if (bounds.dtype() != kLong && bounds.dtype() != kInt)
    not_implemented_for(
        offsets.defined() ? "_segment_reduce_offsets_cpu_kernel1" : "_segment_reduce_lengths_cpu_kernel1",
        bounds.dtype());
  if (data.dim() < bounds.dim() || data.dim() == 0)
    failf("segment_reduce(): Expected data to have at least as many dimensions as {}, but got {} and {}.",
          what, data.dim(), bounds.dim());
  if (axis != bounds.dim() - 1)
    failf("segment_reduce(): Expected axis to be the last dimension of {} but got {}.", what, axis);
  for (int64_t d = 0; d < axis; ++d)
    if (!(bounds.size(d) == data.size(d)))
      failf("segment_reduce(): Expected {} to have the sizes of data before axis {}, but got {} for {}.",
            what, axis, str(bounds.sizes()), str(data.sizes()));
  SymInt n = bounds.size(axis);
  if (!offsets.defined()) return n;
  if (!surely_le(1, n) && n < 1) fail("segment_reduce(): Expected offsets to hold at least one element.");
  return n - 1;
}

// Where each segment begins along the axis, row by row, and its end behind it: count + 1 numbers a row.
// Throws where a segment is not within the axis.
std::vector<int64_t> segment_bounds(const Tensor& lengths, const Tensor& offsets, int64_t count, int64_t rows,
                                    int64_t size, bool whole) {
  const bool given = offsets.defined();
  std::vector<int64_t> from = (given ? offsets : lengths).to_vector<int64_t>(), bounds;
  bounds.reserve(static_cast<size_t>(rows * (count + 1)));
  for (int64_t r = 0; r < rows; ++r) {
    int64_t at = 0;
    for (int64_t s = 0; s <= count; ++s) {
      if (given) {
        const int64_t next = from[static_cast<size_t>(r * (count + 1) + s)];
        if (next < at || next > size)
          failf(
              "segment_reduce(): Expected offsets that do not decrease and lie within 0 and {}, but got {}.",
              size, next);
        at = next;
      }
      bounds.push_back(at);
      if (given || s == count) continue;
      const int64_t length = from[static_cast<size_t>(r * count + s)];
      if (length < 0) fail("lengths contains negative value!");
      if (length > size - at || (whole && s + 1 == count && at + length != size))
        fail(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) "
            "when "
            "!unsafe.");
      at += length;
    }
  }
  return bounds;
}

// What a reduction starts with.
template <class W>
W start_of(How how, const std::optional<Scalar>& initial) {
  if (initial) return static_cast<W>(initial->to_double());
  if (how == How::max) return -std::numeric_limits<W>::infinity();
  if (how == How::min) return std::numeric_limits<W>::infinity();
  return W(how == How::prod ? 1 : 0);
}

}  // namespace

Shapes shape_segment_reduce(const args::segment_reduce& a) {
  how_of(a.reduce);
  if (a.indices.defined()) fail("segment_reduce(): indices based reduction is not supported yet.");
  const int64_t axis = wrap_dim(a.axis, a.data.dim());
  Dims sizes(a.data.sizes());
  SymInt count = segment_count(a.data, a.lengths, a.offsets, axis);
  sizes[static_cast<size_t>(axis)] = count;
  return {Shape(std::move(sizes), a.data.dtype())};
}
void kernel_segment_reduce(const args::segment_reduce& a, Out out) {
  const How how = how_of(a.reduce);
  Tensor data = row_major(a.data);
  const Rows rows = rows_around(data, wrap_dim(a.axis, data.dim()));
  const int64_t count = out[0].int_sizes()[wrap_dim(a.axis, data.dim())];
  const std::vector<int64_t> bounds =
      segment_bounds(a.lengths, a.offsets, count, rows.outer, rows.size, !a.unsafe);
  by_float_dtype("_segment_reduce_cpu", data.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    const W start = start_of<W>(how, a.initial);
    parallel_for(0, rows.outer * count, 64, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t* limits = bounds.data() + k / count * (count + 1) + k % count;
        const T* from = static_cast<const T*>(data.data()) + k / count * rows.size * rows.inner;
        for (int64_t j = 0; j < rows.inner; ++j) {
          W total = start;
          for (int64_t i = limits[0]; i < limits[1]; ++i) {
            const W v = static_cast<W>(from[i * rows.inner + j]);
            if (how == How::max)
              total = std::isnan(v) ? v : std::max(total, v);
            else if (how == How::min)
              total = std::isnan(v) ? v : std::min(total, v);
            else
              total = how == How::prod ? total * v : total + v;
          }
          const int64_t length = limits[1] - limits[0];
          if (how == How::mean) {
            if (length > 0)
              total /= static_cast<W>(length);
            else if (!a.initial)
              total = std::numeric_limits<W>::quiet_NaN();
          }
          static_cast<T*>(out[0].data())[k * rows.inner + j] = static_cast<T>(total);
        }
      }
    });
  });
}

Shapes shape__segment_reduce_backward(const args::_segment_reduce_backward& a) {
  how_of(a.reduce);
  const int64_t axis = wrap_dim(a.axis, a.data.dim());
  Dims sizes(a.data.sizes());
  sizes[static_cast<size_t>(axis)] = segment_count(a.data, a.lengths, a.offsets, axis);
  for (const Tensor* t : {&a.grad, &a.output}) {
    bool same = t->dim() == a.data.dim();
    for (int64_t d = 0; same && d < t->dim(); ++d) same = t->size(d) == sizes[static_cast<size_t>(d)];
    if (!same)
      failf("_segment_reduce_backward: expected grad and output of sizes {}, but got {}", str(sizes),
            str(t->sizes()));
    if (t->dtype() != a.data.dtype())
      failf("expected scalar type {} but found {}", script_name(a.data.dtype()), script_name(t->dtype()));
  }
  return {Shape(a.data.sizes(), a.data.dtype())};
}
void kernel__segment_reduce_backward(const args::_segment_reduce_backward& a, Out out) {
  const How how = how_of(a.reduce);
  Tensor data = row_major(a.data), grads = row_major(a.grad), results = row_major(a.output);
  const Rows rows = rows_around(data, wrap_dim(a.axis, data.dim()));
  const int64_t count = grads.int_sizes()[wrap_dim(a.axis, data.dim())];
  const std::vector<int64_t> bounds =
      segment_bounds(a.lengths, a.offsets, count, rows.outer, rows.size, false);
  fill_elements(out[0], 0);
  by_float_dtype("_segment_reduce_cpu", data.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    const W start = start_of<W>(How::prod, a.initial);
    parallel_for(0, rows.outer * count, 64, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t* limits = bounds.data() + k / count * (count + 1) + k % count;
        const int64_t row = k / count * rows.size * rows.inner;
        const T* from = static_cast<const T*>(data.data()) + row;
        T* to = static_cast<T*>(out[0].data()) + row;
        for (int64_t j = 0; j < rows.inner; ++j) {
          const W grad = static_cast<W>(static_cast<const T*>(grads.data())[k * rows.inner + j]);
          const W result = static_cast<W>(static_cast<const T*>(results.data())[k * rows.inner + j]);
          auto value = [&](int64_t i) { return static_cast<W>(from[i * rows.inner + j]); };
          auto put = [&](int64_t i, W v) { to[i * rows.inner + j] = static_cast<T>(v); };
          auto wins = [&](int64_t i) { return std::isnan(value(i)) || value(i) == result; };
          int64_t winners = 0;
          if (how == How::max || how == How::min)
            for (int64_t i = limits[0]; i < limits[1]; ++i) winners += wins(i);
          for (int64_t i = limits[0]; i < limits[1]; ++i) {
            if (how == How::sum) {
              put(i, grad);
            } else if (how == How::mean) {
              put(i, grad / static_cast<W>(limits[1] - limits[0]));
            } else if (how != How::prod) {
              if (wins(i)) put(i, grad / static_cast<W>(winners));
            } else if (value(i) == 0 || std::isnan(value(i))) {
              W others = start;
              for (int64_t m = limits[0]; m < limits[1]; ++m)
                if (m != i) others *= value(m);
              put(i, grad * others);
            } else {
              put(i, grad * result / value(i));
            }
          }
        }
      }
    });
  });
}

Shapes shape_hash_tensor(const args::hash_tensor& a) {
  if (a.mode != 0) failf("Unknown hash_tensor mode: {}", a.mode);
  if (a.dim.empty() && surely_eq(a.self.numel(), 0))
    fail(
        "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction "
        "dim with "
        "the 'dim' argument.");
  return {Shape(reduced_sizes(a.self.sizes(), dim_mask(a.dim, a.self.dim()), a.keepdim), DType::uint64)};
}
void kernel_hash_tensor(const args::hash_tensor& a, Out out) {
  const uint64_t mask = dim_mask(a.dim, a.self.dim());
  fill_elements(out[0], 0);
  // Strides of the result for each dimension of self; none along what is reduced.
  std::vector<int64_t> strides(static_cast<size_t>(a.self.dim()), 0);
  int64_t step = 1;
  for (int64_t d = a.self.dim(); d-- > 0;) {
    if (mask >> d & 1) continue;
    strides[static_cast<size_t>(d)] = step;
    step *= a.self.int_sizes()[d];
  }
  uint64_t* to = static_cast<uint64_t*>(out[0].data());
  by_real_dtype("xor_sum_cpu", a.self.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    Walk<2> walk(a.self.dim(), a.self.int_sizes());
    walk.operand(0, a.self.int_strides());
    walk.operand(1, strides.data());
    walk.seek(0);
    for (int64_t i = 0; i < a.self.int_numel(); ++i, walk.next()) {
      const W v = static_cast<W>(static_cast<const T*>(a.self.data())[walk.offset(0)]);
      if constexpr (std::is_floating_point_v<W>)
        to[walk.offset(1)] ^= std::bit_cast<uint64_t>(static_cast<double>(v));
      else
        to[walk.offset(1)] ^= static_cast<uint64_t>(static_cast<int64_t>(v));
    }
  });
}

}  // namespace tern
