"""PyTorch's own modules as TorchScript files: read, called, differentiated, run, saved back, converted. A part of `make modules-pt` (tests/modules)."""

import pathlib
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxruntime")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "modules"))

from cases import cases  # noqa: E402
from stages import known, run_case  # noqa: E402

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
