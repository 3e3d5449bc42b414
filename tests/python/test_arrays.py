"""NumPy and DLPack, both ways, without copies."""

import gc

import numpy as np
import pytest

import tern

NUMPY_DTYPES = "uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 float32 float64 complex64 complex128 bool".split()


@pytest.mark.parametrize("name", NUMPY_DTYPES)
def test_numpy_round_trip(name):
    a = np.arange(6).astype(name).reshape(2, 3)
    t = tern.from_numpy(a)
    assert t.dtype is getattr(tern, name) and t.data_ptr() == a.ctypes.data
    np.testing.assert_array_equal(t.numpy(), a)
    assert t.numpy().dtype == a.dtype and np.shares_memory(t.numpy(), a)
    np.testing.assert_array_equal(t.T.numpy(), a.T)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_ml_dtypes(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.array([1, 2, 0.5]).astype(getattr(ml_dtypes, name))
    t = tern.from_numpy(a)
    assert t.dtype is getattr(tern, name) and t.tolist() == [1, 2, 0.5]
    assert t.numpy().dtype == a.dtype


def test_memory_is_kept_alive():
    t = tern.from_numpy(np.full(1000, 7.0))
    gc.collect()
    assert t[999].item() == 7
    a = tern.tensor([1.0, 2.0]).numpy()
    gc.collect()
    a[0] = 5
    assert a.tolist() == [5, 2]


def test_numpy_refusals():
    frozen = np.zeros(2)
    frozen.flags.writeable = False
    for array, error, text in [
        (np.zeros(3)[::-1], ValueError, "stride in the given numpy array is negative"),
        (np.array(["a"]), TypeError, "can't convert an array of str"),
        (np.zeros(2, ">f4"), ValueError, "big-endian"),
        ([1, 2], TypeError, "expected np.ndarray"),
    ]:
        with pytest.raises(error, match=text):
            tern.from_numpy(array)
    assert tern.tensor(frozen).tolist() == tern.from_numpy(frozen).tolist() == [0, 0]
    with pytest.raises(RuntimeError, match="requires grad"):
        tern.ones(2, requires_grad=True).numpy()
    with pytest.raises(TypeError, match="meta tensor has no data"):
        tern.zeros(2, device="meta").numpy()


def test_numpy_takes_tensors():
    x = tern.tensor([1.0, 2.0])
    assert np.asarray(x).tolist() == [1, 2] and np.array(x, dtype=np.float64).dtype == np.float64
    assert tern.from_numpy(np.zeros((0, 3))).shape == (0, 3) and tern.zeros(0, 3).numpy().shape == (0, 3)
    assert tern.tensor(2.5).numpy().shape == ()


def test_dlpack_with_numpy():
    a = np.arange(6.0).reshape(2, 3)
    t = tern.from_dlpack(a)
    assert t.data_ptr() == a.ctypes.data and t.shape == (2, 3)
    back = np.from_dlpack(tern.tensor([1.0, 2.0]))
    assert back.tolist() == [1, 2]
    capsule = tern.ones(2).__dlpack__()
    assert tern.from_dlpack(capsule).tolist() == [1, 1]
    with pytest.raises(ValueError, match="consumed already"):
        tern.from_dlpack(capsule)
    with pytest.raises(TypeError, match="has no __dlpack__"):
        tern.from_dlpack(3)
    with pytest.raises(BufferError, match="require gradient"):
        tern.ones(2, requires_grad=True).__dlpack__()


@pytest.mark.parametrize("name", "float32 float64 float16 bfloat16 bool int64 uint8 complex64".split())
def test_dlpack_with_torch(name):
    torch = pytest.importorskip("torch")
    source = torch.tensor([[1, 0], [1, 1]]).to(getattr(torch, name))
    t = tern.from_dlpack(source)
    assert t.dtype is getattr(tern, name) and t.data_ptr() == source.data_ptr()
    back = torch.from_dlpack(t)
    assert back.dtype == source.dtype and torch.equal(back, source) and back.data_ptr() == source.data_ptr()
    assert torch.equal(torch.from_dlpack(t.T), source.T)
