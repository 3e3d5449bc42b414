// Normalisation, softmax, pooling and attention against PyTorch's numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tern/base/error.h"
#include "tern/kernels/attention.h"
#include "tern/kernels/index.h"
#include "tern/kernels/norm.h"
#include "tern/kernels/pointwise.h"
#include "tern/kernels/pool.h"
#include "tern/kernels/softmax.h"

namespace tern::kernels {
namespace {

#include "tests/kernels/nn_expected.inc"

template <class T>
std::vector<T> numbers(int64_t n, int64_t seed) {
  std::vector<T> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = T(static_cast<float>((i * 37 + i / 7 * 5 + seed * 11) % 19 - 9) / 8);
  return x;
}
template <class T>
std::vector<double> joined(std::initializer_list<std::vector<T>> parts) {
  std::vector<double> all;
  for (const auto& p : parts)
    for (T v : p) all.push_back(static_cast<double>(v));
  return all;
}
void expect_all_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance * (1 + std::abs(want[i]))) << "at " << i;
}
template <class T>
constexpr double kTolerance = std::is_same_v<T, double>  ? 2e-8
                              : std::is_same_v<T, float> ? 3e-6
                                                         : 0.02;

template <class T>
class KernelsNn : public ::testing::Test {};
using Types = ::testing::Types<float, double, Half, BFloat16>;
TYPED_TEST_SUITE(KernelsNn, Types);

template <class T>
using Stat = std::conditional_t<std::is_same_v<T, double>, double, float>;

TYPED_TEST(KernelsNn, layer_norm_and_gradients) {
  using T = TypeParam;
  const auto x = numbers<T>(30, 1), w = numbers<T>(10, 2), b = numbers<T>(10, 3), g = numbers<T>(30, 4);
  std::vector<T> y(30), gx(30), gw(10), gb(10);
  std::vector<Stat<T>> mean(3), rstd(3);
  layer_norm(dtype_of<T>, 3, 10, x.data(), w.data(), b.data(), 1e-5, y.data(), mean.data(), rstd.data());
  layer_norm_backward(dtype_of<T>, 3, 10, g.data(), x.data(), mean.data(), rstd.data(), w.data(), gx.data(),
                      gw.data(), gb.data());
  expect_all_near(joined<T>({y, gx, gw, gb}), kLayerNorm, kTolerance<T>);
  rms_norm(dtype_of<T>, 3, 10, x.data(), w.data(), 1e-5, y.data(), rstd.data());
  expect_all_near(joined<T>({y}), kRmsNorm, kTolerance<T>);
}

TYPED_TEST(KernelsNn, group_norm_and_gradients) {
  using T = TypeParam;
  const auto x = numbers<T>(72, 1), w = numbers<T>(4, 2), b = numbers<T>(4, 3), g = numbers<T>(72, 4);
  std::vector<T> y(72), gx(72), gw(4), gb(4);
  std::vector<Stat<T>> mean(4), rstd(4);
  group_norm(dtype_of<T>, 2, 4, 9, 2, x.data(), w.data(), b.data(), 1e-5, y.data(), mean.data(), rstd.data());
  group_norm_backward(dtype_of<T>, 2, 4, 9, 2, g.data(), x.data(), mean.data(), rstd.data(), w.data(),
                      gx.data(), gw.data(), gb.data());
  expect_all_near(joined<T>({y, gx, gw, gb}), kGroupNorm, kTolerance<T>);
}

TYPED_TEST(KernelsNn, batch_norm_and_gradients) {
  using T = TypeParam;
  const auto x = numbers<T>(72, 1), w = numbers<T>(4, 2), b = numbers<T>(4, 3), g = numbers<T>(72, 4);
  std::vector<T> y(72), gx(72), gw(4), gb(4);
  std::vector<Stat<T>> mean(4), rstd(4);
  batch_norm_stats(dtype_of<T>, 2, 4, 9, x.data(), mean.data(), rstd.data());
  for (auto& v : rstd) v = 1 / std::sqrt(v + static_cast<Stat<T>>(1e-5));
  batch_norm_apply(dtype_of<T>, 2, 4, 9, x.data(), mean.data(), rstd.data(), w.data(), b.data(), y.data());
  batch_norm_backward(dtype_of<T>, 2, 4, 9, g.data(), x.data(), mean.data(), rstd.data(), w.data(), true,
                      gx.data(), gw.data(), gb.data());
  expect_all_near(joined<T>({y, gx, gw, gb}), kBatchNorm, kTolerance<T>);
  // [batch, channels] takes another road to the same numbers.
  std::vector<T> flat(72), out(72);
  for (int64_t n = 0; n < 2; ++n)
    for (int64_t c = 0; c < 4; ++c)
      for (int64_t i = 0; i < 9; ++i) flat[(n * 9 + i) * 4 + c] = x[(n * 4 + c) * 9 + i];
  std::vector<Stat<T>> mean2(4), var2(4);
  batch_norm_stats(dtype_of<T>, 18, 4, 1, flat.data(), mean2.data(), var2.data());
  for (int c = 0; c < 4; ++c) EXPECT_NEAR(mean2[c], mean[c], 1e-6);
  batch_norm_apply(dtype_of<T>, 18, 4, 1, flat.data(), mean.data(), rstd.data(), w.data(), b.data(),
                   out.data());
  EXPECT_NEAR(static_cast<double>(out[5]), static_cast<double>(y[9 + 1]), 1e-6 + kTolerance<T> * 2);
}

TYPED_TEST(KernelsNn, softmax_over_any_dim) {
  using T = TypeParam;
  const auto x = numbers<T>(60, 1), g = numbers<T>(60, 4);
  const std::vector<double>* want[2][2] = {{&kSoftmax1, &kSoftmax2}, {&kLogSoftmax1, &kLogSoftmax2}};
  for (bool log : {false, true})
    for (int dim : {1, 2}) {
      const int64_t outer = dim == 1 ? 3 : 15, n = dim == 1 ? 5 : 4, inner = dim == 1 ? 4 : 1;
      std::vector<T> y(60), gx(60);
      softmax(log, dtype_of<T>, x.data(), dtype_of<T>, y.data(), outer, n, inner);
      softmax_backward(log, dtype_of<T>, g.data(), y.data(), dtype_of<T>, gx.data(), outer, n, inner);
      expect_all_near(joined<T>({y, gx}), *want[log][dim - 1], kTolerance<T>);
    }
}

PoolShape pool(int64_t out_h, int64_t out_w, int64_t kernel, int64_t stride, int64_t padding,
               int64_t dilation) {
  PoolShape s;
  s.planes = 2;
  const int64_t in[] = {7, 8}, out[] = {out_h, out_w};
  for (int d = 0; d < 2; ++d)
    s.in_size[d] = in[d], s.out_size[d] = out[d], s.kernel[d] = kernel, s.stride[d] = stride,
    s.padding[d] = padding, s.dilation[d] = dilation;
  return s;
}

template <class T>
void check_max(const PoolShape& s, const std::vector<double>& want) {
  const int64_t n = 2 * s.out_size[0] * s.out_size[1];
  const auto x = numbers<T>(112, 1), g = numbers<T>(n, 4);
  std::vector<T> y(n), gx(112);
  std::vector<int64_t> at(n);
  max_pool(dtype_of<T>, s, x.data(), y.data(), at.data());
  max_pool_backward(dtype_of<T>, s, g.data(), at.data(), gx.data());
  auto got = joined<T>({y});
  got.insert(got.end(), at.begin(), at.end());
  for (T v : gx) got.push_back(static_cast<double>(v));
  expect_all_near(got, want, kTolerance<T>);
}
template <class T>
void check_avg(const PoolShape& s, const std::vector<double>& want) {
  const int64_t n = 2 * s.out_size[0] * s.out_size[1];
  const auto x = numbers<T>(112, 1), g = numbers<T>(n, 4);
  std::vector<T> y(n), gx(112);
  avg_pool(dtype_of<T>, s, x.data(), y.data());
  avg_pool_backward(dtype_of<T>, s, g.data(), gx.data());
  expect_all_near(joined<T>({y, gx}), want, kTolerance<T>);
}

TYPED_TEST(KernelsNn, pooling_and_gradients) {
  using T = TypeParam;
  const int64_t h = pool_out_size(7, 3, 2, 1, 1, true), w = pool_out_size(8, 3, 2, 1, 1, true);
  EXPECT_EQ(h, 4);
  EXPECT_EQ(w, 5);
  check_max<T>(pool(h, w, 3, 2, 1, 1), kMaxPool);
  check_max<T>(pool(pool_out_size(7, 2, 1, 0, 2, false), pool_out_size(8, 2, 1, 0, 2, false), 2, 1, 0, 2),
               kMaxPoolDilated);
  PoolShape s = pool(h, w, 3, 2, 1, 1);
  check_avg<T>(s, kAvgPool);
  s.count_include_pad = false;
  check_avg<T>(s, kAvgPoolNoPad);
  s.divisor_override = 3;
  check_avg<T>(s, kAvgPoolDivisor);
  PoolShape a = pool(3, 5, 1, 1, 0, 1);
  a.adaptive = true;
  check_avg<T>(a, kAdaptiveAvg);
  check_max<T>(a, kAdaptiveMax);
}

TEST(KernelsAttention, agrees_with_pytorch_with_every_mask) {
  const auto q = numbers<float>(160, 1), k = numbers<float>(224, 2), v = numbers<float>(168, 3),
             m = numbers<float>(70, 4);
  std::vector<float> y(120);
  AttentionShape s{
      2, 2, 5, 7, 8, 6, {80, 40, 8}, {112, 56, 8}, {84, 42, 6}, {60, 30, 6}, 1 / std::sqrt(8.0f)};
  attention(s, q.data(), k.data(), v.data(), y.data());
  expect_all_near(joined<float>({y}), kAttention, 2e-6);
  s.causal = true;
  attention(s, q.data(), k.data(), v.data(), y.data());
  expect_all_near(joined<float>({y}), kAttentionCausal, 2e-6);
  s.causal = false;
  s.mask = m.data();
  s.mask_strides[0] = 35, s.mask_strides[2] = 7, s.mask_strides[3] = 1;
  attention(s, q.data(), k.data(), v.data(), y.data());
  expect_all_near(joined<float>({y}), kAttentionMask, 2e-6);
  bool seen[70];
  for (int i = 0; i < 70; ++i) seen[i] = m[i] > -0.6f;
  s.mask = nullptr;
  s.bool_mask = seen;
  attention(s, q.data(), k.data(), v.data(), y.data());
  expect_all_near(joined<float>({y}), kAttentionBool, 2e-6);
}

TEST(KernelsAttention, blocks_of_keys_and_queries_join) {
  const int64_t L = 130, S = 700, E = 16;
  const auto q = numbers<float>(L * E, 1), k = numbers<float>(S * E, 2), v = numbers<float>(S * E, 3);
  std::vector<float> y(L * E);
  AttentionShape s{1, 1, L, S, E, E, {0, 0, E}, {0, 0, E}, {0, 0, E}, {0, 0, E}, 0.25f};
  for (bool causal : {false, true}) {
    s.causal = causal;
    attention(s, q.data(), k.data(), v.data(), y.data());
    for (int64_t i = 0; i < L; ++i) {
      std::vector<double> p(S), out(E, 0);
      double sum = 0;
      for (int64_t j = 0; j < (causal ? i + 1 : S); ++j) {
        for (int64_t e = 0; e < E; ++e) p[j] += 0.25 * q[i * E + e] * k[j * E + e];
        sum += p[j] = std::exp(p[j]);
        for (int64_t e = 0; e < E; ++e) out[e] += p[j] * v[j * E + e];
      }
      for (int64_t e = 0; e < E; ++e) ASSERT_NEAR(y[i * E + e], out[e] / sum, 1e-5) << i;
    }
  }
}

TEST(KernelsIndex, rows_are_selected_and_added) {
  const float x[] = {1, 2, 3, 4, 5, 6};
  const int64_t rows[] = {2, 0, 2};
  float out[6], sum[6] = {};
  index_select(kFloat, x, 1, 3, 2, kLong, rows, 3, out);
  EXPECT_EQ(std::vector<float>(out, out + 6), (std::vector<float>{5, 6, 1, 2, 5, 6}));
  index_add(kFloat, sum, 1, 3, 2, kLong, rows, 3, out);
  EXPECT_EQ(std::vector<float>(sum, sum + 6), (std::vector<float>{1, 2, 0, 0, 10, 12}));
  index_add(kFloat, sum, 1, 3, 2, kLong, rows, 3, out, 2, 2);
  EXPECT_EQ(sum[0], 3);
  EXPECT_EQ(sum[4], 10);
  const int32_t bad[] = {3};
  try {
    index_select(kFloat, x, 1, 3, 2, kInt, bad, 1, out);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::index);
    EXPECT_NE(e.message().find("index 3 is out of bounds for dimension with size 3"), std::string::npos)
        << e.message();
  }
}

TEST(KernelsIndex, gather_and_scatter) {
  const int64_t sizes[] = {2, 2}, in_strides[] = {3, 1}, strides[] = {2, 1}, zero[] = {0, 0},
                index[] = {2, 0, 1, 1};
  const int64_t x[] = {1, 2, 3, 4, 5, 6};
  int64_t out[4], target[6] = {1, 1, 1, 1, 1, 1};
  const IndexShape shape{2, sizes, 1, 3};
  gather(kLong, shape, x, in_strides, index, strides, out, strides);
  EXPECT_EQ(std::vector<int64_t>(out, out + 4), (std::vector<int64_t>{3, 1, 5, 5}));
  scatter(kLong, ScatterOp::add, shape, target, in_strides, index, strides, out, strides);
  EXPECT_EQ(std::vector<int64_t>(target, target + 6), (std::vector<int64_t>{2, 1, 4, 1, 11, 1}));
  scatter(kLong, ScatterOp::amax, shape, target, in_strides, index, strides, x, zero);
  EXPECT_EQ(target[4], 11);
  scatter(kLong, ScatterOp::set, shape, target, in_strides, index, strides, x, zero);
  EXPECT_EQ(target[4], 1);
  const int64_t bad[] = {0, 0, 0, 3};
  EXPECT_THROW(gather(kLong, shape, x, in_strides, bad, strides, out, strides), Error);
}

TEST(KernelsIndex, advanced_indexing) {
  const float x[] = {0, 1, 2, 10, 11, 12};  // [2, 3]
  const int64_t rows[] = {1, 0, -1}, *indices[] = {rows};
  const int64_t sizes[] = {2}, strides[] = {3}, slice[] = {3}, slice_strides[] = {1};
  int64_t offsets[3];
  index_offsets(1, indices, sizes, strides, 3, offsets);
  float out[9], target[6] = {};
  index_get(kFloat, x, 3, offsets, 1, slice, slice_strides, out);
  EXPECT_EQ(std::vector<float>(out, out + 9), (std::vector<float>{10, 11, 12, 0, 1, 2, 10, 11, 12}));
  index_put(kFloat, true, target, 3, offsets, 1, slice, slice_strides, out);
  EXPECT_EQ(std::vector<float>(target, target + 6), (std::vector<float>{0, 1, 2, 20, 22, 24}));
  index_put(kFloat, false, target, 3, offsets, 1, slice, slice_strides, out);
  EXPECT_EQ(target[3], 10);
  const int64_t bad[] = {2}, *bads[] = {bad};
  EXPECT_THROW(index_offsets(1, bads, sizes, strides, 1, offsets), Error);
}

TEST(KernelsIndex, nonzero_and_masks) {
  const float x[] = {0, 1, 0, 2, 0, 3};
  const int64_t sizes[] = {2, 3}, strides[] = {3, 1};
  ASSERT_EQ(nonzero_count(kFloat, 2, sizes, strides, x), 3);
  int64_t at[6];
  nonzero(kFloat, 2, sizes, strides, x, at);
  EXPECT_EQ(std::vector<int64_t>(at, at + 6), (std::vector<int64_t>{0, 1, 1, 0, 1, 2}));
  const bool mask[] = {true, false, true};
  const int64_t broadcast[] = {0, 1};
  float out[6], target[6] = {};
  EXPECT_EQ(masked_select(kFloat, 2, sizes, x, strides, mask, broadcast, out), 4);
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{0, 0, 2, 3}));
  masked_scatter(kFloat, 2, sizes, target, strides, mask, broadcast, x, 6);
  EXPECT_EQ(std::vector<float>(target, target + 6), (std::vector<float>{0, 0, 1, 0, 0, 2}));
  EXPECT_THROW(masked_scatter(kFloat, 2, sizes, target, strides, mask, broadcast, x, 3), Error);
}

TEST(KernelsIndex, sort_is_stable_and_nan_is_largest) {
  const float x[] = {3, std::numeric_limits<float>::quiet_NaN(), 1, 3, -2, 1};
  const int64_t size = 6, stride = 1;
  float values[6];
  int64_t at[12];
  sort(kFloat, 1, &size, 0, x, &stride, false, 6, values, at, &stride);
  sort(kFloat, 1, &size, 0, x, &stride, true, 6, nullptr, at + 6, &stride);
  EXPECT_EQ(values[0], -2);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(at[i], static_cast<int64_t>(kSortIndices[i])) << i;
  sort(kFloat, 1, &size, 0, x, &stride, true, 2, values, at, &stride);
  EXPECT_TRUE(std::isnan(values[0]));
  EXPECT_EQ(values[1], 3);
  EXPECT_THROW(sort(kFloat, 1, &size, 0, x, &stride, true, 7, values, at, &stride), Error);
}

}  // namespace
}  // namespace tern::kernels
