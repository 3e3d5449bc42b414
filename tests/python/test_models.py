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


def operators(program):
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function" and "getitem" not in str(n.target)]


def decomposed(module, inputs, folder):
    """What PyTorch makes of the module and what it reads of a file in which Tern wrote the same."""
    program = torch.export.export(module, inputs)
    torch.export.save(program, folder / "given.pt2")
    tern.save(tern.load(folder / "given.pt2").run_decompositions(), folder / "core.pt2")
    return program.run_decompositions(), torch.export.load(folder / "core.pt2")


def test_decompositions_are_those_of_pytorch(tmp_path):
    block = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True).eval()
    x = torch.randn(2, 5, 8)
    theirs, ours = decomposed(block, (x,), tmp_path)
    numpy.testing.assert_allclose(ours.module()(x).detach().numpy(), block(x).detach().numpy(), rtol=1e-4, atol=1e-5)
    assert sorted(operators(ours)) == sorted(operators(theirs))


@pytest.mark.parametrize(
    "equation, sizes",
    [
        ("i,i->", [(4,), (4,)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhid,bhjd->bhij", [(2, 3, 4, 5), (2, 3, 6, 5)]),
        ("i,j->ij", [(3,), (4,)]),
        ("ii->i", [(3, 3)]),
        ("ij->i", [(3, 4)]),
        ("ij,jk->ki", [(3, 4), (4, 5)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (1, 4, 5)]),
        ("ijk,ijk->", [(1, 2, 3), (1, 2, 3)]),
        ("ij,k->i", [(3, 4), (5,)]),
        ("ij,ij->ij", [(3, 1), (1, 4)]),
    ],
)
def test_einsum_becomes_what_it_becomes_in_pytorch(equation, sizes, tmp_path):
    class Einsum(torch.nn.Module):
        def forward(self, *operands):
            return torch.einsum(equation, *operands)

    operands = tuple(torch.randn(s) for s in sizes)
    theirs, ours = decomposed(Einsum(), operands, tmp_path)
    assert operators(ours) == operators(theirs)
    numpy.testing.assert_allclose(ours.module()(*operands).numpy(), torch.einsum(equation, *operands).numpy(), rtol=1e-4, atol=1e-5)


def test_what_checks_stays_in_a_decomposed_program(tmp_path):
    """_linalg_check_errors is tied to the program by a token; engines and PyTorch refuse a singular matrix."""

    class Twice(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.inv(torch.linalg.inv(x)) + torch.linalg.cholesky(x @ x.mT + torch.eye(3))

    x = torch.randn(3, 3) + 3 * torch.eye(3)
    theirs, ours = decomposed(Twice(), (x,), tmp_path)
    assert sorted(operators(ours)) == sorted(operators(theirs))
    assert [s.kind.name for s in ours.graph_signature.input_specs] == ["TOKEN", "USER_INPUT"]
    numpy.testing.assert_allclose(ours.module()(x).numpy(), Twice()(x).numpy(), rtol=1e-3, atol=1e-4)
    with pytest.raises(RuntimeError, match="singular"):
        ours.module()(torch.zeros(3, 3))

    for name in "given.pt2", "core.pt2":  # Tern reads what it wrote, token and all
        model = tern.load(tmp_path / name)
        numpy.testing.assert_allclose(model.run(tern.from_numpy(x.numpy()))[0].numpy(), Twice()(x).numpy(), rtol=1e-3, atol=1e-4)
        with pytest.raises(RuntimeError, match="singular"):
            model.run(tern.zeros(3, 3))
        tern.save(model.run_decompositions(), tmp_path / "again.pt2")
        assert sorted(operators(torch.export.load(tmp_path / "again.pt2"))) == sorted(operators(theirs))


def test_forms_that_write_have_the_functional_names_of_pytorch(tmp_path):
    class Writes(torch.nn.Module):
        def forward(self, x, mean, variance):
            y = torch.ops.aten._native_batch_norm_legit(x, None, None, mean, variance, True, 0.1, 1e-5)[0]
            return y + torch.empty_like(x).zero_()

    inputs = torch.randn(4, 3), torch.zeros(3), torch.ones(3)
    theirs, ours = decomposed(Writes(), inputs, tmp_path)
    assert sorted(operators(ours)) == sorted(operators(theirs))
    mean, variance = inputs[1].clone(), inputs[2].clone()
    ours.module()(inputs[0], mean, variance)
    numpy.testing.assert_allclose(mean.numpy(), 0.1 * inputs[0].mean(0).numpy(), rtol=1e-5, atol=1e-6)


def test_only_programs_are_decomposed(tmp_path):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x + self.calls

    torch.jit.script(Counting()).save(str(tmp_path / "counting.pt"))
    with pytest.raises(NotImplementedError, match="assigns its attribute 'calls' while it runs: it cannot become a program"):
        tern.load(tmp_path / "counting.pt").run_decompositions()
    torch.jit.script(torch.nn.Linear(2, 3)).save(str(tmp_path / "linear.pt"))
    with pytest.raises(NotImplementedError, match="the sizes of a script's inputs are not known"):
        tern.load(tmp_path / "linear.pt").run_decompositions()
    torch.jit.trace(torch.nn.Linear(2, 3), torch.ones(4, 2)).save(str(tmp_path / "traced.pt"))
    assert "aten.addmm" in tern.load(tmp_path / "traced.pt").run_decompositions().code


def test_an_unknown_format_is_named(tmp_path):
    with pytest.raises(NotImplementedError, match="no format for '.txt' files"):
        tern.load(tmp_path / "net.txt")
