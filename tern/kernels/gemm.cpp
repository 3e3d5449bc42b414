#include "tern/kernels/gemm.h"

#include <cblas.h>
#include <dnnl.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "tern/base/format.h"
#include "tern/base/parallel.h"
#include "tern/kernels/gemm_small.h"
#include "tern/kernels/late.h"
#include "tern/kernels/pointwise.h"

namespace tern::kernels {
namespace {

using Scalar = std::complex<double>;

struct Problem {
  bool trans_a, trans_b;
  int64_t M, N, K;
  Scalar alpha, beta;
  int64_t lda, ldb, ldc;
};

// C (M x N) by oneDNN, which takes all threads unless it is told otherwise.
void library_gemm(bool trans_a, bool trans_b, int64_t M, int64_t N, int64_t K, float alpha, const float* A,
                  int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc, int threads) {
  const ThreadLimit limit(threads);
  const dnnl_status_t status = ONEDNN(dnnl_sgemm)(trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', M, N, K, alpha, A,
                                                  lda, B, ldb, beta, C, ldc);
  if (status != dnnl_success)
    failf(ErrorKind::internal, "dnnl_sgemm failed with status {} for {} x {} x {}", static_cast<int>(status),
          M, N, K);
}

void float_gemm(const Problem& p, const float* A, const float* B, float* C) {
  const float alpha = static_cast<float>(p.alpha.real()), beta = static_cast<float>(p.beta.real());
  const int64_t work = p.M * p.N * p.K;
  if (work <= 8192)
    return gemm_small(p.trans_a, p.trans_b, p.M, p.N, p.K, alpha, A, p.lda, B, p.ldb, beta, C, p.ldc);
  if (p.M <= 2 && !(p.trans_a && p.K > 4096)) {  // bound by reading B once
    const int64_t grain = std::max<int64_t>(64, kGrainProducts / p.K / 64 * 64);
    return parallel_for(0, p.N, grain, [&](int64_t begin, int64_t end) {
      gemm_small(p.trans_a, p.trans_b, p.M, end - begin, p.K, alpha, A, p.lda,
                 B + begin * (p.trans_b ? p.ldb : 1), p.ldb, beta, C + begin, p.ldc);
    });
  }
  const int threads = work < 2 * kGrainProducts ? 1 : num_threads();
  const int64_t share = threads == 1 ? p.N : (p.N / threads + 63) / 64 * 64;
  // A layer's product, x times the transpose of its weight. oneDNN is slow at packing a transposed B, above
  // all where its rows are a multiple of a page apart: for few rows of x the product is turned round,
  if (p.trans_b && !p.trans_a && p.M > 8 && p.M <= 64 && p.K >= 512)
    return parallel_for(0, p.N, share, [&](int64_t begin, int64_t end) {
      const int64_t n = end - begin;
      std::vector<float> turned(static_cast<size_t>(n * p.M));
      library_gemm(false, true, n, p.M, p.K, alpha, B + begin * p.ldb, p.ldb, A, p.lda, 0, turned.data(), p.M,
                   1);
      for (int64_t i = 0; i < p.M; ++i) {
        float* c = C + i * p.ldc + begin;
        for (int64_t j = 0; j < n; ++j) c[j] = turned[j * p.M + i] + (beta == 0 ? 0 : beta * c[j]);
      }
    });
  // and for many each thread packs rows of its own.
  if (p.trans_b && share < p.N)
    return parallel_for(0, p.N, share, [&](int64_t begin, int64_t end) {
      library_gemm(p.trans_a, true, p.M, end - begin, p.K, alpha, A, p.lda, B + begin * p.ldb, p.ldb, beta,
                   C + begin, p.ldc, 1);
    });
  library_gemm(p.trans_a, p.trans_b, p.M, p.N, p.K, alpha, A, p.lda, B, p.ldb, beta, C, p.ldc, threads);
}

// OpenBLAS runs on one thread and is called from ours: two thread pools would fight.
template <class Call>
void blas_gemm(const Problem& p, int64_t width, const void* A, const void* B, void* C, Call call) {
  static std::once_flag once;
  std::call_once(once, [] { BLAS(openblas_set_num_threads)(1); });
  const int64_t largest = std::max({p.M, p.N, p.K, p.lda, p.ldb, p.ldc});
  if (largest > INT32_MAX) failf("gemm: a matrix dimension of {} is more than this type supports", largest);
  const bool by_rows = p.M >= p.N;
  const int64_t n = by_rows ? p.M : p.N, other = by_rows ? p.N : p.M;
  parallel_for(
      0, n, std::max<int64_t>(8, kGrainProducts / 4 / (other * p.K + 1)), [&](int64_t begin, int64_t end) {
        const char* a = static_cast<const char*>(A) + (by_rows ? begin * (p.trans_a ? 1 : p.lda) * width : 0);
        const char* b = static_cast<const char*>(B) + (by_rows ? 0 : begin * (p.trans_b ? p.ldb : 1) * width);
        char* c = static_cast<char*>(C) + begin * (by_rows ? p.ldc : 1) * width;
        const int m = static_cast<int>(by_rows ? end - begin : p.M),
                  cols = static_cast<int>(by_rows ? p.N : end - begin);
        call(p.trans_a ? CblasTrans : CblasNoTrans, p.trans_b ? CblasTrans : CblasNoTrans, m, cols,
             static_cast<int>(p.K), a, static_cast<int>(p.lda), b, static_cast<int>(p.ldb), c,
             static_cast<int>(p.ldc));
      });
}

// Operands widen to float once; a block of rows of C is computed and rounded at a time.
void narrow_gemm(DType type, const Problem& p, const void* A, const void* B, void* C) {
  const Cast widen = find_cast(type, kFloat), narrow = find_cast(kFloat, type);
  const int64_t width = element_size(type);
  auto widened = [&](const void* from, int64_t rows, int64_t columns, int64_t ld) {
    std::vector<float> to(static_cast<size_t>(rows * columns));
    parallel_for(0, rows, std::max<int64_t>(1, 16384 / (columns + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r)
        widen(static_cast<const char*>(from) + r * ld * width, 1, to.data() + r * columns, 1, columns);
    });
    return to;
  };
  const std::vector<float> b = p.trans_b ? widened(B, p.N, p.K, p.ldb) : widened(B, p.K, p.N, p.ldb);
  constexpr int64_t kRows = 256;
  for (int64_t start = 0; start < p.M; start += kRows) {
    const int64_t m = std::min(kRows, p.M - start);
    const char* from = static_cast<const char*>(A) + start * (p.trans_a ? 1 : p.lda) * width;
    const std::vector<float> a = p.trans_a ? widened(from, p.K, m, p.lda) : widened(from, m, p.K, p.lda);
    char* to = static_cast<char*>(C) + start * p.ldc * width;
    std::vector<float> c;
    if (p.beta != 0.0)
      c = widened(to, m, p.N, p.ldc);
    else
      c.resize(static_cast<size_t>(m * p.N));
    Problem block = p;
    block.M = m;
    block.lda = p.trans_a ? m : p.K;
    block.ldb = p.trans_b ? p.K : p.N;
    block.ldc = p.N;
    float_gemm(block, a.data(), b.data(), c.data());
    for (int64_t r = 0; r < m; ++r) narrow(c.data() + r * p.N, 1, to + r * p.ldc * width, 1, p.N);
  }
}

template <class T>
void integer_gemm(const Problem& p, const T* A, const T* B, T* C) {
  const uint64_t alpha = static_cast<uint64_t>(static_cast<int64_t>(p.alpha.real())),
                 beta = static_cast<uint64_t>(static_cast<int64_t>(p.beta.real()));
  parallel_for(0, p.M, std::max<int64_t>(1, 32768 / (p.N * p.K + 1)), [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> sum(static_cast<size_t>(p.N));
    for (int64_t i = begin; i < end; ++i) {
      std::fill(sum.begin(), sum.end(), 0);
      for (int64_t k = 0; k < p.K; ++k) {
        const uint64_t a = static_cast<uint64_t>(p.trans_a ? A[k * p.lda + i] : A[i * p.lda + k]);
        if (p.trans_b)
          for (int64_t j = 0; j < p.N; ++j) sum[j] += a * static_cast<uint64_t>(B[j * p.ldb + k]);
        else
          for (int64_t j = 0; j < p.N; ++j) sum[j] += a * static_cast<uint64_t>(B[k * p.ldb + j]);
      }
      T* c = C + i * p.ldc;
      for (int64_t j = 0; j < p.N; ++j)
        c[j] = static_cast<T>(alpha * sum[j] + (beta ? beta * static_cast<uint64_t>(c[j]) : 0));
    }
  });
}

// What is left of C when there is nothing to add to it.
void scale(DType type, const Problem& p, void* C) {
  const int64_t sizes[] = {p.M, p.N}, strides[] = {p.ldc, 1};
  const Operand c{C, type, strides};
  Params value;
  value.set(0, p.beta == 0.0 ? Scalar(0) : p.beta);
  if (p.beta == 0.0) return fill_strided(2, sizes, c, value);
  const DType t = compute_dtype(type);
  run_pointwise(find_loop("mul_scalar", t), t, t, 2, sizes, &c, 1, &c, 1, &value);
}

}  // namespace

void gemm(DType type, bool trans_a, bool trans_b, int64_t M, int64_t N, int64_t K, std::complex<double> alpha,
          const void* A, int64_t lda, const void* B, int64_t ldb, std::complex<double> beta, void* C,
          int64_t ldc) {
  if (M <= 0 || N <= 0) return;
  // Libraries check leading dims even where they are never used.
  lda = std::max(lda, M == 1 && !trans_a ? K : int64_t{1});
  ldb = std::max<int64_t>(ldb, 1);
  ldc = std::max(ldc, M == 1 ? N : int64_t{1});
  if (K == 1) lda = std::max(lda, trans_a ? M : K), ldb = std::max(ldb, trans_b ? K : N);
  if (N == 1 && trans_b) ldb = std::max(ldb, K);
  const Problem p{trans_a, trans_b, M, N, K, alpha, beta, lda, ldb, ldc};
  if (K == 0) return scale(type, p, C);
  switch (type) {
    case DType::float32:
      return float_gemm(p, static_cast<const float*>(A), static_cast<const float*>(B),
                        static_cast<float*>(C));
    case DType::float64:
      return blas_gemm(p, 8, A, B, C,
                       [&](auto ta, auto tb, int m, int n, int k, const char* a, int la, const char* b,
                           int lb, char* c, int lc) {
                         BLAS(cblas_dgemm)
                         (CblasRowMajor, ta, tb, m, n, k, alpha.real(), reinterpret_cast<const double*>(a),
                          la, reinterpret_cast<const double*>(b), lb, beta.real(),
                          reinterpret_cast<double*>(c), lc);
                       });
    case DType::complex64: {
      const std::complex<float> x(alpha), y(beta);
      return blas_gemm(p, 8, A, B, C,
                       [&](auto ta, auto tb, int m, int n, int k, const char* a, int la, const char* b,
                           int lb, char* c, int lc) {
                         BLAS(cblas_cgemm)(CblasRowMajor, ta, tb, m, n, k, &x, a, la, b, lb, &y, c, lc);
                       });
    }
    case DType::complex128:
      return blas_gemm(p, 16, A, B, C,
                       [&](auto ta, auto tb, int m, int n, int k, const char* a, int la, const char* b,
                           int lb, char* c, int lc) {
                         BLAS(cblas_zgemm)
                         (CblasRowMajor, ta, tb, m, n, k, &alpha, a, la, b, lb, &beta, c, lc);
                       });
    case DType::float16:
    case DType::bfloat16:
      return narrow_gemm(type, p, A, B, C);
    case DType::uint8:
      return integer_gemm(p, static_cast<const uint8_t*>(A), static_cast<const uint8_t*>(B),
                          static_cast<uint8_t*>(C));
    case DType::int8:
      return integer_gemm(p, static_cast<const int8_t*>(A), static_cast<const int8_t*>(B),
                          static_cast<int8_t*>(C));
    case DType::int16:
      return integer_gemm(p, static_cast<const int16_t*>(A), static_cast<const int16_t*>(B),
                          static_cast<int16_t*>(C));
    case DType::int32:
      return integer_gemm(p, static_cast<const int32_t*>(A), static_cast<const int32_t*>(B),
                          static_cast<int32_t*>(C));
    case DType::int64:
      return integer_gemm(p, static_cast<const int64_t*>(A), static_cast<const int64_t*>(B),
                          static_cast<int64_t*>(C));
    default:
      failf(ErrorKind::not_supported, "matrix products of {} are not supported; cast to float32 first",
            name(type));
  }
}

void gemm_batched(DType type, bool trans_a, bool trans_b, int64_t batch, int64_t M, int64_t N, int64_t K,
                  std::complex<double> alpha, const void* A, int64_t lda, int64_t stride_a, const void* B,
                  int64_t ldb, int64_t stride_b, std::complex<double> beta, void* C, int64_t ldc,
                  int64_t stride_c) {
  const int64_t width = element_size(type);
  auto one = [&](int64_t i) {
    gemm(type, trans_a, trans_b, M, N, K, alpha, static_cast<const char*>(A) + i * stride_a * width, lda,
         static_cast<const char*>(B) + i * stride_b * width, ldb, beta,
         static_cast<char*>(C) + i * stride_c * width, ldc);
  };
  if (batch < num_threads()) {  // then each product uses the threads
    for (int64_t i = 0; i < batch; ++i) one(i);
    return;
  }
  parallel_for(0, batch, std::max<int64_t>(1, kGrainProducts / (M * N * K + 1)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) one(i);
               });
}

}  // namespace tern::kernels
