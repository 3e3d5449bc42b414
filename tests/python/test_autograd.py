"""Gradients from Python."""

import pytest

import tern


def test_backward_and_grad():
    x = tern.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x * x).sum()
    assert y.grad_fn.name() == "SumBackward0" and y.grad_fn.next_functions[0][0].name() == "MulBackward0"
    y.backward()
    assert x.grad.tolist() == [2, 4, 6]
    (g,) = tern.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = tern.autograd.grad(g.sum(), x)
    assert g.tolist() == [3, 12, 27] and h.tolist() == [6, 12, 18]
    x.grad = None
    assert x.grad is None
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        tern.ones(1).backward()
    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
        x.grad = tern.ones(2)


def test_modes():
    x = tern.ones(2, requires_grad=True)
    with tern.no_grad():
        assert not (x * 2).requires_grad
        with tern.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad

    @tern.no_grad()
    def f():
        return x * 2

    @tern.no_grad
    def g():
        yield x * 2

    assert not f().requires_grad and not next(g()).requires_grad and tern.is_grad_enabled()
    with tern.set_grad_enabled(False):
        assert not tern.is_grad_enabled()
    assert tern.is_grad_enabled()
    tern.set_grad_enabled(False)
    assert not tern.is_grad_enabled()
    tern.set_grad_enabled(True)


def test_hooks():
    x = tern.ones(2, requires_grad=True)
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.tolist()))
    y = x * 3
    y.register_hook(lambda g: g * 2)
    y.sum().backward()
    assert seen == [[6, 6]] and x.grad.tolist() == [6, 6]
    handle.remove()
    (x * 1).sum().backward()
    assert len(seen) == 1
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * 1).sum().backward()


def test_function():
    class Cube(tern.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.scale = scale
            return x**3 * scale

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return grad * 3 * x * x * ctx.scale, None

    x = tern.tensor([1.0, 2.0], requires_grad=True)
    y = Cube.apply(x, 2)
    assert y.grad_fn.name() == "CubeBackward" and y.tolist() == [2, 16]
    y.sum().backward(retain_graph=True)
    assert x.grad.tolist() == [6, 24]
    y.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.sum().backward()
    assert not Cube.apply(tern.ones(1), 1).requires_grad
    (g,) = tern.autograd.grad(Cube.apply(x, 1).sum(), x, create_graph=True)
    assert tern.autograd.grad(g.sum(), x)[0].tolist() == [6, 12]
    with pytest.raises(RuntimeError, match="should not be instantiated"):
        Cube()


def test_function_with_several_outputs_and_saved_output():
    class Both(tern.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(y)
            return y, x > 0, x * 3

        @staticmethod
        def backward(ctx, a, flag, b):
            (y,) = ctx.saved_tensors
            return a * y + b

    x = tern.tensor([1.0, -1.0], requires_grad=True)
    a, flag, b = Both.apply(x)
    assert not flag.requires_grad and flag.tolist() == [True, False]
    a.sum().backward()
    assert x.grad.tolist() == [2, -2]


def test_wrong_number_of_gradients():
    class Wrong(tern.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y

        @staticmethod
        def backward(ctx, g):
            return g

    x = tern.ones(1, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"returned an incorrect number of gradients \(expected 2, got 1\)"):
        Wrong.apply(x, x).backward()


def test_gradcheck():
    x = tern.tensor([0.3, -0.7, 1.1], dtype=tern.float64, requires_grad=True)
    assert tern.autograd.gradcheck(lambda t: (t * t).exp(), (x,))
