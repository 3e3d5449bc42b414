#include "tern/ir/resolve.h"

#include "tern/dispatch/op.h"

namespace tern::ir {

const Type* type_of(const In& in) {
  if (in.is_value()) return in.value()->type();
  if (in.is_constant()) return Type::of(in.constant());
  const Type* element = nullptr;
  for (const In& item : in.items()) {
    const Type* t = type_of(item);
    if (t->is_tensor()) t = Type::tensor();
    if (t->is(TypeKind::none)) continue;
    element = !element || element == t ? t : Type::any();
  }
  return Type::list(element ? element : Type::any());
}

const Op* resolve_overload(Symbol name, Span<const In> inputs, Span<const std::pair<Symbol, In>> keywords,
                           size_t results) {
  const std::vector<const Op*>& candidates = overloads(name);
  if (candidates.empty()) return nullptr;
  std::vector<const Type*> types;
  for (const In& in : inputs) types.push_back(type_of(in));
  auto takes = [&](const SchemaArg& a, const In& in, const Type& t) {
    bool empty_list = in.is_constant() && in.constant().is_list() && in.constant().items().empty();
    return empty_list ? a.type.list || a.type.base == BaseType::any : t.fits(a.type);
  };
  for (const Op* op : candidates) {
    const Schema& s = op->schema();
    if (inputs.size() > s.args.size() || (!s.varret && s.returns.size() != results)) continue;
    std::vector<bool> given(s.args.size());
    bool fits = true;
    for (size_t i = 0; fits && i < inputs.size(); ++i) {
      fits = takes(s.args[i], inputs[i], *types[i]);
      given[i] = true;
    }
    for (auto& [key, in] : keywords) {
      int at = s.find(key);
      fits = fits && at >= 0 && !given[at] && takes(s.args[at], in, *type_of(in));
      if (fits) given[at] = true;
    }
    for (size_t i = 0; fits && i < s.args.size(); ++i)
      fits = given[i] || s.args[i].default_value || s.args[i].type.accepts_none();
    if (fits) return op;
  }
  return nullptr;
}

}  // namespace tern::ir
