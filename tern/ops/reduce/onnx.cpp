// Reductions in ONNX; axes are an input.
#include <cmath>

#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

Ref axes_of(Call& c, size_t i) {
  std::vector<int64_t> dims = c.is_none(i) ? std::vector<int64_t>() : c.ints(i);
  return dims.empty() ? Ref() : c.constant(dims);
}

Attributes keep(bool keepdim) { return {Attribute::of("keepdims", int64_t{keepdim})}; }

template <bool Max>
void lower_extreme_dim(Call& c) {  // (self, dim, keepdim) -> values, indices
  Ref x = c.tensor(0);
  if (c.rank(0) == 0) {
    c.set(x, 0);
    if (c.node().output(1).has_uses()) c.set(c.constant(Scalar(0), kLong), 1);
    return;
  }
  int64_t axis = c.integer(1);
  bool keepdim = c.flag(2);
  c.set(c.emit(Max ? "ReduceMax" : "ReduceMin", {x, c.constant(std::vector<int64_t>{axis})}, keep(keepdim)),
        0);
  if (c.node().output(1).has_uses()) {
    Attributes at = keep(keepdim);
    at.push_back(Attribute::of("axis", axis));
    c.set(c.emit(Max ? "ArgMax" : "ArgMin", {x}, std::move(at), DType::int64), 1);
  }
}

template <bool Max>
void lower_arg(Call& c) {  // (self, dim, keepdim)
  Ref x = c.tensor(0);
  const char* op = Max ? "ArgMax" : "ArgMin";
  if (!c.is_none(1) && c.rank(0) > 0) {
    Attributes at = keep(c.flag(2));
    at.push_back(Attribute::of("axis", c.integer(1)));
    return c.set(c.emit(op, {x}, std::move(at), DType::int64));
  }
  Ref flat = c.emit("Reshape", {x, c.constant(std::vector<int64_t>{-1})});
  Attributes at = keep(false);
  at.push_back(Attribute::of("axis", int64_t{0}));
  Ref y = c.emit(op, {flat}, std::move(at), DType::int64);
  if (c.flag(2)) y = c.reshape(y, std::vector<Size>(static_cast<size_t>(c.rank(0)), Size{1}));
  c.set(y);
}

void reduce_bool(Call& c, bool any, const Ref& axes, bool keepdim) {
  Ref x = c.cast(c.cast(c.tensor(0), DType::bool_), DType::int32);
  c.set(c.cast(c.emit(any ? "ReduceMax" : "ReduceMin", {x, axes}, keep(keepdim)), DType::bool_));
}
template <bool Any>
void lower_bool(Call& c) {
  reduce_bool(c, Any, {}, false);
}
template <bool Any>
void lower_bool_dims(Call& c) {
  if (c.rank(0) == 0) return c.set(c.cast(c.tensor(0), DType::bool_));
  reduce_bool(c, Any, axes_of(c, 1), c.flag(2));
}

struct Spread {
  Ref mean, var;
};

Spread variance(Call& c, const Ref& axes, const std::vector<int64_t>& dims, double correction, bool keepdim) {
  Ref x = c.tensor(0);
  Ref mean = c.emit("ReduceMean", {x, axes}, keep(true));
  Ref centred = c.emit("Sub", {x, mean});
  Ref sum = c.emit("ReduceSum", {c.emit("Mul", {centred, centred}), axes}, keep(keepdim));
  // How many elements each result stands for.
  std::vector<int64_t> over = dims;
  if (over.empty())
    for (int64_t d = 0, n = c.rank(0); d < n; ++d) over.push_back(d);
  Ref count;
  double known = 1;
  bool is_static = true;
  for (int64_t d : over) {
    auto n = c.dim(0, d);
    is_static = is_static && n;
    if (n) known *= static_cast<double>(*n);
  }
  if (is_static) {
    count = c.constant(Scalar(std::max(known - correction, 0.0)), x.dtype);
  } else {
    Ref product = c.emit(
        "ReduceProd", {c.emit("Gather", {c.shape(x), c.constant(over)}, {Attribute::of("axis", int64_t{0})})},
        keep(false));
    count = c.emit("Sub", {c.cast(product, x.dtype), c.constant(Scalar(correction), x.dtype)});
  }
  return {keepdim ? mean : c.emit("ReduceMean", {x, axes}, keep(false)), c.emit("Div", {sum, count})};
}

template <bool Root, bool Mean>
void give(Call& c, const Spread& s) {
  c.set(Root ? c.emit("Sqrt", {s.var}) : s.var, 0);
  if (Mean) c.set(s.mean, 1);
}
template <bool Root, bool Mean>
void lower_var_correction(Call& c) {  // (self, dim, correction, keepdim)
  give<Root, Mean>(c, variance(c, axes_of(c, 1), c.is_none(1) ? std::vector<int64_t>() : c.ints(1),
                               c.is_none(2) ? 1.0 : c.number(2), c.flag(3)));
}
template <bool Root, bool Mean>
void lower_var_dim(Call& c) {  // (self, dim, unbiased, keepdim)
  give<Root, Mean>(c, variance(c, axes_of(c, 1), c.is_none(1) ? std::vector<int64_t>() : c.ints(1),
                               c.flag(2) ? 1 : 0, c.flag(3)));
}
template <bool Root, bool Mean>
void lower_var(Call& c) {  // (self, unbiased)
  give<Root, Mean>(c, variance(c, {}, {}, c.flag(1) ? 1 : 0, false));
}

Ref norm(Call& c, const Ref& x, double p, const Ref& axes, bool keepdim) {
  if (p == 2) return c.emit("ReduceL2", {x, axes}, keep(keepdim));
  if (p == 1) return c.emit("ReduceL1", {x, axes}, keep(keepdim));
  Ref size = c.emit("Abs", {x});
  if (std::isinf(p)) return c.emit(p > 0 ? "ReduceMax" : "ReduceMin", {size, axes}, keep(keepdim));
  if (p == 0) {
    Ref some = c.emit("Not", {c.emit("Equal", {x, c.constant(Scalar(0), x.dtype)})});
    return c.emit("ReduceSum", {c.cast(some, x.dtype), axes}, keep(keepdim));
  }
  Ref sum = c.emit("ReduceSum", {c.emit("Pow", {size, c.constant(Scalar(p), x.dtype)}), axes}, keep(keepdim));
  return c.emit("Pow", {sum, c.constant(Scalar(1 / p), x.dtype)});
}
void lower_vector_norm(Call& c) {  // (self, ord, dim, keepdim, dtype)
  c.set(norm(c, c.cast(c.tensor(0), c.dtype()), c.number(1), axes_of(c, 2), c.flag(3)));
}
void lower_norm_dim(Call& c) {  // (self, p, dim, keepdim)
  c.set(norm(c, c.tensor(0), c.is_none(1) ? 2.0 : c.number(1), axes_of(c, 2), c.flag(3)));
}
void lower_norm(Call& c) { c.set(norm(c, c.tensor(0), c.number(1), {}, false)); }

void lower_cumsum(Call& c) {
  Ref x = c.cast(c.tensor(0), c.dtype() == DType::undefined ? c.tensor(0).dtype : c.dtype());
  if (c.rank(0) == 0) return c.set(x);
  c.set(c.emit("CumSum", {x, c.constant(Scalar(c.integer(1)), kLong)}));
}

// Each place multiplies what stands up to it: ONNX has no running product.
void lower_cumprod(Call& c) {
  Ref x = c.cast(c.tensor(0), c.dtype() == DType::undefined ? c.tensor(0).dtype : c.dtype());
  int64_t rank = c.rank(0), axis = rank ? c.axis(1, 0) : 0;
  if (rank == 0) return c.set(x);
  auto number = [&](int64_t n) { return c.constant(Scalar(n), kLong); };
  Ref n = c.squeeze(c.size_of(c.tensor(0), axis), {0});
  Ref places = c.emit("Range", {number(0), n, number(1)}, {}, kLong);
  std::vector<int64_t> behind;
  for (int64_t d = 1; d < rank - axis; ++d) behind.push_back(d);
  Ref factors = behind.empty() ? places : c.unsqueeze(places, behind);  // one dim for each behind the axis
  Ref results = c.unsqueeze(factors, {1});
  Ref before = c.emit("LessOrEqual", {c.unsqueeze(factors, {0}), results});
  Ref kept = c.emit("Where", {before, c.unsqueeze(x, {axis}), c.constant(Scalar(1), x.dtype)}, {}, x.dtype);
  c.set(c.emit("ReduceProd", {kept, c.constant(std::vector<int64_t>{axis + 1})}, keep(false)));
}

void lower_count_nonzero(Call& c) {
  Ref some = c.cast(c.cast(c.tensor(0), DType::bool_), DType::int64);
  c.set(c.emit("ReduceSum", {some, c.size() > 1 ? axes_of(c, 1) : Ref()}, keep(false)));
}

constexpr Lowering table[] = {
    {"aten::max.dim", lower_extreme_dim<true>},
    {"aten::min.dim", lower_extreme_dim<false>},
    {"aten::argmax", lower_arg<true>},
    {"aten::argmin", lower_arg<false>},
    {"aten::any", lower_bool<true>},
    {"aten::any.dim", lower_bool_dims<true>},
    {"aten::any.dims", lower_bool_dims<true>},
    {"aten::all", lower_bool<false>},
    {"aten::all.dim", lower_bool_dims<false>},
    {"aten::all.dims", lower_bool_dims<false>},
    {"aten::var.correction", lower_var_correction<false, false>},
    {"aten::var.dim", lower_var_dim<false, false>},
    {"aten::var", lower_var<false, false>},
    {"aten::std.correction", lower_var_correction<true, false>},
    {"aten::std.dim", lower_var_dim<true, false>},
    {"aten::std", lower_var<true, false>},
    {"aten::var_mean.correction", lower_var_correction<false, true>},
    {"aten::var_mean.dim", lower_var_dim<false, true>},
    {"aten::var_mean", lower_var<false, true>},
    {"aten::std_mean.correction", lower_var_correction<true, true>},
    {"aten::std_mean.dim", lower_var_dim<true, true>},
    {"aten::std_mean", lower_var<true, true>},
    {"aten::linalg_vector_norm", lower_vector_norm},
    {"aten::norm.ScalarOpt_dim", lower_norm_dim},
    {"aten::norm.Scalar", lower_norm},
    {"aten::cumsum", lower_cumsum},
    {"aten::cumprod", lower_cumprod},
    {"aten::count_nonzero", lower_count_nonzero},
    {"aten::count_nonzero.dim_IntList", lower_count_nonzero},
};

}  // namespace

Span<const Lowering> reduce_lowerings() { return table; }

}  // namespace tern::onnx
