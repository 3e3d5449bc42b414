// .pt files: TorchScript archives, read and written, and the checkpoints of torch.save, read. Nothing in a
// file is executed while it is read but a script's own __setstate__; classes other than the ones the formats
// need are refused by name, or kept as names in checkpoints.
#pragma once
#include <map>

#include "tern/io/file.h"
#include "tern/jit/script_module.h"

namespace tern::jit {

// What an archive says about itself.
struct ArchiveFacts {
  int version = 0;  // of the operators it was written with
  std::vector<std::string> extra_files;
};

struct LoadOptions {
  // Names of extra files to read; what is found is put in their values.
  std::map<std::string, std::string>* extra_files = nullptr;
  bool compile_all =
      false;  // true: all code now, with its errors; else each function when it is first called
  bool check_weights = false;  // CRC of all weights: reads them all. Up to 1 MiB are always checked
  ArchiveFacts* facts = nullptr;
};

// Tensors are mapped from the file, copy on write: loading reads no weights beyond 1 MiB. Throws Error(file)
// naming the path.
ScriptModule load(const std::string& path, const LoadOptions& options = {});
ScriptModule load(io::Blob bytes, const std::string& label, const LoadOptions& options = {});

void save(const ScriptModule& module, io::Sink& sink, std::string_view archive_name,
          const std::map<std::string, std::string>& extra_files = {});

// What torch.save wrote, zip, the format before it, or tar: dicts, lists, tuples, numbers, strings and
// tensors. An OrderedDict is a dict, a whole nn.Module is the dict of its state; objects of other classes are
// opaque.
enum class Kinds : uint8_t { plain, of_python };
tern::Value load_checkpoint(const std::string& path, Kinds kinds = Kinds::plain);
tern::Value load_checkpoint(io::Blob bytes, const std::string& label, Kinds kinds = Kinds::plain);
// With Kinds::of_python: what is a set, frozenset, bytes, bytearray, dtype, layout, Size, OrderedDict,
// Counter, "defaultdict list" (with its factory) or an int of more than 64 bits there, and a list, string,
// number or dict here.
struct PythonKind final : Box {
  std::string kind;
  tern::Value value;
};
const PythonKind* python_kind(const tern::Value& value);  // nullptr for every other value
bool looks_like_checkpoint(const io::Blob& bytes, const std::string& label);
// The class of an object that was kept as a name only; nullptr for every other value.
const std::string* opaque_class(const tern::Value& value);
// A checkpoint that is a dict of tensors, or has one under `key` ("state_dict", "model.ema"): throws with the
// keys there are.
NamedTensors load_state_dict(const std::string& path, std::string_view key = {});

}  // namespace tern::jit
