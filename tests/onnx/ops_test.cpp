// Every line of ops.txt: lowered, run by ONNX Runtime and by the interpreter; and imported back.
#include <gtest/gtest.h>

#include <cmath>

#include "tern/base/error.h"
#include "tern/capture/retrace.h"
#include "tern/dispatch/op.h"
#include "tern/ir/interpreter.h"
#include "tern/ir/text.h"
#include "tern/onnx/driver.h"
#include "tern/sym/shape_env.h"
#include "tests/support/onnx_runtime.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"

namespace tern {
namespace {

struct Case {
  std::string name;
  std::unique_ptr<ir::Graph> graph;  // with types
  std::vector<Tensor> inputs;
  std::vector<Tensor> expected;
  std::string problem = {};
};

std::vector<std::string> split(const std::string& text, std::string_view by) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(by, at), text.size());
    std::string part = text.substr(at, end - at);
    while (!part.empty() && part.front() == ' ') part.erase(0, 1);
    while (!part.empty() && part.back() == ' ') part.pop_back();
    parts.push_back(part);
    at = end + by.size();
  }
  return parts;
}

std::string graph_text(const std::vector<std::string>& fields) {
  std::string text = "graph(";
  char name = 'a';
  for (const std::string& type : split(fields.at(1), ";")) {
    text += std::string(name == 'a' ? "" : ", ") + "%" + name + " : " + type;
    ++name;
  }
  text += "):\n";
  std::vector<std::string> calls = split(fields.at(2), ";");
  std::string result;
  for (size_t i = 0; i < calls.size(); ++i) {
    std::string call = calls[i], outputs = "%r" + std::to_string(i) + " : ";
    bool number = call.starts_with("aten::sym_size") || call.starts_with("aten::mul.int") ||
                  call.starts_with("aten::floordiv.int");
    outputs += number ? "int" : "Tensor";
    result = "%r" + std::to_string(i);
    if (call.size() > 2 && call[1] == ':' && call[2] == ' ') {
      int count = call[0] - '0';
      call = call.substr(3);
      outputs = result = "";
      for (int k = 0; k < count; ++k) {
        std::string v = "%r" + std::to_string(i) + "_" + std::to_string(k);
        outputs += (k ? ", " : "") + v + " : Tensor";
        result += (k ? ", " : "") + v;
      }
    }
    text += "  " + outputs + " = " + call + "\n";
  }
  return text + "  return (" + result + ")\n";
}

std::vector<Case>& cases() {
  static std::vector<Case>* all = [] {
    auto* list = new std::vector<Case>;
    uint32_t seed = 7;
    for (const std::string& line :
         split(testing::read_file(testing::source_dir() + "/tests/onnx/ops.txt"), "\n")) {
      if (line.empty() || line[0] == '#') continue;
      std::vector<std::string> fields = split(line, " | ");
      Case c{fields[0], nullptr, {}, {}};
      try {
        auto shapes = std::make_shared<ShapeEnv>();
        auto untyped = ir::parse(graph_text(fields), shapes);
        std::vector<tern::Value> values;
        for (const ir::Value* v : untyped->inputs()) {
          c.inputs.push_back(testing::example(*v->type(), seed));
          values.emplace_back(c.inputs.back());
        }
        c.expected = testing::tensors_of(ir::run(*untyped, values));
        try {
          c.graph = capture::retrace(*untyped).graph;
        } catch (const Error&) {
          c.graph = std::move(untyped);  // a size depends on the data: lowered without types
        }
      } catch (const Error& e) {
        c.problem = e.message();
      }
      list->push_back(std::move(c));
    }
    return list;
  }();
  return *all;
}

std::vector<std::pair<std::string, Tensor>> named_inputs(const Case& c) {
  std::vector<std::pair<std::string, Tensor>> in;
  for (size_t i = 0; i < c.inputs.size(); ++i) in.emplace_back(c.graph->inputs()[i]->name(), c.inputs[i]);
  return in;
}

TEST(OnnxOps, cases_run_in_the_interpreter) {
  EXPECT_GT(cases().size(), 150u);
  for (const Case& c : cases()) EXPECT_EQ(c.problem, "") << c.name;
}

TEST(OnnxOps, onnxruntime_gives_the_interpreters_numbers) {
  TERN_NEEDS_PYTHON(python, "onnxruntime");
  for (int64_t opset : {18, 20, 23}) {
    testing::OrtRun run;
    size_t written = 0;
    for (const Case& c : cases()) {
      if (!c.problem.empty()) continue;
      try {
        run.add(c.name, onnx::export_model({*c.graph}, {.opset = opset}), named_inputs(c), c.expected);
        ++written;
      } catch (const Error& e) {
        ADD_FAILURE() << c.name << " (opset " << opset << "): " << e.message() << "\n" << c.graph->str();
      }
    }
    std::map<std::string, std::string> results = run.run(python);
    EXPECT_EQ(results.size(), written);
    for (const auto& [name, problem] : results) EXPECT_EQ(problem, "") << name << " (opset " << opset << ")";
  }
}

TEST(OnnxOps, import_gives_the_numbers_back) {
  for (const Case& c : cases()) {
    if (!c.problem.empty()) continue;
    try {
      onnx::Model model = onnx::read(io::own(onnx::to_bytes(onnx::export_model({*c.graph}))));
      onnx::Imported imported = onnx::import_model(model);
      std::vector<tern::Value> values;
      for (const std::string& name : imported.input_names)
        for (const auto& [input, tensor] : named_inputs(c))
          if (input == name) values.emplace_back(tensor);
      std::vector<Tensor> results = testing::tensors_of(imported.run(values));
      ASSERT_EQ(results.size(), c.expected.size()) << c.name;
      for (size_t i = 0; i < results.size(); ++i) {
        EXPECT_EQ(name(results[i].dtype()), name(c.expected[i].dtype())) << c.name;
        EXPECT_EQ(str(results[i].sizes()), str(c.expected[i].sizes())) << c.name;
        std::vector<double> a = results[i].to(kDouble).to_vector<double>(),
                            b = c.expected[i].to(kDouble).to_vector<double>();
        ASSERT_EQ(a.size(), b.size()) << c.name;
        for (size_t k = 0; k < a.size(); ++k) {
          if (std::isnan(a[k]) && std::isnan(b[k])) continue;
          EXPECT_NEAR(a[k], b[k], 1e-4 + 1e-4 * std::abs(b[k])) << c.name << " [" << k << "]";
        }
      }
    } catch (const Error& e) {
      ADD_FAILURE() << c.name << ": " << e.message();
    }
  }
}

TEST(OnnxOps, the_checker_finds_nothing_in_what_is_written) {
  for (const Case& c : cases()) {
    if (!c.problem.empty()) continue;
    for (const onnx::Problem& p : onnx::check(onnx::export_model({*c.graph})))
      ADD_FAILURE() << c.name << ": " << p.str();
  }
}

TEST(OnnxOps, every_rule_of_the_table_parses) {
  for (const Op* op : all_ops()) EXPECT_NO_THROW(onnx::check_rules(*op)) << op->qualified();
}

}  // namespace
}  // namespace tern
