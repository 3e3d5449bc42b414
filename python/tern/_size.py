"""The shape of a tensor: a tuple that knows how many elements it stands for."""

from . import _tern


class Size(tuple):
    __slots__ = ()

    def __repr__(self):
        return f"tern.Size({list(self)})"

    def numel(self):
        n = 1
        for d in self:
            n = n * d
        return n

    def __getitem__(self, i):
        item = tuple.__getitem__(self, i)
        return Size(item) if isinstance(i, slice) else item

    def __add__(self, other):
        return Size(tuple.__add__(self, tuple(other)))

    def __mul__(self, n):
        return Size(tuple.__mul__(self, n))

    def __reduce__(self):
        return Size, (tuple(self),)


_tern._set_size_class(Size)
