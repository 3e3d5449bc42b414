// Files of old PyTorch versions: every operator whose meaning changed, in an archive that says it is from
// before and from after the change. PyTorch reads the same files and says what they give.
#include "tern/jit/upgraders.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <unordered_map>

#include "tern/base/error.h"
#include "tern/jit/archive.h"
#include "tern/ops.h"
#include "tests/support/oracle_files.h"
#include "tests/support/script_values.h"

namespace tern::jit {
namespace {

constexpr const char* oracle = R"PY(
import sys, zipfile, torch
from torch import Tensor

class Old(torch.nn.Module):
    def forward(self, i: Tensor, f: Tensor, n: int, r: float):
        return i
    @torch.jit.export
    def div_tensor(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.div(i, i - 5), torch.div(i, f), i / f
    @torch.jit.export
    def div_scalar(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.div(i, n), torch.div(i, r), torch.div(f, n), i / True
    @torch.jit.export
    def div_number(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.div(i, i.max().item()), torch.div(i, f.max().item())
    @torch.jit.export
    def div_in_place(self, i: Tensor, f: Tensor, n: int, r: float):
        return f.clone().div_(i), f.clone().div_(n), f.clone().div_(r), f.clone().div_(i.max().item())
    @torch.jit.export
    def div_in_place_of_ints(self, i: Tensor, f: Tensor, n: int, r: float):
        return i.clone().div_(n)
    @torch.jit.export
    def div_tensors_in_place_of_ints(self, i: Tensor, f: Tensor, n: int, r: float):
        return i.clone().div_(i - 5)
    @torch.jit.export
    def div_out(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.div(f, i, out=torch.zeros(4)), torch.div(i, f, out=torch.zeros(4))
    @torch.jit.export
    def div_out_of_ints(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.div(i, i - 5, out=torch.zeros(4, dtype=torch.int64))
    @torch.jit.export
    def div_mode(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.div(i, f, rounding_mode="floor"), torch.div(i, n, rounding_mode="trunc"), f.clone().div_(i, rounding_mode="floor"), f.clone().div_(n, rounding_mode="trunc"), torch.div(i, f, rounding_mode="floor", out=torch.zeros(4))
    @torch.jit.export
    def full(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.full([2], n), torch.full([2], r), torch.full([2], True), torch.full([2], n, dtype=torch.int32)
    @torch.jit.export
    def full_out(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.full([2], n, out=torch.zeros(2)), torch.full([2], n, out=torch.zeros(2, dtype=torch.int64))
    @torch.jit.export
    def linspace(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.linspace(0, 1, 77), torch.linspace(0, n, n), torch.linspace(0, r, 77, dtype=torch.float64)
    @torch.jit.export
    def linspace_out(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.linspace(0, n, n, out=torch.zeros(0)), torch.linspace(0, n, 77, out=torch.zeros(0))
    @torch.jit.export
    def logspace(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.logspace(0, 1, 77), torch.logspace(0, n, n, 2.0), torch.logspace(0, r, 77, 2.0)
    @torch.jit.export
    def logspace_out(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.logspace(0, n, n, out=torch.zeros(0)), torch.logspace(0, 1, 77, out=torch.zeros(0))
    @torch.jit.export
    def gelu(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.nn.functional.gelu(f), torch.ops.aten.gelu(f)
    @torch.jit.export
    def gelu_out(self, i: Tensor, f: Tensor, n: int, r: float):
        return torch.ops.aten.gelu(f, out=torch.zeros(4))

def number(v):
    text = "%.5g" % (v + 0.0)
    return text if any(c in text for c in ".einf") else text + "."
def show(v):
    if isinstance(v, tuple):
        return "(" + ", ".join(show(x) for x in v) + ")"
    items = ", ".join(number(x) if isinstance(x, float) else repr(x) for x in v.reshape(-1).tolist())
    return f"tensor({str(v.dtype)[6:]}, {list(v.shape)}, [{items}])"

folder = sys.argv[1]
torch.jit.script(Old()).save(f"{folder}/now.pt")
now = zipfile.ZipFile(f"{folder}/now.pt")
inputs = (torch.tensor([7, -7, 3, 0]), torch.tensor([2.0, -2.0, 0.5, 4.0]), 3, 2.5)
with open(f"{folder}/results.txt", "w") as results:
    for version in range(2, 11):
        path = f"{folder}/{version}.pt"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as old:
            for name in now.namelist():
                data = now.read(name)
                if name.endswith("/version"):
                    data = f"{version}\n".encode()
                if name.endswith("code/__torch__.py") and version < 8:
                    data = data.replace(b"space(0, 1, 77", b"space(0, 1, None").replace(b", 77)", b", None)").replace(b", 77,", b", None,")
                if name.endswith("code/__torch__.py") and version == 8:
                    data = data.replace(b"logspace(0, 1, 77", b"logspace(0, 1, None")
                if not name.endswith(".debug_pkl"):
                    old.writestr(name, data)
        module = torch.jit.load(path)
        for method in module._c._method_names():
            try:
                text = show(getattr(module, method)(*[x.clone() if isinstance(x, Tensor) else x for x in inputs]))
            except RuntimeError as e:
                text = "error"
            results.write(f"{version} {method} {text}\n")
)PY";

const testing::OracleFiles& files() {
  static const testing::OracleFiles all(oracle);
  return all;
}

TEST(OldVersions, give_what_pytorch_gives) {
  NEED_FILES();
  std::ifstream results(files().dir / "results.txt");
  int loaded = 0;
  ScriptModule module;
  std::set<std::string> different;  // between the versions: the changes are seen at all
  std::unordered_map<std::string, std::string> seen;
  size_t count = 0;
  for (std::string line; std::getline(results, line); ++count) {
    size_t first = line.find(' '), second = line.find(' ', first + 1);
    int version = std::stoi(line.substr(0, first));
    std::string method = line.substr(first + 1, second - first - 1), expected = line.substr(second + 1);
    if (version != loaded) module = load(files().dir / (std::to_string(version) + ".pt"));
    loaded = version;
    std::vector<tern::Value> inputs{tensor({int64_t{7}, int64_t{-7}, int64_t{3}, int64_t{0}}),
                                    tensor({2.0f, -2.0f, 0.5f, 4.0f}), tern::Value(3), tern::Value(2.5)};
    std::string got;
    try {
      got = testing::show(module.call(method, inputs));
    } catch (const Error&) {
      got = "error";
    }
    EXPECT_TRUE(testing::same_values(got, expected)) << version << " " << method << "\n"
                                                     << got << "\n"
                                                     << expected;
    if (auto [it, fresh] = seen.emplace(method, got); !fresh && it->second != got) different.insert(method);
  }
  EXPECT_EQ(count, 9u * 18);
  EXPECT_EQ(different,
            (std::set<std::string>{"div_tensor", "div_scalar", "div_number", "div_in_place_of_ints",
                                   "div_tensors_in_place_of_ints", "div_out_of_ints", "full", "linspace",
                                   "linspace_out", "logspace", "logspace_out"}));
}

TEST(OldVersions, steps_that_are_left_out_are_a_hundred) {
  auto upgraded = [](std::string text, int version) {
    upgrade_source(text, version);
    return text;
  };
  EXPECT_EQ(upgraded("a = torch.linspace(0, f(1, 2), None, dtype=6)", 7),
            "a = torch.linspace(0, f(1, 2), 100 , dtype=6)");
  EXPECT_EQ(upgraded("a = torch.linspace(0, 1)\nb = x", 7), "a = torch.linspace(0, 1, 100)\nb = x");
  EXPECT_EQ(upgraded("torch.linspace(0, 1, dtype=6)", 7), "torch.linspace(0, 1, 100, dtype=6)");
  EXPECT_EQ(upgraded("torch.logspace(0, 1, None)", 8), "torch.logspace(0, 1, 100 )");
  EXPECT_EQ(upgraded("torch.logspace(0, 1, None)", 9), "torch.logspace(0, 1, None)");
  EXPECT_EQ(upgraded("torch.linspace(0, 1, n)", 2), "torch.linspace(0, 1, n)");
  EXPECT_EQ(upgraded("torch.linspace(0", 2), "torch.linspace(0");
}

}  // namespace
}  // namespace tern::jit
