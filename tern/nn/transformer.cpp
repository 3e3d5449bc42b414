#include "tern/nn/transformer.h"

#include <limits>

#include "tern/base/format.h"
#include "tern/nn/init.h"
#include "tern/nn/make.h"
#include "tern/ops.h"

namespace tern::nn {
namespace {

const MultiheadAttentionOptions& checked(const MultiheadAttentionOptions& o) {
  if (o.embed_dim <= 0 || o.num_heads <= 0)
    failf(ErrorKind::value,
          "embed_dim and num_heads must be greater than 0, got embed_dim={} and num_heads={} instead",
          o.embed_dim, o.num_heads);
  if (o.embed_dim % o.num_heads) fail(ErrorKind::value, "embed_dim must be divisible by num_heads");
  return o;
}

const TransformerEncoderLayerOptions& checked(const TransformerEncoderLayerOptions& o) {
  if (o.activation != "relu" && o.activation != "gelu")
    failf("activation should be relu/gelu, not {}", o.activation);
  return o;
}

MultiheadAttentionOptions attention_of(const TransformerEncoderLayerOptions& o) {
  return {.embed_dim = o.d_model,
          .num_heads = o.nhead,
          .dropout = o.dropout,
          .bias = o.bias,
          .batch_first = o.batch_first,
          .dtype = o.dtype,
          .device = o.device};
}
LayerNorm norm_of(const TransformerEncoderLayerOptions& o) {
  return LayerNorm({{o.d_model}, o.layer_norm_eps, true, o.bias, o.dtype, o.device});
}

}  // namespace

MultiheadAttention::MultiheadAttention(const MultiheadAttentionOptions& o)
    : options(checked(o)), out_proj({o.embed_dim, o.embed_dim, o.bias, o.dtype, o.device}) {
  int64_t e = o.embed_dim, kdim = o.kdim.value_or(e), vdim = o.vdim.value_or(e);
  bool packed = kdim == e && vdim == e;
  auto make = [&](Span<const SymInt> sizes) { return make_uninitialised(sizes, o.dtype, o.device); };
  if (packed) {
    in_proj_weight = register_parameter("in_proj_weight", make({3 * e, e}));
    q_proj_weight = register_parameter("q_proj_weight", {});
    k_proj_weight = register_parameter("k_proj_weight", {});
    v_proj_weight = register_parameter("v_proj_weight", {});
  } else {
    q_proj_weight = register_parameter("q_proj_weight", make({e, e}));
    k_proj_weight = register_parameter("k_proj_weight", make({e, kdim}));
    v_proj_weight = register_parameter("v_proj_weight", make({e, vdim}));
    in_proj_weight = register_parameter("in_proj_weight", {});
  }
  in_proj_bias = register_parameter("in_proj_bias", o.bias ? make({3 * e}) : Tensor());
  out_proj.set_type("torch.nn.modules.linear.NonDynamicallyQuantizableLinear");
  add_member("out_proj", out_proj);
  bias_k = register_parameter("bias_k", o.add_bias_kv ? make({1, 1, e}) : Tensor());
  bias_v = register_parameter("bias_v", o.add_bias_kv ? make({1, 1, e}) : Tensor());

  if (packed) {
    init::xavier_uniform_(in_proj_weight);
  } else {
    init::xavier_uniform_(q_proj_weight);
    init::xavier_uniform_(k_proj_weight);
    init::xavier_uniform_(v_proj_weight);
  }
  if (o.bias) {
    init::zeros_(in_proj_bias);
    init::zeros_(out_proj.bias);
  }
  if (o.add_bias_kv) {
    init::xavier_normal_(bias_k);
    init::xavier_normal_(bias_v);
  }
}

std::tuple<Tensor, Tensor> MultiheadAttention::forward(const Tensor& query, const Tensor& key,
                                                       const Tensor& value, const AttendOptions& a) {
  F::MultiHeadArgs args{
      .embed_dim = options.embed_dim,
      .num_heads = options.num_heads,
      .in_proj_weight = in_proj_weight.now(),
      .in_proj_bias = in_proj_bias.now(),
      .q_proj_weight = q_proj_weight.now(),
      .k_proj_weight = k_proj_weight.now(),
      .v_proj_weight = v_proj_weight.now(),
      .bias_k = bias_k.now(),
      .bias_v = bias_v.now(),
      .add_zero_attn = options.add_zero_attn,
      .dropout = options.dropout,
      .out_proj_weight = out_proj.weight.now(),
      .out_proj_bias = out_proj.bias.now(),
      .training = training(),
      .key_padding_mask = F::canonical_mask(a.key_padding_mask, "key_padding_mask", query.dtype()),
      .attn_mask = F::canonical_mask(a.attn_mask, "attn_mask", query.dtype()),
      .need_weights = a.need_weights,
      .average_weights = a.average_weights,
      .is_causal = a.is_causal};
  bool swap = options.batch_first && query.dim() == 3;
  if (!swap) return F::multi_head_attention_forward(query, key, value, args);
  // What was one tensor stays one, so that self-attention is still seen as that.
  Tensor q = query.transpose(1, 0);
  Tensor k = key.is_same(query) && value.is_same(key) ? q : key.transpose(1, 0);
  Tensor v = value.is_same(key) ? k : value.transpose(1, 0);
  auto [output, weights] = F::multi_head_attention_forward(q, k, v, args);
  return {output.transpose(1, 0), weights};
}

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerEncoderLayerOptions& o)
    : options(checked(o)),
      self_attn(add("self_attn", MultiheadAttention(attention_of(o)))),
      linear1(add("linear1", Linear({o.d_model, o.dim_feedforward, o.bias, o.dtype, o.device}))),
      dropout(add("dropout", Dropout(o.dropout))),
      linear2(add("linear2", Linear({o.dim_feedforward, o.d_model, o.bias, o.dtype, o.device}))),
      norm1(add("norm1", norm_of(o))),
      norm2(add("norm2", norm_of(o))),
      dropout1(add("dropout1", Dropout(o.dropout))),
      dropout2(add("dropout2", Dropout(o.dropout))) {}

Tensor TransformerEncoderLayer::forward(const Tensor& src, const EncodeOptions& given) {
  EncodeOptions o{
      .mask = F::canonical_mask(given.mask, "src_mask", src.dtype()),
      .key_padding_mask = F::canonical_mask(given.key_padding_mask, "src_key_padding_mask", src.dtype()),
      .is_causal = given.is_causal};
  if (options.norm_first) {
    Tensor x = src + attend(norm1(src), o);
    return x + feed_forward(norm2(x));
  }
  Tensor x = norm1(src + attend(src, o));
  return norm2(x + feed_forward(x));
}

Tensor TransformerEncoderLayer::attend(const Tensor& x, const EncodeOptions& o) {
  AttendOptions a{.key_padding_mask = o.key_padding_mask,
                  .attn_mask = o.mask,
                  .need_weights = false,
                  .is_causal = o.is_causal};
  return dropout1(std::get<0>(self_attn(x, x, x, a)));
}

Tensor TransformerEncoderLayer::feed_forward(const Tensor& x) {
  Tensor hidden = linear1(x);
  hidden = options.activation == "relu" ? F::relu(hidden) : F::gelu(hidden);
  return dropout2(linear2(dropout(hidden)));
}

TransformerEncoder::TransformerEncoder(const TransformerEncoderLayer& layer, int64_t count,
                                       std::optional<LayerNorm> n) {
  if (count < 0) failf(ErrorKind::value, "TransformerEncoder: num_layers is {}, expected 0 or more", count);
  add_member("layers", layers);
  for (int64_t i = 0; i < count; ++i) layers.push_back(clone(layer));
  if (n) norm.emplace(add("norm", *n));
}

Tensor TransformerEncoder::forward(const Tensor& src, const EncodeOptions& given) {
  EncodeOptions o{
      .mask = F::canonical_mask(given.mask, "mask", src.dtype()),
      .key_padding_mask = F::canonical_mask(given.key_padding_mask, "src_key_padding_mask", src.dtype()),
      .is_causal = given.is_causal};
  Tensor x = src;
  for (const TransformerEncoderLayer& layer : layers) x = layer(x, o);
  return norm ? (*norm)(x) : x;
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerDecoderLayerOptions& o)
    : options(checked(o)),
      self_attn(add("self_attn", MultiheadAttention(attention_of(o)))),
      multihead_attn(add("multihead_attn", MultiheadAttention(attention_of(o)))),
      linear1(add("linear1", Linear({o.d_model, o.dim_feedforward, o.bias, o.dtype, o.device}))),
      dropout(add("dropout", Dropout(o.dropout))),
      linear2(add("linear2", Linear({o.dim_feedforward, o.d_model, o.bias, o.dtype, o.device}))),
      norm1(add("norm1", norm_of(o))),
      norm2(add("norm2", norm_of(o))),
      norm3(add("norm3", norm_of(o))),
      dropout1(add("dropout1", Dropout(o.dropout))),
      dropout2(add("dropout2", Dropout(o.dropout))),
      dropout3(add("dropout3", Dropout(o.dropout))) {}

Tensor TransformerDecoderLayer::forward(const Tensor& tgt, const Tensor& memory, const DecodeOptions& o) {
  if (options.norm_first) {
    Tensor x = tgt + attend(norm1(tgt), o);
    x = x + attend_to(norm2(x), memory, o);
    return x + feed_forward(norm3(x));
  }
  Tensor x = norm1(tgt + attend(tgt, o));
  x = norm2(x + attend_to(x, memory, o));
  return norm3(x + feed_forward(x));
}

Tensor TransformerDecoderLayer::attend(const Tensor& x, const DecodeOptions& o) {
  AttendOptions a{.key_padding_mask = o.tgt_key_padding_mask,
                  .attn_mask = o.tgt_mask,
                  .need_weights = false,
                  .is_causal = o.tgt_is_causal};
  return dropout1(std::get<0>(self_attn(x, x, x, a)));
}

Tensor TransformerDecoderLayer::attend_to(const Tensor& x, const Tensor& memory, const DecodeOptions& o) {
  AttendOptions a{.key_padding_mask = o.memory_key_padding_mask,
                  .attn_mask = o.memory_mask,
                  .need_weights = false,
                  .is_causal = o.memory_is_causal};
  return dropout2(std::get<0>(multihead_attn(x, memory, memory, a)));
}

Tensor TransformerDecoderLayer::feed_forward(const Tensor& x) {
  Tensor hidden = linear1(x);
  hidden = options.activation == "relu" ? F::relu(hidden) : F::gelu(hidden);
  return dropout3(linear2(dropout(hidden)));
}

TransformerDecoder::TransformerDecoder(const TransformerDecoderLayer& layer, int64_t count,
                                       std::optional<LayerNorm> n) {
  if (count < 0) failf(ErrorKind::value, "TransformerDecoder: num_layers is {}, expected 0 or more", count);
  add_member("layers", layers);
  for (int64_t i = 0; i < count; ++i) layers.push_back(clone(layer));
  if (n) norm.emplace(add("norm", *n));
}

Tensor TransformerDecoder::forward(const Tensor& tgt, const Tensor& memory, const DecodeOptions& o) {
  Tensor x = tgt;
  for (const TransformerDecoderLayer& layer : layers) x = layer(x, memory, o);
  return norm ? (*norm)(x) : x;
}

namespace {

TransformerEncoderLayerOptions layer_of(const TransformerOptions& o) {
  return {o.d_model,    o.nhead, o.dim_feedforward, o.dropout, o.activation, o.layer_norm_eps, o.batch_first,
          o.norm_first, o.bias,  o.dtype,           o.device};
}

}  // namespace

Transformer::Transformer(const TransformerOptions& o)
    : options(o),
      encoder(add("encoder", TransformerEncoder(TransformerEncoderLayer(layer_of(o)), o.num_encoder_layers,
                                                norm_of(layer_of(o))))),
      decoder(add("decoder", TransformerDecoder(TransformerDecoderLayer(layer_of(o)), o.num_decoder_layers,
                                                norm_of(layer_of(o))))) {
  for (const auto& [name, parameter] : named_parameters())
    if (parameter.dim() > 1) init::xavier_uniform_(parameter);
}

Tensor Transformer::forward(const Tensor& src, const Tensor& tgt, const EncodeOptions& encode,
                            const DecodeOptions& decode) {
  bool batched = src.dim() == 3;
  int64_t batch = options.batch_first ? 0 : 1;
  if (batched && (tgt.dim() != 3 || !(src.size(batch) == tgt.size(batch))))
    fail("the batch number of src and tgt must be equal");
  if (!(src.size(-1) == options.d_model) || !(tgt.size(-1) == options.d_model))
    fail("the feature number of src and tgt must be equal to d_model");
  return decoder(tgt, encoder(src, encode), decode);
}

Tensor square_subsequent_mask(SymInt size, DType dtype) {
  return tern::triu(tern::full({size, size}, -std::numeric_limits<double>::infinity(),
                               dtype == DType::undefined ? default_dtype() : dtype),
                    1);
}

}  // namespace tern::nn
