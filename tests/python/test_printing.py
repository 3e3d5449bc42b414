"""Tensors print as PyTorch's do, whatever is in them."""

import numpy as np
import pytest
import torch

import tern

DTYPES = ["float16", "float32", "float64", "int32", "int64", "uint8", "bool", "complex64", "complex128"]
SHAPES = [(), (0,), (1,), (7,), (40,), (1200,), (2, 3), (5, 0, 2), (3, 1, 4), (2, 3, 2, 2), (30, 50)]
VALUES = {
    "ordinary": lambda x: x,
    "whole": np.round,
    "tiny": lambda x: x * 1e-8,
    "huge": lambda x: x * 1e10,
    "wide": lambda x: x * 10.0 ** np.round(5 * x),
    "zero": lambda x: x * 0,
    "with nan": lambda x: np.where(np.abs(x) < 0.3, np.nan, x),
    "infinite": lambda x: x * np.inf,
}


def of_pytorch(text):
    return text.replace("torch.", "tern.")


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_as_pytorch(dtype, values):
    random = np.random.default_rng(0)
    for shape in SHAPES:
        with np.errstate(all="ignore"):
            x = np.asarray(VALUES[values](random.standard_normal(shape)))
            if dtype.startswith("complex"):
                x = x + 1j * np.asarray(VALUES[values](random.standard_normal(shape)))
            x = (x > 0) if dtype == "bool" else x.astype(dtype)
        x = np.ascontiguousarray(x).reshape(shape)
        ours, theirs = tern.from_numpy(x), torch.from_numpy(x)
        assert repr(ours) == of_pytorch(repr(theirs)), (dtype, values, shape)
        if len(shape) > 1:
            assert repr(ours.transpose(0, 1)) == of_pytorch(repr(theirs.transpose(0, 1)))


def test_history():
    x = np.arange(3, dtype=np.float32)
    ours, theirs = tern.from_numpy(x).requires_grad_(), torch.from_numpy(x).requires_grad_()
    assert repr(ours) == repr(theirs)
    assert repr(ours * 2) == repr(theirs * 2)
    assert repr(tern.Parameter(tern.from_numpy(x))) == repr(torch.nn.Parameter(torch.from_numpy(x)))
    assert repr(tern.empty(2, 3, device="meta")) == repr(torch.empty(2, 3, device="meta"))


@pytest.mark.parametrize("options", [{"precision": 2}, {"threshold": 5}, {"threshold": 5, "edgeitems": 1}, {"linewidth": 40},
                                     {"sci_mode": True}, {"sci_mode": False}, {"profile": "short"}, {"profile": "full"}])
def test_options(options):
    x = np.random.default_rng(0).standard_normal((12, 60)) * 1e5
    try:
        tern.set_printoptions(**options)
        torch.set_printoptions(**options)
        assert repr(tern.from_numpy(x)) == of_pytorch(repr(torch.from_numpy(x)))
    finally:
        tern.set_printoptions(profile="default")
        torch.set_printoptions(profile="default")


def test_an_unknown_profile():
    with pytest.raises(ValueError, match="default, short, full"):
        tern.set_printoptions(profile="long")
