#include "tests/nn/expected.h"

#include <cmath>
#include <map>

namespace tern::nn {

const std::vector<double>& expected(const std::string& name) {
  static const std::map<std::string, std::vector<double>> table = {
#include "tests/nn/layers_expected.inc"
  };
  static const std::vector<double> none;
  auto found = table.find(name);
  if (found != table.end()) return found->second;
  ADD_FAILURE() << "layers_expected.inc has no " << name;
  return none;
}

Tensor wave(Span<const SymInt> sizes) {
  std::vector<float> values(product(sizes).as_int());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7));
  return from_vector(values, sizes);
}

void expect_sample(const std::string& name, const Tensor& t, double tolerance) {
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

void expect_losses(const std::string& name, const std::vector<double>& losses, double tolerance) {
  const auto& wanted = expected(name);
  ASSERT_GE(losses.size(), wanted.size()) << name;
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(losses[i], wanted[i], tolerance * std::max(1.0, std::abs(wanted[i])))
        << name << " step " << i;
}

}  // namespace tern::nn
