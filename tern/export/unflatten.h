// unflatten(): the modules of the source back from a flat program, by the scope each node was recorded in.
// Every call of a module has a graph of its own, with its inputs as placeholders and its state as attributes.
#pragma once
#include <map>

#include "tern/base/pointer.h"
#include "tern/export/module.h"

namespace tern {

// One call of a module; a module that is called again is "fc@1".
struct ModulePart {
  std::string path;
  Owned<ir::Graph> graph;  // inputs: placeholders, then state
  std::vector<std::pair<std::string, std::string>>
      attributes;                     // names of the inputs that are state, and their path from here
  std::vector<std::string> targets;   // of the state, from the root
  std::vector<std::string> children;  // paths of the calls inside
};

// Called like the program's module; state is shared with the program.
class UnflattenedModule : public ExportedModule {
 public:
  bool has_part(std::string_view path) const;
  const ModulePart& part(std::string_view path) const;  // "" is the root; throws with the paths there are
  std::string graph_text(std::string_view path) const;  // as torch.fx prints Graph
  std::string part_code(std::string_view path) const;   // as torch.fx prints GraphModule.code
  std::vector<std::string> paths() const;               // in the order of the calls, "" first

 private:
  friend UnflattenedModule unflatten(const ExportedProgram& program);
  struct Parts;
  UnflattenedModule(const ExportedProgram& program, Shared<const Parts> parts);
  Shared<const Parts> parts_;
};

UnflattenedModule unflatten(const ExportedProgram& program);

}  // namespace tern
