#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/gemm_small.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "tern/kernels/gemm_small.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// Long sums are sums of the sums of blocks: what is lost to rounding grows with the length of one.
constexpr int64_t kBlock = 4096;

HWY_ATTR inline float block_dot(const float* a, int64_t step, const float* b, int64_t n) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d), s2 = hn::Zero(d), s3 = hn::Zero(d);
  int64_t i = 0;
  if (step == 1) {
    for (; i + 4 * lanes <= n; i += 4 * lanes) {
      s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
      s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), s1);
      s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, b + i + 2 * lanes), s2);
      s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, b + i + 3 * lanes), s3);
    }
    for (; i + lanes <= n; i += lanes) s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
  }
  float sum = i ? hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)))) : 0;
  for (; i < n; ++i) sum += a[i * step] * b[i];
  return sum;
}

HWY_ATTR inline float dot(const float* a, int64_t step, const float* b, int64_t n) {
  if (n <= kBlock) return block_dot(a, step, b, n);
  double sum = 0;
  for (int64_t i = 0; i < n; i += kBlock)
    sum += block_dot(a + i * step, step, b + i, std::min(kBlock, n - i));
  return static_cast<float>(sum);
}

// Rows of C that fit into one vector.
HWY_ATTR inline void narrow_product(int64_t row_step, int64_t k_step, int64_t M, int64_t N, int64_t K,
                                    float alpha, const float* A, const float* B, int64_t ldb, float beta,
                                    float* C, int64_t ldc) {
  const hn::ScalableTag<float> d;
  const auto inside = hn::FirstN(d, static_cast<size_t>(N));
  for (int64_t i = 0; i < M; ++i) {
    const float* a = A + i * row_step;
    auto sum = hn::Zero(d);
    for (int64_t k = 0; k < K; ++k)
      sum = hn::MulAdd(hn::Set(d, a[k * k_step]), hn::MaskedLoad(inside, d, B + k * ldb), sum);
    sum = hn::Mul(sum, hn::Set(d, alpha));
    float* c = C + i * ldc;
    if (beta != 0) sum = hn::MulAdd(hn::Set(d, beta), hn::MaskedLoad(inside, d, c), sum);
    // Masked stores are slow: what a whole vector spoils is the next rows', which come later.
    if (beta == 0 && ldc == N && (M - i) * N >= static_cast<int64_t>(hn::Lanes(d)))
      hn::StoreU(sum, d, c);
    else
      hn::BlendedStore(sum, inside, d, c);
  }
}

}  // namespace

HWY_ATTR void small_product(bool trans_a, bool trans_b, int64_t M, int64_t N, int64_t K, float alpha,
                            const float* A, int64_t lda, const float* B, int64_t ldb, float beta, float* C,
                            int64_t ldc) {
  const int64_t row_step = trans_a ? 1 : lda, k_step = trans_a ? lda : 1;
  if (N == 1 && ldb == 1) trans_b = true;  // one column is one row
  if (!trans_b && K > kBlock) {
    for (int64_t k = 0; k < K; k += kBlock)
      small_product(trans_a, false, M, N, std::min(kBlock, K - k), alpha, A + k * k_step, lda, B + k * ldb,
                    ldb, k == 0 ? beta : 1, C, ldc);
    return;
  }
  if (!trans_b && N <= static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())))
    return narrow_product(row_step, k_step, M, N, K, alpha, A, B, ldb, beta, C, ldc);
  for (int64_t i = 0; i < M; ++i) {
    const float* a = A + i * row_step;
    float* c = C + i * ldc;
    if (trans_b) {
      for (int64_t j = 0; j < N; ++j) {
        const float v = alpha * dot(a, k_step, B + j * ldb, K);
        c[j] = beta == 0 ? v : v + beta * c[j];
      }
      continue;
    }
    constexpr int64_t kWidth = 8192;  // long runs of each row: less of it is lost to page changes
    for (int64_t start = 0; start < N; start += kWidth) {
      float sum[kWidth];
      const int64_t n = std::min(kWidth, N - start);
      for (int64_t j = 0; j < n; ++j) sum[j] = 0;
      int64_t k = 0;
      for (; k + 4 <= K; k += 4) {
        const float x0 = a[k * k_step], x1 = a[(k + 1) * k_step], x2 = a[(k + 2) * k_step],
                    x3 = a[(k + 3) * k_step];
        const float *b0 = B + k * ldb + start, *b1 = b0 + ldb, *b2 = b1 + ldb, *b3 = b2 + ldb;
        for (int64_t j = 0; j < n; ++j) sum[j] += x0 * b0[j] + x1 * b1[j] + x2 * b2[j] + x3 * b3[j];
      }
      for (; k < K; ++k) {
        const float x = a[k * k_step];
        const float* b = B + k * ldb + start;
        for (int64_t j = 0; j < n; ++j) sum[j] += x * b[j];
      }
      for (int64_t j = 0; j < n; ++j)
        c[start + j] = beta == 0 ? alpha * sum[j] : alpha * sum[j] + beta * c[start + j];
    }
  }
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(small_product);
void gemm_small(bool trans_a, bool trans_b, int64_t M, int64_t N, int64_t K, float alpha, const float* A,
                int64_t lda, const float* B, int64_t ldb, float beta, float* C, int64_t ldc) {
  HWY_DYNAMIC_DISPATCH(small_product)(trans_a, trans_b, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
}
}  // namespace tern::kernels
#endif
