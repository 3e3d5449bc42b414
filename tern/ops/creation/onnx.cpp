// Making tensors in ONNX.
#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

Ref filled(Call& c, const Ref& shape, const Scalar& value, DType dtype) {
  TensorProto one = to_proto(tern::tensor(value, {.dtype = dtype}).as_view({1}, {1}));
  return c.emit("ConstantOfShape", {shape}, {Attribute::of("value", std::move(one))}, dtype);
}

DType wanted(Call& c, const Scalar& value) {
  if (c.dtype() != DType::undefined) return c.dtype();
  return value.dtype();
}

void lower_full(Call& c) {
  std::vector<Size> sizes = c.extents(0);
  if (!c.is_constant(1)) {
    Ref v = c.tensor(1);
    if (v.rank > 0) v = c.squeeze(v, {0});
    if (c.dtype() != DType::undefined) v = c.cast(v, c.dtype());
    return c.set(sizes.empty() ? v : c.emit("Expand", {v, c.join(sizes)}));
  }
  c.set(filled(c, c.join(sizes), c.scalar(1), wanted(c, c.scalar(1))));
}
template <int Value>
void lower_filled(Call& c) {
  c.set(filled(c, c.join(c.extents(0)), Scalar(Value),
               c.dtype() == DType::undefined ? default_dtype() : c.dtype()));
}
DType like(Call& c) { return c.dtype() == DType::undefined ? c.tensor(0).dtype : c.dtype(); }
Ref shape_like(Call& c) {
  const ir::Type* t = c.type(0);
  std::vector<int64_t> dims;
  bool known = t->has_sizes();
  for (size_t d = 0; known && d < t->sizes().size(); ++d) {
    auto n = c.dim(0, static_cast<int64_t>(d));
    known = n.has_value();
    if (n) dims.push_back(*n);
  }
  return known ? c.constant(dims) : c.shape(c.tensor(0));
}
template <int Value>
void lower_filled_like(Call& c) {
  c.set(filled(c, shape_like(c), Scalar(Value), like(c)));
}
void lower_full_like(Call& c) {
  if (c.is_constant(1)) return c.set(filled(c, shape_like(c), c.scalar(1), like(c)));
  c.set(c.emit("Expand", {c.cast(c.tensor(1), like(c)), c.shape(c.tensor(0))}));
}
template <int Value>
void lower_new_filled(Call& c) {
  c.set(filled(c, c.join(c.extents(1)), Scalar(Value), like(c)));
}
void lower_new_full(Call& c) { c.set(filled(c, c.join(c.extents(1)), c.scalar(2), like(c))); }

void lower_scalar_tensor(Call& c) {
  if (c.is_constant(0)) return c.set(c.constant(c.scalar(0), wanted(c, c.scalar(0))));
  Ref v = c.tensor(0);
  if (v.rank > 0) v = c.squeeze(v, {0});
  c.set(c.dtype() == DType::undefined ? v : c.cast(v, c.dtype()));
}

// A range that is known becomes a constant unless it is large.
void range(Call& c, std::optional<size_t> start, size_t end, std::optional<size_t> step) {
  DType dtype = c.dtype();
  if (dtype == DType::undefined) {
    dtype = DType::int64;
    for (auto i : {start, std::optional(end), step})
      if (i && c.is_constant(*i) && c.scalar(*i).is_float()) dtype = default_dtype();
  }
  auto value = [&](std::optional<size_t> i, int64_t otherwise) -> Ref {
    DType compute =
        dtype == DType::int64 || dtype == DType::float32 || dtype == DType::float64 || dtype == DType::int32
            ? dtype
        : is_floating(dtype) ? DType::float32
                             : DType::int64;
    if (!i) return c.constant(Scalar(otherwise), compute);
    if (c.is_constant(*i)) return c.constant(c.scalar(*i), compute);
    Ref r = c.tensor(*i);
    if (r.rank > 0) r = c.as_scalar({0, r});
    return c.cast(r, compute);
  };
  c.set(c.cast(c.emit("Range", {value(start, 0), value(end, 0), value(step, 1)}), dtype));
}
void lower_arange(Call& c) { range(c, {}, 0, {}); }
void lower_arange_start(Call& c) { range(c, 0, 1, {}); }
void lower_arange_start_step(Call& c) { range(c, 0, 1, 2); }

// Both halves from their own end, as PyTorch computes them; a single step is the start. Where a limit is a
// tensor, `from_start` and the multiple of the step are constants.
template <bool... IsTensor>
void lower_linspace(Call& c) {
  const int64_t n = c.integer(2);
  if (n > (1 << 24)) c.refuse("linspace with so many steps cannot be expressed");
  const DType dtype = c.dtype() == DType::undefined ? default_dtype() : c.dtype();
  if (is_complex(dtype)) c.refuse("linspace of complex numbers cannot be expressed");
  std::vector<double> from_start(static_cast<size_t>(n)), steps(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const bool first = i < n / 2 || n == 1;
    from_start[static_cast<size_t>(i)] = first;
    steps[static_cast<size_t>(i)] = static_cast<double>(first ? i : i - (n - 1));
  }
  const double parts = static_cast<double>(std::max<int64_t>(n - 1, 1));
  constexpr bool is_tensor[] = {IsTensor...};
  auto is_number = [&](size_t i) { return !is_tensor[i] && c.is_constant(i); };
  if (is_number(0) && is_number(1)) {
    const double start = c.number(0), end = c.number(1), step = (end - start) / parts;
    for (size_t i = 0; i < steps.size(); ++i) steps[i] = (from_start[i] != 0 ? start : end) + steps[i] * step;
    return c.set(c.constant(from_vector(steps, {n}).to(dtype)));
  }
  const DType compute = dtype == DType::float32 ? dtype : DType::float64;
  auto limit = [&](size_t i) {
    if (is_number(i)) return c.constant(c.scalar(i), compute);
    Ref r = c.tensor(i);
    return c.cast(r.rank > 0 ? c.as_scalar({0, r}) : r, compute);
  };
  const Ref start = limit(0), end = limit(1);
  const Ref step = c.emit("Div", {c.emit("Sub", {end, start}), c.constant(Scalar(parts), compute)});
  const Ref base = c.emit("Where", {c.constant(from_vector(from_start, {n}).to(kBool)), start, end});
  c.set(c.cast(c.emit("Add", {base, c.emit("Mul", {step, c.constant(from_vector(steps, {n}).to(compute))})}),
               dtype));
}

void eye(Call& c, const Size& rows, const Size& columns) {
  DType dtype = c.dtype() == DType::undefined ? default_dtype() : c.dtype();
  Size sizes[] = {rows, columns};
  Ref zeros = filled(c, c.join(sizes), Scalar(0), dtype);
  c.set(
      c.emit("EyeLike", {zeros}, {Attribute::of("dtype", static_cast<int64_t>(data_type_of(dtype)))}, dtype));
}
void lower_eye(Call& c) { eye(c, c.extent(0), c.extent(0)); }
void lower_eye_m(Call& c) { eye(c, c.extent(0), c.extent(1)); }

template <bool Normal>
void lower_random(Call& c) {
  DType dtype = c.dtype() == DType::undefined ? default_dtype() : c.dtype();
  Ref shaped = filled(c, c.join(c.extents(0)), Scalar(0), dtype);
  c.set(c.emit(Normal ? "RandomNormalLike" : "RandomUniformLike", {shaped},
               {Attribute::of("dtype", static_cast<int64_t>(data_type_of(dtype)))}, dtype));
}

constexpr Lowering table[] = {
    {"aten::full", lower_full},
    {"aten::zeros", lower_filled<0>},
    {"aten::ones", lower_filled<1>},
    {"aten::empty.memory_format", lower_filled<0>},  // what nobody has written may be anything
    {"aten::empty_permuted", lower_filled<0>},
    {"aten::empty_strided", lower_filled<0>},
    {"aten::zeros_like", lower_filled_like<0>},
    {"aten::ones_like", lower_filled_like<1>},
    {"aten::empty_like", lower_filled_like<0>},
    {"aten::full_like", lower_full_like},
    {"aten::fill.Scalar", lower_full_like},
    {"aten::fill.Tensor", lower_full_like},
    {"aten::zero", lower_filled_like<0>},
    {"aten::new_zeros", lower_new_filled<0>},
    {"aten::new_ones", lower_new_filled<1>},
    {"aten::new_empty", lower_new_filled<0>},
    {"aten::new_empty_strided", lower_new_filled<0>},
    {"aten::new_full", lower_new_full},
    {"aten::scalar_tensor", lower_scalar_tensor},
    {"aten::arange", lower_arange},
    {"aten::arange.start", lower_arange_start},
    {"aten::arange.start_step", lower_arange_start_step},
    {"aten::linspace", lower_linspace<false, false>},
    {"aten::linspace.Tensor_Tensor", lower_linspace<true, true>},
    {"aten::linspace.Tensor_Scalar", lower_linspace<true, false>},
    {"aten::linspace.Scalar_Tensor", lower_linspace<false, true>},
    {"aten::eye", lower_eye},
    {"aten::eye.m", lower_eye_m},
    {"aten::rand", lower_random<false>},
    {"aten::randn", lower_random<true>},
};

}  // namespace

Span<const Lowering> creation_lowerings() { return table; }

}  // namespace tern::onnx
