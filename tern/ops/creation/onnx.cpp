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

void lower_linspace(Call& c) {
  int64_t n = c.integer(2);
  double start = c.number(0), end = c.number(1),
         step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  if (n > (1 << 24)) c.refuse("linspace with so many steps cannot be expressed");
  std::vector<double> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)  // both halves from their own end, as PyTorch computes them
    values[static_cast<size_t>(i)] =
        i < n / 2 ? start + step * static_cast<double>(i) : end - step * static_cast<double>(n - 1 - i);
  DType dtype = c.dtype() == DType::undefined ? default_dtype() : c.dtype();
  c.set(c.constant(from_vector(values, {n}).to(dtype)));
}

void eye(Call& c, int64_t rows, int64_t columns) {
  if (rows < 0 || columns < 0 || rows * std::max<int64_t>(columns, 1) > (1 << 26))
    c.refuse("eye of this size cannot be expressed");
  DType dtype = c.dtype() == DType::undefined ? default_dtype() : c.dtype();
  Ref zeros = filled(c, c.constant(std::vector<int64_t>{rows, columns}), Scalar(0), dtype);
  c.set(
      c.emit("EyeLike", {zeros}, {Attribute::of("dtype", static_cast<int64_t>(data_type_of(dtype)))}, dtype));
}
void lower_eye(Call& c) { eye(c, c.integer(0), c.integer(0)); }
void lower_eye_m(Call& c) { eye(c, c.integer(0), c.integer(1)); }

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
    {"aten::linspace", lower_linspace},
    {"aten::eye", lower_eye},
    {"aten::eye.m", lower_eye_m},
    {"aten::rand", lower_random<false>},
    {"aten::randn", lower_random<true>},
};

}  // namespace

Span<const Lowering> creation_lowerings() { return table; }

}  // namespace tern::onnx
