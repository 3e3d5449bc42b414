"""Scripts of PyTorch, loaded, called and run on every backend: containers that grow, arguments without tensors, defaults, classes."""

import os
import pathlib
import subprocess
from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import tern

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = pathlib.Path(os.environ.get("TERN_BUILD_DIR", ROOT / "build" / "release")) / "tern"


def dict_in_a_loop(x, n: int) -> Dict[str, Tensor]:
    d: Dict[str, Tensor] = {}
    for i in range(n):
        d[str(i)] = x * i
    if n > 1:
        d["last"] = x
    return d


def sizes_in_a_branch(x, longer: bool):
    sizes = [1]
    if longer:
        sizes.append(2)
    return x.view(sizes), sizes


def rows(x):
    out: List[Tensor] = []
    for i in range(x.size(0)):
        out.append(x[i] * 2)
    return out


def replaced(x):
    out = [x]
    out.append(x + 1)
    out[0] = x * 3
    return out, {"a": x}


def alias(x):
    out = [x]
    same = out
    same.append(x + 1)
    return out


def as_made(x):
    out = [x, x + 1]
    return out, len(out), {"sum": out[0] + out[1]}


def number(n: int) -> int:
    return n * 2 + 1


def counted(n: int) -> int:
    c = 0
    for i in range(n):
        if i > 7:
            break
        c += 2
    return c


def text(x, n: int):
    s = ""
    for i in range(n):
        s += str(i)
    return s, x


CASES = [
    (dict_in_a_loop, torch.ones(2), 2),
    (sizes_in_a_branch, torch.ones(2), True),
    (sizes_in_a_branch, torch.ones(1), False),
    (rows, torch.arange(6.0).view(3, 2)),
    (rows, torch.ones(0, 2)),
    (replaced, torch.ones(2)),
    (alias, torch.ones(2)),
    (as_made, torch.ones(2)),
    (number, 3),
    (counted, 5),
    (counted, 50),
    (text, torch.ones(1), 3),
]


def plain(v):
    """Without tensors: to compare what the two libraries give."""
    if isinstance(v, (torch.Tensor, tern.Tensor)):
        return v.tolist()
    if isinstance(v, dict):
        return {k: plain(x) for k, x in v.items()}
    return type(v)(plain(x) for x in v) if isinstance(v, (list, tuple)) else v


def leaves(v):
    if isinstance(v, dict):
        v = v.values()
    return [leaf for x in v for leaf in leaves(x)] if not isinstance(v, (torch.Tensor, int, float, str)) else [plain(v)]


def to_tern(v):
    if isinstance(v, torch.Tensor):
        return tern.from_dlpack(v)
    if isinstance(v, dict):
        return {k: to_tern(x) for k, x in v.items()}
    return type(v)(to_tern(x) for x in v) if isinstance(v, (list, tuple)) else v


@pytest.mark.parametrize("function, args", [(f, args) for f, *args in CASES])
def test_what_a_script_gives(function, args, tmp_path):
    path = str(tmp_path / "f.pt")
    script = torch.jit.script(function)
    script.save(path)
    expected = script(*args)
    model = tern.load(path)
    given = [to_tern(a) for a in args]
    assert plain(model(*given)) == plain(expected)
    for backend in "native", "interpreter":
        assert plain(model.run(*given, backend=backend)) == tuple(leaves(expected)), backend


@pytest.mark.parametrize("function, args", [(f, args) for f, *args in CASES if f is not text])
def test_a_script_as_a_program(function, args, tmp_path):
    path, inputs = str(tmp_path / "f.pt"), str(tmp_path / "in.npz")
    script = torch.jit.script(function)
    script.save(path)
    np.savez(inputs, **{f"input_{i}": np.asarray(a) for i, a in enumerate(args)})
    program = str(tmp_path / "f.pt2")
    subprocess.run([COMMAND, "convert", path, program, "--input", inputs, "--check"], check=True)
    assert plain(torch.export.load(program).module()(*args)) == plain(script(*args))


def test_a_script_prints_on_every_backend(tmp_path, capfd):
    @torch.jit.script
    def f(x):
        print("rows:", x.size(0))
        return x + 1

    f.save(str(tmp_path / "f.pt"))
    model = tern.load(str(tmp_path / "f.pt"))
    for run in model, model.run, lambda x: model.run(x, backend="interpreter"):
        run(tern.ones([3]))
        assert capfd.readouterr().out == "rows: 3\n"


def test_results_that_are_no_tensors_are_printed_and_kept(tmp_path):
    torch.jit.script(number).save(str(tmp_path / "f.pt"))
    out = str(tmp_path / "out.npz")
    said = subprocess.run([COMMAND, "run", str(tmp_path / "f.pt"), "--input", "n=5", "--output", out], check=True, capture_output=True, text=True).stdout
    assert said.startswith("output_0: 11\n")
    assert np.load(out)["output_0"] == 11


def test_a_list_on_the_command_line(tmp_path):
    @torch.jit.script
    def f(x, sizes: List[int]):
        return x.view(sizes)

    f.save(str(tmp_path / "f.pt"))
    said = subprocess.run([COMMAND, "run", str(tmp_path / "f.pt"), "--shapes", "x:6", "--input", "sizes=[2, 3]"], check=True, capture_output=True, text=True).stdout
    assert "float32[2, 3]" in said


def test_arguments_as_the_script_takes_them(tmp_path):
    class Scaled(nn.Module):
        def forward(self, x, scale: float = 2.0):
            return x * scale

    def joined(parts: List[Tensor], named: Dict[str, Tensor], pair: Optional[Tuple[Tensor, Tensor]]):
        y = parts[0] + named["a"]
        return y if pair is None else y + pair[0] * pair[1]

    path = str(tmp_path / "m.pt")
    torch.jit.script(Scaled()).save(path)
    x, model = tern.ones([2]), tern.load(path)
    assert model(x).tolist() == model(x=x).tolist() == model.run(x)[0].tolist() == [2.0, 2.0]
    assert model(x, scale=3.0).tolist() == model(x, 3.0).tolist() == model.run(x, 3.0)[0].tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="forward"):
        model(x, 1.0, 2.0)

    torch.jit.script(joined).save(path)
    model = tern.load(path)
    assert model([x], {"a": x}, None).tolist() == [2.0, 2.0]
    assert model([x], {"a": x}, (x, x)).tolist() == model.run([x], {"a": x}, (x, x))[0].tolist() == [3.0, 3.0]


def test_a_module_that_holds_an_object(tmp_path):
    @torch.jit.script
    class Config:
        def __init__(self, k: int):
            self.k = k

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = Config(3)

        def forward(self, x):
            return x * self.config.k

    path = str(tmp_path / "m.pt")
    torch.jit.script(Net()).save(path)
    model, x = tern.load(path), tern.ones([2])
    assert model(x).tolist() == model.run(x)[0].tolist() == [3.0, 3.0]
    tern.save(model, path)
    assert torch.jit.load(path)(torch.ones(2)).tolist() == [3.0, 3.0]


def test_a_script_stays_one_when_it_is_saved(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.drop = nn.Dropout(0.5)
            self.same = nn.Identity()

        def forward(self, x):
            return self.same(self.drop(x))

        @torch.jit.export
        def other(self, x):
            return x + 1

    path = str(tmp_path / "m.pt")
    torch.jit.script(Net()).save(path)
    tern.save(tern.load(path), path)
    back = torch.jit.load(path)
    assert back.training and back.other(torch.ones(1)).tolist() == [2.0]
    assert [name for name, _ in back.named_children()] == ["drop", "same"]
    assert back.eval()(torch.ones(3)).tolist() == [1.0, 1.0, 1.0]


class Cast(nn.Module):
    """What torch.autocast casts in a script: every kind of operator that its list knows, and some that it does not."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.conv = nn.Conv2d(1, 2, 3, bias=False)  # PyTorch leaves a bias as it is and then refuses it

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
            image = self.conv(y.view(1, 1, 4, 4))
            added = y + y
            exp = torch.exp(y)
            soft = torch.softmax(y, 1), torch.log_softmax(y, 1), torch.log_softmax(y, 1, dtype=torch.float64)
            total = y.sum(), torch.sum(y, 1), y.cumsum(0)
            normed = nn.functional.layer_norm(y, [4])
            relu, joined, einsum = torch.relu(y), torch.cat([x, x]), torch.einsum("ij,jk->ik", [x, x])
            in_place = y.clone().mul_(2)
            with torch.autocast("cpu", enabled=False):
                plain = self.linear(x)
            again = x @ x
            doubles = x.double() @ x.double()
        return [y, image, added, exp, *soft, *total, normed, relu, joined, einsum, in_place, plain, again, doubles, self.linear(x)]


class CastTo(nn.Module):
    """A scope without a dtype, one of another device, and one that an exception ends."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, fail: bool = False):
        with torch.autocast("cpu"):
            y = self.linear(x)
            if fail:
                raise ValueError("in the scope")
        with torch.autocast("cuda"):
            z = self.linear(x)
        with torch.cpu.amp.autocast():
            w = self.linear(x)
        return [y, z, w]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("made", [Cast, CastTo])
def test_autocast_in_a_script(made, tmp_path):
    torch.manual_seed(0)
    path, again = str(tmp_path / "m.pt"), str(tmp_path / "again.pt")
    torch.jit.script(made()).save(path)
    x = torch.randn(4, 4)
    expected = torch.jit.load(path)(x)
    model = tern.load(path)
    for got in (model(to_tern(x)), model.run(to_tern(x), backend="native"), model.run(to_tern(x), backend="interpreter")):
        assert [str(t.dtype).split(".")[-1] for t in got] == [str(t.dtype).split(".")[-1] for t in expected]
        for ours, theirs in zip(got, expected):
            torch.testing.assert_close(torch.tensor(ours.detach().tolist(), dtype=theirs.dtype), theirs.detach(), rtol=1e-2, atol=1e-2)
    tern.save(model, again)
    for ours, theirs in zip(torch.jit.load(again)(x), expected):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs)


@pytest.mark.filterwarnings("ignore")
def test_a_cast_ends_with_an_exception(tmp_path):
    path = str(tmp_path / "m.pt")
    torch.jit.script(CastTo()).save(path)
    model, x = tern.load(path), to_tern(torch.randn(4, 4))
    with pytest.raises(Exception, match="in the scope"):
        model(x, True)
    assert (x @ x).dtype == tern.float32


def test_interpolate_as_old_files_call_it(tmp_path):
    old, path, again = torch.jit.ScriptModule(), str(tmp_path / "old.pt"), str(tmp_path / "again.pt")
    calls = [
        "__interpolate(x, None, 2.0)",
        "__interpolate(x, None, [2.0, 1.0], 'nearest', None, None, False)",
        "__interpolate(x, [3, 5], None, 'bilinear', False)",
        "__interpolate(x, 3, None, 'bicubic', True, None, False)",
        "__interpolate(x, None, 1.5, 'bilinear', False, True)",
        "__upsample(x, 4)",
        "__upsample(x, [4, 6], None, 'bilinear', True)",
        "__upsample_bilinear(x, [4, 4])",
        "__upsample_bilinear(x, None, 2)",
        "__upsample_nearest(x, None, 2)",
    ]
    old.define("def forward(self, x):\n    return [" + ", ".join("torch.ops.aten." + c for c in calls) + "]\n")
    old.save(path)
    model, x = tern.load(path), torch.rand(1, 2, 3, 3)
    assert model.code == old.code
    for got in (model(to_tern(x)), model.run(to_tern(x))):
        for ours, theirs in zip(got, old(x), strict=True):
            torch.testing.assert_close(torch.tensor(ours.tolist()), theirs)
    tern.save(model, again)
    assert torch.jit.load(again).code == old.code


def always_a_tensor(x: Tensor):
    a: Any = x
    if isinstance(a, Tensor):
        a = a + 1
        return a * 2
    return x


def test_what_is_always_of_a_type_is_not_asked(tmp_path):
    path = str(tmp_path / "f.pt")
    torch.jit.script(always_a_tensor).save(path)
    assert tern.load(path).code == torch.jit.load(path).code


class Point(NamedTuple):
    x: Tensor
    y: Optional[int] = 3


class Segment(NamedTuple):
    begin: Point
    others: List[Point]


def named_results(x) -> Tuple[Segment, Dict[str, Optional[Point]], List[Tuple[int, Point]]]:
    p = Point(x)
    q = Point(x + 1, None)
    nothing: Optional[Point] = None
    return Segment(p, [q, p]), {"p": p, "none": nothing}, [(1, q)]


def test_named_tuples_keep_their_names(tmp_path):
    path = str(tmp_path / "f.pt")
    torch.jit.script(named_results).save(path)
    x = torch.ones(2)
    expected = torch.jit.load(path)(x)
    got = tern.load(path)(to_tern(x))

    def same(ours, theirs):
        if isinstance(theirs, Tensor):
            return ours.tolist() == theirs.tolist()
        if isinstance(theirs, dict):
            return list(ours) == list(theirs) and all(same(ours[k], theirs[k]) for k in theirs)
        if isinstance(theirs, (list, tuple)):
            names = [getattr(type(v), "_fields", None) for v in (ours, theirs)]
            return names[0] == names[1] and type(ours).__name__ == type(theirs).__name__ and all(map(same, ours, theirs)) and len(ours) == len(theirs)
        return ours == theirs

    assert same(got, expected)
    assert got[0].others[1].y == 3 and type(got[0].begin) is type(got[2][0][1])


def test_gradients_in_a_script_are_written_as_pytorch_writes_them(tmp_path):
    @torch.jit.script
    def f(x):
        x = x.detach().requires_grad_()
        y = (x * x).sum()
        torch.autograd.backward([y * 2])
        g = torch.autograd.grad([(x * x).sum()], [x], create_graph=True)[0]
        (x * 3).sum().backward()
        assert g is not None
        return g

    path, again = str(tmp_path / "f.pt"), str(tmp_path / "again.pt")
    f.save(path)
    model = tern.load(path)
    assert model.code == torch.jit.load(path).code
    tern.save(model, again)
    assert torch.equal(torch.jit.load(again)(torch.ones(2)), f(torch.ones(2)))
    for backend in ("native", "interpreter", "reference"):
        (got,) = model.run(to_tern(torch.tensor([1.0, 3.0])), backend=backend)
        assert got.tolist() == [2.0, 6.0] and not got.requires_grad


def of_many_types(v: Union[int, Tensor, List[str], None, str, bool, Dict[str, int], Tuple[int, float], List[int]]) -> str:
    if v is None:
        return "none"
    if isinstance(v, int):
        return "int"
    elif isinstance(v, Tensor):
        return "tensor"
    elif isinstance(v, List[str]):
        return "strings"
    else:
        return "another"


def test_unions_are_written_in_the_order_of_pytorch(tmp_path):
    path = str(tmp_path / "f.pt")
    torch.jit.script(of_many_types).save(path)
    model, expected = tern.load(path), torch.jit.load(path)
    assert model.code == expected.code
    for v in (3, None, ["a"], "a", torch.ones(1)):
        assert model(to_tern(v)) == expected(v)
