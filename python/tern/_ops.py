"""``tern.ops.<namespace>.<operator>.<overload>``: every operator by its schema's name."""

from . import _tern


class _Namespace:
    def __init__(self, name):
        self.__dict__["name"] = name

    def __getattr__(self, op):
        qualified = f"{self.name}::{op}"
        if not _tern._has_packet(qualified):
            try:
                _tern._packet(qualified)
            except NotImplementedError as error:
                raise AttributeError(f"'tern.ops.{self.name}' has no operator '{op}': {error}") from None
        packet = _tern._packet(qualified)
        self.__dict__[op] = packet
        return packet

    def __dir__(self):
        prefix = self.name + "::"
        return sorted({q[len(prefix):].split(".")[0] for q in _tern._all_ops() if q.startswith(prefix)})

    def __repr__(self):
        return f"<tern.ops.{self.name}>"


class _Ops:
    def __getattr__(self, namespace):
        if namespace.startswith("__"):
            raise AttributeError(namespace)
        self.__dict__[namespace] = result = _Namespace(namespace)
        return result

    def __repr__(self):
        return "<tern.ops>"


ops = _Ops()


# What pickles of operators and dtypes name: the extension's own functions cannot be pickled.
def packet(qualified):
    return _tern._packet(qualified)


def overload(qualified):
    return _tern._overload(qualified)


def dtype(name):
    return _tern._dtype(name)
