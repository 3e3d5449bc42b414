// The rung of nested tensors: what each operator does with them, on the buffer where elements stay in their
// place and tensor by tensor where they do not. The rules stand above autograd, so every gradient is that of
// the plain operators they call. An operator without a rule is refused in PyTorch's words.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/op_flags.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/nested/nested.h"
#include "tern/ops/nested/rules.h"

namespace tern {
namespace nested {

namespace {

bool is_nested(const Arg& a) {
  return a.kind == ArgKind::tensor && a.tensor().defined() && a.tensor().is_nested();
}
bool has_nested(const Arg& a) {
  if (a.kind != ArgKind::tensors) return is_nested(a);
  return std::any_of(a.tensors().begin(), a.tensors().end(),
                     [](const Tensor& t) { return t.defined() && t.is_nested(); });
}

// ---- element by element ----

// Also composites, which have no flag for it.
bool writes(const Op& op) { return op.is(op_inplace) || op.schema().name.view().ends_with('_'); }
// "add" for aten::add_.Tensor.
std::string plain_name(const Op& op) {
  std::string name = op.schema().name.str().substr(op.schema().name.view().find("::") + 2);
  if (writes(op) && name.back() == '_') name.pop_back();
  return name;
}

// The nested arguments have the same sizes and the others are single numbers; gives the first nested one.
const Tensor& check_elementwise(const Op& op, const Arg* args) {
  const Tensor* first = nullptr;
  int first_at = 0;
  for (int i = 0; i < op.arity; ++i) {
    if (args[i].kind == ArgKind::tensors && has_nested(args[i])) refuse(op);
    if (!is_nested(args[i])) continue;
    if (first && !nesting_of(args[i].tensor()).same_sizes(nesting_of(*first)))
      failf("{} does not support broadcasting when given a NestedTensor", plain_name(op));
    if (!first) {
      first = &args[i].tensor();
      first_at = i;
    }
  }
  for (int i = 0; i < op.arity; ++i) {
    const Arg& a = args[i];
    if (a.kind != ArgKind::tensor || !a.tensor().defined() || is_nested(a)) continue;
    if (a.tensor().dim() != 0 || (i == 0 && writes(op)))
      failf("Expected both self and other to be nested, but got a {} self and {} other",
            i < first_at ? "non-nested" : "nested", i < first_at ? "nested" : "non-nested");
  }
  return *first;
}

template <class F>
void call_replaced(const Op& op, const Arg* args, Value* results, F&& f) {
  std::vector<Tensor> made;
  made.reserve(op.arity);
  std::vector<Arg> plain(args, args + op.arity);
  for (Arg& a : plain)
    if (is_nested(a)) a = Arg(made.emplace_back(f(a.tensor())));
  call(op, plain.data(), results);
}

void in_place(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  const Nesting& n = nesting_of(self);
  bool same = n.contiguous;
  for (int i = 1; i < op.arity; ++i)
    if (is_nested(args[i])) same &= n.same_places(nesting_of(args[i].tensor()));
  std::vector<Value> ignored(static_cast<size_t>(std::max<int>(op.results, 1)));
  if (same) {
    call_replaced(op, args, ignored.data(), [](const Tensor& t) { return buffer_of(t); });
  } else {
    for (int64_t i = 0; i < n.count; ++i)
      call_replaced(op, args, ignored.data(), [&](const Tensor& t) { return part_of(t, i); });
  }
  results[0] = Value(self);
}

}  // namespace

void elementwise(const Op& op, const Arg* args, Value* results) {
  const Tensor& first = check_elementwise(op, args);
  if (writes(op)) return in_place(op, args, results);
  NestingPtr nesting = nesting_ptr(first);
  bool same = nesting->contiguous || nesting->numel() == nesting->buffer;
  for (int i = 0; i < op.arity; ++i)
    if (is_nested(args[i])) same &= nesting->same_places(nesting_of(args[i].tensor()));
  if (!same) nesting = packed_like(*nesting);
  call_replaced(op, args, results, [&](const Tensor& t) { return same ? values(t) : packed(t); });
  for (int i = 0; i < op.results; ++i)
    if (results[i].is_tensor()) results[i] = Value(wrap(results[i].tensor().contiguous(), nesting));
}

namespace {

// ---- the same elements in other memory ----

void clone_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  auto format = args[1].is_none() ? MemoryFormat::preserve : static_cast<MemoryFormat>(args[1].to_int());
  if (format == MemoryFormat::preserve) return elementwise(op, args, results);
  if (format != MemoryFormat::contiguous)
    fail("clone_nested only supports memory format Preserve, but got another one instead.");
  const Nesting& n = nesting_of(self);
  results[0] = Value(wrap(n.contiguous ? clone(values(self)) : packed(self), packed_like(n)));
}
void to_copy_rule(const Op& op, const Arg* args, Value* results) {
  int device = op.schema().find("device");
  if (device >= 0 && !args[device].is_none() && args[device].device().type != DeviceType::cpu)
    failf(ErrorKind::not_supported, "Could not run '{}': a nested tensor cannot be on the device {}",
          op.qualified(), args[device].device().str());
  elementwise(op, args, results);
}
void same_memory(const Op&, const Arg* args, Value* results) {
  results[0] = Value(view(args[0].tensor(), nesting_ptr(args[0].tensor())));
}
void detach_rule(const Op&, const Arg* args, Value* results) {
  results[0] = Value(args[0].tensor().shallow_copy());
}
void copy_into(const Op& op, const Arg* args, Value* results) {
  if (!is_nested(args[0]) || !is_nested(args[1])) fail("get_nested_tensor_impl requires a NestedTensor.");
  if (!nesting_of(args[0].tensor()).same_sizes(nesting_of(args[1].tensor())))
    fail("copy_ only supports tensors that are the same size for Nested implementations");
  elementwise(op, args, results);
}
// PyTorch compares with numbers only.
void eq_rule(const Op& op, const Arg* args, Value* results) {
  if (is_nested(args[1])) fail("eq does not support nested tensor as other value.");
  elementwise(op, args, results);
}
void is_same_size_rule(const Op&, const Arg* args, Value* results) {
  results[0] = Value(is_nested(args[0]) && is_nested(args[1]) &&
                     nesting_of(args[0].tensor()).same_sizes(nesting_of(args[1].tensor())));
}

// The body of the operator asks for nothing that a nested tensor does not have.
void by_body(const Op& op, const Arg* args, Value* results) {
  if (op.check) op.check(args);
  op.body(op, args, results);
}
void by_kernel(const Op& op, const Arg* args, Value* results) { run_kernel(op, args, results); }

// Element by element, though no loop of their own says so. (Aliases, and bodies of pointwise operators.)
constexpr const char* elementwise_names[] = {"fill_",
                                             "zero_",
                                             "fill",
                                             "zero",
                                             "empty_like",
                                             "zeros_like",
                                             "ones_like",
                                             "full_like",
                                             "rand_like",
                                             "randn_like",
                                             "bernoulli",
                                             "bernoulli_",
                                             "dropout",
                                             "native_dropout",
                                             "masked_fill",
                                             "rsub",
                                             "square",
                                             "absolute",
                                             "arccos",
                                             "arccosh",
                                             "arcsin",
                                             "arcsinh",
                                             "arctan",
                                             "arctan2",
                                             "arctanh",
                                             "clamp",
                                             "clip",
                                             "clamp_min",
                                             "clamp_max",
                                             "copysign",
                                             "deg2rad",
                                             "divide",
                                             "fix",
                                             "float_power",
                                             "gelu",
                                             "gelu_backward",
                                             "greater",
                                             "greater_equal",
                                             "isclose",
                                             "isfinite",
                                             "isneginf",
                                             "isposinf",
                                             "isreal",
                                             "ldexp",
                                             "less",
                                             "less_equal",
                                             "log_sigmoid",
                                             "multiply",
                                             "negative",
                                             "not_equal",
                                             "positive",
                                             "rad2deg",
                                             "real",
                                             "relu6",
                                             "selu",
                                             "special_digamma",
                                             "special_erf",
                                             "special_erfc",
                                             "special_erfinv",
                                             "special_exp2",
                                             "special_expit",
                                             "special_expm1",
                                             "special_gammainc",
                                             "special_gammaincc",
                                             "special_gammaln",
                                             "special_i0",
                                             "special_log1p",
                                             "special_logit",
                                             "special_ndtr",
                                             "special_psi",
                                             "special_round",
                                             "special_sinc",
                                             "special_xlogy",
                                             "subtract",
                                             "true_divide"};

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> table = [] {
    std::unordered_map<std::string_view, Rule> all = {
        {"clone", clone_rule},
        {"_to_copy", to_copy_rule},
        {"detach", detach_rule},
        {"detach_", by_kernel},
        {"alias", same_memory},
        {"lift_fresh", same_memory},
        {"copy_", copy_into},
        {"eq", eq_rule},
        {"is_same_size", is_same_size_rule},
        {"values", by_kernel},
        // Composites of operators that have rules.
        {"to", by_body},
        {"type_as", by_body},
        {"contiguous", by_body},
        {"conj", by_body},
        {"resolve_conj", by_body},
        {"resolve_neg", by_body},
        {"softmax", by_body},
        {"log_softmax", by_body},
        {"mT", by_body},
        {"swapaxes", by_body},
        {"swapdims", by_body},
        {"is_floating_point", by_body},
        {"is_complex", by_body},
        {"is_signed", by_body},
        {"is_conj", by_body},
        {"is_neg", by_body},
        {"values_copy", by_body},
        {"_nested_tensor_size", by_body},
        {"_nested_tensor_strides", by_body},
        {"_nested_tensor_storage_offsets", by_body},
        {"to_padded_tensor", by_body},
        {"nested_to_padded_tensor", by_body},
        {"_nested_from_padded_and_nested_example", by_body},
    };
    for (const char* name : elementwise_names) all.emplace(name, elementwise);
    for (auto& [name, rule] : view_rules()) all.emplace(name, rule);
    for (auto& [name, rule] : compute_rules()) all.emplace(name, rule);
    return all;
  }();
  return table;
}

Rule rule_of(const Op& op) {
  std::string_view name = op.schema().name.view();
  if (name.starts_with("aten::"))
    if (auto it = rules().find(name.substr(6)); it != rules().end()) return it->second;
  if (op.is(op_pointwise) || (op.functional && op.functional->is(op_pointwise))) return elementwise;
  // With a number in the place of a tensor, and x_ of an operator that is element by element, it is so too.
  const std::string plain = "aten::" + plain_name(op);
  if (op.schema().overload.view().find("Scalar") != std::string_view::npos)
    for (const Op* other : overloads(Symbol(plain)))
      if (other->is(op_pointwise)) return elementwise;
  if (writes(op))
    if (auto it = rules().find(std::string_view(plain).substr(6));
        it != rules().end() && it->second == elementwise)
      return elementwise;
  return nullptr;
}

}  // namespace
}  // namespace nested

bool nested_call(const Op& op, const Arg* args, Value* results, uint8_t bits) {
  using namespace nested;
  if (std::none_of(args, args + op.arity, has_nested)) return false;
  if (bits & (rung_functional | rung_core))
    failf(ErrorKind::not_supported,
          "{}: a nested tensor cannot be exported: its sizes are numbers in it, not part of the program; use "
          "to_padded_tensor() outside of what is exported",
          op.qualified());
  const Rule rule = rule_of(op);
  if (!rule || op.is(op_out)) refuse(op);
  if (bits & rung_autograd) {
    // What has a formula for nested tensors themselves: the buffer, and changes in place.
    if (rule == by_kernel || (writes(op) && !op.is(op_composite))) return false;
    if (writes(op)) return by_body(op, args, results), true;
  }
  rule(op, args, results);
  return true;
}

}  // namespace tern
