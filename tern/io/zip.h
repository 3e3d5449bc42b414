// Zip archives: a reader whose stored members are spans of the map, and a streaming writer that lays
// members out as PyTorch does (64-byte aligned, checked by CRC), so that torch reads what it makes.
#pragma once
#include <optional>

#include "tern/base/pointer.h"
#include "tern/io/file.h"

namespace tern::io {

uint32_t crc32(Bytes bytes, uint32_t seed = 0);

struct ZipMember {
  std::string name;
  uint64_t size = 0;             // after inflation
  uint64_t compressed_size = 0;  // in the file
  uint64_t header_offset = 0;    // of the local header
  uint64_t end_limit = 0;        // where the next member (or the directory) begins
  uint32_t crc = 0;
  uint16_t method = 0;  // 0 stored, 8 deflate
  uint16_t flags = 0;

  bool stored() const { return method == 0; }
};

// What a reader is willing to inflate. Deflate cannot exceed 1032:1, so a larger ratio is always a lie.
struct ZipLimits {
  uint64_t max_member_size = uint64_t{1} << 36;
  uint64_t max_ratio = 1032;
};

enum class Crc : uint8_t { skip, check };
constexpr uint64_t checked_unasked = uint64_t{1}
                                     << 20;  // bytes of weights a loader checks: as many as cost nothing

// Opening reads the directory only: O(members), whatever the file's size. All errors are ErrorKind::file
// and start with the archive's name.
class ZipReader {
 public:
  static bool looks_like_zip(Bytes bytes);

  explicit ZipReader(const std::string& path, ZipLimits limits = {});
  explicit ZipReader(Shared<const MappedFile> file, ZipLimits limits = {});
  ZipReader(Blob archive, std::string label, ZipLimits limits = {});

  Span<const ZipMember> members() const { return members_; }
  const ZipMember* find(std::string_view name) const;
  const ZipMember& at(std::string_view name) const;  // throws, naming similar members

  // Stored members borrow from the archive; deflated ones are inflated into memory of their own and always
  // checked. A stored member's CRC is checked on demand, because that reads all its bytes.
  Blob read(const ZipMember& member, Crc crc = Crc::skip) const;
  Blob read(std::string_view name, Crc crc = Crc::skip) const { return read(at(name), crc); }
  std::string read_text(std::string_view name) const;

  uint64_t data_offset(const ZipMember& member) const;  // of the member's bytes in the archive
  void verify() const;                                  // every header and every CRC
  const std::string& label() const { return label_; }
  const Blob& archive() const { return archive_; }

 private:
  void read_directory();
  [[noreturn]] void bad(std::string_view what) const;

  Blob archive_;
  std::string label_;
  ZipLimits limits_;
  std::vector<ZipMember> members_;
  std::vector<uint32_t> by_name_;
  uint64_t prefix_ = 0;  // bytes in front of the archive (a self-extracting stub)
};

struct ZipMemberOptions {
  bool deflate = false;
  // Known before writing: lets a small member do without zip64 fields. Must then be exact.
  std::optional<uint64_t> size;
};

// Streams members to a sink and never goes back. finish() writes the directory; committing the sink
// is the caller's business.
class ZipWriter {
 public:
  static constexpr size_t kAlignment = 64;

  explicit ZipWriter(Sink& sink);
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;
  ~ZipWriter();

  void add(std::string_view name, Bytes bytes, bool deflate = false);
  void add(std::string_view name, std::string_view text, bool deflate = false) {
    add(name, as_bytes(text), deflate);
  }
  // A member from chunks: begin, write any number of times, end.
  void begin(std::string_view name, ZipMemberOptions options = {});
  void write(Bytes chunk);
  void write(std::string_view chunk) { write(as_bytes(chunk)); }
  void end();

  void finish(std::string_view comment = {});
  Span<const ZipMember> members() const { return members_; }
  // CRC over the CRCs of all members so far: a fingerprint of the content, for .data/serialization_id.
  uint32_t combined_crc() const { return combined_crc_; }

 private:
  struct Deflater;
  void start_member(std::string_view name, const ZipMemberOptions& options);

  Sink& sink_;
  uint64_t base_;  // where in the sink the archive starts
  std::vector<ZipMember> members_;
  std::vector<uint32_t> name_table_;  // open addressing over members_, to refuse duplicates
  Owned<Deflater> deflater_;
  std::optional<uint64_t> declared_;
  bool open_ = false;
  bool zip64_ = false;
  bool finished_ = false;
  uint32_t combined_crc_ = 0;
};

}  // namespace tern::io
