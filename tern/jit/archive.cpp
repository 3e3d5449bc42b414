// Reading .pt files.
#include "tern/jit/archive.h"

#include <algorithm>
#include <charconv>

#include "tern/base/format.h"
#include "tern/io/pickle.h"
#include "tern/jit/debug_info.h"
#include "tern/jit/reader.h"
#include "tern/jit/upgraders.h"
#include "tern/script/ast.h"
#include "tern/script/unit.h"

namespace tern::jit {

std::string root_of(const io::ZipReader& zip) {
  for (std::string_view wanted : {"data.pkl", "version", "constants.pkl"}) {
    std::string best;
    bool found = false;
    for (const io::ZipMember& m : zip.members()) {
      if (m.name == wanted) return "";
      if (!m.name.ends_with(wanted) || m.name[m.name.size() - wanted.size() - 1] != '/') continue;
      std::string root = m.name.substr(0, m.name.size() - wanted.size());
      if (!found || root.size() < best.size()) best = root;
      found = true;
    }
    if (found) return best;
  }
  failf(ErrorKind::file, "{}: not a PyTorch archive: it has no data.pkl", zip.label());
}

void check_byte_order(const io::ZipReader& zip, const std::string& root) {
  if (const io::ZipMember* m = zip.find(root + "byteorder"); m && zip.read_text(m->name) == "big")
    failf(ErrorKind::file, "{}: written on a big-endian machine; save it again on a little-endian one",
          zip.label());
}

StorageReader storages_in(const io::ZipReader& zip, std::string folder, bool check_all) {
  uint64_t total = 0;
  for (const io::ZipMember& m : zip.members())
    if (m.name.starts_with(folder)) total += m.size;
  bool check = check_all || total <= io::checked_unasked;
  return [&zip, folder = std::move(folder), check](std::string_view key, uint64_t) -> io::Blob {
    std::string name = folder + std::string(key);
    const io::ZipMember* m = zip.find(name);
    if (!m) failf(ErrorKind::file, "{}: the member {} is missing", zip.label(), name);
    return zip.read(*m, check ? io::Crc::check : io::Crc::skip);
  };
}

tern::Value read_pickle(const io::ZipReader& zip, const std::string& member, StorageReader storages,
                        Shared<script::Unit> unit) {
  io::Blob blob = zip.read(member, io::Crc::check);
  std::string label = zip.label() + ": " + member;
  Shared<const io::PickleDoc> doc = io::parse_pickle(blob.bytes, nullptr, label);
  if (doc->cyclic()) failf(ErrorKind::file, "{}: a value that contains itself", label);
  return Unpickler(label, std::move(storages), std::move(unit)).read(doc->root());
}

namespace {

// Example inputs are kept for their types and sizes; their storages are empty.
script::TracedInputs read_traced_inputs(const io::ZipReader& zip, const std::string& root,
                                        const std::string& type_name) {
  StorageReader nothing = [](std::string_view, uint64_t) { return io::Blob{}; };
  std::string member = root + "traced_inputs.pkl";
  io::Blob blob = zip.read(member, io::Crc::check);
  std::string label = zip.label() + ": " + member;
  Shared<const io::PickleDoc> doc = io::parse_pickle(blob.bytes, nullptr, label);
  if (doc->cyclic()) failf(ErrorKind::file, "{}: a value that contains itself", label);
  Unpickler unpickler(label, nothing);
  unpickler.without_data = true;
  tern::Value methods = unpickler.read(doc->root());
  script::TracedInputs traced;
  if (!methods.is_dict()) return traced;
  for (auto& [name, inputs] : methods.entries())
    if (name.is_string() && inputs.is_list()) traced[type_name + "." + name.string()] = inputs.items();
  return traced;
}

ScriptModule load_archive(const io::ZipReader& zip, const LoadOptions& options) {
  std::string root = root_of(zip);
  auto has = [&](std::string_view name) { return zip.find(root + std::string(name)) != nullptr; };
  bool code = false;
  const std::string code_folder = root + "code/";
  for (const io::ZipMember& m : zip.members()) code = code || m.name.starts_with(code_folder);
  if (!code && has("bytecode.pkl"))
    failf(ErrorKind::not_supported,
          "{}: a model for PyTorch Mobile: it holds bytecode instead of code. Save the original with "
          "torch.jit.save",
          zip.label());
  if (has("archive_format") || has("models/model.json") || has("serialized_exported_program.json"))
    failf(ErrorKind::file,
          "{}: a .pt2 archive of torch.export, not TorchScript; load it as an exported program", zip.label());
  if (!code || !has("constants.pkl"))
    failf(ErrorKind::file,
          "{}: a checkpoint of torch.save, not a TorchScript archive; read it with load_checkpoint",
          zip.label());
  check_byte_order(zip, root);
  std::string text = has("version")         ? zip.read_text(root + "version")
                     : has(".data/version") ? zip.read_text(root + ".data/version")
                                            : "";
  int version = 0;
  auto parsed = std::from_chars(text.data(), text.data() + text.size(), version);
  if (parsed.ec != std::errc() || version < 1)
    failf(ErrorKind::file, "{}: the archive's version is missing or damaged", zip.label());
  if (version > newest_version)
    failf(ErrorKind::not_supported, "{}: written by a newer PyTorch (archive version {}, known are up to {})",
          zip.label(), version, newest_version);

  Shared<script::Unit> unit = script::Unit::make();
  tern::Value constants = read_pickle(zip, root + "constants.pkl",
                                      storages_in(zip, root + "constants/", options.check_weights), nullptr);
  if (!constants.is_tuple() && !constants.is_list())
    failf(ErrorKind::file, "{}: constants.pkl is not a tuple", zip.label());
  unit->constants = constants.items();
  // The code is read while the archive is open; afterwards everything needed is compiled or kept as source.
  auto sources = new_shared<std::map<std::string, std::string>>();
  for (const io::ZipMember& m : zip.members())
    if (m.name.starts_with(code_folder) && m.name.ends_with(".py"))
      upgrade_source((*sources)[m.name.substr(root.size())] =
                         std::string(io::as_text(zip.read(m, io::Crc::check).bytes)),
                     version);
  if (version < newest_version) unit->after_compile = [version](ir::Graph& g) { upgrade(g, version); };
  unit->original = [debug = new_shared<DebugInfo>(zip, root)](const ir::Origin& o) { return debug->find(o); };
  unit->loader = [sources](std::string_view qualifier) -> Shared<const script::Source> {
    std::string path = fmt::format("code/{}.py", qualifier);
    std::replace(path.begin(), path.end() - 3, '.', '/');
    auto it = sources->find(path);
    if (it == sources->end()) return nullptr;
    auto source = new_shared<script::Source>();
    source->name = it->first;
    source->text = std::move(it->second);  // asked for once
    return source;
  };
  tern::Value object =
      read_pickle(zip, root + "data.pkl", storages_in(zip, root + "data/", options.check_weights), unit);
  if (options.compile_all) unit->compile_all();
  if (options.extra_files)
    for (auto& [name, content] : *options.extra_files)
      if (has("extra/" + name)) content = zip.read_text(root + "extra/" + name);
  ScriptModule module(object);
  if (has("traced_inputs.pkl"))
    unit->read_traced_inputs = [archive = zip.archive(), label = zip.label(), root,
                                type = module.type_name()] {
      return read_traced_inputs(io::ZipReader(archive, label), root, type);
    };
  if (options.compile_all) unit->traced_inputs();
  if (options.facts) {
    options.facts->version = version;
    for (const io::ZipMember& m : zip.members())
      if (m.name.starts_with(root + "extra/"))
        options.facts->extra_files.push_back(m.name.substr(root.size() + 6));
  }
  return module;
}

}  // namespace

ScriptModule load(const std::string& path, const LoadOptions& options) {
  return load(io::map_file(path, io::MapMode::copy_on_write), path, options);
}

ScriptModule load(io::Blob bytes, const std::string& label, const LoadOptions& options) {
  if (!io::ZipReader::looks_like_zip(bytes.bytes))
    failf(ErrorKind::file, "{}: not a TorchScript archive: it is no zip file", label);
  return with_label(label, [&] { return load_archive(io::ZipReader(bytes, label), options); });
}

}  // namespace tern::jit
