// Helpers that the gradient formulas and bodies in the .ops files are written with.
#pragma once
#include "tern/tensor/tensor.h"

namespace tern {

struct GradContext;

inline Scalar conj(const Scalar& s) { return s.is_complex() ? Scalar(std::conj(s.to_complex())) : s; }
Tensor times(const Tensor& t, const Scalar& factor);  // t itself when the factor is one
// Sums over what broadcasting added, so that the result has these sizes.
Tensor sum_to(const Tensor& t, Span<const SymInt> sizes);

// Of lists of dimensions and shifts.
SmallVector<int64_t, 6> inverse_permutation(Ints dims);
SmallVector<int64_t, 6> swapped_dims(int64_t ndim, int64_t a, int64_t b);  // 0, 1, ... with two exchanged
SmallVector<int64_t, 6> reversed_dims(int64_t ndim);
Dims negated(Span<const SymInt> values);
// The gradients of an operator that gives a list, zeros where nothing flowed back.
std::vector<Tensor> list_gradients(GradContext& context);
Tensor as_strided_backward(const Tensor& grad, const Tensor& self, Span<const SymInt> size, Span<const SymInt> stride,
                           std::optional<SymInt> offset);
Tensor repeat_backward(const Tensor& grad, Span<const SymInt> repeats, Span<const SymInt> sizes);

}  // namespace tern
