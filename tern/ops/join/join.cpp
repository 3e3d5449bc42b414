// Concatenation and stacking.
#include <algorithm>
#include <cstring>

#include "tern/base/format.h"
#include "tern/base/small_vector.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/formulas.h"
#include "tern/ops/join.args.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

// PyTorch's leftover from before empty shapes: a tensor of size [0] joins anything and adds nothing.
inline bool is_skipped(const Tensor& t) { return t.dim() == 1 && surely_eq(t.sizes()[0], 0); }

// Row-major tensors of the result's type, one after the other along `dim` of a row-major result: the rest is
// moving bytes. False when it is not so.
bool join_rows(Span<const Tensor> tensors, int64_t dim, const Tensor& out) {
  if (!out.is_contiguous()) return false;
  for (const Tensor& t : tensors)
    if (!t.is_contiguous() || t.dtype() != out.dtype()) return false;
  if (out.int_numel() == 0) return true;
  int64_t outer = 1;
  for (int64_t d = 0; d < dim; ++d) outer *= out.int_sizes()[d];
  auto in_one = [&](const Tensor& t) {
    return (outer == 1 ? t.int_numel() : t.int_numel() / outer) * out.element_size();
  };
  struct Part {
    const char* from;
    int64_t bytes;  // in each row of the result
  };
  SmallVector<Part, 8> parts;
  for (const Tensor& t : tensors)
    if (t.int_numel() != 0) parts.push_back({static_cast<const char*>(t.data()), in_one(t)});
  const int64_t row = in_one(out);

  char* to = static_cast<char*>(out.data());
  constexpr int64_t share = 1 << 18,
                    page = 4096;  // bytes: worth a thread, and that two threads do not both write
  if (outer == 1) {
    parallel_for(0, (row + page - 1) / page, share / page, [&](int64_t begin, int64_t end) {
      begin *= page, end = std::min(end * page, row);
      int64_t first = 0;
      for (const Part& p : parts) {
        const int64_t from = std::max(begin, first), last = std::min(end, first + p.bytes);
        if (from < last) std::memcpy(to + from, p.from + (from - first), static_cast<size_t>(last - from));
        first += p.bytes;
      }
    });
  } else {
    parallel_for(0, outer, std::max<int64_t>(1, share / row), [&](int64_t begin, int64_t end) {
      char* at = to + begin * row;
      for (int64_t i = begin; i < end; ++i)
        for (const Part& p : parts) {
          std::memcpy(at, p.from + i * p.bytes, static_cast<size_t>(p.bytes));
          at += p.bytes;
        }
    });
  }
  return true;
}

}  // namespace

Shapes shape_cat(const args::cat& a) {
  if (a.tensors.empty()) fail(ErrorKind::value, "torch.cat(): expected a non-empty list of Tensors");
  const Tensor* first = nullptr;
  int64_t position = 0;
  bool one_type = true;
  for (const Tensor& t : a.tensors) {
    if (!t.defined()) failf("torch.cat(): tensor number {} in the list is undefined", position);
    if (t.dim() == 0) failf("zero-dimensional tensor (at position {}) cannot be concatenated", position);
    if (!first && !is_skipped(t)) first = &t;
    if (first && !is_skipped(t) && t.is_meta() != first->is_meta())
      failf("Tensor on device {} is not on the expected device {}!", t.device().str(), first->device().str());
    one_type &= t.dtype() == a.tensors[0].dtype();
    ++position;
  }
  const DType dtype = one_type ? a.tensors[0].dtype() : result_type(a.tensors);
  if (!first) {
    wrap_dim(a.dim, 1);
    return {Shape(Dims{SymInt(0)}, dtype)};
  }
  int64_t dim = wrap_dim(a.dim, first->dim());
  Dims sizes(first->sizes());
  sizes[dim] = 0;
  position = 0;
  bool channels_last = true;
  for (const Tensor& t : a.tensors) {
    int64_t at = position++;
    if (is_skipped(t)) continue;
    if (t.dim() != first->dim())
      failf("Tensors must have same number of dimensions: got {} and {}", first->dim(), t.dim());
    for (int64_t d = 0; d < t.dim(); ++d) {
      if (d == dim) continue;
      if (!require_eq(t.sizes()[d], sizes[d]))
        failf(
            "Sizes of tensors must match except in dimension {}. Expected size {} but got size {} for tensor "
            "number {} in "
            "the list.",
            dim, first->sizes()[d].str(), t.sizes()[d].str(), at);
      // A concrete size says more than a symbol that was just required to equal it.
      if (t.sizes()[d].is_int()) sizes[d] = t.sizes()[d];
    }
    sizes[dim] = sizes[dim] + t.sizes()[dim];
    channels_last &= t.dim() >= 4 && channels_innermost(t);
  }
  if (channels_last) return Shape(sizes, dtype, channels_last_strides(sizes));
  return Shape(std::move(sizes), dtype);
}
void kernel_cat(const args::cat& a, Out out) {
  if (out[0].int_numel() == 0) return;
  int64_t dim = wrap_dim(a.dim, out[0].dim()), at = 0;
  if (join_rows(a.tensors, dim, out[0])) return;
  for (const Tensor& t : a.tensors) {
    if (is_skipped(t)) continue;
    int64_t n = t.int_sizes()[dim];
    copy_elements(t, slice_view(out[0], dim, at, at + n, 1));
    at += n;
  }
}

std::vector<Tensor> cat_backward(const Tensor& grad, Span<const Tensor> tensors, int64_t dim) {
  std::vector<Tensor> grads;
  dim = wrap_dim(dim, grad.dim());
  SymInt at = 0;
  for (const Tensor& t : tensors) {
    if (is_skipped(t) && grad.dim() != 1) {
      grads.push_back(zeros({0}, grad.dtype(), {}, grad.device()));
      continue;
    }
    SymInt n = t.sizes()[dim];
    grads.push_back(narrow(grad, dim, at, n));
    at = at + n;
  }
  return grads;
}

Shapes shape_stack(const args::stack& a) {
  if (a.tensors.empty()) fail("stack expects a non-empty TensorList");
  const Tensor& first = a.tensors[0];
  int64_t dim = wrap_dim(a.dim, first.dim() + 1), position = 0;
  for (const Tensor& t : a.tensors) {
    bool same = t.dim() == first.dim();
    for (int64_t d = 0; same && d < t.dim(); ++d) same = require_eq(t.sizes()[d], first.sizes()[d]);
    if (!same)
      failf("stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {}",
            str(first.sizes()), str(t.sizes()), position);
    ++position;
  }
  Dims sizes(first.sizes());
  sizes.insert(static_cast<size_t>(dim), SymInt(a.tensors.size()));
  Shape shape(std::move(sizes), result_type(a.tensors));
  // Images with channels innermost are joined as such, and the dimension is taken apart afterwards.
  bool channels_last = first.dim() >= 4 && dim < first.dim();
  for (const Tensor& t : a.tensors) channels_last = channels_last && channels_innermost(t);
  if (!channels_last) return {std::move(shape)};
  Dims joined(first.sizes());
  const SymInt one = joined[dim];
  joined[dim] = one * SymInt(a.tensors.size());
  shape.strides = channels_last_strides(joined);
  const SymInt step = shape.strides[dim];
  shape.strides.insert(static_cast<size_t>(dim), step * one);
  return {std::move(shape)};
}
void kernel_stack(const args::stack& a, Out out) {
  int64_t dim = wrap_dim(a.dim, out[0].dim()), at = 0;
  if (join_rows(a.tensors, dim, out[0])) return;
  for (const Tensor& t : a.tensors) copy_elements(t, select_view(out[0], dim, at++));
}
Tensor body_stack(const args::stack& a) {
  shape_stack(a);
  int64_t dim = wrap_dim(a.dim, a.tensors[0].dim() + 1);
  if (dim < a.tensors[0].dim()) {  // side by side, they are read as rows of their own
    Dims sizes(a.tensors[0].sizes());
    sizes.insert(static_cast<size_t>(dim), SymInt(static_cast<int64_t>(a.tensors.size())));
    return view(cat(a.tensors, dim), sizes);
  }
  std::vector<Tensor> parts;
  for (const Tensor& t : a.tensors) parts.push_back(unsqueeze(t, dim));
  return cat(parts, dim);
}

namespace {
template <class F>
std::vector<Tensor> each(Span<const Tensor> tensors, F&& f) {
  std::vector<Tensor> list;
  for (const Tensor& t : tensors) list.push_back(f(t));
  return list;
}
}  // namespace

Tensor body_hstack(const args::hstack& a) {
  if (a.tensors.empty()) fail("hstack expects a non-empty TensorList");
  std::vector<Tensor> list = each(a.tensors, [](const Tensor& t) { return atleast_1d(t); });
  return cat(list, list[0].dim() == 1 ? 0 : 1);
}
Tensor body_vstack(const args::vstack& a) {
  if (a.tensors.empty()) fail("vstack expects a non-empty TensorList");
  return cat(each(a.tensors, [](const Tensor& t) { return atleast_2d(t); }), 0);
}
Tensor body_dstack(const args::dstack& a) {
  if (a.tensors.empty()) fail("dstack expects a non-empty TensorList");
  return cat(each(a.tensors, [](const Tensor& t) { return atleast_3d(t); }), 2);
}
Tensor body_column_stack(const args::column_stack& a) {
  if (a.tensors.empty()) fail("column_stack expects a non-empty TensorList");
  return hstack(each(a.tensors, [](const Tensor& t) {
    return t.dim() <= 1 ? reshape(t, {t.numel(), 1}) : t;
  }));
}
Tensor body_atleast_2d(const args::atleast_2d& a) {
  if (a.self.dim() == 0) return reshape(a.self, {1, 1});
  return a.self.dim() == 1 ? unsqueeze(a.self, 0) : a.self;
}
Tensor body_atleast_3d(const args::atleast_3d& a) {
  if (a.self.dim() == 0) return reshape(a.self, {1, 1, 1});
  if (a.self.dim() == 1) return unsqueeze(unsqueeze(a.self, 0), -1);
  return a.self.dim() == 2 ? unsqueeze(a.self, -1) : a.self;
}

std::vector<Tensor> body_atleast_1d_Sequence(const args::atleast_1d_Sequence& a) {
  return each(a.tensors, [](const Tensor& t) { return atleast_1d(t); });
}
std::vector<Tensor> body_atleast_2d_Sequence(const args::atleast_2d_Sequence& a) {
  return each(a.tensors, [](const Tensor& t) { return atleast_2d(t); });
}
std::vector<Tensor> body_atleast_3d_Sequence(const args::atleast_3d_Sequence& a) {
  return each(a.tensors, [](const Tensor& t) { return atleast_3d(t); });
}

}  // namespace tern
