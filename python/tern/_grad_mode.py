"""Whether gradients are recorded: context managers that are also decorators."""

import functools
import inspect

from . import _tern


class _Mode:
    _on = None

    def __enter__(self):
        self._stack().append(_tern.is_grad_enabled())
        _tern._set_grad_enabled(self._on)
        return self

    def __exit__(self, *_):
        _tern._set_grad_enabled(self._stack().pop())

    def _stack(self):
        return self.__dict__.setdefault("_saved", [])

    def clone(self):
        return type(self)()

    def __call__(self, function):
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*args, **kwargs):
                inner = function(*args, **kwargs)
                sent, method = None, "send"
                while True:
                    try:
                        with self.clone():
                            item = getattr(inner, method)(sent)
                    except StopIteration as stop:
                        return stop.value
                    try:
                        sent, method = (yield item), "send"
                    except GeneratorExit:
                        inner.close()
                        raise
                    except BaseException as error:
                        sent, method = error, "throw"

            return generator

        @functools.wraps(function)
        def wrapped(*args, **kwargs):
            with self.clone():
                return function(*args, **kwargs)

        return wrapped


class _Bare(_Mode):
    """Also usable without parentheses: ``@no_grad``."""

    def __new__(cls, function=None):
        mode = super().__new__(cls)
        return mode if function is None else mode(function)


class no_grad(_Bare):
    _on = False


class enable_grad(_Bare):
    _on = True


class inference_mode(_Mode):
    """Nothing is recorded, and what is made in the block may never become part of a recorded computation."""

    def __new__(cls, mode=True):
        made = super().__new__(cls)
        if callable(mode):
            made._mode = True
            return made(mode)
        return made

    def __init__(self, mode=True):
        self._mode = bool(mode)

    def __enter__(self):
        self._stack().append((_tern.is_inference_mode_enabled(), _tern.is_grad_enabled()))
        _tern._set_inference_mode(self._mode)
        _tern._set_grad_enabled(not self._mode)
        return self

    def __exit__(self, *_):
        inferring, recording = self._stack().pop()
        _tern._set_inference_mode(inferring)
        _tern._set_grad_enabled(recording)

    def clone(self):
        return type(self)(self._mode)


class set_grad_enabled(_Mode):
    """Takes effect when it is made; as a context manager it gives the mode back."""

    def __init__(self, mode):
        self._on = bool(mode)
        self._before = _tern.is_grad_enabled()
        _tern._set_grad_enabled(self._on)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _tern._set_grad_enabled(self._before)

    def clone(self):
        return type(self)(self._on)

    def __call__(self, function):
        _tern._set_grad_enabled(self._before)
        return super().__call__(function)
