#include "tests/support/python.h"

#include <cstdio>
#include <map>

#include "tern/io/file.h"
#include "tests/support/paths.h"

namespace tern::testing {

const std::string& python_with(const std::string& module) {
  static std::map<std::string, std::string> known;
  auto [it, fresh] = known.try_emplace(module);
  if (!fresh) return it->second;
  std::string python = test_python();
  if (!python.empty() && run_python(python, "import " + module).status == 0) it->second = python;
  return it->second;
}

PythonResult run_python(const std::string& interpreter, const std::string& script,
                        const std::string& arguments) {
  io::TemporaryDir dir;
  std::string file = dir / "script.py";
  io::write_file(file, script);
  std::string command =
      "PYTHONDONTWRITEBYTECODE=1 '" + interpreter + "' -W ignore '" + file + "' " + arguments + " 2>&1";
  PythonResult result;
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return result;
  char buffer[4096];
  while (size_t n = fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, n);
  result.status = pclose(pipe);
  return result;
}

}  // namespace tern::testing
