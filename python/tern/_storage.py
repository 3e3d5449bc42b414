"""The memory behind tensors, as bytes or as elements of one dtype: ``x.untyped_storage()``, ``x.storage()``."""

from . import _tern
from ._tern import Tensor


class UntypedStorage:
    """Bytes that tensors share. Two objects over the same memory are equal."""

    def __init__(self, size=0):
        self._bytes = size if isinstance(size, Tensor) else _tern._packet("aten::empty")([int(size)], dtype=_tern.uint8)

    @property
    def device(self):
        return self._bytes.device

    @property
    def is_cuda(self):
        return False

    @property
    def _cdata(self):
        return _tern._storage_address(self._bytes)

    def data_ptr(self):
        return self._bytes.data_ptr()

    def nbytes(self):
        return self._bytes.numel()

    size = nbytes
    __len__ = nbytes

    def element_size(self):
        return 1

    def tolist(self):
        return self._bytes.tolist()

    def fill_(self, value):
        self._bytes.fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        self._bytes.copy_(source._bytes)
        return self

    def clone(self):
        return UntypedStorage(self._bytes.clone())

    def cpu(self):
        return self

    def is_shared(self):
        return False

    def is_pinned(self):
        return False

    def __getitem__(self, index):
        found = self._bytes[index]
        return UntypedStorage(found) if isinstance(index, slice) else found.item()

    def __setitem__(self, index, value):
        self._bytes[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __eq__(self, other):
        return self._cdata == other._cdata if isinstance(other, UntypedStorage) else NotImplemented

    def __hash__(self):
        return hash(self._cdata)

    def __copy__(self):
        return self.clone()

    def __deepcopy__(self, memo):
        return UntypedStorage(copied_storage(self._bytes, memo))

    def __reduce__(self):
        return _storage_from_bytes, (_tern._bytes(self._bytes.contiguous()),)

    def __repr__(self):
        return f"{' '.join(str(v) for v in self.tolist())}\n[tern.storage.UntypedStorage(device={self.device}) of size {len(self)}]"


def _storage_from_bytes(data):
    return UntypedStorage(_tern._from_bytes(data, _tern.uint8, (len(data),)))


class TypedStorage:
    """The same memory as elements of one dtype."""

    def __init__(self, wrap_storage, dtype):
        self._untyped_storage, self.dtype = wrap_storage, dtype

    def _elements(self):
        untyped = self._untyped_storage._bytes
        n = untyped.numel() // self.dtype.itemsize
        return _tern._from_storage(untyped, self.dtype, (n,), (1,), 0)

    def untyped(self):
        return self._untyped_storage

    @property
    def device(self):
        return self._untyped_storage.device

    @property
    def is_cuda(self):
        return False

    @property
    def _cdata(self):
        return self._untyped_storage._cdata

    def data_ptr(self):
        return self._untyped_storage.data_ptr()

    def nbytes(self):
        return self._untyped_storage.nbytes()

    def size(self):
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = size

    def element_size(self):
        return self.dtype.itemsize

    def tolist(self):
        return self._elements().tolist()

    def fill_(self, value):
        self._elements().fill_(value)
        return self

    def copy_(self, source, non_blocking=None):
        self._elements().copy_(source._elements())
        return self

    def clone(self):
        return TypedStorage(self._untyped_storage.clone(), self.dtype)

    def is_shared(self):
        return False

    def __getitem__(self, index):
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return self._elements()[index].item()

    def __setitem__(self, index, value):
        self._elements()[index] = value

    def __iter__(self):
        return iter(self.tolist())

    def __eq__(self, other):
        if not isinstance(other, TypedStorage):
            return NotImplemented
        return self._cdata == other._cdata and self.dtype is other.dtype

    def __hash__(self):
        return hash(self._cdata)

    def __deepcopy__(self, memo):
        return TypedStorage(self._untyped_storage.__deepcopy__(memo), self.dtype)

    def __repr__(self):
        return f"{' '.join(str(v) for v in self.tolist())}\n[tern.storage.TypedStorage(dtype={self.dtype}, device={self.device}) of size {len(self)}]"


def untyped_storage(self):
    return UntypedStorage(_tern._storage_bytes(self))


def storage(self):
    return TypedStorage(untyped_storage(self), self.dtype)


def copied_storage(of, memo):
    """The bytes of a copy of this tensor's memory: one copy for all that share it, while `memo` lasts."""
    source = _tern._storage_bytes(of)
    key = ("tern storage", _tern._storage_address(of), source.numel())
    if key not in memo:
        memo[key] = _tern._packet("aten::clone")(source)
        memo.setdefault(id(memo), []).append(source)  # its address stays taken until the copy is done
    return memo[key]
