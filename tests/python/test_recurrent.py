"""Recurrent networks and packed sequences, which OpInfo does not have: values, gradients and second gradients against PyTorch."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402

overload = tern._tern._overload
OPS = {"LSTM": "aten::lstm", "GRU": "aten::gru", "RNN_TANH": "aten::rnn_tanh", "RNN_RELU": "aten::rnn_relu"}
LENGTHS = [6, 4, 4, 1]


def mine(t):
    return tern.from_dlpack(t.detach())


def expect_close(got, want, tolerance, what):
    got = torch.from_dlpack(got.detach())
    assert got.shape == want.shape and got.dtype == want.dtype, what
    assert (got - want.detach()).abs().max().item() <= tolerance, what


def network(mode, dtype, **options):
    if mode.startswith("RNN"):
        return torch.nn.RNN(3, 5, nonlinearity=mode[4:].lower(), **options).to(dtype)
    return getattr(torch.nn, mode)(3, 5, **options).to(dtype)


@pytest.mark.parametrize("mode", OPS)
@pytest.mark.parametrize("packed", [False, True])
def test_networks_agree(mode, packed):
    torch.manual_seed(0)
    for layers, both, bias, batch_first, proj, dtype in itertools.product((1, 2), (False, True), (True, False), (False, True), (0, 2), (torch.float32, torch.float64)):
        if (proj and mode != "LSTM") or (packed and batch_first):
            continue
        tolerance = 1e-5 if dtype == torch.float32 else 1e-11
        options = dict(num_layers=layers, bidirectional=both, bias=bias, batch_first=batch_first)
        net = network(mode, dtype, **options, **({"proj_size": proj} if proj else {}))
        lstm, weights = mode == "LSTM", list(net._flat_weights)
        count = layers * (2 if both else 1)
        inputs = [torch.randn(*((4, 6) if batch_first else (6, 4)), 3, dtype=dtype), torch.randn(count, 4, proj or 5, dtype=dtype)]
        if lstm:
            inputs.append(torch.randn(count, 4, 5, dtype=dtype))
        inputs = [t.requires_grad_() for t in inputs]
        state = tuple(inputs[1:]) if lstm else inputs[1]
        if packed:
            y, last = net(torch.nn.utils.rnn.pack_padded_sequence(inputs[0], torch.tensor(LENGTHS)), state)
            want = [y.data, *(last if lstm else [last])]
        else:
            y, last = net(inputs[0], state)
            want = [y, *(last if lstm else [last])]
        cotangents = [torch.randn_like(t) for t in want]
        gradients = torch.autograd.grad(want, inputs + weights, cotangents)
        for trained in (False, True):  # the kernel for a whole layer; the fused cells
            what = (mode, packed, layers, both, bias, batch_first, proj, dtype, trained)
            leaves = [mine(t) for t in inputs + weights]
            if trained:
                for t in leaves:
                    t.requires_grad_()
            x, params = leaves[0], leaves[len(inputs) :]
            hidden = leaves[1 : len(inputs)] if lstm else leaves[1]
            if packed:
                data, sizes = overload("aten::_pack_padded_sequence")(x, mine(torch.tensor(LENGTHS)), False)
                got = overload(OPS[mode] + ".data")(data, sizes, hidden, params, bias, layers, 0.0, False, both)
            else:
                got = overload(OPS[mode] + ".input")(x, hidden, params, bias, layers, 0.0, False, both, batch_first)
            for a, b in zip(got, want):
                expect_close(a, b, tolerance, what)
            if trained:
                for a, b in zip(tern.autograd.grad(list(got), leaves, [mine(c) for c in cotangents]), gradients):
                    expect_close(a, b, tolerance * 100, what)


@pytest.mark.parametrize("mode", ["LSTM", "GRU"])
def test_second_gradients_agree(mode):
    torch.manual_seed(1)
    net = network(mode, torch.float64)
    x, h, c = (torch.randn(*s, dtype=torch.float64) for s in ((3, 2, 3), (1, 2, 5), (1, 2, 5)))
    leaves = [x.requires_grad_(), *net._flat_weights]
    first = torch.autograd.grad(net(x, (h, c) if mode == "LSTM" else h)[0].sum(), leaves, create_graph=True)
    want = torch.autograd.grad(sum((g**2).sum() for g in first), leaves)
    own = [mine(t).requires_grad_() for t in leaves]
    hidden = [mine(h), mine(c)] if mode == "LSTM" else mine(h)
    y = overload(OPS[mode] + ".input")(own[0], hidden, own[1:], True, 1, 0.0, False, False, False)[0]
    squares = [(g * g).sum() for g in tern.autograd.grad([y.sum()], own, create_graph=True)]
    total = squares[0]
    for s in squares[1:]:
        total = total + s
    for a, b in zip(tern.autograd.grad([total], own), want):
        expect_close(a, b, 1e-9, mode)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_cells_agree(cell):
    torch.manual_seed(2)
    gates = {"lstm": 4, "gru": 3}.get(cell, 1) * 5
    x, h, c = torch.randn(4, 3), torch.randn(4, 5), torch.randn(4, 5)
    weights = [torch.randn(gates, 3), torch.randn(gates, 5), torch.randn(gates), torch.randn(gates)]
    want = getattr(torch.ops.aten, cell + "_cell")(x, [h, c] if cell == "lstm" else h, *weights)
    got = overload(f"aten::{cell}_cell")(mine(x), [mine(h), mine(c)] if cell == "lstm" else mine(h), *map(mine, weights))
    for a, b in zip(got, want) if cell == "lstm" else [(got, want)]:
        expect_close(a, b, 1e-5, cell)


def test_packing_and_padding_agree():
    data, sizes = torch.randn(7, 3), torch.tensor([3, 2, 1, 1])
    for total in (-1, 6):
        want = torch._pad_packed_sequence(data, sizes, True, 1.5, total)
        for a, b in zip(overload("aten::_pad_packed_sequence")(mine(data), mine(sizes), True, 1.5, total), want):
            expect_close(a, b, 0, total)
    sequences = [torch.randn(n, 2) for n in (2, 4, 1)]
    for batch_first, side in itertools.product((True, False), ("left", "right")):
        want = torch.ops.aten.pad_sequence(sequences, batch_first, 2.0, side)
        expect_close(overload("aten::pad_sequence")([mine(s) for s in sequences], batch_first, 2.0, side), want, 0, side)
