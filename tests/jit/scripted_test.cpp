// Modules that torch.jit.script made (scripted/make.py): they load, run as PyTorch recorded, and PyTorch runs
// what is saved back with the same numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tern/base/error.h"
#include "tern/dispatch/ladder.h"
#include "tern/jit/archive.h"
#include "tern/script/compile.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"
#include "tests/support/script_values.h"

namespace tern::jit {
namespace {

using V = tern::Value;

std::string folder() { return testing::source_dir() + "/tests/jit/scripted"; }

std::vector<std::string> archives() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder()))
    if (entry.path().extension() == ".pt") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct Loaded {
  ScriptModule module;
  std::string calls;
};
Loaded load_with_calls(const std::string& path) {
  std::map<std::string, std::string> extra{{"calls", ""}};
  Loaded l;
  l.module = load(path, {.extra_files = &extra});
  l.calls = extra["calls"];
  return l;
}

// The recorded calls, one after the other on the same module.
void run_calls(const ScriptModule& module, const std::string& calls) {
  ASSERT_FALSE(calls.empty());
  std::istringstream lines(calls);
  std::shared_ptr<script::Unit> unit = script::compile("def nothing():\n  pass\n");
  NoGrad no_grad;
  size_t number = 0;
  for (std::string line, expected; std::getline(lines, line) && std::getline(lines, expected);) {
    testing::ScriptCall call = testing::read_call(*unit, "forward" + line.substr(4), number++);
    std::string result = testing::show(module.forward(call.positional));
    EXPECT_TRUE(testing::same_values(result, expected))
        << line << "\nis      " << result << "\nPyTorch " << expected;
  }
}

class ScriptedModule : public ::testing::Test {
 public:
  explicit ScriptedModule(std::string path) : path_(std::move(path)) {}
  void TestBody() override {
    Loaded l = load_with_calls(path_);
    run_calls(l.module, l.calls);
    // What is saved and loaded again starts from the same state and computes the same.
    Loaded fresh = load_with_calls(path_);
    std::vector<uint8_t> bytes = fresh.module.save_bytes();
    ScriptModule again = load(io::own(std::move(bytes)), "saved");
    run_calls(again, l.calls);
  }

 private:
  std::string path_;
};

const int registered = [] {
  int count = 0;
  for (const std::string& path : archives()) {
    std::string name = std::filesystem::path(path).stem().string();
    ::testing::RegisterTest("Scripted", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [path]() -> ::testing::Test* { return new ScriptedModule(path); });
    ++count;
  }
  return count;
}();

TEST(ScriptedModules, are_all_there) { EXPECT_GE(registered, 67); }

TEST(ScriptedModules, run_in_pytorch_after_tern_saved_them) {
  TERN_NEEDS_PYTHON(python, "torch");
  io::TemporaryDir dir;
  for (const std::string& path : archives()) {
    Loaded l = load_with_calls(path);
    l.module.save(dir / std::filesystem::path(path).filename().string(), {{"calls", l.calls}});
  }
  testing::PythonResult r = testing::run_python(
      python, "import runpy, sys\nsys.argv = ['make.py', '--check', '" + dir.path() + "']\nrunpy.run_path('" +
                  folder() + "/make.py', run_name='__main__')\n");
  EXPECT_EQ(r.status, 0) << r.output;
}

}  // namespace
}  // namespace tern::jit
