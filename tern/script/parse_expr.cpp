// Expressions: recursive descent, Python's precedences.
#include <array>
#include <charconv>
#include <cmath>
#include <complex>

#include "tern/base/format.h"
#include "tern/script/parser.h"

namespace tern::script {

ExprPtr ExprParser::single_expression() {
  ExprPtr e = expression_list();
  take(TokenKind::newline);
  if (!at_end()) fail_here("text after the expression");
  return e;
}

// ---- expressions ----
ExprPtr ExprParser::node(ExprKind kind, uint32_t at) {
  auto e = new_owned<Expr>();
  e->kind = kind;
  e->at = at;
  e->end = at;
  if (kind == ExprKind::binary || kind == ExprKind::subscript || kind == ExprKind::call) e->items.reserve(2);
  return e;
}
ExprPtr ExprParser::close(ExprPtr e) {
  e->end = at_ ? tokens_[at_ - 1].end : 0;
  return e;
}

bool ExprParser::starts_expression() const {
  switch (token().kind) {
    case TokenKind::number:
    case TokenKind::string:
    case TokenKind::fstring:
      return true;
    case TokenKind::name:
      return !token().is_keyword() || is("not") || is("lambda");
    case TokenKind::op:
      return is("(") || is("[") || is("{") || is("-") || is("+") || is("~") || is("*") || is("...");
    default:
      return false;
  }
}

// a, b, c without brackets is a tuple.
ExprPtr ExprParser::expression_list() {
  uint32_t at = token().at;
  ExprPtr first = starred();
  if (!is(",")) return first;
  ExprPtr tuple = node(ExprKind::tuple, at);
  tuple->items.push_back(std::move(first));
  while (take(",")) {
    if (!starts_expression()) break;
    tuple->items.push_back(starred());
  }
  return close(std::move(tuple));
}
ExprPtr ExprParser::target_list() {
  uint32_t at = token().at;
  ExprPtr first = postfix();
  if (!is(",")) return first;
  ExprPtr tuple = node(ExprKind::tuple, at);
  tuple->items.push_back(std::move(first));
  while (take(",")) {
    if (is("in")) break;
    tuple->items.push_back(postfix());
  }
  return close(std::move(tuple));
}
ExprPtr ExprParser::starred() {
  if (!is("*")) return expression();
  ExprPtr e = node(ExprKind::starred, token().at);
  expect("*");
  e->items.push_back(expression());
  return close(std::move(e));
}

ExprPtr ExprParser::expression() {
  Deeper deeper(*this);
  if (is("lambda")) fail_here("Lambda aren't supported");
  if (is("yield")) fail_here(ahead(1).is("from") ? "YieldFrom aren't supported" : "Yield aren't supported");
  if (is("await")) fail_here("Await aren't supported");
  if (stands_alone()) return atom();
  uint32_t at = token().at;
  ExprPtr value = condition();
  if (is(":=")) fail_here("NamedExpr aren't supported");
  if (!is("if")) return value;
  take("if");
  ExprPtr e = node(ExprKind::ternary, at);
  e->items.push_back(std::move(value));
  e->items.push_back(condition());
  expect("else");
  e->items.push_back(expression());
  return close(std::move(e));
}

// Python's levels, loosest first: or, and, not, comparisons, then those of arithmetic.
ExprPtr ExprParser::condition() {
  ExprPtr left = conjunction();
  while (is("or")) left = binary(std::move(left), &ExprParser::conjunction);
  return left;
}
ExprPtr ExprParser::conjunction() {
  ExprPtr left = negation();
  while (is("and")) left = binary(std::move(left), &ExprParser::negation);
  return left;
}
// Its operator is next.
ExprPtr ExprParser::binary(ExprPtr left, ExprPtr (ExprParser::*operand)()) {
  Deeper deeper(*this);
  ExprPtr e = node(ExprKind::binary, token().at);
  e->text = tokens_[at_++].text;
  e->items.push_back(std::move(left));
  e->items.push_back((this->*operand)());
  return close(std::move(e));
}
ExprPtr ExprParser::negation() {
  if (!is("not")) return comparison();
  Deeper deeper(*this);
  ExprPtr e = node(ExprKind::unary, token().at);
  take("not");
  e->text = "not";
  e->items.push_back(negation());
  return close(std::move(e));
}
std::string_view ExprParser::comparison_operator() {
  switch (token().lexeme) {
    case Lexeme("==").number:
    case Lexeme("!=").number:
    case Lexeme("<=").number:
    case Lexeme(">=").number:
    case Lexeme("<").number:
    case Lexeme(">").number:
    case Lexeme("in").number:
      return tokens_[at_++].text;
    case Lexeme("is").number:
      ++at_;
      return take("not") ? "is not" : "is";
    case Lexeme("not").number:
      if (!ahead(1).is("in")) return {};
      at_ += 2;
      return "not in";
    default:
      return {};
  }
}
// a < b < c is (a < b) and (b < c).
ExprPtr ExprParser::comparison() {
  ExprPtr left = arithmetic(), chain;
  for (;;) {
    uint32_t at = token().at;
    std::string_view op = comparison_operator();
    if (op.empty()) return chain ? std::move(chain) : std::move(left);
    size_t operand = at_;
    ExprPtr right = arithmetic();
    ExprPtr again;
    if (is("<") || is(">") || is("<=") || is(">=") || is("==") || is("!=") || is("is") || is("in")) {
      size_t end = at_;
      at_ = operand;
      again = arithmetic();
      at_ = end;
    }
    ExprPtr e = node(ExprKind::binary, at);
    e->text = op;
    e->items.push_back(std::move(left));
    e->items.push_back(std::move(right));
    e = close(std::move(e));
    if (chain) {
      ExprPtr both = node(ExprKind::binary, at);
      both->text = "and";
      both->items.push_back(std::move(chain));
      both->items.push_back(std::move(e));
      e = close(std::move(both));
    }
    if (!again) return e;
    chain = std::move(e);
    left = std::move(again);
  }
}

namespace {
// How tightly an operator of arithmetic binds; 0 for what is none.
constexpr std::array<uint8_t, 256> tightness = [] {
  std::array<uint8_t, 256> t{};
  t[Lexeme("|").number] = 1;
  t[Lexeme("^").number] = 2;
  t[Lexeme("&").number] = 3;
  t[Lexeme("<<").number] = t[Lexeme(">>").number] = 4;
  t[Lexeme("+").number] = t[Lexeme("-").number] = 5;
  t[Lexeme("*").number] = t[Lexeme("/").number] = t[Lexeme("//").number] = t[Lexeme("%").number] =
      t[Lexeme("@").number] = 6;
  return t;
}();
}  // namespace

ExprPtr ExprParser::arithmetic(int loosest) {
  ExprPtr left = unary();
  for (int tight; (tight = tightness[token().lexeme]) >= loosest;) {
    Deeper deeper(*this);
    ExprPtr e = node(ExprKind::binary, token().at);
    e->text = tokens_[at_++].text;
    e->items.push_back(std::move(left));
    e->items.push_back(arithmetic(tight + 1));
    left = close(std::move(e));
  }
  return left;
}
ExprPtr ExprParser::unary() {
  if (!is("-") && !is("+") && !is("~")) return power();
  Deeper deeper(*this);
  ExprPtr e = node(ExprKind::unary, token().at);
  e->text = tokens_[at_++].text;
  e->items.push_back(unary());
  return close(std::move(e));
}
ExprPtr ExprParser::power() {
  ExprPtr base = postfix();
  if (!is("**")) return base;
  Deeper deeper(*this);
  ExprPtr e = node(ExprKind::binary, token().at);
  take("**");
  e->text = "**";
  e->items.push_back(std::move(base));
  e->items.push_back(unary());
  return close(std::move(e));
}

// A type. The usual one, a dotted name, is one node with the dots in its text.
// Most operands are one word, string or number: the levels of operators between need not be asked.
bool ExprParser::stands_alone() const {
  TokenKind kind = token().kind;
  const Token& next = ahead(1);
  return (kind == TokenKind::name || kind == TokenKind::string || kind == TokenKind::number) &&
         (next.kind == TokenKind::newline || next.is(",") || next.is(")") || next.is("]"));
}

ExprPtr ExprParser::annotation() {
  size_t last = at_;
  while (tokens_[last].kind == TokenKind::name && ahead(last + 1 - at_).is(".") &&
         ahead(last + 2 - at_).kind == TokenKind::name)
    last += 2;
  const Token& first = token();
  const Token& next = ahead(last + 1 - at_);
  bool alone =
      next.kind == TokenKind::newline || next.is("=") || next.is(",") || next.is(")") || next.is(":");
  if (last == at_ || !alone || first.is_keyword()) return expression();
  ExprPtr e = node(ExprKind::name, first.at);
  e->text.reserve(tokens_[last].end - first.at);
  for (; at_ <= last; ++at_) e->text += token().text;
  return close(std::move(e));
}

ExprPtr ExprParser::postfix() {
  ExprPtr e = atom();
  for (;;) {
    uint32_t at = token().at;
    if (take(".")) {
      ExprPtr a = node(ExprKind::attribute, token().at);
      if (token().kind != TokenKind::name) fail_here("expected a name after '.'");
      a->text = std::string(tokens_[at_++].text);  // keywords too: ops.aten.is
      a->items.push_back(std::move(e));
      e = close(std::move(a));
    } else if (take("(")) {
      ExprPtr c = node(ExprKind::call, e->at);
      c->items.push_back(std::move(e));
      while (!take(")")) {
        if (token().kind == TokenKind::name && ahead(1).is("=")) {
          ExprPtr k = node(ExprKind::keyword, token().at);
          k->text = std::string(tokens_[at_].text);
          at_ += 2;
          k->items.push_back(expression());
          c->items.push_back(close(std::move(k)));
        } else if (is("**")) {
          fail_here("keyword-arg expansion is not supported");
        } else {
          ExprPtr arg = starred();
          if (is("for")) arg = comprehension(std::move(arg), nullptr, c->at);
          c->items.push_back(std::move(arg));
        }
        if (!is(")")) expect(",");
      }
      e = close(std::move(c));
    } else if (take("[")) {
      ExprPtr s = node(ExprKind::subscript, at);
      s->items.push_back(std::move(e));
      if (is("]")) fail_here("expected an index");
      while (!take("]")) {
        s->items.push_back(slice());
        if (!is("]")) {
          expect(",");
          s->text = ",";  // x[i,] and x[i, j] are tuples
        }
      }
      e = close(std::move(s));
    } else {
      return e;
    }
  }
}

ExprPtr ExprParser::slice() {
  uint32_t at = token().at;
  ExprPtr first;
  if (!is(":")) first = starred();
  if (!is(":")) return first;
  take(":");
  ExprPtr s = node(ExprKind::slice, at);
  s->items.push_back(std::move(first));
  s->items.push_back(is(":") || is("]") || is(",") ? nullptr : expression());
  s->items.push_back(nullptr);
  if (take(":") && !is("]") && !is(",")) s->items[2] = expression();
  return close(std::move(s));
}

// Its `for` is next. `value` is given for a dict.
ExprPtr ExprParser::comprehension(ExprPtr element, ExprPtr value, uint32_t at) {
  ExprPtr e = node(value ? ExprKind::dict_comp : ExprKind::list_comp, at);
  e->items.push_back(std::move(element));
  if (value) e->items.push_back(std::move(value));
  expect("for");
  e->items.push_back(target_list());
  expect("in");
  e->items.push_back(condition());
  while (take("if")) e->items.push_back(condition());
  if (is("for")) fail_at(*source_, at, "Only a single generator is currently supported");
  return close(std::move(e));
}

ExprPtr ExprParser::atom() {
  Deeper deeper(*this);
  uint32_t at = token().at;
  switch (token().kind) {
    case TokenKind::number:
      return number();
    case TokenKind::string:
    case TokenKind::fstring:
      return strings();
    case TokenKind::name:
      break;
    case TokenKind::op:
      if (take("...")) return close(node(ExprKind::dots, at));
      if (take("(")) return parenthesised(at);
      if (take("[")) return list(at);
      if (take("{")) return dict(at);
      [[fallthrough]];
    default:
      fail_here("expected an expression but found " + describe());
  }
  std::string_view word = token().text;
  if (word == "None" || word == "True" || word == "False") {
    ++at_;
    ExprPtr e = node(ExprKind::constant, at);
    if (word != "None") e->value = tern::Value(word == "True");
    return close(std::move(e));
  }
  if (token().is_keyword()) fail_here("expected an expression but found " + describe());
  ExprPtr e = node(ExprKind::name, at);
  e->text = std::string(word);
  ++at_;
  return close(std::move(e));
}

ExprPtr ExprParser::number() {
  ExprPtr e = node(ExprKind::constant, token().at);
  std::string text;
  for (char c : token().text)
    if (c != '_') text += c;
  const char *first = text.data(), *last = first + text.size();
  if (text.size() > 2 && text[0] == '0' && isalpha(static_cast<unsigned char>(text[1])) &&
      (text[1] | 32) != 'e' && (text[1] | 32) != 'j') {
    int base = (text[1] | 32) == 'x' ? 16 : (text[1] | 32) == 'b' ? 2 : 8;
    uint64_t v = 0;
    auto r = std::from_chars(first + 2, last, v, base);
    if (r.ec != std::errc() || r.ptr != last) fail_here("a number that is not understood");
    e->value = tern::Value(static_cast<int64_t>(v));
  } else if (text.back() == 'j' || text.back() == 'J') {
    double d = 0;
    auto r = std::from_chars(first, last - 1, d);
    if (r.ec != std::errc() || r.ptr != last - 1) fail_here("a number that is not understood");
    e->value = tern::Value(std::complex<double>(0, d));
  } else if (text.find_first_of(".eE") != std::string::npos) {
    double d = 0;
    auto r = std::from_chars(first, last, d);
    if (r.ec == std::errc::result_out_of_range)
      d = std::strtod(text.c_str(), nullptr);
    else if (r.ec != std::errc() || r.ptr != last)
      fail_here("a number that is not understood");
    e->value = tern::Value(d);
  } else {
    int64_t v = 0;
    auto r = std::from_chars(first, last, v);
    if (r.ec == std::errc::result_out_of_range && text == "9223372036854775808") {
      v = INT64_MIN;  // only right after a minus, where negation gives it back
    } else if (r.ec != std::errc() || r.ptr != last) {
      fail_here("an integer that does not fit 64 bits");
    }
    e->value = tern::Value(v);
  }
  ++at_;
  return close(std::move(e));
}

// Neighbouring strings are one.
ExprPtr ExprParser::strings() {
  uint32_t at = token().at;
  std::string text;
  ExprPtr formatted;
  while (token().kind == TokenKind::string || token().kind == TokenKind::fstring) {
    if (token().kind == TokenKind::string) {
      for (char c : token().text.substr(0, token().text.find_first_of("'\"")))
        if (c == 'b' || c == 'B') fail_at(*source_, token().at, "Unknown Constant expression type");
      text += string_content(*source_, token());
    } else {
      if (!formatted) formatted = node(ExprKind::fstring, at);
      fstring(token(), text, *formatted);
    }
    ++at_;
  }
  if (formatted) {
    flush_text(text, *formatted, at);
    return close(std::move(formatted));
  }
  ExprPtr e = node(ExprKind::constant, at);
  e->value = tern::Value(text);
  return close(std::move(e));
}
void ExprParser::flush_text(std::string& text, Expr& out, uint32_t at) {
  if (text.empty()) return;
  ExprPtr c = node(ExprKind::constant, at);
  c->value = tern::Value(text);
  out.items.push_back(std::move(c));
  text.clear();
}
void ExprParser::fstring(const Token& t, std::string& text, Expr& out) {
  std::string_view s = t.text;
  size_t quote = s.find_first_of("'\"");
  size_t marks = s.size() >= quote + 6 && s[quote + 1] == s[quote] && s[quote + 2] == s[quote] ? 3 : 1;
  size_t end = s.size() - marks;
  for (size_t i = quote + marks; i < end;) {
    char c = s[i];
    if ((c == '{' || c == '}') && i + 1 < end && s[i + 1] == c) {
      text += c;
      i += 2;
    } else if (c == '}') {
      fail_at(*source_, t.at + static_cast<uint32_t>(i), "a single '}' in an f-string");
    } else if (c == '{') {
      size_t start = i + 1;
      int depth = 0;
      for (++i; i < end && (depth > 0 || s[i] != '}'); ++i) {
        if (s[i] == '(' || s[i] == '[' || s[i] == '{') ++depth;
        if (s[i] == ')' || s[i] == ']' || s[i] == '}') --depth;
        if (depth == 0 && (s[i] == ':' || s[i] == '!') && !(s[i] == '!' && i + 1 < end && s[i + 1] == '='))
          fail_at(*source_, t.at + static_cast<uint32_t>(i),
                  s[i] == '!' ? "Don't support conversion in JoinedStr"
                              : "Don't support formatting in JoinedStr");
      }
      if (i >= end)
        fail_at(*source_, t.at + static_cast<uint32_t>(start),
                "an expression in an f-string that is never closed");
      flush_text(text, out, t.at);
      // The part is read as a source of its own whose positions are those of this one.
      auto part = new_shared<Source>(*source_);
      std::string padded(t.at + start, ' ');
      for (size_t k = 0; k < padded.size(); ++k)
        if (source_->text[k] == '\n') padded[k] = '\n';
      part->text = padded + std::string(s.substr(start, i - start));
      ExprParser inner(part);
      inner.depth_ = depth_ + 1;
      while (inner.take(TokenKind::newline) || inner.take(TokenKind::indent)) {
      }
      if (inner.depth_ > max_nesting) fail_here("nested too deeply");
      out.items.push_back(inner.expression());
      if (inner.is("="))
        fail_at(*source_, t.at + static_cast<uint32_t>(start), "Don't support conversion in JoinedStr");
      ++i;
    } else {
      size_t stop = i;
      while (stop < end && s[stop] != '{' && s[stop] != '}')
        stop += s[stop] == '\\' && stop + 1 < end ? 2 : 1;
      stop = std::min(stop, end);
      append_escaped(text, s.substr(i, stop - i), *source_, t.at);
      i = stop;
    }
  }
}

ExprPtr ExprParser::parenthesised(uint32_t at) {
  if (take(")")) return close(node(ExprKind::tuple, at));
  ExprPtr first = starred();
  if (is("for")) {
    ExprPtr e = comprehension(std::move(first), nullptr, at);
    expect(")");
    return e;
  }
  if (take(")")) {
    if (first->kind == ExprKind::starred)
      fail_at(*source_, at, "a starred expression needs a tuple or list around it");
    return first;
  }
  ExprPtr tuple = node(ExprKind::tuple, at);
  tuple->items.push_back(std::move(first));
  while (!take(")")) {
    expect(",");
    if (take(")")) break;
    tuple->items.push_back(starred());
  }
  return close(std::move(tuple));
}
ExprPtr ExprParser::list(uint32_t at) {
  ExprPtr e = node(ExprKind::list, at);
  while (!take("]")) {
    ExprPtr item = starred();
    if (e->items.empty() && is("for")) {
      ExprPtr c = comprehension(std::move(item), nullptr, at);
      expect("]");
      return close(std::move(c));
    }
    e->items.push_back(std::move(item));
    if (!is("]")) expect(",");
  }
  return close(std::move(e));
}
ExprPtr ExprParser::dict(uint32_t at) {
  ExprPtr e = node(ExprKind::dict, at);
  while (!take("}")) {
    if (is("**")) fail_here("Dict expansion (e.g. `{**dict}`) is not supported");
    ExprPtr key = expression();
    if (is("for")) fail_at(*source_, at, "SetComp aren't supported");
    if (is(",") || is("}")) fail_at(*source_, at, "Set aren't supported");
    expect(":");
    ExprPtr value = expression();
    if (e->items.empty() && is("for")) {
      ExprPtr c = comprehension(std::move(key), std::move(value), at);
      expect("}");
      return close(std::move(c));
    }
    e->items.push_back(std::move(key));
    e->items.push_back(std::move(value));
    if (!is("}")) expect(",");
  }
  return close(std::move(e));
}

}  // namespace tern::script
