#include "tests/support/paths.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tern/base/error.h"

namespace tern::testing {

std::string source_dir() {
  const char* from_environment = std::getenv("TERN_SOURCE_DIR");
  return from_environment ? from_environment : TERN_BUILT_FROM;
}

std::string build_dir() {
  const char* from_environment = std::getenv("TERN_BUILD_DIR");
  return from_environment ? from_environment : TERN_BUILT_INTO;
}

std::string test_python() {
  const char* from_environment = std::getenv("TERN_TEST_PYTHON");
  std::string path = from_environment ? from_environment : source_dir() + "/.venv/bin/python";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ErrorKind::file, "cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace tern::testing
