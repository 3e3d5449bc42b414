#include "tern/export/pt2_symbols.h"

#include <utility>

#include "tern/dispatch/op.h"
#include "tern/export/pt2_schema.h"
#include "tern/sym/evaluate.h"
#include "tern/sym/shape_env.h"

namespace tern::pt2 {

// The expression that an integer of the graph stands for.
SymInt GraphSymbols::of(const ir::Value& v) {
  auto [it, fresh] = symbols_.try_emplace(&v, SymInt(0));
  if (!fresh) return it->second;
  SymInt s = compute(v);
  if (missing_)
    symbols_.erase(&v);
  else
    symbols_[&v] = s;
  return s;
}

std::optional<SymInt> GraphSymbols::known(const ir::Value& v) {
  only_known_ = true;
  missing_ = false;
  SymInt s = of(v);
  only_known_ = false;
  return std::exchange(missing_, false) ? std::nullopt : std::optional(s);
}
SymInt GraphSymbols::of(const ir::Operand& o) {
  if (o.is_value()) return of(o.value());
  if (o.is_constant() && o.constant().is_int()) return o.constant().sym();
  if (o.is_constant() && o.constant().is_bool()) return o.constant().to_bool() ? 1 : 0;
  if (o.is_constant() && o.constant().is_float()) return shapes_.real(o.constant().to_double());
  missing_ |= only_known_;
  return only_known_ ? SymInt(0) : shapes_.create_unbacked_symint("number");
}
SymInt GraphSymbols::compute(const ir::Value& v) {
  const ir::Node* n = v.node();
  bool real = v.type()->is(ir::TypeKind::float_);
  if (!n) return new_symbol(v, "input");
  if (const Value* meta = n->meta("unbacked_symbol")) return meta->sym();
  if (n->is("aten::sym_size") && n->input(0).is_value()) {
    const ir::Type& type = *n->input(0).value().type();
    if (type.has_sizes() && n->input(1).is_constant()) {
      int64_t d = n->input(1).constant().to_int(), rank = static_cast<int64_t>(type.sizes().size());
      if (d >= -rank && d < rank) return type.sizes()[static_cast<size_t>(d < 0 ? d + rank : d)];
    }
  }
  std::string_view kind = n->kind().view();
  if (const SymFunction* f = sym_function_of_kind(kind)) {
    std::string_view name = f->target.substr(f->target.rfind('.') + 1);
    auto a = [&] { return of(n->input(0)); };
    auto b = [&] { return of(n->input(1)); };
    if (only_known_ && n->inputs().size() > 1 && (a(), b(), missing_)) return 0;
    if (name == "truediv")
      return shapes_.real(a().is_real() || b().is_real() ? sym::Real::divide : sym::Real::int_divide, a(),
                          b());
    if (name == "pow" && real) return shapes_.real(sym::Real::pow, a(), b());
    if (name == "neg" && real) return shapes_.real(sym::Real::neg, a());
    if (name == "sym_float") return shapes_.real(sym::Real::to_float, a());
    if (name == "sym_sqrt") return shapes_.real(sym::Real::sqrt, a());
    if (name == "trunc" && a().is_real()) return shapes_.rounded(a());
    if (name == "add") return a() + b();
    if (name == "sub") return a() - b();
    if (name == "mul") return a() * b();
    if (name == "neg") return -a();
    if (name == "pos") return a();
    if (name == "floordiv") return floor_div(a(), b());
    if (name == "mod") return mod(a(), b());
    if (name == "sym_max") return sym_max(a(), b());
    if (name == "sym_min") return sym_min(a(), b());
    static constexpr std::pair<std::string_view, sym::Op> comparisons[] = {
        {"eq", sym::Op::eq}, {"ne", sym::Op::ne}, {"lt", sym::Op::lt},
        {"le", sym::Op::le}, {"gt", sym::Op::gt}, {"ge", sym::Op::ge}};
    for (const auto& [text, op] : comparisons)
      if (name == text) return sym_compare(op, a(), b()).as_expr();
    if (name == "and_") return sym_and(SymBool::from_expr(a()), SymBool::from_expr(b())).as_expr();
    if (name == "or_") return sym_or(SymBool::from_expr(a()), SymBool::from_expr(b())).as_expr();
    if (name == "sym_not") return sym_not(SymBool::from_expr(a())).as_expr();
  }
  return new_symbol(v, v.name());
}

SymInt GraphSymbols::new_symbol(const ir::Value& v, std::string source) {
  if (only_known_) {
    missing_ = true;
    return 0;
  }
  if (v.type()->is(ir::TypeKind::float_))
    return shapes_.create_unbacked_float_symbol(std::move(source), Loc{});
  return shapes_.create_unbacked_symint(std::move(source));
}

}  // namespace tern::pt2
