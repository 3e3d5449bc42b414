#include "tern/sym/range.h"

#include <algorithm>

namespace tern {
namespace {

constexpr int64_t inf = Range::infinity;

int64_t clamp(__int128 v) {
  return v >= inf ? inf : v <= -static_cast<__int128>(inf) ? -inf : static_cast<int64_t>(v);
}

int64_t add_end(int64_t a, int64_t b, int64_t infinite) {
  if (a == infinite || b == infinite) return infinite;
  return clamp(static_cast<__int128>(a) + b);
}

// 0 times an infinite end is 0: the end is a bound, not a value.
int64_t mul_end(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == inf || a == -inf || b == inf || b == -inf) return (a > 0) == (b > 0) ? inf : -inf;
  return clamp(static_cast<__int128>(a) * b);
}

int64_t div_end(int64_t a, int64_t b) {
  if (b == inf || b == -inf) return a == 0 || (a > 0) == (b > 0) ? 0 : -1;
  if (a == inf || a == -inf) return (a > 0) == (b > 0) ? inf : -inf;
  return floor_div_int(a, b);
}

}  // namespace

std::string Range::str() const {
  std::string low = min <= -infinity ? "-int_oo" : std::to_string(min);
  std::string high = max >= infinity ? "int_oo" : std::to_string(max);
  return "[" + low + ", " + high + "]";
}

Range operator+(Range a, Range b) { return {add_end(a.min, b.min, -inf), add_end(a.max, b.max, inf)}; }

Range operator*(Range a, Range b) {
  int64_t ends[] = {mul_end(a.min, b.min), mul_end(a.min, b.max), mul_end(a.max, b.min),
                    mul_end(a.max, b.max)};
  return {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
}

Range scale(Range a, int64_t factor) { return a * Range{factor, factor}; }

Range floor_div(Range a, Range b) {
  if (b.min <= 0 && b.max >= 0) {
    // Zero itself is no divisor: what remains on either side of it.
    Range out{inf, -inf};
    if (b.max > 0) {
      Range up = floor_div(a, Range{1, b.max});
      out = {std::min(out.min, up.min), std::max(out.max, up.max)};
    }
    if (b.min < 0) {
      Range down = floor_div(a, Range{b.min, -1});
      out = {std::min(out.min, down.min), std::max(out.max, down.max)};
    }
    return out.is_empty() ? Range{} : out;
  }
  int64_t ends[] = {div_end(a.min, b.min), div_end(a.min, b.max), div_end(a.max, b.min),
                    div_end(a.max, b.max)};
  return {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
}

Range mod(Range a, Range b) {
  if (b.min > 0) {
    if (a.min >= 0 && a.max < b.min) return a;
    Range out{0, b.max == inf ? inf : b.max - 1};
    if (a.min >= 0) out.max = std::min(out.max, a.max);
    return out;
  }
  if (b.max < 0) return {b.min == -inf ? -inf : b.min + 1, 0};
  return {b.min == -inf ? -inf : std::min<int64_t>(b.min + 1, 0),
          b.max == inf ? inf : std::max<int64_t>(b.max - 1, 0)};
}

}  // namespace tern
