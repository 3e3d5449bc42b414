"""tern.load and tern.save on files that PyTorch wrote and reads."""

import numpy
import pytest

import tern

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).eval()


def test_a_program_of_pytorch_is_called_and_trained(net, tmp_path):
    x = torch.randn(3, 4)
    torch.export.save(torch.export.export(net, (x,), dynamic_shapes=({0: torch.export.Dim("b", max=64)},)), tmp_path / "net.pt2")
    model = tern.load(tmp_path / "net.pt2")
    y = model(tern.from_numpy(x.numpy()))
    numpy.testing.assert_allclose(y.detach().numpy(), net(x).detach().numpy(), rtol=1e-5, atol=1e-6)
    y.sum().backward()
    net.zero_grad()
    net(x).sum().backward()
    numpy.testing.assert_allclose(model.state_dict()["0.weight"].grad.numpy(), net[0].weight.grad.numpy(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("extension", ["pt2", "onnx", "pt"])
def test_what_is_saved_gives_the_same_numbers(net, tmp_path, extension):
    x = torch.randn(3, 4)
    torch.export.save(torch.export.export(net, (x,)), tmp_path / "net.pt2")
    path = tmp_path / f"saved.{extension}"
    tern.save(tern.load(tmp_path / "net.pt2"), path)
    got = tern.load(path).run(tern.from_numpy(x.numpy()))[0]
    numpy.testing.assert_allclose(got.numpy(), net(x).detach().numpy(), rtol=1e-5, atol=1e-6)


def test_decompositions_are_those_of_pytorch(tmp_path):
    block = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True).eval()
    x = torch.randn(2, 5, 8)
    program = torch.export.export(block, (x,))
    torch.export.save(program, tmp_path / "block.pt2")
    core = tern.load(tmp_path / "block.pt2").run_decompositions()
    tern.save(core, tmp_path / "core.pt2")
    read = torch.export.load(tmp_path / "core.pt2")
    numpy.testing.assert_allclose(read.module()(x).detach().numpy(), block(x).detach().numpy(), rtol=1e-4, atol=1e-5)

    def operators(p):
        # Arithmetic with a number is written with the overload for tensors (docs/decisions.md).
        return {str(n.target).replace("mul.Scalar", "mul.Tensor") for n in p.graph.nodes if n.op == "call_function"} - {"<built-in function getitem>"}

    assert operators(read) == operators(program.run_decompositions())


def test_only_programs_are_decomposed(tmp_path):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x + self.calls

    torch.jit.script(Counting()).save(str(tmp_path / "counting.pt"))
    with pytest.raises(NotImplementedError, match="run_decompositions: the model is a script"):
        tern.load(tmp_path / "counting.pt").run_decompositions()


def test_an_unknown_format_is_named(tmp_path):
    with pytest.raises(NotImplementedError, match="no format for '.txt' files"):
        tern.load(tmp_path / "net.txt")
