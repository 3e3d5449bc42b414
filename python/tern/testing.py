"""Comparing tensors in tests."""

from . import _tern
from ._tern import Tensor

_TOLERANCES = {  # rtol, atol: PyTorch's
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(actual, expected, *, rtol=None, atol=None, equal_nan=False, check_dtype=True, msg=None):
    """Raises AssertionError unless the two are equal within the tolerances of their dtypes; containers are compared by item."""
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be specified or both be unspecified")
    if isinstance(actual, (list, tuple)) and isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            raise AssertionError(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
        for i, (a, b) in enumerate(zip(actual, expected)):
            try:
                assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, msg=msg)
            except AssertionError as error:
                raise AssertionError(f"{error}\n\nThe failure occurred for item [{i}]") from None
        return
    if isinstance(actual, dict) and isinstance(expected, dict):
        if set(actual) != set(expected):
            raise AssertionError(f"The keys of the mappings do not match: {sorted(set(actual) ^ set(expected))}")
        for k in expected:
            assert_close(actual[k], expected[k], rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, msg=msg)
        return
    a = actual if isinstance(actual, Tensor) else _tern._from_data(actual, None)
    b = expected if isinstance(expected, Tensor) else _tern._from_data(expected, None)
    check_dtype = check_dtype and isinstance(actual, Tensor) and isinstance(expected, Tensor)
    if a.is_nested and b.is_nested:
        assert_close(a.unbind(), b.unbind(), rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=check_dtype, msg=msg)
        return
    if tuple(a.shape) != tuple(b.shape):
        raise AssertionError(msg or f"The values for attribute 'shape' do not match: {a.shape} != {b.shape}.")
    if check_dtype and a.dtype is not b.dtype:
        raise AssertionError(msg or f"The values for attribute 'dtype' do not match: {a.dtype} != {b.dtype}.")
    if rtol is None:
        pairs = [_TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (a, b)]
        rtol, atol = max(p[0] for p in pairs), max(p[1] for p in pairs)
    import numpy

    def values(t):
        t = t.detach()
        if t.dtype.name in ("bfloat16", "float16") or t.dtype.name.startswith("float8"):
            t = t.float()
        array = t.numpy()
        return array.astype(numpy.complex128 if array.dtype.kind == "c" else numpy.float64 if array.dtype.kind == "f" else array.dtype)

    x, y = values(a), values(b)
    good = numpy.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan) if x.dtype.kind in "fc" or y.dtype.kind in "fc" else x == y
    bad = int(numpy.size(good) - numpy.count_nonzero(good))
    if bad:
        difference = numpy.abs(numpy.asarray(x, numpy.complex128) - y)
        at = numpy.unravel_index(int(numpy.nanargmax(difference)), difference.shape) if difference.shape else ()
        at = tuple(int(i) for i in at)
        raise AssertionError(
            msg
            or f"Tensor-likes are not close!\n\nMismatched elements: {bad} / {numpy.size(good)}\n"
            f"Greatest absolute difference: {difference[at]} at index {at} (up to {atol} allowed): {x[at]} != {y[at]}\n"
            f"(relative differences up to {rtol} are allowed)"
        )


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True):
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False)
