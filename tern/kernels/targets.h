// The instruction sets Tern compiles its SIMD loops for: any x86-64, AVX2, AVX-512, and NEON on ARM64;
// Highway picks at run time. SVE is left out: its vectors have no size, so tiles of them cannot be arrays.
// Include before <hwy/foreach_target.h>.
#pragma once
#include <hwy/detect_targets.h>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
