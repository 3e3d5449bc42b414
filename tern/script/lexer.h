// Tokens of TorchScript source: Python's, with indentation as tokens.
#pragma once
#include "tern/script/ast.h"

namespace tern::script {

enum class TokenKind : uint8_t { name, number, string, fstring, op, newline, indent, dedent, end };

struct Token {
  TokenKind kind;
  uint32_t at, end;
  std::string_view text;  // of the source; of a string with its prefix and quotes
};

std::vector<Token> tokenize(const Source& source);

// The characters of a string token: quotes taken off, escapes replaced unless it is raw.
std::string string_content(const Source& source, const Token& token);
void append_escaped(std::string& out, std::string_view body, const Source& source, uint32_t at);

}  // namespace tern::script
