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


def test_an_unknown_format_is_named(tmp_path):
    with pytest.raises(NotImplementedError, match="no format for '.txt' files"):
        tern.load(tmp_path / "net.txt")
