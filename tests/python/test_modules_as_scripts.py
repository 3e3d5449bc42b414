"""PyTorch's own modules as TorchScript files: read, called, differentiated, run, saved back, converted. A part of `make modules-pt` (tests/modules).

Then all modules of tests/modules/written.py: what people write, in every variant and stage, and through the commands that show a file."""

import pathlib
import subprocess
import sys

import numpy
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "modules"))

from cases import cases  # noqa: E402
import tern  # noqa: E402
from stages import COMMAND, File, known, run_case  # noqa: E402
from written import written_modules  # noqa: E402

STAGES = ("load", "call", "gradient", "native", "saved")


def first_ones():
    """One input of every module, each fifth function, and two ways of quantizing some models."""
    seen = set()
    for name, make in cases(("module", "functional", "quantized")):
        kind, which, *rest = name.split("/")
        key = (which, rest[-1] if kind != "functional" else "")
        if key in seen:
            continue
        seen.add(key)
        if kind == "module" and rest[0] == "0" or kind == "functional" and int(which) % 5 == 0 or kind == "quantized" and rest[0] in ("static", "dynamic") and (which[0] in "AL" or which == "ModelWithFunctionals"):
            yield name, make


CASES = dict(first_ones())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("variant", ["script", "trace"])
@pytest.mark.parametrize("name", CASES)
def test_through_tern_and_back(name, variant, tmp_path):
    failures = [(stage, reason) for stage, outcome, reason in run_case(CASES[name], variant, STAGES, tmp_path) if outcome == "fails" and not known(name, stage)]
    assert not failures


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["module/nn.LSTMCell/0", "module/nn.GRUCell/0", "module/nn.Conv2d/0", "module/nn.BatchNorm2d/0/train", "module/nn.TransformerEncoderLayer/0",
                                  "quantized/AnnotatedConvBnModel/static", "quantized/ModelWithFunctionals/static"])
def test_converted(name, tmp_path):
    outcomes = {stage: (outcome, reason) for stage, outcome, reason in run_case(CASES[name], "trace", ("load", "pt2", "onnx"), tmp_path)}
    assert outcomes["load"][0] == "ok" and not [reason for outcome, reason in outcomes.values() if outcome == "fails"]


WRITTEN = dict(written_modules())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("variant", ["script", "trace", "frozen", "inference"])
@pytest.mark.parametrize("name", WRITTEN)
def test_written(name, variant, tmp_path):
    outcomes = list(run_case(WRITTEN[name], variant, (*STAGES, "pt2", "onnx") if variant == "script" else STAGES, tmp_path))
    if outcomes[0][0] == "make":
        assert variant != "script", outcomes[0][2]
        pytest.skip(outcomes[0][2].splitlines()[0])
    assert not [(stage, reason) for stage, outcome, reason in outcomes if outcome == "fails" and not known(name, stage)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WRITTEN)
def test_shown_by_the_command(name, tmp_path):
    file = File(WRITTEN[name], "script", tmp_path)
    for command, says in (("info", "forward"), ("code", "def forward("), ("graph", "graph(")):
        done = subprocess.run([COMMAND, command, file.path], capture_output=True, text=True)
        assert done.returncode == 0 and says in done.stdout, done.stderr


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, method, width", [("written/methods", "label", 4), ("written/preserved", "label", 4), ("written/trace_module", "encode", 4), ("written/trace_module", "decode", 3)])
def test_other_methods(name, method, width, tmp_path):
    file, x = File(WRITTEN[name], "script", tmp_path), torch.randn(3, width)
    numpy.save(tmp_path / "x.npy", x.numpy())
    tern.save(tern.load(file.path), str(tmp_path / "back.pt"))
    want = getattr(torch.jit.load(file.path), method)(x)
    for path in (file.path, tmp_path / "back.pt"):
        again = getattr(torch.jit.load(path), method)(x)
        done = subprocess.run([COMMAND, "run", path, "--method", method, "--input", f"input_0={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npz"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        if isinstance(want, torch.Tensor):
            assert torch.equal(again, want)
            (y,) = numpy.load(tmp_path / "y.npz").values()
            torch.testing.assert_close(torch.from_numpy(y), want)
        else:
            assert again == want and [line.split(": ")[1] for line in done.stdout.splitlines() if line.startswith("output_")] == [repr(word) for word in want]
