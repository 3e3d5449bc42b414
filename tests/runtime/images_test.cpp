// Convolutional networks on the native engine: what is folded and fused, images that are read in both orders,
// and memory that is written over must not change a number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/runtime/session.h"
#include "tern/tern.h"

namespace tern {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

struct Block : nn::Module {
  nn::Conv2d a = add("a", nn::Conv2d({.in = 6, .out = 6, .kernel = 3, .padding = 1, .bias = false}));
  nn::Conv2d b = add("b", nn::Conv2d({.in = 6, .out = 6, .kernel = 3, .padding = 1}));
  nn::Conv2d point = add("point", nn::Conv2d({.in = 6, .out = 4, .kernel = 1, .stride = 2}));
  nn::Conv2d depthwise =
      add("depthwise", nn::Conv2d({.in = 6, .out = 6, .kernel = 3, .padding = 1, .groups = 6}));
  nn::BatchNorm2d norm = add("norm", nn::BatchNorm2d(6));
  Function<Tensor(Block&, Tensor)> body;
  explicit Block(Function<Tensor(Block&, Tensor)> f) : body(std::move(f)) {
    // Statistics and weights that a wrong fold would show.
    NoGrad no_grad;
    for (auto& [name, t] : named_buffers())
      if (t.dim() == 1) t.copy_(rand({6}) + 0.5);
    for (auto& [name, t] : named_parameters())
      if (name.starts_with("norm")) t.copy_(randn({6}));
  }
  Tensor forward(Tensor x) { return body(*this, x); }
};

struct Case {
  const char* name;
  Tensor (*body)(Block& m, Tensor x);
};

const Case cases[] = {
    {"folded", [](Block& m, Tensor x) { return relu(m.norm(m.a(x))); }},
    {"folded_with_bias", [](Block& m, Tensor x) { return m.norm(m.b(x)); }},
    {"residual", [](Block& m, Tensor x) { return relu(m.norm(m.a(x)) + x); }},
    {"residual_first", [](Block& m, Tensor x) { return relu(x + m.b(x)); }},
    {"residual_read_again",
     [](Block& m, Tensor x) {
       Tensor y = relu(m.a(x));
       Tensor z = m.b(y) + y;
       return z * y;  // y must survive the addition
     }},
    {"residual_in_place",
     [](Block& m, Tensor x) {
       Tensor y = relu(m.a(x));
       return relu(m.norm(m.b(m.a(y))) + y);
     }},
    {"one_channel_broadcast",
     [](Block& m, Tensor x) {
       Tensor y = relu(m.a(x)).mean({1}, true);
       y = conv2d(y, m.depthwise.weight.now().slice(0, 0, 1), {}, {1, 1}, {1, 1});
       return y * y.slice(3, 0, 1);  // one order of memory, read twice
     }},
    {"both_branches_convolve", [](Block& m, Tensor x) { return m.a(x) + m.b(x); }},
    {"norm_of_a_value_used_twice",
     [](Block& m, Tensor x) {
       Tensor y = m.a(x);
       return m.norm(y) * y;  // not folded
     }},
    {"norm_before",
     [](Block& m, Tensor x) { return m.a(relu(m.norm(m.b(x)) * 2)) + m.norm(m.depthwise(x) * 3); }},
    {"strided_point", [](Block& m, Tensor x) { return silu(m.point(m.a(x))); }},
    {"squeeze_and_excite",
     [](Block& m, Tensor x) {
       Tensor y = relu(m.a(x));
       return y * sigmoid(m.b(nn::F::adaptive_avg_pool2d(y, 1)));
     }},
    {"joined",
     [](Block& m, Tensor x) {
       return cat({m.a(x), x, relu(m.b(x))}, 1);
     }},
    {"pooled",
     [](Block& m, Tensor x) {
       return cat({nn::F::max_pool2d(m.a(x), 3, {.stride = {2}, .padding = {1}}),
                   nn::F::avg_pool2d(m.b(x), 3, {.stride = {2}, .padding = {1}})},
                  1);
     }},
    {"averaged",
     [](Block& m, Tensor x) {
       return m.a(x).mean({-1, -2}) + nn::F::adaptive_avg_pool2d(m.b(x), 3).flatten(2).sum(-1);
     }},
    {"viewed",
     [](Block& m, Tensor x) {
       return m.a(x).flatten(1) + m.b(x).permute({0, 1, 3, 2}).reshape({x.size(0), -1});
     }},
    {"compared",
     [](Block& m, Tensor x) {
       Tensor y = m.a(x);
       return where(y > m.b(x), y, y * x.mean({1}, true));
     }},
    {"returned_twice",
     [](Block& m, Tensor x) {
       Tensor y = m.a(x);
       return stack({y, relu(y), m.b(y) + y}, 0);
     }},
    {"clamped", [](Block& m, Tensor x) { return hardtanh(m.a(x), 0, 6) + hardtanh(m.b(x), -1, 1); }},
};

class NativeImages : public testing::TestWithParam<Case> {};

TEST_P(NativeImages, the_numbers_are_the_module_s) {
  manual_seed(3);
  Block net(GetParam().body);
  net.eval();
  for (int64_t n : {1, 2}) {
    Tensor x = randn({n, 6, 7, 7});
    Session session(export_program(net, {{"x", x}}));
    NoGrad no_grad;
    for (int round = 0; round < 2; ++round) {
      Tensor want = nn::call(net, x), got = session.run({x})[0];
      ASSERT_EQ(got.sizes().vec(), want.sizes().vec());
      EXPECT_LT((got - want).abs().max().item<double>(), 2e-5);
      x = randn({n, 6, 7, 7});
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Runtime, NativeImages, testing::ValuesIn(cases),
                         [](const auto& info) { return info.param.name; });

std::vector<std::string> steps_of(Tensor (*body)(Block&, Tensor)) {
  manual_seed(3);
  Block net(body);
  net.eval();
  Tensor x = randn({1, 6, 7, 7});
  std::vector<std::string> labels;
  std::vector<Value> inputs{Value(x)};
  for (const StepTime& s : Session(export_program(net, {{"x", x}})).profile(inputs)) labels.push_back(s.step);
  return labels;
}

TEST(NativeImages, a_residual_block_is_one_step_a_convolution) {
  std::vector<std::string> steps = steps_of([](Block& m, Tensor x) {
    Tensor y = relu(m.norm(m.a(x)));
    return relu(m.norm(m.b(y)) + y);
  });
  ASSERT_EQ(steps.size(), 4u) << testing::PrintToString(
      steps);  // with the order changed on the way in and out
  EXPECT_THAT(steps[0], HasSubstr("reorder"));
  EXPECT_THAT(steps[1], HasSubstr("relu"));
  EXPECT_THAT(steps[2], HasSubstr("add"));
  EXPECT_THAT(steps, Not(Contains(HasSubstr("aten::_native_batch_norm_legit_no_training %"))));
}

TEST(NativeImages, one_dim_and_three_dims) {
  manual_seed(0);
  NoGrad no_grad;
  nn::Sequential one, three;
  one.push_back(nn::Conv1d({.in = 3, .out = 4, .kernel = 3, .padding = 1}));
  one.push_back(nn::ReLU());
  Tensor x = randn({2, 3, 9});
  EXPECT_LT((Session(export_program(one, {{"input", x}})).run({x})[0] - nn::call(one, x))
                .abs()
                .max()
                .item<double>(),
            1e-5);
}

}  // namespace
}  // namespace tern
