// Dim: how a user says which input sizes vary. Dim("batch", {.min = 1, .max = 64}), 2 * batch + 1,
// Dim::AUTO, 5.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "tern/base/symbol.h"
#include "tern/sym/range.h"

namespace tern {

struct DimBounds {
  std::optional<int64_t> min = std::nullopt;
  std::optional<int64_t> max = std::nullopt;
};

// A small value, cheap to copy. Only increasing linear forms scale·root + offset can be derived.
class Dim {
 public:
  enum class Kind : uint8_t { fixed, automatic, dynamic, named };

  static const Dim AUTO;     // dynamic unless the program specialises it
  static const Dim DYNAMIC;  // dynamic; specialising it is an error
  static const Dim STATIC;   // the example's size

  // Throws unless `name` is an identifier and 0 <= min < max.
  explicit Dim(std::string_view name, DimBounds bounds = {});
  template <class I>
  requires std::is_integral_v<I>
  constexpr Dim(I size) : offset_(static_cast<int64_t>(size)), has_size_(true) {}
  static Dim automatic(DimBounds bounds);  // Dim.AUTO(min=…, max=…)
  static Dim dynamic(DimBounds bounds);

  Kind kind() const { return kind_; }
  bool is_static() const { return kind_ == Kind::fixed; }
  std::optional<int64_t> size() const { return has_size_ ? std::optional(offset_) : std::nullopt; }
  bool is_derived() const { return kind_ == Kind::named && (scale_ != 1 || offset_ != 0); }
  Dim root() const;
  std::string root_name() const { return root_.str(); }
  int64_t scale() const { return scale_; }
  int64_t offset() const { return offset_; }
  Range root_range() const { return range_; }
  Range range() const;       // throws if a derived minimum would be negative
  std::string name() const;  // "2*batch + 1"
  std::string str() const;   // "Dim('batch', min=3, max=6)"
  friend bool operator==(const Dim&, const Dim&) = default;

  friend Dim operator+(const Dim& d, int64_t n) { return d.derive("add", n, 1, n); }
  friend Dim operator+(int64_t n, const Dim& d) { return d + n; }
  friend Dim operator-(const Dim& d, int64_t n) { return d.derive("subtract", n, 1, -n); }
  friend Dim operator*(const Dim& d, int64_t n) { return d.derive("multiply", n, n, 0); }
  friend Dim operator*(int64_t n, const Dim& d) { return d * n; }
  // What cannot be derived, as errors that say so.
  friend Dim operator+(const Dim& a, const Dim& b) { refuse("add", b.str(), a); }
  friend Dim operator-(const Dim& a, const Dim& b) { refuse("subtract", b.str(), a); }
  friend Dim operator-(int64_t, const Dim& d) { refuse("negate", "", d); }
  friend Dim operator-(const Dim& d) { refuse("negate", "", d); }
  friend Dim operator*(const Dim& a, const Dim& b) { refuse("multiply", b.str(), a); }
  template <class F>
  requires std::is_floating_point_v<F>
  friend Dim operator*(const Dim& d, F n) { refuse("multiply", std::to_string(n), d); }
  template <class F>
  requires std::is_floating_point_v<F>
  friend Dim operator*(F n, const Dim& d) { refuse("multiply", std::to_string(n), d); }

 private:
  struct Tag {};
  constexpr Dim(Tag, Kind kind) : kind_(kind) {}
  Dim derive(const char* verb, int64_t operand, int64_t scale, int64_t offset) const;
  [[noreturn]] static void refuse(const char* verb, const std::string& operand, const Dim& d);

  Symbol root_;
  Range range_{0, Range::infinity};
  int64_t scale_ = 1;
  int64_t offset_ = 0;  // of a fixed one: its size
  Kind kind_ = Kind::fixed;
  bool has_size_ = false;
};

inline constexpr Dim Dim::AUTO{Tag{}, Kind::automatic};
inline constexpr Dim Dim::DYNAMIC{Tag{}, Kind::dynamic};
inline constexpr Dim Dim::STATIC{Tag{}, Kind::fixed};

// "2*batch + 1": a linear form as sympy prints it.
std::string linear_text(int64_t scale, std::string_view name, int64_t offset);

}  // namespace tern
