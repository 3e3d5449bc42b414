"""Functions with a backward of their own."""

import functools

from .. import _tern
from .._grad_mode import no_grad


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


class InplaceFunction(Function):
    """A Function whose forward may be asked to work in place; says so by ``mark_dirty``."""

    def __init__(self, inplace=False):
        super().__init__()
