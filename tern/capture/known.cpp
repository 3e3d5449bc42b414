#include "tern/capture/known.h"

#include "tern/base/error.h"
#include "tern/ops.h"

namespace tern::capture {
namespace {

constexpr int64_t max_elements = 16;  // what sizes are put together in; more is data

bool is_small(const Tensor& t) {
  return t.defined() && !t.is_symbolic() && t.int_numel() <= max_elements && !t.is_meta();
}

constexpr unsigned every_rung = rung_record | rung_autograd | rung_functional | rung_core | rung_fake;

}  // namespace

const KnownTensors::Entry* KnownTensors::find(const Tensor& t) const {
  if (!t.defined()) return nullptr;
  auto it = entries_.find(t.body());
  return it == entries_.end() ? nullptr : &it->second;
}

std::optional<Value> KnownTensors::number(const Tensor& t) const {
  const Entry* e = find(t);
  if (!e) return std::nullopt;
  if (!e->real.defined()) return Value(e->symbol);
  if (e->real.int_numel() != 1) return std::nullopt;
  Scalar s = read_scalar(e->real);
  if (e->real.dtype() == kBool) return Value(s.to_double() != 0);
  return Value(s);
}

void KnownTensors::set(const Tensor& t, const Value& number) {
  if (number.is_int() && number.sym().is_symbolic()) {
    entries_[t.body()] = {t, {}, number.sym()};
    return;
  }
  Exclude for_real(every_rung);
  set_constant(t, scalar_tensor(number.scalar(), t.dtype()));
}

void KnownTensors::set_constant(const Tensor& t, const Tensor& real) {
  if (!is_small(real) || real.is_fake()) return;
  Exclude for_real(every_rung);
  entries_[t.body()] = {t, real.detach(), 0};
}

// The value with known tensors in the place of captured ones; false when one is not known.
bool KnownTensors::real_value(const Value& v, Value& real, bool& any) const {
  if (v.is_tensor()) {
    if (!v.tensor().defined()) return real = v, true;
    const Entry* e = find(v.tensor());
    if (!e || !e->real.defined()) return false;
    any = true;
    real = e->real;
    return true;
  }
  if (v.is_int() && v.sym().is_symbolic()) return false;
  if (v.is_list() || v.is_tuple()) {
    std::vector<Value> items(v.items().size());
    for (size_t i = 0; i < items.size(); ++i)
      if (!real_value(v.items()[i], items[i], any)) return false;
    real = v.is_list() ? Value::list(std::move(items), v.element_type()) : Value::tuple(std::move(items));
    return true;
  }
  real = v;
  return !v.is_dict() && !v.is_object();
}

void KnownTensors::forget_memory(const Tensor& t) {
  for (auto it = entries_.begin(); it != entries_.end();)
    it = it->second.kept.storage() == t.storage() ? entries_.erase(it) : std::next(it);
}

void KnownTensors::follow(const Op& op, Span<const Value> inputs, Span<const Value> results) {
  const Schema& schema = op.schema();
  if (schema.mutates()) {
    for (size_t i = 0; i < inputs.size() && i < schema.args.size(); ++i)
      if (schema.args[i].alias.write && inputs[i].is_tensor() && inputs[i].tensor().defined())
        forget_memory(inputs[i].tensor());
    return;
  }
  if (op.is(op_random | op_impure) || results.size() != 1 || !results[0].is_tensor() ||
      !is_small(results[0].tensor()) || entries_.count(results[0].tensor().body()))
    return;
  const Tensor& result = results[0].tensor();
  if (std::optional<SymInt> s = symbolic(op, inputs)) {
    if (result.dim() == 0 && result.dtype() == kLong) set(result, *s);
    return;
  }
  std::vector<Value> real(inputs.size());
  bool any = false;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!real_value(inputs[i], real[i], any)) return;
  if (!any && std::string_view(op.text).find("empty") != std::string_view::npos) return;
  Exclude for_real(every_rung);
  NoGrad no_grad;
  try {
    Bound bound(op, real);
    Value out[1];
    if (op.results > 1) return;
    call(op, bound.args(), out);
    if (out[0].is_tensor()) set_constant(result, out[0].tensor());
  } catch (const Error&) {
    // Its time to fail is when the program runs.
  }
}

std::optional<SymInt> KnownTensors::integer(const Value& v) const {
  if (v.is_int()) return v.sym();
  if (!v.is_tensor()) return std::nullopt;
  const Entry* e = find(v.tensor());
  if (!e) return std::nullopt;
  if (!e->real.defined()) return e->symbol;
  if (e->real.dim() != 0 || e->real.dtype() != kLong) return std::nullopt;
  return SymInt(static_cast<int64_t>(read_scalar(e->real).to_int()));
}

// Arithmetic on sizes, where one of them is a symbol.
std::optional<SymInt> KnownTensors::symbolic(const Op& op, Span<const Value> inputs) const {
  bool any = false;
  for (const Value& v : inputs)
    if (v.is_tensor())
      if (const Entry* e = find(v.tensor())) any |= !e->real.defined();
  if (!any) return std::nullopt;
  std::optional<SymInt> a = inputs.empty() ? std::nullopt : integer(inputs[0]);
  if (!a) return std::nullopt;
  std::string_view text = op.text, name = text.substr(0, text.find_first_of("(."));
  for (std::string_view same :
       {"detach", "clone", "alias", "lift_fresh", "lift_fresh_copy", "contiguous", "to", "_to_copy"})
    if (name == same) return a;
  if (name == "neg") return SymInt(0) - *a;
  std::optional<SymInt> b = inputs.size() > 1 ? integer(inputs[1]) : std::nullopt;
  if (!b) return std::nullopt;
  auto alpha_is_one = [&] {
    return inputs.size() < 3 || (inputs[2].is_int() && surely_eq(inputs[2].sym(), 1));
  };
  if (name == "add" && alpha_is_one()) return *a + *b;
  if (name == "sub" && alpha_is_one()) return *a - *b;
  if (name == "rsub" && alpha_is_one()) return *b - *a;
  if (name == "mul") return *a * *b;
  bool floors = name == "floor_divide" || (name == "div" && inputs.size() > 2 && inputs[2].is_string() &&
                                           inputs[2].string() == "floor");
  if (floors) return floor_div(*a, *b);
  if (name == "remainder") return mod(*a, *b);
  return std::nullopt;
}

}  // namespace tern::capture
