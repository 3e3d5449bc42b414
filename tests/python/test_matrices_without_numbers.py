"""LU and Cholesky of matrices that hold NaN or infinity: factors, pivots and infos are PyTorch's."""

import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402

NAN, INF = float("nan"), float("inf")
MATRICES = {
    "nan": torch.full((3, 3), NAN),
    "inf": torch.full((3, 3), INF),
    "nan at the end": torch.tensor([[2.0, 1, 0], [1, 2, 1], [0, 1, NAN]]),
    "nan in between": torch.tensor([[2.0, 1, 0], [1, NAN, 1], [0, 1, 2]]),
    "inf at the end": torch.tensor([[2.0, 1, 0], [1, 2, 1], [0, 1, INF]]),
    "batch": torch.stack([torch.eye(3) * 4, torch.full((3, 3), NAN)]),
}


def same(got, want):
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(torch.from_dlpack(g.contiguous()), w, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", ["linalg_lu_factor_ex", "linalg_lu", "linalg_cholesky_ex"])
def test_factors(name, matrix, dtype):
    x = MATRICES[matrix].to(dtype)
    same(getattr(tern, name)(tern.from_dlpack(x)), getattr(torch.ops.aten, name)(x))
    if name == "linalg_cholesky_ex":
        same(tern.linalg_cholesky_ex(tern.from_dlpack(x), upper=True)[1:], torch.ops.aten.linalg_cholesky_ex(x, upper=True)[1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("upper", [False, True])
def test_a_matrix_without_a_factor_is_refused(dtype, upper):
    for matrix in ("nan", "inf"):
        x = tern.from_dlpack(MATRICES[matrix].to(dtype))
        assert tern.linalg_cholesky_ex(x, upper=upper)[1].item() == (1 if matrix == "nan" else 2)
        with pytest.raises(tern.linalg.LinAlgError, match="not positive-definite"):
            tern.linalg_cholesky(x, upper=upper)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("rows, columns", [(3, 3), (4, 2), (2, 4)])
def test_numbers_beside_an_infinity_far_away_are_as_ever(dtype, rows, columns):
    """The last row and column hold it: what was eliminated before them is that of the finite matrix."""
    x = torch.tensor([[4.0, 1, 2, 3], [2, 7, 1, 1], [1, 3, 9, 2], [1, 1, 2, 8]])[:rows, :columns].to(dtype)
    wide = torch.zeros(rows, columns + 1, dtype=dtype)
    wide[:, :columns], wide[0, columns] = x, INF
    lu, pivots, info = tern.linalg_lu_factor_ex(tern.from_dlpack(wide))
    want = torch.linalg.lu_factor_ex(x)
    torch.testing.assert_close(torch.from_dlpack(lu.contiguous())[:, :columns], want.LU)
    assert pivots.tolist()[: min(rows, columns)] == want.pivots.tolist() and info.item() == 0
