// A moving average of the range of values, the scale and zero point that follow from it, and fake
// quantisation.
#include <algorithm>
#include <cmath>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/observer.args.h"
#include "tern/ops/quantized/values.h"

namespace tern {
namespace {

// The first range that is seen, then a step of `rate` towards each.
Tensor follow(const Tensor& running, const Tensor& now, double rate) {
  Tensor moved = running + rate * (now - running);
  return where(isinf(running), now, moved);
}

quantized::Choice choose(float low, float high, int64_t q_low, int64_t q_high, bool symmetric) {
  low = std::min(low, 0.0f);
  high = std::max(high, 0.0f);
  if (!symmetric || !(low < 0 && high > 0))
    return quantized::choose_parameters(low, high, q_low, q_high, false);
  // As far to the left of zero as to the right, and zero in the middle.
  const auto steps = static_cast<double>((q_high - q_low) / 2);
  const double step = std::max(std::fabs(low / (steps + 1)), std::fabs(high / steps));
  quantized::Choice c = quantized::choose_parameters(static_cast<float>(-step * (steps + 1)),
                                                     static_cast<float>(step * steps), q_low, q_high, false);
  c.zero_point = static_cast<int64_t>(std::nearbyint(static_cast<double>(q_low + q_high) / 2));
  return c;
}

template <class A>
std::tuple<Tensor, Tensor> observe_and_quantize(const A& a) {
  if (a.per_row_fake_quant && a.ch_axis != 0)
    fail("Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0");
  if (a.quant_min >= a.quant_max) fail("`quant_min` should be less than `quant_max`.");
  const bool observes = a.observer_on.item().to_int() != 0, quantizes = a.fake_quant_on.item().to_int() != 0;
  if (observes) {
    NoGrad no_grad;
    Tensor rows = a.self;
    if (a.per_row_fake_quant) {
      rows = reshape(rows, {rows.dim() ? rows.size(0) : SymInt(1), -1});
      if (surely_eq(a.running_min.numel(), 0)) {  // as many channels as the first values have
        const Dims channels{rows.size(0)};
        for (const Tensor* t : {&a.running_min, &a.running_max, &a.scale, &a.zero_point})
          resize_(*t, channels);
        fill_(a.running_min, INFINITY);
        fill_(a.running_max, -INFINITY);
      }
    }
    auto [least, most] = a.per_row_fake_quant ? aminmax(rows, 1) : aminmax(rows);
    copy_(a.running_min, follow(a.running_min, least.to(a.running_min.dtype()), a.averaging_const));
    copy_(a.running_max, follow(a.running_max, most.to(a.running_max.dtype()), a.averaging_const));
  }
  if (!quantizes) return {clone(a.self), ones_like(a.self, kBool)};
  {
    NoGrad no_grad;
    const std::vector<float> low = a.running_min.template to_vector<float>(),
                             high = a.running_max.template to_vector<float>();
    if (low.size() != high.size())
      failf("fused_moving_avg_obs_fake_quant: {} minima for {} maxima", low.size(), high.size());
    const auto n = static_cast<int64_t>(low.size());
    Tensor scales = empty({n}, kDouble), zeros = empty({n}, kLong);
    for (int64_t i = 0; i < n; ++i) {
      const size_t k = static_cast<size_t>(i);
      quantized::Choice c = choose(low[k], high[k], a.quant_min, a.quant_max, a.symmetric_quant);
      scales.data_ptr<double>()[i] = c.scale;
      zeros.data_ptr<int64_t>()[i] = c.zero_point;
    }
    copy_(a.scale, scales.reshape(a.scale.sizes()));
    copy_(a.zero_point, zeros.reshape(a.zero_point.sizes()));
  }
  if (a.per_row_fake_quant)
    return fake_quantize_per_channel_affine_cachemask(a.self, a.scale, a.zero_point, 0, a.quant_min,
                                                      a.quant_max);
  return _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(a.self, a.scale, a.zero_point,
                                                                   a.fake_quant_on, a.quant_min, a.quant_max);
}

}  // namespace

Tensor body_fused_moving_avg_obs_fake_quant(const args::fused_moving_avg_obs_fake_quant& a) {
  if (surely_eq(a.self.numel(), 0)) return clone(a.self);
  return std::get<0>(observe_and_quantize(a));
}
std::tuple<Tensor, Tensor> body__fused_moving_avg_obs_fq_helper(
    const args::_fused_moving_avg_obs_fq_helper& a) {
  return observe_and_quantize(a);
}

// ---- a range that loses little ----

namespace {

// How far the values are from what they become; offset and scale are stored as halves.
float distance_when_quantized(Span<const float> values, float low, float high, float steps) {
  auto as_half = [](float v) { return static_cast<float>(Half(v)); };
  low = as_half(low);
  const float range = high - low, scale = range == 0 ? 1.0f : as_half(range / steps);
  const float inverse = scale == 0 ? 1.0f : 1.0f / scale;
  float sum = 0;
  for (float v : values) {
    const float q = std::max(0.0f, std::min(steps, std::nearbyint((v - low) * inverse)));
    const float gap = v - (q * scale + low);
    sum += gap * gap;
  }
  return std::sqrt(sum);
}

}  // namespace

Shapes shape_choose_qparams_optimized(const args::choose_qparams_optimized& a) {
  if (a.numel < 0 || SymInt(a.numel) > a.input.numel()) fail("numel is out of the bound of input tensor");
  if (a.numel == 0) fail("choose_qparams_optimized: numel must be at least 1");
  if (a.n_bins < 1) failf("choose_qparams_optimized: n_bins must be at least 1, but is {}", a.n_bins);
  if (a.bit_width < 1 || a.bit_width > 30)
    failf("choose_qparams_optimized: bit_width must be between 1 and 30, but is {}", a.bit_width);
  if (a.input.dtype() != kFloat)
    failf("expected scalar type Float but found {}", script_name(a.input.dtype()));
  return {Shape(Dims{SymInt(1)}, kFloat), Shape(Dims{SymInt(1)}, kFloat)};
}
void kernel_choose_qparams_optimized(const args::choose_qparams_optimized& a, Out out) {
  Tensor input = row_major(a.input);
  const Span<const float> values(input.data_ptr<float>(), static_cast<size_t>(a.numel));
  const auto steps = static_cast<float>((1 << a.bit_width) - 1);
  auto loss = [&](float from, float to) { return distance_when_quantized(values, from, to, steps); };
  float low = *std::min_element(values.begin(), values.end()),
        high = *std::max_element(values.begin(), values.end());
  const float bin = (high - low) / static_cast<float>(a.n_bins);
  const auto least_bins = static_cast<int64_t>(static_cast<double>(a.n_bins) *
                                               (1.0 - static_cast<double>(static_cast<float>(a.ratio))));
  const float narrowest = static_cast<float>(least_bins) * bin;
  float from = low, to = high, now = loss(low, high), best = now;
  // Bins that vanish beside the limits would never end it.
  for (int64_t turn = 0; turn < 2 * a.n_bins && from + narrowest < to; ++turn) {
    const float from_left = loss(from + bin, to), from_right = loss(from, to - bin);
    if (now < from_left && now < from_right && now < best) {
      best = now;
      low = from;
      high = to;
    }
    if (from_left < from_right) {
      from += bin;
      now = from_left;
    } else {
      to -= bin;
      now = from_right;
    }
  }
  out[0].data_ptr<float>()[0] = high;
  out[1].data_ptr<float>()[0] = low;
}

}  // namespace tern
