// Initialisation as torch.nn.init: the same formulas drawn from the same generator, so that a seed gives
// PyTorch's numbers. Each fills the tensor in place, without history, and returns it.
#pragma once
#include <string_view>

#include "tern/tensor/generator.h"
#include "tern/tensor/tensor.h"

namespace tern::nn::init {

const Tensor& uniform_(const Tensor& t, double low = 0, double high = 1,
                       const Generator* generator = nullptr);
const Tensor& normal_(const Tensor& t, double mean = 0, double std = 1, const Generator* generator = nullptr);
const Tensor& constant_(const Tensor& t, double value);
const Tensor& ones_(const Tensor& t);
const Tensor& zeros_(const Tensor& t);
const Tensor& xavier_uniform_(const Tensor& t, double gain = 1, const Generator* generator = nullptr);
const Tensor& xavier_normal_(const Tensor& t, double gain = 1, const Generator* generator = nullptr);

struct KaimingOptions {
  double a = 0;  // the negative slope, for leaky_relu
  std::string_view mode = "fan_in";
  std::string_view nonlinearity = "leaky_relu";
  const Generator* generator = nullptr;
};
const Tensor& kaiming_uniform_(const Tensor& t, KaimingOptions options = {});
const Tensor& kaiming_normal_(const Tensor& t, KaimingOptions options = {});

double calculate_gain(std::string_view nonlinearity, double param = 0.01);
struct Fans {
  int64_t in, out;
};
Fans fans(const Tensor& t);  // throws ValueError for fewer than 2 dimensions

}  // namespace tern::nn::init
