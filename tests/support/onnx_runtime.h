// Models held against ONNX Runtime: written into folders, run by one Python process.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "tern/io/file.h"
#include "tern/onnx/onnx.h"

namespace tern::testing {

// Seeded values for a type: floats around zero, ints from 0 to 2, bools; symbolic sizes are taken as 3, 4, 5,
// ...
Tensor example(const ir::Type& type, uint32_t& seed);

class OrtRun {
 public:
  void add(const std::string& name, const onnx::Model& model,
           const std::vector<std::pair<std::string, Tensor>>& inputs, const std::vector<Tensor>& expected);
  // By name: empty where ONNX Runtime gives what is expected, else why not.
  std::map<std::string, std::string> run(const std::string& python);

 private:
  io::TemporaryDir dir_;
};

// Tensors of results, lists flattened.
std::vector<Tensor> tensors_of(const std::vector<tern::Value>& values);

}  // namespace tern::testing
