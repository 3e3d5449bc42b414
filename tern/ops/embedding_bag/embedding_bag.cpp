// Bags of rows of a table: offsets say where each bag's indices begin.
#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/embedding_bag.args.h"

namespace tern {
namespace {

enum : int64_t { sum_mode, mean_mode, max_mode };

template <class A>
bool sums_directly(const A& a) {  // PyTorch then does not say which bag an index belongs to
  DType d = a.weight.dtype();
  return a.mode == sum_mode && a.padding_idx < 0 && (d == kFloat || d == kHalf || d == kBFloat16) &&
         surely_eq(a.weight.stride(1), 1) &&
         (!a.per_sample_weights.defined() || surely_eq(a.per_sample_weights.stride(0), 1));
}

template <class A>
Shapes bag_shapes(const A& a, bool forward_only) {
  if (a.weight.dim() != 2) failf("'weight' must be 2-D, got {}", str(a.weight.sizes()));
  if (a.indices.dim() != 1)
    failf("embedding_bag: input has to be a 1D or 2D Tensor, but got Tensor of dimension {}",
          a.indices.dim());
  if (a.offsets.dim() != 1)
    failf("embedding_bag: offsets has to be a 1D Tensor, but got Tensor of dimension {}", a.offsets.dim());
  for (const Tensor* t : {&a.indices, &a.offsets})
    if (t->dtype() != kLong && t->dtype() != kInt)
      failf(
          "Expected tensor for argument to have one of the following scalar types: Long, Int; but got {} "
          "instead",
          script_name(t->dtype()));
  if (a.mode < 0 || a.mode > 2)
    failf("embedding_bag: mode must be 0 (sum), 1 (mean) or 2 (max), got {}", a.mode);
  if (a.per_sample_weights.defined()) {
    if (a.mode != sum_mode)
      fail(
          "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for "
          "mode='sum' (got another mode). Please open a feature request on GitHub.");
    if (a.per_sample_weights.dtype() != a.weight.dtype())
      failf("expected scalar type {} for per_sample_weights but got {}", script_name(a.weight.dtype()),
            script_name(a.per_sample_weights.dtype()));
    if (a.per_sample_weights.dim() != 1 || a.per_sample_weights.size(0) != a.indices.size(0))
      failf("expected per_sample_weights to be of the shape of the indices, got {} and {}",
            str(a.per_sample_weights.sizes()), str(a.indices.sizes()));
  }
  if (a.include_last_offset && surely_eq(a.offsets.size(0), 0))
    fail("include_last_offset: number of offset should be at least 1");
  DType index = a.indices.dtype() == kLong || a.offsets.dtype() == kLong ? kLong : kInt;
  SymInt bags = a.offsets.size(0) - (a.include_last_offset ? 1 : 0);
  SymInt counted = forward_only && a.mode == sum_mode ? a.offsets.size(0) : bags;
  Dims maxima = a.mode == max_mode ? Dims({bags, a.weight.size(1)}) : Dims({counted});
  return {Shape(Dims({bags, a.weight.size(1)}), a.weight.dtype()),
          Shape(Dims({sums_directly(a) ? SymInt(0) : a.indices.size(0)}), index),
          Shape(Dims({counted}), index), Shape(maxima, index)};
}

// Begin and end of each bag; throws where they are not within the indices.
std::vector<int64_t> bag_limits(const Tensor& offsets, int64_t indices, bool include_last) {
  std::vector<int64_t> limits = offsets.to_vector<int64_t>();
  if (limits.empty()) return {0};
  if (limits[0] != 0)
    failf(
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
        "However, got {}",
        limits[0]);
  int64_t last = limits.back();
  if (last > indices)
    failf("offsets[-1] can not be greater than input's length({}) but got offsets[-1] of {}", indices, last);
  if (!include_last) limits.push_back(indices);
  for (size_t i = 1; i < limits.size(); ++i)
    if (limits[i] < limits[i - 1]) fail("embedding_bag: offsets must not decrease");
  return limits;
}

template <class A>
void bags(const A& a, Out out) {
  Tensor weight = row_major(a.weight), indices = index_values(a.indices);
  const int64_t rows = weight.int_sizes()[0], width = weight.int_sizes()[1], count = indices.int_numel();
  std::vector<int64_t> limits = bag_limits(a.offsets, count, a.include_last_offset);
  const int64_t n = out[0].int_sizes()[0];
  Tensor sample_weights = a.per_sample_weights.defined() ? row_major(a.per_sample_weights) : Tensor();
  Tensor bag_of = make_tensor({count}, kLong), sizes = make_tensor({n}, kLong),
         maxima = make_tensor({n, width}, kLong);
  fill_elements(maxima, 0);
  const int64_t* index = indices.data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i)
    if (index[i] < 0 || index[i] >= rows)
      failf("embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {}", index[i]);
  by_float_dtype("embedding_bag", weight.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    parallel_for(0, n, std::max<int64_t>(1, 4096 / (width + 1)), [&](int64_t begin, int64_t end) {
      std::vector<W> total(static_cast<size_t>(width));
      for (int64_t b = begin; b < end; ++b) {
        std::fill(total.begin(), total.end(), W(0));
        int64_t seen = 0;
        for (int64_t i = limits[static_cast<size_t>(b)]; i < limits[static_cast<size_t>(b) + 1]; ++i) {
          bag_of.data_ptr<int64_t>()[i] = b;
          if (index[i] == a.padding_idx) continue;
          const T* row = static_cast<const T*>(weight.data()) + index[i] * width;
          const W scale = sample_weights.defined()
                              ? static_cast<W>(static_cast<const T*>(sample_weights.data())[i])
                              : W(1);
          for (int64_t k = 0; k < width; ++k) {
            W v = static_cast<W>(row[k]);
            W& to = total[static_cast<size_t>(k)];
            if (a.mode != max_mode) {
              to += scale * v;
            } else if (seen == 0 || v > to) {
              to = v;
              maxima.data_ptr<int64_t>()[b * width + k] = index[i];
            }
          }
          ++seen;
        }
        sizes.data_ptr<int64_t>()[b] = seen;
        T* to = static_cast<T*>(out[0].data()) + b * width;
        for (int64_t k = 0; k < width; ++k)
          to[k] = static_cast<T>(a.mode == mean_mode && seen
                                     ? total[static_cast<size_t>(k)] / static_cast<W>(seen)
                                     : total[static_cast<size_t>(k)]);
      }
    });
  });
  if (out[1].int_numel()) copy_elements(bag_of, out[1]);
  if (a.mode == sum_mode) {
    fill_elements(out[2], 0);
    fill_elements(out[3], 0);
  } else {
    copy_elements(sizes, out[2]);
    copy_elements(a.mode == max_mode ? maxima : sizes, out[3]);
  }
}

// The bag of each index where the forward pass did not say.
Tensor bags_of(const Tensor& offset2bag, const Tensor& indices, const Tensor& offsets) {
  if (surely_eq(offset2bag.numel(), indices.numel())) return offset2bag;
  Tensor steps = index_add(zeros({indices.size(0) + 1}, offsets.dtype(), {}, offsets.device()), 0, offsets,
                           ones_like(offsets));
  return slice(cumsum(steps, 0) - 1, 0, 0, indices.size(0)).to(indices.dtype());
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor, Tensor> body_embedding_bag_padding_idx(
    const args::embedding_bag_padding_idx& a) {
  int64_t padding = -1;
  if (a.padding_idx) {
    int64_t rows = a.weight.size(0).guard_int();
    if (*a.padding_idx < -rows || *a.padding_idx >= rows)
      failf("padding_idx must be within the number of embeddings, -{} through {}, but got {}", rows, rows - 1,
            *a.padding_idx);
    padding = *a.padding_idx < 0 ? *a.padding_idx + rows : *a.padding_idx;
  }
  Tensor indices = a.indices, offsets = a.offsets;
  bool trained =
      a.weight.requires_grad() || (a.per_sample_weights.defined() && a.per_sample_weights.requires_grad());
  if (!trained)
    return _embedding_bag_forward_only(a.weight, indices, offsets, a.scale_grad_by_freq, a.mode, a.sparse,
                                       a.per_sample_weights, a.include_last_offset, padding);
  return _embedding_bag(a.weight, indices, offsets, a.scale_grad_by_freq, a.mode, a.sparse,
                        a.per_sample_weights, a.include_last_offset, padding);
}

Shapes shape__embedding_bag(const args::_embedding_bag& a) { return bag_shapes(a, false); }
void kernel__embedding_bag(const args::_embedding_bag& a, Out out) { bags(a, out); }
Shapes shape__embedding_bag_forward_only(const args::_embedding_bag_forward_only& a) {
  return bag_shapes(a, true);
}
void kernel__embedding_bag_forward_only(const args::_embedding_bag_forward_only& a, Out out) { bags(a, out); }

Tensor body__embedding_bag_backward(const args::_embedding_bag_backward& a) {
  // There is no sparse layout here: sparse=True gives the same numbers, dense, as embedding does.
  return _embedding_bag_dense_backward(a.grad, a.indices, bags_of(a.offset2bag, a.indices, a.offsets),
                                       a.bag_size, a.maximum_indices, a.num_weights, a.scale_grad_by_freq,
                                       a.mode, a.per_sample_weights, a.padding_idx);
}

Shapes shape__embedding_bag_dense_backward(const args::_embedding_bag_dense_backward& a) {
  return {Shape(Dims({a.num_weights, a.grad.size(1)}), a.grad.dtype())};
}
void kernel__embedding_bag_dense_backward(const args::_embedding_bag_dense_backward& a, Out out) {
  Tensor grad = row_major(a.grad), indices = index_values(a.indices), bag_of = index_values(a.offset2bag),
         sizes = index_values(a.bag_size), maxima = index_values(a.maximum_indices);
  const int64_t rows = out[0].int_sizes()[0], width = out[0].int_sizes()[1], count = indices.int_numel();
  const int64_t bags = grad.int_sizes()[0];
  Tensor samples = a.per_sample_weights.defined() ? row_major(a.per_sample_weights) : Tensor();
  const int64_t* index = indices.data_ptr<int64_t>();
  std::vector<int64_t> uses(a.scale_grad_by_freq ? static_cast<size_t>(rows) : 0);
  auto check = [&](int64_t row) {
    if (row < 0 || row >= rows)
      failf("embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {}", row);
  };
  for (int64_t i = 0; i < count; ++i) {
    check(index[i]);
    if (!uses.empty()) ++uses[static_cast<size_t>(index[i])];
  }
  by_float_dtype("embedding_bag_backward", grad.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    std::vector<W> sum(static_cast<size_t>(rows * width), W(0));
    const T* g = static_cast<const T*>(grad.data());
    if (a.mode == max_mode) {
      for (int64_t b = 0; b < bags; ++b) {
        if (sizes.data_ptr<int64_t>()[b] == 0) continue;
        for (int64_t k = 0; k < width; ++k) {
          int64_t row = maxima.data_ptr<int64_t>()[b * width + k];
          check(row);
          sum[static_cast<size_t>(row * width + k)] += static_cast<W>(g[b * width + k]);
        }
      }
    } else {
      for (int64_t i = 0; i < count; ++i) {
        if (index[i] == a.padding_idx) continue;
        const int64_t b = bag_of.data_ptr<int64_t>()[i];
        if (b < 0 || b >= bags) fail("embedding_bag: offset2bag names a bag that is not there");
        W scale = samples.defined() ? static_cast<W>(static_cast<const T*>(samples.data())[i]) : W(1);
        if (!uses.empty()) scale /= static_cast<W>(uses[static_cast<size_t>(index[i])]);
        if (a.mode == mean_mode) scale /= static_cast<W>(std::max<int64_t>(sizes.data_ptr<int64_t>()[b], 1));
        for (int64_t k = 0; k < width; ++k)
          sum[static_cast<size_t>(index[i] * width + k)] += scale * static_cast<W>(g[b * width + k]);
      }
    }
    T* to = static_cast<T*>(out[0].data());
    for (size_t i = 0; i < sum.size(); ++i) to[i] = static_cast<T>(sum[i]);
  });
}

Shapes shape__embedding_bag_per_sample_weights_backward(
    const args::_embedding_bag_per_sample_weights_backward& a) {
  if (a.mode != sum_mode) fail("embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  if (a.grad.dim() != 2 || a.weight.dim() != 2 || a.grad.size(1) != a.weight.size(1) ||
      a.grad.dtype() != a.weight.dtype())
    failf(
        "embedding_bag_backward: grad and weight must be matrices of one width and type, but are {} of {} "
        "and {} of {}",
        str(a.grad.sizes()), script_name(a.grad.dtype()), str(a.weight.sizes()),
        script_name(a.weight.dtype()));
  if (a.indices.dim() != 1)
    failf("embedding_bag_backward: indices must be a vector, but are of shape {}", str(a.indices.sizes()));
  return {Shape(a.indices.sizes(), a.grad.dtype())};
}
void kernel__embedding_bag_per_sample_weights_backward(
    const args::_embedding_bag_per_sample_weights_backward& a, Out out) {
  Tensor grad = row_major(a.grad), weight = row_major(a.weight), indices = index_values(a.indices);
  const int64_t count = indices.int_numel(), width = weight.int_sizes()[1], rows = weight.int_sizes()[0];
  std::vector<int64_t> bag(static_cast<size_t>(count));
  if (a.offset2bag.int_numel() == count) {
    bag = a.offset2bag.to_vector<int64_t>();
  } else {
    std::vector<int64_t> begin = a.offsets.to_vector<int64_t>();
    begin.push_back(count);
    for (size_t b = 0; b + 1 < begin.size(); ++b)
      for (int64_t i = std::max<int64_t>(begin[b], 0); i < std::min(begin[b + 1], count); ++i)
        bag[static_cast<size_t>(i)] = static_cast<int64_t>(b);
  }
  by_float_dtype("embedding_bag_per_sample_weights_backward", grad.dtype(), [&]<class T>(T) {
    using W = wide_t<T>;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = indices.data_ptr<int64_t>()[i], b = bag[static_cast<size_t>(i)];
      if (row < 0 || row >= rows || b < 0 || b >= grad.int_sizes()[0])
        fail("embedding_bag: an index or a bag is out of range");
      W sum = 0;
      if (row != a.padding_idx)
        for (int64_t k = 0; k < width; ++k)
          sum += static_cast<W>(static_cast<const T*>(grad.data())[b * width + k]) *
                 static_cast<W>(static_cast<const T*>(weight.data())[row * width + k]);
      static_cast<T*>(out[0].data())[i] = static_cast<T>(sum);
    }
  });
}

}  // namespace tern
