"""Which dtypes every operator of tensors and numbers takes, alone, mixed, in place and into out=: accepted or refused
as by PyTorch, with the dtype of its result, and refused in words that begin like PyTorch's.

The operators are found, not listed: all whose arguments are tensors that broadcast and numbers. Where Tern differs is
in DIFFERENT, with the reason; an operator there that no longer differs fails, too. uint16, uint32 and uint64 are left
out there: Tern computes with them in all pointwise operators, as ONNX does; WIDE has operators that refuse them.
"""

import re
import warnings

import pytest

import tern

torch = pytest.importorskip("torch")

MIXED = [getattr(torch, name) for name in "bool uint8 int64 float16 float32 float64 complex64".split()]
ALONE = MIXED + [getattr(torch, name) for name in "int8 int16 int32 bfloat16 float8_e4m3fn float8_e5m2 complex32 complex128".split()]
WRITTEN = [torch.bool, torch.int64, torch.float32, torch.float64, torch.complex64]
NUMBERS = [True, 2, 2.5, 1 + 2j]
RANDOM = re.compile("rand|dropout|bernoulli|normal|poisson|rrelu|empty|exponential|cauchy|geometric|uniform")

DIFFERENT = {  # operator -> why
    "abs": "PyTorch casts only what comes of complex numbers; Tern into complex tensors only",
    "absolute": "as abs",
    "binary_cross_entropy": "a complex weight of real numbers",
    "binary_cross_entropy_backward": "Tern promotes where PyTorch wants one type",
    "binary_cross_entropy_with_logits": "a complex target of real numbers",
    "cosine_similarity": "a zero-dim operand counts as a dimensioned one in PyTorch",
    "deg2rad": "float8 times a number is computed in float32",
    "equal": "complex32 is compared in a wider type",
    "fake_quantize_per_channel_affine_cachemask_backward": "a mask that is not bool is taken as one",
    "fake_quantize_per_tensor_affine_cachemask_backward": "a mask that is not bool is taken as one",
    "fft_hfft": "real results are cast to a complex out=",
    "fft_hfft2": "real results are cast to a complex out=",
    "fft_hfftn": "real results are cast to a complex out=",
    "fft_irfft": "real results are cast to a complex out=",
    "fft_irfft2": "real results are cast to a complex out=",
    "fft_irfftn": "real results are cast to a complex out=",
    "fliplr": "PyTorch moves these types along the first dimension only (flipud); Tern along all",
    "gelu_backward": "PyTorch's result has the type of grad_output in out=, and float8 is refused",
    "infinitely_differentiable_gelu_backward": "PyTorch computes what is not floating in whole numbers; Tern promotes",
    "isin.Scalar_Tensor": "as isin.Tensor_Scalar",
    "isin.Tensor_Scalar": "PyTorch compares with a number by eq and with True not at all",
    "ldexp.Tensor": "float8 and complex32 are computed in wider types",
    "log_sigmoid_backward": "Tern promotes where PyTorch wants one type",
    "masked_select_backward": "PyTorch wants the gradient to be of the input's type; Tern casts it",
    "mish_backward": "PyTorch's result has the type of self",
    "mul.Scalar": "float8 times a number is computed in float32",
    "multiply.Scalar": "float8 times a number is computed in float32",
    "nanmean": "into a complex tensor Tern casts",
    "pow.Scalar": "1 to any power is filled in by PyTorch, into any type",
    "pow.Tensor_Scalar": "to the power of 1 PyTorch copies, and takes the types that it refuses for other powers",
    "rad2deg": "float8 times a number is computed in float32",
    "rot90": "as fliplr",
    "special_round": "an alias that rounds integers to themselves, as round does",
}
# Both refuse, each in its own words: shapes or out= looked at in another order, or an operator underneath that names itself.
OWN_WORDS = set("""
    abs absolute all all.dims allclose amax amin aminmax any any.dims arctan2 argmax argmin argsort binary_cross_entropy
    binary_cross_entropy_backward binary_cross_entropy_with_logits bitwise_left_shift.Tensor_Scalar bitwise_right_shift.Tensor_Scalar cdist celu
    clamp.Tensor clamp_max clamp_min clip.Tensor complex copysign.Scalar cross dist expand_as fft_fft fft_fft2 fft_fftn fft_hfft fft_hfft2 fft_hfftn
    fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn fix float_power.Scalar
    float_power.Tensor_Scalar float_power.Tensor_Tensor fmax fmin fmod.Scalar ge.Scalar gelu gelu_backward geqrf greater.Scalar greater_equal.Scalar
    gt.Scalar hardswish_backward hash_tensor heaviside histc huber_loss inner isclose isin.Scalar_Tensor isin.Tensor_Scalar isin.Tensor_Tensor isinf isnan
    isneginf isposinf ldexp.Tensor le.Scalar less.Scalar less_equal.Scalar linalg__powsum linalg_cond linalg_cross linalg_lstsq linalg_lu linalg_lu_factor_ex
    linalg_matrix_norm linalg_matrix_norm.str_ord linalg_matrix_rank.atol_rtol_float linalg_matrix_rank.atol_rtol_tensor
    linalg_matrix_rank.tol_tensor linalg_norm linalg_pinv.atol_rtol_float linalg_pinv.atol_rtol_tensor linalg_pinv.rcond_tensor linalg_qr
    linalg_vander linalg_vecdot log_sigmoid log_sigmoid_backward lt.Scalar masked_select max mean min mish_backward mode mse_loss msort nan_to_num
    nanmean nansum negative nonzero norm.Scalar norm_except_dim nuclear_norm polar put qr relu remainder.Scalar searchsorted.Tensor signbit
    smooth_l1_loss soft_margin_loss softshrink sort special_chebyshev_polynomial_t.n_scalar special_chebyshev_polynomial_t.x_scalar
    special_chebyshev_polynomial_u.n_scalar special_chebyshev_polynomial_u.x_scalar special_chebyshev_polynomial_v.n_scalar
    special_chebyshev_polynomial_v.x_scalar special_chebyshev_polynomial_w.n_scalar special_chebyshev_polynomial_w.x_scalar special_digamma
    special_erf special_erfc special_erfinv special_gammainc special_gammaincc special_gammaln special_hermite_polynomial_h.n_scalar
    special_hermite_polynomial_h.x_scalar special_hermite_polynomial_he.n_scalar special_hermite_polynomial_he.x_scalar special_i0
    special_laguerre_polynomial_l.n_scalar special_laguerre_polynomial_l.x_scalar special_legendre_polynomial_p.n_scalar
    special_legendre_polynomial_p.x_scalar special_logit special_ndtr special_psi special_round special_shifted_chebyshev_polynomial_t.n_scalar
    special_shifted_chebyshev_polynomial_t.x_scalar special_shifted_chebyshev_polynomial_u.n_scalar special_shifted_chebyshev_polynomial_u.x_scalar
    special_shifted_chebyshev_polynomial_v.n_scalar special_shifted_chebyshev_polynomial_v.x_scalar special_shifted_chebyshev_polynomial_w.n_scalar
    special_shifted_chebyshev_polynomial_w.x_scalar special_xlog1py.other_scalar special_xlog1py.self_scalar special_xlogy special_xlogy.other_scalar
    special_xlogy.self_scalar special_zeta.other_scalar special_zeta.self_scalar std std.correction take take_along_dim trace trapezoid.dx trapz.dx
    var var.correction where.self xlogy.Scalar_Other xlogy.Scalar_Self
""".split())


def short(dtype):
    return str(dtype).split(".")[1]


def to_tern(value):
    if not isinstance(value, torch.Tensor):
        return value
    if short(value.dtype).startswith("float8"):  # unknown to DLPack
        bits = value.reshape(-1).view(torch.uint8).clone()
        return tern.from_dlpack(bits).view(getattr(tern, short(value.dtype))).reshape(list(value.shape))
    return tern.from_dlpack(value.clone())


def make(dtype, shape=(2, 3)):
    return torch.ones(shape).to(dtype)


def operators():
    """(name, PyTorch's, kinds of its arguments: "t" a tensor, "n" a number, or the default)"""
    for name in sorted(tern._tern._all_ops()):
        base, _, overload = name.removeprefix("aten::").partition(".")
        if not name.startswith("aten::") or base.startswith("_") or base.endswith("_") or RANDOM.search(base):
            continue
        function = getattr(getattr(torch.ops.aten, base, None), overload or "default", None)
        if function is None or function._schema.is_mutable:
            continue
        kinds = []
        for argument in function._schema.arguments:
            kind = {"Tensor": "t", "Optional[Tensor]": "t", "number": "n"}.get(str(argument.type))
            if argument.kwarg_only:
                kind = "default" if argument.has_default_value() else None
            elif argument.has_default_value() and kind != "t":
                kind = "default"
            kinds.append(kind)
        if None in kinds or "t" not in kinds:
            continue
        yield name, function, [k for k in kinds if k != "default"]


def takes_operands(function, kinds):
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64):
        try:
            function(*[make(dtype) if k == "t" else 1 for k in kinds])
            return True
        except Exception:
            pass
    return False


with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    OPERATORS = [entry for entry in operators() if takes_operands(*entry[1:])]


def relative(function, inplace):
    """The out= or the in-place form."""
    schema = [(a.name, str(a.type)) for a in function._schema.arguments]
    base = function.name().removeprefix("aten::").split(".")[0]
    packet = getattr(torch.ops.aten, base + "_", None) if inplace else function.overloadpacket
    for overload in packet.overloads() if packet is not None else []:
        other = getattr(packet, overload)
        outs = [a for a in other._schema.arguments if a.is_out]
        if [(a.name, str(a.type)) for a in other._schema.arguments if not a.is_out] == schema and (inplace or len(outs) == 1):
            if other.name() in ALL and other is not function:
                return other, [a.name for a in outs]
    return None, []


ALL = set(tern._tern._all_ops())


def calls(function, kinds):
    """(form, function, arguments, keywords)"""
    count, first = len(kinds), next(i for i, k in enumerate(kinds) if k == "t")

    def operands(base, at=None, other=None):
        result = [make(base) if k == "t" else 1 for k in kinds]
        if at is not None:
            result[at] = other
        return result

    for dtype in ALONE:
        yield f"{short(dtype)}", function, operands(dtype), {}
    for at in range(count):
        for base in MIXED:
            if kinds[at] == "n":
                for number in NUMBERS:
                    yield f"{short(base)}, {number!r} at {at}", function, operands(base, at, number), {}
                continue
            for dtype in MIXED if at != first else []:
                if dtype != base:
                    yield f"{short(base)}, {short(dtype)} at {at}", function, operands(base, at, make(dtype)), {}
                    yield f"{short(base)}, zero-dim {short(dtype)} at {at}", function, operands(base, at, make(dtype, ())), {}
    inplace, _ = relative(function, True)
    if inplace is not None:
        for base in WRITTEN:
            yield f"in place {short(base)}", inplace, operands(base), {}
            for dtype in WRITTEN if kinds.count("t") > 1 and kinds[-1] == "t" else []:
                yield f"in place {short(base)}, {short(dtype)}", inplace, operands(base, count - 1, make(dtype)), {}
    out, names = relative(function, False)
    if out is not None:
        for base in WRITTEN:
            for dtype in WRITTEN:
                yield f"{short(base)} into {short(dtype)}", out, operands(base), {names[0]: make(dtype)}


def outcome(run):
    """(dtypes of the results, None), or (None, what was said)"""
    try:
        result = run()
    except Exception as error:
        return None, str(error)
    results = result if isinstance(result, (list, tuple)) else [result]
    return [str(r.dtype).split(".")[-1] if hasattr(r, "dtype") else type(r).__name__ for r in results], None


def words(text):
    return re.findall(r"[a-z]+", text.lower().split("(): ", 1)[-1])[:2]


@pytest.mark.parametrize("name,function,kinds", OPERATORS, ids=[entry[0] for entry in OPERATORS])
def test_taken_as_by_pytorch(name, function, kinds):
    different, words_differ = {}, {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for form, called, args, kwargs in calls(function, kinds):
            mine, mine_kwargs = [to_tern(a) for a in args], {k: to_tern(v) for k, v in kwargs.items()}
            want, refusal = outcome(lambda: called(*args, **kwargs))
            got, mine_refusal = outcome(lambda: tern._tern._overload(called.name())(*mine, **mine_kwargs))
            if want != got:
                different[form] = f"{got or mine_refusal}, PyTorch: {want or refusal}"
            elif refusal and words(refusal) != words(mine_refusal):
                words_differ[form] = f"says {mine_refusal!r}, PyTorch: {refusal!r}"
    if name.removeprefix("aten::") in DIFFERENT:
        assert different, "no longer different: take it off the list"
    else:
        assert different == {}
    if name.removeprefix("aten::") not in OWN_WORDS:
        assert words_differ == {}


WIDE = {  # operator -> its arguments, beside those of the type
    "gather": lambda x: (x, 0, torch.zeros(2, 2, dtype=torch.int64)),
    "scatter.src": lambda x: (x, 0, torch.zeros(2, 2, dtype=torch.int64), x),
    "scatter.value": lambda x: (x, 0, torch.zeros(2, 2, dtype=torch.int64), 1),
    "scatter_add": lambda x: (x, 0, torch.zeros(2, 2, dtype=torch.int64), x),
    "index_put": lambda x: (x, [torch.zeros(2, dtype=torch.int64)], x),
    "take": lambda x: (x, torch.zeros(2, dtype=torch.int64)),
    "put": lambda x: (x, torch.zeros(2, dtype=torch.int64), x[0, :2]),
    "max_pool1d": lambda x: (x, [2]),
    "max_pool2d": lambda x: (x[None], [2, 2]),
    "max_pool3d": lambda x: (x[None, None], [1, 2, 2]),
    "avg_pool2d": lambda x: (x[None], [2, 2]),
    "avg_pool2d_backward": lambda x: (x[None], x[None], [1, 1], [1, 1], [0, 0], False, True, None),
    "avg_pool3d": lambda x: (x[None, None], [1, 2, 2]),
    "adaptive_avg_pool2d": lambda x: (x[None], [2, 2]),
    "adaptive_max_pool2d": lambda x: (x[None], [2, 2]),
    "max_unpool2d": lambda x: (x[None], torch.zeros(1, 2, 3, dtype=torch.int64), [2, 3]),
    "random_": lambda x: (x,),
    "random_.to": lambda x: (x, 5),
    "random_.from": lambda x: (x, 1, None),
    "geometric_": lambda x: (x, 0.5),
    "log_normal_": lambda x: (x,),
    "cauchy_": lambda x: (x,),
    "exponential_": lambda x: (x,),
    "index.Tensor": lambda x: (x, [torch.zeros(2, dtype=torch.int64)]),
    "index_select": lambda x: (x, 0, torch.zeros(2, dtype=torch.int64)),
    "embedding": lambda x: (x, torch.zeros(2, dtype=torch.int64)),
}


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
@pytest.mark.parametrize("name", WIDE)
def test_wide_unsigned_integers(name, dtype):
    """Moved, pooled and drawn as by PyTorch, which takes them in few operators."""
    base, _, overload = name.partition(".")
    args = WIDE[name](torch.arange(6, dtype=torch.int64).reshape(2, 3).to(getattr(torch, dtype)))
    mine = [[to_tern(v) for v in a] if isinstance(a, list) else to_tern(a) for a in args]
    said = []
    for run in (lambda: getattr(getattr(torch.ops.aten, base), overload or "default")(*args), lambda: tern._tern._overload("aten::" + name)(*mine)):
        try:
            run()
            said.append("taken")
        except (RuntimeError, NotImplementedError) as e:
            said.append(str(e).splitlines()[0])
    assert said[1] == said[0]
