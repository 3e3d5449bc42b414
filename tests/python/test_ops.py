"""Calling operators: overloads, keywords, defaults, out=, varargs, and what a wrong call says."""

import numpy as np
import pytest

import tern


def test_three_spellings():
    x, y = tern.tensor([1.0, 2.0]), tern.tensor([3.0, 4.0])
    assert tern.ops.aten.add.Tensor(x, y, alpha=2).tolist() == [7, 10]
    assert tern.add(x, y, alpha=2).tolist() == x.add(y, alpha=2).tolist() == [7, 10]
    assert tern.add(input=x, other=y).tolist() == [4, 6]
    assert repr(tern.ops.aten.add.Tensor) == "<OpOverload(op='aten.add.Tensor')>"
    assert "Tensor" in tern.ops.aten.add.overloads()
    assert tern.ops.aten.relu.default is tern.ops.aten.relu.default
    assert tern.ops.aten.add.Tensor._schema.startswith("aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1)")


def test_numbers_choose_the_overload_as_in_pytorch():
    x = tern.tensor([1, 2])
    assert tern.add(x, 2).dtype is tern.int64 and tern.add(x, 2.5).dtype is tern.float32
    assert tern.pow(x, 2).tolist() == [1, 4] and tern.pow(2, x).tolist() == [2, 4]
    assert tern.eq(x, 1).tolist() == [True, False] and tern.eq(x, tern.tensor(1)).tolist() == [True, False]
    assert tern.add(x, np.float32(0.5)).tolist() == [1.5, 2.5] and tern.add(x, np.int64(1)).dtype is tern.int64
    assert tern.add(x, True).tolist() == [2, 3]


def test_varargs_lists_and_dtypes():
    assert tern.zeros(2, 3).shape == tern.zeros((2, 3)).shape == tern.zeros([2, 3]).shape == tern.zeros(size=(2, 3)).shape
    assert tern.zeros(()).shape == ()
    x = tern.zeros(2, 3)
    assert x.view(3, 2).shape == x.view((3, 2)).shape == (3, 2) and x.reshape(-1).shape == (6,)
    assert x.permute(1, 0).shape == x.permute((1, 0)).shape == (3, 2)
    assert tern.zeros(2, dtype=tern.float64, device="cpu").dtype is tern.float64
    assert tern.zeros(2, dtype=int).dtype is tern.int64
    assert tern.ones(2, requires_grad=True).requires_grad
    assert x.sum(0).shape == x.sum(dim=(0,)).shape == (3,) and x.sum(axis=1, keepdims=True).shape == (2, 1)


def test_out_and_inplace():
    x, out = tern.tensor([1.0, 2.0]), tern.zeros(2)
    assert tern.add(x, 1, out=out) is out and out.tolist() == [2, 3]
    assert x.add_(1) is x and x.tolist() == [2, 3]
    assert tern.add(x, 1, out=None).tolist() == [3, 4]


def test_results():
    x = tern.tensor([[3.0, 1.0], [2.0, 5.0]])
    best = x.max(1)
    assert best.values.tolist() == [3, 5] and best.indices.tolist() == [0, 1] and tuple(best)[0] is best[0]
    parts = x.split(1)
    assert isinstance(parts, tuple) and len(parts) == 2
    assert isinstance(tern.ops.aten.split.Tensor(x, 1), list)


@pytest.mark.parametrize(
    "call, error, parts",
    [
        (lambda x: tern.relu("a"), TypeError, ["relu(): argument 'self' (position 1) must be Tensor, not str", "aten::relu(Tensor self) -> Tensor"]),
        (lambda x: tern.relu(), TypeError, ["missing required argument 'self' (position 1)"]),
        (lambda x: tern.relu(x, x), TypeError, ["takes 1 positional arguments but 2 were given"]),
        (lambda x: tern.relu(x, wrong=1), TypeError, ["got an unexpected keyword argument 'wrong'"]),
        (lambda x: tern.relu(x, self=x), TypeError, ["got multiple values for argument 'self'"]),
        (lambda x: tern.add(x, "a"), TypeError, ["add() received an invalid combination of arguments - got (Tensor, str)", "aten::add.Tensor("]),
        (lambda x: tern.ops.aten.add.Tensor(x, x, alpha="a"), TypeError, ["aten.add.Tensor(): argument 'alpha'", "must be Scalar, not str"]),
        (lambda x: tern.no_such_operator, AttributeError, ["no attribute 'no_such_operator'"]),
        (lambda x: tern.ops.aten.ad, AttributeError, ["has no operator 'ad'"]),
        (lambda x: tern.ops.aten.add.Nothing, AttributeError, ["has no overload name 'Nothing'", "Tensor"]),
        (lambda x: tern.zeros(-1), RuntimeError, ["negative dimension"]),
        (lambda x: tern.zeros(2, device="gpu"), RuntimeError, ["device type at start of device string: gpu"]),
        (lambda x: x.sum(5), IndexError, ["Dimension out of range"]),
        (lambda x: x + tern.zeros(3), RuntimeError, ["The size of tensor a (2) must match the size of tensor b (3)"]),
    ],
)
def test_errors(call, error, parts):
    with pytest.raises(error) as caught:
        call(tern.ones(2))
    for part in parts:
        assert part in str(caught.value)


def test_random_state():
    state = tern.get_rng_state()
    a = tern.rand(3)
    tern.set_rng_state(state)
    assert tern.rand(3).tolist() == a.tolist()
    g = tern.Generator().manual_seed(7)
    b = tern.rand(3, generator=g)
    assert tern.rand(3, generator=tern.Generator().manual_seed(7)).tolist() == b.tolist()


def test_out_that_is_resized_warns_as_in_pytorch():
    x = tern.ones(2, 3)
    with pytest.warns(UserWarning, match=r"An output with one or more elements was resized since it had shape \[4\]"):
        assert tern.add(x, x, out=tern.zeros(4)).shape == (2, 3)


def test_complex32_is_stored_and_computed_with():
    x = tern.tensor([1.5 - 2j, 0.25j]).to(tern.complex32)
    assert x.dtype is tern.complex32 and x.abs().dtype is tern.float16
    assert x.abs().tolist() == [2.5, 0.25]
    assert (x + x).tolist() == [3 - 4j, 0.5j] and (x * x).tolist() == [-1.75 - 6j, -0.0625]
    assert tern.view_as_real(x).tolist() == [[1.5, -2], [0, 0.25]] and x[0].item() == 1.5 - 2j
    assert (-x).to(tern.complex64).tolist() == [-1.5 + 2j, -0.25j] and x.real.tolist() == [1.5, 0]
    assert tern.tensor([True, False]).to(tern.complex32).to(tern.bool).tolist() == [True, False]
    assert tern.tensor([2 + 1j], dtype=tern.complex32).tolist() == [2 + 1j]
    assert tern.tensor([1e6]).to(tern.complex32).real.tolist() == [float("inf")]
