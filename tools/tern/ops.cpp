// tern ops: the table of operators, as the registry has it. Which dtypes an operator takes is found by
// trying: nothing here is written down twice.
#include <algorithm>
#include <cstdio>
#include <map>

#include "commands.h"
#include "ops_arguments.h"
#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/onnx/lower.h"
#include "tern/ops.h"

namespace tern::command {
namespace {

constexpr DType tried_types[] = {DType::bool_,   DType::uint8,   DType::int8,      DType::int16,
                                 DType::int32,   DType::int64,   DType::float16,   DType::bfloat16,
                                 DType::float32, DType::float64, DType::complex64, DType::complex128};
constexpr DType quantized_types[] = {DType::quint8, DType::qint8, DType::qint32};

bool any_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view w) { return text == w; });
}
bool has_word(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view w) { return text.find(w) != std::string_view::npos; });
}

// One way to call an operator: every tensor of one shape, or those that belong to channels as vectors, or
// each as its name says (vec, mat, batch); targets are classes, or values like the rest.
struct Trial {
  std::vector<int64_t> shape;
  bool vectors = false;
  bool named = false;
  bool values = false;
};
const std::vector<Trial>& trials() {
  static const auto* all =
      new std::vector<Trial>{{{3, 3}, false},         {{4}, false},          {{}, false},
                             {{2, 3, 3}, false},      {{1, 1, 4, 4}, false}, {{1, 1, 4, 4, 4}, false},
                             {{2, 3, 4, 4}, true},    {{2, 4}, true},        {{1, 4, 1, 1}, false},
                             {{2, 2, 2, 2, 2}, true}, {{3, 3}, false, true}, {{3, 3}, false, false, true}};
  return *all;
}

Value ints_value(Span<const int64_t> items) {
  std::vector<Value> list;
  for (int64_t i : items) list.emplace_back(i);
  return Value::list(std::move(list));
}
Value repeated(int64_t value, size_t count) { return ints_value(std::vector<int64_t>(count, value)); }

Tensor tensor_for(std::string_view name, const Trial& trial, DType dtype) {
  Dims sizes;
  for (int64_t s : trial.shape) sizes.push_back(s);
  bool vector = trial.vectors && has_word(name, {"weight", "bias", "mean", "var", "std", "invstd"});
  if (trial.named) {
    if (has_word(name, {"vec", "target", "src", "grad"})) sizes = Dims{SymInt(3)};
    if (has_word(name, {"batch"})) sizes = Dims{SymInt(2), SymInt(3), SymInt(3)};
  }
  if (vector) sizes = Dims{SymInt(trial.shape.size() > 1 ? trial.shape[1] : 1)};
  if (has_word(name, {"index", "indices", "buckets", "repeats"})) return zeros(sizes, kLong);
  if (!trial.values && has_word(name, {"target"})) return zeros(sizes, kLong);
  if (has_word(name, {"mask", "condition"})) return ones(sizes, kBool);
  if (is_quantized(dtype)) return quantize_per_tensor(ones(sizes, kFloat), 0.1, 0, dtype);
  return ones(sizes, dtype);
}

std::optional<Value> value_for(const SchemaArg& a, const Trial& trial, DType dtype) {
  std::string_view name = a.name.view();
  size_t rank = trial.shape.size();
  if (a.type.base == BaseType::dtype && a.type.optional && name == "dtype") return Value(dtype);
  bool channels = (trial.vectors && a.type.base == BaseType::tensor && a.type.optional) ||
                  (trial.named && any_of(name, {"min", "max"}));
  if (a.default_value && !channels) return *a.default_value;
  if (a.type.accepts_none() && !channels) return Value();
  if (a.type.list) {
    size_t n = a.type.fixed_size ? static_cast<size_t>(a.type.fixed_size) : 1;
    switch (a.type.base) {
      case BaseType::tensor:
        return Value(std::vector<Tensor>(2, tensor_for(name, trial, dtype)));
      case BaseType::int_:
      case BaseType::sym_int:
        if (any_of(name, {"size", "shape", "sizes", "input_sizes", "self_size"}))
          return ints_value(trial.shape);
        if (any_of(name, {"dim", "dims"})) return ints_value(std::vector<int64_t>{0});
        if (any_of(name, {"normalized_shape"})) return repeated(rank ? trial.shape.back() : 1, 1);
        if (any_of(name, {"repeats", "tile"})) return repeated(1, rank);
        if (any_of(name, {"pad", "padding"}) && !a.type.fixed_size)
          return repeated(0, rank > 2 ? rank - 2 : 2);
        if (has_word(name, {"padding"})) return repeated(0, n);
        if (any_of(name, {"stride", "dilation"}) && !a.type.fixed_size)
          return repeated(1, rank > 2 ? rank - 2 : 1);
        return repeated(1, n);
      case BaseType::float_:
        return Value::list(std::vector<Value>(n, Value(1.0)));
      case BaseType::bool_:
        return Value::list(std::vector<Value>(n, Value(true)));
      case BaseType::scalar:
        return Value::list(std::vector<Value>(2, Value(1)));  // as many as a list of tensors has
      default:
        return std::nullopt;
    }
  }
  switch (a.type.base) {
    case BaseType::tensor:
      return Value(tensor_for(name, trial, dtype));
    case BaseType::int_:
    case BaseType::sym_int:
      return Value(has_word(name, {"dim", "axis", "start", "offset", "index", "diagonal", "padding",
                                   "decimals", "low", "source", "destination"})
                       ? 0
                       : 1);
    case BaseType::float_:
      return Value(0.5);
    case BaseType::scalar:
      return Value(1);
    case BaseType::bool_:
      return Value(name == "training" || name == "train");
    case BaseType::string:
      return Value(std::string(name == "equation"   ? "ij,jk->ik"
                               : name == "reduce"   ? (trial.named ? "add" : "sum")
                               : name == "indexing" ? "ij"
                               : name == "padding"  ? "valid"
                                                    : "constant"));
    case BaseType::dtype:
      return Value(dtype);
    case BaseType::device:
      return Value(kCPU);
    default:
      return std::nullopt;
  }
}

bool runs(const Op& op, const Trial& trial, DType dtype, const char* written = nullptr) {
  const Schema& schema = op.schema();
  try {
    std::vector<Value> values;
    for (const SchemaArg& a : schema.args) {
      std::optional<Value> v = written ? written_value(written, a, dtype) : std::nullopt;
      if (!v) v = value_for(a, trial, dtype);
      if (!v) return false;
      values.push_back(std::move(*v));
    }
    NoGrad no_grad;
    Bound bound(op, values);
    std::vector<Value> results(std::max<size_t>(schema.returns.size(), 1));
    call(op, bound.args(), results.data());
    return true;
  } catch (const Error&) {
    return false;
  }
}

// The dtypes that some trial takes; when no trial fits the operator, those that its table says.
std::vector<DType> dtypes_of(const Op& op) {
  std::vector<DType> found;
  if (const char* written = call_of(op)) {
    const bool quantized = takes_quantized(written);
    for (DType d : quantized ? Span<const DType>(quantized_types) : Span<const DType>(tried_types))
      if (runs(op, trials()[0], d, written)) found.push_back(d);
    if (!found.empty()) return found;
  }
  for (DType d : tried_types)
    if (std::any_of(trials().begin(), trials().end(), [&](const Trial& t) { return runs(op, t, d); }))
      found.push_back(d);
  if (found.empty() && op.kernel_name)
    for (DType d : tried_types)
      if (op.takes(d)) found.push_back(d);
  return found;
}

// "bool int float complex": whole kinds by one word, others one by one.
std::string dtypes_text(const Op& op) {
  const std::vector<DType> types = dtypes_of(op);
  const std::string schema = op.schema().str();
  if (types.empty())
    return (schema.find("__torch__.torch.classes") != std::string::npos ||
            schema.find("packed") != std::string::npos)
               ? "packed"
               : "?";
  auto has = [&](DType d) { return std::find(types.begin(), types.end(), d) != types.end(); };
  struct Kind {
    const char* word;
    std::vector<DType> members;
  };
  static const auto* kinds =
      new std::vector<Kind>{{"bool", {DType::bool_}},
                            {"int", {DType::uint8, DType::int8, DType::int16, DType::int32, DType::int64}},
                            {"half", {DType::float16, DType::bfloat16}},
                            {"float", {DType::float32, DType::float64}},
                            {"complex", {DType::complex64, DType::complex128}}};
  std::string text;
  for (const Kind& k : *kinds) {
    if (std::all_of(k.members.begin(), k.members.end(), has)) {
      text += fmt::format("{}{}", text.empty() ? "" : " ", k.word);
      continue;
    }
    for (DType d : k.members)
      if (has(d)) text += fmt::format("{}{}", text.empty() ? "" : " ", name(d));
  }
  for (DType d : quantized_types)
    if (has(d)) text += fmt::format("{}{}", text.empty() ? "" : " ", name(d));
  return text;
}

const char* gradient_text(const Op& op) {
  if (op.grad) return "formula";
  if (op.is(op_composite)) return "by its body";
  return op.is(op_no_grad) ? "none" : "";
}

const Op* inplace_of(const Op& op) {
  if (op.inplace) return op.inplace;
  const Schema& s = op.schema();
  return find_op(Symbol(s.name.str() + "_"), s.overload);
}

const Op* out_of(const Op& op) {
  if (op.out_variant) return op.out_variant;
  const Schema& s = op.schema();
  return find_op(s.name, Symbol(s.overload.view().empty() ? "out" : s.overload.str() + "_out"));
}

// Operators that are not the in-place or out= form of another, by name.
std::vector<const Op*> functional_ops() {
  std::vector<const Op*> list;
  for (const Op* op : all_ops())
    if (!op->is(op_out) && !op->is(op_inplace) && !op->schema().mutates()) list.push_back(op);
  std::sort(list.begin(), list.end(),
            [](const Op* a, const Op* b) { return a->qualified() < b->qualified(); });
  return list;
}

std::string short_name(const Op& op) {
  std::string q = op.qualified();
  return q.starts_with("aten::") ? q.substr(6) : q;
}
const char* mark(bool yes) { return yes ? "yes" : ""; }

std::string family_of(const Op& op) {
  std::string_view where = op.where;
  return std::string(where.substr(0, where.find(".ops")));
}

int list_markdown(const std::vector<const Op*>& ops) {
  std::map<std::string, std::vector<const Op*>> families;
  for (const Op* op : ops) families[family_of(*op)].push_back(op);
  size_t core = 0, lowered = 0, differentiable = 0;
  for (const Op* op : ops) {
    core += op->is(op_core);
    lowered += onnx::can_lower(*op);
    differentiable += op->grad || op->is(op_composite);
  }
  std::printf(
      "# Operators\n\nWritten by `tern ops --markdown` (`make docs`) from the registry; dtypes are found by "
      "trying. "
      "`int` are the five\nintegers, `half` float16 and bfloat16, `float` float32 and float64, `complex` "
      "complex64 "
      "and complex128; `packed`: the operator\ntakes or makes weights packed in an object.\n\n%zu operators "
      "besides their in-place and `out=` forms: %zu of core ATen, %zu with "
      "a "
      "gradient, %zu with an ONNX form.\n",
      ops.size(), core, differentiable, lowered);
  for (auto& [family, members] : families) {
    std::printf(
        "\n## %s\n\n| operator | dtypes | gradient | in place | out= | decomposition | core | ONNX |\n"
        "|---|---|---|---|---|---|---|---|\n",
        family.c_str());
    for (const Op* op : members)
      std::printf("| `%s` | %s | %s | %s | %s | %s | %s | %s |\n", short_name(*op).c_str(),
                  dtypes_text(*op).c_str(), gradient_text(*op), mark(inplace_of(*op)), mark(out_of(*op)),
                  mark(op->body), mark(op->is(op_core)), mark(onnx::can_lower(*op)));
  }
  return 0;
}

int list_text(const std::vector<const Op*>& ops) {
  std::printf("%-46s %-34s %-12s %-9s %-5s %-8s %-5s %s\n", "operator", "dtypes", "gradient", "in place",
              "out=", "decomp.", "core", "ONNX");
  for (const Op* op : ops)
    std::printf("%-46s %-34s %-12s %-9s %-5s %-8s %-5s %s\n", short_name(*op).c_str(),
                dtypes_text(*op).c_str(), gradient_text(*op), mark(inplace_of(*op)), mark(out_of(*op)),
                mark(op->body), mark(op->is(op_core)), mark(onnx::can_lower(*op)));
  std::printf("%zu operators\n", ops.size());
  return 0;
}

void show(const Op& op) {
  std::printf("%s\n", op.schema().str().c_str());
  std::printf("  defined        %s\n", op.where);
  if (op.is(op_out) || op.is(op_inplace)) {
    if (op.functional)
      std::printf("  derived from   %s\n", op.functional->qualified().c_str());
    else if (op.is(op_composite))
      std::printf("  body           in terms of other operators\n");
    return;
  }
  std::printf("  dtypes         %s\n", dtypes_text(op).c_str());
  std::string wanted;
  for (size_t i = 0; i < op.schema().args.size(); ++i)
    if (op.differentiable >> i & 1)
      wanted += fmt::format("{}{}", wanted.empty() ? "" : ", ", op.schema().args[i].name.view());
  if (op.grad)
    std::printf("  gradient       formula for %s\n", wanted.c_str());
  else
    std::printf("  gradient       %s\n", op.is(op_composite) ? "by its body"
                                         : op.is(op_no_grad) ? "none: the result has no history"
                                                             : "no formula: asking for it is an error");
  std::printf("  kernel         %s\n", op.is(op_pointwise)
                                           ? fmt::format("elementwise loop '{}'", op.loop).c_str()
                                       : op.is(op_view)      ? "a view: no data moves"
                                       : op.is(op_composite) ? "none: the body runs"
                                                             : "its own");
  std::printf("  decomposition  %s\n", op.body ? "yes" : "no");
  if (const Op* x = inplace_of(op)) std::printf("  in place       %s\n", x->qualified().c_str());
  if (const Op* out = out_of(op)) std::printf("  out=           %s\n", out->qualified().c_str());
  std::string kinds;
  for (auto [flag, word] : {std::pair{uint32_t(op_core), "core"},
                            {uint32_t(op_random), "random"},
                            {uint32_t(op_dynamic), "size depends on data"},
                            {uint32_t(op_impure), "has an effect"}})
    if (op.is(flag)) kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", word);
  if (!kinds.empty()) std::printf("  kind           %s\n", kinds.c_str());
  if (op.onnx) {
    std::string_view rules = op.onnx;
    while (!rules.empty()) {
      std::string line(rules.substr(0, rules.find('\n')));
      std::printf("  ONNX           %s\n", line.c_str());
      rules.remove_prefix(std::min(rules.size(), line.size() + 1));
    }
  } else if (onnx::can_lower(op)) {
    std::printf("  ONNX           by a function\n");
  }
}

}  // namespace

int run_ops(const Ops& options) {
  if (options.name.empty())
    return options.markdown ? list_markdown(functional_ops()) : list_text(functional_ops());
  std::string qualified =
      options.name.find("::") == std::string::npos ? "aten::" + options.name : options.name;
  std::string packet = qualified.substr(0, qualified.find('.'));
  if (qualified != packet) {
    show(get_op(qualified));
    return 0;
  }
  const std::vector<const Op*>& found = overloads(Symbol(packet));
  if (found.empty()) get_op(qualified);  // throws, with the nearest name
  for (const Op* op : found) show(*op);
  for (const Op* op : overloads(Symbol(packet + "_"))) show(*op);
  return 0;
}

}  // namespace tern::command
