#!/usr/bin/env python3
"""make modules-pt: TorchScript files of everything in PyTorch's own test databases, through Tern and back.

A case (cases.py) is scripted, traced, frozen and optimised for inference by PyTorch; each file goes through the stages of stages.py. What PyTorch refuses is
skipped. Failures are printed by cause; --table writes them to a file, case by case. A crash is a failure of the stage it happened in, the next case goes on.
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
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("TERN_BUILD_DIR", ROOT / "build" / "release"))
KINDS = ("module", "old", "functional", "operator", "method", "traced", "quantized", "written")
VARIANTS = ("script", "trace", "frozen", "inference")
STAGES = ("load", "call", "gradient", "native", "saved", "code", "pt2", "onnx")


def main():
    options = parse_arguments()
    if options.from_index is not None:
        return work(options)
    counts, failures, begun = collections.Counter(), [], time.time()
    at = 0
    while at is not None:
        at = watch(options, at, counts, failures)
    print(summary(counts, failures, time.time() - begun))
    if options.table:
        options.table.write_text("".join("\t".join(row) + "\n" for row in failures))
    for (stage, cause), rows in sorted(by_cause(failures).items(), key=lambda item: -len(item[1])):
        print(f"{len(rows):5} {stage:9} {cause}\n                  {', '.join(dict.fromkeys(row[0] for row in rows[:4]))}")
    sys.exit(bool(failures))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: tuple(text.split(","))
    parser.add_argument("--kinds", type=words, default=KINDS, help="some of " + ",".join(KINDS))
    parser.add_argument("--variants", type=words, default=VARIANTS, help="some of " + ",".join(VARIANTS))
    parser.add_argument("--stages", type=words, default=STAGES, help="some of " + ",".join(STAGES))
    parser.add_argument("--only", type=re.compile, default=re.compile(""), help="a regular expression that the case's name holds")
    parser.add_argument("--every", type=int, default=1, help="each so-many-th case")
    parser.add_argument("--samples", type=int, default=3, help="of an operator")
    parser.add_argument("--most", type=int, default=1000, help="inputs of a module")
    parser.add_argument("--table", type=pathlib.Path, help="where failures go, case by case")
    parser.add_argument("--from-index", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def watch(options, at, counts, failures):
    """Reads what one worker says; gives where the next one is to begin after a crash."""
    command = [sys.executable, str(HERE / "run.py"), *sys.argv[1:], "--from-index", str(at)]
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "python"), OMP_NUM_THREADS=os.environ.get("OMP_NUM_THREADS", "1"))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
    current = None
    for line in process.stdout:
        if not line.startswith("{"):
            continue
        said = json.loads(line)
        if "begin" in said:
            current = said
        elif "refused" in said:
            counts["refused"] += 1
        elif said["outcome"] == "ok":
            counts[current["stage"]] += 1
        elif said["outcome"] == "fails":
            failures.append((current["name"], current["variant"], current["stage"], said["reason"]))
    if process.wait() == 0:
        return None
    if current is None:
        sys.exit(f"the worker ended with {process.returncode} before its first case: {' '.join(command)}")
    failures.append((current["name"], current["variant"], current["stage"], f"the worker ended with {process.returncode}"))
    return current["begin"] + 1


def work(options):
    """Runs the cases from an index on and says what happens, line by line."""
    import warnings

    warnings.simplefilter("ignore")
    sys.path.insert(0, str(HERE))
    from cases import cases
    from stages import known, run_case

    def say(**what):
        print(json.dumps(what), flush=True)

    for index, (name, make) in enumerate(chosen(cases(options.kinds, options.samples), options)):
        if index < options.from_index:
            continue
        for variant in options.variants:
            with tempfile.TemporaryDirectory() as folder:
                begin = lambda stage: say(begin=index, name=name, variant=variant, stage=stage)
                for stage, outcome, reason in run_case(make, variant, options.stages, pathlib.Path(folder), begin):
                    if stage == "make":
                        say(refused=reason)
                    else:
                        say(outcome="skipped" if outcome == "fails" and known(name, stage) else outcome, reason=reason)


def chosen(found, options):
    seen = collections.Counter()
    number = 0
    for name, make in found:
        of = name.rsplit("/", 1)[0] if name.startswith("module/") and not name.endswith("/train") else name.rsplit("/", 2)[0] if name.startswith("module/") else name
        seen[of] += 1
        if not options.only.search(name) or seen[of] > options.most:
            continue
        number += 1
        if number % options.every == 0:
            yield name, make


def summary(counts, failures, seconds):
    failed = collections.Counter(stage for _, _, stage, _ in failures)
    parts = [f"{stage} {counts[stage]} of {counts[stage] + failed[stage]}" for stage in STAGES if counts[stage] + failed[stage]]
    return f"{', '.join(parts)} ({seconds:.0f} s; PyTorch refuses {counts['refused']})"


def by_cause(failures):
    """Failures with the same words, numbers and names of values aside."""
    causes = collections.defaultdict(list)
    for row in failures:
        cause = re.sub(r"%[\w.]+|/\S+|\d+(\.\d+)?(e[-+]\d+)?", "_", row[3])[:160]
        causes[row[2], cause].append(row)
    return causes


if __name__ == "__main__":
    main()
