"""Gradients: ``backward``, ``grad`` and functions with a backward of their own."""

import functools

from . import _tern
from ._grad_mode import enable_grad, no_grad, set_grad_enabled  # noqa: F401
from ._tern import Node, Tensor  # noqa: F401


def _list(x):
    return [x] if isinstance(x, Tensor) else list(x)


def _gradients(grads, n):
    if grads is None:
        return [None] * n
    return [grads] if isinstance(grads, Tensor) else list(grads)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Accumulates gradients into ``.grad`` of the leaves, or of ``inputs`` only."""
    tensors = _list(tensors)
    grads = _gradients(grad_tensors, len(tensors))
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        return _tern._backward(tensors, grads, retain, create_graph)
    inputs = _list(inputs)
    if not inputs:
        raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    for t, g in zip(inputs, _tern._grad(tensors, inputs, grads, retain, create_graph, True)):
        if g is not None:
            t.grad = g if t.grad is None else t.grad + g


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """The gradients of ``inputs``, one each; ``.grad`` is left alone."""
    if is_grads_batched:
        raise NotImplementedError("autograd.grad: is_grads_batched is not supported; call grad once per row")
    if allow_unused is False and materialize_grads:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    outputs, inputs = _list(outputs), _list(inputs)
    retain = create_graph if retain_graph is None else retain_graph
    unused = materialize_grads if allow_unused is None else allow_unused
    result = _tern._grad(outputs, inputs, _gradients(grad_outputs, len(outputs)), retain, create_graph, unused)
    if materialize_grads:
        result = tuple(_tern._packet("aten::zeros_like")(t) if g is None else g for g, t in zip(result, inputs))
    return result


class FunctionCtx:
    """What forward leaves for backward."""

    def __init__(self):
        self._to_save = self._link = self._dirty = self._non_differentiable = None
        self._materialize_grads = True
        self.needs_input_grad = ()

    def save_for_backward(self, *tensors):
        self._to_save = tensors

    def save_for_forward(self, *tensors):
        pass

    @property
    def saved_tensors(self):
        if self._link is not None:
            return self._link.saved_tensors
        return tuple(self._to_save or ())

    def mark_dirty(self, *tensors):
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors):
        self._non_differentiable = tensors

    def set_materialize_grads(self, value):
        self._materialize_grads = bool(value)


class Function:
    """Subclass with static ``forward(ctx, *args)`` and ``backward(ctx, *grads)``, and call ``apply``."""

    _separate_context = False

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls._separate_context = cls.setup_context is not Function.setup_context

    def __init__(self, *args, **kwargs):
        raise RuntimeError(f"{type(self)} should not be instantiated. Use {type(self).__name__}.apply(...)")

    @staticmethod
    def forward(*args, **kwargs):
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError("You must implement the backward for your custom autograd.Function to use it with backward mode AD.")

    @classmethod
    def apply(cls, *args):
        return _tern._apply_function(cls, FunctionCtx(), *args)


def once_differentiable(backward_function):
    @functools.wraps(backward_function)
    def wrapped(ctx, *grads):
        with no_grad():
            return backward_function(ctx, *grads)

    return wrapped


def gradcheck(func, inputs, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True):
    """Compares gradients with central differences; inputs that require grad must be float64."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = func(*inputs)
    for k, out in enumerate([outputs] if isinstance(outputs, Tensor) else outputs):
        if not out.requires_grad:
            continue
        for i, x in enumerate(inputs):
            if not isinstance(x, Tensor) or not x.requires_grad:
                continue
            for o in range(out.numel()):
                one = _tern._packet("aten::zeros_like")(out)
                one.view(-1)[o] = 1
                (analytic,) = grad(out, x, one, retain_graph=True, allow_unused=True)
                for j in range(x.numel()):
                    values = []
                    for step in (eps, -eps):
                        moved = x.detach().clone()
                        moved.view(-1)[j] += step
                        moved.requires_grad_(True)
                        result = func(*inputs[:i], moved, *inputs[i + 1 :])
                        result = result if isinstance(result, Tensor) else result[k]
                        values.append(result.detach().reshape(-1)[o].item())
                    numeric = (values[0] - values[1]) / (2 * eps)
                    found = 0.0 if analytic is None else analytic.reshape(-1)[j].item()
                    if abs(numeric - found) > atol + rtol * abs(numeric):
                        if not raise_exception:
                            return False
                        raise RuntimeError(
                            f"Jacobian mismatch for output {k} with respect to input {i}: numerical {numeric}, analytical {found}"
                        )
    return True
