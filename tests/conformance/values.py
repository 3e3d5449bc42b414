"""The same value on both sides: PyTorch's arguments for Tern, and Tern's results beside PyTorch's."""

import torch
from torch.utils._pytree import tree_flatten

import tern

DTYPE_NAMES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 complex128".split()
DTYPES = {getattr(torch, name): name for name in DTYPE_NAMES}
TOLERANCE = {  # relative, absolute
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1.6e-2),
    torch.float32: (2e-5, 2e-5),
    torch.float64: (1e-9, 1e-9),
    torch.complex32: (2e-3, 2e-3),
    torch.complex64: (2e-5, 2e-5),
    torch.complex128: (1e-9, 1e-9),
}


class Different(Exception):
    """Tern's answer is not PyTorch's."""


class NotOurs(Exception):
    """The sample holds something Tern does not have (a sparse tensor, a quantised one, a function)."""


def short(dtype):
    return str(dtype).split(".")[1]


def tensors(tree):
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor)]


def copy_of(t, storages=None):
    """A tensor of the same geometry on a copy of its whole storage, so that as_strided finds what it looks for. `storages`: copies made before."""
    if not isinstance(t, torch.Tensor) or t.layout != torch.strided or t.device.type != "cpu":
        return t
    storage = t.untyped_storage()
    storages = {} if storages is None else storages
    if storage._cdata not in storages:
        storages[storage._cdata] = storage.clone()
    copy = storages[storage._cdata]
    whole = torch.empty(0, dtype=t.dtype).set_(copy, 0, (storage.nbytes() // t.element_size(),))
    result = torch.as_strided(whole, t.shape, t.stride(), t.storage_offset())
    if t.is_conj():
        result = result.conj()
    if t.is_neg():
        result = torch._neg_view(result)
    return result.detach()  # not a view: detach_() refuses those


def map_tensors(function, value):
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(map_tensors(function, v) for v in value)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(map_tensors(function, v) for v in value)
    if isinstance(value, dict):
        return {k: map_tensors(function, v) for k, v in value.items()}
    return value


def once(function):
    """The same result for the same tensor."""
    made = {}

    def get(t):
        if id(t) not in made:
            made[id(t)] = t, function(t)  # t is kept: its id stays its own
        return made[id(t)][1]

    return get


def copy_together(args, kwargs):
    """Copies among which memory is shared as among the arguments."""
    storages = {}
    copy = once(lambda t: copy_of(t, storages))
    return map_tensors(copy, args), map_tensors(copy, kwargs)


def to_tern_together(args, kwargs):
    """A tensor that is given twice, as input and as out=, is one tensor for Tern, too."""
    tensor = once(shared)
    return to_tern(args, tensor), to_tern(kwargs, tensor)


def to_tern(value, tensor=None):
    """The same argument for Tern; tensors share their memory. `tensor`: what makes one of a torch.Tensor."""
    if isinstance(value, torch.Tensor):
        return (tensor or shared)(value)
    if isinstance(value, torch.dtype):
        if value not in DTYPES:
            raise NotOurs(f"{value}")
        return getattr(tern, short(value))
    if isinstance(value, torch.device):
        if value.type not in ("cpu", "meta"):
            raise NotOurs(f"{value}")
        return tern.device(str(value))
    if isinstance(value, torch.memory_format):
        return getattr(tern, short(value))
    if isinstance(value, torch.layout):
        if value != torch.strided:
            raise NotOurs(f"{value}")
        return tern.strided
    if isinstance(value, torch.Size):
        return list(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(to_tern(v, tensor) for v in value)
    if isinstance(value, (list, tuple)):
        return type(value)(to_tern(v, tensor) for v in value)
    if isinstance(value, dict):
        return {k: to_tern(v, tensor) for k, v in value.items()}
    if value is None or isinstance(value, (bool, int, float, complex, str)) or type(value).__module__ == "numpy":
        return value
    raise NotOurs(f"an argument of {type(value).__name__}")


def shared(t):
    if t.layout != torch.strided or t.dtype not in DTYPES or t.is_quantized or t.device.type != "cpu":
        raise NotOurs(f"a {t.layout} tensor of {t.dtype} on {t.device}")
    plain = t.detach().resolve_conj().resolve_neg()
    elements = plain.untyped_storage().nbytes() // plain.element_size()
    whole = tern.from_dlpack(torch.as_strided(plain, (elements,), (1,), 0))
    if elements == plain.numel() and plain.is_contiguous():
        rows = whole.view(list(plain.shape))
        if tuple(rows.stride()) == plain.stride():  # of a size of one it may be any
            return rows.detach()
    return whole.as_strided(list(plain.shape), list(plain.stride()), plain.storage_offset()).detach()


def to_torch(t):
    return torch.from_dlpack(t.detach())


def compare(got, want, loose=1.0, where="result", values=True):
    """Throws Different. `loose` widens the tolerance; without `values` only shapes and dtypes count."""
    if isinstance(want, torch.Tensor):
        return compare_tensors(got, want, loose, where, values)
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            raise Different(f"{where}: {len(got) if isinstance(got, (list, tuple)) else type(got).__name__} results, not {len(want)}")
        for i, (a, b) in enumerate(zip(got, want)):
            compare(a, b, loose, f"{where}[{i}]", values)
    elif isinstance(want, torch.dtype):
        if got is not to_tern(want):
            raise Different(f"{where}: {got}, not {want}")
    elif isinstance(want, (bool, int, float, complex)):
        if want != want and got == got or want == want and (isinstance(got, tern.Tensor) or not (got == want or abs(got - want) <= 1e-6 * max(1.0, abs(want)))):
            raise Different(f"{where}: {got}, not {want}")
    elif not (want is None and got is None):
        raise Different(f"{where}: {type(got).__name__} beside {type(want).__name__}")


def compare_tensors(got, want, loose, where, values):
    if not isinstance(got, tern.Tensor):
        raise Different(f"{where}: a {type(got).__name__}, not a Tensor")
    if tuple(got.shape) != tuple(want.shape):
        raise Different(f"{where}: shape {list(got.shape)}, not {list(want.shape)}")
    if got.dtype.name != short(want.dtype):
        raise Different(f"{where}: dtype {got.dtype.name}, not {short(want.dtype)}")
    if not values or want.numel() == 0:
        return
    want = want.detach().resolve_conj().resolve_neg()
    mine = to_torch(got)
    if want.dtype not in TOLERANCE:
        if not torch.equal(mine, want):
            raise Different(f"{where}: {int((mine != want).sum())} of {want.numel()} values differ")
        return
    if want.dtype == torch.complex32:  # PyTorch does not compare these
        mine, want, given = mine.to(torch.complex64), want.to(torch.complex64), want.dtype
    else:
        given = want.dtype
    rtol, atol = (v * loose for v in TOLERANCE[given])
    close = torch.isclose(mine, want, rtol=rtol, atol=atol, equal_nan=True)
    if bool(close.all()):
        return
    if want.is_complex():  # an infinite or undefined part makes the other one's value a matter of taste
        a, b = torch.view_as_real(mine), torch.view_as_real(want)
        odd = ~(torch.isfinite(a).all(-1) | torch.isfinite(b).all(-1))
        close = close | odd
        if bool(close.all()):
            return
    gap = (mine - want).abs().double().nan_to_num(float("inf"))[~close]
    raise Different(f"{where}: {int((~close).sum())} of {want.numel()} values differ, by up to {float(gap.max()):.3g}")


def check_strides(got, want, where="result"):
    """Strides of dimensions that have more than one element."""
    if isinstance(want, torch.Tensor) and isinstance(got, tern.Tensor):
        if want.numel() == 0 or want.is_sparse:
            return
        a = [s for s, n in zip(got.stride(), want.shape) if n > 1]
        b = [s for s, n in zip(want.stride(), want.shape) if n > 1]
        if a != b:
            raise Different(f"{where}: strides {list(got.stride())}, not {list(want.stride())} for {list(want.shape)}")
    elif isinstance(want, (list, tuple)):
        for i, (a, b) in enumerate(zip(got, want)):
            check_strides(a, b, f"{where}[{i}]")


def seed(number=5):
    torch.manual_seed(number)
    tern.manual_seed(number)
