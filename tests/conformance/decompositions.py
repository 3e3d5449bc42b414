"""Decompositions to core ATen beside PyTorch's: OpInfo's samples as programs, the operators they become, and the numbers.

    python tests/conformance/decompositions.py           one sample of every entry: part of `make conformance`
    python tests/conformance/decompositions.py --quick   one sample of every eighth entry: part of `make test`
    python tests/conformance/decompositions.py --only celu,stft   prints both graphs
    python tests/conformance/decompositions.py --accept  writes known_decompositions.txt anew; a new line's reason is to be filled in

A sample becomes a module, torch.export makes a program of it, and both libraries decompose the file it is saved to: PyTorch by
run_decompositions(), Tern likewise. Tern's program is written, and PyTorch loads and runs it. The run fails when the sets of operators or
the numbers differ for an entry that known_decompositions.txt does not list, and when they agree for one that it lists.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time
import warnings

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KNOWN = HERE / "known_decompositions.txt"
REPORT = ROOT / "docs" / "decompositions.md"
QUICK_STEP = 8
# From best to worst; an entry has the worst one of its samples.
OUTCOMES = {
    "same": "the same operators, each as often",
    "set": "the same set of operators",
    "overloads": "the same set, but that `add.Scalar`, `sub.Scalar`, `mul.Scalar` and `div.Scalar` are `add.Tensor` of a number and so on",
    "operators": "other operators, the same numbers",
    "numbers": "other numbers or other shapes",
    "fails": "Tern refuses the program, or PyTorch refuses what Tern wrote",
}


# ---- one entry ----


def programs_of(info, count):
    """(module, inputs) of some of the entry's samples, float32 where the entry has it."""
    import torch
    from samples import samples_of
    from torch.utils._pytree import tree_flatten, tree_unflatten
    from values import copy_of

    class Sample(torch.nn.Module):
        """Tensors are inputs; whatever else the sample has is written into the program."""

        def __init__(self, function, args, kwargs):
            super().__init__()
            self.function = function
            self.leaves, self.tree = tree_flatten((args, kwargs))
            self.places = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]

        def inputs(self):
            return tuple(copy_of(self.leaves[i]) for i in self.places)

        def forward(self, *inputs):
            leaves = list(self.leaves)
            for i, value in zip(self.places, inputs):
                leaves[i] = value
            args, kwargs = tree_unflatten(leaves, self.tree)
            result = self.function(*args, **kwargs)
            return tuple(result) if isinstance(result, tuple) else result  # named ones are not written to files

    supported = info.supported_dtypes("cpu")
    dtypes = [d for d in (torch.float32, torch.complex64, torch.int64, torch.bool) if d in supported]
    chosen = samples_of(info, dtypes[0], max(count, 3)) if dtypes else []
    if count == 1:  # the first ones are often numbers or empty
        chosen = chosen[len(chosen) // 2:][:1]
    for args, kwargs in chosen:
        module = Sample(info.op, args, kwargs)
        yield module, module.inputs()


def operators_of(program):
    """How often each operator is called, blocks of control flow included."""
    called = collections.Counter()
    for module in program.graph_module.modules():
        for node in getattr(getattr(module, "graph", None), "nodes", []):
            if node.op == "call_function" and "getitem" not in str(node.target):
                called[str(node.target)] += 1
    return called


def of_tensors(operators):
    """Arithmetic with a number as arithmetic with a tensor, which takes numbers too."""
    return {re.sub(r"^aten\.(add|sub|mul|div)\.Scalar$", r"aten.\1.Tensor", name) for name in operators}


def compare_results(got, want, uninitialised):
    import torch
    from torch.utils._pytree import tree_leaves
    from values import TOLERANCE

    got, want = tree_leaves(got), tree_leaves(want)
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    for g, w in zip(got, want):
        if not isinstance(w, torch.Tensor):
            if g != w and not (g != g and w != w):
                return f"{g}, not {w}"
            continue
        if g.dtype != w.dtype or g.shape != w.shape:
            return f"{g.dtype}{list(g.shape)}, not {w.dtype}{list(w.shape)}"
        if w.layout != torch.strided or uninitialised:
            continue
        rtol, atol = TOLERANCE.get(w.dtype, (0, 0))
        if not torch.allclose(g, w, rtol, atol, equal_nan=True):
            return f"by up to {float((g - w).abs().max()) if w.dtype.is_floating_point else 'other values'}"
    return None


def check_program(module, inputs, folder, uninitialised, show):
    """(outcome, detail); None where PyTorch itself cannot export or decompose the sample."""
    import torch
    from values import copy_of, seed

    import tern

    given, written = os.path.join(folder, "given.pt2"), os.path.join(folder, "core.pt2")
    try:
        program = torch.export.export(module, inputs)
        torch.export.save(program, given)
        theirs = program.run_decompositions()
        seed()
        want = theirs.module()(*[copy_of(t) for t in inputs])
    except Exception:
        return None
    if show:
        print(program.graph, theirs.graph, sep="\n")
    try:
        ours = tern.load(given).run_decompositions()
        if show:
            print(ours.code)
        tern.save(ours, written)
    except Exception as error:
        return "fails", f"Tern: {first_line(error)}"
    try:
        program = torch.export.load(written)
        mine, wanted = operators_of(program), operators_of(theirs)
        seed()
        got = program.module()(*[copy_of(t) for t in inputs])
    except Exception as error:
        return "fails", f"PyTorch: {first_line(error)}"
    difference = " ".join([f"-{name}" for name in sorted(set(wanted) - set(mine))] + [f"+{name}" for name in sorted(set(mine) - set(wanted))])
    wrong = compare_results(got, want, uninitialised)
    if wrong:
        return "numbers", f"{wrong} {difference}"
    if difference:
        return "overloads" if of_tensors(mine) == of_tensors(wanted) else "operators", difference
    return ("same", "") if mine == wanted else ("set", "")


def first_line(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:240]


def check_entry(info, count, folder, show=False):
    """The outcome of every sample that PyTorch can export, and the details of those that differ."""
    from routes import UNINITIALISED

    outcomes, details = [], []
    for module, inputs in programs_of(info, count):
        result = check_program(module, inputs, folder, info.name.split(".")[-1] in UNINITIALISED, show)
        if result is None:
            continue
        outcomes.append(result[0])
        if result[1] and result[1] not in details:
            details.append(result[1])
        if show:
            print(*result)
    return outcomes, details


def work(options):
    import logging

    sys.path.insert(0, str(pathlib.Path(os.environ.get("TERN_BUILD_DIR", ROOT / "build" / "release")) / "python"))

    import torch
    from samples import name_of, op_db

    import tern

    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    tern.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        if options.only:
            for info in op_db:
                if {info.name, name_of(info)} & set(options.only.split(",")):
                    print("==", name_of(info))
                    check_entry(info, options.samples, folder, show=True)
            return
        first, step = (int(v) for v in options.indices.split(":"))
        for i in range(first, len(op_db), step):
            print(json.dumps({"begin": i, "name": name_of(op_db[i])}), flush=True)
            start = time.monotonic()
            outcomes, details = check_entry(op_db[i], options.samples, folder)
            print(json.dumps({"end": i, "name": name_of(op_db[i]), "outcomes": outcomes, "details": details, "seconds": time.monotonic() - start}), flush=True)


# ---- all entries ----


class Shard(threading.Thread):
    """Runs every `step`-th entry; an entry that ends the worker fails, and a new one goes on behind it."""

    def __init__(self, first, step, options):
        super().__init__()
        self.first, self.step, self.options, self.rows = first, step, options, []

    def run(self):
        environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        at = self.first
        while at is not None:
            command = [sys.executable, __file__, "--indices", f"{at}:{self.step}", "--samples", str(self.options.samples)]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            alarm, running = None, {"begin": at, "name": f"entry {at}"}
            for line in process.stdout:
                if not line.startswith("{"):
                    continue
                if alarm:
                    alarm.cancel()
                alarm = threading.Timer(self.options.still, process.kill)
                alarm.start()
                row = json.loads(line)
                if "begin" in row:
                    running = row
                else:
                    self.rows.append(row)
                    if self.options.json:
                        with self.options.json.open("a") as file:
                            file.write(line)
            code = process.wait()
            if alarm:
                alarm.cancel()
            if code:
                self.rows.append({"name": running["name"], "outcomes": ["fails"], "details": [f"the worker ended with {code}"], "seconds": 0})
            at = running["begin"] + self.step if code else None


def worst(outcomes):
    return max(outcomes, key=list(OUTCOMES).index)


def read_known():
    """entry -> (outcome, reason)"""
    known = {}
    for number, line in enumerate(KNOWN.read_text().splitlines() if KNOWN.exists() else [], 1):
        if line and not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != 3 or fields[1] not in OUTCOMES:
                sys.exit(f"{KNOWN.name}:{number}: entry, outcome and reason, with tabs between")
            known[fields[0]] = (fields[1], fields[2])
    return known


def write_known(different, known):
    lines = [
        "# Where Tern's decomposition to core ATen differs from PyTorch's: OpInfo's entry, outcome, reason (tabs between).",
        "# Kept by tests/conformance/decompositions.py, which fails when a listed one agrees and when an unlisted one differs.",
        "# A reason that begins with ? was measured and not yet judged; the run fails on it.",
    ]
    for name in sorted(different):
        outcome, details = different[name]
        reason = known[name][1] if name in known and known[name][0] == outcome else "? " + "; ".join(details)[:240]
        lines.append(f"{name}\t{outcome}\t{reason}")
    KNOWN.write_text("\n".join(lines) + "\n")


def table_of(rows):
    entries = collections.Counter(worst(row["outcomes"]) for row in rows)
    samples = collections.Counter(outcome for row in rows for outcome in row["outcomes"])
    lines = ["| outcome | what it means | entries | samples |", "|---|---|---|---|"]
    for outcome, what in OUTCOMES.items():
        lines.append(f"| {outcome} | {what} | {entries[outcome]} | {samples[outcome]} |")
    return lines + [f"| | all | {sum(entries.values())} | {sum(samples.values())} |"]


def write_report(rows, skipped, known):
    lines = [
        "# Decompositions beside PyTorch's",
        "",
        "Written by `make conformance` ([tests/conformance/decompositions.py](../tests/conformance/decompositions.py)). Samples of PyTorch's OpInfo database,",
        "exported by `torch.export` and decomposed to core ATen by both libraries; PyTorch loads and runs what Tern wrote. An entry counts as its worst sample.",
        f"PyTorch itself cannot export the samples of {skipped} further entries.",
        "",
        *table_of(rows),
        "",
        "What differs, and why ([known_decompositions.txt](../tests/conformance/known_decompositions.txt)):",
        "",
        "| entry | outcome | reason |",
        "|---|---|---|",
        *(f"| {name} | {outcome} | {reason.replace('|', chr(92) + '|')} |" for name, (outcome, reason) in sorted(known.items())),
        "",
    ]
    REPORT.write_text("\n".join(lines))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--accept", action="store_true", default=os.environ.get("TERN_ACCEPT") == "1")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--samples", type=int, default=None, help="of an entry, evenly among all; known_decompositions.txt is for one, from their middle")
    parser.add_argument("--still", type=int, default=120, help="seconds after which an entry hangs")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path, help="a file to which every row is added, for a closer look")
    parser.add_argument("--indices", default="", help="of a worker: first:step of the entries")
    options = parser.parse_args()
    options.samples = options.samples or 1
    options.jobs = options.jobs or (1 if options.quick else min(2, os.cpu_count() or 1))
    return options


def main():
    options = parse_options()
    if options.indices or options.only:
        work(options)
        return 0
    start = time.monotonic()
    step = options.jobs * (QUICK_STEP if options.quick else 1)
    shards = [Shard(i, step, options) for i in range(options.jobs)]
    for shard in shards:
        shard.start()
    for shard in shards:
        shard.join()
    rows = sorted((row for shard in shards for row in shard.rows), key=lambda row: row["name"])
    skipped, rows = sum(not row["outcomes"] for row in rows), [row for row in rows if row["outcomes"]]
    different = {row["name"]: (worst(row["outcomes"]), row["details"]) for row in rows if worst(row["outcomes"]) not in ("same", "set")}
    known = read_known()
    if options.accept and not options.quick:
        write_known(different, known)
        known = read_known()
    if not options.quick:
        write_report(rows, skipped, known)
    print("\n".join(table_of(rows)))
    print(f"decompositions: {len(rows)} entries, {len(different)} differ, in {time.monotonic() - start:.0f} s")

    complaints = []
    # One sample may agree where another one does not: a quick run says only what is new.
    new = [name for name, (outcome, _) in different.items() if name not in known or list(OUTCOMES).index(outcome) > list(OUTCOMES).index(known[name][0])]
    if new:
        complaints.append("these differ and are not in known_decompositions.txt:\n" + "\n".join(f"  {name} ({different[name][0]}): {'; '.join(different[name][1])}" for name in new))
    if not options.quick:
        gone = sorted(name for name, (outcome, _) in known.items() if name not in different or different[name][0] != outcome)
        if gone:
            complaints.append("these agree now, or differ less: correct known_decompositions.txt:\n" + "\n".join(f"  {name}" for name in gone))
    unjudged = sorted(name for name, (_, reason) in known.items() if reason.startswith("?"))
    if unjudged:
        complaints.append(f"{len(unjudged)} known differences have no reason yet, first {unjudged[0]}")
    if not rows:
        complaints.append("nothing was compared")
    print("\n".join(complaints) or "decompositions: ok")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
