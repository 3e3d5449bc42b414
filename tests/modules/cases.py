"""What PyTorch's own test databases offer to be scripted and traced: modules, functions of nn.functional, operators and methods, quantized models; and modules as
people write them.

A case is a name and a function that gives (module or function, args, kwargs); the function raises where PyTorch itself refuses.
"""

import copy
import inspect
import pathlib
import sys

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
from samples import name_of, op_db  # noqa: E402  (it also stands in for a package that PyTorch's tests import)

from torch.testing._internal import common_quantization, jit_metaprogramming_utils  # noqa: E402
from torch.testing._internal.common_modules import module_db  # noqa: E402

from written import written_modules  # noqa: E402


def cases(kinds=("module", "old", "functional", "operator", "method", "traced", "quantized", "written"), samples=3):
    for kind in kinds:
        yield from SOURCES[kind](samples)


def from_module_db(samples):
    """Every module of torch.nn with its inputs, some of them twice: in training and in evaluation mode."""
    for info in module_db:
        for training in (True, False) if info.train_and_eval_differ else (False,):
            inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=training)
            for number, given in enumerate(inputs):
                yield f"module/{info.name}/{number}{'/train' if training else ''}", lambda info=info, training=training, given=given: made(info, training, given)


def made(info, training, given):
    torch.manual_seed(0)
    made_with, called_with = given.constructor_input, given.forward_input
    module = info.module_cls(*made_with.args, **made_with.kwargs).train(training)
    if called_with is None:
        raise NotImplementedError("no input")
    args, kwargs = list(called_with.args), dict(called_with.kwargs)
    if isinstance(module, nn.RNNBase):  # its forward is overloaded: only a module around it can be scripted
        return Recurrent(module, args[1:]).train(training), args[:1] + [p for a in args[1:] for p in (a if isinstance(a, tuple) else [a])], kwargs
    return module, args, kwargs


class Recurrent(nn.Module):
    """A recurrent network whose state is given as tensors, or not at all."""

    def __init__(self, inner, state):
        super().__init__()
        self.inner = inner
        self.forward = {0: self.alone, 1: self.with_state, 2: self.with_pair}[len(state[0]) if state and isinstance(state[0], tuple) else len(state)]

    def alone(self, x):
        return self.inner(x)

    def with_state(self, x, h):
        return self.inner(x, h)

    def with_pair(self, x, h, c):
        return self.inner(x, (h, c))


def from_old_tests(samples):
    """The table of test_jit: a module behind a script method that gives it constants."""
    utils = jit_metaprogramming_utils
    for given in utils.get_all_nn_module_tests():
        def make(given=given):
            torch.manual_seed(0)
            compiled = utils.try_get_nn_module_compiled_mod_and_inputs(**given)
            if compiled is None:
                raise NotImplementedError("left out by PyTorch")
            return compiled[0].double(), [detached(a) for a in compiled[1]], {}  # as its inputs are

        yield "old/" + utils.get_nn_mod_test_name(**given).removeprefix("test_nn_"), make


def from_functional_tests(samples):
    utils = jit_metaprogramming_utils
    for number, given in enumerate(utils.get_nn_functional_tests()):
        def make(given=given):
            torch.manual_seed(0)
            function, inputs = utils.get_nn_functional_compiled_fn_and_inputs(*given)
            return function, [detached(a) for a in inputs], {}

        yield f"functional/{number}/{given[0]}{'/' + given[3] if len(given) > 3 else ''}", make


def from_op_db(kind, samples):
    """Operators as functions of torch and nn.functional, or as methods, in a script of one line."""
    for info in op_db:
        function = f"torch.{info.name}"
        if kind == "method":
            if not hasattr(torch.Tensor, info.name) or not callable(getattr(torch.Tensor, info.name)):
                continue
        elif not resolves(function):
            continue
        dtypes = sorted(info.supported_dtypes("cpu"), key=lambda dtype: (dtype != torch.float32, str(dtype)))
        if not dtypes:
            continue
        dtype = dtypes[0]
        for number in range(samples):
            yield f"{kind}/{name_of(info)}/{number}", lambda info=info, dtype=dtype, number=number: line(info, kind, dtype, number)


def traced_operators(samples):
    """The same samples by way of the tracer: functions that take their tensors only."""
    for info in op_db:
        if dtypes := sorted(info.supported_dtypes("cpu"), key=lambda dtype: (dtype != torch.float32, str(dtype))):
            for number in range(samples):
                yield f"traced/{name_of(info)}/{number}", lambda info=info, dtype=dtypes[0], number=number: of_tensors(info, dtype, number)


def of_tensors(info, dtype, number):
    sample = sample_of(info, dtype, number)
    values, spec = tree_flatten(((sample.input, *sample.args), sample.kwargs))
    places = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]

    def function(*tensors):
        given = list(values)
        for i, t in zip(places, tensors):
            given[i] = t
        args, kwargs = tree_unflatten(given, spec)
        return info.op(*args, **kwargs)

    return function, [detached(values[i]) for i in places], {}


def resolves(path):
    at = torch
    for part in path.split(".")[1:]:
        at = getattr(at, part, None)
    return callable(at)


def sample_of(info, dtype, number):
    """The first ones, and some from farther on."""
    torch.manual_seed(0)
    found = list(info.sample_inputs("cpu", dtype))
    if number >= len(found):
        raise NotImplementedError("no such sample")
    return found[number * max(1, len(found) // 3) % len(found)]


def line(info, kind, dtype, number):
    sample = sample_of(info, dtype, number)
    formals, actuals, tensors = [], [], []

    def taken(value):
        """How the value is written in the call: tensors and lists of them are arguments, everything else stands there."""
        if isinstance(value, torch.Tensor) or isinstance(value, (list, tuple)) and value and all(isinstance(v, torch.Tensor) for v in value):
            name = f"i{len(formals)}"
            formals.append(name if isinstance(value, torch.Tensor) else f"{name}: List[torch.Tensor]")
            tensors.append(detached(value) if isinstance(value, torch.Tensor) else [detached(v) for v in value])
            return name
        if isinstance(value, float) and value in (float("inf"), -float("inf")):
            return f"float('{value}')"
        if isinstance(value, (torch.dtype, torch.device, torch.layout, torch.memory_format, int, float, complex, str, type(None))):
            return repr(str(value)) if isinstance(value, torch.device) else repr(value)
        if isinstance(value, (list, tuple)):
            return repr(list(value))
        raise NotImplementedError(f"an argument that has no literal: {type(value).__name__}")

    positional = [taken(a) for a in (sample.input, *sample.args)]
    keywords = [f"{k}={taken(v)}" for k, v in sample.kwargs.items()]
    if kind == "method":
        call = f"{positional[0]}.{info.name}({', '.join(positional[1:] + keywords)})"
    else:
        call = f"torch.{info.name}({', '.join(positional + keywords)})"
    unit = torch.jit.CompilationUnit(f"def the_method({', '.join(formals)}):\n    return {call}\n")
    return unit.the_method, tensors, {}


def quantized_models(samples):
    """The models of PyTorch's quantization tests: as they are, and as the three ways of quantizing leave them."""
    for name, cls in inspect.getmembers(common_quantization, inspect.isclass):
        if not issubclass(cls, nn.Module) or cls.__module__ != common_quantization.__name__:
            continue
        for way in ("float", "static", "dynamic", "qat", "fx", "fx_dynamic", "fake"):
            yield f"quantized/{name}/{way}", lambda cls=cls, way=way: quantized(cls, way)


def quantized(cls, way):
    import torch.ao.quantization as q
    from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx, prepare_qat_fx

    torch.manual_seed(0)
    torch.backends.quantized.engine = "fbgemm"
    required = [p for n, p in inspect.signature(cls.__init__).parameters.items() if n != "self" and p.default is p.empty and p.kind == p.POSITIONAL_OR_KEYWORD]
    if required and [p.name for p in required] != ["qengine"]:
        raise NotImplementedError("takes arguments")
    model = cls("fbgemm") if required else cls()
    args = list(model.get_example_inputs()) if hasattr(model, "get_example_inputs") else inputs_for(model)
    if way == "float":
        return model.eval(), args, {}
    if way in ("static", "fake", "qat"):
        if not any(isinstance(m, (q.QuantStub, q.QuantWrapper)) for m in model.modules()):
            model = q.QuantWrapper(model)
        training = way != "static"
        if not hasattr(model, "qconfig") or model.qconfig is None:
            model.qconfig = q.get_default_qat_qconfig("fbgemm") if training else q.get_default_qconfig("fbgemm")
        model = (q.prepare_qat(model.train()) if training else q.prepare(model.eval()))
        model(*args)
        return (model if way == "fake" else q.convert(model.eval())), args, {}
    if way == "dynamic":
        quantizable = {nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell, nn.EmbeddingBag}
        return q.quantize_dynamic(model.eval(), quantizable & {type(m) for m in model.modules()} or {nn.Linear}), args, {}
    mapping = q.get_default_qconfig_mapping("fbgemm") if way == "fx" else q.QConfigMapping().set_global(q.default_dynamic_qconfig)
    prepared = prepare_fx(model.eval(), mapping, tuple(args))
    prepared(*args)
    return convert_fx(prepared), args, {}


def inputs_for(model):
    """By trial, as the models of the tests without example inputs take one tensor."""
    for shape in [(2, 5), (2, 3, 8, 8), (1, 3, 10, 10), (1, 1, 10, 10), (4, 2), (2, 10), (5, 5), (1, 4), (2, 3, 5), (1, 2, 5, 5), (10, 12), (2, 3, 4, 4, 4)]:
        x = torch.rand(shape)
        for kinds in (x, (x * 4).long()):
            try:
                copy.deepcopy(model).eval()(kinds)
                return [kinds]
            except Exception:
                continue
    raise NotImplementedError("no input fits")


def detached(value):
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


SOURCES = {
    "module": from_module_db,
    "old": from_old_tests,
    "functional": from_functional_tests,
    "operator": lambda samples: from_op_db("operator", samples),
    "method": lambda samples: from_op_db("method", samples),
    "traced": traced_operators,
    "quantized": quantized_models,
    "written": lambda samples: written_modules(),
}
