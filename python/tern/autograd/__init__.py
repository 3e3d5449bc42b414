"""Gradients: ``backward``, ``grad``, functions with a backward of their own, and what looks into recorded graphs."""

from .. import _tern
from .._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401
from .._tern import Node, Tensor  # noqa: F401


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
    if allow_unused is False and materialize_grads:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    outputs, inputs = _list(outputs), _list(inputs)
    retain = create_graph if retain_graph is None else retain_graph
    unused = materialize_grads if allow_unused is None else allow_unused
    grads = _gradients(grad_outputs, len(outputs))
    if is_grads_batched:
        result = _rows(outputs, inputs, grads, retain, create_graph, unused)
    else:
        result = _tern._grad(outputs, inputs, grads, retain, create_graph, unused)
    if materialize_grads:
        result = tuple(_tern._packet("aten::zeros_like")(t) if g is None else g for g, t in zip(result, inputs))
    return result


def _rows(outputs, inputs, grads, retain, create_graph, unused):
    """A gradient for each row of the given ones, stacked."""
    given = [g for g in grads if g is not None]
    if not given:
        raise RuntimeError("grad: is_grads_batched=True needs grad_outputs, whose first dimension is the batch")
    sizes = {g.shape[0] if g.dim() else None for g in given}
    if len(sizes) != 1 or None in sizes:
        raise RuntimeError(f"grad: is_grads_batched=True needs grad_outputs with the same first dimension, found {[list(g.shape) for g in given]}")
    (n,) = sizes
    rows = [
        _tern._grad(outputs, inputs, [None if g is None else g[i] for g in grads], retain or i + 1 < n, create_graph, unused)
        for i in range(n)
    ]
    stack = _tern._packet("aten::stack")
    if not rows:
        return tuple(_tern._packet("aten::new_zeros")(t, [0, *t.shape]) for t in inputs)
    return tuple(None if column[0] is None else stack(list(column)) for column in zip(*rows))


from . import anomaly_mode, function, functional, grad_mode, graph  # noqa: E402,F401
from .anomaly_mode import detect_anomaly, set_detect_anomaly  # noqa: E402,F401
from .function import Function, FunctionCtx, once_differentiable  # noqa: E402,F401
from .gradcheck import gradcheck, gradgradcheck  # noqa: E402,F401
