"""make bench: Tern beside PyTorch 2.13 and ONNX Runtime, asked in turns in one run; the least time of several rounds counts."""

import logging
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import torch

warnings.filterwarnings("ignore")  # PyTorch's remarks on what is deprecated or not installed would bury the table
logging.disable(logging.WARNING)

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "release")
ROUNDS = 5


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = torch.nn.Linear(8, 32), torch.nn.Linear(32, 32), torch.nn.Linear(32, 1)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class Block(torch.nn.Module):
    def __init__(self, inp, out, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inp, out, 3, stride, 1, bias=False)
        self.conv2 = torch.nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = torch.nn.BatchNorm2d(out), torch.nn.BatchNorm2d(out)
        self.shortcut = torch.nn.Sequential()
        if stride != 1 or inp != out:
            self.shortcut = torch.nn.Sequential(torch.nn.Conv2d(inp, out, 1, stride, bias=False), torch.nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + self.shortcut(x))


class ResNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1, self.pool = torch.nn.Conv2d(3, 16, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(16), torch.nn.MaxPool2d(2)
        self.layer1, self.layer2 = Block(16, 16, 1), Block(16, 32, 2)
        self.average, self.fc = torch.nn.AdaptiveAvgPool2d(1), torch.nn.Linear(32, 4)

    def forward(self, x):
        x = self.layer2(self.layer1(self.pool(torch.relu(self.bn1(self.conv1(x))))))
        return self.fc(self.average(x).flatten(1))


class EncoderBlock(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x, padding):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = torch.nn.Embedding(20, 32), torch.nn.Embedding(64, 32)
        self.blocks = torch.nn.ModuleList([EncoderBlock(32, 4), EncoderBlock(32, 4)])
        self.norm, self.head = torch.nn.LayerNorm(32), torch.nn.Linear(32, 20)

    def forward(self, x, padding):
        y = self.tokens(x) + self.positions(torch.arange(x.size(1)))
        for block in self.blocks:
            y = block(y, padding)
        return self.head(self.norm(y))


def models():
    dim = torch.export.Dim
    yield "mlp", MLP(), (torch.randn(4, 8),), ({0: dim("batch", max=4096)},)
    yield "resnet", ResNet(), (torch.randn(4, 3, 16, 16),), ({0: dim("batch", max=256)},)
    batch, length = dim("batch", max=256), dim("length", max=64)
    yield "transformer", Transformer(), (torch.randint(20, (3, 7)), torch.zeros(3, 7, dtype=torch.bool)), ({0: batch, 1: length},) * 2


def seconds(f, count):
    f()
    start = time.perf_counter()
    for _ in range(count):
        f()
    return (time.perf_counter() - start) / count


def main():
    server = subprocess.Popen([BUILD / "bench" / "house"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)

    def tern(name, count):
        server.stdin.write(f"{name} {count}\n")
        server.stdin.flush()
        return float(server.stdout.readline())

    def row(what, ours, theirs, rival, goal, rounds=ROUNDS):
        best = [min(t) for t in zip(*[(ours(), theirs() if theirs else float("nan")) for _ in range(rounds)])]
        ratio = f"{best[1] / best[0]:9.1f}x" if theirs else "         -"
        print(f"{what:34} {best[0] * 1e6:14.3f} {best[1] * 1e6:14.3f} {ratio}  {rival:12} {goal}", flush=True)

    print(f"{'':34} {'Tern, us':>14} {'other, us':>14} {'ratio':>10}  {'other':12} goal")
    a, b = torch.ones(4), torch.ones(4)
    # What takes little: many short rounds, so that some fall between what else the machine does.
    row("add of 4 floats", lambda: tern("add4", 20000), lambda: seconds(lambda: torch.add(a, b), 5000), "PyTorch", "<= 0.1 us", 50)
    for nodes, goal in ((1, "<= 0.35 us"), (10, "<= 0.8 us")):
        row(f"Session::run of {nodes} tiny nodes", lambda: tern(f"session{nodes}", 5000), None, "", goal, 50)
    with tempfile.TemporaryDirectory() as folder:
        for name, net, args, dynamic in models():
            net.eval()
            with torch.no_grad():
                row(f"trace {name}", lambda: tern(f"trace_{name}", 20), lambda: seconds(lambda: torch.jit.trace(net, args, check_trace=False), 1), "PyTorch", ">= 50x", 20)
            row(f"export {name}", lambda: tern(f"export_{name}", 50), lambda: seconds(lambda: torch.export.export(net, args, dynamic_shapes=dynamic), 1), "PyTorch", ">= 50x")
            onnx = lambda: torch.onnx.export(net, args, f"{folder}/{name}.onnx", dynamo=True, dynamic_shapes=dynamic, verbose=False)
            row(f"ONNX export {name}", lambda: tern(f"onnx_{name}", 20), lambda: seconds(onnx, 1), "PyTorch", ">= 50x")
            row(f"inference {name}", lambda: tern(f"run_native_{name}", 2000), lambda: tern(f"run_onnxrt_{name}", 2000), "ONNX Runtime", ">= 1x")
        net, args = MLP().eval(), (torch.randn(4, 8),)
        torch.export.save(torch.export.export(net, args), f"{folder}/net.pt2")
        script = f"import torch; p = torch.export.load('{folder}/net.pt2'); torch.onnx.export(p, (), '{folder}/t.onnx', dynamo=True, verbose=False)"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        row(".pt2 to .onnx, a whole process", lambda: seconds(lambda: subprocess.run([BUILD / "tern", "convert", f"{folder}/net.pt2", f"{folder}/net.onnx"], check=True, **quiet), 5),
            lambda: seconds(lambda: subprocess.run([sys.executable, "-c", script], check=True, **quiet), 1), "PyTorch", ">= 100x")
        row("start-up of the command", lambda: seconds(lambda: subprocess.run([BUILD / "tern", "--version"], check=True, **quiet), 20), None, "", "<= 10 ms")
    server.stdin.close()
    server.wait()
    print("\nThe IR at 10^4, 10^5 and 10^6 nodes:")
    subprocess.run([BUILD / "bench" / "ir_bench", "--benchmark_counters_tabular=true"], check=True)


if __name__ == "__main__":
    main()
