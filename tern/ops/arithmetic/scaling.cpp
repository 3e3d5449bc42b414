// The scale of a loss, and casts between the precisions of a mixed computation.
#include <cmath>

#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/scaling.args.h"

namespace tern {
namespace {

void check_one(const char* what, const Tensor& t, DType dtype) {
  if (!(t.numel() == 1)) fail(std::string(what) + " must be a 1-element tensor.");
  if (t.dtype() != dtype)
    fail(std::string(what) + (dtype == kInt ? " must be an int tensor." : " must be a float tensor."));
}

}  // namespace

Shapes shape__amp_update_scale(const args::_amp_update_scale& a) {
  check_one("growth_tracker", a.growth_tracker, kInt);
  check_one("found_inf", a.found_inf, kFloat);
  check_one("current_scale", a.self, kFloat);
  return {Shape(a.self.sizes(), kFloat), Shape(a.growth_tracker.sizes(), kInt)};
}
void kernel__amp_update_scale(const args::_amp_update_scale& a, Out out) {
  float scale = a.self.data_ptr<float>()[0];
  int32_t steps = a.growth_tracker.data_ptr<int32_t>()[0] + 1;
  if (a.found_inf.data_ptr<float>()[0] != 0) {
    scale = static_cast<float>(scale * a.scale_backoff_factor);
    steps = 0;
  } else if (steps == a.growth_interval) {
    const auto grown = static_cast<float>(scale * a.scale_growth_factor);
    if (std::isfinite(grown)) scale = grown;
    steps = 0;
  }
  out[0].data_ptr<float>()[0] = scale;
  out[1].data_ptr<int32_t>()[0] = steps;
}
Tensor body__amp_update_scale_(const args::_amp_update_scale_& a) {
  auto [scale, steps] = _amp_update_scale(a.self, a.growth_tracker, a.found_inf, a.scale_growth_factor,
                                          a.scale_backoff_factor, a.growth_interval);
  NoGrad no_grad;
  copy_(a.growth_tracker, steps);
  return copy_(a.self, scale);
}

Tensor body__autocast_to_full_precision(const args::_autocast_to_full_precision& a) {
  const bool narrow = a.self.dtype() == kHalf || a.self.dtype() == kBFloat16;
  return narrow && a.cpu_enabled ? a.self.to(kFloat) : a.self;
}
Tensor body__autocast_to_reduced_precision(const args::_autocast_to_reduced_precision& a) {
  return a.self.dtype() == kFloat && a.cpu_enabled ? a.self.to(a.cpu_dtype) : a.self;
}

}  // namespace tern
