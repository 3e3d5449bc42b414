#include "tern/io/zip.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "tern/base/format.h"

namespace tern::io {

// A null pointer means "the initial value" to the library.
uint32_t crc32(Bytes bytes, uint32_t seed) {
  return bytes.empty() ? seed : libdeflate_crc32(seed, bytes.data(), bytes.size());
}

namespace {

constexpr uint32_t kLocalSignature = 0x04034b50, kDirectorySignature = 0x02014b50, kEndSignature = 0x06054b50,
                   kEnd64Signature = 0x06064b50, kLocator64Signature = 0x07064b50, kDescriptor = 0x08074b50;
constexpr size_t kLocalSize = 30, kDirectorySize = 46, kEndSize = 22, kEnd64Size = 56, kLocator64Size = 20;
constexpr uint16_t kEncrypted = 1, kHasDescriptor = 8, kUtf8 = 0x800;
constexpr uint32_t kIn64 = 0xFFFFFFFF;
constexpr uint16_t kDate = 0x0021;  // 1980-01-01: the same content gives the same archive

template <class T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

// ---- reader

bool ZipReader::looks_like_zip(Bytes bytes) {
  return bytes.size() >= 4 && (load<uint32_t>(bytes.data()) == kLocalSignature ||
                               (bytes.size() == kEndSize && load<uint32_t>(bytes.data()) == kEndSignature));
}

ZipReader::ZipReader(const std::string& path, ZipLimits limits) : ZipReader(MappedFile::open(path), limits) {}

ZipReader::ZipReader(Shared<const MappedFile> file, ZipLimits limits)
    : ZipReader(Blob{file->bytes(), file}, file->path(), limits) {}

ZipReader::ZipReader(Blob archive, std::string label, ZipLimits limits)
    : archive_(std::move(archive)), label_(std::move(label)), limits_(limits) {
  read_directory();
}

void ZipReader::bad(std::string_view what) const { failf(ErrorKind::file, "{}: {}", label_, what); }

namespace {

// Offset of the end record: the last one whose comment reaches exactly to the end of the file.
std::optional<size_t> find_end(Bytes file) {
  if (file.size() < kEndSize) return std::nullopt;
  size_t lowest = file.size() - kEndSize > 0xFFFF ? file.size() - kEndSize - 0xFFFF : 0;
  for (size_t at = file.size() - kEndSize + 1; at-- > lowest;)
    if (load<uint32_t>(file.data() + at) == kEndSignature &&
        at + kEndSize + load<uint16_t>(file.data() + at + 20) == file.size())
      return at;
  return std::nullopt;
}

// The zip64 field of a directory entry holds, in this order, only the values that did not fit.
bool read_zip64(Bytes extra, ZipMember& member) {
  while (extra.size() >= 4) {
    uint16_t id = load<uint16_t>(extra.data()), size = load<uint16_t>(extra.data() + 2);
    if (size > extra.size() - 4) return false;
    if (id == 1) {
      Bytes field = extra.drop_front(4).first(size);
      for (uint64_t* value : {&member.size, &member.compressed_size, &member.header_offset}) {
        if (*value != kIn64) continue;
        if (field.size() < 8) return false;
        *value = load<uint64_t>(field.data());
        field = field.drop_front(8);
      }
      return true;
    }
    extra = extra.drop_front(4 + size_t{size});
  }
  return member.size != kIn64 && member.compressed_size != kIn64 && member.header_offset != kIn64;
}

}  // namespace

void ZipReader::read_directory() {
  Bytes file = archive_.bytes;
  std::optional<size_t> end_at = find_end(file);
  if (!end_at)
    bad(looks_like_zip(file) ? "the zip archive is truncated: its end record is missing"
                             : "not a zip archive: it has no end record");
  const uint8_t* end = file.data() + *end_at;
  uint64_t count = load<uint16_t>(end + 10), size = load<uint32_t>(end + 12),
           offset = load<uint32_t>(end + 16);
  bool several_disks = load<uint16_t>(end + 4) != load<uint16_t>(end + 6) || load<uint16_t>(end + 8) != count;
  uint64_t directory_end = *end_at;
  bool has_locator =
      *end_at >= kLocator64Size + kEnd64Size && load<uint32_t>(end - kLocator64Size) == kLocator64Signature;
  if (has_locator) {
    uint64_t stated = load<uint64_t>(end - kLocator64Size + 8);
    uint64_t limit = *end_at - kLocator64Size - kEnd64Size;
    // With bytes in front of the archive the stated offset is too small; the record then stands before the
    // locator.
    uint64_t at = stated <= limit && load<uint32_t>(file.data() + stated) == kEnd64Signature ? stated : limit;
    const uint8_t* end64 = file.data() + at;
    if (load<uint32_t>(end64) != kEnd64Signature) bad("the zip64 end record is not where its locator says");
    count = load<uint64_t>(end64 + 32);
    size = load<uint64_t>(end64 + 40);
    offset = load<uint64_t>(end64 + 48);
    several_disks =
        load<uint32_t>(end64 + 16) != load<uint32_t>(end64 + 20) || load<uint64_t>(end64 + 24) != count;
    directory_end = at;
  } else if (count == 0xFFFF || size == kIn64 || offset == kIn64) {
    if (size == kIn64 || offset == kIn64) bad("the zip64 end record is missing");
  }
  if (several_disks) bad("the archive is split over several files, which is not supported");
  if (size > directory_end || offset > directory_end - size)
    bad(fmt::format("the zip directory ({} bytes at {}) lies outside the file", size, offset));
  prefix_ = directory_end - size - offset;
  if (count > size / kDirectorySize)
    bad(fmt::format("the zip directory of {} bytes cannot hold {} members", size, count));

  Bytes directory(file.data() + prefix_ + offset, size);
  members_.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    auto entry_bad = [&](std::string_view what) {
      bad(fmt::format("zip directory entry {} of {}: {}", i + 1, count, what));
    };
    if (directory.size() < kDirectorySize) entry_bad("truncated");
    const uint8_t* p = directory.data();
    if (load<uint32_t>(p) != kDirectorySignature) entry_bad("wrong signature");
    size_t name_size = load<uint16_t>(p + 28), extra_size = load<uint16_t>(p + 30),
           comment_size = load<uint16_t>(p + 32),
           whole = kDirectorySize + name_size + extra_size + comment_size;
    if (directory.size() < whole) entry_bad("truncated");
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(p + kDirectorySize), name_size);
    member.flags = load<uint16_t>(p + 8);
    member.method = load<uint16_t>(p + 10);
    member.crc = load<uint32_t>(p + 16);
    member.compressed_size = load<uint32_t>(p + 20);
    member.size = load<uint32_t>(p + 24);
    member.header_offset = load<uint32_t>(p + 42);
    if (!read_zip64(Bytes(p + kDirectorySize + name_size, extra_size), member))
      entry_bad(fmt::format("'{}' has an invalid zip64 field", member.name));
    if (member.name.find('\0') != std::string::npos) entry_bad("the name holds a zero byte");
    if (member.stored() && member.size != member.compressed_size)
      entry_bad(fmt::format("'{}' is stored but has two sizes, {} and {}", member.name,
                            member.compressed_size, member.size));
    uint64_t room = offset;
    uint64_t least = kLocalSize + name_size;
    if (member.header_offset > room || room - member.header_offset < least ||
        room - member.header_offset - least < member.compressed_size)
      entry_bad(fmt::format("'{}' ({} bytes at {}) lies outside the file", member.name,
                            member.compressed_size, member.header_offset));
    members_.push_back(std::move(member));
    directory = directory.drop_front(whole);
  }
  if (!directory.empty()) bad(fmt::format("the zip directory has {} bytes too many", directory.size()));

  std::vector<uint32_t> order(members_.size());
  std::iota(order.begin(), order.end(), 0);
  by_name_ = order;
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return members_[a].header_offset < members_[b].header_offset; });
  for (size_t i = 0; i < order.size(); ++i) {
    ZipMember& member = members_[order[i]];
    member.end_limit = i + 1 < order.size() ? members_[order[i + 1]].header_offset : offset;
    if (member.end_limit - member.header_offset < kLocalSize + member.name.size() + member.compressed_size)
      bad(fmt::format("the zip members '{}' and '{}' overlap", member.name, members_[order[i + 1]].name));
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [&](uint32_t a, uint32_t b) { return members_[a].name < members_[b].name; });
  for (size_t i = 1; i < by_name_.size(); ++i)
    if (members_[by_name_[i]].name == members_[by_name_[i - 1]].name)
      bad(fmt::format("two zip members are called '{}'", members_[by_name_[i]].name));
}

const ZipMember* ZipReader::find(std::string_view name) const {
  auto at = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                             [&](uint32_t i, std::string_view wanted) { return members_[i].name < wanted; });
  return at != by_name_.end() && members_[*at].name == name ? &members_[*at] : nullptr;
}

const ZipMember& ZipReader::at(std::string_view name) const {
  if (const ZipMember* member = find(name)) return *member;
  std::string have;
  for (size_t i = 0; i < members_.size() && i < 8; ++i) have += (i ? ", '" : "'") + members_[i].name + "'";
  if (members_.size() > 8) have += ", ...";
  bad(fmt::format("the archive has no member '{}' (it has {})", name, have.empty() ? "none" : have));
}

uint64_t ZipReader::data_offset(const ZipMember& member) const {
  auto member_bad = [&](std::string_view what) { bad(fmt::format("member '{}': {}", member.name, what)); };
  const uint8_t* p = archive_.bytes.data() + prefix_ + member.header_offset;
  if (load<uint32_t>(p) != kLocalSignature) member_bad("its local header has a wrong signature");
  uint16_t flags = load<uint16_t>(p + 6);
  uint64_t name_size = load<uint16_t>(p + 26), extra_size = load<uint16_t>(p + 28);
  if ((flags | member.flags) & kEncrypted) member_bad("it is encrypted, which is not supported");
  if (load<uint16_t>(p + 8) != member.method) member_bad("its local header names another compression method");
  if (name_size != member.name.size() || std::memcmp(p + kLocalSize, member.name.data(), name_size) != 0)
    member_bad("its local header has another name");
  uint64_t head = kLocalSize + name_size + extra_size;
  if (member.end_limit - member.header_offset < head + member.compressed_size)
    member_bad(fmt::format("its {} bytes reach into what follows it", member.compressed_size));
  if (!(flags & kHasDescriptor)) {
    auto differs = [&](uint32_t local, uint64_t stated) { return local != kIn64 && local != stated; };
    if (differs(load<uint32_t>(p + 18), member.compressed_size) ||
        differs(load<uint32_t>(p + 22), member.size))
      member_bad("the sizes in its local header differ from those in the directory");
  }
  return prefix_ + member.header_offset + head;
}

namespace {

// Inflates into exactly `size` bytes; a reason when the data do not give exactly that many.
const char* inflate_all(Bytes from, uint8_t* to, uint64_t size) {
  struct Free {
    void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
  };
  thread_local const std::unique_ptr<libdeflate_decompressor, Free> inflater(libdeflate_alloc_decompressor());
  if (!inflater) return "out of memory";
  size_t used = 0, filled = 0;
  switch (
      libdeflate_deflate_decompress_ex(inflater.get(), from.data(), from.size(), to, size, &used, &filled)) {
    case LIBDEFLATE_SUCCESS:
      break;
    case LIBDEFLATE_INSUFFICIENT_SPACE:
      return "it inflates to more bytes than the directory says";
    default:
      return "its compressed data are corrupt or truncated";
  }
  if (filled != size) return "it inflates to fewer bytes than the directory says";
  if (used != from.size()) return "bytes follow its compressed data";
  return nullptr;
}

}  // namespace

Blob ZipReader::read(const ZipMember& member, Crc crc) const {
  auto member_bad = [&](std::string_view what) { bad(fmt::format("member '{}': {}", member.name, what)); };
  Bytes data(archive_.bytes.data() + data_offset(member), member.compressed_size);
  Blob result{data, archive_.owner};
  if (!member.stored()) {
    if (member.method != 8)
      member_bad(
          fmt::format("compression method {} is not supported (only stored and deflate)", member.method));
    if (member.size > limits_.max_member_size)
      member_bad(
          fmt::format("it claims {} bytes, above the limit of {}", member.size, limits_.max_member_size));
    if (member.size / limits_.max_ratio > member.compressed_size)
      member_bad(fmt::format("it claims {} bytes from {} compressed ones, a ratio above {}", member.size,
                             member.compressed_size, limits_.max_ratio));
    // Not zeroed: pages of a size that is a lie are never touched.
    std::shared_ptr<uint8_t[]> memory(new (std::nothrow) uint8_t[std::max<uint64_t>(member.size, 1)]);
    if (!memory) member_bad(fmt::format("there is no memory for its {} bytes", member.size));
    if (const char* why = inflate_all(data, memory.get(), member.size)) member_bad(why);
    result = {Bytes(memory.get(), member.size), memory};
    crc = Crc::check;
  }
  if (crc == Crc::check) {
    uint32_t actual = crc32(result.bytes);
    if (actual != member.crc)
      member_bad(
          fmt::format("its CRC is {:08x} but should be {:08x}: the file is damaged", actual, member.crc));
  }
  return result;
}

std::string ZipReader::read_text(std::string_view name) const {
  return std::string(as_text(read(name, Crc::check).bytes));
}

void ZipReader::verify() const {
  for (const ZipMember& member : members_) read(member, Crc::check);
}

// ---- writer

namespace {

struct Record {
  std::string bytes;
  template <class T>
  Record& put(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
};

uint64_t hash_name(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325;
  for (unsigned char c : name) h = (h ^ c) * 0x100000001b3;
  return h ^ (h >> 29);
}

// True when the name is already there; adds it otherwise. Entries are index + 1.
bool insert_name(std::vector<uint32_t>& table, const std::vector<ZipMember>& members, std::string_view name) {
  if (table.size() < 2 * (members.size() + 1)) {
    table.assign(std::max<size_t>(16, 4 * (members.size() + 1)), 0);
    for (uint32_t i = 0; i < members.size(); ++i) {
      size_t at = hash_name(members[i].name) % table.size();
      while (table[at]) at = (at + 1) % table.size();
      table[at] = i + 1;
    }
  }
  size_t at = hash_name(name) % table.size();
  for (; table[at]; at = (at + 1) % table.size())
    if (members[table[at] - 1].name == name) return true;
  table[at] = static_cast<uint32_t>(members.size() + 1);
  return false;
}

}  // namespace

// A member is compressed when all of it is there.
struct ZipWriter::Deflater {
  std::vector<uint8_t> content;

  void finish(Sink& sink) const {
    struct Free {
      void operator()(libdeflate_compressor* c) const { libdeflate_free_compressor(c); }
    };
    constexpr int kLevel = 6;
    const std::unique_ptr<libdeflate_compressor, Free> compressor(libdeflate_alloc_compressor(kLevel));
    if (!compressor) fail("zip: out of memory for compression");
    std::vector<uint8_t> out(libdeflate_deflate_compress_bound(compressor.get(), content.size()));
    sink.write(out.data(), libdeflate_deflate_compress(compressor.get(), content.data(), content.size(),
                                                       out.data(), out.size()));
  }
};

ZipWriter::ZipWriter(Sink& sink) : sink_(sink), base_(sink.position()) {}
ZipWriter::~ZipWriter() = default;

void ZipWriter::add(std::string_view name, Bytes bytes, bool deflate) {
  begin(name, {.deflate = deflate, .size = bytes.size()});
  write(bytes);
  end();
}

void ZipWriter::begin(std::string_view name, ZipMemberOptions options) {
  TERN_ASSERT(!open_ && !finished_);
  if (name.empty() || name.size() > 0xF000)
    failf(ErrorKind::value, "zip: a member's name must have 1 to {} bytes, not {}", 0xF000, name.size());
  if (name.find('\0') != std::string_view::npos)
    fail(ErrorKind::value, "zip: a member's name holds a zero byte");
  if (insert_name(name_table_, members_, name))
    failf(ErrorKind::value, "zip: the archive already has a member '{}'", name);
  start_member(name, options);
}

void ZipWriter::start_member(std::string_view name, const ZipMemberOptions& options) {
  ZipMember member;
  member.name = name;
  member.header_offset = sink_.position() - base_;
  member.method = options.deflate ? 8 : 0;
  member.flags = kHasDescriptor | kUtf8;
  // Deflate may make a member larger than its content, by far less than this margin.
  zip64_ = !options.size || *options.size >= (options.deflate ? kIn64 - (1u << 24) : kIn64);
  declared_ = options.size;
  deflater_ = options.deflate ? new_owned<Deflater>() : nullptr;

  // Extra fields: zip64 sizes (unknown yet, the descriptor has them), then "FB" + length + 'Z's up to
  // alignment.
  Record extra;
  if (zip64_) extra.put<uint16_t>(1).put<uint16_t>(16).put<uint64_t>(0).put<uint64_t>(0);
  uint64_t data_at = member.header_offset + kLocalSize + name.size() + extra.bytes.size() + 4;
  uint16_t padding = static_cast<uint16_t>((kAlignment - data_at % kAlignment) % kAlignment);
  extra.put<uint8_t>('F').put<uint8_t>('B').put(padding).bytes.append(padding, 'Z');

  Record header;
  uint32_t unknown = zip64_ ? kIn64 : 0;
  header.put(kLocalSignature).put<uint16_t>(zip64_ ? 45 : member.method ? 20 : 0).put(member.flags);
  header.put(member.method).put<uint16_t>(0).put(kDate).put<uint32_t>(0).put(unknown).put(unknown);
  header.put(static_cast<uint16_t>(name.size())).put(static_cast<uint16_t>(extra.bytes.size()));
  header.bytes.append(name).append(extra.bytes);
  sink_.write(header.bytes);
  member.end_limit = sink_.position();  // where the data start, until end()
  members_.push_back(std::move(member));
  open_ = true;
}

void ZipWriter::write(Bytes chunk) {
  TERN_ASSERT(open_);
  ZipMember& member = members_.back();
  if (chunk.empty()) return;
  member.crc = crc32(chunk, member.crc);
  member.size += chunk.size();
  if (declared_ && member.size > *declared_)
    failf(ErrorKind::value, "zip: member '{}' was declared with {} bytes but gets more", member.name,
          *declared_);
  if (deflater_)
    deflater_->content.insert(deflater_->content.end(), chunk.begin(), chunk.end());
  else
    sink_.write(chunk);
}

void ZipWriter::end() {
  TERN_ASSERT(open_);
  ZipMember& member = members_.back();
  if (declared_ && member.size != *declared_)
    failf(ErrorKind::value, "zip: member '{}' was declared with {} bytes but got {}", member.name, *declared_,
          member.size);
  if (deflater_) deflater_->finish(sink_);
  deflater_.reset();
  member.compressed_size = sink_.position() - member.end_limit;
  Record descriptor;
  descriptor.put(kDescriptor).put(member.crc);
  if (zip64_)
    descriptor.put(member.compressed_size).put(member.size);
  else
    descriptor.put(static_cast<uint32_t>(member.compressed_size)).put(static_cast<uint32_t>(member.size));
  sink_.write(descriptor.bytes);
  member.end_limit = sink_.position() - base_;
  combined_crc_ = crc32(Bytes(reinterpret_cast<const uint8_t*>(&member.crc), 4), combined_crc_);
  open_ = false;
}

void ZipWriter::finish(std::string_view comment) {
  TERN_ASSERT(!open_ && !finished_);
  if (comment.size() > 0xFFFF)
    failf(ErrorKind::value, "zip: a comment of {} bytes is too long", comment.size());
  finished_ = true;
  uint64_t start = sink_.position() - base_;
  for (const ZipMember& member : members_) {
    bool large = member.size >= kIn64 || member.compressed_size >= kIn64, far = member.header_offset >= kIn64;
    Record extra;
    if (large || far) {
      extra.put<uint16_t>(1).put<uint16_t>(static_cast<uint16_t>(large * 16 + far * 8));
      if (large) extra.put(member.size).put(member.compressed_size);
      if (far) extra.put(member.header_offset);
    }
    uint16_t version = large || far ? 45 : member.method ? 20 : 0;
    Record entry;
    entry.put(kDirectorySignature).put(version).put(version).put(member.flags).put(member.method);
    entry.put<uint16_t>(0).put(kDate).put(member.crc);
    entry.put(large ? kIn64 : static_cast<uint32_t>(member.compressed_size));
    entry.put(large ? kIn64 : static_cast<uint32_t>(member.size));
    entry.put(static_cast<uint16_t>(member.name.size())).put(static_cast<uint16_t>(extra.bytes.size()));
    entry.put<uint16_t>(0).put<uint16_t>(0).put<uint16_t>(0).put<uint32_t>(0);
    entry.put(far ? kIn64 : static_cast<uint32_t>(member.header_offset));
    entry.bytes.append(member.name).append(extra.bytes);
    sink_.write(entry.bytes);
  }
  uint64_t end = sink_.position() - base_, size = end - start, count = members_.size();
  Record tail;
  if (count >= 0xFFFF || size >= kIn64 || start >= kIn64) {
    tail.put(kEnd64Signature).put<uint64_t>(kEnd64Size - 12).put<uint16_t>(45).put<uint16_t>(45);
    tail.put<uint32_t>(0).put<uint32_t>(0).put(count).put(count).put(size).put(start);
    tail.put(kLocator64Signature).put<uint32_t>(0).put(end).put<uint32_t>(1);
  }
  uint16_t short_count = static_cast<uint16_t>(std::min<uint64_t>(count, 0xFFFF));
  tail.put(kEndSignature).put<uint16_t>(0).put<uint16_t>(0).put(short_count).put(short_count);
  tail.put(static_cast<uint32_t>(std::min<uint64_t>(size, kIn64)));
  tail.put(static_cast<uint32_t>(std::min<uint64_t>(start, kIn64)));
  tail.put(static_cast<uint16_t>(comment.size())).bytes.append(comment);
  sink_.write(tail.bytes);
}

}  // namespace tern::io
