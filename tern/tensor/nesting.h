// How tensors of different sizes share one buffer: a nested tensor of PyTorch's strided layout. Sizes,
// strides and place of each are numbers, known when the tensor is made; a Nesting never changes, and views
// share the buffer under another one.
#pragma once
#include "tern/tensor/tensor.h"

namespace tern {

struct Nesting : Meaning {
  int64_t count = 0;                    // how many tensors
  int64_t rank = 0;                     // how many dimensions each has
  std::vector<int64_t> sizes, strides;  // count rows of `rank`
  std::vector<int64_t> offsets;         // of the first element of each, from the start of the buffer
  int64_t buffer = 0;                   // how many elements the buffer has
  bool contiguous = true;               // one after the other, each row-major, from the buffer's start

  Span<const int64_t> sizes_of(int64_t i) const {
    return {sizes.data() + i * rank, static_cast<size_t>(rank)};
  }
  Span<const int64_t> strides_of(int64_t i) const {
    return {strides.data() + i * rank, static_cast<size_t>(rank)};
  }
  int64_t numel_of(int64_t i) const;
  int64_t numel() const;
  bool same_sizes(const Nesting& o) const { return count == o.count && rank == o.rank && sizes == o.sizes; }
  // Whether an elementwise loop over the buffers meets the same elements.
  bool same_places(const Nesting& o) const {
    return same_sizes(o) && strides == o.strides && offsets == o.offsets && buffer == o.buffer;
  }
};
using NestingPtr = Shared<const Nesting>;

// One after the other, row-major. `sizes` holds count rows of `rank`.
NestingPtr packed_nesting(int64_t count, int64_t rank, std::vector<int64_t> sizes);
// Any sizes, strides and offsets; throws when one reaches out of a buffer of that many elements.
NestingPtr checked_nesting(Nesting n);

const Nesting& nesting_of(const Tensor& t);  // throws when the tensor is not nested
NestingPtr nesting_ptr(const Tensor& nested);
// The buffer's memory seen as nested, and the other way round; neither has history.
Tensor nested_over(const Tensor& buffer, const NestingPtr& nesting);
Tensor buffer_of(const Tensor& nested);
// The i-th tensor, over the buffer's memory.
Tensor part_of(const Tensor& nested, int64_t i);
[[noreturn]] void refuse_sizes();  // what PyTorch says to .sizes() of a nested tensor
// For what knows plain tensors only: throws not_supported.
void check_not_nested(const Tensor& t, std::string_view who);

}  // namespace tern
