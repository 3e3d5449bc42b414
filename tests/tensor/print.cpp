// Tensor::str() against what PyTorch prints.
#include <gtest/gtest.h>

#include <cmath>

#include "tern/ops.h"

namespace tern::testing {
namespace {

TEST(TensorPrint, numbers) {
  EXPECT_EQ(tensor({1., 2.5, -3.25}).str(), "tensor([ 1.0000,  2.5000, -3.2500])");
  EXPECT_EQ(tensor({1., 2., 3.}).str(), "tensor([1., 2., 3.])");
  EXPECT_EQ(tensor({1e10, 1.}).str(), "tensor([1.0000e+10, 1.0000e+00])");
  EXPECT_EQ(tensor({0.1, 0.2}).to(kHalf).str(), "tensor([0.1000, 0.2000], dtype=torch.float16)");
  EXPECT_EQ(tensor(3.5).str(), "tensor(3.5000)");
  EXPECT_EQ(tensor({NAN, INFINITY, -1.5}).str(), "tensor([    nan,     inf, -1.5000])");
  EXPECT_EQ(tensor({NAN, INFINITY, -1.}).str(), "tensor([nan, inf, -1.])");
  EXPECT_EQ(tensor({true, false}).str(), "tensor([ True, False])");
}

TEST(TensorPrint, layout) {
  EXPECT_EQ(arange(12).view({3, 4}).str(),
            "tensor([[ 0,  1,  2,  3],\n        [ 4,  5,  6,  7],\n        [ 8,  9, 10, 11]])");
  EXPECT_EQ(arange(1001).str(), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  EXPECT_EQ(zeros({2, 2, 2}, kInt).str(),
            "tensor([[[0, 0],\n         [0, 0]],\n\n        [[0, 0],\n         [0, 0]]], dtype=torch.int32)");
}

TEST(TensorPrint, what_is_not_the_default_follows) {
  EXPECT_EQ(zeros({2, 0, 3}).str(), "tensor([], size=(2, 0, 3))");
  EXPECT_EQ(zeros({0}, kLong).str(), "tensor([], dtype=torch.int64)");
  EXPECT_EQ(empty({2, 3}, {}, {}, kMeta).str(), "tensor(..., device='meta', size=(2, 3))");
  Tensor leaf = ones({3}).requires_grad_();
  EXPECT_EQ(leaf.str(), "tensor([1., 1., 1.], requires_grad=True)");
  EXPECT_EQ((leaf * 2).str(), "tensor([2., 2., 2.], grad_fn=<MulBackward0>)");
}

TEST(TensorPrint, values_in_row_major_order) {
  EXPECT_EQ(arange(6).view({2, 3}).t().to_vector<int64_t>(), (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(tensor({1.5, -2.5}).to(kBFloat16).to_vector<double>(), (std::vector<double>{1.5, -2.5}));
}

}  // namespace
}  // namespace tern::testing
