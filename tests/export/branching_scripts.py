"""Scripts whose paths depend on data: written by PyTorch, compared with what became of them."""
import os
import sys
from typing import Dict, List, Optional, Tuple

import numpy as np
import torch
from torch import nn, Tensor


class EarlyFor(nn.Module):
    def forward(self, x: Tensor, n: int) -> Tensor:
        for i in range(n):
            x = x * 2
            if bool(x.sum() > 10.0):
                return x + 1
        return x - 1


class EarlyFixed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(5):
            x = x * 2
            if bool(x.sum() > 10.0):
                return x + 1
        return x - 1


class EarlyWhile(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        while bool(x.sum() > 0.0):
            x = x * 2
            if bool(x.sum() > 10.0):
                return x + 1
        return x


class EarlyWhile2(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        i = 0
        while bool(x.sum() < 100.0):
            x = x * 2
            i += 1
            if i > 3:
                return x + i
        return x - i


class EarlyBreak(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(5):
            x = x * 2
            if bool(x.sum() > 10.0):
                break
        return x - 1


class EarlyTuple(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        for i in range(5):
            y = x * i
            if bool(y.sum() > 10.0):
                return y, x
            x = x + y
        return x, x


class EarlyNested(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(4):
            for j in range(3):
                x = x + i * j
                if bool(x.sum() > 20.0):
                    return x * 2
                if bool(x.sum() < -20.0):
                    continue
                x = x + 1
        return x


class EarlyRows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for row in x:
            if bool(row.sum() > 1.0):
                return row
        return x[0] * 0


class EarlyShape(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(5):
            x = x * 2
            if bool(x.sum() > 10.0):
                return x.sum()
        return x.mean()


class IfFloat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            s = 1.0
        else:
            s = 2.0
        return x * s


class IfBool(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            s = True
        else:
            s = False
        if s:
            x = x + 10
        return x


class LoopFloat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        s = 1.0
        while bool(x.sum() < 10):
            s = s * 2.0
            x = x + s
        return x


class LoopBool(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        flip = False
        while bool(x.sum() < 10):
            if flip:
                x = x + 1
            else:
                x = x + 3
            flip = not flip
        return x


class LoopInt(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        k = 1
        while bool(x.sum() < 10):
            x = x + k
            k = k + 2
        return x * k


class IfInt(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            s = 1
        else:
            s = 2
        return x * s


class IfOptional(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y: Optional[Tensor] = None
        if bool(x.sum() > 0):
            y = x + 1
        if y is not None:
            return y
        return x


class IfStr(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 0):
            m = "a"
        else:
            m = "b"
        if m == "a":
            return x + 1
        return x


class Stat(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        outs: List[Tensor] = []
        for i in range(3):
            x = x * 2
            outs.append(x)
        return torch.stack(outs)


class Rows(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        outs: List[Tensor] = []
        for r in x:
            outs.append(r.sum())
        return torch.stack(outs)


class DynAppend(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        outs: List[Tensor] = [x]
        while bool(x.sum() < 10):
            x = x + 3
            outs.append(x)
        return torch.stack(outs)


class IfAppend(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        outs: List[Tensor] = [x]
        if bool(x.sum() < 1):
            outs.append(x)
        return torch.stack(outs)


class IfGiven(nn.Module):
    """None from round to round, and in a branch of a branch."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        best: Optional[Tensor] = None
        last: Optional[int] = None
        while bool(x.sum() < 30):
            x = x + 1
            if bool(x.max() > 4.0):
                if best is None:
                    best = x
                    last = 3
                else:
                    best = best + x
                    last = None
        if best is None:
            best = x * 0
        if last is not None:
            x = x + last
        return x, best


class AppendEmpty(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        outs: List[Tensor] = []
        x = x + 1
        while bool(x.sum() < 40):
            x = x + 3
            outs.append(x.sum(1))
        outs.append(x.sum(1))
        return torch.stack(outs, 1), outs[0] * len(outs)


class AppendPieces(nn.Module):
    """Pieces of different sizes."""

    def forward(self, x: Tensor) -> Tensor:
        outs: List[Tensor] = []
        y = x
        outs.append(x)
        while bool(y.sum() < 20):
            y = torch.cat([y, y + 1])
            if bool(y.max() > 2.0):
                outs.append(y)
        return torch.cat(outs, 0)


class AppendDecode(nn.Module):
    """Greedy decoding: a list of tokens that ends when it wants to."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        h = x[0]
        tokens: List[Tensor] = [h.argmax()]
        scores: List[Tensor] = []
        for i in range(9):
            h = torch.tanh(self.cell(h)) + 0.3
            scores.append(h)
            token = h.argmax()
            if bool(token == 1):
                break
            if bool(h.sum() > 2.5):
                continue
            tokens.append(token)
        return torch.stack(tokens), torch.stack(scores).sum(0)


class AppendOther(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        outs: List[Tensor] = [x]
        while bool(x.sum() < 10):
            x = x * 2 + 1
            outs.append(x)
        outs.pop()
        return torch.stack(outs)


class GivenBack(nn.Module):
    def forward(self, x: Tensor) -> Optional[Tensor]:
        if bool(x.sum() > 0):
            return x
        return None


class IfTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() < 1):
            x = x + 1
        else:
            x = x - 1
        return x


class WhileT(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        while bool(x.sum() < 10):
            x = x + 1
        return x


class Grow(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        while bool(x.sum() < 10):
            x = torch.cat([x, x + 1])
        return x + x.size(0)


class IfList(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() < 1):
            l = [x, x + 1]
        else:
            l = [x * 2, x]
        return l[0] - l[1]


class Draw(nn.Module):
    """Beams that end one by one: flags, ints and tensors from round to round, a return in the middle."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        best = torch.zeros(2)
        done = False
        steps = 0
        while not done:
            x = torch.tanh(self.cell(x)) + 0.1
            score = x.sum(1)
            best = torch.where(score > best, score, best)
            steps += 1
            if steps >= 7:
                return x * steps, best
            done = bool((best > 0.9).all())
        return x, best * steps


class Raises(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if bool(x.sum() > 1000):
            raise ValueError("too large")
        if bool((x > -100).all()):
            y = x + 1
        else:
            raise ValueError("too small: {}".format(x.size(0)))
        assert bool(x.max() < 500), "max"
        print("said when the script runs")
        return y


class Sets(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        l = [x, x + 1]
        l[0] = x * 3
        d: Dict[str, Tensor] = {}
        d["a"] = l[0]
        d["b"] = l[1]
        del d["b"]
        for k, v in d.items():
            x = x + v
        return x + l[0] + len(d)


CONVERTED = [EarlyFor, EarlyFixed, EarlyWhile, EarlyWhile2, EarlyBreak, EarlyTuple, EarlyNested, EarlyRows, EarlyShape, IfBool, LoopBool, LoopInt,
             IfInt, Stat, Rows, IfTensor, WhileT, Grow, IfList, Draw, Raises, Sets, IfOptional, IfGiven, DynAppend, IfAppend, AppendEmpty,
             AppendPieces, AppendDecode]
REFUSED = [IfFloat, LoopFloat, IfStr, AppendOther, GivenBack]


def make(folder):
    torch.manual_seed(3)
    for c in CONVERTED + REFUSED:
        torch.jit.script(c()).save(f"{folder}/{c.__name__}.pt")
    print(" ".join(c.__name__ for c in CONVERTED) + "|" + " ".join(c.__name__ for c in REFUSED))


def compare(folder):
    import onnxruntime
    inputs = [torch.linspace(-1, 1.1, 6).reshape(2, 3), torch.linspace(0.1, 1, 6).reshape(2, 3), torch.full((2, 3), -3.0), torch.full((2, 3), 5.0)]
    for c in CONVERTED:
        name = c.__name__
        script = torch.jit.load(f"{folder}/{name}.pt")
        numbers = (4,) if name == "EarlyFor" else ()
        session = onnxruntime.InferenceSession(f"{folder}/{name}.onnx")
        runs = {"onnx": lambda x: [torch.from_numpy(np.asarray(v)) for v in session.run(None, {session.get_inputs()[0].name: x.numpy()})]}
        if os.path.exists(f"{folder}/{name}.pt2"):
            program = torch.export.load(f"{folder}/{name}.pt2").module()
            runs["pt2"] = lambda x: program(x, *numbers)
        for kind, run in runs.items():
            for i, x in enumerate(inputs):
                wanted, given = script(x, *numbers), run(x)
                wanted = wanted if isinstance(wanted, tuple) else (wanted,)
                given = given if isinstance(given, (tuple, list)) else (given,)
                assert len(wanted) == len(given), (name, kind)
                for a, b in zip(wanted, given):
                    assert a.shape == b.shape and torch.allclose(a, b, atol=1e-6), (name, kind, i, a, b)
    large = torch.full((2, 3), 200.0)
    try:
        torch.export.load(f"{folder}/Raises.pt2").module()(large)
        raise AssertionError("nothing was raised")
    except RuntimeError as e:
        assert "too large" in str(e), e
    print("equal")


globals()[sys.argv[1]](sys.argv[2])
