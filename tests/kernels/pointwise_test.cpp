// The pointwise engine against PyTorch's numbers and against plain loops over every layout.
#include "tern/kernels/pointwise.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <complex>
#include <numeric>
#include <vector>

#include "tern/base/error.h"
#include "tests/support/patience.h"

namespace tern::kernels {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(),
                 kNan = std::numeric_limits<double>::quiet_NaN();
struct Case {
  const char* op;
  std::vector<double> params;
  std::vector<double> out;
};
#include "tests/kernels/pointwise_expected.inc"

Params params_of(const Case& c) {
  Params p;
  for (size_t k = 0; k < c.params.size(); ++k) p.set(static_cast<int>(k), c.params[k]);
  return p;
}

template <class T>
std::vector<T> as(const std::vector<double>& v) {
  return std::vector<T>(v.begin(), v.end());
}

template <class T>
std::vector<T> apply(const char* op, const std::vector<std::vector<T>>& ins, const Params* p) {
  Loop loop = find_loop(op, dtype_of<T>);
  EXPECT_NE(loop, nullptr) << op;
  std::vector<T> out(ins[0].size());
  if (!loop) return out;
  const int64_t size = static_cast<int64_t>(out.size()), stride = 1;
  std::vector<Operand> operands;
  for (auto& in : ins) operands.push_back({const_cast<T*>(in.data()), dtype_of<T>, &stride});
  Operand o{out.data(), dtype_of<T>, &stride};
  run_pointwise(loop, dtype_of<T>, dtype_of<T>, 1, &size, &o, 1, operands.data(),
                static_cast<int>(ins.size()), p);
  return out;
}

void expect_near(const Case& c, const std::vector<double>& x, double got, double want, size_t i,
                 double rtol) {
  // PyTorch's vectorised gelu gives NaN at infinity; the limit is infinity.
  if (std::string_view(c.op) == "gelu" && std::isinf(x[i])) return;
  if (std::isnan(want)) {
    EXPECT_TRUE(std::isnan(got)) << c.op << "(" << x[i] << ") = " << got;
  } else if (std::isinf(want)) {
    EXPECT_EQ(got, want) << c.op << "(" << x[i] << ")";
  } else {
    EXPECT_NEAR(got, want, rtol * std::abs(want) + 3e-7) << c.op << "(" << x[i] << ") at " << i;
    if (want == 0) {
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << c.op << "(" << x[i] << ")";
    }
  }
}

TEST(KernelsPointwise, unary_float_agrees_with_pytorch) {
  for (const Case& c : kUnary) {
    const Params p = params_of(c);
    auto got = apply<float>(c.op, {as<float>(kUnaryIn)}, c.params.empty() ? nullptr : &p);
    for (size_t i = 0; i < got.size(); ++i) expect_near(c, kUnaryIn, got[i], c.out[i], i, 1.3e-6);
  }
}

TEST(KernelsPointwise, unary_double_agrees_with_pytorch_in_float_precision) {
  for (const Case& c : kUnary) {
    const Params p = params_of(c);
    auto got = apply<double>(c.op, {kUnaryIn}, c.params.empty() ? nullptr : &p);
    for (size_t i = 0; i < got.size(); ++i) {
      if (!std::isfinite(c.out[i]) || std::abs(kUnaryIn[i]) > 20 ||
          std::abs(std::abs(kUnaryIn[i]) - 1) < 0.01)
        continue;
      EXPECT_NEAR(got[i], c.out[i], 3e-5 * std::abs(c.out[i]) + 1e-6) << c.op << "(" << kUnaryIn[i] << ")";
    }
  }
}

TEST(KernelsPointwise, binary_float_agrees_with_pytorch) {
  for (const Case& c : kBinary) {
    auto got = apply<float>(c.op, {as<float>(kA), as<float>(kB)}, nullptr);
    for (size_t i = 0; i < got.size(); ++i) expect_near(c, kA, got[i], c.out[i], i, 1.3e-6);
  }
}

TEST(KernelsPointwise, backward_agrees_with_pytorch) {
  for (const Case& c : kBackward) {
    const Params p = params_of(c);
    auto got = apply<float>(c.op, {as<float>(kGrad), as<float>(kBackwardIn)}, &p);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], c.out[i], 1.3e-6 * std::abs(c.out[i]) + 1e-6)
          << c.op << "(" << kBackwardIn[i] << ")";
  }
}

TEST(KernelsPointwise, int8_agrees_with_pytorch) {
  for (const Case& c : kInteger) {
    auto got = apply<int8_t>(c.op, {as<int8_t>(kI), as<int8_t>(kJ)}, nullptr);
    for (size_t i = 0; i < got.size(); ++i)
      EXPECT_EQ(got[i], static_cast<int>(c.out[i])) << c.op << "(" << kI[i] << ", " << kJ[i] << ")";
  }
}

TEST(KernelsPointwise, long_vectors_agree_with_the_c_library) {
  std::vector<float> x(10007);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = -12.0f + 24.0f * static_cast<float>(i) / static_cast<float>(x.size());
  const std::pair<const char*, double (*)(double)> functions[] = {
      {"exp", [](double v) { return std::exp(v); }},
      {"tanh", [](double v) { return std::tanh(v); }},
      {"sin", [](double v) { return std::sin(v); }},
      {"cos", [](double v) { return std::cos(v); }},
      {"erf", [](double v) { return std::erf(v); }},
      {"expm1", [](double v) { return std::expm1(v); }},
      {"atan", [](double v) { return std::atan(v); }},
      {"exp2", [](double v) { return std::exp2(v); }},
      {"sigmoid", [](double v) { return 1 / (1 + std::exp(-v)); }}};
  for (auto [op, f] : functions) {
    auto got = apply<float>(op, {x}, nullptr);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(got[i], f(x[i]), 5e-7 * std::abs(f(x[i])) + 6e-8) << op << "(" << x[i] << ")";
  }
  for (float& v : x) v = std::abs(v) + 1e-3f;
  const std::pair<const char*, double (*)(double)> logs[] = {
      {"log", [](double v) { return std::log(v); }},
      {"log2", [](double v) { return std::log2(v); }},
      {"log1p", [](double v) { return std::log1p(v); }},
      {"log10", [](double v) { return std::log10(v); }}};
  for (auto [op, f] : logs) {
    auto got = apply<float>(op, {x}, nullptr);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(got[i], f(x[i]), 6e-7 * std::abs(f(x[i])) + 6e-8) << op << "(" << x[i] << ")";
  }
}

const DType kAllTypes[] = {
    DType::bool_,         DType::uint8,           DType::int8,           DType::int16,
    DType::int32,         DType::int64,           DType::uint16,         DType::uint32,
    DType::uint64,        DType::float16,         DType::bfloat16,       DType::float32,
    DType::float64,       DType::complex64,       DType::complex128,     DType::float8_e5m2,
    DType::float8_e4m3fn, DType::float8_e5m2fnuz, DType::float8_e4m3fnuz};

TEST(KernelsPointwise, every_type_casts_to_every_type) {
  const std::vector<double> values = {0, 1, 2, 3, 8, 12, 16, 1};
  for (DType from : kAllTypes)
    for (DType to : kAllTypes) {
      std::vector<char> source(8 * 16), target(8 * 16 * 3);
      std::vector<double> back(8, -1);
      find_cast(kDouble, from)(values.data(), 1, source.data(), 1, 8);
      for (int64_t stride : {1, 3}) {
        find_cast(from, to)(source.data(), 1, target.data(), stride, 8);
        find_cast(to, kDouble)(target.data(), stride, back.data(), 1, 8);
        for (int i = 0; i < 8; ++i) {
          const bool through_bool = from == kBool || to == kBool;
          EXPECT_EQ(back[i], through_bool ? values[i] != 0 : values[i]) << name(from) << " -> " << name(to);
        }
      }
    }
}

TEST(KernelsPointwise, casts_follow_the_machine) {
  const std::vector<double> values = {300.7, -1.5, 1e20, kNan};
  int64_t longs[4];
  uint8_t bytes[4];
  bool bools[4];
  find_cast(kDouble, kLong)(values.data(), 1, longs, 1, 4);
  find_cast(kDouble, kByte)(values.data(), 1, bytes, 1, 4);
  find_cast(kDouble, kBool)(values.data(), 1, bools, 1, 4);
  EXPECT_EQ(longs[0], 300);
  EXPECT_EQ(longs[1], -1);
#if defined(__aarch64__)  // saturates; x86-64 has one answer to all that does not fit
  EXPECT_EQ(longs[2], INT64_MAX);
  EXPECT_EQ(longs[3], 0);
#else
  EXPECT_EQ(longs[2], INT64_MIN);
  EXPECT_EQ(longs[3], INT64_MIN);
#endif
  EXPECT_EQ(bytes[0], 44);
  EXPECT_EQ(bytes[1], 255);
  EXPECT_TRUE(bools[3]);
  EXPECT_THROW(find_cast(DType::qint8, kFloat), Error);
  // Pairs of halves, by way of complex64.
  const std::complex<double> from[] = {{1.5, -2}, {1e6, 0.25}};
  Half pairs[4];
  float back[2];
  find_cast(kComplexDouble, DType::complex32)(from, 1, pairs, 1, 2);
  EXPECT_EQ(static_cast<float>(pairs[1]), -2.0f);
  EXPECT_EQ(static_cast<float>(pairs[2]), INFINITY);
  find_cast(DType::complex32, kFloat)(pairs, 1, back, 1, 2);
  EXPECT_EQ(back[0], 1.5f);
}

TEST(KernelsPointwise, a_line_of_halves_converts_as_each_alone) {
  constexpr int64_t n = 65536;
  std::vector<Half> halves(n), back(n);
  for (int64_t i = 0; i < n; ++i) halves[i].bits = static_cast<uint16_t>(i);
  std::vector<float> wide(n);
  find_cast(kHalf, kFloat)(halves.data(), 1, wide.data(), 1, n);
  find_cast(kFloat, kHalf)(wide.data(), 1, back.data(), 1, n);
  for (int64_t i = 0; i < n; ++i) {
    const float alone = halves[i];
    if (std::isnan(alone)) {
      ASSERT_TRUE(std::isnan(wide[i]) && std::isnan(static_cast<float>(back[i]))) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(alone)) << i;
      ASSERT_EQ(back[i].bits, i);
    }
  }
  // Between two halves: to the nearest, ties to even; small ones and overflow too.
  std::vector<float> between(n);
  std::vector<Half> rounded(n);
  for (int64_t i = 0; i < n; ++i) between[i] = std::bit_cast<float>(static_cast<uint32_t>(i * 65521));
  find_cast(kFloat, kHalf)(between.data(), 1, rounded.data(), 1, n);
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isnan(between[i])) {
      ASSERT_EQ(rounded[i].bits, Half(between[i]).bits) << between[i];
    }
  }
}

// Every layout against a plain loop: sizes, then strides of out, a and b.
struct Layout {
  std::vector<int64_t> sizes, out, a, b;
};
const Layout kLayouts[] = {
    {{}, {}, {}, {}},
    {{0, 3}, {3, 1}, {3, 1}, {3, 1}},
    {{5}, {1}, {1}, {0}},
    {{5, 7}, {7, 1}, {1, 5}, {7, 1}},
    {{5, 7}, {1, 5}, {1, 5}, {1, 5}},
    {{100, 3}, {3, 1}, {3, 1}, {1, 0}},
    {{4, 6, 5}, {30, 5, 1}, {30, 5, 1}, {0, 1, 0}},
    {{4, 6, 50}, {300, 50, 1}, {1, 4, 24}, {0, 0, 1}},
    {{2, 3, 2, 3}, {18, 6, 3, 1}, {0, 0, 0, 0}, {1, 2, 6, 12}},
    {{3000, 70}, {70, 1}, {140, 2}, {0, 1}},
    {{70000}, {2}, {1}, {3}},
    {{100, 70}, {70, 1}, {1, 100}, {70, 1}},
    {{3, 90, 70}, {6300, 70, 1}, {6300, 1, 90}, {90, 1, 0}},
};

template <class A, class B, class O>
void check_layouts(DType compute) {
  for (const Layout& l : kLayouts) {
    const int ndim = static_cast<int>(l.sizes.size());
    auto extent = [&](const std::vector<int64_t>& strides) {
      int64_t e = 1;
      for (int d = 0; d < ndim; ++d) e += (l.sizes[d] - 1) * strides[d];
      return static_cast<size_t>(std::max<int64_t>(e, 1));
    };
    std::vector<A> a(extent(l.a));
    std::vector<B> b(extent(l.b));
    std::vector<O> out(extent(l.out), O(0)), want(out);
    for (size_t i = 0; i < a.size(); ++i) a[i] = A(static_cast<float>(i % 13));
    for (size_t i = 0; i < b.size(); ++i) b[i] = B(static_cast<float>(i % 7));
    int64_t n = 1;
    for (int64_t s : l.sizes) n *= s;
    for (int64_t i = 0; i < n; ++i) {
      int64_t rest = i, oa = 0, ob = 0, oo = 0;
      for (int d = ndim - 1; d >= 0; --d) {
        const int64_t at = rest % l.sizes[d];
        rest /= l.sizes[d];
        oa += at * l.a[d], ob += at * l.b[d], oo += at * l.out[d];
      }
      want[oo] = O(static_cast<float>(a[oa]) + static_cast<float>(b[ob]));
    }
    const Operand ins[] = {{a.data(), dtype_of<A>, l.a.data()}, {b.data(), dtype_of<B>, l.b.data()}};
    const Operand o{out.data(), dtype_of<O>, l.out.data()};
    run_pointwise(find_loop("add", compute), compute, compute, ndim, l.sizes.data(), &o, 1, ins, 2, nullptr);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(static_cast<float>(out[i]), static_cast<float>(want[i]))
          << "layout " << (&l - kLayouts) << " at " << i;
  }
}

TEST(KernelsPointwise, every_layout_and_mixed_types) {
  check_layouts<float, float, float>(kFloat);
  check_layouts<double, double, double>(kDouble);
  check_layouts<Half, float, Half>(kFloat);
  check_layouts<BFloat16, BFloat16, BFloat16>(kFloat);
  check_layouts<int32_t, int64_t, int64_t>(kLong);
  check_layouts<uint8_t, uint8_t, float>(kByte);
}

TEST(KernelsPointwise, where_takes_a_bool_first) {
  const bool c[] = {true, false, true};
  const double a[] = {1, 2, 3}, b[] = {-1, -2, -3};
  double out[3];
  const int64_t size = 3, stride = 1;
  const DType types[] = {kBool, kDouble, kDouble};
  const Operand ins[] = {{const_cast<bool*>(c), kBool, &stride},
                         {const_cast<double*>(a), kDouble, &stride},
                         {const_cast<double*>(b), kDouble, &stride}};
  const Operand o{out, kDouble, &stride};
  run_pointwise(find_loop("where", kDouble), types, kDouble, 1, &size, &o, 1, ins, 3, nullptr);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], -2);
  EXPECT_EQ(out[2], 3);
}

TEST(KernelsPointwise, scalar_arguments_and_alpha) {
  Params p;
  p.set(0, int64_t{3});
  EXPECT_EQ(apply<int32_t>("add", {{1, 2}, {10, 20}}, &p), (std::vector<int32_t>{31, 62}));
  EXPECT_EQ(apply<int32_t>("sub", {{1, 2}, {10, 20}}, nullptr), (std::vector<int32_t>{-9, -18}));
  EXPECT_EQ(apply<float>("mul_scalar", {{1.5f, 2}}, &p), (std::vector<float>{4.5f, 6}));
  EXPECT_EQ(apply<int64_t>("pow_scalar", {{2, -3}}, &p), (std::vector<int64_t>{8, -27}));
}

TEST(KernelsPointwise, integer_division_by_zero_is_an_error) {
  try {
    apply<int32_t>("div_floor", {{1}, {0}}, nullptr);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("ZeroDivisionError"), std::string::npos) << e.message();
  }
}

TEST(KernelsPointwise, complex_division_and_roots) {
  using C = std::complex<float>;
  auto q = apply<C>("div", {{C(1, 2)}, {C(3, -4)}}, nullptr);
  EXPECT_NEAR(q[0].real(), -0.2f, 1e-6);
  EXPECT_NEAR(q[0].imag(), 0.4f, 1e-6);
  EXPECT_EQ(find_loop("lt", kComplexFloat), nullptr);
  EXPECT_EQ(find_loop("sub", kBool), nullptr);
  EXPECT_EQ(find_loop("no_such_operator", kFloat), nullptr);
}

TEST(KernelsPointwise, fill_and_copy_any_type) {
  const int64_t sizes[] = {2, 3}, rows[] = {3, 1}, columns[] = {1, 2};
  for (DType t : kAllTypes) {
    std::vector<char> a(6 * 16), b(6 * 16);
    Params p;
    p.set(0, 1.0);
    fill_strided(2, sizes, {a.data(), t, rows}, p);
    copy_strided(2, sizes, {b.data(), t, columns}, {a.data(), t, rows});
    EXPECT_EQ(a, b) << name(t);
    double first = 0;
    find_cast(t, kDouble)(b.data(), 1, &first, 1, 1);
    EXPECT_EQ(first, 1) << name(t);
  }
}

TEST(KernelsPointwise, a_small_add_is_cheap) {
  float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, out[4];
  const int64_t size = 4, stride = 1;
  const Operand ins[] = {{a, kFloat, &stride}, {b, kFloat, &stride}};
  const Operand o{out, kFloat, &stride};
  Loop loop = find_loop("add", kFloat);
  double best = 1e9;
  for (int round = 0; round < 20; ++round) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 10000; ++i) run_pointwise(loop, kFloat, kFloat, 1, &size, &o, 1, ins, 2, nullptr);
    best = std::min(
        best,
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / 10000);
  }
  RecordProperty("nanoseconds", std::to_string(best));
  EXPECT_LT(best, 200 * tern::testing::patience) << "a debug build is slow, but not that slow";
  EXPECT_EQ(out[3], 12);
}

}  // namespace
}  // namespace tern::kernels
