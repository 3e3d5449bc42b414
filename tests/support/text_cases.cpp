#include "tests/support/text_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "tern/base/error.h"
#include "tests/support/paths.h"

namespace tern::testing {
namespace {

struct Case {
  std::string name, input, pipeline, expected;
  bool error = false;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases(1);
  bool in_input = true;
  for (const std::string& line : lines_of(read_file(path))) {
    Case& c = cases.back();
    if (line == "====") {
      cases.emplace_back();
      in_input = true;
    } else if (in_input && line.rfind("---- ", 0) == 0) {
      c.pipeline = line.substr(5);
      c.error = c.pipeline.rfind("error", 0) == 0;
      if (c.error) c.pipeline = c.pipeline.size() > 6 ? c.pipeline.substr(6) : "";
      in_input = false;
    } else if (in_input && c.input.empty() && c.name.empty() && line.rfind("# ", 0) == 0) {
      c.name = line.substr(2);
    } else {
      (in_input ? c.input : c.expected) += line + "\n";
    }
  }
  while (!cases.empty() && cases.back().input.find_first_not_of(" \n") == std::string::npos) cases.pop_back();
  return cases;
}

void write_cases(const std::string& path, const std::vector<Case>& cases) {
  std::ofstream out(path);
  for (const Case& c : cases) {
    if (!c.name.empty()) out << "# " << c.name << "\n";
    out << c.input << "---- " << (c.error ? "error" : "") << (c.error && !c.pipeline.empty() ? " " : "")
        << c.pipeline << "\n"
        << c.expected << "====\n";
  }
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text;
}

class TextCase : public ::testing::Test {
 public:
  TextCase(std::string path, size_t index, RunCase run) : path_(std::move(path)), index_(index), run_(run) {}
  void TestBody() override {
    std::vector<Case> cases = read_cases(path_);
    Case& c = cases.at(index_);
    std::string actual;
    bool failed = false;
    try {
      actual = run_(c.input, c.pipeline);
    } catch (const Error& e) {
      actual = e.message();
      failed = true;
    }
    bool accept = std::getenv("TERN_ACCEPT") != nullptr;
    EXPECT_EQ(failed, c.error) << "input:\n" << c.input << "gave:\n" << actual;
    if (failed != c.error) return;
    bool same = c.error
                    ? actual.find(trimmed(c.expected)) != std::string::npos && !trimmed(c.expected).empty()
                    : trimmed(actual) == trimmed(c.expected);
    if (!same && accept) {
      c.expected = trimmed(actual) + "\n";
      write_cases(path_, cases);
      return;
    }
    if (c.error)
      EXPECT_TRUE(same) << "expected in the message:\n" << c.expected << "message:\n" << actual;
    else
      EXPECT_EQ(trimmed(actual), trimmed(c.expected)) << "input:\n" << c.input;
  }

 private:
  std::string path_;
  size_t index_;
  RunCase run_;
};

std::string as_test_name(const std::string& text) {
  std::string name;
  for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

}  // namespace

int register_text_cases(const char* suite, const char* folder, RunCase run) {
  int count = 0;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/" + folder))
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    std::vector<Case> cases = read_cases(path);
    for (size_t i = 0; i < cases.size(); ++i) {
      std::string name = as_test_name(std::filesystem::path(path).stem().string() + "_" +
                                      (cases[i].name.empty() ? std::to_string(i) : cases[i].name));
      ::testing::RegisterTest(suite, name.c_str(), nullptr, nullptr, path.c_str(), static_cast<int>(i),
                              [=]() -> TextCase* { return new TextCase(path, i, run); });
      ++count;
    }
  }
  return count;
}

}  // namespace tern::testing
