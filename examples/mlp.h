// A multilayer perceptron and its training on a seeded toy task: the squared length of a vector.
#pragma once
#include "tern/tern.h"

namespace examples {

using namespace tern;

struct MLP : nn::Module {
  nn::Linear fc1 = add("fc1", nn::Linear(8, 32));
  nn::Linear fc2 = add("fc2", nn::Linear(32, 32));
  nn::Linear fc3 = add("fc3", nn::Linear(32, 1));

  Tensor forward(Tensor x) {
    x = relu(fc1(x));
    x = relu(fc2(x));
    return fc3(x);
  }
};

// Gives the loss of every step.
inline std::vector<double> train(MLP& net, int steps = 60) {
  manual_seed(1);
  Tensor x = randn({128, 8});
  Tensor y = (x * x).sum({1}, true);
  optim::SGD sgd(net.parameters(), {.lr = 0.005, .momentum = 0.9});
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    sgd.zero_grad();
    Tensor loss = nn::F::mse_loss(nn::call(net, x), y);
    loss.backward();
    sgd.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

}  // namespace examples
