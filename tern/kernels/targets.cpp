// The two functions of Highway's library that its headers call, so that the library is not linked: it
// measures the resolution of a timer while it is loaded, which takes 8 ms of every process.
#include <hwy/highway.h>

namespace hwy {

ChosenTarget& GetChosenTarget() {
  static constinit ChosenTarget chosen;
  return chosen;
}

// What this machine has of the instruction sets that a kernel can be compiled for.
int64_t SupportedTargets() {
#if HWY_ARCH_X86
  int64_t found = HWY_SCALAR | HWY_EMU128;
  if (__builtin_cpu_supports("ssse3")) found |= HWY_SSSE3;
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul"))
    found |= HWY_SSE4;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
      __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2")) {
    found |= HWY_AVX2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      found |= HWY_AVX3;
  }
  return found;
#else
  return HWY_ENABLED_BASELINE | HWY_SCALAR | HWY_EMU128;  // what the compiler was told
#endif
}

}  // namespace hwy
