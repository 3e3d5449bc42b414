// Matrix products of every type, shape class and transposition against a triple loop.
#include "tern/kernels/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "tern/base/error.h"
#include "tern/base/parallel.h"

namespace tern::kernels {
namespace {

template <class T>
std::vector<T> matrix(int64_t n, int seed) {
  std::vector<T> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = T(static_cast<float>((i * 37 + seed * 11) % 9 - 4));
  return x;
}

template <class T, class Acc>
void check(int64_t M, int64_t N, int64_t K, double alpha, double beta) {
  for (bool ta : {false, true})
    for (bool tb : {false, true}) {
      const int64_t lda = (ta ? M : K) + 3, ldb = (tb ? K : N) + 1, ldc = N + 2;
      const auto A = matrix<T>((ta ? K : M) * lda + 1, 1), B = matrix<T>((tb ? N : K) * ldb + 1, 2);
      auto C = matrix<T>(M * ldc, 3);
      auto want = C;
      for (int64_t i = 0; i < M; ++i)
        for (int64_t j = 0; j < N; ++j) {
          Acc sum(0);
          for (int64_t k = 0; k < K; ++k)
            sum += Acc(ta ? A[k * lda + i] : A[i * lda + k]) * Acc(tb ? B[j * ldb + k] : B[k * ldb + j]);
          want[i * ldc + j] = T(Acc(alpha) * sum + Acc(beta) * Acc(C[i * ldc + j]));
        }
      gemm(dtype_of<T>, ta, tb, M, N, K, alpha, A.data(), lda, B.data(), ldb, beta, C.data(), ldc);
      for (int64_t i = 0; i < M; ++i)
        for (int64_t j = 0; j < N; ++j)
          ASSERT_EQ(Acc(C[i * ldc + j]), Acc(want[i * ldc + j]))
              << name(dtype_of<T>) << " " << M << "x" << N << "x" << K << " " << ta << tb << " at " << i
              << "," << j;
    }
}

TEST(KernelsGemm, every_type_is_exact_on_small_integers) {
  for (auto [M, N, K] :
       {std::array<int64_t, 3>{2, 4, 4}, {1, 70, 130}, {33, 65, 40}, {1, 1, 1}, {5, 1, 300}}) {
    check<float, float>(M, N, K, 1, 0);
    check<float, float>(M, N, K, 2, 3);
    check<double, double>(M, N, K, 2, 1);
    check<Half, float>(M, N, K, 1, 0);
    check<BFloat16, float>(M, N, K, 1, 1);
    check<int32_t, int64_t>(M, N, K, 1, 2);
    check<uint8_t, int64_t>(M, N, K, 1, 0);
    check<std::complex<float>, std::complex<float>>(M, N, K, 1, 0);
    check<std::complex<double>, std::complex<double>>(M, N, K, 1, 1);
  }
}

TEST(KernelsGemm, no_inner_dimension_scales_the_output) {
  float C[] = {1, 2};
  gemm(kFloat, false, false, 1, 2, 0, 1, nullptr, 1, nullptr, 1, 2, C, 2);
  EXPECT_EQ(C[1], 4);
  C[0] = std::numeric_limits<float>::quiet_NaN();
  gemm(kFloat, false, false, 1, 2, 0, 1, nullptr, 1, nullptr, 1, 0, C, 2);
  EXPECT_EQ(C[0], 0);
  try {
    gemm(kBool, false, false, 1, 1, 1, 1, C, 1, C, 1, 0, C, 1);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("bool"), std::string::npos);
  }
}

TEST(KernelsGemm, batches_share_a_matrix_with_stride_zero) {
  const auto A = matrix<float>(7 * 3 * 4, 1), B = matrix<float>(4 * 5, 2);
  std::vector<float> C(7 * 3 * 5), want(3 * 5);
  gemm_batched(kFloat, false, false, 7, 3, 5, 4, 1, A.data(), 4, 12, B.data(), 5, 0, 0, C.data(), 5, 15);
  for (int64_t b = 0; b < 7; ++b) {
    gemm(kFloat, false, false, 3, 5, 4, 1, A.data() + b * 12, 4, B.data(), 5, 0, want.data(), 5);
    EXPECT_EQ(std::vector<float>(C.begin() + b * 15, C.begin() + (b + 1) * 15), want);
  }
}

// Products of a layer: few rows of x and many, shared by two threads and not.
TEST(KernelsGemm, shapes_of_layers) {
  const int before = num_threads();
  for (int threads : {1, 2}) {
    set_num_threads(threads);
    for (auto [M, N, K] :
         {std::array<int64_t, 3>{9, 130, 512}, {64, 200, 513}, {65, 200, 512}, {16, 40, 1024}}) {
      check<float, float>(M, N, K, 1, 0);
      check<float, float>(M, N, K, 2, 3);
    }
  }
  set_num_threads(before);
}

TEST(KernelsGemm, packed_products_with_every_epilogue) {
  for (auto [M, N, K] : {std::array<int64_t, 3>{1, 40, 33}, {7, 32, 16}, {50, 75, 129}, {200, 10, 64}})
    for (bool tb : {false, true})
      for (Activation act :
           {Activation::none, Activation::relu, Activation::gelu, Activation::silu, Activation::tanh,
            Activation::gelu_tanh, Activation::sigmoid, Activation::hardswish, Activation::relu6}) {
        const auto A = matrix<float>(M * K, 1), B = matrix<float>(N * K, 2), bias = matrix<float>(N, 3),
                   residual = matrix<float>(M * N, 4);
        std::vector<float> C(M * N), want(M * N);
        const PackedB packed = pack_b(tb, K, N, B.data(), tb ? K : N);
        gemm_packed(M, A.data(), K, packed, C.data(), N, {bias.data(), residual.data(), N, act});
        gemm(kFloat, false, tb, M, N, K, 1, A.data(), K, B.data(), tb ? K : N, 0, want.data(), N);
        for (int64_t i = 0; i < M * N; ++i) want[i] += bias[i % N] + residual[i];
        activate(act, want.data(), M * N);
        for (int64_t i = 0; i < M * N; ++i) ASSERT_NEAR(C[i], want[i], 1e-5 * std::abs(want[i]) + 1e-6) << i;
      }
}

TEST(KernelsGemm, no_activation_hides_a_nan) {
  for (Activation act :
       {Activation::none, Activation::relu, Activation::gelu, Activation::silu, Activation::tanh,
        Activation::gelu_tanh, Activation::sigmoid, Activation::hardswish, Activation::relu6}) {
    std::vector<float> x(37, std::numeric_limits<float>::quiet_NaN());
    activate(act, x.data(), 37);
    for (float v : x) ASSERT_TRUE(std::isnan(v)) << static_cast<int>(act);
  }
}

}  // namespace
}  // namespace tern::kernels
