"""Functions whose Python form says more than one schema: varargs of tensors, strings that choose an operator, data in."""

import math as _math
import warnings as _warnings

from . import _tern
from ._tern import Tensor

__all__ = (
    "tensor as_tensor asarray from_dlpack is_tensor is_floating_point is_complex is_inference numel result_type einsum norm unique meshgrid "
    "broadcast_tensors broadcast_shapes atleast_1d atleast_2d atleast_3d split tensordot nonzero normal finfo iinfo Parameter "
    "frombuffer unravel_index from_numpy unique_consecutive stft block_diag cartesian_prod"
).split()


def _op(name):
    return _tern._packet("aten::" + name)


def _device(t, device):
    return t if device is None else t.to(device)


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of the data: numbers, nested sequences of them, arrays."""
    if isinstance(data, Tensor):
        _warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone()", stacklevel=2)
    result = _device(_tern._from_data(data, dtype), device)
    return result.requires_grad_() if requires_grad else result


def as_tensor(data, dtype=None, device=None):
    """The data as a tensor, sharing memory where that is possible."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    if type(data).__module__ == "numpy" and type(data).__name__ == "ndarray":
        try:
            return from_numpy(data).to(dtype=dtype, device=device)
        except ValueError:  # negative strides: as a copy
            pass
    return _device(_tern._from_data(data, dtype), device)


def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False):
    if copy is not True and not isinstance(obj, Tensor) and hasattr(obj, "__dlpack__") and type(obj).__module__ != "numpy":
        result = from_dlpack(obj).to(dtype=dtype, device=device)
    elif copy:
        result = _device(_tern._from_data(obj, dtype), device)
    else:
        result = as_tensor(obj, dtype, device)
    return result.requires_grad_() if requires_grad else result


def from_dlpack(obj, *, device=None, copy=None):
    """A tensor over the memory of any object that speaks DLPack, or of a capsule."""
    result = _tern.from_dlpack(obj)
    if copy:
        result = result.clone()
    return _device(result, device)


_warned_of_read_only = False


def _warn_of_read_only(what):
    global _warned_of_read_only
    if not _warned_of_read_only:
        _warned_of_read_only = True
        _warnings.warn(
            f"The given {what} is not writable, and Tern does not support non-writable tensors. This means you can write to the underlying "
            f"(supposedly non-writable) {what} using the tensor. You may want to copy the {what} to protect its data or make it writable "
            "before converting it to a tensor. This type of warning will be suppressed for the rest of this program.",
            stacklevel=3,
        )


def from_numpy(array):
    """A tensor over the array's memory, which it keeps alive."""
    result = _tern.from_numpy(array)
    if not array.flags.writeable:
        _warn_of_read_only("NumPy array")
    return result


def frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False):
    """A one-dimensional tensor over the memory of an object that has the buffer protocol, which the tensor keeps alive and in its place."""
    result, writable = _tern._from_buffer(buffer, dtype, count, offset)
    if not writable:
        _warn_of_read_only("buffer")
    return result.requires_grad_() if requires_grad else result


def is_tensor(obj):
    return isinstance(obj, Tensor)


def is_floating_point(input):
    return input.is_floating_point()


def is_complex(input):
    return input.is_complex()


def is_inference(input):
    return input.is_inference()


def numel(input):
    return input.numel()


def result_type(a, b):
    """The dtype of an operation between the two."""
    return (a + b).dtype


def _tensors(args):
    return list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)


def einsum(equation, *operands):
    """Sums of products in Einstein's notation; also in the form einsum(a, [0, 1], b, [1, 2], [0, 2])."""
    if not isinstance(equation, str):
        args = (equation, *operands)
        letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

        def term(subscripts):
            return "".join("..." if s is Ellipsis else letters[s] for s in subscripts)

        n = len(args) // 2
        equation = ",".join(term(args[2 * i + 1]) for i in range(n))
        if len(args) % 2:
            equation += "->" + term(args[-1])
        operands = [args[2 * i] for i in range(n)]
    return _op("einsum")(equation, _tensors(operands) if operands else [])


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    if p == "fro" and (dim is None or isinstance(dim, int) or len(dim) <= 2):
        p = 2.0
    if p == "nuc":
        return _op("linalg_matrix_norm")(input, "nuc", (-2, -1) if dim is None else dim, keepdim)
    dims = None if dim is None else ([dim] if isinstance(dim, int) else list(dim))
    return _op("linalg_vector_norm")(input, 2.0 if p == "fro" or p is None else p, dims, keepdim, dtype=dtype)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    if dim is None:
        values, inverse, counts = _op("_unique2")(input, sorted, return_inverse, return_counts)
    else:
        values, inverse, counts = _op("unique_dim")(input, dim, sorted, return_inverse, return_counts)
    result = [values] + [inverse] * bool(return_inverse) + [counts] * bool(return_counts)
    return result[0] if len(result) == 1 else tuple(result)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The elements without their repetitions; where asked for, also the run each element is in and how long the runs are."""
    values, inverse, counts = _op("unique_consecutive")(input, return_inverse, return_counts, dim)
    result = [values] + [inverse] * bool(return_inverse) + [counts] * bool(return_counts)
    return result[0] if len(result) == 1 else tuple(result)


def stft(input, n_fft, hop_length=None, win_length=None, window=None, center=True, pad_mode="reflect", normalized=False,
         onesided=None, return_complex=None, align_to_window=None):  # fmt: skip
    """The short-time Fourier transform. With `center` frame t stands around sample t * hop_length, and the signal is padded by `pad_mode`."""
    return input.stft(n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window)


def _spelled_out(name, tensors):
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}(): expected Tensor as element {i} in argument 0, but got {type(t).__name__}")
    return _op(name)(list(tensors))


def block_diag(*tensors):
    return _spelled_out("block_diag", tensors)


def cartesian_prod(*tensors):
    return _spelled_out("cartesian_prod", tensors)


def meshgrid(*tensors, indexing="ij"):
    return _op("meshgrid")(_tensors(tensors), indexing=indexing)


def broadcast_tensors(*tensors):
    return _op("broadcast_tensors")(_tensors(tensors))


def broadcast_shapes(*shapes):
    from ._size import Size

    result = []
    for shape in shapes:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        result = [1] * (len(shape) - len(result)) + result
        for i in range(1, len(shape) + 1):
            if shape[-i] == 1 or shape[-i] == result[-i]:
                continue
            if result[-i] != 1:
                raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape")
            result[-i] = shape[-i]
    return Size(result)


def _at_least(name):
    def function(*tensors):
        if len(tensors) == 1 and isinstance(tensors[0], Tensor):
            return _op(name)(tensors[0])
        return tuple(_op(name)(t) for t in _tensors(tensors))

    function.__name__ = name
    return function


atleast_1d, atleast_2d, atleast_3d = _at_least("atleast_1d"), _at_least("atleast_2d"), _at_least("atleast_3d")


def split(tensor, split_size_or_sections, dim=0):
    return tensor.split(split_size_or_sections, dim)


def tensordot(a, b, dims=2, out=None):
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        dims = (list(range(-dims, 0)), list(range(dims)))
    left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    if _tern._has_packet("aten::tensordot"):
        return _op("tensordot")(a, b, left, right)
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    left, right = [d % a.dim() for d in left], [d % b.dim() for d in right]
    for i, j in zip(left, right):  # what has size one on one side is summed over on the other
        if a.shape[i] != b.shape[j]:
            if a.shape[i] == 1:
                b = b.sum(j, keepdim=True)
            elif b.shape[j] == 1:
                a = a.sum(i, keepdim=True)
            else:
                raise RuntimeError(f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size {b.shape[j]} in dim {j}")
    rows = [d for d in range(a.dim()) if d not in left]
    columns = [d for d in range(b.dim()) if d not in right]
    inner = _math.prod(a.shape[d] for d in left)
    shape = [a.shape[d] for d in rows] + [b.shape[d] for d in columns]
    first = a.permute(rows + left).reshape(_math.prod(a.shape[d] for d in rows), inner)
    second = b.permute(right + columns).reshape(inner, _math.prod(b.shape[d] for d in columns))
    result = first.mm(second).reshape(shape)
    return result if out is None else out.resize_(result.shape).copy_(result)


def unravel_index(indices, shape):
    """Positions in a flat tensor as one tensor of positions for each dimension of `shape`."""
    if not isinstance(indices, Tensor):
        raise TypeError(f"expected 'indices' to be a Tensor, but got {type(indices)}")
    if indices.is_complex() or indices.is_floating_point() or indices.dtype is _tern.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if isinstance(shape, (int, _tern.SymInt)):
        shape = (shape,)
    elif not isinstance(shape, (list, tuple)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    for size in shape:
        if not isinstance(size, (int, _tern.SymInt)):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(size)}")
    if any(size < 0 for size in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(shape)}")
    indices, result, behind = indices.to(_tern.int64), [], 1
    for size in reversed(shape):
        result.append(indices.div(behind, rounding_mode="floor") % size)
        behind = behind * size
    return tuple(reversed(result))


def nonzero(input, *, as_tuple=False, out=None):
    """Where the elements are that are not zero: a row for each, or with as_tuple a tensor for each dimension."""
    if as_tuple:
        return tuple(_op("nonzero_numpy")(input))
    return _op("nonzero")(input) if out is None else _op("nonzero")(input, out=out)


def normal(mean, std=1.0, size=None, **options):
    if size is not None:
        return _op("normal")(float(mean), float(std), size, **options)
    if not isinstance(mean, Tensor):
        mean = float(mean)
    if not isinstance(std, Tensor):
        std = float(std)
    return _op("normal")(mean, std, **options)


class finfo:
    """The numbers of a floating-point dtype."""

    _TABLE = {  # bits of the mantissa, largest exponent, smallest normal exponent, largest value when it is not the usual one
        "float16": (10, 15, -14, None),
        "bfloat16": (7, 127, -126, None),
        "float32": (23, 127, -126, None),
        "float64": (52, 1023, -1022, None),
        "float8_e5m2": (2, 15, -14, None),
        "float8_e4m3fn": (3, 8, -6, 448.0),
        "float8_e5m2fnuz": (2, 15, -15, None),
        "float8_e4m3fnuz": (3, 7, -7, None),
    }

    def __init__(self, type=None):
        type = _tern.get_default_dtype() if type is None else type
        real = type.to_real() if type.is_complex else type
        if real.name not in self._TABLE:
            raise TypeError(f"tern.finfo() requires a floating point input type. Use tern.iinfo to handle '{type}'")
        mantissa, high, low, largest = self._TABLE[real.name]
        self.dtype, self.bits = real.name, real.itemsize * 8
        self.eps = 2.0**-mantissa
        self.max = (2.0 - self.eps) * 2.0**high if largest is None else largest
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**low
        self.resolution = 10.0 ** -int(_math.log10(2.0**mantissa))

    def __repr__(self):
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """The numbers of an integer dtype."""

    def __init__(self, type):
        if type.is_floating_point or type.is_complex or type is _tern.bool:
            raise TypeError(f"tern.iinfo() requires an integer input type. Use tern.finfo to handle '{type}'")
        self.dtype, self.bits = type.name, type.itemsize * 8
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = 2 ** (self.bits - type.is_signed) - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


class Parameter(Tensor):
    """A tensor that a module trains: requires grad, and modules list it."""

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = Tensor(0)
        return _tern._make_subclass(cls, data.detach() if data.requires_grad else data, requires_grad, True)

    def __init__(self, data=None, requires_grad=True):
        pass


_tern._set_parameter_class(Parameter)
