#include "tern/sym/expr.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/sym/range.h"

namespace tern::sym {
namespace {

constexpr size_t max_terms = 4096;

// INT64_MIN is refused too: it has no negative.
int64_t checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r) || r == INT64_MIN)
    fail(ErrorKind::value, "symbolic size: a coefficient does not fit 64 bits");
  return r;
}
int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r) || r == INT64_MIN)
    fail(ErrorKind::value, "symbolic size: a coefficient does not fit 64 bits");
  return r;
}

uint32_t hash_of(Kind kind, int64_t value, const Term* items, size_t count) {
  uint64_t h = (static_cast<uint64_t>(kind) + 1) * 0x9E3779B97F4A7C15ull ^ static_cast<uint64_t>(value);
  auto mix = [&](uint64_t v) {
    h ^= v;
    h *= 0xD6E8FEB86659FD93ull;
    h ^= h >> 32;
  };
  mix(count);
  for (size_t i = 0; i < count; ++i) {
    mix(static_cast<uint64_t>(items[i].factor));
    mix(items[i].expr);
  }
  h *= 0xD6E8FEB86659FD93ull;
  return static_cast<uint32_t>(h >> 32);
}

int64_t gcd_of(const Terms& terms, int64_t start = 0) {
  int64_t g = start;
  for (const Term& t : terms) g = std::gcd(g, t.factor);
  return g;
}

}  // namespace

Kind negated(Kind k) {
  switch (k) {
    case Kind::eq:
      return Kind::ne;
    case Kind::ne:
      return Kind::eq;
    case Kind::lt:
      return Kind::ge;
    case Kind::le:
      return Kind::gt;
    case Kind::gt:
      return Kind::le;
    default:
      return Kind::lt;
  }
}

bool holds(Kind relation, double a, double b) {
  switch (relation) {
    case Kind::eq:
      return a == b;
    case Kind::ne:
      return a != b;
    case Kind::lt:
      return a < b;
    case Kind::le:
      return a <= b;
    case Kind::gt:
      return a > b;
    default:
      return a >= b;
  }
}

Kind swapped(Kind k) {
  switch (k) {
    case Kind::lt:
      return Kind::gt;
    case Kind::le:
      return Kind::ge;
    case Kind::gt:
      return Kind::lt;
    case Kind::ge:
      return Kind::le;
    default:
      return k;
  }
}

ExprTable::ExprTable() : slots_(128, 0) {
  constant(1);
  constant(0);
}
ExprTable::~ExprTable() {
  for (size_t i = 0; i < max_chunks && chunks_[i].load(); ++i) delete[] chunks_[i].load();
}

ExprId ExprTable::intern(Kind kind, int64_t value, const Term* items, size_t count) {
  uint32_t hash = hash_of(kind, value, items, count);
  size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at] != 0; at = (at + 1) & mask) {
    const Node& n = node(slots_[at] - 1);
    if (n.hash == hash && n.kind == kind && n.value == value && n.count == count &&
        std::equal(items, items + count, n.items))
      return slots_[at] - 1;
  }
  if (size_ >= max_size)
    fail(ErrorKind::value, "symbolic sizes: more than 16 million expressions in one ShapeEnv");
  ExprId id = static_cast<ExprId>(size_);
  auto [chunk, place_in] = place(id);
  if (place_in == 0) chunks_[chunk].store(new Node[size_t{1} << (first_bits + chunk)]);
  Term* own = nullptr;
  if (count) {
    own = static_cast<Term*>(arena_.allocate(count * sizeof(Term), alignof(Term)));
    std::copy(items, items + count, own);
  }
  chunks_[chunk].load()[place_in] = {kind, hash, static_cast<uint32_t>(count), value, own};
  slots_[at] = id + 1;
  if (++size_ * 2 > slots_.size()) grow();
  return id;
}

void ExprTable::grow() {
  std::vector<uint32_t> bigger(slots_.size() * 2, 0);
  size_t mask = bigger.size() - 1;
  for (ExprId id = 0; id < size_; ++id) {
    size_t at = node(id).hash & mask;
    while (bigger[at] != 0) at = (at + 1) & mask;
    bigger[at] = id + 1;
  }
  slots_ = std::move(bigger);
}

ExprId ExprTable::constant(int64_t value) { return intern(Kind::constant, value, nullptr, 0); }
ExprId ExprTable::symbol(uint32_t index) { return intern(Kind::symbol, index, nullptr, 0); }
ExprId ExprTable::real_symbol(uint32_t index) { return intern(Kind::real_symbol, index, nullptr, 0); }
ExprId ExprTable::real_constant(double value) {
  return intern(Kind::real_constant, std::bit_cast<int64_t>(value), nullptr, 0);
}
ExprId ExprTable::binary(Kind kind, ExprId a, ExprId b) {
  Term items[2] = {{0, a}, {0, b}};
  return intern(kind, 0, items, 2);
}

Terms ExprTable::terms_of_sum(ExprId id) const {
  const Node& n = node(id);
  if (n.kind == Kind::sum) return Terms(n.terms());
  if (n.kind != Kind::constant) return Terms{{1, id}};
  if (n.value == 0) return {};
  return Terms{{n.value, unit}};
}

ExprId ExprTable::sum(const Terms& t) {
  if (t.empty()) return zero;
  if (t.size() == 1 && t[0].expr == unit) return constant(t[0].factor);
  if (t.size() == 1 && t[0].factor == 1) return t[0].expr;
  if (t.size() > max_terms) fail(ErrorKind::value, "symbolic size: a sum of more than 4096 terms");
  return intern(Kind::sum, 0, t.data(), t.size());
}

namespace {

Terms merge(Span<const Term> a, Span<const Term> b, int64_t b_factor) {
  Terms out;
  out.reserve(a.size() + b.size());
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (j == b.size() || (i < a.size() && a[i].expr < b[j].expr)) {
      out.push_back(a[i++]);
    } else if (i == a.size() || b[j].expr < a[i].expr) {
      out.push_back({checked_mul(b[j].factor, b_factor), b[j].expr});
      ++j;
    } else {
      int64_t c = checked_add(a[i].factor, checked_mul(b[j].factor, b_factor));
      if (c != 0) out.push_back({c, a[i].expr});
      ++i;
      ++j;
    }
  }
  return out;
}

// Sorts by monomial and adds up equal ones.
void collect(Terms& t) {
  std::sort(t.begin(), t.end(), [](const Term& a, const Term& b) { return a.expr < b.expr; });
  size_t n = 0;
  for (size_t i = 0; i < t.size();) {
    Term sum = t[i++];
    while (i < t.size() && t[i].expr == sum.expr) sum.factor = checked_add(sum.factor, t[i++].factor);
    if (sum.factor != 0) t[n++] = sum;
  }
  t.resize(n);
}

}  // namespace

ExprId ExprTable::add(ExprId a, ExprId b) { return sum(merge(terms_of_sum(a), terms_of_sum(b), 1)); }
ExprId ExprTable::sub(ExprId a, ExprId b) {
  if (a == b) return zero;
  return sum(merge(terms_of_sum(a), terms_of_sum(b), -1));
}

ExprId ExprTable::scaled(ExprId a, int64_t factor) {
  if (factor == 0) return zero;
  if (factor == 1) return a;
  Terms t = terms_of_sum(a);
  for (Term& x : t) x.factor = checked_mul(x.factor, factor);
  return sum(t);
}

ExprId ExprTable::mul(ExprId a, ExprId b) {
  if (is_constant(a)) return scaled(b, node(a).value);
  if (is_constant(b)) return scaled(a, node(b).value);
  Terms x = terms_of_sum(a), y = terms_of_sum(b), out;
  if (x.size() * y.size() > max_terms)
    fail(ErrorKind::value, "symbolic size: a product of more than 4096 terms");
  for (const Term& p : x)
    for (const Term& q : y)
      out.push_back({checked_mul(p.factor, q.factor), multiply_monomials(p.expr, q.expr)});
  collect(out);
  return sum(out);
}

ExprId ExprTable::power(ExprId a, int64_t exponent) {
  if (exponent < 0 || exponent > 64)
    failf(ErrorKind::value, "symbolic size: exponent {} is outside 0..64", exponent);
  ExprId out = unit;
  for (int64_t i = 0; i < exponent; ++i) out = mul(out, a);
  return out;
}

Terms ExprTable::factors(ExprId m) const {
  if (m == unit) return {};
  const Node& n = node(m);
  if (n.kind == Kind::product) return Terms(n.terms());
  return Terms{{1, m}};
}

ExprId ExprTable::multiply_monomials(ExprId a, ExprId b) {
  if (a == unit) return b;
  if (b == unit) return a;
  Terms f = merge(factors(a), factors(b), 1);
  return intern(Kind::product, 0, f.data(), f.size());
}

std::optional<ExprId> ExprTable::divide_monomials(ExprId a, ExprId b) {
  if (b == unit) return a;
  Terms f = merge(factors(a), factors(b), -1);
  for (const Term& t : f)
    if (t.factor < 0) return std::nullopt;
  if (f.empty()) return unit;
  if (f.size() == 1 && f[0].factor == 1) return f[0].expr;
  return intern(Kind::product, 0, f.data(), f.size());
}

// Lexicographic, atoms with a smaller id weigh more: an order that multiplication keeps.
int ExprTable::compare_monomials(ExprId a, ExprId b) const {
  if (a == b) return 0;
  Terms x = factors(a), y = factors(b);
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    if (x[i].expr != y[i].expr) return x[i].expr < y[i].expr ? 1 : -1;
    if (x[i].factor != y[i].factor) return x[i].factor > y[i].factor ? 1 : -1;
  }
  return x.size() > y.size() ? 1 : -1;
}

std::optional<ExprId> ExprTable::divide_exactly(ExprId a, ExprId b) {
  Terms divisor = terms_of_sum(b);
  if (divisor.empty()) return std::nullopt;
  auto leading = [&](const Terms& t) {
    size_t best = 0;
    for (size_t i = 1; i < t.size(); ++i)
      if (compare_monomials(t[i].expr, t[best].expr) > 0) best = i;
    return t[best];
  };
  Term lead = leading(divisor);
  Terms rest = terms_of_sum(a), quotient;
  for (size_t steps = 0; !rest.empty(); ++steps) {
    if (steps > 256) return std::nullopt;
    Term top = leading(rest);
    if (top.factor % lead.factor != 0) return std::nullopt;
    std::optional<ExprId> monomial = divide_monomials(top.expr, lead.expr);
    if (!monomial) return std::nullopt;
    int64_t c = top.factor / lead.factor;
    quotient.push_back({c, *monomial});
    Terms product;
    for (const Term& t : divisor)
      product.push_back({checked_mul(t.factor, c), multiply_monomials(t.expr, *monomial)});
    collect(product);
    rest = merge(rest, product, -1);
  }
  collect(quotient);
  return sum(quotient);
}

ExprTable::Normal ExprTable::normalise(ExprId id) {
  Terms t = terms_of_sum(id);
  int64_t offset = 0;
  if (!t.empty() && t[0].expr == unit) {
    offset = t[0].factor;
    t.erase(0);
  }
  if (t.empty()) return {zero, 1, offset};
  int64_t g = gcd_of(t);
  if (t.back().factor < 0) g = -g;
  if (g != 1)
    for (Term& x : t) x.factor /= g;
  return {sum(t), g, offset};
}

// ---- floor division and remainder ----

ExprId ExprTable::floor_div(ExprId a, ExprId b) {
  const Node& divisor = node(b);
  if (divisor.kind == Kind::constant) {
    if (divisor.value == 0) fail(ErrorKind::value, "floor_div: division by zero");
    return divisor.value > 0 ? floor_div_by_int(a, divisor.value)
                             : floor_div_by_int(scaled(a, -1), -divisor.value);
  }
  if (a == zero) return zero;
  if (a == b) return unit;
  if (std::optional<ExprId> q = divide_exactly(a, b)) return *q;
  ExprId common;
  cancel_common_factor(a, b, common);
  if (is_constant(b)) return floor_div(a, b);
  // (b·q + r) // b = q + r // b, term by term where the divisor is one monomial.
  Terms d = terms_of_sum(b);
  ExprId quotient = zero;
  if (d.size() == 1) {
    Terms q, r;
    for (const Term& t : terms_of_sum(a)) {
      std::optional<ExprId> m =
          t.factor % d[0].factor == 0 ? divide_monomials(t.expr, d[0].expr) : std::nullopt;
      if (m)
        q.push_back({t.factor / d[0].factor, *m});
      else
        r.push_back(t);
    }
    collect(q);
    quotient = sum(q);
    a = sum(r);
    if (a == zero) return quotient;
  }
  return add(quotient, binary(Kind::floor_div, a, b));
}

ExprId ExprTable::floor_div_by_int(ExprId a, int64_t k) {
  if (k == 1) return a;
  Terms q, r;
  for (const Term& t : terms_of_sum(a)) {
    if (t.expr == unit) {
      int64_t whole = floor_div_int(t.factor, k), part = mod_int(t.factor, k);
      if (whole) q.push_back({whole, unit});
      if (part) r.push_back({part, unit});
    } else if (t.factor % k == 0) {
      q.push_back({t.factor / k, t.expr});
    } else {
      r.push_back(t);
    }
  }
  ExprId quotient = sum(q);
  if (r.empty() || (r.size() == 1 && r[0].expr == unit)) return quotient;  // 0 <= r < k
  int64_t constant_part = 0;
  if (r[0].expr == unit) {
    constant_part = r[0].factor;
    r.erase(0);
  }
  int64_t g = gcd_of(r, k);
  k /= g;
  for (Term& t : r) t.factor /= g;
  constant_part /= g;  // both positive: rounds down
  if (k == 1) return add(quotient, add(sum(r), constant(constant_part)));
  ExprId inner = sum(r);
  // (x // m + c) // k = (x + m·c) // (m·k)
  const Node& n = node(inner);
  if (n.kind == Kind::floor_div) {
    ExprId x = n.items[0].expr, m = n.items[1].expr;
    if (is_constant(m) && node(m).value > 0) {
      int64_t by = node(m).value;
      ExprId shifted = add(x, constant(checked_mul(by, constant_part)));
      return add(quotient, floor_div_by_int(shifted, checked_mul(by, k)));
    }
  }
  ExprId dividend = add(inner, constant(constant_part));
  return add(quotient, binary(Kind::floor_div, dividend, constant(k)));
}

ExprId ExprTable::mod(ExprId a, ExprId b) {
  const Node& divisor = node(b);
  if (divisor.kind == Kind::constant) {
    if (divisor.value == 0) fail(ErrorKind::value, "mod: division by zero");
    if (divisor.value > 0) return mod_by_int(a, divisor.value);
    return scaled(mod_by_int(scaled(a, -1), -divisor.value), -1);
  }
  if (a == zero || a == b || divide_exactly(a, b)) return zero;
  ExprId common;
  cancel_common_factor(a, b, common);
  if (common != unit) return mul(common, mod(a, b));
  Terms d = terms_of_sum(b);
  if (d.size() == 1) {
    Terms r;
    for (const Term& t : terms_of_sum(a))
      if (t.factor % d[0].factor != 0 || !divide_monomials(t.expr, d[0].expr)) r.push_back(t);
    a = sum(r);
    if (a == zero) return zero;
  }
  return binary(Kind::mod, a, b);
}

ExprId ExprTable::mod_by_int(ExprId a, int64_t k) {
  Terms r;
  for (const Term& t : terms_of_sum(a))
    if (int64_t c = mod_int(t.factor, k)) r.push_back({c, t.expr});
  if (r.empty()) return zero;
  if (r.size() == 1 && r[0].expr == unit) return constant(r[0].factor);
  // (g·x + c) % (g·m) = g·((x + c // g) % m) + c % g, for 0 <= c
  int64_t constant_part = r[0].expr == unit ? r[0].factor : 0;
  if (constant_part) r.erase(0);
  int64_t g = gcd_of(r, k);
  if (g > 1) {
    for (Term& t : r) t.factor /= g;
    ExprId x = add(sum(r), constant(constant_part / g));
    return add(scaled(mod_by_int(x, k / g), g), constant(constant_part % g));
  }
  ExprId x = sum(r);
  const Node& n = node(x);
  if (n.kind == Kind::mod && is_constant(n.items[1].expr) &&
      node(n.items[1].expr).value % k == 0)  // (x % 8) % 4
    return mod_by_int(add(n.items[0].expr, constant(constant_part)), k);
  return binary(Kind::mod, add(x, constant(constant_part)), constant(k));
}

// Divides both by the greatest integer and monomial they share. An integer factor is positive; a monomial one
// must not be zero, which a divisor is not.
void ExprTable::cancel_common_factor(ExprId& a, ExprId& b, ExprId& common) {
  Terms x = terms_of_sum(a), y = terms_of_sum(b);
  int64_t g = gcd_of(y, gcd_of(x));
  Terms shared = factors(y[0].expr);
  auto restrict_to = [&](ExprId monomial) {
    Terms f = factors(monomial);
    size_t n = 0;
    for (const Term& s : shared) {
      auto same = std::find_if(f.begin(), f.end(), [&](const Term& t) { return t.expr == s.expr; });
      if (same != f.end()) shared[n++] = {std::min(s.factor, same->factor), s.expr};
    }
    shared.resize(n);
  };
  for (const Term& t : y) restrict_to(t.expr);
  for (const Term& t : x) restrict_to(t.expr);
  ExprId monomial = unit;
  if (shared.size() == 1 && shared[0].factor == 1)
    monomial = shared[0].expr;
  else if (!shared.empty())
    monomial = intern(Kind::product, 0, shared.data(), shared.size());
  common = scaled(monomial, g);
  if (common == unit) return;
  for (Terms* side : {&x, &y}) {
    for (Term& t : *side) t = {t.factor / g, *divide_monomials(t.expr, monomial)};
    collect(*side);
  }
  a = sum(x);
  b = sum(y);
}

// ---- minimum, maximum, conditions ----

ExprId ExprTable::min_max(Kind kind, Span<const ExprId> items) {
  SmallVector<ExprId, 8> kept;
  auto insert = [&](ExprId e) {
    for (size_t i = 0; i < kept.size(); ++i) {
      ExprId difference = sub(e, kept[i]);
      if (!is_constant(difference)) continue;
      int64_t d = node(difference).value;
      if (kind == Kind::max ? d > 0 : d < 0) kept[i] = e;
      return;
    }
    kept.push_back(e);
  };
  for (ExprId e : items) {
    const Node& n = node(e);
    if (n.kind == kind)
      for (const Term& t : n.terms()) insert(t.expr);
    else
      insert(e);
  }
  if (kept.empty()) fail(ErrorKind::value, "Min/Max of no values");
  if (kept.size() == 1) return kept[0];
  std::sort(kept.begin(), kept.end());
  Terms t;
  for (ExprId e : kept) t.push_back({0, e});
  return intern(kind, 0, t.data(), t.size());
}

ExprId ExprTable::relation(Kind kind, ExprId a, ExprId b) {
  if (is_real(a) || is_real(b)) return real_relation(kind, a, b);
  Normal n = normalise(sub(a, b));
  auto decided = [&](bool v) { return v ? unit : zero; };
  if (n.form == zero) {
    int64_t d = n.offset;
    switch (kind) {
      case Kind::eq:
        return decided(d == 0);
      case Kind::ne:
        return decided(d != 0);
      case Kind::lt:
        return decided(d < 0);
      case Kind::le:
        return decided(d <= 0);
      case Kind::gt:
        return decided(d > 0);
      default:
        return decided(d >= 0);
    }
  }
  if (n.offset % n.factor != 0) {
    if (kind == Kind::eq) return zero;
    if (kind == Kind::ne) return unit;
  }
  return binary(kind, a, b);
}

// Of floats nothing is known but numbers: a difference of zero says little where there are NaNs.
ExprId ExprTable::real_relation(Kind kind, ExprId a, ExprId b) {
  std::optional<double> x = real_value(a), y = real_value(b);
  if (x && y) return holds(kind, *x, *y) ? unit : zero;
  if (x && !is_real(a)) a = real_constant(*x);
  if (y && !is_real(b)) b = real_constant(*y);
  return binary(kind, a, b);
}

ExprId ExprTable::connective(Kind kind, Span<const ExprId> items) {
  ExprId neutral = kind == Kind::all ? unit : zero, absorbing = kind == Kind::all ? zero : unit;
  SmallVector<ExprId, 8> kept;
  for (ExprId e : items) {
    if (is_constant(e)) e = node(e).value ? unit : zero;
    if (e == neutral) continue;
    if (e == absorbing) return absorbing;
    const Node& n = node(e);
    if (n.kind == kind)
      for (const Term& t : n.terms()) kept.push_back(t.expr);
    else
      kept.push_back(e);
  }
  std::sort(kept.begin(), kept.end());
  kept.resize(static_cast<size_t>(std::unique(kept.begin(), kept.end()) - kept.begin()));
  if (kept.empty()) return neutral;
  if (kept.size() == 1) return kept[0];
  Terms t;
  for (ExprId e : kept) t.push_back({0, e});
  return intern(kind, 0, t.data(), t.size());
}

ExprId ExprTable::negate(ExprId c) {
  Node n = node(c);
  if (n.kind == Kind::constant) return n.value ? zero : unit;
  if (is_relation(n.kind)) return relation(negated(n.kind), n.items[0].expr, n.items[1].expr);
  if (n.kind == Kind::negation) return n.items[0].expr;
  if (n.kind == Kind::all || n.kind == Kind::any) {
    SmallVector<ExprId, 8> parts;
    for (const Term& t : n.terms()) parts.push_back(negate(t.expr));
    return connective(n.kind == Kind::all ? Kind::any : Kind::all, parts);
  }
  Term item{0, c};
  return intern(Kind::negation, 0, &item, 1);
}

ExprId ExprTable::truncated(double factor, ExprId a) {
  if (std::optional<Fraction> f = short_fraction(factor))
    return floor_div(scaled(a, f->above), constant(f->below));
  if (is_constant(a)) return constant(truncate(factor, node(a).value));
  Term item{0, a};
  return intern(Kind::truncated, std::bit_cast<int64_t>(factor), &item, 1);
}

std::optional<double> ExprTable::real_value(ExprId id) const {
  const Node& n = node(id);
  if (n.kind == Kind::real_constant) return n.factor();
  if (n.kind == Kind::constant) return static_cast<double>(n.value);
  return std::nullopt;
}

ExprId ExprTable::real(Real function, Span<const ExprId> operands) {
  const RealFunction& f = real_function(function);
  if (function == Real::to_float && is_real(operands[0])) return operands[0];
  Terms items;
  std::optional<double> values[2] = {0.0, 0.0};
  for (size_t i = 0; i < operands.size(); ++i) {
    ExprId e = operands[i];
    values[i] = real_value(e);
    if (!f.of_ints && !is_real(e)) e = values[i] ? real_constant(*values[i]) : real(Real::to_float, {&e, 1});
    items.push_back({0, e});
  }
  if (values[0] && values[1]) return real_constant(f.value(*values[0], *values[1]));
  return intern(Kind::real, static_cast<int64_t>(function), items.data(), items.size());
}

ExprId ExprTable::rounded(ExprId real) {
  if (!is_real(real)) return real;
  if (std::optional<double> v = real_value(real)) return constant(truncate(*v, 1));
  // The whole part of a size times a factor has laws of its own.
  const Node& n = node(real);
  auto size = [&](ExprId e) -> std::optional<ExprId> {
    const Node& m = node(e);
    if (m.kind != Kind::real || m.function() != Real::to_float) return std::nullopt;
    return m.items[0].expr;
  };
  if (std::optional<ExprId> whole = size(real)) return *whole;
  if (n.kind == Kind::real && n.function() == Real::mul)
    for (size_t i = 0; i < 2; ++i) {
      std::optional<double> factor = real_value(n.items[i].expr);
      std::optional<ExprId> s = size(n.items[1 - i].expr);
      if (factor && s && *factor >= 0 && kind(*s) == Kind::symbol) return truncated(*factor, *s);
    }
  Term item{0, real};
  return intern(Kind::rounded, 0, &item, 1);
}

ExprId ExprTable::rebuild(const Node& n, Span<const ExprId> operands) {
  switch (n.kind) {
    case Kind::sum: {
      ExprId out = zero;
      for (size_t i = 0; i < n.count; ++i) out = add(out, scaled(operands[i], n.items[i].factor));
      return out;
    }
    case Kind::product: {
      ExprId out = unit;
      for (size_t i = 0; i < n.count; ++i) out = mul(out, power(operands[i], n.items[i].factor));
      return out;
    }
    case Kind::floor_div:
      return floor_div(operands[0], operands[1]);
    case Kind::mod:
      return mod(operands[0], operands[1]);
    case Kind::min:
    case Kind::max:
      return min_max(n.kind, operands);
    case Kind::truncated:
      return truncated(n.factor(), operands[0]);
    case Kind::real:
      return real(n.function(), operands);
    case Kind::rounded:
      return rounded(operands[0]);
    case Kind::all:
    case Kind::any:
      return connective(n.kind, operands);
    case Kind::negation:
      return negate(operands[0]);
    default:
      return relation(n.kind, operands[0], operands[1]);
  }
}

void ExprTable::collect_symbols(ExprId id, std::vector<uint32_t>& indices) const {
  std::vector<ExprId> pending{id};
  std::unordered_set<ExprId> seen;
  while (!pending.empty()) {
    ExprId e = pending.back();
    pending.pop_back();
    const Node& n = node(e);
    if (n.kind == Kind::symbol || n.kind == Kind::real_symbol) {
      indices.push_back(static_cast<uint32_t>(n.value));
      continue;
    }
    for (const Term& t : n.terms()) {
      Kind k = kind(t.expr);
      if (k == Kind::constant) continue;
      if (k != Kind::symbol && k != Kind::real_symbol && !seen.insert(t.expr).second) continue;
      pending.push_back(t.expr);
    }
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
}

std::optional<Fraction> short_fraction(double value) {
  constexpr int64_t most = 1 << 20;
  if (!(value >= 0) || value > most) return std::nullopt;
  int64_t below = 1;
  for (; value != std::floor(value); value *= 2, below *= 2)
    if (below >= most) return std::nullopt;
  return Fraction{static_cast<int64_t>(value), below};
}

int64_t truncate(double factor, int64_t size) {
  double product = factor * static_cast<double>(size);
  if (!(std::abs(product) < 9.2e18)) fail(ErrorKind::value, "symbolic size: the value does not fit 64 bits");
  return static_cast<int64_t>(product);
}

}  // namespace tern::sym
