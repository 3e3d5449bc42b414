#include "tern/script/compile.h"

#include "tern/base/format.h"
#include "tern/script/ast.h"

namespace tern::script {

std::shared_ptr<Unit> compile(std::string_view text, const CompileOptions& options) {
  std::shared_ptr<Unit> unit = Unit::make();
  unit->known_operators_only = options.known_operators_only;
  auto source = std::make_shared<Source>();
  source->text = text;
  source->name = options.name;
  unit->define(source, options.qualifier);
  return unit;
}

std::shared_ptr<Function> compile_function(std::string_view text, const CompileOptions& options) {
  std::shared_ptr<Unit> unit = compile(text, options);
  if (unit->functions().empty()) fail(ErrorKind::value, options.name + ": the source defines no function");
  return {unit, unit->functions()[0].get()};
}

}  // namespace tern::script
