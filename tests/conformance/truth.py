"""Who is right where two results differ by more than their tolerance: the same call in float64.

Narrow types round, and sums of many products round differently in another order. A difference is settled for Tern when no
element that parts is farther from float64's answer than PyTorch's farthest; otherwise it stays a difference.
"""

import torch

from values import TOLERANCE, copy_of, map_tensors, seed, to_torch

WIDE = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64, torch.complex32: torch.complex128,
        torch.complex64: torch.complex128}
settled = 0  # how often it was asked and Tern's was the nearer one


def widened(value):
    """The arguments in double precision, without gaps in memory: PyTorch reads some layouts wrongly."""
    if isinstance(value, torch.Tensor):
        return value.contiguous().to(WIDE[value.dtype]) if value.dtype in WIDE else copy_of(value).contiguous()
    if isinstance(value, torch.dtype):
        return WIDE.get(value, value)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [widened(v) for v in value]
    if isinstance(value, dict):
        return {k: widened(v) for k, v in value.items()}
    return value


def settle(difference, function, args, kwargs, got, want, written=None):
    """Throws the difference again unless float64 says that Tern is right. `written`: (mine, theirs), arguments after the call."""
    global settled
    tensors = [t for t in flat((want, written[1] if written else None)) if isinstance(t, torch.Tensor)]
    if not any(t.dtype in WIDE for t in tensors):
        raise difference
    wide_args, wide_kwargs = widened(list(args)), widened(dict(kwargs))
    seed()
    try:
        with torch.no_grad():
            true = function(*wide_args, **wide_kwargs)
        right = nearer(got, want, true) and (written is None or nearer(written[0], written[1], wide_args))
    except Exception:
        raise difference
    if not right:
        raise difference
    settled += 1


def nearer(got, want, true):
    if isinstance(want, torch.Tensor):
        return nearer_tensor(got, want, true)
    if isinstance(want, (list, tuple)):
        return len(got) == len(want) == len(true) and all(nearer(*each) for each in zip(got, want, true))
    return True  # numbers were compared before


def nearer_tensor(got, want, true):
    if tuple(got.shape) != tuple(want.shape) or got.shape != true.shape or got.dtype.name != str(want.dtype).split(".")[1]:
        return False
    mine, want = to_torch(got), want.detach().resolve_conj().resolve_neg()
    if want.dtype not in WIDE:
        return torch.equal(mine, want)
    if true.dtype != WIDE[want.dtype]:
        return False
    rtol, atol = TOLERANCE[want.dtype]
    mine, want = mine.to(true.dtype), want.to(true.dtype)
    same = torch.isclose(mine, want, rtol=rtol, atol=atol, equal_nan=True)
    right = torch.isclose(mine, true, rtol=rtol, atol=atol, equal_nan=True)
    gap = (want - true).abs().nan_to_num(0, 0, 0)
    as_near = torch.isfinite(want) & torch.isfinite(mine) & ((mine - true).abs() <= gap.amax())
    return bool((same | as_near | right & ~torch.isfinite(want)).all())


def flat(tree):
    if isinstance(tree, (list, tuple)):
        return [leaf for branch in tree for leaf in flat(branch)]
    return [tree]
