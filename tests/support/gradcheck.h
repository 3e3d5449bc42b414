// Gradients against finite differences, in float64, of first and second order.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tern/autograd/autograd.h"
#include "tern/base/function.h"
#include "tern/ops.h"

namespace tern::testing {

using Differentiable = Function<Tensor(const std::vector<Tensor>&)>;

// Numbers that look random and are the same everywhere, in (low, high).
inline Tensor sample(Span<const SymInt> sizes, double low = -1, double high = 1, uint64_t seed = 1) {
  Tensor t = make_tensor(sizes, kDouble);
  uint64_t state = seed * 0x9e3779b97f4a7c15ull + 1;
  for (int64_t i = 0; i < t.int_numel(); ++i) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    t.data_ptr<double>()[i] = low + (high - low) * (static_cast<double>(state >> 11) / 9007199254740992.0);
  }
  return t;
}

inline std::vector<Tensor> fresh(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> copies;
  for (const Tensor& t : inputs) {
    Tensor c = t.detach().clone();
    if (t.requires_grad()) c.requires_grad_();
    copies.push_back(c);
  }
  return copies;
}

// A number from a result: each element weighed differently.
inline Tensor weighed(const Tensor& y) { return (y * sample(y.sizes(), 0.5, 1.5, 7)).sum(); }

// Compares d(weighed f)/d(input) with central differences for the inputs that require a gradient.
inline void check_gradient(const std::string& name, const Differentiable& f,
                           const std::vector<Tensor>& inputs, double tolerance = 1e-5) {
  SCOPED_TRACE(name);
  std::vector<Tensor> mine = fresh(inputs), wanted;
  for (const Tensor& t : mine)
    if (t.requires_grad()) wanted.push_back(t);
  std::vector<Tensor> grads =
      autograd::grad(std::vector<Tensor>{weighed(f(mine))}, wanted, {}, {.allow_unused = true});
  size_t at = 0;
  const double step = 1e-6;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    Tensor g = grads[at++];
    if (g.defined()) {
      ASSERT_EQ(str(g.sizes()), str(inputs[i].sizes())) << "gradient of input " << i;
      ASSERT_EQ(g.dtype(), inputs[i].dtype());
    }
    std::vector<double> analytic =
        g.defined() ? g.to_vector<double>() : std::vector<double>(inputs[i].int_numel(), 0.0);
    for (int64_t k = 0; k < inputs[i].int_numel(); ++k) {
      double values[2];
      for (int side = 0; side < 2; ++side) {
        std::vector<Tensor> moved = fresh(inputs);
        moved[i] = moved[i].detach().clone().contiguous();
        moved[i].data_ptr<double>()[k] += side ? -step : step;
        if (inputs[i].requires_grad()) moved[i].requires_grad_();
        values[side] = weighed(f(moved)).item<double>();
      }
      double numeric = (values[0] - values[1]) / (2 * step);
      ASSERT_NEAR(analytic[k], numeric, tolerance * (1 + std::abs(numeric)))
          << "input " << i << ", element " << k;
    }
  }
}

// The same for the gradients themselves.
inline void check_second_gradient(const std::string& name, const Differentiable& f,
                                  const std::vector<Tensor>& inputs, double tolerance = 1e-4) {
  check_gradient(
      name + " (second order)",
      [&](const std::vector<Tensor>& in) {
        std::vector<Tensor> wanted;
        for (const Tensor& t : in)
          if (t.requires_grad()) wanted.push_back(t);
        std::vector<Tensor> grads = autograd::grad(std::vector<Tensor>{weighed(f(in))}, wanted, {},
                                                   {.create_graph = true, .allow_unused = true});
        Tensor total = tensor(0.0, {.dtype = kDouble});
        for (const Tensor& g : grads)
          if (g.defined()) total = total + weighed(g);
        for (const Tensor& t : wanted) total = total + t.sum() * 0;
        return total;
      },
      inputs, tolerance);
}

inline Tensor variable(Span<const SymInt> sizes, double low = -1, double high = 1, uint64_t seed = 1) {
  Tensor t = sample(sizes, low, high, seed);
  t.requires_grad_();
  return t;
}

}  // namespace tern::testing
