// The text cases of this room: a graph, a pipeline of passes and printers, what comes out.
#include <gtest/gtest.h>

#include <fstream>

#include "tern/base/error.h"
#include "tern/ir/pass.h"
#include "tern/ir/text.h"
#include "tern/ir/verify.h"
#include "tests/support/paths.h"
#include "tests/support/text_cases.h"

namespace tern::ir {
namespace {

std::string trimmed(std::string_view text) {
  size_t from = text.find_first_not_of(' '), to = text.find_last_not_of(' ');
  return from == std::string_view::npos ? "" : std::string(text.substr(from, to - from + 1));
}

std::string run_case(const std::string& input, const std::string& pipeline) {
  auto graph = parse(input);
  std::string printed = print(*graph);
  auto again = parse(printed, graph->shapes);
  EXPECT_EQ(print(*again), printed) << "the text does not parse back";
  EXPECT_EQ(print(*graph->clone()), printed) << "a clone prints differently";
  for (size_t at = 0; at <= pipeline.size();) {
    size_t end = std::min(pipeline.find(',', at), pipeline.size());
    std::string step = trimmed(std::string_view(pipeline).substr(at, end - at));
    at = end + 1;
    if (step == "print" || step.empty()) continue;
    if (step == "torch_text") return torch_text(*graph);
    if (step == "fx_code") return fx_code(*graph);
    if (step == "fx_graph") return fx_graph(*graph);
    PassOptions options;
    if (size_t minus = step.find(" -");
        minus != std::string::npos) {  // "peephole -mul_one": a rule switched off
      options.off.push_back(step.substr(minus + 2));
      step = step.substr(0, minus);
    }
    run_pass(*graph, step, options);
    verify(*graph);
  }
  return print(*graph);
}

const int registered = testing::register_text_cases("IrCases", "tests/ir/cases", run_case);

// What PyTorch printed (pytorch_graphs.py) is read and printed again as it was.
TEST(IrText, graphs_printed_by_pytorch_come_back) {
  std::ifstream file(testing::source_dir() + "/tests/ir/pytorch_graphs.txt");
  std::string name, text;
  int count = 0;
  auto check = [&] {
    if (name.empty()) return;
    ++count;
    auto graph = parse(text);
    verify(*graph);
    EXPECT_EQ(torch_text(*graph), text) << name;
    EXPECT_EQ(torch_text(*graph->clone()), text) << name;
    text.clear();
  };
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("==== ")) {
      check();
      name = line.substr(5);
    } else {
      text += line + "\n";
    }
  }
  check();
  EXPECT_GE(count, 12);
}

TEST(IrText, cases_are_found) { EXPECT_GE(registered, 20); }

}  // namespace
}  // namespace tern::ir
