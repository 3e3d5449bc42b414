// Row numbers, row starts, and rows that are kept.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/compressed.args.h"
#include "tern/ops/elements.h"

namespace tern {
namespace {

DType index_type(bool narrow) { return narrow ? kInt : kLong; }

// Writes numbers as the type the indices have.
void put(const Tensor& out, const std::vector<int64_t>& numbers) {
  Tensor wide = out.dtype() == kLong && out.is_contiguous() ? out : make_tensor(out.sizes(), kLong);
  std::copy(numbers.begin(), numbers.end(), wide.data_ptr<int64_t>());
  if (!wide.is_same(out)) copy_elements(wide, out);
}

}  // namespace

Shapes shape__convert_indices_from_coo_to_csr(const args::_convert_indices_from_coo_to_csr& a) {
  if (a.self.dim() > 1)
    failf("Input is supposed to be a vector, but got {} dimensional tensor.", a.self.dim());
  if (a.size < 0) failf("_convert_indices_from_coo_to_csr: size must not be negative, but is {}", a.size);
  return Shape(Dims{SymInt(a.size + 1)}, index_type(a.out_int32));
}
void kernel__convert_indices_from_coo_to_csr(const args::_convert_indices_from_coo_to_csr& a, Out out) {
  Tensor rows = index_values(a.self);
  std::vector<int64_t> starts(static_cast<size_t>(a.size + 1));
  const int64_t* row = rows.data_ptr<int64_t>();
  for (int64_t i = 0, n = rows.int_numel(); i < n; ++i) {
    if (row[i] < 0 || row[i] >= a.size)
      failf(ErrorKind::index, "_convert_indices_from_coo_to_csr: row {} is out of bounds for {} rows", row[i],
            a.size);
    ++starts[static_cast<size_t>(row[i] + 1)];
  }
  for (size_t i = 1; i < starts.size(); ++i) starts[i] += starts[i - 1];
  put(out[0], starts);
}

Shapes shape__convert_indices_from_csr_to_coo(const args::_convert_indices_from_csr_to_coo& a) {
  const Tensor &starts = a.crow_indices, &columns = a.col_indices;
  if (starts.dim() < 1 || starts.dim() != columns.dim())
    failf(
        "_convert_indices_from_csr_to_coo: crow_indices and col_indices must have as many dimensions, at "
        "least "
        "one, but are of size {} and {}",
        str(starts.sizes()), str(columns.sizes()));
  for (int64_t d = 0; d + 1 < starts.dim(); ++d)
    if (!require_eq(starts.sizes()[d], columns.sizes()[d]))
      failf(
          "_convert_indices_from_csr_to_coo: crow_indices and col_indices are of different batches: {} and "
          "{}",
          str(starts.sizes()), str(columns.sizes()));
  if (!is_integral(columns.dtype()))
    not_implemented_for("convert_indices_from_csr_to_coo_cpu", columns.dtype());
  return Shape(Dims{SymInt(starts.dim() + 1), columns.numel()}, index_type(a.out_int32));
}
void kernel__convert_indices_from_csr_to_coo(const args::_convert_indices_from_csr_to_coo& a, Out out) {
  Tensor starts = index_values(a.crow_indices), columns = index_values(a.col_indices);
  const int64_t outer = starts.dim() - 1, all = columns.int_numel(), each = columns.int_sizes()[outer],
                rows = starts.int_sizes()[outer] - 1;
  std::vector<int64_t> numbers(static_cast<size_t>((outer + 2) * all));
  int64_t* of_row = numbers.data() + (outer + (a.transpose ? 1 : 0)) * all;
  int64_t* of_column = numbers.data() + (outer + (a.transpose ? 0 : 1)) * all;
  std::copy_n(columns.data_ptr<int64_t>(), all, of_column);
  for (int64_t batch = 0; each && batch < all / each; ++batch) {
    const int64_t* start = starts.data_ptr<int64_t>() + batch * (rows + 1);
    if (rows < 0 || start[0] != 0 || start[rows] != each)
      failf(
          "_convert_indices_from_csr_to_coo: crow_indices must begin with 0 and end with {}, the number of "
          "columns given",
          each);
    for (int64_t row = 0; row < rows; ++row) {
      if (start[row] > start[row + 1] || start[row + 1] > each)
        fail("_convert_indices_from_csr_to_coo: crow_indices must not descend");
      for (int64_t i = start[row]; i < start[row + 1]; ++i) of_row[batch * each + i] = row;
    }
    int64_t rest = batch;
    for (int64_t d = outer; d-- > 0; rest /= starts.int_sizes()[d])
      std::fill_n(numbers.data() + d * all + batch * each, each, rest % starts.int_sizes()[d]);
  }
  put(out[0], numbers);
}

std::tuple<Tensor, Tensor> body__rowwise_prune(const args::_rowwise_prune& a) {
  if (a.weight.dim() != 2) fail("'weight' should have 2 dimensions.");
  if (a.mask.dim() != 1 || !(a.mask.sizes()[0] == a.weight.sizes()[0]))
    fail("Number of elements in 'mask' should be equivalent to the number of rows in 'weights'.");
  if (a.compressed_indices_dtype != kInt && a.compressed_indices_dtype != kLong)
    fail("compressed_indices_dtype should be either int(int32) or long(int64).");
  if (a.mask.dtype() != kBool) failf("expected scalar type Bool but found {}", script_name(a.mask.dtype()));
  Tensor kept = index_select(a.weight, 0, squeeze(nonzero(a.mask), 1));
  Tensor numbers = where(a.mask, cumsum(a.mask, 0) - 1, -1);
  return {kept, numbers.to(a.compressed_indices_dtype)};
}

}  // namespace tern
