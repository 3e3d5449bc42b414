// What the operators of nested tensors are made of: the way from a nested tensor to plain ones and back, with
// history.
#pragma once
#include "tern/dispatch/op.h"
#include "tern/tensor/nesting.h"

namespace tern::nested {

// A new nested tensor over a buffer that nobody else has.
Tensor wrap(const Tensor& buffer, const NestingPtr& nesting);
// Another nested tensor over the same buffer: a view.
Tensor view(const Tensor& nested, const NestingPtr& nesting);
Tensor values(const Tensor& nested);              // the buffer, as it is
Tensor packed(const Tensor& nested);              // the elements one after the other, each tensor row-major
std::vector<Tensor> parts(const Tensor& nested);  // views
Tensor part(const Tensor& nested, int64_t i);     // one of them
Tensor join(Span<const Tensor> parts);            // of one rank and dtype; copies
// The nesting of the same sizes, one after the other.
NestingPtr packed_like(const Nesting& n);
// The size that all tensors have in a dimension counted as in the nested tensor; -1: they differ.
int64_t common_size(const Tensor& nested, int64_t dim);

// A table of sizes, strides or offsets as PyTorch keeps it, and back.
Tensor table(const std::vector<int64_t>& numbers, const Nesting& n);
Tensor column(const std::vector<int64_t>& numbers);
NestingPtr from_tables(const Tensor& sizes, const Tensor& strides, const Tensor& offsets, int64_t buffer);

[[noreturn]] void refuse(const Op& op);  // in PyTorch's words

}  // namespace tern::nested
