"""Operators that OpInfo has no samples of, called beside PyTorch's: values, dtypes, sizes without data, refusals.

Most are the *_backward operators that PyTorch's own training graphs hold.
"""

import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402

ATEN = torch.ops.aten


def convert(value, tensor):
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, (list, tuple)):
        return [convert(v, tensor) for v in value]
    if isinstance(value, dict):
        return {k: convert(v, tensor) for k, v in value.items()}
    return value


def ours(t):
    return tern.from_dlpack(t.detach().clone())


def listed(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def operator(module, name):
    packet, _, overload = name.partition(".")
    return getattr(getattr(module.ops.aten, packet), overload or "default")


def same(want, got, tolerance=1e-5):
    want, got = listed(want), listed(got)
    assert len(want) == len(got)
    for w, g in zip(want, got):
        if not isinstance(w, torch.Tensor):
            assert w == g if w is not None else g is None or not g.numel()
            continue
        assert tuple(g.shape) == tuple(w.shape) and str(g.dtype).split(".")[-1] == str(w.dtype).split(".")[-1]
        if g.device.type != "meta":
            torch.testing.assert_close(torch.from_dlpack(g.detach().contiguous()), w.detach(), rtol=tolerance, atol=tolerance, equal_nan=True)


def beside(name, *args, meta=True, tolerance=1e-5, **named):
    want = operator(torch, name)(*args, **named)
    same(want, operator(tern, name)(*convert(args, ours), **convert(named, ours)), tolerance)
    if meta:
        bare = lambda t: ours(t).to("meta")  # noqa: E731
        same(want, operator(tern, name)(*convert(args, bare), **convert(named, bare)))


def numbers(*sizes, dtype=torch.float32, seed=0):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


PADS = [(kind, dims) for kind in ("reflection", "replication") for dims in (1, 2, 3)]


@pytest.mark.parametrize("kind, dims", PADS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_borders(kind, dims, dtype):
    name = f"{kind}_pad{dims}d_backward"
    padding = [1, 2, 0, 3, 2, 1][: 2 * dims]
    for lead in ((2,), (3, 2)):
        x = numbers(*lead, *[5, 4, 6][:dims], dtype=dtype)
        grad = numbers(*getattr(ATEN, f"{kind}_pad{dims}d")(x, padding).shape, dtype=dtype, seed=1)
        beside(name, grad, x, padding, tolerance=2e-2 if dtype == torch.bfloat16 else 1e-5)
        beside(name, grad.flip(-1).transpose(0, 1).contiguous().transpose(0, 1), x, padding, tolerance=2e-2 if dtype == torch.bfloat16 else 1e-5)
    with pytest.raises(RuntimeError, match="width unexpected. Expected: "):
        operator(tern, name)(ours(grad)[..., 1:], ours(x), padding)
    with pytest.raises(NotImplementedError, match=f'"{name}" not implemented for \'Long\''):
        operator(tern, name)(ours(grad.real).to(tern.int64), ours(x.real).to(tern.int64), padding)
    # The gradient of the gradient is the padding again.
    if dtype == torch.float64:
        g = ours(grad).requires_grad_()
        operator(tern, name)(g, ours(x), padding).mul(ours(x)).sum().backward()
        same(getattr(ATEN, f"{kind}_pad{dims}d")(x, padding), g.grad)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_losses(reduction):
    x, y = numbers(4, 5) * 2, numbers(4, 5, seed=1)
    grad = numbers(4, 5, seed=2) if reduction == 0 else torch.tensor(1.5)
    for value in (0.5, 1.0, 3.0):
        beside("smooth_l1_loss_backward", grad, x, y, reduction, value)
        beside("huber_loss_backward", grad, x, y, reduction, value)
    beside("smooth_l1_loss_backward", grad, x, y, reduction, 0.0)
    beside("soft_margin_loss_backward", grad, x, y.sign(), reduction)
    rows = numbers(4, seed=3) if reduction == 0 else torch.tensor(1.5)
    target = torch.tensor([0, 3, 4, 1])
    for p in (1, 2):
        beside("multi_margin_loss_backward", rows, x, target, p, 0.7, None, reduction)
        beside("multi_margin_loss_backward", rows, x, target, p, 1, numbers(5).abs(), reduction)
        beside("multi_margin_loss_backward", torch.tensor(2.0), x[0], target[1], p, 1, None, reduction)
    labels = torch.tensor([[0, 3, -1, 2, 1], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0], [2, -1, -1, -1, -1]])
    _, is_target = ATEN.multilabel_margin_loss_forward(x, labels, reduction)
    beside("multilabel_margin_loss_backward", rows, x, labels, reduction, is_target)
    beside("multilabel_margin_loss_backward", torch.tensor(2.0), x[0], labels[0], reduction, is_target[0])


def test_the_gradients_of_indices_and_sums():
    beside("embedding_backward", numbers(3, 4), torch.tensor([0, 2, 2]), 5, -1, True, False)
    beside("gather_backward", numbers(2, 3), numbers(4, 3), 0, torch.tensor([[0, 1, 2], [0, 0, 3]]), False)
    beside("index_select_backward", numbers(2, 3), [4, 3], 0, torch.tensor([1, 1]))
    beside("masked_select_backward", numbers(3), numbers(2, 2), torch.tensor([[True, False], [True, True]]), meta=False)
    x = torch.tensor([[1.0, 0.0, 3.0], [2.0, 4.0, -1.0]])
    beside("cumprod_backward", numbers(2, 3), x, 1, x.cumprod(1), meta=False)
    beside("_logcumsumexp", x, 1)


def test_activations():
    x = torch.tensor([[-1.0, 0.0], [2.0, -0.5]])
    beside("_prelu_kernel_backward", numbers(2, 2), x, torch.tensor([[0.25, 0.5]]))
    beside("infinitely_differentiable_gelu_backward", numbers(2, 2), x)
    glu, dx = torch.nn.functional.glu(numbers(3, 4)), numbers(3, 4, seed=5)
    beside("glu_jvp", glu, numbers(3, 4), dx, -1)
    grad = numbers(3, 2, seed=2)
    beside("glu_backward_jvp", ATEN.glu_backward(grad, numbers(3, 4), 1), grad, numbers(3, 4), numbers(3, 2, seed=3), dx, 1)


def test_convolutions_by_their_other_names():
    x, w, b = numbers(2, 3, 6, 5), numbers(4, 3, 2, 3), numbers(4)
    beside("_slow_conv2d_forward", x, w, [2, 3], b, [2, 1], [1, 0])
    beside("thnn_conv2d", x, w, [2, 3], b)
    beside("slow_conv_dilated2d", x, w, [2, 3], b, [1, 1], [1, 1], [2, 1])
    beside("slow_conv_transpose2d", x, numbers(3, 4, 2, 3), [2, 3], b, [2, 2], [0, 1], [1, 0])
    beside("slow_conv3d", numbers(1, 2, 4, 5, 3), numbers(3, 2, 2, 2, 2), [2, 2, 2], numbers(3), [1, 1, 1], [1, 1, 1])
    beside("slow_conv_dilated3d", numbers(1, 2, 5, 5, 5), numbers(3, 2, 2, 2, 2), [2, 2, 2], None, [1, 1, 1], [0, 0, 0], [2, 2, 2])
    beside("slow_conv_transpose3d", numbers(1, 2, 4, 5, 3), numbers(2, 3, 2, 2, 2), [2, 2, 2])
    y = ATEN._slow_conv2d_forward(x, w, [2, 3], b, [2, 1], [1, 0])
    beside("_slow_conv2d_backward.output_mask", numbers(*y.shape, seed=4), x, w, [2, 3], [2, 1], [1, 0], [True, True, True], tolerance=1e-4)
    beside("conv_tbc_backward", numbers(5, 2, 4), numbers(6, 2, 3), numbers(2, 3, 4), numbers(4), 0, tolerance=1e-4)
    with pytest.raises(RuntimeError, match="kernel_size"):
        tern.ops.aten._slow_conv2d_forward(ours(x), ours(w), [3, 3], None, [1, 1], [0, 0])


def test_grids_and_weights():
    for size in ([2, 3, 4, 5], [2, 1, 3, 4, 2]):
        for align in (False, True):
            beside("affine_grid_generator_backward", numbers(2, *size[2:], len(size) - 2), size, align)
    x, grid = numbers(1, 2, 4, 4), numbers(1, 3, 3, 2).clamp(-1, 1)
    beside("_grid_sampler_2d_cpu_fallback", x, grid, 0, 0, False)
    beside("_grid_sampler_2d_cpu_fallback_backward", numbers(1, 2, 3, 3), x, grid, 0, 1, True)
    v, g = numbers(3, 4), numbers(3, 1).abs()
    norms = v.norm(dim=1, keepdim=True)
    beside("_weight_norm_interface_backward", numbers(3, 4, seed=1), v, g, norms, 0)
    beside("_weight_norm_differentiable_backward", numbers(3, 4, seed=1), v, g, norms, 0)


def test_batch_norm_by_its_other_names():
    x, w, b = numbers(4, 3, 2), numbers(3).abs(), numbers(3)

    def stats():
        return numbers(3, seed=8), numbers(3, seed=9).abs()

    beside("_batch_norm_impl_index", x, w, b, *stats(), True, 0.1, 1e-5, True, meta=False)
    beside("_batch_norm_impl_index", x, w, b, *stats(), False, 0.1, 1e-5, True, meta=False)
    beside("_batch_norm_with_update", x, w, b, *stats(), 0.1, 1e-5, meta=False)
    beside("_batch_norm_with_update_functional", x, w, b, *stats(), 0.1, 1e-5, meta=False)
    beside("_batch_norm_no_update", x, w, b, *stats(), 0.1, 1e-5, meta=False)
    beside("batch_norm_update_stats", x, *stats(), 0.1, meta=False)
    mean, inverse = x.mean((0, 2)), (x.var((0, 2), unbiased=False) + 1e-5).rsqrt()
    beside("batch_norm_backward", numbers(4, 3, 2, seed=1), x, w, *stats(), mean, inverse, True, 1e-5, [True, True, True], torch.empty(0, dtype=torch.uint8))
    beside("_batch_norm_impl_index_backward", 0, x, numbers(4, 3, 2, seed=1), w, *stats(), mean, inverse, True, 1e-5, [True, True, True], torch.empty(0, dtype=torch.uint8))
    running = [ours(t) for t in stats()]
    want = stats()
    ATEN.batch_norm_update_stats(x, *want, 0.1)
    tern.ops.aten.batch_norm_update_stats(ours(x), *running, 0.1)
    same(list(want), running)


def test_masked_softmax():
    x, mask = numbers(2, 4), torch.tensor([[True, False, False, True], [True] * 4])
    for dim in (-1, 0, None):
        beside("_masked_softmax", x, mask, dim, 2)
    heads, square, padding = numbers(2, 2, 3, 3), numbers(3, 3) > 0.5, numbers(2, 3) > 0.5
    beside("_masked_softmax", heads, square, -1, 0)
    beside("_masked_softmax", heads, padding, -1, 1)
    beside("_masked_softmax_backward", numbers(2, 4, seed=1), torch._masked_softmax(x, mask, -1, 2), mask, -1)
    for bad, text in (((x, mask.float()), "boolean"), ((x, mask[0]), "should match input shape"), ((heads, square), "Mask Type should be defined")):
        with pytest.raises(RuntimeError, match=text):
            tern.ops.aten._masked_softmax(*map(ours, bad))


@pytest.mark.parametrize("zero", [0.0, 1.0, 1.5, -2.5, 9.0])
def test_learned_quantisation(zero):
    x = torch.tensor([-2.0, -0.6, 0.1, 0.26, 0.9, 5.0])
    scale, point = torch.tensor([0.25]), torch.tensor([zero])
    beside("_fake_quantize_learnable_per_tensor_affine", x, scale, point, -4, 3, 0.5)
    beside("_fake_quantize_learnable_per_tensor_affine_backward", numbers(6), x, scale, point, -4, 3, 0.5)
    scales, points = torch.tensor([0.25, 0.5]), torch.tensor([zero, -1.0])
    beside("_fake_quantize_learnable_per_channel_affine", x.view(2, 3), scales, points, 0, -4, 3, 1.5)
    beside("_fake_quantize_learnable_per_channel_affine_backward", numbers(2, 3), x.view(2, 3), scales, points, 0, -4, 3, 1.5)
    mine = [ours(t).requires_grad_() for t in (x, scale, point)]
    their = [t.clone().requires_grad_() for t in (x, scale, point)]
    torch._fake_quantize_learnable_per_tensor_affine(*their, -4, 3, 2.0).sum().backward()
    tern._fake_quantize_learnable_per_tensor_affine(*mine, -4, 3, 2.0).sum().backward()
    same([t.grad for t in their], [t.grad for t in mine])


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("observes", [0, 1])
@pytest.mark.parametrize("quantizes", [0, 1])
def test_observed_quantisation(observes, quantizes, symmetric):
    for rows in (False, True):
        for start in (float("inf"), -0.5):
            size = [3] if rows else []
            state = [torch.full(size, start), torch.full(size, 0.7 if start < 0 else -start), torch.ones(3 if rows else 1), torch.zeros(3 if rows else 1, dtype=torch.int32)]
            mine = [ours(t) for t in state]
            x, on, fake = numbers(3, 4), torch.tensor([observes]), torch.tensor([quantizes])
            arguments = (0.01, -128 if rows else 0, 127 if rows else 255, 0, rows, symmetric)
            want = torch.fused_moving_avg_obs_fake_quant(x, on, fake, *state, *arguments)
            a = ours(x).requires_grad_()
            got = tern.fused_moving_avg_obs_fake_quant(a, ours(on), ours(fake), *mine, *arguments)
            same([want, *state], [got, *mine])
            b = x.clone().requires_grad_()
            torch.fused_moving_avg_obs_fake_quant(b, on, fake, *state, *arguments).sum().backward()
            tern.fused_moving_avg_obs_fake_quant(a, ours(on), ours(fake), *mine, *arguments).sum().backward()
            same(b.grad, a.grad)


def test_segments():
    data = numbers(6, 3)
    for how in ("sum", "mean", "max", "min", "prod"):
        for initial in (None, 2):
            for named in ({"lengths": torch.tensor([2, 0, 4])}, {"offsets": torch.tensor([0, 2, 2, 6])}):
                beside("segment_reduce", data, how, initial=initial, **named)
                y = torch.segment_reduce(data, how, initial=initial, **named)
                beside("_segment_reduce_backward", numbers(3, 3), y, data, how, initial=initial, **named)
        beside("segment_reduce", data.view(2, 3, 3), how, lengths=torch.tensor([[1, 2], [3, 0]]), axis=1)
        x = torch.tensor([1.0, 2.0, 2.0, 5.0, 0.0, 3.0, 0.0, 0.0], requires_grad=True)
        mine = ours(x).requires_grad_()
        (torch.segment_reduce(x, how, lengths=torch.tensor([3, 3, 2])) * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
        (tern.segment_reduce(mine, how, lengths=tern.tensor([3, 3, 2])) * tern.tensor([1.0, 2.0, 3.0])).sum().backward()
        same(x.grad, mine.grad)


@pytest.mark.parametrize(
    "named",
    [
        {"reduce": "sum"},
        {"reduce": "no", "lengths": [2, 4]},
        {"reduce": "sum", "lengths": [2, 3]},
        {"reduce": "sum", "lengths": [2, -1, 5]},
        {"reduce": "sum", "indices": [2, 4]},
        {"reduce": "sum", "lengths": [[2, 4]]},
    ],
)
def test_segments_that_are_refused(named):
    def call(m):
        how = {k: m.tensor(v) if isinstance(v, list) else v for k, v in named.items()}
        return m.segment_reduce(m.ones(6), how.pop("reduce"), **how)

    with pytest.raises(Exception) as want:
        call(torch)
    with pytest.raises(type(want.value)) as got:
        call(tern)
    if "could this error" not in str(want.value).lower():
        assert str(want.value) in str(got.value)
    for offsets in ([0, 2, 9], [0, 4, 2], [-1, 6]):  # PyTorch reads beyond the data
        with pytest.raises(RuntimeError, match="offsets"):
            tern.segment_reduce(tern.ones(6), "sum", offsets=tern.tensor(offsets))


def test_rows_are_shortened_in_place():
    for p in (2.0, 1.0, 3.5, float("inf"), 0.0):
        table, rows = numbers(6, 4) * 3, torch.tensor([[1, 1], [3, 5]])
        mine = ours(table)
        assert tern.embedding_renorm_(mine, ours(rows), 1.5, p) is mine
        same(torch.embedding_renorm_(table, rows, 1.5, p), mine)
        beside("embedding_renorm", numbers(6, 4) * 3, rows, 1.5, p)
    wide = tern.ones(3, 8)[:, ::2]
    tern.embedding_renorm_(wide, tern.tensor([1], dtype=tern.int32), 1.0, 2.0)
    assert wide.tolist()[0] == [1.0] * 4 and wide.tolist()[1] == pytest.approx([0.5] * 4)
    for bad, text in (((tern.ones(3), tern.tensor([1])), "Expected 2-dimensional tensor"), ((tern.ones(3, 2), tern.tensor([1.0])), "Long, Int"), ((tern.ones(3, 2), tern.tensor([7])), "out of range")):
        with pytest.raises((RuntimeError, IndexError), match=text):
            tern.embedding_renorm_(*bad, 1.0, 2.0)


def test_random_slopes():
    for dtype in (torch.float32, torch.float64):
        x = numbers(5, 4, dtype=dtype)
        noise, mine = torch.full_like(x, 7), ours(torch.full_like(x, 7))
        torch.manual_seed(2)
        tern.manual_seed(2)
        want = ATEN.rrelu_with_noise(x, noise, 0.1, 0.4, True)
        same([want, noise], [tern.rrelu_with_noise(ours(x), mine, 0.1, 0.4, True), mine], 0)
        same(torch.rrelu(x.t(), 0.1, 0.4, True), tern.rrelu(ours(x).t(), 0.1, 0.4, True), 0)
        same(ATEN.rrelu_with_noise_functional(x, noise, 0.1, 0.4, False), tern.rrelu_with_noise_functional(ours(x), mine, 0.1, 0.4, False))
        beside("rrelu_with_noise_backward", numbers(5, 4, seed=1, dtype=dtype), x, noise, 0.1, 0.4, True, False)
    for bad, text in (((tern.ones(3), tern.ones(2)), "noise tensor shape must match"), ((tern.ones(3, dtype=tern.float16), tern.ones(3, dtype=tern.float16)), "not implemented for 'Half'")):
        with pytest.raises((RuntimeError, NotImplementedError), match=text):
            tern.rrelu_with_noise(*bad, 0.1, 0.4, True)


def test_small_ones():
    beside("_addmm_activation", numbers(3), numbers(2, 4), numbers(4, 3), beta=0.5, alpha=2)
    beside("_addmm_activation", numbers(3), numbers(2, 4), numbers(4, 3), use_gelu=True)
    beside("_add_relu.Tensor", numbers(3), numbers(3, seed=1), alpha=2)
    beside("_cholesky_solve_helper", numbers(2, 1), torch.eye(2) * 2, False)
    for p in (0, 1, 2, 3, 2.5):
        beside("linalg__powsum", numbers(2, 3), p, [1], True)
    beside("linalg__powsum", numbers(2, 3))
    beside("_transform_bias_rescale_qkv", numbers(2, 3, 24), numbers(24), 2)
    beside("flatten_dense_tensors", [numbers(2), numbers(2, 3).t()])
    beside("unflatten_dense_tensors", numbers(8), [numbers(2), numbers(2, 3)])
    beside("_index_put_impl", numbers(3), [torch.tensor([1])], torch.tensor(2.0), True)
    beside("atleast_2d.Sequence", [numbers(3), torch.tensor(1.0)])
    beside("resize_as", numbers(4), numbers(2, 2))
    beside("_dim_arange", numbers(2, 3), 1)
    for start, end in ((torch.tensor(0), torch.tensor(5)), (torch.tensor(-1.5), torch.tensor(2.0))):
        beside("linspace.Tensor_Tensor", start, end, 4, meta=False)
        beside("logspace.Tensor_Scalar", start, 3, 4, 2.0, meta=False)
    with pytest.raises(RuntimeError, match=r"but got start with 1 dimension\(s\) and end with 0 dimension\(s\)"):
        tern.linspace(tern.ones(1), tern.tensor(2.0), 3)
    for values in ([1, 2, 4], [1.0, 2.0, -4.0], [True, False]):
        assert tern.hash_tensor(tern.tensor(values)).tolist() == torch.hash_tensor(torch.tensor(values)).tolist()
    rows = numbers(3, 4).half()
    assert tern.hash_tensor(ours(rows), dim=1, keepdim=True).tolist() == torch.hash_tensor(rows, dim=1, keepdim=True).tolist()
    same(torch.bartlett_window(7, dtype=torch.float64), tern.ops.aten.bartlett_window.out(7, out=tern.empty(0, dtype=tern.float64)))


def test_groups():
    x, w, ends = numbers(8, 4), numbers(2, 4, 8), torch.tensor([3, 8], dtype=torch.int32)
    for a, b, offs in ((x, w, ends), (numbers(4, 8), numbers(8, 4, seed=1), ends), (numbers(2, 4, 4), numbers(2, 4, 8, seed=1), None), (numbers(2, 4, 8), numbers(8, 8, seed=1), ends)):
        want = torch._grouped_mm(a, b, offs=offs)
        same(want.contiguous(), tern._grouped_mm(ours(a), ours(b), offs=None if offs is None else ours(offs)), 1e-4)


def test_scaled_products_of_float8():
    a, b = numbers(4, 32).to(torch.float8_e4m3fn), numbers(32, 16, seed=1).to(torch.float8_e4m3fn)
    mine = [tern.from_dlpack(t.float()).to(tern.float8_e4m3fn) for t in (a, b)]
    for left, right in ((torch.tensor(2.0), torch.tensor(0.5)), (numbers(4, 1).abs(), numbers(1, 16).abs())):
        for bias in (None, numbers(16, seed=2)):
            want = torch._scaled_mm(a, b.t().contiguous().t(), left, right, bias=bias, out_dtype=torch.float32)
            same(want, tern._scaled_mm(*mine, ours(left), ours(right), bias=bias if bias is None else ours(bias), out_dtype=tern.float32), 1e-4)
    assert tern._scaled_mm(*mine, tern.tensor(1.0), tern.tensor(1.0)).dtype == tern.float8_e4m3fn
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        tern._scaled_mm(tern.ones(2, 2), tern.ones(2, 2), tern.tensor(1.0), tern.tensor(1.0))


def test_the_gradients_of_a_convolutions_gradient():
    x, w, y = numbers(2, 3, 5, 4), numbers(4, 3, 2, 2), numbers(2, 4, 3, 2)
    geometry = ([2, 2], [1, 0], [1, 1], False, [0, 0], 1)
    for given in ((True, True, True), (True, False, False), (False, True, True)):
        second = [t if g else None for g, t in zip(given, (numbers(2, 3, 5, 4, seed=5), numbers(4, 3, 2, 2, seed=6), numbers(4, seed=7)))]
        beside("_convolution_double_backward", *second, y, w, x, *geometry, [True, True, True], meta=False, tolerance=1e-4)


def test_random_values_like_others():
    for dtype in (torch.float32, torch.int64):
        kind = getattr(tern, str(dtype).split(".")[1])
        for name, args in (("geometric", (0.3,)), ("random", ()), ("random.to", (9,)), ("random.from", (-5, 9))):
            torch.manual_seed(4)
            tern.manual_seed(4)
            same(operator(torch, name)(torch.zeros(40, dtype=dtype), *args), operator(tern, name)(tern.zeros(40, dtype=kind), *args), 0)
    for name in ("log_normal", "cauchy"):
        torch.manual_seed(4)
        tern.manual_seed(4)
        same(operator(torch, name)(torch.zeros(40)), operator(tern, name)(tern.zeros(40)))
    for name, args in (("rand_like", ()), ("randn_like", ()), ("randint_like", (9,)), ("randint_like", (torch.tensor(9),))):
        g, mine = torch.Generator().manual_seed(6), tern.Generator().manual_seed(6)
        same(getattr(torch, name)(torch.zeros(7), *args, generator=g), getattr(tern, name)(tern.zeros(7), *convert(list(args), ours), generator=mine))


# ---- images with their channels innermost ----

LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
ORDERS = {"rows": lambda t: t, "last": lambda t: t.contiguous(memory_format=LAST[t.dim()]), "swapped": lambda t: t.transpose(0, 1).contiguous().transpose(0, 1)}
PIXEL = {torch.float32: 1e-4, torch.float64: 1e-9, torch.float16: 2e-2, torch.bfloat16: 1e-1}
# dims, transposed, groups, stride, padding, dilation, kernel
CONVOLUTIONS = [(2, False, 1, 1, 1, 1, 3), (2, False, 4, 2, 1, 1, 3), (2, True, 2, 2, 0, 1, 2), (2, False, 2, 1, 2, 2, 3), (3, False, 1, 1, 0, 1, 2), (3, True, 2, 2, 1, 1, 3)]
POOLS = ["max_pool{}d(2)", "max_pool{}d(3, 2, 1)", "avg_pool{}d(3, 1, 1)", "adaptive_avg_pool{}d(3)", "adaptive_max_pool{}d(2)"]


def same_in_memory(want, got, tolerance):
    got = torch.from_dlpack(got.detach())
    torch.testing.assert_close(got, want.detach(), rtol=tolerance, atol=tolerance * max(1, want.abs().max().item()))
    assert [s for s, n in zip(got.stride(), got.shape) if n > 1] == [s for s, n in zip(want.stride(), want.shape) if n > 1]


@pytest.mark.parametrize("dtype", PIXEL, ids=str)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_convolutions_of_images_with_channels_innermost(case, dtype):
    dims, transposed, groups, stride, padding, dilation, kernel = case
    image, taps = numbers(2, 4, *[6, 5, 7][:dims], dtype=dtype), [kernel] * dims
    filters = numbers(*((4, 8 // groups) if transposed else (8, 4 // groups)), *taps, dtype=dtype)
    rest = [stride] * dims, [padding] * dims, [dilation] * dims, transposed, [0] * dims, groups
    bias = numbers(8, dtype=dtype)
    for x in (order(image) for order in ORDERS.values()):
        for w in (ORDERS[name](filters) for name in ("rows", "last")):
            want = ATEN.convolution(x, w, bias, *rest)
            same_in_memory(want, tern.ops.aten.convolution(ours(x), ours(w), ours(bias), *rest), PIXEL[dtype])
            for g in (ORDERS[name](numbers(*want.shape, dtype=dtype)) for name in ("rows", "last")):
                gradients = ATEN.convolution_backward(g, x, w, [8], *rest, [True] * 3)
                for a, b in zip(gradients, tern.ops.aten.convolution_backward(ours(g), ours(x), ours(w), [8], *rest, [True] * 3)):
                    same_in_memory(a, b, PIXEL[dtype])


@pytest.mark.parametrize("dtype", PIXEL, ids=str)
@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("pool", POOLS)
def test_pools_of_images_with_channels_innermost(pool, dims, dtype):
    name, arguments = pool.format(dims).split("(")
    arguments = eval(f"({arguments.rstrip(')')},)")
    for order in ORDERS.values():
        x = order(numbers(2, 4, *[6, 5, 7][:dims], dtype=dtype))
        theirs, mine = x.clone().requires_grad_(), ours(x).requires_grad_()
        assert theirs.stride() == x.stride()
        try:
            want = getattr(torch.nn.functional, name)(theirs, *arguments)
        except RuntimeError as e:
            assert "not implemented for" in str(e)
            continue
        got = getattr(tern, name)(mine, *arguments)
        got = got[0] if isinstance(got, tuple) else got
        same_in_memory(want, got, PIXEL[dtype])
        for g in (ORDERS[name](numbers(*want.shape, dtype=dtype)) for name in ("rows", "last")):
            same_in_memory(*torch.autograd.grad(want, theirs, g, retain_graph=True), *tern.autograd.grad(got, [mine], [ours(g)], retain_graph=True), PIXEL[dtype])
