#include "tests/support/onnx_runtime.h"

#include <sys/stat.h>

#include "tern/sym/shape_env.h"
#include "tern/tensor/files.h"
#include "tests/support/paths.h"
#include "tests/support/python.h"

namespace tern::testing {

Tensor example(const ir::Type& type, uint32_t& seed) {
  Dims sizes;
  for (SymInt s : type.sizes()) sizes.push_back(s.is_int() ? s.as_int() : 3 + (s.bits() & 1));
  auto next = [&] { return (seed = seed * 1664525u + 1013904223u) >> 8; };
  Tensor values = make_tensor(sizes, kDouble);
  double* p = values.data_ptr<double>();
  bool real = is_floating(type.dtype());
  for (int64_t i = 0; i < values.int_numel(); ++i)
    p[i] = real ? (next() % 4001) / 1000.0 - 2.0 : type.dtype() == kBool ? next() % 2 : next() % 3;
  return values.to(type.dtype());
}

void OrtRun::add(const std::string& name, const onnx::Model& model,
                 const std::vector<std::pair<std::string, Tensor>>& inputs,
                 const std::vector<Tensor>& expected) {
  std::string folder = dir_ / name;
  ::mkdir(folder.c_str(), 0755);
  onnx::write(model, folder + "/model.onnx");
  for (const auto& [input, tensor] : inputs) save_npy(folder + "/in_" + input + ".npy", tensor);
  for (size_t i = 0; i < expected.size(); ++i)
    save_npy(folder + "/out_" + std::to_string(i) + ".npy", expected[i].contiguous());
}

std::map<std::string, std::string> OrtRun::run(const std::string& python) {
  PythonResult r =
      run_python(python, read_file(source_dir() + "/tests/support/run_models.py"), "'" + dir_.path() + "'");
  std::map<std::string, std::string> results;
  for (size_t at = 0; at < r.output.size();) {
    size_t end = std::min(r.output.find('\n', at), r.output.size());
    std::string line = r.output.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("ok ")) results[line.substr(3)];
    if (line.starts_with("bad ")) {
      size_t colon = line.find(": ");
      results[line.substr(4, colon - 4)] = line.substr(colon + 2);
    }
  }
  if (results.empty()) results["python"] = r.output;
  return results;
}

std::vector<Tensor> tensors_of(const std::vector<tern::Value>& values) {
  std::vector<Tensor> out;
  for (const tern::Value& v : values) {
    if (v.is_tensor())
      out.push_back(v.tensor());
    else if (v.is_list() || v.is_tuple())
      for (const Tensor& t : tensors_of(v.items())) out.push_back(t);
    else if (v.is_number())
      out.push_back(tensor(v.scalar()));
  }
  return out;
}

}  // namespace tern::testing
