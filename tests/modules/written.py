"""Modules as people write them for TorchScript: containers in and out, loops over data, tasks, exported methods, state of their own, quantization.

An entry of `written_modules` is a name and a function that gives (module, args, kwargs), as in cases.py; a module that is given already scripted stays as it is.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.ao.quantization as quantization
import torch.ao.quantization.fx._decomposed  # noqa: F401  (its operators are in .pt2 files of quantized models)
import torch.nn.functional as F
from torch import Tensor, nn


class Detections(NamedTuple):
    boxes: Tensor
    scores: Tensor
    labels: Optional[Tensor]


class Containers(nn.Module):
    """Dicts, lists, tuples and options in, a dict out."""

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"cls": nn.Linear(4, 3), "box": nn.Linear(4, 4)})

    def forward(self, features: Dict[str, Tensor], sizes: List[Tuple[int, int]], mask: Optional[Tensor] = None) -> Dict[str, Tensor]:
        out: Dict[str, Tensor] = {}
        for name, x in features.items():
            for head, layer in self.heads.items():
                out[name + "." + head] = layer(x)
        if mask is not None:
            for name in list(out.keys()):
                out[name] = out[name] * mask
        area = 0
        for h, w in sizes:
            area += h * w
        out["area"] = torch.tensor([area])
        return out


class Named(nn.Module):
    def forward(self, x: Tensor, labels: Optional[Tensor]) -> Detections:
        scores = x.sum(1).sigmoid()
        return Detections(x * 2, scores, labels)


class TakesNamed(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Named()

    def forward(self, x: Tensor) -> Tuple[Detections, List[Detections]]:
        one = self.inner(x, None)
        two = self.inner(one.boxes, x.argmax(1))
        labels = two.labels
        if labels is not None:
            two = Detections(boxes=two.boxes + labels.unsqueeze(1), scores=two.scores, labels=labels + 1)
        return one, [one, two]


class Suppression(nn.Module):
    """Boxes, their overlap, and a loop that keeps what overlaps with no better one."""

    def __init__(self):
        super().__init__()
        self.threshold = 0.5
        self.score = nn.Linear(4, 3)

    def overlap(self, boxes: Tensor) -> Tensor:
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        left = torch.max(boxes[:, None, :2], boxes[None, :, :2])
        right = torch.min(boxes[:, None, 2:], boxes[None, :, 2:])
        size = (right - left).clamp(min=0)
        both = size[..., 0] * size[..., 1]
        return both / (area[:, None] + area[None, :] - both)

    def keep(self, boxes: Tensor, scores: Tensor) -> Tensor:
        order = scores.argsort(descending=True)
        overlap = self.overlap(boxes)
        kept: List[int] = []
        while order.numel() > 0:
            best = int(order[0].item())
            kept.append(best)
            if order.numel() == 1:
                break
            rest = order[1:]
            order = rest[overlap[best, rest] <= self.threshold]
        return torch.tensor(kept, dtype=torch.int64)

    def forward(self, images: List[Tensor]) -> List[Dict[str, Tensor]]:
        results: List[Dict[str, Tensor]] = []
        for corner in images:
            boxes = torch.cat([corner, corner + 1.0 + corner.abs()], dim=1)
            scores, labels = self.score(boxes).softmax(-1).max(-1)
            kept = self.keep(boxes, scores)
            results.append({"boxes": boxes[kept], "scores": scores[kept], "labels": labels[kept]})
        return results


class BeamSearch(nn.Module):
    def __init__(self, width: int = 3, steps: int = 5):
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, 11)
        self.width = width
        self.steps = steps
        self.end = 0

    def forward(self, start: Tensor) -> Tuple[Tensor, Tensor, List[List[int]]]:
        state = self.cell(self.embed(start)).expand(self.width, -1).contiguous()
        scores = torch.full((self.width,), float("-inf"))
        scores[0] = 0.0
        beams: List[List[int]] = [[int(start.item())] for _ in range(self.width)]
        finished = torch.zeros(self.width, dtype=torch.bool)
        for step in range(self.steps):
            last = torch.tensor([beam[-1] for beam in beams])
            state = self.cell(self.embed(last), state)
            logits = F.log_softmax(self.out(state), dim=-1)
            logits = torch.where(finished[:, None], torch.full_like(logits, -1e9), logits)
            total = (scores[:, None] + logits).view(-1)
            scores, index = total.topk(self.width)
            parent = torch.div(index, 11, rounding_mode="floor")
            token = index % 11
            grown: List[List[int]] = []
            for i in range(self.width):
                grown.append(beams[int(parent[i])] + [int(token[i])])
            beams = grown
            state = state[parent]
            finished = finished[parent] | (token == self.end)
            if bool(finished.all()):
                break
        return scores, torch.tensor(beams), beams


LSTMState = NamedTuple("LSTMState", [("h", Tensor), ("c", Tensor)])


class NormedCell(nn.Module):
    def __init__(self, inputs: int, hidden: int):
        super().__init__()
        self.weight_x = nn.Parameter(torch.randn(4 * hidden, inputs) * 0.3)
        self.weight_h = nn.Parameter(torch.randn(4 * hidden, hidden) * 0.3)
        self.norm = nn.LayerNorm(4 * hidden)

    def forward(self, x: Tensor, state: LSTMState) -> Tuple[Tensor, LSTMState]:
        i, f, g, o = self.norm(x @ self.weight_x.t() + state.h @ self.weight_h.t()).chunk(4, 1)
        c = f.sigmoid() * state.c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        return h, LSTMState(h, c)


class Direction(nn.Module):
    __constants__ = ["backwards"]

    def __init__(self, inputs: int, hidden: int, backwards: bool):
        super().__init__()
        self.cell = NormedCell(inputs, hidden)
        self.backwards = backwards

    def forward(self, x: Tensor, state: LSTMState) -> Tuple[Tensor, LSTMState]:
        steps = x.unbind(0)
        outputs = torch.jit.annotate(List[Tensor], [])
        for i in range(len(steps)):
            at = len(steps) - 1 - i if self.backwards else i
            out, state = self.cell(steps[at], state)
            outputs += [out]
        if self.backwards:
            outputs.reverse()
        return torch.stack(outputs), state


class OwnLSTM(nn.Module):
    """Layers of cells with layer norm, both directions, dropout in between."""

    def __init__(self, inputs: int = 3, hidden: int = 4, layers: int = 2):
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleList([Direction(inputs if i == 0 else 2 * hidden, hidden, b) for b in (False, True)]) for i in range(layers)])
        self.dropout = nn.Dropout(0.2)
        self.hidden = hidden

    def forward(self, x: Tensor, states: Optional[List[LSTMState]] = None) -> Tuple[Tensor, List[LSTMState]]:
        ends: List[LSTMState] = []
        for number, layer in enumerate(self.layers):
            outputs: List[Tensor] = []
            for direction in layer:
                if states is None:
                    zero = torch.zeros(x.size(1), self.hidden, dtype=x.dtype)
                    state = LSTMState(zero, zero)
                else:
                    state = states[number]
                out, end = direction(x, state)
                outputs.append(out)
                ends.append(end)
            x = self.dropout(torch.cat(outputs, -1))
        return x, ends


class Tasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        waiting: List[torch.jit.Future[Tensor]] = []
        for branch in self.branches:
            waiting.append(torch.jit.fork(branch, x))
        total = torch.zeros_like(x)
        for task in waiting:
            total = total + torch.jit.wait(task)
        return total


@torch.jit.script
class Counter:
    def __init__(self, start: int):
        self.count = start
        self.seen: Dict[str, int] = {}

    def note(self, name: str) -> int:
        self.count += 1
        self.seen[name] = self.seen.get(name, 0) + self.count
        return self.count


class WithClass(nn.Module):
    def forward(self, x: Tensor, names: List[str]) -> Tuple[Tensor, Dict[str, int]]:
        counter = Counter(2)
        for name in names:
            x = x * counter.note(name)
        return x, counter.seen


class Methods(nn.Module):
    """What is exported, ignored and unused; attributes of every kind; a buffer that counts."""

    limit: Optional[int]
    names: Dict[int, str]

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("hidden", torch.ones(2), persistent=False)
        self.register_parameter("nothing", None)
        self.limit = None
        self.names = {0: "cat", 1: "dog"}
        self.flags: List[bool] = [True, False]
        self.scale = 1.5

    @torch.jit.unused
    def plot(self, x: Tensor) -> Tensor:
        raise NotImplementedError("in Python only")

    @torch.jit.ignore
    def log(self, x: Tensor) -> None:
        print(x)

    @torch.jit.export
    def label(self, x: Tensor) -> List[str]:
        return [self.names[int(i)] for i in self.linear(x).argmax(1)]

    @torch.jit.export
    def reset(self, to: int = 0):
        self.calls.fill_(to)

    def doubled(self) -> float:
        return self.scale * 2

    def forward(self, x: Tensor, noisy: bool = False) -> Tensor:
        self.calls += 1
        if noisy:
            x = self.plot(x)
        if self.nothing is not None:
            x = x + self.nothing
        limit = self.limit
        if limit is not None and x.size(0) > limit:
            raise ValueError("too many")
        assert x.dim() == 2, f"a matrix is needed, not {x.dim()} dimensions"
        y = self.linear(x) * self.doubled() + self.hidden
        return -y if self.flags[0] and not self.flags[1] else y


class OwnState(nn.Module):
    """__getstate__ and __setstate__, as packed weights have them."""

    def __init__(self):
        super().__init__()
        self.weight = torch.randn(3, 4)
        self.training = False

    @torch.jit.export
    def __getstate__(self):
        return (self.weight * 2, self.training)

    @torch.jit.export
    def __setstate__(self, state: Tuple[Tensor, bool]):
        self.weight = state[0] / 2
        self.training = state[1]

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


class Keywords(nn.Module):
    def forward(self, x: Tensor, *, scale: float, shift: Optional[Tensor], mode: str) -> Tensor:
        y = x * scale
        if shift is not None:
            y = y + shift
        if mode == "sum":
            return y.sum()
        elif mode == "mean":
            return y.mean()
        return y


@torch.jit.script_if_tracing
def shortened(x: Tensor, limit: int) -> Tensor:
    while x.size(0) > limit:
        x = x[: x.size(0) // 2] + 1
    return x


class Shortened(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(shortened(x, 3))


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(2, 5, dtype=torch.complex64))

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        f = torch.fft.rfft(x, dim=-1) * self.filter
        z = torch.view_as_complex(torch.view_as_real(f).contiguous())
        return torch.fft.irfft(z, n=8, dim=-1), torch.abs(z), (z * 2j).conj().real


class Strings(nn.Module):
    """A tokeniser: strings, dicts, sorting, formatting."""

    def __init__(self):
        super().__init__()
        self.vocabulary: Dict[str, int] = {"the": 1, "cat": 2, "sat": 3}
        self.embed = nn.EmbeddingBag(4, 5, mode="mean")

    def forward(self, lines: List[str]) -> Tuple[Tensor, List[str]]:
        ids: List[int] = []
        offsets: List[int] = []
        unknown: List[str] = []
        for line in lines:
            offsets.append(len(ids))
            for word in line.lower().strip(" .").split(" "):
                if word in self.vocabulary:
                    ids.append(self.vocabulary[word])
                else:
                    ids.append(0)
                    unknown.append("{}@{}".format(word, len(ids)))
        unknown.sort()
        return self.embed(torch.tensor(ids), torch.tensor(offsets)), unknown


class Cached(nn.Module):
    """Attention that keeps keys and values between calls."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(8, 24)
        self.heads = 2

    def forward(self, x: Tensor, cache: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tuple[Tensor, Tensor]]:
        b, t, d = x.shape
        q, k, v = self.project(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        mask = torch.ones(t, k.size(2), dtype=torch.bool).tril(k.size(2) - t)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return y.transpose(1, 2).reshape(b, t, d), (k, v)


class Positions(nn.Module):
    """A position table that grows, einsum, in-place writes to slices."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(0, 6))

    def forward(self, x: Tensor) -> Tensor:
        if self.table.size(0) < x.size(1):
            steps = torch.arange(x.size(1)).unsqueeze(1)
            rate = torch.exp(torch.arange(0, 6, 2) * (-2.0 / 6))
            table = torch.zeros(x.size(1), 6)
            table[:, 0::2] = torch.sin(steps * rate)
            table[:, 1::2] = torch.cos(steps * rate)
            self.table = table
        y = x + self.table[: x.size(1)]
        return torch.einsum("btd,bsd->bts", y, y)


class ConvBnRelu(nn.Sequential):
    def __init__(self, inputs: int, outputs: int, groups: int = 1):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, groups=groups, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class SmallNet(nn.Module):
    """Two blocks, a residual sum by FloatFunctional, a pool and a classifier: the usual subject of eager quantization."""

    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.first, self.second = ConvBnRelu(3, 8), ConvBnRelu(8, 8, groups=8)
        self.add = torch.ao.nn.quantized.FloatFunctional()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.activation = nn.Hardswish()
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(self.quant(x))
        x = self.activation(self.add.add(x, self.second(x)))
        return self.dequant(self.fc(torch.flatten(self.pool(x), 1)))

    def fuse(self, training):
        fuse = quantization.fuse_modules_qat if training else quantization.fuse_modules
        for block in (self.first, self.second):
            fuse(block, ["0", "1", "2"], inplace=True)
        return self


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 6)
        self.lstm = nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(10, 4)
        self.out = nn.Linear(4, 3)

    def forward(self, words: Tensor) -> Tensor:
        x, _ = self.lstm(self.embed(words))
        y, _ = self.gru(x)
        return self.out(y)


class Bags(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(16, 12, mode="sum", include_last_offset=True)
        self.table = nn.Embedding(16, 12)
        self.fc = nn.Linear(12, 2)

    def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
        return self.fc(self.bag(ids, offsets) + self.table(ids[:2]))


def static(training):
    model = SmallNet().train(training).fuse(training)
    model.qconfig = quantization.get_default_qat_qconfig("fbgemm") if training else quantization.get_default_qconfig("fbgemm")
    model = (quantization.prepare_qat if training else quantization.prepare)(model)
    x = torch.rand(2, 3, 6, 6)
    for _ in range(3):
        model(x)
    return quantization.convert(model.eval()), [x], {}


def dynamic(dtype):
    return quantization.quantize_dynamic(Tagger().eval(), {nn.LSTM, nn.GRU, nn.Linear}, dtype=dtype), [torch.randint(0, 12, (2, 4))], {}


def bags():
    model = Bags().eval()
    model.bag.qconfig = model.table.qconfig = quantization.float_qparams_weight_only_qconfig
    quantization.prepare(model, inplace=True)
    return quantization.convert(model), [torch.tensor([1, 5, 3, 7]), torch.tensor([0, 2, 4])], {}


def cast(dtype):
    model = nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.GELU(), nn.Flatten(), nn.Linear(24, 3), nn.LayerNorm(3), nn.Softmax(-1))
    return model.to(dtype).eval(), [torch.randn(2, 3, 8).to(dtype)], {}


def traced_methods():
    return torch.jit.trace_module(Pair().eval(), {"forward": torch.randn(2, 4), "encode": torch.randn(2, 4), "decode": torch.randn(2, 3)}), [torch.randn(5, 4)], {}


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(4, 3), nn.Linear(3, 4)

    def encode(self, x):
        return self.down(x).relu()

    def decode(self, z):
        return {"x": self.up(z), "norm": z.norm()}["x"]

    def forward(self, x):
        return self.decode(self.encode(x))


class ScriptInTrace(nn.Module):
    """A traced module that holds a scripted one, as torchvision's detection heads do."""

    def __init__(self):
        super().__init__()
        self.scripted = torch.jit.script(Suppressed())

    def forward(self, x):
        boxes, scores = self.scripted(x, {"threshold": 0.1})
        return {"boxes": boxes, "scores": scores}


class Suppressed(nn.Module):
    def forward(self, x: Tensor, how: Dict[str, float]) -> Tuple[Tensor, Tensor]:
        kept = torch.nonzero(x[:, 0] > how["threshold"]).squeeze(1)
        return x[kept], x[kept].sum(1)


def preserved():
    """A frozen module whose exported methods and attribute were kept."""
    model = torch.jit.script(Methods().eval())
    return torch.jit.freeze(model, preserved_attrs=["label", "scale"]), [torch.randn(3, 4)], {}


LINEAR = lambda: [torch.randn(3, 4)]
TABLE = {
    "containers": lambda: (Containers().eval(), [{"p1": torch.randn(2, 4), "p2": torch.randn(3, 4)}, [(2, 3), (4, 5)]], {}),
    "containers_mask": lambda: (Containers().eval(), [{"p1": torch.randn(2, 4)}, [(2, 3)]], {"mask": torch.rand(2, 1)}),
    "named": lambda: (TakesNamed(), LINEAR(), {}),
    "named_option": lambda: (Named(), [*LINEAR(), None], {}),
    "suppression": lambda: (Suppression().eval(), [[torch.rand(9, 2), torch.rand(4, 2)]], {}),
    "beam_search": lambda: (BeamSearch().eval(), [torch.tensor([4])], {}),
    "own_lstm": lambda: (OwnLSTM().eval(), [torch.randn(5, 2, 3)], {}),
    "own_lstm_training": lambda: (OwnLSTM(), [torch.randn(5, 2, 3)], {}),
    "tasks": lambda: (Tasks(), LINEAR(), {}),
    "class": lambda: (WithClass(), [torch.ones(2), ["a", "b", "a"]], {}),
    "methods": lambda: (Methods(), LINEAR(), {}),
    "own_state": lambda: (OwnState(), LINEAR(), {}),
    "keywords": lambda: (Keywords(), LINEAR(), {"scale": 3.0, "shift": torch.ones(4), "mode": "mean"}),
    "keywords_none": lambda: (Keywords(), LINEAR(), {"scale": 3.0, "shift": None, "mode": "sum"}),
    "script_if_tracing": lambda: (torch.jit.trace(Shortened(), torch.randn(16, 3)), [torch.randn(29, 3)], {}),
    "trace_module": traced_methods,
    "script_in_trace": lambda: (torch.jit.trace(ScriptInTrace(), torch.randn(6, 4), strict=False), [torch.randn(9, 4)], {}),
    "preserved": preserved,
    "complex": lambda: (Complex(), [torch.randn(2, 8)], {}),
    "half": lambda: cast(torch.float16),
    "bfloat16": lambda: cast(torch.bfloat16),
    "double": lambda: cast(torch.float64),
    "strings": lambda: (Strings().eval(), [["The cat sat.", " a dog sat "]], {}),
    "cache_empty": lambda: (Cached().eval(), [torch.randn(1, 3, 8)], {}),
    "cache": lambda: (Cached().eval(), [torch.randn(1, 1, 8), (torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4))], {}),
    "positions": lambda: (Positions(), [torch.randn(2, 3, 6)], {}),
    "static": lambda: static(False),
    "qat": lambda: static(True),
    "dynamic": lambda: dynamic(torch.qint8),
    "dynamic_half": lambda: dynamic(torch.float16),
    "bags": bags,
}


def written_modules():
    for name, make in TABLE.items():
        def seeded(make=make):
            torch.manual_seed(0)
            torch.backends.quantized.engine = "fbgemm"
            return make()

        yield f"written/{name}", seeded
