// libFuzzer's entry, compiled once a target: TERN_FUZZ_TARGET is its name.
#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return tern::fuzz::TERN_FUZZ_TARGET(data, size);
}
