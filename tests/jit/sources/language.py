# inputs: (torch.rand(2, 3),)
import torch
from torch import nn
from typing import NamedTuple, Optional


class Pair(NamedTuple):
    a: torch.Tensor
    b: Optional[int] = None
    c: float = 2.5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        row, matrix = torch.arange(6.0), torch.arange(6.0).view(2, 3)
        self.register_buffer("waves", torch.ones(3, dtype=torch.complex64))
        self.register_buffer("first", row[:3])
        self.register_buffer("odd", row[1::2])
        self.register_buffer("last", row[-1])
        self.register_buffer("column", matrix[:, 1])
        self.register_buffer("corner", matrix[1, -2:])
        self.register_buffer("deeper", matrix[:, None])

    @torch.jit.unused
    def python_only(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tensor([v for v in x.tolist() if v])

    def forward(self, x):
        if x.size(0) == 0:
            x = self.python_only(x)
        pair = Pair(x * self.first)
        if pair.b is None:
            x = pair.a + pair.c
        return x + self.odd, self.deeper * self.last, torch.view_as_real(self.waves), self.column, self.corner
