#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/attention.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tern/base/parallel.h"
#include "tern/kernels/attention.h"
#include "tern/kernels/gemm.h"

#include "tern/kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {

HWY_ATTR float row_max(const float* x, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  float max = -kInf;
  int64_t i = 0;
  if (n >= lanes) {
    Vf top = all(-kInf);
    for (; i + lanes <= n; i += lanes) top = hn::Max(top, hn::LoadU(df, x + i));
    max = hn::GetLane(hn::MaxOfLanes(df, top));
  }
  for (; i < n; ++i) max = std::max(max, x[i]);
  return max;
}
// x = exp(x - shift); gives the sum.
HWY_ATTR float row_exp(float* x, float shift, int64_t n) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(df));
  Vf total = hn::Zero(df);
  float sum = 0;
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Vf e = exp_any(hn::Sub(hn::LoadU(df, x + i), all(shift)));
    hn::StoreU(e, df, x + i);
    total = hn::Add(total, e);
  }
  if (n >= lanes) sum = hn::GetLane(hn::SumOfLanes(df, total));
  if (i < n) {
    float rest[hn::MaxLanes(df)];
    for (int64_t k = 0; k < lanes; ++k) rest[k] = i + k < n ? x[i + k] : shift;
    hn::StoreU(exp_any(hn::Sub(hn::LoadU(df, rest), all(shift))), df, rest);
    for (int64_t k = 0; i < n; ++i, ++k) sum += x[i] = rest[k];
  }
  return sum;
}

}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(row_max);
HWY_EXPORT(row_exp);

void attention(const AttentionShape& s, const float* q, const float* k, const float* v, float* y) {
  constexpr int64_t kQueries = 64, kKeys = 256;
  const float inf = std::numeric_limits<float>::infinity();
  const int64_t blocks = (s.queries + kQueries - 1) / kQueries;
  const int64_t task_work = std::min(kQueries, s.queries) * s.keys * (s.width + s.value_width);
  parallel_for(
      0, s.batch * s.heads * blocks, std::max<int64_t>(1, kGrainProducts / (task_work + 1)),
      [&](int64_t begin, int64_t end) {
        const int64_t most_rows = std::min(kQueries, s.queries), row_size = std::min(kKeys, s.keys);
        std::vector<float> scores(most_rows * row_size), sums(most_rows), tops(most_rows);
        for (int64_t task = begin; task < end; ++task) {
          const int64_t b = task / (s.heads * blocks), h = task / blocks % s.heads,
                        first = task % blocks * kQueries;
          const int64_t rows = std::min(kQueries, s.queries - first);
          const float* qb = q + b * s.q_strides[0] + h * s.q_strides[1] + first * s.q_strides[2];
          const float* kb = k + b * s.k_strides[0] + h * s.k_strides[1];
          const float* vb = v + b * s.v_strides[0] + h * s.v_strides[1];
          float* yb = y + b * s.y_strides[0] + h * s.y_strides[1] + first * s.y_strides[2];
          const int64_t mask_at = b * s.mask_strides[0] + h * s.mask_strides[1];
          std::fill(sums.begin(), sums.end(), 0.0f);
          std::fill(tops.begin(), tops.end(), -inf);
          for (int64_t r = 0; r < rows; ++r) std::fill_n(yb + r * s.y_strides[2], s.value_width, 0.0f);
          const int64_t keys =
              s.causal ? std::min(s.keys, first + rows) : s.keys;  // later ones are seen by no row
          for (int64_t start = 0; start < keys; start += kKeys) {
            const int64_t n = std::min(kKeys, keys - start);
            gemm(DType::float32, false, true, rows, n, s.width, static_cast<double>(s.scale), qb,
                 s.q_strides[2], kb + start * s.k_strides[2], s.k_strides[2], 0, scores.data(), row_size);
            for (int64_t r = 0; r < rows; ++r) {
              float* row = scores.data() + r * row_size;
              const int64_t at = mask_at + (first + r) * s.mask_strides[2] + start * s.mask_strides[3];
              if (s.mask)
                for (int64_t j = 0; j < n; ++j) row[j] += s.mask[at + j * s.mask_strides[3]];
              if (s.bool_mask)
                for (int64_t j = 0; j < n; ++j)
                  if (!s.bool_mask[at + j * s.mask_strides[3]]) row[j] = -inf;
              if (s.causal)
                for (int64_t j = std::max<int64_t>(0, first + r + 1 - start); j < n; ++j) row[j] = -inf;
              const float top = std::max(tops[r], HWY_DYNAMIC_DISPATCH(row_max)(row, n));
              if (top == -inf) {  // nothing seen yet
                std::fill_n(row, n, 0.0f);
                continue;
              }
              const float keep = tops[r] == -inf ? 0.0f : std::exp(tops[r] - top);
              sums[r] = sums[r] * keep + HWY_DYNAMIC_DISPATCH(row_exp)(row, top, n);
              tops[r] = top;
              float* out = yb + r * s.y_strides[2];
              if (keep != 1.0f)
                for (int64_t e = 0; e < s.value_width; ++e) out[e] *= keep;
            }
            gemm(DType::float32, false, false, rows, s.value_width, n, 1, scores.data(), row_size,
                 vb + start * s.v_strides[2], s.v_strides[2], 1, yb, s.y_strides[2]);
          }
          for (int64_t r = 0; r < rows; ++r) {
            float* out = yb + r * s.y_strides[2];
            const float factor = 1 / sums[r];
            if (s.logsumexp)
              s.logsumexp[(b * s.heads + h) * s.queries + first + r] = tops[r] + std::log(sums[r]);
            for (int64_t e = 0; e < s.value_width; ++e) out[e] *= factor;  // 0 / 0 is NaN, as it should be
          }
        }
      });
}

}  // namespace tern::kernels
#endif
