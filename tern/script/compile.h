// The TorchScript language: source text → compiled functions and classes.
//   auto unit = script::compile(R"(
//     def f(x: Tensor, n: int = 2) -> Tensor:
//       for i in range(n):
//         x = x * 2
//       return x
//   )");
//   Tensor y = unit->find_function("f")->call({x}).tensor();
#pragma once
#include "tern/base/pointer.h"
#include "tern/script/unit.h"

namespace tern::script {

struct CompileOptions {
  std::string name = "<script>";  // in messages and origins
  std::string qualifier = "";     // in front of what is defined: "__torch__"
  bool known_operators_only = true;
  // What the source may name besides what it defines: compiled or traced functions, under their own names,
  // and numbers, strings, containers. A module can be named but not called: it must be a submodule of the
  // caller.
  std::vector<Shared<Function>> functions = {};
  std::vector<std::pair<std::string, tern::Value>> globals = {};
};

// Throws Error(value) with the message, the place (name:line:column), the line and a caret.
Shared<Unit> compile(std::string_view source, const CompileOptions& options = {});
// The first function of the source; keeps its unit alive.
Shared<Function> compile_function(std::string_view source, const CompileOptions& options = {});

// ---- back to source, as PyTorch writes it into archives ----

// Constants that are tensors become CONSTANTS.cN; they are collected here.
struct ConstantTable {
  std::vector<tern::Value> items;
  // Where statements begin in what print_source() gives, and where they come from.
  std::vector<std::pair<size_t, const ir::Origin*>> statements;
  size_t add(const tern::Value& value);  // the same tensor is kept once
};
// A function, or a method as a class has it; `alone`, as users see it: not indented and self without a type.
std::string print_source(const Function& function, ConstantTable& constants, bool alone = false);
std::string print_source(const ClassType& type, ConstantTable& constants);
// A graph alone, as a function of that name.
std::string print_source(const ir::Graph& graph, std::string_view name, ConstantTable& constants);

CodeWithConstants code_with_constants(const Function& function);

}  // namespace tern::script
