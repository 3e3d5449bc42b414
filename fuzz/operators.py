#!/usr/bin/env python3
"""Calls every operator with random arguments: it may refuse them, it must not end the process.

    fuzz/operators.py --calls 25 --seed 1        all operators
    fuzz/operators.py --calls 25 --seed 1 set_   those of one name

Each overload runs in a child of its own, so that one which dies does not take the rest along. A child that is
still busy after --seconds is counted, but is no finding: sizes of billions are allowed. Exit code 1: findings.
Needs the package on PYTHONPATH; nothing of PyTorch."""

import argparse
import collections
import os
import random
import re
import resource
import signal
import sys

import tern

INTS = [0, 1, 2, 3, 7, 100, -1, -5, 2**31, 2**63 - 1, -(2**63)]
FLOATS = [0.0, 1.0, -1.0, 0.5, float("nan"), float("inf"), -float("inf"), 1e308]
SCALARS = [0, 1, -1, 2.5, float("nan"), True, 1j, 2**63 - 1]
TEXTS = ["", "sum", "mean", "none", "reflect", "floor", "ij", "ij,jk->ik"]
DTYPES = [tern.float32, tern.int64, tern.bool, tern.complex64, tern.float16, tern.uint8, tern.float8_e4m3fn]
TENSORS = [
    lambda: tern.randn(2, 3),
    lambda: tern.randn(3),
    lambda: tern.tensor(2.5),
    lambda: tern.tensor(1),
    lambda: tern.zeros(0),
    lambda: tern.zeros(0, 3),
    lambda: tern.tensor([1, 0, 2]),
    lambda: tern.tensor([-1, 5, 100]),
    lambda: tern.tensor([[0, 1], [1, 0]]),
    lambda: tern.tensor([True, False, True]),
    lambda: tern.randn(2, 3, 4),
    lambda: tern.randn(2, 3, 4).transpose(0, 2),
    lambda: tern.randn(1, 2, 3, 4),
    lambda: tern.randn(2, 3, 4, 5, 6),
    lambda: tern.randn(3, dtype=tern.complex64),
    lambda: tern.ones(3, 3, dtype=tern.bfloat16),
    lambda: tern.ones(3, 3, dtype=tern.float64),
    lambda: tern.randn(1).expand(3, 3),
    lambda: tern.randn(8)[1::2],
    lambda: tern.zeros(2, 3, device="meta"),
    lambda: tern.randn(3, 3).requires_grad_(),
]
SKIPPED = {"from_file"}  # would open files of any name

Argument = collections.namedtuple("Argument", "type name keyword default")


def arguments(schema):
    """The arguments of a schema's text."""
    text = schema[schema.index("(") + 1 : schema.rindex(") ->")]
    text = re.sub(r"\([a-z!|>\- *]*\)", "", text)  # alias marks
    parts, depth, part = [], 0, ""
    for letter in text:
        depth += (letter in "[(") - (letter in "])")
        if letter == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += letter
    result, keyword = [], False
    for part in filter(None, (p.strip() for p in parts + [part])):
        if part == "*":
            keyword = True
            continue
        head, equals, _ = part.partition("=")
        kind, name = head.strip().rsplit(" ", 1)
        result.append(Argument(kind, name, keyword, bool(equals)))
    return result


def value(kind, rng):
    if kind.endswith("?"):
        return None if rng.random() < 0.4 else value(kind[:-1], rng)
    if kind.endswith("]"):
        item, _, count = kind[:-1].rpartition("[")
        counts = [int(count), 0, 1] if count else [0, 1, 2, 3]
        return [value(item, rng) for _ in range(rng.choice(counts))]
    choices = {
        "int": INTS, "SymInt": INTS, "float": FLOATS, "Scalar": SCALARS, "bool": [True, False], "str": TEXTS,
        "ScalarType": DTYPES, "Device": ["cpu", "meta"], "Layout": [tern.strided],
        "MemoryFormat": [tern.contiguous_format, tern.channels_last, tern.preserve_format],
    }
    if kind == "Tensor":
        return rng.choice(TENSORS)()
    return rng.choice(choices[kind]) if kind in choices else None


def call(overload, wanted, rng):
    """One call; its result is read, and differentiated where that can be."""
    positional, keywords = [], {}
    for a in wanted:
        if a.default and rng.random() < 0.5:
            continue
        if a.keyword or a.default:
            keywords[a.name] = value(a.type, rng)
        else:
            positional.append(value(a.type, rng))
    results = overload(*positional, **keywords)
    for t in results if isinstance(results, (list, tuple)) else [results]:
        if isinstance(t, tern.Tensor) and t.numel() < 10000:
            str(t)
            if t.requires_grad and t.is_floating_point():
                t.sum().backward()


def child(overload, wanted, options, name, pipe):
    signal.alarm(options.seconds)
    for number in range(options.calls):
        os.write(pipe, b".")
        tern.manual_seed(0)
        try:
            call(overload, wanted, random.Random(f"{options.seed} {number} {name}"))
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError, MemoryError, OverflowError, BufferError):
            pass
    os._exit(0)


def run(overload, wanted, options, name):
    """How the child ended: 0, or the signal, and in which call."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            child(overload, wanted, options, name, writing)
        except BaseException as e:  # an exception of a kind that a user would not expect
            print(f"{name}: {type(e).__name__}: {e}", file=sys.stderr)
        os._exit(3)
    os.close(writing)
    begun = 0
    while part := os.read(reading, 4096):
        begun += len(part)
    os.close(reading)
    _, status = os.waitpid(pid, 0)
    return (-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)), begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", help="only operators of this name")
    parser.add_argument("--calls", type=int, default=25, help="calls of each overload")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=10, help="how long a child may run")
    parser.add_argument("--memory", type=int, default=6, help="GB of address space; 0: no limit (sanitizers need that)")
    options = parser.parse_args()
    if options.memory:
        resource.setrlimit(resource.RLIMIT_AS, (options.memory << 30, options.memory << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    findings = slow = overloads = 0
    for packet_name in sorted(set(dir(tern.ops.aten)) - SKIPPED):
        if packet_name.startswith("__") and not packet_name.endswith("__") or options.name not in (None, packet_name):
            continue
        packet = getattr(tern.ops.aten, packet_name)
        for overload_name in getattr(packet, "overloads", list)():
            overload = getattr(packet, overload_name)
            overloads += 1
            name = f"{packet_name}.{overload_name}"
            code, begun = run(overload, arguments(str(overload._schema)), options, name)
            if code == -signal.SIGALRM:
                slow += 1
            elif code:
                findings += 1
                how = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit code {code}"
                print(f"{name}: {how} in call {begun} of seed {options.seed}", flush=True)
    print(f"{overloads} overloads, {options.calls} calls each: {findings} findings, {slow} still busy after {options.seconds} s")
    return 1 if findings or not overloads else 0


if __name__ == "__main__":
    sys.exit(main())
