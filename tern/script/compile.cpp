#include "tern/script/compile.h"

#include "tern/base/format.h"
#include "tern/script/adopt.h"
#include "tern/script/ast.h"

namespace tern::script {

Shared<Unit> compile(std::string_view text, const CompileOptions& options) {
  Shared<Unit> unit = Unit::make();
  unit->known_operators_only = options.known_operators_only;
  Adoption adoption(*unit);
  std::string prefix = options.qualifier.empty() ? "" : options.qualifier + ".";
  for (const auto& f : options.functions) adoption.function(*f, Symbol(prefix + std::string(f->name())));
  for (const auto& [name, value] : options.globals) unit->globals.emplace(name, value);
  size_t given = unit->functions().size();
  auto source = new_shared<Source>();
  source->text = text;
  source->name = options.name;
  unit->define(source, options.qualifier);
  unit->first_defined = given;
  return unit;
}

Shared<Function> compile_function(std::string_view text, const CompileOptions& options) {
  Shared<Unit> unit = compile(text, options);
  if (unit->functions().size() <= unit->first_defined)
    fail(ErrorKind::value, options.name + ": the source defines no function");
  return {unit, unit->functions()[unit->first_defined].get()};
}

CodeWithConstants code_with_constants(const Function& function) {
  ConstantTable table;
  CodeWithConstants out{print_source(function, table, true), {}};
  for (size_t i = 0; i < table.items.size(); ++i)
    out.constants.emplace_back("c" + std::to_string(i), table.items[i]);
  return out;
}

}  // namespace tern::script
