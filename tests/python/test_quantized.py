"""Quantized tensors and the quantized:: operators against PyTorch, integer by integer."""

import warnings

import numpy as np
import pytest

import tern

warnings.filterwarnings("ignore")
torch = pytest.importorskip("torch")
F = torch.nn.functional
DTYPES = ["qint8", "quint8", "qint32"]


def quantized(shape=(2, 3, 4, 5), dtype="quint8", scale=0.05, zero_point=7, seed=0, spread=1.5):
    """The same quantized tensor on both sides."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * spread
    a = torch.quantize_per_tensor(x, scale, zero_point, getattr(torch, dtype))
    b = tern.quantize_per_tensor(tern.tensor(x.numpy()), scale, zero_point, getattr(tern, dtype))
    return a, b


def per_channel(shape=(2, 3, 4), axis=1, dtype="qint8"):
    x = torch.randn(shape)
    scales, zeros = torch.rand(shape[axis]) * 0.1 + 0.02, torch.arange(shape[axis]) - 1 if dtype != "quint8" else torch.arange(shape[axis])
    a = torch.quantize_per_channel(x, scales, zeros, axis, getattr(torch, dtype))
    b = tern.quantize_per_channel(tern.tensor(x.numpy()), tern.tensor(scales.numpy()), tern.tensor(zeros.numpy()), axis, getattr(tern, dtype))
    return a, b


def integers(t):
    return np.array(t.int_repr().numpy()).astype(np.int64)


def same(a, b, off=0, few=0.0):
    """`off`: how far single integers may be apart; `few`: how large a part of them may."""
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y, off, few)
        return
    if not isinstance(a, torch.Tensor):
        assert a == b
        return
    assert tuple(a.shape) == tuple(b.shape)
    assert str(a.dtype).split(".")[1] == b.dtype.name
    if not a.is_quantized:
        np.testing.assert_allclose(np.array(b.numpy()), a.numpy(), rtol=1e-5, atol=1e-6)
        return
    assert b.is_quantized
    if a.qscheme() == torch.per_tensor_affine:
        assert a.q_zero_point() == b.q_zero_point()
        assert a.q_scale() == pytest.approx(b.q_scale(), rel=1e-7)
    else:
        assert a.q_per_channel_axis() == b.q_per_channel_axis()
        np.testing.assert_allclose(np.array(b.q_per_channel_scales().numpy()), a.q_per_channel_scales().numpy())
        np.testing.assert_array_equal(np.array(b.q_per_channel_zero_points().numpy()), a.q_per_channel_zero_points().numpy())
    difference = np.abs(integers(a) - integers(b))
    assert difference.max(initial=0) <= off, (integers(a), integers(b))
    assert (difference > 0).mean() <= few if difference.size else True


@pytest.mark.parametrize("dtype", DTYPES)
def test_quantize_and_back(dtype):
    for shape in [(), (0,), (5,), (3, 100), (2, 3, 17, 19)]:
        a, b = quantized(shape, dtype)
        same(a, b)
        same(a.dequantize(), b.dequantize())
        same(a.int_repr(), b.int_repr())
    odd = torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 0.5, 1.5, 2.5, -0.5])
    if dtype != "qint32":  # what a NaN becomes there depends on the machine
        for n in (1, 4):
            x = odd.repeat(n)
            same(torch.quantize_per_tensor(x, 1.0, 3, getattr(torch, dtype)), tern.quantize_per_tensor(tern.tensor(x.numpy()), 1.0, 3, getattr(tern, dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_per_channel(dtype):
    for shape, axis in [((4,), 0), ((2, 3), 0), ((2, 3, 4), 1), ((2, 3, 4, 5), 3)]:
        a, b = per_channel(shape, axis, dtype)
        same(a, b)
        same(a.dequantize(), b.dequantize())
    x, scales, zeros = torch.randn(4, 6), torch.rand(4) + 0.1, torch.rand(4)
    a = torch.quantize_per_channel(x, scales, zeros, 0, torch.quint8)
    b = tern.quantize_per_channel(tern.tensor(x.numpy()), tern.tensor(scales.numpy()), tern.tensor(zeros.numpy()), 0, tern.quint8)
    same(a, b)
    same(a.dequantize(), b.dequantize())


def test_other_ways_to_make_them():
    x = torch.randn(3, 4)
    y = tern.tensor(x.numpy())
    for dtype in ("qint8", "quint8"):
        for reduce in (False, True):
            same(torch.quantize_per_tensor_dynamic(x, getattr(torch, dtype), reduce), tern.quantize_per_tensor_dynamic(y, getattr(tern, dtype), reduce))
    same(torch.quantize_per_tensor(x, torch.tensor(0.1), torch.tensor(3), torch.quint8), tern.quantize_per_tensor(y, tern.tensor(0.1), tern.tensor(3), tern.quint8))
    same(torch.quantize_per_tensor([x, x], torch.tensor([0.1, 0.2]), torch.tensor([3, 4]), torch.quint8), tern.quantize_per_tensor([y, y], tern.tensor([0.1, 0.2]), tern.tensor([3, 4]), tern.quint8))
    i = torch.randint(-100, 100, (2, 3), dtype=torch.int8)
    same(torch._make_per_tensor_quantized_tensor(i, 0.1, 2), tern._make_per_tensor_quantized_tensor(tern.tensor(i.numpy()), 0.1, 2))
    same(torch._make_per_channel_quantized_tensor(i, torch.tensor([0.1, 0.2]), torch.tensor([1, 2]), 0), tern._make_per_channel_quantized_tensor(tern.tensor(i.numpy()), tern.tensor([0.1, 0.2]), tern.tensor([1, 2]), 0))
    e = tern._empty_affine_quantized([2, 3], scale=0.5, zero_point=4, dtype=tern.quint8)
    assert e.is_quantized and e.q_scale() == 0.5 and e.q_zero_point() == 4 and e.shape == (2, 3)
    for low, high in [(0.0, 0.0), (-1e-7, 1e-7), (0.0, 3.0), (-5.0, -1.0), (-1.0, 2.0)]:
        t = torch.tensor([low, high])
        assert torch._choose_qparams_per_tensor(t) == pytest.approx(tern._choose_qparams_per_tensor(tern.tensor(t.numpy())))


MOVES = {
    "view": lambda q, m: q.view(6, 20),
    "reshape": lambda q, m: q.transpose(1, 2).reshape(-1, 5),
    "permute": lambda q, m: q.permute(3, 1, 0, 2),
    "transpose": lambda q, m: q.transpose(0, 2).contiguous(),
    "slice": lambda q, m: q[:, 1:, ::2],
    "select": lambda q, m: q[1, -1],
    "flatten": lambda q, m: m.flatten(q, 1),
    "unsqueeze": lambda q, m: q.unsqueeze(-1).unsqueeze(0),
    "squeeze": lambda q, m: q[:1].squeeze(),
    "clone": lambda q, m: q.clone(),
    "channels_last": lambda q, m: q.contiguous(memory_format=m.channels_last),
    "expand": lambda q, m: q[:1].expand(4, 3, 4, 5),
    "repeat": lambda q, m: q.repeat(1, 2, 1, 1),
    "index_select": lambda q, m: q.index_select(1, m.tensor([2, 0])),
    "index": lambda q, m: q[m.tensor([1, 0, 1])],
    "chunk": lambda q, m: q.chunk(2, 1),
    "split": lambda q, m: q.split(2, 2),
    "unbind": lambda q, m: q.unbind(1),
    "flip": lambda q, m: q.flip(0, 2),
    "cat": lambda q, m: m.cat([q, q], 1),
    "stack": lambda q, m: m.stack([q, q]),
    "detach": lambda q, m: q.detach(),
    "max": lambda q, m: q.max(),
    "min": lambda q, m: q.min(),
    "sort": lambda q, m: q.sort()[0],
    "topk": lambda q, m: q.topk(2)[0],
    "eq": lambda q, m: q == q,
    "ge": lambda q, m: q >= 0.1,
    "equal": lambda q, m: m.equal(q, q),
    "fill": lambda q, m: q.clone().fill_(0.33),
    "empty_like": lambda q, m: m.empty_like(q).fill_(0.0),
    "masked_fill": lambda q, m: q.clone().masked_fill_(m.ones(2, 3, 4, 5) > 0, 0.4),
    "copy": lambda q, m: q.clone().copy_(m.ones(2, 3, 4, 5)),
    "item": lambda q, m: q[0, 0, 0, 0].item(),
}


@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_moving_elements(name, dtype):
    a, b = quantized(dtype=dtype)
    same(MOVES[name](a, torch), MOVES[name](b, tern))


@pytest.mark.parametrize("name", ["view", "slice", "select", "unsqueeze", "clone", "channels_last", "unbind", "detach", "eq", "equal", "fill", "copy", "split"])
def test_moving_elements_per_channel(name):
    a, b = per_channel((2, 3, 4, 5), 1)
    same(MOVES[name](a, torch), MOVES[name](b, tern))
    same(a[:, 1], b[:, 1])
    same(a[:, 1:], b[:, 1:])


ACTIVATIONS = {
    "relu": lambda q, m, f: m.relu(q),
    "relu_": lambda q, m, f: m.relu_(q.clone()),
    "relu6": lambda q, m, f: f.relu6(q),
    "hardtanh": lambda q, m, f: f.hardtanh(q, -0.3, 0.4),
    "clamp": lambda q, m, f: m.clamp(q, -0.5, 0.9),
    "clamp_min": lambda q, m, f: m.clamp(q, min=-0.5),
    "sigmoid": lambda q, m, f: m.sigmoid(q),
    "tanh": lambda q, m, f: m.tanh(q),
    "hardsigmoid": lambda q, m, f: f.hardsigmoid(q),
    "leaky_relu": lambda q, m, f: f.leaky_relu(q, 0.2),
    "gelu": lambda q, m, f: f.gelu(q),
    "threshold": lambda q, m, f: m.threshold(q, 0.12, 0.5),
    "mean": lambda q, m, f: q.mean([2, 3]),
    "mean_keep": lambda q, m, f: q.mean([1], True),
    "std": lambda q, m, f: q.std([2, 3], False),
    "max_pool2d": lambda q, m, f: m.max_pool2d(q, [2, 2], [1, 2], [1, 1]),
    "avg_pool2d": lambda q, m, f: f.avg_pool2d(q, [2, 2], [1, 2], [1, 1]),
    "avg_pool2d_valid": lambda q, m, f: f.avg_pool2d(q, [3, 2], [1, 1], [1, 0], False, False),
    "adaptive": lambda q, m, f: f.adaptive_avg_pool2d(q, [2, 3]),
    "adaptive_one": lambda q, m, f: f.adaptive_avg_pool2d(q, [1, 1]),
    "channels_last_pool": lambda q, m, f: f.adaptive_avg_pool2d(q.contiguous(memory_format=m.channels_last), [2, 2]),
    "nearest": lambda q, m, f: m.ops.aten.upsample_nearest2d(q, [8, 7], None, None),
    "bilinear": lambda q, m, f: m.ops.aten.upsample_bilinear2d(q, [8, 7], False, None, None),
    "bilinear_corners": lambda q, m, f: m.ops.aten.upsample_bilinear2d(q, [8, 7], True, None, None),
    "pad": lambda q, m, f: m.constant_pad_nd(q, [1, 2], 0.5),
    "reflect": lambda q, m, f: m.ops.aten.reflection_pad2d(q, [1, 1, 1, 1]),
}


class Functional:
    """torch.nn.functional's names over tern's operators."""

    def __getattr__(self, name):
        return getattr(tern, name)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", ["qint8", "quint8"])
def test_operators(name, dtype):
    for shape in [(2, 3, 4, 5), (3, 16, 6, 7)]:
        a, b = quantized(shape, dtype)
        same(ACTIVATIONS[name](a, torch, F), ACTIVATIONS[name](b, tern, Functional()), off=1, few=0.05)


Q = torch.ops.quantized
PAIRS = ["add", "add_relu", "mul", "mul_relu"]


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_two_operands(name, dtype):
    for shape in [(7,), (2, 3, 4, 5), (3, 16, 6, 7)]:
        a, x = quantized(shape, dtype, 0.03, 11)
        b, y = quantized(shape, dtype, 0.07, 3, seed=1)
        same(getattr(Q, name)(a, b, 0.1, 20), getattr(tern.ops.quantized, name)(x, y, 0.1, 20), off=1, few=0.05)


def test_two_operands_that_are_laid_out_differently():
    a, x = quantized((2, 3, 4, 5))
    b, y = quantized((2, 3, 4, 5), seed=1)
    a, x = a.contiguous(memory_format=torch.channels_last), x.contiguous(memory_format=tern.channels_last)
    same(Q.add(a, b, 0.1, 20), tern.ops.quantized.add(x, y, 0.1, 20), off=1, few=0.05)
    same(Q.add(a, b[:1, :, :1], 0.1, 20), tern.ops.quantized.add(x, y[:1, :, :1], 0.1, 20), off=1, few=0.05)


@pytest.mark.parametrize("number", [0.0, 0.3, -0.7, 2.0, 30.0, -30.0])
@pytest.mark.parametrize("name", ["add_scalar", "mul_scalar", "add_scalar_relu", "mul_scalar_relu"])
@pytest.mark.parametrize("dtype", ["qint8", "quint8"])
def test_numbers(name, number, dtype):
    a, b = quantized(dtype=dtype)
    same(getattr(Q, name)(a, number), getattr(tern.ops.quantized, name)(b, number), off=1, few=0.05)


def test_activations_with_an_output_scale():
    a, b = quantized((3, 16, 6, 7))
    ours = tern.ops.quantized
    for name, rest in [("hardswish", ()), ("sigmoid", ()), ("elu", (0.7,)), ("celu", (1.3,)), ("elu", ())]:
        same(getattr(Q, name)(a, 0.02, 50, *rest), getattr(ours, name)(b, 0.02, 50, *rest), off=1, few=0.05)
    same(Q.leaky_relu(a, 0.1, False, 0.02, 50), ours.leaky_relu(b, 0.1, False, 0.02, 50), off=1, few=0.05)
    same(Q.softmax(a, 1, 1 / 256, 0), ours.softmax(b, 1, 1 / 256, 0), off=1, few=0.05)
    same(Q.cat([a, a], 1, 0.1, 3), ours.cat([b, b], 1, 0.1, 3))
    same(Q.cat_relu([a, a], 1, None, None), ours.cat_relu([b, b], 1, None, None))
    w, v = torch.rand(16), torch.rand(16) + 0.5
    t = lambda x: tern.tensor(x.numpy())  # noqa: E731
    same(Q.batch_norm2d(a, w, w, v, v, 1e-5, 0.03, 9), ours.batch_norm2d(b, t(w), t(w), t(v), t(v), 1e-5, 0.03, 9), off=1, few=0.05)
    same(Q.batch_norm2d_relu(a, w, w, v, v, 1e-5, 0.03, 9), ours.batch_norm2d_relu(b, t(w), t(w), t(v), t(v), 1e-5, 0.03, 9), off=1, few=0.05)
    same(Q.layer_norm(a, [6, 7], None, None, 1e-5, 0.03, 99), ours.layer_norm(b, [6, 7], None, None, 1e-5, 0.03, 99), off=1, few=0.05)
    same(Q.group_norm(a, 4, w, w, 1e-5, 0.03, 99), ours.group_norm(b, 4, t(w), t(w), 1e-5, 0.03, 99), off=1, few=0.05)
    same(Q.instance_norm(a, w, w, 1e-5, 0.03, 99), ours.instance_norm(b, t(w), t(w), 1e-5, 0.03, 99), off=1, few=0.05)


def weights(shape, kind, seed=2):
    """(torch's, tern's) qint8 weights, with one scale or one for each output channel."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 0.4
    y = tern.tensor(x.numpy())
    if kind == "tensor":
        return torch.quantize_per_tensor(x, 0.013, 0, torch.qint8), tern.quantize_per_tensor(y, 0.013, 0, tern.qint8)
    scales = torch.rand(shape[0], generator=torch.Generator().manual_seed(seed)) * 0.01 + 0.005
    zeros = torch.zeros(shape[0], dtype=torch.long)
    return torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8), tern.quantize_per_channel(y, tern.tensor(scales.numpy()), tern.tensor(zeros.numpy()), 0, tern.qint8)


@pytest.mark.parametrize("kind", ["tensor", "channel"])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(kind, bias):
    ours = tern.ops.quantized
    for rows, k, n in [((4,), 8, 5), ((2, 3), 64, 33), ((1,), 100, 1), ((70,), 256, 200), ((0,), 8, 5)]:
        a, b = quantized((*rows, k), spread=0.5)
        w, v = weights((n, k), kind)
        c = torch.randn(n) if bias else None
        p, r = Q.linear_prepack(w, c), ours.linear_prepack(v, tern.tensor(c.numpy()) if bias else None)
        same(Q.linear_unpack(p)[0], ours.linear_unpack(r)[0])
        if rows != (0,):
            for name in ("linear", "linear_relu"):
                same(getattr(Q, name)(a, p, 0.08, 100), getattr(ours, name)(b, r, 0.08, 100), off=1, few=0.05)
        assert tuple(ours.linear(b, r, 0.08, 100).shape) == (*rows, n)
        x = torch.randn(*rows, k)
        for name in ("linear_dynamic", "linear_relu_dynamic"):
            for reduce in (True, False):
                if rows != (0,):
                    same(getattr(Q, name)(x, p, reduce), getattr(ours, name)(tern.tensor(x.numpy()), r, reduce))


def test_linear_in_half_precision():
    w, b, x = torch.randn(5, 8), torch.randn(5), torch.randn(3, 8)
    ours = tern.ops.quantized
    p, r = Q.linear_prepack_fp16(w, b), ours.linear_prepack_fp16(tern.tensor(w.numpy()), tern.tensor(b.numpy()))
    same(Q.linear_dynamic_fp16(x, p), ours.linear_dynamic_fp16(tern.tensor(x.numpy()), r))
    same(Q.linear_unpack_fp16(p), ours.linear_unpack_fp16(r))


CONVOLUTIONS = [
    # in, out, kernel, stride, padding, dilation, groups, spatial sizes
    (3, 8, (3, 3), 1, 1, 1, 1, (8, 9)),
    (8, 16, (1, 1), 1, 0, 1, 1, (7, 7)),
    (8, 12, (3, 2), 2, 1, 1, 4, (9, 8)),
    (8, 8, (3, 3), 2, 1, 1, 8, (11, 9)),
    (4, 6, (3, 3), 1, 2, 2, 1, (8, 8)),
    (16, 16, (1, 1), 2, 0, 1, 1, (8, 8)),
    (3, 4, (3,), 2, 1, 1, 1, (10,)),
    (2, 4, (2, 3, 3), 1, 1, 1, 2, (4, 5, 6)),
]


@pytest.mark.parametrize("case", range(len(CONVOLUTIONS)))
@pytest.mark.parametrize("kind", ["tensor", "channel"])
def test_convolution(case, kind):
    cin, cout, kernel, stride, padding, dilation, groups, spatial = CONVOLUTIONS[case]
    n = len(kernel)
    w, v = weights((cout, cin // groups, *kernel), kind)
    c = torch.randn(cout)
    ours = tern.ops.quantized
    rest = ([stride] * n, [padding] * n, [dilation] * n, groups)
    name = f"conv{n}d"
    p, r = getattr(Q, name + "_prepack")(w, c, *rest), getattr(ours, name + "_prepack")(v, tern.tensor(c.numpy()), *rest)
    same(getattr(Q, name + "_unpack")(p), getattr(ours, name + "_unpack")(r))
    a, b = quantized((2, cin, *spatial), spread=0.7)
    for relu in ("", "_relu"):
        # PyTorch's oneDNN keeps what the first call made of packed weights, relu or not.
        p = getattr(Q, name + "_prepack")(w, c, *rest)
        same(getattr(Q, name + relu)(a, p, 0.09, 90), getattr(ours, name + relu)(b, r, 0.09, 90), off=1, few=0.05)
    p = getattr(Q, name + "_prepack")(w, c, *rest)
    if n == 2:
        last, ours_last = a.contiguous(memory_format=torch.channels_last), b.contiguous(memory_format=tern.channels_last)
        y = ours.conv2d(ours_last, r, 0.09, 90)
        same(Q.conv2d(last, p, 0.09, 90), y, off=1, few=0.05)
        assert y.is_contiguous(memory_format=tern.channels_last)
        for fact in ("stride", "padding", "dilation", "groups", "transpose"):
            assert getattr(Q, "conv2d_" + fact)(p) == getattr(ours, "conv2d_" + fact)(r)


def test_transposed_convolution():
    torch.backends.quantized.engine = "fbgemm"
    try:
        w, v = weights((3, 4, 3, 2), "tensor")
        ours = tern.ops.quantized
        rest = ([2, 1], [1, 0], [1, 0], [1, 2], 1)
        p, r = Q.conv_transpose2d_prepack(w, torch.ones(4), *rest), ours.conv_transpose2d_prepack(v, tern.ones(4), *rest)
        a, b = quantized((2, 3, 5, 4))
        same(Q.conv_transpose2d(a, p, 0.1, 100), ours.conv_transpose2d(b, r, 0.1, 100), off=1, few=0.05)
    finally:
        torch.backends.quantized.engine = "x86"


def test_convolution_with_a_dynamic_input():
    torch.backends.quantized.engine = "fbgemm"
    try:
        w, v = weights((4, 3, 3, 3), "channel")
        rest = ([1, 1], [1, 1], [1, 1], 1)
        p, r = Q.conv2d_prepack(w, None, *rest), tern.ops.quantized.conv2d_prepack(v, None, *rest)
        x = torch.randn(1, 3, 6, 6)
        a, b = Q.conv2d_dynamic(x, p, False), tern.ops.quantized.conv2d_dynamic(tern.tensor(x.numpy()), r, False)
        step = np.diff(np.unique(a.numpy())).min()
        assert np.abs(a.numpy() - np.array(b.numpy())).max() <= 1.01 * step
    finally:
        torch.backends.quantized.engine = "x86"


def test_embedding():
    x, scales, zeros = torch.randn(10, 7), torch.rand(10) + 0.1, torch.rand(10)
    a = torch.quantize_per_channel(x, scales, zeros, 0, torch.quint8)
    b = tern.quantize_per_channel(tern.tensor(x.numpy()), tern.tensor(scales.numpy()), tern.tensor(zeros.numpy()), 0, tern.quint8)
    ours = tern.ops.quantized
    p, r = Q.embedding_bag_prepack(a), ours.embedding_bag_prepack(b)
    same(Q.embedding_bag_unpack(p), ours.embedding_bag_unpack(r))
    i, o, w = torch.tensor([1, 4, 4, 9, 0]), torch.tensor([0, 2, 2]), torch.rand(5)
    t = lambda x: tern.tensor(x.numpy())  # noqa: E731
    same(Q.embedding_byte(p, i), ours.embedding_byte(r, t(i)))
    same(Q.embedding_bag_byte(p, i, o), ours.embedding_bag_byte(r, t(i), t(o)))
    same(Q.embedding_bag_byte(p, i, o, False, 0, False, w), ours.embedding_bag_byte(r, t(i), t(o), False, 0, False, t(w)))
    same(Q.embedding_bag_byte_prepack(x), ours.embedding_bag_byte_prepack(t(x)))
    packed = Q.embedding_bag_byte_prepack(x)
    same(Q.embedding_bag_byte_unpack(packed), ours.embedding_bag_byte_unpack(t(packed)))
    with pytest.raises(IndexError):
        ours.embedding_byte(r, tern.tensor([10]))
    with pytest.raises(NotImplementedError, match="8 bits"):
        ours.embedding_4bit(r, tern.tensor([1]))


class WithCell(torch.nn.Module):
    """nn.LSTMCell takes its state in pairs."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, h, c):
        return self.cell(x, (h, c))


@pytest.mark.parametrize("bits", [torch.qint8, torch.float16], ids=str)
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_dynamic_cells(tmp_path, cell, bits):
    """A scripted cell from PyTorch: loaded, run, saved, and run by PyTorch again."""
    torch.manual_seed(0)
    make = {"lstm": torch.nn.LSTMCell, "gru": torch.nn.GRUCell}.get(cell, torch.nn.RNNCell)
    net = make(5, 7, nonlinearity=cell[4:]) if cell.startswith("rnn") else make(5, 7)
    net = WithCell(net) if cell == "lstm" else torch.nn.Sequential(net)
    net = torch.ao.quantization.quantize_dynamic(net, {make}, dtype=bits)
    theirs = torch.jit.script(net if cell == "lstm" else net[0])
    theirs.save(str(tmp_path / "cell.pt"))
    mine = tern.load(str(tmp_path / "cell.pt"))
    inputs = [torch.randn(3, n) for n in ((5, 7, 7) if cell == "lstm" else (5, 7))]
    want, got = theirs(*inputs), mine(*[tern.tensor(t.numpy()) for t in inputs])
    tern.save(mine, str(tmp_path / "again.pt"))
    again = torch.jit.load(str(tmp_path / "again.pt"))(*inputs)
    assert f"quantized_{cell}_cell_dynamic" in str(torch.jit.load(str(tmp_path / "again.pt")).inlined_graph)
    for a, b, c in zip(*(r if cell == "lstm" else [r] for r in (got, again, want)), strict=True):
        assert torch.equal(b, c)
        np.testing.assert_allclose(a.detach().numpy(), c.detach().numpy(), rtol=1e-5, atol=1e-6)


INT8_CELL = """
def forward(self, x, h, c, w_ih, w_hh, b_ih, b_hh):
    i, sums_i, scale_i, zero_i = torch.fbgemm_linear_quantize_weight(w_ih)
    j, sums_j, scale_j, zero_j = torch.fbgemm_linear_quantize_weight(w_hh)
    p, q = torch.fbgemm_pack_quantized_matrix(i), torch.fbgemm_pack_quantized_matrix(j)
    return torch.quantized_{}_cell(x, {}, i, j, b_ih, b_hh, p, q, sums_i, sums_j, scale_i, scale_j, zero_i, zero_j)
"""


@pytest.mark.parametrize("cell, gates", [("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)])
def test_cells_with_weights_in_tensors(tmp_path, cell, gates):
    """A script that quantizes and packs by FBGEMM's first interface."""
    torch.manual_seed(0)
    theirs = type(f"Cell_{cell}", (torch.jit.ScriptModule,), {})()
    theirs.define(INT8_CELL.format(cell, "[h, c]" if cell == "lstm" else "h"))
    theirs.save(str(tmp_path / "cell.pt"))
    mine = tern.load(str(tmp_path / "cell.pt"))
    inputs = [torch.randn(s) for s in ((3, 5), (3, 7), (3, 7), (7 * gates, 5), (7 * gates, 7), (7 * gates,), (7 * gates,))]
    want, got = theirs(*inputs), mine(*[tern.tensor(t.numpy()) for t in inputs])
    tern.save(mine, str(tmp_path / "again.pt"))
    again = torch.jit.load(str(tmp_path / "again.pt"))(*inputs)
    for a, b, c in zip(*(r if cell == "lstm" else [r] for r in (got, again, want)), strict=True):
        assert torch.equal(b, c)
        np.testing.assert_allclose(a.numpy(), c.numpy(), rtol=1e-5, atol=1e-6)


def test_weights_quantized_by_fbgemm():
    w = torch.randn(9, 5)
    want, got = torch.fbgemm_linear_quantize_weight(w), tern.ops.aten.fbgemm_linear_quantize_weight(tern.tensor(w.numpy()))
    assert [got[0].tolist(), got[1].tolist(), got[2], got[3]] == [want[0].tolist(), want[1].tolist(), want[2], want[3]]
    x, b = torch.randn(4, 5), torch.randn(9)
    product = torch.fbgemm_linear_int8_weight_fp32_activation(x, want[0], torch.fbgemm_pack_quantized_matrix(want[0]), want[1], want[2], want[3], b)
    mine = tern.ops.aten.fbgemm_linear_int8_weight_fp32_activation(tern.tensor(x.numpy()), got[0], got[0], got[1], got[2], got[3], tern.tensor(b.numpy()))
    np.testing.assert_allclose(mine.numpy(), product.numpy(), rtol=1e-5, atol=1e-6)


def test_printing():
    for make in [quantized, lambda: quantized((), "qint8"), lambda: quantized((0,)), lambda: quantized((30, 50)), per_channel]:
        a, b = make()
        # The name of the package is shorter, so lines may end elsewhere.
        assert " ".join(repr(b).replace("tern.", "torch.").split()) == " ".join(repr(a).split())


def message(f):
    try:
        f()
    except Exception as error:  # noqa: BLE001
        return type(error), str(error).split("\n")[0]
    return None, "no error"


ERRORS = {
    "add": lambda q, c, m: q + q,
    "exp": lambda q, c, m: q.exp(),
    "sum": lambda q, c, m: q.sum(),
    "softmax": lambda q, c, m: q.softmax(1),
    "float": lambda q, c, m: q.float(),
    "channel relu": lambda q, c, m: m.relu(c),
    "channel cat": lambda q, c, m: m.cat([c, c]),
    "channel permute": lambda q, c, m: c.permute(1, 0, 2),
    "channel scale": lambda q, c, m: c.q_scale(),
    "tensor scales": lambda q, c, m: q.q_per_channel_scales(),
    "plain int_repr": lambda q, c, m: m.zeros(2).int_repr(),
    "plain copy": lambda q, c, m: m.zeros(2, 3, 4, 5).copy_(q),
    "double": lambda q, c, m: m.quantize_per_tensor(m.zeros(2, dtype=m.float64), 0.1, 0, m.quint8),
    "plain dtype": lambda q, c, m: m.quantize_per_tensor(m.zeros(2), 0.1, 0, m.int8),
    "zero point": lambda q, c, m: m.quantize_per_tensor(m.zeros(2), 0.1, 300, m.quint8),
    "channel zero point": lambda q, c, m: m.quantize_per_channel(m.zeros(2, 3), m.ones(2), m.tensor([300, 0]), 0, m.quint8),
    "axis": lambda q, c, m: m.quantize_per_channel(m.zeros(2, 3), m.ones(2), m.tensor([3, 0]), 4, m.quint8),
    "scales": lambda q, c, m: m.quantize_per_channel(m.zeros(2, 3), m.ones(3), m.tensor([3, 0, 1]), 0, m.quint8),
    "lengths": lambda q, c, m: m.quantize_per_channel(m.zeros(2, 3), m.ones(3), m.tensor([3, 0]), 0, m.quint8),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_pytorchs(name):
    (qa, qb), (ca, cb) = quantized(), per_channel()
    kind, text = message(lambda: ERRORS[name](qb, cb, tern))
    wanted_kind, wanted = message(lambda: ERRORS[name](qa, ca, torch))
    assert kind is wanted_kind, text
    if wanted_kind is NotImplementedError:  # the variant that is named differs: add.out for add.Tensor
        assert text.split("'")[1].split(".")[0].lstrip("_").startswith(wanted.split("'")[1].split(".")[0].replace("aten::_", "aten::"))or "Could not run" in text
    else:
        assert text == wanted


def test_shapes_without_data():
    x = tern.zeros(2, 3, 8, 8, device="meta")
    q = tern.quantize_per_tensor(x, 0.1, 3, tern.quint8)
    assert q.is_quantized and q.is_meta and q.shape == (2, 3, 8, 8)
    assert tern.relu(q).is_quantized and tern.max_pool2d(q, [2, 2]).shape == (2, 3, 4, 4)
    _, w = weights((4, 3, 3, 3), "channel")
    r = tern.ops.quantized.conv2d_prepack(w, None, [2, 2], [1, 1], [1, 1], 1)
    y = tern.ops.quantized.conv2d(q, r, 0.1, 3)
    assert y.shape == (2, 4, 4, 4) and y.is_quantized
    assert y.dequantize().dtype is tern.float32 and y.int_repr().dtype is tern.uint8
