"""The resizing operators and their gradients in every dtype and memory format against PyTorch."""

import itertools

import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402

overload = tern._tern._overload
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-10, torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.uint8: 0}
NEAREST = [("upsample_nearest%dd" % d, d, [None]) for d in (1, 2, 3)] + [("_upsample_nearest_exact%dd" % d, d, [None]) for d in (1, 2, 3)]
SMOOTH = [
    (name, d, [False, True])
    for name, d in (
        ("upsample_linear1d", 1),
        ("upsample_bilinear2d", 2),
        ("upsample_trilinear3d", 3),
        ("upsample_bicubic2d", 2),
        ("_upsample_bilinear2d_aa", 2),
        ("_upsample_bicubic2d_aa", 2),
        ("_upsample_lanczos2d_aa", 2),
    )
]


def mine(t):
    return tern.from_dlpack(t)


def expect_close(got, want, tolerance, what):
    got = torch.from_dlpack(got)
    assert got.shape == want.shape and got.dtype == want.dtype, what
    assert (got.double() - want.double()).abs().max().item() <= tolerance, what


@pytest.mark.parametrize("name,dims,aligns", NEAREST + SMOOTH)
def test_resizing_agrees(name, dims, aligns):
    torch.manual_seed(0)
    for dtype, size, align, channels_last in itertools.product(TOLERANCE, ([7, 8, 9], [3, 3, 3], [1, 1, 1], [10, 4, 13]), aligns, (False, True)):
        x = torch.rand(2, 5, *[5, 6, 4][:dims], dtype=torch.float64)
        x = (x * 255).to(dtype) if dtype == torch.uint8 else x.to(dtype)
        if channels_last:
            if dims == 1:
                continue
            x = x.to(memory_format=torch.channels_last if dims == 2 else torch.channels_last_3d)
        rest = ([] if align is None else [align]) + [None] * dims
        what = (name, dtype, size[:dims], align, channels_last)
        try:
            want = getattr(torch.ops.aten, name)(x, size[:dims], *rest)
        except NotImplementedError:
            with pytest.raises(NotImplementedError):
                overload("aten::" + name)(mine(x), size[:dims], *rest)
            continue
        # PyTorch rounds bytes differently by number of channels and processor: one step apart is as close as it is to itself.
        step = 1 if dtype == torch.uint8 and "bicubic" in name else TOLERANCE[dtype]
        expect_close(overload("aten::" + name)(mine(x), size[:dims], *rest), want, step, what)
        if dtype == torch.uint8:
            continue
        g = torch.rand_like(want)
        try:
            want = getattr(torch.ops.aten, name + "_backward")(g, size[:dims], list(x.shape), *rest)
        except NotImplementedError:
            continue
        expect_close(overload("aten::" + name + "_backward")(mine(g), size[:dims], list(x.shape), *rest), want, TOLERANCE[dtype] * 20, what)
