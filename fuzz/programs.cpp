// The languages: the text of graphs, and TorchScript source.
#include <string>

#include "fuzz/targets.h"
#include "tern/ir/text.h"
#include "tern/ir/verify.h"
#include "tern/script/compile.h"

namespace tern::fuzz {
namespace {

std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace

int graph(const uint8_t* data, size_t size) {
  // In a string of its own: its end is where a sanitizer looks.
  std::string text(text_of(data, size));
  return survive([&] {
    auto graph = ir::parse(text);
    // Tensors beyond this are printed without their data.
    const ir::PrintOptions whole{.max_tensor = size_t{1} << 20};
    std::string once = ir::print(*graph, whole), twice;
    must("what was printed does not parse", [&] { twice = ir::print(*ir::parse(once), whole); });
    if (once != twice) throw Finding("the text changed:\n" + once + "became\n" + twice);
    survive([&] { ir::torch_text(*graph); });
    survive([&] { ir::fx_code(*graph); });
    survive([&] { ir::fx_graph(*graph); });
  });
}

int script(const uint8_t* data, size_t size) {
  std::string source(text_of(data, size));
  return survive([&] {
    std::shared_ptr<script::Unit> unit;
    try {
      unit = script::compile(source, {.name = "fuzz.py", .known_operators_only = source.size() % 2 == 0});
    } catch (const Error& error) {
      if (error.message().starts_with("the graph is not valid"))
        throw Finding("source became an invalid graph: " + error.message());
      throw;
    }
    script::ConstantTable constants;
    for (auto& function : unit->functions()) {
      if (!function->compiled()) continue;  // ignored, or a name for overloads
      must("the compiled graph is not valid", [&] { ir::verify(function->graph()); });
      ir::print(function->graph());
      survive([&] { script::print_source(*function, constants); });
    }
    for (auto& type : unit->classes()) survive([&] { script::print_source(*type, constants); });
  });
}

}  // namespace tern::fuzz
