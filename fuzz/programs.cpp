// The languages: the text of graphs, and TorchScript source.
#include <memory>
#include <string>

#include "fuzz/targets.h"
#include "tern/ir/text.h"
#include "tern/ir/verify.h"
#include "tern/script/ast.h"
#include "tern/script/compile.h"

namespace tern::fuzz {
namespace {

std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A tree as text: kinds, places and words.
std::string outline(const script::ExprPtr& e) {
  if (!e) return "-";
  std::string out = "(" + std::to_string(int(e->kind)) + " " + std::to_string(e->at) + ":" +
                    std::to_string(e->end) + " " + e->text + e->value.str();
  for (const script::ExprPtr& item : e->items) out += outline(item);
  return out + ")";
}
std::string outline(const script::Body& body) {
  std::string out;
  for (const script::StmtPtr& s : body) {
    out += "{" + std::to_string(int(s->kind)) + " " + std::to_string(s->at) + s->op;
    for (const script::ExprPtr& t : s->targets) out += outline(t);
    out += outline(s->value) + outline(s->annotation) + outline(s->message) + outline(s->body) +
           outline(s->otherwise) + "}";
  }
  return out;
}
std::string outline(const script::SourcePtr& source, const script::Def& def) {
  script::read_def(source, def);
  std::string out = def.name + outline(def.returns);
  for (const script::Param& p : def.params) out += p.name + outline(p.annotation) + outline(p.default_value);
  return out + outline(def.body);
}
std::string outline(const script::File& file) {
  std::string out = outline(file.statements);
  for (const script::Def& d : file.defs) out += outline(file.source, d);
  for (const script::Class& c : file.classes) {
    script::read_class(file.source, c);
    out += c.name + outline(c.body);
    for (const script::Def& d : c.methods) out += outline(file.source, d);
  }
  return out;
}

// An archive's functions and classes are read when they are needed: the same trees as if all was read at
// once.
void check_late_bodies(const std::string& text) {
  auto source = std::make_shared<script::Source>(script::Source{text, "fuzz.py"});
  std::string at_once;
  try {
    at_once = outline(parse_file(source));
  } catch (const Error&) {
    return;
  }
  std::string late;
  must("bodies that were left cannot be read",
       [&] { late = outline(parse_file(source, script::Bodies::leave)); });
  if (late != at_once) throw Finding("bodies read late differ:\n" + at_once + "\n" + late);
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
    check_late_bodies(source);
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
