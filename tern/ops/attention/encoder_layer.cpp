// The layers that PyTorch's fast path runs as one operator, put together from ours.
#include <cmath>

#include "tern/base/format.h"
#include "tern/ops.h"
#include "tern/ops/attention.args.h"

namespace tern {
namespace {

// The mask as scores see it: batch, head, query, key.
Tensor shaped_mask(const Tensor& mask, std::optional<int64_t> type, const Tensor& scores) {
  Tensor m = mask.to(kBool);
  SymInt batch = scores.sizes()[0], queries = scores.sizes()[2], keys = scores.sizes()[3];
  if (type == 1 || (!type && m.dim() == 2 && !(m.sizes()[0] == queries))) {
    if (m.dim() != 2)
      failf("_native_multi_head_attention: a mask of padding has 2 dimensions, not {}", m.dim());
    return m.view({batch, 1, 1, keys});
  }
  return m.dim() == 2 ? m.view({1, 1, queries, keys}) : m;
}

}  // namespace

std::tuple<Tensor, Tensor> body__native_multi_head_attention(const args::_native_multi_head_attention& a) {
  if (a.query.dim() != 3) failf("expected 3-D `query`, got {}-D tensor", a.query.dim());
  if (a.num_head <= 0 || a.embed_dim % a.num_head)
    failf("_native_multi_head_attention: {} dimensions cannot be shared by {} heads", a.embed_dim,
          a.num_head);
  int64_t width = a.embed_dim / a.num_head;
  SymInt batch = a.query.sizes()[0];
  auto projected = [&](const Tensor& x, int64_t part) {
    Tensor weight = narrow(a.qkv_weight, 0, part * a.embed_dim, a.embed_dim);
    Tensor bias = narrow(a.qkv_bias, 0, part * a.embed_dim, a.embed_dim);
    return linear(x, weight, bias).view({batch, x.sizes()[1], a.num_head, width}).transpose(1, 2);
  };
  Tensor q = projected(a.query, 0) / Scalar(std::sqrt(static_cast<double>(width)));
  Tensor scores = matmul(q, projected(a.key, 1).transpose(2, 3));
  if (a.mask.defined())
    scores = masked_fill(scores, shaped_mask(a.mask, a.mask_type, scores), Scalar(-INFINITY));
  Tensor weights = softmax(scores, -1);
  // A row that sees nothing gives zeros.
  if (a.mask.defined()) weights = masked_fill(weights, isnan(weights), Scalar(0.));
  Tensor joined = matmul(weights, projected(a.value, 2))
                      .transpose(1, 2)
                      .reshape({batch, a.query.sizes()[1], a.embed_dim});
  Tensor shown;
  if (a.need_weights) shown = a.average_attn_weights ? weights.mean({1}) : weights;
  return {linear(joined, a.proj_weight, a.proj_bias), shown.defined() ? shown : empty({0}, a.query.dtype())};
}

Tensor body__transformer_encoder_layer_fwd(const args::_transformer_encoder_layer_fwd& a) {
  SymInt width[] = {SymInt(a.embed_dim)};
  auto first = [&](const Tensor& x) { return layer_norm(x, width, a.norm_weight_1, a.norm_bias_1, a.eps); };
  auto second = [&](const Tensor& x) { return layer_norm(x, width, a.norm_weight_2, a.norm_bias_2, a.eps); };
  Tensor x = a.norm_first ? first(a.src) : a.src;
  x = std::get<0>(_native_multi_head_attention(x, x, x, a.embed_dim, a.num_heads, a.qkv_weight, a.qkv_bias,
                                               a.proj_weight, a.proj_bias, a.mask, false, true, a.mask_type));
  x = x + a.src;
  if (!a.norm_first) x = first(x);
  Tensor before = x;
  if (a.norm_first) x = second(x);
  Tensor hidden = linear(x, a.ffn_weight_1, a.ffn_bias_1);
  x = before + linear(a.use_gelu ? gelu(hidden) : relu(hidden), a.ffn_weight_2, a.ffn_bias_2);
  return a.norm_first ? x : second(x);
}

}  // namespace tern
