// The graphs a module shows: with the types of a run, with those of the shape rules; its source with its
// constants. PyTorch is the oracle.
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/capture/retrace.h"
#include "tern/capture/shapes.h"
#include "tern/dispatch/ladder.h"
#include "tern/io/file.h"
#include "tern/ir/text.h"
#include "tern/jit/archive.h"
#include "tern/jit/freeze.h"
#include "tern/ops.h"
#include "tern/script/compile.h"
#include "tern/sym/shape_env.h"
#include "tests/support/file_check.h"
#include "tests/support/oracle_files.h"
#include "tests/support/python.h"

namespace tern::jit {
namespace {

using testing::FileCheck;
using V = tern::Value;

constexpr const char* make_files = R"PY(
import sys, torch, torch.nn as nn, torch.nn.functional as F, warnings
warnings.simplefilter("ignore")
torch.manual_seed(3)
out = sys.argv[1]
class Conv(nn.Module):
    def __init__(s):
        super().__init__()
        s.conv = nn.Conv2d(3, 4, 3, stride=2); s.bn = nn.BatchNorm2d(4); s.fc = nn.Linear(4, 5)
    def forward(s, x):
        y = F.relu(s.bn(s.conv(x)))
        y = F.max_pool2d(y, 2).flatten(1)[:, :4]
        return F.log_softmax(s.fc(y), dim=1)
class Flow(nn.Module):
    def __init__(s):
        super().__init__()
        s.w = nn.Parameter(torch.rand(3, 3))
    def forward(s, x, n: int):
        for i in range(n):
            x = torch.tanh(x @ s.w)
        if n > 2:
            y = x.sum(1)
        else:
            y = x.transpose(0, 1)
        return y * 2
class Shrink(nn.Module):
    def forward(s, x):
        while x.size(0) > 2:
            x = x[1:] + 1
        return x
class Lists(nn.Module):
    def forward(s, x):
        parts = x.split(2, dim=1)
        whole = torch.cat(parts, 0)
        a, b = torch.topk(x, 2)
        return whole.sum() + a.mean() + b.max()
cases = {"conv": (Conv(), (torch.rand(2, 3, 9, 9),)), "flow": (Flow(), (torch.rand(2, 3), 3)),
         "shrink": (Shrink(), (torch.rand(5, 3),)), "lists": (Lists(), (torch.rand(3, 4),))}
def types(block, into):
    made = {}
    nodes = list(block.nodes())
    for n in nodes:
        if n.kind() == "prim::profile" and n.inputsSize():
            made[next(n.inputs()).debugName()] = str(n).split("profiled_type=")[1].split(", seen_none")[0]
    for n in nodes:
        for o in n.outputs():
            if n.kind().startswith("aten::") and str(o.type()) == "Tensor" and o.debugName() in made:
                into.append(n.kind() + " " + made[o.debugName()])
        for b in n.blocks(): types(b, into)
    return into
for name, (m, inputs) in cases.items():
    s = torch.jit.script(m.eval())
    s.save(f"{out}/{name}.pt")
    with torch.no_grad():
        graph = torch.jit.load(f"{out}/{name}.pt").graph_for(*inputs)
    code, constants = torch.jit.freeze(s).code_with_constants if name == "conv" else s.code_with_constants
    torch.save({"inputs": inputs, "types": types(graph, []), "code": code, "constants": dict(constants.const_mapping)}, f"{out}/{name}.ref")
traced = torch.jit.trace(lambda x: x + torch.arange(3.) * torch.ones(3), torch.rand(2, 3))
traced.save(f"{out}/traced.pt")
code, constants = torch.jit.load(f"{out}/traced.pt").code_with_constants
torch.save({"code": code, "constants": dict(constants.const_mapping)}, f"{out}/traced.ref")
)PY";

const testing::OracleFiles& files() {
  static auto* made = new testing::OracleFiles(make_files);
  return *made;
}

void collect(const ir::Block& block, std::vector<std::string>& lines) {
  for (const ir::Node& n : block) {
    for (ir::Value* v : n.outputs())
      if (n.kind().view().starts_with("aten::") && v->type()->is_tensor() && v->type()->has_sizes())
        lines.push_back(n.kind().str() + " " + v->type()->str(ir::TypeStyle::torch));
    for (const ir::Block* b : n.blocks()) collect(*b, lines);
  }
}

class Graphs : public ::testing::TestWithParam<const char*> {};

TEST_P(Graphs, after_a_run_have_the_types_pytorch_profiles) {
  NEED_FILES();
  std::string name = GetParam();
  V ref = load_checkpoint(files().dir / (name + ".ref"));
  ScriptModule m = load(files().dir / (name + ".pt"));
  NoGrad no_grad;
  std::unique_ptr<ir::Graph> g = m.graph_for(ref.find("inputs")->items());
  std::vector<std::string> lines, expected;
  collect(g->top(), lines);
  for (const V& v : ref.find("types")->items())  // not of what was not reached
    if (!v.string().ends_with(" Tensor")) expected.push_back(v.string());
  // PyTorch profiles what it may specialise: all of that, in that order.
  size_t found = 0;
  for (const std::string& line : lines) found += found < expected.size() && line == expected[found];
  EXPECT_EQ(found, expected.size()) << (found < expected.size() ? expected[found] : "") << "\n" << g->str();
}

// What the rules say without running is what a run shows, where it does not depend on data ("shrink" has
// sizes that depend on the rounds of a loop: see below).
class ShapedGraphs : public Graphs {};
TEST_P(ShapedGraphs, by_shape_rules_have_the_same_types) {
  NEED_FILES();
  std::string name = GetParam();
  V ref = load_checkpoint(files().dir / (name + ".ref"));
  ScriptModule m = load(files().dir / (name + ".pt"));
  NoGrad no_grad;
  std::unique_ptr<ir::Graph> g = m.shaped_graph(ref.find("inputs")->items());
  std::vector<std::string> lines;
  collect(g->top(), lines);
  std::string all;
  for (const std::string& l : lines) all += l + "\n";
  for (const V& v : ref.find("types")->items())
    if (!v.string().ends_with(" Tensor")) {
      EXPECT_NE(all.find(v.string()), std::string::npos) << v.string() << "\n" << all;
    }
}

INSTANTIATE_TEST_SUITE_P(Module, Graphs, ::testing::Values("conv", "flow", "shrink", "lists"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Module, ShapedGraphs, ::testing::Values("conv", "flow", "lists"),
                         [](const auto& info) { return std::string(info.param); });

TEST(CodeWithConstants, as_pytorch_gives_them) {
  NEED_FILES();
  for (const char* name : {"traced", "flow"}) {
    V ref = load_checkpoint(files().dir / (std::string(name) + ".ref"));
    script::CodeWithConstants ours = load(files().dir / (std::string(name) + ".pt")).code_with_constants();
    for (const char* part : {"torch.arange(3.", "torch.ones([3]", "torch.matmul(", "torch.sum("})
      EXPECT_EQ(ours.code.find(part) == std::string::npos,
                ref.find("code")->string().find(part) == std::string::npos)
          << part << "\n"
          << ours.code;
    ASSERT_EQ(ours.constants.size(), ref.find("constants")->entries().size()) << name;
    for (auto& [key, value] : ours.constants) {
      const V* theirs = ref.find("constants")->find(V(key));
      ASSERT_TRUE(theirs) << key;
      EXPECT_EQ(value.tensor().to_vector<double>(), theirs->tensor().to_vector<double>()) << key;
    }
  }
  // A frozen module has its weights there.
  V ref = load_checkpoint(files().dir / "conv.ref");
  script::CodeWithConstants ours = freeze(load(files().dir / "conv.pt").eval()).code_with_constants();
  EXPECT_EQ(ours.constants.size(), ref.find("constants")->entries().size()) << ours.code;
  EXPECT_TRUE(
      FileCheck().check("CONSTANTS.c0").check("CONSTANTS.c3").check_not("CONSTANTS.c4").run(ours.code));
}

TEST(CodeWithConstants, of_a_function) {
  auto f = script::compile_function("def f(x):\n  return x + 1\n");
  script::CodeWithConstants code = script::code_with_constants(*f);
  EXPECT_TRUE(code.constants.empty());
  EXPECT_NE(code.code.find("def f(x: Tensor)"), std::string::npos);
}

std::shared_ptr<script::Function> script_function(const char* source) {
  return script::compile_function(source);
}

TEST(GraphFor, a_function) {
  auto f = script_function(R"(
def f(x, n: int):
  y = x + x
  for i in range(n):
    y = y.narrow(0, 0, y.size(0) - 1)
  return y
)");
  std::unique_ptr<ir::Graph> g = graph_for(*f, {V(ones({5, 2})), V(3)});
  std::string text = ir::torch_text(*g);
  EXPECT_TRUE(FileCheck()
                  .check("%x : Float(5, 2, strides=[2, 1], requires_grad=0, device=cpu)")
                  .check("Float(5, 2, strides=[2, 1], requires_grad=0, device=cpu) = aten::add")
                  .check("Float(*, 2, strides=[2, 1], requires_grad=0, device=cpu) = aten::narrow")
                  .run(text));
  EXPECT_TRUE(
      FileCheck().check("Float(2, 2, strides=[2, 1], requires_grad=0, device=cpu) = prim::Loop").run(text));
}

std::string shapes(std::string_view text, capture::ShapeReport* report = nullptr,
                   std::vector<V> inputs = {}) {
  auto g = ir::parse(text);
  capture::ShapeOptions options;
  options.inputs = std::move(inputs);
  NoGrad no_grad;
  capture::ShapeReport r = capture::propagate_shapes(*g, options);
  if (report) *report = r;
  return g->str();
}

TEST(ShapePropagation, from_types_with_open_sizes) {
  capture::ShapeReport report;
  std::string text = shapes(R"(graph(%x : Float(*, 3), %w : Float(4, 3)):
  %y : Tensor = aten::linear(%x, %w, None)
  %z : Tensor = aten::relu(%y)
  %s : Tensor = aten::sum.dim_IntList(%z, [1], False)
  %c : Tensor = aten::cat([%z, %z], 0)
  %n : int = aten::size(%x, 0)
  %v : Tensor = aten::zeros([%n, 2], dtype=None, layout=None, device=None, pin_memory=None)
  return (%s, %c, %v)
)",
                            &report);
  EXPECT_TRUE(FileCheck()
                  .check("%y : Float(u0, 4")
                  .check("%z : Float(u0, 4")
                  .check("%s : Float(u0, ")
                  .check("%c : Float(2*u0, 4")
                  .check("%v : Float(u0, 2")
                  .run(text));
  EXPECT_EQ(report.open, 0u) << report.why;
  EXPECT_EQ(report.known, 7u);
}

TEST(ShapePropagation, branches_and_loops_give_what_every_path_gives) {
  std::string text = shapes(R"(graph(%x : Float(2, 3), %c : bool, %n : int):
  %same : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::relu(%x)
      -> (%a)
    block1():
      -> (%x)
  %part : Tensor = prim::If(%c)
    block0():
      %b : Tensor = aten::cat([%x, %x], 0)
      -> (%b)
    block1():
      -> (%x)
  %none : Tensor = prim::If(%c)
    block0():
      %d : Tensor = aten::sum(%x, dtype=None)
      -> (%d)
    block1():
      -> (%x)
  %grown : Tensor = prim::Loop(%n, True, %x)
    block0(%i : int, %s : Tensor):
      %t : Tensor = aten::cat([%s, %x], 0)
      -> (True, %t)
  %kept : Tensor = prim::Loop(%n, True, %x)
    block0(%j : int, %u : Tensor):
      %v : Tensor = aten::neg(%u)
      -> (True, %v)
  return (%same, %part, %none, %grown, %kept)
)");
  EXPECT_TRUE(FileCheck().check("%same : Float(2, 3, strides=[3, 1]").run(text));
  EXPECT_TRUE(FileCheck().check("%part : Float(u").check_same(", 3,").run(text));
  EXPECT_TRUE(FileCheck().check("%none : Tensor =").run(text));
  EXPECT_TRUE(FileCheck().check("%grown : Float(u").check_same(", 3,").check("%s : Float(u").run(text));
  EXPECT_TRUE(FileCheck().check("%kept : Float(2, 3, strides=[3, 1]").check("%v : Float(2, 3").run(text));
}

TEST(ShapePropagation, a_list_that_grows_in_a_loop_is_not_guessed) {
  std::string text = shapes(R"(graph(%x : Float(2, 3), %n : int):
  %l : Tensor[] = prim::ListConstruct(%x)
   = prim::Loop(%n, True)
    block0(%i : int):
      %e : Tensor[] = aten::append(%l, %x)
      -> (True)
  %c : Tensor = aten::cat(%l, 0)
  %r : Tensor = aten::relu(%x)
  return (%c, %r)
)");
  EXPECT_TRUE(FileCheck().check("%c : Tensor =").check("%r : Float(2, 3").run(text));
}

TEST(ShapePropagation, data_decides_and_the_rest_goes_on) {
  capture::ShapeReport report;
  std::string text = shapes(R"(graph(%x : Float(4, 3), %y : Tensor):
  %n : Tensor = aten::nonzero(%x)
  %a : Tensor = aten::add.Tensor(%x, %y)
  %b : Tensor = aten::mul.Tensor(%x, 2)
  return (%n, %a, %b)
)",
                            &report);
  EXPECT_TRUE(FileCheck().check("%a : Tensor =").check("%b : Float(4, 3").run(text));
  EXPECT_GE(report.open, 2u);
  EXPECT_NE(report.why, "");
}

TEST(ShapePropagation, through_calls) {
  auto unit = script::compile(R"(
def half(x):
  return x[:x.size(0) // 2], x.size(1)
def f(x):
  y, n = half(x)
  return y.reshape(n, -1)
)");
  script::Function& f = *unit->find_function("f");
  std::unique_ptr<ir::Graph> g = f.graph().clone();
  capture::ShapeOptions options;
  options.inputs = {V(ones({6, 4}))};
  options.callee = [&](const ir::Node& n) -> const ir::Graph* {
    return &unit->find_function(Symbol(n.attribute("name")->string()))->graph();
  };
  capture::propagate_shapes(*g, options);
  EXPECT_TRUE(FileCheck().check("Float(4, 3, strides=[3, 1]").check("aten::reshape").run(g->str()))
      << g->str();
}

TEST(ShapePropagation, a_module_with_an_open_batch) {
  NEED_FILES();
  ScriptModule m = load(files().dir / "conv.pt").eval();
  auto shapes = std::make_shared<ShapeEnv>();
  NoGrad no_grad;
  V x(capture::fake_like(*ir::parse_type("Float(*, 3, 33, 33)"), shapes.get()));
  std::unique_ptr<ir::Graph> g = m.shaped_graph({x}, "forward", shapes);
  EXPECT_TRUE(FileCheck().check("Float(u0, 4, 16, 16").check_same("conv2d").run(g->str())) << g->str();
  EXPECT_TRUE(FileCheck().check("Float(u0, 5").check_same("linear").run(g->str())) << g->str();
}

}  // namespace
}  // namespace tern::jit
