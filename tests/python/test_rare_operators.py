"""Operators that few models have: Sobol's sequence, compressed rows, loss scales, files, buffers; beside PyTorch."""

import gc
import warnings

import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402


def ours(x):
    return tern.from_dlpack(x.detach().clone()) if isinstance(x, torch.Tensor) else x


def theirs(x):
    if isinstance(x, (tuple, list)):
        return tuple(map(theirs, x))
    return torch.from_dlpack(x.contiguous()) if isinstance(x, tern.Tensor) else x


def beside(name, *args, overload="default", **keywords):
    """The operator in both, on copies of the arguments: what it gives, and what it leaves in its arguments."""
    ours_of, theirs_of = list(map(ours, args)), [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    want = getattr(getattr(torch.ops.aten, name), overload)(*theirs_of, **keywords)
    keywords = {k: getattr(tern, str(v).split(".")[1]) if isinstance(v, torch.dtype) else v for k, v in keywords.items()}
    got = theirs(getattr(getattr(tern.ops.aten, name), overload)(*ours_of, **keywords))
    for w, g in zip(want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,), strict=True):
        torch.testing.assert_close(g, w, rtol=0, atol=0)
    for w, g in zip(theirs_of, ours_of):
        if isinstance(w, torch.Tensor):
            torch.testing.assert_close(theirs(g), w, rtol=0, atol=0)
    return got


def sobol(dimension):
    return beside("_sobol_engine_initialize_state_", torch.zeros(dimension, 30, dtype=torch.long), dimension)


def test_sobol_has_the_direction_numbers_of_1111_dimensions():
    sobol(1111)
    with pytest.raises(RuntimeError, match="direction numbers of 1111 dimensions, not of 1112"):
        tern.ops.aten._sobol_engine_initialize_state_(tern.zeros(1112, 30, dtype=tern.int64), 1112)
    with pytest.raises(RuntimeError, match="sobolstate needs to be of type Long"):
        tern.ops.aten._sobol_engine_initialize_state_(tern.zeros(3, 30), 3)
    with pytest.raises(RuntimeError, match=r"must be of size \[3, 30\]"):
        tern.ops.aten._sobol_engine_initialize_state_(tern.zeros(2, 30, dtype=tern.int64), 3)


def test_sobol_draws_passes_over_and_scrambles_as_pytorch():
    state, quasi = sobol(5), torch.zeros(5, dtype=torch.long)
    for dtype in (None, torch.float32, torch.float64):
        _, stands = beside("_sobol_engine_draw", quasi, 9, state, 5, 0, dtype=dtype)
        beside("_sobol_engine_draw", stands, 300, state, 5, 9, dtype=dtype)
    beside("_sobol_engine_draw", quasi, 0, state, 5, 0, dtype=None)
    beside("_sobol_engine_ff_", quasi, 1000, state, 5, 17)
    ltm = torch.randint(2, (5, 30, 30), generator=torch.Generator().manual_seed(3)).tril()
    scrambled = beside("_sobol_engine_scramble_", state, ltm, 5)
    beside("_sobol_engine_draw", quasi, 50, scrambled, 5, 0, dtype=None)
    with pytest.raises(NotImplementedError, match="\"_sobol_engine_draw\" not implemented for 'Half'"):
        tern.ops.aten._sobol_engine_draw(ours(quasi), 1, ours(state), 5, 0, dtype=tern.float16)
    with pytest.raises(RuntimeError, match="no more than 2\\^30 points"):
        tern.ops.aten._sobol_engine_ff_(ours(quasi), 1, ours(state), 5, 2**30 - 1)
    # Columns of a larger tensor are written where they lie.
    wide = tern.zeros(5, 60, dtype=tern.int64)
    tern.ops.aten._sobol_engine_initialize_state_(wide[:, ::2], 5)
    assert torch.equal(theirs(wide[:, ::2]), state) and theirs(wide[:, 1::2]).abs().sum() == 0


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("narrow", [False, True])
def test_rows_and_where_they_begin(dtype, narrow):
    for rows in ([0, 0, 2], [], [3, 3, 3], [0, 1, 2, 3]):
        beside("_convert_indices_from_coo_to_csr", torch.tensor(rows, dtype=dtype), 4, out_int32=narrow)
    beside("_convert_indices_from_coo_to_csr", torch.tensor(1, dtype=dtype), 2, out_int32=narrow)
    starts, columns = torch.tensor([[0, 1, 1, 3], [0, 0, 2, 3]], dtype=dtype), torch.tensor([[2, 0, 1], [1, 1, 0]], dtype=dtype)
    for transpose in (False, True):
        options = dict(out_int32=narrow, transpose=transpose)
        beside("_convert_indices_from_csr_to_coo", starts[0], columns[0], **options)
        beside("_convert_indices_from_csr_to_coo", starts, columns, **options)
        beside("_convert_indices_from_csr_to_coo", torch.stack([starts] * 3), torch.stack([columns] * 3), **options)
        beside("_convert_indices_from_csr_to_coo", torch.zeros(3, dtype=dtype), columns[0, :0], **options)


def test_rows_that_make_no_sense_are_refused():
    coo, csr = tern.ops.aten._convert_indices_from_coo_to_csr, tern.ops.aten._convert_indices_from_csr_to_coo
    for rows, size, said in (([0, 4], 4, "row 4 is out of bounds"), ([-1], 4, "row -1 is out of bounds"), ([[0]], 1, "supposed to be a vector"), ([], -1, "must not be negative")):
        with pytest.raises((IndexError, RuntimeError), match=said):
            coo(tern.tensor(rows, dtype=tern.int64), size)
    for starts, said in (([1, 3], "begin with 0"), ([0, 2], "end with 3"), ([0, 9, 3], "must not descend"), ([0, 3, 1, 3], "must not descend"), ([[0, 3]], "as many dimensions")):
        with pytest.raises(RuntimeError, match=said):
            csr(tern.tensor(starts), tern.tensor([0, 1, 2]))
    with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
        coo(tern.zeros(2), 2)
    assert coo(tern.zeros(3, dtype=tern.int64, device="meta"), 4).shape == (5,)


def test_pruned_rows():
    weight, mask = torch.arange(12.0).view(4, 3), torch.tensor([True, False, True, True])
    for dtype in (torch.int32, torch.int64):
        beside("_rowwise_prune", weight, mask, compressed_indices_dtype=dtype)
        beside("_rowwise_prune", weight.long(), ~mask & False, compressed_indices_dtype=dtype)
    with pytest.raises(RuntimeError, match="should be either int"):
        tern.ops.aten._rowwise_prune(ours(weight), ours(mask), tern.float32)


@pytest.mark.parametrize("found", [0.0, 1.0])
@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("scale", [2.0, 3e38])
def test_the_scale_of_a_loss(found, steps, scale):
    args = torch.tensor(scale), torch.tensor([steps], dtype=torch.int32), torch.tensor([[found]]), 2.0, 0.5, 2
    beside("_amp_update_scale", *args)
    beside("_amp_update_scale_", *args)


def test_what_is_no_scale():
    one, steps = tern.tensor(1.0), tern.tensor(0, dtype=tern.int32)
    for args, said in (((tern.ones(2), steps, one), "current_scale must be a 1-element tensor."), ((one.double(), steps, one), "current_scale must be a float tensor."),
                       ((one, steps.long(), one), "growth_tracker must be an int tensor."), ((one, steps, steps), "found_inf must be a float tensor.")):
        with pytest.raises(RuntimeError, match=said):
            tern.ops.aten._amp_update_scale(*args, 2.0, 0.5, 2)


def test_casts_of_autocasting():
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64):
        x = torch.ones(2, dtype=dtype)
        for on in (False, True):
            beside("_autocast_to_full_precision", x, False, on)
            beside("_autocast_to_reduced_precision", x, False, on, cuda_dtype=torch.float16, cpu_dtype=torch.bfloat16)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("bins, ratio", [(50, 0.16), (200, 0.5), (1, 1.0)])
def test_a_range_that_loses_little(bits, bins, ratio):
    x = torch.randn(64, generator=torch.Generator().manual_seed(bits))
    for values in (x, x * 100, torch.ones(64), torch.zeros(64)):
        beside("choose_qparams_optimized", values, 50, bins, ratio, bits)
    turned = ours(x).view(8, 8).t()  # the elements in their order; PyTorch takes them as they lie
    assert [v.item() for v in tern.ops.aten.choose_qparams_optimized(turned, 50, bins, ratio, bits)] == [
        v.item() for v in torch.choose_qparams_optimized(theirs(turned).clone(), 50, bins, ratio, bits)
    ]
    with pytest.raises(RuntimeError, match="numel is out of the bound of input tensor"):
        tern.ops.aten.choose_qparams_optimized(ours(x), 65, bins, ratio, bits)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        tern.ops.aten.choose_qparams_optimized(ours(x).double(), 5, bins, ratio, bits)


def test_a_slice_seen_as_what_it_was_cut_from():
    x = tern.arange(10.0, requires_grad=True)
    y = x * 1
    whole = tern.ops.aten.slice_inverse(y[2:8:2], y, 0, 2, 8, 2)
    assert whole.tolist() == list(range(10)) and whole.data_ptr() == y.data_ptr()
    whole.backward(tern.arange(10.0))
    beside_x = torch.arange(10.0, requires_grad=True)
    beside_y = beside_x * 1
    torch.ops.aten.slice_inverse(beside_y[2:8:2], beside_y, 0, 2, 8, 2).backward(torch.arange(10.0))
    assert x.grad.tolist() == beside_x.grad.tolist()
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        tern.ops.aten.slice_inverse(tern.zeros(3), tern.zeros(10))


def test_types_as_values():
    half, ints, one = torch.ones(2, dtype=torch.float16), torch.ones(2, dtype=torch.int32), torch.tensor(1.0, dtype=torch.float64)
    for a, b in ((half, ints), (ints, half), (ints, one), (one, half), (ints, ints.bool()), (half.to(torch.complex64), one)):
        assert tern.ops.aten.result_type.Tensor(ours(a), ours(b)) == torch.ops.aten.result_type.Tensor(a, b)
        assert tern.ops.aten.is_set_to(ours(a), ours(a)) is False
    for number in (True, 3, 2.5, 1j):
        for t in (half, ints, ints.bool(), one):
            assert tern.ops.aten.result_type.Scalar(ours(t), number) == torch.ops.aten.result_type.Scalar(t, number)
            assert tern.ops.aten.result_type.Scalar_Tensor(number, ours(t)) == torch.ops.aten.result_type.Scalar_Tensor(number, t)
        assert tern.ops.aten.result_type.Scalar_Scalar(number, 2.5) == torch.ops.aten.result_type.Scalar_Scalar(number, 2.5)
    assert tern.ops.aten.promote_types(tern.int32, tern.float16) == torch.ops.aten.promote_types(torch.int32, torch.float16)
    assert tern.ops.aten.can_cast(tern.int32, tern.float16) and not tern.ops.aten.can_cast(tern.float16, tern.int32)
    x = tern.arange(6.0)
    assert tern.ops.aten.is_set_to(x, x.view(6)) and not tern.ops.aten.is_set_to(x, x.view(2, 3)) and not tern.ops.aten.is_set_to(x[1:], x[:-1])


def test_ranges_that_carry_a_token():
    token = tern.ops.aten._make_dep_token()
    assert token.shape == ()
    assert tern.ops.aten._functional_sym_constrain_range(3, 1, 5, token).shape == ()
    assert tern.ops.aten._functional_sym_constrain_range_for_size(3, None, 5, token).shape == ()
    with pytest.raises(RuntimeError, match="Invalid value range for 9"):
        tern.ops.aten._functional_sym_constrain_range(9, 1, 5, token)
    with pytest.raises(RuntimeError, match="Invalid value range for -1"):
        tern.ops.aten._functional_sym_constrain_range_for_size(-1, None, 5, token)


@pytest.mark.parametrize("name, args", [
    ("_sobol_engine_draw", lambda d: (tern.zeros(3, dtype=tern.int64, device=d), 4, tern.zeros(3, 30, dtype=tern.int64, device=d), 3, 0, None)),
    ("_convert_indices_from_csr_to_coo", lambda d: (tern.zeros(2, 4, dtype=tern.int64, device=d), tern.zeros(2, 0, dtype=tern.int64, device=d))),
    ("_amp_update_scale", lambda d: (tern.ones(1, device=d), tern.zeros([], dtype=tern.int32, device=d), tern.ones(1, 1, device=d), 2.0, 0.5, 3)),
    ("choose_qparams_optimized", lambda d: (tern.ones(8, device=d), 8, 20, 0.5, 4)),
    ("slice_inverse", lambda d: (tern.ones(3, 2, device=d), tern.ones(2, 3, device=d))),
    ("_pad_enum", lambda d: (tern.ones(1, 3, device=d), [1, 1], 1)),
])
def test_shapes_without_data(name, args):
    op = getattr(tern.ops.aten, name)
    real, meta = op(*args("cpu")), op(*args("meta"))
    for r, m in zip(real if isinstance(real, tuple) else (real,), meta if isinstance(meta, tuple) else (meta,), strict=True):
        assert m.device.type == "meta" and (r.shape, r.stride(), r.dtype) == (m.shape, m.stride(), m.dtype)


def test_padding_by_number():
    x = torch.arange(4.0).view(1, 1, 4)
    for mode in range(4):
        beside("_pad_enum", x, [1, 2], mode, None)
    beside("_pad_enum", x, [1, 2], 3, 2.5)
    with pytest.raises(NotImplementedError, match="padding mode 4"):
        tern.ops.aten._pad_enum(ours(x), [1, 2], 4)
    copied = beside("_reshape_alias_copy", torch.arange(4.0), [2, 2], [1, 2])
    assert copied.stride() == (2, 1)


@pytest.mark.parametrize("name, args, overload, outs", [
    ("rrelu_with_noise", ("x", "noise"), "out", 1),
    ("fft_fftfreq", (5,), "out", 1),
    ("fft_rfftfreq", (5,), "out", 1),
    ("normal", (1.0, 2.0, [4]), "float_float_out", 1),
    ("random", ("x",), "out", 1),
    ("random", ("x", 7), "to_out", 1),
    ("random", ("x", 2, 7), "from_out", 1),
    ("conv_tbc", ("tbc", "kernel", "bias"), "out", 1),
    ("affine_grid_generator", ("theta", [1, 1, 2, 3], False), "out", 1),
    ("_weight_norm_interface", ("matrix", "norms"), "out", 2),
    ("_pack_padded_sequence", ("matrix", "lengths", True), "out", 2),
])
def test_out(name, args, overload, outs):
    named = {"x": torch.randn(6), "noise": torch.zeros(6), "tbc": torch.randn(5, 2, 3), "kernel": torch.randn(2, 3, 4), "bias": torch.randn(4),
             "theta": torch.randn(1, 2, 3), "matrix": torch.randn(3, 4), "norms": torch.rand(3, 1), "lengths": torch.tensor([4, 2, 1])}
    args = [named.get(a, a) if isinstance(a, str) else a for a in args]
    names = ["out"] if outs == 1 else [f"out{i}" for i in range(outs)]
    dtypes = [torch.float32, torch.int64 if name == "_pack_padded_sequence" else torch.float32]
    if name == "_pack_padded_sequence":
        args[0] = args[0].view(3, 4, 1)
    torch.manual_seed(3)
    want = getattr(getattr(torch.ops.aten, name), overload)(*(a.clone() if isinstance(a, torch.Tensor) else a for a in args), **{n: torch.empty(0, dtype=d) for n, d in zip(names, dtypes)})
    tern.manual_seed(3)
    into = {n: tern.empty(0, dtype=tern.int64 if d == torch.int64 else tern.float32) for n, d in zip(names, dtypes)}
    got = getattr(getattr(tern.ops.aten, name), overload)(*map(ours, args), **into)
    for w, g, o in zip(want if outs > 1 else (want,), got if outs > 1 else (got,), into.values()):
        assert g is o or g.data_ptr() == o.data_ptr()
        torch.testing.assert_close(theirs(g), w)


@pytest.mark.parametrize("name, args", [("rand", ([4],)), ("randn", ([4],)), ("randperm", (6,)), ("randint", (9, [4]))])
def test_out_with_a_generator(name, args):
    dtype = "float32" if name in ("rand", "randn") else "int64"
    want, got = (getattr(getattr(m.ops.aten, name), "generator_out")(*args, generator=m.Generator().manual_seed(5), out=m.empty(0, dtype=getattr(m, dtype))) for m in (torch, tern))
    assert theirs(got).tolist() == want.tolist()


# ---- files and buffers ----


def test_from_file(tmp_path):
    path = str(tmp_path / "numbers")
    for size in (40, 1 << 20):
        torch.arange(size, dtype=torch.int32).numpy().tofile(path)
        x = tern.from_file(path, size=10, dtype=tern.int32)
        assert x.tolist() == list(range(10))
        x.fill_(7)  # a copy: the file stays
        assert torch.from_file(path, size=10, dtype=torch.int32).tolist() == list(range(10))
    shared = tern.from_file(path, shared=True, size=(1 << 20) + 1, dtype=tern.int32)
    shared[0], shared[-1] = 5, 6
    assert torch.from_file(path, size=(1 << 20) + 1, dtype=torch.int32)[[0, 1, -1]].tolist() == [5, 1, 6]
    made = tern.from_file(str(tmp_path / "made"), shared=True, size=3)
    assert made.dtype is tern.float32 and made.tolist() == [0.0, 0.0, 0.0] and (tmp_path / "made").stat().st_size == 12
    assert tern.from_file(path).shape == (0,)
    with pytest.raises(RuntimeError, match="size <12> is smaller than the required mapping size <16>"):
        tern.from_file(str(tmp_path / "made"), size=4)
    with pytest.raises(RuntimeError, match="size must not be negative"):
        tern.from_file(path, size=-1)
    with pytest.raises(Exception, match="No such file"):
        tern.from_file(str(tmp_path / "nowhere"), size=1)
    with pytest.raises(Exception, match="No such file"):
        tern.from_file(str(tmp_path / "nowhere" / "x"), shared=True, size=1)


def test_frombuffer_shares_and_keeps_the_buffer():
    buffer = bytearray(range(16))
    x = tern.frombuffer(buffer, dtype=tern.int32, count=2, offset=4)
    assert x.tolist() == torch.frombuffer(buffer, dtype=torch.int32, count=2, offset=4).tolist()
    x[0] = 1
    assert buffer[4:8] == b"\1\0\0\0"
    with pytest.raises(BufferError):  # it would move
        buffer.extend(b"more")
    view = x[1:]
    del x
    gc.collect()
    assert view.item() == int.from_bytes(buffer[8:12], "little")
    del view
    buffer.extend(b"more")
    assert tern.frombuffer(bytearray(8), dtype=tern.float32, requires_grad=True).requires_grad


@pytest.mark.parametrize("options", [dict(offset=3), dict(offset=16), dict(offset=-1), dict(count=5), dict(count=0), dict(count=4, offset=4)])
def test_frombuffer_says_what_does_not_fit(options):
    said = []
    for m in (torch, tern):
        with pytest.raises(ValueError) as error:
            m.frombuffer(bytearray(16), dtype=m.int32, **options)
        said.append(str(error.value).split("\n")[0])
    assert said[0] == said[1]


def test_frombuffer_of_more_than_there_can_be():
    with pytest.raises(ValueError, match="must not be greater than actual buffer length"):
        tern.frombuffer(bytearray(16), dtype=tern.int32, count=2**62)


def test_frombuffer_of_what_is_no_buffer_or_read_only():
    with pytest.raises(ValueError, match="does not implement Python buffer protocol"):
        tern.frombuffer(5, dtype=tern.int32)
    with pytest.raises(RuntimeError, match="could not retrieve buffer"):
        tern.frombuffer(memoryview(bytearray(16))[::2], dtype=tern.uint8)
    with pytest.raises(TypeError):
        tern.frombuffer(bytearray(4))
    tern._functions._warned_of_read_only = False
    with pytest.warns(UserWarning, match="not writable"):
        assert tern.frombuffer(b"\1\2", dtype=tern.uint8).tolist() == [1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tern.frombuffer(b"\1\2", dtype=tern.uint8)  # said once


def test_unravel_index():
    for indices, shape in ((torch.tensor([5, 7]), (3, 4)), (torch.tensor(5), 12), (torch.tensor(0), ()), (torch.tensor([[0], [11]]), [3, 2, 2]),
                           (torch.tensor([-1, 50]), (3, 4)), (torch.tensor([], dtype=torch.long), (3, 4)), (torch.tensor([1], dtype=torch.uint8), (3, 4))):
        want, got = torch.unravel_index(indices, shape), tern.unravel_index(ours(indices), shape)
        assert [w.tolist() for w in want] == [g.tolist() for g in got] and all(str(w.dtype)[6:] == g.dtype.name for w, g in zip(want, got))
    for m in (torch, tern):
        for indices, shape, error in ((m.tensor(1.0), (3, 4), TypeError), (m.tensor(True), (3, 4), TypeError), (m.tensor(1), (3, -4), ValueError), (m.tensor(1), (3.0, 4), TypeError), (m.tensor(1), "34", TypeError)):
            with pytest.raises(error):
                m.unravel_index(indices, shape)


def test_polygamma_is_a_method():
    x = torch.rand(5, dtype=torch.float64) + 0.5
    for n in range(4):
        torch.testing.assert_close(theirs(ours(x).polygamma(n)), x.polygamma(n), rtol=1e-9, atol=0)


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.t(), lambda x: x[1:, :2], lambda x: x[:1].expand(3, 4), lambda x: x[:, 1]])
def test_resize_takes_the_memory_that_a_clone_has(view):
    x = torch.arange(12.0).view(3, 4)
    given = view(ours(x))
    for size in ([], [3], [1, 2]):
        got = tern.ops.aten.resize(given, size)
        torch.testing.assert_close(theirs(got), torch.ops.aten.resize(view(x), size), rtol=0, atol=0)
    grown = tern.ops.aten.resize(given, [20])
    assert theirs(grown)[: view(x).numel()].tolist() == torch.ops.aten.resize(view(x), [20])[: view(x).numel()].tolist()


@pytest.mark.parametrize("layout", [None, "preserve_format", "contiguous_format", "channels_last"])
def test_resize_as_goes_by_the_template_and_the_format(layout):
    template = torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last)
    want, got = torch.arange(30.0), tern.arange(30.0)
    want.resize_as_(template, memory_format=layout and getattr(torch, layout))
    ours_template = tern.zeros(1, 2, 3, 4).contiguous(memory_format=tern.channels_last)
    got.resize_as_(ours_template, memory_format=layout and getattr(tern, layout))
    assert list(got.stride()) == list(want.stride())
    assert theirs(got).tolist() == want.tolist()
