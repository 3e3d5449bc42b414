#include "tern/export/checks.h"

#include "tern/base/format.h"
#include "tern/sym/shape_env.h"

namespace tern {

void check(SymBool condition, std::string message, Loc loc) {
  if (condition.is_symbolic())
    return ShapeEnv::of(condition.as_expr()).check(condition, std::move(message), loc);
  if (!condition.guard_bool(loc))
    fail(message.empty() ? "check: the condition is false" : std::move(message));
}

void check_is_size(SymInt value, Loc loc) {
  if (value.is_symbolic()) return ShapeEnv::of(value).check_is_size(value, loc);
  if (value.as_int() < 0)
    failf("check_is_size: expected a size, which is not negative, but got {}", value.as_int());
}

void constrain_range(SymInt value, int64_t min, int64_t max, Loc loc) {
  if (value.is_symbolic()) return ShapeEnv::of(value).constrain_range(value, {min, max}, loc);
  if (auto violation = range_violation(value.as_int(), {min, max})) fail(*violation);
}

}  // namespace tern
