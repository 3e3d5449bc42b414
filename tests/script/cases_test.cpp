// The language held against PyTorch: cases/*.txt are scripts and calls, cases/*.expected what PyTorch made of
// them (record.py). Each case is a test of its own; one more asks PyTorch again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tern/base/error.h"
#include "tern/ir/verify.h"
#include "tern/script/ast.h"
#include "tern/script/compile.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"
#include "tests/support/script_values.h"

namespace tern::script {
namespace {

using V = tern::Value;

std::string read(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Case {
  std::string name, source;
  std::vector<std::string> calls, expected;
};

std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases;
  std::istringstream lines(read(path + ".txt"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#### "))
      cases.push_back({line.substr(5), "", {}, {}});
    else if (line.starts_with(">>> "))
      cases.back().calls.push_back(line.substr(4));
    else
      cases.back().source += line + "\n";
  }
  std::istringstream recorded(read(path + ".expected"));
  size_t at = 0;
  for (std::string line; std::getline(recorded, line);) {
    if (line.starts_with("#### ")) {
      while (at < cases.size() && cases[at].name != line.substr(5)) ++at;
      if (at == cases.size()) ADD_FAILURE() << path << ": record.py has to run again";
    } else if (at < cases.size()) {
      cases[at].expected.push_back(line);
    }
  }
  return cases;
}

// "! LINE: reason", as record.py has it.
std::string refusal(const Error& e) {
  std::string text = e.message(), first = text.substr(0, text.find('\n'));
  size_t place = text.find("<script>:");
  std::string line = "0";
  if (place != std::string::npos) line = text.substr(place + 9, text.find(':', place + 9) - place - 9);
  while (!first.empty() && first.back() == ':') first.pop_back();
  return "! " + line + ": " + first;
}

// The reason without the kind of exception in front, in which Python and C++ differ.
std::string reason_of(std::string line) {
  for (const char* mark : {"!! RuntimeError: ", "!! builtins.", "!! "}) {
    if (!line.starts_with(mark)) continue;
    line = line.substr(std::string(mark).size());
    if (std::string(mark) == "!! builtins.") line = line.substr(line.find(": ") + 2);
    break;
  }
  return line;
}

class ScriptCase : public ::testing::Test {
 public:
  explicit ScriptCase(Case c) : case_(std::move(c)) {}
  void TestBody() override {
    ASSERT_FALSE(case_.expected.empty()) << "record.py has to run again";
    std::shared_ptr<Unit> unit;
    const std::string& first = case_.expected[0];
    try {
      unit = compile(case_.source);
    } catch (const Error& e) {
      // Python itself refuses some, without a place.
      std::string ours =
          first.starts_with("! 0:") ? "! 0" + refusal(e).substr(refusal(e).find(':')) : refusal(e);
      EXPECT_EQ(ours, first) << e.message() << "\n" << case_.source;
      return;
    }
    if (first.starts_with("! ")) {
      ADD_FAILURE() << "PyTorch refuses this, with " << first << "\n" << case_.source;
      return;
    }
    size_t at = 0;
    for (size_t i = 0; i < case_.calls.size(); ++i) {
      if (case_.calls[i].find('(') == std::string::npos) {
        ++at;
        continue;
      }
      std::string printed, wanted;
      while (at < case_.expected.size() && case_.expected[at].starts_with("| "))
        wanted += case_.expected[at++].substr(2) + "\n";
      ASSERT_LT(at, case_.expected.size());
      const std::string& result = case_.expected[at++];
      testing::ScriptCall call = testing::read_call(*unit, case_.calls[i], i);
      Function* f = unit->find_function(Symbol(call.function));
      ASSERT_TRUE(f);
      ::testing::internal::CaptureStdout();
      try {
        V v = f->call(call.positional, call.keywords);
        printed = ::testing::internal::GetCapturedStdout();
        EXPECT_EQ(testing::show(v), result) << case_.calls[i] << "\n" << case_.source;
      } catch (const Error& e) {
        printed = ::testing::internal::GetCapturedStdout();
        if (!result.starts_with("!! "))
          ADD_FAILURE() << case_.calls[i] << " fails: " << e.message() << "\n" << case_.source;
        else
          EXPECT_NE(e.message().find(reason_of(result)), std::string::npos)
              << e.message() << "\nPyTorch says: " << result << "\n"
              << case_.source;
      }
      EXPECT_EQ(printed, wanted) << case_.calls[i];
    }
  }

 private:
  Case case_;
};

int register_cases() {
  int count = 0;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(testing::source_dir() + "/tests/script/cases"))
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    std::string topic = std::filesystem::path(path).stem().string();
    for (Case& c : read_cases(path.substr(0, path.size() - 4))) {
      std::string name = topic + "_" + c.name;
      ::testing::RegisterTest("ScriptCases", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                              [c = std::move(c)]() -> ::testing::Test* { return new ScriptCase(c); });
      ++count;
    }
  }
  return count;
}

const int registered = register_cases();

TEST(ScriptCasesTable, is_whole) { EXPECT_GE(registered, 600); }

TEST(ScriptCasesTable, is_what_pytorch_says_today) {
  TERN_NEEDS_PYTHON(python, "torch");
  testing::PythonResult r = testing::run_python(
      python, "import runpy, sys\nsys.argv = ['record.py', '--check']\nrunpy.run_path('" +
                  testing::source_dir() + "/tests/script/record.py', run_name='__main__')\n");
  EXPECT_EQ(r.status, 0) << r.output;
}

}  // namespace
}  // namespace tern::script
