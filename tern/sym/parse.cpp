// Text → expression: what sympy prints (str and srepr) and what a person would write. Bounded depth; never
// evaluates anything but integers.
#include <cctype>
#include <charconv>

#include "tern/base/format.h"
#include "tern/sym/expr.h"
#include "tern/sym/range.h"

namespace tern::sym {
namespace {

constexpr int max_depth = 200;
constexpr size_t max_text = size_t{1} << 20;

class Parser {
 public:
  Parser(ExprTable& table, std::string_view text, FindSymbol find, void* context)
      : table_(table), text_(text), find_(find), context_(context) {}

  ExprId parse() {
    if (text_.size() > max_text) fail(ErrorKind::value, "symbolic expression: the text is longer than 1 MiB");
    ExprId e = disjunction();
    skip_space();
    if (at_ < text_.size()) error("unexpected text");
    return e;
  }

 private:
  [[noreturn]] void error(std::string_view what) const {
    std::string_view shown = text_.substr(0, 200);
    failf(ErrorKind::value, "symbolic expression '{}': {} at column {}", shown, what, at_ + 1);
  }

  struct Nested {
    explicit Nested(Parser& p) : parser(p) {
      if (++p.depth_ > max_depth) p.error("nested deeper than 200 levels");
    }
    ~Nested() { --parser.depth_; }
    Parser& parser;
  };

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    bool word = std::isalpha(static_cast<unsigned char>(token[0]));
    if (word && at_ + token.size() < text_.size() && is_name(text_[at_ + token.size()])) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) error(fmt::format("expected '{}'", token));
  }
  static bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  ExprId disjunction() {
    Nested nested(*this);
    ExprId left = conjunction();
    while (accept("|") || accept("or")) {
      ExprId items[] = {left, conjunction()};
      left = table_.connective(Kind::any, items);
    }
    return left;
  }
  ExprId conjunction() {
    ExprId left = inversion();
    while (accept("&") || accept("and")) {
      ExprId items[] = {left, inversion()};
      left = table_.connective(Kind::all, items);
    }
    return left;
  }
  ExprId inversion() {
    Nested nested(*this);
    if (accept("~") || accept("not")) return table_.negate(inversion());
    return comparison();
  }
  ExprId comparison() {
    ExprId left = additive();
    static constexpr std::pair<std::string_view, Kind> ops[] = {{"==", Kind::eq}, {"!=", Kind::ne},
                                                                {"<=", Kind::le}, {">=", Kind::ge},
                                                                {"<", Kind::lt},  {">", Kind::gt}};
    std::optional<ExprId> chained;  // a < b < c
    for (bool more = true; more;) {
      more = false;
      for (auto& [token, kind] : ops) {
        if (!accept(token)) continue;
        ExprId right = additive();
        ExprId one = table_.relation(kind, left, right);
        if (chained) {
          ExprId items[] = {*chained, one};
          one = table_.connective(Kind::all, items);
        }
        chained = one;
        left = right;
        more = true;
        break;
      }
    }
    return chained ? *chained : left;
  }
  ExprId additive() {
    ExprId left = multiplicative();
    for (;;) {
      if (accept("+"))
        left = table_.add(left, multiplicative());
      else if (accept("-"))
        left = table_.sub(left, multiplicative());
      else
        return left;
    }
  }
  ExprId multiplicative() {
    ExprId left = unary();
    for (;;) {
      if (accept("//"))
        left = table_.floor_div(left, unary());
      else if (accept("/"))
        left = exact_quotient(left, unary());
      else if (accept("%"))
        left = table_.mod(left, unary());
      else if (!peek("**") && accept("*"))
        left = table_.mul(left, unary());
      else
        return left;
    }
  }
  bool peek(std::string_view token) {
    skip_space();
    return text_.substr(at_, token.size()) == token;
  }
  ExprId exact_quotient(ExprId a, ExprId b) {
    if (b == ExprTable::zero) error("division by zero");
    if (std::optional<ExprId> q = table_.divide_exactly(a, b)) return *q;
    error("a quotient that is no integer (use // or FloorDiv)");
  }
  ExprId unary() {
    Nested nested(*this);
    if (accept("-")) return table_.scaled(unary(), -1);
    if (accept("+")) return unary();
    ExprId base = primary();
    if (accept("**")) return power(base, unary());
    return base;
  }
  ExprId power(ExprId base, ExprId exponent) {
    const Node& n = table_.node(exponent);
    if (n.kind != Kind::constant || n.value < 0 || n.value > 64)
      error("an exponent must be an integer in 0..64");
    return table_.power(base, n.value);
  }

  ExprId primary() {
    skip_space();
    if (at_ >= text_.size()) error("unexpected end");
    if (accept("(")) {
      ExprId e = disjunction();
      expect(")");
      return e;
    }
    char c = text_[at_];
    if (std::isdigit(static_cast<unsigned char>(c))) return number();
    if (is_name(c)) return name_or_call();
    error("unexpected character");
  }
  ExprId number() {
    int64_t value = 0;
    auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (status != std::errc()) error("an integer that does not fit 64 bits");
    at_ = static_cast<size_t>(end - text_.data());
    if (at_ < text_.size() && (text_[at_] == '.' || is_name(text_[at_])))
      error("only integers can stand here");
    return table_.constant(value);
  }
  std::string_view word() {
    size_t from = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.substr(from, at_ - from);
  }
  // A name that begins with a digit would be read as a number when it was printed.
  static bool can_name(std::string_view name) {
    return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  }

  ExprId name_or_call() {
    std::string_view name = word();
    bool dotted = false;
    while (at_ < text_.size() && text_[at_] == '.') {  // torch.utils._sympy.functions.FloorDiv
      ++at_;
      dotted = true;
      name = word();
      if (!can_name(name)) error("expected a name");
    }
    if (!accept("(")) {
      if (name == "and" || name == "or" || name == "not") error(fmt::format("misplaced '{}'", name));
      if (name == "True" || name == "true") return ExprTable::unit;
      if (name == "False" || name == "false") return ExprTable::zero;
      if (dotted) error("the name of a size has no dots");
      return find_(context_, name);
    }
    if (name == "Symbol" || name == "Dummy") return symbol_call();
    if (name == "TruncToInt" || name == "FloorToInt" || name == "CeilToInt") {
      Nested nested(*this);
      Product p = product_of_factors();
      expect(")");
      if (name != "CeilToInt") return table_.truncated(p.factor, p.value);  // sizes are not negative
      std::optional<Fraction> f = short_fraction(p.factor);
      if (!f) error("a factor that is no short binary fraction");
      ExprId above = table_.scaled(p.value, -f->above);
      return table_.scaled(table_.floor_div(above, table_.constant(f->below)), -1);
    }
    std::vector<ExprId> args;
    if (!accept(")")) {
      do args.push_back(disjunction());
      while (accept(","));
      expect(")");
    }
    return call(name, args);
  }

  // A size times a factor such as 1.5, which only a rounding makes a size again.
  struct Product {
    double factor = 1;
    ExprId value = ExprTable::unit;
  };
  Product product_of_factors() {
    Product left = factor();
    while (accept("*")) left = times(left, factor());
    return left;
  }
  Product times(const Product& a, const Product& b) {
    return {a.factor * b.factor, table_.mul(a.value, b.value)};
  }
  Product factor() {
    Nested nested(*this);
    skip_space();
    if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])))
      return number_with_point();
    size_t from = at_;
    std::string_view name = word();
    while (at_ < text_.size() && text_[at_] == '.') {
      ++at_;
      name = word();
    }
    if (name == "Float" && accept("(")) {  // Float('2.0', precision=53)
      bool quoted = accept("'");
      Product r = number_with_point();
      if (quoted) expect("'");
      while (accept(",")) {
        skip_space();
        word();
        expect("=");
        skip_space();
        word();
      }
      expect(")");
      return r;
    }
    if (name == "ToFloat" && accept("(")) {
      Product r{1, disjunction()};
      expect(")");
      return r;
    }
    if (name == "Mul" && accept("(")) {
      Product r = product_of_factors();
      while (accept(",")) r = times(r, product_of_factors());
      expect(")");
      return r;
    }
    at_ = from;
    error("only products of sizes and factors can be rounded");
  }
  Product number_with_point() {
    double f = 0;
    auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), f);
    if (status != std::errc() || !(f >= 0) || f > 1 << 20) error("a factor that cannot be read");
    at_ = static_cast<size_t>(end - text_.data());
    return {f, ExprTable::unit};
  }

  // Symbol('s0', positive=True, integer=True): only the name matters.
  ExprId symbol_call() {
    skip_space();
    char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') error("expected a quoted name");
    ++at_;
    std::string_view name = word();
    if (!can_name(name) || at_ >= text_.size() || text_[at_] != quote) error("expected a quoted name");
    ++at_;
    while (accept(",")) {
      skip_space();
      word();
      expect("=");
      skip_space();
      word();
    }
    expect(")");
    return find_(context_, name);
  }

  ExprId call(std::string_view name, const std::vector<ExprId>& args) {
    auto takes = [&](size_t n) {
      if (args.size() != n) error(fmt::format("{} takes {} arguments, got {},", name, n, args.size()));
    };
    static constexpr std::pair<std::string_view, Kind> relations[] = {
        {"Eq", Kind::eq}, {"Equality", Kind::eq},          {"Ne", Kind::ne}, {"Unequality", Kind::ne},
        {"Lt", Kind::lt}, {"StrictLessThan", Kind::lt},    {"Le", Kind::le}, {"LessThan", Kind::le},
        {"Gt", Kind::gt}, {"StrictGreaterThan", Kind::gt}, {"Ge", Kind::ge}, {"GreaterThan", Kind::ge}};
    for (auto& [text, kind] : relations) {
      if (name != text) continue;
      takes(2);
      return table_.relation(kind, args[0], args[1]);
    }
    if (name == "Max" || name == "Min") {
      if (args.empty()) error(fmt::format("{} needs an argument", name));
      return table_.min_max(name == "Max" ? Kind::max : Kind::min, args);
    }
    if (name == "And") return table_.connective(Kind::all, args);
    if (name == "Or") return table_.connective(Kind::any, args);
    if (name == "Add" || name == "Mul") {
      ExprId out = name == "Add" ? ExprTable::zero : ExprTable::unit;
      for (ExprId e : args) out = name == "Add" ? table_.add(out, e) : table_.mul(out, e);
      return out;
    }
    if (name == "Integer" || name == "Identity" || name == "int" || name == "sym_int") {
      takes(1);
      return args[0];
    }
    if (name == "Not") {
      takes(1);
      return table_.negate(args[0]);
    }
    if (name == "Abs" || name == "abs") {
      takes(1);
      ExprId items[] = {args[0], table_.scaled(args[0], -1)};
      return table_.min_max(Kind::max, items);
    }
    if (name == "ModularIndexing") {
      takes(3);
      return table_.mod(divide(args[0], args[1]), nonzero(args[2]));
    }
    bool division = name == "FloorDiv" || name == "CleanDiv";
    bool remainder = name == "Mod" || name == "PythonMod";
    bool ceiling = name == "CeilDiv";
    bool raised = name == "Pow" || name == "PowByNatural";
    if (!division && !remainder && !ceiling && !raised) error(fmt::format("unknown function {}", name));
    takes(2);
    if (division) return divide(args[0], args[1]);
    if (remainder) return table_.mod(args[0], nonzero(args[1]));
    if (raised) return power(args[0], args[1]);
    return divide(table_.sub(table_.add(args[0], args[1]), ExprTable::unit), args[1]);  // PyTorch's form
  }
  ExprId nonzero(ExprId e) {
    if (e == ExprTable::zero) error("division by zero");
    return e;
  }
  ExprId divide(ExprId a, ExprId b) { return table_.floor_div(a, nonzero(b)); }

  ExprTable& table_;
  std::string_view text_;
  FindSymbol find_;
  void* context_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ExprId parse_expr(ExprTable& table, std::string_view text, FindSymbol find_symbol, void* context) {
  return Parser(table, text, find_symbol, context).parse();
}

}  // namespace tern::sym
