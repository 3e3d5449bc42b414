// The parser of expressions, on which the parser of statements stands. Internal to this room.
#pragma once
#include "tern/script/lexer.h"

namespace tern::script {

constexpr int max_nesting = 250;

class ExprParser {
 public:
  explicit ExprParser(SourcePtr source, size_t from = 0, size_t to = std::string_view::npos,
                      Bodies bodies = Bodies::read)
      : source_(std::move(source)), tokens_(tokenize(*source_, from, to, bodies)) {}
  ExprPtr single_expression();

 protected:
  struct Deeper {
    explicit Deeper(ExprParser& p) : parser(p) {
      if (++parser.depth_ > max_nesting) parser.fail_here("nested too deeply");
    }
    ~Deeper() { --parser.depth_; }
    ExprParser& parser;
  };

  // ---- tokens ----
  const Token& token() const { return tokens_[at_]; }
  const Token& ahead(size_t n) const { return tokens_[std::min(at_ + n, tokens_.size() - 1)]; }
  bool at_end() const { return token().kind == TokenKind::end; }
  bool is(Lexeme l) const { return token().is(l); }
  bool take(Lexeme l) {
    if (!is(l)) return false;
    ++at_;
    return true;
  }
  bool take(TokenKind kind) {
    if (token().kind != kind || kind == TokenKind::end) return false;
    ++at_;
    return true;
  }
  void expect(Lexeme l) {
    if (!take(l)) fail_here("expected '" + std::string(l.text()) + "' but found " + describe());
  }
  std::string describe() const {
    switch (token().kind) {
      case TokenKind::newline:
        return "the end of the line";
      case TokenKind::indent:
        return "an indent";
      case TokenKind::dedent:
        return "the end of a block";
      case TokenKind::end:
        return "the end of the source";
      default:
        return "'" + std::string(token().text.substr(0, 60)) + "'";
    }
  }
  [[noreturn]] void fail_here(std::string_view message) const { fail_at(*source_, token().at, message); }
  std::string identifier() {
    if (token().kind != TokenKind::name || token().is_keyword())
      fail_here("expected a name but found " + describe());
    return std::string(tokens_[at_++].text);
  }
  std::string dotted() {
    std::string name = identifier();
    while (take(".")) name += "." + identifier();
    return name;
  }
  void end_line() {
    if (take(";")) {
      take(TokenKind::newline);
      return;
    }
    if (!take(TokenKind::newline) && !at_end() && token().kind != TokenKind::dedent)
      fail_here("expected the end of the line but found " + describe());
  }
  void skip_line() {
    while (!at_end() && token().kind != TokenKind::newline) ++at_;
    take(TokenKind::newline);
  }
  std::vector<std::string> read_decorators() {
    std::vector<std::string> all;
    while (take("@")) {
      all.push_back(dotted());
      if (is("("))
        skip_line();
      else
        end_line();
    }
    return all;
  }

  // ---- expressions ----
  ExprPtr node(ExprKind kind, uint32_t at);
  ExprPtr close(ExprPtr e);
  bool starts_expression() const;
  ExprPtr expression_list();
  ExprPtr target_list();
  ExprPtr starred();
  ExprPtr expression();
  bool stands_alone() const;
  ExprPtr annotation();
  ExprPtr condition();
  ExprPtr conjunction();
  ExprPtr binary(ExprPtr left, ExprPtr (ExprParser::*operand)());
  ExprPtr negation();
  std::string_view comparison_operator();
  ExprPtr comparison();
  ExprPtr arithmetic(int loosest = 1);
  ExprPtr unary();
  ExprPtr power();
  ExprPtr postfix();
  ExprPtr slice();
  ExprPtr comprehension(ExprPtr element, ExprPtr value, uint32_t at);
  ExprPtr atom();
  ExprPtr number();
  ExprPtr strings();
  void fstring(const Token& t, std::string& text, Expr& out);
  void flush_text(std::string& text, Expr& out, uint32_t at);
  ExprPtr parenthesised(uint32_t at);
  ExprPtr list(uint32_t at);
  ExprPtr dict(uint32_t at);

  SourcePtr source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace tern::script
