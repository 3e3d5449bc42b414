// Debug information of archives (code/*.debug_pkl): where each statement of the code comes from in the user's
// own source. Internal to this room.
#pragma once
#include <map>
#include <optional>

#include "tern/io/zip.h"
#include "tern/ir/graph.h"

namespace tern::jit {

// Reads on demand: an archive that runs without errors never looks at it.
class DebugInfo {
 public:
  DebugInfo(const io::ZipReader& zip, const std::string& root);
  // The place in the user's source of a place in the archive's code; nullopt when the archive does not say.
  std::optional<ir::Origin> find(const ir::Origin& in_code);

 private:
  struct Range {
    uint64_t offset;
    ir::Origin origin;
  };
  struct File {
    std::string code;
    std::vector<Range> ranges;  // by offset
  };
  File read(const std::string& name) const;
  io::Blob archive_;
  std::string label_, root_;
  std::map<std::string, File> files_;  // that were asked for, by the name of the code: "code/__torch__.py"
};

// A statement in printed code.
struct Mark {
  size_t offset;
  const ir::Origin* origin;  // may be nullptr
};
// The pickle for a file of code; nothing is known of statements without an origin.
std::string write_debug_info(const std::vector<Mark>& marks);

}  // namespace tern::jit
