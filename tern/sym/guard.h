// What a capture wrote down: a condition that its answers rest on, and one that is left to run time.
#pragma once
#include <string>

#include "tern/sym/sym_int.h"

namespace tern {

struct Guard {
  SymBool condition;
  Loc loc;
  std::string text;  // as it was asked, "s0 <= 6"
};

struct RuntimeAssert {
  SymBool condition;
  std::string message;
  Loc loc;
};

}  // namespace tern
