"""Operators over lists of tensors (_foreach_*), beside PyTorch: every overload, values, what is written, gradients, refusals, files."""

import os
import subprocess

import numpy
import pytest

torch = pytest.importorskip("torch")

import tern  # noqa: E402

OURS = set(tern._tern._all_ops())
SCHEMAS = sorted((s for s in torch._C._jit_get_all_schemas() if s.name.startswith("aten::_foreach_")), key=lambda s: (s.name, s.overload_name))
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.complex64)


def name_of(schema):
    return schema.name + ("." + schema.overload_name if schema.overload_name else "")


def ours(x):
    return tern.from_dlpack(x.detach().clone()) if isinstance(x, torch.Tensor) else list(map(ours, x)) if isinstance(x, (list, tuple)) else x


def theirs(x):
    return list(map(theirs, x)) if isinstance(x, (list, tuple)) else torch.from_dlpack(x.detach().contiguous()) if isinstance(x, tern.Tensor) else x


def copy_of(x):
    return x.clone() if isinstance(x, torch.Tensor) else list(map(copy_of, x)) if isinstance(x, (list, tuple)) else x


def outcome(function, args, keywords):
    """What it gives, or the type of what it throws."""
    try:
        return theirs(function(*args, **keywords))
    except Exception as error:
        return type(error)


def same(got, want, name):
    if isinstance(want, type) or isinstance(got, type):
        assert got == want, name
    elif want is not None:
        # Some are computed by other formulas of the same function: a rounding or two apart.
        torch.testing.assert_close(got, want, equal_nan=True, msg=lambda m: f"{name}: {m}")


def members(dtype, schema):
    """Three tensors: one with gaps, one without elements, one without dimensions."""
    make = lambda *size: (torch.rand(size) * 3 + 0.5).to(dtype)  # noqa: E731
    sizes = ((2, 3), (3, 3)) if schema.name.endswith("_mm") else ((4, 6), (0, 2), ())
    tensors = [make(*s) for s in sizes]
    if schema.name.rstrip("_").endswith("_max"):
        tensors = tensors[::2]
    return [t[..., ::2] if len(sizes) == 3 and t.dim() == 2 and t.numel() else t for t in tensors]


def argument(a, dtype, schema, given):
    kind = str(a.type)
    count = len(given[0]) if given and isinstance(given[0], list) else 3
    if kind == "List[Tensor]":
        return [torch.rand(3, 2).to(dtype) for _ in range(2)] if a.name == "mat2" else members(dtype, schema)
    if kind == "List[number]":
        return [2, 1.5, 3][:count] if dtype.is_floating_point or dtype.is_complex else [2, 1, 3][:count]
    if kind == "Tensor":
        return torch.tensor([1.5, 2.0, 0.5][:count]) if a.name == "scalars" else torch.tensor(2).to(dtype)
    if kind == "number":
        return 2
    return None if "Optional" in kind else False


def empties(schema, args, keywords, dtype):
    """What out= is given: tensors without elements, of the types of the results."""
    form = schema.overload_name.removesuffix("out").removesuffix("_") or "default"
    made = outcome(getattr(getattr(torch.ops.aten, schema.name[6:]), form), copy_of(args), keywords)
    return [torch.zeros(0, dtype=dtype) for _ in args[0]] if isinstance(made, type) else [torch.zeros(0, dtype=t.dtype) for t in made]


@pytest.mark.parametrize("schema", SCHEMAS, ids=name_of)
def test_every_overload_as_pytorch(schema):
    assert name_of(schema) in OURS
    torch.manual_seed(0)
    overload = schema.overload_name or "default"
    mine, other = (getattr(getattr(package.ops.aten, schema.name[6:]), overload) for package in (tern, torch))
    ran = 0
    for dtype in DTYPES:
        args, keywords = [], {}
        for a in schema.arguments:
            if a.name == "out":
                keywords["out"] = empties(schema, args, keywords, dtype)
            elif a.kwarg_only:
                keywords[a.name] = argument(a, dtype, schema, args)
            else:
                args.append(argument(a, dtype, schema, args))
        theirs_of = copy_of(args), {k: copy_of(v) for k, v in keywords.items()}
        ours_of = ours(args), {k: ours(v) for k, v in keywords.items()}
        want = outcome(other, *theirs_of)
        same(outcome(mine, *ours_of), want, (name_of(schema), dtype))
        if not isinstance(want, type):
            ran += 1
            same(theirs(list(ours_of[0])), list(theirs_of[0]), (name_of(schema), dtype, "arguments"))
            same(theirs(ours_of[1].get("out", [])), theirs_of[1].get("out", []), (name_of(schema), dtype, "out"))
    assert ran


def test_lists_that_do_not_fit():
    a = [torch.ones(2), torch.ones(3)]
    for name, args in {
        "_foreach_add.Scalar": ([], 1),
        "_foreach_abs_": ([],),
        "_foreach_add.List": (a, a[:1]),
        "_foreach_add.ScalarList": (a, [1.0, 2.0, 3.0]),
        "_foreach_add.Tensor": (a, torch.ones(2)),
        "_foreach_div.Tensor": (a, torch.ones(1)),
        "_foreach_addcmul.Tensor": (a, a, a, torch.ones(3)),
        "_foreach_addcdiv.Tensor": (a, a, a, torch.ones(2, 1)),
        "_foreach_addcmul.Scalar": (a, a[:1], a, 1),
        "_foreach_lerp.ScalarList": (a, a, [1.0]),
        "_foreach_pow.ScalarAndTensor": (2, []),
        "_foreach_copy_": (a, a[:1]),
        "_foreach_max": ([torch.ones(0)],),
        "_foreach_norm.Scalar": ([torch.ones(0)], float("inf")),
    }.items():
        name, _, overload = name.partition(".")
        with pytest.raises(RuntimeError) as refused:
            getattr(getattr(torch.ops.aten, name), overload or "default")(*args)
        with pytest.raises(RuntimeError) as got:
            getattr(getattr(tern.ops.aten, name), overload or "default")(*ours(args))
        assert str(got.value).rstrip(".") == str(refused.value).rstrip("."), name


def test_members_have_gradients():
    for package in (torch, tern):
        x, y = (package.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        total = sum(t.sum() for t in package._foreach_mul([x, y], [x * 3, y]))
        x_grad, y_grad = package.autograd.grad(total, (x, y), create_graph=True)
        assert x_grad.tolist() == [6, 12] and y_grad.tolist() == [2, 4]
        assert package.autograd.grad(x_grad.sum(), x)[0].tolist() == [6, 6]
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            package._foreach_add_([x], 1)


class Step(torch.nn.Module):
    """Two tensors as an optimiser moves them."""

    def forward(self, a, b):
        c, d = torch._foreach_mul([a, b], 2.0)
        torch._foreach_addcdiv_([c, d], [a, b], [b, a], 0.5)
        torch._foreach_lerp_([c, d], [a, b], 0.1)
        return c + d, *torch._foreach_norm([c, d])


def test_a_program_with_lists_of_pytorchs_runs(tmp_path):
    a, b = torch.rand(3) + 1, torch.rand(3) + 1
    torch.export.save(torch.export.export(Step(), (a, b)), tmp_path / "step.pt2")
    numpy.savez(tmp_path / "in.npz", a=a.numpy(), b=b.numpy())
    command = os.path.join(os.environ["TERN_BUILD_DIR"], "tern")
    want = Step()(a, b)
    for extra in ((), ("--backend", "interpreter")):
        subprocess.run([command, "run", tmp_path / "step.pt2", "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", *extra], check=True)
        got = list(numpy.load(tmp_path / "out.npz").values())
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(torch.from_numpy(g), w)
    # Core ATen has no lists: members one by one.
    subprocess.run([command, "convert", tmp_path / "step.pt2", tmp_path / "core.pt2", "--core"], check=True)
    program = torch.export.load(tmp_path / "core.pt2")
    assert not any("foreach" in str(n.target) for n in program.graph.nodes)
    for g, w in zip(program.module()(a, b), want, strict=True):
        torch.testing.assert_close(g, w)
