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
    "area, twice": lambda x: F.interpolate(x, scale_factor=2.0, mode="area"),
    "area, half": lambda x: F.interpolate(x, scale_factor=0.5, mode="area"),
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


FACTORS = {
    "bilinear": lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "nearest": lambda x: F.interpolate(x, scale_factor=0.57, mode="nearest"),
    "area": lambda x: F.interpolate(x, scale_factor=1.7, mode="area"),
}


@pytest.mark.parametrize("name", FACTORS)
def test_factors_that_are_no_binary_fractions(tmp_path, name):
    check_run(FACTORS[name], images(), {2: "h"}, tmp_path)
    tern.save(tern.load(str(tmp_path / "m.pt2")), str(tmp_path / "again.pt2"))
    again = torch.export.load(tmp_path / "again.pt2").module()
    for args in images():
        torch.testing.assert_close(again(*args), FACTORS[name](*args))


FLOATS = {
    "half": lambda x: x.sum() * (x.shape[0] / 2),
    "root": lambda x: x * x.shape[0] ** 0.5,
    "integers": lambda x: (x > 0).sum() * (x.shape[0] / 2),
}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_made_of_sizes_keep_them_open(tmp_path, name):
    check_run(FLOATS[name], matrices(), {0: "b", 1: "s"}, tmp_path)
    check_onnx(FLOATS[name], matrices(), {0: "b", 1: "s"}, tmp_path)


LOWERED = {
    "softplus": lambda x: F.softplus(x, beta=2, threshold=1),
    "eye": lambda x: torch.eye(x.shape[0]) @ x,
    "select_scatter": lambda x: torch.select_scatter(x, x[:, 1] * 2, 1, 0),
    "select_scatter, last": lambda x: torch.select_scatter(x, x[:, 1] * 2, 1, -1),
    "slice_scatter": lambda x: torch.slice_scatter(x, x[:, :2] * 2, 1, 1, 3),
    "unfold": lambda x: x.unfold(1, 3, 1),
    "unfold, first": lambda x: x.unfold(0, 2, 1),
    "diagonal": lambda x: (torch.diagonal(x), torch.diagonal(x, 1), torch.diagonal(x, -2)),
    "cumprod": lambda x: (x.cumprod(0), x.cumprod(1), (x * 3).long().cumprod(1)),
    "atan2": lambda x: torch.atan2(x, x.flip(0)),
    "atan2, axes": lambda x: torch.atan2(x.sign(), x.flip(0).sign() * (x.flip(0).abs() > 1)),
    "hypot": lambda x: torch.hypot(x, x.flip(0)),
    "fmax": lambda x: (torch.fmax(x.log(), x), torch.fmin(x, x.log()), torch.fmax(x.long(), x.flip(0).long())),
    "shifts": lambda x: ((x * 99).long() << 3, (x * 99).long() >> 2, (x * 99).int() >> x.abs().int()),
    "index_add": lambda x: x.index_add(0, torch.tensor([0, 2, 0]), x[:3], alpha=2),
    "scatter_reduce": lambda x: [
        torch.scatter_reduce(x, 0, (x[:3] > 0).long(), x[1:4], how, include_self=False) for how in ("sum", "prod", "amax", "amin")
    ],
    "kthvalue": lambda x: (*x.kthvalue(2, 1), *x.kthvalue(3, 0, keepdim=True)),
}


@pytest.mark.parametrize("name", LOWERED)
def test_operators_become_onnx_with_open_sizes(tmp_path, name):
    check_onnx(LOWERED[name], matrices(), {0: "b", 1: "s"}, tmp_path)


@pytest.mark.parametrize("name", [n for n in RESIZED if not n.startswith("nearest-exact")])
def test_resizing_becomes_onnx_with_open_sizes(tmp_path, name):
    check_onnx(RESIZED[name], images(), {2: "h"}, tmp_path)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(5, 6), (11, 9), (3, 8)])
def test_antialiased_resizing_with_aligned_corners(tmp_path, mode, size):
    check_onnx(lambda x: F.interpolate(x, size=size, mode=mode, antialias=True, align_corners=True), images()[:1], {}, tmp_path)


def test_columns_become_an_image(tmp_path):
    check_onnx(lambda x: F.fold(x, (6, 7), (2, 3), padding=1, stride=2, dilation=1), [(torch.randn(4, 12, 16),), (torch.randn(6, 12, 16),)], {0: "b"}, tmp_path)


# item() of a float tensor, which the program computes with; the second argument is that tensor.
FROM_DATA = {
    "argument": lambda x, s: x * s.item(),
    "arithmetic": lambda x, s: x * (s.item() * 2.0 + 1),
    "reversed": lambda x, s: x * (3 / s.item()) + (1 - s.item()),
    "powers": lambda x, s: x + s.item() ** 2 + (-s.item()) + 2 ** s.item(),
    "remainder": lambda x, s: x + s.item() % 0.7,
    "root": lambda x, s: x * torch.sym_sqrt(s.item()),
    "largest": lambda x, s: x + torch.sym_max(s.item(), 2.0) * torch.sym_min(s.item(), 2.0),
    "full": lambda x, s: torch.full((2,), s.item()),
    "full, open": lambda x, s: torch.full((x.shape[0],), s.item() / 3),
    "clamp": lambda x, s: x.clamp(min=s.item()),
    "alpha": lambda x, s: torch.add(x, x, alpha=s.item()),
    "exponent": lambda x, s: torch.pow(x.abs() + 1, s.item()),
    "slope": lambda x, s: F.leaky_relu(x, s.item()),
    "softplus": lambda x, s: F.softplus(x, beta=s.item()),
    "masked_fill": lambda x, s: x.masked_fill(x > 0, s.item()),
    "where": lambda x, s: torch.where(x > 0, s.item(), x),
    "comparison": lambda x, s: (x > s.item()).float(),
    "scalar_tensor": lambda x, s: x + torch.scalar_tensor(s.item()),
    "with a size": lambda x, s: x * (s.item() * x.shape[0]),
    "half a size": lambda x, s: x * (x.shape[0] / 2) + s,
    "root of a size": lambda x, s: x * (x.shape[0] ** 0.5) + s,
    "float of a size": lambda x, s: x * torch.sym_float(x.shape[0]) + s,
    "over a size": lambda x, s: x * (1.0 / x.shape[0]) + s,
    "part of a size": lambda x, s: x + x.shape[0] * 0.3 + s,
}


def with_numbers():
    return [(x, torch.tensor(s)) for (x,), s in zip(matrices(), (1.5, 2.25, 0.5))]


@pytest.mark.parametrize("name", FROM_DATA)
def test_a_float_from_data_stays_open(tmp_path, name):
    check_run(FROM_DATA[name], with_numbers(), {0: "b", 1: "s"}, tmp_path)


# The slope is an attribute of LeakyRelu: PyTorch's exporter refuses it too.
@pytest.mark.parametrize("name", [n for n in FROM_DATA if n != "slope"])
def test_a_float_from_data_stays_open_in_onnx(tmp_path, name):
    check_onnx(FROM_DATA[name], with_numbers(), {0: "b", 1: "s"}, tmp_path)
