#include "tern/dispatch/overlap.h"

#include <algorithm>

#include "tern/base/error.h"
#include "tern/base/small_vector.h"

namespace tern {
namespace {

// Its elements fill a range of memory, in some order of the dims.
bool is_dense(const Tensor& t) {
  struct Dim {
    int64_t stride, size;
  };
  SmallVector<Dim> dims;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (!t.sizes()[d].is_int() || !t.strides()[d].is_int()) return false;
    if (t.sizes()[d].as_int() != 1) dims.push_back({t.strides()[d].as_int(), t.sizes()[d].as_int()});
  }
  std::sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
  int64_t expected = 1;
  for (auto [stride, size] : dims) {
    if (stride != expected) return false;
    expected *= size;
  }
  return true;
}

bool same_strides(const Tensor& a, const Tensor& b) {
  if (a.dim() != b.dim()) return false;
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.strides()[d].as_int() != b.strides()[d].as_int()) return false;
  return true;
}

enum class Overlap { none, part, all };

Overlap overlap_of(const Tensor& out, const Tensor& input) {
  if (out.body() == input.body()) return Overlap::all;
  if (!share_memory(out, input)) return Overlap::none;
  if (!is_dense(out) || !is_dense(input) || !out->offset.is_int() || !input->offset.is_int())
    return Overlap::none;
  const int64_t size = out.element_size(), other = input.element_size();
  const int64_t begin = out->offset.as_int() * size, end = begin + out.int_numel() * size,
                from = input->offset.as_int() * other, to = from + input.int_numel() * other;
  if (begin == end || from == to || end <= from || to <= begin) return Overlap::none;
  return begin == from && end == to && same_strides(out, input) ? Overlap::all : Overlap::part;
}

[[noreturn]] void refuse_overlap() {
  fail(
      "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
      "memory location. Please clone() the tensor before performing the operation.");
}

}  // namespace

void check_writable(const Tensor& out) {
  for (int64_t d = 0; d < out.dim(); ++d)
    if (out.strides()[d].is_int() && out.strides()[d].as_int() == 0 && !surely_le(out.sizes()[d], 1))
      fail(
          "unsupported operation: more than one element of the written-to tensor refers to a single memory "
          "location. Please clone() the tensor before performing the operation.");
}

bool share_memory(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() || (a.storage()->data && a.storage()->data == b.storage()->data);
}

void check_overlap(const Tensor& out, const Tensor& input) {
  if (overlap_of(out, input) == Overlap::part) refuse_overlap();
}

void check_disjoint(const Tensor& out, const Tensor& input) {
  if (overlap_of(out, input) != Overlap::none) refuse_overlap();
}

}  // namespace tern
