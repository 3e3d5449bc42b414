#include "tern/jit/nn_library.h"

namespace tern::jit {
namespace {

constexpr std::pair<std::string_view, std::string_view> modules[] = {
    {"MultiheadAttention", "activation"},
    {"TransformerEncoderLayer", "transformer"},
    {"TransformerEncoder", "transformer"},
    {"TransformerDecoderLayer", "transformer"},
    {"TransformerDecoder", "transformer"},
    {"Transformer", "transformer"},
    {"NonDynamicallyQuantizableLinear", "linear"},
    {"Bilinear", "linear"},
    {"EmbeddingBag", "sparse"},
    {"ConvTranspose3d", "conv"},
    {"InstanceNorm1d", "instancenorm"},
    {"InstanceNorm2d", "instancenorm"},
    {"InstanceNorm3d", "instancenorm"},
};

// Parameters are made in PyTorch's order, so that the same seed gives the same numbers.
constexpr const char* text = R"PY(
class NonDynamicallyQuantizableLinear(nn.Module):
  def __init__(self, in_features, out_features, bias=True, device=None, dtype=None):
    super().__init__()
    self.in_features = in_features
    self.out_features = out_features
    made = nn.Linear(in_features, out_features, bias, device, dtype)
    self.weight = made.weight
    self.bias = made.bias
  def forward(self, input):
    return F.linear(input, self.weight, self.bias)

class Bilinear(nn.Module):
  def __init__(self, in1_features, in2_features, out_features, bias=True, device=None, dtype=None):
    super().__init__()
    if in1_features <= 0:
      raise ValueError(f"in1_features must be > 0, but got {in1_features}")
    self.in1_features = in1_features
    self.in2_features = in2_features
    self.out_features = out_features
    self.weight = nn.Parameter(torch.empty([out_features, in1_features, in2_features], device=device, dtype=dtype))
    bound = 1.0 / math.sqrt(float(in1_features))
    nn.init.uniform_(self.weight, -bound, bound)
    if bias:
      self.bias = nn.Parameter(torch.empty([out_features], device=device, dtype=dtype))
      nn.init.uniform_(self.bias, -bound, bound)
    else:
      self.bias = None
  def forward(self, input1, input2):
    return torch.bilinear(input1, input2, self.weight, self.bias)

def three(v):
  return [v, v, v] if isinstance(v, int) else [v[0], v[1], v[2]]

class ConvTranspose3d(nn.Module):
  def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1, padding_mode="zeros", device=None, dtype=None):
    super().__init__()
    if padding_mode != "zeros":
      raise ValueError("Only \"zeros\" padding mode is supported for ConvTranspose3d")
    if in_channels % groups != 0 or out_channels % groups != 0:
      raise ValueError("in_channels and out_channels must be divisible by groups")
    k = three(kernel_size)
    self.in_channels = in_channels
    self.out_channels = out_channels
    self.kernel_size = k
    self.stride = three(stride)
    self.padding = three(padding)
    self.output_padding = three(output_padding)
    self.dilation = three(dilation)
    self.groups = groups
    self.weight = nn.Parameter(torch.empty([in_channels, out_channels // groups, k[0], k[1], k[2]], device=device, dtype=dtype))
    nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
    if bias:
      self.bias = nn.Parameter(torch.empty([out_channels], device=device, dtype=dtype))
      bound = 1.0 / math.sqrt(float(out_channels // groups * k[0] * k[1] * k[2]))
      nn.init.uniform_(self.bias, -bound, bound)
    else:
      self.bias = None
  def forward(self, input: Tensor) -> Tensor:
    return F.conv_transpose3d(input, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation)

class EmbeddingBag(nn.Module):
  def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None):
    super().__init__()
    if max_norm is not None:
      raise NotImplementedError("max_norm is not supported: renormalise the weight yourself")
    self.num_embeddings = num_embeddings
    self.embedding_dim = embedding_dim
    self.mode = mode
    self.scale_grad_by_freq = scale_grad_by_freq
    self.sparse = sparse
    self.include_last_offset = include_last_offset
    if _weight is not None:
      self.weight = nn.Parameter(_weight)
    else:
      self.weight = nn.Parameter(torch.empty([num_embeddings, embedding_dim], device=device, dtype=dtype))
      nn.init.normal_(self.weight)
    at = padding_idx
    if at is not None and at < 0:
      at = num_embeddings + at
    if at is not None and _weight is None:
      nn.init.constant_(self.weight[at], 0.0)
    self.padding_idx: Optional[int] = at
  def forward(self, input: Tensor, offsets: Optional[Tensor] = None, per_sample_weights: Optional[Tensor] = None) -> Tensor:
    return F.embedding_bag(input, self.weight, offsets, None, 2.0, self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)

class InstanceNorm1d(nn.Module):
  def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=False, track_running_stats=False, device=None, dtype=None):
    super().__init__()
    self.num_features = num_features
    self.eps = float(eps)
    self.momentum = float(momentum)
    self.track_running_stats = track_running_stats
    if affine:
      self.weight = nn.Parameter(torch.ones([num_features], device=device, dtype=dtype))
      self.bias = nn.Parameter(torch.zeros([num_features], device=device, dtype=dtype))
    else:
      self.weight = None
      self.bias = None
    if track_running_stats:
      self.register_buffer("running_mean", torch.zeros([num_features], device=device, dtype=dtype))
      self.register_buffer("running_var", torch.ones([num_features], device=device, dtype=dtype))
      self.register_buffer("num_batches_tracked", torch.zeros([], dtype=torch.long))
    else:
      self.running_mean = None
      self.running_var = None
    self.spatial = self.spatial_dims()
  def spatial_dims(self):
    return 1
  def forward(self, input: Tensor) -> Tensor:
    if input.dim() != self.spatial + 1 and input.dim() != self.spatial + 2:
      raise ValueError("expected {}D or {}D input (got {}D input)".format(self.spatial + 1, self.spatial + 2, input.dim()))
    x = input
    if input.dim() == self.spatial + 1:
      x = input.unsqueeze(0)
    x = F.instance_norm(x, self.running_mean, self.running_var, self.weight, self.bias, self.training or not self.track_running_stats, self.momentum, self.eps)
    if input.dim() == self.spatial + 1:
      x = x.squeeze(0)
    return x

class InstanceNorm2d(InstanceNorm1d):
  def spatial_dims(self):
    return 2

class InstanceNorm3d(InstanceNorm1d):
  def spatial_dims(self):
    return 3

class MultiheadAttention(nn.Module):
  def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None, batch_first=False, device=None, dtype=None):
    super().__init__()
    if embed_dim <= 0 or num_heads <= 0:
      raise ValueError(f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead")
    self.embed_dim = embed_dim
    self.kdim = kdim if kdim is not None else embed_dim
    self.vdim = vdim if vdim is not None else embed_dim
    self.num_heads = num_heads
    self.dropout = float(dropout)
    self.batch_first = batch_first
    self.head_dim = embed_dim // num_heads
    self.add_zero_attn = add_zero_attn
    assert self.head_dim * num_heads == embed_dim, "embed_dim must be divisible by num_heads"
    same = self.kdim == embed_dim and self.vdim == embed_dim
    if same:
      self.in_proj_weight = nn.Parameter(torch.empty([3 * embed_dim, embed_dim], device=device, dtype=dtype))
      self.q_proj_weight = None
      self.k_proj_weight = None
      self.v_proj_weight = None
    else:
      self.q_proj_weight = nn.Parameter(torch.empty([embed_dim, embed_dim], device=device, dtype=dtype))
      self.k_proj_weight = nn.Parameter(torch.empty([embed_dim, self.kdim], device=device, dtype=dtype))
      self.v_proj_weight = nn.Parameter(torch.empty([embed_dim, self.vdim], device=device, dtype=dtype))
      self.in_proj_weight = None
    if bias:
      self.in_proj_bias = nn.Parameter(torch.empty([3 * embed_dim], device=device, dtype=dtype))
    else:
      self.in_proj_bias = None
    self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias, device, dtype)
    if add_bias_kv:
      self.bias_k = nn.Parameter(torch.empty([1, 1, embed_dim], device=device, dtype=dtype))
      self.bias_v = nn.Parameter(torch.empty([1, 1, embed_dim], device=device, dtype=dtype))
    else:
      self.bias_k = None
      self.bias_v = None
    if same:
      nn.init.xavier_uniform_(self.in_proj_weight)
    else:
      nn.init.xavier_uniform_(self.q_proj_weight)
      nn.init.xavier_uniform_(self.k_proj_weight)
      nn.init.xavier_uniform_(self.v_proj_weight)
    if bias:
      nn.init.constant_(self.in_proj_bias, 0.0)
      nn.init.constant_(self.out_proj.bias, 0.0)
    if add_bias_kv:
      nn.init.xavier_normal_(self.bias_k)
      nn.init.xavier_normal_(self.bias_v)

  def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None, need_weights: bool = True, attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True, is_causal: bool = False) -> Tuple[Tensor, Optional[Tensor]]:
    swapped = self.batch_first and query.dim() == 3
    if swapped:
      query, key, value = query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1)
    result, weights = F.multi_head_attention_forward(query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, self.training, key_padding_mask, need_weights, attn_mask, self.in_proj_weight is None, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight, None, None, average_attn_weights, is_causal)
    if swapped:
      result = result.transpose(0, 1)
    return result, weights

def activation_of(activation):
  if activation is F.relu or activation is torch.relu:
    return nn.ReLU()
  if activation is F.gelu:
    return nn.GELU()
  if isinstance(activation, nn.Module):
    return activation
  if isinstance(activation, str):
    if activation == "relu":
      return nn.ReLU()
    if activation == "gelu":
      return nn.GELU()
  raise RuntimeError("activation should be relu or gelu, or a module")

class TransformerEncoderLayer(nn.Module):
  def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
    super().__init__()
    self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, False, False, None, None, batch_first, device, dtype)
    self.linear1 = nn.Linear(d_model, dim_feedforward, bias, device, dtype)
    self.dropout = nn.Dropout(dropout)
    self.linear2 = nn.Linear(dim_feedforward, d_model, bias, device, dtype)
    self.norm_first = norm_first
    self.norm1 = nn.LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype)
    self.norm2 = nn.LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype)
    self.dropout1 = nn.Dropout(dropout)
    self.dropout2 = nn.Dropout(dropout)
    self.activation = activation_of(activation)
  def attend(self, x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor], is_causal: bool) -> Tensor:
    return self.dropout1(self.self_attn(x, x, x, padding, False, mask, True, is_causal)[0])
  def feed(self, x: Tensor) -> Tensor:
    return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))
  def forward(self, src: Tensor, src_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None, is_causal: bool = False) -> Tensor:
    x = src
    if self.norm_first:
      x = x + self.attend(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
      x = x + self.feed(self.norm2(x))
    else:
      x = self.norm1(x + self.attend(x, src_mask, src_key_padding_mask, is_causal))
      x = self.norm2(x + self.feed(x))
    return x

class TransformerDecoderLayer(nn.Module):
  def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
    super().__init__()
    self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, False, False, None, None, batch_first, device, dtype)
    self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, False, False, None, None, batch_first, device, dtype)
    self.linear1 = nn.Linear(d_model, dim_feedforward, bias, device, dtype)
    self.dropout = nn.Dropout(dropout)
    self.linear2 = nn.Linear(dim_feedforward, d_model, bias, device, dtype)
    self.norm_first = norm_first
    self.norm1 = nn.LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype)
    self.norm2 = nn.LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype)
    self.norm3 = nn.LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype)
    self.dropout1 = nn.Dropout(dropout)
    self.dropout2 = nn.Dropout(dropout)
    self.dropout3 = nn.Dropout(dropout)
    self.activation = activation_of(activation)
  def attend(self, x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor], is_causal: bool) -> Tensor:
    return self.dropout1(self.self_attn(x, x, x, padding, False, mask, True, is_causal)[0])
  def look(self, x: Tensor, memory: Tensor, mask: Optional[Tensor], padding: Optional[Tensor], is_causal: bool) -> Tensor:
    return self.dropout2(self.multihead_attn(x, memory, memory, padding, False, mask, True, is_causal)[0])
  def feed(self, x: Tensor) -> Tensor:
    return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))
  def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: bool = False, memory_is_causal: bool = False) -> Tensor:
    x = tgt
    if self.norm_first:
      x = x + self.attend(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
      x = x + self.look(self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal)
      x = x + self.feed(self.norm3(x))
    else:
      x = self.norm1(x + self.attend(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
      x = self.norm2(x + self.look(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
      x = self.norm3(x + self.feed(x))
    return x

class TransformerEncoder(nn.Module):
  def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
    super().__init__()
    self.layers = nn.ModuleList([copy.deepcopy(encoder_layer) for _ in range(num_layers)])
    self.num_layers = num_layers
    self.norm = norm
  def forward(self, src: Tensor, mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None, is_causal: Optional[bool] = None) -> Tensor:
    x = src
    causal = False
    if is_causal is not None:
      causal = is_causal
    for layer in self.layers:
      x = layer(x, mask, src_key_padding_mask, causal)
    if self.norm is not None:
      x = self.norm(x)
    return x

class TransformerDecoder(nn.Module):
  def __init__(self, decoder_layer, num_layers, norm=None):
    super().__init__()
    self.layers = nn.ModuleList([copy.deepcopy(decoder_layer) for _ in range(num_layers)])
    self.num_layers = num_layers
    self.norm = norm
  def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: Optional[bool] = None, memory_is_causal: bool = False) -> Tensor:
    x = tgt
    causal = False
    if tgt_is_causal is not None:
      causal = tgt_is_causal
    for layer in self.layers:
      x = layer(x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, causal, memory_is_causal)
    if self.norm is not None:
      x = self.norm(x)
    return x

class Transformer(nn.Module):
  def __init__(self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1, activation="relu", custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
    super().__init__()
    if custom_encoder is not None:
      self.encoder = custom_encoder
    else:
      layer = TransformerEncoderLayer(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype)
      self.encoder = TransformerEncoder(layer, num_encoder_layers, nn.LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype))
    if custom_decoder is not None:
      self.decoder = custom_decoder
    else:
      layer = TransformerDecoderLayer(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, device, dtype)
      self.decoder = TransformerDecoder(layer, num_decoder_layers, nn.LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype))
    for p in self.parameters():
      if p.dim() > 1:
        nn.init.xavier_uniform_(p)
    self.d_model = d_model
    self.nhead = nhead
    self.batch_first = batch_first
  def forward(self, src: Tensor, tgt: Tensor, src_mask: Optional[Tensor] = None, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None, src_is_causal: Optional[bool] = None, tgt_is_causal: Optional[bool] = None, memory_is_causal: bool = False) -> Tensor:
    memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
    return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal)
)PY";

}  // namespace

const PythonFile& nn_library() {
  static const PythonFile* file = [] {
    auto source = std::make_shared<script::Source>();
    source->text = text;
    source->name = "torch.nn";
    return new PythonFile{script::parse_file(source)};
  }();
  return *file;
}

std::string_view library_module(std::string_view class_name) {
  for (auto [name, module] : modules)
    if (name == class_name) return module;
  return {};
}
std::string library_classes() {
  std::string all;
  for (auto [name, module] : modules) all += (all.empty() ? "" : ", ") + std::string(name);
  return all;
}

}  // namespace tern::jit
