"""What a tensor is in Python: attributes, operators, indexing, printing, copying."""

import copy
import pickle

import numpy as np
import pytest

import tern


def test_attributes():
    x = tern.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert x.shape == (2, 3) and isinstance(x.shape, tern.Size) and repr(x.shape) == "tern.Size([2, 3])"
    assert x.dtype is tern.float32 and repr(x.dtype) == "tern.float32"
    assert x.device == tern.device("cpu") and repr(x.device) == "device(type='cpu')"
    assert (x.ndim, x.dim(), x.numel(), x.nbytes, x.element_size(), x.itemsize) == (2, 2, 6, 24, 4, 4)
    assert x.stride() == (3, 1) and x.stride(0) == 3 and x.storage_offset() == 0 and x.is_contiguous()
    assert x.size() == (2, 3) and x.size(-1) == 3
    assert x.T.shape == (3, 2) and x.mT.stride() == (1, 3) and not x.T.is_contiguous()
    assert not x.requires_grad and x.is_leaf and x.grad is None and x.grad_fn is None
    with pytest.raises(IndexError, match="Dimension out of range"):
        x.size(2)


def test_tensor_from_data():
    assert tern.tensor(3).dtype is tern.int64 and tern.tensor(3).shape == ()
    assert tern.tensor([True, False]).dtype is tern.bool
    assert tern.tensor([1, 2.5]).dtype is tern.float32
    assert tern.tensor([1j]).dtype is tern.complex64
    assert tern.tensor([]).shape == (0,)
    assert tern.tensor([[], []]).shape == (2, 0)
    assert tern.tensor([1, 2], dtype=tern.float64, requires_grad=False).tolist() == [1.0, 2.0]
    assert tern.tensor([1.0], requires_grad=True).requires_grad
    assert tern.tensor(np.arange(6).reshape(2, 3)[:, ::-1]).tolist() == [[2, 1, 0], [5, 4, 3]]
    assert tern.tensor([tern.tensor(1), tern.tensor(2)]).tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"expected sequence of length 2 at dim 1 \(got 1\)"):
        tern.tensor([[1, 2], [3]])
    with pytest.raises(RuntimeError, match="Could not infer dtype of NoneType"):
        tern.tensor([None])
    with pytest.raises(RuntimeError, match="without overflow"):
        tern.tensor([300], dtype=tern.uint8)
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="too many dimensions"):
        tern.tensor(endless)


def test_operators():
    x, y = tern.tensor([1.0, 2.0, 3.0]), tern.tensor([4.0, 5.0, 6.0])
    assert (x + y).tolist() == [5, 7, 9] and (x + 1).tolist() == [2, 3, 4] and (1 + x).tolist() == [2, 3, 4]
    assert (x - y).tolist() == [-3, -3, -3] and (10 - x).tolist() == [9, 8, 7]
    assert (x * y).tolist() == [4, 10, 18] and (2 * x).tolist() == [2, 4, 6]
    assert (y / x).tolist() == [4, 2.5, 2] and (6 / x).tolist() == [6, 3, 2]
    assert (y // 2).tolist() == [2, 2, 3] and (y % 4).tolist() == [0, 1, 2]
    assert (x**2).tolist() == [1, 4, 9] and (2**x).tolist() == [2, 4, 8]
    assert (-x).tolist() == [-1, -2, -3] and abs(-x).tolist() == [1, 2, 3] and (+x) is x
    assert (x < 2).tolist() == [True, False, False] and (x == y).tolist() == [False] * 3 and (x != 1).tolist() == [False, True, True]
    assert (2 < x).tolist() == [False, False, True]
    a, b = tern.tensor([True, False]), tern.tensor([True, True])
    assert (a & b).tolist() == [True, False] and (a | b).tolist() == [True, True] and (a ^ b).tolist() == [False, True]
    assert (~a).tolist() == [False, True]
    i = tern.tensor([1, 2])
    assert (i << 1).tolist() == [2, 4] and (i >> 1).tolist() == [0, 1] and (i & 1).tolist() == [1, 0]
    assert (i + 1.5).dtype is tern.float32 and (i + 1).dtype is tern.int64 and (i / 2).dtype is tern.float32
    z = x
    z += 1
    assert z is x and x.tolist() == [2, 3, 4]
    assert x != None and not (x == None)  # noqa: E711
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "a"


def test_numbers_out():
    assert tern.tensor(2.5).item() == 2.5 and float(tern.tensor(2)) == 2.0 and int(tern.tensor(2.7)) == 2
    assert bool(tern.tensor([1])) and not bool(tern.tensor(0.0))
    assert [10, 20, 30][tern.tensor(1)] == 20
    assert len(tern.tensor([1, 2])) == 2 and [int(v) for v in tern.tensor([1, 2])] == [1, 2]
    assert f"{tern.tensor(1.234):.1f}" == "1.2"
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(tern.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        tern.tensor([1, 2]).item()
    with pytest.raises(TypeError, match=r"len\(\) of a 0-d tensor"):
        len(tern.tensor(1))
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        [1][tern.tensor(0.5)]


X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
INDICES = {
    "int": 1,
    "negative": -1,
    "ints": (1, 2),
    "slice": slice(1, None),
    "step": (slice(None), slice(None, None, 2)),
    "ellipsis": (Ellipsis, 1),
    "none": (None, 0),
    "none_inside": (0, None, slice(1, 3)),
    "list": ([0, 1],),
    "lists": ([0, 1], [2, 0]),
    "list_after_slice": (slice(None), [2, 0]),
    "list_split": ([0, 1], slice(None), [3, 1]),
    "mask": (X > 5,),
    "mask_first": (np.array([True, False]),),
    "ints_2d": (np.array([[0, 1], [1, 0]]),),
    "bool": True,
    "all": Ellipsis,
}


@pytest.mark.parametrize("name", INDICES)
def test_getitem(name):
    index = INDICES[name]
    as_tern = tuple(tern.tensor(i) if isinstance(i, np.ndarray) else i for i in index) if isinstance(index, tuple) else index
    np.testing.assert_array_equal(tern.from_numpy(X.copy())[as_tern].numpy(), X[index])


@pytest.mark.parametrize("name", INDICES)
def test_setitem(name):
    index = INDICES[name]
    as_tern = tuple(tern.tensor(i) if isinstance(i, np.ndarray) else i for i in index) if isinstance(index, tuple) else index
    want, got = X.copy(), tern.from_numpy(X.copy())
    want[index] = -1
    got[as_tern] = -1
    np.testing.assert_array_equal(got.numpy(), want)
    want[index] = want[index] * 2
    got[as_tern] = got[as_tern] * 2
    np.testing.assert_array_equal(got.numpy(), want)


def test_index_errors():
    x = tern.zeros(2, 3)
    for index, error, text in [
        (2, IndexError, "index 2 is out of bounds for dimension 0 with size 2"),
        ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
        (slice(None, None, -1), ValueError, "step must be greater than zero"),
        (1.5, IndexError, "only integers, slices"),
    ]:
        with pytest.raises(error, match=text):
            x[index]
    with pytest.raises(IndexError, match="0-dim tensor"):
        tern.tensor(1)[0]
    with pytest.raises(TypeError, match="can't assign a str"):
        x[0] = "a"


def test_views_share_memory():
    x = tern.zeros(2, 3)
    x[0].fill_(1)
    x[:, 1] += 5
    assert x.tolist() == [[1, 6, 1], [0, 5, 0]]
    x.data = tern.ones(3)
    assert x.shape == (3,)


def test_repr():
    assert repr(tern.tensor([1.0, 2.0])) == "tensor([1., 2.])"
    assert repr(tern.tensor([1.5, -2.25])) == "tensor([ 1.5000, -2.2500])"
    assert repr(tern.tensor([[1, 2], [3, 40]])) == "tensor([[ 1,  2],\n        [ 3, 40]])"
    assert repr(tern.tensor(True)) == "tensor(True)"
    assert repr(tern.tensor([1], dtype=tern.int32)) == "tensor([1], dtype=tern.int32)"
    assert repr(tern.tensor([1e10, 1.0])) == "tensor([1.0000e+10, 1.0000e+00])"
    assert repr(tern.tensor([])) == "tensor([])"
    assert repr(tern.tensor([1.0], requires_grad=True)) == "tensor([1.], requires_grad=True)"
    assert repr(tern.tensor([1.0], requires_grad=True) * 2) == "tensor([2.], grad_fn=<MulBackward0>)"
    assert "..." in repr(tern.zeros(2000)) and repr(tern.zeros(2000)).startswith("tensor([0., 0., 0.,  ..., 0., 0., 0.])"[:20])


def test_identity_and_copies():
    x = tern.tensor([1.0, 2.0], requires_grad=True)
    assert hash(x) != hash(x.clone()) and len({x, x}) == 1
    assert x.detach().add_(0) is not x
    (x * 2).sum().backward()
    assert x.grad is x.grad
    d = copy.deepcopy(x)
    assert d is not x and d.requires_grad and d.tolist() == [1, 2] and d.grad.tolist() == [2, 2]
    p = pickle.loads(pickle.dumps(tern.tensor([[1, 2], [3, 4]]).T))
    assert p.tolist() == [[1, 3], [2, 4]]
    w = pickle.loads(pickle.dumps(tern.Parameter(tern.ones(2))))
    assert isinstance(w, tern.Parameter) and w.requires_grad
    for o in (tern.float32, tern.device("cpu"), tern.Size([1, 2]), tern.ops.aten.add.Tensor, tern.add):
        assert pickle.loads(pickle.dumps(o)) == o
    assert copy.copy(x).data_ptr() == x.data_ptr()


def test_to_and_casts():
    x = tern.tensor([1.7, -2.3])
    assert x.to(tern.int32).tolist() == [1, -2] and x.to(tern.float32) is x and x.to("cpu") is x
    assert x.double().dtype is tern.float64 and x.to(dtype=tern.float16).dtype is tern.float16
    assert x.to(tern.tensor(1)).dtype is tern.int64 and x.int().type() == "tern.IntTensor"
    assert x.to("meta").is_meta
    with pytest.raises(TypeError, match=r"to\(\): expected a dtype"):
        x.to([])


def test_parameter():
    p = tern.Parameter(tern.ones(2))
    assert p.requires_grad and p.is_leaf and isinstance(p, tern.Tensor)
    assert repr(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert type(p * 2) is tern.Tensor
