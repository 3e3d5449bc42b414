#include "tests/support/torch_programs.h"

#include <gtest/gtest.h>

#include "tern/export/module.h"
#include "tern/export/torch_file.h"
#include "tern/io/file.h"
#include "tern/ops.h"
#include "tests/support/python.h"

namespace tern::testing {

void expect_close(const Value& a, const Value& b, double tolerance) {
  tree::Flat x = tree::flatten(a), y = tree::flatten(b);
  ASSERT_EQ(x.leaves.size(), y.leaves.size()) << x.spec.str() << " and " << y.spec.str();
  for (size_t i = 0; i < x.leaves.size(); ++i) {
    if (!x.leaves[i].is_tensor()) {
      EXPECT_TRUE(x.leaves[i].equals(y.leaves[i])) << x.leaves[i].str() << " and " << y.leaves[i].str();
      continue;
    }
    const Tensor &s = x.leaves[i].tensor(), &t = y.leaves[i].tensor();
    ASSERT_EQ(str(s.sizes()), str(t.sizes()));
    EXPECT_EQ(s.dtype(), t.dtype());
    std::vector<double> p = s.to_vector<double>(), q = t.to_vector<double>();
    for (size_t k = 0; k < p.size(); ++k)
      ASSERT_NEAR(p[k], q[k], tolerance) << "leaf " << i << " element " << k;
  }
}

ExportedProgram reload(const ExportedProgram& p, Pt2Layout layout) {
  return load_program(io::own(save_to_memory(p, {.layout = layout})), "memory.pt2");
}

namespace {
const char* run_ours = R"PY(
import sys, os, torch, traceback
n, bad = 0, False
while os.path.exists(f"{sys.argv[1]}/{n}.pt2"):
    try:
        module = torch.export.load(f"{sys.argv[1]}/{n}.pt2").module()
        for i, args in enumerate(torch.load(f"{sys.argv[1]}/{n}.in")):
            torch.save(module(*args), f"{sys.argv[1]}/{n}.out{i}")
    except Exception:
        print("program", n, traceback.format_exc())
        bad = True
    n += 1
sys.exit(bad)
)PY";
}  // namespace

void TorchRun::add(const ExportedProgram& program, const std::vector<std::vector<Value>>& calls,
                   Pt2Layout layout, double tolerance) {
  std::string base = dir_ / std::to_string(cases_.size());
  save(program, base + ".pt2", {.layout = layout});
  std::vector<Value> inputs;
  for (const auto& c : calls) inputs.push_back(Value::tuple(c));
  io::write_file(base + ".in", io::Bytes(write_torch_file(Value::list(inputs))));
  cases_.push_back({program, calls, tolerance});
}

void TorchRun::expect_agreement(const std::string& python) {
  auto result = run_python(python, run_ours, dir_.path());
  ASSERT_EQ(result.status, 0) << result.output;
  for (size_t n = 0; n < cases_.size(); ++n) {
    SCOPED_TRACE(cases_[n].program.code());
    std::string base = dir_ / std::to_string(n);
    ExportedModule module = cases_[n].program.module();
    for (size_t i = 0; i < cases_[n].calls.size(); ++i)
      expect_close(read_torch_file(io::map_file(base + ".out" + std::to_string(i)), "out"),
                   module.call(cases_[n].calls[i]), cases_[n].tolerance);
  }
}

void expect_torch_agrees(const ExportedProgram& program, const std::vector<std::vector<Value>>& calls,
                         Pt2Layout layout) {
  TERN_NEEDS_PYTHON(python, "torch");
  TorchRun run;
  run.add(program, calls, layout);
  run.expect_agreement(python);
}

}  // namespace tern::testing
