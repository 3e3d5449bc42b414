#include "tern/script/lexer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tern/base/format.h"
#include "tern/base/small_vector.h"
#include "tern/base/utf8.h"

namespace tern::script {
namespace {

enum Class : uint8_t { other, letter, digit, space };
constexpr std::array<Class, 256> classes = [] {
  std::array<Class, 256> all{};
  for (size_t c = 0; c < 256; ++c) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80) all[c] = letter;
    if (c >= '0' && c <= '9') all[c] = digit;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\f') all[c] = space;
  }
  return all;
}();
Class class_of(char c) { return classes[static_cast<unsigned char>(c)]; }
bool is_digit(char c) { return class_of(c) == digit; }

// Of the lexemes that begin with a character, where the first stands and the next after each: longer ones
// come first, so the first that fits is the longest.
struct ByFirst {
  std::array<uint8_t, 256> first;
  std::array<uint8_t, lexeme_count> next;
};
constexpr ByFirst by_first = [] {
  ByFirst t{};
  t.first.fill(no_lexeme);
  for (uint8_t i = lexeme_count; i-- > 0;) {
    uint8_t& head = t.first[static_cast<unsigned char>(lexemes[i][0])];
    t.next[i] = head;
    head = i;
  }
  return t;
}();

// What matters of a character where only the end of a line is looked for.
enum Mark : uint8_t { plain = 0, opens, closes, quotes, comments, escapes, breaks };
constexpr std::array<Mark, 256> body_marks = [] {
  std::array<Mark, 256> all{};
  for (unsigned char c : {'(', '[', '{'}) all[c] = opens;
  for (unsigned char c : {')', ']', '}'}) all[c] = closes;
  for (unsigned char c : {'"', '\''}) all[c] = quotes;
  all['#'] = comments;
  all['\\'] = escapes;
  all['\n'] = breaks;
  return all;
}();

constexpr std::array<bool, 256> string_letters = [] {
  std::array<bool, 256> all{};
  for (unsigned char c : {'r', 'R', 'b', 'B', 'f', 'F', 'u', 'U'}) all[c] = true;
  return all;
}();

uint8_t keyword(std::string_view word) {
  for (uint8_t i = by_first.first[static_cast<unsigned char>(word[0])]; i != no_lexeme; i = by_first.next[i])
    if (lexemes[i] == word) return i;
  return no_lexeme;
}

class Lexer {
 public:
  Lexer(const Source& source, size_t from, size_t to, Bodies bodies)
      : source_(source), text_(std::string_view(source.text).substr(0, to)), at_(from), bodies_(bodies) {
    if (text_.size() > (size_t{1} << 31))
      fail(ErrorKind::value, source.name + ": a source of more than 2 GB");
  }

  std::vector<Token> run() {
    tokens_.reserve((text_.size() - at_) / (bodies_ == Bodies::read ? 4 : 16) + 8);
    indents_.push_back(0);
    bool line_start = true;
    while (at_ < text_.size()) {
      if (line_start && depth_ == 0) {
        if (!start_line()) continue;
        if (bodies_ == Bodies::leave && leave_unread()) continue;
        line_start = false;
      }
      char c = text_[at_];
      switch (class_of(c)) {
        case space:
          ++at_;
          continue;
        case digit:
          number();
          continue;
        case letter:
          if (size_t prefix = string_prefix(); prefix != npos)
            string(prefix);
          else
            name();
          continue;
        case other:
          break;
      }
      if (c == '\n') {
        if (depth_ == 0) {
          add(TokenKind::newline, at_, at_ + 1);
          line_start = true;
        }
        ++at_;
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (size_t joined = line_join()) {
        at_ += joined;
      } else if (c == '.' && is_digit(peek(1))) {
        number();
      } else if (c == '"' || c == '\'') {
        string(0);
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
  // The length of a backslash and the end of its line, which join it with the next one; 0 where none stands
  // here.
  size_t line_join() const {
    if (peek(0) != '\\') return 0;
    return peek(1) == '\n' ? 2 : peek(1) == '\r' && peek(2) == '\n' ? 3 : 0;
  }
  void add(TokenKind kind, size_t from, size_t to, uint8_t lexeme = no_lexeme) {
    tokens_.push_back({kind, lexeme, static_cast<uint32_t>(from), static_cast<uint32_t>(to),
                       std::string_view(text_.data() + from, to - from)});
  }

  void name() {
    const char *start = text_.data() + at_, *end = text_.data() + text_.size(), *p = start + 1;
    while (p < end && (class_of(*p) == letter || class_of(*p) == digit)) ++p;
    std::string_view word(start, static_cast<size_t>(p - start));
    add(TokenKind::name, at_, at_ + word.size(), keyword(word));
    at_ += word.size();
  }

  // How far the line that begins here is indented, and where its text begins: npos when it is blank.
  struct Indent {
    size_t width, text;
  };
  Indent indent_of(size_t p) const {
    size_t width = 0;
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
    bool blank = p >= text_.size() || text_[p] == '\n' || text_[p] == '#';
    return {width, blank ? npos : p};
  }
  void skip_line() {
    size_t end = text_.find('\n', at_);
    at_ = end == npos ? text_.size() : end + 1;
  }

  // With Bodies::leave, what begins on this line and is not read now. Only what can hide the end of a line is
  // looked at: brackets, strings, comments.
  bool leave_unread() {
    bool in_class = std::exchange(after_class_, at_word("class"));
    if (at_word("def")) {
      unread_def();
      return true;
    }
    if (!in_class || after_class_ || text_[at_] == '@' || tokens_.back().kind != TokenKind::indent)
      return false;
    size_t start = text_.rfind('\n', at_) + 1, end = at_;  // with its indentation, as the next lines
    do end = skip_logical_line();
    while (next_line([&](size_t width) { return width >= indents_.back(); }) && !at_word("def") &&
           text_[at_] != '@');
    at_ = end;
    unread(start, end);
    return true;
  }
  // `def`, its name, then the whole definition as one token: its line, which brackets may make long, and the
  // lines that are indented more.
  void unread_def() {
    size_t start = at_;
    name();
    while (at_ < text_.size() && (class_of(text_[at_]) == space || line_join()))
      at_ += std::max<size_t>(1, line_join());
    if (at_ < text_.size() && class_of(text_[at_]) == letter) name();
    size_t end = skip_logical_line();
    while (next_line([&](size_t width) { return width > indents_.back(); })) end = skip_logical_line();
    unread(start, end);
  }
  void unread(size_t start, size_t end) {
    add(TokenKind::body, start, end);
    add(TokenKind::newline, end, end);
  }
  bool at_word(std::string_view word) const {
    if (text_.substr(at_, word.size()) != word) return false;
    Class next = class_of(peek(word.size()));
    return next != letter && next != digit;
  }
  // To the text of the next line that is not blank, if it is indented as wanted.
  template <class Wanted>
  bool next_line(Wanted wanted) {
    while (at_ < text_.size()) {
      Indent indent = indent_of(at_);
      if (indent.text == npos) {
        skip_line();
        continue;
      }
      if (!wanted(indent.width)) return false;
      at_ = indent.text;
      return true;
    }
    return false;
  }
  size_t skip_logical_line() {
    const char* end = text_.data() + text_.size();
    for (int open = 0; at_ < text_.size(); ++at_) {
      const char* p = text_.data() + at_;
      auto mark = [&](size_t ahead) { return body_marks[static_cast<unsigned char>(p[ahead])]; };
      while (end - p >= 4 && (mark(0) | mark(1) | mark(2) | mark(3)) == plain) p += 4;
      while (p < end && mark(0) == plain) ++p;
      at_ = static_cast<size_t>(p - text_.data());
      if (p == end) break;
      switch (body_marks[static_cast<unsigned char>(*p)]) {
        case plain:
          break;
        case opens:
          ++open;
          break;
        case closes:
          --open;
          break;
        case quotes:
          skip_string();
          --at_;
          break;
        case comments:
          at_ = std::min(text_.find('\n', at_), text_.size()) - 1;
          break;
        case escapes:
          ++at_;
          break;
        case breaks:
          if (open <= 0) return ++at_;
      }
    }
    return at_ = text_.size();
  }

  // Measures the indentation; false when the line is blank and was skipped.
  bool start_line() {
    auto [width, text] = indent_of(at_);
    if (text == npos) {
      skip_line();
      return false;
    }
    at_ = text;
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
      if (!string_letters[static_cast<unsigned char>(c)]) return npos;
    }
    return npos;
  }

  void string(size_t prefix) {
    size_t start = at_;
    bool formatted = text_.substr(at_, prefix).find_first_of("fF") != npos;
    at_ += prefix;
    skip_string();
    add(formatted ? TokenKind::fstring : TokenKind::string, start, at_);
  }
  void skip_string() {
    size_t start = at_;
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
  }

  void op() {
    std::string_view rest = text_.substr(at_);
    for (uint8_t i = by_first.first[static_cast<unsigned char>(rest[0])]; i != no_lexeme;
         i = by_first.next[i]) {
      std::string_view o = lexemes[i];
      if (o.size() > 1 && !rest.starts_with(o)) continue;
      if (o[0] == '(' || o[0] == '[' || o[0] == '{') {
        ++depth_;
        opened_.push_back(at_);
      } else if (o[0] == ')' || o[0] == ']' || o[0] == '}') {
        if (depth_ == 0) fail_at(source_, static_cast<uint32_t>(at_), fmt::format("'{}' closes nothing", o));
        --depth_;
        opened_.pop_back();
      }
      add(TokenKind::op, at_, at_ + o.size(), i);
      at_ += o.size();
      return;
    }
    fail_at(source_, static_cast<uint32_t>(at_), "a character that is not part of the language");
  }

  const Source& source_;
  std::string_view text_;
  size_t at_;
  Bodies bodies_;
  bool after_class_ = false;  // the line before began with `class`
  int depth_ = 0;
  SmallVector<size_t, 16> opened_;
  SmallVector<size_t, 16> indents_;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(const Source& source, size_t from, size_t to, Bodies bodies) {
  return Lexer(source, from, to, bodies).run();
}

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
