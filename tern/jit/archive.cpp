// Reading .pt files.
#include "tern/jit/archive.h"

#include <charconv>

#include "tern/base/format.h"
#include "tern/io/pickle.h"
#include "tern/io/zip.h"
#include "tern/jit/unpickle.h"
#include "tern/script/ast.h"

namespace tern::jit {
namespace {

constexpr int newest_version = 10;  // of the operators' history: what PyTorch 2.13 accepts

// The members of an archive stand in one folder, whose name is anything.
std::string root_of(const io::ZipReader& zip) {
  for (std::string_view wanted : {"data.pkl", "version", "constants.pkl"}) {
    std::string best;
    bool found = false;
    for (const io::ZipMember& m : zip.members()) {
      if (m.name == wanted) return "";
      if (!m.name.ends_with("/" + std::string(wanted))) continue;
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

StorageReader storages_in(const io::ZipReader& zip, std::string folder) {
  return [&zip, folder = std::move(folder)](std::string_view key, uint64_t) -> io::Blob {
    std::string name = folder + std::string(key);
    const io::ZipMember* m = zip.find(name);
    if (!m) failf(ErrorKind::file, "{}: the member {} is missing", zip.label(), name);
    return zip.read(*m);
  };
}

tern::Value read_pickle(const io::ZipReader& zip, const std::string& member, StorageReader storages,
                        std::shared_ptr<script::Unit> unit) {
  io::Blob blob = zip.read(member, io::Crc::check);
  std::string label = zip.label() + ": " + member;
  std::shared_ptr<const io::PickleDoc> doc = io::parse_pickle(blob.bytes, nullptr, label);
  if (doc->cyclic()) failf(ErrorKind::file, "{}: a value that contains itself", label);
  return Unpickler(label, std::move(storages), std::move(unit)).read(doc->root());
}

ScriptModule load_archive(const io::ZipReader& zip, const LoadOptions& options) {
  std::string root = root_of(zip);
  auto has = [&](std::string_view name) { return zip.find(root + std::string(name)) != nullptr; };
  bool code = false;
  for (const io::ZipMember& m : zip.members()) code = code || m.name.starts_with(root + "code/");
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

  std::shared_ptr<script::Unit> unit = script::Unit::make();
  tern::Value constants =
      read_pickle(zip, root + "constants.pkl", storages_in(zip, root + "constants/"), nullptr);
  if (!constants.is_tuple() && !constants.is_list())
    failf(ErrorKind::file, "{}: constants.pkl is not a tuple", zip.label());
  unit->constants = constants.items();
  // The code is read while the archive is open; afterwards everything needed is compiled or kept as source.
  auto sources = std::make_shared<std::map<std::string, std::string>>();
  for (const io::ZipMember& m : zip.members())
    if (m.name.starts_with(root + "code/") && m.name.ends_with(".py"))
      (*sources)[m.name.substr(root.size())] = std::string(io::as_text(zip.read(m, io::Crc::check).bytes));
  unit->loader = [sources](std::string_view qualifier) -> std::shared_ptr<const script::Source> {
    std::string path(qualifier);
    for (char& c : path)
      if (c == '.') c = '/';
    auto it = sources->find("code/" + path + ".py");
    if (it == sources->end()) return nullptr;
    auto source = std::make_shared<script::Source>();
    source->name = it->first;
    source->text = it->second;
    return source;
  };
  tern::Value object = read_pickle(zip, root + "data.pkl", storages_in(zip, root + "data/"), unit);
  if (options.compile_all) unit->compile_all();
  if (options.extra_files)
    for (auto& [name, content] : *options.extra_files)
      if (has("extra/" + name)) content = zip.read_text(root + "extra/" + name);
  return ScriptModule(object);
}

template <class F>
auto with_label(const std::string& label, F f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error& e) {
    if (e.message().starts_with(label)) throw;
    throw Error(e.kind() == ErrorKind::not_supported ? e.kind() : ErrorKind::file,
                label + ": " + e.message());
  }
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

// ---- checkpoints ----

namespace {

// Several pickles in a row, then the storages, each with its length in front.
tern::Value load_legacy(const io::Blob& file, const std::string& label) {
  io::Bytes rest = file.bytes;
  auto next = [&] {
    size_t used = 0;
    std::shared_ptr<const io::PickleDoc> doc = io::parse_pickle(rest, &used, label);
    rest = rest.drop_front(used);
    if (doc->cyclic()) failf(ErrorKind::file, "{}: a value that contains itself", label);
    return doc;
  };
  auto magic = next();
  if (!magic->root().is(io::PickleKind::big_integer) || magic->root().digits() != "119547037146038801333356")
    failf(ErrorKind::file, "{}: neither a zip file nor a checkpoint of torch.save", label);
  auto protocol = next();
  if (protocol->root().as_int() != 1001)
    failf(ErrorKind::file, "{}: an unknown protocol {} of torch.save", label, protocol->root().as_int());
  auto system = next();
  if (std::optional<io::Pickle> little = system->root().find("little_endian"); little && !little->as_bool())
    failf(ErrorKind::file, "{}: written on a big-endian machine", label);
  auto content = next();
  auto keys = next();
  // Where each storage lies is known only from its element type: found while reading, in the order of the
  // keys.
  struct Place {
    io::Bytes bytes;
  };
  std::map<std::string, size_t> order;
  std::vector<std::string> names;
  for (size_t i = 0; i < keys->root().size(); ++i) {
    io::Pickle k = keys->root()[i];
    std::string name =
        k.is(io::PickleKind::integer) ? std::to_string(k.as_int()) : std::string(k.as_string());
    order[name] = i;
    names.push_back(name);
  }
  // The element size of each key, by walking the persistent ids.
  std::map<std::string, int64_t> widths;
  std::vector<io::Pickle> stack{content->root()};
  std::vector<bool> seen(content->node_count());
  while (!stack.empty()) {
    io::Pickle p = stack.back();
    stack.pop_back();
    if (p.id() < seen.size()) {
      if (seen[p.id()]) continue;
      seen[p.id()] = true;
    }
    switch (p.kind()) {
      case io::PickleKind::tuple:
      case io::PickleKind::list:
      case io::PickleKind::set:
        for (size_t i = 0; i < p.size(); ++i) stack.push_back(p[i]);
        break;
      case io::PickleKind::dict:
        for (size_t i = 0; i < p.pair_count(); ++i) stack.push_back(p.value(i));
        break;
      case io::PickleKind::object:
        stack.push_back(p.args());
        for (size_t i = 0; i < p.pair_count(); ++i) stack.push_back(p.value(i));
        if (p.state()) stack.push_back(*p.state());
        break;
      case io::PickleKind::persistent: {
        io::Pickle id = p.persistent_id();
        if (!id.is(io::PickleKind::tuple) || id.size() < 5 || !id[1].is(io::PickleKind::global)) break;
        std::string_view type = id[1].name();
        std::optional<DType> d =
            type.ends_with("Storage") ? parse_dtype(type.substr(0, type.size() - 7)) : std::nullopt;
        std::string key = id[2].is(io::PickleKind::integer) ? std::to_string(id[2].as_int())
                                                            : std::string(id[2].as_string());
        widths[key] = d ? element_size(*d) : 1;
        break;
      }
      default:
        break;
    }
  }
  std::map<std::string, io::Bytes> places;
  for (const std::string& name : names) {
    if (rest.size() < 8) failf(ErrorKind::file, "{}: the file ends before the storage {}", label, name);
    uint64_t count;
    std::memcpy(&count, rest.data(), 8);
    rest = rest.drop_front(8);
    uint64_t width = static_cast<uint64_t>(widths.count(name) ? widths[name] : 1);
    if (count > rest.size() / width)
      failf(ErrorKind::file, "{}: the file ends inside the storage {}", label, name);
    places[name] = rest.first(count * width);
    rest = rest.drop_front(count * width);
  }
  StorageReader storages = [&](std::string_view key, uint64_t) -> io::Blob {
    auto it = places.find(std::string(key));
    if (it == places.end()) failf(ErrorKind::file, "{}: the storage {} is missing", label, key);
    return {it->second, file.owner};
  };
  return Unpickler(label, storages).read(content->root());
}

}  // namespace

tern::Value load_checkpoint(const std::string& path) {
  return load_checkpoint(io::map_file(path, io::MapMode::copy_on_write), path);
}

tern::Value load_checkpoint(io::Blob bytes, const std::string& label) {
  return with_label(label, [&]() -> tern::Value {
    if (!io::ZipReader::looks_like_zip(bytes.bytes)) return load_legacy(bytes, label);
    io::ZipReader zip(bytes, label);
    std::string root = root_of(zip);
    if (zip.find(root + "constants.pkl"))
      failf(ErrorKind::file, "{}: a TorchScript archive, not a checkpoint; load it with jit::load", label);
    check_byte_order(zip, root);
    return read_pickle(zip, root + "data.pkl", storages_in(zip, root + "data/"), nullptr);
  });
}

NamedTensors load_state_dict(const std::string& path) {
  tern::Value v = load_checkpoint(path);
  if (!v.is_dict()) failf(ErrorKind::file, "{}: holds a {}, not a dict of tensors", path, v.kind_name());
  NamedTensors out;
  for (auto& [k, item] : v.entries()) {
    if (!k.is_string() || !item.is_tensor())
      failf(ErrorKind::file, "{}: not a dict of tensors: the value of {} is a {}", path, k.str(),
            item.kind_name());
    out.emplace_back(k.string(), item.tensor());
  }
  return out;
}

}  // namespace tern::jit
