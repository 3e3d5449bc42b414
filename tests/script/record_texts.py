#!/usr/bin/env python3
"""What PyTorch prints for the functions in texts/*.txt: their code, and their graphs as texts_test.cpp shows them.

usage: tests/script/record_texts.py [--check]

A case is "# name", the source of `f`, "---- text", what is expected, "====". With --check nothing is written; the exit status
says whether PyTorch still gives what is recorded.
"""
import difflib
import importlib.util
import pathlib
import re
import sys
import tempfile
import warnings

here = pathlib.Path(__file__).resolve().parent
prelude = "import torch\nfrom torch import Tensor\nfrom typing import *\n"


def main():
    different = []
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted((here / "texts").glob("*.txt")):
            old = path.read_text()
            new = "".join(record(folder, case) for case in re.split(r"^====\n", old, flags=re.M) if case.strip())
            if "--check" not in sys.argv:
                path.write_text(new)
            elif old != new:
                lines = difflib.unified_diff(old.splitlines(), new.splitlines(), path.name, "PyTorch now", lineterm="")
                different.append("\n".join(lines))
    print("\n".join(different), end="")
    return 1 if different else 0


def record(folder, case):
    source = re.split(r"^---- text\n", case, flags=re.M)[0]
    name = source.split("\n")[0][2:]
    file = pathlib.Path(folder, f"text_{name}.py")
    file.write_text(prelude + source)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    scripted = torch.jit.script(module.f)
    text = scripted.code.strip() + "\n\n" + plain(str(scripted.graph))
    return source + "---- text\n" + text.replace(f"__torch__.{file.stem}.", "__torch__.") + "\n====\n"


def plain(text):
    """Values are numbered in the order they come up and constants put in place of their names, for PyTorch's numbers count what
    its compiler made and threw away; places are left out."""
    names, constants, lines = {}, {}, []

    def name(match):
        return constants.get(match[0]) or names.setdefault(match[0], f"%{len(names)}")

    for line in text.rstrip().split("\n"):
        line = re.sub(r' # [^"]*:\d+:\d+$', "", line.rstrip())
        constant = re.match(r"\s*(%[\w.]+) : ([^=]+) = prim::Constant(?:\[(?:value|name)=(.*)\])?\(\)$", line)
        if constant:
            constants[constant[1]] = f"<{constant[2]} {constant[3]}>"
            continue
        for defined in re.findall(r"(%[\w.]+) : ", line):
            constants.pop(defined, None)
        lines.append(re.sub(r"%[\w.]+", name, line))
    return "\n".join(lines)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    import torch
    sys.exit(main())
