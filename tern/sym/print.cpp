// Expressions as text, in sympy's order of terms and with PyTorch's brackets.
#include <algorithm>

#include "tern/base/format.h"
#include "tern/sym/expr.h"

namespace tern::sym {
namespace {

enum Level { loosest, condition, additive, multiplicative, exponent, atom };

class Printer {
 public:
  Printer(const ExprTable& table, Span<const std::string> names, Style style)
      : table_(table), names_(names), style_(style) {}

  std::string print(ExprId id, Level within) {
    const Node& n = table_.node(id);
    if (++depth_ > 400) {
      --depth_;
      return "...";
    }
    Level own = atom;
    std::string text = node_text(id, n, own);
    --depth_;
    return own < within ? fmt::format("({})", text) : text;
  }

 private:
  std::string node_text(ExprId id, const Node& n, Level& own) {
    switch (n.kind) {
      case Kind::constant:
        own = n.value < 0 ? additive : atom;
        return std::to_string(n.value);
      case Kind::symbol:
        return name(n.value);
      case Kind::sum:
        own = additive;
        return sum(n);
      case Kind::product:
        own = n.count == 1 ? exponent : multiplicative;
        return monomial(id);
      case Kind::floor_div:
        // Brackets of its own, and one more pair inside arithmetic: as PyTorch prints it.
        own = condition;
        return fmt::format("({}//{})", print(n.items[0].expr, atom), print(n.items[1].expr, atom));
      case Kind::mod:
        own = condition;
        if (style_ == Style::python)
          return print(n.items[0].expr, exponent) + " % " + print(n.items[1].expr, exponent);
        return call("Mod", n, false);
      case Kind::min:
        return call("Min", n, true);
      case Kind::max:
        return call("Max", n, true);
      case Kind::truncated:
        return fmt::format("TruncToInt({}*ToFloat({}))", n.factor(), print(n.items[0].expr, loosest));
      case Kind::real_symbol:
        return name(n.value);
      case Kind::real_constant: {
        own = n.factor() < 0 ? additive : atom;
        std::string text = fmt::format("{}", n.factor());
        return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
      }
      case Kind::real:
        return real(n, own);
      case Kind::rounded:
        return call("TruncToInt", n, false);
      case Kind::eq:
      case Kind::ne:
        if (style_ == Style::sympy) return call(n.kind == Kind::eq ? "Eq" : "Ne", n, false);
        own = loosest;
        return infix(n, n.kind == Kind::eq ? " == " : " != ");
      case Kind::lt:
        own = loosest;
        return infix(n, " < ");
      case Kind::le:
        own = loosest;
        return infix(n, " <= ");
      case Kind::gt:
        own = loosest;
        return infix(n, " > ");
      case Kind::ge:
        own = loosest;
        return infix(n, " >= ");
      case Kind::all:
        own = loosest;
        return connective(n, style_ == Style::sympy ? " & " : " and ");
      case Kind::any:
        own = loosest;
        return connective(n, style_ == Style::sympy ? " | " : " or ");
      case Kind::negation:
        own = loosest;
        return fmt::format("{}{}", style_ == Style::sympy ? "~" : "not ", print(n.items[0].expr, atom));
    }
    return "?";
  }

  // Numbers first in a product and last in a sum.
  std::string real(const Node& n, Level& own) {
    std::string_view function = real_function(n.function()).name;
    ExprId a = n.items[0].expr, b = n.items[n.count - 1].expr;
    auto is_number = [&](ExprId e) { return table_.kind(e) == Kind::real_constant; };
    switch (n.function()) {
      case Real::add:
        own = additive;
        if (is_number(a)) std::swap(a, b);
        return fmt::format("{} + {}", print(a, additive), print(b, additive));
      case Real::sub:
        own = additive;
        return fmt::format("{} - {}", print(a, additive), print(b, multiplicative));
      case Real::mul:
        own = multiplicative;
        if (is_number(b)) std::swap(a, b);
        return fmt::format("{}*{}", print(a, multiplicative), print(b, multiplicative));
      case Real::floor_div:
        return fmt::format("ToFloat(FloorToInt({}))", call("FloatTrueDiv", n, false));
      case Real::neg:
        own = additive;
        return "-" + print(a, multiplicative);
      default:
        bool sorted = n.function() == Real::min || n.function() == Real::max;
        return call(std::string(function).c_str(), n, sorted);
    }
  }

  std::string name(int64_t index) const {
    return static_cast<size_t>(index) < names_.size() ? names_[static_cast<size_t>(index)]
                                                      : fmt::format("s?{}", index);
  }

  // A generator's place in sympy's order: symbols by name, then functions by name and operands.
  struct Factor {
    std::string key;
    std::string text;
    int64_t exponent;
  };
  std::vector<Factor> factors(ExprId m) {
    std::vector<Factor> out;
    if (m == ExprTable::unit) return out;
    const Node& n = table_.node(m);
    auto push = [&](ExprId a, int64_t e) {
      const Node& an = table_.node(a);
      std::string text = print(a, e == 1 ? multiplicative : atom);
      static constexpr const char* ranks[] = {"0",    "1",    "2",    "2",     "3FloorDiv",
                                              "3Mod", "4Min", "4Max", "4Trunc"};
      std::string rank =
          static_cast<size_t>(an.kind) < std::size(ranks) ? ranks[static_cast<size_t>(an.kind)] : "5";
      out.push_back({rank + text, text, e});
    };
    if (n.kind == Kind::product)
      for (const Term& t : n.terms()) push(t.expr, t.factor);
    else
      push(m, 1);
    std::sort(out.begin(), out.end(), [](const Factor& a, const Factor& b) { return a.key < b.key; });
    return out;
  }

  static std::string join(const std::vector<Factor>& factors) {
    std::string out;
    for (const Factor& f : factors) {
      if (!out.empty()) out += "*";
      out += f.text;
      if (f.exponent != 1) out += fmt::format("**{}", f.exponent);
    }
    return out;
  }
  std::string monomial(ExprId id) { return join(factors(id)); }

  std::string sum(const Node& n) {
    struct Item {
      std::vector<Factor> factors;
      int64_t coefficient;
    };
    std::vector<Item> items;
    for (const Term& t : n.terms()) items.push_back({factors(t.expr), t.factor});
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
      for (size_t i = 0; i < a.factors.size() && i < b.factors.size(); ++i) {
        if (a.factors[i].key != b.factors[i].key) return a.factors[i].key < b.factors[i].key;
        if (a.factors[i].exponent != b.factors[i].exponent)
          return a.factors[i].exponent > b.factors[i].exponent;
      }
      return a.factors.size() > b.factors.size();
    });
    // sympy's exception: "1 - s0", not "-s0 + 1".
    if (items.size() == 2 && items[1].factors.empty() && items[1].coefficient > 0 &&
        items[0].coefficient < 0 && items[0].factors.size() == 1)
      std::swap(items[0], items[1]);
    std::string out;
    for (const Item& item : items) {
      int64_t c = item.coefficient;
      std::string magnitude = std::to_string(c);
      if (c < 0) magnitude.erase(0, 1);
      if (out.empty())
        out += c < 0 ? "-" : "";
      else
        out += c < 0 ? " - " : " + ";
      if (item.factors.empty())
        out += magnitude;
      else
        out += (magnitude == "1" ? "" : magnitude + "*") + join(item.factors);
    }
    return out;
  }

  // Operands in sympy's order: numbers, then the rest by text.
  std::vector<ExprId> ordered(const Node& n) {
    std::vector<std::pair<std::string, ExprId>> keyed;
    for (const Term& t : n.terms()) {
      const Node& item = table_.node(t.expr);
      bool number = item.kind == Kind::constant || item.kind == Kind::real_constant;
      const char* rank = number ? "0" : item.kind == Kind::symbol ? "1" : "2";
      keyed.emplace_back(fmt::format("{}{}", rank, print(t.expr, loosest)), t.expr);
    }
    std::sort(keyed.begin(), keyed.end());
    std::vector<ExprId> out;
    for (auto& [key, id] : keyed) out.push_back(id);
    return out;
  }
  std::string call(const char* function, const Node& n, bool sorted) {
    std::string out = std::string(function) + "(";
    std::vector<ExprId> items;
    if (sorted)
      items = ordered(n);
    else
      for (const Term& t : n.terms()) items.push_back(t.expr);
    for (size_t i = 0; i < items.size(); ++i) out.append(i ? ", " : "").append(print(items[i], loosest));
    return out + ")";
  }
  std::string infix(const Node& n, const char* op) {
    return print(n.items[0].expr, condition) + op + print(n.items[1].expr, condition);
  }
  std::string connective(const Node& n, const char* op) {
    std::string out;
    for (ExprId id : ordered(n)) out.append(out.empty() ? "" : op).append(print(id, atom));
    return out;
  }

  const ExprTable& table_;
  Span<const std::string> names_;
  Style style_;
  int depth_ = 0;
};

}  // namespace

std::string ExprTable::print(ExprId id, Span<const std::string> names, Style style) const {
  return Printer(*this, names, style).print(id, loosest);
}

}  // namespace tern::sym
