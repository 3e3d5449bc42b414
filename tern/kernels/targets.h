// The instruction sets Tern compiles its SIMD loops for: any x86-64, AVX2, AVX-512; Highway picks at run
// time. Include before <hwy/foreach_target.h>.
#pragma once
#include <hwy/detect_targets.h>

#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL)
