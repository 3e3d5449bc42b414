// ShapeEnv's symbols, guards and answers; what it learns from a guard is in facts.cpp.
#include "tern/sym/shape_env.h"

#include <algorithm>
#include <atomic>

#include "tern/base/format.h"
#include "tern/sym/evaluate.h"

namespace tern {

using sym::ExprId;
using sym::Kind;
using sym::Node;
using sym::Term;

namespace {

// Every env ever made has an index of its own, so a handle that outlives its env is recognised.
constexpr size_t env_chunk = 4096;
// A handle: the tag, the env, the expression.
constexpr int env_bits = 24, expr_bits = 24;
ExprId expr_of(SymInt value) { return static_cast<ExprId>(value.bits() & ((int64_t{1} << expr_bits) - 1)); }
struct Registry {
  std::mutex mutex;
  std::atomic<uint32_t> count{0};
  std::atomic<std::atomic<ShapeEnv*>*> chunks[env_chunk] = {};
};
Registry& registry() {
  static Registry* r = new Registry;  // never destroyed: handles may be asked during exit
  return *r;
}

uint32_t enlist(ShapeEnv* env) {
  Registry& r = registry();
  std::lock_guard lock(r.mutex);
  uint32_t index = r.count.load();
  if (index >= env_chunk * env_chunk)
    fail(ErrorKind::runtime, "ShapeEnv: more than 16 million envs in one process");
  auto& chunk = r.chunks[index / env_chunk];
  if (!chunk.load()) chunk.store(new std::atomic<ShapeEnv*>[env_chunk](), std::memory_order_release);
  chunk.load()[index % env_chunk].store(env, std::memory_order_release);
  r.count.store(index + 1);
  return index;
}

Kind kind_of(sym::Op op) {
  switch (op) {
    case sym::Op::eq:
      return Kind::eq;
    case sym::Op::ne:
      return Kind::ne;
    case sym::Op::lt:
      return Kind::lt;
    case sym::Op::le:
      return Kind::le;
    case sym::Op::gt:
      return Kind::gt;
    case sym::Op::ge:
      return Kind::ge;
    default:
      break;
  }
  fail(ErrorKind::internal, "internal error: not a comparison");
}

std::optional<sym::Real> real_of(sym::Op op) {
  switch (op) {
    case sym::Op::add:
      return sym::Real::add;
    case sym::Op::sub:
      return sym::Real::sub;
    case sym::Op::mul:
      return sym::Real::mul;
    case sym::Op::floor_div:
      return sym::Real::floor_div;
    case sym::Op::mod:
      return sym::Real::mod;
    case sym::Op::min:
      return sym::Real::min;
    case sym::Op::max:
      return sym::Real::max;
    default:
      return std::nullopt;
  }
}

}  // namespace

ShapeEnv::ShapeEnv() : index_(enlist(this)) {}
ShapeEnv::~ShapeEnv() {
  registry().chunks[index_ / env_chunk].load()[index_ % env_chunk].store(nullptr, std::memory_order_release);
}

ShapeEnv& ShapeEnv::of(SymInt value) {
  uint32_t index = static_cast<uint32_t>(value.bits() >> expr_bits) & ((1u << env_bits) - 1);
  Registry& r = registry();
  ShapeEnv* env = nullptr;
  if (value.is_symbolic() && index < r.count.load())
    env = r.chunks[index / env_chunk].load(std::memory_order_acquire)[index % env_chunk].load(
        std::memory_order_acquire);
  if (!env)
    fail(ErrorKind::runtime,
         "a symbolic size was used after its ShapeEnv ended: keep the program that owns it alive");
  return *env;
}

SymInt ShapeEnv::wrap(ExprId id) const {
  const Node& n = table_.node(id);
  if (n.kind == Kind::constant) {
    if (SymInt(n.value).is_symbolic()) failf(ErrorKind::value, "the integer {} is not supported", n.value);
    return n.value;
  }
  if (id >> expr_bits) fail(ErrorKind::value, "ShapeEnv: more than 16 million expressions in one capture");
  return SymInt::from_bits(SymInt::handle_tag * (int64_t{1} << 48) + (int64_t{index_} << expr_bits) + id);
}

ExprId ShapeEnv::unwrap(SymInt value) {
  if (value.is_int()) return table_.constant(value.as_int());
  if (&of(value) != this)
    fail(ErrorKind::value, "symbolic sizes of two different captures (ShapeEnvs) were mixed");
  ExprId id = expr_of(value);
  TERN_ASSERT(id < table_.size());
  return id;
}

// ---- symbols ----

SymInt ShapeEnv::new_symbol(SymbolInfo info) {
  uint32_t index = static_cast<uint32_t>(symbols_.size());
  if (!by_name_.emplace(info.name, index).second)
    failf(ErrorKind::value, "ShapeEnv: there is already a symbol {}", info.name);
  info.expr = info.real ? table_.real_symbol(index) : table_.symbol(index);
  names_.push_back(info.name);
  dim_names_.push_back(info.display_name.empty() ? info.name : info.display_name);
  symbols_.push_back(std::move(info));
  ++version_;
  return wrap(symbols_.back().expr);
}

SymInt ShapeEnv::create_symbol(int64_t hint, std::string source, SymbolOptions options, Loc loc) {
  Lock lock(mutex_);
  if (options.declared.is_single()) {
    if (options.declared.min != hint)
      failf(ErrorKind::value, "Static shape constraint of {} does not match input size of {}, for {}",
            options.declared.min, hint, source);
    return hint;
  }
  if (options.specialize_zero_one && (hint == 0 || hint == 1)) {
    if (!options.declared.contains(hint))
      failf(ErrorKind::value, "{} not in range {}, for {}", hint, options.declared.str(), source);
    return hint;
  }
  if (options.duck) {
    auto same = by_hint_.find(hint);
    if (same != by_hint_.end()) return wrap(symbols_[same->second].expr);
  }
  SymbolInfo info;
  info.range = options.specialize_zero_one ? intersect(options.declared, {2}) : options.declared;
  if (!info.range.contains(hint))
    failf(ErrorKind::value, "{} not in range {}, for {}", hint, options.declared.str(), source);
  info.declared = options.declared;
  info.hint = hint;
  info.source = std::move(source);
  info.display_name = std::move(options.display_name);
  info.loc = loc;
  info.name = std::move(options.name);
  while (info.name.empty() || (by_name_.count(info.name) && options.name.empty()))
    info.name = fmt::format("s{}", backed_count_++);
  uint32_t index = static_cast<uint32_t>(symbols_.size());
  SymInt symbol = new_symbol(std::move(info));
  if (options.duck) by_hint_.emplace(hint, index);
  return symbol;
}

SymInt ShapeEnv::create_unbacked_symint(std::string source, Loc loc) {
  Lock lock(mutex_);
  SymbolInfo info;
  do info.name = fmt::format("u{}", unbacked_count_++);
  while (by_name_.count(info.name));
  info.unbacked = true;
  info.source = std::move(source);
  info.loc = loc;
  return new_symbol(std::move(info));
}

SymBool ShapeEnv::create_unbacked_symbool(std::string source, Loc loc) {
  Lock lock(mutex_);
  SymInt bit = create_unbacked_symint(std::move(source), loc);
  SymbolInfo& info = symbols_.back();
  info.boolean = true;
  info.range = info.declared = {0, 1};
  return compare(sym::Op::eq, bit, 1);  // PyTorch prints an unbacked bool as Eq(u0, 1)
}

SymInt ShapeEnv::create_unbacked_float_symbol(std::string source, Loc loc) {
  Lock lock(mutex_);
  SymbolInfo info;
  do info.name = fmt::format("zuf{}", float_count_++);
  while (by_name_.count(info.name));
  info.unbacked = true;
  info.real = true;
  info.source = std::move(source);
  info.loc = loc;
  return new_symbol(std::move(info));
}

SymInt ShapeEnv::add_symbol(std::string_view name, std::optional<int64_t> hint, Range range) {
  Lock lock(mutex_);
  if (std::optional<SymInt> known = find_symbol(name)) return *known;
  if (range.is_empty()) failf(ErrorKind::value, "symbol {}: empty range {}", name, range.str());
  SymbolInfo info;
  info.name = name;
  info.unbacked = name.starts_with("u") || name.starts_with("zu");
  info.real = name.starts_with("z");
  info.hint = hint;
  info.declared = range;
  info.range = info.unbacked || range.max < 2 ? range : intersect(range, {2});
  return new_symbol(std::move(info));
}

std::optional<SymInt> ShapeEnv::find_symbol(std::string_view name) const {
  Lock lock(mutex_);
  auto found = by_name_.find(std::string(name));
  if (found == by_name_.end()) return std::nullopt;
  return wrap(symbols_[found->second].expr);
}

SymInt ShapeEnv::parse(std::string_view text) {
  Lock lock(mutex_);
  auto find = [](void* env, std::string_view name) {
    ShapeEnv& self = *static_cast<ShapeEnv*>(env);
    if (name.size() > 256) fail(ErrorKind::value, "symbolic expression: a name longer than 256 characters");
    return self.unwrap(self.add_symbol(name, std::nullopt, name.starts_with("u") ? Range{} : Range{0}));
  };
  return wrap(sym::parse_expr(table_, text, find, this));
}

// ---- reading ----

std::string ShapeEnv::text(ExprId id, sym::Style style) const { return table_.print(id, names_, style); }

std::string ShapeEnv::str(SymInt value, sym::Style style) {
  Lock lock(mutex_);
  return text(resolve(unwrap(value)), style);
}
std::string ShapeEnv::str_as_asked(SymInt value, sym::Style style) {
  Lock lock(mutex_);
  return text(unwrap(value), style);
}
std::string ShapeEnv::str_by_dims(SymInt value) {
  Lock lock(mutex_);
  return table_.print(resolve(unwrap(value)), dim_names_);
}
SymInt ShapeEnv::simplify(SymInt value) {
  Lock lock(mutex_);
  return wrap(resolve(unwrap(value)));
}
Range ShapeEnv::range(SymInt value) {
  Lock lock(mutex_);
  return bound(resolve(unwrap(value)));
}

std::optional<int64_t> ShapeEnv::hint_of(ExprId id) {
  return sym::evaluate(table_, id, [&](uint32_t index) { return symbols_[index].hint; });
}
std::optional<int64_t> ShapeEnv::hint(SymInt value) {
  Lock lock(mutex_);
  return hint_of(resolve(unwrap(value)));
}

bool ShapeEnv::has_unhinted(ExprId id) {
  std::vector<uint32_t> symbols;
  table_.collect_symbols(id, symbols);
  return std::any_of(symbols.begin(), symbols.end(), [&](uint32_t s) { return !symbols_[s].hint; });
}
bool ShapeEnv::is_unbacked(SymInt value) {
  Lock lock(mutex_);
  return has_unhinted(resolve(unwrap(value)));
}
bool ShapeEnv::is_size_like(SymInt value) {
  Lock lock(mutex_);
  const Node& n = table_.node(resolve(unwrap(value)));
  return n.kind == Kind::symbol && symbols_[static_cast<size_t>(n.value)].size_like;
}

std::vector<SymInt> ShapeEnv::free_symbols(SymInt value) {
  Lock lock(mutex_);
  std::vector<uint32_t> indices;
  table_.collect_symbols(resolve(unwrap(value)), indices);
  std::vector<SymInt> out;
  for (uint32_t i : indices) out.push_back(wrap(symbols_[i].expr));
  return out;
}

SymInt ShapeEnv::substitute(SymInt value, SymInt symbol, SymInt by) {
  Lock lock(mutex_);
  return wrap(sym::substitute(table_, unwrap(value), unwrap(symbol), unwrap(by)));
}

int64_t ShapeEnv::evaluate(SymInt value, const SymValues& values) const {
  if (value.is_int()) return value.as_int();
  uint32_t missing = 0;
  ExprId id = expr_of(value);
  std::optional<int64_t> result = sym::evaluate(table_, id, [&](uint32_t index) {
    std::optional<int64_t> v = values.get(index);
    if (!v) missing = index;
    return v;
  });
  if (!result) {
    Lock lock(mutex_);
    failf(ErrorKind::value, "evaluating {}: {} has no value", text(id), names_[missing]);
  }
  return *result;
}

void SymValues::set(SymInt symbol, int64_t value) {
  ShapeEnv& env = ShapeEnv::of(symbol);
  const Node& n = env.table().node(env.unwrap(symbol));
  TERN_ASSERT(n.kind == Kind::symbol);
  set_index(static_cast<uint32_t>(n.value), value);
}
void SymValues::set_index(uint32_t index, int64_t value) {
  if (index >= values_.size()) {
    values_.resize(index + 1);
    known_.resize(index + 1);
  }
  values_[index] = value;
  known_[index] = true;
}

// ---- making ----

SymInt ShapeEnv::arithmetic(sym::Op op, SymInt a, SymInt b) {
  Lock lock(mutex_);
  ExprId x = unwrap(a), y = unwrap(b);
  if (table_.is_real(x) || table_.is_real(y))
    if (std::optional<sym::Real> f = real_of(op)) return real(*f, a, b);
  switch (op) {
    case sym::Op::add:
      return wrap(table_.add(x, y));
    case sym::Op::sub:
      return wrap(table_.sub(x, y));
    case sym::Op::mul:
      return wrap(table_.mul(x, y));
    case sym::Op::floor_div:
      return wrap(table_.floor_div(x, y));
    case sym::Op::mod:
      return wrap(table_.mod(x, y));
    case sym::Op::min:
    case sym::Op::max: {
      // What is certain now stays certain: knowledge only grows.
      Kind kind = op == sym::Op::min ? Kind::min : Kind::max;
      if (beyond_sizes(x) != 0 || beyond_sizes(y) != 0) {
        std::optional<bool> ordered = decide_relation(Kind::le, x, y);
        if (ordered) return wrap(*ordered == (kind == Kind::min) ? x : y);
      }
      ExprId items[] = {x, y};
      return wrap(resolve(table_.min_max(kind, items)));
    }
    default:
      return wrap(table_.relation(kind_of(op), x, y));
  }
}

SymInt ShapeEnv::truncated_product(SymInt size, double factor) {
  Lock lock(mutex_);
  return wrap(resolve(table_.truncated(factor, unwrap(size))));
}

SymInt ShapeEnv::real(double value) {
  Lock lock(mutex_);
  return wrap(table_.real_constant(value));
}
SymInt ShapeEnv::real(sym::Real function, SymInt a, SymInt b) {
  Lock lock(mutex_);
  ExprId operands[] = {unwrap(a), unwrap(b)};
  size_t count = static_cast<size_t>(sym::real_function(function).arity);
  return wrap(table_.real(function, Span<const ExprId>(operands, count)));
}
SymInt ShapeEnv::rounded(SymInt real) {
  Lock lock(mutex_);
  return wrap(resolve(table_.rounded(unwrap(real))));
}
std::optional<double> ShapeEnv::real_hint(SymInt value) {
  Lock lock(mutex_);
  return sym::evaluate_real(table_, resolve(unwrap(value)), [&](uint32_t s) { return symbols_[s].hint; });
}

SymBool ShapeEnv::compare(sym::Op op, SymInt a, SymInt b) {
  Lock lock(mutex_);
  return SymBool::from_expr(wrap(table_.relation(kind_of(op), unwrap(a), unwrap(b))));
}
SymBool ShapeEnv::connective(Kind kind, SymBool a, SymBool b) {
  Lock lock(mutex_);
  ExprId items[] = {unwrap(a.as_expr()), unwrap(b.as_expr())};
  return SymBool::from_expr(wrap(table_.connective(kind, items)));
}
SymBool ShapeEnv::negate(SymBool a) {
  Lock lock(mutex_);
  return SymBool::from_expr(wrap(table_.negate(unwrap(a.as_expr()))));
}

// ---- guards ----

std::optional<bool> ShapeEnv::decide(sym::Op op, SymInt a, SymInt b) {
  Lock lock(mutex_);
  return decide_relation(kind_of(op), unwrap(a), unwrap(b));
}

bool ShapeEnv::guard(sym::Op op, SymInt a, SymInt b, Loc loc) {
  Lock lock(mutex_);
  Kind kind = kind_of(op);
  ExprId x = unwrap(a), y = unwrap(b);
  if (by_example_)
    if (std::optional<int64_t> hint = hint_of(table_.relation(kind, x, y))) return *hint != 0;
  if (std::optional<bool> known = decide_relation(kind, x, y)) return *known;
  return answer(table_.relation(kind, resolve(x), resolve(y)), loc);
}

bool ShapeEnv::guard_condition(SymBool condition, Loc loc) {
  Lock lock(mutex_);
  ExprId id = resolve(unwrap(condition.as_expr()));
  if (std::optional<bool> known = decide_condition(id)) return *known;
  return answer(id, loc);
}

// Of a condition that nothing known decides: as in the example, which becomes a guard.
bool ShapeEnv::answer(ExprId id, Loc loc) {
  std::optional<int64_t> hint = hint_of(id);
  if (!hint) fail_data_dependent(id, loc);
  if (has_real(id))
    specialise(id, loc);
  else
    record(*hint ? id : table_.negate(id), loc);
  return *hint != 0;
}

bool ShapeEnv::has_real(ExprId condition) const {
  const Node& n = table_.node(condition);
  if (!is_condition(n.kind)) return table_.is_real(condition);
  return std::any_of(n.terms().begin(), n.terms().end(), [&](const Term& t) { return has_real(t.expr); });
}

// No solver reasons about floats: the sizes they are made of stay what they are in the example.
void ShapeEnv::specialise(ExprId id, Loc loc) {
  std::vector<uint32_t> symbols;
  table_.collect_symbols(id, symbols);
  for (uint32_t s : symbols)
    record(table_.relation(Kind::eq, symbols_[s].expr, table_.constant(symbols_[s].hint.value())), loc);
}

double ShapeEnv::guard_real(SymInt value, Loc loc) {
  Lock lock(mutex_);
  ExprId id = resolve(unwrap(value));
  std::optional<double> answer = real_hint(value);
  if (!answer) fail_data_dependent(id, loc);
  if (!by_example_) specialise(id, loc);
  return *answer;
}

int64_t ShapeEnv::guard_value(SymInt value, Loc loc) {
  Lock lock(mutex_);
  ExprId id = resolve(unwrap(value));
  if (table_.is_constant(id)) return table_.node(id).value;
  if (table_.is_real(id) && !has_unhinted(id))
    failf(ErrorKind::type, "an int is needed here, and {} is a float", text(id));
  std::optional<int64_t> answer = hint_of(id);
  if (!answer) {
    Range r = bound(id);
    if (r.is_single()) return r.min;
    fail_data_dependent(id, loc);
  }
  record(table_.relation(Kind::eq, id, table_.constant(*answer)), loc);
  return *answer;
}

bool ShapeEnv::guard_eq_or(SymInt a, SymInt b, bool otherwise, Loc loc) {
  Lock lock(mutex_);
  ExprId x = unwrap(a), y = unwrap(b);
  if (std::optional<bool> known = decide_relation(Kind::eq, x, y)) return *known;
  ExprId id = table_.relation(Kind::eq, resolve(x), resolve(y));
  return has_unhinted(id) ? otherwise : answer(id, loc);
}

bool ShapeEnv::require_eq(SymInt a, SymInt b, Loc loc) {
  Lock lock(mutex_);
  ExprId x = unwrap(a), y = unwrap(b);
  if (std::optional<bool> known = decide_relation(Kind::eq, x, y)) return *known;
  ExprId id = table_.relation(Kind::eq, resolve(x), resolve(y));
  if (!has_unhinted(id)) return answer(id, loc);
  defer(id, {}, loc);
  return true;
}

void ShapeEnv::record(ExprId condition, Loc loc) {
  if (by_example_ || table_.is_constant(condition) || !guarded_.insert(condition).second) return;
  guards_.push_back({SymBool::from_expr(wrap(condition)), loc, text(condition)});
  learn(condition, loc, guards_.size() - 1);
}

void ShapeEnv::defer(ExprId condition, std::string message, Loc loc) {
  if (!guarded_.insert(condition).second) return;
  if (message.empty()) message = fmt::format("Runtime assertion failed for expression {}", text(condition));
  runtime_asserts_.push_back({SymBool::from_expr(wrap(condition)), std::move(message), loc});
  learn(condition, loc, std::nullopt);
}

void ShapeEnv::check(SymBool condition, std::string message, Loc loc) {
  Lock lock(mutex_);
  ExprId id = resolve(unwrap(condition.as_expr()));
  auto refuse = [&] {
    if (message.empty())
      message = fmt::format("Expected cond to be True, but got False: {}", text(unwrap(condition.as_expr())));
    std::string at = loc_text(loc);
    fail(ErrorKind::runtime, at.empty() ? message : message + " (" + at + ")");
  };
  if (std::optional<bool> known = decide_condition(id)) {
    if (!*known) refuse();
    return;
  }
  if (table_.kind(id) == Kind::all) {  // each part is an assertion of its own
    for (const Term& t : table_.node(id).terms()) check(SymBool::from_expr(wrap(t.expr)), message, loc);
    return;
  }
  std::optional<int64_t> answer = hint_of(id);
  if (!answer)
    defer(id, std::move(message), loc);
  else if (*answer)
    record(id, loc);
  else
    refuse();
}

void ShapeEnv::check_is_size(SymInt value, Loc loc) {
  Lock lock(mutex_);
  ExprId id = resolve(unwrap(value));
  const Node& n = table_.node(id);
  if (n.kind == Kind::symbol && symbols_[static_cast<size_t>(n.value)].unbacked)
    symbols_[static_cast<size_t>(n.value)].size_like = true;
  check(compare(sym::Op::ge, value, 0),
        fmt::format("{} is used as a size and must not be negative", text(id)), loc);
}

void ShapeEnv::constrain_range(SymInt value, Range range, Loc loc) {
  Lock lock(mutex_);
  if (range.is_empty())
    failf(ErrorKind::value, "constrain_range: the minimum {} is above the maximum {}", range.min, range.max);
  std::string shown = str(value);
  auto message = [&] { return fmt::format("Invalid value range for {} between {}", shown, range.str()); };
  if (range.min > -Range::infinity) check(compare(sym::Op::ge, value, range.min), message(), loc);
  if (range.max < Range::infinity) check(compare(sym::Op::le, value, range.max), message(), loc);
}

void ShapeEnv::fail_data_dependent(ExprId id, Loc loc) {
  std::vector<uint32_t> symbols;
  table_.collect_symbols(id, symbols);
  std::string shown = text(id), size_like, origins;
  for (uint32_t s : symbols) {
    const SymbolInfo& info = symbols_[s];
    if (info.size_like) size_like += (size_like.empty() ? "" : ", ") + info.name;
    if (info.hint) continue;
    origins += fmt::format("{} comes from {}", info.name, info.source.empty() ? "the data" : info.source);
    if (std::string at = loc_text(info.loc); !at.empty()) origins += " (" + at + ")";
    origins += "\n";
  }
  bool condition = is_condition(table_.kind(id)), real = table_.is_real(id);
  const char* what = condition || real
                         ? "Could not guard on data-dependent expression"
                         : "Could not extract specialized integer from data-dependent expression";
  std::string advice =
      real ? std::string("Keep it a tensor: compute with the tensor instead of its item().")
      : condition
          ? fmt::format(
                "If it always holds, say so before this line: check({0}). If both answers are possible, use "
                "cond() or guard_eq_or() / guard_or_false.",
                text(id, sym::Style::python))
          : fmt::format("Keep {0} symbolic, or say its value before this line: check({0} == <value>).",
                        shown);
  std::string at = loc_text(loc);
  failf(ErrorKind::runtime,
        "GuardOnDataDependentSymNode: {0} {1} (unhinted: {1}).  (Size-like symbols: {2})\n\nCaused by: "
        "{3}\n{4}{5}",
        what, shown, size_like.empty() ? "none" : size_like, at.empty() ? "(unknown line)" : at, origins,
        advice);
}

bool is_condition(SymInt value) {
  if (value.is_int()) return false;
  ShapeEnv& env = ShapeEnv::of(value);
  return sym::is_condition(env.table().kind(env.unwrap(value)));
}

std::optional<std::string> range_violation(int64_t value, Range range) {
  if (range.contains(value)) return std::nullopt;
  return fmt::format("Invalid value range for {} between {}", value, range.str());
}

std::string loc_text(Loc loc) {
  if (!loc) return {};
  std::string_view file = loc.file;
  size_t slash = file.find_last_of('/');
  if (slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return fmt::format("{}:{}", file, loc.line);
}

}  // namespace tern
