#include "tern/sym/input_checks.h"

#include <algorithm>

#include "tern/base/format.h"

namespace tern {

using sym::ExprId;
using sym::Kind;

InputChecks::InputChecks(ShapeEnv& env, std::vector<InputSize> inputs, Span<const Guard> conditions)
    : env_(&env), inputs_(std::move(inputs)) {
  std::vector<bool> bound(env.symbol_count(), false);
  sym::ExprTable& table = env.table();
  auto symbols_of = [&](SymInt value) {
    std::vector<uint32_t> symbols;
    if (value.is_symbolic()) table.collect_symbols(env.unwrap(value), symbols);
    return symbols;
  };
  auto all_bound = [&](SymInt value) {
    std::vector<uint32_t> symbols = symbols_of(value);
    return std::all_of(symbols.begin(), symbols.end(), [&](uint32_t s) { return bound[s]; });
  };
  std::vector<size_t> late;  // mention symbols that a later input binds
  for (size_t i = 0; i < inputs_.size(); ++i) {
    SymInt size = env.simplify(inputs_[i].size);
    if (size.is_int()) {
      rows_.push_back({InputCheck::Kind::equal_int, i, size.as_int()});
      continue;
    }
    sym::ExprTable::Normal n = table.normalise(env.unwrap(size));
    const sym::Node& form = table.node(n.form);
    if (all_bound(size)) {
      rows_.push_back({.kind = InputCheck::Kind::equal_expr, .input = i, .expr = size});
    } else if (form.kind == Kind::symbol) {
      rows_.push_back({.kind = InputCheck::Kind::solve,
                       .input = i,
                       .value = n.factor,
                       .offset = n.offset,
                       .symbol = env.wrap(n.form),
                       .expr = size});
      bound[static_cast<size_t>(form.value)] = true;
    } else {
      late.push_back(i);
    }
    // Sizes of 0 and 1 are let through, as in PyTorch: a capture takes sizes as >= 2 unless told otherwise.
    Range range = env.declared_range(size);
    if (range.min > 2) rows_.push_back({InputCheck::Kind::at_least, i, range.min});
    if (range.max < Range::infinity) rows_.push_back({InputCheck::Kind::at_most, i, range.max});
  }
  for (size_t i : late) {
    SymInt size = env.simplify(inputs_[i].size);
    if (all_bound(size)) rows_.push_back({.kind = InputCheck::Kind::equal_expr, .input = i, .expr = size});
  }
  for (uint32_t s = 0; s < env.symbol_count(); ++s) {
    if (!env.symbol(s).replacement) continue;
    SymInt by = env.simplify(env.wrap(env.symbol(s).expr));
    if (all_bound(by)) replaced_.emplace_back(s, by);
  }
  for (const Guard& g : conditions)
    if (g.condition.is_symbolic() && all_bound(g.condition.as_expr()))
      rows_.push_back(
          {.kind = InputCheck::Kind::condition, .input = 0, .expr = g.condition.as_expr(), .loc = g.loc});
}

std::string InputChecks::place(const InputSize& input) const {
  return input.dim < 0 ? input.path : fmt::format("{}.shape[{}]", input.path, input.dim);
}

std::optional<std::string> InputChecks::first_violation(Span<const int64_t> sizes) const {
  SymValues values;
  return check(sizes, values);
}

SymValues InputChecks::solve(Span<const int64_t> sizes) const {
  SymValues values;
  if (std::optional<std::string> violation = check(sizes, values)) fail(ErrorKind::runtime, *violation);
  for (auto& [symbol, by] : replaced_) values.set_index(symbol, env_->evaluate(by, values));
  return values;
}

std::optional<std::string> InputChecks::check(Span<const int64_t> sizes, SymValues& values) const {
  if (sizes.size() != inputs_.size())
    return fmt::format("Unexpected number of input sizes (expected {}, got {})", inputs_.size(),
                       sizes.size());
  for (const InputCheck& row : rows_) {
    if (row.kind == InputCheck::Kind::condition) {
      if (env_->evaluate(row.expr, values)) continue;
      std::string known, at = loc_text(row.loc);
      std::vector<uint32_t> symbols;
      env_->table().collect_symbols(env_->unwrap(row.expr), symbols);
      for (uint32_t s : symbols)
        known += fmt::format("{}{} = {}", known.empty() ? "" : ", ", env_->symbol(s).name, *values.get(s));
      return fmt::format("Expected the input sizes to satisfy {}{}, but got {}",
                         env_->str_as_asked(row.expr, sym::Style::python), at.empty() ? "" : " (" + at + ")",
                         known);
    }
    const InputSize& input = inputs_[row.input];
    int64_t got = sizes[row.input];
    switch (row.kind) {
      case InputCheck::Kind::equal_int:
        if (got != row.value)
          return fmt::format(
              "Expected input at {} to be equal to {}, but got {}. If you meant for this dimension to be "
              "dynamic, export again and "
              "give it a Dim in dynamic_shapes (e.g. Dim.DYNAMIC)",
              place(input), row.value, got);
        break;
      case InputCheck::Kind::solve: {
        int64_t rest;
        if (__builtin_sub_overflow(got, row.offset, &rest) || rest % row.value != 0)
          return fmt::format("Expected input {} = {} to be of the form {}, where {} is an integer",
                             place(input), got, row.expr.str(), row.symbol.str());
        values.set(row.symbol, rest / row.value);
        break;
      }
      case InputCheck::Kind::equal_expr:
        if (int64_t wanted = env_->evaluate(row.expr, values); got != wanted)
          return fmt::format("Expected input at {} to be equal to {}, but got {}", place(input), wanted, got);
        break;
      case InputCheck::Kind::at_least:
        if (got < row.value)
          return fmt::format("Expected input at {} to be >= {}, but got {}", place(input), row.value, got);
        break;
      case InputCheck::Kind::at_most:
        if (got > row.value)
          return fmt::format("Expected input at {} to be <= {}, but got {}", place(input), row.value, got);
        break;
      case InputCheck::Kind::condition:
        break;
    }
  }
  return std::nullopt;
}

}  // namespace tern
