# inputs: (torch.rand(4, 8),)
# arguments: (8, 3)
import math
import torch
from torch import nn
import torch.nn.functional as F
from typing import List, Optional

SCALE = 0.5


def make(width: int, bias: bool = True):
    return nn.Linear(width, width, bias=bias)


def twice(x):
    return x * 2


class Block(nn.Module):
    def __init__(self, width, index):
        super().__init__()
        self.fc = make(width, bias=index % 2 == 0)
        self.index = index
        self.gain = nn.Parameter(torch.rand(width) * math.sqrt(2.0))
        if index > 0:
            self.register_buffer("shift", torch.full((width,), 0.25 * index))
        else:
            self.register_buffer("shift", None)

    def forward(self, x):
        y = F.relu(self.fc(x)) * self.gain
        if self.shift is not None:
            y = y + self.shift
        return y + self.index


class Net(nn.Module):
    sizes: List[int]

    def __init__(self, width, depth, residual=True):
        super(Net, self).__init__()
        self.blocks = nn.ModuleList([Block(width, i) for i in range(depth)])
        for i in range(2):
            self.blocks.append(Block(width, depth + i))
        self.residual = residual
        self.sizes = []
        for k in range(3):
            if k == 1:
                continue
            self.sizes.append(width + k)
        layers = []
        for i, n in enumerate([width, 6]):
            layers.append(nn.Linear(n, 6))
            layers += [nn.Tanh()]
        self.tail = nn.Sequential(*layers[:-1])
        self.names = nn.ModuleDict({"a": nn.Linear(6, 3), "b": nn.Identity()})
        self.weight = nn.Parameter(torch.empty(3, 3))
        self.reset()

    def reset(self):
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        with torch.no_grad():
            self.weight.mul_(0.5)

    def helper(self, x):
        return twice(x) * SCALE

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            y = block(x)
            x = x + y if self.residual else y
        x = self.tail(self.helper(x))
        x = self.names["b"](self.names["a"](x))
        return x @ self.weight + len(self.sizes)

    @torch.jit.export
    def width(self) -> int:
        return self.sizes[0]
