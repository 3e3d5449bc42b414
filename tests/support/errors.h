// What a call says when it throws.
#pragma once
#include <string>

#include "tern/base/error.h"

namespace tern::testing {

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

}  // namespace tern::testing
