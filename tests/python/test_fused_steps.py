"""Whole steps of optimisers over lists, the check of scaled gradients, and rows between offsets, beside PyTorch."""

import itertools

import pytest
import torch

import tern

DTYPES = ["float32", "float64", "bfloat16", "float16"]
NEAR = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 2e-2, torch.float16: 2e-3}
SIZES = [(3, 4), (), (0, 2), (7,)]


def lists(names, dtype, seed=0):
    torch.manual_seed(seed)
    return {n: [torch.rand(s).to(dtype) + 0.1 for s in SIZES] for n in names}


def copied(value, to):
    if isinstance(value, torch.Tensor):
        return tern.from_dlpack(value.clone()) if to is tern else value.clone()
    return [copied(v, to) for v in value] if isinstance(value, list) else value


def check(name, tensors, options, steps=2):
    """Both run, more than once; every list afterwards is the same."""
    done = []
    for module in (torch, tern):
        given, more = {k: copied(v, module) for k, v in tensors.items()}, {k: copied(v, module) for k, v in options.items()}
        op = getattr(module.ops.aten, name)
        call = op.tensor_lr if isinstance(options.get("lr"), torch.Tensor) else op.default if module is torch else op
        for _ in range(steps):
            assert call(*given.values(), **more) is None
        done.append({k: [t if module is torch else torch.from_dlpack(t) for t in v] for k, v in given.items()})
    for key, wanted in done[0].items():
        for mine, theirs in zip(done[1][key], wanted):
            assert mine.dtype == theirs.dtype
            torch.testing.assert_close(mine, theirs, rtol=NEAR[theirs.dtype], atol=NEAR[theirs.dtype])


def scaled(options, found):
    return options | {"grad_scale": torch.tensor([4.0]), "found_inf": torch.tensor([found])}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
def test_adam(name, dtype):
    dtype = getattr(torch, dtype)
    for amsgrad, maximize, decay, lr in itertools.product([False, True], [False, True], [0.0, 0.2], [0.1, torch.tensor(0.1)]):
        t = lists(["self", "grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs"], dtype)
        if not amsgrad:
            t["max_exp_avg_sqs"] = []
        t["state_steps"] = [torch.tensor(3.0) for _ in SIZES]
        options = dict(lr=lr, beta1=0.9, beta2=0.99, weight_decay=decay, eps=1e-8, amsgrad=amsgrad, maximize=maximize)
        check(name, t, options)
        if decay:
            check(name, t, scaled(options, 0.0))
            check(name, t, scaled(options, 1.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sgd(dtype):
    dtype = getattr(torch, dtype)
    for momentum, nesterov, first, decay, lr in itertools.product([0.0, 0.9], [False, True], [False, True], [0.0, 0.2], [0.1, torch.tensor(0.1)]):
        t = lists(["self", "grads", "momentum_buffer_list"], dtype)
        if not momentum:
            t["momentum_buffer_list"] = []
        options = dict(weight_decay=decay, momentum=momentum, lr=lr, dampening=0.0 if nesterov else 0.3, nesterov=nesterov,
                       maximize=first, is_first_step=first)
        check("_fused_sgd_", t, options)
        check("_fused_sgd_", t, scaled(options, 0.0))
        check("_fused_sgd_", t, scaled(options, 1.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_adagrad(dtype):
    dtype = getattr(torch, dtype)
    for maximize, decay, lr in itertools.product([False, True], [0.0, 0.2], [0.1, torch.tensor(0.1)]):
        t = lists(["self", "grads", "state_sums"], dtype)
        t["state_steps"] = [torch.tensor(3.0) for _ in SIZES]
        options = dict(lr=lr, lr_decay=0.1, weight_decay=decay, eps=1e-10, maximize=maximize)
        check("_fused_adagrad_", t, options)
        check("_fused_adagrad_", t, scaled(options, 1.0))


def test_tensors_with_gaps():
    x = tern.ones(4)
    tern.ops.aten._fused_sgd_([x[::2]], [tern.arange(2.0) + 1], [], weight_decay=0.0, momentum=0.0, lr=0.5, dampening=0.0, nesterov=False,
                              maximize=False, is_first_step=True)
    assert x.tolist() == [0.5, 1.0, 0.0, 1.0]


def test_refused():
    one = [tern.ones(2)]
    rest = dict(lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False)
    with pytest.raises(RuntimeError, match=r"Expected max_exp_avg_sqs.empty\(\) to be true, but got false"):
        tern.ops.aten._fused_adam_(one, one, one, one, one, [tern.tensor(1.0)], **rest)
    with pytest.raises(RuntimeError, match=r"Expected grads.size\(\) == n_tensors to be true, but got false"):
        tern.ops.aten._fused_adam_(one, one + one, one, one, [], [tern.tensor(1.0)], **rest)
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        tern.ops.aten._fused_adagrad_.tensor_lr(one, one, one, [tern.tensor(1.0)], lr=tern.ones(2), lr_decay=0.1, weight_decay=0.0, eps=1e-8,
                                                maximize=False)


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("values", [[1.0, 2.0], [1.0, INF], [NAN, 1.0], []])
@pytest.mark.parametrize("before", [0.0, 1.0])
@pytest.mark.parametrize("factor", [1.0, 0.25])
def test_unscaling(values, before, factor):
    done = []
    for T in (torch, tern):
        grads = [T.tensor(values, dtype=d) for d in (T.float32, T.float64, T.float16, T.bfloat16)]
        found = T.tensor([before])
        T.ops.aten._amp_foreach_non_finite_check_and_unscale_(grads, found, T.tensor([factor]))
        done.append([found.tolist()] + [g.tolist() for g in grads])
    assert repr(done[0]) == repr(done[1])


@pytest.mark.parametrize("call", [
    "A._amp_foreach_non_finite_check_and_unscale_([T.ones(2)], T.zeros(2), T.ones(1))",
    "A._amp_foreach_non_finite_check_and_unscale_([T.ones(2)], T.zeros(1), T.ones(2))",
    "A._amp_foreach_non_finite_check_and_unscale_([T.ones(2)], T.zeros(1, dtype=T.float64), T.ones(1))",
    "A._amp_foreach_non_finite_check_and_unscale_([T.ones(2)], T.zeros(1), T.ones(1, dtype=T.float64))",
    "A._amp_foreach_non_finite_check_and_unscale_([T.ones(2, dtype=T.int64)], T.zeros(1), T.ones(1))",
    "A._jagged_to_padded_dense_forward(T.ones(5, 2), [T.tensor([[0, 2, 5]])], [4], 0.0)",
    "A._jagged_to_padded_dense_forward(T.ones(5, 2, dtype=T.complex64), [T.tensor([0, 2, 5])], [4], 0.0)",
    "A._padded_dense_to_jagged_forward(T.ones(8), [T.tensor([0, 2, 5])])",
    "A._padded_dense_to_jagged_forward(T.ones(2, 4, 2), [T.tensor([0, 2, 7])])",
    "A._padded_dense_to_jagged_forward(T.ones(2, 4, 2), [T.tensor([0, 2, 5])], 9)",
    "A._fused_rms_norm(T.ones(2, 3, dtype=T.int64), [3], None, None)",
])
def test_refused_as_pytorch_does(call):
    said = []
    for T in (torch, tern):
        with pytest.raises(Exception) as error:
            eval(call, {"T": T, "A": T.ops.aten})
        said.append((type(error.value).__name__, str(error.value).splitlines()[0]))
    assert said[0] == said[1]


@pytest.mark.parametrize("call", [f"A._jagged_to_padded_dense_forward({v}, [T.tensor({o})], [{m}], {p})"
                                  for v in ("T.arange(10.0).reshape(5, 2)", "T.arange(5)", "T.arange(10.0).reshape(5, 2).to(T.float16)",
                                            "T.arange(30.0).reshape(3, 2, 5).permute(2, 0, 1)")
                                  for o, m, p in (([0, 2, 5], 4, -1.0), ([0, 2, 5], 2, 2.5), ([0, 0, 5], 5, 0.0), ([1, 2, 3], 4, 0.0), ([0], 4, 0.0))] +
                         [f"A._padded_dense_to_jagged_forward({d}, [T.tensor([0, 2, 5])]{n})"
                          for d in ("T.arange(16.0).reshape(2, 4, 2)", "T.arange(8).reshape(2, 4)", "T.arange(16.0).reshape(2, 4, 2) + 1j",
                                    "T.arange(16.0).reshape(4, 2, 2).transpose(0, 1)")
                          for n in ("", ", 5")] +
                         [f"A._fused_rms_norm(T.arange(24.0).reshape(2, 3, 4).to(T.{d}), {n}, {w}, {e})"
                          for d in ("float32", "float64", "float16", "bfloat16") for n, w in (([4], f"T.arange(4.0).to(T.{d})"), ([3, 4], None), ([], None))
                          for e in (None, 1e-3)])
def test_values(call):
    theirs, mine = (eval(call, {"T": T, "A": T.ops.aten}) for T in (torch, tern))
    for want, got in zip(theirs, mine) if isinstance(theirs, tuple) else [(theirs, mine)]:
        got = torch.from_dlpack(got)
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want)
