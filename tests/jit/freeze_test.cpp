// Freezing against torch.jit.freeze: the same operators are left, the same attributes stay, the results are
// equal.
#include "tern/jit/freeze.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tern/io/file.h"
#include "tern/ir/text.h"
#include "tern/jit/archive.h"
#include "tern/ops.h"
#include "tern/script/compile.h"
#include "tests/support/file_check.h"
#include "tests/support/oracle_files.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"
#include "tests/support/script_values.h"

namespace tern::jit {
namespace {

using testing::FileCheck;
using V = tern::Value;

// Modules, what they give, and what PyTorch leaves of them.
constexpr const char* make_files = R"PY(
import sys, torch, torch.nn as nn, torch.nn.functional as F, warnings
from typing import List, Dict, Tuple
warnings.simplefilter("ignore")
torch.manual_seed(7)
out = sys.argv[1]

def bn(m):
    for k in m.modules():
        if isinstance(k, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            k.running_mean.uniform_(-1, 1); k.running_var.uniform_(0.5, 2)
            if k.affine:
                nn.init.uniform_(k.weight, 0.5, 2); nn.init.uniform_(k.bias)
    return m

class ConvBn(nn.Module):
    def __init__(s):
        super().__init__()
        s.conv = nn.Conv2d(3, 4, 3); s.bn = nn.BatchNorm2d(4); s.relu = nn.ReLU(inplace=True)
        s.conv2 = nn.Conv2d(4, 4, 1, bias=False); s.bn2 = nn.BatchNorm2d(4, affine=False)
    def forward(s, x):
        return s.relu(s.bn2(s.conv2(s.relu(s.bn(s.conv(x))))))
class Ranks(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Conv1d(2, 3, 3, padding=1, groups=1); s.abn = nn.BatchNorm1d(3)
        s.b = nn.Conv3d(1, 2, (1, 3, 3), padding="same"); s.bbn = nn.BatchNorm3d(2)
    def forward(s, x, y):
        return s.abn(s.a(x)).sum() + s.bbn(s.b(y)).sum()
class Pointwise(nn.Module):
    def __init__(s):
        super().__init__()
        s.conv = nn.Conv2d(3, 4, 3); s.scale = nn.Parameter(torch.rand(4, 1, 1)); s.shift = nn.Parameter(torch.rand(4, 1, 1))
    def forward(s, x):
        return (((s.conv(x) + s.shift) * s.scale) - 1.5) / 4.0
class Twice(nn.Module):   # the convolution's result is used twice: nothing may be folded into it
    def __init__(s):
        super().__init__()
        s.conv = nn.Conv2d(3, 4, 3); s.bn = nn.BatchNorm2d(4)
    def forward(s, x):
        y = s.conv(x)
        return s.bn(y) + y
class Dropouts(nn.Module):
    def __init__(s):
        super().__init__()
        s.fc = nn.Linear(4, 4); s.d = nn.Dropout(0.3); s.d2 = nn.Dropout2d(0.3); s.a = nn.AlphaDropout(0.2)
    def forward(s, x):
        y = s.d(s.fc(x))
        z = s.d2(y.view(2, 2, 2, 2))
        if s.training:
            z = z * 100
        return s.a(z) + F.dropout(z, 0.5, s.training)
class State(nn.Module):   # what is written to stays an attribute
    seen: List[int]
    names: Dict[str, int]
    def __init__(s):
        super().__init__()
        s.fc = nn.Linear(3, 3); s.count = 0; s.register_buffer("total", torch.zeros(3)); s.step = 2
        s.seen = []
        s.names = {"a": 1}
    def forward(s, x):
        y = s.fc(x)
        s.count += s.step
        s.total += y.sum(0)
        s.seen.append(s.count)
        return y + s.total + s.count + len(s.seen) + s.names["a"]
class Aliased(nn.Module):   # written through a view of it
    def __init__(s):
        super().__init__()
        s.register_buffer("table", torch.zeros(2, 3)); s.register_buffer("other", torch.ones(3))
    def forward(s, x):
        row = s.table[0]
        row.add_(x)
        return s.table.sum(0) + s.other
class SharedMemory(nn.Module):   # one tensor under two names, written under one of them
    def __init__(s):
        super().__init__()
        t = torch.zeros(3)
        s.register_buffer("a", t); s.register_buffer("b", t)
    def forward(s, x):
        s.a.add_(1)
        return x + s.b
class Sub(nn.Module):
    def __init__(s, n):
        super().__init__()
        s.w = nn.Parameter(torch.rand(n)); s.calls = 0
    def forward(s, x):
        s.calls += 1
        return x * s.w
class Nested(nn.Module):
    def __init__(s):
        super().__init__()
        s.subs = nn.ModuleList([Sub(3), Sub(3)]); s.plain = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    def forward(s, x):
        for m in s.subs:
            x = m(x)
        return s.plain(x) + s.subs[0].calls
class Pair:
    def __init__(self, a: torch.Tensor, k: int):
        self.a = a; self.k = k
    def total(self) -> torch.Tensor:
        return self.a * self.k
class Objects(nn.Module):
    def __init__(s):
        super().__init__()
        s.w = nn.Parameter(torch.rand(3)); s.k = 3
    def forward(s, x, t: Tuple[torch.Tensor, int]):
        p = Pair(s.w + x, s.k)
        p.k += t[1]
        return p.total() + t[0]
class Branches(nn.Module):
    def __init__(s, mode):
        super().__init__()
        s.mode = mode; s.a = nn.Linear(3, 3); s.b = nn.Linear(3, 2); s.scales = [0.5, 2.0]
    def forward(s, x):
        if s.mode == "a":
            y = s.a(x)
        elif s.mode == "b":
            y = s.b(x)
        else:
            raise ValueError("mode")
        for f in s.scales:
            y = y * f
        return y
class Raises(nn.Module):   # what raises stays, also in a method that is called
    def __init__(s):
        super().__init__()
        s.bn = bn(nn.BatchNorm1d(3)); s.mode = "a"
    def check(s, x, least: int):
        if x.dim() < least:
            raise ValueError("too few dims")
    def forward(s, x):
        if s.mode == "b":
            raise ValueError("mode")
        s.check(x, 1)
        assert x.size(0) == 4, "four"
        if x.size(1) == 3:
            y = s.bn(x)
        else:
            raise ValueError("three")
        return y
class EarlyPair(nn.Module):   # a tuple that leaves early
    def pair(s, x, n: int):
        if n > 1:
            y = x + n
            if n > 2:
                return y, n
            x = y * 2
        return x.relu(), n + 1
    def forward(s, x):
        a, n = s.pair(x, x.size(0))
        b, m = s.pair(x, x.size(1))
        return a * n + b * m
class Computed(nn.Module):   # what constants alone decide is computed once
    def __init__(s):
        super().__init__()
        s.w = nn.Parameter(torch.rand(3, 4)); s.g = nn.Parameter(torch.rand(1, 4)); s.n = 3
    def forward(s, x):
        w = s.w * s.g / s.w.norm(2, dim=1, keepdim=True)
        size = s.n * 2 + 1
        return F.linear(x, w) + torch.ones(3) * size

cases = {
  "conv_bn": (bn(ConvBn()), (torch.rand(2, 3, 6, 6),)),
  "ranks": (bn(Ranks()), (torch.rand(2, 2, 5), torch.rand(2, 1, 3, 4, 4))),
  "pointwise": (Pointwise(), (torch.rand(2, 3, 5, 5),)),
  "twice": (bn(Twice()), (torch.rand(2, 3, 5, 5),)),
  "dropouts": (Dropouts(), (torch.rand(4, 4),)),
  "state": (State(), (torch.rand(2, 3),)),
  "aliased": (Aliased(), (torch.rand(3),)),
  "shared_memory": (SharedMemory(), (torch.rand(3),)),
  "nested": (Nested(), (torch.rand(2, 3),)),
  "objects": (Objects(), (torch.rand(3), (torch.rand(3), 2))),
  "branch_a": (Branches("a"), (torch.rand(2, 3),)),
  "branch_b": (Branches("b"), (torch.rand(2, 3),)),
  "raises": (Raises(), (torch.rand(4, 3),)),
  "early_pair": (EarlyPair(), (torch.rand(2, 3),)),
  "computed": (Computed(), (torch.rand(2, 4),)),
}
def kinds(block, into):
    for n in block.nodes():
        if n.kind().startswith("aten::"): into.append(n.kind())
        for b in n.blocks(): kinds(b, into)
    return into
for name, (m, inputs) in cases.items():
    s = torch.jit.script(m.eval())
    s.save(f"{out}/{name}.pt")
    frozen = torch.jit.freeze(s)
    results = [frozen(*inputs) for _ in range(3)]
    again = torch.jit.load(f"{out}/{name}.pt")
    for r in results: assert torch.allclose(again(*inputs), r, atol=1e-5), name
    state = sorted(n.split('name="')[1].split('"')[0] for n in str(frozen.graph).split("\n") if "SetAttr" in n)
    torch.save({"inputs": inputs, "results": results, "kinds": sorted(kinds(frozen.graph, [])), "set": state,
                "buffers": sorted(n for n, _ in frozen.named_buffers())}, f"{out}/{name}.ref")
    if name in ("conv_bn", "ranks", "pointwise", "twice", "computed"):
        torch.jit.save(torch.jit.trace(m, inputs), f"{out}/{name}_traced.pt")
)PY";

const testing::OracleFiles& files() {
  static auto* made = new testing::OracleFiles(make_files);
  return *made;
}

void expect_close(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(str(a.sizes()), str(b.sizes())) << what;
  ASSERT_EQ(a.dtype(), b.dtype()) << what;
  std::vector<double> x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_NEAR(x[i], y[i], 1e-4 + 1e-4 * std::abs(y[i])) << what << " at " << i;
}

void collect_kinds(const ir::Block& block, std::vector<std::string>& kinds) {
  for (const ir::Node& n : block) {
    if (n.kind().view().starts_with("aten::")) kinds.push_back(n.kind().str());
    for (const ir::Block* b : n.blocks()) collect_kinds(*b, kinds);
  }
}
std::string kinds_of(const ir::Graph& g) {
  std::vector<std::string> kinds;
  collect_kinds(g.top(), kinds);
  std::sort(kinds.begin(), kinds.end());
  std::string text;
  for (const std::string& k : kinds) text += k + "\n";
  return text;
}
std::string joined(const V& list) {
  std::string text;
  for (const V& item : list.items()) text += item.string() + "\n";
  return text;
}

std::string message(auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

class Frozen : public ::testing::TestWithParam<const char*> {};

TEST_P(Frozen, runs_and_looks_as_in_pytorch) {
  NEED_FILES();
  std::string name = GetParam();
  V ref = load_checkpoint(files().dir / (name + ".ref"));
  ScriptModule module = load(files().dir / (name + ".pt")).eval();
  ScriptModule frozen = freeze(module);
  NoGrad no_grad;
  for (const V& expected : ref.find("results")->items()) {
    expect_close(frozen.forward(ref.find("inputs")->items()).tensor(), expected.tensor(), name);
  }
  // The module that was frozen is as it was.
  expect_close(module.forward(ref.find("inputs")->items()).tensor(), ref.find("results")->items()[0].tensor(),
               name);
  std::string text = frozen.graph().str();
  std::string expected = joined(*ref.find("kinds"));
  // What PyTorch leaves although it could go.
  if (name == "pointwise") expected = "aten::conv2d\n";
  if (name == "dropouts") expected.erase(expected.find("aten::alpha_dropout\n"), 20);
  EXPECT_EQ(kinds_of(frozen.graph()), expected) << text;
  std::vector<std::string> buffers;
  for (auto& [n, t] : frozen.named_buffers()) buffers.push_back(n);
  std::sort(buffers.begin(), buffers.end());
  std::string all;
  for (const std::string& b : buffers) all += b + "\n";
  EXPECT_EQ(all, joined(*ref.find("buffers"))) << text;
  EXPECT_TRUE(frozen.named_parameters().empty());
  if (ref.find("set")->items().empty() && buffers.empty()) {
    EXPECT_EQ(text.find("prim::GetAttr"), std::string::npos) << text;
    EXPECT_EQ(frozen.named_modules().size(), 1u);
  }
}

constexpr const char* cases[] = {"conv_bn",  "ranks",    "pointwise",     "twice",      "dropouts",
                                 "state",    "aliased",  "shared_memory", "nested",     "objects",
                                 "branch_a", "branch_b", "raises",        "early_pair", "computed"};
INSTANTIATE_TEST_SUITE_P(Freeze, Frozen, ::testing::ValuesIn(cases),
                         [](const auto& info) { return std::string(info.param); });

TEST(Freeze, pytorch_runs_what_is_saved) {
  NEED_FILES();
  io::TemporaryDir dir;
  for (const char* name : cases)
    freeze(load(files().dir / (std::string(name) + ".pt")).eval()).save(dir / (std::string(name) + ".pt"));
  testing::PythonResult r = testing::run_python(testing::python_with("torch"), R"(
import sys, os, torch
for file in sorted(os.listdir(sys.argv[1])):
    m = torch.jit.load(sys.argv[1] + "/" + file)
    ref = torch.load(sys.argv[2] + "/" + file.replace(".pt", ".ref"), weights_only=False)
    assert not list(m.parameters()), file
    for expected in ref["results"]:
        got = m(*ref["inputs"])
        assert torch.allclose(got, expected, atol=1e-4), (file, got, expected)
print("equal")
)",
                                                "'" + dir.path() + "' '" + files().dir.path() + "'");
  EXPECT_EQ(r.output, "equal\n");
}

TEST(Freeze, what_raises_stays) {
  NEED_FILES();
  for (bool optimize : {false, true}) {
    ScriptModule module = load(files().dir / "raises.pt").eval();
    ScriptModule frozen = optimize ? optimize_for_inference(module) : freeze(module);
    for (auto& [x, said] : {std::pair(ones({}), "too few dims"), std::pair(ones({2, 3}), "four"),
                            std::pair(ones({4, 2}), "three")})
      EXPECT_NE(message([&] { frozen.forward({V(x)}); }).find(said), std::string::npos) << said;
    EXPECT_EQ(frozen.code().find("mode"), std::string::npos) << frozen.code();
  }
}

TEST(Freeze, traced_modules) {
  NEED_FILES();
  for (const char* name : {"conv_bn", "ranks", "pointwise", "twice", "computed"}) {
    V ref = load_checkpoint(files().dir / (std::string(name) + ".ref"));
    ScriptModule frozen = freeze(load(files().dir / (std::string(name) + "_traced.pt")).eval());
    NoGrad no_grad;
    expect_close(frozen.forward(ref.find("inputs")->items()).tensor(),
                 ref.find("results")->items()[0].tensor(), name);
    EXPECT_EQ(frozen.graph().str().find("prim::GetAttr"), std::string::npos);
  }
}

// Every scripted module of this folder computes the same before and after.
TEST(Freeze, scripted_modules_compute_the_same) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::source_dir() + "/tests/jit/scripted")) {
    if (entry.path().extension() != ".pt") continue;
    SCOPED_TRACE(entry.path().filename().string());
    std::map<std::string, std::string> extra{{"calls", ""}};
    ScriptModule module = load(entry.path().string(), {.extra_files = &extra}).eval();
    ScriptModule frozen = freeze(module);
    std::shared_ptr<script::Unit> unit = script::compile("def nothing():\n  pass\n");
    NoGrad no_grad;
    std::istringstream lines(extra["calls"]);
    size_t number = 0;
    for (std::string line, skipped; std::getline(lines, line) && std::getline(lines, skipped);) {
      testing::ScriptCall a = testing::read_call(*unit, "forward" + line.substr(4), number++);
      testing::ScriptCall b = testing::read_call(*unit, "forward" + line.substr(4), number++);
      std::string before = testing::show(module.forward(a.positional));
      std::string after = testing::show(frozen.forward(b.positional));
      EXPECT_TRUE(testing::same_values(after, before)) << line << "\n" << before << "\n" << after;
      ++count;
    }
  }
  EXPECT_GE(count, 30u);
}

ScriptModule net_with_methods() {
  ModuleTree linear;
  linear.type_name = "Scale";
  linear.training = false;
  linear.members = {{"w", V(full({3}, 2.0)), script::Role::parameter},
                    {"unused", V(full({3}, 1.0)), script::Role::buffer}};
  linear.source = "def forward(self, x):\n  return x * self.w\n";
  ModuleTree net;
  net.type_name = "Net";
  net.training = false;
  net.members = {{"k", V(3)}, {"tag", V("hello")}, {"limit", V(1.5)}};
  net.children.emplace_back("scale", std::make_shared<ModuleTree>(std::move(linear)));
  net.source = R"(def forward(self, x):
  return self.scale(x) + self.k
def other(self, x):
  return self.scale(x) * self.limit
def third(self) -> str:
  return self.tag
)";
  return make_module(std::move(net));
}

TEST(Freeze, keeps_what_is_preserved) {
  ScriptModule net = net_with_methods();
  Tensor x = ones({3});
  ScriptModule plain = freeze(net);
  EXPECT_EQ(plain.methods(), std::vector<std::string>{"forward"});
  EXPECT_FALSE(plain.has_attr("k"));
  EXPECT_FALSE(plain.has_attr("scale"));
  EXPECT_FALSE(plain.has_attr("training"));
  EXPECT_EQ(plain.forward({V(x)}).tensor().to_vector<double>(), (std::vector<double>{5, 5, 5}));

  ScriptModule kept = freeze(net, {"other", "k", "scale.w"});
  EXPECT_EQ(kept.methods(), (std::vector<std::string>{"forward", "other"}));
  EXPECT_TRUE(kept.has_attr("k"));
  EXPECT_FALSE(kept.has_attr("tag"));
  EXPECT_TRUE(kept.has_attr("scale.w"));
  EXPECT_FALSE(kept.has_attr("scale.unused"));
  kept.set_attr("k", V(10));
  EXPECT_EQ(kept.forward({V(x)}).tensor().to_vector<double>(), (std::vector<double>{12, 12, 12}))
      << "a preserved attribute can be changed";
  EXPECT_EQ(net.forward({V(x)}).tensor().to_vector<double>(), (std::vector<double>{5, 5, 5}));
  EXPECT_EQ(kept.call("other", {V(x)}).tensor().to_vector<double>(), (std::vector<double>{3, 3, 3}));
  EXPECT_TRUE(FileCheck()
                  .check("GetAttr[name=\"w\"]")
                  .check_not("GetAttr[name=\"limit\"]")
                  .run(kept.graph("other").str()));

  ScriptModule whole = freeze(net, {"scale"});
  EXPECT_TRUE(whole.has_attr("scale.unused")) << "a preserved submodule stays as it is";
  EXPECT_EQ(whole.forward({V(x)}).tensor().to_vector<double>(), (std::vector<double>{5, 5, 5}));
}

TEST(Freeze, says_what_pytorch_says) {
  ScriptModule net = net_with_methods();
  EXPECT_EQ(message([&] { freeze(net, {"nope"}); }), "Unknown name: nope");
  EXPECT_EQ(message([&] { freeze(net, {"scale.nope"}); }), "Unknown name: scale.nope");
  net.train();
  EXPECT_EQ(message([&] { freeze(net); }),
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your "
            "module before freezing.");
  EXPECT_EQ(message([&] { freeze(ScriptModule()); }),
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to "
            "script your 'nn.Module'.");
  EXPECT_EQ(message([&] { optimize_for_inference(ScriptModule()); }),
            "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'.");
  ModuleTree tree;
  tree.type_name = "Me";
  tree.training = false;
  tree.source = "def forward(self, x):\n  return self\n";
  EXPECT_EQ(message([&] { freeze(make_module(std::move(tree))); }),
            "attempted to freeze a module that return itself");
}

TEST(Freeze, without_numerics_the_layers_stay) {
  NEED_FILES();
  ScriptModule module = load(files().dir / "conv_bn.pt").eval();
  ScriptModule frozen = freeze(module, {}, false);
  EXPECT_TRUE(FileCheck()
                  .check("conv2d")
                  .check("batch_norm")
                  .check("relu")
                  .check("conv2d")
                  .check("batch_norm")
                  .check_not("GetAttr")
                  .run(frozen.graph().str()));
  run_frozen_optimizations(frozen);
  EXPECT_TRUE(FileCheck().check("conv2d").check_not("batch_norm").run(frozen.graph().str()));
  EXPECT_NE(frozen.graph().str().find("weight_fused_bn"), std::string::npos);
}

TEST(OptimizeForInference, freezes_and_runs_equal) {
  NEED_FILES();
  ScriptModule module = load(files().dir / "conv_bn.pt");
  module.train();
  ScriptModule fast = optimize_for_inference(module);
  EXPECT_FALSE(module.is_training()) << "it is put in evaluation mode";
  V ref = load_checkpoint(files().dir / "conv_bn.ref");
  NoGrad no_grad;
  expect_close(fast.forward(ref.find("inputs")->items()).tensor(), ref.find("results")->items()[0].tensor(),
               "conv_bn");
  EXPECT_EQ(fast.graph().str().find("batch_norm"), std::string::npos);
  ScriptModule again = optimize_for_inference(fast);  // frozen already
  expect_close(again.forward(ref.find("inputs")->items()).tensor(), ref.find("results")->items()[0].tensor(),
               "again");
}

}  // namespace
}  // namespace tern::jit
