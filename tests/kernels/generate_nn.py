"""Writes nn_expected.inc: PyTorch's results of normalisation, softmax, pooling and attention on the inputs numbers(n, seed)."""
import torch
import torch.nn.functional as F


def numbers(seed, *shape):
    n = 1
    for s in shape:
        n *= s
    i = torch.arange(n)
    return (((i * 37 + (i // 7) * 5 + seed * 11) % 19 - 9).to(torch.float64) / 8).reshape(shape).requires_grad_()


def put(name, *tensors):
    flat = torch.cat([t.detach().to(torch.float64).flatten() for t in tensors])
    print("const std::vector<double> %s = {%s};" % (name, ", ".join("%.9g" % v for v in flat.tolist())))


def grads(y, seed, *inputs):
    return torch.autograd.grad(y, inputs, numbers(seed, *y.shape).detach())


print("// Written by generate_nn.py with PyTorch %s." % torch.__version__.split("+")[0])
x, w, b = numbers(1, 3, 10), numbers(2, 10), numbers(3, 10)
y = F.layer_norm(x, (10,), w, b, 1e-5)
put("kLayerNorm", y, *grads(y, 4, x, w, b))
put("kRmsNorm", F.rms_norm(x, (10,), w, 1e-5))
x, w, b = numbers(1, 2, 4, 9), numbers(2, 4), numbers(3, 4)
y = F.group_norm(x, 2, w, b, 1e-5)
put("kGroupNorm", y, *grads(y, 4, x, w, b))
y = F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5)
put("kBatchNorm", y, *grads(y, 4, x, w, b))
x = numbers(1, 3, 5, 4)
for log in (False, True):
    for d in (1, 2):
        y = (F.log_softmax if log else F.softmax)(x, d)
        put("k%sSoftmax%d" % ("Log" if log else "", d), y, *grads(y, 4, x))
x = numbers(1, 2, 1, 7, 8)
y, i = F.max_pool2d(x, 3, 2, 1, 1, ceil_mode=True, return_indices=True)
put("kMaxPool", y, i, *grads(y, 4, x))
y, i = F.max_pool2d(x, 2, 1, 0, 2, return_indices=True)
put("kMaxPoolDilated", y, i, *grads(y, 4, x))
for name, options in {"": {}, "NoPad": {"count_include_pad": False}, "Divisor": {"divisor_override": 3}}.items():
    y = F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, **options)
    put("kAvgPool" + name, y, *grads(y, 4, x))
y = F.adaptive_avg_pool2d(x, (3, 5))
put("kAdaptiveAvg", y, *grads(y, 4, x))
y, i = F.adaptive_max_pool2d(x, (3, 5), return_indices=True)
put("kAdaptiveMax", y, i, *grads(y, 4, x))
q, k, v, m = numbers(1, 2, 2, 5, 8), numbers(2, 2, 2, 7, 8), numbers(3, 2, 2, 7, 6), numbers(4, 2, 1, 5, 7)
put("kAttention", F.scaled_dot_product_attention(q, k, v))
put("kAttentionMask", F.scaled_dot_product_attention(q, k, v, m.detach()))
put("kAttentionBool", F.scaled_dot_product_attention(q, k, v, m.detach() > -0.6))
put("kAttentionCausal", F.scaled_dot_product_attention(q, k, v, is_causal=True))
x = torch.tensor([3.0, float("nan"), 1.0, 3.0, -2.0, 1.0])
put("kSortIndices", torch.sort(x, stable=True)[1], torch.sort(x, stable=True, descending=True)[1])
