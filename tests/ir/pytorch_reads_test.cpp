// The text cases, written as TorchScript writes graphs, are what PyTorch reads and prints.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tern/base/error.h"
#include "tern/io/file.h"
#include "tern/ir/text.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"

namespace tern::ir {
namespace {

// The graphs of the cases that are valid: inputs and, where they are graphs, expectations.
std::vector<std::pair<std::string, std::string>> case_graphs() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& entry : std::filesystem::directory_iterator(testing::source_dir() + "/tests/ir/cases")) {
    std::ifstream file(entry.path());
    std::string text, stem = entry.path().stem().string();
    int number = 0;
    auto add = [&] {
      if (text.starts_with("graph(")) {
        try {
          out.emplace_back(stem + "_" + std::to_string(number), torch_text(*parse(text), false));
        } catch (const Error&) {
          // a case of an error
        }
      }
      ++number;
      text.clear();
    };
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("----") || line.starts_with("===="))
        add();
      else if (!text.empty() || !line.starts_with("#"))
        text += line + "\n";
    }
    add();
  }
  return out;
}

TEST(IrText, pytorch_reads_the_cases_and_prints_them_back) {
  TERN_NEEDS_PYTHON(python, "torch");
  io::TemporaryDir dir;
  size_t count = 0;
  for (auto& [name, text] : case_graphs()) {
    std::ofstream(dir / (name + ".txt")) << text;
    ++count;
  }
  ASSERT_GE(count, 60u);
  testing::PythonResult r = testing::run_python(python, R"(
import sys, os, re, torch

def renamed(text):
    "Values by the order in which they appear: parse_ir gives its own names."
    names = {}
    return re.sub(r"%[\w.]+", lambda m: names.setdefault(m[0], f"%v{len(names)}"), text)

equal, unknown = 0, []
for file in sorted(os.listdir(sys.argv[1])):
    text = open(sys.argv[1] + "/" + file).read()
    try:
        graph = torch._C.parse_ir(text, True)
    except RuntimeError as e:
        unknown.append(file + ": " + str(e).strip().split("\n")[0])
        continue
    back = str(graph)
    if renamed(back) != renamed(text):
        print("differs:", file, "\n" + text, "\nPyTorch prints\n" + back)
    else:
        equal += 1
print("equal", equal)
for line in unknown: print("not read:", line)
)",
                                                "'" + dir.path() + "'");
  EXPECT_EQ(r.status, 0) << r.output;
  EXPECT_EQ(r.output.find("differs:"), std::string::npos) << r.output;
  size_t at = r.output.find("equal ");
  ASSERT_NE(at, std::string::npos) << r.output;
  EXPECT_GE(std::stoi(r.output.substr(at + 6)), 50) << r.output;
}

}  // namespace
}  // namespace tern::ir
