// Views and copies that rearrange: geometry, gradients, errors.
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

TEST(Views, share_memory) {
  Tensor x = arange(6).view({2, 3});
  x.t()[1].fill_(9);
  EXPECT_EQ(x.to_vector<int64_t>(), (std::vector<int64_t>{0, 9, 2, 3, 9, 5}));
  EXPECT_EQ(x.slice(1, -2, 100).to_vector<int64_t>(), (std::vector<int64_t>{9, 2, 9, 5}));
  EXPECT_EQ(x.slice(1, 0, {}, 2).to_vector<int64_t>(), (std::vector<int64_t>{0, 2, 3, 5}));
  EXPECT_EQ(diagonal(x, 1).to_vector<int64_t>(), (std::vector<int64_t>{9, 5}));
  EXPECT_EQ(str(x.t().reshape({-1}).sizes()), "[6]");
  EXPECT_EQ(unfold(arange(5), 0, 3, 2).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2, 2, 3, 4}));
}

TEST(Views, say_what_is_wrong) {
  Tensor x = zeros({2, 3});
  EXPECT_EQ(message([&] { x.view({4}); }), "shape '[4]' is invalid for input of size 6");
  EXPECT_EQ(message([&] { x.t().view({6}); }),
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous "
            "subspaces). Use .reshape(...) instead.");
  EXPECT_EQ(message([&] { x.transpose(0, 2); }),
            "Dimension out of range (expected to be in range of [-2, 1], but got 2)");
  EXPECT_EQ(message([&] {
              x.expand({2, 4});
            }),
            "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension "
            "1.  Target sizes: [2, 4].  "
            "Tensor sizes: [2, 3]");
}

TEST(Views, rearranged_copies) {
  Tensor x = arange(4).view({2, 2});
  EXPECT_EQ(repeat(x, {1, 2}).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(flip(x, {0, 1}).to_vector<int64_t>(), (std::vector<int64_t>{3, 2, 1, 0}));
  EXPECT_EQ(roll(x, {1}).to_vector<int64_t>(), (std::vector<int64_t>{3, 0, 1, 2}));
  EXPECT_EQ(roll(x, {1}, {1}).to_vector<int64_t>(), (std::vector<int64_t>{1, 0, 3, 2}));
  EXPECT_EQ(select_scatter(x, tensor({7, 8}), 1, 0).to_vector<int64_t>(), (std::vector<int64_t>{7, 1, 8, 3}));
  EXPECT_EQ(cat({x, x}, 1).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 0, 1, 2, 3, 2, 3}));
  EXPECT_EQ(str(stack({x, x}, -1).sizes()), "[2, 2, 2]");
  EXPECT_EQ(message([&] {
              cat({x, zeros({2, 3})}, 0);
            }),
            "Sizes of tensors must match except in dimension 0. Expected size 2 but got size 3 for tensor "
            "number 1 in the list.");
}

TEST(Views, gradients) {
  Tensor x = sample({2, 3, 4}).requires_grad_();
  const std::pair<const char*, Tensor (*)(In)> cases[] = {
      {"view",
       [](In t) {
         return t[0].view({6, 4}) * t[0].view({6, 4});
       }},
      {"reshape",
       [](In t) {
         return t[0].transpose(0, 2).reshape({4, -1});
       }},
      {"permute",
       [](In t) {
         return t[0].permute({2, 0, 1});
       }},
      {"select", [](In t) { return t[0].select(1, -1); }},
      {"slice", [](In t) { return t[0].slice(2, 1, 4, 2); }},
      {"expand",
       [](In t) {
         return t[0].unsqueeze(0).expand({2, 2, 3, 4});
       }},
      {"diagonal", [](In t) { return diagonal(t[0], 1, 1, 2); }},
      {"unfold", [](In t) { return unfold(t[0], 2, 2, 1); }},
      {"as_strided",
       [](In t) {
         return as_strided(t[0], {3, 3}, {1, 2}, 1);
       }},
      {"squeeze", [](In t) { return t[0].unsqueeze(1).squeeze(1); }},
      {"split", [](In t) { return t[0].split(3, 2)[1]; }},
      {"unbind", [](In t) { return t[0].unbind(1)[2]; }},
      {"repeat",
       [](In t) {
         return repeat(t[0], {2, 1, 2, 1});
       }},
      {"flip",
       [](In t) {
         return flip(t[0], {0, 2});
       }},
      {"roll",
       [](In t) {
         return roll(t[0], {1, 2}, {0, 2});
       }},
      {"tril", [](In t) { return tril(t[0]); }},
      {"cat",
       [](In t) {
         return cat({t[0], t[0] * 2}, 1);
       }},
      {"stack",
       [](In t) {
         return stack({t[0], t[0] * 3}, 1);
       }},
      {"select_scatter", [](In t) { return select_scatter(t[0], t[0].select(0, 1) * 2, 0, 0); }},
      {"slice_scatter", [](In t) { return slice_scatter(t[0], t[0].slice(2, 0, 2) * 2, 2, 1, 3); }},
      {"copy_ into a view",
       [](In t) {
         Tensor y = t[0] * 2;
         y.select(0, 0).copy_(t[0].select(0, 1));
         return y;
       }},
      {"repeat_interleave", [](In t) { return repeat_interleave(t[0], SymInt(2), 1); }},
  };
  for (const auto& [name, f] : cases) {
    check_gradient(name, f, {x});
    check_second_gradient(name, f, {x});
  }
}

TEST(Views, a_slice_seen_as_what_it_was_cut_from) {
  Tensor x = arange(10.), part = slice(x, 0, 2, 8, 2);
  Tensor whole = slice_inverse(part, x, 0, 2, 8, 2);
  EXPECT_EQ(whole.to_vector<double>(), x.to_vector<double>());
  EXPECT_EQ(whole.data(), x.data());
  EXPECT_EQ(str(slice_inverse(zeros({3}, {}, {}, kMeta), zeros({3}, {}, {}, kMeta)).sizes()), "[3]");
}

}  // namespace
}  // namespace tern::testing
