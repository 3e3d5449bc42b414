"""Conformance of every operator with PyTorch: its samples along all routes, a report, and a ratchet.

    python tests/conformance/run.py            twelve samples of an entry in every dtype: `make conformance`
    python tests/conformance/run.py --quick    two samples of an entry in four dtypes: part of `make test`
    python tests/conformance/run.py --accept   writes known_differences.txt anew; a new line's reason is to be filled in

The run fails when something differs that known_differences.txt does not list, when a listed difference is gone (whole runs
only: a quick one sees too little to tell), and when a listed one has no reason. A crash of a worker is a difference of
what it was running; the worker starts again behind it. A whole run writes docs/conformance.md.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KNOWN = HERE / "known_differences.txt"
REPORT = ROOT / "docs" / "conformance.md"
ROUTES = "forward strides layouts noncontiguous out inplace fake symbolic gradient inplace_gradient inplace_double double python errors".split()
DTYPES = "any bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128".split()


class Shard(threading.Thread):
    """Runs every `step`-th entry; after a crash it takes up the entry again, without what crashed."""

    def __init__(self, first, step, options, environment, folder):
        super().__init__()
        self.first, self.step, self.options, self.environment = first, step, options, environment
        self.mark, self.skip = folder / f"mark{first}", folder / f"skip{first}"
        self.mark.write_bytes(b"\0" * 4096)
        self.skip.write_text("")
        self.rows, self.missing, self.seconds, self.errors, self.crashes, self.settled = [], collections.Counter(), [], [], [], 0

    def run(self):
        at = self.first
        while at is not None:
            at = self.run_worker(at)

    def run_worker(self, at):
        """Where to go on: None at the end."""
        command = [sys.executable, str(HERE / "worker.py"), "--indices", f"{at}:{self.step}", "--mark", str(self.mark), "--skip", str(self.skip),
                   "--samples", str(self.options.samples)] + (["--quick"] if self.options.quick else [])
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
        errors = []
        reader = threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True)
        reader.start()
        alarm = threading.Timer(self.options.still, process.kill)
        alarm.start()
        running = at
        for line in process.stdout:
            if not line.startswith("{"):
                continue
            entry = json.loads(line)
            alarm.cancel()
            alarm = threading.Timer(self.options.still, process.kill)
            alarm.start()
            if "begin" in entry:
                running = entry["begin"]
            else:
                self.rows += entry["rows"]
                self.missing.update(entry["missing"])
                self.settled += entry["settled"]
                self.seconds.append((entry["seconds"], entry["end"]))
                running = entry["end"] + self.step
                if len(self.seconds) % 50 == 0:
                    print(f"  shard {self.first}: {len(self.seconds)} entries", flush=True)
        code = process.wait()
        alarm.cancel()
        reader.join(5)
        if code == 0:
            return None
        what = self.mark.read_bytes().rstrip(b"\0").decode()
        if not what or len(self.crashes) > 200:
            self.errors.append(f"a worker ended with {code} at entry {running}:\n{''.join(errors)[-3000:]}")
            return running + self.step if what == "" and len(self.errors) < 5 else None
        self.crashes.append(what)
        with self.skip.open("a") as file:
            file.write(what + "\n")
        said = next((f": {line.strip()}" for line in errors if "SUMMARY: " in line or "runtime error: " in line), "")  # a sanitizer
        self.rows.append([*what.split("\t"), 0, 1, f"the worker ended with {code}{said}" if code != -9 else f"no end after {self.options.still} s", ""])
        return running


def run_shards(options):
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    build = os.environ.get("TERN_BUILD_DIR", str(ROOT / "build" / "release"))
    environment["PYTHONPATH"] = os.pathsep.join([os.path.join(build, "python"), os.environ.get("PYTHONPATH", "")])
    with tempfile.TemporaryDirectory() as folder:
        shards = [Shard(i, options.jobs, options, environment, pathlib.Path(folder)) for i in range(options.jobs)]
        for shard in shards:
            shard.start()
        for shard in shards:
            shard.join()
    return shards


def read_known():
    """(operator, route) -> (dtypes, reason)"""
    known = {}
    for number, line in enumerate(KNOWN.read_text().splitlines() if KNOWN.exists() else [], 1):
        if line and not line.startswith("#"):
            fields = line.split("\t")
            if len(fields) != 4:
                sys.exit(f"{KNOWN.name}:{number}: operator, route, dtypes and reason, with tabs between")
            operator, route, dtypes, reason = fields
            for dtype in dtypes.split(","):
                known[operator, route, dtype] = reason
    return known


def write_known(failures, known):
    lines = collections.defaultdict(list)
    for (operator, route, dtype), reason in failures.items():
        lines[operator, route, known.get((operator, route, dtype), "? " + reason)].append(dtype)
    head = [
        "# Where Tern differs from PyTorch on OpInfo's samples: operator, route, dtypes, reason (tabs between).",
        "# Kept by tests/conformance/run.py, which fails when a listed one agrees and when an unlisted one differs.",
        "# A reason that begins with ? was measured and not yet judged; the run fails on it.",
    ]
    text = [f"{operator}\t{route}\t{','.join(sorted(dtypes, key=DTYPES.index))}\t{reason}" for (operator, route, reason), dtypes in sorted(lines.items())]
    KNOWN.write_text("\n".join(head + text) + "\n")


def write_report(passed, failed, missing, settled):
    def share(p, f):
        return f"{100 * p / (p + f):.2f} %" if p + f else "–"

    by_route = collections.defaultdict(lambda: [0, 0])
    table = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, 0]))
    for counts, side in ((passed, 0), (failed, 1)):
        for (operator, route, _), n in counts.items():
            by_route[route][side] += n
            table[operator][route][side] += n
    total_passed, total_failed = sum(passed.values()), sum(failed.values())
    lines = [
        "# Conformance with PyTorch",
        "",
        "Written by `make conformance`: PyTorch's own OpInfo samples, both libraries in one process. A sample of an operator is a call of its ATen overload,",
        "made by a sample of the database or underneath one; `tern.x` is the function as Python calls it. Known differences and their reasons are in",
        "[tests/conformance/known_differences.txt](../tests/conformance/known_differences.txt).",
        "",
        f"{len(table)} operators, {total_passed + total_failed} comparisons, {share(total_passed, total_failed)} agree. {settled} of those that agree differ by more than their",
        "tolerance, and Tern's are no farther from the same call in float64 than PyTorch's ([truth.py](../tests/conformance/truth.py)).",
        "",
        "| route | what is compared | samples | agree |",
        "|---|---|---|---|",
    ]
    what = {
        "forward": "values, shapes and dtypes, every dtype both support",
        "strides": "strides of the results",
        "layouts": "values and strides for images with their channels innermost, strides also from the shape rule alone",
        "noncontiguous": "the same with gaps and with reordered memory",
        "out": "`out=`: right shape, to be resized, with gaps; refused dtypes",
        "inplace": "the form with `_`",
        "fake": "the shape rule alone against the kernel",
        "symbolic": "symbolic sizes, evaluated at the sample's sizes and at others the guards allow",
        "gradient": "gradients of every floating-point argument",
        "inplace_gradient": "gradients through the form with `_`, on a whole tensor and through views",
        "inplace_double": "gradients of these gradients",
        "double": "gradients of the gradients",
        "python": "the Python function, overloads chosen by the arguments",
        "errors": "calls PyTorch refuses: refused, with a message that begins alike",
    }
    for route in ROUTES:
        p, f = by_route[route]
        lines.append(f"| {route} | {what[route]} | {p + f} | {share(p, f)} |")
    lines += ["", "A cell is the number of samples that agree; `7 of 9` where some differ.", "", "| operator | " + " | ".join(ROUTES) + " |", "|---" * (len(ROUTES) + 1) + "|"]
    for operator in sorted(table):
        cells = []
        for route in ROUTES:
            p, f = table[operator].get(route, (0, 0))
            cells.append(f"**{p} of {p + f}**" if f else str(p) if p else "")
        lines.append(f"| {operator} | " + " | ".join(cells) + " |")
    lines += ["", f"Operators underneath the database's samples that Tern does not have ({len(missing)}), by how often they are called:", "",
              ", ".join(f"{name.removeprefix('aten::')} ({n})" for name, n in missing.most_common()) + ".", ""]
    REPORT.write_text("\n".join(lines))


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--still", type=int, default=240, help="seconds without a word from a worker after which it hangs")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--accept", action="store_true", default=os.environ.get("TERN_ACCEPT") == "1")
    parser.add_argument("--jobs", type=int, default=None)
    parser.add_argument("--samples", type=int, default=12, help="of an entry and a dtype, evenly among all it has, 0 for all; known_differences.txt is for this number")
    parser.add_argument("--json", type=pathlib.Path, help="every row, for a closer look")
    options = parser.parse_args()
    options.jobs = options.jobs or (1 if options.quick else min(2, os.cpu_count() or 1))
    return options


def main():
    options = parse_options()
    start = time.monotonic()
    shards = run_shards(options)
    passed, failed, reasons, texts = collections.Counter(), collections.Counter(), {}, {}
    missing = collections.Counter()
    for shard in shards:
        missing.update(shard.missing)
        for operator, route, dtype, p, f, reason, text in shard.rows:
            key = operator, route, dtype
            passed[key] += p
            failed[key] += f
            if f:
                reasons.setdefault(key, reason)
                texts.setdefault(key, text)
    settled = sum(shard.settled for shard in shards)
    failures = {k: reasons[k] for k, n in failed.items() if n}
    total = sum(passed.values()) + sum(failed.values())
    print(f"conformance: {total} comparisons of {len({k[0] for k in passed | failed})} operators, {sum(failed.values())} differ "
          f"({100 * sum(passed.values()) / max(total, 1):.2f} % agree) in {time.monotonic() - start:.0f} s")
    if options.json:
        options.json.write_text(json.dumps({"failures": [[*k, passed[k], failed[k], reasons[k], texts[k]] for k in sorted(failures)],
                                            "seconds": sorted((s for shard in shards for s in shard.seconds), reverse=True)[:40], "missing": missing.most_common()}, indent=0))
    known = read_known()
    if options.accept and not options.quick:
        write_known(failures, known)
        known = read_known()
    if not options.quick:
        write_report(passed, failed, missing, settled)

    complaints = [error for shard in shards for error in shard.errors]
    new = sorted(k for k in failures if k not in known)
    if new:
        complaints.append("these differ and are not in known_differences.txt:\n" + "\n".join(f"  {' '.join(k)}: {failures[k]}\n      {texts[k]}" for k in new))
    if not options.quick:
        gone = sorted(k for k in known if k not in failures)
        if gone:
            complaints.append("these agree now: remove them from known_differences.txt:\n" + "\n".join("  " + " ".join(k) for k in gone))
    unjudged = sorted(k for k, reason in known.items() if reason.startswith("?"))
    if unjudged:
        complaints.append(f"{len(unjudged)} known differences have no reason yet, first {' '.join(unjudged[0])}")
    if not sum(passed.values()):
        complaints.append("nothing was compared")
    print("\n".join(complaints) or "conformance: ok")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
