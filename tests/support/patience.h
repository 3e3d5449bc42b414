// Budgets of time hold for what is shipped; a sanitizer's programs are slower, and how much is not the point.
#pragma once
#include "tern/base/sanitizer.h"

namespace tern::testing {

inline constexpr int patience = memory_is_watched ? 100 : 1;  // multiplies a budget
inline constexpr int fewer = memory_is_watched ? 10 : 1;      // divides the work it is measured on

}  // namespace tern::testing
