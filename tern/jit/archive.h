// .pt files: TorchScript archives, read and written, and the checkpoints of torch.save, read. Nothing in a
// file is executed; classes other than the ones the formats need are refused by name.
#pragma once
#include <map>

#include "tern/io/file.h"
#include "tern/jit/script_module.h"

namespace tern::jit {

struct LoadOptions {
  // Names of extra files to read; what is found is put in their values.
  std::map<std::string, std::string>* extra_files = nullptr;
  bool compile_all = true;  // false: methods are compiled when they are first called
};

// Tensors are mapped from the file, copy on write: loading reads no weights. Throws Error(file) naming the
// path.
ScriptModule load(const std::string& path, const LoadOptions& options = {});
ScriptModule load(io::Blob bytes, const std::string& label, const LoadOptions& options = {});

void save(const ScriptModule& module, io::Sink& sink, std::string_view archive_name,
          const std::map<std::string, std::string>& extra_files = {});

// What torch.save wrote, old format or zip: dicts, lists, tuples, numbers, strings and tensors. An
// OrderedDict is a dict.
tern::Value load_checkpoint(const std::string& path);
tern::Value load_checkpoint(io::Blob bytes, const std::string& label);
// A checkpoint that is a dict of tensors.
NamedTensors load_state_dict(const std::string& path);

}  // namespace tern::jit
