// Convolution, pooling, padding, attention: gradients, equalities with slower forms, errors.
#include "tern/base/error.h"
#include "tests/support/gradcheck.h"

namespace tern::testing {
namespace {

using In = const std::vector<Tensor>&;

std::string message(auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}
void expect_close(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(str(a.sizes()), str(b.sizes()));
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-5) << i;
}

TEST(Convolution, sums_of_products) {
  Tensor x = arange(16.).view({1, 1, 4, 4}), w = ones({1, 1, 3, 3});
  EXPECT_EQ(conv2d(x, w).to_vector<double>(), (std::vector<double>{45, 54, 81, 90}));
  EXPECT_EQ(str(conv2d(x, w, {}, {2, 2}, {1, 1}).sizes()), "[1, 1, 2, 2]");
  EXPECT_EQ(str(conv2d(x, w, {}, {1, 1}, "same").sizes()), "[1, 1, 4, 4]");
  EXPECT_EQ(str(conv2d(x[0], w).sizes()), "[1, 2, 2]");
  EXPECT_EQ(str(conv_transpose2d(x, w, {}, {2, 2}).sizes()), "[1, 1, 9, 9]");
  EXPECT_EQ(message([&] {
              conv2d(zeros({1, 2, 4, 4}), w);
            }),
            "Given groups=1, weight of size [1, 1, 3, 3], expected input[1, 2, 4, 4] to have 1 channels, but "
            "got 2 channels instead");
  EXPECT_EQ(message([&] {
              conv2d(zeros({1, 1, 2, 2}), w);
            }),
            "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3). Kernel size can't be "
            "greater than actual input size");
  Tensor meta = conv2d(zeros({2, 1, 5, 5}).to(kMeta), w.to(kMeta));
  EXPECT_EQ(str(meta.sizes()), "[2, 1, 3, 3]");
}

TEST(Convolution, gradients) {
  Tensor x = sample({2, 2, 5}).requires_grad_(), w = sample({2, 2, 3}, -1, 1, 2).requires_grad_(),
         b = sample({2}, -1, 1, 3).requires_grad_();
  auto f = [](In t) { return conv1d(t[0], t[1], t[2], {2}, {1}); };
  auto g = [](In t) { return conv_transpose1d(t[0], t[1], t[2], {2}, {1}, {1}); };
  check_gradient("conv1d", f, {x, w, b});
  check_second_gradient("conv1d", f, {x, w, b});
  check_gradient("conv_transpose1d", g, {x, w, b});
  check_second_gradient("conv_transpose1d", g, {x, w, b});
}

TEST(Pooling, values_and_gradients) {
  Tensor x = arange(16.).view({1, 1, 4, 4});
  EXPECT_EQ(max_pool2d(x, 2).to_vector<double>(), (std::vector<double>{5, 7, 13, 15}));
  EXPECT_EQ(avg_pool2d(x, 2).to_vector<double>(), (std::vector<double>{2.5, 4.5, 10.5, 12.5}));
  EXPECT_EQ(str(max_pool2d(x, 3, 2, 0, 1, true).sizes()), "[1, 1, 2, 2]");
  EXPECT_EQ(adaptive_avg_pool2d(x, {1, 1}).to_vector<double>(), (std::vector<double>{7.5}));
  EXPECT_EQ(
      message([&] { max_pool2d(x, 2, 2, 2); }),
      "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2 and dilation=1");
  Tensor y = sample({1, 2, 5, 5}).requires_grad_();
  const std::pair<const char*, Tensor (*)(In)> cases[] = {
      {"max_pool2d", [](In t) { return max_pool2d(t[0], 2, 2, 1); }},
      {"max_pool1d", [](In t) { return max_pool1d(t[0][0], 3, 2); }},
      {"avg_pool2d", [](In t) { return avg_pool2d(t[0], 3, 2, 1, true, false); }},
      {"adaptive_avg_pool2d",
       [](In t) {
         return adaptive_avg_pool2d(t[0], {3, 2});
       }},
      {"adaptive_max_pool2d",
       [](In t) {
         return std::get<0>(adaptive_max_pool2d(t[0], {3, 2}));
       }},
      {"reflect",
       [](In t) {
         return pad(t[0], {1, 2, 2, 1}, "reflect");
       }},
      {"replicate",
       [](In t) {
         return pad(t[0], {1, 2, 2, 1}, "replicate");
       }},
      {"circular",
       [](In t) {
         return pad(t[0], {1, 2, 2, 1}, "circular");
       }},
      {"circular, cut on one side",
       [](In t) {
         return pad(t[0], {2, -1, -2, 1}, "circular");
       }},
      {"constant",
       [](In t) {
         return pad(t[0], {1, -1});
       }},
  };
  for (const auto& [name, f] : cases) {
    check_gradient(name, f, {y});
    check_second_gradient(name, f, {y});
  }
  EXPECT_EQ(pad(arange(3.).view({1, 3}), {2, 1}, "reflect").to_vector<double>(),
            (std::vector<double>{2, 1, 0, 1, 2, 1}));
  EXPECT_EQ(pad(arange(3.).view({1, 3}), {1, 1}, "circular").to_vector<double>(),
            (std::vector<double>{2, 0, 1, 2, 0}));
  EXPECT_EQ(pad(arange(4.).view({1, 4}), {-1, 2}, "circular").to_vector<double>(),
            (std::vector<double>{1, 2, 3, 1, 2}));
  EXPECT_EQ(pad(arange(4.).view({1, 2, 2}), {1, 0, 0, 1}, "circular").to_vector<double>(),
            (std::vector<double>{1, 0, 1, 3, 2, 3, 1, 0, 1}));
}

// What is cut away cannot be repeated.
TEST(Padding, wraps_around_once) {
  Tensor x = arange(3.).view({1, 3});
  for (std::vector<SymInt> amounts : {std::vector<SymInt>{4, 0}, {0, 4}, {3, -2}, {-2, 3}})
    EXPECT_EQ(message([&] { pad(x, amounts, "circular"); }),
              "Padding value causes wrapping around more than once.");
  EXPECT_EQ(message([&] {
              pad(x, {-2, -2}, "circular");
            }),
            "Negative padding value is resulting in an empty dimension");
}

// A gradient of another size or type would be read beyond its end.
TEST(Convolution, the_gradient_given_must_be_of_the_output) {
  Tensor x = ones({2, 3, 6}), w = ones({4, 3, 3});
  const Dims one{SymInt(1)}, none{SymInt(0)};
  const bool all[] = {true, true, true};
  auto backward = [&](const Tensor& grad) {
    return message([&] { convolution_backward(grad, x, w, {}, one, none, one, false, none, 1, all); });
  };
  EXPECT_EQ(backward(ones({2, 4, 4})), "no error");
  EXPECT_EQ(
      backward(ones({2, 4, 3})),
      "convolution_backward: expected a gradient of size [2, 4, 4] for input of size [2, 3, 6], but got "
      "[2, 4, 3]");
  EXPECT_EQ(
      backward(ones({2, 4})),
      "convolution_backward: expected a gradient of size [2, 4, 4] for input of size [2, 3, 6], but got "
      "[2, 4]");
  EXPECT_EQ(backward(ones({2, 4, 4}, kDouble)), "Found dtype Double but expected Float");
}

TEST(Attention, fused_equals_the_chain) {
  manual_seed(0);
  Tensor q = randn({2, 3, 5, 8}), k = randn({2, 3, 7, 8}), v = randn({2, 3, 7, 8}), mask = randn({5, 7}) > 0;
  expect_close(scaled_dot_product_attention(q, k, v),
               std::get<0>(_scaled_dot_product_attention_math(q, k, v)));
  expect_close(scaled_dot_product_attention(q, k, v, {}, 0., true),
               std::get<0>(_scaled_dot_product_attention_math(q, k, v, {}, 0., true)));
  expect_close(scaled_dot_product_attention(q, k, v, mask),
               std::get<0>(_scaled_dot_product_attention_math(q, k, v, mask)));
}

TEST(Attention, gradients) {
  Tensor q = sample({1, 2, 3, 2}).requires_grad_(), k = sample({1, 2, 4, 2}, -1, 1, 2).requires_grad_(),
         v = sample({1, 2, 4, 2}, -1, 1, 3).requires_grad_();
  auto f = [](In t) { return scaled_dot_product_attention(t[0], t[1], t[2]); };
  check_gradient("attention", f, {q, k, v});
  check_second_gradient("attention", f, {q, k, v});
}

}  // namespace
}  // namespace tern::testing
