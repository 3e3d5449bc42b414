// What a ShapeEnv knows: intervals of expressions, equalities as replacements, and how guards add to both.
#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/sym/evaluate.h"
#include "tern/sym/shape_env.h"

namespace tern {

using sym::ExprId;
using sym::ExprTable;
using sym::Kind;
using sym::Node;
using sym::Term;

namespace {

constexpr int max_depth = 2000;
void check_depth(int depth) {
  if (depth > max_depth)
    fail(ErrorKind::value, "symbolic size: an expression nested deeper than 2000 levels");
}

// The values x with factor·x + offset inside `to`; factor is not 0.
Range solve_linear(Range to, int64_t factor, int64_t offset) {
  auto shifted = [&](int64_t end) {
    if (end == Range::infinity || end == -Range::infinity) return end;
    int64_t r;
    if (__builtin_sub_overflow(end, offset, &r)) return end > 0 ? Range::infinity : -Range::infinity;
    return r;
  };
  int64_t low = shifted(to.min), high = shifted(to.max);
  if (factor < 0) {
    std::swap(low, high);
    low = -low;
    high = -high;
    factor = -factor;
  }
  auto infinite = [](int64_t v) { return v == Range::infinity || v == -Range::infinity; };
  return {infinite(low) ? low : -floor_div_int(-low, factor),
          infinite(high) ? high : floor_div_int(high, factor)};
}

}  // namespace

ShapeEnv::Memo& ShapeEnv::memo(ExprId id) {
  if (id >= memo_.size()) memo_.resize(std::max<size_t>(table_.size(), memo_.size() * 2));
  return memo_[id];
}

// ---- canonical form under what is known ----

ExprId ShapeEnv::resolve(ExprId id) { return resolve(id, 0); }

ExprId ShapeEnv::resolve(ExprId id, int depth) {
  check_depth(depth);
  if (table_.is_constant(id)) return id;
  if (memo(id).resolve_version == version_) return memo(id).resolved;
  ExprId out = resolve_node(id, depth);
  Memo& m = memo(id);
  m.resolve_version = version_;
  m.resolved = out;
  return out;
}

ExprId ShapeEnv::resolve_node(ExprId id, int depth) {
  Node n = table_.node(id);
  if (n.kind == Kind::symbol) {
    const SymbolInfo& s = symbols_[static_cast<size_t>(n.value)];
    return s.replacement ? resolve(*s.replacement, depth + 1) : id;
  }
  SmallVector<ExprId, 8> operands;
  bool changed = false;
  for (const Term& t : n.terms()) {
    ExprId e = resolve(t.expr, depth + 1);
    changed |= e != t.expr;
    operands.push_back(e);
  }
  ExprId out = changed ? table_.rebuild(n, operands) : id;
  return simplify_node(out);
}

ExprId ShapeEnv::simplify_node(ExprId id) {
  Node n = table_.node(id);
  switch (n.kind) {
    case Kind::truncated:
    case Kind::floor_div:
    case Kind::mod: {
      Range r = bound(id);
      if (r.is_single()) return table_.constant(r.min);
      if (n.kind == Kind::mod) {
        ExprId a = n.items[0].expr, b = n.items[1].expr;
        if (bound(a).min >= 0 && bound(table_.sub(b, a)).min > 0) return a;
      }
      return id;
    }
    case Kind::min:
    case Kind::max: {
      SmallVector<ExprId, 8> kept;
      for (size_t i = 0; i < n.count; ++i) {
        bool dominated = false;
        for (size_t j = 0; j < n.count && !dominated; ++j) {
          if (i == j) continue;
          ExprId gap = n.kind == Kind::max ? table_.sub(n.items[j].expr, n.items[i].expr)
                                           : table_.sub(n.items[i].expr, n.items[j].expr);
          int64_t least = bound(gap).min;
          dominated = least > 0 || (least == 0 && j < i);
        }
        if (!dominated) kept.push_back(n.items[i].expr);
      }
      return kept.empty() || kept.size() == n.count ? id : table_.min_max(n.kind, kept);
    }
    case Kind::sum: {
      // k·(a // k) = a - m, once a % k is known to be m.
      for (const Term& t : n.terms()) {
        Node item = table_.node(t.expr);
        if (item.kind != Kind::floor_div || !table_.is_constant(item.items[1].expr)) continue;
        int64_t k = table_.node(item.items[1].expr).value;
        if (t.factor % k != 0) continue;
        Range rest = bound(table_.mod(item.items[0].expr, item.items[1].expr));
        if (!rest.is_single()) continue;
        ExprId whole = table_.sub(item.items[0].expr, table_.constant(rest.min));
        ExprId others = table_.sub(id, table_.scaled(t.expr, t.factor));
        return simplify_node(table_.add(others, table_.scaled(whole, t.factor / k)));
      }
      return id;
    }
    default:
      return id;
  }
}

// ---- intervals ----

Range ShapeEnv::known(ExprId form) const {
  auto fact = facts_.find(form);
  return fact == facts_.end() ? Range{} : fact->second.range;
}

Range ShapeEnv::bound(ExprId id, int depth) {
  check_depth(depth);
  const Node& n = table_.node(id);
  if (n.kind == Kind::constant) return {n.value, n.value};
  if (n.kind == Kind::symbol) return symbols_[static_cast<size_t>(n.value)].range;
  if (memo(id).bound_version == version_) return memo(id).bound;
  Range out = bound_node(id, depth);
  if (n.kind == Kind::sum) {
    ExprTable::Normal normal = table_.normalise(id);
    if (normal.form != id) {
      Range fact = known(normal.form);
      out = intersect(out, scale(fact, normal.factor) + Range{normal.offset, normal.offset});
    }
  }
  out = intersect(out, known(id));
  Memo& m = memo(id);
  m.bound_version = version_;
  m.bound = out;
  return out;
}

Range ShapeEnv::bound_node(ExprId id, int depth) {
  const Node& n = table_.node(id);
  auto operand = [&](size_t i) { return bound(n.items[i].expr, depth + 1); };
  switch (n.kind) {
    case Kind::sum: {
      Range out{0, 0};
      for (size_t i = 0; i < n.count; ++i) out = out + scale(operand(i), n.items[i].factor);
      return intersect(out, bound_by_structure(id, depth));
    }
    case Kind::product: {
      Range out{1, 1};
      for (size_t i = 0; i < n.count; ++i) {
        Range base = operand(i), power{1, 1};
        for (int64_t k = 0; k < n.items[i].factor; ++k) power = power * base;
        if (n.items[i].factor % 2 == 0) power.min = std::max<int64_t>(power.min, 0);
        out = out * power;
      }
      return out;
    }
    case Kind::floor_div:
      return floor_div(operand(0), operand(1));
    case Kind::mod:
      return mod(operand(0), operand(1));
    case Kind::truncated: {
      Range r = operand(0);
      auto end = [&](int64_t v) {
        double product = n.factor() * static_cast<double>(v);
        bool open = v == Range::infinity || v == -Range::infinity || std::abs(product) >= 9.2e18;
        if (!open) return static_cast<int64_t>(product);
        return product < 0 ? -Range::infinity : Range::infinity;
      };
      int64_t a = end(r.min), b = end(r.max);
      return {std::min(a, b), std::max(a, b)};
    }
    case Kind::min:
    case Kind::max: {
      Range out = operand(0);
      for (size_t i = 1; i < n.count; ++i) {
        Range r = operand(i);
        out = n.kind == Kind::min ? Range{std::min(out.min, r.min), std::min(out.max, r.max)}
                                  : Range{std::max(out.min, r.min), std::max(out.max, r.max)};
      }
      return out;
    }
    case Kind::real_symbol:
    case Kind::real_constant:
    case Kind::real:
    case Kind::rounded:
      return {};
    default: {
      std::optional<bool> v = decide_condition(id);
      return v ? Range{*v, *v} : Range{0, 1};
    }
  }
}

// Terms of a sum are not independent: s0 - s0*s1 is s0·(1 - s1), and a // k is within a/k - 1 and a/k.
Range ShapeEnv::bound_by_structure(ExprId sum, int depth) {
  constexpr int64_t large = int64_t{1} << 20;
  Node n = table_.node(sum);
  Node first = table_.node(n.items[0].expr);
  Range out;
  if (first.kind == Kind::product || first.kind == Kind::symbol) {
    ExprId factor = first.kind == Kind::product ? first.items[0].expr : n.items[0].expr;
    for (size_t i = 0; i < std::max<size_t>(first.count, 1); ++i) {
      if (first.kind == Kind::product) factor = first.items[i].expr;
      if (std::optional<ExprId> rest = table_.divide_exactly(sum, factor)) {
        out = intersect(out, bound(factor, depth + 1) * bound(*rest, depth + 1));
        break;
      }
    }
  }
  for (const Term& t : n.terms()) {
    Node item = table_.node(t.expr);
    if (item.kind != Kind::floor_div || !table_.is_constant(item.items[1].expr)) continue;
    int64_t k = table_.node(item.items[1].expr).value, c = t.factor;
    if (k > large || c > large || c < -large) continue;
    // k·sum = k·others + c·a - c·(a % k), with 0 <= a % k < k
    ExprId others = table_.sub(sum, table_.scaled(t.expr, c));
    for (const Term& o : table_.terms_of_sum(others))
      if (o.factor > large || o.factor < -large) return out;
    Range whole =
        bound(table_.add(table_.scaled(others, k), table_.scaled(item.items[0].expr, c)), depth + 1);
    Range scaled = whole + scale({0, k - 1}, -c);
    return intersect(out, solve_linear(scaled, k, 0));
  }
  return out;
}

// What a user may give at run time: the declared ranges, not the capture's assumption of >= 2.
Range ShapeEnv::declared_range(SymInt value) {
  Lock lock(mutex_);
  ExprId id = resolve(unwrap(value));
  std::vector<uint32_t> indices;
  table_.collect_symbols(id, indices);
  std::vector<Range> kept;
  for (uint32_t i : indices) {
    SymbolInfo& s = symbols_[i];
    kept.push_back(s.range);
    s.range = s.unbacked ? s.range : intersect(s.declared, s.learned);
  }
  uint32_t version = version_;
  version_ = UINT32_MAX;
  std::vector<Memo> memo;
  memo.swap(memo_);
  Range out = bound(id);
  memo_.swap(memo);
  version_ = version;
  for (size_t k = 0; k < indices.size(); ++k) symbols_[indices[k]].range = kept[k];
  return out;
}

std::vector<Guard> ShapeEnv::open_guards() {
  Lock lock(mutex_);
  // Without the facts: each guard would only confirm itself.
  std::unordered_map<ExprId, Fact> facts;
  facts.swap(facts_);
  ++version_;
  std::vector<Guard> out;
  std::unordered_set<ExprId> seen;
  for (const Guard& g : guards_) {
    ExprId id = resolve(unwrap(g.condition.as_expr()));
    if (decide_condition(id) == true || !seen.insert(id).second) continue;
    out.push_back({SymBool::from_expr(wrap(id)), g.loc, text(id)});
  }
  facts_.swap(facts);
  ++version_;
  return out;
}

int ShapeEnv::beyond_sizes(ExprId id) const {
  const Node& n = table_.node(id);
  if (n.kind != Kind::constant) return 0;
  constexpr int64_t limit = int64_t{1} << 62;
  return n.value >= limit ? 1 : n.value <= -limit ? -1 : 0;
}

// What was said of floats is known word by word.
std::optional<bool> ShapeEnv::decide_real(Kind kind, ExprId a, ExprId b) {
  ExprId id = table_.relation(kind, resolve(a), resolve(b));
  if (table_.is_constant(id)) return id == ExprTable::unit;
  if (known(id).is_single()) return true;
  if (known(table_.negate(id)).is_single()) return false;
  return std::nullopt;
}

std::optional<bool> ShapeEnv::decide_relation(Kind kind, ExprId a, ExprId b) {
  if (table_.is_real(a) || table_.is_real(b)) return decide_real(kind, a, b);
  // The end of a slice may be the largest integer: no size is there, and no guard is needed to say so.
  if (int side = beyond_sizes(b); side != 0 && !table_.is_constant(a)) {
    if (kind == Kind::eq || kind == Kind::ne) return kind == Kind::ne;
    return (kind == Kind::lt || kind == Kind::le) == (side > 0);
  }
  if (beyond_sizes(a) != 0 && !table_.is_constant(b)) return decide_relation(sym::swapped(kind), b, a);
  ExprId difference = table_.sub(a, b);
  if (!table_.is_constant(difference)) difference = resolve(difference);
  ExprId settled = table_.relation(kind, difference, ExprTable::zero);
  if (table_.is_constant(settled)) return settled == ExprTable::unit;
  Range r = bound(difference);
  switch (kind) {
    case Kind::eq:
    case Kind::ne: {
      bool equal = kind == Kind::eq;
      if (r.min > 0 || r.max < 0) return !equal;
      if (r.min == 0 && r.max == 0) return equal;
      ExprTable::Normal n = table_.normalise(difference);
      auto fact = facts_.find(n.form);
      if (fact != facts_.end() && n.offset % n.factor == 0) {
        if (fact->second.excluded.count(-n.offset / n.factor)) return !equal;
      }
      return std::nullopt;
    }
    case Kind::lt:
      return r.max < 0 ? std::optional(true) : r.min >= 0 ? std::optional(false) : std::nullopt;
    case Kind::le:
      return r.max <= 0 ? std::optional(true) : r.min > 0 ? std::optional(false) : std::nullopt;
    case Kind::gt:
      return r.min > 0 ? std::optional(true) : r.max <= 0 ? std::optional(false) : std::nullopt;
    default:
      return r.min >= 0 ? std::optional(true) : r.max < 0 ? std::optional(false) : std::nullopt;
  }
}

std::optional<bool> ShapeEnv::decide_condition(ExprId id) {
  Node n = table_.node(id);
  if (n.kind == Kind::constant) return n.value != 0;
  if (is_relation(n.kind)) return decide_relation(n.kind, n.items[0].expr, n.items[1].expr);
  if (n.kind == Kind::all || n.kind == Kind::any) {
    if (Range fact = known(id); fact.is_single()) return fact.min != 0;
    bool absorbing = n.kind == Kind::any, open = false;
    for (const Term& t : n.terms()) {
      std::optional<bool> part = decide_condition(t.expr);
      if (part == absorbing) return absorbing;
      open |= !part;
    }
    return open ? std::nullopt : std::optional(!absorbing);
  }
  if (n.kind == Kind::negation) {
    std::optional<bool> inner = decide_condition(n.items[0].expr);
    return inner ? std::optional(!*inner) : std::nullopt;
  }
  return decide_relation(Kind::ne, id, ExprTable::zero);
}

// ---- learning ----

void ShapeEnv::learn(ExprId condition, Loc loc, std::optional<size_t> guard) {
  Node n = table_.node(condition);
  if (is_relation(n.kind) && (table_.is_real(n.items[0].expr) || table_.is_real(n.items[1].expr))) {
    facts_[condition].range = {1, 1};
    ++version_;
    return;
  }
  if (is_relation(n.kind)) return learn_relation(n.kind, n.items[0].expr, n.items[1].expr, loc, guard);
  if (n.kind == Kind::all) {
    for (const Term& t : n.terms()) learn(t.expr, loc, guard);
  } else if (n.kind == Kind::any) {
    facts_[condition].range = {1, 1};
    ++version_;
  } else if (n.kind == Kind::negation) {
    learn_relation(Kind::eq, n.items[0].expr, ExprTable::zero, loc, guard);
  } else if (n.kind != Kind::constant) {
    learn_relation(Kind::ne, condition, ExprTable::zero, loc, guard);
  }
}

void ShapeEnv::learn_relation(Kind kind, ExprId a, ExprId b, Loc loc, std::optional<size_t> guard) {
  ExprId difference = resolve(table_.sub(a, b));
  if (table_.is_constant(difference)) return;
  switch (kind) {
    case Kind::eq:
      narrow(difference, {0, 0}, loc, guard);
      use_equality(difference, loc, guard);
      break;
    case Kind::ne: {
      ExprTable::Normal n = table_.normalise(difference);
      if (n.offset % n.factor == 0) exclude(n.form, -n.offset / n.factor, loc);
      break;
    }
    case Kind::lt:
      narrow(difference, {-Range::infinity, -1}, loc, guard);
      break;
    case Kind::le:
      narrow(difference, {-Range::infinity, 0}, loc, guard);
      break;
    case Kind::gt:
      narrow(difference, {1, Range::infinity}, loc, guard);
      break;
    default:
      narrow(difference, {0, Range::infinity}, loc, guard);
      break;
  }
}

void ShapeEnv::narrow(ExprId id, Range to, Loc loc, std::optional<size_t> guard, int depth) {
  check_depth(depth);
  ExprTable::Normal normal = table_.normalise(id);
  if (normal.form == ExprTable::zero) return;
  to = solve_linear(to, normal.factor, normal.offset);
  Node n = table_.node(normal.form);
  if (n.kind == Kind::symbol) return narrow_symbol(static_cast<uint32_t>(n.value), to, loc, guard);
  Fact& fact = facts_[normal.form];
  Range tighter = intersect(fact.range, to);
  if (!(tighter == fact.range)) {
    fact.range = tighter;
    ++version_;
  }
  if (n.kind == Kind::floor_div && table_.is_constant(n.items[1].expr)) {
    int64_t k = table_.node(n.items[1].expr).value;
    Range whole = scale(to, k);
    if (whole.max < Range::infinity) whole = whole + Range{0, k - 1};
    narrow(n.items[0].expr, whole, loc, guard, depth + 1);
  } else if (n.kind == Kind::max && to.max < Range::infinity) {
    for (const Term& t : n.terms()) narrow(t.expr, {-Range::infinity, to.max}, loc, guard, depth + 1);
  } else if (n.kind == Kind::min && to.min > -Range::infinity) {
    for (const Term& t : n.terms()) narrow(t.expr, {to.min, Range::infinity}, loc, guard, depth + 1);
  } else if (n.kind == Kind::product || n.kind == Kind::sum) {
    narrow_increasing(normal.form, to, loc, guard);
  }
}

// A polynomial of one symbol that only grows over its range, such as s0**2 + s0: bounds by bisection.
void ShapeEnv::narrow_increasing(ExprId form, Range to, Loc loc, std::optional<size_t> guard) {
  std::vector<uint32_t> indices;
  table_.collect_symbols(form, indices);
  if (indices.size() != 1 || symbols_[indices[0]].range.min < 0) return;
  for (const Term& t : table_.terms_of_sum(form)) {
    const Node& m = table_.node(t.expr);
    bool power = m.kind == Kind::symbol ||
                 (m.kind == Kind::product && m.count == 1 && table_.kind(m.items[0].expr) == Kind::symbol);
    if (t.factor < 0 || !power) return;
  }
  auto at_most = [&](int64_t x, int64_t limit) {
    __int128 total = 0;
    for (const Term& t : table_.terms_of_sum(form)) {
      const Node& m = table_.node(t.expr);
      int64_t exponent = m.kind == Kind::symbol ? 1 : m.items[0].factor;
      __int128 v = t.factor;
      for (int64_t i = 0; i < exponent; ++i) {
        v *= x;
        if (v > limit) return false;
      }
      total += v;
      if (total > limit) return false;
    }
    return true;
  };
  auto last_within = [&](int64_t limit) {  // the largest x >= 0 with form(x) <= limit, or -1
    if (limit < 0) return int64_t{-1};
    int64_t low = -1, high = int64_t{1} << 40;
    while (high - low > 1) {
      int64_t middle = low + (high - low) / 2;
      (at_most(middle, limit) ? low : high) = middle;
    }
    return low;
  };
  Range x;
  if (to.max < Range::infinity) x.max = last_within(to.max);
  if (to.min > 0) x.min = last_within(to.min - 1) + 1;
  narrow_symbol(indices[0], x, loc, guard);
}

void ShapeEnv::narrow_symbol(uint32_t index, Range to, Loc loc, std::optional<size_t> guard) {
  if (symbols_[index].replacement) return narrow(*symbols_[index].replacement, to, loc, guard);
  SymbolInfo& s = symbols_[index];
  Range tighter = intersect(s.range, to);
  auto fact = facts_.find(s.expr);
  if (fact != facts_.end()) {
    auto excluded = [&](int64_t v) { return fact->second.excluded.count(v) != 0; };
    while (!tighter.is_empty() && excluded(tighter.min)) ++tighter.min;
    while (!tighter.is_empty() && excluded(tighter.max)) --tighter.max;
  }
  if (tighter == s.range) return;
  if (tighter.is_empty())
    failf(ErrorKind::value, "{}{} has no possible value left: it is in {} and must be in {}",
          loc_text(loc).empty() ? "" : loc_text(loc) + ": ", s.name, s.range.str(), to.str());
  if (tighter.min > s.range.min) s.min_loc = loc;
  if (tighter.max < s.range.max) s.max_loc = loc;
  if (!quiet_) {
    if (tighter.min > s.range.min) s.learned.min = tighter.min;
    if (tighter.max < s.range.max) s.learned.max = tighter.max;
  }
  s.range = tighter;
  ++version_;
  if (tighter.is_single() && !quiet_) replace(index, table_.constant(tighter.min), loc, guard);
}

void ShapeEnv::exclude(ExprId form, int64_t value, Loc loc) {
  if (!facts_[form].excluded.insert(value).second) return;
  ++version_;
  const Node& n = table_.node(form);
  if (n.kind == Kind::symbol) narrow_symbol(static_cast<uint32_t>(n.value), {}, loc, std::nullopt);
}

// difference == 0: one symbol that stands alone with coefficient ±1 is expressed by the others. Unbacked ones
// go first, then the latest, so that inputs keep their earliest name.
void ShapeEnv::use_equality(ExprId difference, Loc loc, std::optional<size_t> guard) {
  ExprId d = resolve(difference);
  sym::Terms terms = table_.terms_of_sum(d);
  std::optional<Term> best;
  auto rank = [&](ExprId symbol) {
    int64_t index = table_.node(symbol).value;
    return std::pair(!symbols_[static_cast<size_t>(index)].hint, index);
  };
  bool any_unhinted = has_unhinted(d);
  for (const Term& t : terms) {
    if (table_.kind(t.expr) != Kind::symbol || (t.factor != 1 && t.factor != -1)) continue;
    if (any_unhinted && !rank(t.expr).first) continue;  // an input's size is not expressed by data
    bool elsewhere = false;
    for (const Term& o : terms) {
      if (o.expr == t.expr) continue;
      std::vector<uint32_t> inside;
      table_.collect_symbols(o.expr, inside);
      elsewhere |=
          std::binary_search(inside.begin(), inside.end(), static_cast<uint32_t>(table_.node(t.expr).value));
    }
    if (elsewhere) continue;
    if (!best || rank(t.expr) > rank(best->expr)) best = t;
  }
  if (!best) return;
  ExprId by = table_.sub(best->expr, table_.scaled(d, best->factor));
  replace(static_cast<uint32_t>(table_.node(best->expr).value), by, loc, guard);
}

void ShapeEnv::replace(uint32_t index, ExprId by, Loc loc, std::optional<size_t> guard) {
  {
    SymbolInfo& s = symbols_[index];
    s.replacement = by;
    s.replaced_by_guard = guard;
    ++version_;
  }
  if (table_.is_constant(by)) return;
  // Its bounds hold for what replaces it: those the user declared count as learned, the others are assumed.
  Range allowed = intersect(symbols_[index].declared, symbols_[index].learned);
  Range assumed = symbols_[index].range;
  narrow(by, symbols_[index].unbacked ? assumed : allowed, loc, guard);
  bool before = quiet_;
  quiet_ = true;
  narrow(resolve(by), assumed, loc, guard);
  quiet_ = before;
}

}  // namespace tern

namespace tern::sym {

ExprId substitute(ExprTable& table, ExprId id, ExprId symbol, ExprId by) {
  struct Walk {
    ExprTable& table;
    ExprId symbol, by;
    std::unordered_map<ExprId, ExprId> done;
    ExprId operator()(ExprId e, int depth) {
      if (e == symbol) return by;
      Node n = table.node(e);
      if (n.count == 0) return e;
      if (depth > 2000) fail(ErrorKind::value, "symbolic size: an expression nested deeper than 2000 levels");
      if (auto known = done.find(e); known != done.end()) return known->second;
      SmallVector<ExprId, 8> operands;
      for (const Term& t : n.terms()) operands.push_back((*this)(t.expr, depth + 1));
      return done[e] = table.rebuild(n, operands);
    }
  };
  return Walk{table, symbol, by, {}}(id, 0);
}

}  // namespace tern::sym
