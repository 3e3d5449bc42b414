"""Jacobians, Hessians and their products with vectors, of functions from tensors to tensors."""

from .. import _tern
from .._grad_mode import enable_grad
from .._tern import Tensor


def _op(name):
    return _tern._packet("aten::" + name)


def _tuple(x, what, function):
    if isinstance(x, Tensor):
        return (x,), False
    if not isinstance(x, (tuple, list)):
        raise TypeError(f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the given {what} has type {type(x)}.")
    for i, t in enumerate(x):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"The {what} given to {function} must be either a Tensor or a tuple of Tensors but the value at index {i} has type {type(t)}."
            )
    return tuple(x), True


def _prepared(inputs, create_graph):
    """Inputs of their own, so that the caller's keep their gradients; with create_graph still linked to them."""
    if create_graph:
        return tuple(t.view_as(t) if t.requires_grad else t.clone().requires_grad_() for t in inputs)
    return tuple(t.detach().requires_grad_() for t in inputs)


def _evaluated(func, inputs, function, strict, scalar=False):
    outputs, many = _tuple(func(*inputs), "outputs of the user-provided function", function)
    if scalar:
        if many:
            raise RuntimeError(f"The function given to {function} should return a single Tensor")
        if outputs[0].numel() != 1 or outputs[0].dim() > 1:
            raise RuntimeError(f"The Tensor returned by the function given to {function} should contain a single element")
        outputs = (outputs[0].reshape(()),)
    if strict:
        for i, o in enumerate(outputs):
            if not o.requires_grad:
                raise RuntimeError(
                    f"Output {i} of the user-provided function does not require gradients. The outputs must be computed in a "
                    "differentiable manner from the input when running in strict mode."
                )
    return outputs, many


def _vector(v, like, name, function):
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"The vector {name} can only be None if the {'output' if name == 'v' else 'input'} of the function is a Tensor with a single element")
        return tuple(_op("ones_like")(t) for t in like)
    v, _ = _tuple(v, name, function)
    if len(v) != len(like):
        raise RuntimeError(f"{name} is a tuple of invalid length: should be {len(like)} but got {len(v)}.")
    for i, (a, b) in enumerate(zip(v, like)):
        if tuple(a.shape) != tuple(b.shape):
            which = f"Entry {i} in {name}" if len(like) > 1 else name
            raise RuntimeError(f"{which} has invalid size: should be {b.shape} but got {a.shape}.")
    return tuple(t.detach() if not t.requires_grad else t for t in v)


def _grads(outputs, inputs, grads, create_graph, strict, output="The output"):
    """Gradients of the outputs that have any; zeros where an input does not matter."""
    from . import grad

    pairs = [(o, g) for o, g in zip(outputs, grads) if o.requires_grad]
    if pairs:
        found = grad([o for o, _ in pairs], inputs, [g for _, g in pairs], create_graph=create_graph, retain_graph=True, allow_unused=True)
    else:
        found = (None,) * len(inputs)
    for i, g in enumerate(found):
        if strict and g is None:
            raise RuntimeError(f"{output} of the user-provided function is independent of input {i}. This is not allowed in strict mode.")
        if strict and create_graph and not g.requires_grad:
            raise RuntimeError(
                f"The gradient of the user-provided function is independent of input {i}. This is not allowed in strict mode when create_graph=True."
            )
    return tuple(_op("zeros_like")(x) if g is None else g for g, x in zip(found, inputs))


def _finished(values, create_graph):
    return tuple(v if create_graph else v.detach() for v in values)


def _shaped(values, many):
    return tuple(values) if many else values[0]


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs, and the product of the vector with the Jacobian."""
    with enable_grad():
        inputs, many_inputs = _tuple(inputs, "inputs", "vjp")
        inputs = _prepared(inputs, create_graph)
        outputs, many_outputs = _evaluated(func, inputs, "vjp", strict)
        v = _vector(v, outputs, "v", "vjp")
        result = _grads(outputs, inputs, v, create_graph, strict)
    return _shaped(_finished(outputs, create_graph), many_outputs), _shaped(_finished(result, create_graph), many_inputs)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """The outputs, and the product of the Jacobian with the vector: the gradient of a gradient that is linear in its vector."""
    from . import grad

    with enable_grad():
        inputs, _ = _tuple(inputs, "inputs", "jvp")
        inputs = _prepared(inputs, create_graph)
        v = _vector(v, inputs, "v", "jvp")
        outputs, many_outputs = _evaluated(func, inputs, "jvp", strict)
        dummies = tuple(_op("zeros_like")(o).requires_grad_() for o in outputs)
        first = _grads(outputs, inputs, dummies, True, strict)
        pairs = [(g, w) for g, w in zip(first, v) if g.requires_grad]
        if pairs:
            result = grad([g for g, _ in pairs], dummies, [w for _, w in pairs], create_graph=create_graph, retain_graph=True, allow_unused=True)
        else:
            result = (None,) * len(dummies)
        result = tuple(_op("zeros_like")(o) if r is None else r for r, o in zip(result, outputs))
    return _shaped(_finished(outputs, create_graph), many_outputs), _shaped(_finished(result, create_graph), many_outputs)


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian: for each output and each input a tensor of the output's sizes followed by the input's."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f'Expected strategy to be either "forward-mode" or "reverse-mode". Got: "{strategy}".')
    with enable_grad():
        inputs, many_inputs = _tuple(inputs, "inputs", "jacobian")
        inputs = _prepared(inputs, create_graph)
        outputs, many_outputs = _evaluated(func, inputs, "jacobian", strict)
        rows = []
        for k, out in enumerate(outputs):
            columns = [[] for _ in inputs]
            for position in range(out.numel()):
                one = _op("zeros_like")(out).detach()
                one.reshape(-1)[position] = 1
                for column, g in zip(columns, _grads((out,), inputs, (one,), create_graph, strict, f"Output {k}")):
                    column.append(g)
            row = [
                _op("stack")(column).reshape([*out.shape, *x.shape]) if column else _op("new_zeros")(x, [*out.shape, *x.shape])
                for column, x in zip(columns, inputs)
            ]
            rows.append(_shaped(_finished(row, create_graph), many_inputs))
    return _shaped(rows, many_outputs)


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The second derivatives of a function with one number as its result."""
    _, many = _tuple(inputs, "inputs", "hessian")

    def gradient(*given):
        outputs, _ = _evaluated(func, given, "hessian", strict, scalar=True)
        return _shaped(_grads(outputs, given, (_op("ones_like")(outputs[0]),), True, strict), many)

    return jacobian(gradient, inputs, create_graph, strict)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """The value, and the product of the vector with the Hessian."""
    with enable_grad():
        inputs, many = _tuple(inputs, "inputs", "vhp")
        inputs = _prepared(inputs, create_graph)
        v = _vector(v, inputs, "v", "vhp")
        outputs, _ = _evaluated(func, inputs, "vhp", strict, scalar=True)
        first = _grads(outputs, inputs, (_op("ones_like")(outputs[0]),), True, strict)
        result = _grads(first, inputs, v, create_graph, strict)
    return _finished(outputs, create_graph)[0], _shaped(_finished(result, create_graph), many)


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """The value, and the product of the Hessian with the vector."""

    def gradient(*given):
        outputs, _ = _evaluated(func, given, "hvp", strict, scalar=True)
        values.append(outputs[0])
        return _grads(outputs, given, (_op("ones_like")(outputs[0]),), True, strict)

    values = []
    _, many = _tuple(inputs, "inputs", "hvp")
    _, result = jvp(gradient, inputs, v, create_graph, strict)
    return _finished(values[:1], create_graph)[0], _shaped(result, many)
