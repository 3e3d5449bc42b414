#include "tern/base/error.h"

#include <cstring>

namespace tern {

Error Error::with_context(std::string_view context) const {
  return Error(kind_, std::string(context) + ": " + message_);
}

void fail(std::string message) { throw Error(std::move(message)); }
void fail(ErrorKind kind, std::string message) { throw Error(kind, std::move(message)); }

void fail_invariant(const char* what, const char* file, int line) {
  const char* base = std::strstr(file, "tern/");
  throw Error(ErrorKind::internal, std::string("internal error: ") + what + " does not hold at " +
                                       (base ? base : file) + ":" + std::to_string(line));
}

}  // namespace tern
