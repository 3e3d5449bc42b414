// Gradients: accumulation, second derivatives, views and in-place changes, hooks, custom functions, and
// PyTorch's errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tern/tern.h"
#include "tests/support/errors.h"

namespace tern {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> numbers(const Tensor& t) { return t.detach().to_vector<double>(); }
Tensor leaf(std::initializer_list<double> values) { return tensor(values).requires_grad_(); }
using tern::testing::error_of;

TEST(Autograd, gradients_accumulate_into_leaves) {
  Tensor x = leaf({1, 2, 3});
  (x * x).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(2, 4, 6));
  (x * 2).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(4, 6, 8));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, a_leaf_s_gradient_is_its_own_memory) {
  Tensor x = leaf({1, 2}), y = leaf({3, 4});
  Tensor g = tensor({1., 1.});
  (x + y).backward(g);
  g.mul_(10);
  x.grad().add_(1);
  EXPECT_THAT(numbers(x.grad()), ElementsAre(2, 2));
  EXPECT_THAT(numbers(y.grad()), ElementsAre(1, 1));
}

TEST(Autograd, broadcasting_is_summed_back) {
  Tensor a = ones({2, 3}).requires_grad_(), b = ones({3}).requires_grad_(),
         c = tensor(Scalar(2.0)).requires_grad_();
  (a * b * c).sum().backward();
  EXPECT_THAT(numbers(b.grad()), ElementsAre(4, 4, 4));
  EXPECT_THAT(numbers(c.grad()), ElementsAre(6));
}

TEST(Autograd, second_derivatives) {
  Tensor x = leaf({2, 3});
  Tensor y = (x * x * x).sum();
  Tensor first = autograd::grad({y}, {x}, {}, {.create_graph = true})[0];
  EXPECT_THAT(numbers(first), ElementsAre(12, 27));
  Tensor second = autograd::grad({first.sum()}, {x}, {}, {.create_graph = true})[0];
  EXPECT_THAT(numbers(second), ElementsAre(12, 18));
  EXPECT_THAT(numbers(autograd::grad({second.sum()}, {x})[0]), ElementsAre(6, 6));
}

TEST(Autograd, grad_touches_no_leaf_and_names_unused_inputs) {
  Tensor x = leaf({1}), unused = leaf({1});
  Tensor y = x * 3;
  EXPECT_THAT(error_of([&] {
                autograd::grad({y}, {x, unused}, {}, {.retain_graph = true});
              }),
              HasSubstr("appears to not have been used in the graph"));
  std::vector<Tensor> g = autograd::grad({y}, {x, unused}, {}, {.allow_unused = true});
  EXPECT_THAT(numbers(g[0]), ElementsAre(3));
  EXPECT_FALSE(g[1].defined());
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, no_grad_records_nothing) {
  Tensor x = leaf({1, 2});
  {
    NoGrad off;
    EXPECT_FALSE((x * 2).requires_grad());
    EnableGrad on;
    EXPECT_TRUE((x * 2).requires_grad());
  }
  EXPECT_TRUE((x * 2).requires_grad());
  EXPECT_FALSE(x.detach().requires_grad());
}

TEST(Autograd, an_in_place_change_through_a_view_reaches_the_base) {
  Tensor x = leaf({1, 2, 3, 4});
  Tensor base = (x * 2).view({2, 2});
  base[0].mul_(10);
  base.sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(20, 20, 2, 2));
}

TEST(Autograd, history_arrives_in_a_base_that_had_none) {
  Tensor w = leaf({5, 7});
  Tensor base = zeros({2, 2}), row = base[0], other = base[1];
  row.copy_(w * 3);
  EXPECT_TRUE(base.requires_grad());
  (base.sum() + row.sum()).backward();
  EXPECT_THAT(numbers(w.grad()), ElementsAre(6, 6));
  EXPECT_EQ(other.sum().item<double>(), 0);
}

TEST(Autograd, a_view_made_before_follows_its_base) {
  Tensor w = leaf({2, 4});
  Tensor base = ones({2}), view_of_it = base.view({1, 2});
  base.mul_(w);
  EXPECT_TRUE(view_of_it.requires_grad());
  (view_of_it * 3).sum().backward();
  EXPECT_THAT(numbers(w.grad()), ElementsAre(3, 3));
}

TEST(Autograd, what_backward_needs_must_not_change) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2, z = y * y;
  y.add_(1);
  EXPECT_THAT(
      error_of([&] { z.sum().backward(); }),
      HasSubstr(
          "one of the variables needed for gradient computation has been modified by an inplace operation: "
          "[torch.FloatTensor [2]], which is output 0 of"));
}

TEST(Autograd, leaves_must_not_be_changed_in_place) {
  Tensor x = leaf({1, 2});
  EXPECT_THAT(error_of([&] { x.add_(1); }),
              HasSubstr("a leaf Variable that requires grad is being used in an in-place operation."));
  EXPECT_THAT(error_of([&] { x[0].add_(1); }),
              HasSubstr("a view of a leaf Variable that requires grad is being used"));
  NoGrad no_grad;
  x.add_(1);
  EXPECT_THAT(numbers(x), ElementsAre(2, 3));
}

TEST(Autograd, a_graph_is_freed_by_backward) {
  Tensor x = leaf({1, 2});
  Tensor y = (x * x).sum();
  y.backward();
  EXPECT_THAT(error_of([&] { y.backward(); }),
              HasSubstr("Trying to backward through the graph a second time"));
  Tensor z = (x * x).sum();
  z.backward(Tensor(), true);
  z.backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(6, 12));
}

TEST(Autograd, errors_of_backward_itself) {
  EXPECT_THAT(error_of([] { ones({2}).backward(); }),
              HasSubstr("element 0 of tensors does not require grad and does not have a grad_fn"));
  Tensor x = leaf({1, 2});
  EXPECT_THAT(error_of([&] { (x * 2).backward(); }),
              HasSubstr("grad can be implicitly created only for scalar outputs"));
  EXPECT_THAT(error_of([&] { (x * 2).backward(ones({3})); }), HasSubstr("Mismatch in shape: grad_output[0]"));
  EXPECT_THAT(error_of([] { arange(3).requires_grad_(); }),
              HasSubstr("only Tensors of floating point dtype can require gradients"));
}

TEST(Autograd, hooks_see_and_change_gradients) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  int seen = 0;
  int number = autograd::register_hook(y, [&](const Tensor& g) {
    ++seen;
    return g * 10;
  });
  autograd::register_hook(x, [&](const Tensor&) {
    ++seen;
    return Tensor();
  });
  int accumulated = 0;
  autograd::register_post_accumulate_hook(
      x, [&](const Tensor& t) { accumulated += static_cast<int>(t.grad().sum().item<int64_t>()); });
  y.sum().backward(Tensor(), true);
  EXPECT_EQ(seen, 2);
  EXPECT_EQ(accumulated, 40);
  EXPECT_THAT(numbers(x.grad()), ElementsAre(20, 20));
  autograd::remove_hook(y, number);
  y.sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(22, 22));
}

TEST(Autograd, intermediate_gradients_are_kept_when_asked_for) {
  Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  y.retain_grad();
  (y * y).sum().backward();
  EXPECT_THAT(numbers(y.grad()), ElementsAre(4, 8));
}

struct Cube : autograd::Function<Cube> {
  static std::vector<Tensor> forward(autograd::Context& c, Span<const Tensor> x) {
    c.save({x[0]});
    return {x[0] * x[0] * x[0]};
  }
  static std::vector<Tensor> backward(autograd::Context& c, Span<const Tensor> g) {
    Tensor x = c.saved(0);
    return {g[0] * x * x * 3};
  }
};

TEST(Autograd, a_function_with_its_own_backward) {
  Tensor x = leaf({1, 2});
  Tensor y = Cube::apply({x})[0];
  EXPECT_EQ(autograd::grad_fn_name(y), "CubeBackward");
  Tensor g = autograd::grad({y.sum()}, {x}, {}, {.create_graph = true})[0];
  EXPECT_THAT(numbers(g), ElementsAre(3, 12));
  EXPECT_THAT(numbers(autograd::grad({g.sum()}, {x})[0]), ElementsAre(6, 12));
  Tensor changed = leaf({1, 2}) * 1;
  Tensor z = Cube::apply({changed})[0];
  changed.add_(1);
  EXPECT_THAT(error_of([&] { z.sum().backward(); }), HasSubstr("modified by an inplace operation"));
}

TEST(Autograd, long_chains_are_released_without_recursion) {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = y + 1;
  y.backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(1));
}

}  // namespace
}  // namespace tern
