"""Writes layers_expected.inc: what PyTorch's layers give for a seed, as short samples of results and gradients.

Run with the Python that has PyTorch 2.13: python tests/nn/generate_expected.py
"""
import math
import pathlib

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


def wave(*shape):
    n = math.prod(shape)
    return torch.sin(torch.arange(n, dtype=torch.float64) * 0.7).to(torch.float32).reshape(shape)


def sample(t):
    flat = t.detach().double().flatten()
    n = flat.numel()
    return [flat[i * (n - 1) // 7].item() for i in range(8)]


rows = []


def record(name, t):
    values = ", ".join(repr(v) for v in sample(t)).replace("inf", "INFINITY")
    rows.append(f'{{"{name}", {{{values}}}}},')


def layer(name, make, *shape, call=None):
    torch.manual_seed(0)
    m = make()
    x = wave(*shape).requires_grad_()
    y = call(m, x) if call else m(x)
    (y * wave(*y.shape)).sum().backward()
    record(name, y)
    record(name + ".grad", x.grad)
    for key, p in m.named_parameters():
        record(f"{name}.{key}", p)
        record(f"{name}.{key}.grad", p.grad)
    for key, b in m.named_buffers():
        record(f"{name}.{key}", b)


layer("linear", lambda: nn.Linear(5, 3), 4, 5)
layer("linear_no_bias", lambda: nn.Linear(5, 3, bias=False), 2, 4, 5)
layer("conv1d", lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), 2, 4, 9)
layer("conv2d", lambda: nn.Conv2d(3, 4, 3, stride=2, padding=1), 2, 3, 7, 8)
layer("conv2d_same", lambda: nn.Conv2d(2, 3, (3, 4), padding="same", dilation=2), 1, 2, 7, 8)
layer("conv2d_reflect", lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), 1, 2, 5, 6)
layer("conv2d_circular", lambda: nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), 1, 2, 5, 6)
layer("conv3d", lambda: nn.Conv3d(2, 3, 2), 1, 2, 3, 4, 5)
layer("conv_transpose1d", lambda: nn.ConvTranspose1d(3, 2, 4, stride=2, padding=1), 2, 3, 5)
layer("conv_transpose2d", lambda: nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1), 1, 3, 4, 5)
layer("instance_norm1d", lambda: nn.InstanceNorm1d(3), 2, 3, 5)
layer("instance_norm2d", lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True), 2, 3, 4, 5)
layer("instance_norm2d_eval", lambda: nn.InstanceNorm2d(3, track_running_stats=True).eval(), 2, 3, 4, 5)
layer("instance_norm3d", lambda: nn.InstanceNorm3d(3, momentum=None, track_running_stats=True), 3, 2, 2, 3)
layer("celu", lambda: nn.CELU(0.7), 3, 4)
layer("selu", lambda: nn.SELU(), 3, 4)
layer("glu", lambda: nn.GLU(0), 4, 3)
layer("log_sigmoid", lambda: nn.LogSigmoid(), 3, 4)
layer("softsign", lambda: nn.Softsign(), 3, 4)
layer("tanhshrink", lambda: nn.Tanhshrink(), 3, 4)
layer("hardshrink", lambda: nn.Hardshrink(0.3), 3, 4)
layer("softshrink", lambda: nn.Softshrink(0.3), 3, 4)
layer("threshold", lambda: nn.Threshold(0.1, 20.0), 3, 4)
layer("softmin", lambda: nn.Softmin(1), 3, 4)
layer("softmax2d", lambda: nn.Softmax2d(), 3, 4, 2)
layer("constant_pad1d", lambda: nn.ConstantPad1d((2, 1), 3.5), 1, 2, 3)
layer("constant_pad3d", lambda: nn.ConstantPad3d((1, 0, 2, 1, 0, 1), -1.0), 1, 2, 2, 3)
layer("zero_pad1d", lambda: nn.ZeroPad1d(2), 1, 2, 3)
layer("circular_pad2d", lambda: nn.CircularPad2d((1, 2, 0, 1)), 1, 2, 3, 4)
layer("reflection_pad3d", lambda: nn.ReflectionPad3d(1), 1, 2, 2, 3, 4)
layer("replication_pad3d", lambda: nn.ReplicationPad3d((2, 0, 1, 1, 0, 3)), 1, 2, 2, 3, 4)
layer("dropout3d", lambda: nn.Dropout3d(0.4), 2, 3, 2, 2, 2)
layer("dropout3d_unbatched", lambda: nn.Dropout3d(0.4), 5, 2, 2, 2)
layer("alpha_dropout", lambda: nn.AlphaDropout(0.3), 5, 6)
layer("feature_alpha_dropout", lambda: nn.FeatureAlphaDropout(0.3), 4, 5, 3)
layer("batch_norm1d", lambda: nn.BatchNorm1d(3), 5, 3)
layer("batch_norm2d", lambda: nn.BatchNorm2d(3), 2, 3, 4, 5)
layer("batch_norm2d_eval", lambda: nn.BatchNorm2d(3).eval(), 2, 3, 4, 5)
layer("batch_norm_cumulative", lambda: nn.BatchNorm2d(3, momentum=None), 2, 3, 4, 5)
layer("layer_norm", lambda: nn.LayerNorm([4, 5]), 3, 4, 5)
layer("group_norm", lambda: nn.GroupNorm(2, 4), 2, 4, 3, 3)
layer("rms_norm", lambda: nn.RMSNorm(5), 3, 5)
layer("max_pool1d", lambda: nn.MaxPool1d(3, 2, 1), 2, 3, 9)
layer("max_pool2d", lambda: nn.MaxPool2d(2), 2, 3, 6, 7)
layer("avg_pool1d", lambda: nn.AvgPool1d(2), 2, 3, 9)
layer("avg_pool2d", lambda: nn.AvgPool2d(3, 2, 1), 2, 3, 6, 7)
layer("adaptive_avg_pool2d", lambda: nn.AdaptiveAvgPool2d((2, 3)), 2, 3, 5, 7)
layer("adaptive_max_pool2d", lambda: nn.AdaptiveMaxPool2d(2), 2, 3, 5, 7)
layer("prelu", lambda: nn.PReLU(3), 2, 3, 4)
layer("lp_pool1d", lambda: nn.LPPool1d(2, 3, 2), 2, 3, 9)
layer("lp_pool3d", lambda: nn.LPPool3d(2, (2, 1, 3), ceil_mode=True), 1, 2, 4, 3, 7)
layer("cross_map_norm", lambda: nn.CrossMapLRN2d(3, 0.5, 0.7, 2.0), 2, 6, 2, 3)
layer("cross_map_norm_even", lambda: nn.CrossMapLRN2d(4, 0.5), 2, 7, 2, 2)
layer("upsampling_nearest2d", lambda: nn.UpsamplingNearest2d(scale_factor=2), 1, 2, 3, 4)
layer("upsampling_bilinear2d", lambda: nn.UpsamplingBilinear2d(size=(5, 7)), 1, 2, 3, 4)


def triplet(m, x):
    return m(x, x.flip(0) * 0.5, x.roll(1, 1) - 0.2)


layer("triplet_distance", lambda: nn.TripletMarginWithDistanceLoss(swap=True, margin=2.0, reduction="none"), 4, 6, call=triplet)
layer("triplet_cosine", lambda: nn.TripletMarginWithDistanceLoss(distance_function=lambda a, b: 1 - F.cosine_similarity(a, b)),
      4, 6, call=triplet)


def adaptive(m, x):
    y, loss = m(x, torch.tensor([0, 3, 5, 11, 19, 4, 2]))
    return torch.cat([y, loss.reshape(1), m.log_prob(x).flatten(), m.predict(x).float()])


layer("adaptive_softmax", lambda: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [4, 10], div_value=2.0, head_bias=True), 7, 8, call=adaptive)
layer("adaptive_softmax_one", lambda: nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10]), 16,
      call=lambda m, x: torch.cat([torch.stack(list(m(x, torch.tensor(7)))), m.log_prob(x[None])[0]]))
for name, make in dict(relu6=nn.ReLU6, gelu=nn.GELU, gelu_tanh=lambda: nn.GELU("tanh"), silu=nn.SiLU, sigmoid=nn.Sigmoid,
                       tanh=nn.Tanh, leaky_relu=lambda: nn.LeakyReLU(0.1), elu=nn.ELU, softplus=nn.Softplus,
                       hardtanh=lambda: nn.Hardtanh(-0.5, 0.5), hardswish=nn.Hardswish, hardsigmoid=nn.Hardsigmoid,
                       mish=nn.Mish, softmax=lambda: nn.Softmax(1), log_softmax=lambda: nn.LogSoftmax(-1)).items():
    layer(name, make, 4, 6)
layer("dropout", lambda: nn.Dropout(0.4), 8, 16)

def embedding(m, x):
    return m(torch.tensor([[1, 0, 3], [3, 2, 1]])) + x.sum()
layer("embedding", lambda: nn.Embedding(5, 4, padding_idx=0), 2, call=embedding)

def attend(**kw):
    def call(m, x):
        y, w = m(x, x, x, **kw)
        return torch.cat([y.flatten(), w.flatten()]) if w is not None else y
    return call
mask = torch.tensor([[False, True, True], [False, False, True], [False, False, False]])
padding = torch.tensor([[False, False, True], [False, False, False]])
layer("attention", lambda: nn.MultiheadAttention(6, 2), 3, 2, 6, call=attend())
layer("attention_batch_first", lambda: nn.MultiheadAttention(6, 2, batch_first=True), 2, 3, 6,
      call=attend(need_weights=False, attn_mask=mask, key_padding_mask=padding))
layer("attention_bias_kv", lambda: nn.MultiheadAttention(6, 2, add_bias_kv=True, add_zero_attn=True), 3, 2, 6,
      call=attend(attn_mask=mask, average_attn_weights=False))
layer("attention_kdim", lambda: nn.MultiheadAttention(6, 2, kdim=5, vdim=4), 3, 2, 6,
      call=lambda m, x: m(x, wave(4, 2, 5), wave(4, 2, 4))[0])
layer("attention_unbatched", lambda: nn.MultiheadAttention(6, 3, bias=False), 3, 6, call=attend())
for norm_first in (False, True):
    layer("encoder" + ("_norm_first" if norm_first else ""),
          lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu",
                                                                   batch_first=True, norm_first=norm_first), 2,
                                        enable_nested_tensor=False),
          2, 3, 8, call=lambda m, x: m(x, src_key_padding_mask=padding))

def loss(name, make, target, *shape):
    layer(name, make, *shape, call=lambda m, x: m(x, target))
classes = torch.tensor([1, 0, 2, 2])
loss("mse_loss", nn.MSELoss, wave(4, 3).cos(), 4, 3)
loss("l1_loss", nn.L1Loss, wave(4, 3).cos(), 4, 3)
loss("smooth_l1_loss", lambda: nn.SmoothL1Loss(beta=0.5), wave(4, 3).cos(), 4, 3)
loss("huber_loss", lambda: nn.HuberLoss(delta=0.5), wave(4, 3).cos(), 4, 3)
loss("cross_entropy", lambda: nn.CrossEntropyLoss(label_smoothing=0.1), classes, 4, 3)
loss("cross_entropy_weight", lambda: nn.CrossEntropyLoss(weight=torch.tensor([0.5, 1.0, 2.0]), ignore_index=0), classes, 4, 3)
loss("nll_loss", lambda: nn.NLLLoss(reduction="sum"), classes, 4, 3)
loss("bce_logits", lambda: nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0])), (wave(4, 3) > 0).float(), 4, 3)
loss("kl_div", lambda: nn.KLDivLoss(reduction="sum"), wave(4, 3).softmax(1), 4, 3)


# Training: the losses of the nets in examples/, step by step.
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 32)
        self.fc2 = nn.Linear(32, 32)
        self.fc3 = nn.Linear(32, 1)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Block(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(i, o, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(o)
        self.bn2 = nn.BatchNorm2d(o)
        self.shortcut = nn.Sequential()
        if stride != 1 or i != o:
            self.shortcut = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(2)
        self.layer1 = Block(16, 16, 1)
        self.layer2 = Block(16, 32, 2)
        self.average = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(32, 4)

    def forward(self, x):
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        return self.fc(self.average(self.layer2(self.layer1(x))).flatten(1))


class EncoderBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, padding):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(20, 32)
        self.positions = nn.Embedding(64, 32)
        self.blocks = nn.ModuleList([EncoderBlock(32, 4), EncoderBlock(32, 4)])
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 20)

    def forward(self, x, padding):
        y = self.tokens(x) + self.positions(torch.arange(x.size(1)))
        for block in self.blocks:
            y = block(y, padding)
        return self.head(self.norm(y))


def train(name, net, optimizer, step_loss, steps, clip=None):
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = step_loss()
        value.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
        optimizer.step()
        losses.append(value.item())
    rows.append(f'{{"{name}", {{{", ".join(map(repr, losses))}}}}},')


torch.manual_seed(0)
net = MLP()
torch.manual_seed(1)
x = torch.randn(128, 8)
y = (x * x).sum(1, keepdim=True)
train("train_mlp", net, torch.optim.SGD(net.parameters(), lr=0.005, momentum=0.9), lambda: F.mse_loss(net(x), y), 20)

torch.manual_seed(0)
net = ResNet()
torch.manual_seed(1)
x = torch.randn(32, 3, 16, 16)
label = F.adaptive_avg_pool2d(x.mean(1, keepdim=True), 2).flatten(1).argmax(1)
train("train_resnet", net, torch.optim.Adam(net.parameters(), lr=2e-3), lambda: F.cross_entropy(net(x), label), 6)

torch.manual_seed(0)
net = Transformer()
torch.manual_seed(1)
x = torch.randint(20, (16, 12))
padding = torch.zeros(16, 12, dtype=torch.bool)
padding[:4, 10:] = True
target = torch.roll(x, 1, 1).masked_fill(padding, -100)
train("train_transformer", net, torch.optim.AdamW(net.parameters(), lr=3e-3),
      lambda: F.cross_entropy(net(x, padding).flatten(0, 1), target.flatten()), 8, clip=1.0)


# Optimisers: a parameter after six steps with gradients that are a function of it.
def optimise(name, make):
    p = nn.Parameter(wave(8))
    o = make(p)
    for _ in range(6):
        o.zero_grad()
        ((p * p * p).sum() + p.cos().sum()).backward()
        o.step()
    record(name, p)


optimise("sgd", lambda p: torch.optim.SGD([p], lr=0.1))
optimise("sgd_momentum", lambda p: torch.optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.2, weight_decay=0.01))
optimise("sgd_nesterov", lambda p: torch.optim.SGD([p], lr=0.05, momentum=0.9, nesterov=True, maximize=True))
optimise("adam", lambda p: torch.optim.Adam([p], lr=0.05))
optimise("adam_decay", lambda p: torch.optim.Adam([p], lr=0.05, betas=(0.8, 0.95), weight_decay=0.1, amsgrad=True))
optimise("adamw", lambda p: torch.optim.AdamW([p], lr=0.05))
optimise("adamw_maximize", lambda p: torch.optim.AdamW([p], lr=0.05, maximize=True, amsgrad=True, weight_decay=0.1))

text = "// Written by tests/nn/generate_expected.py with PyTorch " + torch.__version__.split("+")[0] + ": do not edit.\n"
layer("lstm", lambda: nn.LSTM(4, 3, num_layers=2, bidirectional=True), 5, 2, 4, call=lambda m, x: m(x)[0])
layer("lstm_projected", lambda: nn.LSTM(4, 5, proj_size=2, bias=False, batch_first=True), 2, 5, 4, call=lambda m, x: m(x)[0])
layer("gru", lambda: nn.GRU(4, 3, num_layers=2), 5, 2, 4, call=lambda m, x: torch.cat([m(x)[0].flatten(), m(x)[1].flatten()]))
layer("rnn_relu", lambda: nn.RNN(4, 3, nonlinearity="relu", bidirectional=True), 5, 4, call=lambda m, x: m(x)[0])
layer("lstm_packed", lambda: nn.LSTM(4, 3), 5, 3, 4, call=lambda m, x: m(nn.utils.rnn.pack_padded_sequence(x, torch.tensor([2, 5, 3]), enforce_sorted=False))[1][1])
layer("lstm_cell", lambda: nn.LSTMCell(4, 3), 2, 4, call=lambda m, x: torch.cat(m(x)))
layer("gru_cell", lambda: nn.GRUCell(4, 3), 2, 4)
layer("rnn_cell", lambda: nn.RNNCell(4, 3, bias=False), 4)
layer("embedding_bag", lambda: nn.EmbeddingBag(6, 3, mode="sum", padding_idx=2), 8, call=lambda m, x: m(torch.tensor([0, 2, 5, 5, 1, 0, 3, 4]), torch.tensor([0, 3, 3, 6]), per_sample_weights=x))
layer("bilinear", lambda: nn.Bilinear(3, 3, 2), 4, 3, call=lambda m, x: m(x, x.flip(0)))
for mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
    layer("upsample_" + mode, lambda: nn.Upsample(scale_factor=1.7, mode=mode), 1, 2, 4, 5)
layer("upsample_aa", nn.Identity, 1, 2, 8, 9, call=lambda m, x: F.interpolate(x, size=(3, 5), mode="bilinear", antialias=True))
layer("unfold", lambda: nn.Unfold((2, 3), padding=1, stride=2), 1, 2, 5, 6)
layer("fold", lambda: nn.Fold((4, 5), (2, 2)), 1, 8, 12)
layer("grid_sample", nn.Identity, 1, 2, 4, 5, call=lambda m, x: F.grid_sample(x, wave(1, 3, 3, 2) * 1.2, mode="bicubic", padding_mode="reflection"))
layer("local_response_norm", lambda: nn.LocalResponseNorm(2), 1, 4, 3, 3)
layer("ctc", nn.Identity, 6, 2, 4, call=lambda m, x: F.ctc_loss(x.log_softmax(-1), torch.tensor([[1, 2, 2], [3, 1, 0]]), torch.tensor([6, 5]), torch.tensor([3, 2]), reduction="none").repeat(4))
layer("triplet", nn.Identity, 3, 4, call=lambda m, x: F.triplet_margin_loss(x, x.flip(0), x.flip(1), reduction="none"))

for first in (False, True):
    layer("decoder" + ("_norm_first" if first else ""), lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0, norm_first=first), 2, nn.LayerNorm(8)), 3, 2, 8,
          call=lambda m, x: m(x, wave(4, 2, 8).cos(), tgt_mask=nn.Transformer.generate_square_subsequent_mask(3)))
layer("transformer", lambda: nn.Transformer(8, 2, 1, 2, 16, dropout=0, activation="gelu", batch_first=True), 2, 3, 8, call=lambda m, x: m(x, wave(2, 4, 8).cos()))
layer("max_unpool1d", lambda: nn.MaxUnpool1d(2), 1, 2, 6, call=lambda m, x: m(*F.max_pool1d(x, 2, return_indices=True)))
layer("max_unpool3d", lambda: nn.MaxUnpool3d(2, stride=2), 1, 2, 4, 4, 4, call=lambda m, x: m(*F.max_pool3d(x, 2, return_indices=True)))
layer("fractional_max_pool2d", lambda: nn.FractionalMaxPool2d(2, output_size=(3, 2)), 2, 2, 6, 7)
layer("fractional_max_pool3d", lambda: nn.FractionalMaxPool3d(2, output_ratio=0.5), 2, 6, 7, 8)

pathlib.Path(__file__).with_name("layers_expected.inc").write_text(text + "\n".join(rows) + "\n")
