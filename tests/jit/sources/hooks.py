# inputs: (torch.rand(4, 3),)
import torch
from torch import nn
from typing import List, Tuple


def shift(self, inputs: Tuple[torch.Tensor]) -> Tuple[torch.Tensor]:
    return (inputs[0] + 1.0,)


def nothing(self, inputs: Tuple[torch.Tensor]) -> None:
    pass


def double(
    self,
    inputs: Tuple[torch.Tensor],
    output: torch.Tensor,
) -> torch.Tensor:
    return output * 2.0 + inputs[0].sum()


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
        self.fc.register_forward_hook(double)

    @property
    def gain(self) -> int:
        return 3

    def forward(self, x):
        return self.fc(x) * self.gain


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.part = Part()
        self.part.register_forward_pre_hook(shift)
        self.part.register_forward_pre_hook(nothing)
        self.part.register_forward_hook(double)
        self.plain = Part()
        self.parts = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.register_forward_pre_hook(shift)
        self.register_forward_hook(double)

    @property
    def count(self) -> int:
        return self.steps

    @count.setter
    def count(self, n: int):
        self.steps = n

    def forward(self, x):
        self.count = self.count + 1
        names: List[str] = []
        for name, part in self.parts.items():
            x = part(x)
            names.append(name)
        for part in self.parts.values():
            x = x + part(x)
        for name in self.parts:
            names.append(name)
        for i, (name, part) in enumerate(self.parts.items()):
            x = part(x) + i
        has = 1.0 if "relu" in self.parts and "gelu" not in self.parts else 0.0
        return self.part(x) + self.plain(x) + len("".join(names)) + has + len(self.parts)
