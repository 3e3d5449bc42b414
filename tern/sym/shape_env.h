// ShapeEnv: the symbols of one capture, what is known about them, and every guard that was written down.
// Thread-safe: expressions may be made, compared and read from several threads.
#pragma once
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tern/sym/expr.h"
#include "tern/sym/guard.h"
#include "tern/sym/range.h"
#include "tern/sym/sym_int.h"

namespace tern {

struct SymbolOptions {
  std::string name = {};            // "s0" by order if empty
  std::string display_name = {};    // the Dim's name, for messages
  Range declared = {0};             // what the user allows at run time
  bool duck = false;                // equal hints share a symbol
  bool specialize_zero_one = true;  // a hint of 0 or 1 becomes the constant; other values are taken as >= 2
};

// Concrete values of symbols, for evaluation.
class SymValues {
 public:
  void set(SymInt symbol, int64_t value);  // precondition: a bare symbol
  std::optional<int64_t> get(uint32_t symbol_index) const {
    return symbol_index < known_.size() && known_[symbol_index] ? std::optional(values_[symbol_index])
                                                                : std::nullopt;
  }
  void set_index(uint32_t symbol_index, int64_t value);

 private:
  std::vector<int64_t> values_;
  std::vector<bool> known_;
};

class ShapeEnv {
 public:
  ShapeEnv();
  ~ShapeEnv();
  ShapeEnv(const ShapeEnv&) = delete;
  ShapeEnv& operator=(const ShapeEnv&) = delete;

  // The env of a symbolic value; throws if it is gone.
  static ShapeEnv& of(SymInt symbolic);

  // A size with an example value. Throws "3 not in range [6, int_oo]". `source` is "L['x'].size()[0]".
  SymInt create_symbol(int64_t hint, std::string source, SymbolOptions options = {}, Loc loc = Loc::here());
  SymInt create_unbacked_symint(std::string source = {}, Loc loc = Loc::here());  // u0
  SymBool create_unbacked_symbool(std::string source = {}, Loc loc = Loc::here());
  SymInt create_unbacked_float_symbol(std::string source, Loc loc);  // zuf0; use SymFloat::unbacked
  // A symbol of a file, by its name there; "u..." are unbacked. Gives the existing one if it is known.
  SymInt add_symbol(std::string_view name, std::optional<int64_t> hint, Range range);
  std::optional<SymInt> find_symbol(std::string_view name) const;
  // Reads "s0 + 1", "(s0//2)", "Max(1, s0)", "Eq(s0, 3)", srepr; unknown names become symbols without a hint.
  SymInt parse(std::string_view text);

  // ---- what is known ----
  SymInt simplify(SymInt value);       // with equalities, ranges and guards applied
  Range range(SymInt value);           // what every allowed value lies in, under the capture's assumptions
  Range declared_range(SymInt value);  // as a user may give it: declared ∩ guards, 0 and 1 allowed
  std::optional<int64_t> hint(SymInt value);
  bool is_unbacked(SymInt value);  // has an unbacked symbol, or one without a hint
  bool is_size_like(SymInt value);
  std::vector<SymInt> free_symbols(SymInt value);
  SymInt substitute(SymInt value, SymInt symbol, SymInt by);
  // Throws if a symbol has no value, on division by zero and on overflow.
  int64_t evaluate(SymInt value, const SymValues& values) const;
  std::string str(SymInt value, sym::Style style = sym::Style::sympy);
  std::string str_as_asked(SymInt value, sym::Style style = sym::Style::sympy);  // nothing known applied
  std::string str_by_dims(SymInt value);  // str(), with the user's names of dims in place of s0, s1

  // ---- guards and assertions ----
  // A trace is of its example: comparisons are answered by it, and nothing is learned from them.
  void answer_by_example() { by_example_ = true; }
  const std::vector<Guard>& guards() const { return guards_; }
  const std::vector<RuntimeAssert>& runtime_asserts() const { return runtime_asserts_; }
  // Guards that symbol ranges and equalities alone do not imply, in terms of the symbols that remain.
  std::vector<Guard> open_guards();
  // torch._check: known at once, a guard from the hints, or a run-time assertion. Throws `message` if false.
  void check(SymBool condition, std::string message = {}, Loc loc = Loc::here());
  void check_is_size(SymInt value, Loc loc = Loc::here());
  void constrain_range(SymInt value, Range range, Loc loc = Loc::here());

  // ---- for the rest of this room ----
  struct SymbolInfo {
    std::string name, source, display_name;
    std::optional<int64_t> hint;
    Range range;     // assumed in the capture
    Range declared;  // the user's
    Range learned;   // by guards alone
    bool unbacked = false;
    bool size_like = false;
    bool boolean = false;
    bool real = false;  // stands for a float
    Loc loc, min_loc, max_loc;
    sym::ExprId expr = 0;
    std::optional<sym::ExprId> replacement;
    std::optional<size_t> replaced_by_guard;
  };
  const SymbolInfo& symbol(uint32_t index) const { return symbols_[index]; }
  size_t symbol_count() const { return symbols_.size(); }
  sym::ExprTable& table() { return table_; }
  SymInt wrap(sym::ExprId id) const;
  sym::ExprId unwrap(SymInt value);
  uint32_t skip_symbol_name() { return backed_count_++; }

  SymInt arithmetic(sym::Op op, SymInt a, SymInt b);
  SymInt truncated_product(SymInt size, double factor);
  SymInt real(double value);  // a number that may stand beside symbolic floats
  SymInt real(sym::Real function, SymInt a, SymInt b = 0);
  SymInt rounded(SymInt real);
  std::optional<double> real_hint(SymInt value);
  std::optional<bool> decide(sym::Op op, SymInt a, SymInt b);  // without a guard
  bool guard(sym::Op op, SymInt a, SymInt b, Loc loc);
  bool guard_condition(SymBool condition, Loc loc);
  int64_t guard_value(SymInt value, Loc loc);
  double guard_real(SymInt value, Loc loc);
  bool guard_eq_or(SymInt a, SymInt b, bool otherwise, Loc loc);
  bool require_eq(SymInt a, SymInt b, Loc loc);
  SymBool compare(sym::Op op, SymInt a, SymInt b);
  SymBool connective(sym::Kind kind, SymBool a, SymBool b);
  SymBool negate(SymBool a);

 private:
  using Lock = std::lock_guard<std::recursive_mutex>;
  struct Fact {
    Range range;
    std::unordered_set<int64_t> excluded;
  };

  SymInt new_symbol(SymbolInfo info);
  sym::ExprId resolve(sym::ExprId id);
  sym::ExprId resolve(sym::ExprId id, int depth);
  sym::ExprId resolve_node(sym::ExprId id, int depth);
  sym::ExprId simplify_node(sym::ExprId id);
  Range bound(sym::ExprId id, int depth = 0);
  Range bound_node(sym::ExprId id, int depth);
  Range bound_by_structure(sym::ExprId sum, int depth);
  Range known(sym::ExprId form) const;
  std::optional<bool> decide_condition(sym::ExprId condition);
  std::optional<bool> decide_real(sym::Kind kind, sym::ExprId a, sym::ExprId b);
  std::optional<bool> decide_relation(sym::Kind kind, sym::ExprId a, sym::ExprId b);
  int beyond_sizes(sym::ExprId id) const;  // 1, -1: a constant above, below every size
  std::optional<int64_t> hint_of(sym::ExprId id);
  bool has_unhinted(sym::ExprId id);
  bool answer(sym::ExprId condition, Loc loc);
  bool has_real(sym::ExprId condition) const;
  void specialise(sym::ExprId id, Loc loc);
  void record(sym::ExprId condition, Loc loc);
  void learn(sym::ExprId condition, Loc loc, std::optional<size_t> guard);
  void learn_relation(sym::Kind kind, sym::ExprId a, sym::ExprId b, Loc loc, std::optional<size_t> guard);
  void narrow(sym::ExprId id, Range to, Loc loc, std::optional<size_t> guard, int depth = 0);
  void narrow_symbol(uint32_t index, Range to, Loc loc, std::optional<size_t> guard);
  void narrow_increasing(sym::ExprId form, Range to, Loc loc, std::optional<size_t> guard);
  void exclude(sym::ExprId form, int64_t value, Loc loc);
  void replace(uint32_t index, sym::ExprId by, Loc loc, std::optional<size_t> guard);
  void use_equality(sym::ExprId difference, Loc loc, std::optional<size_t> guard);
  void defer(sym::ExprId condition, std::string message, Loc loc);
  [[noreturn]] void fail_data_dependent(sym::ExprId id, Loc loc);
  std::string text(sym::ExprId id, sym::Style style = sym::Style::sympy) const;

  uint32_t index_ = 0;
  mutable std::recursive_mutex mutex_;
  sym::ExprTable table_;
  std::vector<SymbolInfo> symbols_;
  std::vector<std::string> names_, dim_names_;  // by symbol: s0, and what users call it
  std::unordered_map<std::string, uint32_t> by_name_;
  std::unordered_map<int64_t, uint32_t> by_hint_;  // duck sizing
  std::unordered_map<sym::ExprId, Fact> facts_;
  std::vector<Guard> guards_;
  bool by_example_ = false;
  std::unordered_set<sym::ExprId> guarded_;
  std::vector<RuntimeAssert> runtime_asserts_;
  uint32_t backed_count_ = 0, unbacked_count_ = 0, float_count_ = 0;

  // Answers for this version of what is known; a new fact makes a new version.
  uint32_t version_ = 1;
  bool quiet_ = false;  // narrowing follows from assumptions, not from a guard
  struct Memo {
    uint32_t bound_version = 0, resolve_version = 0;
    Range bound;
    sym::ExprId resolved = 0;
  };
  std::vector<Memo> memo_;
  Memo& memo(sym::ExprId id);
};

bool is_condition(SymInt value);  // stands for a bool: "Eq(u0, 1)"

// "Invalid value range for 30 between [4, 7]", if it is outside.
std::optional<std::string> range_violation(int64_t value, Range range);
std::string loc_text(Loc loc);  // "net.cpp:12", empty if unknown

}  // namespace tern
