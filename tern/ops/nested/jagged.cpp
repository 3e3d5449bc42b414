// Rows between offsets, copied to where each sequence has the same room, and back.
#include <cstring>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/jagged.args.h"

namespace tern {
namespace {

const Tensor& only_offsets(const char* op, Span<const Tensor> offsets) {
  if (offsets.size() != 1) failf("{}(): expected one tensor of offsets, but got {}", op, offsets.size());
  if (offsets[0].dim() != 1)
    failf("{}(): expected 1D offsets, but got offsets.dim() == {}", op, offsets[0].dim());
  return offsets[0];
}
std::vector<int64_t> positions(const Tensor& offsets) { return offsets.to_vector<int64_t>(); }
int64_t bytes_of_row(const Tensor& t, int64_t outer) {
  int64_t bytes = t.element_size();
  for (int64_t d = outer; d < t.dim(); ++d) bytes *= t.int_sizes()[d];
  return bytes;
}
constexpr const char* to_padded = "_jagged_to_padded_dense_forward";
constexpr const char* to_jagged = "_padded_dense_to_jagged_forward";

}  // namespace

Shapes shape__jagged_to_padded_dense_forward(const args::_jagged_to_padded_dense_forward& a) {
  const Tensor& offsets = only_offsets(to_padded, a.offsets);
  if (a.max_lengths.size() != 1)
    failf("{}(): expected one maximal length, but got {}", to_padded, a.max_lengths.size());
  if (a.values.dim() == 0) failf("{}(): expected values with rows, but got a number", to_padded);
  if (a.values.is_complex()) not_implemented_for("_jagged_to_padded_dense_forward_cpu", a.values.dtype());
  Dims sizes(a.values.sizes());
  sizes[0] = a.max_lengths[0];
  sizes.insert(0, offsets.numel() - 1);
  for (const SymInt& s : sizes)
    if (s.is_int() && s.as_int() < 0)
      failf("Trying to create tensor with negative dimension {}: {}", s.as_int(), str(sizes));
  return {Shape(std::move(sizes), a.values.dtype())};
}
void kernel__jagged_to_padded_dense_forward(const args::_jagged_to_padded_dense_forward& a, Out out) {
  fill_elements(out[0], a.padding_value);
  if (out[0].int_numel() == 0) return;
  const Tensor values = row_major(a.values);
  const std::vector<int64_t> at = positions(a.offsets[0]);
  const int64_t rows = values.int_sizes()[0], room = out[0].int_sizes()[1], bytes = bytes_of_row(values, 1);
  const char* from = static_cast<const char*>(values.data());
  char* to = static_cast<char*>(out[0].data());
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    const int64_t length = std::min(at[i + 1] - at[i], room);
    if (at[i] < 0 || length < 0 || at[i] + length > rows)
      failf("{}(): offsets {} and {} are not those of a sequence in {} rows", to_padded, at[i], at[i + 1],
            rows);
    std::memcpy(to + static_cast<int64_t>(i) * room * bytes, from + at[i] * bytes,
                static_cast<size_t>(length * bytes));
  }
}

Shapes shape__padded_dense_to_jagged_forward(const args::_padded_dense_to_jagged_forward& a) {
  const Tensor& offsets = only_offsets(to_jagged, a.offsets);
  if (a.dense.dim() < 2)
    failf("{}(): expected padded dim >= 2, but padded.dim() == {}", to_jagged, a.dense.dim());
  Dims sizes(a.dense.sizes());
  sizes.erase(0);
  sizes[0] = a.total_L ? *a.total_L : unknown_size(to_jagged, offsets);
  return {Shape(std::move(sizes), a.dense.dtype())};
}
Tensor kernel__padded_dense_to_jagged_forward(const args::_padded_dense_to_jagged_forward& a) {
  const std::vector<int64_t> at = positions(only_offsets(to_jagged, a.offsets));
  if (a.dense.dim() < 2)
    failf("{}(): expected padded dim >= 2, but padded.dim() == {}", to_jagged, a.dense.dim());
  const Tensor dense = row_major(a.dense);
  const int64_t total = at.empty() ? 0 : at.back(), room = dense.int_sizes()[1],
                bytes = bytes_of_row(dense, 2);
  if (a.total_L && !(*a.total_L == total)) failf("{}(): final offset should match total_L value", to_jagged);
  if (static_cast<int64_t>(at.size()) - 1 > dense.int_sizes()[0])
    failf(ErrorKind::index, "{}(): offsets of {} sequences for a tensor of size {}", to_jagged, at.size() - 1,
          str(dense.sizes()));
  Dims sizes(dense.sizes());
  sizes.erase(0);
  sizes[0] = total;
  Tensor result = make_tensor(sizes, dense.dtype());
  const char* from = static_cast<const char*>(dense.data());
  char* to = static_cast<char*>(result.data());
  // Rows before the first offset belong to no sequence.
  if (!at.empty() && at[0] > 0 && at[0] <= total) std::memset(to, 0, static_cast<size_t>(at[0] * bytes));
  for (size_t i = 0; i + 1 < at.size(); ++i) {
    const int64_t length = at[i + 1] - at[i];
    if (length > room)
      failf("{}(): found batch item of length {} when max length specified by padded input is {}", to_jagged,
            length, room);
    if (length < 0 || at[i] < 0 || at[i + 1] > total)
      failf("{}(): offsets {} and {} are not those of a sequence in {} rows", to_jagged, at[i], at[i + 1],
            total);
    std::memcpy(to + at[i] * bytes, from + static_cast<int64_t>(i) * room * bytes,
                static_cast<size_t>(length * bytes));
  }
  return result;
}

}  // namespace tern
