# inputs: (torch.arange(6.).reshape(3, 2),)
import torch
from torch import nn, Tensor


class Twice(nn.Module):
    @torch.jit._overload_method
    def twice(self, x: int) -> int:
        pass

    @torch.jit._overload_method
    def twice(self, x: Tensor) -> Tensor:
        pass

    def twice(self, x):
        return x + x

    @torch.jit._overload_method
    def forward(self, x: Tensor, n: int) -> Tensor:
        pass

    @torch.jit._overload_method
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        pass

    def forward(self, x, n):
        return self.twice(x) * self.twice(n)


class Once(Twice):
    def twice(self, x: Tensor):
        return x

    def forward(self, x, n):
        return self.twice(x) - n


class Net(nn.Module):
    __jit_unused_properties__ = ["names"]

    def __init__(self):
        super().__init__()
        self.mul = Twice()
        self.minus = Once()
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(4)])
        self.chain = nn.Sequential(nn.Identity(), nn.Tanh(), nn.Linear(2, 2))
        self.last = nn.Identity()

    @property
    def names(self):
        return sorted(vars(self), key=lambda n: n)

    @property
    def count(self) -> int:
        return 3

    def forward(self, x):
        x = self.minus(self.mul(x, self.count) + self.mul(x, x), x)
        for layer in self.layers[1:]:
            x = layer.forward(x)
        for layer, other in zip(self.layers, self.layers[-2:]):
            x = layer(x) + other.forward(x)
        for layer in self.chain[::2]:
            x = layer.forward(x)
        if isinstance(self.last, nn.Identity):
            x = x + 1
        if isinstance(self.last, (nn.Linear, nn.ReLU)):
            x = x.no_such_thing()
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                x = x + layer.bias
        return x
