#include "tern/nn/callable.h"

#include "tern/base/format.h"

namespace tern::nn {

void wrong_argument_count(size_t wanted, size_t given) {
  failf(ErrorKind::type, "forward takes {} arguments, but {} were given", wanted, given);
}

}  // namespace tern::nn
