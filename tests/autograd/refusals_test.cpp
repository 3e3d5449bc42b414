// What autograd refuses: views that may not be changed, hooks and functions that give another shape, tensors
// of inference mode; and what looks into a backward pass: hooks of nodes, packed tensors, anomalies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tern/autograd/history.h"
#include "tern/base/warning.h"
#include "tern/tensor/share.h"
#include "tern/tern.h"
#include "tests/support/errors.h"

namespace tern {
namespace {

using tern::testing::error_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::vector<double> numbers(const Tensor& t) { return t.detach().to_vector<double>(); }
Tensor leaf(std::initializer_list<double> values) { return tensor(values).requires_grad_(); }

class InferenceMode {
 public:
  InferenceMode() { autograd::set_inference_mode(true); }
  ~InferenceMode() { autograd::set_inference_mode(false); }
};

TEST(AutogradRefusals, one_of_many_views_is_not_changed_in_place) {
  Tensor y = leaf({1, 2, 3, 4}) * 2;
  Tensor part = y.unbind()[1];
  EXPECT_THAT(
      error_of([&] { part.mul_(2); }),
      StartsWith("Output 1 of Unbind is a view and is being modified inplace. This view is the output "
                 "of a function that returns multiple views."));
  NoGrad no_grad;
  part.mul_(2);
  EXPECT_THAT(numbers(y), ElementsAre(2, 8, 6, 8));
}

TEST(AutogradRefusals, a_gradient_has_the_size_and_the_type_of_its_tensor) {
  Tensor x = leaf({1, 2, 3});
  EXPECT_EQ(error_of([&] { x.set_grad(ones({5}, x.dtype())); }),
            "attempting to assign a gradient of size '[5]' to a tensor of size '[3]'. Please ensure that the "
            "gradient and the tensor are the same size");
  EXPECT_THAT(error_of([&] { x.set_grad(ones({3}, kHalf)); }),
              StartsWith("attempting to assign a gradient with dtype 'float16' to a tensor"));
  EXPECT_FALSE(x.grad().defined());
}

TEST(AutogradRefusals, a_view_of_a_no_grad_block_is_not_changed_outside) {
  Tensor x = leaf({1, 2}), y = x * 2, view;
  {
    NoGrad no_grad;
    view = y.view({2, 1});
  }
  EXPECT_TRUE(view.requires_grad());
  EXPECT_TRUE(view.is_leaf());
  EXPECT_THAT(error_of([&] { view.mul_(2); }), StartsWith("A view was created in no_grad mode"));
  EXPECT_THAT(error_of([&] { view.select(0, 0).mul_(2); }),
              StartsWith("Output 0 of Select is a view of a view"));
  (view * 3).sum().backward();  // and leads nowhere
  EXPECT_FALSE(x.grad().defined());
  y.mul_(2);
  EXPECT_THAT(error_of([&] { view.sum(); }),
              HasSubstr("its base or another view of its base has been modified"));
}

TEST(AutogradRefusals, hooks_keep_size_and_type) {
  Tensor x = leaf({1, 2}), y = x * 2;
  autograd::register_hook(y, [](const Tensor&) { return ones({3}); });
  EXPECT_THAT(error_of([&] { y.sum().backward(); }), HasSubstr("changed the size of value: from [2] to [3]"));
  autograd::register_hook(x, [](const Tensor& g) { return g.to(kDouble); });
  EXPECT_THAT(error_of([&] { (x * 2).sum().backward(); }), HasSubstr("changed the type of value"));
}

TEST(AutogradHooks, a_leaf_s_hook_changes_the_gradient_that_is_asked_for) {
  Tensor x = leaf({1, 2});
  autograd::register_hook(x, [](const Tensor& g) { return g * 10; });
  EXPECT_THAT(numbers(autograd::grad({(x * 2).sum()}, {x})[0]), ElementsAre(20, 20));
  (x * 2).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(20, 20));
}

struct Wrong : autograd::Function<Wrong> {
  static std::vector<Tensor> forward(autograd::Context&, Span<const Tensor> x) { return {x[0] * 2}; }
  static std::vector<Tensor> backward(autograd::Context&, Span<const Tensor>) { return {ones({5})}; }
};
struct Dirty : autograd::Function<Dirty> {
  static std::vector<Tensor> forward(autograd::Context& c, Span<const Tensor> x) {
    c.mark_dirty(x[0]);
    return {x[0]};
  }
  static std::vector<Tensor> backward(autograd::Context&, Span<const Tensor> g) { return {g[0]}; }
};

TEST(AutogradRefusals, functions_give_gradients_that_fit) {
  EXPECT_EQ(error_of([] {
              Wrong::apply({leaf({1, 2})})[0].sum().backward();
            }),
            "Function WrongBackward returned an invalid gradient at index 0 - got [5] but expected shape "
            "compatible with [2]");
  EXPECT_EQ(error_of([] {
              Dirty::apply({leaf({1, 2})});
            }),
            "a leaf Variable that requires grad has been used in an in-place operation.");
}

TEST(AutogradRefusals, a_complex_result_has_no_gradient_of_its_own) {
  Tensor z = ones({2}, DType::complex64).requires_grad_();
  EXPECT_EQ(error_of([&] { z.sum().backward(); }),
            "grad can be implicitly created only for real scalar outputs but got torch.complex64");
}

TEST(AutogradRefusals, what_inference_mode_made_is_not_recorded) {
  Tensor made = ones({2}), x = leaf({1, 2}), view;
  {
    InferenceMode inference;
    autograd::mark_inference(made);
    EXPECT_FALSE((x * 2).requires_grad());
    view = x.view({2, 1});
  }
  EXPECT_TRUE(autograd::is_inference(made));
  EXPECT_TRUE(autograd::is_inference(made.view({2, 1})));
  EXPECT_FALSE(autograd::is_inference(made.clone()));
  EXPECT_THAT(error_of([&] { x* made; }), StartsWith("Inference tensors cannot be saved for backward."));
  EXPECT_THAT(error_of([&] { made.requires_grad_(); }),
              StartsWith("Setting requires_grad=True on inference"));
  EXPECT_THAT(error_of([&] { view.mul_(2); }), StartsWith("A view was created in inference mode"));
  EXPECT_TRUE((x + made).requires_grad());
}

TEST(AutogradRefusals, a_changed_tensor_is_named_by_the_function_that_made_it) {
  Tensor y = leaf({1, 2}).exp();
  y.mul_(2);
  EXPECT_THAT(
      error_of([&] { y.sum().backward(); }),
      HasSubstr("[torch.FloatTensor [2]], which is output 0 of Exp, is at version 1; expected version 0"));
  Tensor x = leaf({1, 2}), z = x * x;
  {
    NoGrad no_grad;
    x.mul_(2);
  }
  EXPECT_THAT(error_of([&] { z.sum().backward(); }), HasSubstr("[torch.FloatTensor [2]] is at version 1;"));
}

TEST(AutogradNodes, hooks_see_and_replace_what_arrives_and_what_leaves) {
  Tensor x = leaf({1, 2}), y = x * 2;
  autograd::NodeExtras& extras = autograd::grad_edge(y).node->more();
  std::vector<double> seen;
  extras.pre_hooks.emplace_back(0, [](std::vector<Tensor>& outputs) { outputs[0] = outputs[0] * 10; });
  extras.post_hooks.emplace_back(1, [&](std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) {
    seen = numbers(outputs[0]);
    inputs[0] = inputs[0] + 1;
  });
  y.sum().backward();
  EXPECT_THAT(seen, ElementsAre(10, 10));
  EXPECT_THAT(numbers(x.grad()), ElementsAre(21, 21));
}

TEST(AutogradNodes, saved_tensors_are_packed_and_unpacked) {
  int packed = 0;
  autograd::push_saved_tensor_hooks(
      {[&](const Tensor& t) -> std::shared_ptr<void> {
         ++packed;
         return std::make_shared<Tensor>(t.clone());
       },
       [](const std::shared_ptr<void>& kept) { return *static_cast<const Tensor*>(kept.get()); }});
  Tensor x = leaf({1, 2}), y = (x * x).exp();
  autograd::pop_saved_tensor_hooks();
  EXPECT_EQ(packed, 3);
  Tensor g = autograd::grad({y.sum()}, {x}, {}, {.create_graph = true})[0];
  Tensor second = autograd::grad({g.sum()}, {x})[0];  // (4x² + 2) exp(x²)
  EXPECT_NEAR(numbers(second)[0], 6 * std::exp(1), 1e-4);
  EXPECT_NEAR(numbers(second)[1], 18 * std::exp(4), 1e-3);
  EXPECT_THAT(error_of([] { autograd::pop_saved_tensor_hooks(); }), HasSubstr("none to be taken off"));
  EXPECT_EQ(autograd::forbid_saved_tensor_hooks("not here"), "");
  EXPECT_EQ(error_of([] { autograd::push_saved_tensor_hooks({}); }), "not here");
  EXPECT_EQ(autograd::forbid_saved_tensor_hooks(""), "not here");
}

TEST(AutogradNodes, anomalies_are_named_and_traced) {
  autograd::anomaly = {true, true, [] { return std::string("in the test\n"); }};
  Tensor x = leaf({0, 0}), y = (x.sqrt() * 0).sum();
  std::string warning, error;
  {
    OnWarning listen([&](const Warning& w) { warning = w.text; });
    error = error_of([&] { y.backward(); });
  }
  autograd::anomaly = {};
  EXPECT_EQ(error, "Function 'SqrtBackward0' returned nan values in its 0th output.");
  EXPECT_EQ(
      warning,
      "Error detected in SqrtBackward0. Traceback of forward call that caused the error:\nin the test\n");
}

TEST(SharedStorage, counts_its_changes_apart_and_keeps_the_memory) {
  for (int64_t n : {4, 10000}) {  // in the block of the storage, and in a block of its own
    Storage shared;
    {
      Tensor x = ones({n});
      shared = share(x.storage());
      EXPECT_EQ(shared->data, x.storage()->data);
      x.add_(1);
      EXPECT_EQ(shared->version, 0u);
      x->storage.grow(static_cast<size_t>(n) * 16);
      EXPECT_NE(shared->data, x.storage()->data);
    }
    Tensor left = make_view_of(shared, {SymInt(n)}, {SymInt(1)}, 0, kFloat);
    EXPECT_EQ(left.sum().item<double>(), 2.0 * static_cast<double>(n));
  }
}

TEST(Devices, pointwise_operators_take_one_device) {
  Tensor meta = ones({2}).to(Device{DeviceType::meta}), here = ones({2});
  EXPECT_EQ(error_of([&] { meta + here; }), "Tensor on device cpu is not on the expected device meta!");
  EXPECT_EQ(error_of([&] { here + meta; }), "Tensor on device meta is not on the expected device cpu!");
  EXPECT_TRUE((meta + ones({})).is_meta());
  EXPECT_EQ(error_of([&] { here.copy_(meta); }), "Cannot copy out of meta tensor; no data!");
}

}  // namespace
}  // namespace tern
