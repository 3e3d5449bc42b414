// The three nets of examples/, trained: the losses are PyTorch's, step by step, and fall.
#include <gtest/gtest.h>

#include "examples/mlp.h"
#include "examples/resnet.h"
#include "examples/transformer.h"
#include "tests/nn/expected.h"

namespace tern::nn {
namespace {

TEST(Training, MLP) {
  manual_seed(0);
  examples::MLP net;
  auto losses = examples::train(net, 60);
  expect_losses("train_mlp", losses, 1e-4);
  EXPECT_LT(losses.back(), losses.front() / 10);
}

TEST(Training, ResNet) {
  manual_seed(0);
  examples::ResNet net;
  auto losses = examples::train(net, 10);
  expect_losses("train_resnet", losses, 2e-3);
  EXPECT_LT(losses.back(), losses.front() / 2);
}

TEST(Training, Transformer) {
  manual_seed(0);
  examples::Transformer net;
  auto losses = examples::train(net, 30);
  expect_losses("train_transformer", losses, 1e-4);
  EXPECT_LT(losses.back(), losses.front() / 2);
}

TEST(Training, TheTransformerTakesAnyLength) {
  examples::Transformer net;
  net.eval();
  NoGrad no_grad;
  for (int length : {1, 5, 64}) {
    Tensor y = call(net, zeros({2, length}, kLong), zeros({2, length}, kBool));
    EXPECT_EQ(str(y.sizes()), "[2, " + std::to_string(length) + ", 20]");
  }
}

}  // namespace
}  // namespace tern::nn
