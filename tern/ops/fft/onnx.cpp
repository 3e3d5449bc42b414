// Complex numbers in ONNX: its operators have none but DFT, whose values are pairs of reals in a last
// dimension of two. Every complex tensor becomes such pairs, as it does in PyTorch's exporter; the Ref of one
// keeps the complex dtype and the rank without the pairs.
#include <cmath>
#include <complex>

#include "tern/onnx/lower.h"
#include "tern/ops.h"

namespace tern::onnx {
namespace {

Ref as_pairs(Ref r) {
  if (!is_complex(r.dtype)) return r;
  r.dtype = to_real(r.dtype);
  if (r.rank >= 0) ++r.rank;
  return r;
}
Ref as_complex(Ref r) {
  r.dtype = to_complex(r.dtype);
  if (r.rank > 0) --r.rank;
  return r;
}
void set_pairs(Call& c, const Ref& pairs) { c.set(as_complex(pairs)); }

Ref vector_of(Call& c, std::vector<double> values, DType dtype) {
  const int64_t n = static_cast<int64_t>(values.size());
  return c.constant(from_vector(values, {n}).to(dtype));
}
Ref part(Call& c, const Ref& pairs, int64_t which) {
  return c.emit("Gather", {pairs, c.constant(Scalar(which), kLong)}, {Attribute::of("axis", int64_t{-1})});
}
Ref joined(Call& c, const Ref& re, const Ref& im) {
  return c.emit("Concat", {c.unsqueeze(re, {-1}), c.unsqueeze(im, {-1})},
                {Attribute::of("axis", int64_t{-1})});
}
Ref conjugate(Call& c, const Ref& pairs) {
  return c.emit("Mul", {pairs, vector_of(c, {1, -1}, pairs.dtype)});
}

// An operand of arithmetic beside a complex one: pairs, or a real factor that broadcasts over them.
struct Operand {
  Ref value;
  bool complex = false;
};
Operand operand(Call& c, size_t i, DType real) {
  if (c.is_constant(i) && !c.type(i)->has_sizes()) {
    Scalar s = c.scalar(i);
    if (!s.is_complex()) return {c.constant(s, real)};
    return {vector_of(c, {s.to_complex().real(), s.to_complex().imag()}, real), true};
  }
  Ref r = c.tensor(i);
  if (is_complex(r.dtype)) return {c.cast(as_pairs(r), real), true};
  return {c.unsqueeze(c.cast(r, real), {-1})};
}
Ref with_zero(Call& c, const Operand& o) {
  return o.complex ? o.value : c.emit("Mul", {o.value, vector_of(c, {1, 0}, o.value.dtype)});
}
DType real_type(Call& c) {
  DType d = c.dtype();
  if (d != DType::undefined) return to_real(d);
  d = c.tensor(0).dtype;
  return to_real(d);
}

template <bool Subtract>
void lower_add(Call& c) {
  const DType real = real_type(c);
  Ref a = with_zero(c, operand(c, 0, real)), b = with_zero(c, operand(c, 1, real));
  if (!c.is_none(2) && !c.scalar(2).equals(1)) {
    if (c.scalar(2).is_complex()) c.refuse("alpha is a complex number");
    b = c.emit("Mul", {b, c.constant(c.scalar(2), real)});
  }
  set_pairs(c, c.emit(Subtract ? "Sub" : "Add", {a, b}));
}

// The product of pairs, in terms of a product of reals.
Ref product(Call& c, const char* op, const Ref& a, const Ref& b) {
  Ref ar = part(c, a, 0), ai = part(c, a, 1), br = part(c, b, 0), bi = part(c, b, 1);
  return joined(c, c.emit("Sub", {c.emit(op, {ar, br}), c.emit(op, {ai, bi})}),
                c.emit("Add", {c.emit(op, {ar, bi}), c.emit(op, {ai, br})}));
}
void lower_mul(Call& c) {
  const DType real = real_type(c);
  Operand a = operand(c, 0, real), b = operand(c, 1, real);
  set_pairs(c,
            a.complex && b.complex ? product(c, "Mul", a.value, b.value) : c.emit("Mul", {a.value, b.value}));
}
void lower_div(Call& c) {
  const DType real = real_type(c);
  Operand a = operand(c, 0, real), b = operand(c, 1, real);
  if (!b.complex) return set_pairs(c, c.emit("Div", {a.value, b.value}));
  Ref above = product(c, "Mul", with_zero(c, a), conjugate(c, b.value));
  Ref below = c.emit("ReduceSumSquare", {b.value, c.constant(std::vector<int64_t>{-1})},
                     {Attribute::of("keepdims", int64_t{1})});
  set_pairs(c, c.emit("Div", {above, below}));
}
void lower_matmul(Call& c) {
  auto pairs = [&](size_t i) {
    Ref r = c.tensor(i);
    if (is_complex(r.dtype)) return as_pairs(r);
    return c.emit("Mul", {c.unsqueeze(c.cast(r, real_type(c)), {-1}), vector_of(c, {1, 0}, real_type(c))});
  };
  set_pairs(c, product(c, "MatMul", pairs(0), pairs(1)));
}
void lower_neg(Call& c) { set_pairs(c, c.emit("Neg", {as_pairs(c.tensor(0))})); }
void lower_conj(Call& c) { set_pairs(c, conjugate(c, as_pairs(c.tensor(0)))); }

// ---- from and to reals ----

void lower_view_as_real(Call& c) { c.set(as_pairs(c.tensor(0))); }
void lower_view_as_complex(Call& c) { set_pairs(c, c.tensor(0)); }
template <int64_t Which>
void lower_part(Call& c) {
  c.set(part(c, as_pairs(c.tensor(0)), Which));
}
void lower_abs(Call& c) {
  c.set(c.emit("ReduceL2", {as_pairs(c.tensor(0)), c.constant(std::vector<int64_t>{-1})},
               {Attribute::of("keepdims", int64_t{0})}));
}
void lower_complex(Call& c) {
  Ref re = c.tensor(0);
  set_pairs(c, joined(c, re, c.cast(c.tensor(1), re.dtype)));
}
// Of y/x, turned by half a circle where x is negative.
void lower_angle(Call& c) {
  Ref pairs = as_pairs(c.tensor(0)), x = part(c, pairs, 0), y = part(c, pairs, 1);
  const DType d = pairs.dtype;
  Ref zero = c.constant(Scalar(0.0), d), pi = c.constant(Scalar(3.141592653589793), d);
  Ref up = c.emit("Where", {c.emit("Less", {y, zero}, {}, kBool), c.emit("Neg", {pi}), pi}, {}, d);
  Ref half =
      c.emit("Div", {c.emit("Mul", {up, c.emit("Abs", {c.emit("Sign", {y})})}), c.constant(Scalar(2.0), d)});
  Ref nowhere = c.emit("Equal", {x, zero}, {}, kBool);
  Ref safe = c.emit("Where", {nowhere, c.constant(Scalar(1.0), d), x}, {}, d);
  Ref turned = c.emit("Where", {c.emit("Less", {x, zero}, {}, kBool), up, zero}, {}, d);
  Ref plain = c.emit("Add", {c.emit("Atan", {c.emit("Div", {y, safe})}), turned});
  c.set(c.emit("Where", {nowhere, half, plain}, {}, d));
}

// ---- moving elements: as for reals, the pairs stay last ----

int64_t wrapped(int64_t d, int64_t rank) { return d < 0 ? d + rank : d; }

void lower_same(Call& c) { c.set(c.tensor(0)); }
void lower_to_copy(Call& c) {
  DType to = c.dtype();
  Ref x = c.tensor(0);
  if (is_complex(to) && is_complex(x.dtype)) return set_pairs(c, c.cast(as_pairs(x), to_real(to)));
  if (is_complex(to)) {
    Ref wide = c.unsqueeze(c.cast(x, to_real(to)), {-1});
    return set_pairs(c, c.emit("Mul", {wide, vector_of(c, {1, 0}, to_real(to))}));
  }
  c.set(c.cast(part(c, as_pairs(x), 0), to));
}
void lower_reshape(Call& c) {
  std::vector<Size> sizes = c.result_extents();
  sizes.push_back({2});
  set_pairs(c, c.reshape(as_pairs(c.tensor(0)), std::move(sizes)));
}
void lower_expand(Call& c) {
  std::vector<Size> sizes = c.result_extents();
  sizes.push_back({2});
  const int64_t missing = static_cast<int64_t>(sizes.size()) - 1 - c.rank(0);
  Ref x = as_pairs(c.tensor(0));
  std::vector<int64_t> front;
  for (int64_t d = 0; d < missing; ++d) front.push_back(d);
  if (!front.empty()) x = c.unsqueeze(x, front);
  set_pairs(c, c.emit("Expand", {x, c.join(sizes)}));
}
void permuted(Call& c, std::vector<int64_t> order) {
  order.push_back(static_cast<int64_t>(order.size()));
  set_pairs(c, c.transpose(as_pairs(c.tensor(0)), std::move(order)));
}
void lower_permute(Call& c) {
  std::vector<int64_t> order = c.ints(1);
  for (int64_t& d : order) d = wrapped(d, c.rank(0));
  permuted(c, std::move(order));
}
void swapped(Call& c, int64_t a, int64_t b) {
  std::vector<int64_t> order;
  for (int64_t d = 0; d < c.rank(0); ++d) order.push_back(d);
  if (!order.empty()) std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  permuted(c, std::move(order));
}
void lower_transpose(Call& c) {
  swapped(c, wrapped(c.integer(1), c.rank(0)), wrapped(c.integer(2), c.rank(0)));
}
void lower_t(Call& c) { c.rank(0) < 2 ? c.set(c.tensor(0)) : swapped(c, 0, 1); }
void lower_unsqueeze(Call& c) {
  set_pairs(c, c.unsqueeze(as_pairs(c.tensor(0)), {wrapped(c.integer(1), c.rank(0) + 1)}));
}
void lower_slice(Call& c) {
  Size start = c.is_none(2) ? Size{0} : c.extent(2), end = c.is_none(3) ? Size{INT64_MAX} : c.extent(3);
  Size step = c.size() > 4 ? c.extent(4) : Size{1};
  set_pairs(c, c.emit("Slice", {as_pairs(c.tensor(0)), c.as_vector(start), c.as_vector(end),
                                c.constant(std::vector<int64_t>{wrapped(c.integer(1), c.rank(0))}),
                                c.as_vector(step)}));
}
void lower_select(Call& c) {
  set_pairs(c, c.emit("Gather", {as_pairs(c.tensor(0)), c.as_scalar(c.extent(2))},
                      {Attribute::of("axis", wrapped(c.integer(1), c.rank(0)))}));
}
void lower_index_select(Call& c) {
  set_pairs(c, c.emit("Gather", {as_pairs(c.tensor(0)), c.tensor(2)},
                      {Attribute::of("axis", wrapped(c.integer(1), c.rank(0)))}));
}
std::vector<Ref> all_pairs(Call& c) {
  std::vector<Ref> parts;
  for (const Ref& r : c.tensors(0)) {
    if (!is_complex(r.dtype)) c.refuse("a list of complex and real tensors");
    parts.push_back(as_pairs(r));
  }
  return parts;
}
int64_t result_rank(Call& c) {
  if (!c.result_type()->has_sizes()) c.refuse("the number of dimensions of the result is not known");
  return static_cast<int64_t>(c.result_type()->sizes().size());
}
void lower_cat(Call& c) {
  const int64_t axis = wrapped(c.size() > 1 ? c.integer(1) : 0, result_rank(c));
  set_pairs(c, c.emit("Concat", all_pairs(c), {Attribute::of("axis", axis)}));
}
void lower_stack(Call& c) {
  const int64_t axis = wrapped(c.size() > 1 ? c.integer(1) : 0, result_rank(c));
  std::vector<Ref> parts;
  for (const Ref& r : all_pairs(c)) parts.push_back(c.unsqueeze(r, {axis}));
  set_pairs(c, c.emit("Concat", std::move(parts), {Attribute::of("axis", axis)}));
}
void lower_constant_pad(Call& c) {  // amounts begin with the last dimension: (before, after) each
  std::vector<Size> amounts = c.extents(1);
  const size_t rank = static_cast<size_t>(c.rank(0));
  if (!c.is_none(2) && !c.scalar(2).equals(0))
    c.refuse("padding of complex numbers with another value than 0");
  std::vector<Size> all(2 * (rank + 1), Size{0});
  for (size_t i = 0; 2 * i + 1 < amounts.size(); ++i) {
    all[rank - 1 - i] = amounts[2 * i];
    all[rank + 1 + rank - 1 - i] = amounts[2 * i + 1];
  }
  set_pairs(c, c.emit("Pad", {as_pairs(c.tensor(0)), c.join(all)}));
}
template <bool Mean>
void lower_sum(Call& c) {  // (self, dim, keepdim)
  std::vector<int64_t> dims = c.is_none(1) ? std::vector<int64_t>() : c.ints(1);
  if (dims.empty())
    for (int64_t d = 0; d < c.rank(0); ++d) dims.push_back(d);
  for (int64_t& d : dims) d = wrapped(d, c.rank(0));
  set_pairs(c, c.emit(Mean ? "ReduceMean" : "ReduceSum", {as_pairs(c.tensor(0)), c.constant(dims)},
                      {Attribute::of("keepdims", int64_t{c.size() > 2 && c.flag(2)})}));
}

// ---- transforms ----

// `value` is (..., 1) or (..., 2), of `rank` dimensions without these. ONNX Runtime wants one in front of the
// transformed one.
Ref dft(Call& c, Ref value, int64_t rank, int64_t axis, bool inverse, bool onesided) {
  const bool alone = rank == 1;
  if (alone) value = c.unsqueeze(value, {0}), ++axis;
  Attributes at = {Attribute::of("inverse", int64_t{inverse}), Attribute::of("onesided", int64_t{onesided})};
  Ref y;
  if (c.opset() >= 20) {
    y = c.emit("DFT", {value, {}, c.constant(Scalar(axis), kLong)}, std::move(at));
  } else {
    at.push_back(Attribute::of("axis", axis));
    y = c.emit("DFT", {value}, std::move(at));
  }
  return alone ? c.squeeze(y, {0}) : y;
}

// How many points are transformed: a number of the graph where a size is not known.
struct Points {
  double known = 1;
  Ref rest = {};
};
void times(Call& c, Points& points, const Size& size, DType dtype) {
  if (size.is_static()) {
    points.known *= static_cast<double>(size.value);
    return;
  }
  Ref n = c.cast(c.as_scalar(size), dtype);
  points.rest = points.rest ? c.emit("Mul", {points.rest, n}) : n;
}
// normalization: 0 none, 1 by the root of the number of points, 2 by the number. An inverse DFT of ONNX has
// divided by the number already.
Ref scaled(Call& c, Ref value, const Points& points, int64_t normalization, bool inverse) {
  const double power = (normalization == 1 ? -0.5 : normalization == 2 ? -1 : 0) + (inverse ? 1 : 0);
  if (power == 0) return value;
  if (points.rest) {
    Ref n = points.known == 1 ? points.rest
                              : c.emit("Mul", {points.rest, c.constant(Scalar(points.known), value.dtype)});
    return c.emit("Mul", {value, c.emit("Pow", {n, c.constant(Scalar(power), value.dtype)})});
  }
  return c.emit("Mul", {value, c.constant(Scalar(std::pow(points.known, power)), value.dtype)});
}
Size size_at(Call& c, size_t i, int64_t d) {
  if (auto known = c.dim(i, d)) return {*known};
  return {0, c.size_of(as_pairs(c.tensor(i)), d)};
}
std::vector<int64_t> transformed(Call& c) {
  std::vector<int64_t> dims = c.ints(1);
  for (int64_t& d : dims) d = wrapped(d, c.rank(0));
  if (dims.empty()) c.refuse("a transform over no dimensions");
  return dims;
}

void lower_c2c(Call& c) {  // (self, dim, normalization, forward)
  Ref y = as_pairs(c.tensor(0));
  const bool inverse = !c.flag(3);
  Points points;
  for (int64_t d : transformed(c)) {
    times(c, points, size_at(c, 0, d), y.dtype);
    y = dft(c, y, c.rank(0), d, inverse, false);
  }
  set_pairs(c, scaled(c, y, points, c.integer(2), inverse));
}
void lower_r2c(Call& c) {  // (self, dim, normalization, onesided)
  std::vector<int64_t> dims = transformed(c);
  Ref x = c.tensor(0);
  Points points;
  for (int64_t d : dims) times(c, points, size_at(c, 0, d), x.dtype);
  Ref y = dft(c, c.unsqueeze(x, {-1}), c.rank(0), dims.back(), false, c.flag(3));
  for (size_t i = 0; i + 1 < dims.size(); ++i) y = dft(c, y, c.rank(0), dims[i], false, false);
  set_pairs(c, scaled(c, y, points, c.integer(2), false));
}
void lower_c2r(Call& c) {  // (self, dim, normalization, last_dim_size)
  std::vector<int64_t> dims = transformed(c);
  Size length = c.extent(3);
  if (!length.is_static()) c.refuse("the number of points of the real signal must be a constant");
  const int64_t last = dims.back(), n = length.value, kept = n / 2 + 1;
  Ref y = as_pairs(c.tensor(0));
  Points points;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    times(c, points, size_at(c, 0, dims[i]), y.dtype);
    y = dft(c, y, c.rank(0), dims[i], true, false);
  }
  times(c, points, length, y.dtype);
  // The half that is not stored is the conjugate of the other one, backwards.
  auto at = [&](const std::vector<int64_t>& places) {
    return c.emit("Gather", {y, c.constant(places)}, {Attribute::of("axis", last)});
  };
  std::vector<int64_t> front, back;
  for (int64_t k = 0; k < kept; ++k) front.push_back(k);
  for (int64_t k = kept; k < n; ++k) back.push_back(n - k);
  Ref whole = at(front);
  if (!back.empty()) whole = c.emit("Concat", {whole, conjugate(c, at(back))}, {Attribute::of("axis", last)});
  whole = dft(c, whole, c.rank(0), last, true, false);
  c.set(part(c, scaled(c, whole, points, c.integer(2), true), 0));
}

constexpr Lowering table[] = {
    {"aten::_fft_c2c", lower_c2c},
    {"aten::_fft_r2c", lower_r2c},
    {"aten::_fft_c2r", lower_c2r},
    {"aten::view_as_real", lower_view_as_real},
    {"aten::view_as_complex", lower_view_as_complex},
    {"aten::real", lower_part<0>},
    {"aten::imag", lower_part<1>},
    {"aten::complex", lower_complex},
    {"aten::abs", lower_abs},
    {"aten::angle", lower_angle},
    {"aten::add.Tensor", lower_add<false>},
    {"aten::sub.Tensor", lower_add<true>},
    {"aten::mul.Tensor", lower_mul},
    {"aten::mul.Scalar", lower_mul},
    {"aten::div.Tensor", lower_div},
    {"aten::div.Scalar", lower_div},
    {"aten::mm", lower_matmul},
    {"aten::bmm", lower_matmul},
    {"aten::matmul", lower_matmul},
    {"aten::neg", lower_neg},
    {"aten::conj", lower_conj},
    {"aten::_conj", lower_conj},
    {"aten::conj_physical", lower_conj},
    {"aten::_conj_physical", lower_conj},
    {"aten::resolve_conj", lower_same},
    {"aten::resolve_neg", lower_same},
    {"aten::clone", lower_same},
    {"aten::contiguous", lower_same},
    {"aten::alias", lower_same},
    {"aten::detach", lower_same},
    {"aten::lift_fresh_copy", lower_same},
    {"aten::_to_copy", lower_to_copy},
    {"aten::to.dtype", lower_to_copy},
    {"aten::view", lower_reshape},
    {"aten::reshape", lower_reshape},
    {"aten::_unsafe_view", lower_reshape},
    {"aten::flatten.using_ints", lower_reshape},
    {"aten::unflatten.int", lower_reshape},
    {"aten::squeeze", lower_reshape},
    {"aten::squeeze.dim", lower_reshape},
    {"aten::squeeze.dims", lower_reshape},
    {"aten::expand", lower_expand},
    {"aten::permute", lower_permute},
    {"aten::transpose.int", lower_transpose},
    {"aten::t", lower_t},
    {"aten::unsqueeze", lower_unsqueeze},
    {"aten::slice.Tensor", lower_slice},
    {"aten::select.int", lower_select},
    {"aten::index_select", lower_index_select},
    {"aten::cat", lower_cat},
    {"aten::stack", lower_stack},
    {"aten::constant_pad_nd", lower_constant_pad},
    {"aten::sum.dim_IntList", lower_sum<false>},
    {"aten::mean.dim", lower_sum<true>},
};

}  // namespace

Span<const Lowering> complex_lowerings() { return table; }

}  // namespace tern::onnx
