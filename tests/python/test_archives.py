""".pt files in the wild: archives of old operator versions, checkpoints of every format, methods, conversion by example."""

import argparse
import collections
import io
import json
import os
import pathlib
import pickle
import struct
import subprocess
import tarfile
import zipfile

import numpy
import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(os.environ.get("TERN_BUILD_DIR", ROOT / "build" / "release")) / "tern"


def tern(*args):
    return subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True, cwd=ROOT)


def good(*args):
    done = tern(*args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def run(file, inputs, *options):
    """The outputs of a .pt for these tensors."""
    names = file.parent / "given.npz"
    numpy.savez(names, **{f"input_{i}": t.numpy() for i, t in enumerate(inputs)})
    good("run", file, "--input", names, "--output", file.parent / "got.npz", *options)
    with numpy.load(file.parent / "got.npz") as got:
        return [got[f"output_{i}"] for i in range(len(got.files))]


def rewrite(source, target, version=None, edit=lambda name, data: data):
    """The archive with another version and other members."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in old.namelist():
            data = old.read(name)
            if version is not None and name.endswith("/version"):
                data = f"{version}\n".encode()
            data = edit(name, data)
            if data is not None:
                new.writestr(name, data)


# ---- operators whose meaning changed ----


class Old(torch.nn.Module):
    def forward(self, a, b):
        return a / b, a.div(2), a.div(2.5), torch.full([2], 3), torch.nn.functional.gelu(a.float()), torch.linspace(0, 1, 5)


def as_of_version_3(name, data):
    if not name.endswith(".py"):
        return data
    return data.replace(b'approximate="none"', b"").replace(b"torch.linspace(0, 1, 5", b"torch.linspace(0, 1, None")


@pytest.mark.parametrize("backend", ["interpreter", "native"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_old_operators_mean_what_they_meant(tmp_path, dtype, backend):
    torch.jit.script(Old()).save(str(tmp_path / "today.pt"))
    rewrite(tmp_path / "today.pt", tmp_path / "old.pt", 3, as_of_version_3)
    inputs = [torch.tensor([7, -7], dtype=dtype), torch.tensor([2, 2], dtype=dtype)]
    for file in ("today.pt", "old.pt"):
        expected = torch.jit.load(str(tmp_path / file))(*inputs)
        got = run(tmp_path / file, inputs, "--backend", backend)
        for a, b in zip(got, expected, strict=True):
            assert a.dtype == b.numpy().dtype and a.shape == tuple(b.shape)
            numpy.testing.assert_allclose(a, b.numpy(), rtol=1e-6)


def test_what_is_written_says_the_version_it_needs(tmp_path):
    torch.jit.script(Old()).save(str(tmp_path / "today.pt"))
    rewrite(tmp_path / "today.pt", tmp_path / "old.pt", 3, as_of_version_3)
    inputs = [torch.tensor([7, -7]), torch.tensor([2, 2])]
    for file in ("today.pt", "old.pt"):
        good("convert", tmp_path / file, tmp_path / "back.pt")
        again = torch.jit.load(str(tmp_path / "back.pt"))(*inputs)
        for a, b in zip(again, torch.jit.load(str(tmp_path / file))(*inputs), strict=True):
            assert a.dtype == b.dtype and torch.equal(a, b)


def test_a_newer_version_is_refused(tmp_path):
    torch.jit.script(Old()).save(str(tmp_path / "today.pt"))
    rewrite(tmp_path / "today.pt", tmp_path / "future.pt", 99)
    done = tern("info", tmp_path / "future.pt")
    assert done.returncode == 4 and "newer PyTorch" in done.stderr


# ---- the command on .pt ----


class Methods(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 4)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        return self.fc(x) * self.scale

    @torch.jit.export
    def twice(self, x, n: int = 2, note: str = "plain"):
        if note == "loud":
            n = n * 10
        return x * n


@pytest.fixture(scope="module")
def methods(tmp_path_factory):
    folder = tmp_path_factory.mktemp("methods")
    torch.manual_seed(0)
    module = torch.jit.script(Methods().eval())
    module.save(str(folder / "net.pt"), _extra_files={"labels.txt": b"cat\ndog"})
    torch.jit.trace(Methods().eval(), torch.randn(5, 3)).save(str(folder / "traced.pt"))
    return folder


def test_info_shows_methods_types_and_parameters(methods):
    text = good("info", methods / "net.pt")
    assert "forward(Tensor x) -> Tensor" in text and "twice(Tensor x, int n=2, str note='plain') -> Tensor" in text
    assert "fc.weight" in text and "float32[4, 3]" in text and "labels.txt" in text
    facts = json.loads(good("info", methods / "net.pt", "--json"))
    assert facts["parameters"] == {"fc.weight": "float32[4, 3]", "fc.bias": "float32[4]"}
    assert facts["buffers"] == {"scale": "float32[]"} and facts["extra_files"] == ["labels.txt"]
    traced = json.loads(good("info", methods / "traced.pt", "--json"))
    assert traced["methods"]["forward"]["inputs"] == [{"name": "x", "type": "float32[5, 3]"}]


def test_code_and_graph_of_a_method(methods):
    code = good("code", methods / "net.pt", "twice")
    assert "def twice(self" in code and 'note: str="plain"' in code
    assert "torch.linear" in good("code", methods / "net.pt", "--module", "fc")
    assert "prim::CallMethod" in good("graph", methods / "net.pt")
    assert "aten::linear" in good("graph", methods / "net.pt", "--inlined")
    done = tern("code", methods / "net.pt", "nothing")
    assert done.returncode == 1 and "it has forward, twice" in done.stderr


def test_run_of_another_method_with_numbers(methods):
    x = torch.randn(2, 3)
    (got,) = run(methods / "net.pt", [x], "--method", "twice", "--input", "n=3", "--backend", "interpreter")
    numpy.testing.assert_allclose(got, 3 * x.numpy())
    (got,) = run(methods / "net.pt", [x], "--method", "twice", "--input", "note=loud")
    numpy.testing.assert_allclose(got, 20 * x.numpy(), rtol=1e-6)
    done = tern("run", methods / "net.pt")
    assert done.returncode == 1 and "give the input 'x' (Tensor) with --input or --shapes" in done.stderr


@pytest.mark.parametrize("to", ["onnx", "pt2"])
def test_conversion_needs_sizes_that_only_a_trace_keeps(methods, tmp_path, to):
    done = tern("convert", methods / "net.pt", tmp_path / f"net.{to}")
    assert done.returncode == 1 and "does not say the sizes" in done.stderr
    good("convert", methods / "traced.pt", tmp_path / f"net.{to}", "--check")
    good("convert", methods / "net.pt", tmp_path / f"net.{to}", "--shapes", "x:Nx3", "--check")
    x = torch.randn(7, 3)
    expected = torch.jit.load(str(methods / "net.pt"))(x).detach().numpy()
    if to == "pt2":
        got = torch.export.load(tmp_path / "net.pt2").module()(x).detach().numpy()
    else:
        import onnxruntime

        session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
        (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    numpy.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_a_size_that_cannot_stay_open_is_named(tmp_path):
    class Fixed(torch.nn.Module):
        def forward(self, x):
            return x.view(2, 6)

    torch.jit.script(Fixed()).save(str(tmp_path / "fixed.pt"))
    done = tern("convert", tmp_path / "fixed.pt", tmp_path / "fixed.pt2", "--shapes", "x:Nx3")
    assert done.returncode == 2 and "'N' cannot stay open" in done.stderr


def test_saving_keeps_places_sizes_and_extra_methods(methods, tmp_path):
    good("convert", methods / "traced.pt", tmp_path / "again.pt")
    assert "traced with x" in good("info", tmp_path / "again.pt")
    module = torch.jit.load(str(tmp_path / "again.pt"))
    with pytest.raises(RuntimeError) as caught:
        module(torch.randn(2, 2))
    # PyTorch's message shows the user's own line, from the debug information that was passed on.
    assert "Traceback of TorchScript, original code" in str(caught.value)
    good("convert", methods / "net.pt", tmp_path / "net.pt")
    x = torch.randn(2, 3)
    assert torch.equal(torch.jit.load(str(tmp_path / "net.pt")).twice(x, 4), 4 * x)


def test_an_error_names_the_users_own_line(methods):
    names = methods / "wrong.npz"
    numpy.savez(names, input_0=numpy.zeros((2, 2), dtype="float32"))
    done = tern("run", methods / "net.pt", "--input", names, "--backend", "interpreter")
    assert done.returncode == 2 and ".py:" in done.stderr and "from " in done.stderr


def test_a_damaged_weight_is_noticed(tmp_path):
    torch.jit.script(torch.nn.Linear(64, 64)).save(str(tmp_path / "good.pt"))
    data = bytearray((tmp_path / "good.pt").read_bytes())
    weight = torch.jit.load(str(tmp_path / "good.pt")).weight.detach().numpy().tobytes()
    at = bytes(data).index(weight)
    data[at + 100] ^= 1
    (tmp_path / "bad.pt").write_bytes(data)
    done = tern("info", tmp_path / "bad.pt")
    assert done.returncode == 2 and "CRC" in done.stderr.upper()
    assert tern("check", tmp_path / "bad.pt").returncode == 2
    assert "valid" in good("check", tmp_path / "good.pt")


def test_mobile_bytecode_and_cpp_classes_are_named(tmp_path):
    module = torch.jit.script(torch.nn.Linear(2, 2))
    module._save_for_lite_interpreter(str(tmp_path / "lite.ptl"))
    rewrite(tmp_path / "lite.ptl", tmp_path / "bytecode.ptl", edit=lambda name, data: None if "/code/" in name else data)
    done = tern("info", tmp_path / "bytecode.ptl")
    assert done.returncode == 4 and "PyTorch Mobile" in done.stderr


def test_written_buffers_travel_through_pt(tmp_path):
    class Counter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            old = self.count.clone()
            self.count.add_(x.sum())
            return {"old": old, "both": [x + self.count, x * 2]}

    x = torch.ones(3)
    torch.export.save(torch.export.export(Counter(), (x,)), tmp_path / "counter.pt2")
    good("convert", tmp_path / "counter.pt2", tmp_path / "counter.pt")
    module = torch.jit.load(str(tmp_path / "counter.pt"))
    reference = Counter()
    for _ in range(3):
        got, expected = module(x), reference(x)
        flat = torch.utils._pytree.tree_leaves(got)
        for a, b in zip(flat, torch.utils._pytree.tree_leaves(expected), strict=True):
            assert torch.equal(a, b)
        assert torch.equal(module.count, reference.count)


# ---- checkpoints ----


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 4)
        self.bn = torch.nn.BatchNorm1d(4)
        self.register_buffer("cache", torch.ones(2), persistent=False)


@pytest.mark.parametrize("new_format", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_checkpoints_are_states(tmp_path, new_format, whole):
    net = Net()
    file = tmp_path / "net.pth"
    torch.save(net if whole else net.state_dict(), file, _use_new_zipfile_serialization=new_format)
    facts = json.loads(good("info", file, "--json"))
    assert facts["format"] == "checkpoint"
    shapes = {name: str(list(t.shape)) for name, t in net.state_dict().items()}
    assert {name: "[" + text.split("[")[1].split("]")[0] + "]" for name, text in facts["values"].items()} == shapes


def test_what_training_programs_put_beside_the_weights(tmp_path):
    content = {
        "epoch": 3, "state_dict": collections.OrderedDict(w=torch.ones(2).bfloat16()), "p": torch.nn.Parameter(torch.ones(3)),
        "options": argparse.Namespace(lr=0.1), "loss": numpy.float64(0.25), "tuple": (1, 2.5, None, True),
    }
    torch.save(content, tmp_path / "train.ckpt")
    values = json.loads(good("info", tmp_path / "train.ckpt", "--json"))["values"]
    assert values["epoch"] == "3" and values["loss"] == "0.25" and values["state_dict.w"] == "bfloat16[2]"
    assert values["p"] == "float32[3] parameter" and values["options"] == "object of argparse.Namespace"


def test_the_oldest_format_is_a_tar(tmp_path):
    def pickled(*values):
        out = io.BytesIO()
        for value in values:
            out.write(value if isinstance(value, bytes) else pickle.dumps(value, 2))
        return out.getvalue()

    class Key:
        pass

    key, content = Key(), io.BytesIO()
    pickler = pickle.Pickler(content, 2)
    pickler.persistent_id = lambda value: 22 if value is key else None
    pickler.dump(collections.OrderedDict(w=key))
    numbers = struct.pack("<q", 6) + numpy.arange(6, dtype="f4").tobytes()
    members = {
        "storages": pickled(1, (11, "cpu", torch.FloatStorage), numbers, []),
        "tensors": pickled(1, (22, 11, torch.FloatTensor), struct.pack("<i4x5q", 2, 2, 3, 3, 1, 0)),
        "pickle": content.getvalue(),
    }
    file = tmp_path / "old.pth"
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    assert torch.load(file, weights_only=False)["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert json.loads(good("info", file, "--json"))["values"] == {"w": "float32[2, 3]"}


def test_what_a_checkpoint_cannot_do(tmp_path):
    torch.save({"x": torch.eye(3).to_sparse()}, tmp_path / "sparse.pth")
    done = tern("info", tmp_path / "sparse.pth")
    assert done.returncode == 0 and "sparse tensor (torch.sparse_coo) of size [3, 3]" in done.stdout
    torch.save(Net().state_dict(), tmp_path / "state.pth")
    done = tern("run", tmp_path / "state.pth")
    assert done.returncode == 2 and "weights but no program" in done.stderr


def test_nothing_in_a_pickle_is_executed(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'executed'}",)

    torch.save({"w": torch.ones(1), "evil": Evil()}, tmp_path / "evil.pth")
    values = json.loads(good("info", tmp_path / "evil.pth", "--json"))["values"]
    assert values["evil"] == "object of posix.system" and not (tmp_path / "executed").exists()


# ---- the native engine on what traces give it ----


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: torch.nn.functional.linear(x[:, 0], w),
        lambda x, w: torch.nn.functional.linear(x.transpose(0, 1) + 1, w),
        lambda x, w: torch.tanh(torch.nn.functional.linear(x[:, 1], w)),
        lambda x, w: (x.view(2, 5, 3, 8).permute(2, 0, 1, 3).select(0, 1) * 0.5).transpose(0, 1) + x.size(0),
        lambda x, w: x.new_zeros(x.size(0) * 2, x.size(1) // 2) + torch.arange(x.size(1) // 2),
    ],
)
def test_native_and_interpreter_agree(tmp_path, function):
    torch.manual_seed(0)
    x, w = torch.randn(2, 5, 24), torch.randn(72, 24)
    torch.jit.trace(lambda x: function(x, w), x).save(str(tmp_path / "f.pt"))
    for backend in ("interpreter", "native"):
        (got,) = run(tmp_path / "f.pt", [x], "--backend", backend)
        numpy.testing.assert_allclose(got, function(x, w).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["interpreter", "native"])
def test_results_in_containers(tmp_path, backend):
    class Both(torch.nn.Module):
        def forward(self, x):
            return {"out": x + 1, "aux": x * 2}

    x = torch.randn(3)
    torch.jit.trace(Both(), x, strict=False).save(str(tmp_path / "both.pt"))
    a, b = run(tmp_path / "both.pt", [x], "--backend", backend)
    numpy.testing.assert_allclose(a, (x + 1).numpy())
    numpy.testing.assert_allclose(b, (x * 2).numpy())


def kind(value):
    name = f"{type(value).__module__.split('.')[0]}.{type(value).__name__}".replace("torch.", "tern.")
    if "Tensor" in name or "Parameter" in name:
        return "tensor", value.tolist()
    if isinstance(value, dict):
        return name, [(kind(k), kind(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple, set)):
        return name, [kind(v) for v in value]
    return name, repr(value).replace("torch.", "tern.")


@pytest.mark.parametrize("new_format", [True, False])
@pytest.mark.parametrize(
    "content",
    [
        {1, 2, 3},
        set(),
        b"ab\x00\xff",
        bytearray(b"xyz\x80"),
        bytearray(),
        torch.bfloat16,
        torch.strided,
        torch.Size([2, 3]),
        collections.OrderedDict([("b", 1), ("a", torch.ones(2))]),
        collections.Counter("aab"),
        1 + 2j,
        -(2**100),
        {None: 1, 2: "b", 1.5: True, (1, 2): [torch.device("cpu")]},
        [{"s": {1, 2}}, (b"a", torch.int64, "text")],
        [torch.float16, torch.ones(2, dtype=torch.float16), torch.zeros(1, dtype=torch.int16), torch.int16],
        torch.nn.Linear(2, 2).state_dict(),
        torch.optim.Adam([torch.nn.Parameter(torch.ones(2))]).state_dict(),
    ],
    ids=str,
)
def test_what_is_in_a_checkpoint_keeps_its_kind(content, new_format, tmp_path):
    import tern as library

    path = str(tmp_path / "any.pth")
    torch.save(content, path, _use_new_zipfile_serialization=new_format)
    assert kind(library.load(path)) == kind(torch.load(path, weights_only=True))


def test_a_default_dict_has_a_harmless_factory(tmp_path):
    import tern as library

    path = str(tmp_path / "any.pth")
    for factory, kept in ((list, list), (int, int), (str, str), (None, None), (print, None)):
        torch.save(collections.defaultdict(factory, {"a": 1}), path)
        got = library.load(path)
        assert type(got) is collections.defaultdict and got == {"a": 1} and got.default_factory is kept
    for content in (frozenset([1]), b""):  # which PyTorch refuses
        torch.save(content, path)
        assert library.load(path) == content
