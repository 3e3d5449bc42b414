"""One worker: takes entries of PyTorch's operator database, runs their samples along every route, prints JSON lines.

By hand: python worker.py --only add,nn.functional.linear [--routes forward,gradient] prints each difference with its sample.
"""

import argparse
import collections
import faulthandler
import json
import mmap
import os
import resource
import sys
import time
import traceback
import warnings

import torch
from torch.overrides import TorchFunctionMode, resolve_name

import tern
import truth
from routes import OURS, ROUTES, SPECTRAL, UNINITIALISED, NotHere, check_message, compare_spectral, error, first_line
from samples import Call, calls_of, error_samples_of, name_of, op_db, samples_of
from values import DTYPES, Different, NotOurs, compare, copy_of, copy_together, map_tensors, seed, short, to_tern, to_tern_together

SAME = 2  # samples that differ only in their numbers
QUICK_DTYPES = {torch.float32, torch.float64, torch.int64, torch.bool}


class Tally:
    """What an entry found: counts by (operator, route, dtype), and of what failed the first reason."""

    def __init__(self, skip, mark):
        self.passed, self.failed, self.reasons, self.texts = collections.Counter(), collections.Counter(), {}, {}
        self.skip, self.mark, self.missing = skip, mark, collections.Counter()

    def run(self, operator, route, dtype, text, function):
        key = (operator, route, dtype)
        if "\t".join(key) in self.skip:
            return
        self.mark("\t".join(key))
        try:
            function()
        except (NotHere, NotOurs):
            return
        except Different as e:
            self.fail(key, str(e), text)
        except Exception as e:
            self.fail(key, f"{type(e).__name__}: {first_line(e)}", text)
        else:
            self.passed[key] += 1
        finally:
            self.mark("")

    def fail(self, key, reason, text):
        self.failed[key] += 1
        self.reasons.setdefault(key, " ".join(reason.split())[:240])
        self.texts.setdefault(key, text[:300])


class Listen(TorchFunctionMode):
    """The function that a sample calls, as a user would write it: OpInfo wraps many in functions of its own."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def python_call(info, args, kwargs):
    """(name, PyTorch's function, Tern's, args, kwargs) of the one call that the sample makes; None when it makes several."""
    listen = Listen()
    args, kwargs = copy_together(list(args), kwargs)
    try:
        with listen, torch.no_grad():
            info.op(*args, **kwargs)
    except Exception:
        if not listen.calls:
            return None
    calls = [c for c in listen.calls if c[0] not in (torch.manual_seed, torch.random.manual_seed)]
    names = [(c, resolve_name(c[0])) for c in calls]
    names = [(c, name) for c, name in names if name and not name.endswith((".__get__", ".__set__"))]
    if len(names) != 1:
        return None
    (func, args, kwargs), name = names[0]
    path = name.split(".")[1:]
    at = tern
    for part in path:
        at = getattr(at, part, None)
        if at is None:
            return None
    return (name.replace("torch", "tern", 1), func, at, list(args), kwargs) if callable(at) else None


def check(info, tally, counts, options):
    quick = options.quick
    for dtype in DTYPES:
        if dtype not in info.supported_dtypes("cpu") or quick and dtype not in QUICK_DTYPES:
            continue
        if options.dtypes and short(dtype) not in options.dtypes:
            continue
        for args, kwargs in samples_of(info, dtype, 2 if quick else options.samples or None):
            check_sample(info, args, kwargs, dtype, tally, counts, options)
    if not options.routes or "errors" in options.routes:
        for args, kwargs, kind, pattern in error_samples_of(info):
            check_error(info, args, kwargs, pattern, tally)


def check_sample(info, args, kwargs, dtype, tally, counts, options):
    seen = set()  # above and below composite operators the same call is one sample

    def wanted(call):
        if call.name not in OURS:
            tally.missing[call.name] += 1
            return False
        key = call.key()
        if key in seen:
            return False
        seen.add(key)
        counts[key] += 1
        return counts[key] <= SAME and (not options.operators or call.name in options.operators)

    calls, refused = calls_of(info.op, args, kwargs, wanted)
    for call in calls:
        if call.error is not None:
            continue
        for route, (function, dtypes) in ROUTES.items():
            if (dtypes is None or call.dtype in dtypes) and (not options.routes or route in options.routes):
                tally.run(call.name, route, call.dtype, call.text(), lambda: function(call))
    if refused is None and not options.operators and (not options.routes or "python" in options.routes):
        call = python_call(info, args, kwargs)
        if call is not None:
            tally.run(call[0], "python", short(dtype), text_of(call[0], call[3], call[4]), lambda: python(*call))


def text_of(name, args, kwargs):
    return Call(type("F", (), {"name": lambda: name}), args, kwargs).text()


def python(name, theirs, mine, args, kwargs):
    """The function as a user calls it: overloads chosen by the arguments."""
    tern_args, tern_kwargs = to_tern(map_tensors(copy_of, args)), to_tern(map_tensors(copy_of, kwargs))
    seed()
    with torch.no_grad():
        try:
            want = theirs(*args, **kwargs)
        except Exception as e:
            raise NotHere(str(e))
    seed()
    got = mine(*tern_args, **tern_kwargs)
    operator = "_".join(name.split(".")[1:])  # tern.linalg.eig: linalg_eig
    try:
        compare(got, want, values=not {operator, name.split(".")[-1]} & (UNINITIALISED | SPECTRAL))
    except Different as difference:
        truth.settle(difference, theirs, args, kwargs, got, want)
    if operator in SPECTRAL:
        compare_spectral(operator, got, want)


def check_error(info, args, kwargs, pattern, tally):
    calls, refused = calls_of(info.op, args, kwargs, lambda call: call.name in OURS)
    if refused is None:
        return
    failed = [c for c in calls if c.error is not None]
    if failed:
        call = failed[0]
        tally.run(call.name, "errors", "any", call.text(), lambda: error(call, pattern))
        return
    call = python_call(info, args, kwargs)
    if call is None:
        return
    name, _, mine, args, kwargs = call

    def run():
        tern_args, tern_kwargs = to_tern_together(args, kwargs)
        try:
            mine(*tern_args, **tern_kwargs)
        except Exception as e:
            check_message(e, refused, pattern)
            return
        raise Different(f"accepted what PyTorch refuses: {first_line(refused)}")

    tally.run(name, "errors", "any", text_of(name, args, kwargs), run)


def work(indices, skip, mark, options):
    """A line when an entry begins, and one with what it found."""
    counts = collections.Counter()
    for i in indices:
        print(json.dumps({"begin": i, "name": name_of(op_db[i])}), flush=True)
        start = time.monotonic()
        tally, before = Tally(skip, mark), truth.settled
        check(op_db[i], tally, counts, options)
        rows = [[*key, tally.passed[key], tally.failed[key], tally.reasons.get(key, ""), tally.texts.get(key, "")] for key in {**tally.passed, **tally.failed}]
        print(json.dumps({"end": i, "seconds": round(time.monotonic() - start, 2), "rows": rows, "missing": tally.missing, "settled": truth.settled - before}), flush=True)


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--indices", default="", help="first:step of the entries")
    parser.add_argument("--skip", default="", help="a file of operator, route, dtype that ended an earlier worker")
    parser.add_argument("--mark", default="", help="a file that names what is running")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--samples", type=int, default=0, help="of one entry and dtype, evenly among all; 0 for all")
    parser.add_argument("--only", default="")
    parser.add_argument("--routes", default="")
    parser.add_argument("--dtypes", default="")
    parser.add_argument("--operators", default="", help="with --only: only these ATen operators")
    options = parser.parse_args()
    for name in ("routes", "dtypes", "operators"):
        setattr(options, name, set(filter(None, getattr(options, name).split(","))))
    return options


def main():
    options = parse_options()
    warnings.simplefilter("ignore")
    faulthandler.enable()
    torch.set_num_threads(1)
    tern.set_num_threads(1)
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # whose shadow is terabytes of addresses
        resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
    if options.only:
        by_hand(options)
        return
    with open(options.mark, "r+b") as file:
        memory = mmap.mmap(file.fileno(), 4096)

        def mark(text):
            memory[:4096] = text.encode()[:4095].ljust(4096, b"\0")

        skip = set(open(options.skip).read().splitlines())
        first, step = (int(v) for v in options.indices.split(":"))
        work(range(first, len(op_db), step), skip, mark, options)


def by_hand(options):
    wanted = options.only.split(",")
    for info in op_db:
        if not {info.name, info.aten_name, name_of(info)} & set(wanted):
            continue
        tally = Tally(set(), lambda text: None)
        try:
            check(info, tally, collections.Counter(), options)
        except Exception:
            traceback.print_exc()
        for key in sorted({**tally.passed, **tally.failed}):
            print(*key, f"{tally.passed[key]} passed", *([f"{tally.failed[key]} FAILED: {tally.reasons[key]}\n      {tally.texts[key]}"] if tally.failed[key] else []))


if __name__ == "__main__":
    main()
