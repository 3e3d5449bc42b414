// The quantized rung: what operators do with quantized tensors, where it is not what they do with integers
// of the same bytes. Views and composites need no entry; an operator without one is refused in PyTorch's
// words.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "tern/base/format.h"
#include "tern/dispatch/op_flags.h"
#include "tern/dispatch/pointwise.h"
#include "tern/dispatch/unpack.h"
#include "tern/ops.h"
#include "tern/ops/elements.h"
#include "tern/ops/quantized/norms.h"
#include "tern/ops/quantized/values.h"

namespace tern {

using namespace quantized;

namespace {

using Rule = void (*)(const Op& op, const Arg* args, Value* results);

// Arguments with other tensors in the place of the quantized ones.
struct Replaced {
  std::vector<Arg> args;
  std::vector<Tensor> tensors;
  std::vector<std::vector<Tensor>> lists;
  template <class F>
  Replaced(const Op& op, const Arg* given, F f) : args(given, given + op.arity) {
    tensors.reserve(args.size());
    lists.reserve(args.size());
    for (Arg& a : args) {
      if (a.kind == ArgKind::tensor && a.tensor().defined() && a.tensor().is_quantized()) {
        a = Arg(tensors.emplace_back(f(a.tensor())));
      } else if (a.kind == ArgKind::tensors) {
        std::vector<Tensor>& list = lists.emplace_back(a.tensors().begin(), a.tensors().end());
        for (Tensor& t : list)
          if (t.defined() && t.is_quantized()) t = f(t);
        a = Arg(Span<const Tensor>(list));
      }
    }
  }
};

const Tensor& first_quantized(const Op& op, const Arg* args) {
  for (const Arg *a = args, *end = args + op.arity; a != end; ++a) {
    if (a->kind == ArgKind::tensor && a->tensor().defined() && a->tensor().is_quantized()) return a->tensor();
    if (a->kind == ArgKind::tensors)
      for (const Tensor& t : a->tensors())
        if (t.defined() && t.is_quantized()) return t;
  }
  fail(ErrorKind::internal, "the quantized rung without a quantized tensor");
}

void call_and_wrap(const Op& op, const Arg* args, const Tensor& self, Value* results) {
  call(op, args, results);
  for (int i = 0; i < op.results; ++i)
    if (results[i].is_tensor() && results[i].tensor().dtype() == int_dtype(self.dtype()))
      results[i] = Value(quantized_view(results[i].tensor(), quantizer_ptr(self)));
}

// ---- kinds of rules ----

// Elements are moved or compared: the same operator on the integers.
void on_integers_of_any(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = first_quantized(op, args);
  Replaced plain(op, args, int_view);
  call_and_wrap(op, plain.args.data(), self, results);
}
void on_integers(const Op& op, const Arg* args, Value* results) {
  per_tensor(first_quantized(op, args));
  on_integers_of_any(op, args, results);
}
// Elements are moved by an operator that has few types: as unsigned bytes, or as floats for their bits.
void on_bits(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = first_quantized(op, args);
  per_tensor(self);
  Replaced plain(op, args, [](const Tensor& t) {
    Tensor bits = int_view(t);
    bits->dtype = t.dtype() == DType::qint32 ? kFloat : kByte;
    return bits;
  });
  call(op, plain.args.data(), results);
  Tensor moved = results[0].tensor().shallow_copy();
  moved->dtype = int_dtype(self.dtype());
  results[0] = Value(quantized_view(moved, quantizer_ptr(self)));
}
// Averages: of the steps from zero, rounded to a step again.
void on_steps(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = first_quantized(op, args);
  Replaced real(op, args, [](const Tensor& t) { return to_steps(t, kDouble); });
  call(op, real.args.data(), results);
  results[0] = Value(from_steps(results[0].tensor(), self.dtype(), quantizer_ptr(self)));
}
void on_float_steps(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = first_quantized(op, args);
  Replaced real(op, args, [](const Tensor& t) { return to_steps(t, kFloat); });
  call(op, real.args.data(), results);
  results[0] = Value(from_steps(results[0].tensor(), self.dtype(), quantizer_ptr(self)));
}
// On the real numbers; the result is what it is (comparisons).
void on_real(const Op& op, const Arg* args, Value* results) {
  Replaced real(op, args, [](const Tensor& t) { return quantized::to_real(t); });
  call(op, real.args.data(), results);
}
// On the real numbers, and back into the same quantizer.
void on_real_and_back(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = first_quantized(op, args);
  per_tensor(self);
  on_real(op, args, results);
  results[0] = Value(from_real(results[0].tensor(), self.dtype(), quantizer_ptr(self)));
}

// ---- activations ----

int64_t steps_of(const Tensor& t, const Arg& value, int64_t fallback) {
  if (value.is_none()) return fallback;
  const Quantizer& q = per_tensor(t);
  return quantize_value(q.scale, q.zero_point, t.dtype(), static_cast<float>(value.scalar().to_double()));
}
void relu_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& x = args[0].tensor();
  results[0] = Value(clamp_integers(x, per_tensor(x).zero_point, range_of(x.dtype()).high));
}
void relu6_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& x = args[0].tensor();
  const Quantizer& q = per_tensor(x);
  results[0] = Value(clamp_integers(x, q.zero_point, quantize_value(q.scale, q.zero_point, x.dtype(), 6.0f)));
}
void clamp_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& x = args[0].tensor();
  IntRange r = range_of(x.dtype());
  results[0] = Value(clamp_integers(x, steps_of(x, args[1], r.low), steps_of(x, args[2], r.high)));
}

// Results between 0 and 1, or -1 and 1, get all steps there are.
QuantizerPtr unit_quantizer(DType d, bool both_signs) {
  const double width = both_signs ? 2.0 : 1.0;
  if (d == DType::qint32) return per_tensor_quantizer(width / 4294967296.0, 0);
  return per_tensor_quantizer(width / 256, d == DType::quint8 ? (both_signs ? 128 : 0)
                                           : both_signs       ? 0
                                                              : -128);
}
void sigmoid_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& x = args[0].tensor();
  results[0] = Value(map_real(x, x.dtype(), unit_quantizer(x.dtype(), false),
                              [](float v, const float*) { return 1.0f / (1.0f + std::exp(-v)); }));
}
void hardsigmoid_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& x = args[0].tensor();
  results[0] = Value(map_real(x, x.dtype(), unit_quantizer(x.dtype(), false), [](float v, const float*) {
    return std::min(std::max(v + 3.0f, 0.0f), 6.0f) / 6.0f;
  }));
}
void tanh_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& x = args[0].tensor();
  results[0] = Value(map_real(x, x.dtype(), unit_quantizer(x.dtype(), true),
                              [](float v, const float*) { return std::tanh(v); }));
}
void leaky_relu_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& x = args[0].tensor();
  const auto slope = static_cast<float>(args[1].scalar().to_double());
  results[0] = Value(map_real(
      x, x.dtype(), quantizer_ptr(x), [](float v, const float* p) { return v > 0 ? v : v * p[0]; }, &slope));
}
void threshold_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& x = args[0].tensor();
  const float p[] = {static_cast<float>(args[1].scalar().to_double()),
                     static_cast<float>(args[2].scalar().to_double())};
  results[0] = Value(map_real(
      x, x.dtype(), quantizer_ptr(x), [](float v, const float* q) { return v > q[0] ? v : q[1]; }, p));
}
void gelu_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& x = args[0].tensor();
  const Quantizer& q = per_tensor(x);
  // PyTorch passes the scale through a float.
  QuantizerPtr same = per_tensor_quantizer(static_cast<float>(q.scale), q.zero_point);
  const bool by_tanh = args[1].kind == ArgKind::string && args[1].string() == "tanh";
  results[0] = Value(map_real(x, x.dtype(), same,
                              by_tanh ? RealFunction([](float v, const float*) {
                                return 0.5f * v *
                                       (1.0f + std::tanh(0.7978845608028654f * (v + 0.044715f * v * v * v)));
                              })
                                      : RealFunction([](float v, const float*) {
                                          return 0.5f * v * (1.0f + std::erf(v * 0.7071067811865476f));
                                        })));
}

// ---- moving and making ----

void empty_like_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  if (!args[1].is_none() && static_cast<DType>(args[1].to_int()) != self.dtype())
    fail(
        "It is currently not supported to specify a dtype that doesn't match the input tensor's dtype via "
        "empty_like.");
  results[0] = Value(like_quantized(self, self.dtype(), quantizer_ptr(self)));
}
void to_copy_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  if (!self.is_quantized()) fail("empty_strided not supported on quantized tensors yet");
  int at = op.schema().find("dtype"), device = op.schema().find("device");
  if (at >= 0 && !args[at].is_none() && static_cast<DType>(args[at].to_int()) != self.dtype())
    fail("Creation of quantized tensor requires quantized dtype like torch.quint8");
  if (device >= 0 && !args[device].is_none() && args[device].device().type != DeviceType::cpu)
    failf(ErrorKind::not_supported, "Could not run 'aten::empty_quantized' on the device {}",
          args[device].device().str());
  results[0] = Value(self.clone());
}
void copy_rule(const Op&, const Arg* args, Value* results) {
  const Tensor &self = args[0].tensor(), &from = args[1].tensor();
  results[0] = Value(self);
  if (!self.is_quantized())
    fail(
        "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get "
        "a "
        "float Tensor from a quantized Tensor");
  if (from.is_quantized()) {
    if (from.dtype() != self.dtype())
      fail("Quantized Copy only works with Quantized Tensors of the same dtype");
    if (quantizer_of(from).scheme != quantizer_of(self).scheme)
      fail("Quantized copy only works with the same qscheme");
    if (!without_data(self)) copy_elements(int_view(from), int_view(self));
    self->meaning = quantizer_ptr(from);
  } else {
    if (from.dtype() != kFloat)
      failf("Quantized copy only works with kFloat as source Tensor, got {}", script_name(from.dtype()));
    if (!without_data(self)) {
      Tensor wide = expand(from, self.sizes());
      copy_elements(int_view(from_real(wide, self.dtype(), quantizer_ptr(self))), int_view(self));
    }
  }
  ++self.storage()->version;
}
void fill_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  results[0] = Value(self);
  if (without_data(self)) return;
  double value = args[1].kind == ArgKind::tensor ? read_scalar(args[1].tensor()).to_double()
                                                 : args[1].scalar().to_double();
  Tensor real = full(self.sizes(), Scalar(value), kFloat);
  copy_elements(int_view(from_real(real, self.dtype(), quantizer_ptr(self))), int_view(self));
  ++self.storage()->version;
}
void masked_fill_rule(const Op&, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  const Quantizer& q = per_tensor(self);
  double value = args[2].kind == ArgKind::tensor ? read_scalar(args[2].tensor()).to_double()
                                                 : args[2].scalar().to_double();
  int64_t step = quantize_value(q.scale, q.zero_point, self.dtype(), static_cast<float>(value));
  results[0] =
      Value(quantized_view(masked_fill(int_view(self), args[1].tensor(), Scalar(step)), quantizer_ptr(self)));
}
void index_put_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  if (!self.is_quantized())
    fail("index_put: the tensor that is written to must be quantized when others are");
  per_tensor(self);
  std::vector<Arg> plain(args, args + op.arity);
  Tensor into = int_view(self), values = args[2].tensor();
  values = int_view(values.is_quantized() ? requantized(values, self.dtype(), quantizer_ptr(self))
                                          : from_real(values, self.dtype(), quantizer_ptr(self)));
  plain[0] = Arg(into);
  plain[2] = Arg(values);
  call_and_wrap(op, plain.data(), self, results);
}
void pad_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  if (!quantizer_of(self).per_tensor()) fail("Only per-tensor padding is supported.");
  std::vector<Arg> plain(args, args + op.arity);
  Tensor integers = int_view(self);
  plain[0] = Arg(integers);
  plain[2] = Arg(steps_of(self, args[2], per_tensor(self).zero_point));
  call_and_wrap(op, plain.data(), self, results);
}
void cat_rule(const Op&, const Arg* args, Value* results) {
  Span<const Tensor> all = args[0].tensors();
  for (const Tensor& t : all)
    if (!t.is_quantized() || !quantizer_of(t).per_tensor())
      fail("Only per-tensor quantization is supported in 'cat'!");
  results[0] = Value(joined(all, args[1].to_int(), quantizer_ptr(all[0]), all[0].dtype(), false));
}
void stack_rule(const Op&, const Arg* args, Value* results) {
  std::vector<Tensor> all;
  for (const Tensor& t : args[0].tensors()) all.push_back(unsqueeze(t, args[1].to_int()));
  results[0] = Value(cat(all, args[1].to_int()));
}
void equal_rule(const Op&, const Arg* args, Value* results) {
  const Tensor &a = args[0].tensor(), &b = args[1].tensor();
  bool same = a.is_quantized() && b.is_quantized() && a.dtype() == b.dtype() &&
              same_quantizer(quantizer_of(a), quantizer_of(b)) && equal(int_view(a), int_view(b));
  results[0] = Value(same);
}
void extreme_rule(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  if (!quantizer_of(self).per_tensor())
    failf(
        "{} operator for quantized tensors only works for per tensor quantized tensors. Please open an issue "
        "on https://github.com/pytorch/pytorch/issues if you need per channel quantized tensor support.",
        op.name().view() == "aten::max" ? "Max" : "Min");
  on_integers(op, args, results);
}

const std::unordered_map<std::string_view, Rule>& rules() {
  static const std::unordered_map<std::string_view, Rule> table = {
      {"aten::relu", relu_rule},
      {"aten::relu6", relu6_rule},
      {"aten::hardtanh", clamp_rule},
      {"aten::clamp", clamp_rule},
      {"aten::sigmoid", sigmoid_rule},
      {"aten::hardsigmoid", hardsigmoid_rule},
      {"aten::tanh", tanh_rule},
      {"aten::leaky_relu", leaky_relu_rule},
      {"aten::threshold", threshold_rule},
      {"aten::gelu", gelu_rule},
      {"aten::mean", on_steps},
      {"aten::std", on_real_and_back},
      {"aten::avg_pool2d", on_steps},
      {"aten::avg_pool3d", on_steps},
      {"aten::_adaptive_avg_pool2d", on_steps},
      {"aten::_adaptive_avg_pool3d", on_steps},
      {"aten::max_pool1d_with_indices", on_integers},
      {"aten::max_pool2d_with_indices", on_integers},
      {"aten::max_pool3d_with_indices", on_integers},
      {"aten::upsample_nearest1d", on_bits},
      {"aten::upsample_nearest2d", on_bits},
      {"aten::upsample_nearest3d", on_bits},
      {"aten::_upsample_nearest_exact2d", on_bits},
      {"aten::_upsample_nearest_exact3d", on_bits},
      {"aten::upsample_bilinear2d", on_float_steps},
      {"aten::grid_sampler_2d", on_real_and_back},
      {"aten::reflection_pad1d", on_integers},
      {"aten::reflection_pad2d", on_integers},
      {"aten::constant_pad_nd", pad_rule},
      {"aten::channel_shuffle", on_integers},
      {"aten::flip", on_integers},
      {"aten::repeat", on_integers},
      {"aten::index_select", on_integers},
      {"aten::index", on_integers},
      {"aten::index_put", index_put_rule},
      {"aten::_index_put_impl", index_put_rule},
      {"aten::masked_fill", masked_fill_rule},
      {"aten::max", extreme_rule},
      {"aten::min", extreme_rule},
      {"aten::sort", on_integers},
      {"aten::topk", on_integers},
      {"aten::eq", on_real},
      {"aten::ne", on_real},
      {"aten::lt", on_real},
      {"aten::le", on_real},
      {"aten::gt", on_real},
      {"aten::ge", on_real},
      {"aten::equal", equal_rule},
      {"aten::clone", on_integers_of_any},
      {"aten::empty_like", empty_like_rule},
      {"aten::_to_copy", to_copy_rule},
      {"aten::copy_", copy_rule},
      {"aten::fill_", fill_rule},
      {"aten::cat", cat_rule},
      {"aten::stack", stack_rule},
  };
  return table;
}
Rule rule_of(const Op& op) {
  auto it = rules().find(op.schema().name.view());
  return it == rules().end() ? nullptr : it->second;
}

// ---- variants ----

// The operator that an in-place form written by hand belongs to: masked_fill for masked_fill_.
const Op* functional_of(const Op& op) {
  if (op.functional) return op.functional;
  std::string name = op.schema().name.str();
  if (!op.is(op_inplace) || name.back() != '_') return nullptr;
  name.pop_back();
  return find_op(Symbol(name), op.schema().overload);
}

// x_ and out=: the result of the operator itself, in the quantizer of what is written to.
void write_result(const Value& result, const Tensor& to) {
  if (!result.is_tensor()) return;
  const Tensor& made = result.tensor();
  if (!without_data(to)) {
    if (to.is_quantized()) {
      Tensor q = made.is_quantized() ? requantized(made, to.dtype(), quantizer_ptr(to))
                                     : from_real(made, to.dtype(), quantizer_ptr(to));
      if (!(q.dim() == to.dim())) resize_output(to, q.sizes());
      copy_elements(int_view(q), int_view(to));
    } else if (made.is_quantized()) {
      fail("expected a quantized tensor for out=");
    } else {
      resize_output(to, made.sizes());
      copy_elements(made, to);
    }
  }
  ++to.storage()->version;
}
void run_variant(const Op& op, Rule rule, const Arg* args, Value* results) {
  const Op& base = *functional_of(op);
  std::vector<Value> made(static_cast<size_t>(std::max<int>(base.results, 1)));
  rule(base, args, made.data());
  for (int i = 0; i < op.results; ++i) {
    const Tensor& to = op.is(op_inplace) ? args[0].tensor() : args[base.arity + i].tensor();
    write_result(made[static_cast<size_t>(i)], to);
    results[i] = Value(to);
  }
}

// ---- views ----

// A view of a tensor that has a scale for each index of one dimension: where that dimension went.
void follow_axis(const Op& op, const Arg* args, Value* results) {
  const Tensor& self = args[0].tensor();
  const Quantizer& q = quantizer_of(self);
  std::string_view name = op.schema().name.view();
  if (name.starts_with("aten::")) name.remove_prefix(6);
  auto each = [&](auto f) {
    if (results[0].is_tensor()) return f(results[0].tensor());
    if (results[0].is_list())
      for (const Value& v : results[0].items()) f(v.tensor());
  };
  auto set_axis = [&](int64_t axis) {
    auto moved = new_shared<Quantizer>(q);
    moved->axis = axis;
    each([&](const Tensor& t) { t->meaning = moved; });
  };
  auto dim_of = [&](int at) { return wrap_dim(args[at].to_int(), self.dim()); };
  if (name == "view" || name == "_unsafe_view" || name == "detach" || name == "alias" ||
      name == "_reshape_alias" || name == "lift_fresh")
    return;
  if (name == "select" || name == "unbind") {
    int64_t d = dim_of(1);
    if (d != q.axis) return set_axis(q.axis - (d < q.axis));
    int64_t at = name == "select" ? args[2].to_int() : 0, n = self.int_sizes()[d];
    if (at < 0) at += n;
    each([&](const Tensor& t) {
      t->meaning = per_tensor_quantizer(q.scales[at].item<double>(), q.zero_points[at].item<int64_t>());
      ++at;
    });
    return;
  }
  if (name == "slice" || name == "narrow" || name == "split" || name == "split_with_sizes" ||
      name == "chunk") {
    int64_t d = name == "slice" || name == "narrow" ? dim_of(1) : dim_of(2);
    if (d != q.axis) return;
    each([&](const Tensor& t) {  // the part of the scales, from where the view begins
      auto part = new_shared<Quantizer>(q);
      int64_t first = (t.offset() - self.offset()).guard_int() / std::max<int64_t>(1, self.int_strides()[d]);
      int64_t n = t.int_sizes()[d];
      int64_t step = n > 1 && self.int_strides()[d] ? t.int_strides()[d] / self.int_strides()[d] : 1;
      part->scales = q.scales.slice(0, first, first + n * step, step).clone();
      part->zero_points = q.zero_points.slice(0, first, first + n * step, step).clone();
      t->meaning = part;
    });
    return;
  }
  if (name == "unsqueeze") {
    int64_t d = wrap_dim(args[1].to_int(), self.dim() + 1);
    return set_axis(q.axis + (d <= q.axis));
  }
  if (name == "squeeze") {
    int64_t gone = 0, kept = results[0].tensor().dim();
    if (op.arity == 1) {
      for (int64_t d = 0; d < q.axis; ++d) gone += self.int_sizes()[d] == 1;
      if (self.int_sizes()[q.axis] == 1)
        fail("Squeeze is only possible on non-axis dimension for Per-Channel Quantized Tensors.");
    } else if (kept < self.dim()) {
      int64_t d = args[1].kind == ArgKind::ints ? wrap_dim(args[1].ints()[0], self.dim()) : dim_of(1);
      if (d == q.axis)
        fail("Squeeze is only possible on non-axis dimension for Per-Channel Quantized Tensors.");
      gone = d < q.axis;
    }
    return set_axis(q.axis - gone);
  }
  fail("Setting strides is possible only on uniformly quantized tensor");
}

}  // namespace

bool has_quantized_rule(const Op& op) { return rule_of(op.functional ? *op.functional : op) != nullptr; }

void quantized_call(const Op& op, const Arg* args, Value* results) {
  if (op.is(op_whole)) return run_kernel(op, args, results);
  Exclude above(rung_record | rung_autograd | rung_functional | rung_core);
  if (Rule rule = rule_of(op)) return rule(op, args, results);
  if (op.is(op_inplace) || op.is(op_out))
    if (const Op* base = functional_of(op))
      if (Rule rule = rule_of(*base)) return run_variant(op, rule, args, results);
  if (op.is(op_view)) {
    run_kernel(op, args, results);
    if (!quantizer_of(args[0].tensor()).per_tensor()) follow_axis(op, args, results);
    return;
  }
  if (op.is(op_geometry) || op.is(op_user)) return run_kernel(op, args, results);
  if (op.body && !op.kernel && !op.is(op_pointwise)) return op.body(op, args, results);
  failf(
      ErrorKind::not_supported,
      "Could not run '{}' with arguments from the 'QuantizedCPU' backend. This could be because the operator "
      "doesn't exist for this backend: dequantize() the tensor first.",
      op.qualified());
}

}  // namespace tern
