// Random numbers are PyTorch's for the same seed.
#include <gtest/gtest.h>

#include "tern/autograd/autograd.h"
#include "tern/base/error.h"
#include "tern/ops.h"

namespace tern::testing {
namespace {

void expect_near(const Tensor& t, std::vector<float> expected) {
  std::vector<float> got = t.to_vector<float>();
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_FLOAT_EQ(got[i], expected[i]) << i;
}

TEST(Random, the_numbers_of_pytorch) {
  manual_seed(0);
  expect_near(rand({5}), {0.49625658988952637f, 0.7682217955589294f, 0.08847743272781372f,
                          0.13203048706054688f, 0.30742281675338745f});
  manual_seed(0);
  expect_near(randn({5}), {1.5409960746765137f, -0.293428897857666f, -2.1787893772125244f,
                           0.5684312582015991f, -1.0845223665237427f});
  manual_seed(0);
  EXPECT_EQ(randint(10, {6}).to_vector<int64_t>(), (std::vector<int64_t>{4, 9, 3, 0, 3, 9}));
  EXPECT_EQ(randperm(6).to_vector<int64_t>(), (std::vector<int64_t>{1, 4, 3, 2, 5, 0}));
  manual_seed(0);
  expect_near(normal(arange(4.), 2.0),
              {3.0819921493530273f, 0.41314220428466797f, -2.357578754425049f, 4.136862754821777f});
  manual_seed(0);
  expect_near(bernoulli(full({8}, 0.7)), {1, 0, 1, 1, 1, 1, 1, 0});
}

TEST(Random, a_generator_of_its_own) {
  Generator g(7), h(7);
  EXPECT_EQ(rand({3}, &g).to_vector<float>(), rand({3}, &h).to_vector<float>());
  std::vector<uint8_t> state = g.state();
  std::vector<float> first = rand({3}, &g).to_vector<float>();
  g.set_state(state);
  EXPECT_EQ(rand({3}, &g).to_vector<float>(), first);
}

TEST(Random, dropout_of_integers_is_refused) {
  for (DType d : {kBool, kChar, kLong})
    EXPECT_THROW(native_dropout(ones({3, 3}, d), 0.5, true), Error) << name(d);
  auto [kept, mask] = native_dropout(ones({3, 3}, kBool), 0.5, false);
  EXPECT_TRUE(all(kept).item<bool>() && all(mask).item<bool>());
}
TEST(Random, dropout_scales_what_it_keeps_and_its_gradient) {
  manual_seed(1);
  Tensor x = ones({1000}).requires_grad_(), y = dropout(x, 0.25, true);
  for (float v : y.to_vector<float>()) EXPECT_TRUE(v == 0 || std::abs(v - 4.f / 3) < 1e-6) << v;
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<float>(), y.to_vector<float>());
  EXPECT_TRUE(dropout(x, 0.25, false).is_same(x));
}

TEST(Random, points_of_sobol) {
  Tensor state = zeros({3, 30}, kLong), quasi = zeros({3}, kLong);
  _sobol_engine_initialize_state_(state, 3);
  auto [points, stands] = _sobol_engine_draw(quasi, 4, state, 3, 0, kDouble);
  EXPECT_EQ(points.to_vector<double>(),
            (std::vector<double>{.5, .5, .5, .75, .25, .25, .25, .75, .75, .375, .375, .625}));
  _sobol_engine_ff_(quasi, 4, state, 3, 0);
  EXPECT_EQ(quasi.to_vector<int64_t>(), stands.to_vector<int64_t>());
  auto [later, _] = _sobol_engine_draw(quasi, 2, state, 3, 4, kDouble);
  auto [whole, __] = _sobol_engine_draw(zeros({3}, kLong), 6, state, 3, 0, kDouble);
  EXPECT_EQ(later.to_vector<double>(), slice(whole, 0, 4, 6).contiguous().to_vector<double>());
}

}  // namespace
}  // namespace tern::testing
