"""What the language has: containers, classes, enums, tasks, contexts, refinement, calls of nn.functional. Run by make.py."""
import math
from enum import Enum
from typing import Any, Dict, Final, List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

X = "torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])"


class Boxes(NamedTuple):
    boxes: Tensor
    scores: Tensor
    labels: Optional[Tensor]


class Detection(nn.Module):
    """Boxes of the best scores that do not overlap: suppression written in torch's operators."""

    threshold: float

    def __init__(self):
        super().__init__()
        self.threshold = 0.5

    def area(self, b: Tensor) -> Tensor:
        return (b[:, 2] - b[:, 0]).clamp(min=0) * (b[:, 3] - b[:, 1]).clamp(min=0)

    def overlap(self, a: Tensor, b: Tensor) -> Tensor:
        low = torch.max(a[:, None, :2], b[:, :2])
        high = torch.min(a[:, None, 2:], b[:, 2:])
        inside = (high - low).clamp(min=0).prod(2)
        return inside / (self.area(a)[:, None] + self.area(b) - inside)

    def forward(self, boxes: Tensor, scores: Tensor) -> Boxes:
        order = scores.argsort(descending=True)
        kept = torch.jit.annotate(List[int], [])
        while order.numel() > 0:
            best = int(order[0])
            kept.append(best)
            if order.numel() == 1:
                break
            rest = order[1:]
            fits = self.overlap(boxes[best : best + 1], boxes[rest])[0] <= self.threshold
            order = rest[fits]
        at = torch.tensor(kept, dtype=torch.long)
        return Boxes(boxes[at], scores[at], None)


class Hypotheses(nn.Module):
    """Beams as dicts in a list, sorted by a score kept as a float."""

    def forward(self, scores: Tensor, width: int) -> List[Dict[str, List[int]]]:
        none: List[int] = []
        beams: List[Dict[str, List[int]]] = [{"tokens": none, "path": [0]}]
        totals: List[float] = [0.0]
        for step in range(scores.size(0)):
            grown: List[Dict[str, List[int]]] = []
            sums: List[float] = []
            for k, beam in enumerate(beams):
                for token in range(scores.size(1)):
                    one: Dict[str, List[int]] = {}
                    one["tokens"] = beam["tokens"] + [token]
                    one["path"] = beam["path"] + [k]
                    grown.append(one)
                    sums.append(totals[k] + float(scores[step, token]))
            order = sorted([(-s, i) for i, s in enumerate(sums)])
            beams = [grown[order[j][1]] for j in range(min(width, len(order)))]
            totals = [sums[order[j][1]] for j in range(min(width, len(order)))]
        return beams


class Tokenizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words: Dict[str, int] = {"<pad>": 0, "<unk>": 1, "the": 2, "tern": 3, "flies": 4, ".": 5}

    def forward(self, text: str, length: int) -> Tuple[List[int], List[str], str]:
        clean = text.lower().strip().replace(".", " .")
        ids: List[int] = []
        pieces: List[str] = []
        for word in clean.split(" "):
            if len(word) == 0:
                continue
            pieces.append(word if word.isalpha() else "[" + word + "]")
            if word in self.words:
                ids.append(self.words[word])
            else:
                ids.append(self.words["<unk>"])
        while len(ids) < length:
            ids.append(0)
        return ids[:length], pieces, "|".join(pieces).upper() + "{:d}".format(len(ids))


class Packed(nn.Module):
    """State of its own in the file: __getstate__ and __setstate__."""

    def __init__(self):
        super().__init__()
        self.table = torch.arange(6.0).reshape(2, 3)
        self.names: List[str] = ["a", "b"]

    @torch.jit.export
    def __getstate__(self):
        return self.table * 2, self.names, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, List[str], bool]):
        self.table = state[0] / 2
        self.names = state[1]
        self.training = state[2]

    def forward(self, x: Tensor) -> Tuple[Tensor, List[str]]:
        return x + self.table, self.names


class Stats(NamedTuple):
    mean: Tensor
    spread: Tensor
    count: int


class NestedTuples(nn.Module):
    def stats(self, x: Tensor) -> Stats:
        return Stats(x.mean(), x.std(), x.numel())

    def forward(self, x: Tensor) -> Tuple[Stats, Dict[str, Stats], List[Stats]]:
        s = self.stats(x)
        rows = [self.stats(r) for r in x]
        mean, spread, n = s
        return s, {"twice": Stats(mean * 2, spread * 2, n * 2)}, rows


class Pooling(Enum):
    SUM = 1
    MEAN = 2
    LAST = 3


class EnumAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = Pooling.MEAN
        self.order: List[Pooling] = [Pooling.SUM, Pooling.LAST]

    def pool(self, x: Tensor, mode: Pooling) -> Tensor:
        if mode == Pooling.SUM:
            return x.sum(0)
        elif mode == Pooling.MEAN:
            return x.mean(0)
        return x[-1]

    def forward(self, x: Tensor) -> Tuple[List[Tensor], int, str]:
        out = [self.pool(x, self.mode)]
        for m in self.order:
            out.append(self.pool(x, m))
        count = 0
        for m in Pooling:
            if m != self.mode:
                count += m.value
        return out, count, self.mode.name


class Overloads(nn.Module):
    @torch.jit._overload_method  # noqa: F811
    def scale(self, x: Tensor) -> Tensor:  # noqa: F811
        pass

    @torch.jit._overload_method  # noqa: F811
    def scale(self, x: float) -> float:  # noqa: F811
        pass

    def scale(self, x):  # noqa: F811
        return x * 3.0

    def forward(self, x: Tensor, f: float) -> Tuple[Tensor, float]:
        return self.scale(x), self.scale(f)


class DictWalk(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"first": nn.Linear(3, 3), "act": nn.Tanh(), "last": nn.Linear(3, 2)})
        self.more = nn.ModuleDict({"act": nn.ReLU()})

    def forward(self, x: Tensor) -> Tuple[Tensor, List[str], int]:
        names: List[str] = []
        for name, part in self.parts.items():
            x = part(x)
            names.append(name)
            if name in self.more:
                x = self.more["act"](x)
        for part in self.more.values():
            x = part(x)
        for key in self.parts.keys():
            names.append(key + "!")
        return x, names, len(self.parts)


class Hooked(nn.Module):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.fc(x)

    def __init__(self):
        super().__init__()
        self.inner = Hooked.Inner()

        def before(self, input: Tuple[Tensor]) -> Tuple[Tensor]:
            return (input[0] + 1,)

        def after(self, input: Tuple[Tensor], output: Tensor) -> Tensor:
            return output * 2

        self.inner.register_forward_pre_hook(before)
        self.inner.register_forward_hook(after)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x) + self.inner(x * 2)


class SharedParts(nn.Module):
    def __init__(self):
        super().__init__()
        body = nn.Linear(3, 3)
        self.left = nn.Sequential(body, nn.ReLU())
        self.right = nn.Sequential(body, nn.Sigmoid())
        self.same = self.left
        self.tied = nn.Linear(3, 3, bias=False)
        self.tied.weight = body.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.left(x) + self.right(x) + self.same(x) + self.tied(x)


class Unused(nn.Module):
    @torch.jit.unused
    def debug(self, x: Tensor) -> Tensor:
        return x + torch.from_numpy(x.numpy())

    @torch.jit.ignore
    def only_python(self, x):
        return x

    @torch.jit.export
    def twice(self, x: Tensor) -> Tensor:
        return x * 2

    def forward(self, x: Tensor, strange: bool = False) -> Tensor:
        if strange:
            return self.debug(x)
        return self.twice(x) + 1


class Constants(nn.Module):
    __constants__ = ["shape", "kind"]
    rate: Final[float]
    sizes: Final[List[int]]

    def __init__(self):
        super().__init__()
        self.rate = 0.25
        self.sizes = [3, 1, 2]
        self.shape = (2, 3)
        self.kind = torch.float64
        self.where = torch.device("cpu")

    def forward(self, x: Tensor) -> Tuple[Tensor, int, bool]:
        total = 0
        for s in self.sizes:
            total += s
        y = torch.zeros(self.shape, dtype=self.kind, device=self.where) + x * self.rate
        return y, total, y.device == self.where and y.dtype == torch.float64


class OptionalParts(nn.Module):
    offset: Optional[Tensor]

    def __init__(self, with_norm: bool = False):
        super().__init__()
        self.norm = nn.LayerNorm(3) if with_norm else None
        self.fc = nn.Linear(3, 2)
        self.offset = None

    def forward(self, x: Tensor) -> Tensor:
        if self.norm is not None:
            x = self.norm(x)
        if self.fc is not None:
            x = self.fc(x)
        offset = self.offset
        if offset is not None:
            x = x + offset
        self.offset = x.sum()
        return x


class Complex(nn.Module):
    def forward(self, x: Tensor, a: complex) -> Tuple[Tensor, complex, float, Tensor, bool]:
        z = torch.complex(x, x * 2) * a
        w = a * (1 + 2j) - 3j
        s = torch.fft.fft(x)
        return torch.view_as_real(z), w, abs(w), torch.view_as_real(s * s.conj()), a == 2 + 1j


class Seeded(nn.Module):
    def forward(self, n: int) -> Tuple[Tensor, Tensor, Tensor, int]:
        torch.manual_seed(7)
        a = torch.rand([n])
        b = torch.randn([n, 2])
        c = torch.randperm(n)
        return a, b, F.dropout(a, 0.5, True), int(torch.randint(0, 100, [1])[0])


class Tasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def part(self, x: Tensor, k: int) -> Tensor:
        return self.fc(x) * k

    def forward(self, x: Tensor) -> Tensor:
        tasks = torch.jit.annotate(List[torch.jit.Future[Tensor]], [])
        for k in range(3):
            tasks.append(torch.jit.fork(self.part, x, k))
        whole = torch.jit.fork(self.fc, x)
        total = torch.jit.wait(whole)
        for t in tasks:
            total = total + torch.jit.wait(t)
        return total


class WithBlocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tuple[Tensor, bool, bool]:
        with torch.no_grad():
            y = x * self.w
            inside = torch.is_grad_enabled()
        with torch.autograd.profiler.record_function("block"):
            z = y + self.w
            with torch.no_grad():
                v = z * self.w
        return v, inside, v.requires_grad


@torch.jit.script
class Pile(object):
    def __init__(self, start: List[int]):
        self.items = start

    def push(self, x: int):
        self.items.append(x)
        return self

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, x: int) -> bool:
        return x in self.items

    def __getitem__(self, i: int) -> int:
        return self.items[i]

    @property
    def top(self) -> int:
        return self.items[-1]

    @top.setter
    def top(self, x: int):
        self.items[-1] = x


class ClassMethods(nn.Module):
    def forward(self, n: int) -> Tuple[int, bool, int, int, List[int]]:
        s = Pile([i for i in range(n)]).push(10).push(n)
        before = s.top
        s.top = 99
        return len(s), 10 in s, s[1], before, s.items


class Strings(nn.Module):
    def forward(self, s: str, n: int) -> Tuple[List[str], bool, int, str, str, List[str]]:
        parts = s.split(",")
        trimmed = [p.strip() for p in parts]
        found = s.find("b") + s.rfind("b") + s.count("a")
        padded = s.center(n, "*") + s.ljust(n, "-") + s.rjust(n, "+") + s.zfill(n)
        text = f"{n} of {s}: " + "%d and %s" % (n, s)
        lines = "one\ntwo\n\nthree".splitlines()
        return trimmed, s.startswith("a") and s.endswith("c"), found, padded, text + s[::-1] + s[1:3] + s.title() + s.swapcase(), lines


class Numbers(nn.Module):
    def forward(self, a: int, b: float) -> Tuple[List[int], List[float], List[bool]]:
        whole = [a // 3, a % 3, -a // 3, -a % 3, int(a**2), a << 2, a >> 1, a & 6, a | 9, a ^ 5, divmod(a, 4)[0], int(round(b)), int(b)]
        floats = [b // 0.3, b % 0.3, b**0.5, float(a), math.floor(b) * 1.0, math.log(abs(b)), math.atan2(b, 2.0), math.pi, max(b, 0.1), min([b, 0.5]), sum([b, 1.0]), abs(-b)]
        bools = [math.isnan(b), a > b, not bool(a), a == 7 and b < 1.0, math.isinf(float("inf"))]
        return whole, floats, bools


class Containers(nn.Module):
    def forward(self, n: int) -> Tuple[List[int], Dict[int, List[str]], List[Tuple[str, int]], List[List[int]], Optional[int]]:
        l = [5, 3, 8, 1]
        l.sort(reverse=True)
        l.insert(1, n)
        l.extend([n, 2])
        l.remove(2)
        last = l.pop()
        l.reverse()
        d: Dict[int, List[str]] = {}
        for i in range(n):
            if i % 2 not in d:
                empty: List[str] = []
                d[i % 2] = empty
            d[i % 2].append(str(i) + ":" + hex(i + 10))
        pairs = [(k, v) for k, v in zip(["x", "y", "z"], l)]
        grid = [[i * j for i in range(2)] for j in range(n)]
        del d[1]
        found: Optional[int] = None
        if l.index(8) > 0:
            found = l.count(n) + last
        more = {"a": 1, "b": 2}
        more.update({"b": 5, "c": 6})
        more.pop("a")
        for key in sorted(list(more.keys())):
            pairs.append((key, more[key]))
        return l, d, pairs, grid, found


class Slices(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        a = x[..., ::2, None]
        b = x.clone()
        b[:, 1:] = 0.0
        b[0, 0] += 5
        b[b > 4] = -1.0
        c = x[[1, 0]][:, torch.tensor([True, False, True])]
        x = x.clone()
        x[1] *= 2
        x[torch.tensor([0]), -1] -= 1
        return a, b, c, x


class Lookup(nn.Module):
    """Interfaces: which of two modules runs is known when it runs."""

    def __init__(self):
        super().__init__()
        self.steps: nn.ModuleList = nn.ModuleList([nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3)])

    def forward(self, x: Tensor, which: int) -> Tensor:
        for i, step in enumerate(self.steps):
            if i != which:
                x = step(x)
        return self.steps[0](x) + self.steps[-1](x)


class Refined(nn.Module):
    def forward(self, x: Optional[Tensor], n: Union[int, str, List[int]], any_value: Any) -> Tuple[int, str, float]:
        if isinstance(n, int):
            k = n + 1
        elif isinstance(n, str):
            k = len(n)
        else:
            k = sum(n)
        if x is None:
            size = -1
        else:
            size = x.numel()
        kind = "other"
        if isinstance(any_value, float):
            kind = "float"
        elif torch.jit.isinstance(any_value, List[int]):
            kind = "ints" + str(len(any_value))
        assert x is not None or size < 0
        y = x
        return k + size, kind, float(y.sum()) if y is not None else 0.5


class Recurrences(nn.Module):
    """While with else-like flags, nested breaks, and values defined on some paths only."""

    def forward(self, x: Tensor, limit: int) -> Tuple[Tensor, int, List[int]]:
        trail: List[int] = []
        i = 0
        while True:
            i += 1
            found = False
            for j in range(3):
                if (i + j) % 4 == 0:
                    found = True
                    break
                trail.append(i * 10 + j)
            if found:
                if len(trail) > limit:
                    break
                continue
            x = x * 2
            if i > 20:
                return x, -1, trail
        return x + i, i, trail


class Mutated(nn.Module):
    log: List[Tuple[int, float]]
    best: Dict[str, float]

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("steps", torch.tensor(0), persistent=False)
        self.log = []
        self.best = {}

    def forward(self, x: Tensor) -> Tuple[Tensor, List[Tuple[int, float]], Dict[str, float]]:
        self.seen += x.sum(0)
        self.seen.mul_(0.5)
        self.steps += 1
        self.log.append((int(self.steps), float(x.max())))
        name = "step" + str(int(self.steps) % 2)
        if name not in self.best or self.best[name] < float(x.max()):
            self.best[name] = float(x.max())
        return self.seen.clone(), self.log, self.best


class Embeds(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5, 4, padding_idx=0)
        self.bag = nn.EmbeddingBag(5, 4, mode="max")
        self.lstm = nn.LSTM(4, 3, batch_first=True, bidirectional=True)
        self.att = nn.MultiheadAttention(4, 2, batch_first=True)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, ids: Tensor, lengths: List[int]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        e = self.emb(ids)
        packed = nn.utils.rnn.pack_padded_sequence(e, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        y, h = self.lstm(packed)
        padded, counts = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)
        mask = torch.arange(ids.size(1))[None, :] >= torch.tensor(lengths)[:, None]
        a, w = self.att(e, e, e, key_padding_mask=mask)
        return padded, self.bag(ids), self.norm(a.transpose(1, 2)), h[0]


class Functional2d(nn.Module):
    def forward(self, x: Tensor, w: Tensor) -> List[Tensor]:
        y = F.conv2d(F.pad(x, [1, 1, 1, 1], mode="reflect"), w, stride=[2, 1])
        z = F.grid_sample(x, torch.zeros(1, 2, 2, 2) + 0.25, align_corners=False)
        u = F.interpolate(x, scale_factor=[2.0, 1.5], mode="bilinear", align_corners=False)
        p, at = F.max_pool2d(x, 2, return_indices=True)
        v = F.max_unpool2d(p, at, 2)
        s = F.softmax(F.unfold(x, [2, 2]), dim=1)
        n = F.normalize(F.layer_norm(x, [4]), p=2.0, dim=-1)
        c = F.cross_entropy(x.flatten(2).transpose(1, 2)[0], torch.tensor([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), label_smoothing=0.1)
        return [y, z, u, v, s, n, c, F.one_hot(at.flatten() % 3, 3), torch.einsum("bchw,bchv->bwv", x, x)]


cases = {
    Detection: ["(torch.tensor([[0., 0., 2., 2.], [0.1, 0., 2., 2.], [3., 3., 4., 4.], [0., 0., 1., 2.]]), torch.tensor([0.5, 0.9, 0.3, 0.8]))"],
    Hypotheses: ["(torch.tensor([[0.1, 0.7], [0.6, 0.2], [0.3, 0.35]]), 2)"],
    Tokenizer: ["('  The tern flies far.', 7)", "('', 2)"],
    Packed: [f"({X},)"],
    NestedTuples: [f"({X},)"],
    EnumAttribute: [f"({X},)"],
    Overloads: [f"({X}, 2.0)"],
    DictWalk: [f"({X},)"],
    Hooked: [f"({X},)"],
    SharedParts: [f"({X},)"],
    Unused: [f"({X},)"],
    Constants: [f"({X},)"],
    OptionalParts: [f"({X},)", f"({X},)"],
    Complex: [f"({X}, 2 + 1j)", f"({X}, 0.5 - 2j)"],
    Seeded: ["(4,)"],
    Tasks: [f"({X},)"],
    WithBlocks: [f"({X},)"],
    ClassMethods: ["(4,)"],
    Strings: ["('ab, b ,c', 12)", "('abc', 2)"],
    Numbers: ["(7, 0.75)", "(-5, 2.5)"],
    Containers: ["(3,)"],
    Slices: [f"({X},)"],
    Lookup: [f"({X}, 1)", f"({X}, 5)"],
    Refined: [f"({X}, 'four', 2.5)", "(None, [1, 2, 3], [4, 5])", "(None, 7, 'x')"],
    Recurrences: [f"({X}, 5)", f"({X}, 40)"],
    Mutated: [f"({X},)", f"({X} * 2,)"],
    Embeds: ["(torch.tensor([[1, 2, 3], [4, 0, 0]]), [3, 1])"],
    Functional2d: ["(torch.arange(32).reshape(1, 2, 4, 4).float() / 10, torch.ones(1, 2, 3, 3) / 9)"],
}
