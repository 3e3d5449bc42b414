// Advanced indexing: index and index_put.
#include <algorithm>
#include <cstring>

#include "tern/base/format.h"
#include "tern/base/wrapping.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/index.args.h"
#include "tern/ops/index/indices.h"
#include "tern/ops/view/geometry.h"

namespace tern {

IndexPlan plan_index(const Tensor& self, Span<const Tensor> indices, bool concrete) {
  IndexPlan plan;
  std::vector<Tensor> list;
  int64_t d = 0;
  for (const Tensor& t : indices) {
    if (!t.defined()) {
      ++d;
      continue;
    }
    if (t.dtype() == kBool || t.dtype() == kByte) {
      for (int64_t k = 0; k < t.dim(); ++k) {
        SymInt have = d + k < self.dim() ? self.sizes()[d + k] : SymInt(0);
        if (d + k >= self.dim() || !require_eq(t.sizes()[k], have))
          failf(ErrorKind::index,
                "The shape of the mask {} at index {} does not match the shape of the indexed tensor {} at "
                "index {}",
                str(t.sizes()), k, str(self.sizes()), d + k);
      }
      Tensor places = concrete ? nonzero_positions(t)
                               : make_tensor({unknown_size("index", t), t.dim()}, kLong, t.device(), true);
      if (t.dim() == 0)
        fail(ErrorKind::not_supported,
             "index: a mask without dimensions is not supported; unsqueeze it first");
      for (int64_t k = 0; k < t.dim(); ++k, ++d) {
        list.push_back(select_view(places, 1, k));
        plan.dims.push_back(d);
      }
      continue;
    }
    if (t.dtype() != kLong && t.dtype() != kInt)
      fail(ErrorKind::index, "tensors used as indices must be long, int, byte or bool tensors");
    list.push_back(concrete ? (t.dtype() == kLong ? t : row_major(t, kLong)) : t);
    plan.dims.push_back(d++);
  }
  if (d > self.dim())
    failf(ErrorKind::index, "too many indices for tensor of dimension {} (got {})", self.dim(), d);
  for (const Tensor& t : list) {
    try {
      plan.index_sizes = broadcast_sizes(plan.index_sizes, t.sizes());
    } catch (const Error&) {
      std::string shapes;
      for (const Tensor& i : list) shapes += (shapes.empty() ? "" : ", ") + str(i.sizes());
      failf(ErrorKind::index,
            "shape mismatch: indexing tensors could not be broadcast together with shapes {}", shapes);
    }
  }
  for (const Tensor& t : list) plan.indices.push_back(expand_view(t, plan.index_sizes));
  bool together =
      !plan.dims.empty() && plan.dims.back() - plan.dims[0] + 1 == static_cast<int64_t>(plan.dims.size());
  plan.index_at = together ? plan.dims[0] : 0;
  for (int64_t k = 0, next = 0; k <= self.dim(); ++k) {
    if (static_cast<int64_t>(plan.sizes.size()) == plan.index_at && next == 0 && !plan.dims.empty()) {
      for (SymInt s : plan.index_sizes) plan.sizes.push_back(s);
      next = 1;
    }
    if (k < self.dim() && std::find(plan.dims.begin(), plan.dims.end(), k) == plan.dims.end())
      plan.sizes.push_back(self.sizes()[k]);
  }
  return plan;
}

namespace {

// For every run of the result: where in `self` it is. Calls f(result position in row-major order, element
// offset, length, stride in self).
template <class F>
void for_each_run(const Tensor& self, const IndexPlan& plan, F&& f) {
  int64_t count = 1, inner = 1;
  for (SymInt s : plan.index_sizes) count *= s.as_int();
  // The offset each index tuple stands for.
  Tensor places = make_tensor({SymInt(count)}, kLong);
  int64_t* at = places.data_ptr<int64_t>();
  std::fill_n(at, count, 0);
  for (size_t i = 0; i < plan.indices.size(); ++i) {
    Tensor index = row_major(plan.indices[i]);
    const int64_t* p = index.data_ptr<int64_t>();
    int64_t d = plan.dims[i], size = self.int_sizes()[d], stride = self.int_strides()[d];
    for (int64_t k = 0; k < count; ++k) {
      int64_t v = p[k];
      if (v < -size || v >= size)
        failf(ErrorKind::index, "index {} is out of bounds for dimension {} with size {}", v, d, size);
      at[k] += (v < 0 ? v + size : v) * stride;
    }
  }
  // The result is [before..., indices..., after...] of the dimensions that are not indexed.
  SmallVector<int64_t, 6> sizes, strides;
  for (int64_t d = 0; d < self.dim(); ++d)
    if (std::find(plan.dims.begin(), plan.dims.end(), d) == plan.dims.end()) {
      sizes.push_back(self.int_sizes()[d]);
      strides.push_back(self.int_strides()[d]);
    }
  int64_t before = 1;
  size_t lead = static_cast<size_t>(plan.index_at);
  for (size_t d = 0; d < sizes.size(); ++d) (d < lead ? before : inner) *= sizes[d];
  Walk<1> outer(static_cast<int64_t>(lead), sizes.data());
  outer.operand(0, strides.data());
  // What lies in one piece behind the indexed dims is one run.
  int64_t run = 1, step = 1;
  size_t rest_dims = sizes.size() - lead;
  while (rest_dims > 0) {
    const size_t d = lead + rest_dims - 1;
    if (run == 1)
      step = strides[d];
    else if (sizes[d] != 1 && strides[d] != run * step)
      break;
    run *= sizes[d];
    --rest_dims;
  }
  if (inner == 0) return;
  int64_t position = 0;
  for (int64_t b = 0; b < before; ++b, outer.next())
    for (int64_t k = 0; k < count; ++k) {
      const int64_t base = outer.offset(0) + at[k];
      if (rest_dims == 0) {
        f(position, base, run, step);
        position += run;
        continue;
      }
      Walk<1> rest(static_cast<int64_t>(rest_dims), sizes.data() + lead);
      rest.operand(0, strides.data() + lead);
      for (int64_t i = 0; i < inner; i += run, rest.next(), position += run)
        f(position, base + rest.offset(0), run, step);
    }
}
template <class F>
void for_each_place(const Tensor& self, const IndexPlan& plan, F&& f) {
  for_each_run(self, plan, [&](int64_t i, int64_t offset, int64_t n, int64_t step) {
    for (int64_t j = 0; j < n; ++j) f(i + j, offset + j * step);
  });
}

bool has_mask(Span<const Tensor> indices) {
  return std::any_of(indices.begin(), indices.end(), [](const Tensor& t) {
    return t.defined() && (t.dtype() == kBool || t.dtype() == kByte);
  });
}
bool any_fake(const Tensor& self, Span<const Tensor> indices) {
  if (self.is_fake() || (thread_state.active & ~thread_state.excluded & rung_fake)) return true;
  return std::any_of(indices.begin(), indices.end(),
                     [](const Tensor& t) { return t.defined() && t.is_fake(); });
}

// The one index among them, if it is of int64: x[rows], x[:, columns], ...; -1 when there are others.
int64_t only_index(const Tensor& self, Span<const Tensor> indices) {
  int64_t found = -1;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    if (found >= 0 || indices[d].dtype() != kLong || static_cast<int64_t>(d) >= self.dim()) return -1;
    found = static_cast<int64_t>(d);
  }
  return static_cast<int64_t>(indices.size()) <= self.dim() ? found : -1;
}

// Whole rows of row-major memory.
void take_rows(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& out) {
  const Rows rows = rows_around(self, dim);
  const int64_t count = index.int_numel(), bytes = rows.inner * self.element_size();
  const int64_t* p = index.data_ptr<int64_t>();
  for (int64_t k = 0; k < count; ++k)
    if (p[k] < -rows.size || p[k] >= rows.size)
      failf(ErrorKind::index, "index {} is out of bounds for dimension {} with size {}", p[k], dim,
            rows.size);
  if (bytes == 0) return;
  const char* from = static_cast<const char*>(self.data());
  char* to = static_cast<char*>(out.data());
  for (int64_t o = 0; o < rows.outer; ++o)
    parallel_for(0, count, std::max<int64_t>(1, 65536 / bytes), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const int64_t row = p[k] < 0 ? p[k] + rows.size : p[k];
        std::memcpy(to + (o * count + k) * bytes, from + (o * rows.size + row) * bytes,
                    static_cast<size_t>(bytes));
      }
    });
}

}  // namespace

// A mask's indices are those of nonzero(mask): what export records.
Tensor body_index_Tensor(const args::index_Tensor& a) {
  if (!has_mask(a.indices)) return index(a.self, a.indices);
  std::vector<Tensor> list;
  for (const Tensor& t : a.indices) {
    if (!t.defined() || (t.dtype() != kBool && t.dtype() != kByte)) {
      list.push_back(t);
      continue;
    }
    Tensor places = nonzero(t);
    for (int64_t k = 0; k < t.dim(); ++k) list.push_back(select(places, 1, k));
  }
  return index(a.self, list);
}

Shapes shape_index_Tensor(const args::index_Tensor& a) {
  if (int64_t d = only_index(a.self, a.indices); d >= 0) {
    Dims sizes(a.self.sizes().data(), static_cast<size_t>(d));
    for (SymInt s : a.indices[static_cast<size_t>(d)].sizes()) sizes.push_back(s);
    for (int64_t k = d + 1; k < a.self.dim(); ++k) sizes.push_back(a.self.sizes()[k]);
    return {Shape(std::move(sizes), a.self.dtype())};
  }
  IndexPlan plan = plan_index(a.self, a.indices, !any_fake(a.self, a.indices));
  return {Shape(plan.sizes, a.self.dtype())};
}
void kernel_index_Tensor(const args::index_Tensor& a, Out out) {
  if (int64_t d = only_index(a.self, a.indices); d >= 0 && a.self.is_contiguous()) {
    const Tensor& index = a.indices[static_cast<size_t>(d)];
    if (index.is_contiguous()) return take_rows(a.self, d, index, out[0]);
  }
  IndexPlan plan = plan_index(a.self, a.indices, true);
  by_element_size(out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = static_cast<T*>(out[0].data());
    const T* from = static_cast<const T*>(a.self.data());
    if (out[0].int_numel() == 0) {
      for_each_place(a.self, plan, [](int64_t, int64_t) {});
      return;
    }
    for_each_run(a.self, plan, [&](int64_t i, int64_t offset, int64_t n, int64_t step) {
      if (step == 1)
        std::copy_n(from + offset, n, to + i);
      else
        for (int64_t j = 0; j < n; ++j) to[i + j] = from[offset + j * step];
    });
  });
}

namespace {

// One number at the places of one mask may be of any type: masked_fill in PyTorch.
bool fills_mask(Span<const Tensor> indices, const Tensor& values) {
  auto given = [](const Tensor& t) { return t.defined(); };
  return has_mask(indices) && std::count_if(indices.begin(), indices.end(), given) == 1 &&
         surely_eq(values.numel(), 1);
}

void check_values(const Tensor& self, Span<const Tensor> indices, const Tensor& values, bool accumulate) {
  if (values.dtype() != self.dtype() && !values->wrapped_number &&
      (accumulate || !fills_mask(indices, values)))
    failf(
        "Index put requires the source and destination dtypes match, got {} for the destination and {} for "
        "the source.",
        script_name(self.dtype()), script_name(values.dtype()));
}

}  // namespace

Shapes shape_index_put(const args::index_put& a) {
  check_values(a.self, a.indices, a.values, a.accumulate);
  bool fake = any_fake(a.self, a.indices) || a.values.is_fake();
  if (!fake || !has_mask(a.indices)) {
    IndexPlan plan = plan_index(a.self, a.indices, !fake);
    int64_t lead = static_cast<int64_t>(plan.sizes.size()) - a.values.dim();
    bool fits = true;
    for (int64_t d = 0; fits && d < a.values.dim(); ++d) {
      SymInt v = a.values.sizes()[d];
      if (lead + d < 0)
        fits = surely_eq(v, 1);
      else
        fits = surely_eq(v, 1) || require_eq(v, plan.sizes[static_cast<size_t>(lead + d)]);
    }
    if (!fits)
      failf("shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
            str(a.values.sizes()), str(plan.sizes));
  }
  return {like(a.self)};
}
void kernel_index_put(const args::index_put& a, Out out) {
  copy_elements(a.self, out[0]);
  IndexPlan plan = plan_index(out[0], a.indices, true);
  Tensor values = a.values;
  while (values.dim() > static_cast<int64_t>(plan.sizes.size())) values = select_view(values, 0, 0);
  if (values.dtype() != out[0].dtype()) values = row_major(values, out[0].dtype());
  values = row_major(expand_view(values, plan.sizes));
  if (!a.accumulate) {
    by_element_size(out[0].dtype(), [&](auto zero) {
      using T = decltype(zero);
      T* to = static_cast<T*>(out[0].data());
      const T* from = static_cast<const T*>(values.data());
      for_each_place(out[0], plan, [&](int64_t i, int64_t offset) { to[offset] = from[i]; });
    });
    return;
  }
  by_dtype("index_put", out[0].dtype(), [&](auto zero) {
    using T = decltype(zero);
    T* to = static_cast<T*>(out[0].data());
    const T* from = static_cast<const T*>(values.data());
    for_each_place(out[0], plan, [&](int64_t i, int64_t offset) {
      if constexpr (std::is_same_v<T, bool>)
        to[offset] = to[offset] || from[i];
      else
        to[offset] = wrapping_sum(to[offset], from[i]);
    });
  });
}

}  // namespace tern
