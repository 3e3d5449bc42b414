#include "tern/nn/init.h"

#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/ops.h"

namespace tern::nn::init {

const Tensor& uniform_(const Tensor& t, double low, double high, const Generator* generator) {
  if (t.is_meta()) return t;
  NoGrad no_grad;
  tern::uniform_(t, low, high, generator);
  return t;
}
const Tensor& normal_(const Tensor& t, double mean, double std, const Generator* generator) {
  if (t.is_meta()) return t;
  NoGrad no_grad;
  tern::normal_(t, mean, std, generator);
  return t;
}
const Tensor& constant_(const Tensor& t, double value) {
  if (t.is_meta()) return t;
  NoGrad no_grad;
  return t.fill_(value);
}
const Tensor& ones_(const Tensor& t) { return init::constant_(t, 1); }
const Tensor& zeros_(const Tensor& t) { return init::constant_(t, 0); }

const Tensor& xavier_uniform_(const Tensor& t, double gain, const Generator* generator) {
  auto [in, out] = fans(t);
  double std = gain * std::sqrt(2.0 / static_cast<double>(in + out));
  double bound = std::sqrt(3.0) * std;
  return init::uniform_(t, -bound, bound, generator);
}
const Tensor& xavier_normal_(const Tensor& t, double gain, const Generator* generator) {
  auto [in, out] = fans(t);
  return init::normal_(t, 0, gain * std::sqrt(2.0 / static_cast<double>(in + out)), generator);
}

namespace {

double kaiming_std(const Tensor& t, const KaimingOptions& o) {
  if (o.mode != "fan_in" && o.mode != "fan_out")
    failf(ErrorKind::value, "Mode {} not supported, please use one of ['fan_in', 'fan_out']", o.mode);
  auto [in, out] = fans(t);
  return calculate_gain(o.nonlinearity, o.a) / std::sqrt(static_cast<double>(o.mode == "fan_in" ? in : out));
}

}  // namespace

const Tensor& kaiming_uniform_(const Tensor& t, KaimingOptions o) {
  if (t.numel() == 0) return t;
  double bound = std::sqrt(3.0) * kaiming_std(t, o);
  return init::uniform_(t, -bound, bound, o.generator);
}
const Tensor& kaiming_normal_(const Tensor& t, KaimingOptions o) {
  if (t.numel() == 0) return t;
  return init::normal_(t, 0, kaiming_std(t, o), o.generator);
}

double calculate_gain(std::string_view nonlinearity, double param) {
  if (nonlinearity == "linear" || nonlinearity == "sigmoid" || nonlinearity.starts_with("conv")) return 1;
  if (nonlinearity == "tanh") return 5.0 / 3;
  if (nonlinearity == "relu") return std::sqrt(2.0);
  if (nonlinearity == "leaky_relu") return std::sqrt(2.0 / (1 + param * param));
  if (nonlinearity == "selu") return 3.0 / 4;
  failf(ErrorKind::value, "Unsupported nonlinearity {}", nonlinearity);
}

Fans fans(const Tensor& t) {
  if (t.dim() < 2)
    fail(ErrorKind::value, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions");
  int64_t field = 1;
  for (int64_t d = 2; d < t.dim(); ++d) field *= t.size(d).guard_int();
  return {t.size(1).guard_int() * field, t.size(0).guard_int() * field};
}

}  // namespace tern::nn::init
