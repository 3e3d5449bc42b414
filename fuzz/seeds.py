#!/usr/bin/env python3
"""Makes the seeds of the corpora: small valid files of every format, by the programs whose formats they are.

usage: .venv/bin/python fuzz/seeds.py        writes fuzz/corpus/<target>/seed_*
What a fuzzer found beside them (fuzz/corpus/<target>/found_*) stays.
"""
import io
import json
import pathlib
import pickle
import re
import struct
import tempfile
import zipfile
from collections import OrderedDict

import numpy
import onnx
import torch
from onnx import TensorProto, helper

root = pathlib.Path(__file__).resolve().parent
stamp = (2020, 1, 1, 0, 0, 0)


def main():
    for target, seeds in {"zip": zips(), "pickle": pickles(), "json": jsons(), "npy": arrays(), "safetensors": safetensors(),
                          "graph": graphs(), "script": scripts(), "onnx": models()}.items():
        folder = root / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("seed_*"):
            old.unlink()
        for name, content in seeds.items():
            (folder / f"seed_{name}").write_bytes(content if isinstance(content, bytes) else content.encode())


def archive(members, comment=b""):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, (content, method) in members.items():
            z.writestr(zipfile.ZipInfo(name, stamp), content, method)
        z.comment = comment
    return out.getvalue()


def zips():
    stored, deflated = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
    big = io.BytesIO()
    with zipfile.ZipFile(big, "w") as z, z.open(zipfile.ZipInfo("a", stamp), "w", force_zip64=True) as member:
        member.write(b"zip64")
    return {
        "empty": archive({}),
        "stored": archive({"m/version": (b"3\n", stored), "m/data/0": (bytes(range(64)), stored)}),
        "deflated": archive({"m/a": (b"abc" * 50, deflated), "m/b": (b"", deflated)}, b"a comment"),
        "zip64": big.getvalue(),
        "prefix": b"#!/bin/sh\n" + archive({"x": (b"1", stored)}),
        "torch": torch_file({"w": torch.arange(3.0)}),
    }


def torch_file(value, **options):
    out = io.BytesIO()
    torch.save(value, out, **options)
    return out.getvalue()


def pickles():
    value = {"a": [1, 2.5, None, True], ("t", 2**70): {"s", b"bytes"}, "o": OrderedDict(x=-1), "long": "ä" * 10}
    shared = [1]
    cyclic = []
    cyclic.append(cyclic)
    seeds = {f"protocol{p}": pickle.dumps(value, p) for p in range(6)}
    seeds |= {"shared": pickle.dumps([shared, shared], 2), "cyclic": pickle.dumps(cyclic, 2),
              "complex": pickle.dumps(1 + 2j, 4), "slice": pickle.dumps(slice(1, 2), 2),
              "bytearray": pickle.dumps(bytearray(b"ab"), 5), "frozen": pickle.dumps(frozenset({1, 2}), 4)}
    with zipfile.ZipFile(io.BytesIO(torch_file({"w": torch.arange(3.0), "n": torch.nn.Parameter(torch.ones(1))}))) as z:
        seeds["tensors"] = z.read("archive/data.pkl")
    seeds["legacy"] = torch_file({"w": torch.arange(3.0)}, _use_new_zipfile_serialization=False)
    return seeds


def jsons():
    return {
        "all": json.dumps({"a": [1, -2, 3.5, 1e-300, True, False, None, "x\n\"\\\u00e4\U0001F600"], "b": {"c": {}}, "d": []}),
        "nonfinite": json.dumps([float("nan"), float("inf"), -float("inf"), 2**70, -0.0]),
        "many": json.dumps({f"key{i}": i for i in range(40)}, indent=1),
        "escapes": r'"\u0041\ud83d\ude00\b\f\/"',
        "scalar": "  12  ",
    }


def npy(array, **options):
    out = io.BytesIO()
    numpy.lib.format.write_array(out, array, **options)
    return out.getvalue()


def arrays():
    stored, deflated = io.BytesIO(), io.BytesIO()
    numpy.savez(stored, a=numpy.arange(3, dtype="i4"), b=numpy.float32(2))
    numpy.savez_compressed(deflated, a=numpy.zeros((2, 5)))
    return {
        "float": npy(numpy.arange(6, dtype="<f4").reshape(2, 3)),
        "fortran": npy(numpy.asfortranarray(numpy.arange(6, dtype=">i8").reshape(2, 3))),
        "scalar": npy(numpy.array(True)),
        "empty": npy(numpy.zeros((0, 3), "<c16")),
        "version2": npy(numpy.arange(2, dtype="u1"), version=(2, 0)),
        "version3": npy(numpy.array(["ab", "c"]), version=(3, 0)),
        "npz": stored.getvalue(),
        "npz_deflated": deflated.getvalue(),
    }


def safetensors():
    def file(header, data):
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        return struct.pack("<Q", len(text)) + text + data
    return {
        "empty": file({}, b""),
        "two": file({"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
                     "b": {"dtype": "I64", "shape": [], "data_offsets": [16, 24]}}, bytes(24)),
        "types": file({"a": {"dtype": "BF16", "shape": [1, 0], "data_offsets": [0, 0]},
                       "b": {"dtype": "BOOL", "shape": [3], "data_offsets": [0, 3]}}, b"\1\0\1"),
    }


def graphs():
    """The inputs of the text cases of tests/ir, without what is expected of them."""
    seeds = {}
    for path in sorted((root.parent / "tests/ir/cases").glob("*.txt")):
        for i, case in enumerate(path.read_text().split("\n====")):
            lines = [line for line in case.split("\n---- ")[0].split("\n") if not line.startswith("#")]
            text = "\n".join(lines).strip() + "\n"
            if "graph(" in text and len(text) < 1500:
                seeds[f"{path.stem}_{i}"] = text
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.ReLU(), torch.nn.Flatten(1))
    seeds["torch_trace"] = str(torch.jit.trace(net, torch.zeros(1, 1, 4, 4)).inlined_graph)
    return seeds


def scripts():
    """The sources that tests/script compiles, and what PyTorch writes into an archive."""
    seeds = {}
    for path in sorted((root.parent / "tests/script").glob("*.cpp")):
        for i, text in enumerate(re.findall(r'R"\(\n(.*?)\)"', path.read_text(), re.S)):
            seeds[f"{path.stem}_{i}"] = text
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout())
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "m.pt"
        torch.jit.script(module).save(path)
        with zipfile.ZipFile(path) as z:
            for name in z.namelist():
                if name.endswith(".py"):
                    seeds["archive_" + pathlib.Path(name).stem] = z.read(name)
    return seeds


def models():
    def tensor(name, *shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    def model(nodes, inputs, outputs, **more):
        graph = helper.make_graph(nodes, "g", inputs, outputs, **more)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2], [1.0, 2.0])
    raw = helper.make_tensor("r", TensorProto.INT64, [2], struct.pack("<qq", 1, -1), raw=True)
    external = onnx.TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    external.external_data.add(key="location", value="w.bin")
    external.external_data.add(key="offset", value="64")
    then = helper.make_graph([helper.make_node("Constant", [], ["t"], value=weight)], "then", [], [tensor("t", 2)])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "else", [], [tensor("e", 2)])
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    seeds = {
        "add": model([helper.make_node("Add", ["x", "w"], ["y"], name="add")], [tensor("x", "n", 2)], [tensor("y", "n", 2)],
                     initializer=[weight]),
        "reshape": model([helper.make_node("Reshape", ["x", "r"], ["y"])], [tensor("x", 2, 3)], [tensor("y", 1, 6)],
                         initializer=[raw]),
        "conv": model([helper.make_node("Conv", ["x", "k"], ["a"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
                       helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
                       helper.make_node("Flatten", ["b"], ["y"], axis=1)],
                      [tensor("x", 1, 1, 4, 4), tensor("k", 2, 1, 3, 3)], [tensor("y", 1, 8)]),
        "if": model([helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=other)], [condition, tensor("x", 2)],
                    [tensor("y", 2)]),
        "external": model([helper.make_node("Mul", ["x", "w"], ["y"])], [tensor("x", 2)], [tensor("y", 2)],
                          initializer=[external]),
        "shapes": model([helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Gather", ["s", "i"], ["g"], axis=0),
                         helper.make_node("ConstantOfShape", ["g"], ["y"], value=helper.make_tensor("v", 1, [1], [3.0]))],
                        [tensor("x", "n", 2), helper.make_tensor_value_info("i", TensorProto.INT64, [1])], [tensor("y", "n")]),
    }
    return seeds


main()
