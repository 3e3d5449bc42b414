// Where in the user's source something was called: the file, line and function a message names.
#pragma once
#include <source_location>

namespace tern {

// Trivially copyable; take it as a defaulted last argument: `Loc loc = Loc::here()`.
struct Loc {
  const char* file = "";
  const char* function = "";
  unsigned line = 0;
  unsigned column = 0;

  static constexpr Loc here(std::source_location at = std::source_location::current()) {
    return {at.file_name(), at.function_name(), at.line(), at.column()};
  }
  explicit operator bool() const { return line != 0; }
};

}  // namespace tern
