// Numbers and names of the .pt2 schema (torch/_export/serde/schema.py), both ways.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "tern/base/pointer.h"
#include "tern/export/program.h"
#include "tern/io/json.h"

namespace tern::pt2 {

int scalar_type(DType dtype);  // 7 for float32; throws not_supported
std::optional<DType> dtype_of_scalar_type(int64_t code);
int memory_format(MemoryFormat format);
std::optional<MemoryFormat> memory_format_of(int64_t code);
inline constexpr int strided_layout = 7;

// Python's operators on sizes. `kind` is the builtin's name in a graph: "aten::add.int" is "_operator.add".
struct SymFunction {
  std::string_view target;   // "_operator.add", "torch.sym_max"
  std::string_view builtin;  // "aten::add", without the overload
  bool boolean;              // gives a bool
};
const SymFunction* sym_function_of_target(std::string_view target);
const SymFunction* sym_function_of_kind(std::string_view kind);

// "torch.ops.aten.add.Tensor" and "aten::add.Tensor".
std::string target_of(std::string_view qualified);
std::optional<std::string> qualified_of(std::string_view target);

// The whole program as the JSON document of the schema.
std::string program_json(const ExportedProgram& program);
// A tensor's description, as in weights' configurations.
void write_tensor_meta(io::JsonWriter& w, const Tensor& t, int64_t offset);

// Everything but weights, constants and examples.
Shared<ExportedProgram::Data> read_program(io::Json root);

}  // namespace tern::pt2
