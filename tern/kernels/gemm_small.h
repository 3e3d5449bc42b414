// Float products too small or too thin for a library call.
#pragma once
#include <cstdint>

namespace tern::kernels {

// C = alpha * op(A) * op(B) + beta * C, single-threaded, any size.
void gemm_small(bool trans_a, bool trans_b, int64_t M, int64_t N, int64_t K, float alpha, const float* A,
                int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc);

}  // namespace tern::kernels
