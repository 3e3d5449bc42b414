"""make bench-jit: TorchScript in Tern beside PyTorch 2.13, asked in turns in one run; the least time of several rounds counts.

Tracing; loading a file (PyTorch from Python, as its users do); the first, the second and later calls of a loaded module; what a
node costs in the interpreter; compiling 1,000, 5,000 and 25,000 lines. The models are those of bench/run.py and, where build/zoo has
them (make zoo-pt), real ones.
"""

import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "release")
ROUNDS = 5
NODES = 200
REAL = ["bert", "llama", "resnet50", "vit", "whisper"]

sys.path.insert(0, str(ROOT / "bench"))
from run import models, seconds  # noqa: E402

warnings.filterwarnings("ignore")


class Chain(torch.nn.Module):
    """Many tiny operators: what is measured is what comes between them."""

    def forward(self, x):
        for _ in range(NODES):
            x = x.neg()
        return x


def long_source(lines):
    """One function of branches, arithmetic and a list that grows."""
    text = ["def f(x: int, l: List[int]) -> int:", "  y = x"]
    for k in range(lines // 5):
        text += [f"  if y > {k}:", "    y = y - 1", "  else:", "    y = y * 2 + l[0]", "  l.append(y)"]
    return "\n".join(text + ["  return y", ""])


def main():
    server = subprocess.Popen([BUILD / "bench" / "jit_bench"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    torch.set_num_threads(1)

    def tern(what, file, count):
        server.stdin.write(f"{what} {file} {count}\n")
        server.stdin.flush()
        return float(server.stdout.readline())

    def row(label, ours, theirs, goal, divide=1):
        best = [min(t) / divide for t in zip(*[(ours(), theirs()) for _ in range(ROUNDS)])]
        print(f"{label:34} {best[0] * 1e6:14.3f} {best[1] * 1e6:14.3f} {best[1] / best[0]:9.1f}x  {goal}", flush=True)

    def fresh(file, arguments, calls):
        """Seconds of the last of so many calls of a module that was just loaded."""
        module = torch.jit.load(file)
        for _ in range(calls - 1):
            module(*arguments)
        start = time.perf_counter()
        module(*arguments)
        return time.perf_counter() - start

    print(f"{'':34} {'Tern, us':>14} {'PyTorch, us':>14} {'ratio':>10}  goal")
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        files = []
        for name, net, arguments, _ in models():
            net.eval()
            row(f"trace {name}", lambda: tern("trace", name, 30), lambda: seconds(lambda: torch.jit.trace(net, arguments, check_trace=False), 2), ">= 20x")
            torch.jit.trace(net, arguments, check_trace=False).save(f"{folder}/{name}.pt")
            files.append((name, f"{folder}/{name}.pt", arguments))
        for name in REAL:
            path = ROOT / "build" / "zoo" / name
            if (path / "model.pt").exists():
                import numpy

                arrays = numpy.load(path / "inputs.npz")
                files.append((name, str(path / "model.pt"), [torch.from_numpy(arrays[f"input_{i}"]) for i in range(len(arrays.files))]))
        for name, file, arguments in files:
            row(f"load {name}", lambda: tern("load", file, 10), lambda: seconds(lambda: torch.jit.load(file), 3), ">= 20x")
            row(f"first call {name}", lambda: tern("first", file, 1), lambda: fresh(file, arguments, 1), "")
            row(f"second call {name}", lambda: tern("second", file, 1), lambda: fresh(file, arguments, 2), "")
            warm = torch.jit.load(file)
            for _ in range(5):
                warm(*arguments)
            row(f"later calls {name}", lambda: tern("call", file, 20), lambda: seconds(lambda: warm(*arguments), 20), "")
            row(f"later calls {name}, native", lambda: tern("native", file, 20), lambda: seconds(lambda: warm(*arguments), 20), "")
        x = torch.ones(4)
        torch.jit.trace(Chain(), x).save(f"{folder}/chain.pt")
        chain = torch.jit.load(f"{folder}/chain.pt")
        for _ in range(5):
            chain(x)
        row("interpreter, a node", lambda: tern("call", f"{folder}/chain.pt", 500), lambda: seconds(lambda: chain(x), 200), "", NODES)
        print("\nCompiling a script (linear: the time a line is what stays the same)")
        print(f"{'':34} {'Tern, us':>14} {'ns a line':>14} {'PyTorch, us':>14} {'ratio':>10}")
        for lines in (1000, 5000, 25000):
            source = long_source(lines)
            pathlib.Path(f"{folder}/long.py").write_text(source)
            ours = min(tern("compile", f"{folder}/long.py", 3) for _ in range(ROUNDS))
            theirs = None
            if lines <= 5000:  # PyTorch is not linear here: 25,000 lines take minutes
                start = time.perf_counter()
                torch.jit.CompilationUnit(source)
                theirs = time.perf_counter() - start
            beside = f"{theirs * 1e6:14.0f} {theirs / ours:9.1f}x" if theirs else f"{'-':>14} {'-':>10}"
            print(f"{f'compile {lines} lines':34} {ours * 1e6:14.0f} {ours / lines * 1e9:14.0f} {beside}", flush=True)
    server.stdin.close()
    server.wait()
    script = BUILD / "bench" / "script_bench"
    if script.exists():
        print("\nThe script compiler and the interpreter alone:", flush=True)
        subprocess.run([script, "--benchmark_counters_tabular=true"], check=True)


if __name__ == "__main__":
    main()
