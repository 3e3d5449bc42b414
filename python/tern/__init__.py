"""Tern: capture, convert, run and train PyTorch-style models, without PyTorch.

Names are PyTorch's: an operator is ``tern.add(x, y)``, ``x.add(y)``, ``x + y`` or ``tern.ops.aten.add.Tensor(x, y, alpha=2)``.
"""

from . import _tern
from ._tern import (  # noqa: F401
    Generator,
    OpOverload,
    OpPacket,
    SymInt,
    Tensor,
    _LinAlgError,
    can_cast,
    channels_last,
    channels_last_3d,
    contiguous_format,
    device,
    dtype,
    get_default_dtype,
    get_num_threads,
    get_rng_state,
    initial_seed,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    is_grad_enabled,
    is_inference_mode_enabled,
    layout,
    memory_format,
    preserve_format,
    promote_types,
    set_default_dtype,
    set_num_threads,
    set_rng_state,
    sparse_coo,
    strided,
)

__version__ = "0.1.0"

_DTYPES = (
    "uint8 int8 int16 int32 int64 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex32 complex64 complex128 bool "
    "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz qint8 quint8 qint32 half float double short int long chalf cfloat cdouble"
).split()
for _name in _DTYPES:
    globals()[_name] = getattr(_tern, _name)

from math import e, inf, nan, pi  # noqa: E402,F401

from . import _tensor  # noqa: E402  (gives Tensor its Python methods)
from ._tensor import QSCHEMES, qscheme  # noqa: E402,F401

for _scheme in QSCHEMES:
    globals()[_scheme.name] = _scheme
from ._grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: E402,F401
from ._ops import ops  # noqa: E402,F401
from ._size import Size  # noqa: E402,F401
from ._storage import TypedStorage, UntypedStorage  # noqa: E402,F401
from . import autograd, nested, random, testing  # noqa: E402,F401
from ._functions import *  # noqa: E402,F401,F403
from ._namespaces import fft, linalg, special  # noqa: E402,F401
from ._load import load, save  # noqa: E402,F401
from ._printing import set_printoptions  # noqa: E402,F401
from .random import default_generator, manual_seed, seed  # noqa: E402,F401


def __getattr__(name):
    """Every ATen operator that Tern has is a function of this module."""
    if not name.startswith("__") and _tern._has_packet("aten::" + name):
        packet = _tern._packet("aten::" + name)
        globals()[name] = packet
        return packet
    raise AttributeError(f"module 'tern' has no attribute '{name}', and Tern has no operator aten::{name}")


def __dir__():
    names = {q.split("::")[1].split(".")[0] for q in _tern._all_ops() if q.startswith("aten::")}
    return sorted(set(globals()) | names)
