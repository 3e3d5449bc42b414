// torch's CPU random numbers, seed 5, against numbers that torch gave.
#include "tern/kernels/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "tern/base/error.h"
#include "tern/kernels/pointwise.h"

namespace tern::kernels {
namespace {

struct Expected {
  const char* what;
  DType type;
  int64_t n;
  double a, b;
  std::vector<double> head;
  double weighted_sum;
  int left;  // of the generator's state afterwards: how much was drawn
};
#include "tests/kernels/random_expected.inc"

std::vector<double> draw(const Expected& e, Mt19937& g) {
  std::vector<char> bytes(static_cast<size_t>(e.n * 8) + 8);
  const std::string_view what = e.what;
  DType type = e.type;
  void* out = bytes.data();
  if (what == "uniform") uniform(g, type, out, e.n, e.a, e.b);
  if (what == "normal") normal(g, type, out, e.n, e.a, e.b);
  if (what == "exponential") exponential(g, type, out, e.n, e.a);
  if (what == "log_normal") log_normal(g, type, out, e.n, e.a, e.b);
  if (what == "cauchy") cauchy(g, type, out, e.n, e.a, e.b);
  if (what == "bernoulli") bernoulli(g, type, out, e.n, e.a);
  if (what == "random") random(g, type, out, e.n);
  if (what == "random_from_to")
    random_from_to(g, type, out, e.n, static_cast<int64_t>(e.a), static_cast<uint64_t>(e.b));
  if (what == "geometric") geometric(g, type, out, e.n, e.a);
  if (what == "randperm") randperm(g, type, out, e.n);
  if (what == "bernoulli_tensor") {
    const std::vector<double> p(e.n, e.a);
    std::vector<char> typed(e.n * 8);
    find_cast(kDouble, type)(p.data(), 1, typed.data(), 1, e.n);
    bernoulli(g, type, out, e.n, type, typed.data());
  }
  if (what == "multinomial") {
    const double weights[] = {1, 2, 3, 4, 5};
    char typed[40];
    find_cast(kDouble, type)(weights, 1, typed, 1, 5);
    multinomial(g, type, typed, 1, 5, e.n, e.a != 0, reinterpret_cast<int64_t*>(out));
    type = kLong;
  }
  std::vector<double> values(e.n);
  find_cast(type, kDouble)(out, 1, values.data(), 1, e.n);
  return values;
}

TEST(KernelsRandom, every_distribution_gives_torchs_numbers) {
  for (const Expected& e : kExpected) {
    Mt19937 g(5);
    const auto values = draw(e, g);
    const bool normal = std::string_view(e.what) == "normal";
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) sum += values[i] * static_cast<double>(i + 1);
    auto label = [&] {
      return ::testing::Message() << e.what << " " << name(e.type) << " n=" << e.n << " a=" << e.a
                                  << " b=" << e.b;
    };
    const double near = e.type == kBFloat16 ? 1e-2 : e.type == kHalf ? 1e-3 : 2e-6;
    for (size_t i = 0; i < e.head.size(); ++i) {
      EXPECT_NEAR(values[i], e.head[i], normal ? near : 0) << label() << " at " << i;
    }
    if (!normal || e.type == kFloat) {
      EXPECT_NEAR(sum, e.weighted_sum, normal ? 2e-6 * static_cast<double>(e.n * e.n) : 1e-9 * std::abs(sum))
          << label();
    }
    std::vector<unsigned char> state(Mt19937::state_bytes);
    g.save_state(state.data());
    EXPECT_EQ(state[8] | state[9] << 8, e.left) << label() << ": drew another amount";
  }
}

TEST(KernelsRandom, the_state_is_torchs_and_round_trips) {
  Mt19937 g(5);
  double x[3];
  normal(g, kDouble, x, 3, 0, 1);
  std::vector<unsigned char> state(Mt19937::state_bytes);
  g.save_state(state.data());
  const int at[] = {0, 8, 12, 16, 24, 25, 32, 33};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(state[at[i]], kStateBytes[i]) << at[i];
  uint64_t sum = 0;
  for (size_t i = 0; i < state.size(); ++i) sum += state[i] * (i + 1);
  EXPECT_EQ(sum, kStateSum);
  Mt19937 other(99);
  other.load_state(state.data());
  EXPECT_EQ(other.initial_seed(), 5u);
  double a[5], b[5];
  normal(g, kDouble, a, 5, 0, 1);
  normal(other, kDouble, b, 5, 0, 1);
  EXPECT_EQ(0, std::memcmp(a, b, sizeof a));
  std::fill(state.begin(), state.end(), 0xff);
  EXPECT_THROW(other.load_state(state.data()), Error);
}

TEST(KernelsRandom, errors_say_what_is_wrong) {
  Mt19937 g(1);
  float p = 1.5f, out;
  EXPECT_THROW(bernoulli(g, kFloat, &out, 1, kFloat, &p), Error);
  int64_t index;
  const float bad[] = {-1, 2};
  try {
    multinomial(g, kFloat, bad, 1, 2, 1, true, &index);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("element < 0"), std::string::npos);
  }
  EXPECT_THROW(uniform(g, kLong, &index, 1, 0, 1), Error);
}

}  // namespace
}  // namespace tern::kernels
