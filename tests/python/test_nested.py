"""Nested tensors (tensors of different sizes in one, strided layout) against PyTorch."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import tern

warnings.filterwarnings("ignore")
torch = pytest.importorskip("torch")
F = torch.nn.functional


def plain(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


ROWS = [plain(0, 2, 3), plain(1, 4, 3), plain(2, 1, 3)]
HEADS = [plain(3, 2, 3, 4), plain(4, 2, 5, 4)]
SQUARES = [plain(5, 3, 3), plain(6, 4, 4)]


def make(library, arrays, dtype=None, requires_grad=False):
    parts = [library.tensor(a, requires_grad=requires_grad) for a in arrays]
    return library._nested_tensor_from_tensor_list(parts, dtype, None, None, None), parts


def both(arrays, dtype=None):
    a = make(torch, arrays, dtype and getattr(torch, dtype))[0]
    b = make(tern, arrays, dtype and getattr(tern, dtype))[0]
    return a, b


def same(a, b, rtol=1e-5, atol=1e-6):
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y, rtol, atol)
        return
    if not isinstance(a, torch.Tensor):
        assert a == b
        return
    assert a.is_nested == b.is_nested
    assert str(a.dtype).split(".")[1] == b.dtype.name
    if a.is_nested:
        assert a.dim() == b.dim() and a.numel() == b.numel()
        assert a._nested_tensor_size().tolist() == b._nested_tensor_size().tolist()
        return same(a.unbind(), b.unbind(), rtol, atol)
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(np.array(b.detach().numpy()), a.detach().numpy(), rtol=rtol, atol=atol)


def layout(t):
    return [t._nested_tensor_size().tolist(), t._nested_tensor_strides().tolist(), t._nested_tensor_storage_offsets().tolist(), t.is_contiguous()]


def refusal(f, x):
    with pytest.raises(Exception) as caught:
        f(x)
    return caught.value


def refused_alike(a, b, f, g=None):
    """Both refuse; the words are the same up to PyTorch's list of backends."""
    wanted, got = str(refusal(f, a)), str(refusal(g or f, b))
    start = wanted.split("\n")[0].split(". This could be")[0]
    assert got.startswith(start), (wanted[:200], got[:200])


# ---- making, and what it is ----


@pytest.mark.parametrize("arrays", [ROWS, HEADS, [ROWS[0], ROWS[0]], [np.float32(1), np.float32(2)], [], [ROWS[0], plain(0, 0, 3)], [plain(0, 0)]])
def test_making(arrays):
    a, b = both(arrays)
    if not arrays:  # of which PyTorch keeps a table of no numbers
        assert b.is_nested and b.dim() == a.dim() == 1 and len(b.unbind()) == len(a.unbind()) == 0
        return
    same(a, b)
    assert b.is_nested and not tern.ones(2).is_nested
    assert layout(a) == layout(b)
    assert a.size(0) == b.size(0)
    same(a.values(), b.values())


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "bool", "complex64"])
def test_making_of_a_dtype(dtype):
    a, b = both(ROWS, dtype)
    assert b.dtype is getattr(tern, dtype) and layout(a) == layout(b)
    same(a.to(torch.complex64), b.to(tern.complex64))


def test_the_first_tensor_gives_the_dtype():
    mixed = [ROWS[0], ROWS[1].astype(np.float64), ROWS[2].astype(np.int64)]
    same(*both(mixed))
    same(*both(mixed[::-1]))


def test_sizes():
    a, b = both(ROWS)
    for f in (lambda x: x.size(0), lambda x: x.size(2), lambda x: x.size(-1), lambda x: x.dim(), lambda x: x.numel(), lambda x: x.ndim, lambda x: x.nbytes):
        assert f(a) == f(b)
    for f in (lambda x: x.size(1), lambda x: x.size(), lambda x: x.shape, lambda x: x.stride(), lambda x: x.stride(0), lambda x: x.size(5)):
        refused_alike(a, b, f)
        assert type(refusal(f, a)) is type(refusal(f, b))
    assert both([ROWS[0], ROWS[0]])[1].size(1) == 2


def test_constructors_of_the_module():
    lists = [[1, 2], [3]]
    same(torch.nested.nested_tensor(lists), tern.nested.nested_tensor(lists))
    same(torch.nested.nested_tensor([1.5, 2.5]), tern.nested.nested_tensor([1.5, 2.5]))
    same(torch.nested.nested_tensor([torch.tensor(r) for r in ROWS], dtype=torch.float64), tern.nested.nested_tensor([tern.tensor(r) for r in ROWS], dtype=tern.float64))
    leaf = tern.nested.nested_tensor([tern.tensor(r) for r in ROWS], requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad
    same(torch.nested.as_nested_tensor(torch.tensor(ROWS[0])), tern.nested.as_nested_tensor(tern.tensor(ROWS[0])))
    refused_alike(torch, tern, lambda m: m.nested.nested_tensor(m.ones(2)))
    refused_alike(torch, tern, lambda m: m.nested.as_nested_tensor(3))
    refused_alike(torch, tern, lambda m: m.nested.nested_tensor([m.ones(2), m.ones(2, 2)]))


PRINTED = [
    lambda m: m.nested.nested_tensor([m.ones(2), m.arange(3.0)]),
    lambda m: m.nested.nested_tensor([m.ones(2, 2, 1), m.zeros(1, 2, 1)]),
    lambda m: m.nested.nested_tensor([]),
    lambda m: m.nested.nested_tensor([m.tensor(1.0)]),
    lambda m: m.nested.nested_tensor([m.zeros(0, 3)]),
    lambda m: m.nested.nested_tensor([m.ones(2), m.ones(3)], dtype=m.float64, requires_grad=True),
    lambda m: m.nested.nested_tensor([m.ones(2, 3), m.ones(3, 3)]).transpose(1, 2),
]


@pytest.mark.parametrize("f", PRINTED)
def test_printing(f):
    assert str(f(tern)) == str(f(torch)).replace("torch.", "tern.")


def test_memory_is_shared_by_views():
    a, b = both(ROWS)
    for m, x in ((torch, a), (tern, b)):
        x[1].zero_()
        x.transpose(1, 2)[0].fill_(7)
        x.values()[-1] = 5
    same(a, b)
    assert b[1]._base is b


def test_copies_of_the_whole():
    x = tern.nested.nested_tensor([tern.tensor(r) for r in ROWS], requires_grad=True)
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), pickle.loads(pickle.dumps(x.detach().transpose(1, 2))).transpose(1, 2)):
        assert layout(x) == layout(y) and y.values().data_ptr() != x.values().data_ptr()
        tern.testing.assert_close(x.detach(), y.detach())
    assert copy.deepcopy(x).requires_grad
    for f in (lambda t: t.numpy(), lambda t: t.tolist(), lambda t: t.__dlpack__()):
        with pytest.raises(RuntimeError, match="the tensor is nested"):
            f(x.detach())


# ---- padding ----


def test_padding():
    for arrays in (ROWS, HEADS, SQUARES, [ROWS[0], plain(0, 0, 3)]):
        a, b = both(arrays)
        same(a.to_padded_tensor(-1.5), b.to_padded_tensor(-1.5))
        same(torch.nested.to_padded_tensor(a, 0.0), tern.nested.to_padded_tensor(b, 0.0))
    a, b = both(ROWS)
    same(a.to_padded_tensor(2, (3, 5, 4)), b.to_padded_tensor(2, (3, 5, 4)))
    same(a.int().to_padded_tensor(7), b.int().to_padded_tensor(7))
    same((a > 0).to_padded_tensor(1), (b > 0).to_padded_tensor(1))
    for f in (lambda x: x.to_padded_tensor(0, (3, 2, 3)), lambda x: x.to_padded_tensor(0, (3, 3)), lambda x: x.transpose(1, 2).to_padded_tensor(0), lambda x: x[0].to_padded_tensor(0)):
        refused_alike(a, b, f)


def test_from_padded():
    x = plain(9, 2, 4, 3)
    table = np.array([[2, 3], [4, 3]])
    same(torch._nested_from_padded(torch.tensor(x), torch.tensor(table)), tern._nested_from_padded(tern.tensor(x), tern.tensor(table)))
    a, b = both([ROWS[0], ROWS[1]])
    same(torch._nested_from_padded_and_nested_example(torch.tensor(x), a), tern._nested_from_padded_and_nested_example(tern.tensor(x), b))
    mask = np.array([[True, True, False, False], [True] * 4])
    gaps = np.array([[True, False, True, False], [True] * 4])
    for m in (mask, gaps):
        call = lambda lib, check: lib._nested_tensor_from_mask(lib.tensor(x), lib.tensor(m), check)
        same(call(torch, False), call(tern, False))
        assert torch._nested_tensor_from_mask_left_aligned(torch.tensor(x), torch.tensor(m)) == tern._nested_tensor_from_mask_left_aligned(tern.tensor(x), tern.tensor(m))
    for f in (lambda l: l._nested_tensor_from_mask(l.tensor(x), l.tensor(gaps)), lambda l: l._nested_tensor_from_mask(l.tensor(x), l.ones(2, 4)), lambda l: l._nested_tensor_from_mask(l.tensor(x), l.ones(2, 3, dtype=l.bool)),
              lambda l: l._nested_tensor_from_mask(l.ones(2, 4), l.ones(2, 4, dtype=l.bool)), lambda l: l._nested_from_padded(l.tensor(x), l.tensor([[2, 3], [5, 3]]))):
        refused_alike(torch, tern, f)


def test_view_of_a_buffer():
    buffer = np.arange(10, dtype=np.float32)
    call = lambda m, last: m._nested_view_from_buffer(m.tensor(buffer), m.tensor([[2, 2], [1, last]]), m.tensor([[1, 2], [3, 1]]), m.tensor([0, 4]))
    same(call(torch, 3), call(tern, 3))
    refusal(lambda last: call(tern, last), 30)


# ---- element by element ----

UNARY = "cos sin relu neg abs tanh sqrt sgn logical_not isnan isinf isposinf isneginf gelu silu".split()
BEYOND = "exp sigmoid rsqrt log floor square erf sign tan reciprocal trunc expm1 hardtanh hardswish elu softplus mish selu celu log_sigmoid leaky_relu".split()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for arrays in (ROWS, HEADS):
        a, b = both(arrays)
        f = getattr(torch, name, None) or getattr(F, name)
        same(f(a), getattr(tern, name)(b))


@pytest.mark.parametrize("name", BEYOND)
def test_unary_that_pytorch_has_for_plain_tensors_only(name):
    b = both(ROWS)[1]
    f = getattr(tern, name)
    for whole, part in zip(f(b).unbind(), b.unbind()):
        np.testing.assert_array_equal(whole.numpy(), f(part).numpy())


@pytest.mark.parametrize("name", "relu_ neg_ abs_ tanh_ gelu_ silu_ cos_ exp_ sigmoid_ square_ zero_".split())
def test_in_place(name):
    f = getattr(tern, name)
    x = both(ROWS)[1]
    expected = [f(p.clone()) for p in x.unbind()]
    first = x[0]
    assert f(x) is x
    for part, e in zip(x.unbind(), expected):
        np.testing.assert_array_equal(part.numpy(), e.numpy())
    np.testing.assert_array_equal(first.numpy(), expected[0].numpy())


def test_in_place_like_pytorch():
    for f in (lambda x: x.add_(1), lambda x: x.mul_(2), lambda x: x.add_(x), lambda x: x.mul_(x), lambda x: x.fill_(3), lambda x: x.copy_(x.clone()), lambda x: x.relu_(), lambda x: x.neg_(), lambda x: x.tanh_()):
        a, b = both(ROWS)
        same(f(a), f(b))
        same(a, b)
    a, b = both(ROWS)
    t = b.transpose(1, 2)
    t.mul_(2).add_(t)
    same(a * 4, b)


BINARY = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y]


@pytest.mark.parametrize("f", BINARY)
def test_binary(f):
    a, b = both(ROWS)
    c, d = both([2 * r + 1 for r in ROWS])
    same(f(a, c), f(b, d))
    same(f(a, 2), f(b, 2))
    same(f(a, 2.5), f(b, 2.5))
    same(f(a, torch.tensor(3.0)), f(b, tern.tensor(3.0)))
    same(f(a.int(), 1.5), f(b.int(), 1.5))
    same(f(a, c.double()), f(b, d.double()))
    same(f(a.transpose(1, 2), c.transpose(1, 2)), f(b.transpose(1, 2), d.transpose(1, 2)))
    same(f(a, c), f(b.transpose(1, 2), d.transpose(1, 2).contiguous()).transpose(1, 2))  # PyTorch wants equal strides
    other = both([r[:1] for r in ROWS])
    refused_alike((a, other[0]), (b, other[1]), lambda p: f(*p))
    for shape in ((3,), (3, 1, 3), (1,)):
        refused_alike((a, torch.ones(shape)), (b, tern.ones(shape)), lambda p: f(*p))
        refused_alike((torch.ones(shape), a), (tern.ones(shape), b), lambda p: f(*p))


def test_numbers_on_the_left():
    a, b = both(ROWS)
    same(2 * a, 2 * b)
    same(torch.tensor(2.0) - a, tern.tensor(2.0) - b)
    same(torch.add(a, a, alpha=2), tern.add(b, b, alpha=2))


def test_comparisons():
    a, b = both(ROWS)
    for f in (lambda x: x > 0, lambda x: x >= 0, lambda x: x == 0):
        same(f(a), f(b))
    refused_alike(a, b, lambda x: x == x)
    same(a.masked_fill(a > 0, 2.0), b.masked_fill(b > 0, 2.0))


def test_equal_and_allclose_are_not_for_nested_tensors():
    a, b = both(ROWS)
    refused_alike((torch, a), (tern, b), lambda p: p[0].equal(p[1], p[1]))
    refused_alike((torch, a), (tern, b), lambda p: p[0].allclose(p[1], p[1]))
    tern.testing.assert_close(b, b.clone())
    with pytest.raises(AssertionError):
        tern.testing.assert_close(b, b + 1)


def test_copies_and_conversions():
    a, b = both(ROWS)
    for f in (lambda x: x.clone(), lambda x: x.detach(), lambda x: x.contiguous(), lambda x: x.double(), lambda x: x.half(), lambda x: x.int(), lambda x: x.transpose(1, 2).clone(), lambda x: x.transpose(1, 2).contiguous(),
              lambda x: x.cpu(), lambda x: x.data, lambda x: x.conj()):
        same(f(a), f(b))
    for f in (lambda x: x.transpose(1, 2).clone(), lambda x: x.transpose(1, 2).contiguous(), lambda x: x.clone()):
        assert layout(f(a)) == layout(f(b))
    for name in ("zeros_like", "ones_like"):
        same(getattr(torch, name)(a), getattr(tern, name)(b))
    for name in ("empty_like", "randn_like", "rand_like"):
        assert layout(getattr(tern, name)(b)) == layout(b)
    same(a.double(), b.transpose(1, 2).double().transpose(1, 2))  # PyTorch wants it contiguous
    assert b.to(tern.float32) is b
    refused_alike(a, b, lambda x: x.copy_(x[0]))
    refusal(lambda x: x.to("meta"), b)
    assert a.is_same_size(a.clone()) == b.is_same_size(b.clone())


# ---- views ----

VIEWS = [
    lambda x: x.unbind(),
    lambda x: x[1],
    lambda x: x[-1],
    lambda x: x[1, 2],
    lambda x: x.select(1, 0),
    lambda x: x.select(2, 1),
    lambda x: x.transpose(1, 2),
    lambda x: x.mT,
    lambda x: x.unsqueeze(1),
    lambda x: x.unsqueeze(2),
    lambda x: x.unsqueeze(-1),
    lambda x: x.unsqueeze(1).squeeze(1),
    lambda x: x.squeeze(1),
    lambda x: x.view(3, -1, 3),
    lambda x: x.view(3, -1, 1, 3),
    lambda x: x.view(3, -1, 3, 1),
    lambda x: x.reshape(3, -1, 1, 3),
    lambda x: x.transpose(1, 2).view(3, 3, -1),
    lambda x: x.reshape(3, -1, 3),
    lambda x: x.reshape_as(x),
    lambda x: x.narrow(0, 1, 2),
    lambda x: x.narrow(0, 1, 1)[0],
    lambda x: x.unbind(1),
    lambda x: x.select(0, 3),
    lambda x: x.select(1, 1),
    lambda x: x.select(2, 7),
    lambda x: x.transpose(0, 1),
    lambda x: x.unsqueeze(0),
    lambda x: x.squeeze(0),
    lambda x: x.squeeze(),
    lambda x: x.view(-1),
    lambda x: x.view(3, -1),
    lambda x: x.view(3, 6),
    lambda x: x.view(2, -1, 3),
    lambda x: x.view(3, -1, -1, 3),
    lambda x: x.view(3, 1, -1, 3),
    lambda x: x.reshape(-1, 3),
    lambda x: x.permute(0, 2, 1),
    lambda x: x[0:1],
    lambda x: x.expand(3, -1, 3),
    lambda x: x.narrow(1, 0, 1),
    lambda x: x.chunk(2, -1),
    lambda x: x.chunk(3, 1),
    lambda x: x.split_with_sizes([1, 1], -1),
]


@pytest.mark.parametrize("f", VIEWS)
def test_views(f):
    a, b = both(ROWS)
    try:
        expected = f(a)
    except Exception:
        return refused_alike(a, b, f)
    same(expected, f(b))
    if isinstance(expected, torch.Tensor) and expected.is_nested:
        assert layout(expected) == layout(f(b))


def test_pieces_of_the_last_dimension():
    # PyTorch's pieces of nested tensors read one buffer; compared with those of the tensors.
    b = both(ROWS)[1]
    for pieces in (b.chunk(3, -1), b.split_with_sizes([1, 1, 1], -1)):
        for k, piece in enumerate(pieces):
            for part, row in zip(piece.unbind(), ROWS):
                np.testing.assert_array_equal(part.numpy(), row[:, k : k + 1])


def test_heads():
    a, b = both(HEADS)
    f = lambda x: x.transpose(1, 2).reshape(2, -1, 8)
    same(f(a), f(b))
    refused_alike(a, b, lambda x: x.transpose(1, 2).view(2, -1, 8))
    same(both([ROWS[0]] * 2)[0].view(2, 6), both([ROWS[0]] * 2)[1].view(2, 6))


# ---- computing ----


def test_linear():
    a, b = both(ROWS)
    w, c = plain(10, 5, 3), plain(11, 5)
    same(F.linear(a, torch.tensor(w)), tern.linear(b, tern.tensor(w)))
    same(F.linear(a, torch.tensor(w), torch.tensor(c)), tern.linear(b, tern.tensor(w), tern.tensor(c)))
    refused_alike(a, b, lambda x: F.linear(x, torch.ones(5, 4)), lambda x: tern.linear(x, tern.ones(5, 4)))
    refused_alike(a, b, lambda x: F.linear(x.transpose(1, 2), torch.ones(5, 4)), lambda x: tern.linear(x.transpose(1, 2), tern.ones(5, 4)))
    refused_alike(a, b, lambda x: F.linear(x.unsqueeze(1), torch.ones(5, 3)), lambda x: tern.linear(x.unsqueeze(1), tern.ones(5, 3)))


def test_products():
    a, b = both(ROWS)
    h, k = both(HEADS)
    dense = plain(12, 3, 3, 2)
    same(a @ a.transpose(1, 2), b @ b.transpose(1, 2))
    same(torch.bmm(a, a.transpose(1, 2)), tern.bmm(b, b.transpose(1, 2)))
    same(torch.bmm(a, torch.tensor(dense)), tern.bmm(b, tern.tensor(dense)))
    same(h @ h.transpose(-1, -2), k @ k.transpose(-1, -2))
    cases = [
        lambda m, x, y: m.matmul(x, x), lambda m, x, y: m.matmul(x, m.ones(3, 2)), lambda m, x, y: m.matmul(m.ones(3, 2, 2), x), lambda m, x, y: m.bmm(x, x), lambda m, x, y: m.bmm(x, m.ones(2, 3, 2)),
        lambda m, x, y: m.bmm(x, m.ones(3, 4, 2)), lambda m, x, y: m.bmm(y, y), lambda m, x, y: m.matmul(x, y), lambda m, x, y: m.mm(x, m.ones(3, 2)), lambda m, x, y: m.matmul(x.select(1, 0), x.select(1, 0)),
    ]
    for f in cases:
        refused_alike((torch, a, h), (tern, b, k), lambda p: f(*p))


def test_softmax_and_sums():
    for arrays in (ROWS, HEADS, SQUARES):
        a, b = both(arrays)
        for d in (1, 2, -1):
            same(a.softmax(d), b.softmax(d))
        same(a.softmax(-1, dtype=torch.float64), b.softmax(-1, dtype=tern.float64))
        same(a.sum(-1, keepdim=True), b.sum(-1, keepdim=True))
        same(a.int().sum(-1, keepdim=True), b.int().sum(-1, keepdim=True))
    a, b = both(ROWS)
    for f in (lambda x: x.softmax(0), lambda x: x.softmax(5), lambda x: x.sum(-1), lambda x: x.sum(1, keepdim=True), lambda x: x.sum(0, keepdim=True), lambda x: x.sum((1, 2), keepdim=True), lambda x: x.sum(), lambda x: x.mean(-1), lambda x: x.max(), lambda x: x.item()):
        refused_alike(a, b, f)


def test_layer_norm():
    a, b = both(ROWS)
    w, c = plain(13, 3), plain(14, 3)
    same(F.layer_norm(a, [3], torch.tensor(w), torch.tensor(c)), tern.layer_norm(b, [3], tern.tensor(w), tern.tensor(c)))
    for shape in ([3], [4], [4, 3]):
        weights = (lambda m, n: (m.ones(*shape), m.ones(*shape)) if n else (None, None))
        for n in (0, 1):
            if shape == [3] and n:
                continue
            refused_alike(a, b, lambda x: F.layer_norm(x, shape, *weights(torch, n)), lambda x: tern.layer_norm(x, shape, *weights(tern, n)))


def test_dropout():
    b = both(ROWS)[1]
    same(both(ROWS)[0], tern.dropout(b, 0.5, False))
    dropped = tern.dropout(tern.ones_like(b), 0.5, True)
    assert set(np.concatenate([p.numpy().ravel() for p in dropped.unbind()])) <= {0.0, 2.0}
    assert layout(dropped) == layout(b)


def test_embedding_cat_and_attention():
    table = plain(15, 10, 4)
    words = [np.array([1, 2]), np.array([3]), np.array([4, 5, 6])]
    a, b = both(words)
    same(F.embedding(a, torch.tensor(table)), tern.embedding(tern.tensor(table), b))
    a, b = both(ROWS)
    same(torch.cat([a, a]), tern.cat([b, b]))
    h, k = both(HEADS)
    same(F.scaled_dot_product_attention(h, h, h), tern.scaled_dot_product_attention(k, k, k), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["cumsum", "argmax", "sort", "flip", "permute", "t", "topk", "any", "prod"])
def test_others_are_refused_by_name(name):
    b = both(ROWS)[1]
    args = {"cumsum": (1,), "sort": (), "flip": ([1],), "permute": ([0, 2, 1],), "topk": (1,)}.get(name, ())
    with pytest.raises(NotImplementedError, match=f"aten::{name}"):
        getattr(tern, name)(b, *args)


# ---- gradients ----

WAYS = [
    lambda m, x: x.cos().to_padded_tensor(0.0),
    lambda m, x: (x * x + 2 * x).to_padded_tensor(0.0),
    lambda m, x: m.cat([p.sum().reshape(1) * (i + 1) for i, p in enumerate(x.unbind())]),
    lambda m, x: x[1] * 3,
    lambda m, x: (x / 2 - x).relu().to_padded_tensor(1.0),
    lambda m, x: x.softmax(-1).to_padded_tensor(0.0),
    lambda m, x: x.sum(-1, keepdim=True).to_padded_tensor(0.0),
    lambda m, x: (x @ x.transpose(1, 2)).to_padded_tensor(0.0),
    lambda m, x: x.tanh().transpose(1, 2).contiguous().to_padded_tensor(0.0),
    lambda m, x: x.double().to_padded_tensor(0.0),
    lambda m, x: x.clone().to_padded_tensor(0.0),
    lambda m, x: x.detach().to_padded_tensor(0.0) + x.to_padded_tensor(0.0),
    lambda m, x: m.add(x, x, alpha=3).to_padded_tensor(0.0),
    lambda m, x: x.select(2, 1).contiguous().to_padded_tensor(0.0),
    lambda m, x: (x * m.tensor(3.0)).to_padded_tensor(0.0),
    lambda m, x: x.reshape(3, -1, 1, 3).to_padded_tensor(0.0),
]


def gradients(m, f):
    x, parts = make(m, ROWS, requires_grad=True)
    out = f(m, x)
    weight = np.arange(out.numel(), dtype=np.float32).reshape(tuple(out.shape)) / 7
    (out * m.tensor(weight)).sum().backward()
    return [p.grad for p in parts]


@pytest.mark.parametrize("f", WAYS)
def test_gradients(f):
    try:
        expected = gradients(torch, f)
    except (RuntimeError, NotImplementedError):
        expected = None  # PyTorch has no backward: against the tensors one by one
    got = gradients(tern, f)
    assert all(g is not None for g in got)
    if expected is not None:
        for e, g in zip(expected, got):
            same(e if e is not None else torch.zeros(tuple(g.shape)), g, rtol=1e-4, atol=1e-5)


def test_gradient_of_a_nested_leaf():
    def run(m):
        x = m.nested.nested_tensor([m.tensor(r) for r in ROWS], requires_grad=True)
        (x.cos() * x).to_padded_tensor(0.0).sum().backward()
        return x.grad

    same(run(torch), run(tern))


def test_gradient_given_as_a_nested_tensor():
    def run(m):
        x = m.nested.nested_tensor([m.tensor(r) for r in ROWS], requires_grad=True)
        g = m.nested.nested_tensor([2 * m.tensor(r) for r in ROWS])
        x.sin().backward(g)
        return x, g

    same(run(torch)[0].grad, run(tern)[0].grad)
    x, g = run(tern)
    once = [p.numpy().copy() for p in x.grad.unbind()]
    x.sin().backward(g)  # adds up, which PyTorch's does not
    for p, o in zip(x.grad.unbind(), once):
        np.testing.assert_allclose(p.numpy(), 2 * o, rtol=1e-6)
    x = tern.nested.nested_tensor([tern.tensor(r) for r in ROWS], requires_grad=True)
    refusal(lambda g: x.sin().backward(g), tern.nested.nested_tensor([tern.tensor(r[:1]) for r in ROWS]))


def test_the_fast_path_of_an_encoder():
    width, inner = 4, 6
    shapes = [(3 * width, width), (3 * width,), (width, width), (width,)]
    more = [(width,)] * 4 + [(inner, width), (inner,), (width, inner), (width,)]
    weights = [plain(20 + i, *shape) for i, shape in enumerate(shapes + more)]
    rows = [plain(11, 2, width), plain(12, 3, width)]

    def run(library, function):
        with library.no_grad():
            x = make(library, rows)[0]
            return function(library, x, [library.tensor(w) for w in weights])

    def attention(library, x, w, **options):
        return library._native_multi_head_attention(x, x, x, width, 2, *w[:4], **options)

    def layer(library, x, w, gelu=True, first=False, **options):
        return library._transformer_encoder_layer_fwd(x, width, 2, *w[:4], gelu, first, 1e-5, *w[4:], **options)

    for function in (attention, lambda *a: attention(*a, average_attn_weights=False), lambda *a: attention(*a, need_weights=False)[0],
                     layer, lambda *a: layer(*a, False, True)):
        same(run(torch, function), run(tern, function), rtol=1e-4, atol=1e-5)
    for masked in (lambda library, x, w: layer(library, x, w, mask=library.zeros(2, 3, dtype=library.bool), mask_type=1),
                   lambda library, x, w: attention(library, x, w, mask=library.zeros(2, 3, dtype=library.bool), mask_type=1)):
        for library in (torch, tern):
            with pytest.raises(RuntimeError, match="NestedTensor with mask is not supported yet"):
                run(library, masked)


def test_a_padded_batch_through_a_scripted_encoder(tmp_path):
    """Without gradients PyTorch's encoder drops the padding: it becomes a nested tensor, and zeros at the end."""
    torch.manual_seed(0)
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(4, 2, 6, batch_first=True), 2).eval()
    script = torch.jit.script(encoder)
    script.save(tmp_path / "encoder.pt")
    loaded = tern.load(str(tmp_path / "encoder.pt"))
    x, padding = plain(13, 2, 3, 4), np.array([[False, False, True], [False, False, False]])
    with torch.no_grad(), tern.no_grad():
        same(script(torch.tensor(x), None, torch.tensor(padding)), loaded(tern.tensor(x), None, tern.tensor(padding)), rtol=1e-4, atol=1e-5)
    same(script(torch.tensor(x), None, torch.tensor(padding)), loaded(tern.tensor(x), None, tern.tensor(padding)), rtol=1e-4, atol=1e-5)


def test_linear_and_layer_norm_gradients():
    def run(m, linear, norm):
        x, parts = make(m, ROWS, requires_grad=True)
        w, c, s, t = (m.tensor(plain(k, *shape), requires_grad=True) for k, shape in ((20, (3, 3)), (21, (3,)), (22, (3,)), (23, (3,))))
        out = norm(linear(x, w, c), [3], s, t).to_padded_tensor(0.0)
        (out * m.tensor(plain(24, *tuple(out.shape)))).sum().backward()
        return [p.grad for p in parts] + [w.grad, c.grad, s.grad, t.grad]

    same(run(torch, F.linear, F.layer_norm), run(tern, tern.linear, tern.layer_norm), rtol=1e-3, atol=1e-4)


def test_in_place_gradients():
    def run(m, in_place):
        x, parts = make(m, ROWS, requires_grad=True)
        y = x * 2
        y = y.sin_() if in_place else y.sin()
        y = y.relu_() if in_place else y.relu()
        y = y + 0
        y = y.mul_(3) if in_place else y * 3
        y.to_padded_tensor(0.0).sum().backward()
        return [p.grad.numpy() for p in parts]

    for a, b in zip(run(tern, True), run(tern, False)):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    x, _ = make(tern, ROWS, requires_grad=True)
    y = x * 2
    part = y[0]
    for view in (y[1], y.transpose(1, 2)):
        with pytest.raises(NotImplementedError, match="a view of a nested tensor cannot be changed in place"):
            view.mul_(2)
    y.mul_(2)
    with pytest.raises(NotImplementedError, match="after the nested tensor was changed in place"):
        part.sum().backward()
    leaf = tern.nested.nested_tensor([tern.ones(2)], requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.neg_()


def test_second_derivatives():
    x, parts = make(tern, ROWS, requires_grad=True)
    y = (x.sin() * x).to_padded_tensor(0.0).sum()
    first = tern.autograd.grad(y, parts, create_graph=True)
    second = tern.autograd.grad(sum(g.sum() for g in first), parts)
    for g, r in zip(second, ROWS):
        np.testing.assert_allclose(g.numpy(), 2 * np.cos(r) - r * np.sin(r), rtol=1e-4, atol=1e-5)


def test_anomaly_mode():
    with tern.autograd.detect_anomaly():
        x, parts = make(tern, [r - 10 for r in ROWS], requires_grad=True)
        with pytest.raises(RuntimeError, match="returned nan values"):
            (x.sqrt() * 0).to_padded_tensor(0.0).sum().backward()
