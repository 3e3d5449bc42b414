// Tokens of TorchScript source: Python's, with indentation as tokens.
#pragma once
#include "tern/script/ast.h"

namespace tern::script {

enum class TokenKind : uint8_t { name, number, string, fstring, op, newline, indent, dedent, body, end };

// The fixed words of the language, numbered: the lexer compares text once, the parser numbers. Operators
// stand first, keywords after them.
inline constexpr std::string_view lexemes[] = {
    "**=",  "//=",   ">>=",   "<<=",    "...",    "->",       "**",     "//",      "==",       "!=",
    "<=",   ">=",    "<<",    ">>",     "+=",     "-=",       "*=",     "/=",      "%=",       "&=",
    "|=",   "^=",    "@=",    ":=",     "(",      ")",        "[",      "]",       "{",        "}",
    ",",    ":",     ".",     ";",      "=",      "+",        "-",      "*",       "/",        "%",
    "&",    "|",     "^",     "~",      "<",      ">",        "@",      "?",       "and",      "or",
    "not",  "in",    "is",    "if",     "else",   "elif",     "for",    "while",   "def",      "class",
    "from", "with",  "raise", "return", "break",  "continue", "assert", "import",  "lambda",   "global",
    "try",  "yield", "pass",  "del",    "except", "async",    "await",  "finally", "nonlocal", "as"};
inline constexpr uint8_t lexeme_count = sizeof(lexemes) / sizeof(lexemes[0]);
inline constexpr uint8_t no_lexeme = 255;

// The number of a fixed word; written as the word: is("if").
struct Lexeme {
  uint8_t number;
  consteval Lexeme(const char* word) : number(no_lexeme) {
    for (uint8_t i = 0; i < lexeme_count; ++i)
      if (lexemes[i] == word) number = i;
    if (number == no_lexeme) throw "no word of the language";
  }
  constexpr explicit Lexeme(uint8_t n) : number(n) {}
  constexpr std::string_view text() const { return lexemes[number]; }
};
inline constexpr uint8_t first_keyword = Lexeme("and").number;

struct Token {
  TokenKind kind;
  uint8_t lexeme;  // which fixed word it is, or no_lexeme
  uint32_t at, end;
  std::string_view text;  // of the source; of a string with its prefix and quotes

  bool is(Lexeme l) const { return lexeme == l.number; }
  bool is_keyword() const { return lexeme >= first_keyword && lexeme != no_lexeme; }
};

// Of whole lines; places count from the beginning of the source. With Bodies::leave a def is three tokens:
// the word, its name, and a body that reaches from the word to the end of its last line; the lines of a class
// before its first method are one body.
std::vector<Token> tokenize(const Source& source, size_t from = 0, size_t to = std::string_view::npos,
                            Bodies bodies = Bodies::read);

// The characters of a string token: quotes taken off, escapes replaced unless it is raw.
std::string string_content(const Source& source, const Token& token);
void append_escaped(std::string& out, std::string_view body, const Source& source, uint32_t at);

}  // namespace tern::script
