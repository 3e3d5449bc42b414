// Guards against dims: what torch.export reports as "Constraints violated" and "Specializations unexpectedly
// required", and the fixes that make both go away.
#include "tern/sym/solver.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tern/base/format.h"
#include "tern/sym/evaluate.h"

namespace tern {

using sym::ExprId;
using sym::ExprTable;
using sym::Kind;
using sym::Node;
using sym::Term;

namespace {

struct Linear {  // scale·symbol + offset
  uint32_t symbol;
  int64_t scale, offset;
};

struct Congruence {  // symbol ≡ remainder (mod modulus)
  int64_t modulus = 1, remainder = 0;
};

class Solver {
 public:
  Solver(const DynamicDims& dims, SolveOptions options)
      : dims_(dims), env_(dims.env()), table_(env_.table()), options_(options) {}

  DimReport run() {
    name_symbols();
    open_ = env_.open_guards();
    find_specialised_roots();
    find_related_roots();
    force_divisors();
    find_congruences();
    settle_related_roots();
    check_guards();
    check_ranges();
    DimReport report;
    report.runtime_checks = open_;
    if (violations_.empty() && forced_.empty()) return report;
    report.suggestions = suggestions();
    report.message = message(report.suggestions);
    return report;
  }

 private:
  const DynamicDims::Root* root_of(uint32_t symbol) const {
    auto at = root_of_symbol_.find(symbol);
    return at == root_of_symbol_.end() ? nullptr : &dims_.roots()[at->second];
  }
  static std::string described(const std::string& name, const std::string& source) {
    return source.empty() ? name : name + " = " + source;
  }
  std::string described(const DynamicDims::Root& r) const { return described(r.dim.root_name(), r.source); }
  std::string in_range(const DynamicDims::Root& r) const {
    Range range = r.dim.root_range();
    std::string name = r.dim.root_name(), out = described(r) + " in the specified range";
    bool low = range.min > 2, high = range.max < Range::infinity;
    if (low && high) return out + fmt::format(" {} <= {} <= {}", range.min, name, range.max);
    if (low) return out + fmt::format(" {} <= {}", range.min, name);
    if (high) return out + fmt::format(" {} <= {}", name, range.max);
    return out;
  }
  static std::string at(Loc loc) {
    std::string text = loc_text(loc);
    return text.empty() ? "" : " (" + text + ")";
  }
  void violate(const std::string& name, std::string text) { violations_.emplace_back(name, std::move(text)); }

  void name_symbols() {
    for (size_t i = 0; i < env_.symbol_count(); ++i) {
      const ShapeEnv::SymbolInfo& s = env_.symbol(static_cast<uint32_t>(i));
      names_.push_back(!s.source.empty() ? s.source : !s.display_name.empty() ? s.display_name : s.name);
    }
    for (size_t i = 0; i < dims_.roots().size(); ++i) {
      SymInt value = dims_.roots()[i].value;
      if (value.is_symbolic()) root_of_symbol_[symbol_of(value)] = i;
    }
  }
  uint32_t symbol_of(SymInt symbol) { return static_cast<uint32_t>(table_.node(env_.unwrap(symbol)).value); }
  ExprId resolved(SymInt value) { return env_.unwrap(env_.simplify(value)); }
  std::string python(ExprId id) const { return table_.print(id, names_, sym::Style::python); }

  std::optional<Linear> as_linear(ExprId id) {
    ExprTable::Normal n = table_.normalise(id);
    const Node& form = table_.node(n.form);
    if (form.kind != Kind::symbol) return std::nullopt;
    return Linear{static_cast<uint32_t>(form.value), n.factor, n.offset};
  }

  // ---- specialised ----

  void find_specialised_roots() {
    for (size_t i = 0; i < dims_.roots().size(); ++i) {
      const DynamicDims::Root& root = dims_.roots()[i];
      ExprId value = resolved(root.value);
      if (!table_.is_constant(value)) continue;
      int64_t constant = table_.node(value).value;
      constants_[i] = constant;
      const Guard* guard = guard_behind(root);
      if (guard && !is_plain(*guard)) {
        force(i, constant);
        continue;
      }
      for (const InputDim* in : reported_inputs(root)) {
        int64_t size = constant * in->spec.scale() + in->spec.offset();
        std::string why =
            root.value.is_int()
                ? fmt::format(
                      "; the example's size is {0}, and sizes 0 and 1 are always constants: export with "
                      "an example whose size is 2 or more",
                      size)
                : at(guard ? guard->loc : Loc{});
        violate(in->spec.name(), specialised_text(in->spec.name(), size, why));
      }
    }
    for (const InputDim& in : dims_.inputs()) {
      if (in.spec.kind() != Dim::Kind::dynamic) continue;
      ExprId value = resolved(in.size);
      if (!table_.is_constant(value) || in.hint < 2) continue;
      violate(in.source, specialised_text(in.source, in.hint, at(guard_loc(in.size))));
    }
  }
  static std::string specialised_text(const std::string& name, int64_t value, const std::string& why) {
    return fmt::format(
        "You marked {} as dynamic but your code specialized it to be a constant ({}){}. If you're using "
        "Dim.DYNAMIC, replace it with "
        "either Dim.STATIC or Dim.AUTO.",
        name, value, why);
  }
  // The root's own dim; where it is in no input, the dims derived from it.
  std::vector<const InputDim*> reported_inputs(const DynamicDims::Root& root) const {
    std::vector<const InputDim*> out;
    for (const InputDim& in : dims_.inputs()) {
      if (in.spec.kind() != Dim::Kind::named || in.spec.root_name() != root.dim.root_name()) continue;
      if (root.source.empty() || in.source == root.source) out.push_back(&in);
    }
    return out;
  }
  const Guard* guard_behind(const DynamicDims::Root& root) {
    if (root.value.is_int()) return nullptr;
    std::optional<size_t> g = env_.symbol(symbol_of(root.value)).replaced_by_guard;
    return g ? &env_.guards()[*g] : nullptr;
  }
  Loc guard_loc(SymInt size) {
    if (size.is_int()) return {};
    std::optional<Linear> l = as_linear(env_.unwrap(size));
    if (!l) return {};
    std::optional<size_t> g = env_.symbol(l->symbol).replaced_by_guard;
    return g ? env_.guards()[*g].loc : Loc{};
  }
  // Compares with a constant, rather than sizes with each other.
  bool is_plain(const Guard& guard) {
    const Node& n = table_.node(env_.unwrap(guard.condition.as_expr()));
    if (!is_relation(n.kind)) return true;
    return table_.is_constant(n.items[0].expr) || table_.is_constant(n.items[1].expr);
  }

  void force(size_t root, int64_t value) {
    constants_[root] = value;
    forced_.insert(root);
    SymInt symbol = dims_.roots()[root].value;
    if (symbol.is_symbolic()) substitutions_[symbol_of(symbol)] = value;
  }
  // False where a symbol is not a named dim's: then the relation stays a run-time check.
  bool force_symbols(ExprId id) {
    std::vector<uint32_t> symbols;
    table_.collect_symbols(id, symbols);
    for (uint32_t s : symbols)
      if (!root_of(s)) return false;
    for (uint32_t s : symbols) force(root_of_symbol_.at(s), root_of(s)->hint);
    return true;
  }

  // ---- one root by another ----

  void find_related_roots() {
    for (size_t i = 0; i < dims_.roots().size(); ++i) {
      const DynamicDims::Root& root = dims_.roots()[i];
      ExprId value = resolved(root.value);
      if (root.value.is_int() || table_.is_constant(value) || value == env_.unwrap(root.value)) continue;
      std::optional<Linear> l = as_linear(value);
      if (l && l->scale > 0) {
        const DynamicDims::Root* other = root_of(l->symbol);
        if (!other) continue;
        related_[i] = *l;
        std::string by = linear_text(l->scale, other->dim.root_name(), l->offset),
                    where = at(guard_loc(root.value));
        if (l->scale == 1 && l->offset == 0)
          violate(root.dim.root_name(), fmt::format("The values of {} and {} must always be equal.{}",
                                                    described(root), described(*other), where));
        else
          violate(root.dim.root_name(),
                  fmt::format("The values of {} must always be related to the values of {} by {} = {}.{}",
                              described(root), described(*other), root.dim.root_name(), by, where));
      } else if (options_.force_specializations && force_symbols(value)) {
        constants_[i] = root.hint;
      }  // else it stays dynamic: the input checks compare the size with the expression
    }
  }

  // ---- guards ----

  void force_divisors() {
    if (!options_.force_specializations) return;
    for (const Guard& g : open_) {
      ExprId id = env_.unwrap(g.condition.as_expr());
      if (table_.kind(id) == Kind::ne) continue;
      std::vector<ExprId> pending{id};
      while (!pending.empty()) {
        Node n = table_.node(pending.back());
        pending.pop_back();
        if ((n.kind == Kind::floor_div || n.kind == Kind::mod) && !table_.is_constant(n.items[1].expr))
          force_symbols(n.items[1].expr);
        for (const Term& t : n.terms()) pending.push_back(t.expr);
      }
    }
  }

  ExprId substituted(ExprId id) {
    std::vector<uint32_t> symbols;
    table_.collect_symbols(id, symbols);
    for (uint32_t s : symbols)
      if (auto v = substitutions_.find(s); v != substitutions_.end())
        id = sym::substitute(table_, id, env_.symbol(s).expr, table_.constant(v->second));
    return id;
  }

  void find_congruences() {
    for (const Guard& g : open_) {
      ExprId id = substituted(env_.unwrap(g.condition.as_expr()));
      std::vector<uint32_t> symbols;
      table_.collect_symbols(id, symbols);
      if (symbols.size() != 1 || !root_of(symbols[0])) continue;
      if (table_.kind(id) != Kind::eq) {
        narrow(id);
        continue;
      }
      std::optional<Congruence> c = as_congruence(id, symbols[0]);
      if (c) {
        std::optional<Congruence> both = combine(congruences_[symbols[0]], *c);
        if (both) congruences_[symbols[0]] = *both;
      } else if (options_.force_specializations) {
        force(root_of_symbol_.at(symbols[0]), root_of(symbols[0])->hint);
      }
    }
    for (auto& [symbol, value] : substitutions_) congruences_.erase(symbol);
  }
  // s0*s1 <= 24 with s0 forced to 3 bounds s1.
  void narrow(ExprId inequality) {
    Node n = table_.node(inequality);
    if (n.kind < Kind::lt || n.kind > Kind::ge) return;
    std::optional<Linear> l = as_linear(table_.sub(n.items[0].expr, n.items[1].expr));
    if (!l) return;
    // scale·s + offset < 0 and its three relatives, as scale·s <= limit with the sign turned where needed.
    bool upper = n.kind == Kind::lt || n.kind == Kind::le, strict = n.kind == Kind::lt || n.kind == Kind::gt;
    int64_t scale = upper ? l->scale : -l->scale, limit = (upper ? -l->offset : l->offset) - strict;
    Range r;
    if (scale > 0)
      r.max = floor_div_int(limit, scale);
    else
      r.min = -floor_div_int(limit, -scale);
    auto [at, is_new] = narrowed_.emplace(l->symbol, r);
    if (!is_new) at->second = intersect(at->second, r);
  }
  // m·(e // m) == e says that e % m == 0.
  ExprId without_floor(ExprId difference) {
    for (const sym::Term& t : table_.terms_of_sum(difference)) {
      Node part = table_.node(t.expr);
      if (part.kind != Kind::floor_div || !table_.is_constant(part.items[1].expr)) continue;
      int64_t m = table_.node(part.items[1].expr).value;
      if (m < 2 || t.factor % m != 0) continue;
      ExprId rest = table_.sub(difference, table_.scaled(t.expr, t.factor));
      if (rest == table_.scaled(part.items[0].expr, -(t.factor / m)))
        return table_.mod(part.items[0].expr, part.items[1].expr);
    }
    return difference;
  }
  // (a·s + b) % m == c
  std::optional<Congruence> as_congruence(ExprId equation, uint32_t symbol) {
    Node n = table_.node(equation);
    ExprTable::Normal d = table_.normalise(without_floor(table_.sub(n.items[0].expr, n.items[1].expr)));
    Node form = table_.node(d.form);
    if (form.kind != Kind::mod || !table_.is_constant(form.items[1].expr) || d.offset % d.factor != 0)
      return std::nullopt;
    std::optional<Linear> l = as_linear(form.items[0].expr);
    int64_t m = table_.node(form.items[1].expr).value, c = -d.offset / d.factor;
    if (!l || l->symbol != symbol || m > (int64_t{1} << 31)) return std::nullopt;
    for (int64_t r = 0; r < std::min<int64_t>(m, 1 << 16); ++r)
      if (mod_int(mod_int(l->scale, m) * r + mod_int(l->offset, m), m) == c) return Congruence{m, r};
    return std::nullopt;
  }
  static std::optional<Congruence> combine(Congruence a, Congruence b) {
    int64_t g = std::gcd(a.modulus, b.modulus);
    int64_t modulus;
    if (b.modulus / g > (1 << 20) || __builtin_mul_overflow(a.modulus / g, b.modulus, &modulus))
      return std::nullopt;
    for (int64_t k = 0, r = a.remainder; k < b.modulus / g; ++k, r += a.modulus)
      if (r % b.modulus == b.remainder % b.modulus) return Congruence{modulus, r % modulus};
    return std::nullopt;
  }

  void settle_related_roots() {
    // What was forced makes constants of the roots that depend on it.
    for (auto at = related_.begin(); at != related_.end();) {
      auto value = substitutions_.find(at->second.symbol);
      if (value == substitutions_.end()) {
        ++at;
        continue;
      }
      constants_[at->first] = at->second.scale * value->second + at->second.offset;
      at = related_.erase(at);
    }
  }

  // A guard on one dim that its range does not imply.
  void check_guards() {
    for (const Guard& g : open_) {
      ExprId id = env_.unwrap(g.condition.as_expr());
      std::vector<uint32_t> symbols;
      table_.collect_symbols(id, symbols);
      const DynamicDims::Root* root = symbols.size() == 1 ? root_of(symbols[0]) : nullptr;
      if (!root) continue;
      violate(root->dim.root_name(), fmt::format("Not all values of {} satisfy the generated guard {}.{}",
                                                 in_range(*root), python(id), at(g.loc)));
    }
  }

  // ---- ranges ----

  void check_ranges() {
    for (size_t i = 0; i < dims_.roots().size(); ++i) {
      const DynamicDims::Root& root = dims_.roots()[i];
      if (root.value.is_int() || constants_.count(i) || resolved(root.value) != env_.unwrap(root.value))
        continue;
      const ShapeEnv::SymbolInfo& s = env_.symbol(symbol_of(root.value));
      Range allowed = intersect(s.declared, {2}), learned = s.learned;
      if (learned.contains(allowed)) continue;
      Range shown = intersect(learned, intersect(s.declared, {2}));
      std::string name = names_[symbol_of(root.value)], guard;
      bool low = shown.min > 2, high = shown.max < Range::infinity;
      if (low) guard = fmt::format("{} <= {}", shown.min, name);
      if (high) guard += fmt::format("{}{} <= {}", low ? " and " : "", name, shown.max);
      Loc where = learned.max < allowed.max ? s.max_loc : s.min_loc;
      violate(root.dim.root_name(), fmt::format("Not all values of {} satisfy the generated guard {}.{}",
                                                in_range(root), guard, at(where)));
    }
  }

  // ---- fixes ----

  std::vector<std::string> suggestions() {
    struct Fix {
      std::string key, text;
      bool operator<(const Fix& o) const { return key < o.key; }
    };
    std::vector<Fix> ranges, values;
    for (size_t i = 0; i < dims_.roots().size(); ++i) {
      const DynamicDims::Root& root = dims_.roots()[i];
      std::string name = root.dim.root_name(), key = root.source.empty() ? name : root.source;
      if (auto c = constants_.find(i); c != constants_.end()) {
        values.push_back({key, fmt::format("{} = {}", name, c->second)});
        continue;
      }
      if (root.value.is_int()) continue;
      uint32_t symbol = symbol_of(root.value);
      if (auto r = related_.find(i); r != related_.end()) {
        values.push_back({key, name + " = " + by_new_root(r->second)});
        continue;
      }
      if (resolved(root.value) != env_.unwrap(root.value)) continue;
      const ShapeEnv::SymbolInfo& s = env_.symbol(symbol);
      Range range = intersect(s.declared, s.learned);
      auto extra = narrowed_.find(symbol);
      if (extra != narrowed_.end()) range = intersect(range, extra->second);
      if (auto c = congruences_.find(symbol); c != congruences_.end() && c->second.modulus > 1) {
        int64_t m = c->second.modulus, offset = mod_int(-c->second.remainder, m);
        range = intersect(range, {2});
        Range inner{-floor_div_int(-(range.min + offset), m),
                    range.max == Range::infinity ? range.max : floor_div_int(range.max + offset, m)};
        ranges.push_back({"_" + key, range_text("_" + name, inner)});
        values.push_back({key, name + " = " + by_new_root({symbol, 1, 0})});
      } else if (!range.contains(intersect(s.declared, {2}))) {
        ranges.push_back({key, range_text(name, range)});
      }
    }
    std::sort(ranges.begin(), ranges.end());
    std::sort(values.begin(), values.end());
    std::vector<std::string> out;
    for (Fix& f : ranges) out.push_back(std::move(f.text));
    for (Fix& f : values) out.push_back(std::move(f.text));
    return out;
  }
  // dy = dx + 1 where dx = 3*_dx - 1 is dy = 3*_dx.
  std::string by_new_root(Linear l) const {
    std::string name = root_of(l.symbol)->dim.root_name();
    auto c = congruences_.find(l.symbol);
    if (c == congruences_.end() || c->second.modulus == 1) return linear_text(l.scale, name, l.offset);
    int64_t m = c->second.modulus, back = mod_int(-c->second.remainder, m);
    return linear_text(l.scale * m, "_" + name, l.offset - l.scale * back);
  }
  static std::string range_text(const std::string& name, Range r) {
    std::string out = fmt::format("{0} = Dim('{0}'", name);
    if (r.min != 2 && r.min > 0) out += fmt::format(", min={}", r.min);
    if (r.max < Range::infinity) out += fmt::format(", max={}", r.max);
    return out + ")";
  }

  std::string message(const std::vector<std::string>& fixes) const {
    constexpr const char* more = "For more information, run with TORCH_LOGS=\"+dynamic\".";
    std::string out;
    if (!violations_.empty()) {
      std::set<std::string> names;
      for (auto& [name, text] : violations_) names.insert(name);
      out += fmt::format("Constraints violated ({})! {}\n", join(names), more);
      for (auto& [name, text] : violations_) out += "  - " + text + "\n";
    }
    if (!forced_.empty()) {
      std::set<std::string> names;
      std::string lines;
      for (size_t i : forced_) {
        const DynamicDims::Root& root = dims_.roots()[i];
        names.insert(root.dim.root_name());
        for (const InputDim& in : dims_.inputs()) {
          if (in.spec.kind() != Dim::Kind::named || in.spec.root_name() != root.dim.root_name()) continue;
          lines += fmt::format(
              "  - {} must be specialized to {} because the guards generated for it are too complex{}.\n",
              described(in.spec.name(), in.source), in.hint, guards_naming(root));
        }
      }
      out += fmt::format("Specializations unexpectedly required ({})! {}\n{}", join(names), more, lines);
    }
    if (!fixes.empty()) {
      out += "Suggested fixes:";
      for (const std::string& f : fixes) out += "\n  " + f;
    } else if (!out.empty()) {
      out.pop_back();
    }
    return out;
  }
  static std::string join(const std::set<std::string>& names) {
    std::string out;
    for (const std::string& n : names) out += (out.empty() ? "" : ", ") + n;
    return out;
  }
  // ": s0*s1 == s2 (net.cpp:12)", the first guard that speaks of the root.
  std::string guards_naming(const DynamicDims::Root& root) const {
    if (root.value.is_int()) return {};
    uint32_t symbol = static_cast<uint32_t>(table_.node(env_.unwrap(root.value)).value);
    for (const Guard& g : env_.guards()) {
      std::vector<uint32_t> symbols;
      ExprId id = env_.unwrap(g.condition.as_expr());
      table_.collect_symbols(id, symbols);
      const Node& n = table_.node(id);
      bool simple = is_relation(n.kind) &&
                    (table_.is_constant(n.items[0].expr) || table_.is_constant(n.items[1].expr)) &&
                    symbols.size() == 1;
      if (!simple && std::binary_search(symbols.begin(), symbols.end(), symbol))
        return fmt::format(": {}{}", python(id), at(g.loc));
    }
    return {};
  }

  const DynamicDims& dims_;
  ShapeEnv& env_;
  ExprTable& table_;
  SolveOptions options_;
  std::vector<std::string> names_;  // by symbol: its source
  std::map<uint32_t, size_t> root_of_symbol_;
  std::vector<Guard> open_;
  std::vector<std::pair<std::string, std::string>> violations_;  // dim, text
  std::map<size_t, int64_t> constants_;                          // root → value
  std::set<size_t> forced_;
  std::map<size_t, Linear> related_;
  std::map<uint32_t, int64_t> substitutions_;
  std::map<uint32_t, Congruence> congruences_;
  std::map<uint32_t, Range> narrowed_;  // by guards on several dims, once the others are forced
};

}  // namespace

DimReport DynamicDims::solve(SolveOptions options) const { return Solver(*this, options).run(); }

std::vector<Guard> DynamicDims::require(SolveOptions options) const {
  DimReport report = solve(options);
  if (!report.ok()) fail(ErrorKind::runtime, report.message);
  return std::move(report.runtime_checks);
}

}  // namespace tern
