# inputs: (torch.linspace(-1, 1, 2 * 5 * 8).reshape(2, 5, 8), torch.linspace(1, 0, 2 * 3 * 8).reshape(2, 3, 8), torch.tensor([[False, False, False, True, True], [False] * 5]))
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F
from typing import Optional, Tuple


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, norm=nn.LayerNorm(8), enable_nested_tensor=False)
        self.first = nn.TransformerEncoderLayer(8, 4, 12, dropout=0.0, activation=nn.SiLU(), norm_first=True, bias=False)
        decoder = nn.TransformerDecoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True)
        self.decoder = nn.TransformerDecoder(decoder, 2)
        self.attention = nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True, batch_first=True)
        self.cross = nn.MultiheadAttention(8, 2, kdim=4, vdim=6, bias=False)
        self.whole = nn.Transformer(d_model=8, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=16, dropout=0.0)
        self.second = copy.deepcopy(self.first)

    def forward(self, x, y, padding):
        causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
        a = self.encoder(x, mask=causal, src_key_padding_mask=padding)
        b = self.first(x.transpose(0, 1)).transpose(0, 1)
        c = self.decoder(y, a, memory_key_padding_mask=padding)
        d, weights = self.attention(y, b, b, key_padding_mask=padding)
        e, heads = self.attention(y[0], b[0], b[0], average_attn_weights=False)
        f, none = self.cross(y.transpose(0, 1), b.transpose(0, 1)[:, :, :4], b.transpose(0, 1)[:, :, 2:], need_weights=False)
        g = self.whole(x.transpose(0, 1), y.transpose(0, 1))
        assert none is None
        assert weights is not None and heads is not None
        return a, b, c, d, weights, e, heads, f, g, self.second(x)
