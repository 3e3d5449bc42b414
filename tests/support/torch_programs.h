// Exported programs held against PyTorch: ours run there, theirs run here.
#pragma once
#include <string>
#include <vector>

#include "tern/export/program.h"
#include "tern/export/pt2.h"
#include "tern/io/file.h"

namespace tern::testing {

// The same structure, shapes and dtypes; numbers within the tolerance. Fails the test otherwise.
void expect_close(const Value& a, const Value& b, double tolerance = 1e-5);

// Written and read again.
ExportedProgram reload(const ExportedProgram& program, Pt2Layout layout = Pt2Layout::archive);

// Programs that torch.export.load reads and whose modules give what ours give: all held against PyTorch by
// one Python process.
class TorchRun {
 public:
  void add(const ExportedProgram& program, const std::vector<std::vector<Value>>& calls,
           Pt2Layout layout = Pt2Layout::archive, double tolerance = 1e-5);
  void expect_agreement(const std::string& python);  // fails the test otherwise

 private:
  struct Case {
    ExportedProgram program;
    std::vector<std::vector<Value>> calls;
    double tolerance;
  };
  io::TemporaryDir dir_;
  std::vector<Case> cases_;
};

// For one program; skips without PyTorch.
void expect_torch_agrees(const ExportedProgram& program, const std::vector<std::vector<Value>>& calls,
                         Pt2Layout layout = Pt2Layout::archive);

}  // namespace tern::testing
