// Matrix products on row-major matrices: C = alpha * op(A) * op(B) + beta * C, and products with a prepacked
// B and a fused epilogue for the engine.
#pragma once
#include <complex>
#include <cstdint>
#include <memory>

#include "tern/tensor/dtype.h"

namespace tern::kernels {

// So many multiplications are worth waking a thread: some 7 microseconds.
inline constexpr int64_t kGrainProducts = 400'000;

// op(A) is M x K, op(B) is K x N; a transposed operand is stored the other way round. ld* are row strides in
// elements. With beta == 0 C is not read. half and bfloat16 accumulate in float and round once; integers
// wrap. Throws not_supported for bool and float8.
void gemm(DType type, bool trans_a, bool trans_b, int64_t M, int64_t N, int64_t K, std::complex<double> alpha,
          const void* A, int64_t lda, const void* B, int64_t ldb, std::complex<double> beta, void* C,
          int64_t ldc);

// The same for `batch` products; stride_* is the distance between consecutive matrices (0 shares one).
void gemm_batched(DType type, bool trans_a, bool trans_b, int64_t batch, int64_t M, int64_t N, int64_t K,
                  std::complex<double> alpha, const void* A, int64_t lda, int64_t stride_a, const void* B,
                  int64_t ldb, int64_t stride_b, std::complex<double> beta, void* C, int64_t ldc,
                  int64_t stride_c);

enum class Activation : uint8_t { none, relu, gelu, gelu_tanh, silu, sigmoid, tanh, hardswish, relu6 };

// C = activation(A * B + bias + residual), each part optional.
struct Epilogue {
  const float* bias = nullptr;      // N
  const float* residual = nullptr;  // M x N, rows ld_residual apart
  int64_t ld_residual = 0;
  Activation activation = Activation::none;
};

// Float B in the order the micro-kernel reads it. Made once, used by any number of threads.
struct PackedB {
  int64_t K = 0, N = 0;
  int64_t panel = 0;  // columns per panel
  std::unique_ptr<float[]> memory;
  float* data = nullptr;  // aligned to 64 bytes
};
PackedB pack_b(bool trans_b, int64_t K, int64_t N, const float* B, int64_t ldb);
void gemm_packed(int64_t M, const float* A, int64_t lda, const PackedB& B, float* C, int64_t ldc,
                 const Epilogue& epilogue = {});

// x = activation(x) in place, for epilogues that are not fused.
void activate(Activation activation, float* x, int64_t n);

}  // namespace tern::kernels
