"""The whole range of int64: models mask with its smallest number."""

import numpy as np
import pytest
import torch

import tern

NUMBERS = [-(2**63), -(2**63) + 1, -(2**62) - 1, -(2**62), 2**62, 2**63 - 1]


@pytest.mark.parametrize("number", NUMBERS)
def test_elements_and_scalars(number):
    x = tern.from_numpy(np.array([number, 5]))
    assert x[0].item() == number and x.tolist() == [number, 5]
    assert repr(x) == repr(torch.tensor([number, 5]))
    assert tern.full((2,), number, dtype=tern.int64).tolist() == [number, number]
    assert tern.masked_fill(x, x == 5, number).tolist() == [number, number]
    assert (x == number).tolist() == [True, False]
    assert tern.tensor([number]).tolist() == [number]


class Masked(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number

    def forward(self, x):
        return x.masked_fill(x > 0, self.number) + torch.full_like(x, self.number) // 2


@pytest.mark.parametrize("number", NUMBERS)
def test_in_files(number, tmp_path):
    net, x = Masked(number), torch.tensor([3, -4])
    want = net(x).tolist()
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "net.pt2")
    torch.jit.trace(net, x).save(str(tmp_path / "traced.pt"))
    torch.jit.script(net).save(str(tmp_path / "scripted.pt"))
    for name in ("net.pt2", "traced.pt", "scripted.pt"):
        model = tern.load(str(tmp_path / name))
        assert model(tern.from_numpy(x.numpy())).tolist() == want, name
