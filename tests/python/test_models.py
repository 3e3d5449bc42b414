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


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 2)
        self.dropout = torch.nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(1))
        self.scale = 3

    def forward(self, x):
        return self.dropout(self.inner(x)) * self.scale

    @torch.jit.export
    def half(self, x, by: float = 2.0):
        return self.inner(x) / by


@pytest.fixture
def script(tmp_path):
    torch.manual_seed(0)
    made = torch.jit.script(Counter().eval())
    made.save(tmp_path / "script.pt")
    return made, tern.load(tmp_path / "script.pt")


def test_a_script_has_methods_submodules_and_attributes(script):
    theirs, ours = script
    x = torch.randn(3, 4)
    mine = tern.from_numpy(x.numpy())
    for call in (lambda m, x: m.half(x), lambda m, x: m.half(x, by=4.0), lambda m, x: m.inner(x), lambda m, x: m(x)):
        numpy.testing.assert_allclose(call(ours, mine).detach().numpy(), call(theirs, x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert ours.methods() == ["forward", "half"]
    assert ours.scale == 3
    assert ours.inner.weight.requires_grad and ours.seen.tolist() == [0]
    assert 'prim::CallMethod[name="forward"]' in ours.graph and ours.inner.code == theirs.inner.code
    assert ours.training is False
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        ours.nothing


def test_a_script_is_trained(script):
    theirs, ours = script
    x = torch.randn(3, 4)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert [n for n, _ in ours.named_buffers()] == [n for n, _ in theirs.named_buffers()]
    for library, model, given in ((torch, theirs, x), (tern, ours, tern.from_numpy(x.numpy()))):
        assert model.train() is model and model.training
        for _ in range(3):
            library.manual_seed(1)
            loss = (model(given) ** 2).sum()
            loss.backward()
            with library.no_grad():
                for p in model.parameters():
                    p -= p.grad * 0.01
                    p.grad = None
        assert not model.eval().training
    for name, t in theirs.state_dict().items():
        numpy.testing.assert_allclose(ours.state_dict()[name].detach().numpy(), t.numpy(), rtol=1e-5, atol=1e-6)
    state = {name: tern.zeros_like(t) for name, t in ours.state_dict().items()}
    ours.load_state_dict(state)
    assert not ours.inner.weight.any().item()
    wrong = {"inner.weight": (1, 4), "inner.bias": (2,), "more": (1,)}
    with pytest.raises(RuntimeError) as refused:
        ours.load_state_dict({name: tern.zeros(*size) for name, size in wrong.items()})
    with pytest.raises(RuntimeError) as wanted:
        Counter().load_state_dict({name: torch.zeros(*size) for name, size in wrong.items()})
    assert str(refused.value) == str(wanted.value)


def test_a_program_has_its_state(net, tmp_path):
    torch.export.save(torch.export.export(net, (torch.randn(3, 4),)), tmp_path / "net.pt2")
    model = tern.load(tmp_path / "net.pt2")
    assert [n for n, _ in model.named_parameters()] == [n for n, _ in net.named_parameters()]
    model.load_state_dict({n: tern.ones_like(t) for n, t in model.state_dict().items()})
    assert (next(iter(model.parameters())) == 1).all().item()
    assert model.methods() == ["forward"] and "aten" in model.graph
