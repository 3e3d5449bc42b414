// Source text → syntax tree: definitions and statements.
#include "tern/script/parser.h"

#include "tern/base/format.h"

namespace tern::script {
namespace {

class Parser : public ExprParser {
 public:
  using ExprParser::ExprParser;

  File file() {
    File f;
    f.source = source_;
    while (!at_end()) {
      if (take(TokenKind::newline)) continue;
      if (is("import") || is("from")) {
        skip_line();
        continue;
      }
      std::vector<std::string> decorators = read_decorators();
      if (is("def")) {
        f.defs.push_back(def());
        f.defs.back().decorators = std::move(decorators);
      } else if (is("class")) {
        f.classes.push_back(class_());
        f.classes.back().decorators = std::move(decorators);
      } else {
        simple_line(f.statements);
      }
    }
    return f;
  }

 private:
  // ---- definitions ----
  Def def() {
    Deeper deeper(*this);
    Def d;
    expect("def");
    d.at = token().at;
    d.name = identifier();
    expect("(");
    bool keyword_only = false;
    while (!take(")")) {
      if (take("*")) {
        if (!is(","))
          fail_here("variable numbers of arguments (*args) are not part of TorchScript: name the arguments");
        keyword_only = true;
      } else if (is("**")) {
        fail_here("**kwargs is not part of TorchScript: name the arguments");
      } else {
        Param p;
        p.at = token().at;
        p.name = identifier();
        p.keyword_only = keyword_only;
        if (take(":")) p.annotation = expression();
        if (take("=")) p.default_value = expression();
        d.params.push_back(std::move(p));
      }
      if (!is(")")) expect(",");
    }
    if (take("->")) d.returns = expression();
    d.body = block();
    return d;
  }

  Class class_() {
    Class c;
    expect("class");
    c.at = token().at;
    c.name = identifier();
    if (take("(")) {
      while (!take(")")) {
        c.bases.push_back(dotted());
        if (!is(")")) expect(",");
      }
    }
    expect(":");
    if (!take(TokenKind::newline)) {
      simple_line(c.body);
      return c;
    }
    if (!take(TokenKind::indent)) fail_here("expected an indented block");
    while (!take(TokenKind::dedent) && !at_end()) {
      if (take(TokenKind::newline)) continue;
      std::vector<std::string> decorators = read_decorators();
      if (is("def")) {
        c.methods.push_back(def());
        c.methods.back().decorators = std::move(decorators);
      } else {
        simple_line(c.body);
      }
    }
    return c;
  }

  // ---- statements ----
  Body block() {
    expect(":");
    Body body;
    if (!take(TokenKind::newline)) {
      simple_line(body);
      return body;
    }
    if (!take(TokenKind::indent)) fail_here("expected an indented block");
    while (!take(TokenKind::dedent) && !at_end()) {
      if (take(TokenKind::newline)) continue;
      statement(body);
    }
    return body;
  }

  StmtPtr make(StmtKind kind, uint32_t at) {
    auto s = std::make_unique<Stmt>();
    s->kind = kind;
    s->at = at;
    return s;
  }

  void statement(Body& body) {
    Deeper deeper(*this);
    uint32_t at = token().at;
    if (take("if")) {
      body.push_back(if_rest(at));
    } else if (take("while")) {
      StmtPtr s = make(StmtKind::while_, at);
      s->value = expression();
      s->body = block();
      if (is("else")) fail_here("else after a loop is not part of TorchScript");
      body.push_back(std::move(s));
    } else if (take("for")) {
      StmtPtr s = make(StmtKind::for_, at);
      s->targets.push_back(target_list());
      expect("in");
      s->value = expression_list();
      s->body = block();
      if (is("else")) fail_here("else after a loop is not part of TorchScript");
      body.push_back(std::move(s));
    } else if (take("with")) {
      StmtPtr s = make(StmtKind::with, at);
      do {
        s->targets.push_back(expression());
        if (take("as"))
          s->targets.push_back(expression());
        else
          s->targets.push_back(nullptr);
      } while (take(","));
      s->body = block();
      body.push_back(std::move(s));
    } else if (is("def") || is("class") || is("lambda")) {
      fail_here("definitions inside functions are not part of TorchScript: move it to the top");
    } else if (is("try") || is("async") || is("yield") || is("nonlocal")) {
      fail_here(fmt::format("'{}' is not part of TorchScript", token().text));
    } else {
      simple_line(body);
    }
  }

  StmtPtr if_rest(uint32_t at) {
    Deeper deeper(*this);
    StmtPtr s = make(StmtKind::if_, at);
    s->value = expression();
    s->body = block();
    uint32_t next = token().at;
    if (take("elif"))
      s->otherwise.push_back(if_rest(next));
    else if (take("else"))
      s->otherwise = block();
    return s;
  }

  void simple_line(Body& body) {
    for (;;) {
      simple(body);
      if (!take(";")) break;
      if (token().kind == TokenKind::newline) break;
    }
    end_line();
  }

  void simple(Body& body) {
    uint32_t at = token().at;
    if (take("pass")) return body.push_back(make(StmtKind::pass, at));
    if (take("break")) return body.push_back(make(StmtKind::break_, at));
    if (take("continue")) return body.push_back(make(StmtKind::continue_, at));
    if (take("return")) {
      StmtPtr s = make(StmtKind::return_, at);
      if (token().kind != TokenKind::newline && !is(";") && !at_end() && token().kind != TokenKind::dedent)
        s->value = expression_list();
      return body.push_back(std::move(s));
    }
    if (take("raise")) {
      StmtPtr s = make(StmtKind::raise, at);
      if (token().kind != TokenKind::newline && !is(";")) s->value = expression();
      if (take("from")) expression();
      return body.push_back(std::move(s));
    }
    if (take("assert")) {
      StmtPtr s = make(StmtKind::assert_, at);
      s->value = expression();
      if (take(",")) s->message = expression();
      return body.push_back(std::move(s));
    }
    if (take("del")) {
      StmtPtr s = make(StmtKind::del_, at);
      do s->targets.push_back(expression());
      while (take(","));
      return body.push_back(std::move(s));
    }
    if (is("import") || is("from") || is("global"))
      fail_here(fmt::format("'{}' is not allowed here", token().text));

    ExprPtr first = expression_list();
    if (take(":")) {
      StmtPtr s = make(StmtKind::annotated, at);
      s->targets.push_back(std::move(first));
      s->annotation = expression();
      if (take("=")) s->value = expression_list();
      return body.push_back(std::move(s));
    }
    static constexpr std::string_view augmented[] = {
        "+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>=", "@="};
    for (std::string_view op : augmented) {
      if (!take(op)) continue;
      StmtPtr s = make(StmtKind::augmented, at);
      s->op = op.substr(0, op.size() - 1);
      s->targets.push_back(std::move(first));
      s->value = expression_list();
      return body.push_back(std::move(s));
    }
    if (!is("=")) {
      StmtPtr s = make(StmtKind::expr, at);
      s->value = std::move(first);
      return body.push_back(std::move(s));
    }
    StmtPtr s = make(StmtKind::assign, at);
    s->targets.push_back(std::move(first));
    while (take("=")) {
      ExprPtr next = expression_list();
      if (s->value) s->targets.push_back(std::move(s->value));
      s->value = std::move(next);
    }
    body.push_back(std::move(s));
  }
};

}  // namespace

File parse_file(SourcePtr source) { return Parser(std::move(source)).file(); }
ExprPtr parse_expression(SourcePtr source) { return Parser(std::move(source)).single_expression(); }

}  // namespace tern::script
