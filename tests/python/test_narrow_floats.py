"""Where PyTorch rounds a step of a formula to half or bfloat16 although it computes in float: the same bits."""

import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402

NARROW = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["half", "bfloat16"])


def ours(x):
    return tern.from_dlpack(x)


def same(got, want):
    torch.testing.assert_close(torch.from_dlpack(got), want, rtol=0, atol=0, equal_nan=True)


@pytest.fixture
def numbers():
    torch.manual_seed(0)
    return torch.randn(4096), torch.randn(4096)  # whole vectors: the last few of PyTorch's are rounded once more


@NARROW
@pytest.mark.parametrize("alpha", [0.1, 2.5, -3, 1e-3])
def test_alpha_is_of_the_tensors_type(numbers, dtype, alpha):
    a, b = (x.to(dtype) for x in numbers)
    for name in ("add", "sub", "rsub"):
        same(getattr(tern, name)(ours(a), ours(b), alpha=alpha), getattr(torch, name)(a, b, alpha=alpha))
        same(getattr(tern, name)(ours(a), 0.3, alpha=alpha), getattr(torch, name)(a, 0.3, alpha=alpha))
    same(ours(a.clone()).add_(ours(b), alpha=alpha), a.clone().add_(b, alpha=alpha))


@NARROW
def test_borders_are_of_the_tensors_type(numbers, dtype):
    x, g = (t.to(dtype) for t in numbers)
    edges = torch.tensor([0.1, 0.3, 0.7, -0.1, -0.3, -0.7]).to(dtype)
    for border in (0.1, 0.3, 0.7):
        for t in (x, edges):
            same(tern.hardshrink(ours(t), border), torch.nn.functional.hardshrink(t, border))
        for name in ("hardshrink_backward", "softshrink_backward"):
            same(getattr(tern.ops.aten, name)(ours(g[:6]), ours(edges), border), getattr(torch.ops.aten, name)(g[:6], edges, border))


@NARROW
def test_logarithms_are_rounded_before_they_are_multiplied(numbers, dtype):
    x, y, p, g = numbers[0].to(dtype), numbers[1].abs().to(dtype), torch.rand(4096).to(dtype), numbers[1].to(dtype)
    same(tern.xlogy(ours(x), ours(y)), torch.xlogy(x, y))
    same(tern.xlogy(ours(x), 0.3), torch.xlogy(x, 0.3))
    same(tern.xlogy(0.3, ours(y)), torch.xlogy(0.3, y))
    same(tern.special_xlog1py(ours(x), ours(y)), torch.special.xlog1py(x, y))
    same(tern.special_entr(ours(p)), torch.special.entr(p))
    for eps in (None, 0.1, 0.3):
        same(tern.logit(ours(p), eps), torch.logit(p, eps))
    same(tern.ops.aten.logit_backward(ours(g), ours(p)), torch.ops.aten.logit_backward(g, p))


@NARROW
@pytest.mark.parametrize("start, end, steps", [(0, 1, 37), (0.3, 7.7, 100), (-3.1, 5, 33), (0, 1, 5000), (1, 0, 64), (2, 3, 1), (2, 3, 0), (5, 5, 4)])
def test_steps_of_linspace(dtype, start, end, steps):
    same(tern.linspace(start, end, steps, dtype=getattr(tern, str(dtype)[6:])), torch.linspace(start, end, steps, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_places_that_are_no_numbers_or_far_out(dtype, mode, padding, align):
    """What comes of them is PyTorch's, NaN included; in volumes NaN is the last element, in images the first."""
    places = [float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 0.5, 3e9, -0.7]
    which = ["bilinear", "nearest", "bicubic"].index(mode), ["zeros", "border", "reflection"].index(padding), align
    grid, image = torch.cartesian_prod(*[torch.tensor(places, dtype=dtype)] * 2).view(1, 8, 8, 2), torch.arange(1, 41.0, dtype=dtype).view(1, 2, 4, 5)
    got = torch.from_dlpack(tern.grid_sampler(ours(image), ours(grid), *which))
    torch.testing.assert_close(got, torch.grid_sampler(image, grid, *which), equal_nan=True)
    if mode == "bicubic":
        return
    places = places[:3] + places[5:6]
    grid, volume = torch.cartesian_prod(*[torch.tensor(places, dtype=dtype)] * 3).view(1, 4, 4, 4, 3), torch.arange(1, 121.0, dtype=dtype).view(1, 2, 3, 4, 5)
    got = torch.from_dlpack(tern.grid_sampler(ours(volume), ours(grid), *which))
    torch.testing.assert_close(got, torch.grid_sampler(volume, grid, *which), equal_nan=True)


def test_what_is_refused_is_refused_by_the_same_exception():
    rows, indices = torch.arange(6.0).view(2, 3), torch.tensor([[0, 5, 1]])
    flags, waves = torch.tensor([True]), torch.ones(3, dtype=torch.complex64)
    for name, args in {
        "gather": (rows, 1, indices), "scatter": (rows, 1, -indices, rows), "scatter_add": (rows, 1, indices, rows),
        "scatter_reduce": (rows, 1, indices, rows, "amax"), "unbind": (torch.tensor(1.0),), "unbind_copy": (torch.tensor(1.0),),
        "amax": (torch.ones(0),), "amin": (torch.ones(0, 3), ()), "neg": (flags,), "relu": (flags,), "argmax": (flags,),
        "topk": (flags, 1), "sort": (waves,), "argsort": (waves,), "nansum": (waves,), "embedding": (rows, torch.tensor([7])),
        "index_copy": (rows, 1, torch.tensor([7]), torch.ones(2, 1)),
    }.items():  # fmt: skip
        with pytest.raises(Exception) as refused:
            getattr(torch, name)(*args)
        with pytest.raises(Exception) as got:
            getattr(tern, name)(*[ours(a) if isinstance(a, torch.Tensor) else a for a in args])
        assert got.type is refused.type, name
    with pytest.raises(RuntimeError, match="found idx to be 7"):
        tern.embedding_bag(ours(rows), tern.tensor([7]), tern.tensor([0]))
