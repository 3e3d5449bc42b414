// Walks over expressions: their value under given symbols, and substitution.
#pragma once
#include <algorithm>

#include "tern/base/error.h"
#include "tern/sym/expr.h"
#include "tern/sym/range.h"

namespace tern::sym {

template <class F>
std::optional<double> evaluate_real(const ExprTable& table, ExprId id, F&& value_of, int depth = 0);

// nullopt where `value_of(symbol index)` is; throws on division by zero, overflow and absurd depth.
template <class F>
std::optional<int64_t> evaluate(const ExprTable& table, ExprId id, F&& value_of, int depth = 0) {
  if (depth > 2000) fail(ErrorKind::value, "symbolic size: an expression nested deeper than 2000 levels");
  const Node& n = table.node(id);
  if (n.kind == Kind::constant) return n.value;
  if (n.kind == Kind::symbol) return value_of(static_cast<uint32_t>(n.value));
  if (n.kind == Kind::real_symbol || n.kind == Kind::real_constant || n.kind == Kind::real)
    return std::nullopt;
  if (n.kind == Kind::rounded) {
    std::optional<double> real = evaluate_real(table, n.items[0].expr, value_of, depth + 1);
    return real ? std::optional(truncate(*real, 1)) : std::nullopt;
  }
  if (is_relation(n.kind) && (table.is_real(n.items[0].expr) || table.is_real(n.items[1].expr))) {
    std::optional<double> a = evaluate_real(table, n.items[0].expr, value_of, depth + 1),
                          b = evaluate_real(table, n.items[1].expr, value_of, depth + 1);
    return a && b ? std::optional<int64_t>(holds(n.kind, *a, *b)) : std::nullopt;
  }
  auto overflow = [] { fail(ErrorKind::value, "symbolic size: the value does not fit 64 bits"); };
  std::optional<int64_t> out;
  for (size_t i = 0; i < n.count; ++i) {
    std::optional<int64_t> item = evaluate(table, n.items[i].expr, value_of, depth + 1);
    if (!item) return std::nullopt;
    int64_t v = *item, f = n.items[i].factor;
    switch (n.kind) {
      case Kind::sum: {
        int64_t scaled, total;
        if (__builtin_mul_overflow(v, f, &scaled) || __builtin_add_overflow(out.value_or(0), scaled, &total))
          overflow();
        out = total;
        break;
      }
      case Kind::product: {
        int64_t total = out.value_or(1);
        for (int64_t k = 0; k < f; ++k)
          if (__builtin_mul_overflow(total, v, &total)) overflow();
        out = total;
        break;
      }
      case Kind::min:
        out = out ? std::min(*out, v) : v;
        break;
      case Kind::max:
        out = out ? std::max(*out, v) : v;
        break;
      case Kind::all:
        out = out.value_or(1) && v;
        break;
      case Kind::any:
        out = out.value_or(0) || v;
        break;
      case Kind::negation:
        out = !v;
        break;
      case Kind::truncated:
        out = truncate(n.factor(), v);
        break;
      default:  // two operands
        if (i == 0) {
          out = v;
          break;
        }
        switch (n.kind) {
          case Kind::floor_div:
          case Kind::mod:
            if (v == 0) fail(ErrorKind::value, "symbolic size: division by zero");
            if (v == -1 && *out == INT64_MIN) overflow();
            out = n.kind == Kind::mod ? mod_int(*out, v) : floor_div_int(*out, v);
            break;
          case Kind::eq:
            out = *out == v;
            break;
          case Kind::ne:
            out = *out != v;
            break;
          case Kind::lt:
            out = *out < v;
            break;
          case Kind::le:
            out = *out <= v;
            break;
          case Kind::gt:
            out = *out > v;
            break;
          default:
            out = *out >= v;
            break;
        }
    }
  }
  return out;
}

// The same of an expression that may be a float; one that comes from data has no value.
template <class F>
std::optional<double> evaluate_real(const ExprTable& table, ExprId id, F&& value_of, int depth) {
  if (depth > 2000) fail(ErrorKind::value, "symbolic size: an expression nested deeper than 2000 levels");
  const Node& n = table.node(id);
  if (n.kind == Kind::real_symbol) return std::nullopt;
  if (std::optional<double> v = table.real_value(id)) return v;
  if (n.kind != Kind::real) {
    std::optional<int64_t> v = evaluate(table, id, value_of, depth + 1);
    return v ? std::optional(static_cast<double>(*v)) : std::nullopt;
  }
  double operands[2] = {0, 0};
  for (size_t i = 0; i < n.count; ++i) {
    std::optional<double> v = evaluate_real(table, n.items[i].expr, value_of, depth + 1);
    if (!v) return std::nullopt;
    operands[i] = *v;
  }
  return real_function(n.function()).value(operands[0], operands[1]);
}

ExprId substitute(ExprTable& table, ExprId id, ExprId symbol, ExprId by);

}  // namespace tern::sym
