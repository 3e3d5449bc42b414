#include "tern/onnx/dim_expression.h"

#include <cctype>
#include <charconv>

namespace tern::onnx {
namespace {

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

class Parser {
 public:
  Parser(std::string_view text, const Function<std::optional<SymInt>(std::string_view)>& symbol)
      : text_(text), symbol_(symbol) {}

  std::optional<SymInt> run() {
    std::optional<SymInt> value = sum(0);
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  std::optional<SymInt> sum(int depth) {
    std::optional<SymInt> value = product(depth);
    while (value) {
      bool plus = take("+");
      if (!plus && !take("-")) break;
      std::optional<SymInt> other = product(depth);
      if (!other) return std::nullopt;
      value = plus ? *value + *other : *value - *other;
    }
    return value;
  }
  std::optional<SymInt> product(int depth) {
    std::optional<SymInt> value = factor(depth);
    while (value) {
      bool divide = take("//");
      if (!divide && !take("*")) break;
      std::optional<SymInt> other = factor(depth);
      if (!other || (divide && other->maybe_int().value_or(0) <= 0)) return std::nullopt;
      value = divide ? floor_div(*value, *other) : *value * *other;
    }
    return value;
  }
  std::optional<SymInt> factor(int depth) {
    if (depth > 20) return std::nullopt;
    if (take("(")) {
      std::optional<SymInt> value = sum(depth + 1);
      return take(")") ? value : std::nullopt;
    }
    size_t start = at_;
    if (at_ < text_.size() && is_digit(text_[at_])) {
      int64_t n = 0;
      auto r = std::from_chars(text_.data() + at_, text_.data() + text_.size(), n);
      if (r.ec != std::errc() || n > (int64_t{1} << 31)) return std::nullopt;
      at_ = static_cast<size_t>(r.ptr - text_.data());
      return SymInt(n);
    }
    while (at_ < text_.size() && (is_letter(text_[at_]) || (at_ > start && is_digit(text_[at_])))) ++at_;
    if (at_ == start) return std::nullopt;
    return symbol_(text_.substr(start, at_ - start));
  }

  std::string_view text_;
  const Function<std::optional<SymInt>(std::string_view)>& symbol_;
  size_t at_ = 0;
};

}  // namespace

bool is_word(std::string_view text) {
  if (text.empty() || !is_letter(text[0])) return false;
  for (char c : text)
    if (!is_letter(c) && !is_digit(c)) return false;
  return true;
}

std::optional<SymInt> dim_expression(std::string_view text,
                                     const Function<std::optional<SymInt>(std::string_view)>& symbol) {
  return Parser(text, symbol).run();
}

}  // namespace tern::onnx
