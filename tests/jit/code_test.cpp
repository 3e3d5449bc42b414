// Source as PyTorch prints it: what a method's code is, here and there, text for text.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "tern/jit/archive.h"
#include "tern/script/compile.h"
#include "tests/support/oracle_files.h"
#include "tests/support/paths.h"

namespace tern::jit {
namespace {

constexpr const char* oracle = R"PY(
import sys, warnings
from enum import Enum
from typing import *
import torch, torch.nn as nn, torch.nn.functional as F
from torch import Tensor
warnings.simplefilter("ignore")

class Choice(Enum):
    A = 1
    B = 2
class Pair(NamedTuple):
    a: int
    b: Tensor

class Expressions(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.relu = nn.Linear(3, 4), nn.Linear(4, 3), nn.ReLU()
        self.count = 1
    def forward(self, x, n: int):
        y = self.fc2(self.relu(self.fc1(x)))
        z = torch.add(torch.mul(x, y), y.sum() * 2 + 1)
        y = torch.add(x.add_(1), torch.cos(torch.sin(torch.sigmoid(x * 2222222 + 1111111))))
        self.count = (n * 2 + 3 * n * n + 4 - 7 * n) + (n - 222222222 + 2 * n)
        a, b = torch.max(torch.cos(torch.sin(torch.sigmoid(x * 2222222 + 1111111))), 0)
        m = torch.conv2d(x, y, None, stride=[1, 1], padding=[0, 0], groups=x.size(0) + y.size(1) + y.size(2))
        return y, a, z, m, torch.stack([x, y, torch.cos(x), torch.sin(x), torch.tan(x)], 0), x.shape[0], -n, x.to(x.device)

class Control(nn.Module):
    def forward(self, x, n: int, o: Optional[Tensor] = None, u: Optional[int] = None):
        z = x * 2
        for i in range(n):
            z = z + i * 2
            if i > 3:
                z = z * 2
            elif i == 2 or n > 5:
                break
        while n > 2:
            n = n - 1
        q: Optional[int] = None
        if n > 1: q = 3
        if q is not None: n = n + q
        if o is None: o2 = x
        else: o2 = o
        if (n * 2 + 3 * n * n + 4 - 7 * n) > (n - 222222222 + 2 * n): z = z + 1
        assert n < 100, "too big {}".format(n)
        t: Optional[Tensor] = None
        for e in [z, x]:
            t = e
        w: Union[int, str] = 3
        if n > 3: w = "a"
        if n > 9:
            raise ValueError("a long message which has more than forty characters")
        m = -n if n > 2 and n < 5 else n
        return z, o2, t, w, m

class Containers(nn.Module):
    def forward(self, x, c: Choice, t: Tuple[int, Tensor], oo: List[Optional[int]], d: Dict[str, int], any_: Any):
        a = x.shape[0] + t[0]
        b = c.name
        if c == Choice.A: a = a + 1
        p = Pair(a, x)
        q: List[Optional[int]] = [oo[0], None]
        dd: Dict[str, Optional[int]] = {"a": None, "b": 2}
        e = {"a": 1, "b": a}
        u = t + (3,)
        w = x[torch.tensor([0]), None]
        w2 = x[x > 0]
        x[0] = 3
        y = d["a"]
        s = f"{a} a {y}"
        bb = torch.zeros([2, 3], dtype=torch.float, device=x.device)
        if isinstance(any_, (int, str)): a = 3
        k = [i * 2 for i in [1, 2]]
        return b, p, q, dd, u, w, s, bb, a, sorted([3, 1]), "a,b".split(","), w2, e, k, torch.pow(x, 2, out=x), y

def task(x):
    return x + 1
class Tasks(nn.Module):
    def forward(self, x):
        f = torch.jit.fork(task, x * 2)
        return torch.jit.wait(f) + F.dropout(F.relu(x))

class Trace(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
        self.lstm = nn.LSTM(3, 4)
    def forward(self, x):
        h = self.net(x)
        o, (a, b) = self.lstm(h[None])
        n, c = h.shape
        return o + a.softmax(-1), b, h.view(c, n).permute(1, 0)[:, ::2]

# Displays between other arguments: of operators, of methods, of tuples, and inside each other.
class Displays(nn.Module):
    def f(self, a, l: List[Tensor], k: int, m: List[int]) -> Tensor:
        return a + l[0] + k + m[0]
    def forward(self, x, y, z, n: int):
        a = torch.index_put(x, [y.long(), z.long()], z)
        b = torch.index_put(x.relu(), [None, torch.index_put(y, [x.long()], z).long()], z.relu())
        c = self.f(torch.stack([x, y]), [a.relu(), b.view([n, x.size(0)])], len([x, y]), [len([z, x])])
        d = self.f(c, [a, b], y.size(n), [n, x.size(1)])[[0, n], 1]
        e = torch.roll(torch.cat([x.relu(), y], n), [x.size(0), 2], [0, int(y.sum())])
        return (c, [d, e], x.size(n)), [(a, [b, c]), (b, [c.relu(), d])], torch.full([n, len([x])], int(x.sum()), dtype=y.dtype), [[a], [b, x.relu()]]

# Names, numbers and strings that are easily said in another way.
class Says(nn.Module):
    def forward(self, x, y, n: int, b: bool, c: complex, s: str, k: complex = 1 - 2j):
        mean, std_1 = x.mean(), x.std()
        add = torch.add(mean, std_1)
        x_0, x_1 = x * 2, x * 3
        if b is True: x_1 = x_1 + x_0
        if n > 3: mean = mean + 1
        text = "a text of more than forty characters, which a variable holds\\n"
        other = "another one of more than forty characters that isn't the \"same\""
        if b: text = other
        part = s.partition("a")
        q, r = divmod(n, 3)
        both = divmod(n, 4)
        z = torch.zeros(n, 2, dtype=x.dtype, device=y.device)
        w = torch.full((n, n + 1), 2.5, dtype=y.dtype).reshape(n + 1, -1)
        odd = y.dim() not in [2, 3]
        rest = (2 - x, b is not False, 3 / x, torch.rsub(x, y), torch.concat([x_0, x_1]), torch.multiply(x, y).absolute_())
        arange = torch.arange(2, n), torch.arange(n), torch.arange(0, n, 2)
        ends = c * (1 + 2j), [c, 3j, -1j], c - 1j, "\\a\\b\\f\\v\\x01'\\x7f\\t%"
        return text, part, q, r, both, z, w, odd, rest, arange, ends, add, mean, torch.conv2d(x, y), torch.conv2d(x, y, None, 2), F.max_pool2d(x, 2), x_1

@torch.jit.script
class Context(object):
    def __init__(self, n: int):
        self.n = n
    def __enter__(self):
        self.n += 1
        return self.n
    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        self.n -= 1
class Beyond(nn.Module):
    name: Final[str]
    def __init__(self):
        super().__init__()
        self.name = "naïve"
    def forward(self, x: str):
        t = "hé"
        long = "a text of more than forty characters which has an é in it"
        return t + x, ("hé", 3), ["hé", "a"], {"é": 1}, "hé", long, self.name
    @torch.jit.export
    def other(self): return "hé"

class Withs(nn.Module):
    def forward(self, x, n: int):
        c = Context(n)
        with c as k, Context(3):
            x = x * k
        with c:
            pass
        if n > 2:
            with torch.no_grad():
                x = x.relu() + c.n
        for i in range(n):
            with Context(i) as m:
                if m > 1: x = x + m
        return x, c.n

modules = {
    "says": torch.jit.script(Says()),
    "beyond": torch.jit.script(Beyond()),
    "withs": torch.jit.script(Withs()),
    "displays": torch.jit.script(Displays()),
    "expressions": torch.jit.script(Expressions()),
    "control": torch.jit.script(Control()),
    "containers": torch.jit.script(Containers()),
    "tasks": torch.jit.script(Tasks()),
    "trace": torch.jit.trace(Trace().eval(), torch.rand(1, 1, 4, 4)),
    "norm": torch.jit.script(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.GroupNorm(1, 2), nn.LayerNorm(4))),
    "loss": torch.jit.script(nn.CrossEntropyLoss()),
    "pool": torch.jit.script(nn.Sequential(nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2), nn.Softmax(1), nn.PReLU())),
    "up": torch.jit.script(nn.Upsample(scale_factor=2)),
    "embedding": torch.jit.script(nn.Embedding(4, 3)),
    "transposed": torch.jit.script(nn.ConvTranspose2d(1, 2, 3)),
}
for name, module in modules.items():
    module.save(f"{sys.argv[1]}/{name}.pt")
)PY";

// Writes the code of every method of every .pt of a folder into a .txt of its name in another one.
constexpr const char* print_codes = R"PY(
import pathlib, sys, torch
def codes(module, path=""):
    for method in module._c._method_names():
        yield path, method, module._c._get_method(method).code
    for name, child in module.named_children():
        yield from codes(child, f"{path}.{name}" if path else name)
for file in sorted(pathlib.Path(sys.argv[1]).glob("*.pt")):
    text = "".join(f"#### {p} {m}\n{c}\n" for p, m, c in codes(torch.jit.load(file)))
    (pathlib.Path(sys.argv[2]) / f"{file.stem}.txt").write_text(text)
)PY";

const testing::OracleFiles& files() {
  static const testing::OracleFiles all(oracle);
  return all;
}

std::string scripted() { return testing::source_dir() + "/tests/jit/scripted"; }

std::vector<std::string> archives(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".pt") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct Printed {
  std::string path, method, code;
};
std::vector<Printed> read_printed(const std::string& file) {
  std::vector<Printed> all;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("#### ")) {
      size_t space = line.find(' ', 5);
      all.push_back({line.substr(5, space - 5), line.substr(space + 1), ""});
    } else {
      all.back().code += line + "\n";
    }
  }
  return all;
}
// What PyTorch prints of the archives of a folder: by the name of the archive.
std::map<std::string, std::vector<Printed>> printed(const std::string& folder) {
  io::TemporaryDir texts;
  testing::PythonResult r = testing::run_python(testing::python_with("torch"), print_codes,
                                                "'" + folder + "' '" + texts.path() + "'");
  EXPECT_EQ(r.status, 0) << r.output;
  std::map<std::string, std::vector<Printed>> all;
  for (const std::string& path : archives(folder)) {
    std::string name = std::filesystem::path(path).stem().string();
    all[name] = read_printed(texts / (name + ".txt"));
  }
  return all;
}
std::string trimmed(std::string text) {
  while (text.ends_with("\n")) text.pop_back();
  return text;
}

// Every method of every module in the archives of a folder: printed by Tern and by PyTorch; and once more by
// PyTorch after Tern saved it.
void expect_same_code(const std::string& folder, size_t at_least) {
  std::map<std::string, std::vector<Printed>> expected = printed(folder);
  io::TemporaryDir saved;
  size_t count = 0;
  for (const std::string& path : archives(folder)) {
    std::string name = std::filesystem::path(path).stem().string();
    ScriptModule module = load(path);
    for (const Printed& p : expected[name]) {
      EXPECT_EQ(trimmed(module.submodule(p.path).code(p.method)), trimmed(p.code))
          << name << " " << p.path << "." << p.method;
      ++count;
    }
    module.save(saved / (name + ".pt"));
  }
  EXPECT_GE(count, at_least);
  std::map<std::string, std::vector<Printed>> again = printed(saved.path());
  for (const auto& [name, methods] : expected) {
    ASSERT_EQ(again[name].size(), methods.size()) << name;
    for (size_t i = 0; i < methods.size(); ++i)
      EXPECT_EQ(again[name][i].code, methods[i].code)
          << "saved by Tern: " << name << " " << methods[i].path << "." << methods[i].method;
  }
}

TEST(Code, is_what_pytorch_prints) {
  NEED_FILES();
  expect_same_code(files().dir.path(), 30);
}

TEST(Code, of_scripted_modules_is_what_pytorch_prints) {
  TERN_NEEDS_PYTHON(python, "torch");
  expect_same_code(scripted(), 170);
}

std::string code_of(const char* source) {
  return script::code_with_constants(*script::compile_function(source)).code;
}

TEST(Code, keeps_the_order_in_which_things_happen) {
  // add_ comes before what reads x after it, also when the line is split.
  EXPECT_EQ(trimmed(code_of("def f(x):\n  return torch.add(x.add_(1), "
                            "torch.cos(torch.sin(torch.sigmoid(x * 2222222 + 1111111))))\n")),
            "def f(x: Tensor) -> Tensor:\n"
            "  _0 = torch.add_(x, 1)\n"
            "  _1 = torch.add(torch.mul(x, 2222222), 1111111)\n"
            "  _2 = torch.cos(torch.sin(torch.sigmoid(_1)))\n"
            "  return torch.add(_0, _2)");
  // y is made before x is changed and used after it.
  EXPECT_EQ(trimmed(code_of("def f(x):\n  y = x + 1\n  x.add_(2)\n  return y * x\n")),
            "def f(x: Tensor) -> Tensor:\n"
            "  y = torch.add(x, 1)\n"
            "  _0 = torch.add_(x, 2)\n"
            "  return torch.mul(y, x)");
  EXPECT_EQ(trimmed(code_of("def f(x):\n  return torch.cat([x.relu(), x.add_(1)], x.size(0))\n")),
            "def f(x: Tensor) -> Tensor:\n"
            "  _0 = torch.cat([torch.relu(x), torch.add_(x, 1)], torch.size(x, 0))\n"
            "  return _0");
}

TEST(Code, makes_lists_where_pytorch_makes_them) {
  // A list that is written comes before one that the call makes of a number, and a tuple becomes a list last.
  EXPECT_EQ(trimmed(code_of("def f(x, w):\n  return torch.conv2d(x, w, stride=2, padding=[1, 1])\n")),
            "def f(x: Tensor,\n"
            "    w: Tensor) -> Tensor:\n"
            "  _0 = [1, 1]\n"
            "  return torch.conv2d(x, w, None, [2, 2], _0)");
  EXPECT_EQ(trimmed(code_of("def f(x, n: int):\n  return torch.full((n, n + 1), 2.5, dtype=x.dtype)\n")),
            "def f(x: Tensor,\n"
            "    n: int) -> Tensor:\n"
            "  _0 = torch.add(n, 1)\n"
            "  _1 = ops.prim.dtype(x)\n"
            "  return torch.full([n, _0], 2.5, dtype=_1)");
  EXPECT_EQ(trimmed(code_of("def f(x, n: int):\n  return torch.full([n, n + 1], 2.5, dtype=x.dtype)\n")),
            "def f(x: Tensor,\n"
            "    n: int) -> Tensor:\n"
            "  _0 = torch.full([n, torch.add(n, 1)], 2.5, dtype=ops.prim.dtype(x))\n"
            "  return _0");
}

TEST(Code, of_long_chains_stays_linear) {
  std::string source = "def f(x):\n  return x";
  for (int i = 0; i < 60; ++i) source += ".relu()";
  std::string text = code_of((source + "\n").c_str());
  EXPECT_LT(text.size(), 60u * 40);
  EXPECT_EQ(trimmed(script::code_with_constants(*script::compile_function(text)).code), trimmed(text))
      << "what is printed prints the same again";
}

}  // namespace
}  // namespace tern::jit
