// Optimisers against PyTorch's numbers, their state dicts, clipping and schedules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tern/tern.h"
#include "tests/nn/expected.h"
#include "tests/support/errors.h"

namespace tern::optim {
namespace {

using tern::testing::error_of;

Tensor parameter(DType dtype = kFloat) {
  Tensor p = nn::wave({8}).to(dtype);
  p.requires_grad_();
  return p;
}
void steps(Optimizer& o, const Tensor& p, int count = 6) {
  for (int i = 0; i < count; ++i) {
    o.zero_grad();
    o.step([&] {
      Tensor loss = (p * p * p).sum() + p.cos().sum();
      loss.backward();
      return loss;
    });
  }
}

TEST(Optim, SGD) {
  auto run = [](const std::string& name, SGDOptions options) {
    Tensor p = parameter();
    SGD sgd({p}, options);
    steps(sgd, p);
    nn::expect_sample(name, p, 1e-6);
  };
  run("sgd", {.lr = 0.1});
  run("sgd_momentum", {.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.01});
  run("sgd_nesterov", {.lr = 0.05, .momentum = 0.9, .nesterov = true, .maximize = true});
}

TEST(Optim, Adam) {
  auto run = [](const std::string& name, auto make) {
    Tensor p = parameter();
    auto adam = make(p);
    steps(*adam, p);
    nn::expect_sample(name, p, 2e-6);
  };
  run("adam", [](Tensor p) { return std::make_unique<Adam>(std::vector{p}, AdamOptions{.lr = 0.05}); });
  run("adam_decay", [](Tensor p) {
    return std::make_unique<Adam>(
        std::vector{p},
        AdamOptions{.lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1, .amsgrad = true});
  });
  run("adamw", [](Tensor p) { return std::make_unique<AdamW>(std::vector{p}, AdamWOptions{.lr = 0.05}); });
  run("adamw_maximize", [](Tensor p) {
    return std::make_unique<AdamW>(
        std::vector{p}, AdamWOptions{.lr = 0.05, .weight_decay = 0.1, .amsgrad = true, .maximize = true});
  });
}

// A parameter that is not dense takes the operators' way.
TEST(Optim, OperatorsGiveWhatTheLoopGives) {
  auto run = [](auto make) {
    Tensor dense = parameter();
    Tensor strided = nn::wave({16}).view({8, 2}).select(1, 0).detach();
    {
      NoGrad no_grad;
      strided.copy_(dense);
    }
    strided.requires_grad_();
    auto a = make(dense);
    auto b = make(strided);
    steps(*a, dense);
    steps(*b, strided);
    auto x = dense.to_vector<double>(), y = strided.to_vector<double>();
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(x[i], y[i], 2e-6 * std::max(1.0, std::abs(x[i]))) << a->name();
  };
  run([](Tensor p) {
    return std::make_unique<SGD>(
        std::vector{p}, SGDOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  });
  run([](Tensor p) {
    return std::make_unique<Adam>(std::vector{p},
                                  AdamOptions{.lr = 0.05, .weight_decay = 0.1, .amsgrad = true});
  });
  run([](Tensor p) { return std::make_unique<AdamW>(std::vector{p}, AdamWOptions{.lr = 0.05}); });
}

TEST(Optim, DoubleParametersKeepTheirPrecision) {
  Tensor p = parameter(kDouble);
  SGD sgd({p}, {.lr = 0.1});
  double before = p.to_vector<double>()[1];
  p.set_grad(ones({8}, kDouble));
  sgd.step();
  EXPECT_DOUBLE_EQ(p.to_vector<double>()[1], before - 0.1);
}

TEST(Optim, ParametersWithoutGradientStay) {
  Tensor p = parameter(), q = parameter();
  SGD sgd({p, q}, {.lr = 0.1, .weight_decay = 0.5});
  p.set_grad(ones({8}));
  sgd.step();
  EXPECT_EQ(q.to_vector<float>(), parameter().to_vector<float>());
  EXPECT_NE(p.to_vector<float>(), q.to_vector<float>());
}

TEST(Optim, AStepIsAWriteThatAutogradSees) {
  Tensor p = parameter();
  Tensor loss = (p * p).sum();
  p.set_grad(ones({8}));
  SGD({p}, {.lr = 0.1}).step();
  EXPECT_NE(error_of([&] { loss.backward(); }).find("modified by an inplace operation"), std::string::npos);
}

TEST(Optim, StateDictGoesOnWhereItWas) {
  Tensor p = parameter(), q = parameter();
  Adam a({p}, {.lr = 0.05});
  steps(a, p, 3);
  Value saved = a.state_dict();
  EXPECT_EQ(saved.find("param_groups")->str(),
            "[{'lr': 0.05, 'betas': (0.9, 0.999), 'eps': 1e-08, 'weight_decay': 0.0, 'amsgrad': False, "
            "'maximize': False, "
            "'foreach': None, 'capturable': False, 'differentiable': False, 'fused': None, "
            "'decoupled_weight_decay': "
            "False, 'params': [0]}]");
  Adam b({q}, {.lr = 1});
  b.load_state_dict(saved);
  {
    NoGrad no_grad;
    q.copy_(p);
  }
  steps(a, p, 2);
  steps(b, q, 2);
  EXPECT_EQ(p.to_vector<float>(), q.to_vector<float>());
}

TEST(Optim, StateDictsThatDoNotFitAreRefused) {
  Tensor p = parameter(), q = parameter();
  SGD one({p}), two({p, q}), groups(std::vector<Group<SGDOptions>>{{{p}, {}}, {{q}, {.lr = 1}}});
  EXPECT_EQ(error_of([&] { one.load_state_dict(groups.state_dict()); }),
            "loaded state dict has a different number of parameter groups");
  EXPECT_EQ(error_of([&] { one.load_state_dict(two.state_dict()); }),
            "loaded state dict contains a parameter group that doesn't match the size of optimizer's group");
  EXPECT_EQ(error_of([&] { one.load_state_dict(Value::dict()); }),
            "load_state_dict: the state dict has no 'param_groups'");
}

TEST(Optim, BadOptionsAreRefused) {
  Tensor p = parameter();
  EXPECT_EQ(error_of([&] { SGD({p}, {.lr = -1}); }), "Invalid learning rate: -1.0");
  EXPECT_EQ(error_of([&] { SGD(std::vector<Tensor>{}); }), "optimizer got an empty parameter list");
  EXPECT_EQ(error_of([&] { SGD({p}, {.nesterov = true}); }),
            "Nesterov momentum requires a momentum and zero dampening");
  EXPECT_EQ(error_of([&] { Adam({p}, {.beta1 = 1}); }), "Invalid beta parameter at index 0: 1.0");
  EXPECT_EQ(error_of([&] { SGD({p * 2}); }), "can't optimize a non-leaf Tensor");
  EXPECT_EQ(error_of([&] {
              SGD(std::vector<Group<SGDOptions>>{{{p}, {}}, {{p}, {}}});
            }),
            "some parameters appear in more than one parameter group");
}

TEST(Optim, AParameterGivenTwiceIsSteppedTwiceAndSaidSo) {
  Tensor p = parameter(), once = parameter();
  std::string said;
  OnWarning listen([&](const Warning& w) { said = w.text; });
  SGD twice({p, p}, {.lr = 0.1});
  EXPECT_THAT(said, ::testing::HasSubstr("a parameter group with duplicate parameters"));
  p.set_grad(ones_like(p));
  once.set_grad(ones_like(p) * 2);
  twice.step();
  SGD({once}, {.lr = 0.1}).step();
  EXPECT_LT((p - once).abs().max().item<double>(), 1e-6);
}

TEST(Optim, GroupsHaveTheirOwnRates) {
  Tensor p = parameter(), q = parameter();
  SGD sgd(std::vector<Group<SGDOptions>>{{{p}, {.lr = 0.1}}, {{q}, {.lr = 0}}});
  p.set_grad(ones({8}));
  q.set_grad(ones({8}));
  sgd.step();
  EXPECT_EQ(q.to_vector<float>(), parameter().to_vector<float>());
  EXPECT_NEAR(p.to_vector<float>()[0], -0.1f, 1e-7);
}

TEST(Optim, PrintsAsPyTorch) {
  EXPECT_EQ(
      SGD({parameter()}, {.lr = 0.1, .momentum = 0.9}).str(),
      "SGD (\nParameter Group 0\n    dampening: 0.0\n    differentiable: False\n    foreach: None\n    "
      "fused: None\n"
      "    lr: 0.1\n    maximize: False\n    momentum: 0.9\n    nesterov: False\n    weight_decay: 0.0\n)");
}

TEST(Optim, ClippingScalesToTheNorm) {
  Tensor p = parameter(), q = parameter();
  p.set_grad(full({8}, 3.0));
  q.set_grad(full({8}, 4.0));
  Tensor norm = clip_grad_norm_({p, q}, 1.0);
  EXPECT_NEAR(norm.item<double>(), std::sqrt(8 * 25.0), 1e-4);
  EXPECT_NEAR(p.grad().to_vector<float>()[0], 3 / std::sqrt(200.0), 1e-6);
  clip_grad_value_({q}, 0.1);
  EXPECT_FLOAT_EQ(q.grad().to_vector<float>()[3], 0.1f);
  p.set_grad(full({8}, INFINITY));
  EXPECT_NE(
      error_of([&] { clip_grad_norm_({p}, 1, 2, true); }).find("is non-finite, so it cannot be clipped"),
      std::string::npos);
}

TEST(Optim, Schedules) {
  Tensor p = parameter();
  auto rates = [&](auto make) {
    SGD sgd({p}, {.lr = 1.0});
    auto scheduler = make(sgd);
    std::vector<double> seen;
    for (int i = 0; i < 5; ++i) {
      seen.push_back(sgd.lr());
      scheduler->step();
    }
    return seen;
  };
  EXPECT_EQ(rates([](SGD& s) { return std::make_unique<StepLR>(s, 2, 0.5); }),
            (std::vector<double>{1, 1, 0.5, 0.5, 0.25}));
  EXPECT_EQ(
      rates([](SGD& s) { return std::make_unique<LambdaLR>(s, [](int64_t e) { return 1.0 / (1.0 + e); }); }),
      (std::vector<double>{1, 1 / 2.0, 1 / 3.0, 1 / 4.0, 1 / 5.0}));
  auto cosine = rates([](SGD& s) { return std::make_unique<CosineAnnealingLR>(s, 4); });
  std::vector<double> wanted{1, 0.8535533905932737, 0.5, 0.14644660940672627, 0};
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(cosine[i], wanted[i], 1e-12);
}

}  // namespace
}  // namespace tern::optim
