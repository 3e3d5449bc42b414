"""Poisson, binomial, gamma and Dirichlet numbers are PyTorch's for the same seed, bit for bit, and so are their gradients."""

import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402


def ours(t):
    return tern.from_dlpack(t.detach().clone())


def theirs(t):
    return torch.from_dlpack(t.contiguous())


def drawn(name, *parameters, seed=5):
    torch.manual_seed(seed)
    tern.manual_seed(seed)
    want = getattr(torch, name)(*parameters)
    got = theirs(getattr(tern, name)(*map(ours, parameters)))
    assert torch.rand(1).item() == tern.rand(1).item(), "the generators stand at different places"
    assert got.dtype == want.dtype and got.shape == want.shape
    return want, got


def spread(dtype, *ends):
    g = torch.Generator().manual_seed(1)
    return torch.cat([torch.rand(700, generator=g, dtype=torch.float64) * end for end in ends]).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_poisson(dtype):
    want, got = drawn("poisson", spread(dtype, 1.0, 9.0, 30.0, 500.0))
    assert torch.equal(want, got)
    want, got = drawn("poisson", spread(dtype, 20.0).view(7, 100).t())
    assert torch.equal(want, got)
    want, got = drawn("poisson", torch.tensor([0.0, 10.0, 1e-30]).to(dtype))
    assert torch.equal(want, got)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_binomial(dtype):
    count = spread(dtype, 12.0, 300.0, 1e5).round()
    want, got = drawn("binomial", count, spread(dtype, 1.0, 1.0, 1.0))
    assert torch.equal(want, got)
    want, got = drawn("binomial", torch.tensor([[-1.0], [5.0], [0.0], [40.0]]).to(dtype), torch.tensor([-0.5, 0.0, 0.5, 1.0, 1.5, float("nan")]).to(dtype))
    assert torch.equal(want.nan_to_num(-7), got.nan_to_num(-7))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gamma_and_its_gradient(dtype):
    alpha = spread(dtype, 1.0, 10.0, 1000.0)
    want, got = drawn("_standard_gamma", alpha)
    assert torch.equal(want, got)
    want, got = drawn("_standard_gamma", torch.zeros((), dtype=dtype))
    assert torch.equal(want, got)
    x = torch._standard_gamma(alpha)
    for factor in (0.5, 0.95, 1.0, 1.2, 3.0):
        moved = alpha * factor
        torch.testing.assert_close(theirs(tern._standard_gamma_grad(ours(moved), ours(x))), torch._standard_gamma_grad(moved, x), rtol=1e-12 if dtype == torch.float64 else 2e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dirichlet_and_its_gradient(dtype):
    want, got = drawn("_sample_dirichlet", spread(dtype, 2.0, 20.0).view(200, 7))
    torch.testing.assert_close(got, want, rtol=1e-15, atol=0)
    alpha, beta = spread(dtype, 2.0, 40.0, 40.0), spread(dtype, 30.0, 2.0, 40.0).flip(0)
    total = alpha + beta
    mean = alpha / total
    for x in (spread(dtype, 1.0, 1.0, 1.0), mean, mean * 0.9, 1 - (1 - mean) * 0.5):
        want = torch._dirichlet_grad(x, alpha, total)
        torch.testing.assert_close(theirs(tern._dirichlet_grad(ours(x), ours(alpha), ours(total))), want, rtol=1e-9 if dtype == torch.float64 else 2e-7, atol=0)


def test_what_flows_back():
    alpha = torch.tensor([0.3, 1.0, 2.5, 20.0], requires_grad=True)
    mine = ours(alpha).requires_grad_()
    torch.manual_seed(3)
    tern.manual_seed(3)
    torch._standard_gamma(alpha).sum().backward()
    tern._standard_gamma(mine).sum().backward()
    assert torch.equal(theirs(mine.grad), alpha.grad)
    rate = tern.ones(3).requires_grad_()
    tern.poisson(rate).sum().backward()
    assert rate.grad.tolist() == [0, 0, 0]
    for draw in (lambda t: tern._sample_dirichlet(t), lambda t: tern.binomial(t, t)):
        with pytest.raises((RuntimeError, NotImplementedError), match="not implemented"):
            draw(tern.ones(3).requires_grad_()).sum().backward()


def test_own_generators_and_empty_ones():
    g = tern.Generator().manual_seed(7)
    first = tern.poisson(tern.full((5,), 30.0), generator=g).tolist()
    assert tern.poisson(tern.full((5,), 30.0), generator=g.manual_seed(7)).tolist() == first
    for name in ("poisson", "_standard_gamma", "_sample_dirichlet"):
        assert getattr(tern, name)(tern.empty(0, 3)).shape == (0, 3)
        assert getattr(tern, name)(tern.empty(2, 3, device="meta")).shape == (2, 3)
    assert tern.binomial(tern.empty(2, 1, device="meta"), tern.empty(3, device="meta")).shape == (2, 3)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.poisson(m.tensor([-1.0])),
        lambda m: m.poisson(m.tensor([1, 2])),
        lambda m: m.binomial(m.tensor([5, 2]), m.tensor([0.5, 0.2])),
        lambda m: m.binomial(m.tensor([5.0]), m.tensor([0.5], dtype=m.float64)),
        lambda m: m.binomial(m.ones(2, dtype=m.float16), m.ones(2, dtype=m.float16)),
        lambda m: m._standard_gamma(m.ones(2, dtype=m.bfloat16)),
        lambda m: m._standard_gamma_grad(m.ones(3), m.ones(2)),
        lambda m: m._sample_dirichlet(m.tensor([1, 2])),
        lambda m: m._dirichlet_grad(m.ones(3), m.ones(3), m.ones(3, dtype=m.float64)),
    ],
)
def test_refused_as_pytorch_refuses(call):
    with pytest.raises(Exception) as want:
        call(torch)
    with pytest.raises(type(want.value)) as got:
        call(tern)
    assert str(want.value) in str(got.value)
