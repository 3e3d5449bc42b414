#include "tern/io/npy.h"

#include <charconv>
#include <cstring>
#include <utility>

#include "tern/base/format.h"

namespace tern::io {

namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr uint32_t kMaxHeader = 1 << 20;
constexpr size_t kMaxRank = 64;  // NumPy's own limit

// The header is a Python dict literal with exactly three keys.
struct HeaderParser {
  std::string_view text;
  const std::string& label;
  size_t at = 0;

  [[noreturn]] void bad(std::string_view what) const {
    failf(ErrorKind::file, "{}: the .npy header is invalid: {} (column {})", label, what, at + 1);
  }
  char peek() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r'))
      ++at;
    return at < text.size() ? text[at] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad(fmt::format("'{}' is expected", c));
  }
  std::string_view string() {
    char quote = peek();
    if (quote != '\'' && quote != '"') bad("a string is expected");
    size_t end = text.find(quote, at + 1);
    if (end == text.npos) bad("a string does not end");
    std::string_view s = text.substr(at + 1, end - at - 1);
    if (s.find('\\') != s.npos) bad("an escape in a string");
    at = end + 1;
    return s;
  }
  bool boolean() {
    peek();
    for (bool value : {true, false}) {
      std::string_view word = value ? "True" : "False";
      if (text.substr(at).starts_with(word)) {
        at += word.size();
        return value;
      }
    }
    bad("True or False is expected");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> items;
    expect('(');
    while (!accept(')')) {
      peek();
      int64_t value = 0;
      auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
      if (error != std::errc()) bad("an integer of 64 bits is expected");
      if (value < 0) bad("a dimension is negative");
      at = static_cast<size_t>(end - text.data());
      if (at < text.size() && text[at] == 'L') ++at;  // Python 2
      items.push_back(value);
      if (items.size() > kMaxRank) bad(fmt::format("more than {} dimensions", kMaxRank));
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return items;
  }
  void parse(NpyArray& array) {
    bool have[3] = {};
    expect('{');
    while (!accept('}')) {
      std::string_view key = string();
      expect(':');
      int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0) bad(fmt::format("the key '{}' is not known", key));
      if (std::exchange(have[which], true)) bad(fmt::format("the key '{}' appears twice", key));
      if (which == 0) {
        char c = peek();
        if (c == '[' || c == '(')
          failf(ErrorKind::not_supported,
                "{}: structured arrays are not supported: save each field as an array of its own", label);
        array.descr = string();
      } else if (which == 1) {
        array.fortran = boolean();
      } else {
        array.shape = tuple();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (peek() != '\0') bad("text follows the dict");
    if (!have[0] || !have[1] || !have[2]) bad("it needs descr, fortran_order and shape");
  }
};

// Bytes of the whole array; refuses what does not fit 63 bits.
int64_t byte_count(const NpyArray& array, const std::string& label) {
  int64_t total = static_cast<int64_t>(array.item_size());
  bool empty = false;
  for (int64_t dim : array.shape) empty |= dim == 0;
  if (empty) return 0;
  for (int64_t dim : array.shape)
    if (__builtin_mul_overflow(total, dim, &total))
      failf(ErrorKind::file, "{}: the array's shape overflows", label);
  return total;
}

}  // namespace

size_t npy_item_size(std::string_view descr) {
  auto bad = [&] { failf(ErrorKind::not_supported, "npy: the dtype '{}' is not supported", descr); };
  std::string_view rest = descr;
  if (!rest.empty() && std::string_view("<>|=").find(rest[0]) != std::string_view::npos)
    rest.remove_prefix(1);
  if (rest.size() < 2) bad();
  char kind = rest[0];
  if (kind == 'O')
    failf(ErrorKind::not_supported, "npy: arrays of Python objects ('{}') are pickles and are not read",
          descr);
  if (std::string_view("biufcSaUVmM").find(kind) == std::string_view::npos) bad();
  uint32_t size = 0;
  auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), size);
  if (error != std::errc() || size > (1u << 30)) bad();
  std::string_view unit(end, static_cast<size_t>(rest.data() + rest.size() - end));
  bool is_time = kind == 'm' || kind == 'M';
  if (!unit.empty() && !(is_time && unit.front() == '[' && unit.back() == ']')) bad();
  return kind == 'U' ? size_t{size} * 4 : size;
}

size_t NpyArray::item_size() const { return npy_item_size(descr); }

int64_t NpyArray::count() const {
  int64_t n = 1;
  for (int64_t dim : shape)
    if (dim == 0) return 0;
  for (int64_t dim : shape) n *= dim;
  return n;
}

NpyArray parse_npy(Blob file, std::string label, size_t* consumed) {
  Bytes bytes = file.bytes;
  if (bytes.size() < 10 || as_text(bytes).substr(0, 6) != kMagic)
    failf(ErrorKind::file, "{}: not a .npy file: it does not start with \\x93NUMPY", label);
  int major = bytes[6];
  if (major < 1 || major > 3)
    failf(ErrorKind::file, "{}: .npy version {}.{} is not known (1, 2 and 3 are)", label, major, bytes[7]);
  size_t head = major == 1 ? 10 : 12;
  if (bytes.size() < head) failf(ErrorKind::file, "{}: the .npy header is truncated", label);
  uint32_t size = 0;
  std::memcpy(&size, bytes.data() + 8, major == 1 ? 2 : 4);
  if (size > kMaxHeader) failf(ErrorKind::file, "{}: the .npy header claims {} bytes", label, size);
  if (size > bytes.size() - head) failf(ErrorKind::file, "{}: the .npy header is truncated", label);
  NpyArray array;
  HeaderParser{as_text(bytes).substr(head, size), label}.parse(array);
  int64_t want;
  try {
    want = byte_count(array, label);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::not_supported) throw;
    throw error.with_context(label);
  }
  size_t left = bytes.size() - head - size;
  if (static_cast<uint64_t>(want) > left)
    failf(ErrorKind::file, "{}: the array needs {} bytes but the file has {}: it is truncated", label, want,
          left);
  array.data = {Bytes(bytes.data() + head + size, static_cast<size_t>(want)), file.owner};
  if (consumed) *consumed = head + size + static_cast<size_t>(want);
  return array;
}

NpyArray read_npy(const std::string& path) { return parse_npy(map_file(path), path); }

std::string npy_header(std::string_view descr, bool fortran, Span<const int64_t> shape) {
  std::string dict =
      fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': (", descr, fortran ? "True" : "False");
  for (size_t i = 0; i < shape.size(); ++i) dict += fmt::format("{}{}", i ? ", " : "", shape[i]);
  dict += shape.size() == 1 ? ",), }" : "), }";
  // NumPy leaves room for the first axis (the last in Fortran order) to grow to 21 digits in place.
  if (!shape.empty()) dict.append(21 - std::to_string(fortran ? shape.back() : shape[0]).size(), ' ');
  int version = dict.size() + 1 + 64 > 0xFFFF ? 2 : 1;
  size_t head = version == 1 ? 10 : 12;
  dict.append(63 - (head + dict.size()) % 64, ' ');
  dict += '\n';
  std::string out(kMagic);
  out += static_cast<char>(version);
  out += '\0';
  uint32_t size = static_cast<uint32_t>(dict.size());
  out.append(reinterpret_cast<const char*>(&size), version == 1 ? 2 : 4);
  return out + dict;
}

void write_npy(Sink& sink, const NpyArray& array) {
  int64_t want = byte_count(array, "npy");
  if (static_cast<uint64_t>(want) != array.data.bytes.size())
    failf(ErrorKind::value, "npy: an array of this shape and dtype has {} bytes, but {} are given", want,
          array.data.bytes.size());
  sink.write(npy_header(array.descr, array.fortran, array.shape));
  sink.write(array.data.bytes);
}

void write_npy(const std::string& path, const NpyArray& array) {
  FileWriter file(path);
  write_npy(file, array);
  file.commit();
}

std::vector<NpzEntry> read_npz(const ZipReader& archive) {
  std::vector<NpzEntry> entries;
  for (const ZipMember& member : archive.members()) {
    std::string_view name = member.name;
    if (!name.ends_with(".npy"))
      failf(ErrorKind::file, "{}: not an .npz file: its member '{}' is not a .npy file", archive.label(),
            name);
    name.remove_suffix(4);
    entries.push_back(
        {std::string(name), parse_npy(archive.read(member), fmt::format("{}: {}", archive.label(), name))});
  }
  return entries;
}

std::vector<NpzEntry> read_npz(const std::string& path) { return read_npz(ZipReader(path)); }

void write_npz(Sink& sink, Span<const NpzEntry> entries, bool deflate) {
  ZipWriter zip(sink);
  for (const NpzEntry& entry : entries) {
    std::string header = npy_header(entry.array.descr, entry.array.fortran, entry.array.shape);
    if (static_cast<uint64_t>(byte_count(entry.array, "npz")) != entry.array.data.bytes.size())
      failf(ErrorKind::value, "npz: '{}' has {} bytes of data, which its shape and dtype contradict",
            entry.name, entry.array.data.bytes.size());
    zip.begin(entry.name + ".npy",
              {.deflate = deflate, .size = header.size() + entry.array.data.bytes.size()});
    zip.write(header);
    zip.write(entry.array.data.bytes);
    zip.end();
  }
  zip.finish();
}

void write_npz(const std::string& path, Span<const NpzEntry> entries, bool deflate) {
  FileWriter file(path);
  write_npz(file, entries, deflate);
  file.commit();
}

}  // namespace tern::io
