#!/usr/bin/env python3
"""make zoo-pt: TorchScript files of real architectures through Tern, and back through PyTorch.

The files that FOLDER does not have yet are made by make.py of the zoo (--make says where it is). For each architecture:
  loaded        tern info reads it
  interpreter   tern run --backend interpreter gives the numbers of eager mode
  native        tern run --backend native does; a * says that the graph was walked, not planned
  saved         tern convert writes it as .pt again, and torch.jit.load gives the numbers of eager mode
  onnx, pt2     tern convert with the sizes it was traced with; ONNX Runtime and torch.export give those numbers
Numbers are equal within 1e-4 of the largest output (of 1 where that is smaller). Where they are not, the model is run in double
precision by PyTorch: a ~ says that the result is no farther from that than twice what PyTorch's own float32 is.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import warnings

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
ONE_AT_A_TIME = threading.Lock()  # torch.export.load keeps its state in a global
COLUMNS = ["loaded", "interpreter", "native", "saved", "onnx", "pt2"]


def main():
    options = parse_arguments()
    if options.make_with:
        command = [options.make_with, options.make, options.folder, "--formats", "pt"]
        subprocess.run(command + (["--only", ",".join(options.only)] if options.only else []), check=True, stdout=subprocess.DEVNULL)
    names = options.only or sorted(path.parent.name for path in options.folder.glob("*/meta.json"))
    results = {}
    names = [name for name in names if (options.folder / name / "model.pt").exists()]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, outcomes in zip(names, pool.map(lambda name: check(options.folder / name, options), names)):
            results[name] = outcomes
            marks = " ".join(f"{column} {outcome.mark:6}" for column, outcome in outcomes.items())
            print(f"{name:30} {marks}", flush=True)
            for column, outcome in outcomes.items():
                if outcome.error:
                    print(f"    {column}: {outcome.error}")
    print(summary(results, options.columns))
    if options.table:
        options.table.write_text(table(results, options.columns))
    sys.exit(any(not outcome.mark.startswith("ok") for outcomes in results.values() for outcome in outcomes.values()))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where the files are, or are made")
    parser.add_argument("--tern", type=pathlib.Path, default=ROOT / "build" / "release" / "tern", help="the command")
    parser.add_argument("--make", type=pathlib.Path, default=ROOT.parent / "shared" / "zoo" / "make.py", help="the zoo's make.py")
    parser.add_argument("--make-with", type=pathlib.Path, help="a Python with requirements-zoo.txt; without it nothing is made")
    parser.add_argument("--only", type=lambda text: text.split(","), help="names, separated by commas")
    parser.add_argument("--columns", type=lambda text: text.split(","), default=COLUMNS, help="some of " + ",".join(COLUMNS))
    parser.add_argument("--jobs", type=int, default=1, help="architectures at a time")
    parser.add_argument("--table", type=pathlib.Path, help="a Markdown file to write")
    return parser.parse_args()


Outcome = collections.namedtuple("Outcome", "mark error")
GOOD = Outcome("ok", "")


def check(folder, options):
    """The outcome of every column for one architecture."""
    inputs = [array for _, array in sorted_arrays(folder / "inputs.npz")]
    expected = [array for _, array in sorted_arrays(folder / "outputs.npz")]
    keywords = [i["name"] for i in json.loads((folder / "meta.json").read_text())["inputs"] if i["keyword"]]
    model = folder / "model.pt"
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)

        def tern(*arguments):
            try:
                return subprocess.run([options.tern, *arguments], capture_output=True, text=True, errors="replace", timeout=600)
            except subprocess.TimeoutExpired:
                return subprocess.CompletedProcess(arguments, 9, "", "no answer within ten minutes")

        def judged(got):
            outcome = equal(got, expected)
            return outcome if outcome == GOOD else by_double_precision(outcome, model, inputs, got, expected)

        def run_with(backend):
            done = tern("run", model, "--backend", backend, "--input", folder / "inputs.npz", "--output", scratch / "out.npz")
            if done.returncode:
                return Outcome("fails", said(done))
            got = [array for _, array in sorted_arrays(scratch / "out.npz")]
            outcome = judged(got)
            walked = [line for line in done.stdout.splitlines() if line.startswith("note:")]
            return Outcome("ok*", walked[0]) if outcome == GOOD and walked else outcome

        def converted(ending, run):
            done = tern("convert", model, scratch / f"back.{ending}", "--input", folder / "inputs.npz")
            if done.returncode:
                return Outcome("fails", said(done))
            try:
                return judged(run(scratch / f"back.{ending}", inputs, keywords))
            except Exception as error:
                return Outcome("unread", f"{type(error).__name__}: {error}".splitlines()[0][:300])

        def loaded():
            done = tern("info", model)
            return Outcome("fails", said(done)) if done.returncode else GOOD

        columns = {
            "loaded": loaded,
            "interpreter": lambda: run_with("interpreter"),
            "native": lambda: run_with("native"),
            "saved": lambda: converted("pt", run_pt),
            "onnx": lambda: converted("onnx", run_onnx),
            "pt2": lambda: converted("pt2", run_pt2),
        }
        return {column: columns[column]() for column in options.columns}


def said(done):
    return (done.stderr.strip() or done.stdout.strip() or f"ended with {done.returncode}").splitlines()[0][:300]


def sorted_arrays(path):
    with numpy.load(path) as file:
        return [(name, file[name]) for name in sorted(file.files, key=lambda name: int(name.rsplit("_", 1)[1]))]


def equal(got, expected):
    if len(got) != len(expected):
        return Outcome("differs", f"{len(got)} outputs instead of {len(expected)}")
    for number, (a, b) in enumerate(zip(got, expected)):
        if a.shape != b.shape:
            return Outcome("differs", f"output {number} has the shape {a.shape} instead of {b.shape}")
        if not b.size:
            continue
        a, b = a.astype(numpy.complex128), b.astype(numpy.complex128)
        finite = numpy.isfinite(b)
        if not numpy.array_equal(numpy.nan_to_num(a[~finite], nan=7), numpy.nan_to_num(b[~finite], nan=7)):
            return Outcome("differs", f"output {number}: infinities or NaN differ")
        if not finite.any():
            continue
        difference, size = abs(a[finite] - b[finite]).max(), max(1, abs(b[finite]).max())
        if not difference <= 1e-4 * size:
            return Outcome("differs", f"output {number} differs by {difference:.3g} where the largest is {size:.3g}")
    return GOOD


def by_double_precision(outcome, model, inputs, got, expected):
    """A model so ill-conditioned that PyTorch's own float32 is off is not held to 1e-4."""
    import torch

    if [a.shape for a in got] != [b.shape for b in expected]:
        return outcome
    try:
        with torch.no_grad():
            doubles = [torch.from_numpy(a.astype(numpy.float64) if a.dtype == numpy.float32 else a.copy()) for a in inputs]
            exact = leaves(torch.jit.load(str(model)).double()(*doubles))
    except RuntimeError:  # a dtype that the trace has fixed
        return outcome
    for a, b, c in zip(got, expected, exact):
        if a.size and not abs(a - c).max() <= max(2 * abs(b - c).max(), 1e-4 * max(1, abs(c).max())):
            return outcome
    return Outcome("ok~", "")


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value.detach().numpy()] if hasattr(value, "detach") else []


def run_pt(path, inputs, keywords):
    import torch

    module = torch.jit.load(str(path))
    with torch.no_grad():
        return leaves(module(*[torch.from_numpy(array.copy()) for array in inputs]))


def run_pt2(path, inputs, keywords):
    import torch

    with ONE_AT_A_TIME, torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return leaves(torch.export.load(path).module()(*[torch.from_numpy(array.copy()) for array in inputs]))


def run_onnx(path, inputs, keywords):
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: array for i, array in zip(session.get_inputs(), inputs)})


def summary(results, columns):
    parts = [f"{len(results)} files"]
    for column in columns:
        count = sum(results[name][column].mark.startswith("ok") for name in results)
        parts.append(f"{column} {count}")
    walked = sum(outcomes["native"].mark == "ok*" for outcomes in results.values() if "native" in outcomes)
    return ", ".join(parts) + f" ({walked} walked by the native engine)"


def table(results, columns):
    lines = [
        "# The zoo",
        "",
        "Written by `make zoo-pt` (tests/zoo/run.py): TorchScript files of real architectures, traced by PyTorch 2.13 from transformers, timm,",
        "torchvision and plain `torch.nn`, tiny and with random weights. Each is read and run by Tern in the interpreter and on the native",
        "engine, saved as `.pt` again and loaded by `torch.jit.load`, and converted to `.onnx` (run by ONNX Runtime) and `.pt2` (run by",
        "`torch.export`). `ok`: the numbers of eager mode, within 1e-4 of the largest output. `ok*`: the native engine walked the graph node by",
        "node because a size in it depends on data. `ok~`: farther off, but as near to double precision's numbers (within a factor of two) as",
        "PyTorch's own float32 is: the model is ill-conditioned.",
        "",
        f"**{summary(results, columns)}.**",
        "",
        "| architecture | " + " | ".join(columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for name, outcomes in results.items():
        lines.append(f"| {name} | " + " | ".join(outcomes[column].mark for column in columns) + " |")
    problems = collections.Counter()
    for outcomes in results.values():
        for column in columns:
            if outcomes[column].error and outcomes[column].mark != "ok*":
                problems[f"{column}: {general(outcomes[column].error)}"] += 1
    if problems:
        lines += ["", "What is missing, by reason:", ""]
        lines += [f"- {count} × {text}" for text, count in problems.most_common()]
    return "\n".join(lines) + "\n"


def general(text):
    """The reason without what differs from file to file."""
    words = [word for word in text.replace("|", "/").split() if "code/__torch__" not in word and not word.startswith("(%")]
    return " ".join(word for word in words if "/tmp" not in word and "model.pt" not in word)[:200]


if __name__ == "__main__":
    main()
