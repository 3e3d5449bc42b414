#include "tern/sym/dims.h"

#include <cctype>

#include "tern/base/format.h"

namespace tern {
namespace {

constexpr const char* only_linear =
    "(Only increasing linear operations with integer coefficients are supported.)";

bool is_identifier(std::string_view s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  for (char c : s)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && static_cast<unsigned char>(c) < 0x80)
      return false;
  return true;
}

Range checked_range(const DimBounds& b) {
  int64_t min = b.min.value_or(0), max = b.max.value_or(Range::infinity);
  auto shown = [](const std::optional<int64_t>& v) { return v ? std::to_string(*v) : std::string("None"); };
  if (min < 0) failf(ErrorKind::value, "Cannot create Dim with a negative min={}: a size is at least 0", min);
  if (max <= min)
    failf(ErrorKind::value, "Cannot create Dim with inconsistent min={}, max={}", shown(b.min), shown(b.max));
  return {min, max};
}

}  // namespace

std::string linear_text(int64_t scale, std::string_view name, int64_t offset) {
  std::string out = scale == 1    ? std::string(name)
                    : scale == -1 ? fmt::format("-{}", name)
                                  : fmt::format("{}*{}", scale, name);
  if (offset > 0) out += fmt::format(" + {}", offset);
  if (offset < 0) out += fmt::format(" - {}", std::to_string(offset).substr(1));
  return out;
}

Dim::Dim(std::string_view name, DimBounds bounds) : kind_(Kind::named) {
  if (!is_identifier(name)) failf(ErrorKind::value, "Dim name must be a valid identifier, got {}", name);
  range_ = checked_range(bounds);
  root_ = Symbol(name);
}
Dim Dim::automatic(DimBounds bounds) {
  Dim d = AUTO;
  d.range_ = checked_range(bounds);
  return d;
}
Dim Dim::dynamic(DimBounds bounds) {
  Dim d = DYNAMIC;
  d.range_ = checked_range(bounds);
  return d;
}

Dim Dim::root() const {
  Dim d = *this;
  d.scale_ = 1;
  d.offset_ = 0;
  return d;
}

Dim Dim::derive(const char* verb, int64_t operand, int64_t scale, int64_t offset) const {
  if (kind_ != Kind::named || (verb[0] == 'm' && operand <= 0)) refuse(verb, std::to_string(operand), *this);
  Dim d = *this;
  if (__builtin_mul_overflow(scale_, scale, &d.scale_) ||
      __builtin_mul_overflow(offset_, scale, &d.offset_) ||
      __builtin_add_overflow(d.offset_, offset, &d.offset_))
    failf(ErrorKind::value, "Dim {}: the derived coefficients do not fit 64 bits", name());
  return d;
}

void Dim::refuse(const char* verb, const std::string& operand, const Dim& d) {
  std::string_view v = verb;
  if (v == "negate") failf(ErrorKind::not_supported, "Attempted to negate {}. {}", d.name(), only_linear);
  const char* link = v == "add" ? "to" : v == "subtract" ? "from" : "with";
  const char* wanted = v == "multiply" ? "a positive integer" : "an integer";
  failf(ErrorKind::not_supported, "Attempted to {} {} {} {}, where {} was expected. {}", verb, operand, link,
        d.name(), wanted, only_linear);
}

Range Dim::range() const {
  if (kind_ == Kind::fixed) return has_size_ ? Range{offset_, offset_} : Range{0};
  Range r = tern::scale(range_, scale_) + Range{offset_, offset_};
  if (r.min < 0)
    failf(ErrorKind::value,
          "Expected derived min value of {} to be >= 0. Please specify an appropriate min value for {} "
          "(currently {}).",
          name(), root_name(), range_.min);
  if (range_.max < Range::infinity && r.max >= Range::infinity)
    failf(ErrorKind::value,
          "Expected derived max value of {} to be <= {}. Please specify an appropriate max value for {} "
          "(currently {}).",
          name(), Range::infinity - 1, root_name(), range_.max);
  return r;
}

std::string Dim::name() const {
  switch (kind_) {
    case Kind::automatic:
      return "Dim.AUTO";
    case Kind::dynamic:
      return "Dim.DYNAMIC";
    case Kind::fixed:
      return has_size_ ? std::to_string(offset_) : "Dim.STATIC";
    default:
      return linear_text(scale_, root_.view(), offset_);
  }
}

std::string Dim::str() const {
  if (kind_ != Kind::named || is_derived()) return name();
  std::string out = fmt::format("Dim('{}'", root_.view());
  if (range_.min != 0 && range_.min != 2) out += fmt::format(", min={}", range_.min);
  if (range_.max < Range::infinity) out += fmt::format(", max={}", range_.max);
  return out + ")";
}

}  // namespace tern
