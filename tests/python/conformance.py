"""Every operator that Tern and PyTorch's OpInfo database share, on OpInfo's samples: values, shapes, dtypes and gradients.

Run by test_conformance.py in worker processes, so that a crash is a finding and not the end of the run. By hand:

    python conformance.py --only add,softmax       prints what differs, with the samples
"""

import argparse
import faulthandler
import itertools
import json
import resource
import sys
import time
import types
import unittest
import warnings

import torch

if "expecttest" not in sys.modules:  # common_utils imports it for PyTorch's own tests only
    try:
        import expecttest  # noqa: F401
    except ImportError:
        stub = types.ModuleType("expecttest")
        stub.TestCase, stub.assert_expected_inline = unittest.TestCase, None
        sys.modules["expecttest"] = stub

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_flatten, tree_map  # noqa: E402

import tern  # noqa: E402

DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool)
SAMPLES = 4
LARGEST = 200_000  # elements: larger samples only cost time
TOLERANCE = {torch.float32: (2e-5, 2e-5), torch.float64: (1e-9, 1e-9), torch.complex64: (2e-5, 2e-5), torch.complex128: (1e-9, 1e-9)}
# What has no value to compare (_ctc_loss leaves part of its second result as it finds the memory).
SKIPPED = {"_ctc_loss", "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "resize_as_", "to_sparse"}
DIFFERENT_NAMES = {"true_divide": "div"}


class Different(Exception):
    pass


def name_of(info):
    return info.name + ("." + info.variant_test_name if info.variant_test_name else "")


def to_tern(value):
    """The same argument for Tern; tensors share their memory."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.dtype not in _DTYPE_NAMES or value.is_quantized:
            raise NotImplementedError(f"a {value.layout} tensor of {value.dtype}")
        if value.storage_offset() and _reaches_back:
            raise NotImplementedError("an argument of a larger storage")  # DLPack carries the view only
        plain = value.detach().resolve_conj().resolve_neg()
        return tern.from_dlpack(plain)
    if isinstance(value, torch.dtype):
        return getattr(tern, str(value).split(".")[1])
    if isinstance(value, torch.device):
        return tern.device(str(value))
    if isinstance(value, torch.memory_format):
        return getattr(tern, str(value).split(".")[1])
    if isinstance(value, torch.layout):
        return getattr(tern, str(value).split(".")[1])
    if isinstance(value, torch.Size):
        return list(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(to_tern(v) for v in value)
    if isinstance(value, (list, tuple)):
        return type(value)(to_tern(v) for v in value)
    if isinstance(value, dict):
        return {k: to_tern(v) for k, v in value.items()}
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    if type(value).__module__ == "numpy":
        return value
    raise NotImplementedError(f"an argument of {type(value).__name__}")


_reaches_back = False  # the operator under test looks at memory before its argument's first element
_DTYPE_NAMES = {getattr(torch, n) for n in "uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128 bool".split()}


def compare(got, want, loose=1.0, where="result"):
    if isinstance(want, torch.Tensor):
        if not isinstance(got, tern.Tensor):
            raise Different(f"{where}: a {type(got).__name__}, not a Tensor")
        if tuple(got.shape) != tuple(want.shape):
            raise Different(f"{where}: shape {list(got.shape)}, not {list(want.shape)}")
        if got.dtype.name != str(want.dtype).split(".")[1]:
            raise Different(f"{where}: dtype {got.dtype.name}, not {str(want.dtype).split('.')[1]}")
        want = want.detach().resolve_conj().resolve_neg()
        mine = torch.from_dlpack(got.detach())
        rtol, atol = TOLERANCE.get(want.dtype, (0, 0))
        if not torch.allclose(mine.to(want.dtype), want, rtol=rtol * loose, atol=atol * loose, equal_nan=True) if want.dtype in TOLERANCE else not torch.equal(mine, want):
            if want.dtype in TOLERANCE:
                gap = (mine - want).abs()
                raise Different(f"{where}: {int((~torch.isclose(mine, want, rtol=rtol * loose, atol=atol * loose, equal_nan=True)).sum())} of {want.numel()} values differ, by up to {float(gap.nan_to_num(float('inf')).max()):.3g}")
            raise Different(f"{where}: {int((mine != want).sum())} of {want.numel()} values differ")
        return
    if isinstance(want, (list, tuple)):
        if not isinstance(got, (list, tuple)) or len(got) != len(want):
            raise Different(f"{where}: {len(got) if isinstance(got, (list, tuple)) else type(got).__name__} results, not {len(want)}")
        for i, (a, b) in enumerate(zip(got, want)):
            compare(a, b, loose, f"{where}[{i}]")
        return
    if isinstance(want, float) and want != want:
        if got == got:
            raise Different(f"{where}: {got}, not nan")
        return
    if isinstance(want, torch.dtype):
        if got is not to_tern(want):
            raise Different(f"{where}: {got}, not {want}")
        return
    if isinstance(want, (bool, int, float, complex)):
        if isinstance(got, tern.Tensor) or abs(got - want) > 1e-6 * max(1.0, abs(want)):
            raise Different(f"{where}: {got}, not {want}")
        return
    if want is None and got is None:
        return
    raise Different(f"{where}: cannot compare {type(want).__name__}")


def floating(tree):
    return [t for t in tree_flatten(tree)[0] if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())]


def weights(t):
    """A fixed cotangent that tells elements apart."""
    return (torch.arange(t.numel(), dtype=torch.float64).remainder(7).reshape(t.shape) * 0.25 - 0.5).to(t.dtype)


def seed():
    torch.manual_seed(5)
    tern.manual_seed(5)


def check_forward(reference, function, args, kwargs):
    seed()
    try:
        want = reference(*args, **kwargs)
    except Exception:
        return False  # not a call of this operator: PyTorch's Python function does more
    seed()
    compare(function(*to_tern(list(args)), **to_tern(kwargs)), want)
    return True


def check_gradient(reference, function, args, kwargs):
    """Gradients of every floating-point tensor among the arguments, for a fixed cotangent."""

    def leaf(t):
        if isinstance(t, torch.Tensor) and t.is_floating_point():
            return t.detach().clone().requires_grad_()
        return t

    args, kwargs = tree_map(leaf, list(args)), tree_map(leaf, dict(kwargs))
    leaves = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    seed()
    try:
        want_out = [t for t in floating(reference(*args, **kwargs)) if t.requires_grad]
        if not want_out or not leaves:
            return
        want = torch.autograd.grad(want_out, leaves, [weights(t) for t in want_out], allow_unused=True)
    except Exception:
        return
    made = {}

    def mirror(value):
        if isinstance(value, torch.Tensor):
            t = to_tern(value)
            if value.requires_grad:
                t.requires_grad_()
                made[id(value)] = t
            return t
        if isinstance(value, (list, tuple)):
            return type(value)(mirror(v) for v in value)
        return to_tern(value)

    mine_args, mine_kwargs = mirror(args), {k: mirror(v) for k, v in kwargs.items()}
    seed()
    result = function(*mine_args, **mine_kwargs)
    flat = list(result) if isinstance(result, (list, tuple)) else [result]
    outs = [t for t in flat if isinstance(t, tern.Tensor) and t.requires_grad]
    if len(outs) != len(want_out):
        raise Different(f"gradient: {len(outs)} results have history, not {len(want_out)}")
    grads = tern.autograd.grad(outs, [made[id(t)] for t in leaves], [to_tern(weights(t)) for t in want_out], allow_unused=True)
    for i, (g, w) in enumerate(zip(grads, want)):
        if w is None and g is None:
            continue
        if g is None and not bool(w.any()):
            continue
        if w is None:
            compare(g, torch.zeros_like(leaves[i]), 10, f"gradient {i}")
            continue
        if g is None:
            raise Different(f"gradient {i}: missing")
        compare(g, w, 100, f"gradient {i}")


class Captured(TorchDispatchMode):
    """Checks each ATen call underneath a Python function against Tern's operator of that name."""

    def __init__(self, report, counts):
        super().__init__()
        self.report, self.counts = report, counts

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = func.name()
        if not name.startswith("aten::") or func._schema.is_mutable or name.split("::")[1].split(".")[0] in SKIPPED:
            return out
        if not has_op(name) or torch.Tag.nondeterministic_seeded in func.tags:
            return out
        tensors = [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)]
        dtype = str(tensors[0].dtype).split(".")[1] if tensors else "none"
        key = (name, dtype)
        if self.counts.get(key, 0) >= SAMPLES or sum(t.numel() for t in tensors) > LARGEST:
            return out
        self.counts[key] = self.counts.get(key, 0) + 1
        try:
            compare(tern._tern._overload(name)(*to_tern(list(args)), **to_tern(kwargs)), out)
            self.report(name, dtype, None)
        except NotImplementedError as error:
            if "Tern" in str(error) or "not implemented" in str(error):
                self.report(name, dtype, f"forward: {type(error).__name__}: {error}")
        except Exception as error:
            self.report(name, dtype, f"forward: {type(error).__name__}: {error}")
        return out


_ops = {q for q in tern._tern._all_ops()}


def has_op(qualified):
    return qualified in _ops


def check(info, report, counts, verbose=False):
    """All dtypes of one OpInfo entry."""
    global _reaches_back
    _reaches_back = info.name.startswith("as_strided")
    name = DIFFERENT_NAMES.get(info.name, info.aten_name or info.name)
    direct = tern._tern._has_packet("aten::" + name) and name not in SKIPPED and hasattr(torch.ops.aten, name)
    function = tern._tern._packet("aten::" + name) if direct else None
    for dtype in DTYPES:
        if dtype not in info.supported_dtypes("cpu"):
            continue
        short = str(dtype).split(".")[1]
        try:
            samples = list(itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES))
        except Exception:
            continue  # the sample needs what is not installed here
        reason, ran = None, False
        for sample in samples:
            args, kwargs = (sample.input, *sample.args), sample.kwargs
            if info.is_factory_function and not isinstance(sample.input, torch.Tensor):
                kwargs = {k: v for k, v in kwargs.items()}
            if sum(t.numel() for t in tree_flatten((args, kwargs))[0] if isinstance(t, torch.Tensor)) > LARGEST:
                continue
            if direct and reason is None:
                reference = getattr(torch.ops.aten, name)
                try:
                    good = check_forward(reference, function, args, kwargs)
                    ran |= good
                    if good and dtype is torch.float64:
                        try:
                            check_gradient(reference, function, args, kwargs)
                        except NotImplementedError as error:
                            reason = f"gradient: {error}"
                        except Different as error:
                            reason = str(error) if str(error).startswith("gradient") else f"gradient: {error}"
                        except Exception as error:
                            reason = f"gradient: {type(error).__name__}: {error}"
                except NotImplementedError as error:
                    if str(error).startswith("a torch") or str(error).startswith("an argument of"):
                        continue
                    reason = f"forward: {error}"
                except Different as error:
                    reason = f"forward: {error}"
                except Exception as error:
                    reason = f"forward: {type(error).__name__}: {error}"
                if reason and verbose:
                    print(name, short, reason, "\n   sample:", sample.summary() if hasattr(sample, "summary") else sample, file=sys.stderr)
            if dtype in (torch.float32, torch.int64):
                try:
                    with Captured(report, counts), torch.no_grad():
                        info.op(*args, **kwargs)
                except Exception:
                    pass
        if ran or reason:
            report(name_of(info), short, reason)


def work(indices, out):
    """The worker: one JSON line when an entry begins, and one per finding."""
    counts = {}

    def report(name, dtype, reason):
        print(json.dumps({"op": name, "dtype": dtype, "reason": reason and " ".join(reason.split())[:200]}), file=out)

    for i in indices:
        print(json.dumps({"begin": i, "name": name_of(op_db[i])}), file=out, flush=True)
        start = time.time()
        check(op_db[i], report, counts)
        print(json.dumps({"end": i, "seconds": round(time.time() - start, 2)}), file=out, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--indices", default="")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    tern.set_num_threads(1)
    if options.count:
        print(len(op_db))
    elif options.only:
        wanted = options.only.split(",")
        for info in op_db:
            if info.name in wanted or info.aten_name in wanted or name_of(info) in wanted:
                check(info, lambda n, d, r: print(n, d, r or "ok"), {}, verbose=True)
    else:
        faulthandler.enable()
        resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
        begin, end, step = (int(v) for v in options.indices.split(":"))
        work(range(begin, min(end, len(op_db)), step), sys.stdout)


if __name__ == "__main__":
    main()
