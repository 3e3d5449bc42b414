// A reader over text with positions for messages: what the parsers of this room are written with.
#pragma once
#include <string_view>

#include "tern/ir/type.h"

namespace tern::ir {

struct Cursor {
  std::string_view text;
  size_t at = 0;
  std::string_view what = "text";  // what is being read, for messages
  int depth = 0;  // nesting of types and literals: bounded, so that a file cannot exhaust the stack

  bool done() const { return at >= text.size(); }
  char peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : '\0'; }
  void blanks() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r')) ++at;
  }
  bool starts(std::string_view s) const { return text.substr(at, s.size()) == s; }
  // Skips blanks, then takes `s` if it is next.
  bool take(std::string_view s) {
    blanks();
    if (!starts(s)) return false;
    at += s.size();
    return true;
  }
  void expect(std::string_view s) {
    if (!take(s)) fail_here("expected '" + std::string(s) + "'");
  }
  static bool is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  std::string_view word();                                      // letters, digits, _; may be empty
  std::string_view dotted();                                    // words joined by '.'
  std::string quoted();                                         // a string with escapes, in ' or "
  [[noreturn]] void fail_here(std::string_view message) const;  // "line 3, column 7: ..."
};

struct Nested {
  explicit Nested(Cursor& c) : cursor(c) {
    if (++cursor.depth > 200) cursor.fail_here("nested too deeply");
  }
  ~Nested() { --cursor.depth; }
  Cursor& cursor;
};

const Type* read_type(Cursor& cursor, ShapeEnv* shapes);
std::string quote(std::string_view text);  // "..." with escapes that Cursor::quoted reads

}  // namespace tern::ir
