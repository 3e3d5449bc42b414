// Where tests find the repository and the oracles' interpreter. `make test` sets the environment; without it,
// the place the tests were built from.
#pragma once
#include <string>

namespace tern::testing {

std::string source_dir();   // TERN_SOURCE_DIR: the root of the repository
std::string build_dir();    // TERN_BUILD_DIR: where the command is (build_dir() + "/tern")
std::string test_python();  // TERN_TEST_PYTHON: an interpreter with torch, onnx, onnxruntime, numpy; "" where
                            // there is none

// The whole file; fails the process' current test by an exception that names the path where it cannot be
// read.
std::string read_file(const std::string& path);

}  // namespace tern::testing
