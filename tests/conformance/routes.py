"""The routes a call can take: each runs PyTorch and Tern and throws when they part.

A route throws NotHere where it has nothing to say about this call (an operator without an in-place form, a call that PyTorch refuses).
"""

import re

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.utils._pytree import tree_flatten

import tern
import truth
import samples  # noqa: F401  (before PyTorch's test library: gives it what is not installed)
from torch.testing._internal.common_utils import noncontiguous_like
from values import Different, NotOurs, check_strides, compare, copy_of, copy_together, map_tensors, once, seed, short, tensors, to_tern, to_tern_together, to_torch

OURS = set(tern._tern._all_ops())
# Results without a value: memory as it was found.
UNINITIALISED = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize", "resize_", "resize_as", "resize_as_"}


# Vectors that are defined up to a factor of length one: compared by what they multiply back to.
SPECTRAL = {"linalg_eig", "linalg_eigh", "_linalg_eigh", "linalg_svd", "_linalg_svd", "svd"}


class NotHere(Exception):
    pass


def ours(name):
    return tern._tern._overload(name)


def base_name(call):
    return call.name.split("::")[1].split(".")[0]


def has_values(call):
    return base_name(call) not in UNINITIALISED | SPECTRAL


def multiplied(name, results):
    """The values, and the matrix they were taken from."""
    if len(results) == 2:
        values, vectors = (t if isinstance(t, torch.Tensor) else to_torch(t) for t in results)
        if vectors.numel() != values.numel() * values.shape[-1]:
            return values, None
        back = torch.linalg.inv(vectors) if name == "linalg_eig" else vectors.mH
        order = values.abs().sort(-1).indices if name == "linalg_eig" else None
        return values if order is None else values.abs().gather(-1, order), (vectors * values.unsqueeze(-2)) @ back
    u, s, v = (t if isinstance(t, torch.Tensor) else to_torch(t) for t in results)
    k = s.shape[-1]
    if u.dim() < 2 or name == "svd" and not bool(u.any()):
        return s, None
    right = v.mH[..., :k, :] if name == "svd" else v[..., :k, :]
    return s, (u[..., :, :k] * s.unsqueeze(-2)) @ right


def compare_spectral(name, got, want):
    for which, a, b in zip(("values", "product"), multiplied(name, got), multiplied(name, want)):
        if b is None:
            continue
        tolerance = 1e-3 if b.dtype in (torch.float32, torch.complex64) else 1e-8
        if not torch.allclose(a, b, rtol=tolerance, atol=tolerance):
            raise Different(f"{which}: by up to {float((a - b).abs().max()):.3g}")


def of_pytorch(function, args, kwargs):
    seed()
    try:
        return function(*args, **kwargs)
    except NotImplementedError as error:
        raise NotHere(str(error))
    except Exception as error:
        raise NotHere(f"PyTorch: {error}")


def of_tern(name, args, kwargs):
    seed()
    return ours(name)(*args, **kwargs)


# ---- forward ----


def forward(call):
    run_both(call, call.args, call.kwargs)


def noncontiguous(call):
    """Every tensor with gaps, or with its dimensions in another order in memory."""
    if not any(t.numel() > 1 for t in tensors((call.args, call.kwargs))):
        raise NotHere("nothing to spread")
    for spread in (with_gaps, reordered):
        run_both(call, map_tensors(spread, call.args), map_tensors(spread, call.kwargs))


def with_gaps(t):
    return t if t.layout != torch.strided or t.numel() < 2 or t.dtype not in NONCONTIGUOUS else noncontiguous_like(t)


def reordered(t):
    if t.layout != torch.strided or t.dim() < 2 or t.numel() < 2:
        return t
    order = list(range(t.dim()))[::-1]
    return t.permute(order).contiguous().permute(order)


NONCONTIGUOUS = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
                 torch.complex64, torch.complex128}


def run_both(call, args, kwargs):
    mine, mine_kwargs = map_tensors(copy_of, args), map_tensors(copy_of, kwargs)
    theirs, their_kwargs = map_tensors(copy_of, args), map_tensors(copy_of, kwargs)
    want = of_pytorch(call.func, theirs, their_kwargs)
    tern_args, tern_kwargs = to_tern(mine), to_tern(mine_kwargs)
    got = of_tern(call.name, tern_args, tern_kwargs)
    written = (list(tern_args), list(theirs)) if call.func._schema.is_mutable and all(comparable(a) for a in theirs) else None
    try:
        compare(got, want, values=has_values(call))
        if written:
            compare(*written, where="argument", values=has_values(call))
    except Different as difference:
        truth.settle(difference, call.func, args, kwargs, got, want, written)
    if base_name(call) in SPECTRAL:
        compare_spectral(base_name(call), got, want)


def comparable(value):
    return isinstance(value, (torch.Tensor, bool, int, float, complex, type(None))) or isinstance(value, (list, tuple)) and all(comparable(v) for v in value)


def strides(call):
    if call.func._schema.is_mutable:
        raise NotHere("mutates")
    want = of_pytorch(call.func, call.args, call.kwargs)
    check_strides(of_tern(call.name, to_tern(call.args), to_tern(call.kwargs)), want)


# ---- layouts ----


def layouts(call):
    """Images with their channels innermost: values and strides of the results are PyTorch's, strides from the shape rule alone, too."""
    if call.func._schema.is_mutable or not has_values(call) or base_name(call).startswith("as_strided"):
        raise NotHere("mutates, has no value, or looks at memory itself")
    given, wrong, seen = tensors((call.args, call.kwargs)), [], [[t.stride() for t in tensors((call.args, call.kwargs))]]
    for name, (lay, all_of_them) in LAYOUTS.items():
        lay_out = once(lambda t: lay(t) if t.layout == torch.strided and t.numel() > 1 and (all_of_them or t is given[0]) else t)
        args, kwargs = map_tensors(lay_out, call.args), map_tensors(lay_out, call.kwargs)
        strides_now = [t.stride() for t in tensors((args, kwargs))]
        if strides_now in seen:
            continue
        seen.append(strides_now)
        try:
            want = of_pytorch(call.func, map_tensors(copy_of, args), map_tensors(copy_of, kwargs))
        except NotHere:
            continue
        got = of_tern(call.name, to_tern(map_tensors(copy_of, args)), to_tern(map_tensors(copy_of, kwargs)))
        try:
            compare(got, want, 10, name)
            check_strides(got, want, name)
            if not depends_on_data(call.func):
                check_strides(without_data(call, to_tern(args, fake_of), to_tern(kwargs, fake_of)), tensors(want), f"{name}, fake")
        except Different as difference:
            wrong.append(str(difference))
    if len(seen) == 1:
        raise NotHere("nothing to lay out")
    if wrong:
        raise Different(f"{len(wrong)} of {len(seen) - 1} layouts: {'; '.join(wrong)}")


def channels_last(t):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return t.contiguous(memory_format=formats[t.dim()]) if t.dim() in formats else t


# Layout: what makes it, and whether of every tensor or of the first alone.
LAYOUTS = {
    "channels_last": (channels_last, True),
    "first channels_last": (channels_last, False),
}


# ---- out= and in place ----


def positional_names(schema):
    return [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]


_relatives = {}


def out_variant(func):
    key = func, "out"
    if key not in _relatives:
        packet = func.overloadpacket
        found = None
        for name in packet.overloads():
            other = getattr(packet, name)
            if any(a.is_out for a in other._schema.arguments) and positional_names(other._schema) == positional_names(func._schema):
                found = other
        _relatives[key] = found
    return _relatives[key]


def inplace_variant(func):
    key = func, "inplace"
    if key not in _relatives:
        base = func.name().split("::")[1].split(".")[0]
        packet = getattr(torch.ops.aten, base + "_", None)
        found = None
        for name in packet.overloads() if packet is not None else []:
            other = getattr(packet, name)
            if positional_names(other._schema) == positional_names(func._schema):
                found = other
        _relatives[key] = found
    return _relatives[key]


def results_of(result):
    return [result] if isinstance(result, torch.Tensor) else list(result)


def out(call):
    """Into a tensor of the right shape, one to be resized, one with gaps; a dtype that does not hold the result is refused by both."""
    variant = None if call.func._schema.is_mutable else out_variant(call.func)
    if variant is None:
        raise NotHere("no out= form")
    names = [a.name for a in variant._schema.arguments if a.is_out]
    wanted = results_of(of_pytorch(call.func, call.args, call.kwargs))
    if not all(isinstance(t, torch.Tensor) for t in wanted) or len(wanted) != len(names):
        raise NotHere("results in a list")
    if variant.name() not in OURS:
        raise Different(f"Tern has no {variant.name()}")

    def filled(t):
        return torch.full(t.shape, 1, dtype=t.dtype)

    def nothing(t):
        return torch.empty(0, dtype=t.dtype)

    def gaps(t):
        return with_gaps(filled(t))

    for make in (filled, nothing, gaps):
        theirs, mine = [make(t) for t in wanted], [make(t) for t in wanted]
        try:
            variant(*call.args, **call.kwargs, **dict(zip(names, theirs)))
        except Exception:
            continue
        targets = [to_tern(t) for t in mine]
        got = of_tern(variant.name(), to_tern(call.args), {**to_tern(call.kwargs), **dict(zip(names, targets))})
        got = [got] if isinstance(got, tern.Tensor) else list(got)
        # Beside the plain result: PyTorch's own out= goes wrong on tensors with gaps here and there.
        try:
            compare(got, wanted, where=f"out= ({make.__name__})", values=has_values(call))
        except Different as difference:
            truth.settle(difference, lambda *a, **k: results_of(call.func(*a, **k)), call.args, call.kwargs, got, wanted)
        if len(got) != len(targets) or any(a is not b for a, b in zip(got, targets)):
            raise Different(f"out= ({make.__name__}): the result is not the tensor given")
    for dtype in OTHER_DTYPES.get(wanted[0].dtype, ()) if has_values(call) else ():
        check_out_dtype(call, variant, names, wanted, dtype)


# What out= is tried with for results of a type: one that holds them, and one that does not.
OTHER_DTYPES = {torch.float32: (torch.float64, torch.int64), torch.int64: (torch.float32, torch.bool)}


def check_out_dtype(call, variant, names, wanted, dtype):
    """What PyTorch accepts is accepted, and what it refuses is refused."""

    def other():
        return [torch.zeros(t.shape, dtype=dtype if t.dtype == wanted[0].dtype else t.dtype) for t in wanted]

    theirs, mine = other(), to_tern(other())
    where = f"out= of {short(dtype)}"
    refused = None
    try:
        variant(*call.args, **call.kwargs, **dict(zip(names, theirs)))
    except Exception as error:
        refused = error
    try:
        of_tern(variant.name(), to_tern(call.args), {**to_tern(call.kwargs), **dict(zip(names, mine))})
    except NotOurs:
        raise
    except Exception as error:
        if refused is None:
            raise Different(f"{where}: accepted by PyTorch; {first_line(error)}")
        return
    if refused is not None:
        raise Different(f"{where}: PyTorch refuses: {first_line(refused)}")


def inplace(call):
    variant = None if call.func._schema.is_mutable else inplace_variant(call.func)
    if variant is None or not call.args or not isinstance(call.args[0], torch.Tensor):
        raise NotHere("no in-place form")
    theirs = [copy_of(call.args[0]), *call.args[1:]]
    seed()
    try:
        variant(*theirs, **call.kwargs)
    except Exception as error:
        if variant.name() in OURS and not isinstance(error, NotImplementedError):
            must_raise(lambda: ours(variant.name())(*to_tern([copy_of(call.args[0]), *call.args[1:]]), **to_tern(call.kwargs)), "in place")
            return
        raise NotHere(str(error))
    if variant.name() not in OURS:
        raise Different(f"Tern has no {variant.name()}")
    mine = to_tern([copy_of(call.args[0]), *call.args[1:]])
    got = of_tern(variant.name(), mine, to_tern(call.kwargs))
    compare(got, theirs[0], values=has_values(call))
    if got is not mine[0]:
        raise Different("in place: the result is not self")


def must_raise(function, where):
    try:
        function()
    except NotOurs:
        raise
    except Exception:
        return
    raise Different(f"{where}: PyTorch refuses, Tern does not")


# ---- shapes ----


def depends_on_data(func):
    return torch.Tag.dynamic_output_shape in func.tags or torch.Tag.data_dependent_output in func.tags


def flat(result):
    return [t for t in tree_flatten(result)[0] if isinstance(t, tern.Tensor)]


def without_data(call, args, kwargs):
    """Tern's results for fake tensors. Where it asks for data and PyTorch's fake tensors do as well, there is nothing to compare."""
    try:
        with tern._tern.FakeMode():
            return flat(ours(call.name)(*args, **kwargs))
    except Exception:
        if pytorch_needs_data(call):
            raise NotHere("needs data")
        raise


def pytorch_needs_data(call):
    try:
        with FakeTensorMode() as mode:
            call.func(*map_tensors(mode.from_tensor, call.args), **map_tensors(mode.from_tensor, call.kwargs))
    except (DataDependentOutputException, DynamicOutputShapeException):
        return True
    except Exception:
        pass
    return False


def fake_of(t):
    to_tern(t)  # throws for what is not ours
    return tern._tern.fake_tensor(list(t.shape), getattr(tern, short(t.dtype)), list(t.stride()))


def fake(call):
    """The shape rule alone says what the kernel gives."""
    if depends_on_data(call.func) or not tensors((call.args, call.kwargs)):
        raise NotHere("needs data")
    of_pytorch(call.func, map_tensors(copy_of, call.args), map_tensors(copy_of, call.kwargs))
    real = flat(of_tern(call.name, to_tern(map_tensors(copy_of, call.args)), to_tern(map_tensors(copy_of, call.kwargs))))

    got = without_data(call, to_tern(call.args, fake_of), to_tern(call.kwargs, fake_of))
    if len(got) != len(real):
        raise Different(f"fake: {len(got)} results, not {len(real)}")
    for g, r in zip(got, real):
        if list(g.shape) != list(r.shape) or g.dtype is not r.dtype:
            raise Different(f"fake: {g.dtype}{list(g.shape)}, not {r.dtype}{list(r.shape)}")
        if r.numel() and [s for s, n in zip(g.stride(), r.shape) if n > 1] != [s for s, n in zip(r.stride(), r.shape) if n > 1]:
            raise Different(f"fake: strides {list(g.stride())}, not {list(r.stride())}")


def symbolic(call):
    """Every size a symbol: the shapes at the sample's sizes, and at others that the guards allow."""
    if depends_on_data(call.func) or call.func._schema.is_mutable:
        raise NotHere("needs data")
    inputs = tensors((call.args, call.kwargs))
    if not any(n > 1 for t in inputs for n in t.shape):
        raise NotHere("no size to vary")
    want = of_pytorch(call.func, call.args, call.kwargs)
    env = tern._tern.ShapeEnv()
    symbols = []  # (symbol, hint)

    def make(t):
        to_tern(t)
        sizes = []
        for n in t.shape:
            s = env.symbol(n)
            if not isinstance(s, int):
                symbols.append((s, n))
            sizes.append(s)
        order = sorted(range(t.dim()), key=lambda d: -t.stride(d)) if dense(t) else range(t.dim())
        strides, step = [1] * t.dim(), 1
        for d in reversed(order):
            strides[d], step = step, step * sizes[d]
        return tern._tern.fake_tensor(sizes, getattr(tern, short(t.dtype)), strides)

    result = without_data(call, to_tern(call.args, make), to_tern(call.kwargs, make))

    def shapes_at(values):
        pairs = [(s, values[h]) for s, h in symbols]
        return [[env.evaluate(n, pairs) for n in t.shape] for t in result]

    wanted = [list(t.shape) for t in tensors(want)]
    same = {h: h for _, h in symbols}
    if not env.holds([(s, same[h]) for s, h in symbols]):
        raise Different(f"symbolic: the guards {list(env.guards)} do not hold for the sizes they come from")
    try:
        shapes_at(same)
    except ValueError:  # a size that the data says
        if pytorch_needs_data(call):
            raise NotHere("needs data")
        raise
    if shapes_at(same) != wanted:
        raise Different(f"symbolic: {shapes_at(same)}, not {wanted}")
    hints = sorted(same)
    if shapes_on_meta(call, same) not in (None, wanted):
        return  # PyTorch's own shape rule does not say what its kernel gives
    for values in [{h: h + 3 for h in hints}, {h: 2 * h for h in hints}] + [{**same, h: h + 2} for h in hints]:
        if not env.holds([(s, values[h]) for s, h in symbols]):
            continue

        other = shapes_on_meta(call, values)
        if other is not None and shapes_at(values) != other:
            raise Different(f"symbolic: at {values} {shapes_at(values)}, not {other} (guards {list(env.guards)[:6]})")


def shapes_on_meta(call, values):
    """PyTorch's shapes with every size n now values[n]; None where sizes and other arguments do not go together."""

    def grown(t):
        return torch.empty([values.get(n, n) if n > 1 else n for n in t.shape], dtype=t.dtype, device="meta")

    try:
        result = call.func(*map_tensors(grown, call.args), **map_tensors(grown, on_meta(call.kwargs)))
    except Exception:
        return None
    return [list(t.shape) for t in tensors(result)]


def on_meta(kwargs):
    return {k: torch.device("meta") if isinstance(v, torch.device) else v for k, v in kwargs.items()}


def dense(t):
    return t.numel() and torch.ops.aten.is_non_overlapping_and_dense.default(t)


# ---- gradients ----


def weights(t, step=7):
    """A fixed cotangent that tells elements apart."""
    w = torch.arange(t.numel(), dtype=torch.float64).remainder(step).reshape(t.shape) * 0.25 - 0.5
    return torch.complex(w, w.flip(0) if w.dim() else -w).to(t.dtype) if t.is_complex() else w.to(t.dtype)


def differentiable(t):
    return isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())


class Twins:
    """Leaves of both libraries over the same numbers, and the results of the call with them; or what its form in place has written to."""

    def __init__(self, call, inplace=None, place=None):
        if call.func._schema.is_mutable:
            raise NotHere("mutates")
        func, name = (inplace, inplace.name()) if inplace else (call.func, call.name)
        self.leaves, self.mine = [], []

        def leaf(t):
            if not differentiable(t):
                return t
            made = t.detach().clone().requires_grad_()
            self.leaves.append(made)
            return made

        args, kwargs = map_tensors(leaf, call.args), map_tensors(leaf, call.kwargs)
        if not self.leaves:
            raise NotHere("nothing to differentiate")

        def run(run_one, what, T, args, kwargs):
            if not inplace:
                return run_one(what, args, kwargs)
            whole, view = place(T, args[0])
            run_one(what, [view, *args[1:]], kwargs)
            return whole

        result = run(of_pytorch, func, torch, args, kwargs)
        outs = [t for t in tree_flatten(result)[0] if isinstance(t, torch.Tensor)]
        self.outs = [t for t in outs if t.requires_grad]
        if not self.outs:
            raise NotHere("no history")

        def mirror(t):
            made = to_tern(t)
            if t.requires_grad:
                made.requires_grad_()
                self.mine.append(made)
            return made

        mine = flat(run(of_tern, name, tern, to_tern(args, mirror), to_tern(kwargs, mirror)))
        self.history = [t.requires_grad for t in mine], [t.requires_grad for t in outs]
        self.my_outs = [t for t in mine if t.requires_grad]

    def same_history(self, gradients):
        """Whether there is something to compare. A result that PyTorch gives a history of zeros may have none."""
        if self.history[0] == self.history[1]:
            return True
        if not any(self.history[0]) and all(g is None or not bool(g.any()) for g in gradients):
            return False
        raise Different(f"gradient: history of the results {self.history[0]}, not {self.history[1]}")


def check_gradients(got, want, leaves, where):
    for i, (g, w) in enumerate(zip(got, want)):
        if g is None and w is None:
            continue
        if w is not None and w.layout != torch.strided:
            w = w.to_dense()
        if g is None:  # nothing flowed back: zeros, up to rounding
            if not torch.allclose(w, torch.zeros_like(w), atol=1e-7):
                raise Different(f"{where} {i}: missing")
            continue
        compare(g, torch.zeros_like(leaves[i]) if w is None else w, 100, f"{where} {i}")


def gradient(call):
    if base_name(call) in SPECTRAL:
        raise NotHere("depends on the vectors' factors: tests/ops/linalg.cpp checks by differences")
    check_first_gradients(Twins(call))


# Where an operator in place writes: (what is looked at afterwards, what the operator is given).


def written_whole(T, t):
    whole = t.clone()
    return whole, whole


def written_select(T, t):
    whole = T.stack([t, t])
    return whole, whole[1]


def written_slice(T, t):
    whole = T.cat([t, t])
    return whole, whole[t.shape[0]:]


def written_transpose(T, t):
    whole = t.transpose(0, -1).contiguous() * 1
    return whole, whole.transpose(0, -1)


def inplace_twins(call):
    variant = None if call.func._schema.is_mutable else inplace_variant(call.func)
    if variant is None or not call.args or not differentiable(call.args[0]):
        raise NotHere("no in-place form with a gradient")
    for place in [written_whole, written_select] + [written_slice, written_transpose] * (call.args[0].dim() > 0):
        yield Twins(call, variant, place)


def inplace_gradient(call):
    for twins in inplace_twins(call):
        check_first_gradients(twins)


def inplace_double_gradient(call):
    for twins in inplace_twins(call):
        check_double_gradients(twins)


def check_first_gradients(twins):
    try:
        want = torch.autograd.grad(twins.outs, twins.leaves, [weights(t) for t in twins.outs], allow_unused=True)
    except Exception as error:
        raise NotHere(f"PyTorch: {error}")
    if not twins.same_history(want):
        return
    got = tern.autograd.grad(twins.my_outs, twins.mine, [to_tern(weights(t)) for t in twins.outs], allow_unused=True)
    check_gradients(got, want, twins.leaves, "gradient")


def double_gradient(call):
    if base_name(call) in SPECTRAL:
        raise NotHere("depends on the vectors' factors")
    check_double_gradients(Twins(call))


def check_double_gradients(twins):
    cotangents = [weights(t).requires_grad_() for t in twins.outs]
    try:
        first = torch.autograd.grad(twins.outs, twins.leaves, cotangents, allow_unused=True, create_graph=True)
        chosen = [i for i, g in enumerate(first) if g is not None and g.requires_grad]
        if not chosen:
            raise NotHere("constant gradients")
        inputs = twins.leaves + cotangents
        want = torch.autograd.grad([first[i] for i in chosen], inputs, [weights(first[i], 5) for i in chosen], allow_unused=True)
    except Exception as error:
        raise NotHere(f"PyTorch: {error}")
    if not twins.same_history(list(first)):
        return
    mine = [to_tern(c) for c in cotangents]
    for t in mine:
        t.requires_grad_()
    again = tern.autograd.grad(twins.my_outs, twins.mine, mine, allow_unused=True, create_graph=True)
    pairs = [(again[i], weights(first[i], 5)) for i in chosen if again[i] is not None and again[i].requires_grad]
    if not pairs:
        if any(w is not None and bool(w.any()) for w in want):
            raise Different("double gradient: the gradients have no history")
        return
    got = tern.autograd.grad([g for g, _ in pairs], twins.mine + mine, [to_tern(w) for _, w in pairs], allow_unused=True)
    check_gradients(got, want, inputs, "double gradient")


# ---- errors ----


def error(call, pattern=None):
    """PyTorch refused this call: Tern does, too, and says the same at the beginning."""
    args, kwargs = to_tern_together(*copy_together(call.args, call.kwargs))
    try:
        ours(call.name)(*args, **kwargs)
    except Exception as mine:
        check_message(mine, call.error, pattern)
        return
    raise Different(f"accepted what PyTorch refuses: {first_line(call.error)}")


def check_message(mine, theirs, pattern):
    text = str(mine)
    if pattern and re.search(pattern, text) or words(text)[:3] == words(str(theirs))[:3]:
        return
    raise Different(f"message: \"{first_line(mine)}\" for \"{first_line(theirs)}\"")


def words(text):
    return re.findall(r"[a-z]+", text.lower().split("(): ", 1)[-1])


def first_line(e):
    return str(e).strip().splitlines()[0][:110] if str(e).strip() else type(e).__name__


def crossed_dtypes(call):
    return all(t.dtype in (torch.float64, torch.complex128) for t in tensors((call.args, call.kwargs)) if differentiable(t))


# In the order of the report. Which dtypes a route looks at: None for all.
ROUTES = {
    "forward": (forward, None),
    "strides": (strides, ("float32", "int64")),
    "layouts": (layouts, ("float32",)),
    "noncontiguous": (noncontiguous, ("float32", "int64", "bool", "complex64", "bfloat16")),
    "out": (out, ("float32", "int64", "bool")),
    "inplace": (inplace, ("float32", "int64", "bool")),
    "fake": (fake, ("float32", "int64", "bool", "complex64")),
    "symbolic": (symbolic, ("float32", "int64")),
    "gradient": (gradient, ("float64", "complex128")),
    "inplace_gradient": (inplace_gradient, ("float64",)),
    "inplace_double": (inplace_double_gradient, ("float64",)),
    "double": (double_gradient, ("float64", "complex128")),
}
