// Attention, the transformer's encoder and decoder, and both together.
#pragma once
#include "tern/nn/layers.h"

namespace tern::nn {

struct MultiheadAttentionOptions {
  int64_t embed_dim, num_heads;
  double dropout = 0;
  bool bias = true, add_bias_kv = false, add_zero_attn = false;
  std::optional<int64_t> kdim = {}, vdim = {};
  bool batch_first = false;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
struct AttendOptions {
  Tensor key_padding_mask = {}, attn_mask = {};
  bool need_weights = true, average_weights = true, is_causal = false;
  // So that hooks see a call's options, too.
  static constexpr auto fields =
      tree::fields("key_padding_mask", &AttendOptions::key_padding_mask, "attn_mask",
                   &AttendOptions::attn_mask, "need_weights", &AttendOptions::need_weights, "average_weights",
                   &AttendOptions::average_weights, "is_causal", &AttendOptions::is_causal);
};
class MultiheadAttention : public Builtin<MultiheadAttention> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.activation.MultiheadAttention";
  explicit MultiheadAttention(const MultiheadAttentionOptions& options);
  MultiheadAttention(int64_t embed_dim, int64_t num_heads)
      : MultiheadAttention(MultiheadAttentionOptions{embed_dim, num_heads}) {}
  // The output and, when asked for, the attention weights.
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const AttendOptions& options = {});

  MultiheadAttentionOptions options;
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  // when kdim or vdim differ
  Parameter in_proj_weight, in_proj_bias;
  Parameter bias_k, bias_v;
  Linear out_proj;
};

struct TransformerEncoderLayerOptions {
  int64_t d_model, nhead;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  // or "gelu"
  double layer_norm_eps = 1e-5;
  bool batch_first = false, norm_first = false, bias = true;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
struct EncodeOptions {
  Tensor mask = {};              // (L, L) or (N·heads, L, L)
  Tensor key_padding_mask = {};  // (N, L)
  bool is_causal = false;
  static constexpr auto fields =
      tree::fields("mask", &EncodeOptions::mask, "key_padding_mask", &EncodeOptions::key_padding_mask,
                   "is_causal", &EncodeOptions::is_causal);
};
class TransformerEncoderLayer : public Builtin<TransformerEncoderLayer> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.transformer.TransformerEncoderLayer";
  explicit TransformerEncoderLayer(const TransformerEncoderLayerOptions& options);
  TransformerEncoderLayer(int64_t d_model, int64_t nhead)
      : TransformerEncoderLayer(TransformerEncoderLayerOptions{d_model, nhead}) {}
  Tensor forward(const Tensor& src, const EncodeOptions& options = {});

  TransformerEncoderLayerOptions options;
  MultiheadAttention self_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2;
  Dropout dropout1, dropout2;

 private:
  Tensor attend(const Tensor& x, const EncodeOptions& options);
  Tensor feed_forward(const Tensor& x);
};

// A stack of copies of one layer, with the same initial values each, as in PyTorch.
class TransformerEncoder : public Builtin<TransformerEncoder> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.transformer.TransformerEncoder";
  TransformerEncoder(const TransformerEncoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> norm = {});
  Tensor forward(const Tensor& src, const EncodeOptions& options = {});

  ModuleList<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;
};

using TransformerDecoderLayerOptions = TransformerEncoderLayerOptions;
struct DecodeOptions {
  Tensor tgt_mask = {}, memory_mask = {};
  Tensor tgt_key_padding_mask = {}, memory_key_padding_mask = {};
  bool tgt_is_causal = false, memory_is_causal = false;
  static constexpr auto fields =
      tree::fields("tgt_mask", &DecodeOptions::tgt_mask, "memory_mask", &DecodeOptions::memory_mask,
                   "tgt_key_padding_mask", &DecodeOptions::tgt_key_padding_mask, "memory_key_padding_mask",
                   &DecodeOptions::memory_key_padding_mask, "tgt_is_causal", &DecodeOptions::tgt_is_causal,
                   "memory_is_causal", &DecodeOptions::memory_is_causal);
};
class TransformerDecoderLayer : public Builtin<TransformerDecoderLayer> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.transformer.TransformerDecoderLayer";
  explicit TransformerDecoderLayer(const TransformerDecoderLayerOptions& options);
  TransformerDecoderLayer(int64_t d_model, int64_t nhead)
      : TransformerDecoderLayer(TransformerDecoderLayerOptions{d_model, nhead}) {}
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecodeOptions& options = {});

  TransformerDecoderLayerOptions options;
  MultiheadAttention self_attn, multihead_attn;
  Linear linear1;
  Dropout dropout;
  Linear linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout1, dropout2, dropout3;

 private:
  Tensor attend(const Tensor& x, const DecodeOptions& options);
  Tensor attend_to(const Tensor& x, const Tensor& memory, const DecodeOptions& options);
  Tensor feed_forward(const Tensor& x);
};

class TransformerDecoder : public Builtin<TransformerDecoder> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.transformer.TransformerDecoder";
  TransformerDecoder(const TransformerDecoderLayer& layer, int64_t num_layers,
                     std::optional<LayerNorm> norm = {});
  Tensor forward(const Tensor& tgt, const Tensor& memory, const DecodeOptions& options = {});

  ModuleList<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;
};

struct TransformerOptions {
  int64_t d_model = 512, nhead = 8;
  int64_t num_encoder_layers = 6, num_decoder_layers = 6;
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";
  double layer_norm_eps = 1e-5;
  bool batch_first = false, norm_first = false, bias = true;
  DType dtype = DType::undefined;
  Device device = kCPU;
};
class Transformer : public Builtin<Transformer> {
 public:
  static constexpr const char* type_name = "torch.nn.modules.transformer.Transformer";
  explicit Transformer(const TransformerOptions& options = {});
  // Throws where src and tgt differ in batch or width.
  Tensor forward(const Tensor& src, const Tensor& tgt, const EncodeOptions& encode = {},
                 const DecodeOptions& decode = {});

  TransformerOptions options;
  TransformerEncoder encoder;
  TransformerDecoder decoder;
};

// -inf above the diagonal: what may not be attended to.
Tensor square_subsequent_mask(SymInt size, DType dtype = DType::undefined);

}  // namespace tern::nn
