"""Tensor's methods that are Python: what PyTorch writes in Python too, and what takes more forms than a schema can say."""

import copy as _copy

from . import _tern
from ._printing import tensor_repr
from ._storage import copied_storage, storage, untyped_storage
from ._tern import Tensor, device, dtype, memory_format


class qscheme(int):
    """How integers stand for real numbers; equal to ATen's number for it."""

    def __new__(cls, number, name):
        self = super().__new__(cls, number)
        self.name = name
        return self

    def __repr__(self):
        return "tern." + self.name

    __str__ = __repr__

    def __format__(self, spec):
        return format(repr(self), spec)


QSCHEMES = [
    qscheme(i, name)
    for i, name in enumerate(
        "per_tensor_affine per_channel_affine per_tensor_symmetric per_channel_symmetric per_channel_affine_float_qparams".split()
    )
]


def _op(name):
    return _tern._packet("aten::" + name)


def _to(self, *args, **kwargs):
    """to(dtype), to(device), to(device, dtype), to(other); with non_blocking=, copy= and memory_format=."""
    names = ["non_blocking", "copy"]
    target_dtype, target_device = kwargs.pop("dtype", None), kwargs.pop("device", None)
    other = kwargs.pop("other", None)
    flags = {}
    for a in args:
        if isinstance(a, Tensor):
            other = a
        elif isinstance(a, bool) and names:
            flags[names.pop(0)] = a
        elif isinstance(a, dtype) or a in (float, int, bool, complex):
            target_dtype = a
        elif isinstance(a, (str, device)):
            target_device = a
        elif a is not None:
            raise TypeError(f"to(): expected a dtype, a device or a tensor, not {type(a).__name__}")
    if other is not None:
        target_dtype, target_device = other.dtype, other.device
    if target_device is not None and not isinstance(target_device, device):
        target_device = device(target_device)
    flags.update(kwargs)
    return _convert(self, target_dtype, target_device, **flags)


def _convert(self, target_dtype=None, target_device=None, non_blocking=False, copy=False, memory_format=None):
    same_device = target_device is None or target_device.type == self.device.type
    if same_device:
        if target_dtype is None and not copy and memory_format is None:
            return self
        overload = _tern._overload("aten::to.dtype")
        return overload(self, self.dtype if target_dtype is None else target_dtype, non_blocking, copy, memory_format=memory_format)
    overload = _tern._overload("aten::_to_copy")
    return overload(self, dtype=target_dtype, device=target_device, non_blocking=non_blocking, memory_format=memory_format)


def _cast(name):
    target, to = getattr(_tern, name), _tern._overload("aten::to.dtype")

    def method(self, memory_format=None):
        return to(self, target, memory_format=memory_format)

    method.__name__ = name
    return method


_TYPE_NAMES = dict(
    entry.split("=")
    for entry in (
        "float32=Float float64=Double float16=Half bfloat16=BFloat16 int64=Long int32=Int int16=Short int8=Char uint8=Byte bool=Bool "
        "complex32=ComplexHalf complex64=ComplexFloat complex128=ComplexDouble uint16=UInt16 uint32=UInt32 uint64=UInt64 "
        "qint8=QInt8 quint8=QUInt8 qint32=QInt32 float8_e5m2=Float8_e5m2 float8_e4m3fn=Float8_e4m3fn "
        "float8_e5m2fnuz=Float8_e5m2fnuz float8_e4m3fnuz=Float8_e4m3fnuz"
    ).split()
)


def _type(self, dtype=None, non_blocking=False):
    """The name of the tensor's old type, or with a dtype or such a name ('torch.DoubleTensor') the tensor converted."""
    if dtype is None:
        return f"tern.{_TYPE_NAMES[self.dtype.name]}Tensor"
    if isinstance(dtype, str):
        house, _, old = dtype.partition(".")
        found = [name for name, text in _TYPE_NAMES.items() if text + "Tensor" == old]
        if house not in ("torch", "tern") or not found:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = getattr(_tern, found[0])
    elif not isinstance(dtype, _tern.dtype):
        raise ValueError(f"invalid type: '{getattr(dtype, '__name__', dtype)}'")
    return _convert(self, dtype)


def _backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    from .autograd import backward

    backward(self, gradient, retain_graph, create_graph, inputs)


class RemovableHandle:
    """Removes a hook: ``handle.remove()``, or at the end of a ``with`` block."""

    def __init__(self, remove):
        self._remove = remove

    def remove(self):
        if self._remove is not None:
            self._remove()
            self._remove = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def _register_hook(self, hook):
    number = _tern._register_hook(self, hook)
    return RemovableHandle(lambda: _tern._remove_hook(self, number))


def _register_post_accumulate_grad_hook(self, hook):
    number = _tern._register_post_accumulate_hook(self, hook)
    return RemovableHandle(lambda: _tern._remove_hook(self, number))


def _deepcopy(self, memo):
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
            "If you were attempting to deepcopy a module, this may be because of a tensor attribute that has history."
        )
    if id(self) in memo:
        return memo[id(self)]
    data = self.detach()
    if data.is_meta or data.is_quantized or data.is_nested:
        data = _op("clone")(data)
    else:
        data = _tern._from_storage(copied_storage(data, memo), data.dtype, tuple(data.shape), data.stride(), data.storage_offset())
    if type(self) is Tensor:
        result = data
        if self.requires_grad:
            result.requires_grad_()
    else:
        result = _tern._make_subclass(type(self), data, self.requires_grad, self._is_parameter)
    memo[id(self)] = result
    if self.grad is not None:
        result.grad = _copy.deepcopy(self.grad, memo)
    result.__dict__.update(_copy.deepcopy(self.__dict__, memo))
    return result


def _rebuild(cls, data, target_dtype, sizes, requires_grad, parameter, attributes, strides=None):
    """``data`` holds the elements in row-major order, or with ``strides`` all of the memory that they reach over."""
    if strides is None:
        result = _tern._from_bytes(data, target_dtype, sizes)
    else:
        memory = _tern._from_bytes(data, _tern.uint8, (len(data),))
        result = _tern._from_storage(memory, target_dtype, sizes, strides, 0)
    return _with_state(cls, result, requires_grad, parameter, attributes)


def _rebuild_nested(cls, buffer, sizes, strides, offsets, requires_grad, parameter, attributes):
    result = _op("_nested_view_from_buffer_copy")(buffer, sizes, strides, offsets)
    return _with_state(cls, result, requires_grad, parameter, attributes)


def _with_state(cls, result, requires_grad, parameter, attributes):
    if cls is not Tensor:
        result = _tern._make_subclass(cls, result, requires_grad, parameter)
    elif requires_grad:
        result.requires_grad_()
    result.__dict__.update(attributes)
    return result


def _reduce_ex(self, protocol):
    data = self.detach()
    if data.is_nested:
        tables = (_op(name)(data) for name in ("values", "_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets"))
        return _rebuild_nested, (type(self), *tables, self.requires_grad, self._is_parameter, dict(self.__dict__))
    sizes, strides = tuple(self.shape), None
    if data.is_quantized:
        data = data.contiguous()
    else:
        strides = data.stride()
        reach = 1 + sum((n - 1) * s for n, s in zip(sizes, strides))
        data = _op("as_strided")(data, [reach if data.numel() else 0], [1], data.storage_offset())
    attributes = dict(self.__dict__)
    return _rebuild, (type(self), _tern._bytes(data), self.dtype, sizes, self.requires_grad, self._is_parameter, attributes, strides)


def _array(self, dtype=None, copy=None):
    array = self.detach().numpy() if self.requires_grad and not _tern.is_grad_enabled() else self.numpy()
    if dtype is not None:
        array = array.astype(dtype, copy=bool(copy))
    elif copy:
        array = array.copy()
    return array


def _array_wrap(self, array, context=None, return_scalar=False):
    """What NumPy's functions give where a tensor is among their arguments: a tensor again."""
    import numpy

    array = numpy.asarray(array)
    return _tern.from_numpy(array.astype("uint8") if array.dtype == bool else array)


def _numpy(self, *, force=False):
    if not force:
        return _native_numpy(self)
    return _native_numpy(self.detach())


_native_numpy = Tensor.numpy


def _dlpack(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    if dl_device is not None and tuple(dl_device) != (1, 0):
        raise BufferError(f"__dlpack__: Tern's tensors are on cpu (1, 0), not on {dl_device}")
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if self.is_meta:
        raise BufferError("Cannot pack tensors on meta")
    source = _op("clone")(self) if copy else self
    return _tern._to_dlpack(source, max_version is not None and max_version[0] >= 1, bool(copy))


def _dlpack_device(self):
    return (1, 0)


def _grad_fn(self):
    return _tern._grad_fn(self)


def _split(self, split_size, dim=0):
    if isinstance(split_size, (list, tuple)):
        return _op("split_with_sizes")(self, list(split_size), dim)
    return _op("split")(self, split_size, dim)


def _view_as(self, other):
    return self.view(other.shape)


def _new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    result = _tern._from_data(data, dtype or self.dtype)
    return result.requires_grad_() if requires_grad else result


def _where(self, condition, other):
    return _op("where")(condition, self, other)


def _contains(self, element):
    if isinstance(element, (Tensor, int, float, complex, bool)):
        return bool((self == element).any())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


def _format(self, spec):
    if self.dim() == 0 and type(self) is Tensor:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def _reversed(self):
    return self if self.dim() == 0 else self.flip(0)


def _norm(self, p="fro", dim=None, keepdim=False, dtype=None):
    from ._functions import norm

    return norm(self, p, dim, keepdim, dtype=dtype)


def _unique(self, sorted=True, return_inverse=False, return_counts=False, dim=None):
    from ._functions import unique

    return unique(self, sorted, return_inverse, return_counts, dim)


def _unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    from ._functions import unique_consecutive

    return unique_consecutive(self, return_inverse, return_counts, dim)


def _nonzero(self, *, as_tuple=False):
    from ._functions import nonzero

    return nonzero(self, as_tuple=as_tuple)


def _stft(self, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
          onesided=None, return_complex=None, align_to_window=None):  # fmt: skip
    overload = _tern._overload("aten::stft.center")
    return overload(self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window)


def _elementwise(name, self, others, function):
    """What apply_, map_ and map2_ do: the function's results, in place."""
    if self.requires_grad or any(t.requires_grad for t in others):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for other in others:
        if not isinstance(other, Tensor):
            raise TypeError(f"{name}: expected a Tensor, not {type(other).__name__}")
        if other.dtype is not self.dtype:
            raise TypeError(f"{name}: expected {self.type()} for 'other' (got {other.type()})")
    columns = [t.expand(self.shape).reshape(-1).tolist() for t in (self, *others)]
    results = [function(*row) for row in zip(*columns)]
    self.copy_(_tern._from_data(results, self.dtype).reshape(self.shape))
    return self


def _new(self, *args):
    """new(), new(2, 3), new(size), new([1., 2.]): of the same dtype; without values the elements are not initialised."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return args[0].detach().to(self.dtype)
    if len(args) == 1 and isinstance(args[0], (list, tuple)) and type(args[0]).__name__ != "Size":
        return _tern._from_data(args[0], self.dtype)
    sizes = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args or (0,)
    return _op("empty")(list(sizes), dtype=self.dtype, device=self.device)


def _dim_order(self, *, ambiguity_check=False):
    """The dimensions from the outermost in memory to the innermost."""
    strides, sizes = self.stride(), self.shape
    order = sorted(range(self.dim()), key=lambda d: strides[d], reverse=True)
    if not isinstance(ambiguity_check, bool) and ambiguity_check is not None:
        raise TypeError("dim_order: ambiguity_check is a bool")
    if ambiguity_check:
        real = [strides[d] for d in order if sizes[d] > 1]
        if len(real) != self.dim() or len(set(real)) != len(real):
            raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given memory formats.")
    return tuple(order)


def _unflatten(self, dim, sizes):
    return _op("unflatten")(self, dim, tuple(sizes))


def _make_subclass(cls, data, require_grad=False):
    return _tern._make_subclass(cls, data, require_grad, False)


def _qscheme(self):
    return QSCHEMES[int(_tern._packet("aten::qscheme")(self))]


_METHODS = {
    "qscheme": _qscheme,
    "__repr__": tensor_repr,
    "__str__": tensor_repr,
    "_to": _to,
    "cpu": lambda self, memory_format=None: _to(self, "cpu"),
    "type": _type,
    "type_as": lambda self, other: _convert(self, other.dtype),
    "backward": _backward,
    "register_hook": _register_hook,
    "register_post_accumulate_grad_hook": _register_post_accumulate_grad_hook,
    "__copy__": lambda self: _tern._make_subclass(type(self), self, self.requires_grad, self._is_parameter),
    "__deepcopy__": _deepcopy,
    "__reduce_ex__": _reduce_ex,
    "__array__": _array,
    "__array_wrap__": _array_wrap,
    "__array_priority__": 1000,
    "numpy": _numpy,
    "__dlpack__": _dlpack,
    "__dlpack_device__": _dlpack_device,
    "grad_fn": property(_grad_fn),
    "split": _split,
    "view_as": _view_as,
    "new_tensor": _new_tensor,
    "where": _where,
    "__contains__": _contains,
    "__format__": _format,
    "__reversed__": _reversed,
    "norm": _norm,
    "unique": _unique,
    "unique_consecutive": _unique_consecutive,
    "nonzero": _nonzero,
    "stft": _stft,
    "untyped_storage": untyped_storage,
    "storage": storage,
    "apply_": lambda self, callable: _elementwise("apply_", self, (), callable),
    "map_": lambda self, tensor, callable: _elementwise("map_", self, (tensor,), callable),
    "map2_": lambda self, x, y, callable: _elementwise("map2_", self, (x, y), callable),
    "new": _new,
    "dim_order": _dim_order,
    "_is_view": lambda self: self._base is not None,
    "is_inference": lambda self: _tern._is_inference(self),
    "output_nr": property(_tern._output_nr),
    "unflatten": _unflatten,
    "polygamma": lambda self, n: _tern._packet("aten::polygamma")(n, self),  # the order comes first in the schema
    "get_device": lambda self: -1,
    "is_shared": lambda self: False,
    "pin_memory": lambda self: self,
    "is_pinned": lambda self: False,
    "share_memory_": lambda self: self,
    "_make_subclass": classmethod(_make_subclass),
    "as_subclass": lambda self, cls: _tern._make_subclass(cls, self, False, False),
}
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
for _name in "float double half bfloat16 int long short bool cfloat cdouble".split():
    setattr(Tensor, _name, _cast(_name))
Tensor.char, Tensor.byte = _cast("int8"), _cast("uint8")
Tensor.__module__ = "tern"
