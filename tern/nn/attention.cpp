// Multi-head attention as torch.nn.functional writes it down: the same operators in the same order, without
// the fused inference path, so that training, capture and inference are one computation.
#include <cmath>
#include <limits>

#include "tern/base/format.h"
#include "tern/dispatch/ladder.h"
#include "tern/nn/functional.h"
#include "tern/ops.h"

namespace tern::nn::F {
namespace {

struct Projected {
  Tensor q, k, v;
};

// (…, n·E) as n tensors (…, E) that are dense each.
Tensor unpack(const Tensor& projected, int64_t parts, SymInt width) {
  return tern::unflatten(projected, -1, {parts, width})
      .unsqueeze(0)
      .transpose(0, -2)
      .squeeze(-2)
      .contiguous();
}

Projected project_packed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w,
                         const Tensor& b) {
  SymInt width = q.size(-1);
  if (k.is_same(v) && q.is_same(k)) {
    Tensor all = unpack(tern::linear(q, w, b), 3, width);
    return {all.select(0, 0), all.select(0, 1), all.select(0, 2)};
  }
  if (k.is_same(v)) {
    auto weights = tern::split(w, {width, width * 2});
    std::vector<Tensor> biases(2);
    if (b.defined()) biases = tern::split(b, {width, width * 2});
    Tensor query = tern::linear(q, weights[0], biases[0]);
    Tensor both = unpack(tern::linear(k, weights[1], biases[1]), 2, width);
    return {query, both.select(0, 0), both.select(0, 1)};
  }
  auto weights = w.chunk(3);
  std::vector<Tensor> biases(3);
  if (b.defined()) biases = b.chunk(3);
  return {tern::linear(q, weights[0], biases[0]), tern::linear(k, weights[1], biases[1]),
          tern::linear(v, weights[2], biases[2])};
}

Projected project(const Tensor& q, const Tensor& k, const Tensor& v, const MultiHeadArgs& a) {
  if (!a.q_proj_weight.defined()) return project_packed(q, k, v, a.in_proj_weight, a.in_proj_bias);
  std::vector<Tensor> biases(3);
  if (a.in_proj_bias.defined()) biases = a.in_proj_bias.chunk(3);
  return {tern::linear(q, a.q_proj_weight, biases[0]), tern::linear(k, a.k_proj_weight, biases[1]),
          tern::linear(v, a.v_proj_weight, biases[2])};
}

// True for (L, N, E), false for (L, E); throws for mixtures.
bool check_shapes(const Tensor& q, const Tensor& k, const Tensor& v, const MultiHeadArgs& a) {
  if (q.dim() != 2 && q.dim() != 3)
    failf("query should be unbatched 2D or batched 3D tensor but received {}-D query tensor", q.dim());
  bool batched = q.dim() == 3;
  if (k.dim() != q.dim() || v.dim() != q.dim())
    failf(
        "For {} `query`, expected `key` and `value` to be {}-D but found {}-D and {}-D tensors respectively",
        batched ? "batched (3-D)" : "unbatched (2-D)", q.dim(), k.dim(), v.dim());
  if (a.key_padding_mask.defined() && a.key_padding_mask.dim() != (batched ? 2 : 1))
    failf("For {} `query`, expected `key_padding_mask` to be `None` or {}-D but found {}-D tensor instead",
          batched ? "batched (3-D)" : "unbatched (2-D)", batched ? 2 : 1, a.key_padding_mask.dim());
  return batched;
}

Tensor shape_mask(const Tensor& mask, SymInt rows, SymInt length, SymInt source) {
  if (mask.dim() == 2) {
    if (mask.size(0) != length || mask.size(1) != source)
      failf("The shape of the 2D attn_mask is torch.Size({}), but should be ({}, {}).",
            tern::str(mask.sizes()), length.str(), source.str());
    return mask.unsqueeze(0);
  }
  if (mask.dim() != 3) failf("attn_mask's dimension {} is not supported", mask.dim());
  if (mask.size(0) != rows || mask.size(1) != length || mask.size(2) != source)
    failf("The shape of the 3D attn_mask is torch.Size({}), but should be ({}, {}, {}).",
          tern::str(mask.sizes()), rows.str(), length.str(), source.str());
  return mask;
}

}  // namespace

Tensor canonical_mask(const Tensor& mask, std::string_view name, DType dtype) {
  if (!mask.defined() || mask.is_floating_point()) return mask;
  if (mask.dtype() != DType::bool_) failf("only bool and floating types of {} are supported", name);
  Tensor zeros = tern::zeros_like(mask, dtype);
  tern::masked_fill_(zeros, mask, -std::numeric_limits<double>::infinity());
  return zeros;
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionArgs& a,
                                    Loc loc) {
  return tern::scaled_dot_product_attention(q, k, v, a.mask, a.dropout, a.is_causal, a.scale, false, loc);
}

std::tuple<Tensor, Tensor> multi_head_attention_forward(const Tensor& query, const Tensor& key,
                                                        const Tensor& value, const MultiHeadArgs& a,
                                                        Loc loc) {
  At at(loc);
  bool batched = check_shapes(query, key, value, a);
  Tensor q_in = query, k_in = key, v_in = value, padding = a.key_padding_mask, mask = a.attn_mask;
  if (!batched) {
    bool same_k = key.is_same(query), same_v = value.is_same(key);
    q_in = query.unsqueeze(1);
    k_in = same_k ? q_in : key.unsqueeze(1);
    v_in = same_v ? k_in : value.unsqueeze(1);
    if (padding.defined()) padding = padding.unsqueeze(0);
  }
  SymInt length = q_in.size(0), batch = q_in.size(1), width = q_in.size(2), source = k_in.size(0);
  int64_t heads = a.num_heads;
  padding = canonical_mask(padding, "key_padding_mask", q_in.dtype());
  bool is_causal = a.is_causal;
  if (is_causal && !mask.defined()) fail("Need attn_mask if specifying the is_causal hint.");
  if (is_causal && !padding.defined() && !a.need_weights) {
    mask = {};  // the hint says all that the mask does
  } else {
    mask = canonical_mask(mask, "attn_mask", q_in.dtype());
    if (padding.defined()) is_causal = false;
  }
  if (width != a.embed_dim)
    failf("was expecting embedding dimension of {}, but got {}", a.embed_dim, width.str());
  if (a.embed_dim % heads) failf("embed_dim {} not divisible by num_heads {}", a.embed_dim, heads);
  int64_t head_dim = a.embed_dim / heads;

  auto [q, k, v] = project(q_in, k_in, v_in, a);
  if (mask.defined()) mask = shape_mask(mask, batch * heads, length, source);
  auto widen_masks = [&] {
    if (mask.defined()) mask = F::pad(mask, {0, 1});
    if (padding.defined()) padding = F::pad(padding, {0, 1});
  };
  if (a.bias_k.defined()) {
    k = tern::cat({k, tern::repeat(a.bias_k, {1, batch, 1})});
    v = tern::cat({v, tern::repeat(a.bias_v, {1, batch, 1})});
    widen_masks();
  }
  q = q.view({length, batch * heads, head_dim}).transpose(0, 1);
  k = k.view({k.size(0), batch * heads, head_dim}).transpose(0, 1);
  v = v.view({v.size(0), batch * heads, head_dim}).transpose(0, 1);
  if (a.add_zero_attn) {
    k = tern::cat({k, tern::zeros({batch * heads, 1, head_dim}, k.dtype(), {}, k.device())}, 1);
    v = tern::cat({v, tern::zeros({batch * heads, 1, head_dim}, v.dtype(), {}, v.device())}, 1);
    widen_masks();
  }
  source = k.size(1);
  if (padding.defined()) {
    if (padding.size(0) != batch || padding.size(1) != source)
      failf("key_padding_mask has the shape {}, expected ({}, {})", tern::str(padding.sizes()), batch.str(),
            source.str());
    padding =
        padding.view({batch, 1, 1, source}).expand({-1, heads, -1, -1}).reshape({batch * heads, 1, source});
    mask = mask.defined() ? mask + padding : padding;
  }
  double dropout = a.training ? a.dropout : 0;

  Tensor output, weights;
  if (a.need_weights) {
    if (is_causal && !mask.defined()) fail("is_causal with need_weights wants an attn_mask");
    Tensor scaled = q * std::sqrt(1.0 / static_cast<double>(head_dim));
    Tensor scores = mask.defined() ? tern::baddbmm(mask, scaled, k.transpose(-2, -1))
                                   : tern::bmm(scaled, k.transpose(-2, -1));
    weights = scores.softmax(-1);
    if (dropout > 0) weights = F::dropout(weights, dropout);
    output = tern::bmm(weights, v).transpose(0, 1).reshape({length * batch, a.embed_dim});
    output = tern::linear(output, a.out_proj_weight, a.out_proj_bias);
    output = output.view({length, batch, output.size(1)});
    weights = weights.view({batch, heads, length, source});
    if (a.average_weights) weights = weights.mean({1});
    if (!batched) {
      output = output.squeeze(1);
      weights = weights.squeeze(0);
    }
    return {output, weights};
  }
  if (mask.defined())
    mask = mask.size(0) == 1 && mask.dim() == 3 ? mask.unsqueeze(0) : mask.view({batch, heads, -1, source});
  q = q.view({batch, heads, length, head_dim});
  k = k.view({batch, heads, source, head_dim});
  v = v.view({batch, heads, source, head_dim});
  output = tern::scaled_dot_product_attention(q, k, v, mask, dropout, is_causal);
  output = output.permute({2, 0, 1, 3}).reshape({batch * length, a.embed_dim});
  output = tern::linear(output, a.out_proj_weight, a.out_proj_bias);
  output = output.view({length, batch, output.size(1)});
  if (!batched) output = output.squeeze(1);
  return {output, Tensor()};
}

}  // namespace tern::nn::F
