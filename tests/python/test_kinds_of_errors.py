"""What PyTorch refuses is refused with its kind of exception and its words; what it accepts is accepted."""

import pytest
import torch

import tern

NARROW = ["float16", "bfloat16", "int64", "bool"]
OF_A_MATRIX = """det inv qr svd eigh eig cholesky slogdet svdvals eigvalsh eigvals pinv lu_factor lu inv_ex cholesky_ex
matrix_rank cond lu_factor_ex matrix_exp""".split()
LINALG = [f"T.linalg.{name}(T.ones(2, 2, dtype=T.{d}))" for name in OF_A_MATRIX for d in NARROW] + [
    call.replace("M", f"T.ones(2, 2, dtype=T.{d})") for d in NARROW for call in (
        "T.linalg.solve(M, M)", "T.linalg.lstsq(M, M)", "T.linalg.solve_ex(M, M)", "T.linalg.solve_triangular(M, M, upper=True)",
        "T.linalg.householder_product(M, M[0])", "T.det(M)", "T.logdet(M)", "T.cholesky(M)", "T.qr(M)", "T.svd(M)", "T.pinverse(M)",
        "T.geqrf(M)", "T.cholesky_inverse(M)", "T.cholesky_solve(M, M)", "T.triangular_solve(M, M)",
        "T.linalg.lu_solve(M, T.tensor([1, 2], dtype=T.int32), M)")] + ["T.linalg.pinv(T.ones(2))"]

INDICES = [call.replace("I", f"T.tensor([{i}])") for i in (5, -7) for call in (
    "T.ones(3, 4).index_add(0, I, T.ones(1, 4))", "T.ones(3, 4).index_add(1, I, T.ones(3, 1))", "T.ones(3).index_add(0, I, T.ones(1))",
    "T.ones(3, 4).index_add(0, I, T.ones(1, 4), alpha=2)", "T.ones(3, 4, 2).index_add(1, I, T.ones(3, 1, 2))",
    "T.ones(3, 4, dtype=T.bool).index_add(0, I, T.ones(1, 4, dtype=T.bool))", "T.ones(()).index_add(0, I, T.ones(()))",
    "T.ones(3, 4).index_add(0, I.int(), T.ones(1, 4))",
    "T.ones(3, 4).index_select(0, I)", "T.ones(3, 4).index_select(1, I)", "T.ones(3).index_select(0, I)",
    "T.ones(3, 4, 2).index_select(1, I)", "T.ones(3, 4, 2).index_select(2, I)", "T.ones(3, 0).index_select(0, I)",
    "T.ones(3, 4).t().index_select(1, I)", "T.ones(3, 4, dtype=T.int64).index_select(1, I.int())",
    "T.ones(3, 4).index_reduce(0, I, T.ones(1, 4), 'amax')", "T.ones(3, 4).index_reduce(1, I, T.ones(3, 1), 'amin', include_self=False)",
    "T.ones(3).index_reduce(0, I, T.ones(1), 'mean')", "T.ones(3, 4).index_copy(1, I, T.ones(3, 1))",
    "T.ones(3).index_copy(0, I, T.ones(1))", "T.ones(3, 4).index_fill(1, I, 1.0)", "T.ones(()).index_fill(0, I, 1.0)",
    "T.ones(3, 4).gather(1, T.tensor([[5]]))", "T.ones(3, 4).scatter(1, T.tensor([[5]]), 1.0)",
    "T.ones(3, 4).scatter_add(0, T.tensor([[-1]]), T.ones(1, 1))")]

OTHERS = ["~T.ones(2)", "~T.ones(2, dtype=T.complex64)", "~T.ones(2, dtype=T.float16)", "+T.ones(2, dtype=T.bool)",
          "T.arange(0, 64, 0.5, dtype=T.int64)", "T.arange(0, 1, 0)", "T.normal(T.ones(2), -1.0)", "T.normal(0.0, -T.ones(2))"]

DRAWS = [f"T.ones({n}, dtype=T.{d}).{call}" for n in (0, 2) for d in ("int64", "bool", "uint8", "uint16", "complex64", "float32") for call in (
    "normal_()", "normal_(0, -1)", "exponential_()", "exponential_(-1)", "log_normal_()", "log_normal_(0, -1)", "cauchy_()", "cauchy_(0, -1)",
    "geometric_(0.5)", "geometric_(2.0)", "uniform_(3, 1)", "random_()", "bernoulli_()", "bernoulli_(5)")]


def outcome(call, module):
    try:
        eval(call, {"T": module})
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]
    return "accepted", ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", LINALG + INDICES + OTHERS + DRAWS)
def test_the_same_kind_and_words(call):
    assert outcome(call, tern) == outcome(call, torch)


def test_what_is_accepted():
    assert (~tern.tensor([True])).tolist() == [False] and (+tern.ones(2, dtype=tern.int32)).tolist() == [1, 1]


@pytest.mark.parametrize("make", ["T.zeros(2, dtype=T.quint8)", "T.ones(2, dtype=T.qint8)", "T.full((2,), 1, dtype=T.qint32)"])
def test_quantized_tensors_have_a_scale_first(make):
    for module in (torch, tern):
        with pytest.raises((RuntimeError, NotImplementedError)):
            eval(make, {"T": module})
