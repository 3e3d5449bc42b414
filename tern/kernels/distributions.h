// Numbers of the gamma family of distributions, drawn from a generator as PyTorch draws them, and how they
// move with their parameters. Elements are contiguous; each element draws as often as it needs to, in order.
#pragma once
#include "tern/kernels/random.h"

namespace tern::kernels {

// Half types, too; throws `runtime` for a negative rate.
void poisson(Mt19937& generator, DType type, const void* rate, void* out, int64_t n);
// The following: float32 and float64; throw not_supported for others.
void binomial(Mt19937& generator, DType type, const void* count, const void* probability, void* out,
              int64_t n);
void standard_gamma(Mt19937& generator, DType type, const void* alpha, void* out, int64_t n);
// Each row of `width` sums to one.
void dirichlet(Mt19937& generator, DType type, const void* alpha, void* out, int64_t rows, int64_t width);

// d x / d alpha of a gamma number x, and d x / d alpha of a beta number x of alpha and total - alpha, at a
// fixed probability.
void standard_gamma_grad(DType type, const void* alpha, const void* x, void* out, int64_t n);
void dirichlet_grad(DType type, const void* x, const void* alpha, const void* total, void* out, int64_t n);

}  // namespace tern::kernels
