"""Every format to every other: what the tern command writes is run by PyTorch and by ONNX Runtime."""

import copy
import os
import pathlib
import subprocess

import numpy
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

import torch.nn.functional as F  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402
from torch import nn  # noqa: E402
from torch.export import Dim  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(os.environ.get("TERN_BUILD_DIR", ROOT / "build" / "release")) / "tern"
BATCH = Dim("batch", max=64)


def tern(*args):
    return subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True, cwd=ROOT)


def convert(source, target):
    done = tern("convert", source, target, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    return target


class Made(nn.Module):
    """A function with its state."""

    def __init__(self, f, **state):
        super().__init__()
        self.f = f
        for name, t in state.items():
            if isinstance(t, nn.Module):
                setattr(self, name, t)
            else:
                self.register_buffer(name, t)

    def forward(self, *args):
        return self.f(self, *args)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.a(x).relu(), lambda x: self.b(x) - 1, (x,))


class Rounds(nn.Module):
    def forward(self, x):
        from torch._higher_order_ops.while_loop import while_loop

        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 1.5 + i), (torch.tensor(0), x))


class Slices(nn.Module):
    def forward(self, x, y):
        from torch._higher_order_ops.scan import scan

        return scan(lambda c, x: (c + x, c * x + 1), y, x, dim=0)


class Mapped(nn.Module):
    def forward(self, x, y):
        from torch._higher_order_ops.map import map

        return map(lambda x, y: (x + y).sin(), x, y)


class Quiet(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x * 2
        return x + y


def counting(self, x):
    self.n.mul_(0.9).add_(x.mean(0))
    self.k += 1
    return x * self.n, self.k.clone()


def writing(self, x, y):
    x.add_(1)
    y[0] = x[1]
    return x * y


X = torch.linspace(-1, 2, 6).reshape(2, 3)
MODELS = {
    "linear": (nn.Linear(3, 2), (X,), ({0: BATCH},)),
    "convolution": (nn.Conv1d(3, 6, 4, stride=2, padding=3, padding_mode="circular"), (torch.randn(2, 3, 11),), None),
    "reflected": (nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (torch.randn(2, 3, 6, 7),), ({0: BATCH},)),
    "upsampled": (Made(lambda s, x: F.interpolate(x, size=(5, 7), mode="bicubic", align_corners=True)), (torch.randn(2, 3, 8, 8),), None),
    "branches": (Branches(), (X,), None),
    "rounds": (Rounds(), (X[0],), None),
    "buffers": (Made(counting, n=torch.zeros(3), k=torch.tensor(0)), (X,), None),
    "writes": (Made(writing), (X, X * 2), None),
    "constants": (Made(lambda s, x: (x + 1, 3, 2.5)), (X,), None),
    "made": (Made(lambda s, x: (x, x[:0], torch.zeros(0, 3))), (X,), None),
    "infinite": (Made(lambda s, x: x.masked_fill(x > -5, -torch.inf).softmax(-1)), (X,), None),
    "chosen": (Made(lambda s, x: (torch.where(x > 0, x, 0.0), torch.where(x > 0, 1, x), torch.where(x > 0, 1, 2))), (X,), None),
    "bags": (nn.EmbeddingBag(6, 4, mode="mean"), (torch.tensor([1, 2, 3]), torch.tensor([0, 2])), None),
    "integers": (Made(lambda s, a, b: (a // b, a % b, a.argmax(1))), (torch.tensor([[7, -7], [1, 2]]), torch.tensor([[2, 2], [5, -5]])), None),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """name.pt2, name_core.pt2, name.onnx of every model, and what PyTorch says it gives."""
    folder = tmp_path_factory.mktemp("formats")
    torch.manual_seed(0)
    for name, (module, args, dims) in MODELS.items():
        module = module.eval()
        program = torch.export.export(copy.deepcopy(module), copy.deepcopy(args), dynamic_shapes={"args": dims} if isinstance(module, Made) and dims else dims)
        torch.export.save(program, folder / f"{name}.pt2")
        torch.export.save(program.run_decompositions(), folder / f"{name}_core.pt2")
    return folder


def outcome(name):
    module, args, _ = MODELS[name]
    return tree_leaves(copy.deepcopy(module.eval())(*copy.deepcopy(args)))


def same(got, want, some=False):
    got, want = [v for v in tree_leaves(got) if v is not None], [v for v in want if v is not None]
    assert len(got) >= len(want) if some else len(got) == len(want)
    for g, w in zip(got, want):
        g, w = (numpy.asarray(v.detach() if isinstance(v, torch.Tensor) else v) for v in (g, w))
        assert g.shape == w.shape
        numpy.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["", "_core"])
@pytest.mark.parametrize("name", MODELS)
def test_pytorch_runs_what_a_program_became(files, tmp_path, name, kind):
    args, want = MODELS[name][1], outcome(name)
    source = files / f"{name}{kind}.pt2"
    same(torch.export.load(convert(source, tmp_path / "m.pt2")).module()(*copy.deepcopy(args)), want)
    same(torch.jit.load(str(convert(source, tmp_path / "m.pt")))(*copy.deepcopy(args)), want)
    session = onnxruntime.InferenceSession(str(convert(source, tmp_path / "m.onnx")))
    given = {i.name: a.numpy() for i, a in zip(session.get_inputs(), copy.deepcopy(args))}
    same(session.run(None, given), want, some=True)


@pytest.mark.parametrize("name", [n for n in MODELS if n != "writes"])
def test_pytorch_runs_what_an_onnx_file_became(files, tmp_path, name):
    args, want = MODELS[name][1], outcome(name)
    convert(files / f"{name}.pt2", tmp_path / "m.onnx")
    for target in ("m.pt2", "m.pt"):
        convert(tmp_path / "m.onnx", tmp_path / target)
        load = torch.export.load if target == "m.pt2" else lambda path: torch.jit.load(str(path))
        module = load(tmp_path / target)
        module = module.module() if target == "m.pt2" else module
        same(module(*copy.deepcopy(args)), want, some=True)


@pytest.mark.parametrize("module, args", [(Slices(), (torch.randn(4, 3), torch.randn(3))), (Mapped(), (torch.randn(4, 3), torch.randn(3))), (Quiet(), (torch.randn(3, requires_grad=True),))])
def test_functions_over_slices_and_regions_become_torchscript(tmp_path, module, args):
    want = tree_leaves(module(*args))
    torch.export.save(torch.export.export(module, args), tmp_path / "m.pt2")
    written = torch.jit.load(str(convert(tmp_path / "m.pt2", tmp_path / "m.pt")))
    got = tree_leaves(written(*args))
    same(got, want)
    if isinstance(module, Quiet):
        got[0].sum().backward()
        numpy.testing.assert_allclose(args[0].grad, numpy.ones(3))


def test_what_torchscript_has_no_word_for_is_refused(tmp_path):
    class Cast(nn.Module):
        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = x @ x
            return y + 1

    torch.export.save(torch.export.export(Cast(), (torch.randn(3, 3),)), tmp_path / "m.pt2")
    done = tern("convert", tmp_path / "m.pt2", tmp_path / "m.pt")
    assert done.returncode == 4 and "wrap_with_autocast" in done.stderr


def onnx_file(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def test_names_that_python_cannot_say(tmp_path):
    """onnx::MatMul_3 and /fc/MatMul_output_0 are names in ONNX; PyTorch writes source of a graph's names."""
    weights = {"onnx::MatMul_3": (3, 7), "fc.": (7,), "fc..x": (7, 7), "fc": (7, 7)}
    arrays = {k: numpy.random.default_rng(0).standard_normal(v).astype("f4") for k, v in weights.items()}
    path = onnx_file(
        tmp_path / "m.onnx",
        [
            helper.make_node("MatMul", ["input.1", "onnx::MatMul_3"], ["/fc/MatMul_output_0"]),
            helper.make_node("Add", ["/fc/MatMul_output_0", "fc."], ["7"]),
            helper.make_node("MatMul", ["7", "fc..x"], ["lambda"]),
            helper.make_node("MatMul", ["lambda", "fc"], ["output:0"]),
        ],
        [helper.make_tensor_value_info("input.1", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info("output:0", TensorProto.FLOAT, ["N", 7])],
        [onnx.numpy_helper.from_array(a, k) for k, a in arrays.items()],
    )
    x = torch.randn(5, 3)
    want = onnxruntime.InferenceSession(str(path)).run(None, {"input.1": x.numpy()})
    loaded = torch.export.load(convert(path, tmp_path / "m.pt2"))
    for n in (5, 1, 9):
        want = onnxruntime.InferenceSession(str(path)).run(None, {"input.1": x[:1].expand(n, 3).numpy()})
        same(loaded.module()(x[:1].expand(n, 3).contiguous()), want)


def test_a_huge_input_takes_no_room_in_the_file(tmp_path):
    path = onnx_file(
        tmp_path / "relu.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1 << 20, 1 << 14])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1 << 20, 1 << 14])],
    )
    done = tern("convert", path, tmp_path / "relu.pt2")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "relu.pt2").stat().st_size < 100_000
    assert torch.export.load(tmp_path / "relu.pt2").example_inputs[0][0].shape == (1 << 20, 1 << 14)


def test_check_sees_a_wrong_value_beside_infinity(tmp_path):
    class Shift(nn.Module):
        def forward(self, x):
            return x + 1

    torch.export.save(torch.export.export(Shift(), (torch.zeros(3),)), tmp_path / "m.pt2")
    numpy.savez(tmp_path / "in.npz", x=numpy.array([1, numpy.nan, -numpy.inf], "f4"))
    for expected, code in (([2, numpy.nan, -numpy.inf], 0), ([2, numpy.nan, 5], 3), ([numpy.inf, numpy.nan, -numpy.inf], 3), ([2, 1, -numpy.inf], 3)):
        numpy.savez(tmp_path / "out.npz", output_0=numpy.array(expected, "f4"))
        assert tern("run", tmp_path / "m.pt2", "--input", tmp_path / "in.npz", "--compare", tmp_path / "out.npz").returncode == code


@pytest.mark.parametrize("backend", ["native", "interpreter"])
def test_run_keeps_to_the_ranges_and_writes_to_inputs(files, backend):
    done = tern("run", files / "linear.pt2", "--shapes", "input:65x3", "--backend", backend)
    assert done.returncode != 0 and "to be <= 64, but got 65" in done.stderr
    assert tern("run", files / "linear.pt2", "--shapes", "input:1x3", "--backend", backend).returncode == 0
    done = tern("run", files / "writes.pt2", "--backend", backend)
    assert done.returncode == 0, done.stderr


def test_an_input_that_is_a_constant_need_not_be_given(tmp_path):
    class Scaled(nn.Module):
        def forward(self, x, k=2, *, mode="sum"):
            return (x * k).sum(0) if mode == "sum" else x

    torch.export.save(torch.export.export(Scaled(), (X, 3), {"mode": "sum"}), tmp_path / "m.pt2")
    assert tern("run", tmp_path / "m.pt2").returncode == 0
    done = tern("run", tmp_path / "m.pt2", "--input", "k=4")
    assert done.returncode != 0 and "must be 3" in done.stderr
    for to in ("pt2", "pt", "onnx"):
        convert(tmp_path / "m.pt2", tmp_path / f"m2.{to}")


def test_usage_is_told_from_models(files, tmp_path):
    net = files / "linear.pt2"
    (tmp_path / "text.pt2").write_text("this is no model\n")
    (tmp_path / "text").write_text("this is no model\n")
    script = torch.jit.script(nn.Linear(3, 3))
    script.save(str(tmp_path / "script.pt"))
    for code, words, *args in (
        (1, "--backend", "run", net, "--backend", "nope"),
        (1, "--backend", "bench", net, "--backend", "native,nope"),
        (1, "--opset", "convert", net, tmp_path / "o.onnx", "--opset", "5"),
        (1, ".pt2, .pt or .onnx", "convert", net, tmp_path / "o.xyz"),
        (1, "methods", "code", net, "nope"),
        (1, "methods", "graph", net, "nope"),
        (1, "methods", "convert", net, tmp_path / "o.pt", "--method", "nope"),
        (1, "no method 'nope'", "code", tmp_path / "script.pt", "nope"),
        (1, "no method 'nope'", "run", tmp_path / "script.pt", "--method", "nope"),
        (1, "no such module", "code", tmp_path / "script.pt", "--module", "nope"),
        (2, "zip archive", "info", tmp_path / "text.pt2"),
        (2, "neither", "info", tmp_path / "text"),
    ):
        done = tern(*args)
        assert done.returncode == code and words in done.stderr + done.stdout, (args, done.stderr)


def test_a_loop_until_a_number_that_only_a_run_knows(tmp_path):
    class Until(nn.Module):
        def forward(self, x):
            while float(x.sum()) < 10.0:
                x = x + 1.0
            return x

    model = torch.jit.script(Until())
    model.save(str(tmp_path / "until.pt"))
    done = tern("convert", tmp_path / "until.pt", tmp_path / "until.onnx", "--shapes", "x:2x3")
    assert done.returncode == 0, done.stderr
    session = onnxruntime.InferenceSession(str(tmp_path / "until.onnx"))
    for value in (-3.0, 0.0, 0.3, 5.0):
        x = numpy.full((2, 3), value, numpy.float32)
        numpy.testing.assert_allclose(session.run(None, {session.get_inputs()[0].name: x})[0], model(torch.tensor(x)).numpy(), rtol=1e-6)


def test_a_script_that_assigns_its_attributes_is_interpreted(tmp_path):
    import tern as t

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(3))
            self.k = 0

        def forward(self, x, scale: float = 1.0):
            self.k += 1
            self.n.add_(x.mean(0))
            return x * self.n * scale, self.k

    torch.jit.script(Counter()).save(str(tmp_path / "m.pt"))
    model, want = t.load(str(tmp_path / "m.pt")), torch.jit.load(str(tmp_path / "m.pt"))
    for scale in (1.0, 2.0):
        got, (y, k) = model(t.from_numpy(X.numpy()), scale=scale), want(X, scale=scale)
        numpy.testing.assert_allclose(got[0].numpy(), y.numpy(), rtol=1e-5)
        assert got[1] == k
    numpy.testing.assert_allclose(model.state_dict()["n"].numpy(), want.n.numpy(), rtol=1e-5)
    assert "self.k" in model.code
    assert model.run(t.from_numpy(X.numpy()))[1] == 3
    t.save(model, str(tmp_path / "again.pt"))
    assert torch.jit.load(str(tmp_path / "again.pt"))(X)[1] == 4
    with pytest.raises(NotImplementedError, match="assigns its attribute"):
        t.save(model, str(tmp_path / "again.pt2"))


@pytest.mark.parametrize("dtype, bits", [("UINT8", 8), ("UINT16", 16), ("UINT32", 32), ("UINT64", 64)])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts_of_unsigned_integers(tmp_path, dtype, bits, direction):
    kind = getattr(TensorProto, dtype)
    path = onnx_file(
        tmp_path / "shift.onnx",
        [helper.make_node("BitShift", ["x", "n"], ["y"], direction=direction)],
        [helper.make_tensor_value_info("x", kind, [4]), helper.make_tensor_value_info("n", kind, [4])],
        [helper.make_tensor_value_info("y", kind, [4])],
    )
    numbers = numpy.array([1, 2**bits - 1, 2 ** (bits - 1), 77], dtype=dtype.lower())
    by = numpy.array([0, 1, 3, bits - 1], dtype=dtype.lower())
    want = numpy.left_shift(numbers, by) if direction == "LEFT" else numpy.right_shift(numbers, by)
    module = torch.export.load(convert(path, tmp_path / "shift.pt2")).module()
    got = module(torch.from_numpy(numbers), torch.from_numpy(by))
    assert got.numpy().tolist() == want.tolist()


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("node, reduction", [("GatherElements", None)] + [(n, r) for n in ("ScatterElements", "ScatterND") for r in ("none", "add", "mul", "max", "min")])
def test_unsigned_integers_are_gathered_and_scattered(tmp_path, node, reduction, bits):
    """ATen does that with signed ones only."""
    kind = getattr(TensorProto, f"UINT{bits}")
    top = 2 ** (bits - 1)
    data = numpy.array([3, top + 1, 7, 2 * top - 1], dtype=f"uint{bits}")
    updates = numpy.array([top + 5, 2, top], dtype=f"uint{bits}")
    at = numpy.array([0, 1, 2])
    places = [3, 1] if node == "ScatterND" else [3]
    gather = node == "GatherElements"
    inputs = [helper.make_tensor_value_info("x", kind, [4]), helper.make_tensor_value_info("i", TensorProto.INT64, places)]
    if not gather:
        inputs.append(helper.make_tensor_value_info("u", kind, [3]))
    attributes = {} if gather else {"reduction": reduction}
    path = onnx_file(
        tmp_path / "m.onnx", [helper.make_node(node, [v.name for v in inputs], ["y"], **attributes)], inputs, [helper.make_tensor_value_info("y", kind, [3 if gather else 4])]
    )
    how = {"none": lambda a, b: b, "add": numpy.add, "mul": numpy.multiply, "max": numpy.maximum, "min": numpy.minimum}
    want = data[at] if gather else numpy.concatenate([how[reduction](data[:3], updates), data[3:]])
    given = [torch.from_numpy(v) for v in (data, at.reshape(places), updates)][: len(inputs)]
    module = torch.export.load(convert(path, tmp_path / "m.pt2")).module()
    assert module(*given).numpy().tolist() == want.tolist()
    import tern as t

    assert t.load(str(path))(*[t.from_dlpack(v) for v in given]).numpy().tolist() == want.tolist()


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
@pytest.mark.parametrize("how", ["scale", "size"])
def test_resizing_of_open_sizes(tmp_path, mode, how):
    class Resized(nn.Module):
        def forward(self, x):
            more = {"align_corners": how == "size"} if mode[0] == "b" else {}
            if how == "scale":
                return F.interpolate(x, scale_factor=2.0, mode=mode, **more)
            return F.interpolate(x, size=(5, 7), mode=mode, **more)

    x = torch.randn(2, 3, 4, 6)
    dims = ({0: BATCH, 2: Dim("h", min=2, max=32), 3: Dim("w", min=2, max=32)},)
    torch.export.save(torch.export.export(Resized(), (x,), dynamic_shapes=dims), tmp_path / "m.pt2")
    convert(tmp_path / "m.pt2", tmp_path / "m.onnx")
    back = torch.export.load(convert(tmp_path / "m.onnx", tmp_path / "back.pt2")).module()
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    for shape in ((2, 3, 4, 6), (1, 3, 9, 5)):
        x = torch.randn(shape)
        same(back(x), [Resized()(x)])
        same(session.run(None, {session.get_inputs()[0].name: x.numpy()}), [Resized()(x)])


def test_dims_that_are_expressions_of_others(tmp_path):
    for second, sizes in (("n + 1", (4, 5)), ("2*n - 1", (4, 7)), ("(n + 1)//2 + n//2", (5, 5))):
        path = onnx_file(
            tmp_path / "m.onnx",
            [helper.make_node("Identity", ["x"], ["a"]), helper.make_node("Neg", ["y"], ["b"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [second]), helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
            [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n"]), helper.make_tensor_value_info("b", TensorProto.FLOAT, [second])],
        )
        assert tern("run", path, "--shapes", f"x:{sizes[0]}", f"y:{sizes[1]}").returncode == 0
        done = tern("run", path, "--shapes", f"x:{sizes[0]}", f"y:{sizes[1] + 1}")
        assert done.returncode != 0 and "Expected input" in done.stderr
    # Words that are no dims of their own make a name.
    path = onnx_file(
        tmp_path / "m.onnx",
        [helper.make_node("Neg", ["x"], ["y"])],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch-size"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch-size"])],
    )
    assert tern("run", path, "--shapes", "x:3").returncode == 0


def test_a_constant_of_open_size(tmp_path):
    class Causal(nn.Module):
        def forward(self, x):
            return F.scaled_dot_product_attention(x, x, x, is_causal=True)

    x = torch.randn(2, 2, 5, 4)
    program = torch.export.export(Causal(), (x,), dynamic_shapes=({0: BATCH, 2: Dim("s", min=2, max=64)},))
    torch.onnx.export(program, (), str(tmp_path / "m.onnx"), dynamo=True, verbose=False)
    module = torch.export.load(convert(tmp_path / "m.onnx", tmp_path / "m.pt2")).module()
    for s in (5, 9):
        x = torch.randn(3, 2, s, 4)
        same(module(x), [Causal()(x)])
