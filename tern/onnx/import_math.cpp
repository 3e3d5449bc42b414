// Import of elementwise operators, reductions and matrix products.
#include <algorithm>
#include <cmath>

#include "tern/onnx/import.h"

namespace tern::onnx {

namespace {

// ---- one input, one ATen call ----

template <size_t N>
struct Text {
  char chars[N];
  constexpr Text(const char (&s)[N]) { std::copy(s, s + N, chars); }
};

template <Text Op>
void unary(Importing& n) {
  n.out(n(Op.chars, {n.in(0)}));
}

// Sizes stay sizes through simple arithmetic on them.
bool both_sizes(Importing& n) {
  for (size_t i = 0; i < 2; ++i)
    if (!n.has(i) || !(n.item(i).ints || n.constant(i))) return false;
  if (!n.item(0).ints && !n.item(1).ints) return false;
  for (size_t i = 0; i < 2; ++i)
    if (!n.item(i).ints && (n.constant(i)->dim() > 1 || n.constant(i)->dtype() != kLong)) return false;
  return true;
}

template <class F>
bool on_sizes(Importing& n, F&& f) {
  if (!both_sizes(n)) return false;
  std::vector<SymInt> a = n.sizes(0), b = n.sizes(1);
  if (a.size() != b.size() && a.size() != 1 && b.size() != 1) return false;
  Item out;
  out.ints.emplace();
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i)
    out.ints->push_back(f(a[a.size() == 1 ? 0 : i], b[b.size() == 1 ? 0 : i]));
  auto is_scalar = [&](size_t i) { return n.item(i).ints ? n.item(i).scalar : n.constant(i)->dim() == 0; };
  out.scalar = is_scalar(0) && is_scalar(1);
  n.out(std::move(out));
  return true;
}

template <Text Op>
void binary(Importing& n) {
  n.out(n(Op.chars, {n.in(0), n.in(1)}));
}
void import_add(Importing& n) {
  if (!on_sizes(n, [](SymInt a, SymInt b) { return a + b; })) binary<"aten::add.Tensor">(n);
}
void import_sub(Importing& n) {
  if (!on_sizes(n, [](SymInt a, SymInt b) { return a - b; })) binary<"aten::sub.Tensor">(n);
}
void import_mul(Importing& n) {
  if (!on_sizes(n, [](SymInt a, SymInt b) { return a * b; })) binary<"aten::mul.Tensor">(n);
}
void import_div(Importing& n) {
  if (both_sizes(n) && on_sizes(n, [](SymInt a, SymInt b) { return floor_div(a, b); })) return;
  Tensor a = n.in(0), b = n.in(1);
  if (is_integral(a.dtype(), false))
    n.out(n("aten::div.Tensor_mode", {a, b, "trunc"}));  // towards zero
  else
    n.out(n("aten::div.Tensor", {a, b}));
}
void import_mod(Importing& n) {
  if (on_sizes(n, [](SymInt a, SymInt b) { return mod(a, b); })) return;
  bool fmod = n.integer("fmod", 0) != 0;
  n.out(n(fmod ? "aten::fmod.Tensor" : "aten::remainder.Tensor", {n.in(0), n.in(1)}));
}
void import_pow(Importing& n) {
  Tensor x = n.in(0), y = n.in(1);
  Tensor p = n("aten::pow.Tensor_Tensor", {x, y});
  if (p.dtype() != x.dtype()) p = n("aten::to.dtype", {p, x.dtype()});
  n.out(p);
}

template <Text Op>
void variadic(Importing& n) {
  Tensor y = n.in(0);
  for (size_t i = 1; i < n.size(); ++i) y = n(Op.chars, {y, n.in(i)});
  n.out(y);
}
void import_mean(Importing& n) {
  Tensor y = n.in(0);
  for (size_t i = 1; i < n.size(); ++i) y = n("aten::add.Tensor", {y, n.in(i)});
  n.out(n.size() > 1 ? n("aten::div.Scalar", {y, static_cast<double>(n.size())}) : y);
}

template <Text Op>
void import_logical(Importing& n) {
  n.out(n(Op.chars, {n.in(0), n.in(1)}));
}
void import_bit_shift(Importing& n) {
  // ONNX shifts unsigned integers, which PyTorch has no shifts for: on int64, with what comes in from the
  // left of a shift to the right taken away.
  bool left = n.text("direction", "") == "LEFT";
  DType dtype = n.in(0).dtype();
  Tensor x = n("aten::to.dtype", {n.in(0), kLong}), by = n("aten::to.dtype", {n.in(1), kLong});
  Tensor y = n(left ? "aten::bitwise_left_shift.Tensor" : "aten::bitwise_right_shift.Tensor", {x, by});
  if (!left && dtype == DType::uint64) {
    Tensor ones = n("aten::full_like", {by, -1});
    Tensor taken = n("aten::bitwise_left_shift.Tensor", {ones, n("aten::rsub.Scalar", {by, 63})});
    taken = n("aten::bitwise_left_shift.Tensor_Scalar", {taken, 1});
    y = n("aten::bitwise_and.Tensor", {y, n("aten::bitwise_not", {taken})});
  }
  n.out(n("aten::to.dtype", {y, dtype}));
}

void import_is_inf(Importing& n) {
  bool negative = n.integer("detect_negative", 1), positive = n.integer("detect_positive", 1);
  Tensor x = n.in(0);
  if (negative && positive) return n.out(n("aten::isinf", {x}));
  if (negative) return n.out(n("aten::isneginf", {x}));
  if (positive) return n.out(n("aten::isposinf", {x}));
  n.out(n("aten::zeros_like", {x, DType::bool_}));
}

// ---- activations ----

void import_leaky_relu(Importing& n) { n.out(n("aten::leaky_relu", {n.in(0), n.number("alpha", 0.01)})); }
void import_elu(Importing& n) { n.out(n("aten::elu", {n.in(0), n.number("alpha", 1), 1.0, 1.0})); }
void import_celu(Importing& n) { n.out(n("aten::celu", {n.in(0), n.number("alpha", 1)})); }
void import_selu(Importing& n) {
  n.out(n("aten::elu", {n.in(0), n.number("alpha", 1.67326319217681884765625),
                        n.number("gamma", 1.05070102214813232421875), 1.0}));
}
void import_hard_sigmoid(Importing& n) {
  Tensor y = n("aten::add.Scalar",
               {n("aten::mul.Scalar", {n.in(0), n.number("alpha", 0.2)}), n.number("beta", 0.5)});
  n.out(n("aten::clamp", {y, 0.0, 1.0}));
}
void import_softplus(Importing& n) { n.out(n("aten::softplus", {n.in(0), 1.0, 20.0})); }
void import_softsign(Importing& n) {
  Tensor x = n.in(0);
  n.out(n("aten::div.Tensor", {x, n("aten::add.Scalar", {n("aten::abs", {x}), 1})}));
}
void import_thresholded_relu(Importing& n) {
  n.out(n("aten::threshold", {n.in(0), n.number("alpha", 1), 0.0}));
}
void import_shrink(Importing& n) {
  double lambda = n.number("lambd", 0.5), bias = n.number("bias", 0);
  Tensor x = n.in(0);
  Tensor below = n("aten::lt.Scalar", {x, -lambda}), above = n("aten::gt.Scalar", {x, lambda});
  Tensor zero = n("aten::zeros_like", {x});
  Tensor y = n("aten::where.self", {below, n("aten::add.Scalar", {x, bias}), zero});
  y = n("aten::where.self", {above, n("aten::sub.Scalar", {x, bias}), y});
  n.out(y.dtype() == x.dtype() ? y : n("aten::to.dtype", {y, x.dtype()}));
}
void import_gelu(Importing& n) { n.out(n("aten::gelu", {n.in(0), n.text("approximate", "none")})); }
void import_swish(Importing& n) {
  Tensor x = n.in(0);
  double alpha = n.number("alpha", 1);
  n.out(n("aten::mul.Tensor", {x, n("aten::sigmoid", {alpha == 1 ? x : n("aten::mul.Scalar", {x, alpha})})}));
}
void import_prelu(Importing& n) {
  Tensor x = n.in(0), slope = n.in(1);
  n.out(n("aten::where.self", {n("aten::gt.Scalar", {x, 0}), x, n("aten::mul.Tensor", {x, slope})}));
}
void import_clip(Importing& n) {
  Tensor x = n.in(0);
  if (n.opset() < 11) {
    tern::Value low, high;
    if (n.has_attribute("min")) low = n.number("min", 0);
    if (n.has_attribute("max")) high = n.number("max", 0);
    return n.out(low.is_none() && high.is_none() ? x : n("aten::clamp", {x, low, high}));
  }
  if (n.has(1)) x = n("aten::maximum", {x, n.in(1)});
  if (n.has(2)) x = n("aten::minimum", {x, n.in(2)});
  n.out(x);
}

// Before opset 13 the tensor is a matrix of everything before and everything from the axis on.
template <Text Op>
void import_softmax(Importing& n) {
  Tensor x = n.in(0);
  if (n.opset() >= 13) return n.out(n(Op.chars, {x, n.integer("axis", -1), tern::Value()}));
  int64_t axis = n.integer("axis", 1);
  if (axis < 0) axis += x.dim();
  std::vector<SymInt> flat = {product(Span<const SymInt>(x.sizes().data(), static_cast<size_t>(axis))), -1};
  std::vector<SymInt> back(x.sizes().begin(), x.sizes().end());
  n.out(
      n("aten::reshape", {n(Op.chars, {n("aten::reshape", {x, list(flat)}), 1, tern::Value()}), list(back)}));
}
void import_hardmax(Importing& n) {
  Tensor x = n.in(0);
  int64_t axis = n.integer("axis", n.opset() >= 13 ? -1 : 1);
  if (axis < 0) axis += x.dim();
  if (n.opset() < 13 && axis != x.dim() - 1) n.refuse("Hardmax of old opsets on an inner axis");
  Tensor best = n("aten::argmax", {x, axis, true});
  n.out(n("aten::scatter.value", {n("aten::zeros_like", {x}), axis, best, 1}));
}

// ---- reductions ----

struct Axes {
  std::vector<int64_t> dims;
  bool keep = true, identity = false;
};
Axes read_axes(Importing& n, int64_t input_since) {
  Axes a;
  a.keep = n.integer("keepdims", 1) != 0;
  if (n.opset() >= input_since) {
    if (n.has(1)) a.dims = n.constants(1);
  } else {
    a.dims = n.ints("axes");
  }
  a.identity = a.dims.empty() && n.integer("noop_with_empty_axes", 0);
  if (a.dims.empty() && !a.identity)
    for (int64_t d = 0, rank = n.in(0).dim(); d < rank; ++d) a.dims.push_back(d);
  return a;
}

Tensor sum(Importing& n, const Tensor& x, const Axes& a) {
  if (a.identity || a.dims.empty()) return x;
  return n("aten::sum.dim_IntList", {x, list(a.dims), a.keep, x.dtype()});
}

enum class Reduce { sum, mean, max, min, prod, l1, l2, log_sum, log_sum_exp, sum_square };
template <Reduce R, int Since = 18>
void import_reduce(Importing& n) {
  if (R == Reduce::prod && n.item(0).ints) {
    Item out;
    SymInt p = 1;
    for (SymInt s : *n.item(0).ints) p *= s;
    out.ints = std::vector<SymInt>{p};
    out.scalar = n.integer("keepdims", 1) == 0;
    return n.out(std::move(out));
  }
  Axes a = read_axes(n, Since);
  Tensor x = n.in(0);
  bool some = !a.identity && !a.dims.empty();
  switch (R) {
    case Reduce::sum:
      return n.out(sum(n, x, a));
    case Reduce::mean:
      if (!some) return n.out(x);
      if (is_integral(x.dtype(), true))
        return n.out(
            n("aten::to.dtype",
              {n("aten::mean.dim", {n("aten::to.dtype", {x, kDouble}), list(a.dims), a.keep}), x.dtype()}));
      return n.out(n("aten::mean.dim", {x, list(a.dims), a.keep}));
    case Reduce::max:
    case Reduce::min: {
      if (!some) return n.out(x);
      // Over nothing the result is the smallest or largest number.
      bool empty = false;
      for (SymInt s : x.sizes()) empty = empty || s.maybe_int() == 0;
      if (empty) {
        std::vector<SymInt> sizes;
        for (int64_t d = 0; d < x.dim(); ++d) {
          bool reduced = false;
          for (int64_t r : a.dims) reduced = reduced || (r < 0 ? r + x.dim() : r) == d;
          if (!reduced)
            sizes.push_back(x.sizes()[static_cast<size_t>(d)]);
          else if (a.keep)
            sizes.push_back(1);
        }
        if (!is_floating(x.dtype())) n.refuse("a reduction over no elements");
        return n.out(n("aten::full", {list(sizes), R == Reduce::max ? -INFINITY : INFINITY, x.dtype()}));
      }
      return n.out(n(R == Reduce::max ? "aten::amax" : "aten::amin", {x, list(a.dims), a.keep}));
    }
    case Reduce::prod: {
      std::vector<int64_t> dims = a.dims;
      for (int64_t& d : dims)
        if (d < 0) d += x.dim();
      std::sort(dims.rbegin(), dims.rend());
      for (int64_t d : dims) x = n("aten::prod.dim_int", {x, d, a.keep, x.dtype()});
      return n.out(x);
    }
    case Reduce::l1:
      return n.out(sum(n, n("aten::abs", {x}), a));
    case Reduce::l2: {
      DType dtype = x.dtype();
      bool integers = is_integral(dtype, true);
      if (integers) x = n("aten::to.dtype", {x, kDouble});
      Tensor y = n("aten::sqrt", {sum(n, n("aten::mul.Tensor", {x, x}), a)});
      return n.out(integers ? n("aten::to.dtype", {y, dtype}) : y);
    }
    case Reduce::log_sum:
      return n.out(n("aten::log", {sum(n, x, a)}));
    case Reduce::log_sum_exp:
      if (!some) return n.out(x);
      return n.out(n("aten::logsumexp", {x, list(a.dims), a.keep}));
    case Reduce::sum_square:
      return n.out(sum(n, n("aten::mul.Tensor", {x, x}), a));
  }
}

template <bool Max>
void import_arg(Importing& n) {
  Tensor x = n.in(0);
  int64_t axis = n.integer("axis", 0);
  bool keep = n.integer("keepdims", 1) != 0;
  const char* op = Max ? "aten::argmax" : "aten::argmin";
  if (!n.integer("select_last_index", 0)) return n.out(n(op, {x, axis, keep}));
  Tensor reversed = n(op, {n("aten::flip", {x, list(std::vector<int64_t>{axis})}), axis, keep});
  SymInt last = x.size(axis) - 1;
  n.out(n("aten::add.Scalar", {n("aten::neg", {reversed}), last}));
}

void import_cum_sum(Importing& n) {
  Tensor x = n.in(0);
  int64_t axis = n.constants(1).at(0);
  bool reverse = n.integer("reverse", 0), exclusive = n.integer("exclusive", 0);
  auto flip = [&](const Tensor& t) { return n("aten::flip", {t, list(std::vector<int64_t>{axis})}); };
  Tensor y = n("aten::cumsum", {reverse ? flip(x) : x, axis, x.dtype()});
  if (reverse) y = flip(y);
  n.out(exclusive ? n("aten::sub.Tensor", {y, x}) : y);
}

// ---- products ----

void import_gemm(Importing& n) {
  Tensor a = n.in(0), b = n.in(1);
  if (n.integer("transA", 0)) a = n("aten::t", {a});
  if (n.integer("transB", 0)) b = n("aten::t", {b});
  double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
  auto number = [&](double v) -> tern::Value {  // integers stay integers
    if (is_integral(a.dtype(), true)) return static_cast<int64_t>(v);
    return v;
  };
  if (n.has(2)) return n.out(n("aten::addmm", {n.in(2), a, b, number(beta), number(alpha)}));
  Tensor y = n("aten::mm", {a, b});
  n.out(alpha == 1 ? y : n("aten::mul.Scalar", {y, number(alpha)}));
}

void import_einsum(Importing& n) {
  std::vector<Tensor> in;
  for (size_t i = 0; i < n.size(); ++i) in.push_back(n.in(i));
  std::string equation = n.text("equation", "");
  std::erase(equation, ' ');
  n.out(n("aten::einsum", {equation, in}));
}

// To eight bits ONNX saturates or overflows, as the node says; PyTorch saturates e4m3fn only.
Tensor converted(Importing& n, Tensor x, DType dtype) {
  if (is_float8(dtype) && is_floating(x.dtype()) && !is_float8(x.dtype())) {
    if (n.integer("saturate", 1)) {
      double most = dtype == DType::float8_e4m3fn ? 448 : dtype == DType::float8_e4m3fnuz ? 240 : 57344;
      x = n("aten::clamp", {x, -most, most});
    } else if (dtype == DType::float8_e4m3fn) {  // 464 is half a step above the largest, and goes to it
      x = n("aten::masked_fill.Scalar", {x, n("aten::gt.Scalar", {n("aten::abs", {x}), 464.0}), NAN});
    }
  }
  return n("aten::to.dtype", {x, dtype});
}

void import_cast(Importing& n) {
  DataType to = static_cast<DataType>(n.integer("to", 0));
  DType dtype = dtype_of(to);
  if (dtype == DType::undefined) n.refuse("Tern has no dtype for " + std::string(name(to)));
  if (n.item(0).ints && dtype == kLong) return n.out(n.item(0));
  n.out(converted(n, n.in(0), dtype));
}
void import_cast_like(Importing& n) { n.out(converted(n, n.in(0), n.in(1).dtype())); }

// A scale or zero point for each index of one dimension lies along it.
Tensor along_axis(Importing& n, const Tensor& x, const Tensor& t) {
  if (n.integer("block_size", 0)) n.refuse("blocks of scales are not supported");
  if (t.dim() == 0) return t;
  if (t.dim() != 1) n.refuse("scales have no dimension or one");
  if (surely_eq(t.size(0), 1)) return n("aten::reshape", {t, Value(Span<const SymInt>(Dims{}))});
  int64_t axis = n.integer("axis", 1);
  Dims sizes(static_cast<size_t>(x.dim()), SymInt(1));
  sizes[static_cast<size_t>(wrap_dim(axis, x.dim()))] = t.size(0);
  return n("aten::reshape", {t, Value(Span<const SymInt>(sizes))});
}
void import_quantize_linear(Importing& n) {
  Tensor x = n.in(0), zero = n.in_or_none(2);
  auto asked = static_cast<DataType>(n.integer("output_dtype", 0));
  DType dtype = zero.defined() ? zero.dtype() : asked == DataType{} ? DType::uint8 : dtype_of(asked);
  if (dtype != DType::uint8 && dtype != DType::int8)
    n.refuse("only int8 and uint8 are supported: the output is another type");
  Tensor q = n("aten::round", {n("aten::div.Tensor", {x, along_axis(n, x, n.in(1))})});
  if (zero.defined())
    q = n("aten::add.Tensor", {q, n("aten::to.dtype", {along_axis(n, x, zero), x.dtype()})});
  const bool is_unsigned = dtype == DType::uint8;
  q = n("aten::clamp", {q, is_unsigned ? 0.0 : -128.0, is_unsigned ? 255.0 : 127.0});
  n.out(n("aten::to.dtype", {q, dtype}));
}
void import_dequantize_linear(Importing& n) {
  Tensor x = n.in(0), scale = n.in(1), zero = n.in_or_none(2);
  if (!is_integral(x.dtype())) n.refuse("only integers are dequantized");
  DType real = scale.dtype();
  Tensor steps = n("aten::to.dtype", {x, real});
  if (zero.defined())
    steps = n("aten::sub.Tensor", {steps, n("aten::to.dtype", {along_axis(n, x, zero), real})});
  n.out(n("aten::mul.Tensor", {steps, along_axis(n, x, scale)}));
}

void import_where(Importing& n) { n.out(n("aten::where.self", {n.in(0), n.in(1), n.in(2)})); }
void import_identity(Importing& n) { n.out(n.item(0)); }
void import_reciprocal(Importing& n) { n.out(n("aten::reciprocal", {n.in(0)})); }

constexpr Import table[] = {
    {"Abs", unary<"aten::abs">},
    {"Acos", unary<"aten::acos">},
    {"Acosh", unary<"aten::acosh">},
    {"Asin", unary<"aten::asin">},
    {"Asinh", unary<"aten::asinh">},
    {"Atan", unary<"aten::atan">},
    {"Atanh", unary<"aten::atanh">},
    {"Ceil", unary<"aten::ceil">},
    {"Cos", unary<"aten::cos">},
    {"Det", unary<"aten::linalg_det">},
    {"Cosh", unary<"aten::cosh">},
    {"Erf", unary<"aten::erf">},
    {"Exp", unary<"aten::exp">},
    {"Floor", unary<"aten::floor">},
    {"HardSwish", unary<"aten::hardswish">},
    {"IsNaN", unary<"aten::isnan">},
    {"Log", unary<"aten::log">},
    {"Mish", unary<"aten::mish">},
    {"Neg", unary<"aten::neg">},
    {"Not", unary<"aten::logical_not">},
    {"BitwiseNot", unary<"aten::bitwise_not">},
    {"Reciprocal", import_reciprocal},
    {"Relu", unary<"aten::relu">},
    {"Round", unary<"aten::round">},
    {"Sigmoid", unary<"aten::sigmoid">},
    {"Sign", unary<"aten::sign">},
    {"Sin", unary<"aten::sin">},
    {"Sinh", unary<"aten::sinh">},
    {"Sqrt", unary<"aten::sqrt">},
    {"Tan", unary<"aten::tan">},
    {"Tanh", unary<"aten::tanh">},
    {"Add", import_add},
    {"Sub", import_sub},
    {"Mul", import_mul},
    {"Div", import_div},
    {"Mod", import_mod},
    {"Pow", import_pow},
    {"And", import_logical<"aten::logical_and">},
    {"Or", import_logical<"aten::logical_or">},
    {"Xor", import_logical<"aten::logical_xor">},
    {"BitwiseAnd", binary<"aten::bitwise_and.Tensor">},
    {"BitwiseOr", binary<"aten::bitwise_or.Tensor">},
    {"BitwiseXor", binary<"aten::bitwise_xor.Tensor">},
    {"BitShift", import_bit_shift},
    {"Equal", binary<"aten::eq.Tensor">},
    {"Less", binary<"aten::lt.Tensor">},
    {"LessOrEqual", binary<"aten::le.Tensor">},
    {"Greater", binary<"aten::gt.Tensor">},
    {"GreaterOrEqual", binary<"aten::ge.Tensor">},
    {"IsInf", import_is_inf},
    {"Max", variadic<"aten::maximum">},
    {"Min", variadic<"aten::minimum">},
    {"Sum", variadic<"aten::add.Tensor">},
    {"Mean", import_mean},
    {"LeakyRelu", import_leaky_relu},
    {"Elu", import_elu},
    {"Celu", import_celu},
    {"Selu", import_selu},
    {"HardSigmoid", import_hard_sigmoid},
    {"Softplus", import_softplus},
    {"Softsign", import_softsign},
    {"ThresholdedRelu", import_thresholded_relu},
    {"Shrink", import_shrink},
    {"Gelu", import_gelu},
    {"Swish", import_swish},
    {"PRelu", import_prelu},
    {"Clip", import_clip},
    {"Softmax", import_softmax<"aten::softmax.int">},
    {"LogSoftmax", import_softmax<"aten::log_softmax.int">},
    {"Hardmax", import_hardmax},
    {"ReduceSum", import_reduce<Reduce::sum, 13>},
    {"ReduceMean", import_reduce<Reduce::mean>},
    {"ReduceMax", import_reduce<Reduce::max>},
    {"ReduceMin", import_reduce<Reduce::min>},
    {"ReduceProd", import_reduce<Reduce::prod>},
    {"ReduceL1", import_reduce<Reduce::l1>},
    {"ReduceL2", import_reduce<Reduce::l2>},
    {"ReduceLogSum", import_reduce<Reduce::log_sum>},
    {"ReduceLogSumExp", import_reduce<Reduce::log_sum_exp>},
    {"ReduceSumSquare", import_reduce<Reduce::sum_square>},
    {"ArgMax", import_arg<true>},
    {"ArgMin", import_arg<false>},
    {"CumSum", import_cum_sum},
    {"MatMul", binary<"aten::matmul">},
    {"Gemm", import_gemm},
    {"Einsum", import_einsum},
    {"Cast", import_cast},
    {"CastLike", import_cast_like},
    {"QuantizeLinear", import_quantize_linear},
    {"DequantizeLinear", import_dequantize_linear},
    {"Where", import_where},
    {"Identity", import_identity},
};

}  // namespace

Span<const Import> math_imports() { return table; }

}  // namespace tern::onnx
