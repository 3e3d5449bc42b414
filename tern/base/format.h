// fmt for .cpp files: never include this from a header.
#pragma once
#include <fmt/core.h>

#include "tern/base/error.h"

namespace tern {

template <class... A>
[[noreturn]] void failf(fmt::format_string<A...> text, A&&... values) {
  fail(fmt::format(text, std::forward<A>(values)...));
}
template <class... A>
[[noreturn]] void failf(ErrorKind kind, fmt::format_string<A...> text, A&&... values) {
  fail(kind, fmt::format(text, std::forward<A>(values)...));
}

}  // namespace tern
