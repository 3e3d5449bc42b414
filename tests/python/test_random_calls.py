"""Every operator takes random arguments without ending the process (fuzz/operators.py, a few calls of each)."""

import os
import pathlib
import subprocess
import sys

FUZZER = pathlib.Path(__file__).parents[2] / "fuzz" / "operators.py"


def run(*options):
    """Sizes of billions are asked for: a limit refuses them, whatever the machine has. A sanitizer has one of its own."""
    environment = dict(os.environ)
    if "asan" in environment.get("LD_PRELOAD", ""):
        environment["ASAN_OPTIONS"] += ":max_allocation_size_mb=6144"
        options += ("--memory", "0")
    return subprocess.run([sys.executable, "-W", "ignore", FUZZER, *options], capture_output=True, text=True, env=environment)


def test_operators_refuse_or_compute():
    done = run("--calls", "2", "--seed", "5", "--seconds", "20")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 2000, done.stdout


def test_a_name_that_no_operator_has_is_a_finding():
    assert run("nobody").returncode == 1
