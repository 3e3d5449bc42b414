// Convolutional networks on the native engine: what is folded and fused, images that are read in both orders,
// and memory that is written over must not change a number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/base/parallel.h"
#include "tern/ir/interpreter.h"
#include "tern/ir/text.h"
#include "tern/runtime/plan.h"
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
    {"given_with_channels_innermost",
     [](Block& m, Tensor x) {
       Tensor y = m.a(x.contiguous(MemoryFormat::channels_last));
       return relu(m.b(y)).permute({0, 2, 3, 1}).view({-1, 6}) + y.permute({0, 2, 3, 1}).view({-1, 6});
     }},
    {"weights_with_channels_innermost",
     [](Block& m, Tensor x) {
       Tensor y = conv2d(x, m.a.weight.now().contiguous(MemoryFormat::channels_last), {}, {1, 1}, {1, 1});
       return relu(y + x) * y.permute({0, 2, 3, 1}).view({-1, 6}).sum();
     }},
    {"returned_with_channels_innermost",
     [](Block& m, Tensor x) { return relu(m.a(x.contiguous(MemoryFormat::channels_last)) + 1); }},
    {"clamped", [](Block& m, Tensor x) { return hardtanh(m.a(x), 0, 6) + hardtanh(m.b(x), -1, 1); }},
};

class NativeImages : public testing::TestWithParam<Case> {};

TEST_P(NativeImages, the_numbers_are_the_module_s) {
  manual_seed(3);
  Block net(GetParam().body);
  net.eval();
  for (auto [n, size] : {std::pair{1, 7}, {2, 7}, {5, 23}}) {
    Tensor x = randn({n, 6, size, size});
    Session session(export_program(net, {{"x", x}}), {.threads = 3});
    NoGrad no_grad;
    for (int round = 0; round < 2; ++round) {
      Tensor want = nn::call(net, x), got = session.run({x})[0];
      ASSERT_EQ(got.sizes().vec(), want.sizes().vec());
      EXPECT_EQ(got.is_contiguous(), want.is_contiguous());
      EXPECT_LT((got - want).abs().max().item<double>(), 2e-5);
      x = randn({n, 6, size, size});
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

// Steps that treat images apart are done by each thread for some of them, where that is worth a thread; what
// mixes images, or takes some of them, ends such a section.
TEST(NativeImages, threads_share_the_images_of_several_steps) {
  const std::string text = R"(graph(%x : Tensor, %w : Tensor):
  %a : Tensor = aten::convolution(%x, %w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
  %b : Tensor = aten::relu(%a)
  %c : Tensor = aten::convolution(%b, %w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
  %d : Tensor = aten::add(%c, %b, alpha=1)
  %e : Tensor = aten::max_pool2d(%d, [2, 2], [2, 2])
  %m : Tensor = MIDDLE
  %f : Tensor = aten::convolution(%m, %w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
  return (%f)
)";
  auto sections = [&](std::string_view middle, int64_t images, int threads) {
    const int before = num_threads();
    set_num_threads(threads);
    auto graph = ir::parse(std::string(text).replace(text.find("MIDDLE"), 6, middle));
    manual_seed(1);
    Value x = randn({images, 6, 24, 24});
    Tensor w = randn({6, 6, 3, 3}) * 0.1;
    std::vector<runtime::Binding> bindings(2);
    bindings[1] = {w, true};
    runtime::Plan plan(*graph, bindings, {&x, 1});
    const Value all[] = {x, w};
    Tensor want = ir::run(*graph, all)[0].tensor(), got = plan.run({&x, 1})[0].tensor();
    EXPECT_LT((got - want).abs().max().item<double>(), 2e-5);
    set_num_threads(before);
    std::vector<std::pair<size_t, size_t>> steps;
    for (const runtime::Plan::Section& s : plan.sections()) steps.emplace_back(s.first, s.last);
    return steps;
  };
  using testing::ElementsAre;
  using testing::IsEmpty;
  using testing::Pair;
  // The images' order, two convolutions, a pool, one more, the order back.
  EXPECT_THAT(sections("aten::relu(%e)", 5, 2), ElementsAre(Pair(0, 3)));
  EXPECT_THAT(sections("aten::max_pool2d(%e, [2, 2], [1, 1])", 5, 2), ElementsAre(Pair(0, 6)));
  EXPECT_THAT(sections("aten::max_pool2d(%e, [2, 2], [1, 1])", 5, 1), IsEmpty());
  EXPECT_THAT(sections("aten::max_pool2d(%e, [2, 2], [1, 1])", 1, 2), IsEmpty());
  EXPECT_THAT(sections("aten::flip(%e, [0])", 5, 2), ElementsAre(Pair(0, 4)));  // with the order back
  EXPECT_THAT(sections("aten::narrow(%e, 0, 1, 3)", 5, 2), ElementsAre(Pair(0, 4)));
}

}  // namespace
}  // namespace tern
