// Quantizing lines and multiplying bytes, against loops over single elements.
#include "tern/kernels/quantized.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tern::kernels {
namespace {

// Numbers without a pattern, the same on every machine.
struct Numbers {
  uint32_t state = 12345;
  uint32_t next() { return state = state * 1664525u + 1013904223u; }
  int between(int low, int high) { return low + static_cast<int>(next() >> 8) % (high - low + 1); }
};

TEST(QuantizedKernels, lines_of_every_length_are_quantized_and_back) {
  Numbers r;
  for (int64_t n : {0, 1, 3, 15, 16, 17, 33, 100}) {
    std::vector<float> x(static_cast<size_t>(n)), back(x.size());
    for (float& v : x) v = static_cast<float>(r.between(-3000, 3000)) / 17.0f;
    std::vector<uint8_t> q(x.size());
    quantize(DType::uint8, x.data(), q.data(), n, 0.7f, 100);
    dequantize(DType::uint8, q.data(), back.data(), n, 0.7f, 100);
    for (size_t i = 0; i < x.size(); ++i) {
      int wanted = static_cast<int>(std::nearbyint(x[i] * (1.0f / 0.7f) + 100.0f));
      EXPECT_EQ(q[i], std::min(std::max(wanted, 0), 255)) << n << " " << i;
      EXPECT_EQ(back[i], static_cast<float>(q[i] - 100) * 0.7f);
    }
  }
}

TEST(QuantizedKernels, products_are_exact) {
  Numbers r;
  for (auto [m, n, k] : {std::tuple{1, 1, 1}, {3, 5, 7}, {2, 16, 64}, {17, 33, 70}, {64, 48, 9}, {4, 3, 0}}) {
    std::vector<uint8_t> a(static_cast<size_t>(m * (k + 3)));
    std::vector<int8_t> w(static_cast<size_t>(n * k));
    for (uint8_t& v : a) v = static_cast<uint8_t>(r.between(0, 255));
    for (int8_t& v : w) v = static_cast<int8_t>(r.between(-128, 127));
    for (bool zeros : {false, true}) {
      std::vector<int32_t> z(static_cast<size_t>(n));
      for (int32_t& v : z) v = zeros ? r.between(-9, 9) : 0;
      std::vector<int32_t> c(static_cast<size_t>(m * (n + 2)), -1);
      QuantizedWeight weight(n, k, w.data(), z.data());
      weight.multiply(m, a.data(), k + 3, 77, c.data(), n + 2);
      for (int i = 0; i < m; ++i)
        for (int j = 0; j < n; ++j) {
          int32_t sum = 0;
          for (int p = 0; p < k; ++p) sum += (a[i * (k + 3) + p] - 77) * (w[j * k + p] - z[j]);
          ASSERT_EQ(c[i * (n + 2) + j], sum) << m << "x" << n << "x" << k << " at " << i << "," << j;
        }
    }
  }
}

TEST(QuantizedKernels, sums_are_rounded_once) {
  const int64_t n = 21;
  std::vector<int32_t> c(n);
  std::vector<float> scales(n), bias(n);
  for (int64_t i = 0; i < n; ++i) {
    c[i] = static_cast<int32_t>(i * 100 - 1000);
    scales[i] = 0.01f + 0.001f * static_cast<float>(i);
    bias[i] = static_cast<float>(i % 3) - 1;
  }
  std::vector<uint8_t> q(n);
  std::vector<float> y(n);
  Requantize r{n, scales.data(), bias.data(), false};
  finish_float(r, 1, c.data(), n, y.data(), n);
  finish_quantized(r, DType::uint8, 0.25f, 60, 1, c.data(), n, q.data(), n);
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_FLOAT_EQ(y[i], static_cast<float>(c[i]) * scales[i] + bias[i]);
    EXPECT_NEAR(q[i], std::min(std::max(y[i] / 0.25f + 60, 0.0f), 255.0f), 0.501);
  }
  r.relu = true;
  finish_quantized(r, DType::uint8, 0.25f, 60, 1, c.data(), n, q.data(), n);
  for (uint8_t v : q) EXPECT_GE(v, 60);
}

}  // namespace
}  // namespace tern::kernels
