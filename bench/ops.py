"""make bench-ops: every family of operators beside PyTorch eager, both called from Python in one process, in turns.

A row is an operator at a size; its number is PyTorch's time over Tern's, the least of several rounds each. Sizes: 16 elements
(what a call costs), 65,536 (in the cache), 16,777,216 (in memory); products, convolutions, attention and the like at typical shapes.
"""

import argparse
import collections
import math
import pathlib
import sys
import time

import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]

UNARY = "neg abs exp log sqrt rsqrt sin cos tanh sigmoid relu gelu silu erf reciprocal floor round sign isnan".split()
BINARY = "add sub mul div maximum minimum pow atan2 fmod eq lt logical_and".split()
REDUCE = "sum mean amax argmax prod std any logsumexp".split()
GOALS = {"call": 5.0}


def function(t, name):
    return getattr(t, name) if hasattr(t, name) else getattr(t.nn.functional, name)


def cases(t, torch_like):
    """(family, name, size name, callable) for one library; t is tern or torch, torch_like makes a tensor of its own from a numpy array."""
    rng = numpy.random.default_rng(0)
    normal = lambda *shape: rng.standard_normal(shape, dtype=numpy.float32)
    make = torch_like
    sizes = {"16": 16, "64k": 1 << 16, "16M": 1 << 24}
    for label, n in sizes.items():
        x, y = make(numpy.abs(normal(n)) + 0.5), make(numpy.abs(normal(n)) + 0.5)
        side = 1 << (int(math.log2(n)) // 2)
        square = x.view([side, n // side])
        positions = make(rng.integers(0, n, n))
        rows = make(rng.integers(0, side, side))
        flags = make(rng.integers(0, 2, n).astype(bool))
        for name in UNARY:
            yield "unary", name, label, (lambda f=function(t, name), x=x: f(x))
        for name in BINARY:
            yield "binary", name, label, (lambda f=function(t, name), x=x, y=y: f(x, y))
        yield "binary", "add a row", label, (lambda x=square, y=square[0]: x + y)
        yield "binary", "add a column", label, (lambda x=square, y=square[:, :1]: x + y)
        yield "binary", "add a number", label, (lambda x=x: x + 2.0)
        yield "binary", "add in place", label, (lambda x=t.empty_like(x).fill_(0), y=y: x.add_(y))
        yield "binary", "where", label, (lambda c=flags, x=x, y=y: t.where(c, x, y))
        yield "binary", "add transposed", label, (lambda x=square, y=square.t() if side * side == n else square: x + y)
        for name in REDUCE:
            yield "reduce", name, label, (lambda f=function(t, name), x=square: f(x, 1))
        yield "reduce", "sum of all", label, (lambda x=x: t.sum(x))
        yield "reduce", "sum of columns", label, (lambda x=square: t.sum(x, 0))
        yield "reduce", "cumsum", label, (lambda x=square: t.cumsum(x, 1))
        yield "softmax", "softmax", label, (lambda x=square: t.softmax(x, 1))
        yield "softmax", "log_softmax", label, (lambda x=square: t.log_softmax(x, 1))
        yield "copy", "clone", label, (lambda x=x: x.clone())
        yield "copy", "to double", label, (lambda x=x: x.to(t.float64))
        yield "copy", "transpose", label, (lambda x=square: x.t().contiguous())
        yield "copy", "cat", label, (lambda x=x, y=y: t.cat([x, y]))
        yield "copy", "stack", label, (lambda x=x, y=y: t.stack([x, y]))
        yield "copy", "full", label, (lambda n=n: t.full([n], 1.5))
        yield "view", "view", label, (lambda x=x, side=side: x.view([side, -1]))
        yield "view", "slice", label, (lambda x=x: x[1:-1])
        yield "gather", "index_select", label, (lambda x=square, i=rows: t.index_select(x, 0, i))
        yield "gather", "gather", label, (lambda x=x, i=positions: t.gather(x, 0, i))
        yield "gather", "scatter_add", label, (lambda x=x, i=positions, y=y: t.scatter_add(x, 0, i, y))
        yield "gather", "index", label, (lambda x=square, i=rows: x[i])
        yield "gather", "masked_fill", label, (lambda x=x, c=flags: t.masked_fill(x, c, 0.0))
        yield "gather", "embedding", label, (lambda x=square, i=rows: t.embedding(x, i))
        yield "sort", "sort", label, (lambda x=square: t.sort(x, 1))
        yield "sort", "topk", label, (lambda x=square, k=min(4, n // side): t.topk(x, k, 1))
        yield "random", "rand", label, (lambda n=n: t.rand([n]))
        yield "random", "randn", label, (lambda n=n: t.randn([n]))

    def at(label, *shapes):
        return label, [make(normal(*s)) for s in shapes]

    for m, k, n in (4, 4, 4), (1, 768, 768), (128, 768, 768), (128, 768, 3072), (512, 512, 512), (1, 2048, 32000):
        label, (a, b, c) = at(f"{m}x{k}x{n}", (m, k), (k, n), (n,))
        yield "matmul", "mm", label, (lambda a=a, b=b: t.mm(a, b))
        w = b.t().contiguous()
        yield "matmul", "linear", label, (lambda a=a, w=w, c=c: t.addmm(c, a, w.t()))
    for b, m, k, n in (12, 128, 64, 128), (96, 64, 64, 64):
        label, (p, q) = at(f"{b}x{m}x{k}x{n}", (b, m, k), (b, k, n))
        yield "matmul", "bmm", label, (lambda p=p, q=q: t.bmm(p, q))
    for c_in, c_out, size, kernel, stride, groups in (
        (3, 64, 224, 7, 2, 1), (64, 64, 56, 3, 1, 1), (256, 64, 56, 1, 1, 1), (128, 128, 28, 3, 2, 1), (512, 512, 7, 3, 1, 1), (96, 96, 56, 3, 1, 96)):
        label, (x, w, b) = at(f"{c_in}>{c_out} {size}² k{kernel} s{stride} g{groups}", (1, c_in, size, size), (c_out, c_in // groups, kernel, kernel), (c_out,))
        pad = kernel // 2
        yield "conv", "conv2d", label, (lambda x=x, w=w, b=b, s=stride, p=pad, g=groups: t.conv2d(x, w, b, [s, s], [p, p], [1, 1], g))
    label, (x,) = at("64 112²", (1, 64, 112, 112))
    yield "pool", "max_pool2d", label, (lambda x=x: t.max_pool2d(x, [3, 3], [2, 2], [1, 1]))
    yield "pool", "avg_pool2d", label, (lambda x=x: t.ops.aten.avg_pool2d(x, [3, 3], [2, 2], [1, 1]))
    for rows, width in (128, 768), (4096, 1024):
        label, (x, w, b) = at(f"{rows}x{width}", (rows, width), (width,), (width,))
        yield "norm", "layer_norm", label, (lambda x=x, w=w, b=b, n=width: t.layer_norm(x, [n], w, b))
    label, (x, w, b, m, v) = at("8x64 56²", (8, 64, 56, 56), (64,), (64,), (64,), (64,))
    v = v * v + 0.1
    yield "norm", "batch_norm", label, (lambda x=x, w=w, b=b, m=m, v=v: t.batch_norm(x, w, b, m, v, False, 0.1, 1e-5, False))
    yield "norm", "group_norm", label, (lambda x=x, w=w, b=b: t.group_norm(x, 8, w, b))
    for heads, length, width in (12, 128, 64), (12, 512, 64):
        label, (q, k, v) = at(f"{heads}x{length}x{width}", *[(1, heads, length, width)] * 3)
        yield "attention", "sdpa", label, (lambda q=q, k=k, v=v: t.ops.aten.scaled_dot_product_attention(q, k, v))


def least(f, seconds):
    """Calls f until the time is up; the least time of a call, measured in batches that a clock can see."""
    f()
    start = time.perf_counter()
    f()
    once = max(time.perf_counter() - start, 1e-7)
    batch = max(1, int(2e-4 / once))
    best, end = once, time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        for _ in range(batch):
            f()
        now = time.perf_counter()
        best = min(best, (now - start) / batch)
        if now > end:
            return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build" / "release", type=pathlib.Path)
    parser.add_argument("--threads", default="1,2", help="how many, separated by commas")
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--seconds", default=0.02, type=float, help="for one operator, size and round")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--below", default=1.0, type=float, help="name the rows below this ratio")
    args = parser.parse_args()
    sys.path.insert(0, str(args.build / "python"))
    import tern

    only = set(filter(None, args.only.split(",")))
    for threads in map(int, args.threads.split(",")):
        torch.set_num_threads(threads)
        tern.set_num_threads(threads)
        print(f"== {threads} thread{'s' if threads > 1 else ''}: PyTorch's time / Tern's")
        print(f"{'family':10} {'operator':16} {'size':24} {'Tern us':>12} {'PyTorch us':>12} {'ratio':>7}")
        ratios = collections.defaultdict(list)
        low = []
        with torch.no_grad(), tern.no_grad():
            for (family, name, size, ours), (_, _, _, theirs) in zip(cases(tern, tern.from_numpy), cases(torch, torch.from_numpy)):
                if only and family not in only:
                    continue
                a = b = math.inf
                for _ in range(args.rounds):
                    a = min(a, least(ours, args.seconds))
                    b = min(b, least(theirs, args.seconds))
                ratio = b / a
                print(f"{family:10} {name:16} {size:24} {a * 1e6:12.2f} {b * 1e6:12.2f} {ratio:6.2f}x", flush=True)
                ratios[family, size if size in ("16", "64k", "16M") else "typical"].append(ratio)
                if ratio < args.below and size != "16":
                    low.append((ratio, family, name, size))
        print(f"\n{'family':10} {'16':>8} {'64k':>8} {'16M':>8} {'typical':>8}   (geometric means)")
        mean = lambda values: f"{math.exp(sum(map(math.log, values)) / len(values)):7.2f}x" if values else f"{'':8}"
        for family in dict.fromkeys(f for f, _ in ratios):
            print(f"{family:10} " + " ".join(mean(ratios.get((family, s), [])) for s in ("16", "64k", "16M", "typical")))
        for ratio, family, name, size in sorted(low):
            print(f"  below {args.below}: {family} {name} {size} {ratio:.2f}x")
        print()


if __name__ == "__main__":
    main()
