// Tasks: in traces, in files of both.
#include <gtest/gtest.h>

#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tern/dispatch/recording.h"
#include "tern/io/file.h"
#include "tern/ir/text.h"
#include "tern/jit/archive.h"
#include "tern/jit/trace.h"
#include "tern/jit/tracing.h"
#include "tern/ops.h"
#include "tests/support/file_check.h"
#include "tests/support/python.h"

namespace tern::jit {
namespace {

using testing::FileCheck;
using V = tern::Value;

struct Forks : nn::Module {
  Tensor forward(Tensor x, Tensor y) {
    auto task = [](const Tensor& a) { return relu(a) + 1; };
    Future f = fork(task, x * 2);
    Tensor z = y + 1;
    return wait(f).tensor() + z;
  }
};

TEST(Fork, without_a_trace_it_runs) {
  Future f = fork([](const Tensor& a) { return a * 3; }, ones({2}));
  EXPECT_EQ(wait(f).tensor().to_vector<double>(), (std::vector<double>{3, 3}));
  try {
    wait(Future());
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("there is no task"), std::string::npos);
  }
}

TEST(Fork, a_trace_keeps_it) {
  Forks net;
  ScriptModule traced = trace(net, {V(rand({2})), V(rand({2}))});
  EXPECT_TRUE(FileCheck()
                  .check("aten::mul")
                  .check("Future[")
                  .check_same("prim::fork")
                  .check("aten::relu")
                  .check("aten::add")
                  .check("aten::add")
                  .check("aten::wait")
                  .check("aten::add")
                  .run(traced.graph().str()));
  Tensor x = randn({5}), y = randn({5});
  EXPECT_EQ(traced.forward({V(x), V(y)}).tensor().to_vector<float>(), net.forward(x, y).to_vector<float>());
  EXPECT_TRUE(FileCheck()
                  .check("def __forked_function():")
                  .check("fork(__forked_function)")
                  .check("wait")
                  .run(traced.code()));
  ScriptModule again = load(io::own(traced.save_bytes()), "saved");
  EXPECT_EQ(again.forward({V(x), V(y)}).tensor().to_vector<float>(), net.forward(x, y).to_vector<float>());
}

TEST(Fork, files_go_both_ways) {
  TERN_NEEDS_PYTHON(python, "torch");
  io::TemporaryDir dir;
  Forks net;
  trace(net, {V(rand({2})), V(rand({2}))}).save(dir / "ours.pt");
  testing::PythonResult r = testing::run_python(python, R"(
import os, sys, torch, warnings
warnings.simplefilter("ignore")
out = sys.argv[1]
x, y = torch.tensor([-1., 2., 3.]), torch.tensor([1., 2., 3.])
ours = torch.jit.load(out + "/ours.pt")
expected = torch.relu(x * 2) + 1 + y + 1
assert torch.equal(ours(x, y), expected)
assert "prim::fork" in str(ours.graph) and "aten::wait" in str(ours.graph)
def task(a, k: int):
    if k > 1:
        a = a * k
    return torch.relu(a), k
class M(torch.nn.Module):
    def forward(self, x, y):
        fs = [torch.jit.fork(task, x * 2, i) for i in range(3)]
        total = y + 1
        for f in fs:
            a, k = torch.jit.wait(f)
            total = total + a * k
        return total
m = torch.jit.script(M())
m.save(out + "/scripted.pt")
torch.jit.trace(lambda x, y: torch.jit.wait(torch.jit.fork(torch.add, x, y)) * 2, (x, y)).save(out + "/traced.pt")
print([float(v) for v in m(x, y)], flush=True)
os._exit(0)  # PyTorch's pool of threads for forks may abort while a process takes itself down
)",
                                                "'" + dir.path() + "'");
  ASSERT_EQ(r.status, 0) << r.output;
  Tensor x = tensor({-1., 2., 3.}, {.dtype = kFloat}), y = tensor({1., 2., 3.}, {.dtype = kFloat});
  std::vector<float> got = load(dir / "scripted.pt").forward({V(x), V(y)}).tensor().to_vector<float>();
  EXPECT_EQ(got, (std::vector<float>{2, 23, 34})) << r.output;
  EXPECT_EQ(load(dir / "traced.pt").forward({V(x), V(y)}).tensor().to_vector<float>(),
            (std::vector<float>{0, 8, 12}));
}

TEST(Trace, sizes_and_numel_are_recorded) {
  auto f = [](Tensor x) {
    Dims s = shape(x);
    return x.reshape({s[0], SymInt(-1)}).reshape({numel(x)});
  };
  ScriptModule traced = trace(f, {V(rand({2, 3, 4}))});
  EXPECT_TRUE(FileCheck()
                  .check("aten::size")
                  .check("aten::reshape")
                  .check("aten::numel")
                  .check("aten::reshape")
                  .run(ir::torch_text(traced.graph())));
  EXPECT_EQ(str(traced.forward({V(ones({5, 2, 2}))}).tensor().sizes()), "[20]");
}

}  // namespace
}  // namespace tern::jit
