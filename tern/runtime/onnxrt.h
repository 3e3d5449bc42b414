// The onnxrt backend: a model lowered to ONNX and run by ONNX Runtime, whose shared library is opened when
// asked for.
#pragma once
#include <string>

#include "tern/base/pointer.h"
#include "tern/runtime/session.h"

namespace tern::runtime {

// Throws not_supported with where it looked when the library is not found.
Owned<Engine> make_onnxrt_engine(const SessionModel& model, const SessionOptions& options);
// Runs a finished .onnx file.
Owned<Engine> make_onnxrt_engine(const std::string& path, const SessionOptions& options,
                                 std::vector<std::string>* input_names,
                                 std::vector<std::string>* output_names);
// The library's path: the option, $TERN_ONNXRUNTIME, the active or the project's Python environment, the
// loader's path.
std::string find_onnxruntime(const std::string& asked);

}  // namespace tern::runtime
