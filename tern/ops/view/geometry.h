// Sizes, strides and offsets of views: shared by the view operators and by the copies that write into a view.
#pragma once
#include "tern/tensor/tensor.h"

namespace tern {

// The sizes asked for, with one -1 worked out. Throws "shape '[2, 3]' is invalid for input of size 5".
Dims infer_sizes(Span<const SymInt> shape, SymInt numel);
// Strides under which the memory reads as `sizes`; nullopt where it cannot without a copy.
std::optional<Dims> view_strides(const Tensor& t, Span<const SymInt> sizes);

Tensor select_view(const Tensor& t, int64_t dim, SymInt index);
Tensor slice_view(const Tensor& t, int64_t dim, std::optional<SymInt> start, std::optional<SymInt> end,
                  SymInt step);
Tensor diagonal_view(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2);
Tensor unfold_view(const Tensor& t, int64_t dim, int64_t size, int64_t step);
Tensor expand_view(const Tensor& t, Span<const SymInt> size);
// By the operator, and not at all where t has these sizes: an expand that does nothing would be a node of a
// program.
Tensor expanded(const Tensor& t, Span<const SymInt> sizes);
Tensor strided_view(const Tensor& t, Span<const SymInt> size, Span<const SymInt> stride, SymInt offset);

}  // namespace tern
