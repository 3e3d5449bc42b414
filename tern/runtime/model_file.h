// Model files of any format as one thing: an ExportedProgram. What is loaded from .pt2, .pt or .onnx can be
// run, inspected and written as any of them.
#pragma once
#include <string>

#include "tern/export/program.h"

namespace tern {

enum class ModelFormat : uint8_t {
  pt2,
  pt,
  onnx,
  checkpoint,  // of torch.save: weights without a program
};
std::string_view name_of(ModelFormat format);  // "pt2"

// By content: an archive's members, else ONNX. Throws Error(file) when it is none of them.
ModelFormat format_of_file(const std::string& path);
// By the ending of a name that is going to be written; throws Error(value) for others.
ModelFormat format_of_name(const std::string& path);

// Throws for a checkpoint: it has no program.
ExportedProgram load_model(const std::string& path);

struct SaveModelOptions {
  int64_t opset = 0;  // of .onnx; 0: the default
};
void save_model(const ExportedProgram& program, const std::string& path,
                const SaveModelOptions& options = {});

}  // namespace tern
