// A small residual network and its training on a seeded toy task: which quarter of the picture is the
// brightest.
#pragma once
#include "tern/tern.h"

namespace examples {

using namespace tern;

// Two 3×3 convolutions and a way around them; a 1×1 convolution where the shapes differ.
struct BasicBlock : nn::Layer<BasicBlock> {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d bn1, bn2;
  nn::Sequential shortcut;

  BasicBlock(int64_t in, int64_t out, int64_t stride)
      : conv1(add(
            "conv1",
            nn::Conv2d({.in = in, .out = out, .kernel = 3, .stride = stride, .padding = 1, .bias = false}))),
        conv2(add("conv2", nn::Conv2d({.in = out, .out = out, .kernel = 3, .padding = 1, .bias = false}))),
        bn1(add("bn1", nn::BatchNorm2d(out))),
        bn2(add("bn2", nn::BatchNorm2d(out))) {
    if (stride != 1 || in != out) {
      shortcut.push_back(nn::Conv2d({.in = in, .out = out, .kernel = 1, .stride = stride, .bias = false}));
      shortcut.push_back(nn::BatchNorm2d(out));
    }
    add_member("shortcut", shortcut);
  }

  Tensor forward(Tensor x) {
    Tensor y = relu(bn1(conv1(x)));
    y = bn2(conv2(y));
    return relu(y + shortcut(x));
  }
};

struct ResNet : nn::Module {
  nn::Conv2d conv1 = add("conv1", nn::Conv2d({.in = 3, .out = 16, .kernel = 3, .padding = 1, .bias = false}));
  nn::BatchNorm2d bn1 = add("bn1", nn::BatchNorm2d(16));
  nn::MaxPool2d pool = add("pool", nn::MaxPool2d(2));
  BasicBlock layer1 = add("layer1", BasicBlock(16, 16, 1));
  BasicBlock layer2 = add("layer2", BasicBlock(16, 32, 2));
  nn::AdaptiveAvgPool2d average = add("average", nn::AdaptiveAvgPool2d(1));
  nn::Linear fc = add("fc", nn::Linear(32, 4));

  Tensor forward(Tensor x) {
    x = pool(relu(bn1(conv1(x))));
    x = layer2(layer1(x));
    return fc(average(x).flatten(1));
  }
};

inline std::vector<double> train(ResNet& net, int steps = 20) {
  manual_seed(1);
  Tensor x = randn({32, 3, 16, 16});
  Tensor brightness = nn::F::adaptive_avg_pool2d(x.mean({1}, true), 2).flatten(1);
  Tensor label = brightness.argmax(1);
  optim::Adam adam(net.parameters(), {.lr = 2e-3});
  nn::CrossEntropyLoss criterion;
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    adam.zero_grad();
    Tensor loss = criterion(nn::call(net, x), label);
    loss.backward();
    adam.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace examples
