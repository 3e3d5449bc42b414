"""Every operator takes random arguments without ending the process (fuzz/operators.py, a few calls of each)."""

import pathlib
import subprocess
import sys

FUZZER = pathlib.Path(__file__).parents[2] / "fuzz" / "operators.py"


def run(*options):
    return subprocess.run([sys.executable, "-W", "ignore", FUZZER, *options], capture_output=True, text=True)


def test_operators_refuse_or_compute():
    done = run("--calls", "2", "--seed", "5", "--seconds", "20", "--memory", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[0]) > 2000, done.stdout


def test_a_name_that_no_operator_has_is_a_finding():
    assert run("nobody").returncode == 1
