// Attention: the fused kernel where it fits, else PyTorch's chain of matrix products and softmax.
#include "tern/kernels/attention.h"

#include <cmath>

#include "tern/base/format.h"
#include "tern/dispatch/pointwise.h"
#include "tern/ops.h"
#include "tern/ops/attention.args.h"
#include "tern/ops/elements.h"
#include "tern/ops/view/geometry.h"

namespace tern {
namespace {

double scale_of(const Tensor& query, std::optional<double> scale) {
  if (scale) return *scale;
  return 1 / std::sqrt(static_cast<double>(query.sizes().back().guard_int()));
}

void check_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  if (q.dtype() != k.dtype() || q.dtype() != v.dtype())
    failf(
        "Expected query, key, and value to have the same dtype, but got query.dtype: {} key.dtype: {} and "
        "value.dtype: {} instead.",
        name(q.dtype()), name(k.dtype()), name(v.dtype()));
  if (q.dim() < 2 || k.dim() < 2 || v.dim() < 2)
    failf(
        "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {}, key.dim: "
        "{} and value.dim: {} instead.",
        q.dim(), k.dim(), v.dim());
  if (mask.defined() && mask.dtype() != kBool && mask.dtype() != q.dtype() && mask.dtype() != kFloat)
    failf(
        "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: {} "
        "and  query.dtype: {} instead.",
        name(mask.dtype()), name(q.dtype()));
}

// True where a query sees a key.
Tensor causal_mask(const Tensor& q, const Tensor& k) {
  return tril(ones({q.sizes()[q.dim() - 2], k.sizes()[k.dim() - 2]}, kBool, {}, q.device()));
}
Tensor added_mask(const Tensor& mask, DType dtype) {
  if (!mask.defined() || mask.dtype() != kBool) return mask;
  Device device = mask.device();
  return where(mask, scalar_tensor(0., dtype, {}, device), scalar_tensor(-INFINITY, dtype, {}, device));
}

// Scores with scale and masks applied.
Tensor full_scores(const Tensor& q, const Tensor& k, const Tensor& mask, bool causal, double scale) {
  Tensor scores = matmul(q, transpose(k, -2, -1)) * scale;
  if (causal) scores = masked_fill(scores, logical_not(causal_mask(q, k)), -INFINITY);
  if (mask.defined()) scores = scores + added_mask(mask, q.dtype());
  return scores;
}

// Keys and values of fewer heads than the query's: each serves several heads in a row.
void repeat_heads(const Tensor& query, Tensor& key, Tensor& value) {
  int64_t q = query.size(-3).guard_int(), k = key.size(-3).guard_int(), v = value.size(-3).guard_int();
  if (k == 0 || v == 0 || q % k || q % v)
    failf("Number of heads in key and value must divide the number of heads in query, but got {}, {} and {}",
          k, v, q);
  if (q != k) key = repeat_interleave(key, SymInt(q / k), -3);
  if (q != v) value = repeat_interleave(value, SymInt(q / v), -3);
}

bool fits_fused(const args::scaled_dot_product_attention& a) {
  const Tensor &q = a.query, &k = a.key, &v = a.value;
  if (a.dropout_p != 0 || q.dim() != 4 || k.dim() != 4 || v.dim() != 4) return false;
  if (q.dtype() != kFloat && q.dtype() != kDouble && q.dtype() != kHalf && q.dtype() != kBFloat16)
    return false;
  if (a.attn_mask.defined() && a.attn_mask.requires_grad() && thread_state.grad_enabled) return false;
  if (a.attn_mask.defined() && a.attn_mask.dim() != 2 && a.attn_mask.dim() != 4) return false;
  if (a.attn_mask.defined() && a.is_causal)  // as PyTorch has it, whose other path refuses them together
    for (const Tensor* t : {&q, &k, &v, &a.attn_mask})
      if (!surely_eq(t->strides().back(), 1) && !surely_eq(t->sizes().back(), 1)) return false;
  if (!surely_eq(q.sizes()[0], k.sizes()[0]) || !surely_eq(k.sizes()[0], v.sizes()[0])) return false;
  if (!surely_eq(k.sizes()[1], v.sizes()[1])) return false;
  if (!a.enable_gqa && !surely_eq(q.sizes()[1], k.sizes()[1])) return false;
  if (!surely_eq(q.sizes()[3], k.sizes()[3]) || !surely_eq(q.sizes()[3], v.sizes()[3])) return false;
  for (const Tensor* t : {&q, &k, &v})
    if (surely_eq(t->numel(), 0)) return false;
  return surely_eq(k.sizes()[2], v.sizes()[2]);
}

}  // namespace

Tensor body_scaled_dot_product_attention(const args::scaled_dot_product_attention& a) {
  check_attention(a.query, a.key, a.value, a.attn_mask);
  if (fits_fused(a)) {
    Tensor key = a.key, value = a.value, mask = added_mask(a.attn_mask, a.query.dtype());
    if (a.enable_gqa) repeat_heads(a.query, key, value);
    return std::get<0>(
        _scaled_dot_product_flash_attention_for_cpu(a.query, key, value, 0., a.is_causal, mask, a.scale));
  }
  return std::get<0>(_scaled_dot_product_attention_math(a.query, a.key, a.value, a.attn_mask, a.dropout_p,
                                                        a.is_causal, Tensor(), a.scale, a.enable_gqa));
}

std::tuple<Tensor, Tensor> body__scaled_dot_product_attention_math(
    const args::_scaled_dot_product_attention_math& a) {
  check_attention(a.query, a.key, a.value, a.attn_mask);
  if (a.attn_mask.defined() && a.is_causal)
    fail("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True");
  // Narrow floats are multiplied and summed in float32.
  bool narrow = a.query.dtype() == kHalf || a.query.dtype() == kBFloat16;
  auto wide = [&](const Tensor& t) { return narrow ? to(t, kFloat) : t; };
  Tensor query = wide(a.query), key = wide(a.key), value = wide(a.value), mask = a.attn_mask;
  if (a.enable_gqa) repeat_heads(query, key, value);
  if (a.is_causal) mask = causal_mask(query, key);
  mask = added_mask(mask, query.dtype());
  // The root of the scale on both sides keeps narrow floats in range.
  double scale = scale_of(a.query, a.scale), root = std::sqrt(std::abs(scale));
  Tensor scores =
      matmul(mul(query, Scalar(scale < 0 ? -root : root)), mul(transpose(key, -2, -1), Scalar(root)));
  if (mask.defined()) scores = scores + mask;
  Tensor weights = to(_safe_softmax(scores, -1), query.dtype());
  auto original = [&](const Tensor& t) { return narrow ? to(t, a.query.dtype()) : t; };
  if (a.dropout_p > 0) {
    if (a.dropout_mask.defined()) {
      Tensor kept = masked_fill(weights, logical_not(a.dropout_mask), 0);
      return {original(matmul(kept, value * (1 / (1 - a.dropout_p)))), original(weights)};
    }
    weights = dropout(weights, a.dropout_p, true);
  }
  return {original(matmul(weights, value)), original(weights)};
}

// ---- fused ----

Shapes shape__scaled_dot_product_flash_attention_for_cpu(
    const args::_scaled_dot_product_flash_attention_for_cpu& a) {
  const Tensor &q = a.query, &k = a.key, &v = a.value;
  if (q.dim() != 4 || k.dim() != 4 || v.dim() != 4)
    fail("scaled_dot_product_attention_flash_attention: Accept only 4 dims inputs shape of {B, H, T, K}");
  if (!require_eq(q.sizes()[3], k.sizes()[3]) || !require_eq(k.sizes()[2], v.sizes()[2]))
    fail("scaled_dot_product_attention_flash_attention: Q/K/V should have the same head size");
  if (a.dropout_p != 0)
    fail("scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0");
  // Over memory of [B, T, H, K] where the query is: what comes next puts the heads side by side again.
  SymInt b = q.sizes()[0], h = q.sizes()[1], t = q.sizes()[2], w = v.sizes()[3];
  Shape out(Dims{b, h, t, w}, q.dtype());
  if (!q.is_contiguous() && surely_eq(q.strides()[1], q.sizes()[3]))
    out.strides = Dims{t * h * w, w, h * w, SymInt(1)};
  DType sums = q.dtype() == kDouble ? kDouble : kFloat;
  Shape lse(Dims{b, h, t}, sums);
  lse.strides = Dims{t * h, SymInt(1), h};
  return {out, lse};
}
void kernel__scaled_dot_product_flash_attention_for_cpu(
    const args::_scaled_dot_product_flash_attention_for_cpu& a, Out out) {
  if (out[0].int_numel() == 0) return;
  if (a.query.dtype() == kDouble) {
    Tensor scores = full_scores(a.query, a.key, a.attn_mask, a.is_causal, scale_of(a.query, a.scale));
    copy_elements(matmul(_safe_softmax(scores, -1), a.value), out[0]);
    return copy_elements(logsumexp(scores, {-1}), out[1]);
  }
  auto rows = [](const Tensor& t) {
    return t.dtype() == kFloat && t.int_strides()[3] == 1 ? t : row_major(t, kFloat);
  };
  Tensor q = rows(a.query), k = rows(a.key), v = rows(a.value);
  Tensor y = out[0].dtype() == kFloat ? out[0] : make_tensor(out[0].sizes(), out[0].strides(), kFloat);
  kernels::AttentionShape s{};
  s.batch = q.int_sizes()[0];
  s.heads = q.int_sizes()[1];
  s.queries = q.int_sizes()[2];
  s.keys = k.int_sizes()[2];
  s.width = q.int_sizes()[3];
  s.value_width = v.int_sizes()[3];
  for (int d = 0; d < 3; ++d) {
    s.q_strides[d] = q.int_strides()[d];
    s.k_strides[d] = k.int_strides()[d];
    s.v_strides[d] = v.int_strides()[d];
    s.y_strides[d] = y.int_strides()[d];
  }
  s.scale = static_cast<float>(scale_of(a.query, a.scale));
  s.causal = a.is_causal;
  Tensor mask;
  if (a.attn_mask.defined()) {
    bool boolean = a.attn_mask.dtype() == kBool;
    mask = boolean || a.attn_mask.dtype() == kFloat ? a.attn_mask : row_major(a.attn_mask, kFloat);
    mask = expand_view(mask, {SymInt(s.batch), SymInt(s.heads), SymInt(s.queries), SymInt(s.keys)});
    if (boolean)
      s.bool_mask = static_cast<const bool*>(mask.data());
    else
      s.mask = static_cast<const float*>(mask.data());
    for (int d = 0; d < 4; ++d) s.mask_strides[d] = mask.int_strides()[d];
  }
  Tensor lse = make_tensor(out[1].sizes(), kFloat);
  s.logsumexp = lse.data_ptr<float>();
  kernels::attention(s, q.data_ptr<float>(), k.data_ptr<float>(), v.data_ptr<float>(), y.data_ptr<float>());
  // A query that sees no key gives zeros, as in PyTorch.
  if (mask.defined()) {
    const float* sums = lse.data_ptr<float>();
    float* p = y.data_ptr<float>();
    for (int64_t i = 0; i < lse.int_numel(); ++i)
      if (std::isinf(sums[i]) && sums[i] < 0)
        std::fill_n(p + i / (s.heads * s.queries) * s.y_strides[0] +
                        i / s.queries % s.heads * s.y_strides[1] + i % s.queries * s.y_strides[2],
                    s.value_width, 0.f);
  }
  if (!y.is_same(out[0])) copy_elements(y, out[0]);
  copy_elements(lse, out[1]);
}

std::tuple<Tensor, Tensor> body__scaled_dot_product_flash_attention_for_cpu(
    const args::_scaled_dot_product_flash_attention_for_cpu& a) {
  Tensor mask = added_mask(a.attn_mask, a.query.dtype());
  const bool both = mask.defined() && a.is_causal;
  if (both) mask = mask + added_mask(causal_mask(a.query, a.key), a.query.dtype());
  Tensor out = std::get<0>(_scaled_dot_product_attention_math(
      a.query, a.key, a.value, both ? mask : a.attn_mask, 0., a.is_causal && !both, Tensor(), a.scale));
  Tensor scores = full_scores(a.query, a.key, a.attn_mask, a.is_causal, scale_of(a.query, a.scale));
  // Over memory of [T, B, H, K], as PyTorch's formula leaves it.
  out = permute(clone(permute(out, {2, 0, 1, 3}), MemoryFormat::contiguous), {1, 2, 0, 3});
  return {out, logsumexp(scores, {-1})};
}

// From the inputs again: the weights are cheaper to compute than to keep.
std::tuple<Tensor, Tensor, Tensor> body__scaled_dot_product_flash_attention_for_cpu_backward(
    const args::_scaled_dot_product_flash_attention_for_cpu_backward& a) {
  double scale = scale_of(a.query, a.scale);
  Tensor weights = _safe_softmax(full_scores(a.query, a.key, a.attn_mask, a.is_causal, scale), -1);
  Tensor grad_value = matmul(transpose(weights, -2, -1), a.grad_out);
  Tensor grad_weights = matmul(a.grad_out, transpose(a.value, -2, -1));
  Tensor grad_scores = weights * (grad_weights - sum(weights * grad_weights, {-1}, true));
  return {matmul(grad_scores, a.key) * scale, matmul(transpose(grad_scores, -2, -1), a.query) * scale,
          grad_value};
}

std::tuple<Tensor, Tensor, Tensor> body__transform_bias_rescale_qkv(
    const args::_transform_bias_rescale_qkv& a) {
  if (a.qkv.dim() != 3 || a.qkv_bias.dim() != 1 || !(a.qkv.size(2) == a.qkv_bias.size(0)) ||
      !(mod(a.qkv.size(2), 3) == 0))
    failf("expected `qkv` of [batch, length, 3 * width] and as wide a bias, but got {} and {}",
          str(a.qkv.sizes()), str(a.qkv_bias.sizes()));
  SymInt width = floor_div(a.qkv.size(2), 3);
  if (a.num_heads <= 0 || !(mod(width, a.num_heads) == 0))
    failf("expected {} heads to divide the width {}", a.num_heads, width.str());
  SymInt head = floor_div(width, a.num_heads);
  Tensor heads = (a.qkv + a.qkv_bias)
                     .reshape({a.qkv.size(0), a.qkv.size(1), 3, a.num_heads, head})
                     .permute({2, 0, 3, 1, 4});
  double scale = 1 / std::sqrt(static_cast<double>(head.guard_int()));
  return {select(heads, 0, 0) * scale, select(heads, 0, 1).contiguous(), select(heads, 0, 2).contiguous()};
}

}  // namespace tern
