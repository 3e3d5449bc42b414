#include "tern/script/lexer.h"

#include <algorithm>

#include "tern/base/format.h"

namespace tern::script {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Longest first.
constexpr std::string_view operators[] = {
    "**=", "//=", ">>=", "<<=", "...", "->", "**", "//", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=",
    "*=",  "/=",  "%=",  "&=",  "|=",  "^=", "@=", ":=", "(",  ")",  "[",  "]",  "{",  "}",  ",",  ":",
    ".",   ";",   "=",   "+",   "-",   "*",  "/",  "%",  "&",  "|",  "^",  "~",  "<",  ">",  "@",  "?"};

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), text_(source.text) {
    if (text_.size() > (size_t{1} << 31))
      fail(ErrorKind::value, source.name + ": a source of more than 2 GB");
  }

  std::vector<Token> run() {
    indents_.push_back(0);
    bool line_start = true;
    while (at_ < text_.size()) {
      if (line_start && depth_ == 0) {
        if (!start_line()) continue;
        line_start = false;
      }
      char c = text_[at_];
      if (c == '\n') {
        if (depth_ == 0) {
          add(TokenKind::newline, at_, at_ + 1);
          line_start = true;
        }
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
        ++at_;
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '\\' && (peek(1) == '\n' || (peek(1) == '\r' && peek(2) == '\n'))) {
        at_ += peek(1) == '\n' ? 2 : 3;
      } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
        number();
      } else if (size_t prefix = string_prefix(); prefix != npos) {
        string(prefix);
      } else if (is_letter(c)) {
        size_t start = at_;
        while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
        add(TokenKind::name, start, at_);
      } else {
        op();
      }
    }
    if (depth_ > 0) fail_at(source_, static_cast<uint32_t>(opened_.back()), "a bracket that is never closed");
    if (!tokens_.empty() && tokens_.back().kind != TokenKind::newline) add(TokenKind::newline, at_, at_);
    while (indents_.size() > 1) {
      indents_.pop_back();
      add(TokenKind::dedent, at_, at_);
    }
    add(TokenKind::end, at_, at_);
    return std::move(tokens_);
  }

 private:
  static constexpr size_t npos = std::string_view::npos;
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void add(TokenKind kind, size_t from, size_t to) {
    tokens_.push_back(
        {kind, static_cast<uint32_t>(from), static_cast<uint32_t>(to), text_.substr(from, to - from)});
  }

  // Measures the indentation; false when the line is blank and was skipped.
  bool start_line() {
    size_t width = 0, p = at_;
    for (; p < text_.size(); ++p) {
      if (text_[p] == ' ')
        ++width;
      else if (text_[p] == '\t')
        width = (width / 8 + 1) * 8;
      else if (text_[p] == '\r' || text_[p] == '\f')
        continue;
      else
        break;
    }
    if (p >= text_.size() || text_[p] == '\n' || text_[p] == '#') {
      while (p < text_.size() && text_[p] != '\n') ++p;
      at_ = std::min(p + 1, text_.size());
      return false;
    }
    at_ = p;
    // Source in a raw string is usually indented as the program around it.
    if (tokens_.empty()) indents_.back() = width;
    if (width > indents_.back()) {
      if (indents_.size() > 200) fail_at(source_, static_cast<uint32_t>(at_), "nested too deeply");
      indents_.push_back(width);
      add(TokenKind::indent, at_, at_);
    }
    while (width < indents_.back()) {
      if (indents_.size() == 1)
        fail_at(source_, static_cast<uint32_t>(at_), "unindent does not match any outer indentation");
      indents_.pop_back();
      add(TokenKind::dedent, at_, at_);
    }
    if (width != indents_.back())
      fail_at(source_, static_cast<uint32_t>(at_), "unindent does not match any outer indentation");
    return true;
  }

  void number() {
    size_t start = at_;
    if (text_[at_] == '0' && (peek(1) == 'x' || peek(1) == 'X' || peek(1) == 'b' || peek(1) == 'B' ||
                              peek(1) == 'o' || peek(1) == 'O')) {
      at_ += 2;
      while (at_ < text_.size() && (isxdigit(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
        ++at_;
    } else {
      auto digits = [&] {
        while (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '_')) ++at_;
      };
      digits();
      if (at_ < text_.size() && text_[at_] == '.') {
        ++at_;
        digits();
      }
      if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E') &&
          (is_digit(peek(1)) || ((peek(1) == '+' || peek(1) == '-') && is_digit(peek(2))))) {
        at_ += 2;
        digits();
      }
      if (at_ < text_.size() && (text_[at_] == 'j' || text_[at_] == 'J')) ++at_;
    }
    add(TokenKind::number, start, at_);
  }

  // How many letters stand before the quote of a string that begins here; npos if none does.
  size_t string_prefix() const {
    for (size_t n = 0; n <= 2; ++n) {
      char c = peek(n);
      if (c == '"' || c == '\'') return n;
      if (c == 0 || std::string_view("rRbBfFuU").find(c) == npos) return npos;
    }
    return npos;
  }

  void string(size_t prefix) {
    size_t start = at_;
    bool formatted = text_.substr(at_, prefix).find_first_of("fF") != npos;
    at_ += prefix;
    char quote = text_[at_];
    bool triple = peek(1) == quote && peek(2) == quote;
    at_ += triple ? 3 : 1;
    for (;; ++at_) {
      if (at_ >= text_.size() || (!triple && text_[at_] == '\n'))
        fail_at(source_, static_cast<uint32_t>(start), "a string that is never closed");
      if (text_[at_] == '\\') {
        ++at_;
        continue;
      }
      if (text_[at_] != quote) continue;
      if (!triple) break;
      if (peek(1) == quote && peek(2) == quote) break;
    }
    at_ += triple ? 3 : 1;
    add(formatted ? TokenKind::fstring : TokenKind::string, start, at_);
  }

  void op() {
    for (std::string_view o : operators) {
      if (text_.substr(at_, o.size()) != o) continue;
      if (o == "(" || o == "[" || o == "{") {
        ++depth_;
        opened_.push_back(at_);
      } else if (o == ")" || o == "]" || o == "}") {
        if (depth_ == 0) fail_at(source_, static_cast<uint32_t>(at_), fmt::format("'{}' closes nothing", o));
        --depth_;
        opened_.pop_back();
      }
      add(TokenKind::op, at_, at_ + o.size());
      at_ += o.size();
      return;
    }
    fail_at(source_, static_cast<uint32_t>(at_), "a character that is not part of the language");
  }

  const Source& source_;
  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  std::vector<size_t> opened_;
  std::vector<size_t> indents_;
  std::vector<Token> tokens_;
};

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 63));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 63));
    out += static_cast<char>(0x80 | (code & 63));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 63));
    out += static_cast<char>(0x80 | (code >> 6 & 63));
    out += static_cast<char>(0x80 | (code & 63));
  }
}

}  // namespace

std::vector<Token> tokenize(const Source& source) { return Lexer(source).run(); }

std::string string_content(const Source& source, const Token& token) {
  std::string_view text = token.text;
  size_t quote = text.find_first_of("'\"");
  bool raw = text.substr(0, quote).find_first_of("rR") != std::string_view::npos;
  size_t marks =
      text.size() >= quote + 6 && text[quote + 1] == text[quote] && text[quote + 2] == text[quote] ? 3 : 1;
  std::string_view body = text.substr(quote + marks, text.size() - quote - 2 * marks);
  std::string out;
  if (raw)
    out = body;
  else
    append_escaped(out, body, source, token.at);
  return out;
}

void append_escaped(std::string& out, std::string_view body, const Source& source, uint32_t at) {
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\' || i + 1 >= body.size()) {
      out += body[i];
      continue;
    }
    char c = body[++i];
    auto hex = [&](size_t digits) {
      uint32_t code = 0;
      for (size_t k = 0; k < digits; ++k) {
        char h = i + 1 < body.size() ? body[i + 1] : '\0';
        if (!isxdigit(static_cast<unsigned char>(h)))
          fail_at(source, at, "an escape with too few digits in a string");
        code = code * 16 + static_cast<uint32_t>(h <= '9' ? h - '0' : (h | 32) - 'a' + 10);
        ++i;
      }
      return code;
    };
    switch (c) {
      case 'n':
        out += '\n';
        break;
      case 't':
        out += '\t';
        break;
      case 'r':
        out += '\r';
        break;
      case 'a':
        out += '\a';
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'v':
        out += '\v';
        break;
      case '\\':
        out += '\\';
        break;
      case '\'':
        out += '\'';
        break;
      case '"':
        out += '"';
        break;
      case '\n':
        break;
      case 'x':
        out += static_cast<char>(hex(2));
        break;
      case 'u':
        append_utf8(out, hex(4));
        break;
      case 'U':
        append_utf8(out, std::min<uint32_t>(hex(8), 0x10FFFF));
        break;
      default:
        if (c >= '0' && c <= '7') {
          unsigned code = 0;
          size_t k = 0;
          for (; k < 3 && i + k < body.size() && body[i + k] >= '0' && body[i + k] <= '7'; ++k)
            code = code * 8 + static_cast<unsigned>(body[i + k] - '0');
          i += k - 1;
          out += static_cast<char>(code);
        } else {
          out += '\\';
          out += c;
        }
    }
  }
}

std::pair<uint32_t, uint32_t> Source::line_column(uint32_t at) const {
  at = std::min(at, static_cast<uint32_t>(text.size()));
  uint32_t line = first_line;
  size_t start = 0;
  for (size_t i = 0; i < at; ++i)
    if (text[i] == '\n') {
      ++line;
      start = i + 1;
    }
  return {line, at - static_cast<uint32_t>(start) + 1};
}

std::string Source::point(uint32_t at) const {
  at = std::min(at, static_cast<uint32_t>(text.size()));
  auto [line, column] = line_column(at);
  size_t start = at - (column - 1);
  size_t end = std::min(text.find('\n', start), text.size());
  std::string shown = text.substr(start, std::min<size_t>(end - start, 400));
  std::string blanks;
  for (size_t i = 0; i + 1 < column && i < shown.size(); ++i) blanks += shown[i] == '\t' ? '\t' : ' ';
  return fmt::format("{}:{}:{}\n  {}\n  {}^", name, line, column, shown, blanks);
}

void fail_at(const Source& source, uint32_t at, std::string_view message) {
  failf(ErrorKind::value, "{}\n  at {}", message, source.point(at));
}

}  // namespace tern::script
