"""make bench-ops: every family of operators beside PyTorch eager, both called from Python in one process, in turns: `f(x)` in a bare loop.

A row is an operator at a size; its number is PyTorch's time over Tern's, the least of several rounds each. Sizes: 16 elements
(what a call costs), 65,536 (in the cache), 16,777,216 (in memory); products, convolutions, attention and the like at typical shapes.
"""

import argparse
import collections
import math
import pathlib
import sys
import time
import timeit

import numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]

UNARY = "neg abs exp log sqrt rsqrt sin cos tanh sigmoid relu gelu silu erf reciprocal floor round sign isnan".split()
BINARY = "add sub mul div maximum minimum pow atan2 fmod eq lt logical_and".split()
REDUCE = "sum mean amax argmax prod std any logsumexp".split()


def function(t, name):
    return getattr(t, name) if hasattr(t, name) else getattr(t.nn.functional, name)


def cases(t, torch_like):
    """(family, name, size name, statement, what its names mean) for one library; t is tern or torch, torch_like makes a tensor of its own
    from a numpy array."""
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
        row, column, across = square[0], square[:, :1], square.t() if side * side == n else square
        sums = t.empty_like(x).fill_(0)
        k, float64 = min(4, n // side), t.float64
        names = {key: value for key, value in locals().items() if key not in ("rng", "normal", "make", "sizes")}

        def case(family, name, statement, label=label, names=names, **more):
            return family, name, label, statement, names | more

        for name in UNARY:
            yield case("unary", name, "f(x)", f=function(t, name))
        for name in BINARY:
            yield case("binary", name, "f(x, y)", f=function(t, name))
        yield case("binary", "add a row", "square + row")
        yield case("binary", "add a column", "square + column")
        yield case("binary", "add a number", "x + 2.0")
        yield case("binary", "add in place", "sums.add_(y)")
        yield case("binary", "where", "f(flags, x, y)", f=t.where)
        yield case("binary", "add transposed", "square + across")
        for name in REDUCE:
            yield case("reduce", name, "f(square, 1)", f=function(t, name))
        yield case("reduce", "sum of all", "f(x)", f=t.sum)
        yield case("reduce", "sum of columns", "f(square, 0)", f=t.sum)
        yield case("reduce", "cumsum", "f(square, 1)", f=t.cumsum)
        yield case("softmax", "softmax", "f(square, 1)", f=t.softmax)
        yield case("softmax", "log_softmax", "f(square, 1)", f=t.log_softmax)
        yield case("copy", "clone", "x.clone()")
        yield case("copy", "to double", "x.to(float64)")
        yield case("copy", "transpose", "square.t().contiguous()")
        yield case("copy", "cat", "f([x, y])", f=t.cat)
        yield case("copy", "stack", "f([x, y])", f=t.stack)
        yield case("copy", "full", "f([n], 1.5)", f=t.full)
        yield case("view", "view", "x.view([side, -1])")
        yield case("view", "slice", "x[1:-1]")
        yield case("view", "select", "square[0]")
        yield case("view", "transpose", "square.t()")
        yield case("gather", "index_select", "f(square, 0, rows)", f=t.index_select)
        yield case("gather", "gather", "f(x, 0, positions)", f=t.gather)
        yield case("gather", "scatter_add", "f(x, 0, positions, y)", f=t.scatter_add)
        yield case("gather", "index", "square[rows]")
        yield case("gather", "masked_fill", "f(x, flags, 0.0)", f=t.masked_fill)
        yield case("gather", "embedding", "f(square, rows)", f=t.embedding)
        yield case("sort", "sort", "f(square, 1)", f=t.sort)
        yield case("sort", "topk", "f(square, k, 1)", f=t.topk)
        yield case("random", "rand", "f([n])", f=t.rand)
        yield case("random", "randn", "f([n])", f=t.randn)

    def at(family, name, label, statement, f, *shapes, **more):
        made = {key: make(normal(*shape)) for key, shape in zip("abcde", shapes)}
        return family, name, label, statement, {"f": f} | made | more

    for m, k, n in (4, 4, 4), (1, 768, 768), (32, 1024, 1024), (128, 768, 768), (128, 768, 3072), (512, 512, 512), (1, 2048, 32000):
        label = f"{m}x{k}x{n}"
        yield at("matmul", "mm", label, "f(a, b)", t.mm, (m, k), (k, n))
        yield at("matmul", "linear", label, "f(c, a, b.t())", t.addmm, (m, k), (n, k), (n,))
    for b, m, k, n in (12, 128, 64, 128), (96, 64, 64, 64):
        yield at("matmul", "bmm", f"{b}x{m}x{k}x{n}", "f(a, b)", t.bmm, (b, m, k), (b, k, n))
    for c_in, c_out, size, kernel, stride, groups in (
        (3, 64, 224, 7, 2, 1), (64, 64, 56, 3, 1, 1), (256, 64, 56, 1, 1, 1), (128, 128, 28, 3, 2, 1), (512, 512, 7, 3, 1, 1), (96, 96, 56, 3, 1, 96)):
        label = f"{c_in}>{c_out} {size}² k{kernel} s{stride} g{groups}"
        yield at("conv", "conv2d", label, "f(a, b, c, [s, s], [p, p], [1, 1], g)", t.conv2d, (1, c_in, size, size),
                 (c_out, c_in // groups, kernel, kernel), (c_out,), s=stride, p=kernel // 2, g=groups)
    yield at("pool", "max_pool2d", "64 112²", "f(a, [3, 3], [2, 2], [1, 1])", t.max_pool2d, (1, 64, 112, 112))
    yield at("pool", "avg_pool2d", "64 112²", "f(a, [3, 3], [2, 2], [1, 1])", t.ops.aten.avg_pool2d, (1, 64, 112, 112))
    for rows, width in (4, 4), (128, 768), (4096, 1024):
        yield at("norm", "layer_norm", f"{rows}x{width}", "f(a, [n], b, c)", t.layer_norm, (rows, width), (width,), (width,), n=width)
    variance = make(numpy.abs(normal(64)) + 0.1)
    yield at("norm", "batch_norm", "8x64 56²", "f(a, b, c, d, v, False, 0.1, 1e-5, False)", t.batch_norm, (8, 64, 56, 56), (64,), (64,), (64,), v=variance)
    yield at("norm", "group_norm", "8x64 56²", "f(a, 8, b, c)", t.group_norm, (8, 64, 56, 56), (64,), (64,))
    for heads, length, width in (12, 128, 64), (12, 512, 64):
        shape = (1, heads, length, width)
        yield at("attention", "sdpa", f"{heads}x{length}x{width}", "f(a, b, c)", t.ops.aten.scaled_dot_product_attention, shape, shape, shape)


class Timed:
    """A statement in a loop of its own, as timeit has it: no function of Python's stands between the clock and the call."""

    def __init__(self, statement, names):
        self.timer = timeit.Timer(statement, globals=names)
        self.timer.timeit(1)
        once = max(self.timer.timeit(1), 1e-7)
        self.batch = max(1, int(2e-4 / once))

    def least(self, seconds):
        """Runs until the time is up; the least time of one call, measured in batches that a clock can see."""
        best, end = math.inf, time.perf_counter() + seconds
        while True:
            best = min(best, self.timer.timeit(self.batch) / self.batch)
            if time.perf_counter() > end:
                return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build" / "release", type=pathlib.Path)
    parser.add_argument("--threads", default="1,2", help="how many, separated by commas")
    parser.add_argument("--only", default="", help="families, separated by commas")
    parser.add_argument("--sizes", default="", help="sizes (16, 64k, 16M, 512x512x512), separated by commas")
    parser.add_argument("--names", default="", help="operators, separated by commas")
    parser.add_argument("--seconds", default=0.02, type=float, help="for one operator, size and round")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--below", default=1.0, type=float, help="name the rows below this ratio")
    args = parser.parse_args()
    sys.path.insert(0, str(args.build / "python"))
    import tern

    only, sizes, named = ({*filter(None, text.split(","))} for text in (args.only, args.sizes, args.names))
    for threads in map(int, args.threads.split(",")):
        torch.set_num_threads(threads)
        tern.set_num_threads(threads)
        print(f"== {threads} thread{'s' if threads > 1 else ''}: PyTorch's time / Tern's")
        print(f"{'family':10} {'operator':16} {'size':24} {'Tern us':>12} {'PyTorch us':>12} {'ratio':>7}")
        ratios = collections.defaultdict(list)
        low = []
        with torch.no_grad(), tern.no_grad():
            for (family, name, size, statement, ours), (*_, theirs) in zip(cases(tern, tern.from_numpy), cases(torch, torch.from_numpy)):
                if only and family not in only or sizes and size not in sizes or named and name not in named:
                    continue
                tern_s, torch_s = Timed(statement, ours), Timed(statement, theirs)
                a = b = math.inf
                for _ in range(args.rounds):
                    a = min(a, tern_s.least(args.seconds))
                    b = min(b, torch_s.least(args.seconds))
                ratio = b / a
                print(f"{family:10} {name:16} {size:24} {a * 1e6:12.2f} {b * 1e6:12.2f} {ratio:6.2f}x", flush=True)
                ratios[family, {"4x4x4": "16", "4x4": "16"}.get(size, size if size in ("16", "64k", "16M") else "typical")].append(ratio)
                if ratio < args.below:
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
