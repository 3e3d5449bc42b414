"""The net under every operator: OpInfo's samples against PyTorch, held to known_differences.txt as a ratchet.

The test fails when an operator that is not listed differs, and when a listed one no longer does. TERN_ACCEPT=1 rewrites the list.
"""

import json
import os
import pathlib
import subprocess
import sys
import threading

import pytest

pytest.importorskip("torch")

HERE = pathlib.Path(__file__).parent
KNOWN = HERE / "known_differences.txt"
WORKERS = 2
SECONDS = 170  # of one worker; the usual run takes less than half of it


def read_known():
    known = {}
    for line in KNOWN.read_text().splitlines() if KNOWN.exists() else []:
        if line and not line.startswith("#"):
            op, dtype, reason = line.split("\t", 2)
            known[op, dtype] = reason
    return known


def write_known(failures):
    head = "# Operators that differ from PyTorch on OpInfo's samples: operator, dtype, reason (tabs between). Written by TERN_ACCEPT=1.\n"
    KNOWN.write_text(head + "".join(f"{op}\t{dtype}\t{reason}\n" for (op, dtype), reason in sorted(failures.items())))


class Worker(threading.Thread):
    """Runs every WORKERS-th entry; after a crash it goes on behind the entry that crashed."""

    def __init__(self, first, environment):
        super().__init__()
        self.first, self.environment = first, environment
        self.results, self.crashes, self.slow, self.errors = [], [], [], []

    def run(self):
        at = self.first
        while at is not None:
            command = [sys.executable, str(HERE / "conformance.py"), "--indices", f"{at}:100000:{WORKERS}"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment)
            timer = threading.Timer(SECONDS, process.kill)
            timer.start()
            stderr = []
            reader = threading.Thread(target=lambda: stderr.extend(process.stderr), daemon=True)
            reader.start()
            running, name = None, None
            for line in process.stdout:
                entry = json.loads(line) if line.startswith("{") else {}
                if "begin" in entry:
                    running, name = entry["begin"], entry["name"]
                elif "end" in entry:
                    self.slow.append((entry["seconds"], entry["end"]))
                    running = None
                elif "op" in entry:
                    self.results.append(entry)
            code = process.wait()
            timer.cancel()
            if code == 0:
                return
            if running is None or not timer.is_alive() and code == -9:
                self.errors.append(f"worker ended with {code}: {''.join(stderr)[-2000:]}")
                return
            self.crashes.append((name, code))
            at = running + WORKERS


def test_operators_agree_with_pytorch():
    import tern

    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(pathlib.Path(tern.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]))
    environment.update(OMP_NUM_THREADS="1")
    workers = [Worker(i, environment) for i in range(WORKERS)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not [e for w in workers for e in w.errors]
    failures, passed = {}, set()
    for w in workers:
        for entry in w.results:
            key = entry["op"], entry["dtype"]
            if entry["reason"]:
                failures.setdefault(key, entry["reason"])
            else:
                passed.add(key)
        for name, code in w.crashes:
            failures[name, "any"] = f"crash: the worker ended with {code}"
    passed -= set(failures)
    print(f"\nconformance: {len(passed)} operator/dtype pairs agree, {len(failures)} differ")
    if os.environ.get("TERN_ACCEPT") == "1":
        write_known(failures)
    known = read_known()
    new = {k: v for k, v in failures.items() if k not in known}
    ran = {op for op, _ in passed}
    gone = sorted(k for k in known if k in passed or k not in failures and k[1] == "any" and k[0] in ran)
    assert not new, "these differ and are not in known_differences.txt:\n" + "\n".join(f"  {k[0]} {k[1]}: {v}" for k, v in sorted(new.items()))
    assert not gone, "these agree now: remove them from known_differences.txt:\n" + "\n".join(f"  {k[0]} {k[1]}" for k in gone)
    assert passed, "nothing was compared"
