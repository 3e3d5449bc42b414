// Hash-consed integer and boolean expressions in a canonical form: equal polynomials are the same ExprId.
// Floats are kept as they were computed. Pure algebra: no ranges, no hints, no guards (those are ShapeEnv's).
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/base/arena.h"
#include "tern/base/counter.h"
#include "tern/base/small_vector.h"
#include "tern/base/span.h"
#include "tern/sym/real.h"

namespace tern::sym {

using ExprId = uint32_t;

enum class Kind : uint8_t {
  constant,   // value
  symbol,     // value: the symbol's index
  sum,        // terms: coefficient × monomial; the monomial `unit` carries the constant
  product,    // terms: atom ^ exponent
  floor_div,  // terms: dividend, divisor
  mod,
  min,  // two or more terms
  max,
  truncated,      // value: the bits of a double; the whole part of its product with the only term
  real_symbol,    // value: the symbol's index; a float
  real_constant,  // value: the bits of a double
  real,           // value: a Real, of the terms
  rounded,        // the whole part of the only, real, term
  eq,             // terms: left, right, as they were asked
  ne,
  lt,
  le,
  gt,
  ge,
  all,       // and
  any,       // or
  negation,  // of a condition that is no comparison
};

struct Term {
  int64_t factor;  // the coefficient in a sum, the exponent in a product, else 0
  ExprId expr;
  friend bool operator==(const Term&, const Term&) = default;
};
using Terms = SmallVector<Term, 8>;  // of a sum: sorted by expr, no zero factor

struct Node {
  Kind kind;
  uint32_t hash;
  uint32_t count;
  int64_t value;
  const Term* items;
  Span<const Term> terms() const { return {items, count}; }
  double factor() const { return std::bit_cast<double>(value); }  // of truncated and real_constant
  Real function() const { return static_cast<Real>(value); }      // of real
};

constexpr bool is_relation(Kind k) { return k >= Kind::eq && k <= Kind::ge; }
constexpr bool is_condition(Kind k) { return k >= Kind::eq; }
Kind negated(Kind relation);  // < becomes >=
Kind swapped(Kind relation);  // < becomes >
bool holds(Kind relation, double a, double b);

enum class Style : uint8_t {
  sympy,   // Eq(s0, 3), Mod(s0, 2), (s0//2), a & b: what PyTorch prints and .pt2 files hold
  python,  // s0 == 3, s0 % 2, a and b: as in messages
};

class ExprTable {
 public:
  static constexpr ExprId unit = 0;  // the constant 1
  static constexpr ExprId zero = 1;

  ExprTable();
  ~ExprTable();
  ExprTable(const ExprTable&) = delete;
  ExprTable& operator=(const ExprTable&) = delete;

  // Nodes never change or move: reading them needs no lock. Making them does.
  const Node& node(ExprId id) const {
    auto [chunk, at] = place(id);
    return chunks_[chunk].load()[at];
  }
  Kind kind(ExprId id) const { return node(id).kind; }
  bool is_constant(ExprId id) const { return node(id).kind == Kind::constant; }
  size_t size() const { return size_; }

  ExprId constant(int64_t value);
  ExprId symbol(uint32_t index);
  ExprId real_symbol(uint32_t index);
  ExprId real_constant(double value);
  ExprId real(Real function, Span<const ExprId> operands);  // ints become floats where it takes floats
  ExprId rounded(ExprId real);
  bool is_real(ExprId id) const {
    Kind k = kind(id);
    return k >= Kind::real_symbol && k <= Kind::real;
  }
  std::optional<double> real_value(ExprId id) const;  // of a constant, int or float
  ExprId add(ExprId a, ExprId b);
  ExprId sub(ExprId a, ExprId b);
  ExprId mul(ExprId a, ExprId b);
  ExprId scaled(ExprId a, int64_t factor);
  ExprId power(ExprId a, int64_t exponent);  // 0 ≤ exponent ≤ 64
  ExprId floor_div(ExprId a, ExprId b);      // throws on division by the constant zero
  ExprId mod(ExprId a, ExprId b);
  ExprId min_max(Kind kind, Span<const ExprId> items);
  // The whole part of factor·a, multiplied as doubles; a and the factor are not negative.
  ExprId truncated(double factor, ExprId a);
  ExprId relation(Kind kind, ExprId a, ExprId b);  // decided where the difference is constant
  ExprId connective(Kind kind, Span<const ExprId> items);
  ExprId negate(ExprId condition);

  Terms terms_of_sum(ExprId id) const;  // any expression as a sum of coefficient × monomial
  ExprId sum(const Terms& sorted);
  // a = b·q exactly, as polynomials.
  std::optional<ExprId> divide_exactly(ExprId a, ExprId b);
  // id = factor·form + offset: form has no constant, coefficients without a common divisor, the last
  // positive.
  struct Normal {
    ExprId form;
    int64_t factor;
    int64_t offset;
  };
  Normal normalise(ExprId id);

  // Rebuilds with new operands; `leaf` maps symbols, `memo` is keyed by ExprId.
  ExprId rebuild(const Node& node, Span<const ExprId> operands);
  std::string print(ExprId id, Span<const std::string> names, Style style = Style::sympy) const;
  void collect_symbols(ExprId id, std::vector<uint32_t>& indices) const;  // sorted, unique, appended to

 private:
  // Each chunk is twice as large as the one before: a table is small at first and never moves.
  static constexpr unsigned first_bits = 6;
  static constexpr size_t max_chunks = 18, max_size = ((size_t{1} << max_chunks) - 1) << first_bits;
  static std::pair<unsigned, size_t> place(size_t id) {
    unsigned chunk = static_cast<unsigned>(std::bit_width((id >> first_bits) + 1)) - 1;
    return {chunk, id - (((size_t{1} << chunk) - 1) << first_bits)};
  }

  ExprId intern(Kind kind, int64_t value, const Term* items, size_t count);
  void grow();
  ExprId multiply_monomials(ExprId a, ExprId b);
  ExprId real_relation(Kind kind, ExprId a, ExprId b);
  std::optional<ExprId> divide_monomials(ExprId a, ExprId b);
  int compare_monomials(ExprId a, ExprId b) const;
  Terms factors(ExprId monomial) const;
  ExprId binary(Kind kind, ExprId a, ExprId b);
  ExprId floor_div_by_int(ExprId a, int64_t divisor);
  ExprId mod_by_int(ExprId a, int64_t divisor);
  void cancel_common_factor(ExprId& a, ExprId& b, ExprId& common);

  Arena arena_;
  Published<Node> chunks_[max_chunks];
  size_t size_ = 0;
  std::vector<uint32_t> slots_;  // ExprId + 1, open addressing
};

// A number over a power of two, up to 2²⁰: such a factor times a size is exact.
struct Fraction {
  int64_t above, below;
};
std::optional<Fraction> short_fraction(double value);
// The whole part of factor·size as a double; throws where it does not fit 64 bits.
int64_t truncate(double factor, int64_t size);

// The grammar of ExprTable::print, and sympy's srepr. `find_symbol(context, name)` gives the symbol's
// expression; throws Error(value) with the text and column.
using FindSymbol = ExprId (*)(void* context, std::string_view name);
ExprId parse_expr(ExprTable& table, std::string_view text, FindSymbol find_symbol, void* context);

}  // namespace tern::sym
