// libFuzzer's entry, compiled once a target: TERN_FUZZ_TARGET is its name.
#include "fuzz/targets.h"

// Every throw sweeps the stack frames that are kept to see a use after return: two thirds of the time of an
// input that is refused. `make fuzz` looks for such uses afterwards, with the inputs that were worth keeping.
extern "C" const char* __asan_default_options() { return "detect_stack_use_after_return=0"; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return tern::fuzz::TERN_FUZZ_TARGET(data, size);
}
