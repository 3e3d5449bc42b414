// Runs the oracles' Python, for tests that hold what we write against what PyTorch reads.
#pragma once
#include <string>

namespace tern::testing {

// test_python() if it can import `module`; empty if not.
const std::string& python_with(const std::string& module);

struct PythonResult {
  int status = -1;
  std::string output;  // stdout and stderr
};
// The interpreter writes nothing beside its packages.
PythonResult run_python(const std::string& interpreter, const std::string& script,
                        const std::string& arguments = "");

}  // namespace tern::testing

// Skips the test where there is no such Python.
#define TERN_NEEDS_PYTHON(variable, module)                           \
  const std::string& variable = ::tern::testing::python_with(module); \
  if (variable.empty()) GTEST_SKIP() << "no Python that can import " << module
