"""OpInfo's samples as calls of single ATen operators.

A sample of `nn.functional.layer_norm` is a call of a Python function; what Tern has is operators. So the function runs
under two modes: one before autograd and before composite operators expand (it sees aten::layer_norm), one below both
(it sees aten::native_layer_norm). Every call that either sees is a sample of that operator.
"""

import dataclasses
import itertools
import sys
import types
import unittest

import torch

if "expecttest" not in sys.modules:  # common_utils imports it for PyTorch's own tests only
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stub = types.ModuleType("expecttest")
        stub.TestCase, stub.assert_expected_inline = unittest.TestCase, None
        sys.modules["expecttest"] = stub

from torch._dispatch.python import enable_pre_dispatch, enable_python_dispatcher  # noqa: E402
from torch._subclasses.schema_check_mode import SchemaCheckMode  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from values import copy_together, short, tensors  # noqa: E402

LARGEST = 200_000  # elements: larger samples only cost time


def name_of(info):
    return info.name + ("." + info.variant_test_name if info.variant_test_name else "")


@dataclasses.dataclass
class Call:
    """One call of one ATen overload, with copies of its arguments from before the call."""

    func: object
    args: list
    kwargs: dict
    error: Exception = None  # what PyTorch threw

    @property
    def name(self):
        return self.func.name()

    @property
    def dtype(self):
        found = tensors((self.args, self.kwargs))
        return short(found[0].dtype) if found else short(self.kwargs.get("dtype") or torch.get_default_dtype())

    def key(self):
        """What calls that show the same thing have in common: everything but the numbers in the tensors."""

        def of(value):
            if isinstance(value, torch.Tensor):
                return (value.dtype, value.layout, tuple(value.shape), tuple(value.stride()) if value.layout == torch.strided else (), value.is_conj())
            if isinstance(value, (list, tuple)):
                return (type(value).__name__, *(of(v) for v in value))
            if isinstance(value, dict):
                return tuple((k, of(v)) for k, v in sorted(value.items()))
            return repr(value)

        return (self.name, of(self.args), of(self.kwargs))

    def text(self):
        def of(value):
            if isinstance(value, torch.Tensor):
                return f"{short(value.dtype)}{list(value.shape)}" + ("" if value.layout != torch.strided or value.is_contiguous() else f"/{list(value.stride())}")
            if isinstance(value, (list, tuple)):
                return "[" + ", ".join(of(v) for v in value) + "]"
            return repr(value)

        return f"{self.name}({', '.join([of(a) for a in self.args] + [f'{k}={of(v)}' for k, v in self.kwargs.items()])})"


class _Watch:
    def start(self, calls, wanted):
        self.calls, self.wanted, self.busy = calls, wanted, False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        call = Call(func, list(args), dict(kwargs))
        if self.busy or not func.name().startswith("aten::") or sum(t.numel() for t in tensors((args, kwargs))) > LARGEST or not self.wanted(call):
            return func(*args, **kwargs)
        self.busy = True  # the copies are calls too
        call.args, call.kwargs = copy_together(call.args, call.kwargs)
        self.busy = False
        self.calls.append(call)
        try:
            return func(*args, **kwargs)
        except Exception as error:
            call.error = error
            raise


class _Below(_Watch, TorchDispatchMode):
    def __init__(self, calls, wanted):
        TorchDispatchMode.__init__(self)
        self.start(calls, wanted)


class _Above(_Watch, SchemaCheckMode):
    """PyTorch lets three kinds of modes stand before dispatch; this is one of them in name only."""

    def __init__(self, calls, wanted):
        TorchDispatchMode.__init__(self, _dispatch_key=torch._C.DispatchKey.PreDispatch)
        self.start(calls, wanted)


def calls_of(function, args, kwargs, wanted):
    """The ATen calls underneath a Python call that are `wanted`, and what it threw."""
    calls, error = [], None
    args, kwargs = list(args), dict(kwargs)
    twin_args, twin_kwargs = copy_together(args, kwargs)
    try:
        with torch.no_grad(), enable_python_dispatcher(), enable_pre_dispatch(), _Above(calls, wanted):
            function(*twin_args, **twin_kwargs)
    except Exception as e:
        error = e
    try:
        with torch.no_grad(), _Below(calls, wanted):
            function(*args, **kwargs)
    except Exception as e:
        error = e
    return calls, error


def spread(items, count):
    """`count` of them, evenly from first to last."""
    items = list(items)
    if count is None or len(items) <= count:
        return items
    return [items[i * (len(items) - 1) // max(count - 1, 1)] for i in range(count)]


def samples_of(info, dtype, count):
    """(args, kwargs) of the entry's samples."""
    torch.manual_seed(7)
    try:
        samples = list(itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=False), 4000))
    except Exception:
        return []  # a sample that needs what is not installed, or a GPU
    small = [s for s in samples if sum(t.numel() for t in tensors((s.input, s.args, s.kwargs))) <= LARGEST]
    return [((s.input, *s.args), s.kwargs) for s in spread(small, count)]


def error_samples_of(info):
    """(args, kwargs, type, pattern) of calls that PyTorch refuses."""
    torch.manual_seed(7)
    if info.error_inputs_func is None:
        return []
    try:
        return [((e.sample_input.input, *e.sample_input.args), e.sample_input.kwargs, e.error_type, e.error_regex) for e in info.error_inputs("cpu")]
    except Exception:
        return []
