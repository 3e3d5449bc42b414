"""Small models with loops, branches and state: run by make.py."""
from enum import Enum
from typing import Dict, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

X = "torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])"


class RnnLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(5, 2)
    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tensor]]:
        h = torch.zeros(2)
        states: List[Tensor] = []
        for i in range(x.size(0)):
            h = torch.tanh(self.cell(torch.cat([x[i], h])))
            states.append(h)
        return h, states

class LstmCellLoop(nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = nn.Linear(5, 8)
    def forward(self, x: Tensor, state: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        if state is None:
            h, c = torch.zeros(2), torch.zeros(2)
        else:
            h, c = state
        out = torch.jit.annotate(List[Tensor], [])
        for t in x.unbind(0):
            i, f, g, o = self.gates(torch.cat([t, h])).chunk(4, 0)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            out.append(h)
        return torch.stack(out), (h, c)

class BeamSearch(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(3, 4)
    def forward(self, x: Tensor, width: int, steps: int) -> Tuple[List[List[int]], List[float]]:
        logits = torch.log_softmax(self.score(x), 1)
        beams = [(torch.jit.annotate(List[int], []), 0.0)]
        for s in range(steps):
            row = logits[s % logits.size(0)]
            next: List[Tuple[List[int], float]] = []
            for tokens, total in beams:
                for k in range(row.size(0)):
                    next.append((tokens + [k], total + float(row[k])))
            scores = torch.tensor([b[1] for b in next])
            best = scores.topk(min(width, len(next)))[1]
            beams = torch.jit.annotate(List[Tuple[List[int], float]], [])
            for j in range(best.size(0)):
                beams.append(next[int(best[j])])
        return [b[0] for b in beams], [b[1] for b in beams]

class Greedy(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(6, 3)
        self.out = nn.Linear(3, 6)
    def forward(self, start: int, limit: int) -> List[int]:
        tokens = [start]
        while len(tokens) < limit:
            h = self.emb(torch.tensor(tokens)).mean(0)
            t = int(self.out(h).argmax())
            if t == 0:
                break
            tokens.append(t)
        return tokens

class DictState(nn.Module):
    cache: Dict[str, Tensor]
    def __init__(self):
        super().__init__()
        self.cache = {}
        self.hits = 0
    def forward(self, key: str, x: Tensor) -> Tensor:
        if key in self.cache:
            self.hits += 1
            return self.cache[key] * self.hits
        self.cache[key] = x.sum(0)
        return self.cache[key]

class ListState(nn.Module):
    history: List[float]
    def __init__(self):
        super().__init__()
        self.history = []
    def forward(self, v: float) -> float:
        self.history.append(v)
        if len(self.history) > 3:
            self.history.pop(0)
        return sum(self.history) / len(self.history)

class RunningMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("count", torch.zeros(1))
    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        self.mean.add_((x.mean(0) - self.mean) / self.count)
        return x - self.mean

class CounterAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.factor = 1.0
    def forward(self, x: Tensor) -> Tensor:
        self.steps = self.steps + 1
        if self.steps % 2 == 0:
            self.factor = self.factor * 0.5
        return x * self.factor

@torch.jit.script
class Accumulator(object):
    def __init__(self, start: float):
        self.total = start
        self.items: List[float] = []
    def add(self, v: float):
        self.total += v
        self.items.append(v)
    def __len__(self) -> int:
        return len(self.items)

class UsesClass(nn.Module):
    def forward(self, x: Tensor) -> Tuple[float, int]:
        a = Accumulator(10.0)
        for row in x:
            a.add(float(row.sum()))
        return a.total, len(a)

@torch.jit.script
class Stack(object):
    def __init__(self):
        self.data = torch.jit.annotate(List[int], [])
    def push(self, v: int):
        self.data.append(v)
    def pop(self) -> int:
        return self.data.pop()
    @property
    def size(self) -> int:
        return len(self.data)

class ReversePolish(nn.Module):
    def forward(self, text: str) -> int:
        s = Stack()
        for word in text.split():
            if word == "+":
                s.push(s.pop() + s.pop())
            elif word == "*":
                s.push(s.pop() * s.pop())
            else:
                s.push(int(word))
        assert s.size == 1, "left over"
        return s.pop()

class Mode(Enum):
    RELU = "relu"
    TANH = "tanh"
    NONE = "none"

class EnumSwitch(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)
    def pick(self, k: int) -> Mode:
        if k == 0:
            return Mode.RELU
        elif k == 1:
            return Mode.TANH
        return Mode.NONE
    def forward(self, x: Tensor, k: int) -> Tuple[Tensor, str]:
        m = self.pick(k)
        y = self.fc(x)
        if m == Mode.RELU:
            y = torch.relu(y)
        elif m == Mode.TANH:
            y = torch.tanh(y)
        return y, m.value

class OptionalInputs(nn.Module):
    def forward(self, x: Tensor, mask: Optional[Tensor] = None, scale: Optional[float] = None) -> Tensor:
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        if scale is None:
            return x
        return x * scale

class EarlyReturn(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
    def forward(self, x: Tensor, depth: int) -> Tensor:
        if depth == 0:
            return x
        y = self.a(x)
        if depth == 1:
            return y
        for i in range(depth):
            y = self.b(y)
            if bool(y.abs().max() < 0.5):
                return y + i
        return y * 2

class Block(nn.Module):
    def __init__(self, n: int):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Linear(n, n))
        self.scale = 0.5
    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) * self.scale

class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block(3)
        self.rest = nn.ModuleList([Block(3) for _ in range(3)])
    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for i, b in enumerate(self.rest):
            x = b(x) / (i + 1)
        return x

class DictOfModules(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 1)})
    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        out: Dict[str, Tensor] = {}
        for name, head in self.heads.items():
            out[name] = head(x)
        return out

class ModuleListReturn(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])
    def forward(self, x: Tensor, upto: int) -> Tensor:
        i = 0
        for layer in self.layers:
            if i == upto:
                return x
            x = torch.tanh(layer(x))
            i += 1
        return x

class Point(NamedTuple):
    x: Tensor
    n: int

class NamedResult(nn.Module):
    def forward(self, x: Tensor, n: int) -> Point:
        p = Point(x, n)
        for i in range(n):
            p = Point(p.x + i, p.n + 1)
        return p

class UnionInput(nn.Module):
    def forward(self, v: Union[int, float, List[int]]) -> float:
        if isinstance(v, int):
            return v * 2.0
        elif isinstance(v, float):
            return v
        else:
            return float(sum(v))

class StringWork(nn.Module):
    def forward(self, s: str) -> Dict[str, int]:
        counts: Dict[str, int] = {}
        for w in s.lower().split(" "):
            w = w.strip(".,!")
            if len(w) == 0:
                continue
            if w in counts:
                counts[w] += 1
            else:
                counts[w] = 1
        return counts

class ExportedMethods(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 3))
    @torch.jit.export
    def encode(self, x: Tensor) -> Tensor:
        return x @ self.w
    @torch.jit.export
    def decode(self, z: Tensor) -> Tensor:
        return z @ self.w.t()
    def forward(self, x: Tensor) -> Tensor:
        return self.decode(torch.relu(self.encode(x)))

class FunctionalMix(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = 0.3
    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(x, self.p, self.training)
        x = F.softmax(F.gelu(x), dim=-1)
        return F.layer_norm(x, [3])

class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.bn = nn.BatchNorm2d(2)
        self.pool = nn.MaxPool2d(2)
        self.fc = nn.Linear(8, 2)
    def forward(self, x: Tensor) -> Tensor:
        y = self.pool(torch.relu(self.bn(self.conv(x))))
        if y.numel() > 8:
            y = y.flatten(1)
        else:
            y = y.view(1, -1)
        return self.fc(y)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(3, 4)
        self.k = nn.Linear(3, 4)
        self.v = nn.Linear(3, 4)
    def forward(self, x: Tensor, causal: bool = False) -> Tensor:
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(-2, -1) / 2.0
        if causal:
            n = x.size(-2)
            scores = scores.masked_fill(torch.ones(n, n).triu(1) > 0, float("-inf"))
        return torch.softmax(scores, -1) @ v

class NewtonSqrt(nn.Module):
    def forward(self, x: float, eps: float = 1e-6) -> Tuple[float, int]:
        g = x if x > 1.0 else 1.0
        n = 0
        while abs(g * g - x) > eps:
            g = (g + x / g) / 2.0
            n += 1
            if n > 100:
                raise RuntimeError("no convergence")
        return g, n

class Primes(nn.Module):
    def forward(self, n: int) -> List[int]:
        sieve = [True] * (n + 1)
        out: List[int] = []
        for i in range(2, n + 1):
            if not sieve[i]:
                continue
            out.append(i)
            j = i * i
            while j <= n:
                sieve[j] = False
                j += i
        return out

class TensorMutation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[0] = 1.0
        y[:, 1] += 2.0
        y[y < 0] = 0.0
        z = y.view(-1)
        z[0] = 9.0
        return y

class SharedWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Linear(3, 3, bias=False)
        self.out = nn.Linear(3, 3, bias=False)
        self.out.weight = self.emb.weight
    def forward(self, x: Tensor, n: int) -> Tensor:
        for _ in range(n):
            x = self.out(torch.relu(self.emb(x)))
        return x

class TupleState(nn.Module):
    def __init__(self):
        super().__init__()
        self.state = (0, torch.zeros(3))
    def forward(self, x: Tensor) -> Tuple[int, Tensor]:
        n, s = self.state
        self.state = (n + 1, s + x.sum(0))
        return self.state

class Interpolation(nn.Module):
    table: List[Tuple[float, float]]
    def __init__(self):
        super().__init__()
        self.table = [(0.0, 0.0), (1.0, 2.0), (3.0, 3.0)]
    def forward(self, x: float) -> float:
        for i in range(len(self.table) - 1):
            a, fa = self.table[i]
            b, fb = self.table[i + 1]
            if a <= x and x <= b:
                return fa + (fb - fa) * (x - a) / (b - a)
        raise ValueError("out of range: {}".format(x))

class MeanPooling(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 3, padding_idx=0)
        self.norm = nn.LayerNorm(3)
    def forward(self, batch: List[List[int]]) -> Tensor:
        rows: List[Tensor] = []
        for ids in batch:
            if len(ids) == 0:
                rows.append(torch.zeros(3))
                continue
            rows.append(self.emb(torch.tensor(ids)).mean(0))
        return self.norm(torch.stack(rows))


cases = {
    RnnLoop: [f"({X},)"],
    LstmCellLoop: [f"({X},)", f"({X}, (torch.ones(2), torch.zeros(2)))"],
    BeamSearch: [f"({X}, 2, 3)", f"({X}, 1, 1)"],
    Greedy: ["(1, 5)", "(3, 1)"],
    DictState: [f"('a', {X})", f"('a', {X})", f"('b', {X})", f"('a', {X})"],
    ListState: ["(1.0,)", "(2.0,)", "(4.0,)", "(8.0,)"],
    RunningMean: [f"({X},)", f"({X} * 2,)"],
    CounterAttribute: [f"({X},)", f"({X},)", f"({X},)"],
    UsesClass: [f"({X},)"],
    ReversePolish: ["('3 4 + 2 *',)"],
    EnumSwitch: [f"({X}, 0)", f"({X}, 1)", f"({X}, 2)"],
    OptionalInputs: [f"({X},)", f"({X}, {X} > 0)", f"({X}, None, 2.0)"],
    EarlyReturn: [f"({X}, 0)", f"({X}, 1)", f"({X}, 4)"],
    Nested: [f"({X},)"],
    DictOfModules: [f"({X},)"],
    ModuleListReturn: [f"({X}, 0)", f"({X}, 2)", f"({X}, 9)"],
    NamedResult: [f"({X}, 2)"],
    UnionInput: ["(3,)", "(1.5,)", "([1, 2],)"],
    StringWork: ["('The cat, the dog. The end!',)"],
    ExportedMethods: [f"({X},)"],
    FunctionalMix: [f"({X},)"],
    ConvNet: ["(torch.arange(16).reshape(1, 1, 4, 4).float() / 16,)"],
    Attention: [f"({X},)", f"({X}, True)"],
    NewtonSqrt: ["(2.0,)", "(0.25, 0.01)"],
    Primes: ["(30,)"],
    TensorMutation: [f"({X},)"],
    SharedWeights: [f"({X}, 0)", f"({X}, 2)"],
    TupleState: [f"({X},)", f"({X},)"],
    Interpolation: ["(0.5,)", "(2.0,)"],
    MeanPooling: ["([[1, 2], [], [3]],)"],
}
