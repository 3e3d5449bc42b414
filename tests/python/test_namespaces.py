"""tern.linalg, tern.fft and tern.special: every public function of PyTorch's modules, and what some operators refuse."""

import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402
import tern.fft  # noqa: E402,F401
import tern.linalg as linalg  # noqa: E402


@pytest.mark.parametrize("module", ["linalg", "fft", "special"])
def test_every_function_of_pytorchs_module_is_there(module):
    theirs = getattr(torch, module)
    names = [n for n in dir(theirs) if not n.startswith("_") and callable(getattr(theirs, n)) and n not in ("Tensor",)]
    assert len(names) > 20
    assert [n for n in names if not hasattr(getattr(tern, module), n)] == []
    assert set(names) <= set(dir(getattr(tern, module)))
    with pytest.raises(AttributeError, match=f"aten::{module}_nothing"):
        getattr(tern, module).nothing


def test_they_are_the_operators():
    x = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
    t = tern.from_dlpack(x)
    for name in ("inv", "det", "norm", "cholesky", "eigvalsh", "svdvals", "matrix_rank", "pinv", "vector_norm"):
        torch.testing.assert_close(torch.from_dlpack(getattr(linalg, name)(t)), getattr(torch.linalg, name)(x))
    torch.testing.assert_close(torch.from_dlpack(linalg.norm(t, "nuc")), torch.linalg.norm(x, "nuc"))
    torch.testing.assert_close(torch.from_dlpack(tern.fft.rfft(t, norm="ortho")), torch.fft.rfft(x, norm="ortho"))
    torch.testing.assert_close(torch.from_dlpack(tern.special.erfinv(t / 9)), torch.special.erfinv(x / 9))
    with pytest.raises(linalg.LinAlgError, match="singular"):
        linalg.inv(tern.zeros(2, 2))


@pytest.mark.parametrize(
    "name, size, dtype",
    [("linalg_vander", 3, "float16"), ("linalg_vander", 3, "bfloat16"), ("linalg_vander", 3, "bool"), ("special_round", 3, "int64"),
     ("rrelu_with_noise", 3, "float16"), ("rrelu_with_noise_functional", 3, "bfloat16"), ("trapezoid", 3, "bool"), ("trapezoid", (), "bool"), ("trapz", 3, "bool")],
)  # fmt: skip
@pytest.mark.parametrize("training", [False, True])
def test_types_that_some_take_and_some_refuse(name, size, dtype, training):
    def outcome(package):
        x = package.ones(size, dtype=getattr(package, dtype))
        args = (x, package.ones(size, dtype=x.dtype), 0.1, 0.2, training) if name.startswith("rrelu") else (x, x) if name.startswith("trap") else (x,)
        package.manual_seed(0)
        try:
            return torch.utils._pytree.tree_map(lambda t: t.tolist(), getattr(package.ops.aten, name)(*args))
        except Exception as error:
            return type(error).__name__

    assert outcome(tern) == outcome(torch)


@pytest.mark.parametrize("name", ["trapezoid", "trapz"])
@pytest.mark.parametrize("size", [(), (0,), (2, 0)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_trapezoids_of_nothing(name, size, dtype):
    def outcome(package, with_x):
        y = package.ones(size, dtype=getattr(package, dtype))
        try:
            got = getattr(package, name)(y, *([package.ones(size)] if with_x else []))
            return got.tolist(), str(got.dtype).split(".")[1]
        except Exception as error:
            return type(error).__name__

    assert [outcome(tern, x) for x in (False, True)] == [outcome(torch, x) for x in (False, True)]
