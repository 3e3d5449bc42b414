// .pt2 files: what torch.export.save writes and torch.export.load reads. Today's archive (models/model.json,
// data/weights, data/constants) and the layout of 2024 (serialized_exported_program.json and its companions).
#pragma once
#include "tern/export/program.h"
#include "tern/io/file.h"

namespace tern {

enum class Pt2Layout : uint8_t {
  archive,  // PyTorch 2.8 and later
  files,    // PyTorch 2.1 to 2.7
};

struct SaveOptions {
  Pt2Layout layout = Pt2Layout::archive;
  std::vector<std::pair<std::string, std::string>> extra_files = {};  // name, content
};
// Weights are streamed, stored uncompressed and aligned. Throws where the state has no data.
void save(const ExportedProgram& program, const std::string& path, const SaveOptions& options = {});
std::vector<uint8_t> save_to_memory(const ExportedProgram& program, const SaveOptions& options = {});

struct LoadOptions {
  // Checksums of the weights: always checked up to 1 MiB, beyond only if asked for, because that reads the
  // whole file.
  bool check_weights = false;
  std::vector<std::pair<std::string, std::string>>* extra_files = nullptr;  // gets them
};
// Weights are mapped copy-on-write. Operators Tern does not know are loaded; running them says not_supported.
// Throws Error(file) that names the file and the place in it.
ExportedProgram load_program(const std::string& path, const LoadOptions& options = {});
ExportedProgram load_program(io::Blob archive, const std::string& label, const LoadOptions& options = {});
bool looks_like_pt2(const std::string& path);

}  // namespace tern
