"""Every operator of tests/ops/model_operators.txt is compared with PyTorch: by OpInfo's samples (docs/conformance.md says which), by a call
here, or, where it is no function of tensors, by the test that is named."""

import copy
import pathlib
import re

import numpy
import pytest
import torch

import tern

ROOT = pathlib.Path(__file__).resolve().parents[2]


def numbers(*sizes, dtype=torch.float32, seed=0):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed)).to(dtype)


def whole(*sizes, most=5):
    return torch.arange(int(numpy.prod(sizes))).reshape(sizes) * 7 % most


x, y = numbers(3, 4), numbers(3, 4, seed=1)
image = numbers(2, 3, 6, 5)
LSTM = [numbers(8, 3), numbers(8, 2, seed=1), numbers(8), numbers(8, seed=2)]
GRU = [numbers(6, 3), numbers(6, 2, seed=1), numbers(6), numbers(6, seed=2)]
RNN = [numbers(2, 3), numbers(2, 2, seed=1), numbers(2), numbers(2, seed=2)]
steps, sizes = numbers(7, 3), torch.tensor([3, 2, 2])  # a packed batch of three sequences

# The overload's name and its arguments, keywords as a dict behind them; tensors are given as copies, and what is written into them is compared too.
CALLS = {
    "aten::_assert_scalar": [True, "a text"],
    "aten::_assert_tensor_metadata": [x, [3, 4], [4, 1], torch.float32],
    "aten::_convolution": [image, numbers(4, 3, 3, 3), numbers(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 1, False, False, True, True],
    "aten::_embedding_bag": [numbers(6, 4), whole(7), torch.tensor([0, 3, 5]), False, 1],
    "aten::_native_batch_norm_legit_no_training": [image, numbers(3), numbers(3), numbers(3), numbers(3).abs(), 0.1, 1e-5],
    "aten::_pack_padded_sequence": [numbers(3, 4, 2), torch.tensor([4, 2, 1]), True],
    "aten::_pad_packed_sequence": [steps, sizes, True, 0.5, 4],
    "aten::_reshape_from_tensor": [x, torch.tensor([2, 6])],
    "aten::_scaled_dot_product_flash_attention_for_cpu": [numbers(1, 2, 5, 4), numbers(1, 2, 5, 4, seed=1), numbers(1, 2, 5, 4, seed=2), 0.0, True],
    "aten::_shape_as_tensor": [x],
    "aten::_upsample_bicubic2d_aa.vec": [image, [3, 4], False, None],
    "aten::_upsample_lanczos2d_aa.vec": [image, [3, 4], False, None],
    "aten::_weight_norm": [numbers(4, 3), numbers(4, 1), 0],
    "aten::__and__.Tensor": [whole(5), whole(5, most=3)],
    "aten::__or__.Tensor": [whole(5), whole(5, most=3)],
    "aten::as_strided_": [numbers(12), [2, 3], [1, 2], 1],
    "aten::col2im": [numbers(1, 12, 4), [4, 4], [2, 2], [1, 1], [0, 0], [2, 2]],
    "aten::concat": [[x, y], 1],
    "aten::contiguous": [x.t()],
    "aten::copy": [x, y.double()],
    "aten::copy_": [x, y.double()],
    "aten::detach_": [x],
    "aten::div_.Scalar": [x, 3],
    "aten::div_.Tensor": [x, y],
    "aten::dropout_": [x, 0.5, False],
    "aten::fill_.Tensor": [x, torch.tensor(2.5)],
    "aten::floor_divide.Scalar": [whole(5), 2],
    "aten::fmod.Scalar": [x, 0.3],
    "aten::gru.data": [steps, sizes, numbers(1, 3, 2), GRU, True, 1, 0.0, False, False],
    "aten::gru.input": [numbers(4, 3, 3), numbers(1, 3, 2), GRU, True, 1, 0.0, False, False, False],
    "aten::hardswish_": [x * 3],
    "aten::hardtanh_": [x, -0.5, 0.7],
    "aten::index_put_": [x, [torch.tensor([0, 2]), torch.tensor([1, 3])], torch.tensor([5.0, 6.0])],
    "aten::leaky_relu_": [x, 0.2],
    "aten::lift_fresh_copy": [x],
    "aten::lstm.data": [steps, sizes, [numbers(1, 3, 2), numbers(1, 3, 2, seed=3)], LSTM, True, 1, 0.0, False, False],
    "aten::lstm.input": [numbers(4, 3, 3), [numbers(1, 3, 2), numbers(1, 3, 2, seed=3)], LSTM, True, 1, 0.0, False, False, False],
    "aten::multiply.Tensor": [x, y],
    "aten::native_dropout": [x, 0.5, False],
    "aten::ones.out": [[2, 3], {"out": numbers(2, 3)}],
    "aten::pad_sequence": [[numbers(2, 3), numbers(4, 3)], True, -1.0],
    "aten::pow.Scalar": [2, x],
    "aten::qr": [x],
    "aten::relu_": [x],
    "aten::rnn_tanh.data": [steps, sizes, numbers(1, 3, 2), RNN, True, 1, 0.0, False, False],
    "aten::scatter.value": [x, 1, torch.tensor([[0, 2], [1, 3]]), 9],
    "aten::scatter_.value": [x, 1, torch.tensor([[0, 2], [1, 3]]), 9],
    "aten::select_backward": [numbers(4), [3, 4], 0, 1],
    "aten::select_copy.int": [x, 1, 2],
    "aten::sigmoid_": [x],
    "aten::sigmoid_backward": [x, y],
    "aten::silu_": [x],
    "aten::slice_backward": [numbers(3, 2), [3, 4], 1, 0, 4, 2],
    "aten::split.sizes": [x, [1, 3], 1],
    "aten::sym_constrain_range": [3],
    "aten::sym_constrain_range_for_size": [3],
    "aten::sym_size.int": [x, 0],
    "aten::sym_storage_offset": [x[1:]],
    "aten::tanh_": [x],
    "aten::tanh_backward": [x, y],
    "aten::threshold": [x, 0.1, 20],
    "aten::threshold_": [x, 0.1, 20],
    "aten::to.dtype_layout": [x],
    "aten::type_as": [x, whole(2)],
    "aten::upsample_bilinear2d_backward": [numbers(1, 2, 4, 6), [4, 6], [1, 2, 3, 3], False],
    "aten::where.Scalar": [x > 0, 1, 2],
    "aten::where.ScalarOther": [x > 0, x, 2.0],
    "prims::add": [x, y],
    "prims::broadcast_in_dim": [numbers(3), [3, 4], [0]],
    "prims::div": [x, y],
    "prims::mul": [x, y],
    "prims::rsqrt": [x.abs() + 1],
    "prims::squeeze": [numbers(3, 1, 4), [1]],
    "prims::sub": [x, y],
    "prims::sum": [x, [1]],
    "prims::var": [x, [1], 1.0],
}
SPELLED = {  # how the list writes it
    "aten::_scaled_dot_product_flash_attention": "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::qr.*": "aten::qr",
    "aten::threshold.*": "aten::threshold",
}

# What works on numbers, lists and programs: the file that tests it, and what to look for there.
ELSEWHERE = {
    "aten::ATen": ("tests/ops/names.cpp", "aten::ATen"),
    "aten::Bool.Tensor": ("tests/script/cases/builtins.txt", "bool("),
    "aten::Float.Scalar": ("tests/script/cases/builtins.txt", "float("),
    "aten::Int.Tensor": ("tests/script/cases/builtins.txt", "int("),
    "aten::ScalarImplicit": ("tests/script/cases/builtins.txt", "number"),
    "aten::Size.*": ("tests/script/cases/builtins.txt", "torch.Size("),
    "aten::__contains__.str_list": ("tests/script/cases/containers.txt", " in "),
    "aten::__getitem__.Dict_str": ("tests/script/cases/containers.txt", "Dict[str"),
    "aten::__getitem__.t": ("tests/script/cases/containers.txt", "List[int]"),
    "aten::__is__": ("tests/script/cases/types.txt", "is None"),
    "aten::__isnot__": ("tests/script/cases/types.txt", "is not None"),
    "aten::__not__": ("tests/script/cases/expressions.txt", "not "),
    "aten::_nested_tensor_from_tensor_list": ("tests/python/test_nested.py", "_nested_tensor_from_tensor_list"),
    "aten::add.int": ("tests/script/cases/expressions.txt", " + "),
    "aten::append.t": ("tests/script/cases/containers.txt", ".append("),
    "aten::device.*": ("tests/script/cases", "torch.device("),
    "aten::dim": ("tests/script/cases", ".dim()"),
    "aten::eq.int": ("tests/script/cases/expressions.txt", "=="),
    "aten::eq.str": ("tests/script/cases", '== "'),
    "aten::floor.float": ("tests/script/cases/builtins.txt", "math.floor"),
    "aten::format": ("tests/script/cases", ".format("),
    "aten::gt.int": ("tests/script/cases/expressions.txt", " > "),
    "aten::len.t": ("tests/script/cases/containers.txt", "len("),
    "aten::list.t": ("tests/script/cases/builtins.txt", "list("),
    "aten::mul.float": ("tests/script/cases/expressions.txt", " * "),
    "aten::ne.int": ("tests/script/cases", "!="),
    "aten::numel": ("tests/script/cases", ".numel()"),
    "aten::set_.source_Storage": ("tests/ops/names.cpp", "aten::set_.source_Storage"),
    "aten::set_.source_Storage_storage_offset": ("tests/ops/names.cpp", "source_Storage_storage_offset"),
    "aten::size": ("tests/script/cases", ".size()"),
    "aten::size.int": ("tests/script/cases", ".size(0)"),
    "aten::slice.t": ("tests/script/cases/containers.txt", "[1:"),
    "aten::sub.int": ("tests/script/cases/expressions.txt", " - "),
    "aten::sym_size": ("tests/export", "sym_size"),
    "aten::tensor": ("tests/script/cases", "torch.tensor("),
    "aten::to.prim_Device": ("tests/script/cases", ".to("),
    "aten::wait": ("tests/script/cases", "jit.wait("),
    "higher_order::auto_functionalized_v2": ("tests/export", "auto_functionalized_v2"),
    "higher_order::cond": ("tests", "higher_order::cond"),
    "higher_order::map_impl": ("tests", "map_impl"),
    "higher_order::wrap_with_autocast": ("tests", "wrap_with_autocast"),
    "higher_order::wrap_with_set_grad_enabled": ("tests", "wrap_with_set_grad_enabled"),
    "operator::getitem": ("tests/export", "getitem"),
    "transformers::grouped_mm_fallback": ("tests", "grouped_mm_fallback"),
}


def names():
    lines = (ROOT / "tests/ops/model_operators.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def sampled():
    """Operators that OpInfo's samples reach, in place and with out= too."""
    found = set()
    for row in re.findall(r"^\| ([\w.:]+) \|(.*)\|$", (ROOT / "docs/conformance.md").read_text(), re.M):
        name, cells = row[0], [cell.strip() for cell in row[1].split("|")]
        base, dot, overload = name.partition(".")
        found.add(name)
        if len(cells) > 4 and cells[3]:
            found.update([f"{base}.out", f"{base}.{overload}_out"])
        if len(cells) > 4 and cells[4]:
            found.add(f"{base}_{dot}{overload}")
    return found


def test_every_operator_is_compared():
    have = sampled()
    missing = [n for n in names() if n not in have and SPELLED.get(n, n) not in CALLS and n not in ELSEWHERE]
    assert not missing


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_is_tested_elsewhere(name):
    path, text = ELSEWHERE[name]
    path = ROOT / path
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.suffix in (".txt", ".cpp", ".py") and f.name != "model_operators.txt"]
    files = [f for f in files if f != pathlib.Path(__file__).resolve()]
    assert any(text in f.read_text() for f in files)


def converted(value):
    if isinstance(value, torch.Tensor):
        if value.is_contiguous() and not value.storage_offset():
            return tern.from_numpy(value.numpy().copy())
        size = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride()))
        memory = tern.from_numpy(value.as_strided([value.storage_offset() + size], [1], 0).numpy().copy())
        return memory.as_strided(list(value.shape), list(value.stride()), value.storage_offset())
    if isinstance(value, list):
        return [converted(item) for item in value]
    if isinstance(value, dict):
        return {key: converted(item) for key, item in value.items()}
    return getattr(tern, str(value).removeprefix("torch.")) if isinstance(value, torch.dtype) else value


def called(function, arguments):
    keywords = arguments[-1] if isinstance(arguments[-1], dict) else {}
    return function(*(arguments[:-1] if keywords else arguments), **keywords)


def flat(value):
    if isinstance(value, dict):
        return flat(list(value.values()))
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def overload(module, name):
    space, _, rest = name.partition("::")
    base, _, which = rest.partition(".")
    return getattr(getattr(getattr(module.ops, space), base), which or "default")


@pytest.mark.parametrize("name", sorted(CALLS))
def test_gives_what_pytorch_gives(name):
    arguments = copy.deepcopy(CALLS[name])
    ours = [converted(a) for a in arguments]
    expected, got = called(overload(torch, name), arguments), called(overload(tern, name), ours)
    for theirs, mine in zip(flat([expected, arguments]), flat([got, ours]), strict=True):
        if isinstance(theirs, torch.Tensor):
            assert tuple(mine.shape) == tuple(theirs.shape) and str(mine.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
            numpy.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=2e-5, atol=2e-6)
        elif not isinstance(theirs, torch.dtype):
            assert mine == theirs
