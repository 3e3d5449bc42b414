#!/usr/bin/env python3
"""Scripted modules with control flow and state, saved by PyTorch as tests/jit/scripted/*.pt.

The modules are in models.py, language.py and library.py. Each archive carries an extra file `calls`: lines ">>> (arguments)" and what
the call gave, in order, as tests/script/record.py writes values. usage: make.py [FOLDER]; `make.py --check FOLDER` loads
every .pt of FOLDER and runs its calls again.
"""
import importlib.util
import pathlib
import sys
import warnings
import zipfile

warnings.simplefilter("ignore")
import torch

here = pathlib.Path(__file__).resolve().parent
spec = importlib.util.spec_from_file_location("record", here.parent.parent / "script" / "record.py")
record = importlib.util.module_from_spec(spec)
record.torch = torch
spec.loader.exec_module(record)


def run(module, calls):
    text = ""
    for call in calls:
        with torch.no_grad():
            text += f">>> {call}\n{record.show(module(*eval(call)))}\n"
    return text


def main():
    if sys.argv[1:2] == ["--check"]:
        return check(pathlib.Path(sys.argv[2]))
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else here)
    for part in ("models.py", "language.py", "library.py"):
        for kind, calls in cases_of(here / part).items():
            torch.manual_seed(0)
            module = torch.jit.script(kind().eval())
            name = folder / f"{kind.__name__}.pt"
            torch.jit.save(module, str(name))
            text = run(torch.jit.load(str(name)), calls)
            torch.jit.save(module, str(name), _extra_files={"calls": text})
            drop_places(name)
    return 0


def cases_of(part):
    """Its classes are this program's, whose name is part of their types' (__torch__.RnnLoop); __file__ says where their source is."""
    globals()["__file__"] = str(part)
    exec(compile(part.read_text(), str(part), "exec"), globals())
    return cases


def drop_places(path):
    """Without the records of source places, which name files of the machine that made them."""
    with zipfile.ZipFile(path) as archive:
        members = [(i.filename, archive.read(i)) for i in archive.infolist() if not i.filename.endswith(".debug_pkl")]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content)


def check(folder):
    wrong = 0
    for path in sorted(folder.glob("*.pt")):
        extra = {"calls": ""}
        module = torch.jit.load(str(path), _extra_files=extra)
        recorded = extra["calls"].decode() if isinstance(extra["calls"], bytes) else extra["calls"]
        calls = [line[4:] for line in recorded.splitlines() if line.startswith(">>> ")]
        now = run(module, calls)
        if now != recorded:
            wrong += 1
            print(f"{path.name}:\n{recorded}is now\n{now}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
