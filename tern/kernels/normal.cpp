#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tern/kernels/normal.cpp"
#include "tern/kernels/targets.h"

#include <hwy/foreach_target.h>

#include <hwy/contrib/math/math-inl.h>
#include <numbers>

#include "tern/kernels/normal.h"

HWY_BEFORE_NAMESPACE();
namespace tern::kernels::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

HWY_ATTR void box_muller(float* x, int64_t blocks, float mean, float std) {
  const hn::CappedTag<float, 8> d;
  const auto one = hn::Set(d, 1.0f), shift = hn::Set(d, mean), scale = hn::Set(d, std),
             turn = hn::Set(d, static_cast<float>(2 * std::numbers::pi));
  for (int64_t b = 0; b < blocks; ++b)
    for (size_t j = 0; j < 8; j += hn::Lanes(d)) {
      float *first = x + b * 16 + j, *second = first + 8;
      // 1 - u is never zero: log is finite.
      const auto radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0f), hn::Log(d, hn::Sub(one, hn::LoadU(d, first)))));
      const auto angle = hn::Mul(turn, hn::LoadU(d, second));
      hn::StoreU(hn::MulAdd(hn::Mul(radius, hn::Cos(d, angle)), scale, shift), d, first);
      hn::StoreU(hn::MulAdd(hn::Mul(radius, hn::Sin(d, angle)), scale, shift), d, second);
    }
}

}  // namespace
}  // namespace tern::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::kernels {
HWY_EXPORT(box_muller);

void normal_blocks(float* x, int64_t blocks, float mean, float std) {
  HWY_DYNAMIC_DISPATCH(box_muller)(x, blocks, mean, std);
}

}  // namespace tern::kernels
#endif
