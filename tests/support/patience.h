// Budgets of time hold for what is shipped on a real machine; a sanitizer's programs and those under an
// emulator are slower, and how much is not the point.
#pragma once
#include <cstdlib>

#include "tern/base/sanitizer.h"

namespace tern::testing {

inline const bool emulated = std::getenv("TERN_TEST_EMULATED") != nullptr;  // tests/run sets it

inline const int patience = memory_is_watched || emulated ? 100 : 1;  // multiplies a budget
inline constexpr int fewer = memory_is_watched ? 10 : 1;              // divides the work it is measured on

}  // namespace tern::testing
