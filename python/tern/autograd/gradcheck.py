"""Comparing gradients with differences of the function's values."""

import warnings

from .. import _tern
from .._grad_mode import no_grad
from .._tern import Tensor


class GradcheckError(RuntimeError):
    """A gradient is not what the values of the function say."""


def _listed(x):
    return (x,) if isinstance(x, Tensor) else tuple(x)


def _checked(t):
    return isinstance(t, Tensor) and t.requires_grad and (t.is_floating_point() or t.is_complex())


def _directions(t):
    """By which one element is moved, or weighed: along the real and the imaginary axis."""
    return (1.0, 1j) if t.is_complex() else (1.0,)


def _values(func, inputs):
    with no_grad():
        return [o.detach().clone() for o in _listed(func(*inputs)) if isinstance(o, Tensor)]


def _moved(inputs, i, position, step):
    x = inputs[i].detach().clone()
    flat = x.reshape(-1)
    flat[position] += step
    return (*inputs[:i], flat.reshape(x.shape).requires_grad_(), *inputs[i + 1 :])


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """Whether the gradients of func are those that small steps of its inputs show. With complex numbers the gradient
    of a real loss is its derivative by the real part plus i times that by the imaginary part, as in PyTorch."""
    try:
        _check(func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad, check_forward_ad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _check(func, inputs, eps, atol, rtol, nondet_tol, check_undefined_grad, check_forward_ad):
    from . import grad

    if check_forward_ad:
        raise NotImplementedError("gradcheck: Tern has no forward-mode differentiation; check_forward_ad must be False")
    inputs = _listed(inputs)
    places = [i for i, x in enumerate(inputs) if _checked(x)]
    if not places:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    if any(inputs[i].dtype not in (_tern.float64, _tern.complex128) for i in places):
        warnings.warn(
            "An input that requires gradient is not a double precision floating point or complex. "
            "This check will likely fail if all the inputs are not of double precision floating point or complex. ",
            stacklevel=3,
        )
    results = [o for o in _listed(func(*inputs)) if isinstance(o, Tensor)]
    outputs = [(k, o) for k, o in enumerate(results) if o.requires_grad]
    if not outputs:
        for i in places:  # what does not depend on the inputs has differences of zero
            for position in range(inputs[i].numel()):
                before, after = (_values(func, _moved(inputs, i, position, s)) for s in (-eps, eps))
                if any(((a - b).abs() > 2 * eps * atol).any().item() for a, b in zip(after, before) if a.numel()):
                    raise GradcheckError("Numerical gradient for function expected to be zero")
        return
    for i in places:
        x = inputs[i]
        for direction in _directions(x):
            for position in range(x.numel()):
                before, after = (_values(func, _moved(inputs, i, position, s * direction)) for s in (-eps, eps))
                slopes = [(a - b) / (2 * eps) for a, b in zip(after, before)]
                for k, out in outputs:
                    _check_column(grad, k, out, i, x, position, direction, slopes[k], atol, rtol, nondet_tol)
    if check_undefined_grad and len(outputs) > 1:
        # A gradient that is not given counts as zero.
        for k, out in outputs:
            wanted = grad(out, [inputs[i] for i in places], _like(out), retain_graph=True, allow_unused=True)
            zeros = [_tern._packet("aten::zeros_like")(o) for j, o in outputs if j != k]
            all_outputs = [out] + [o for j, o in outputs if j != k]
            found = grad(all_outputs, [inputs[i] for i in places], [_like(out), *zeros], retain_graph=True, allow_unused=True)
            for w, f in zip(wanted, found):
                difference = 0 if w is None and f is None else _largest(f) if w is None else _largest(w) if f is None else _largest(w - f)
                if difference > atol:
                    raise GradcheckError("Expected backward function to handle undefined output grads.")


def _like(t):
    return _tern._packet("aten::ones_like")(t)


def _largest(t):
    return t.abs().max().item() if t.numel() else 0.0


def _check_column(grad, k, out, i, x, position, direction, slope, atol, rtol, nondet_tol):
    """The derivatives of all elements of an output by one element of an input."""
    slope = slope.reshape(-1)
    for o in range(out.numel()):
        for weight in _directions(out):
            one = _tern._packet("aten::zeros_like")(out)
            one.reshape(-1)[o] = weight
            (found,) = grad(out, x, one, retain_graph=True, allow_unused=True)
            if found is not None and position == 0:
                (again,) = grad(out, x, one, retain_graph=True, allow_unused=True)
                if _largest(found - again) > nondet_tol:
                    raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values")
            analytic = 0.0 if found is None else complex(found.reshape(-1)[position].item())
            if found is not None and found.shape != x.shape:
                raise GradcheckError(f"grad is incorrect size: {list(found.shape)} for an input of {list(x.shape)}")
            value = complex(slope[o].item())
            numerical = (value * complex(weight).conjugate()).real
            analytic = analytic.real if direction == 1.0 else complex(analytic).imag
            if abs(numerical - analytic) > atol + rtol * abs(numerical) or analytic != analytic:
                raise GradcheckError(
                    f"Jacobian mismatch for output {k} with respect to input {i},\nnumerical:{numerical}\nanalytical:{analytic}\n"
                    f"(element {o} of the output, element {position} of the input)"
                )


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """gradcheck of the gradient itself: second derivatives."""
    from . import grad

    inputs = _listed(inputs)
    if grad_outputs is None:
        outputs = [o for o in _listed(func(*inputs)) if _checked(o)]
        grad_outputs = []
        for o in outputs:
            g = _tern._packet("aten::randn_like")(o)
            if gen_non_contig_grad_outputs and g.dim():
                g = _tern._packet("aten::stack")([g, g], -1).select(-1, 0)
            grad_outputs.append(g.requires_grad_())
    else:
        grad_outputs = list(_listed(grad_outputs))
    n = len(grad_outputs)

    def gradients(*args):
        given, grads = args[:-n] if n else args, args[-n:] if n else ()
        outputs = [o for o in _listed(func(*given)) if _checked(o)]
        wanted = [x for x in given if _checked(x)]
        found = grad(outputs, wanted, list(grads), create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        _with_grad(gradients),
        (*inputs, *grad_outputs),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
    )


def _with_grad(function):
    from .._grad_mode import enable_grad

    def wrapped(*args):
        with enable_grad():
            return function(*args)

    return wrapped
