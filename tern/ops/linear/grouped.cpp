// Products of groups of rows, each with a matrix of its own.
#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/linear.args.h"

namespace tern {
namespace {

void check_offsets(const Tensor& offs, SymInt groups) {
  if (offs.dim() != 1 || (offs.dtype() != DType::int32 && offs.dtype() != DType::int64))
    failf("grouped_mm: offs must be a 1-D tensor of int32 or int64, but is {}-D of {}", offs.dim(),
          name(offs.dtype()));
  if (!(offs.sizes()[0] == groups))
    failf("grouped_mm: offs has {} entries for {} groups", offs.sizes()[0].str(), groups.str());
}

// f(group, first row, one past the last). Rows behind the last offset belong to no group.
template <class F>
void each_group(const Tensor& offs, int64_t rows, F&& f) {
  std::vector<int64_t> ends = offs.to_vector<int64_t>();
  int64_t start = 0;
  for (size_t i = 0; i < ends.size(); ++i) {
    if (ends[i] < start || ends[i] > rows)
      failf("grouped_mm: offs must ascend up to the number of rows {}, but its entry {} is {}", rows, i,
            ends[i]);
    f(static_cast<int64_t>(i), start, ends[i]);
    start = ends[i];
  }
}

}  // namespace

Shapes shape_transformers_grouped_mm_fallback(const args::transformers_grouped_mm_fallback& a) {
  if (a.input.dim() != 2 || a.weight.dim() != 3)
    failf("grouped_mm: expected an input of 2 dimensions and a weight of 3, but got {} and {}", a.input.dim(),
          a.weight.dim());
  if (!(a.input.sizes()[1] == a.weight.sizes()[1]))
    failf("grouped_mm: the input has {} columns, the weight {} rows", a.input.sizes()[1].str(),
          a.weight.sizes()[1].str());
  check_offsets(a.offs, a.weight.sizes()[0]);
  return {Shape(Dims{a.input.sizes()[0], a.weight.sizes()[2]}, a.input.dtype())};
}
void kernel_transformers_grouped_mm_fallback(const args::transformers_grouped_mm_fallback& a, Out out) {
  out[0].zero_();
  each_group(a.offs, a.input.size(0).as_int(), [&](int64_t i, int64_t start, int64_t end) {
    if (start == end) return;
    Tensor rows = slice(out[0], 0, start, end);
    mm_out(rows, slice(a.input, 0, start, end), select(a.weight, 0, i));
  });
}

Shapes shape_transformers_grouped_mm_weight(const args::transformers_grouped_mm_weight& a) {
  if (a.input.dim() != 2 || a.other.dim() != 2 || !(a.input.sizes()[0] == a.other.sizes()[0]))
    failf("grouped_mm_weight: expected two matrices with as many rows, but got {} and {}",
          str(a.input.sizes()), str(a.other.sizes()));
  check_offsets(a.offs, a.offs.sizes()[0]);
  return {Shape(Dims{a.offs.sizes()[0], a.input.sizes()[1], a.other.sizes()[1]}, a.input.dtype())};
}
void kernel_transformers_grouped_mm_weight(const args::transformers_grouped_mm_weight& a, Out out) {
  out[0].zero_();
  each_group(a.offs, a.input.size(0).as_int(), [&](int64_t i, int64_t start, int64_t end) {
    if (start == end) return;
    Tensor group = select(out[0], 0, i);
    mm_out(group, t(slice(a.input, 0, start, end)), slice(a.other, 0, start, end));
  });
}

}  // namespace tern
