// Closed integer intervals with infinite ends; arithmetic saturates outwards, so that bounds stay true.
#pragma once
#include <cstdint>
#include <string>

namespace tern {

struct Range {
  static constexpr int64_t infinity = INT64_MAX;
  int64_t min = -infinity;  // -infinity: no lower bound
  int64_t max = infinity;   // infinity: no upper bound

  constexpr bool is_empty() const { return min > max; }
  constexpr bool is_single() const { return min == max; }
  constexpr bool contains(int64_t v) const { return min <= v && v <= max; }
  constexpr bool contains(Range o) const { return min <= o.min && o.max <= max; }
  friend constexpr bool operator==(Range, Range) = default;
  std::string str() const;  // "[2, int_oo]"
};

constexpr Range intersect(Range a, Range b) {
  return {a.min > b.min ? a.min : b.min, a.max < b.max ? a.max : b.max};
}
Range operator+(Range a, Range b);
Range operator*(Range a, Range b);
Range scale(Range a, int64_t factor);
Range floor_div(Range a, Range b);
Range mod(Range a, Range b);

// Python's // and % of plain integers; the divisor is not zero.
constexpr int64_t floor_div_int(int64_t a, int64_t b) {
  if (b == -1) return a == INT64_MIN ? INT64_MAX : -a;
  int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}
constexpr int64_t mod_int(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t r = a % b;
  return (r != 0 && (r < 0) != (b < 0)) ? r + b : r;
}

}  // namespace tern
