# Modules that call torch's own functions around operators, and what stands around calls: hooks, interfaces.
import cmath
from typing import Any, List, Tuple

from torch import Tensor, nn
import torch.nn.functional as F


class Distances(nn.Module):
    def forward(self, x: Tensor) -> List[Tensor]:
        return [torch.cdist(x, x), torch.tensordot(x, x, dims=2), torch.tensordot(x, x, dims=([0], [0]))]


class Spectra(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        s = torch.stft(x, 4, return_complex=True, window=torch.ones(4))
        return torch.view_as_real(s), torch.istft(s, 4, window=torch.ones(4))


class Uniques(nn.Module):
    def forward(self, x: Tensor) -> List[Tensor]:
        a, b = torch.unique(x, return_inverse=True)
        c, d = torch.unique_consecutive(x, return_counts=True)
        return [torch.unique(x), a, b, c, d, torch.unique_consecutive(x)]


class WeightedLoss(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy(x, y, weight=x[0]) + F.binary_cross_entropy(x, y)


class ListedNumbers(nn.Module):
    def forward(self, x: Tensor) -> List[List[int]]:
        numbers: List[List[int]] = x.tolist()
        return numbers


class AnyKind(nn.Module):
    def forward(self, x: Any) -> int:
        if isinstance(x, list):
            return 1
        elif isinstance(x, (int, tuple)):
            return 2
        return 3


class ComplexMath(nn.Module):
    def forward(self, a: complex) -> Tuple[complex, complex, bool, float, str]:
        return cmath.log(a), cmath.acos(a), cmath.isinf(a), cmath.phase(a), str(a)


def before(self, inputs: Tuple[Tensor]) -> Tuple[Tensor]:
    return (inputs[0] + 1,)


def seen(self, inputs: Tuple[Tensor]) -> None:
    pass


def after(self, inputs: Tuple[Tensor], output: Tensor) -> Tensor:
    return output * 3 + inputs[0]


class TopHooks(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ReLU()
        self.inner.register_forward_pre_hook(seen)
        self.inner.register_forward_hook(after)
        self.register_forward_pre_hook(before)
        self.register_forward_hook(after)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x * 2)


@torch.jit.interface
class Step(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass

    def twice(self, x: Tensor, n: int) -> List[Tensor]:
        pass


class AddOne(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1

    @torch.jit.export
    def twice(self, x: Tensor, n: int) -> List[Tensor]:
        return [x * 2] * n


class Interfaced(nn.Module):
    step: Step

    def __init__(self):
        super().__init__()
        self.step = AddOne()

    def forward(self, x: Tensor) -> List[Tensor]:
        return self.step.twice(self.step.forward(x), 2)


X = "torch.arange(6).reshape(2, 3).float()"
cases = {
    Distances: [f"({X},)"],
    Spectra: ["(torch.arange(16).float(),)"],
    Uniques: ["(torch.tensor([1, 1, 2, 1]),)"],
    WeightedLoss: ["(torch.tensor([[0.2, 0.7]]), torch.tensor([[0., 1.]]))"],
    ListedNumbers: ["(torch.tensor([[1, 2], [3, 4]]),)"],
    AnyKind: ["([1],)", "((1, 2),)", "(3,)", "('a',)"],
    ComplexMath: ["(1 + 2j,)", "(0.5 - 2j,)"],
    TopHooks: [f"({X},)"],
    Interfaced: [f"({X},)"],
}
