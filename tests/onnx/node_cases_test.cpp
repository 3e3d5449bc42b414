// onnx.backend.test's node cases, imported and run by the interpreter. node_cases.txt is a ratchet: the test
// fails if a listed case fails or an unlisted one passes. TERN_ACCEPT=1 rewrites the list.
#include <dirent.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "tern/base/error.h"
#include "tern/io/protobuf.h"
#include "tern/onnx/onnx.h"
#include "tests/support/onnx_runtime.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"

namespace tern {
namespace {

std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  if (DIR* d = ::opendir(folder.c_str())) {
    while (dirent* e = ::readdir(d))
      if (e->d_name[0] != '.') names.push_back(e->d_name);
    ::closedir(d);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A bare TensorProto in a file, read as the initializer of a model.
onnx::TensorProto read_tensor(const std::string& path) {
  std::vector<uint8_t> bytes = io::read_file(path);
  io::ProtoWriter w;
  w.int64(1, 8);
  w.begin(7);
  w.bytes(5, bytes);
  w.end();
  w.begin(8);
  w.int64(2, 18);
  w.end();
  return onnx::read(io::own(w.str())).graph.initializers.at(0);
}

bool close(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || str(a.sizes()) != str(b.sizes())) return false;
  std::vector<double> x = a.to(kDouble).to_vector<double>(), y = b.to(kDouble).to_vector<double>();
  double relative = a.dtype() == kHalf || a.dtype() == kBFloat16 ? 1e-2 : 1e-3;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (!(std::abs(x[i] - y[i]) <= 1e-5 + relative * std::abs(y[i]))) return false;
  }
  return true;
}

// Inputs that say shapes, axes or counts become initializers: there a model has them.
bool is_parameter(const onnx::Model& model, size_t i, const onnx::TensorProto& value) {
  const std::string& op = model.graph.nodes.empty() ? std::string() : model.graph.nodes[0].op;
  if (i == 0 || value.dims.size() > 1) return false;
  if (value.type == onnx::DataType::int64 || value.type == onnx::DataType::int32)
    return op != "Gather" && op != "Add" && op != "Sub" && op != "Mul" && op != "Div" && op != "Mod" &&
           op != "Pow" && op != "Max" && op != "Min";
  return (op == "Resize" || op == "Upsample" || op == "Pad" || op == "OneHot" || op == "Dropout" ||
          op == "Range") &&
         value.numel() <= 8;
}

std::string run_case(const std::string& folder) {
  try {
    onnx::Model model = onnx::load(folder + "/model.onnx");
    std::vector<std::string> files = entries(folder + "/test_data_set_0");
    size_t inputs = 0, outputs = 0;
    for (const std::string& f : files) (f.starts_with("input_") ? inputs : outputs) += f.ends_with(".pb");
    std::vector<tern::Value> values;
    std::vector<onnx::ValueInfo> kept;
    bool range = !model.graph.nodes.empty() && model.graph.nodes[0].op == "Range";
    for (size_t i = 0; i < inputs && i < model.graph.inputs.size(); ++i) {
      onnx::TensorProto t = read_tensor(folder + "/test_data_set_0/input_" + std::to_string(i) + ".pb");
      if (is_parameter(model, i, t) || range) {
        t.name = model.graph.inputs[i].name;
        model.graph.initializers.push_back(t);
      } else {
        values.emplace_back(onnx::to_tensor(t));
        kept.push_back(model.graph.inputs[i]);
      }
    }
    model.graph.inputs = kept;
    std::vector<Tensor> results = testing::tensors_of(onnx::import_model(model).run(values));
    if (results.size() < outputs) return "fewer outputs than expected";
    for (size_t i = 0; i < outputs; ++i) {
      Tensor expected =
          onnx::to_tensor(read_tensor(folder + "/test_data_set_0/output_" + std::to_string(i) + ".pb"));
      if (!close(results[i], expected)) return "output " + std::to_string(i) + " differs";
    }
    return "";
  } catch (const Error& e) {
    return e.message();
  }
}

TEST(OnnxNodeCases, are_those_of_the_list) {
  TERN_NEEDS_PYTHON(python, "onnx");
  io::TemporaryDir dir;
  std::string data = dir.path();
  auto made = testing::run_python(
      python, testing::read_file(testing::source_dir() + "/tests/onnx/node_cases.py"), "'" + data + "'");
  ASSERT_EQ(made.status, 0) << made.output;
  std::vector<std::string> names = entries(data);
  ASSERT_GT(names.size(), 1000u);
  std::string list = testing::source_dir() + "/tests/onnx/node_cases.txt";
  std::set<std::string> listed;
  std::string text = testing::read_file(list);
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    if (end > at && text[at] != '#') listed.insert(text.substr(at, end - at));
    at = end + 1;
  }
  bool accept = std::getenv("TERN_ACCEPT") != nullptr, verbose = std::getenv("TERN_VERBOSE") != nullptr;
  std::string passing = "# Node cases of onnx.backend.test that pass; a ratchet: see node_cases_test.cpp.\n";
  for (const std::string& name : names) {
    std::string problem = run_case(data + "/" + name);
    if (problem.empty()) passing += name + "\n";
    if (verbose && !problem.empty()) printf("%s: %s\n", name.c_str(), problem.substr(0, 200).c_str());
    if (accept) continue;
    if (listed.count(name))
      EXPECT_EQ(problem, "") << name;
    else
      EXPECT_NE(problem, "") << name << " passes: put it on the list (TERN_ACCEPT=1)";
  }
  if (accept) io::write_file(list, passing);
  EXPECT_GT(listed.size(), 500u);
}

}  // namespace
}  // namespace tern
