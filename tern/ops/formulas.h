// Helpers that the gradient formulas and bodies in the .ops files are written with.
#pragma once
#include "tern/tensor/tensor.h"

namespace tern {

inline Scalar conj(const Scalar& s) { return s.is_complex() ? Scalar(std::conj(s.to_complex())) : s; }
Tensor times(const Tensor& t, const Scalar& factor);  // t itself when the factor is one
// Sums over what broadcasting added, so that the result has these sizes.
Tensor sum_to(const Tensor& t, Span<const SymInt> sizes);

}  // namespace tern
