// Reductions and scans against plain loops over layouts, types and edge cases.
#include "tern/kernels/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

#include "tern/base/error.h"
#include "tern/kernels/pointwise.h"

namespace tern::kernels {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

// Reduces a dense array along `mask`; gives doubles.
template <class T>
std::vector<double> run(Reduction op, const std::vector<int64_t>& sizes, uint64_t mask,
                        const std::vector<T>& x, DType out_type, double p = 0,
                        const std::vector<int64_t>* in_strides = nullptr) {
  const int ndim = static_cast<int>(sizes.size());
  std::vector<int64_t> in(ndim), out(ndim, 0);
  int64_t n = 1, m = 1;
  for (int d = ndim - 1; d >= 0; --d) {
    in[d] = n, n *= sizes[d];
    if (!(mask >> d & 1)) out[d] = m, m *= sizes[d];
  }
  if (in_strides) in = *in_strides;
  std::vector<char> bytes(static_cast<size_t>(m * element_size(out_type)) + 1);
  reduce(op, {ndim, sizes.data(), in.data(), out.data(), mask}, dtype_of<T>, x.data(), out_type, bytes.data(),
         p);
  std::vector<double> result(m);
  find_cast(out_type, kDouble)(bytes.data(), 1, result.data(), 1, m);
  return result;
}

std::vector<float> numbers(int64_t n) {
  std::vector<float> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>((i * 7919 % 1009) - 500) / 64.0f;
  return x;
}

TEST(KernelsReduce, every_mask_of_a_dense_array_sums_right) {
  const std::vector<int64_t> sizes = {3, 17, 5, 40};
  const auto x = numbers(3 * 17 * 5 * 40);
  for (uint64_t mask = 0; mask < 16; ++mask) {
    std::vector<double> want;
    int64_t m = 1;
    std::vector<int64_t> out(4, 0);
    for (int d = 3; d >= 0; --d)
      if (!(mask >> d & 1)) out[d] = m, m *= sizes[d];
    want.assign(m, 0);
    for (int64_t i = 0; i < static_cast<int64_t>(x.size()); ++i) {
      int64_t rest = i, o = 0;
      for (int d = 3; d >= 0; --d) o += rest % sizes[d] * out[d], rest /= sizes[d];
      want[o] += x[i];
    }
    auto got = run(Reduction::sum, sizes, mask, x, kFloat);
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 1e-4) << "mask " << mask << " at " << i;
  }
}

TEST(KernelsReduce, long_sums_are_accurate_and_parallel) {
  const std::vector<float> x(3000001, 0.1f);
  EXPECT_NEAR(run(Reduction::sum, {3000001}, 1, x, kFloat)[0], 3000001 * static_cast<double>(0.1f), 0.1);
  EXPECT_NEAR(run(Reduction::mean, {3000001}, 1, x, kFloat)[0], 0.1, 1e-8);
}

TEST(KernelsReduce, strided_input) {
  const auto x = numbers(60 * 70);
  const std::vector<int64_t> transposed = {1, 70};
  auto got = run(Reduction::sum, {70, 60}, 2, x, kFloat, 0, &transposed);
  for (int64_t c = 0; c < 70; ++c) {
    double want = 0;
    for (int64_t r = 0; r < 60; ++r) want += x[r * 70 + c];
    EXPECT_NEAR(got[c], want, 1e-4);
  }
}

TEST(KernelsReduce, integers_sum_in_int64_and_wrap) {
  EXPECT_EQ(run<int8_t>(Reduction::sum, {3}, 1, {100, 100, 100}, kLong)[0], 300);
  EXPECT_EQ(run<uint8_t>(Reduction::prod, {3}, 1, {100, 100, 100}, kLong)[0], 1000000);
  EXPECT_EQ(run<int64_t>(Reduction::amax, {2, 3}, 2, {1, 5, 2, -3, -1, -2}, kLong),
            (std::vector<double>{5, -1}));
  EXPECT_EQ(run<int64_t>(Reduction::mean, {4}, 1, {1, 2, 3, 5}, kFloat)[0], 2.75);
}

TEST(KernelsReduce, half_rounds_once) {
  std::vector<Half> x(4096, Half(1.0f));
  x.push_back(Half(2.0f));
  EXPECT_EQ(run(Reduction::sum, {4097}, 1, x, kHalf)[0],
            4096);  // 4098 lies between 4096 and 4100; the tie goes to even
  EXPECT_EQ(run(Reduction::sum, {4097}, 1, x, kFloat)[0], 4098);
}

TEST(KernelsReduce, nan_wins_and_the_first_of_equals_counts) {
  const std::vector<float> x = {1, 3, 3, 2, static_cast<float>(kNan), 9, 4, 4};
  EXPECT_EQ(run(Reduction::argmax, {2, 4}, 2, x, kLong), (std::vector<double>{1, 0}));
  EXPECT_EQ(run(Reduction::argmin, {2, 4}, 2, x, kLong), (std::vector<double>{0, 0}));
  EXPECT_EQ(run(Reduction::argmax, {2, 4}, 3, x, kLong), (std::vector<double>{4}));
  auto top = run(Reduction::amax, {2, 4}, 2, x, kFloat);
  EXPECT_EQ(top[0], 3);
  EXPECT_TRUE(std::isnan(top[1]));
  auto columns = run(Reduction::amin, {2, 4}, 1, x, kFloat);
  EXPECT_TRUE(std::isnan(columns[0]));
  EXPECT_EQ(columns[1], 3);
  std::vector<float> many = numbers(1000);
  many[777] = static_cast<float>(kNan);
  EXPECT_TRUE(std::isnan(run(Reduction::amax, {1000}, 1, many, kFloat)[0]));
}

TEST(KernelsReduce, variance_and_deviation) {
  const std::vector<double> x = {1, 2, 4, 8, 3, 3, 3, 3};
  auto v = run(Reduction::var, {2, 4}, 2, x, kDouble, 1);
  EXPECT_NEAR(v[0], 9.583333333333334, 1e-12);
  EXPECT_EQ(v[1], 0);
  EXPECT_NEAR(run(Reduction::std_, {2, 4}, 2, x, kDouble, 0)[0], 2.680951323690902, 1e-12);
  EXPECT_TRUE(std::isnan(run<float>(Reduction::var, {1}, 1, {5}, kFloat, 1)[0]));
  std::vector<float> big(100000);
  for (size_t i = 0; i < big.size(); ++i) big[i] = 1e4f + static_cast<float>(i % 2);
  EXPECT_NEAR(run(Reduction::var, {100000}, 1, big, kFloat, 0)[0], 0.25, 1e-6);
  double out[2], mean[2];
  const int64_t sizes[] = {2, 4}, in[] = {4, 1}, strides[] = {1, 0};
  reduce(Reduction::var_mean, {2, sizes, in, strides, 2}, kDouble, x.data(), kDouble, out, 1, mean);
  EXPECT_EQ(mean[0], 3.75);
  EXPECT_EQ(mean[1], 3);
}

TEST(KernelsReduce, norms) {
  const std::vector<float> x = {3, -4, 0, 0};
  EXPECT_EQ(run(Reduction::norm, {4}, 1, x, kFloat, 2)[0], 5);
  EXPECT_EQ(run(Reduction::norm, {4}, 1, x, kFloat, 1)[0], 7);
  EXPECT_EQ(run(Reduction::norm, {4}, 1, x, kFloat, 0)[0], 2);
  EXPECT_EQ(run(Reduction::norm, {4}, 1, x, kFloat, kInf)[0], 4);
  EXPECT_EQ(run(Reduction::norm, {4}, 1, x, kFloat, -kInf)[0], 0);
  EXPECT_NEAR(run(Reduction::norm, {4}, 1, x, kFloat, 3)[0], 4.497941445275415, 1e-6);
  EXPECT_EQ(run<std::complex<float>>(Reduction::norm, {1}, 1, {{3, 4}}, kFloat, 2)[0], 5);
}

TEST(KernelsReduce, logic_and_counts) {
  const std::vector<float> x = {0, 0, static_cast<float>(kNan), 1, 2, 3};
  EXPECT_EQ(run(Reduction::any, {3, 2}, 2, x, kBool), (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(run(Reduction::all, {3, 2}, 1, x, kBool), (std::vector<double>{0, 0}));
  EXPECT_EQ(run(Reduction::count_nonzero, {6}, 1, x, kLong)[0], 4);
}

TEST(KernelsReduce, logsumexp_does_not_overflow) {
  EXPECT_NEAR(run<float>(Reduction::logsumexp, {2}, 1, {1000, 1000}, kFloat)[0], 1000.6931, 1e-3);
  EXPECT_EQ(run<double>(Reduction::logsumexp, {2}, 1, {-kInf, -kInf}, kDouble)[0], -kInf);
}

TEST(KernelsReduce, empty_reductions) {
  EXPECT_EQ(run<float>(Reduction::sum, {2, 0}, 2, {}, kFloat), (std::vector<double>{0, 0}));
  EXPECT_EQ(run<float>(Reduction::prod, {0}, 1, {}, kFloat)[0], 1);
  EXPECT_TRUE(std::isnan(run<float>(Reduction::mean, {0}, 1, {}, kFloat)[0]));
  EXPECT_EQ(run<float>(Reduction::all, {0}, 1, {}, kBool)[0], 1);
  EXPECT_TRUE(run<float>(Reduction::sum, {0, 3}, 2, {}, kFloat).empty());
  EXPECT_EQ(run<float>(Reduction::sum, {}, 0, {4}, kFloat)[0], 4);
  try {
    run<float>(Reduction::amax, {2, 0}, 2, {}, kFloat);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("size 0"), std::string::npos) << e.message();
  }
}

TEST(KernelsScan, sums_products_and_maxima) {
  const int64_t sizes[] = {2, 3}, strides[] = {3, 1};
  const float x[] = {1, 2, 3, 4, 6, 5};
  float y[6];
  int64_t at[6];
  scan(Scan::sum, 2, sizes, 1, kFloat, x, strides, kFloat, y, strides);
  EXPECT_EQ(std::vector<float>(y, y + 6), (std::vector<float>{1, 3, 6, 4, 10, 15}));
  scan(Scan::prod, 2, sizes, 0, kFloat, x, strides, kFloat, y, strides);
  EXPECT_EQ(std::vector<float>(y, y + 6), (std::vector<float>{1, 2, 3, 4, 12, 15}));
  scan(Scan::max, 2, sizes, 1, kFloat, x, strides, kFloat, y, strides, at);
  EXPECT_EQ(std::vector<float>(y, y + 6), (std::vector<float>{1, 2, 3, 4, 6, 6}));
  EXPECT_EQ(std::vector<int64_t>(at, at + 6), (std::vector<int64_t>{0, 1, 2, 0, 1, 1}));
}

TEST(KernelsReduce, products_of_rows_of_any_length) {
  for (int64_t n : {1, 3, 8, 15, 16, 17, 64, 131}) {
    std::vector<float> x(static_cast<size_t>(2 * n));
    double want[2] = {1, 1};
    for (int64_t i = 0; i < 2 * n; ++i) {
      x[i] = 1 + static_cast<float>(i * 7919 % 13 - 6) / 16;
      want[i / n] *= x[i];
    }
    const auto got = run(Reduction::prod, {2, n}, 2, x, kFloat);
    for (int k = 0; k < 2; ++k) EXPECT_NEAR(got[k] / want[k], 1, 1e-6) << n;
  }
}

TEST(KernelsReduce, the_place_of_the_best_is_the_first_and_nan_wins) {
  for (int64_t n : {1, 7, 32, 33, 100}) {
    for (int64_t at = 0; at < n; at += 3) {
      std::vector<float> x(static_cast<size_t>(n), -2.0f);
      for (int64_t i = at; i < n; i += 5) x[i] = 3;
      EXPECT_EQ(run(Reduction::argmax, {n}, 1, x, kLong)[0], at);
      for (float& v : x) v = -v;
      EXPECT_EQ(run(Reduction::argmin, {n}, 1, x, kLong)[0], at);
      for (int64_t i = at; i < n; i += 2) x[i] = static_cast<float>(kNan);
      EXPECT_EQ(run(Reduction::argmax, {n}, 1, x, kLong)[0], at);
    }
    EXPECT_EQ(run(Reduction::argmax, {n}, 1, std::vector<float>(n, static_cast<float>(-kInf)), kLong)[0], 0);
  }
}

TEST(KernelsReduce, running_sums_of_many_lines) {
  for (int64_t lines : {1, 7, 8, 9, 21}) {
    const int64_t n = 13;
    const auto x = numbers(lines * n);
    for (bool along_rows : {true, false}) {
      std::vector<float> y(x.size());
      const int64_t sizes[] = {along_rows ? lines : n, along_rows ? n : lines}, strides[] = {sizes[1], 1};
      scan(Scan::sum, 2, sizes, along_rows ? 1 : 0, kFloat, x.data(), strides, kFloat, y.data(), strides);
      for (int64_t l = 0; l < lines; ++l) {
        double total = 0;
        for (int64_t i = 0; i < n; ++i) {
          const size_t k = static_cast<size_t>(along_rows ? l * n + i : i * lines + l);
          EXPECT_FLOAT_EQ(y[k], static_cast<float>(total += x[k]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace tern::kernels
