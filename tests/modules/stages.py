"""One TorchScript file through Tern: read, called, differentiated, run on both engines, saved back, converted. Each stage throws what is wrong."""

import copy
import os
import pathlib
import re
import subprocess
import sys
import warnings

import numpy
import onnxruntime
import torch

import tern

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
from values import Different, NotOurs, compare, seed, tensors, to_tern, to_tern_together  # noqa: E402

COMMAND = pathlib.Path(os.environ.get("TERN_BUILD_DIR", pathlib.Path(__file__).resolve().parents[2] / "build" / "release")) / "tern"
KNOWN = (  # what is no defect, or one that stands elsewhere: a case, a stage, the reason
    (r"/(new_)?empty(_like|_strided|_permuted)?/", "", "nobody wrote this memory"),
    (r"as_strided_scatter", "gradient", "tests/conformance/known_differences.txt"),
    (r"linalg.eigh", "", "eigenvectors have any sign"),
    (r"quantized/(LinearTanhModel|ModelMultipleOps|ConvReluAddModel)", "pt2|onnx", "tern/ops/quantized/expand.cpp: results without a scale of their own differ by half a step"),
    (r"written/(static|qat)", "pt2|onnx", "the same, by its average pooling"),
    (r"written/beam_search", "pt2|onnx", "a list of lists that a loop carries has no form in a program"),
    (r"written/positions", "pt2|onnx", "the module assigns an attribute, which a program cannot"),
    (r"quantized/ModelMultipleOpsNoAvgPool/fake", "saved", "fake quantization turns the last bit of a convolution into a step"),
)
onnxruntime.set_default_logger_severity(4)


class Refused(Exception):
    """PyTorch itself does not do this."""


class NotMeant(Exception):
    """The stage says nothing about this file: there is no gradient, no tensor, no ONNX of it in any tool."""


def run_case(make, variant, wanted, folder, begin=lambda stage: None):
    """(stage, ok | fails | skipped, reason) of each stage; one of "make" where PyTorch refuses."""
    begin("make")
    try:
        file = File(make, variant, folder)
    except Exception as e:  # PyTorch's tests also ask for what it refuses
        yield "make", "skipped", f"{type(e).__name__}: {e}"[:200]
        return
    for stage in wanted:
        begin(stage)
        try:
            TABLE[stage](file)
        except (NotMeant, NotOurs) as e:
            yield stage, "skipped", str(e)
        except Exception as e:
            yield stage, "fails", f"{type(e).__name__}: " + " ".join(str(e).split())[:400]
            if stage == "load":
                return
        else:
            yield stage, "ok", ""


def known(name, stage):
    return next((reason for case, where, reason in KNOWN if re.search(case, name) and re.search(where, stage)), None)


class File:
    """A variant of a case as a file: what PyTorch saved, and what PyTorch's own reading of it gives."""

    def __init__(self, made, variant, folder):
        self.folder, self.path = folder, str(folder / "model.pt")
        clear_classes()
        module, self.args, self.kwargs = made()
        try:
            scripted(module, self.args, self.kwargs, variant).save(self.path)
            self.torch = torch.jit.load(self.path)
            self.want = self.called(self.torch)
            if variant in ("frozen", "inference"):  # a profiled graph must not be what is compared with
                self.want = self.called(torch.jit.load(self.path))
        except Exception as e:
            raise Refused(str(e)) from e
        self.model = None
        # What PyTorch cannot repeat after the same seed (memory nobody wrote) is no yardstick.
        if not same(self.want, self.called(torch.jit.load(self.path))):
            raise Refused("PyTorch does not repeat itself")

    def called(self, module, *, gradient=False):
        seed()
        args, kwargs = copy.deepcopy((self.args, self.kwargs))
        with torch.set_grad_enabled(gradient):
            return module(*args, **kwargs)

    def given(self):
        """For Tern; copies, since modules may write to what they are given."""
        args, kwargs = copy.deepcopy((self.args, self.kwargs))
        seed()
        return to_tern(args), to_tern(kwargs)


def clear_classes():
    """Between cases PyTorch forgets the classes of scripts: it counts copies of one wrongly when there are many."""
    torch.jit._recursive.concrete_type_store = torch.jit._recursive.ConcreteTypeStore()
    torch.jit._state._clear_class_state()
    torch._C._jit_clear_class_registry()


def scripted(module, args, kwargs, variant):
    if variant == "trace":
        if kwargs or isinstance(module, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
            raise Refused("already a script, or keywords")
        seed()
        return torch.jit.trace(module, tuple(copy.deepcopy(args)), check_trace=False)
    script = module if isinstance(module, (torch.jit.ScriptModule, torch.jit.ScriptFunction)) else torch.jit.script(module)
    if variant == "script":
        return script
    if isinstance(script, torch.jit.ScriptFunction) or script.training and module is not script:
        raise Refused("a function is not frozen; a module in training mode comes once more in evaluation mode")
    frozen = torch.jit.freeze(script.eval())
    return torch.jit.optimize_for_inference(frozen) if variant == "inference" else frozen


def same(a, b):
    left, right = tensors(a), tensors(b)
    return len(left) == len(right) and all(torch.equal(x, y) if x.is_quantized or not x.is_floating_point() else torch.allclose(x, y, equal_nan=True) for x, y in zip(left, right))


def load(file):
    file.model = tern.load(file.path)


def call(file):
    args, kwargs = file.given()
    compare_any(file.model(*args, **kwargs), file.want)


def native(file):
    args, kwargs = file.given()
    if kwargs:
        raise NotMeant("engines take inputs by position")
    seed()
    compare_any(list(file.model.run(*args)), list(leaves(file.want)))


def gradient(file):
    """Of the sum of the outputs, to the parameters and to the inputs."""
    module, model = torch.jit.load(file.path), tern.load(file.path)
    args, kwargs = copy.deepcopy((file.args, file.kwargs))
    wanted = [t for t in tensors((args, kwargs)) if t.is_floating_point() or t.is_complex()]
    mine_args, mine_kwargs = to_tern_together(args, kwargs)
    mine = [t for t in tern_tensors((mine_args, mine_kwargs)) if t.is_floating_point() or t.is_complex()]
    for t in wanted:
        t.requires_grad_()
    for t in mine:
        t.requires_grad_(True)
    try:
        seed()
        outputs = module(*args, **kwargs)
        loss = summed([t for t in tensors(outputs) if t.requires_grad])
        if loss is None:
            raise NotMeant("nothing to differentiate")
        loss.backward()
    except RuntimeError as e:
        raise NotMeant(str(e)) from e
    if all(t.grad is None or t.grad.layout != torch.strided for t in [*wanted, *parameters_of(module).values()]):
        raise NotMeant("no gradient, or one that is sparse")
    seed()
    summed([t for t in tern_tensors(model(*mine_args, **mine_kwargs)) if t.requires_grad]).backward()
    state = model.state_dict()
    for name, parameter in parameters_of(module).items():
        same_gradient(state[name], parameter, name)
    for number, (a, b) in enumerate(zip(mine, wanted)):
        same_gradient(a, b, f"input {number}")


def parameters_of(module):
    return dict(module.named_parameters()) if isinstance(module, torch.jit.ScriptModule) else {}


def same_gradient(mine, theirs, where):
    if theirs.grad is None:
        if mine.grad is not None and float(mine.grad.abs().sum()) != 0:
            raise Different(f"the gradient of {where}: there is none in PyTorch")
        return
    if mine.grad is None:
        if float(theirs.grad.abs().sum()) == 0:
            return
        raise Different(f"the gradient of {where}: there is none")
    compare(mine.grad, theirs.grad, loose=scale(theirs.grad) * 10, where=f"the gradient of {where}")


def summed(found):
    total = None
    for t in found:
        part = t.abs().sum() if t.is_complex() else (t * t).sum()
        total = part if total is None else total + part
    return total


def saved(file):
    path = str(file.folder / "back.pt")
    tern.save(file.model, path)
    file.back = torch.jit.load(path)
    if not same(file.want, file.called(file.back)):
        raise Different("what PyTorch reads from it gives other numbers")
    if isinstance(file.torch, torch.jit.ScriptModule):
        names = [(name, list(t.shape), t.dtype, t.requires_grad) for name, t in file.torch.state_dict(keep_vars=True).items()]
        if names != [(name, list(t.shape), t.dtype, t.requires_grad) for name, t in file.back.state_dict(keep_vars=True).items()]:
            raise Different("the state is another")


def code(file):
    """The text of every method, written by Tern and by PyTorch after it has read what Tern saved."""
    if not isinstance(file.torch, torch.jit.ScriptModule):
        raise NotMeant("no module")
    if file.model.code != file.torch.code:
        raise Different("the code is written otherwise: " + first_difference(file.model.code, file.torch.code))
    for (name, theirs), (_, back) in zip(file.torch.named_modules(), file.back.named_modules()):
        if hasattr(theirs, "forward") and theirs.code != back.code:
            raise Different(f"the code of {name or 'the module'} comes back otherwise: " + first_difference(back.code, theirs.code))


def first_difference(got, want):
    for a, b in zip(got.splitlines() + [""], want.splitlines() + [""]):
        if a != b:
            return f"{a.strip()!r}, not {b.strip()!r}"
    return "one is longer"


def pt2(file):
    path = file.folder / "model.pt2"
    converted(file, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.load(path).module(check_guards=False)
        result = file.called(program)
    compare_any(to_tern_leaves(result), list(leaves(file.want)))


def onnx(file):
    path = file.folder / "model.onnx"
    converted(file, path)
    if any(not t.is_floating_point() and t.dtype not in (torch.int64, torch.int32, torch.bool) for t in tensors((file.args, file.kwargs))):
        raise NotMeant("a dtype NumPy and ONNX Runtime do not share")
    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as e:
        if type(e).__name__ == "NotImplemented":
            raise NotMeant("ONNX Runtime has no kernel for this dtype") from e
        raise
    arrays = [t.numpy() for t in tensors((file.args, file.kwargs))]
    result = session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays)})
    want = [t for t in leaves(file.want) if isinstance(t, torch.Tensor)]
    if any(t.is_complex() for t in want):
        raise NotMeant("complex numbers are pairs")
    result = result[: len(want)]  # buffers and inputs that are written to come after the results
    compare_any([tern.from_dlpack(torch.from_numpy(numpy.ascontiguousarray(r)).reshape(r.shape)) for r in result], want, loose=10)


def converted(file, path):
    """By the command, with the inputs as examples; those that are no tensors have no place in an .npz."""
    if file.kwargs or not all(isinstance(a, torch.Tensor) and a.dtype != torch.bfloat16 and not a.is_quantized for a in file.args):
        raise NotMeant("inputs that are no tensors")
    if is_random(file):
        raise NotMeant("random")
    inputs = file.folder / "inputs.npz"
    numpy.savez(inputs, **{f"input_{i}": a.detach().numpy() for i, a in enumerate(file.args)})
    done = subprocess.run([COMMAND, "convert", file.path, path] + (["--input", inputs] if file.args else []), capture_output=True, text=True)
    if done.returncode:
        raise Different(f"convert ended with {done.returncode}: {' '.join((done.stderr.strip() or done.stdout.strip()).splitlines()[:2])}")


def is_random(file):
    seed(6)
    return not same(file.want, file.torch(*copy.deepcopy(file.args)))


def compare_any(got, want, loose=1.0):
    """Also of what conformance's samples do not hold: quantized tensors, dicts, strings."""
    got, want = leaves(got), leaves(want)
    if len(got) != len(want):
        raise Different(f"{len(got)} results, not {len(want)}")
    for number, (a, b) in enumerate(zip(got, want)):
        where = f"result {number}" if len(want) > 1 else "result"
        if isinstance(b, torch.Tensor) and b.is_quantized:
            if not isinstance(a, tern.Tensor) or not a.is_quantized:
                raise Different(f"{where}: not quantized")
            a, b = a.int_repr(), b.int_repr()
        if isinstance(b, torch.Tensor) and b.layout != torch.strided:
            raise NotMeant("a sparse result")
        if isinstance(b, (str, torch.device)):
            if str(a) != str(b):
                raise Different(f"{where}: {a}, not {b}")
        else:
            compare(a, b, loose=loose * scale(b), where=where)


def scale(value):
    """Sums of many numbers are as near as their size allows."""
    if not isinstance(value, torch.Tensor) or not value.numel() or not (value.is_floating_point() or value.is_complex()):
        return 1.0
    finite = value.detach().abs()[torch.isfinite(value.detach())]
    return max(1.0, float(finite.max())) if finite.numel() else 1.0


def leaves(value):
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def tern_tensors(value):
    return [leaf for leaf in leaves(value) if isinstance(leaf, tern.Tensor)]


def to_tern_leaves(value):
    return [to_tern(leaf) if isinstance(leaf, torch.Tensor) and not leaf.is_quantized else leaf for leaf in leaves(value)]


TABLE = {"load": load, "call": call, "gradient": gradient, "native": native, "saved": saved, "code": code, "pt2": pt2, "onnx": onnx}
