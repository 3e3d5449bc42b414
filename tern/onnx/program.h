// ONNX from exported programs and script modules.
#pragma once
#include "tern/export/program.h"
#include "tern/jit/script_module.h"
#include "tern/onnx/onnx.h"

namespace tern::onnx {

// Weights keep the names of the state dict; the user's outputs come first, then new values of buffers that
// are written.
Model export_model(const ExportedProgram& program, const ExportOptions& options = {});
void save(const ExportedProgram& program, const std::string& path, const ExportOptions& options = {});

// The examples say dtypes and sizes of the inputs; numbers among them become constants.
Model export_model(const jit::ScriptModule& module, Span<const tern::Value> examples,
                   const ExportOptions& options = {});
void save(const jit::ScriptModule& module, Span<const tern::Value> examples, const std::string& path,
          const ExportOptions& options = {});

}  // namespace tern::onnx
