"""The tern command on files that PyTorch wrote: exit codes, conversion, comparison."""

import json
import os
import pathlib
import subprocess
from typing import Optional

import numpy
import pytest

torch = pytest.importorskip("torch")

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(os.environ.get("TERN_BUILD_DIR", ROOT / "build" / "release")) / "tern"


def tern(*args):
    return subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True, cwd=ROOT)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 3)).eval()
    x = torch.randn(4, 8)
    program = torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("batch", max=64)},))
    torch.export.save(program, folder / "net.pt2")
    torch.jit.trace(net, x).save(str(folder / "net.pt"))
    numpy.savez(folder / "inputs.npz", input_0=x.numpy())
    numpy.savez(folder / "outputs.npz", output_0=net(x).detach().numpy())
    numpy.savez(folder / "wrong.npz", output_0=net(x).detach().numpy() + 1)
    return folder


def test_info_says_what_goes_in_and_out(model):
    done = tern("info", model / "net.pt2")
    assert done.returncode == 0, done.stderr
    assert "inputs" in done.stdout and "float32[" in done.stdout and "aten::linear" in done.stdout
    facts = json.loads(tern("info", model / "net.pt2", "--json").stdout)
    assert facts["format"] == "pt2" and facts["tensors"] == 6 and len(facts["inputs"]) == 1


def test_info_calls_dims_what_the_file_calls_them(model):
    assert tern("convert", model / "net.pt", model / "open.onnx", "--shapes", "input:rowsx8").returncode == 0
    lines = tern("info", model / "open.onnx").stdout.split("\n")
    assert "  input_1                  float32[rows, 8]" in lines
    assert "  rows                     [0, int_oo]" in lines
    assert json.loads(tern("info", model / "open.onnx", "--json").stdout)["dims"] == {"rows": "[0, int_oo]"}


@pytest.mark.parametrize("backend", ["native", "interpreter", "onnxrt"])
@pytest.mark.parametrize("file", ["net.pt2", "net.pt"])
def test_files_of_pytorch_give_its_numbers(model, file, backend):
    done = tern("run", model / file, "--input", model / "inputs.npz", "--compare", model / "outputs.npz", "--backend", backend)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("to", ["onnx", "pt2", "pt"])
def test_conversion_keeps_the_numbers(model, to):
    out = model / f"converted.{to}"
    done = tern("convert", model / "net.pt2", out, "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    x = torch.from_numpy(numpy.load(model / "inputs.npz")["input_0"])
    expected = numpy.load(model / "outputs.npz")["output_0"]
    if to == "onnx":
        import onnx
        import onnxruntime

        onnx.checker.check_model(str(out), full_check=True)
        session = onnxruntime.InferenceSession(str(out))
        got = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    elif to == "pt2":
        got = torch.export.load(out).module()(x).detach().numpy()
    else:
        got = torch.jit.load(str(out))(x).detach().numpy()
    numpy.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_the_check_of_a_model_in_training_mode_draws_alike(tmp_path):
    torch.jit.script(torch.nn.Sequential(torch.nn.Dropout(0.5))).save(str(tmp_path / "drops.pt"))
    for to in ("pt", "pt2"):
        done = tern("convert", tmp_path / "drops.pt", tmp_path / f"again.{to}", "--shapes", "input:4x8", "--check")
        assert done.returncode == 0, done.stdout + done.stderr


def operators(program):
    return {str(n.target) for n in program.graph.nodes if n.op == "call_function"}


def test_core_decomposes_as_pytorch_does(model, tmp_path):
    done = tern("convert", model / "net.pt2", tmp_path / "core.pt2", "--core", "--check")
    assert done.returncode == 0, done.stdout + done.stderr
    core = torch.export.load(tmp_path / "core.pt2")
    assert operators(core) == operators(torch.export.load(model / "net.pt2").run_decompositions())
    x = torch.from_numpy(numpy.load(model / "inputs.npz")["input_0"])
    numpy.testing.assert_allclose(core.module()(x).detach().numpy(), numpy.load(model / "outputs.npz")["output_0"], rtol=1e-4, atol=1e-5)


def test_a_script_that_stays_one_is_not_decomposed(model, tmp_path):
    done = tern("convert", model / "net.pt", tmp_path / "net.pt", "--core")
    assert done.returncode != 0 and "--core: a script that stays one is not decomposed" in done.stderr


def test_exit_codes(model, tmp_path):
    assert tern("run").returncode == 1
    assert tern("run", model / "net.pt2", "--input", "nothing=x.npy").returncode == 1
    assert tern("run", tmp_path / "missing.pt2").returncode == 2
    damaged = tmp_path / "damaged.pt2"
    damaged.write_bytes((model / "net.pt2").read_bytes()[:1000])
    done = tern("info", damaged)
    assert done.returncode == 2 and "damaged.pt2" in done.stderr
    done = tern("run", model / "net.pt2", "--input", model / "inputs.npz", "--compare", model / "wrong.npz")
    assert done.returncode == 3 and "DIFFERS" in done.stdout


def test_what_is_not_supported_is_named(tmp_path):
    @torch.library.custom_op("elsewhere::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(lambda x: torch.empty_like(x))

    class Rows(torch.nn.Module):
        def forward(self, x):
            return torch.ops.elsewhere.twice(x)

    torch.export.save(torch.export.export(Rows(), (torch.ones(3),)), tmp_path / "rows.pt2")
    done = tern("run", tmp_path / "rows.pt2")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "elsewhere::twice" in done.stderr or "elsewhere.twice" in done.stderr, done.stderr


def test_help_has_examples():
    done = tern("run", "--help")
    assert done.returncode == 0 and "Examples:" in done.stdout
    assert "Exit codes" in tern("--help").stdout


def test_ops_lists_every_operator_with_what_it_can_do():
    done = tern("ops")
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("add.Tensor "))
    assert "bool int half float complex" in row and "formula" in row
    one = tern("ops", "sort")
    assert one.returncode == 0 and "aten::sort.stable(" in one.stdout and "aten::sort.values(" in one.stdout and "formula for self" in one.stdout
    assert "hypot" in tern("ops", "hypott").stderr and tern("ops", "hypott").returncode == 4
    assert tern("ops", "--markdown").stdout.startswith("# Operators\n")


def test_code_and_graph_of_a_frozen_module(model):
    whole = tern("graph", model / "net.pt")
    assert whole.returncode == 0 and "prim::CallMethod" in whole.stdout and "prim::GetAttr" in whole.stdout
    frozen = tern("graph", model / "net.pt", "--frozen")
    assert frozen.returncode == 0, frozen.stderr
    assert "prim::CallMethod" not in frozen.stdout and "prim::GetAttr" not in frozen.stdout
    assert frozen.stdout.count("aten::linear(") == 2
    code = tern("code", model / "net.pt", "--frozen", "--constants")
    assert code.returncode == 0, code.stderr
    assert "torch.linear(input, CONSTANTS.c" in code.stdout
    names = [line for line in code.stdout.splitlines() if line.startswith("CONSTANTS.")]
    assert len(names) == 6 and sum("float32[16, 8]" in n for n in names) == 1 and sum("float32[3]" in n for n in names) == 1
    assert "CONSTANTS.c0 " not in tern("code", model / "net.pt", "--frozen").stdout


def test_code_is_what_pytorch_prints(model):
    net = torch.jit.load(str(model / "net.pt"))
    assert tern("code", model / "net.pt").stdout.strip() == net.code.strip()
    assert tern("code", model / "net.pt", "--module", "0").stdout.strip() == getattr(net, "0").code.strip()
    assert tern("code", model / "net.pt", "nothing").returncode != 0


def test_graph_optimized_and_with_shapes(model):
    optimized = tern("graph", model / "net.pt", "--optimized")
    assert optimized.returncode == 0, optimized.stderr
    assert "prim::CallMethod" not in optimized.stdout and "aten::layer_norm(" in optimized.stdout
    shaped = tern("graph", model / "net.pt", "--shapes", "input:4x8")
    assert shaped.returncode == 0, shaped.stderr
    linear = [line for line in shaped.stdout.splitlines() if "aten::linear(" in line]
    assert "Float(4, 16," in linear[0] and "Float(4, 3," in linear[1]


@pytest.mark.parametrize("flags", [["code", "--frozen"], ["code", "--constants"], ["code", "--module", "0"], ["graph", "--frozen"], ["graph", "--optimized"], ["graph", "--shapes", "x:4x8"]])
def test_flags_for_modules_are_refused_for_programs(model, flags):
    done = tern(flags[0], model / "net.pt2", *flags[1:])
    assert done.returncode == 1 and "are for .pt files" in done.stderr


class Early(torch.nn.Module):
    def helper(self, x, w: Optional[torch.Tensor]):
        if w is None:
            if x.dim() == 5:
                raise ValueError("five")
            return x * 2
        return x + w

    def forward(self, x):
        if x.dim() == 3:
            r = x
        elif x.dim() == 4:
            raise ValueError("four")
        else:
            r = self.helper(self.helper(x, None), x)
        return r


@pytest.mark.parametrize("to", ["onnx", "pt2"])
def test_scripts_with_early_returns_and_optionals_become_programs(tmp_path, to):
    torch.jit.script(Early()).save(str(tmp_path / "early.pt"))
    assert "prim::Uninitialized" in tern("graph", tmp_path / "early.pt", "--inlined").stdout
    assert "prim::unchecked_cast" in tern("graph", tmp_path / "early.pt", "--inlined").stdout
    done = tern("convert", tmp_path / "early.pt", tmp_path / f"early.{to}", "--shapes", "x:4x8", "--check")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("to", ["onnx", "pt2"])
def test_dynamically_quantized_scripts_become_programs(tmp_path, to):
    torch.manual_seed(0)
    net = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(8, 4)).eval(), {torch.nn.Linear})
    torch.jit.script(net).save(str(tmp_path / "dynamic.pt"))
    done = tern("convert", tmp_path / "dynamic.pt", tmp_path / f"dynamic.{to}", "--shapes", "input:2x8", "--check")
    assert done.returncode == 0, done.stdout + done.stderr



class WithOptionals(torch.nn.Module):
    def forward(self, x, mask: Optional[torch.Tensor] = None, scale: Optional[float] = None, n: int = 2):
        if mask is not None:
            x = x * mask
        if scale is not None:
            x = x * scale
        return x * n


@pytest.mark.parametrize("to", ["pt2", "onnx", "pt"])
def test_inputs_that_are_not_given_are_checked_as_not_given(tmp_path, to):
    torch.jit.script(WithOptionals()).save(str(tmp_path / "optional.pt"))
    done = tern("convert", tmp_path / "optional.pt", tmp_path / f"converted.{to}", "--shapes", "x:2x3", "--check")
    assert done.returncode == 0 and "largest difference 0" in done.stdout, done.stdout + done.stderr


class SeveralKinds(torch.nn.Module):
    def forward(self, x):
        return x.shape[0] * 2, None, x + 1, x.sum().item()


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    x = torch.arange(8.0).reshape(2, 4)
    batch = torch.export.Dim("batch", min=2, max=64)
    torch.export.save(torch.export.export(SeveralKinds(), (x,), dynamic_shapes=({0: batch},)), folder / "net.pt2")
    numpy.savez(folder / "inputs.npz", x=x.numpy())
    outputs = {"output_0": numpy.int64(4), "output_2": x.numpy() + 1, "output_3": numpy.float64(28)}
    numpy.savez(folder / "outputs.npz", **outputs)
    numpy.savez(folder / "wrong.npz", **{**outputs, "output_3": numpy.float64(29)})
    return folder


@pytest.mark.parametrize("backend", ["native", "interpreter", "onnxrt"])
def test_numbers_and_none_among_the_results(kinds, backend):
    run = ("run", kinds / "net.pt2", "--input", kinds / "inputs.npz", "--backend", backend)
    done = tern(*run, "--compare", kinds / "outputs.npz")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line.split(":")[1].strip() for line in done.stdout.splitlines()[:4]] == ["4", "None", "float32[2, 4]", "28.0"]
    done = tern(*run, "--compare", kinds / "wrong.npz")
    assert done.returncode == 3 and "DIFFERS" in done.stdout, done.stdout + done.stderr


def test_integers_are_compared_exactly(tmp_path):
    class More(torch.nn.Module):
        def forward(self, x):
            return x + 1

    large = 2**60
    torch.export.save(torch.export.export(More(), (torch.arange(2),)), tmp_path / "net.pt2")
    numpy.savez(tmp_path / "inputs.npz", x=numpy.array([large, -large]))
    run = ("run", tmp_path / "net.pt2", "--input", tmp_path / "inputs.npz", "--rtol", 0, "--atol", 0, "--compare")
    numpy.savez(tmp_path / "outputs.npz", output_0=numpy.array([large + 1, -large + 1]))
    assert tern(*run, tmp_path / "outputs.npz").returncode == 0
    numpy.savez(tmp_path / "wrong.npz", output_0=numpy.array([large, -large + 1]))
    done = tern(*run, tmp_path / "wrong.npz")
    assert done.returncode == 3 and f"is {large + 1}, expected {large}" in done.stdout, done.stdout


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_results_that_numpy_has_no_type_for(tmp_path, dtype):
    class Copy(torch.nn.Module):
        def forward(self, x):
            return x.clone()

    torch.export.save(torch.export.export(Copy(), (torch.ones(3).to(getattr(torch, dtype)),)), tmp_path / "net.pt2")
    done = tern("run", tmp_path / "net.pt2", "--output", tmp_path / "out.npz")
    assert done.returncode == 4 and dtype in done.stderr and ".safetensors" in done.stderr, done.stderr
    assert tern("run", tmp_path / "net.pt2", "--output", tmp_path / "out.safetensors").returncode == 0
    done = tern("run", tmp_path / "net.pt2", "--compare", tmp_path / "out.safetensors")
    assert done.returncode == 0 and "largest difference 0" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("words, args", [
    ("there is no command 'nosuch'", ["nosuch"]),
    ("cannot open 'nosuch.npz'", ["run", "net.pt2", "--input", "nosuch.npz"]),
    ("cannot open 'nosuch.npz'", ["run", "net.pt2", "--compare", "nosuch.npz"]),
    ("cannot write", ["run", "net.pt2", "--output", "/nosuch/folder/out.npz"]),
    ("must be of dtype float32", ["run", "net.pt2", "--input", "double.npz"]),
    ("must have the shape", ["run", "net.pt2", "--shapes", "input:2x3x4"]),
    ("expected name:1x3x224x224", ["run", "net.pt2", "--shapes", "input:2x"]),
    ("not negative, got -3", ["run", "net.pt2", "--threads", "-3"]),
    ("not negative, got nan", ["run", "net.pt2", "--rtol", "nan"]),
    ("not negative, got -1", ["bench", "net.pt2", "--seconds", "-1"]),
])
def test_what_the_user_gave_wrong_is_no_invalid_model(model, words, args):
    numpy.savez(model / "double.npz", input_0=numpy.ones((4, 8)))
    done = tern(*[model / a if a in ("net.pt2", "double.npz") else a for a in args])
    assert done.returncode == 1 and words in done.stderr + done.stdout, (done.returncode, done.stdout, done.stderr)


def test_a_bench_of_no_seconds_runs_once(model):
    done = tern("bench", model / "net.pt2", "--seconds", 0)
    assert done.returncode == 0 and done.stdout.splitlines()[1].split()[3] == "1", done.stdout + done.stderr


def test_onnx_runtime_refuses_complex_numbers(tmp_path):
    class Twice(torch.nn.Module):
        def forward(self, x):
            return x.clone()

    torch.export.save(torch.export.export(Twice(), (torch.ones(3, dtype=torch.complex64),)), tmp_path / "net.pt2")
    done = tern("run", tmp_path / "net.pt2", "--backend", "onnxrt")
    assert done.returncode == 4 and "complex64" in done.stderr, done.stderr
