"""Random numbers are PyTorch's for the same seed: bit for bit, and the generator stands where PyTorch's stands afterwards.

On processors of Intel PyTorch draws bernoulli_(p) and exponential_ from MKL's own stream; everywhere else from its generator, as Tern
does. Contiguous normal numbers from sixteen on are computed with other approximations of log, sin and cos: those agree to 2e-6.
"""

import pathlib

import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402

SIZES = [*range(1, 101), 1000, 4097, 100_000]
FLOATS = "float32 float64 float16 bfloat16".split()
INTEGERS = "int64 int32 int16 int8 uint8".split()
INTEL = "GenuineIntel" in (pathlib.Path("/proc/cpuinfo").read_text() if pathlib.Path("/proc/cpuinfo").exists() else "")
from_mkl = pytest.mark.skipif(INTEL, reason="PyTorch draws these from MKL on this processor")


def of(module, dtype):
    return getattr(module, dtype)


def check(draw, dtype, tolerance=0.0, sizes=SIZES):
    for n in sizes:
        torch.manual_seed(n)
        tern.manual_seed(n)
        want, got = draw(torch, n, of(torch, dtype)), torch.from_dlpack(draw(tern, n, of(tern, dtype)).contiguous())
        if tolerance:
            gap = (got.double() - want.double()).abs().max().item()
            assert gap <= tolerance * max(1.0, want.double().abs().max().item()), f"{n} numbers of {dtype}: {gap}"
        else:
            assert torch.equal(got, want), f"{n} numbers of {dtype}: {int((got != want).sum())} differ"
        assert torch.rand(1).item() == tern.rand(1).item(), f"{n} numbers of {dtype}: the generators stand at different places"


LAYOUTS = {
    "contiguous": lambda m, n, d: m.zeros(n, dtype=d),
    "gaps": lambda m, n, d: m.zeros(2 * n, dtype=d)[::2],
    "transposed": lambda m, n, d: m.zeros(3, n, dtype=d).t(),
}
IN_PLACE = {
    "uniform_": (lambda t: t.uniform_(-2.5, 3.7), FLOATS),
    "geometric_": (lambda t: t.geometric_(0.3), FLOATS + INTEGERS),
    "cauchy_": (lambda t: t.cauchy_(1.0, 2.0), FLOATS),
    "log_normal_": (lambda t: t.log_normal_(0.5, 0.7), FLOATS),
    "random_": (lambda t: t.random_(), FLOATS + INTEGERS + ["bool"]),
    "random_.to": (lambda t: t.random_(100), FLOATS + INTEGERS),
    "random_.from": (lambda t: t.random_(-5, 1 << 40), ["float32", "float64", "int64"]),
    "bernoulli_": (lambda t: t.bernoulli_(0.3), FLOATS + INTEGERS + ["bool"]),
    "exponential_": (lambda t: t.exponential_(2.5), FLOATS),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", [pytest.param(n, marks=[from_mkl] if n in ("bernoulli_", "exponential_") else []) for n in IN_PLACE])
def test_in_place(name, layout):
    fill, dtypes = IN_PLACE[name]
    for dtype in dtypes:
        check(lambda m, n, d: fill(LAYOUTS[layout](m, n, d)), dtype)


FUNCTIONS = {
    "rand": (lambda m, n, d: m.rand(n, dtype=d), FLOATS + ["complex64", "complex128"]),
    "rand_like": (lambda m, n, d: m.rand_like(m.zeros(3, n, dtype=d).t()), FLOATS),
    "randint": (lambda m, n, d: m.randint(3, 1000, (n,), dtype=d), FLOATS[:2] + INTEGERS[:3]),
    "randint_large": (lambda m, n, d: m.randint(-5, 1 << 40, (n,), dtype=d), ["int64"]),
    "randperm": (lambda m, n, d: m.randperm(n, dtype=d), ["int64", "int32", "float64"]),
    "bernoulli": (lambda m, n, d: m.bernoulli(m.rand(n, dtype=d)), FLOATS),
    "bernoulli_.Tensor": (lambda m, n, d: m.zeros(n, dtype=d).bernoulli_(m.rand(n, dtype=d)), FLOATS),
    "multinomial.replacement": (lambda m, n, d: m.multinomial(m.rand(n, dtype=d) + 0.01, 7, replacement=True), FLOATS[:2]),
}
FROM_MKL = {
    "dropout": (lambda m, n, d: m.dropout(m.rand(n, dtype=d) + 1, 0.3, True), FLOATS),
    "feature_dropout": (lambda m, n, d: m.feature_dropout(m.rand(n, 3, 2, dtype=d), 0.4, True), FLOATS),
    "alpha_dropout": (lambda m, n, d: m.alpha_dropout(m.rand(n, dtype=d), 0.4, True), FLOATS[:2]),
    "bernoulli.p": (lambda m, n, d: m.bernoulli(m.rand(n, dtype=d), 0.4), FLOATS),
    "multinomial": (lambda m, n, d: m.multinomial(m.rand(n, dtype=d) + 0.01, max(1, n // 2)), FLOATS[:2]),
}


@pytest.mark.parametrize("name", [*FUNCTIONS, *(pytest.param(n, marks=from_mkl) for n in FROM_MKL)])
def test_functions(name):
    draw, dtypes = {**FUNCTIONS, **FROM_MKL}[name]
    for dtype in dtypes:
        check(draw, dtype)


NORMAL = {
    "randn": lambda m, n, d: m.randn(n, dtype=d),
    "normal_": lambda m, n, d: m.zeros(n, dtype=d).normal_(3.0, 0.7),
    "normal_.gaps": lambda m, n, d: m.zeros(2 * n, dtype=d)[::2].normal_(3.0, 0.7),
    "randn_like": lambda m, n, d: m.randn_like(m.zeros(3, n, dtype=d).t()),
    "normal": lambda m, n, d: m.normal(m.rand(n, dtype=d), m.rand(n, dtype=d)),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", NORMAL)
def test_normal_numbers(name, dtype):
    check(NORMAL[name], dtype, {"float32": 2e-6, "float64": 0.0 if name != "normal" else 1e-15, "float16": 1e-3, "bfloat16": 8e-3}[dtype])


def test_few_normal_numbers_agree_bit_for_bit():
    for dtype in FLOATS:
        check(NORMAL["normal_"], dtype, sizes=range(1, 16))


def test_complex_normal_numbers():
    for dtype in ("complex64", "complex128"):
        for n in (1, 7, 8, 50):
            torch.manual_seed(n), tern.manual_seed(n)
            want, got = torch.randn(n, dtype=of(torch, dtype)), torch.from_dlpack(tern.randn(n, dtype=of(tern, dtype)))
            assert torch.allclose(got, want, rtol=2e-6, atol=2e-6)


def test_a_generator_of_its_own_and_its_state():
    a, b = torch.Generator().manual_seed(9), tern.Generator().manual_seed(9)
    for n in (3, 700):
        assert torch.equal(torch.from_dlpack(tern.rand(n, generator=b)), torch.rand(n, generator=a))
    assert torch.equal(torch.from_dlpack(b.get_state()), a.get_state())
