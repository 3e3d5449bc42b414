// PyTorch's numbers for these tests (layers_expected.inc) and how results are compared with them.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tern/tensor/tensor.h"

namespace tern::nn {

// Fails the test when there is no such entry.
inline const std::vector<double>& expected(const std::string& name) {
  static const std::map<std::string, std::vector<double>> table = {
#include "tests/nn/layers_expected.inc"
  };
  static const std::vector<double> none;
  auto found = table.find(name);
  if (found != table.end()) return found->second;
  ADD_FAILURE() << "layers_expected.inc has no " << name;
  return none;
}

// sin(0.7·i), shaped: the input of every layer test.
inline Tensor wave(Span<const SymInt> sizes) {
  std::vector<float> values(product(sizes).as_int());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7));
  return from_vector(values, sizes);
}

// Compares eight elements, spread evenly, as the generator took them.
inline void expect_sample(const std::string& name, const Tensor& t, double tolerance = 2e-5) {
  ASSERT_TRUE(t.defined()) << name;
  auto values = t.to_vector<double>();
  const auto& wanted = expected(name);
  ASSERT_EQ(wanted.size(), 8u) << name;
  ASSERT_FALSE(values.empty()) << name;
  for (size_t i = 0; i < 8; ++i) {
    size_t at = i * (values.size() - 1) / 7;
    EXPECT_NEAR(values[at], wanted[i], tolerance * std::max(1.0, std::abs(wanted[i])))
        << name << " element " << at;
  }
}

inline void expect_losses(const std::string& name, const std::vector<double>& losses, double tolerance) {
  const auto& wanted = expected(name);
  ASSERT_GE(losses.size(), wanted.size()) << name;
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(losses[i], wanted[i], tolerance * std::max(1.0, std::abs(wanted[i])))
        << name << " step " << i;
}

}  // namespace tern::nn
