"""Programs of PyTorch with open sizes, for other sizes than their example's: run as loaded, decomposed, and as ONNX."""

import os
import pathlib
import subprocess

import pytest

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")

import torch.nn.functional as F  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import tern  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(os.environ.get("TERN_BUILD_DIR", ROOT / "build" / "release")) / "tern"


class Made(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *args):
        return self.f(*args)


def exported(f, args, dims, tmp_path):
    """What PyTorch exports, saved in m.pt2; `dims` are the open dims of the first argument."""
    shapes = ({d: Dim(name, min=4, max=64) for d, name in dims.items()}, *[None] * (len(args) - 1))
    program = torch.export.export(Made(f).eval(), args, dynamic_shapes=(shapes,))
    torch.export.save(program, tmp_path / "m.pt2")
    return program.module()


def close(got, want, what, tolerance=1e-5):
    want = tree_leaves(want)
    assert len(got) == len(want), what
    for g, w in zip(got, want):
        g = torch.from_numpy(g)
        assert (g.shape, g.dtype) == (w.shape, w.dtype), what
        torch.testing.assert_close(g, w, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m: f"{what}: {m}")


def check_run(f, runs, dims, tmp_path, tolerance=1e-5):
    module = exported(f, runs[0], dims, tmp_path)
    program = tern.load(str(tmp_path / "m.pt2"))
    for what, p in (("as loaded", program), ("decomposed", program.run_decompositions())):
        for args in runs:
            got = [t.numpy() for t in p.run(*map(tern.from_dlpack, args))]
            close(got, module(*args), f"{what}, {[tuple(a.shape) for a in args]}", tolerance)


def check_onnx(f, runs, dims, tmp_path, tolerance=1e-5):
    module = exported(f, runs[0], dims, tmp_path)
    done = subprocess.run([COMMAND, "convert", tmp_path / "m.pt2", tmp_path / "m.onnx"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    for args in runs:
        got = session.run(None, {i.name: a.numpy() for i, a in zip(session.get_inputs(), args)})
        close(got, module(*args), f"ONNX, {[tuple(a.shape) for a in args]}", tolerance)


def matrices():
    torch.manual_seed(0)
    return [(torch.randn(5, 6),), (torch.randn(4, 7),), (torch.randn(6, 4),)]


def images():
    torch.manual_seed(0)
    return [(torch.randn(1, 2, 8, 8),), (torch.randn(1, 2, 11, 8),), (torch.randn(1, 2, 5, 8),)]


NUMBERS = {
    "div": lambda x: x.sum() / x.shape[0],
    "mul": lambda x: x.sum() * x.shape[0],
    "add": lambda x: x.sum() + x.shape[0],
    "rsub": lambda x: x.shape[0] - x.sum(),
    "half": lambda x: x.sum() * (x.shape[0] / 2),
    "kl_div": lambda x: F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean"),
    "cross_entropy": lambda x: F.cross_entropy(x, x.softmax(1)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_tensor_of_no_dimension_and_a_size_have_no_dimension(tmp_path, name):
    check_onnx(NUMBERS[name], matrices(), {0: "b", 1: "s"}, tmp_path)


SMOOTHED = {
    "classes": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.int64), label_smoothing=0.1),
    "probabilities": lambda x: F.cross_entropy(x, x.softmax(1), label_smoothing=0.1),
}


@pytest.mark.parametrize("name", SMOOTHED)
def test_label_smoothing_keeps_the_number_of_classes_open(tmp_path, name):
    check_run(SMOOTHED[name], matrices(), {0: "b", 1: "s"}, tmp_path)
    check_onnx(SMOOTHED[name], matrices(), {0: "b", 1: "s"}, tmp_path)


RESIZED = {
    "area, size": lambda x: F.interpolate(x, size=(5, 4), mode="area"),
    "bicubic, size": lambda x: F.interpolate(x, size=(5, 4), mode="bicubic"),
    "bicubic, aligned size": lambda x: F.interpolate(x, size=(5, 4), mode="bicubic", align_corners=True),
    "bicubic, aligned": lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic", align_corners=True),
    "bicubic, its own size": lambda x: F.interpolate(x[..., 1:], size=x.shape[2:], mode="bicubic"),
    "bilinear, aligned": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True),
    "nearest, size": lambda x: F.interpolate(x, size=(5, 4), mode="nearest"),
    "nearest-exact, size": lambda x: F.interpolate(x, size=(5, 4), mode="nearest-exact"),
}


@pytest.mark.parametrize("name", RESIZED)
def test_resizing_keeps_sizes_open(tmp_path, name):
    check_run(RESIZED[name], images(), {2: "h"}, tmp_path)
