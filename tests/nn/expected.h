// PyTorch's numbers for these tests (layers_expected.inc) and how results are compared with them.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tern/tensor/tensor.h"

namespace tern::nn {

const std::vector<double>& expected(const std::string& name);  // fails the test when there is no such entry
// sin(0.7·i), shaped: the input of every layer test.
Tensor wave(Span<const SymInt> sizes);
// Compares eight elements, spread evenly, as the generator took them.
void expect_sample(const std::string& name, const Tensor& t, double tolerance = 2e-5);
void expect_losses(const std::string& name, const std::vector<double>& losses, double tolerance);

}  // namespace tern::nn
