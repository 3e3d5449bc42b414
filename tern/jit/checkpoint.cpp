// Checkpoints of torch.save: the zip format, and the two before it.
#include <charconv>
#include <cstring>
#include <map>

#include "tern/base/format.h"
#include "tern/io/pickle.h"
#include "tern/jit/archive.h"
#include "tern/jit/reader.h"

namespace tern::jit {
namespace {

bool looks_like_tar(io::Bytes bytes) {
  return bytes.size() > 512 && !std::memcmp(bytes.data() + 257, "ustar", 5);
}

// The files of a tar archive by name; only plain files count.
std::map<std::string, io::Bytes> tar_members(io::Bytes bytes, const std::string& label) {
  std::map<std::string, io::Bytes> members;
  while (bytes.size() >= 512 && bytes[0]) {
    auto field = [&](size_t at, size_t width) {
      std::string_view text(reinterpret_cast<const char*>(bytes.data()) + at, width);
      return text.substr(0, text.find('\0'));
    };
    std::string_view octal = field(124, 12);
    uint64_t size = 0;
    std::from_chars(octal.data(), octal.data() + octal.size(), size, 8);
    if (size > bytes.size() - 512) failf(ErrorKind::file, "{}: the tar archive ends inside a member", label);
    std::string name(field(0, 100));
    if (bytes[156] == '0' || bytes[156] == 0)
      members[name.starts_with("./") ? name.substr(2) : name] = bytes.drop_front(512).first(size);
    uint64_t padded = 512 + (size + 511) / 512 * 512;
    if (padded > bytes.size()) break;
    bytes = bytes.drop_front(padded);
  }
  return members;
}

// What PyTorch wrote before 0.1.10: a tar of `storages` (a count; per storage a key, a device and a type,
// then its elements), `tensors` (a count; per tensor a key, a storage's key and a type, then rank, sizes,
// strides, offset) and `pickle`, which names tensors by their keys.
tern::Value load_tar(const io::Blob& file, const std::string& label, Kinds kinds) {
  std::map<std::string, io::Bytes> members = tar_members(file.bytes, label);
  auto member = [&](const char* name) {
    auto it = members.find(name);
    if (it == members.end())
      failf(ErrorKind::file, "{}: a tar archive, but without the member '{}' of torch.save", label, name);
    return it->second;
  };
  auto number = [&](io::Bytes& rest) {
    if (rest.size() < 8) failf(ErrorKind::file, "{}: a member ends too early", label);
    int64_t n;
    std::memcpy(&n, rest.data(), 8);
    rest = rest.drop_front(8);
    return n;
  };
  auto entry = [&](io::Bytes& rest) {
    size_t used = 0;
    Shared<const io::PickleDoc> doc = io::parse_pickle(rest, &used, label);
    rest = rest.drop_front(used);
    return doc;
  };
  auto key_text = [](const io::Pickle& k) {
    return k.is(io::PickleKind::integer) ? std::to_string(k.as_int()) : std::string(k.as_string());
  };
  auto dtype_of = [&](const io::Pickle& type, std::string_view ending) {
    std::string_view name = type.is(io::PickleKind::global) ? type.name() : "";
    std::optional<DType> d =
        name.ends_with(ending) ? parse_dtype(name.substr(0, name.size() - ending.size())) : std::nullopt;
    if (!d) failf(ErrorKind::file, "{}: {} is no type of tensor", label, type.describe());
    return *d;
  };
  std::map<std::string, Storage> storages;
  io::Bytes rest = member("storages");
  int64_t count = entry(rest)->root().as_int();
  for (int64_t i = 0; i < count; ++i) {
    auto doc = entry(rest);
    DType dtype = dtype_of(doc->root()[2], "Storage");
    int64_t n = number(rest);
    uint64_t width = static_cast<uint64_t>(element_size(dtype));
    if (n < 0 || static_cast<uint64_t>(n) > rest.size() / width)
      failf(ErrorKind::file, "{}: the file ends inside a storage", label);
    Storage s = Storage::allocate(static_cast<size_t>(n) * width);
    std::memcpy(s->data, rest.data(), static_cast<size_t>(n) * width);
    rest = rest.drop_front(static_cast<size_t>(n) * width);
    storages[key_text(doc->root()[0])] = s;
  }
  Unpickler unpickler(label, [](std::string_view, uint64_t) { return io::Blob{}; });
  unpickler.opaque_classes = true;
  unpickler.keep_kinds = kinds == Kinds::of_python;
  rest = member("tensors");
  count = entry(rest)->root().as_int();
  for (int64_t i = 0; i < count; ++i) {
    auto doc = entry(rest);
    DType dtype = dtype_of(doc->root()[2], "Tensor");
    int64_t rank = 0;
    if (rest.size() < 8) failf(ErrorKind::file, "{}: a member ends too early", label);
    int32_t narrow;
    std::memcpy(&narrow, rest.data(), 4);
    rank = narrow;
    rest = rest.drop_front(8);
    if (rank < 0 || rank > 64) failf(ErrorKind::file, "{}: a tensor of {} dimensions", label, rank);
    Dims sizes, strides;
    for (int64_t d = 0; d < rank; ++d) sizes.push_back(number(rest));
    for (int64_t d = 0; d < rank; ++d) strides.push_back(number(rest));
    int64_t offset = number(rest);
    auto it = storages.find(key_text(doc->root()[1]));
    if (it == storages.end()) failf(ErrorKind::file, "{}: a tensor without a storage", label);
    unpickler.set_tensor(key_text(doc->root()[0]), it->second, sizes, strides, offset, dtype);
  }
  io::Bytes content = member("pickle");
  return unpickler.read(entry(content)->root());
}

// Several pickles in a row, then the storages, each with its length in front.
tern::Value load_legacy(const io::Blob& file, const std::string& label, Kinds kinds) {
  io::Bytes rest = file.bytes;
  auto next = [&] {
    size_t used = 0;
    Shared<const io::PickleDoc> doc = io::parse_pickle(rest, &used, label);
    rest = rest.drop_front(used);
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
  std::vector<std::string> names;
  for (size_t i = 0; i < keys->root().size(); ++i) {
    io::Pickle k = keys->root()[i];
    std::string name =
        k.is(io::PickleKind::integer) ? std::to_string(k.as_int()) : std::string(k.as_string());
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
  Unpickler unpickler(label, storages);
  unpickler.opaque_classes = true;
  unpickler.keep_kinds = kinds == Kinds::of_python;
  return unpickler.read(content->root());
}

}  // namespace

tern::Value load_checkpoint(const std::string& path, Kinds kinds) {
  return load_checkpoint(io::map_file(path, io::MapMode::copy_on_write), path, kinds);
}

tern::Value load_checkpoint(io::Blob bytes, const std::string& label, Kinds kinds) {
  return with_label(label, [&]() -> tern::Value {
    if (looks_like_tar(bytes.bytes)) return load_tar(bytes, label, kinds);
    if (!io::ZipReader::looks_like_zip(bytes.bytes)) return load_legacy(bytes, label, kinds);
    io::ZipReader zip(bytes, label);
    std::string root = root_of(zip);
    if (zip.find(root + "constants.pkl"))
      failf(ErrorKind::file, "{}: a TorchScript archive, not a checkpoint; load it with jit::load", label);
    check_byte_order(zip, root);
    std::string member = root + "data.pkl";
    io::Blob blob = zip.read(member, io::Crc::check);
    Shared<const io::PickleDoc> doc = io::parse_pickle(blob.bytes, nullptr, label + ": " + member);
    // Modules that know their parents are not followed in circles: only their state is read.
    Unpickler unpickler(label + ": " + member, storages_in(zip, root + "data/", false));
    unpickler.opaque_classes = true;
    unpickler.keep_kinds = kinds == Kinds::of_python;
    return unpickler.read(doc->root());
  });
}

bool looks_like_checkpoint(const io::Blob& file, const std::string& label) {
  static constexpr uint8_t magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                      0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};
  if (file.bytes.size() >= sizeof magic && !std::memcmp(file.bytes.data(), magic, sizeof magic)) return true;
  if (looks_like_tar(file.bytes)) return true;
  if (!io::ZipReader::looks_like_zip(file.bytes)) return false;
  try {
    io::ZipReader zip(file, label);
    bool data = false, script = false;
    for (const io::ZipMember& m : zip.members()) {
      data |= m.name.ends_with("/data.pkl") || m.name == "data.pkl";
      script |= m.name.ends_with("constants.pkl") || m.name.ends_with("archive_format") ||
                m.name.ends_with("serialized_exported_program.json");
    }
    return data && !script;
  } catch (const Error&) {
    return false;  // whoever reads it says what is wrong
  }
}

NamedTensors load_state_dict(const std::string& path, std::string_view key) {
  tern::Value v = load_checkpoint(path);
  auto describe = [](const tern::Value& dict) {
    std::string keys;
    size_t n = 0;
    for (auto& [k, item] : dict.entries()) {
      if (++n > 12) return keys + ", ...";
      keys += (keys.empty() ? "" : ", ") + (k.is_string() ? k.string() : k.str()) + ": " +
              std::string(item.kind_name());
    }
    return keys;
  };
  std::string_view rest = key;
  while (!rest.empty()) {
    if (!v.is_dict()) failf(ErrorKind::value, "{}: there is no dict under '{}'", path, key);
    // A key may contain dots itself: the whole rest is tried first.
    tern::Value* found = v.find(tern::Value(rest));
    std::string_view next;
    if (!found) {
      size_t dot = rest.find('.');
      found = v.find(tern::Value(rest.substr(0, dot)));
      if (dot != std::string_view::npos) next = rest.substr(dot + 1);
    }
    if (!found)
      failf(ErrorKind::value, "{}: there is no '{}'; the checkpoint holds {}", path, key, describe(v));
    tern::Value inner = *found;
    v = inner;
    rest = next;
  }
  if (!v.is_dict()) failf(ErrorKind::file, "{}: holds a {}, not a dict of tensors", path, v.kind_name());
  NamedTensors out;
  for (auto& [k, item] : v.entries()) {
    if (!k.is_string() || !item.is_tensor())
      failf(ErrorKind::file,
            "{}: not a dict of tensors: the value of {} is a {}. Say which dict to read; the checkpoint "
            "holds {}",
            path, k.str(), item.kind_name(), describe(v));
    out.emplace_back(k.string(), item.tensor());
  }
  return out;
}

}  // namespace tern::jit
