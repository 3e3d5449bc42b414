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

Tensor body__grouped_mm(const args::_grouped_mm& a) {
  for (const Tensor* t : {&a.self, &a.mat2})
    if (t->dim() != 2 && t->dim() != 3)
      failf("grouped_mm: expected matrices or batches of them, but got {} dimensions", t->dim());
  if (a.self.dtype() != a.mat2.dtype())
    failf("grouped_mm: expected both of one dtype, but got {} and {}", name(a.self.dtype()),
          name(a.mat2.dtype()));
  if (a.bias.defined()) fail(ErrorKind::not_supported, "Bias not supported yet");
  if (a.out_dtype && *a.out_dtype != a.self.dtype())
    fail(ErrorKind::not_supported, "Grouped gemm output dtype must match `mat_a` dtype");
  const bool batch = a.self.dim() == 3, other_batch = a.mat2.dim() == 3;
  if (a.offs.defined() == (batch && other_batch))
    fail("grouped_mm: Have to provide offsets if there is a 2d matrix, and none otherwise");
  if (batch && other_batch) return bmm(a.self, a.mat2);
  if (other_batch) return grouped_mm(a.self, a.mat2, a.offs);
  if (batch) return t(grouped_mm(t(a.mat2), transpose(a.self, 1, 2), a.offs));
  return grouped_mm_weight(t(a.self), a.mat2, a.offs);
}

Tensor body__scaled_mm(const args::_scaled_mm& a) {
  if (a.self.dim() != 2) fail("mat1 must be a matrix");
  if (a.mat2.dim() != 2) fail("mat2 must be a matrix");
  if (!(a.self.size(1) == a.mat2.size(0)))
    failf("mat_a and mat_b shapes cannot be multiplied ({}x{} and {}x{})", a.self.size(0).str(),
          a.self.size(1).str(), a.mat2.size(0).str(), a.mat2.size(1).str());
  for (const Tensor* t : {&a.self, &a.mat2})
    if (!is_float8(t->dtype()))
      failf(ErrorKind::value, "Invalid scaling configuration: a and b should be float8, but got {}",
            name(t->dtype()));
  auto check_scale = [](const Tensor& s, const char* what, SymInt rows, SymInt columns) {
    const bool one = surely_eq(s.numel(), 1);
    if (s.dtype() != kFloat || !(one || (s.dim() == 2 && s.size(0) == rows && s.size(1) == columns)))
      failf(ErrorKind::value,
            "Invalid scaling configuration: {} should be one float, or floats of [{}, {}], but is {} {}",
            what, rows.str(), columns.str(), name(s.dtype()), str(s.sizes()));
    return one ? s.reshape({}) : s;
  };
  Tensor left = check_scale(a.scale_a, "scale_a", a.self.size(0), 1),
         right = check_scale(a.scale_b, "scale_b", 1, a.mat2.size(1));
  const DType out = a.out_dtype.value_or(a.self.dtype());
  Tensor y = mm(a.self.to(kFloat) * left, a.mat2.to(kFloat) * right);
  if (a.bias.defined()) {
    if (a.bias.dim() != 1 || !(a.bias.size(0) == a.mat2.size(1)))
      failf("Bias must be size {} but got {}", a.mat2.size(1).str(), str(a.bias.sizes()));
    y = y + a.bias.to(kFloat);
  }
  return y.to(out);
}

}  // namespace tern
