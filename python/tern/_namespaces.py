"""tern.linalg, tern.fft and tern.special: the operators of ATen whose names begin so, by their short names."""

import sys
import types

from . import _tern


class _Namespace(types.ModuleType):
    def __init__(self, name, **more):
        super().__init__(f"tern.{name}", f"ATen's operators {name}_*, as torch.{name} has them.")
        self.__dict__["_prefix"] = f"aten::{name}_"
        self.__dict__.update(more)
        sys.modules[self.__name__] = self

    def __getattr__(self, name):
        if not name.startswith("_") and _tern._has_packet(self._prefix + name):
            packet = _tern._packet(self._prefix + name)
            setattr(self, name, packet)
            return packet
        raise AttributeError(f"module '{self.__name__}' has no attribute '{name}', and Tern has no operator {self._prefix}{name}")

    def __dir__(self):
        return sorted({q[len(self._prefix) :].split(".")[0] for q in _tern._all_ops() if q.startswith(self._prefix)} | set(self.__dict__))


linalg = _Namespace("linalg", LinAlgError=_tern._LinAlgError)
fft = _Namespace("fft")
special = _Namespace("special")
