// Files that an oracle writes once for the tests of one file: a Python program is given a folder and fills
// it.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "tern/io/file.h"
#include "tests/support/python.h"

namespace tern::testing {

struct OracleFiles {
  io::TemporaryDir dir;
  std::string problem;  // what went wrong; empty: all is there

  explicit OracleFiles(const char* program) {
    const std::string& python = python_with("torch");
    if (python.empty()) {
      problem = "no Python with torch";
      return;
    }
    PythonResult r = run_python(python, program, "'" + dir.path() + "'");
    if (r.status != 0) problem = r.output;
  }
};

}  // namespace tern::testing

// First in a test that reads what files() made.
#define NEED_FILES()                                                              \
  if (files().problem == "no Python with torch") GTEST_SKIP() << files().problem; \
  ASSERT_EQ(files().problem, "")
