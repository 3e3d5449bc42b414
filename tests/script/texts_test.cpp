// Compiled source as text, held against what PyTorch prints: texts/*.txt are functions with early returns,
// broken loops and what belongs to them, and the code and graphs that PyTorch has for them
// (record_texts.py). Each is a test of its own; one more asks PyTorch again.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <unordered_map>

#include "tern/ir/text.h"
#include "tern/script/compile.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"
#include "tests/support/text_cases.h"

namespace tern::script {
namespace {

// Values numbered in the order they come up, constants in place of their names, no places.
std::string plain(const std::string& graph) {
  static const std::regex constant(
      R"(\s*(%[\w.]+) : ([^=]+) = prim::Constant(?:\[(?:value|name)=(.*)\])?\(\))"),
      definition(R"((%[\w.]+) : )"), value(R"(%[\w.]+)");
  std::unordered_map<std::string, std::string> names, constants;
  std::istringstream lines(graph);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    if (std::smatch m; std::regex_match(line, m, constant)) {
      constants[m[1]] = "<" + m[2].str() + " " + (m[3].matched ? m[3].str() : "None") + ">";
      continue;
    }
    for (std::sregex_iterator i(line.begin(), line.end(), definition), end; i != end; ++i)
      constants.erase((*i)[1]);
    size_t at = 0;
    for (std::sregex_iterator i(line.begin(), line.end(), value), end; i != end; ++i) {
      out += line.substr(at, static_cast<size_t>(i->position()) - at);
      at = static_cast<size_t>(i->position() + i->length());
      auto known = constants.find(i->str());
      out += known != constants.end()
                 ? known->second
                 : names.emplace(i->str(), "%" + std::to_string(names.size())).first->second;
    }
    out += line.substr(at) + "\n";
  }
  return out;
}

std::string text(const std::string& source, const std::string&) {
  CompileOptions options;
  options.qualifier = "__torch__";
  std::shared_ptr<Function> f = compile_function(source, options);
  return code_with_constants(*f).code + "\n" + plain(ir::torch_text(f->graph(), false));
}

const int registered = testing::register_text_cases("ScriptTexts", "tests/script/texts", text);

TEST(ScriptTextsTable, is_whole) { EXPECT_GE(registered, 80); }

TEST(ScriptTextsTable, is_what_pytorch_prints_today) {
  TERN_NEEDS_PYTHON(python, "torch");
  testing::PythonResult r = testing::run_python(
      python, "import runpy, sys\nsys.argv = ['record_texts.py', '--check']\nrunpy.run_path('" +
                  testing::source_dir() + "/tests/script/record_texts.py', run_name='__main__')\n");
  EXPECT_EQ(r.status, 0) << r.output;
}

}  // namespace
}  // namespace tern::script
