// Source text → syntax tree: definitions and statements.
#include "tern/script/parser.h"

#include <iterator>

#include "tern/base/format.h"

namespace tern::script {
namespace {

class Parser : public ExprParser {
 public:
  using ExprParser::ExprParser;

  File file() {
    File f;
    f.source = source_;
    f.line_starts.push_back(0);
    for (size_t at = 0; (at = source_->text.find('\n', at)) != std::string::npos;)
      f.line_starts.push_back(static_cast<uint32_t>(++at));
    while (!at_end()) {
      if (take(TokenKind::newline)) continue;
      if (is("import") || is("from")) {
        skip_line();
        continue;
      }
      std::vector<std::string> decorators = read_decorators();
      if (is("def")) {
        f.defs.push_back(def(is_ignored(decorators)));
        f.defs.back().decorators = std::move(decorators);
      } else if (is("class")) {
        f.classes.push_back(class_());
        f.classes.back().decorators = std::move(decorators);
      } else if (is("async")) {
        fail_here("Expected a single top-level function");
      } else {
        simple_line(f.statements);
      }
    }
    return f;
  }
  Def single_def(const std::vector<std::string>& decorators) { return def(is_ignored(decorators)); }
  void lines(Body& body) {
    while (!at_end())
      if (!take(TokenKind::newline)) simple_line(body);
  }

 private:
  // ---- definitions ----
  // What @torch.jit.ignore and @torch.jit.unused mark is Python that is never compiled.
  static bool is_ignored(const std::vector<std::string>& decorators) {
    for (const std::string& d : decorators)
      if (d.ends_with(".ignore") || d.ends_with(".unused") || d == "ignore" || d == "unused") return true;
    return false;
  }
  void skip_block() {
    expect(":");
    while (!at_end() && token().kind != TokenKind::newline) ++at_;
    take(TokenKind::newline);
    if (!take(TokenKind::indent)) return;
    for (int depth = 1; depth > 0 && !at_end(); ++at_) {
      if (token().kind == TokenKind::indent) ++depth;
      if (token().kind == TokenKind::dedent) --depth;
    }
  }
  Def def(bool ignored = false) {
    Deeper deeper(*this);
    Def d;
    expect("def");
    d.at = token().at;
    d.name = identifier();
    if (token().kind == TokenKind::body) {
      d.unread_from = token().at;
      d.unread_to = token().end;
      at_ += 2;  // body, newline
      return d;
    }
    expect("(");
    bool keyword_only = false;
    auto refuse = [&] {
      fail_at(*source_, d.at,
              "Compiled functions can't take variable number of arguments or use keyword-only arguments with "
              "defaults");
    };
    while (!take(")")) {
      if (take("*")) {
        if (!is(",")) refuse();
        keyword_only = true;
      } else if (is("**")) {
        refuse();
      } else if (take("/")) {
        fail_here("positional-only arguments aren't supported");
      } else {
        Param p;
        p.at = token().at;
        p.name = identifier();
        p.keyword_only = keyword_only;
        if (take(":")) p.annotation = annotation();
        if (take("=")) p.default_value = expression();
        if (keyword_only && p.default_value) refuse();
        d.params.push_back(std::move(p));
      }
      if (!is(")")) expect(",");
    }
    if (take("->")) d.returns = annotation();
    uint32_t head = token().at;
    size_t from = at_ + 1;
    if (ignored)
      skip_block();
    else
      d.body = block();
    while (from < tokens_.size() &&
           (tokens_[from].kind == TokenKind::newline || tokens_[from].kind == TokenKind::indent))
      ++from;
    if (from < tokens_.size()) type_comments(d, head, tokens_[from].at);
    return d;
  }

  // "# type: (int, List[float]) -> float" after the head; "# type: int" after an argument.
  void type_comments(Def& d, uint32_t head, uint32_t body) {
    std::string_view text(source_->text);
    auto comment = [&](size_t begin, size_t end) -> std::pair<size_t, size_t> {
      size_t at = text.find("# type:", begin);
      if (at == std::string_view::npos || at >= end) return {0, 0};
      return {at + 7, std::min(text.find('\n', at), text.size())};
    };
    for (Param& p : d.params) {
      if (p.annotation) continue;
      size_t line_end = std::min(text.find('\n', p.at), text.size());
      if (line_end > head) continue;
      auto [from, to] = comment(p.at, line_end);
      if (from) p.annotation = part(from, to);
    }
    auto [from, to] = comment(head, body);
    if (!from) return;
    size_t arrow = text.rfind("->", to);
    if (arrow == std::string_view::npos || arrow < from) return;
    if (!d.returns) d.returns = part(arrow + 2, to);
    std::string_view arguments = text.substr(from, arrow - from);
    if (arguments.find("...") != std::string_view::npos) return;
    ExprPtr types = part(from, arrow);
    std::vector<ExprPtr> items;
    if (types->kind == ExprKind::tuple)
      items = std::move(types->items);
    else
      items.push_back(std::move(types));
    size_t first = d.params.size() == items.size() + 1 ? 1 : 0;  // self has none
    if (d.params.size() != items.size() + first)
      fail_at(*source_, static_cast<uint32_t>(from),
              "the type comment has another number of arguments than the function");
    for (size_t i = 0; i < items.size(); ++i)
      if (!d.params[first + i].annotation) d.params[first + i].annotation = std::move(items[i]);
  }
  // An expression in a comment, with the positions it has in the source.
  ExprPtr part(size_t from, size_t to) {
    auto inner = new_shared<Source>(*source_);
    std::string padded(source_->text.substr(0, from));
    for (char& c : padded)
      if (c != '\n') c = ' ';
    size_t line = padded.rfind('\n');
    inner->text =
        padded.substr(0, line == std::string::npos ? 0 : line + 1) + source_->text.substr(from, to - from);
    size_t blanks = inner->text.find_first_not_of(" \n");
    if (blanks == std::string::npos) fail_at(*source_, static_cast<uint32_t>(from), "an empty type comment");
    inner->text.erase(line == std::string::npos ? 0 : line + 1,
                      blanks - (line == std::string::npos ? 0 : line + 1));
    return ExprParser(inner).single_expression();
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
    if (token().kind == TokenKind::body) {
      c.unread_from = token().at;
      c.unread_to = token().end;
      at_ += 2;  // body, newline
    }
    while (!take(TokenKind::dedent) && !at_end()) {
      if (take(TokenKind::newline)) continue;
      std::vector<std::string> decorators = read_decorators();
      if (is("def")) {
        c.methods.push_back(def(is_ignored(decorators)));
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
    auto s = new_owned<Stmt>();
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
      if (is("else")) fail_at(*source_, at, "else branches of while loops aren't supported");
      body.push_back(std::move(s));
    } else if (take("for")) {
      StmtPtr s = make(StmtKind::for_, at);
      s->targets.push_back(target_list());
      expect("in");
      s->value = expression_list();
      s->body = block();
      if (is("else")) fail_at(*source_, at, "else branches of for loops aren't supported");
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
    } else if (is("def")) {
      // What fork() runs, as archives write it: "def __forked_function():". The language has no other.
      take("def");
      StmtPtr s = make(StmtKind::def_, at);
      s->op = identifier();
      if (!s->op.starts_with("__forked_function"))
        fail_at(*source_, at, "function definitions aren't supported");
      expect("(");
      expect(")");
      s->body = block();
      body.push_back(std::move(s));
    } else if (is("class")) {
      fail_here("class definitions aren't supported");
    } else if (is("try")) {
      fail_here("try blocks aren't supported");
    } else if (is("async")) {
      fail_here("async statements aren't supported");
    } else if (token().kind == TokenKind::name && token().text == "match" && !token().is_keyword() &&
               (ahead(1).kind == TokenKind::name || ahead(1).kind == TokenKind::number ||
                ahead(1).kind == TokenKind::string) &&
               !ahead(1).is_keyword()) {
      fail_here("Match aren't supported");
    } else if (is("nonlocal")) {
      fail_here("nonlocal variables aren't supported");
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
    if (is("import") || is("from")) fail_here("import statements aren't supported");
    if (is("global")) fail_here("global variables aren't supported");

    ExprPtr first = ahead(1).is(":") ? postfix() : expression_list();
    if (take(":")) {
      StmtPtr s = make(StmtKind::annotated, at);
      s->targets.push_back(std::move(first));
      s->annotation = annotation();
      if (take("=")) s->value = expression_list();
      return body.push_back(std::move(s));
    }
    static constexpr Lexeme augmented[] = {
        "+=", "-=", "*=", "/=", "//=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>=", "@="};
    for (Lexeme op : augmented) {
      if (!take(op)) continue;
      StmtPtr s = make(StmtKind::augmented, at);
      s->op = op.text().substr(0, op.text().size() - 1);
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

File parse_file(SourcePtr source, Bodies bodies) {
  return Parser(std::move(source), 0, std::string_view::npos, bodies).file();
}
void read_def(const SourcePtr& source, const Def& def) {
  if (def.unread_to == 0) return;
  Def read = Parser(source, def.unread_from, def.unread_to).single_def(def.decorators);
  def.params = std::move(read.params);
  def.returns = std::move(read.returns);
  def.body = std::move(read.body);
  def.unread_to = 0;
}
void read_class(const SourcePtr& source, const Class& c) {
  if (c.unread_to == 0) return;
  Body later = std::move(c.body);
  c.body.clear();
  Parser(source, c.unread_from, c.unread_to).lines(c.body);
  std::move(later.begin(), later.end(), std::back_inserter(c.body));
  c.unread_to = 0;
}
ExprPtr parse_expression(SourcePtr source) { return Parser(std::move(source)).single_expression(); }

}  // namespace tern::script
