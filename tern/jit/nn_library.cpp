#include "tern/jit/nn_library.h"

namespace tern::jit {
namespace {

constexpr LibraryClass classes[] = {
    {"MultiheadAttention", "activation"},
    {"TransformerEncoderLayer", "transformer"},
    {"TransformerEncoder", "transformer"},
    {"TransformerDecoderLayer", "transformer"},
    {"TransformerDecoder", "transformer"},
    {"Transformer", "transformer"},
    {"NonDynamicallyQuantizableLinear", "linear"},
    {"Bilinear", "linear"},
    {"EmbeddingBag", "sparse"},
    {"InstanceNorm1d", "instancenorm"},
    {"InstanceNorm2d", "instancenorm"},
    {"InstanceNorm3d", "instancenorm"},
    {"CrossMapLRN2d", "normalization"},
    {"AdaptiveLogSoftmaxWithLoss", "adaptive",
     "class _ASMoutput(NamedTuple):\n  output: Tensor\n  loss: Tensor\n"},
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

class EmbeddingBag(nn.Module):
  def __init__(self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean", sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None):
    super().__init__()
    self.max_norm: Optional[float] = max_norm
    self.norm_type = float(norm_type)
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
    return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)

# Sums of squares slide over the channels as PyTorch's do: its first one is never taken off again.
class CrossMapLRN2d(nn.Module):
  def __init__(self, size, alpha=1e-4, beta=0.75, k=1):
    super().__init__()
    self.size = size
    self.alpha = float(alpha)
    self.beta = float(beta)
    self.k = float(k)
  def forward(self, input: Tensor) -> Tensor:
    if input.dim() != 4:
      raise ValueError("CrossMapLRN2d: Expected input to be 4D, got {}D instead.".format(input.dim()))
    channels = input.size(1)
    reach = int((self.size - 1) / 2 + 1)
    squares = input * input
    total = squares[:, :reach].sum(1)
    sums = [total]
    for c in range(1, channels):
      if c < channels - reach + 1:
        total = total + squares[:, c + reach - 1]
      if c > reach:
        total = total - squares[:, c - reach]
      sums.append(total)
    return torch.pow(torch.stack(sums, 1) * (self.alpha / self.size) + self.k, -self.beta) * input

class AdaptiveLogSoftmaxWithLoss(nn.Module):
  def __init__(self, in_features, n_classes, cutoffs, div_value=4.0, head_bias=False, device=None, dtype=None):
    super().__init__()
    if len(cutoffs) == 0:
      raise ValueError("cutoffs should be a sequence of length larger than 0")
    last = 0
    for c in cutoffs:
      if int(c) != c or c <= last or c > n_classes - 1:
        raise ValueError("cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is between 1 and n_classes-1")
      last = c
    self.in_features = in_features
    self.n_classes = n_classes
    self.cutoffs = list(cutoffs) + [n_classes]
    self.div_value = float(div_value)
    self.head_bias = head_bias
    self.shortlist_size = self.cutoffs[0]
    self.n_clusters = len(self.cutoffs) - 1
    self.head_size = self.shortlist_size + self.n_clusters
    self.head = nn.Linear(in_features, self.head_size, head_bias, device, dtype)
    self.tail = nn.ModuleList()
    for i in range(self.n_clusters):
      hidden = int(in_features // (self.div_value ** (i + 1)))
      classes = self.cutoffs[i + 1] - self.cutoffs[i]
      self.tail.append(nn.Sequential(nn.Linear(in_features, hidden, False, device, dtype), nn.Linear(hidden, classes, False, device, dtype)))
  def forward(self, input_: Tensor, target_: Tensor) -> __torch__.torch.nn.modules.adaptive._ASMoutput:
    if target_.dim() == 1:
      if input_.size(0) != target_.size(0):
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
      if input_.dim() != 2:
        raise RuntimeError("1D target tensor expects 2D input tensors, but found inputs with size {}".format(input_.size()))
    elif target_.dim() == 0:
      if input_.dim() != 1:
        raise RuntimeError("0D target tensor expects 1D input tensors, but found inputs with size {}".format(input_.size()))
    else:
      raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    input = input_ if target_.dim() > 0 else input_.unsqueeze(0)
    target = target_ if target_.dim() > 0 else target_.unsqueeze(0)
    output = input.new_zeros([target.size(0)])
    gather = torch.empty_like(target)
    rows = ((target >= 0) & (target < self.shortlist_size)).nonzero().squeeze(1)
    gather = gather.index_copy(0, rows, target.index_select(0, rows))
    used = rows.numel()
    for i, cluster in enumerate(self.tail):
      rows = ((target >= self.cutoffs[i]) & (target < self.cutoffs[i + 1])).nonzero().squeeze(1)
      if rows.numel() > 0:
        logprob = F.log_softmax(cluster(input.index_select(0, rows)), dim=1)
        relative = target.index_select(0, rows) - self.cutoffs[i]
        gather = gather.index_fill(0, rows, self.shortlist_size + i)
        output = output.index_copy(0, rows, logprob.gather(1, relative.unsqueeze(1)).squeeze(1))
        used = used + rows.numel()
    if used != target.size(0):
      raise RuntimeError("Target values should be in [0, {}], but values in range [{}, {}] were found. ".format(self.n_classes - 1, int(target.min()), int(target.max())))
    head = F.log_softmax(self.head(input), dim=1)
    output = output + head.gather(1, gather.unsqueeze(1)).squeeze(1)
    loss = (-output).mean()
    if target_.dim() == 0:
      output = output.squeeze(0)
    return __torch__.torch.nn.modules.adaptive._ASMoutput(output, loss)
  def full(self, input: Tensor, head_output: Tensor) -> Tensor:
    head = F.log_softmax(head_output, dim=1)
    parts = [head[:, :self.shortlist_size]]
    for i, cluster in enumerate(self.tail):
      parts.append(F.log_softmax(cluster(input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
    return torch.cat(parts, 1)
  def log_prob(self, input: Tensor) -> Tensor:
    return self.full(input, self.head(input))
  def predict(self, input: Tensor) -> Tensor:
    head_output = self.head(input)
    output = torch.argmax(head_output, dim=1)
    outside = output >= self.shortlist_size
    return torch.where(outside, torch.argmax(self.full(input, head_output), dim=1), output)

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

class TransformerLayer(nn.Module):
  def fill(self, count, d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, device, dtype):
    self.linear1 = nn.Linear(d_model, dim_feedforward, bias, device, dtype)
    self.dropout = nn.Dropout(dropout)
    self.linear2 = nn.Linear(dim_feedforward, d_model, bias, device, dtype)
    self.norm_first = norm_first
    for i in range(1, count + 1):
      setattr(self, f"norm{i}", nn.LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype))
    for i in range(1, count + 1):
      setattr(self, f"dropout{i}", nn.Dropout(dropout))
    self.activation = activation_of(activation)
  def attend(self, x: Tensor, mask: Optional[Tensor], padding: Optional[Tensor], is_causal: bool) -> Tensor:
    return self.dropout1(self.self_attn(x, x, x, padding, False, mask, True, is_causal)[0])
  def feed(self, x: Tensor) -> Tensor:
    return self.linear2(self.dropout(self.activation(self.linear1(x))))

class TransformerEncoderLayer(TransformerLayer):
  def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
    super().__init__()
    self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, False, False, None, None, batch_first, device, dtype)
    self.fill(2, d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, device, dtype)
  def forward(self, src: Tensor, src_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None, is_causal: bool = False) -> Tensor:
    x = src
    if self.norm_first:
      x = x + self.attend(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
      x = x + self.dropout2(self.feed(self.norm2(x)))
    else:
      x = self.norm1(x + self.attend(x, src_mask, src_key_padding_mask, is_causal))
      x = self.norm2(x + self.dropout2(self.feed(x)))
    return x

class TransformerDecoderLayer(TransformerLayer):
  def __init__(self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5, batch_first=False, norm_first=False, bias=True, device=None, dtype=None):
    super().__init__()
    self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, False, False, None, None, batch_first, device, dtype)
    self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, False, False, None, None, batch_first, device, dtype)
    self.fill(3, d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias, device, dtype)
  def look(self, x: Tensor, memory: Tensor, mask: Optional[Tensor], padding: Optional[Tensor], is_causal: bool) -> Tensor:
    return self.dropout2(self.multihead_attn(x, memory, memory, padding, False, mask, True, is_causal)[0])
  def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: bool = False, memory_is_causal: bool = False) -> Tensor:
    x = tgt
    if self.norm_first:
      x = x + self.attend(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
      x = x + self.look(self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal)
      x = x + self.dropout3(self.feed(self.norm3(x)))
    else:
      x = self.norm1(x + self.attend(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
      x = self.norm2(x + self.look(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
      x = self.norm3(x + self.dropout3(self.feed(x)))
    return x

class TransformerStack(nn.Module):
  def fill(self, layer, num_layers, norm):
    self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
    self.num_layers = num_layers
    self.norm = norm
  def finish(self, x: Tensor) -> Tensor:
    if self.norm is not None:
      x = self.norm(x)
    return x
  def is_true(self, causal: Optional[bool]) -> bool:
    if causal is None:
      return False
    return causal

class TransformerEncoder(TransformerStack):
  def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
    super().__init__()
    self.fill(encoder_layer, num_layers, norm)
  def forward(self, src: Tensor, mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None, is_causal: Optional[bool] = None) -> Tensor:
    x = src
    for layer in self.layers:
      x = layer(x, mask, src_key_padding_mask, self.is_true(is_causal))
    return self.finish(x)

class TransformerDecoder(TransformerStack):
  def __init__(self, decoder_layer, num_layers, norm=None):
    super().__init__()
    self.fill(decoder_layer, num_layers, norm)
  def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Optional[Tensor] = None, memory_mask: Optional[Tensor] = None, tgt_key_padding_mask: Optional[Tensor] = None, memory_key_padding_mask: Optional[Tensor] = None, tgt_is_causal: Optional[bool] = None, memory_is_causal: bool = False) -> Tensor:
    x = tgt
    for layer in self.layers:
      x = layer(x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, self.is_true(tgt_is_causal), memory_is_causal)
    return self.finish(x)

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
    auto source = new_shared<script::Source>();
    source->text = text;
    source->name = "torch.nn";
    return new PythonFile{script::parse_file(source)};
  }();
  return *file;
}

const LibraryClass* find_library_class(std::string_view name) {
  for (const LibraryClass& c : classes)
    if (c.name == name) return &c;
  return nullptr;
}
std::string library_classes() {
  std::string all;
  for (const LibraryClass& c : classes) all += (all.empty() ? "" : ", ") + std::string(c.name);
  return all;
}

}  // namespace tern::jit
