// Attention in ONNX, written out: the form that runtimes look for when they fuse.
#include <cmath>

#include "tern/onnx/lower.h"

namespace tern::onnx {

namespace {

struct Attention {
  Ref mask;
  double dropout = 0;
  bool causal = false;
  std::optional<double> scale = {};
  bool grouped = false;
};

// Each key and value head serves several query heads.
Ref repeated_heads(Call& c, const Ref& kv, size_t i) {
  auto have = c.dim(i, -3), want = c.dim(0, -3);
  if (!have || !want || *have == 0 || *want % *have) c.refuse("enable_gqa needs static numbers of heads");
  if (*have == *want) return kv;
  int64_t rank = c.rank(i), times = *want / *have;
  std::vector<Size> wide, flat;
  for (int64_t d = 0; d < rank; ++d) {
    auto n = c.dim(i, d);
    Size size = n ? Size{*n} : Size{0, c.size_of(kv, d)};
    wide.push_back(size);
    if (d == rank - 3) wide.push_back({times});
    flat.push_back(d == rank - 3 ? Size{*want} : size);
  }
  return c.reshape(c.emit("Expand", {c.unsqueeze(kv, {rank - 2}), c.join(wide)}), flat);
}

Ref causal_mask(Call& c, const Ref& q, const Ref& k) {
  Ref shape = c.emit("Concat", {c.size_of(q, -2), c.size_of(k, -2)}, {Attribute::of("axis", int64_t{0})});
  TensorProto one = to_proto(from_vector(std::vector<int64_t>{1}, {1}));
  Ref ones = c.emit("ConstantOfShape", {shape}, {Attribute::of("value", std::move(one))}, DType::int64);
  return c.cast(c.emit("Trilu", {ones, c.constant(Scalar(0), kLong)}, {Attribute::of("upper", int64_t{0})}),
                DType::bool_);
}

void lower(Call& c, const Attention& a) {
  if (a.dropout != 0) c.refuse("attention with dropout; call eval() on the module before it is exported");
  Ref q = c.tensor(0), k = c.tensor(1), v = c.tensor(2);
  int64_t rank = c.rank(1);
  if (a.grouped) k = repeated_heads(c, k, 1), v = repeated_heads(c, v, 2);
  auto number = [&](double x) { return c.constant(Scalar(x), q.dtype); };
  Ref scale;
  if (a.scale) {
    scale = number(*a.scale);
  } else if (auto width = c.dim(0, -1)) {
    scale = number(1 / std::sqrt(static_cast<double>(*width)));
  } else {
    scale = c.emit("Reciprocal", {c.emit("Sqrt", {c.cast(c.size_of(q, -1), q.dtype)})});
  }
  std::vector<int64_t> perm;
  for (int64_t d = 0; d < rank; ++d) perm.push_back(d);
  std::swap(perm[static_cast<size_t>(rank) - 1], perm[static_cast<size_t>(rank) - 2]);
  Ref scores = c.emit("MatMul", {c.emit("Mul", {q, scale}), c.transpose(k, perm)});
  bool may_be_empty = false;  // a row without any key is zero, not NaN
  Ref mask = a.causal ? causal_mask(c, q, k) : a.mask;
  if (mask && mask.dtype == DType::bool_) {
    may_be_empty = !a.causal;
    scores = c.emit("Where", {mask, scores, number(-INFINITY)});
  } else if (mask) {
    scores = c.emit("Add", {scores, c.cast(mask, q.dtype)});
  }
  Ref weights = c.emit("Softmax", {scores}, {Attribute::of("axis", int64_t{-1})});
  if (may_be_empty) weights = c.emit("Where", {c.emit("IsNaN", {weights}), number(0), weights});
  c.set(c.emit("MatMul", {weights, v}));
}

// (query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
void lower_sdpa(Call& c) {
  Attention a;
  a.mask = c.tensor(3);
  a.dropout = c.is_none(4) ? 0 : c.number(4);
  a.causal = c.flag(5);
  if (!c.is_none(6)) a.scale = c.number(6);
  a.grouped = c.flag(7);
  if (a.causal && a.mask) c.refuse("both attn_mask and is_causal are given");
  lower(c, a);
}

// (query, key, value, dropout_p, is_causal, attn_mask, scale)
void lower_flash_for_cpu(Call& c) {
  Attention a;
  a.dropout = c.is_none(3) ? 0 : c.number(3);
  a.causal = c.flag(4);
  a.mask = c.tensor(5);
  if (!c.is_none(6)) a.scale = c.number(6);
  lower(c, a);
}

constexpr Lowering table[] = {
    {"aten::scaled_dot_product_attention", lower_sdpa},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", lower_flash_for_cpu},
};

}  // namespace

Span<const Lowering> attention_lowerings() { return table; }

}  // namespace tern::onnx
