#!/usr/bin/env python3
"""Graphs as PyTorch prints them, for tests/ir/pytorch_graphs.txt. usage: pytorch_graphs.py > pytorch_graphs.txt"""
import torch, torch.nn as nn, warnings, re
warnings.simplefilter("ignore")
from typing import *
@torch.jit.script
def loop(x, n: int):
    for i in range(n):
        if i > 2:
            x = x + i
        else:
            x = torch.relu(x)
    return x
@torch.jit.script
def lists(a: List[int], d: Dict[str, int]):
    t = 0
    for k in d.keys():
        t += d[k]
    return [x * 2 for x in a], (t, "s")
@torch.jit.script
def opt(x: Optional[torch.Tensor], f: float = 1.5):
    if x is None:
        return torch.zeros(2)
    return x * f
@torch.jit.script
def while_loop(x):
    while x.sum() < 10:
        x = x * 2
    return x
@torch.jit.script
def early(n: int, s: str) -> int:
    for i in range(n):
        if str(i) == s:
            return i
    raise ValueError("no " + s)
@torch.jit.script
def tuples(t: Tuple[int, torch.Tensor], b: bool):
    a, x = t
    return (x[a], x[:, 0:2, None], b and a > 1, -1.5, None)
m=nn.Sequential(nn.Linear(3,4),nn.ReLU(),nn.Linear(4,2)).eval()
tr=torch.jit.trace(m,torch.ones(2,3))
graphs={'loop':loop.graph,'lists':lists.graph,'opt':opt.graph,'traced':tr.graph,'inlined':tr.inlined_graph,
'while':while_loop.graph,'early':early.graph,'cell':torch.jit.trace(nn.LSTMCell(3,2),(torch.ones(1,3),(torch.ones(1,2),torch.ones(1,2)))).inlined_graph,'norm':torch.jit.trace(nn.BatchNorm1d(3).eval(),torch.ones(2,3)).graph,'scripted':torch.jit.script(m).graph,'tuple':tuples.graph,
'conv':torch.jit.trace(nn.Conv2d(1,2,3),torch.ones(1,1,5,5)).inlined_graph}

for name, graph in graphs.items():
    print(f"==== {name}\n" + re.sub(r"# \S*/", "# ", str(graph)), end="")
