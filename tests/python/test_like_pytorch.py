"""The same expression in Tern and in PyTorch: the same values, dtypes, sizes and strides, or the same kind of refusal."""

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402


def shown(value):
    """What both must have in common."""
    if isinstance(value, (torch.Tensor, tern.Tensor)):
        data = None if value.is_meta else value.detach().tolist()
        return "tensor", str(value.dtype).split(".")[-1], tuple(value.shape), value.stride(), value.requires_grad, data
    if isinstance(value, np.ndarray):
        return "array", str(value.dtype), value.tolist()
    if isinstance(value, (tuple, list)):
        return tuple(shown(v) for v in value)
    if isinstance(value, (torch.dtype, tern.dtype, torch.device, tern.device)):
        return str(value).split(".")[-1]
    return value


def close(a, b):
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    if isinstance(a, (float, complex)) and isinstance(b, (float, complex)):
        return a == b or (a != a and b != b) or abs(a - b) <= 1e-5 * (1 + abs(a))
    return type(a) is type(b) and a == b


def outcome(T, source):
    names = {"T": T, "np": np, "copy": copy, "pickle": pickle, "put": put, "x": T.arange(24).reshape(2, 3, 4).float()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return shown(eval(source, names))
        except Exception as error:
            return "refused", type(error).__name__


def put(x, index, value):
    x[index] = value
    return x


CASES = {
    "stft": """
        T.stft(T.arange(16).float(), 8, window=T.ones(8), return_complex=True)
        T.arange(16).float().stft(8, window=T.ones(8), return_complex=True)
        T.stft(T.arange(16).float(), 8, window=T.ones(8), center=False, return_complex=True)
        T.stft(T.arange(32).float().reshape(2, 16), 8, 4, window=T.ones(8), pad_mode="constant", return_complex=True)
        T.stft(T.arange(16).float(), 8, 2, 6, T.hann_window(6), normalized=True, onesided=False, return_complex=True)
        T.stft(T.arange(16).float(), 8, window=T.ones(8), return_complex=False)
        T.stft(T.arange(16).float(), 8, window=T.ones(8))
        T.stft(T.ones(2, 2, 16), 8, window=T.ones(8), return_complex=True)
        T.istft(T.stft(T.arange(16).float(), 8, window=T.ones(8), return_complex=True), 8, window=T.ones(8))
        T.stft(T.arange(16).float(), 8, window=T.ones(8), return_complex=True).istft(8, window=T.ones(8), length=14)
    """,
    "arrays among operands": """
        T.tensor([1.0]) + np.ones(1)
        np.ones(1) + T.tensor([1.0])
        T.tensor([1.0, 2.0]) - np.array([1, 3])
        T.tensor([1.0, 2.0]) / np.array([1, 3])
        np.ones(2, np.float32) / T.tensor([1.0, 2.0])
        T.ones(2, 2) @ np.ones((2, 2), np.float32)
        T.tensor([1.0, 2.0]) ** np.ones(2, np.float32)
        T.tensor([1, 2]) & np.array([1, 3])
        T.tensor([1, 2]) << np.array([1, 3])
        T.tensor([1.0, 2.0]) == np.ones(2)
        np.ones(2) == T.tensor([1.0, 2.0])
        T.tensor([1.0, 2.0]) == np.ones(3)
        T.tensor([1.0, 2.0]) < np.ones(2)
        np.ones((2, 2)) * T.tensor([1.0, 2.0])
        np.sin(T.tensor([1.0]))
        np.sqrt(T.tensor([4]))
        np.isnan(T.tensor([4.0]))
        np.maximum(T.tensor([1.0, 2.0]), T.tensor([0.0, 5.0]))
        np.modf(T.tensor([1.5]))
        np.sin(T.tensor(1.0))
        np.sin(T.ones(2, requires_grad=True))
        T.tensor([1.0]) + np.float64(2)
        np.float64(2) + T.tensor([1.0])
        T.tensor([1.0]) + [1.0]
        T.tensor([1.0]).add(np.ones(1))
    """,
    "numbers in": """
        T.tensor([2**63])
        T.tensor(2**63)
        T.tensor([-(2**63)])
        T.tensor([-(2**63) - 1])
        T.tensor([2**63], dtype=T.uint64).to(T.float64)
        T.tensor([2**64], dtype=T.uint64)
        T.tensor([-1], dtype=T.uint64)
        T.tensor([2**63, 2**70], dtype=T.float64)
        T.tensor([1.5, 2**63])
        T.tensor([2**70], dtype=T.bool)
        T.tensor([-255], dtype=T.uint8)
        T.tensor([-256], dtype=T.uint8)
        T.tensor([float("nan")], dtype=T.int64)
        T.tensor([1e30], dtype=T.int64)
        T.tensor([1j], dtype=T.float32)
        T.full((1,), 2**63)
        T.ones(1) + 2**63
        T.ones(2).sum(2**63)
        T.tensor(np.float64(3))
        T.tensor(np.float32(3))
        T.tensor(np.float16(3))
        T.tensor(np.int32(3))
        T.tensor(np.uint8(3))
        T.tensor(np.bool_(True))
        T.tensor(np.complex64(3))
        T.tensor([np.float64(3), 2.0])
        T.tensor([np.int32(3)])
        T.as_tensor(np.float64(3))
        T.tensor([np.ones(2), np.ones(2)])
        T.tensor([np.ones(2, np.int32)])
        T.tensor([T.tensor([1]), T.tensor([2])])
        T.tensor([T.tensor(1.0, dtype=T.float64), 2])
        T.tensor([T.ones(2), T.ones(2)])
        T.tensor(None)
        T.tensor([None])
        T.tensor("a")
        T.tensor(["a"])
        T.tensor({1})
        T.as_tensor(None)
        T.Tensor(None)
    """,
    "lists as indices": """
        x[[[0, 1]]]
        x[[[0, 1], [1, 2]]]
        x[[0, 1]]
        x[[0, slice(0, 2)]]
        x[[T.tensor([0, 1]), T.tensor([0, 1])]]
        x[[True, False]]
        x[[None, 0]]
        x[[..., 0]]
        x[[[0, 1]],]
        x[np.array([[0, 1]])]
        x[range(2)]
        x[[]]
        x[[1.0]]
        T.ones(2)[[[0]] * 31]
        T.ones(2)[[[0]] * 32]
        put(x, [[0, 1], [1, 2]], 0)
        x[..., ...]
        x[..., 0, ...]
        x[0, ..., ..., 1]
    """,
    "what is no index": """
        x[1.0]
        x["a"]
        x[{}]
        x[1j]
        x[0, 1.0]
        x[np.bool_(True)]
        put(x, 1.0, 1)
    """,
    "assignments": """
        put(T.zeros(4), True, T.tensor([1, 2, 3, 4]))
        put(T.zeros(4), True, 5)
        put(T.zeros(4), False, T.tensor([1, 2, 3, 4]))
        put(T.zeros(4), T.tensor(True), T.tensor([1, 2, 3, 4]))
        put(T.zeros(4), T.tensor([0, 0]), T.tensor(2.0, dtype=T.float64))
        put(T.zeros(4), [0, 1], T.tensor(2))
        put(T.zeros(4), T.ones(4) > 0, T.tensor([2.0], dtype=T.float64))
        put(T.zeros(4), T.ones(4) > 0, T.tensor([1, 2, 3, 4]))
        put(T.zeros(4, 2), (T.ones(4) > 0, 0), T.tensor(1))
        put(T.zeros(4), slice(0, 2), T.tensor([2.0, 3.0], dtype=T.float64))
        put(T.zeros(4), slice(0, 0), 1 + 2j)
        put(T.zeros(4), T.tensor([0]), 1 + 2j)
        put(T.zeros(4, dtype=T.int64), 0, 1.5)
        put(T.zeros(4, dtype=T.int64), 0, float("nan"))
        put(T.zeros(4, dtype=T.uint8), 0, 300)
        put(T.zeros(4, dtype=T.uint8), slice(0, 0), 300)
        put(T.zeros(4, dtype=T.uint8), 0, -1)
        put(T.zeros(4, dtype=T.uint8), [0, 1], 300)
        put(T.zeros(4), 0, 1e40)
        put(T.zeros(4, dtype=T.int64), 0, 2**63)
        put(T.zeros(2), 0, np.float32(2))
        put(T.zeros(2), 0, np.float64(2))
        put(T.zeros(2), 0, np.int64(2))
        put(T.zeros(2), 0, np.bool_(True))
        put(T.zeros(2), 0, np.complex128(1))
        put(T.zeros(2), slice(None), np.ones(2))
    """,
    "copies": """
        copy.deepcopy(T.arange(6.0).reshape(2, 3).t())
        (lambda t: (t, t.storage_offset()))(copy.deepcopy(T.arange(8.0)[2::2]))
        (lambda a, b: (a.fill_(7), b))(*(lambda v: copy.deepcopy([v, v[1:3]]))(T.arange(4.0)))
        (lambda a, b: a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())(*(lambda v: copy.deepcopy((v, v.t())))(T.ones(2, 2)))
        copy.deepcopy(T.ones(2, requires_grad=True))
        copy.deepcopy(T.ones(2, requires_grad=True) * 2)
        copy.deepcopy(T.ones(2, device="meta"))
        copy.deepcopy(T.ones(0, 3))
        pickle.loads(pickle.dumps(T.arange(6.0).reshape(2, 3).t()))
        pickle.loads(pickle.dumps(T.arange(24).reshape(2, 3, 4)[:, 1:, ::2]))
        pickle.loads(pickle.dumps(T.ones(1).expand(3)))
        pickle.loads(pickle.dumps(T.ones(2, requires_grad=True) * 2))
        pickle.loads(pickle.dumps(T.ones(3, 0).t()))
        copy.copy(T.ones(2, requires_grad=True) * 2)
    """,
    "results in many forms": """
        T.unique_consecutive(T.tensor([1, 1, 2, 2, 1]))
        T.unique_consecutive(T.tensor([1, 1, 2, 2, 1]), return_inverse=True)
        T.unique_consecutive(T.tensor([1, 1, 2, 2, 1]), return_counts=True)
        T.unique_consecutive(T.tensor([1, 1, 2, 2, 1]), True, True)
        T.tensor([[1], [1], [2]]).unique_consecutive(dim=0)
        T.tensor([1, 1, 2]).unique_consecutive(return_counts=True)
        T.tensor([0, 1, 2]).nonzero(as_tuple=True)
        T.tensor([[0, 1], [2, 0]]).nonzero(as_tuple=True)
        T.tensor([0, 1, 2]).nonzero()
        T.block_diag(T.ones(1, 2), T.ones(1))
        T.block_diag([T.ones(1, 2)])
        T.cartesian_prod(T.tensor([1, 2]), T.tensor([3, 4]))
        T.cartesian_prod(T.tensor([1, 2]))
    """,
    "numbers out": """
        2 << T.tensor(1)
        8 >> T.tensor([1, 2])
        2.0 << T.tensor(1)
        complex(T.tensor(1 + 2j))
        complex(T.tensor(1.5))
        complex(T.tensor([1.0, 2.0]))
        int(T.tensor([1, 2]))
        float(T.tensor([1.0, 2.0]))
        int(T.tensor([]))
        T.tensor([1, 2]).item()
        float(T.tensor(1 + 2j))
    """,
    "what a tensor has": """
        (lambda s: (type(s).__name__, s.nbytes(), s.size(), len(s), s[0], s.element_size()))(T.ones(2).untyped_storage())
        T.tensor([1, 300], dtype=T.int16).untyped_storage().tolist()
        (lambda s: (type(s).__name__, len(s), s[0], s.dtype, s.tolist(), s.nbytes()))(T.ones(2)[1:].storage())
        (lambda t: (t.storage().fill_(3), t)[1])(T.ones(2))
        (lambda t: (t.untyped_storage().__setitem__(0, 5), t)[1])(T.ones(2, dtype=T.uint8))
        (lambda t: t.untyped_storage().data_ptr() == t[1:].untyped_storage().data_ptr())(T.ones(2))
        T.ones(2).apply_(lambda v: v + 1)
        T.ones(2, 2).t().apply_(lambda v: v + 1)
        T.ones(2, dtype=T.int64).apply_(lambda v: v + 1.5)
        T.ones(2, requires_grad=True).apply_(lambda v: v + 1)
        T.ones(2, 2).map_(T.tensor([3.0, 4.0]), lambda a, b: a + b)
        T.ones(2).map_(T.ones(2, dtype=T.int64), lambda a, b: a + b)
        T.ones(2).map2_(T.full((2,), 3.0), T.ones(2), lambda a, b, c: a + b + c)
        T.ones(2, dtype=T.float64).new(2, 3).shape
        T.ones(2, dtype=T.float64).new([1, 2])
        T.ones(2).new().shape
        T.ones(2).new(T.Size([3])).shape
        x.dim_order()
        x.permute(2, 0, 1).dim_order()
        T.ones(2, 3, 4, 5).to(memory_format=T.channels_last).dim_order()
        T.ones(1, 1).dim_order(ambiguity_check=True)
        T.ones(4, requires_grad=True).split(2)[1].output_nr
        T.ones(4, requires_grad=True).output_nr
        T.ones(1).type("torch.DoubleTensor")
        T.ones(1).type("torch.FooTensor")
        T.ones(1, dtype=T.complex64).type().split(".")[1]
        x.H
        T.ones(2).H
        T.ones(2, 3, dtype=T.complex64).H.shape
        T.ones(2).mH
        T.ones(()).mH
        T.ones(()).mT
    """,
    "numbers are no bools": """
        T.ones(2, 3).sum(0, 1)
        T.sum(T.ones(2, 3), 0, 1)
        T.ones(2, 3).sum(0, True)
        T.ones(2, 3).sum(0, keepdim=1)
        T.ones(2, 3).amax(0, 1)
        T.ones(2, 3).max(0, 1)
        T.ones(2, 3).cumsum(True)
        T.ones(2).sort(0, 1)
        T.ones(2).sort(0, np.bool_(True))
        T.ones(2).topk(1, 0, 1)
        T.dropout(T.ones(2), 0.5, 1)
    """,
    "devices": """
        T.ones(2, device="meta") + T.ones(2)
        T.ones(2) + T.ones(2, device="meta")
        T.ones(2, device="meta") + T.ones(())
        T.ones(()) + T.ones(2, device="meta")
        T.ones(2, device="meta") + 1
        T.cat([T.ones(2, device="meta"), T.ones(2)])
        T.where(T.ones(2, device="meta") > 0, T.ones(2), T.ones(2))
        T.ones(2).copy_(T.ones(2, device="meta"))
        T.ones(2, device="meta").copy_(T.ones(2))
        T.ones(2, device="meta").add_(T.ones(2))
        T.ones(2, 2, device="meta").gather(0, T.tensor([[0]]))
    """,
    "kinds of refusal": """
        T.cat([])
        T.stack([])
        T.ones(2, requires_grad=True).__dlpack__()
        T.ones(2, device="meta").__dlpack__()
        T.from_dlpack(T.ones(2, requires_grad=True))
    """,
}


@pytest.mark.parametrize("source", [line.strip() for text in CASES.values() for line in text.strip().splitlines()])
def test_same(source):
    want, got = outcome(torch, source), outcome(tern, source)
    assert close(want, got), f"PyTorch: {want}\nTern:    {got}"


def test_not_equal_is_elementwise_where_equal_is():
    assert (tern.tensor([1.0, 2.0]) != np.ones(2)).tolist() == [False, True]


def test_in_place_with_an_array_gives_a_tensor():
    x = tern.tensor([1.0])
    x += np.array([2.0])
    assert isinstance(x, tern.Tensor) and x.tolist() == [3]


def test_pickles_hold_what_the_tensor_reaches_over():
    assert len(pickle.dumps(tern.arange(1000.0)[:2])) < 1000


def test_a_read_only_array_is_taken_with_one_warning():
    program = """
import warnings, numpy, tern
a = numpy.ones(2); a.flags.writeable = False
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    assert tern.from_numpy(a).data_ptr() == tern.as_tensor(a).data_ptr() == a.ctypes.data
assert len(seen) == 1 and "not writable" in str(seen[0].message), seen
"""
    import os

    path = os.pathsep.join(p for p in sys.path if p)
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "PYTHONPATH": path})


def test_storages_are_one_memory():
    x = tern.arange(6.0)
    assert x.untyped_storage() == x[2:].untyped_storage() and x.storage() == x.reshape(2, 3).storage()
    assert x.untyped_storage() != tern.arange(6.0).untyped_storage()
    twin = copy.deepcopy(x.untyped_storage())
    assert twin.tolist() == x.untyped_storage().tolist() and twin != x.untyped_storage()
    assert pickle.loads(pickle.dumps(twin)).tolist() == twin.tolist()
    with pytest.raises(TypeError, match="no data"):
        tern.ones(2, device="meta").untyped_storage()
