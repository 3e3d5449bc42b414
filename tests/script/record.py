#!/usr/bin/env python3
"""What PyTorch makes of the scripts in cases/*.txt, written beside them as cases/*.expected.

usage: tests/script/record.py [--check] [TOPIC...]

A case is "#### name", the source, then lines ">>> f(...)": what is called. "name = " results are Python's repr with tensors as
tensor(dtype, shape, values). `>>> f` alone only compiles. Errors are "! LINE: first line of the reason" for what does not
compile, "!! last line" for what fails when run; text that was printed comes before its result, each line after "| ".
With --check nothing is written; the exit status says whether PyTorch still gives what is recorded.
"""
import importlib.util
import os
import pathlib
import re
import sys
import tempfile
import warnings

here = pathlib.Path(__file__).resolve().parent
prelude = """\
import math, warnings, torch, torch.nn as nn, torch.nn.functional as F
from enum import Enum
from typing import *
from typing import NamedTuple
from torch import Tensor
"""


def main():
    check = "--check" in sys.argv
    topics = [a for a in sys.argv[1:] if not a.startswith("--")]
    different = []
    with tempfile.TemporaryDirectory() as folder:
        sys.path.insert(0, folder)
        pathlib.Path(folder, "case_prelude.py").write_text(prelude)
        for path in sorted((here / "cases").glob("*.txt")):
            if topics and path.stem not in topics:
                continue
            text = "".join(run_case(folder, *case) for case in read_cases(path))
            expected = path.with_suffix(".expected")
            if not check:
                expected.write_text(text)
            elif not expected.exists() or expected.read_text() != text:
                different.append(difference(path.stem, expected.read_text(), text))
    print("\n".join(different), end="")
    return 1 if different else 0


def read_cases(path):
    for part in path.read_text().split("#### ")[1:]:
        name, _, rest = part.partition("\n")
        lines = rest.splitlines()
        calls = [line[4:] for line in lines if line.startswith(">>> ")]
        yield name.strip(), "\n".join(line for line in lines if not line.startswith(">>> ")), calls


def run_case(folder, name, source, calls):
    out = f"#### {name}\n"
    file = pathlib.Path(folder, f"case_{name}.py")
    file.write_text("from case_prelude import *\n" + source + "\n")
    scripted = {}
    try:
        spec = importlib.util.spec_from_file_location(f"case_{name}", file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    except Exception as e:
        return out + refused(e, file)
    names = dict(vars(module))
    for call in calls:
        for function in re.findall(r"\b[a-z]\w*", call):
            value = vars(module).get(function)
            if function in scripted or not callable(value) or getattr(value, "__module__", "") != module.__name__:
                continue
            try:
                scripted[function] = torch.jit.script(value)
            except Exception as e:
                return out + refused(e, file)
            names[function] = scripted[function]
        if re.fullmatch(r"\w+", call):
            out += "compiles\n"
            continue
        printed, result = captured(lambda: show(eval(call, names)))
        out += "".join(f"| {line}\n" for line in printed.splitlines()) + result + "\n"
    return out


def refused(error, file):
    reason = str(error).strip().split("\n")[0].rstrip(":").strip()
    line = re.findall(re.escape(str(file)) + r'", line (\d+)', str(error))
    if isinstance(error, SyntaxError):
        line = [error.lineno]
    reason = re.sub(r" \(of Python compilation unit at: \w+\)", "", reason).replace(f"__torch__.{file.stem}.", "__torch__.")
    return f"! {int(line[0]) - 1 if line else 0}: {reason}\n"


def captured(action):
    sys.stdout.flush()
    kept = os.dup(1)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        try:
            result = action()
        except Exception as e:
            lines = str(e).strip().split("\n")
            run_time = "Traceback of TorchScript" in str(e)
            result = "!! " + (lines[-1] if run_time else lines[0])
        finally:
            torch._C._jit_flush_stdout() if hasattr(torch._C, "_jit_flush_stdout") else None
            sys.stdout.flush()
            import ctypes
            ctypes.CDLL(None).fflush(None)
            os.dup2(kept, 1)
            os.close(kept)
        file.seek(0)
        return file.read().decode(), result


def show(value):
    if isinstance(value, torch.Tensor):
        items = ", ".join(number(v) for v in value.reshape(-1).tolist())
        return f"tensor({str(value.dtype)[6:]}, {list(value.shape)}, [{items}])"
    if isinstance(value, (float, complex)) and not isinstance(value, bool):
        return number(value)
    if isinstance(value, torch.Size) or isinstance(value, list):
        return "[" + ", ".join(show(v) for v in value) + "]"
    if isinstance(value, tuple):
        return "(" + ", ".join(show(v) for v in value) + (",)" if len(value) == 1 else ")")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{show(k)}: {show(v)}" for k, v in value.items()) + "}"
    return repr(value)


def number(v):
    if isinstance(v, complex):
        return f"complex({number(v.real)}, {number(v.imag)})"
    if isinstance(v, float):
        text = "%.5g" % (v + 0.0)
        return text if any(c in text for c in ".einf") else text + "."
    return repr(v)


def difference(topic, old, new):
    import difflib
    return "\n".join(difflib.unified_diff(old.splitlines(), new.splitlines(), topic + ".expected", "PyTorch now", lineterm=""))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    import torch
    sys.exit(main())
