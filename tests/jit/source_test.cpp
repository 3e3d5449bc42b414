// Modules made from Python source: the same parameters as PyTorch gives after the same seed, the same
// results; and PyTorch loads what is saved.
#include "tern/jit/from_source.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tern/io/file.h"
#include "tern/jit/archive.h"
#include "tern/ops.h"
#include "tern/tensor/generator.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"

namespace tern::jit {
namespace {

using V = tern::Value;

constexpr const char* sources[] = {"layers",       "loops",       "recurrent",  "resnet",
                                   "transformers", "many_layers", "parameters", "hooks",
                                   "language",     "overloads",   "contexts"};

std::string read(const std::string& name) {
  std::ifstream file(testing::source_dir() + "/tests/jit/sources/" + name + ".py");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
SourceOptions options_for(const std::string& name) {
  SourceOptions o;
  o.name = name + ".py";
  if (name == "loops") o.arguments = {V(8), V(3)};
  return o;
}

TEST(ModuleFromSource, is_what_pytorch_makes) {
  TERN_NEEDS_PYTHON(python, "torch");
  io::TemporaryDir dir;
  for (const char* name : sources) {
    manual_seed(11);
    module_from_source(read(name), options_for(name)).save(dir / (std::string(name) + ".pt"));
  }
  testing::PythonResult r =
      testing::run_python(python, R"(
import sys, os, re, torch, warnings
warnings.simplefilter("ignore")
made, folder = sys.argv[1], sys.argv[2]
for name in ("layers", "loops", "recurrent", "resnet", "transformers", "many_layers", "parameters", "hooks", "language", "overloads", "contexts"):
    path = f"{folder}/{name}.py"
    text = open(path).read()
    scope = {"__name__": name}
    exec(compile(text, path, "exec"), scope)
    arguments = re.search(r"^# arguments: (.*)$", text, re.M)
    torch.manual_seed(11)
    net = scope["Net"](*(eval(arguments[1]) if arguments else ()))
    ours = torch.jit.load(f"{made}/{name}.pt")
    a, b = net.state_dict(), ours.state_dict()
    assert sorted(a) == sorted(b), (name, sorted(set(a) ^ set(b)))
    for key in a:
        assert torch.allclose(a[key], b[key], atol=1e-7), (name, key)
    assert sorted(n for n, p in net.named_parameters() if p.requires_grad) == sorted(n for n, p in ours.named_parameters() if p.requires_grad), name
    assert ours.training
    inputs = eval(re.search(r"^# inputs: (.*)$", text, re.M)[1])
    for mode in (False, True):
        if mode and name == "layers": continue  # dropout draws
        net.train(mode); ours.train(mode)
        x, y = net(*inputs), ours(*inputs)
        for i, (p, q) in enumerate(zip(x if isinstance(x, tuple) else (x,), y if isinstance(y, tuple) else (y,))):
            assert torch.allclose(p, q, atol=1e-5), (name, mode, i, (p - q).abs().max())
    if name == "loops": assert ours.width() == net.width()
print("equal")
)",
                          "'" + dir.path() + "' '" + testing::source_dir() + "/tests/jit/sources'");
  EXPECT_EQ(r.output, "equal\n");
}

TEST(ModuleFromSource, runs_here) {
  ScriptModule net = module_from_source(read("loops"), options_for("loops")).eval();
  EXPECT_EQ(str(net.forward({V(ones({2, 8}))}).tensor().sizes()), "[2, 3]");
  EXPECT_EQ(net.call("width", {}).to_int(), 8);
  EXPECT_EQ(net.methods(), (std::vector<std::string>{"helper", "forward", "width"}))
      << "reset ran while the module was made and is no part of it";
  SourceOptions other = options_for("loops");
  other.arguments = {V(4), V(1)};
  other.keywords = {{Symbol("residual"), V(false)}};
  EXPECT_EQ(module_from_source(read("loops"), other).submodule("blocks").named_children().size(), 3u);
}

// The memory of a module that was dropped may come back as another's.
TEST(ModuleFromSource, a_module_that_is_dropped_leaves_nothing_behind) {
  ScriptModule net = module_from_source(R"(
class First(nn.Module):
  def __init__(self, n: int):
    super().__init__()
    self.n = n
  def forward(self, x):
    return x + self.n
class Second(nn.Module):
  def __init__(self):
    super().__init__()
    self.m = 5
  def forward(self, x):
    return x * self.m
class Net(nn.Module):
  def __init__(self):
    super().__init__()
    for i in range(8):
      First(i)
    self.second = Second()
  def forward(self, x):
    return self.second(x)
)",
                                        {.class_name = "Net"});
  EXPECT_EQ(net.forward({V(ones({1}) * 2)}).tensor().item<double>(), 10);
}

std::string message(const std::string& body, const SourceOptions& options = {}) {
  std::string text = "class Net(nn.Module):\n  def __init__(self, n: int = 2):\n    super().__init__()\n" +
                     body + "  def forward(self, x):\n    return x\n";
  try {
    module_from_source(text, options);
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}
void expect_in(const std::string& text, std::initializer_list<const char*> parts) {
  for (const char* p : parts) EXPECT_NE(text.find(p), std::string::npos) << p << "\nin: " << text;
}

TEST(ModuleFromSource, errors_point_at_the_line) {
  expect_in(message("    self.a = nn.AdaptiveLogSoftmax(4)\n"),
            {"nn.AdaptiveLogSoftmax", "Linear", "TransformerEncoder", "4", "^"});
  expect_in(message("    self.a = nn.Linear(4)\n"), {"missing the argument 'out_features'", "^"});
  expect_in(message("    self.a = nn.Linear(4, 3, depth=2)\n"), {"no argument 'depth'", "^"});
  expect_in(message("    self.a = nn.Linear('x', 3)\n"), {"in_features must be an int", "^"});
  expect_in(message("    self.a = [nn.Linear(2, 2)]\n"), {"self.a holds a module", "ModuleList", "^"});
  expect_in(message("    self.a = unknown(3)\n"), {"unknown", "^"});
  expect_in(message("    while True:\n      n = n + 1\n"), {"million steps"});
  expect_in(message("    raise ValueError('no')\n"), {"no", "^"});
  expect_in(message("    self.a = undefined.thing\n"), {"^"});
  expect_in(message("    pass\n", {.arguments = {V(1), V(2)}}), {"takes 2 arguments but 3 were given"});
  expect_in(message("    pass\n", {.class_name = "Other"}), {"there is no class Other"});
  try {
    module_from_source("def f(x):\n  return x\n");
    ADD_FAILURE();
  } catch (const Error& e) {
    expect_in(e.message(), {"no class that derives from nn.Module"});
  }
  try {
    module_from_source("class A(nn.Module):\n  def forward(self, x):\n\n    return x.nothing_like_that()\n",
                       {.name = "a.py"});
    ADD_FAILURE();
  } catch (const Error& e) {
    expect_in(e.message(), {"a.py:4"});
  }
}

// PyTorch refuses to script a module before a forward pass has settled its sizes.
TEST(ModuleFromSource, lazy_layers_are_refused_as_in_pytorch) {
  expect_in(
      message("    self.a = nn.LazyLinear(4)\n"),
      {"'torch.nn.modules.linear.LazyLinear' has uninitialized parameters weight. Did you forget to run a "
       "forward pass?",
       "use nn.Linear", "^"});
  expect_in(message("    self.a = nn.LazyConvTranspose2d(4, 3)\n"),
            {"torch.nn.modules.conv.LazyConvTranspose2d"});
  expect_in(message("    self.a = nn.LazyBatchNorm1d()\n"), {"torch.nn.modules.batchnorm.LazyBatchNorm1d"});
  expect_in(message("    self.a = nn.LazyInstanceNorm3d()\n"),
            {"torch.nn.modules.instancenorm.LazyInstanceNorm3d"});
}

std::string body_message(const std::string& init, const std::string& forward) {
  try {
    module_from_source("class Net(nn.Module):\n  def __init__(self):\n    super().__init__()\n    " + init +
                       "\n  def forward(self, x):\n    " + forward + "\n    return x\n");
  } catch (const Error& e) {
    return e.message();
  }
  return "no error";
}

// A class is known by a module that has it; a base of one is no type of the script.
TEST(ModuleFromSource, isinstance_of_a_module_names_its_class) {
  std::string init = "self.a = nn.Linear(2, 2)";
  EXPECT_EQ(body_message(init, "x = x + 1 if isinstance(self.a, nn.Linear) else x.nothing()"), "no error");
  EXPECT_EQ(body_message(init, "x = x.nothing() if isinstance(self.a, (int, torch.Tensor)) else x"),
            "no error");
  expect_in(body_message(init, "x = x + 1 if isinstance(self.a, nn.Module) else x"), {"'nn.Module'", "^"});
  expect_in(body_message(init, "x = x + 1 if isinstance(self.a, (nn.Linear, Other)) else x"),
            {"'Other'", "^"});
}

// What torch.jit.script takes, it takes; what it does not, neither does this.
TEST(ModuleFromSource, lists_and_dicts_of_parameters_have_torchscripts_limits) {
  std::string list = "self.p = nn.ParameterList([torch.ones(2), torch.zeros(2)])";
  std::string dict = "self.p = nn.ParameterDict({'a': torch.ones(2)})";
  EXPECT_EQ(body_message(list, "x = x + self.p[0] + self.p[-1]"), "no error");
  EXPECT_EQ(body_message(dict, "x = x + self.p['a'] + self.p.a"), "no error");
  expect_in(body_message(list, "x = x + len(self.p)"), {"len", "^"});
  expect_in(body_message(list, "x = x + self.p[int(x.sum())]"), {"constant", "^"});
  expect_in(body_message(list, "x = torch.stack(self.p)"), {"^"});
  expect_in(body_message(list, "x = self.p[0:1][0]"), {"^"});
  expect_in(body_message(list, "x = x + self.p[2]"), {"^"});
  expect_in(body_message(dict, "x = x + self.p['b']"), {"^"});
  for (const char* loop : {"for v in self.p.values(): x = x + v", "for k, v in self.p.items(): x = x + v",
                           "for k in self.p.keys(): print(k)", "for k in self.p: print(k)"})
    expect_in(body_message(dict, loop), {"^"});
  expect_in(body_message("self.p = nn.ParameterList([3])", "pass"), {"made from a tensor", "^"});
  expect_in(body_message("self.p = nn.ParameterDict([1])", "pass"), {"^"});
  expect_in(body_message("self.p = nn.ParameterDict({1: torch.ones(2)})", "pass"), {"by name", "^"});
  expect_in(body_message("self.p = nn.FractionalMaxPool2d(2)", "pass"), {"either an output size", "^"});
  expect_in(body_message("self.p = nn.FractionalMaxPool2d(2, output_size=3, output_ratio=0.5)", "pass"),
            {"only one of", "^"});
  expect_in(body_message("self.p = nn.FractionalMaxPool3d(2, output_ratio=1.5)", "pass"),
            {"between 0 and 1"});
  expect_in(body_message("self.p = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 4])", "pass"),
            {"increasing order"});
  expect_in(body_message("self.p = nn.ConvTranspose3d(2, 2, 3, padding_mode='reflect')", "pass"), {"zeros"});
}

}  // namespace
}  // namespace tern::jit
